"""Runs a kernel file as its header says: allocate, poison, fill constants, launch in order, fetch.

run = run_kernel(source, {"M": 33, "N": 17, "K": 65}, {"A": a, "B": b}, device="sim")
run.outputs["C"], run.counters, run.hazards
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from warpschool.contract import ArrayPlan, ConstantFill, Contract, LaunchPlan, Parameter, Plan, parse_contract
from warpschool.counters import Counters
from warpschool.device import DeviceArray, Kernel, Launch, RawModule
from warpschool.device.protocol import Device
from warpschool.errors import ArgumentError, LaunchError, MemoryLimitExceeded, SimulationError
from warpschool.harness.compare import poison
from warpschool.suggest import did_you_mean


def given_sizes(sizes: object) -> dict[str, float]:
    """Sizes as a caller gave them, None for none of them. Raises ArgumentError for what is no mapping."""
    if sizes is not None and not isinstance(sizes, Mapping):
        raise ArgumentError(
            f"sizes are names with numbers, not {type(sizes).__name__}",
            next_step='For example: {"M": 64, "N": 64, "K": 64}',
        )
    return dict(sizes or {})


def random_inputs(plan: Plan, rng: np.random.Generator | None = None, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Return an array for each input whose shape the header says: floats in [-1, 1), integers in [0, 8).

    Each array has a generator of its own, of `seed` and its name; with `rng` all are drawn from that one, in order.
    """
    inputs = {}
    for name, array in plan.arrays.items():
        if array.is_given and array.shape is not None:
            own = rng or np.random.default_rng([seed, zlib.crc32(name.encode())])
            values = own.uniform(-1, 1, array.shape) if array.dtype.kind == "f" else own.integers(0, 8, array.shape)
            inputs[name] = values.astype(array.dtype)
    return inputs


@dataclass(frozen=True, eq=False)
class RunResult:
    """What one run of a whole kernel file left behind; `overwritten` names inputs that it stored to."""

    outputs: Mapping[str, np.ndarray]
    launches: tuple[Launch, ...]
    plan: Plan
    device: Device = field(repr=False)
    overwritten: tuple[str, ...] = ()
    in_other_orders: tuple[RunResult, ...] = ()
    """the same run with blocks and warps in other orders, where somebody has asked for it"""
    again: Callable[..., RunResult] | None = field(default=None, repr=False)
    """runs it once more; keywords are those of `Program.run`"""

    @property
    def counters(self) -> Counters:
        """The sum over all launches."""
        return sum((launch.counters for launch in self.launches), Counters())

    @property
    def lines(self) -> dict[int, Counters]:
        """The same per source line. Raises NotMeasured on a device that does not count."""
        total: dict[int, Counters] = {}
        for launch in self.launches:
            for line, counters in launch.lines.items():
                total[line] = total[line] + counters if line in total else counters
        return dict(sorted(total.items()))

    @property
    def hazards(self) -> tuple[Any, ...]:
        """The hazards of all launches, in order. Raises NotMeasured on a device that looks for none."""
        return tuple(hazard for launch in self.launches for hazard in launch.hazards)

    @property
    def order_may_show(self) -> bool:
        """Whether the order of blocks and warps could have led to another result."""
        return any(launch.call.kernel.order_may_show for launch in self.launches)

    @property
    def notes(self) -> tuple[Any, ...]:
        """Findings of all launches that are no hazards, in order."""
        return tuple(note for launch in self.launches for note in launch.notes)

    @property
    def printed(self) -> str:
        """What printf wrote, launch by launch."""
        return "".join(launch.printed for launch in self.launches)


def run_kernel(
    source: str | Contract, sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike], *,
    device: str | Device = "auto", constants: Mapping[str, int] | None = None, name: str = "kernel.cu",
    options: Sequence[str] = (), **simulator: Any,
) -> RunResult:  # fmt: skip
    """Run a kernel file once with these sizes and input arrays; see `Program.run`."""
    contract = parse_contract(source, name=name) if isinstance(source, str) else source
    return Program(contract, device=device, constants=constants, options=options).run(sizes, arrays, **simulator)


_MOST_PLANS = 64


class Program:
    """A kernel file compiled for one device and one set of constants; its kernels are translated once."""

    def __init__(
        self, contract: Contract, *, device: str | Device = "auto", constants: Mapping[str, int] | None = None,
        options: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.contract = contract
        self.constants = dict(constants or {})
        self.module = RawModule(
            code=contract.source, name=contract.name, constants=self.constants, options=options, device=device,
            arch=contract.arch,
        )  # fmt: skip
        self._kernels: dict[str, Kernel] = {}
        self._initial: dict[str, np.ndarray] | None = None
        self._plans: dict[tuple[tuple[str, type, float], ...], Plan] = {}
        """of the sizes that were enqueued last: a network's are the same from image to image"""

    def kernel(self, name: str) -> Kernel:
        """Return one of the file's kernels."""
        if name not in self._kernels:
            self._kernels[name] = self.module.get_function(name)
        return self._kernels[name]

    def run(
        self, sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike], *, from_zero: bool = False,
        **simulator: Any,
    ) -> RunResult:  # fmt: skip
        """Run the whole file once: allocate, poison, fill constants, launch in order, fetch.

        Sizes that are plain dimensions of a given array may be left out. Outputs start as NaN (integers: as 0x7f bytes)
        unless the header says Zeroed, or all of them at zero with `from_zero`; `__device__` variables start anew.
        Further keywords are fields of `warpschool.device.LaunchOptions`. Raises ContractError, ArgumentError,
        CompileError, LaunchError, SimulationError.
        """
        hosts = {key: np.asarray(value) for key, value in arrays.items()}
        inferred = self.contract.sizes_of({key: host.shape for key, host in hosts.items()})
        plan = self.contract.bind(inferred | dict(sizes), constants=self.constants)
        hosts = _checked(plan, hosts)
        device = self.module.device
        self._reset_variables()
        on_device = {
            name: _allocated(plan, device, array, hosts.get(name), from_zero=from_zero)
            for name, array in plan.arrays.items()
        }
        _fill_constants(plan, self.module, hosts)
        launches = tuple(self._launch(launch, plan, on_device, simulator) for launch in plan.launches)
        device.synchronize()
        stored_to = {name for launch in launches for name in launch.outcome.stored_to}
        overwritten = tuple(
            name
            for name, array in plan.arrays.items()
            if array.direction == "in"
            and (name in stored_to or device.asnumpy(on_device[name]).tobytes() != hosts[name].tobytes())
        )
        outputs = {name: device.asnumpy(on_device[name]) for name, array in plan.arrays.items() if array.is_result}
        again = partial(self.run, sizes, arrays, **simulator)
        return RunResult(outputs, launches, plan, device, overwritten, again=again)

    def enqueue(
        self, sizes: Mapping[str, float], arrays: Mapping[str, DeviceArray], **launching: Any
    ) -> tuple[Launch, ...]:
        """Launch the whole file once on arrays that are on the device already, and do not wait.

        Scratch arrays that are not given are allocated; all others must be given, with as many elements as the header
        says. Arrays that the header calls Zeroed are filled with zeros. Further keywords, `stream` among them, go to
        each launch. Raises ContractError, ArgumentError, LaunchError and, on the simulator, SimulationError.
        """
        plan = self._plan(sizes)
        device = self.module.device
        places = {name: _placed(plan, array, arrays.get(name), device) for name, array in plan.arrays.items()}
        for fill in plan.contract.constants:
            source = places[fill.array]
            symbol = self.module.get_global(fill.symbol, source.dtype)
            _check_fill(plan, fill, source.size, symbol.size)
            symbol[: source.size].native[...] = source.reshape(source.size).native
        return tuple(self._launch(launch, plan, places, launching) for launch in plan.launches)

    def _plan(self, sizes: Mapping[str, float]) -> Plan:
        key = tuple((name, type(value), value) for name, value in sizes.items())
        if key not in self._plans:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[key] = self.contract.bind(sizes, constants=self.constants)
        return self._plans[key]

    def _reset_variables(self) -> None:
        """Give every module variable its first value: a run must not depend on the runs before it."""
        if self._initial is None:
            self._initial = {name: self.module.get_global(name).get() for name in self.module.variables}
        else:
            for name, value in self._initial.items():
                self.module.get_global(name).set(value)

    def _launch(
        self, launch: LaunchPlan, plan: Plan, arrays: Mapping[str, DeviceArray], simulator: Mapping[str, Any]
    ) -> Launch:
        kernel = self.kernel(launch.entry)
        if launch.shared_bytes > kernel.max_dynamic_shared_size_bytes:
            kernel.max_dynamic_shared_size_bytes = launch.shared_bytes
        arguments = tuple(self.argument(parameter, launch, plan, arrays) for parameter in launch.arguments)
        try:
            return kernel(launch.grid, launch.block, arguments, shared_mem=launch.shared_bytes, **simulator)
        except LaunchError as error:
            error.line = error.line or launch.line
            raise
        except SimulationError as error:  # a limit that this launch is over before it has begun
            error.place(plan.contract.name, launch.line)
            raise

    def argument(
        self, parameter: Parameter, launch: LaunchPlan, plan: Plan, arrays: Mapping[str, DeviceArray]
    ) -> DeviceArray | np.generic:
        """What a launch passes for a parameter: an array, its tensor map, or a scalar of the right type."""
        if parameter.box:
            name = parameter.name
            array, shape = arrays[name], plan.arrays[name].shape
            if shape and shape != array.shape:
                array = array.reshape(shape)
            return self.module.device.tensor_map(array, launch.boxes[name], launch.windows.get(name, ()))
        if parameter.is_array:
            return arrays[parameter.name]
        return plan.number(parameter)


def _checked(plan: Plan, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the given arrays, contiguous; raises ArgumentError for a missing, foreign or misshapen one."""
    file = plan.contract.name
    wanted = {name: array for name, array in plan.arrays.items() if array.is_given}
    for name in arrays:
        if name not in wanted:
            raise ArgumentError(f"{file}: '{name}' is no input array", next_step=did_you_mean(name, wanted))
    for name, array in wanted.items():
        if name not in arrays:
            more = "" if array.shape else " Or declare it as an array of an Entry line, which says its shape."
            raise ArgumentError(
                f"{file}: input array '{name}' is missing", next_step=f"Give it: {_needed(array)}.{more}"
            )
        _check_one(file, array, np.asarray(arrays[name]))
    return {name: np.ascontiguousarray(arrays[name]) for name in wanted}


def _check_one(file: str, array: ArrayPlan, host: np.ndarray) -> None:
    if host.dtype != array.dtype:
        raise ArgumentError(
            f"{file}: '{array.name}' holds {host.dtype}, the Entry line says {array.ctype.name}",
            next_step=f"Convert it: array.astype(np.{array.dtype}).",
        )
    if array.shape is not None and host.shape != array.shape:
        raise ArgumentError(f"{file}: '{array.name}' has shape {list(host.shape)}, not {_needed(array)}")


def _needed(array: ArrayPlan) -> str:
    return f"{array.dtype}{list(array.shape) if array.shape is not None else ''}"


def _allocated(
    plan: Plan, device: Device, array: ArrayPlan, host: np.ndarray | None, *, from_zero: bool
) -> DeviceArray:
    shape = array.shape or ()
    try:
        if host is not None:
            return device.asarray(host, name=array.name)
        if array.zeroed or from_zero:
            return device.zeros(shape, array.dtype, name=array.name)
        on_device = device.empty(shape, array.dtype, name=array.name)  # refuses what is too large before the host tries
        on_device.set(np.full(shape, poison(array.dtype)[0]))
        return on_device
    except MemoryLimitExceeded as error:
        error.place(plan.contract.name, array.line)
        raise


def _fill_constants(plan: Plan, module: RawModule, hosts: Mapping[str, np.ndarray]) -> None:
    for fill in plan.contract.constants:
        host = hosts[fill.array].reshape(-1)
        symbol = module.get_global(fill.symbol, host.dtype)
        _check_fill(plan, fill, host.size, symbol.size)
        symbol[: host.size].set(host)


def _check_fill(plan: Plan, fill: ConstantFill, count: int, room: int) -> None:
    if count > room:
        raise LaunchError(
            f"{plan.contract.name}:{fill.line}: '{fill.array}' has {count} elements, "
            f"__constant__ {fill.symbol} holds {room}",
            line=fill.line,
            next_step="Constant memory holds 65,536 bytes in all: enlarge the symbol or choose smaller sizes.",
        )


def _placed(plan: Plan, array: ArrayPlan, given: DeviceArray | None, device: Device) -> DeviceArray:
    """The device array that a launch gets for `array`."""
    shape = array.shape or ()
    if given is None and array.name in plan.contract.scratch:
        given = device.empty(shape, array.dtype, name=array.name)
    if given is None:
        raise ArgumentError(
            f"{plan.contract.name}: array '{array.name}' is missing", next_step=f"Give it: {_needed(array)}."
        )
    if given.dtype != array.dtype or (array.shape is not None and given.size != math.prod(shape)):
        raise ArgumentError(
            f"{plan.contract.name}: '{array.name}' is {given.dtype}{list(given.shape)}, not {_needed(array)}",
            next_step="Convert it on the host, or reshape it.",
        )
    if array.zeroed:
        given.native.fill(0)
    return given
