"""The kernels that `fidelity.py` compares: access patterns, arithmetic, atomics, divergence, the course's references.

Each case runs something on the simulator; `record` watches and keeps, for every launch, all that a GPU needs
to do the same: PTX, grid, block, arguments, what the arrays held before, and what the simulator left and counted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from fidelity_arrays import SEED

import warpschool as ws
from ptxsim import Allocation, LaunchRecord, Memory, SimKernel, tensormap
from ptxsim.tensormap import TensorMap
from warpschool.contract import Contract, Plan, parse_contract
from warpschool.course import Course
from warpschool.errors import ContractError
from warpschool.harness.launcher import Program, random_inputs
from warpschool.inspect.profile import usual_sizes

HERE = Path(__file__).parent
ROOT = HERE.parent
SMALLER = {"BATCH": 4, "SHARE": 2, "HEADS": 6}
SEVERAL_PARTS = {"lab16/08_decoding": {"TEXTS": 2, "GROUPS": 3, "N": 1100}}
"""Sizes at which a kernel does what its usual ones would leave out, without arrays of hundreds of megabytes."""
RAGGED = {"M": 100, "N": 75, "K": 50}
SHAPES = {"part": ("PART", "C", "R", "S")}
"""Arrays to which the headers give no shape: what a pipeline would hand over."""


@dataclass
class RecordedLaunch:
    """One launch as data; arrays are uint8.

    `arguments`: ("array", index, offset), ("bytes", raw) or ("map", index, offset, raw), a tensor map as
    `ptxsim.tensormap` encodes it: a GPU has its own encoding, and its own addresses.
    """

    case: str
    group: str
    ptx: str
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: list[tuple]
    before: list[np.ndarray]
    variables: dict[str, np.ndarray]
    after: list[np.ndarray] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    kind: str = "uint8"
    """dtype in which outputs are compared: a float type counts ulps"""
    unordered: bool = False
    """floating-point atomics: the order of additions is the hardware's"""


class Recorder:
    """Sees every launch of the simulator while a case runs."""

    def __init__(self) -> None:
        self.launches: list[RecordedLaunch] = []
        self.case, self.group, self.ptx, self.kind, self.unordered = "", "", "", "uint8", False

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        plain = SimKernel.launch

        def launch(
            kernel: SimKernel, grid: Any, block: Any, params: Any, memory: Memory, **options: Any
        ) -> LaunchRecord:
            recorded, allocations = self._before(kernel, grid, block, params, memory, options.get("shared_bytes", 0))
            options = {**options, "tensor_sums": "hopper"}  # as the GPU adds that the record is of
            record = plain(kernel, grid, block, params, memory, **options)
            if record.hazards:
                raise SystemExit(f"{self.case}: {record.hazards[0].message}")
            recorded.after = [a.view().copy() for a in allocations]
            recorded.counters = dict(record.counters)
            self.launches.append(recorded)
            return record

        SimKernel.launch = launch  # type: ignore[method-assign, assignment] # every launch is to pass here
        try:
            yield
        finally:
            SimKernel.launch = plain  # type: ignore[method-assign] # as it was

    def _before(
        self, kernel: SimKernel, grid: Any, block: Any, params: Any, memory: Memory, shared_bytes: int
    ) -> tuple[RecordedLaunch, list[Allocation]]:
        allocations: list[Allocation] = []
        arguments: list[tuple[Any, ...]] = []
        params = kernel.packed(params)
        for p in kernel.params:
            raw = params[p.offset : p.offset + p.size_bytes]
            kind, address, *rest = _pointer(raw)
            found = memory.containing(address) if kind != "bytes" else None
            if found is None:
                arguments.append(("bytes", raw))
                continue
            if found not in allocations:
                allocations.append(found)
            arguments.append((kind, allocations.index(found), address - found.address, *rest))
        variables = {name: a.view().copy() for name, a in kernel.module.place(memory).items()}
        recorded = RecordedLaunch(
            self.case, self.group, self.ptx, kernel.name, tuple(grid), tuple(block), shared_bytes, arguments,
            [a.view().copy() for a in allocations], variables, kind=self.kind, unordered=self.unordered,
        )  # fmt: skip
        return recorded, allocations


def _pointer(raw: bytes) -> tuple[Any, ...]:
    """What a parameter's bytes may point to: ("array", address), ("map", address, raw), or ("bytes", 0)."""
    if len(raw) == 8:
        return "array", int.from_bytes(raw, "little")
    if len(raw) == tensormap.BYTES:
        with contextlib.suppress(tensormap.TensorMapError):
            return "map", TensorMap.decode(raw).address, raw
    return "bytes", 0


@dataclass(frozen=True)
class Case:
    name: str
    group: str
    run: Callable[[Recorder], None]
    kind: str = "uint8"
    unordered: bool = False


def record(cases: list[Case]) -> list[RecordedLaunch]:
    """Runs all cases on the simulator."""
    recorder = Recorder()
    with recorder.watching():
        for case in cases:
            recorder.case, recorder.group = case.name, case.group
            recorder.kind, recorder.unordered = case.kind, case.unordered
            case.run(recorder)
    return recorder.launches


# ---------------------------------------------------------------- own kernels


_modules: dict[str, ws.RawModule] = {}


def _module(source: str) -> ws.RawModule:
    if source not in _modules:
        _modules[source] = ws.RawModule(code=source, name="fidelity.cu", device="sim")
    return _modules[source]


def _direct(
    source: str, entry: str, grid: tuple[int, ...], block: tuple[int, ...], *arguments: Any
) -> Callable[[Recorder], None]:
    """A launch of one kernel of `source`; arrays are copied to the device."""

    def run(recorder: Recorder) -> None:
        module = _module(source)
        recorder.ptx = module.ptx
        given = tuple(module.device.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments)
        module.get_function(entry)(grid, block, given)

    return run


_WIDTHS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}


def _global_source() -> str:
    parts = []
    for bytes_, type_ in _WIDTHS.items():
        total = {8: "v.x + 3 * v.y", 16: "v.x + 3 * v.y + 5 * v.z + 7 * v.w"}.get(bytes_, "v")
        parts.append(
            f'extern "C" __global__ void load_{bytes_}(const unsigned* words, unsigned* y, const int* index) {{\n'
            f"    const {type_}* x = reinterpret_cast<const {type_}*>(words);\n"
            "    const int i = blockIdx.x * blockDim.x + threadIdx.x, at = index[i];\n"
            f"    if (at >= 0) {{ {type_} v = x[at]; y[i] = {total}; }}\n}}\n"
            f'extern "C" __global__ void store_{bytes_}(unsigned* words, const int* index) {{\n'
            f"    {type_}* y = reinterpret_cast<{type_}*>(words);\n"
            "    const int i = blockIdx.x * blockDim.x + threadIdx.x, at = index[i];\n"
            f"    if (at >= 0) {{ {type_} v; {_filled(bytes_)} y[at] = v; }}\n}}\n"
        )
    return "".join(parts)


def _filled(bytes_: int) -> str:
    if bytes_ <= 4:
        return "v = i;"
    return "v.x = i; v.y = i + 1;" + (" v.z = i + 2; v.w = i + 3;" if bytes_ == 16 else "")


THREADS = 256
_I = np.arange(THREADS)
_RNG = np.random.default_rng(7)
PATTERNS: dict[str, np.ndarray] = {
    **{f"stride {s}": _I * s for s in (1, 2, 3, 4, 8, 32, 33)},
    **{f"offset {o}": _I + o for o in (1, 3, 8)},
    "reversed": _I[::-1].copy(), "broadcast": _I * 0 + 5, "pairs": _I // 2, "groups of 8": _I // 8 * 8,
    "random": _RNG.permutation(4096)[:THREADS], "odd lanes": np.where(_I % 2, _I, -1),
    "ragged": np.where(_I < 200, _I, -1), "two rows": _I % 16 + 100 * (_I // 16),
}  # fmt: skip
"""thread -> element, -1 for a thread that does nothing"""


def global_cases() -> list[Case]:
    source, found = _global_source(), []
    for bytes_ in _WIDTHS:
        for name, index in PATTERNS.items():
            if bytes_ in (1, 2, 8) and name.split()[0] in ("groups", "odd", "offset", "two"):
                continue
            i, y = index.astype(np.int32), np.zeros(THREADS, np.uint32)
            x = np.arange(-(-(int(index.max()) + 1) * bytes_ // 4), dtype=np.uint32) * np.uint32(2654435761)
            load = _direct(source, f"load_{bytes_}", (1,), (THREADS,), x, y, i)
            found.append(Case(f"load {bytes_} B, {name}", "global", load))
            if len(set(index[index >= 0])) == (index >= 0).sum():  # two threads that store to one place race
                store = _direct(source, f"store_{bytes_}", (1,), (THREADS,), np.zeros_like(x), i)
                found.append(Case(f"store {bytes_} B, {name}", "global", store))
    return found


def _shared_source() -> str:
    parts = []
    for bytes_, type_ in ((4, "unsigned"), (8, "uint2"), (16, "uint4")):
        total = {4: "v", 8: "v.x + 3 * v.y", 16: "v.x + 3 * v.y + 5 * v.z + 7 * v.w"}[bytes_]
        parts.append(
            f'extern "C" __global__ void shared_load_{bytes_}(const int* index, unsigned* y) {{\n'
            "    __shared__ alignas(16) unsigned words[8192];\n"
            "    for (int k = threadIdx.x; k < 8192; k += 32) words[k] = k * 2654435761u;\n"
            "    __syncwarp();\n"
            f"    const {type_}* s = reinterpret_cast<const {type_}*>(words);\n"
            f"    {type_} v = s[index[threadIdx.x]];\n"
            f"    y[threadIdx.x] = {total};\n}}\n"
            f'extern "C" __global__ void shared_store_{bytes_}(const int* index, unsigned* y) {{\n'
            "    __shared__ alignas(16) unsigned words[8192];\n"
            "    const int i = threadIdx.x;\n"
            f"    {type_}* s = reinterpret_cast<{type_}*>(words);\n"
            f"    {type_} v; {_filled(bytes_)}\n"
            "    s[index[i]] = v;\n"
            "    __syncwarp();\n"
            f"    y[i] = words[index[i] * {bytes_ // 4}];\n}}\n"
        )
    return "".join(parts)


_L = np.arange(32)
SHARED_PATTERNS: dict[str, np.ndarray] = {
    **{f"stride {s}": _L * s for s in (1, 2, 3, 4, 5, 8, 16, 17)},
    "reversed": 31 - _L, "broadcast": _L * 0, "pairs i/2": _L // 2, "fours i/4": _L // 4, "eights i/8": _L // 8,
    "i%2": _L % 2, "i%4": _L % 4, "i%8": _L % 8, "i%16": _L % 16, "i xor 1": _L ^ 1, "i xor 5": _L ^ 5,
    "pairs of a quarter": _L % 4 // 2 + _L // 4 * 2, "pairs apart by 8": _L // 2 * 8, "pairs apart by 2": _L // 2 * 2,
    "pairs i%16/2": _L % 16 // 2, "quarters swapped": (_L % 8) * 4 + _L // 8, "halves equal": _L % 16 * 2,
    "rows of 8": (_L % 8) + (_L // 8) * 8, "2 x 16": (_L % 2) * 16 + _L // 2, "4 x 8": (_L % 4) * 8 + _L // 4,
    "8 x 4": (_L % 8) * 4 + _L // 8, "8 x 4 and pairs": (_L % 8) // 2 * 4 + _L // 8,
    "tile column": (_L // 8) * 17, "tile row": (_L % 8) * 17, "4 of 8 equal": _L // 8 * 8 + (_L % 8) // 4,
    "quad broadcast": (_L % 4) * 9, "random a": _RNG.integers(0, 64, 32), "random b": _RNG.integers(0, 64, 32),
    "random c": _RNG.integers(0, 16, 32), "random d": _RNG.integers(0, 512, 32),
}  # fmt: skip


def shared_cases() -> list[Case]:
    source, found = _shared_source(), []
    for bytes_ in (4, 8, 16):
        for name, index in SHARED_PATTERNS.items():
            if bytes_ == 4 and name.startswith(("pairs of", "pairs apart", "2 x", "random d", "quad", "4 of")):
                continue
            i, y = index.astype(np.int32), np.zeros(32, np.uint32)
            load = _direct(source, f"shared_load_{bytes_}", (1,), (32,), i, y)
            found.append(Case(f"load {bytes_} B, {name}", "shared", load))
            if len(set(index)) == 32:
                store = _direct(source, f"shared_store_{bytes_}", (1,), (32,), i, y)
                found.append(Case(f"store {bytes_} B, {name}", "shared", store))
    return found


_MATH = {
    "expf(x)": (-90, 90), "__expf(x)": (-20, 20), "exp2f(x)": (-130, 128), "logf(x)": (1e-38, 1e38),
    "__logf(x)": (0.01, 100), "log2f(x)": (1e-30, 1e30), "powf(x, 1.7f)": (0, 1e10), "sinf(x)": (-100, 100),
    "cosf(x)": (-1e5, 1e5), "__sinf(x)": (-3, 3), "__cosf(x)": (-3, 3), "tanf(x)": (-1.5, 1.5),
    "tanhf(x)": (-10, 10), "erff(x)": (-4, 4), "sqrtf(x)": (0, 1e30), "rsqrtf(x)": (1e-30, 1e30),
    "__fdividef(x, 3.7f)": (-1e10, 1e10), "x / 3.7f": (-1e10, 1e10), "__frcp_rn(x)": (0.1, 10),
    "cbrtf(x)": (-1e6, 1e6), "lgammaf(x)": (0.1, 50), "atan2f(x, 2.0f)": (-50, 50), "asinf(x)": (-1, 1),
    "log1pf(x)": (-0.9, 100),
}  # fmt: skip
_MATH_DOUBLE = {
    "exp(x)": (-700, 700), "log(x)": (1e-300, 1e300), "pow(x, 1.7)": (0, 1e100), "sin(x)": (-1e5, 1e5),
    "cos(x)": (-100, 100), "tanh(x)": (-10, 10), "erf(x)": (-5, 5), "sqrt(x)": (0, 1e300),
    "rsqrt(x)": (1e-300, 1e300), "1.0 / x": (1e-10, 1e10),
}  # fmt: skip


def math_cases() -> list[Case]:
    found = []
    for table, type_ in ((_MATH, "float"), (_MATH_DOUBLE, "double")):
        dtype = np.float32 if type_ == "float" else np.float64
        kernels = [
            f'extern "C" __global__ void f{k}(const {type_}* in, {type_}* out) {{\n'
            "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
            f"    const {type_} x = in[i];\n    out[i] = {text};\n}}\n"
            for k, text in enumerate(table)
        ]
        for k, (text, (low, high)) in enumerate(table.items()):
            spread = np.linspace if low <= 0 or high / low < 1e4 else np.geomspace
            x = spread(low, high, 4096).astype(dtype)
            run = _direct("".join(kernels), f"f{k}", (16,), (256,), x, np.zeros_like(x))
            found.append(Case(text, "math", run, kind=dtype.__name__))
    return found


_GROUP_OF = {
    "atomics": ("histogram", "histogram_shared", "sum_float", "extremes", "add_by_cas"),
    "divergence": ("collatz", "branches", "leaves_early", "switches", "whole_warps"),
    "warp": ("warp_scan", "votes"), "packed": ("half_math", "bfloat_math", "bytes"),
    "memory": ("local_array", "constants", "reduce_tree", "reduce_interleaved"),
}  # fmt: skip


def other_cases() -> list[Case]:
    x = _RNG.integers(0, 1 << 31, 512, dtype=np.uint32)
    source, found = (HERE / "kernels" / "fidelity.cu").read_text(), []
    for group, names in _GROUP_OF.items():
        for name in names:
            y = np.zeros(512, np.float32 if name == "sum_float" else np.uint32)
            run = _direct(source, name, (2,), (256,), x, y)
            found.append(Case(name, group, run, kind=str(y.dtype), unordered=name == "sum_float"))
    return found


# ---------------------------------------------------------------- the course


def reference_cases() -> list[Case]:
    """Every reference at its usual sizes, and products also at ragged ones."""
    found = []
    for path in (step.solution for step in Course(ROOT).kernels() if step.solution is not None):
        contract = parse_contract(path.read_text(), name=path.name)
        sizes = usual_sizes(contract)
        sizes |= {name: min(size, sizes[name]) for name, size in SMALLER.items() if name in sizes}
        name = f"{path.parent.name.split('_')[0]}/{path.stem}"
        sizes |= SEVERAL_PARTS.get(name, {})
        found.append(Case(name, "references", _reference(contract, sizes), kind=_kind(contract)))
        if set(RAGGED) <= set(sizes):
            ragged = _reference(contract, {**sizes, **RAGGED})
            found.append(Case(f"{name}, ragged", "references", ragged, kind=_kind(contract)))
    return found


def _kind(contract: Contract) -> str:
    results = [p for p in contract.parameters() if p.is_array and p.direction != "in"]
    return str(results[0].ctype.dtype) if results and results[0].ctype.dtype.kind == "f" else "uint8"


def _reference(contract: Contract, sizes: Mapping[str, Any]) -> Callable[[Recorder], None]:
    def run(recorder: Recorder) -> None:
        try:
            program = Program(contract, device="sim")
            plan = contract.bind(sizes)
            inputs = random_inputs(_shaped(plan), np.random.default_rng(SEED))
        except ContractError as reason:  # sizes that it does not take
            print(f"left out: {reason.message}")
            return
        recorder.ptx = program.module.ptx
        program.run(plan.scalars, inputs)

    return run


def _shaped(plan: Plan) -> Plan:
    """The plan with a shape for every array."""
    known = {
        name: replace(array, shape=tuple(int(plan.scalars[size]) for size in SHAPES[name]))
        for name, array in plan.arrays.items()
        if array.shape is None
    }
    return replace(plan, arrays={**plan.arrays, **known})


def all_cases() -> list[Case]:
    return [*other_cases(), *reference_cases(), *shared_cases(), *global_cases(), *math_cases()]
