"""`RawModule`, `Kernel` and `Launch`: CUDA C++ source to something that can be called, and what a call leaves behind.

The names and manners are CuPy's; what differs: Python numbers are converted to the parameter's own type and checked,
and a call returns a `Launch`.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpschool import model
from warpschool.compile import DEFAULT_ARCH, Compiled, Resources, compile_cuda, resource_usage
from warpschool.compile.beside import with_headers
from warpschool.contract.source import scan_source
from warpschool.counters import Counters
from warpschool.device.arguments import Converted, KernelParameter, checked_dims, convert, parameters
from warpschool.device.protocol import (
    Device,
    DeviceArray,
    Dim3,
    LaunchOptions,
    LoadedKernel,
    LoadedModule,
    Outcome,
    UnmeasuredHazards,
    UnmeasuredText,
    checked_dtype,
)
from warpschool.errors import ArgumentError, CompilerLacks, ContractError, DeviceUnavailable, EntryError, LaunchError
from warpschool.suggest import did_you_mean


@cache
def _simulator() -> Device:
    from warpschool.device.sim import SimDevice

    return SimDevice()


@cache
def _gpu() -> Device:
    from warpschool.device.gpu import GpuDevice

    return GpuDevice()


@cache
def gpu_problem() -> DeviceUnavailable | None:
    """Why there is no GPU to use; None where there is one."""
    try:
        _gpu()
    except DeviceUnavailable as problem:
        return problem
    return None


def get_device(which: str | Device = "auto") -> Device:
    """The device "sim", "gpu", or "auto": the GPU where one can be used, else the simulator.

    A device object is returned as it is. Raises DeviceUnavailable, with the reason, for "gpu" where there is none.
    """
    if not isinstance(which, str):
        return which
    match which.strip().lower():
        case "sim":
            return _simulator()
        case "gpu":
            problem = gpu_problem()
            if problem is not None:
                raise DeviceUnavailable(problem.message, next_step=problem.next_step)
            return _gpu()
        case "auto":
            return _simulator() if gpu_problem() else _gpu()
    raise ArgumentError(f"there is no device {which!r}", next_step='Devices are called "sim", "gpu" and "auto".')


class RawModule:
    """CUDA C++ source, compiled when a kernel of it is first asked for.

    `constants` replaces the initialisers of top-level `constexpr int`s. `device` is "sim", "gpu", "auto" or a device
    object. C++17 and CUDA's include folders are the default. `path` may stand in for `code`; headers beside it may be
    included then. Host code in the source is left out, `extern "C"` is not needed.
    `name_expressions` name the kernels of templates that are to be made ("k<float, 8>"), as in CuPy. `compiler` is
    "nvrtc", "clang" or "auto" (see `warpschool.compile.find_compiler`). `arch` says for which GPU: "sm_90a".
    """

    def __init__(
        self,
        code: str | None = None,
        *,
        path: str | Path | None = None,
        options: Sequence[str] = (),
        constants: Mapping[str, int] | None = None,
        device: str | Device = "auto",
        name: str = "",
        arch: str = DEFAULT_ARCH,
        name_expressions: Sequence[str] = (),
        compiler: str = "auto",
    ) -> None:
        if (code is None) == (path is None):
            raise ArgumentError("RawModule takes either code= or path=")
        self.code = _file_text(Path(path)) if path is not None else str(code)
        self.name = name or (Path(path).name if path is not None else "kernel.cu")
        self.options = (options,) if isinstance(options, str) else tuple(options)
        self.constants = dict(constants or {})
        self.arch = arch.replace("sm_", "compute_", 1)  # for a real GPU NVRTC would write no PTX
        self.compiler = compiler
        self.device = get_device(device)
        self.name_expressions = (name_expressions,) if isinstance(name_expressions, str) else tuple(name_expressions)

    @cached_property
    def compiled(self) -> Compiled:
        """The PTX and what it was made from. Raises CompileError."""
        return compile_cuda(
            self.code, name=self.name, options=self.options, constants=self.constants or None, arch=self.arch,
            expressions=self.name_expressions, compiler=self.compiler,
        )  # fmt: skip

    @property
    def ptx(self) -> str:
        return self.compiled.ptx

    @cached_property
    def _loaded(self) -> LoadedModule:
        return self.device.load(self)

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the kernels in the source."""
        return tuple(self._loaded.program.entries)

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the `__device__` and `__constant__` variables in the source and its headers; on a GPU without those
        that ptxas has left out because nothing uses them."""
        return self._loaded.variables

    def compile(self) -> None:
        """Compiles now rather than at first use. Raises CompileError."""
        self._loaded  # noqa: B018 - the property does the work

    def instructions(self, entry: str) -> int:
        """How many instructions of PTX a kernel has with its calls inlined. Raises as `get_function` does."""
        return int(self._loaded.program.instructions(self._symbol(entry)))

    def get_function(self, name: str) -> Kernel:
        """The kernel `name`, as the source or one of `name_expressions` calls it.

        Raises CompileError, or EntryError where there is no such kernel.
        """
        symbol = self._symbol(name)
        return Kernel(self, name, self._loaded.kernel(symbol), symbol)

    def _symbol(self, name: str) -> str:
        """What the compiled program calls a kernel."""
        entries = self.entries
        asked = {_squeezed(one): symbol for one, symbol in self.compiled.symbols.items()}
        found = [name] if name in entries else [asked[_squeezed(name)]] if _squeezed(name) in asked else []
        found = found or [entry for entry in entries if name in base_names(entry)]
        if len(found) != 1:
            what = f"there are {len(found)} kernels" if found else "there is no kernel"
            raise EntryError(f"{what} {name!r}", file=self.name, next_step=self._hint(name, entries))
        return found[0]

    def get_global(self, name: str, dtype: npt.DTypeLike = np.uint8) -> DeviceArray:
        """A `__device__` or `__constant__` variable as a one-dimensional array of `dtype`.

        Raises ContractError where there is no such variable.
        """
        if name not in self.variables:
            raise ContractError(
                f"there is no __device__ or __constant__ variable {name!r}", file=self.name,
                next_step=did_you_mean(name, self.variables),
            )  # fmt: skip
        return self._loaded.variable(name).view(checked_dtype(dtype))

    def resources(self, arch: str) -> dict[str, Resources]:
        """What ptxas reports for each kernel on a real architecture ("sm_80")."""
        return resource_usage(
            self.code, name=self.name, options=self.options, constants=self.constants or None, arch=arch,
            expressions=self.name_expressions, compiler=self.compiler,
        )  # fmt: skip

    def _hint(self, name: str, entries: tuple[str, ...]) -> str:
        plain = name.split("<")[0]
        templates = scan_source(self.code, name=self.name).templates
        if plain in templates or "<" in name:
            asked = name if "<" in name else f"{name}<float, 8>"
            return f"It is a template: RawModule(..., name_expressions=[{asked!r}]) makes one kernel of it."
        names = [found[0] for entry in entries if (found := base_names(entry))]
        return did_you_mean(name, [*self.name_expressions, *names]) or "Kernels are written __global__ void name(...)."

    def __repr__(self) -> str:
        return f"RawModule({self.name!r}, device={self.device.name!r})"


class PtxModule(RawModule):
    """PTX that something else has made, as a module: another compiler's, or written by hand.

    `name` is the file that its `.loc` lines are of, `compiler` who made it, `arch` for which GPU ("sm_80"). Kernels
    are asked for by the names that they have in the PTX, and arguments are converted to its types. Registers and
    occupancy are not known of it.
    """

    def __init__(
        self, ptx: str, *, name: str = "kernel.ptx", device: str | Device = "auto", arch: str = "sm_80",
        compiler: str = "PTX",
    ) -> None:  # fmt: skip
        super().__init__("", name=name, device=device, arch=arch)
        key = hashlib.sha256(ptx.encode()).hexdigest()
        self._given = Compiled(ptx=ptx, arch=arch, compiler=compiler, name=name, source="", log="", key=key)

    @property
    def compiled(self) -> Compiled:
        return self._given

    def resources(self, arch: str) -> dict[str, Resources]:
        """Raises CompilerLacks: what ptxas would make of it is not asked."""
        raise CompilerLacks(f"{self.name} came as PTX: its registers and spills are not known")


class Kernel:
    """One kernel of a module. Call it: `kernel(grid, block, arguments, shared_mem=0, stream=None)`."""

    def __init__(self, module: RawModule, name: str, loaded: LoadedKernel, symbol: str = "") -> None:
        self.module = module
        self.name = name
        self.symbol = symbol or name
        """what the compiled program calls it: C++ makes other names of those in templates and namespaces"""
        self._loaded = loaded
        self._converted: Converted | None = None

    @cached_property
    def parameters(self) -> tuple[KernelParameter, ...]:
        """What the kernel takes."""
        scanned = scan_source(self.module.code, name=self.module.name)
        declared = scanned.parameters(self.name.split("<")[0].split("::")[-1])
        return parameters(self._loaded.params, declared)

    def __call__(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        arguments: Sequence[Any] = (),
        *,
        shared_mem: int = 0,
        stream: Any = None,
        **simulator: Any,
    ) -> Launch:
        """Launches the kernel.

        Arguments: device arrays, NumPy scalars (which fix the type), Python numbers, structures as bytes or np.void.
        `shared_mem` is dynamic shared memory in bytes. Further keywords are fields of `LaunchOptions`; of them a GPU
        looks at `cooperative` alone. Raises ArgumentError, LaunchError, and SimulationError where the simulator stops.
        """
        device = self.module.device
        options = self._options(simulator)
        dims = checked_dims(self.name, "grid", grid), checked_dims(self.name, "block", block)
        self._check_shared(shared_mem)
        converted = self._converted
        if converted is not None and converted.are(arguments):
            scalars = converted.scalars
        else:
            scalars = convert(self.name, self.parameters, arguments, device)
            self._converted = Converted.of(arguments, scalars)

        return self._launch(dims, arguments, scalars, shared_mem, stream, options)

    def _launch(
        self, dims: tuple[Dim3, Dim3], arguments: Sequence[Any], scalars: Sequence[Any], shared_mem: int, stream: Any,
        options: LaunchOptions,
    ) -> Launch:  # fmt: skip
        """Launches what has been converted. A launch does not refer to itself: its arrays go when it is forgotten."""
        for parameter, argument in zip(self.parameters, arguments, strict=True):
            if parameter.declared and isinstance(argument, DeviceArray):
                argument.label(parameter.declared.name)
        outcome = self._loaded.launch(*dims, scalars, shared_bytes=shared_mem, stream=stream, options=options)
        return Launch(
            kernel=self.name,
            grid=dims[0],
            block=dims[1],
            shared_mem=shared_mem,
            device=self.module.device,
            source_name=self.module.name,
            outcome=outcome,
            again=partial(self._launch, dims, arguments, scalars, shared_mem, stream, options),
            call=Invocation(self, arguments, scalars),
        )

    @property
    def order_may_show(self) -> bool:
        """Whether blocks or warps that take their turns in another order may give another result (`order=`)."""
        return self._loaded.order_may_show

    @property
    def undefined_lines(self) -> tuple[int, ...]:
        """Source lines where a variable may be read before it has a value, as the simulator knows them."""
        return self._loaded.undefined_lines

    def prepare(self, grid: int | Sequence[int], block: int | Sequence[int], **simulator: Any) -> None:
        """Translates for this shape of blocks now rather than at the first launch; threads may do so side by side.

        Keywords are fields of `LaunchOptions`. Raises as a launch does.
        """
        dims = checked_dims(self.name, "grid", grid), checked_dims(self.name, "block", block)
        self._loaded.prepare(*dims, self._options(simulator))

    def _options(self, simulator: Mapping[str, Any]) -> LaunchOptions:
        known = LaunchOptions.__dataclass_fields__
        if unknown := simulator.keys() - known.keys():
            raise ArgumentError(
                f"{self.name}: {', '.join(sorted(unknown))} is no launch option",
                next_step=f"Options: {', '.join(known)}",
            )
        usual = self.module.device.options
        if not simulator:
            return usual
        try:
            return _changed(usual, **simulator)
        except TypeError:  # a value that cannot be remembered: the options say what is wrong with it
            return replace(usual, **simulator)

    def _check_shared(self, shared_mem: int) -> None:
        """Dynamic shared memory beyond the kernel's limit is refused, as on a GPU."""
        if shared_mem < 0:
            raise LaunchError(f"{self.name}: shared_mem = {shared_mem} is negative")
        limit = self.max_dynamic_shared_size_bytes
        if shared_mem > limit:
            raise LaunchError(
                f"{self.name}: {shared_mem:,} bytes of dynamic shared memory; {limit:,} are allowed",
                next_step=f"Ask for more first: kernel.max_dynamic_shared_size_bytes = {shared_mem}.",
            )

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """Most dynamic shared memory that a launch may ask for; assign to raise it up to the chip's limit."""
        return self._loaded.max_dynamic_shared_bytes

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, nbytes: int) -> None:
        self._loaded.allow_dynamic_shared(int(nbytes))

    @property
    def attributes(self) -> dict[str, int]:
        """What the device says of the kernel, under CuPy's names."""
        return self._loaded.attributes

    @property
    def resources(self) -> Resources:
        """Registers, shared, local and constant bytes and spills on the device's architecture (simulator: sm_80)."""
        return self.module.resources(self.module.device.arch)[self.symbol]

    def occupancy(
        self, block: int | Sequence[int], *, gpu: str | model.GpuSpec | None = None, shared_mem: int = 0
    ) -> model.Occupancy:
        """Resident warps per SM for a block shape on `gpu` (default: the GPU at hand, else the A100).

        The kernel is compiled for that GPU; for one older than sm_75, which NVRTC does not know any more, sm_75's
        register count is used and the result's note says so. Raises LaunchError where no block fits.
        """
        spec = model.find_gpu(gpu) if gpu is not None else self.module.device.spec
        note = "" if spec.compiled_arch == spec.arch else f"registers as on {spec.compiled_arch}"
        found = self.module.resources(spec.compiled_arch)[self.symbol]
        return model.occupancy(
            math.prod(checked_dims(self.name, "block", block)),
            registers=found.registers,
            shared_bytes=found.shared_bytes + shared_mem,
            gpu=spec,
            note=note,
        )

    def __repr__(self) -> str:
        return f"Kernel({self.name!r} of {self.module.name!r}, device={self.module.device.name!r})"


@lru_cache(maxsize=64, typed=True)
def _changed(usual: LaunchOptions, **changes: Any) -> LaunchOptions:
    """Options with some changed: launches ask for the same again and again. Raises ArgumentError."""
    return replace(usual, **changes)


# ---------------------------------------------------------------- what a launch leaves behind


@dataclass(frozen=True, eq=False)
class Invocation:
    """What a launch was made of, so that it can be looked at again: the kernel, and its arguments as they were passed.

    `scalars` are the arguments as the device takes them: addresses and numbers.
    """

    kernel: Any
    arguments: Sequence[Any]
    scalars: Sequence[Any]


@dataclass(frozen=True, eq=False)
class Launch:
    """One finished (on the GPU: enqueued) launch. `str(launch)` is a report."""

    kernel: str
    grid: Dim3
    block: Dim3
    shared_mem: int
    """dynamic shared memory in bytes"""
    device: Device
    source_name: str
    outcome: Outcome = field(repr=False)
    again: Callable[[], Launch] = field(repr=False)
    """the same launch once more, on the arrays as they are now"""
    call: Invocation = field(repr=False)

    @property
    def array_bytes(self) -> int:
        """Bytes of all distinct arrays that were passed."""
        arrays = (a for a in self.call.arguments if isinstance(a, DeviceArray))
        return sum({(a.address, a.nbytes): a.nbytes for a in arrays}.values())

    @property
    def source(self) -> str:
        """The CUDA source that the kernel is from."""
        return self.call.kernel.module.code

    @property
    def counters(self) -> Counters:
        """Totals of the launch."""
        return self.outcome.counters

    @property
    def lines(self) -> Mapping[int, Counters]:
        """Source line -> what happened there."""
        return self.outcome.lines

    @property
    def hazards(self) -> Sequence[Any]:
        """Races, out-of-bounds accesses, uninitialised reads, divergent barriers."""
        return self.outcome.hazards

    @property
    def notes(self) -> Sequence[Any]:
        """Findings that are no hazards: threads that store the same value in one place."""
        return self.outcome.notes

    @property
    def complete(self) -> bool:
        """False where the launch was ended after too many accesses that went out of bounds, as `hazards` say."""
        return self.outcome.complete

    @property
    def handoffs(self) -> Sequence[Any]:
        """What warps handed to each other through barrier objects, of a launch with `handoffs=True`."""
        return self.outcome.handoffs

    @property
    def printed(self) -> str:
        """What the kernel's printf wrote."""
        return self.outcome.printed

    @property
    def resources(self) -> Resources:
        """Registers, shared, local and constant bytes, spills of the kernel."""
        return self.call.kernel.resources

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)

    @property
    def threads_per_block(self) -> int:
        return math.prod(self.block)

    def __str__(self) -> str:
        head = (
            f"{self.kernel} of {self.source_name}: grid {_text(self.grid)}, block {_text(self.block)}"
            f"{f', {self.shared_mem} bytes of dynamic shared memory' if self.shared_mem else ''}"
            f" on {self.device.description}"
        )
        parts = [head, *(f"  {row}" for row in f"{self.counters}".splitlines())]
        if isinstance(self.hazards, UnmeasuredHazards):
            parts.append(f"hazards: {self.hazards}")
        else:
            ended = "" if self.complete else " (after too many of these the launch was ended)"
            parts.append(f"hazards: {len(self.hazards) or 'none'}{ended}")
            parts += [f"  {h.file}:{h.line}: {h.kind}: {h.message}" for h in self.hazards]
        parts += [f"note: {n.file}:{n.line}: {n.kind}: {n.message}" for n in self.notes]
        if self.printed and not isinstance(self.printed, UnmeasuredText):
            parts += ["printed:", *(f"  {row}" for row in self.printed.splitlines())]
        return "\n".join(parts)


_MANGLED = re.compile(r"_ZN?K?(?P<rest>L?\d.*)")


def repeated(launches: Iterable[Launch]) -> Callable[[], None]:
    """A function that makes launches once more, in their order, on whatever their arrays hold now; it does not wait."""
    made = tuple(launches)

    def work() -> None:
        for launch in made:
            launch.again()

    return work


def base_names(symbol: str) -> tuple[str, ...]:
    """What a program's kernel may be called by in the source: its name, and that with its namespaces in front.

    A C++ name is length and text for each part (Itanium's C++ ABI); what is behind them is its types.
    """
    match = _MANGLED.fullmatch(symbol)
    if match is None:
        return (symbol,)
    parts, rest = [], match["rest"]
    while found := re.match(r"L?(\d+)", rest):
        length = int(found[1])
        parts.append(rest[found.end() : found.end() + length])
        rest = rest[found.end() + length :]
        if "N" not in symbol[2:4]:
            break
    return tuple(dict.fromkeys([parts[-1], "::".join(parts)]))


def _file_text(path: Path) -> str:
    return with_headers(path.read_text(encoding="utf-8"), path.parent)


def _squeezed(name: str) -> str:
    return re.sub(r"\s+", "", name)


def _text(dims: Dim3) -> str:
    return "x".join(str(n) for n in dims)
