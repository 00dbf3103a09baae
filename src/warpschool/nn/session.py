"""A graph with kernels and memory on a device.

    session = Session(graph, Kernels(device="sim"))
    session["x"].set(images); session["conv1.weight"].set(weights)
    session.prepare()                           # compile and translate on all cores, while what is ready runs already
    session.run()
    session["conv1"].get()

`Kernels` finds the file for a step: the one that it was given, else the course's reference. All arrays live in one
arena; see `warpschool.nn.graph`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxsim import available_threads
from warpschool.contract import Contract, LaunchPlan, parse_contract
from warpschool.counters import Counters
from warpschool.course import Course
from warpschool.device import DeviceArray, Launch, get_device, repeated
from warpschool.device.protocol import Device, Dim3
from warpschool.errors import ArgumentError
from warpschool.harness.launcher import Program
from warpschool.nn.graph import Arena, Graph, GraphArray, KernelCall, lifetimes, plan, scratch_name
from warpschool.nn.small_batches import tiles
from warpschool.suggest import did_you_mean

# ---------------------------------------------------------------- preparing kernels


Told = Callable[[int, int], None]
"""Hears how many kernels are ready, of how many."""


@dataclass(frozen=True)
class _Build:
    """One kernel to translate."""

    program: Program
    entry: str
    grid: Dim3
    block: Dim3
    options: tuple[tuple[str, Any], ...]

    def make(self) -> None:
        self.program.kernel(self.entry).prepare(self.grid, self.block, **dict(self.options))


class Preparation:
    """Prepares launches in the order in which they are asked for; each file is compiled before anything is translated.

    A kernel counts once for each shape of a launch and set of launch options.
    """

    def __init__(self, told: Told | None = None) -> None:
        self._pool = ThreadPoolExecutor(available_threads(), thread_name_prefix="prepare")
        self._told = told
        self._lock = threading.Lock()
        self._loads: dict[Program, Future[None]] = {}
        self._builds: dict[_Build, Future[None]] = {}
        self._done = 0

    def load(self, program: Program, sizes: Mapping[str, float]) -> None:
        """Compile the file of a program, for what `ask` will want."""
        if program not in self._loads:
            self._loads[program] = self._pool.submit(_load, program, _launch_plans(program, sizes))

    def ask(self, program: Program, sizes: Mapping[str, float], **options: Any) -> list[Future[None]]:
        """Prepare the file's launches for these sizes; keywords are launch options."""
        self.load(program, sizes)
        chosen = tuple(options.items())
        wanted = [_Build(program, plan.entry, plan.grid, plan.block, chosen) for plan in _launch_plans(program, sizes)]
        for build in wanted:
            if build not in self._builds:
                self._builds[build] = self._pool.submit(self._make, build)
                self._tell(0)
        return [self._builds[build] for build in wanted]

    def _make(self, build: _Build) -> None:
        try:
            self._loads[build.program].result()
            build.make()
        finally:
            self._tell(1)

    def _tell(self, done: int) -> None:
        with self._lock:
            self._done += done
            if self._told is not None:
                self._told(self._done, len(self._builds))

    def repeat(self) -> None:
        """Ask for everything again: runs in between may have shown where lanes part, which needs code of its own."""
        for build in self._builds:
            self._pool.submit(build.make)

    def close(self, *, cancel: bool = False) -> None:
        """Let the threads end when all is done; with `cancel`, when they are through with what they have begun."""
        self._pool.shutdown(wait=False, cancel_futures=cancel)


def _load(program: Program, launches: Iterable[LaunchPlan]) -> None:
    for launch in launches:
        program.kernel(launch.entry)


def _launch_plans(program: Program, sizes: Mapping[str, float]) -> tuple[LaunchPlan, ...]:
    return tuple(program.contract.bind(sizes, constants=program.constants).launches)


def wait(futures: Iterable[Future[None]]) -> None:
    """Wait for launches to be ready. Failures are left to the launch itself, which meets them again."""
    for future in futures:
        if not future.cancelled():
            future.exception()


# ---------------------------------------------------------------- running a graph


class Kernels:
    """Kernel files by step, compiled for one device when they are first needed.

    `own` holds files that take the place of references: contracts, source texts or paths, by step ("lab10/01" will do).
    """

    def __init__(
        self, own: Mapping[str, Contract | str | Path] | None = None, *, device: str | Device = "auto"
    ) -> None:
        self.device = get_device(device) if isinstance(device, str) else device
        self._course = Course.find()
        given = {self._course.step(name).name: source for name, source in (own or {}).items()}
        self.own = {step: _contract(source, self._course.step(step).file_name) for step, source in given.items()}
        self._contracts = dict(self.own)
        self._programs: dict[tuple[Any, ...], Program] = {}

    def contract(self, kernel: str | Contract) -> Contract:
        """Return the file for a step: the one that was given, else the reference."""
        if isinstance(kernel, Contract):
            return kernel
        if kernel not in self._contracts:
            step = self._course.step(kernel)
            if step.solution is None:
                raise ArgumentError(
                    f"{kernel} has no reference here", next_step=f"Give your own: Kernels(own={{{kernel!r}: ...}})."
                )
            self._contracts[kernel] = _contract(step.solution, step.file_name)
        return self._contracts[kernel]

    def program(self, call: KernelCall) -> Program:
        """Return the compiled file of a call."""
        constants = self._constants(call)
        key = (call.kernel if isinstance(call.kernel, str) else call.kernel.source, tuple(sorted(constants.items())))
        if key not in self._programs:
            self._programs[key] = Program(self.contract(call.kernel), device=self.device, constants=constants)
        return self._programs[key]

    def _constants(self, call: KernelCall) -> dict[str, int]:
        """The call's own; on a GPU a reference gets tiles that suit the call's sizes, too."""
        if self.origin(call) != "reference" or not self.device.measures_time:
            return dict(call.constants)
        return tiles(call, self.contract(call.kernel), self.device.spec.sms)

    def origin(self, call: KernelCall) -> str:
        """Say whose kernel a call runs: "yours", "reference" or "written by a program"."""
        if isinstance(call.kernel, Contract):
            return "written by a program"
        return "yours" if call.kernel in self.own else "reference"


def _contract(source: Contract | str | Path, name: str) -> Contract:
    if isinstance(source, Contract):
        return source
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    return parse_contract(text, name=name)


@dataclass(eq=False)
class _Bound:
    """A call with its program and its arrays on the device."""

    call: KernelCall
    program: Program
    arrays: dict[str, DeviceArray]
    launches: tuple[Launch, ...] = ()
    ready: list[Future[None]] = field(default_factory=list)
    """what must be translated before the next run"""

    @property
    def repeats(self) -> bool:
        """Whether launching again is all there is to do: nothing to zero, no constants to fill."""
        contract = self.program.contract
        return bool(self.launches) and not contract.zeroed and not contract.constants


class Session:
    """A graph with kernels and memory on one device.

    `guarded`: every array in an allocation of its own, so that the simulator names the array that a kernel runs off,
    and finds what is read before it is written; None: on the simulator. Otherwise there is one allocation, in which
    arrays that are never needed at once share their place. Further keywords, `stream` among them, go to each launch.
    """

    def __init__(
        self, graph: Graph, kernels: Kernels, *, guarded: bool | None = None, stream: Any = None, **launching: Any
    ) -> None:
        self.graph, self.kernels, self.device = graph, kernels, kernels.device
        self.guarded = self.device.counts if guarded is None else guarded
        self._stream, self._launching = stream, {**launching, "stream": stream}
        programs = [kernels.program(call) for call in graph.calls]
        scratch = [_scratch(call, program) for call, program in zip(graph.calls, programs, strict=True)]
        self.layout = plan(lifetimes(graph, scratch))
        """where each array lies in the arena; guarded sessions only say how large it would be"""
        make = self._alone if self.guarded else Arena(self.device, self.layout).array
        self._arrays = {name: make(name, value.shape, value.dtype) for name, value in graph.values.items()}
        self._bound = []
        for number, (call, program) in enumerate(zip(graph.calls, programs, strict=True)):
            arrays = {own: _part(self._arrays[value.name], value) for own, value in call.arrays.items()}
            arrays |= {v.name: make(scratch_name(number, v), v.shape, v.dtype) for v in scratch[number]}
            self._bound.append(_Bound(call, program, arrays))
        self._prepared = False
        self._preparation: Preparation | None = None
        self._later: list[list[Future[None]]] = []

    def _alone(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> DeviceArray:
        return self.device.empty(shape, dtype, name=name)

    def __getitem__(self, name: str) -> DeviceArray:
        """An array by its name in the graph. Only inputs, parameters and outputs are sure to be intact after a run."""
        if name not in self._arrays:
            raise ArgumentError(f"there is no array {name!r}", next_step=did_you_mean(name, sorted(self._arrays)))
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def load(self, parameters: Mapping[str, npt.ArrayLike]) -> None:
        """Copy parameters to the device. Raises ArgumentError, with the names, where they are not the graph's own."""
        wanted = self.graph.parameters
        missing, foreign = sorted(set(wanted) - set(parameters)), sorted(set(parameters) - set(wanted))
        if missing or foreign:
            told = "; ".join(f"{what}: {', '.join(names)}" for what, names in
                             (("missing", missing), ("unknown", foreign)) if names)  # fmt: skip
            raise ArgumentError(f"these are not the network's parameters ({told})")
        for name, value in wanted.items():
            host = np.asarray(parameters[name])
            if host.shape != value.shape:
                raise ArgumentError(f"{name} has shape {list(host.shape)}, the network's has {list(value.shape)}")
            self._arrays[name].set(host.astype(value.dtype))
        self.changed()

    def changed(self) -> None:
        """Say that parameters are new: what is computed from them alone is computed again by the next run."""
        self._prepared = False

    def run(self, calls: slice = slice(None)) -> None:
        """Enqueue all calls in order, or a part of them, without waiting.

        Calls that depend on parameters only run where these are new.
        """
        with self._stream or nullcontext():  # fills and copies of a call go where its launches go
            for bound in self._bound[calls]:
                if self._prepared and bound.call.once:
                    continue
                wait(bound.ready)
                bound.ready = []
                if bound.repeats:
                    bound.launches = tuple(launch.again() for launch in bound.launches)
                else:
                    bound.launches = bound.program.enqueue(bound.call.sizes, bound.arrays, **self._launching)
        self._prepared = self._prepared or calls == slice(None)

    def prepare(self, *, relaxed: bool = False, told: Told | None = None) -> None:
        """Compile and translate all kernels on all cores from now on; `run` waits for what it comes to.

        `relaxed`: for the runs after `relax`, too. `told` hears how many kernels are ready, of how many; it is called
        from other threads. On a GPU there is nothing to prepare.
        """
        if not self.device.counts or self._preparation is not None:
            return
        self._preparation = Preparation(told)
        for bound in self._bound:
            self._preparation.load(bound.program, bound.call.sizes)
        for bound, ready in zip(self._bound, self._asked(self._preparation, self._launching), strict=True):
            bound.ready = ready
        if relaxed and self.checked:
            self._later = self._asked(self._preparation, self._launching | _RELAXED)
        else:
            self._preparation.close()

    def _asked(self, preparation: Preparation, launching: Mapping[str, Any]) -> list[list[Future[None]]]:
        options = {name: value for name, value in launching.items() if name != "stream"}
        return [preparation.ask(bound.program, bound.call.sizes, **options) for bound in self._bound]

    def stop_preparing(self) -> None:
        """Leave what has not been translated yet to the launches that need it."""
        if self._preparation is not None:
            self._preparation.close(cancel=True)
        self._later = []
        for bound in self._bound:
            bound.ready = []

    @property
    def checked(self) -> bool:
        """Whether the last run looked for hazards."""
        return self.device.counts and self._launching.get("check", self.device.options.check)

    def relax(self) -> None:
        """Let the simulator neither check nor count later runs, which is several times faster.

        For kernels that were checked in a run before and whose addresses do not depend on what the arrays hold.
        """
        if not self.device.counts:
            return
        self._launching |= _RELAXED
        for bound in self._bound:
            bound.launches = ()
        if self._later and self._preparation is not None:
            for bound, ready in zip(self._bound, self._later, strict=True):
                bound.ready = ready
            self._later = []
            self._preparation.repeat()
            self._preparation.close()

    # ---------------------------------------------------------------- what happened

    @property
    def launches(self) -> list[tuple[KernelCall, tuple[Launch, ...]]]:
        """Each call with the launches of its last run."""
        return [(bound.call, bound.launches) for bound in self._bound]

    @property
    def counters(self) -> Counters:
        """The sum over the last run's launches. Raises NotMeasured on a device that does not count."""
        return sum((launch.counters for _, launches in self.launches for launch in launches), Counters())

    @property
    def hazards(self) -> tuple[Any, ...]:
        """All hazards of the last run. Raises NotMeasured on a device that looks for none."""
        return tuple(h for _, launches in self.launches for launch in launches for h in launch.hazards)

    @property
    def repeats(self) -> bool:
        """Whether the last run was launches alone: nothing was zeroed, and no constants were filled."""
        return all(bound.repeats for bound in self._bound)

    def parts(self) -> Iterator[tuple[Contract, Mapping[str, DeviceArray], Launch]]:
        """Each launch of the last run that a further run repeats, with its file and the arrays by that file's names."""
        for bound in self._bound:
            if not bound.call.once:
                for launch in bound.launches:
                    yield bound.program.contract, bound.arrays, launch

    def again(self, layer: str) -> Callable[[], Any]:
        """Return a function that launches one layer's kernels once more, on whatever the arrays hold now."""
        chosen = [launch for call, launches in self.launches if call.layer == layer for launch in launches]
        return repeated(chosen)


_RELAXED = {"check": False, "count": False}


def _scratch(call: KernelCall, program: Program) -> list[GraphArray]:
    """The arrays that the call's own file wants besides those that the graph brings."""
    bound = program.contract.bind(call.sizes, constants=program.constants)
    wanted = [bound.arrays[name] for name in program.contract.scratch if name not in call.arrays]
    return [GraphArray(array.name, array.shape or (), array.dtype) for array in wanted]


def _part(array: DeviceArray, value: GraphArray) -> DeviceArray:
    if value.size == array.size:
        return array
    return array.reshape(array.size)[value.first : value.first + value.size]
