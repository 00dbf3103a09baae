"""What one run of a kernel file used: counters, per source line too, hazards, registers, occupancy.

report = profile_source(source, {"M": 128, "N": 128, "K": 128}, name="01_tiled.cu")
report.counters, report.lines, report.occupancy
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

import ptxsim
from warpschool import model
from warpschool.compile import Resources, compile_cuda
from warpschool.contract import Contract, Plan, parse_contract
from warpschool.contract.expressions import EvaluationError, Expression, Name, Operation, evaluate
from warpschool.counters import DERIVED, Counters
from warpschool.device import Launch
from warpschool.errors import CompileError, CompilerLacks, LaunchError
from warpschool.harness.launcher import Program, RunResult, random_inputs

REPORT_GPU = "rtx2080ti"
"""The GPU that occupancy and the roofline speak of where none is named."""
_ONE_SIZE, SEVERAL_SIZES = 4096, 128
_CONVOLUTION = {
    "BATCH": 4, "C": 16, "H": 16, "W": 16, "F": 32, "R": 5, "S": 5, "STRIDE": 1, "PAD": 2, "CROP": 0, "POSITIONS": 36,
    "F0": 0, "PART": 32,
}  # fmt: skip
"""What is usual for the sizes of the course's convolutions, which one number for all would make absurd."""


@dataclass(frozen=True, kw_only=True)
class LaunchReport:
    """One launch; `resources` and `occupancy` are None, with a note, where the kernel does not exist for that GPU."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    resources: Resources | None
    occupancy: model.Occupancy | None
    counters: Counters = field(repr=False)
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class KernelReport:
    """One run of a kernel file on the simulator. `case` says the sizes in words; `estimate` assumes a full GPU."""

    name: str
    title: str
    source: str = field(repr=False)
    case: str
    gpu: str
    launches: tuple[LaunchReport, ...]
    counters: Counters
    lines: Mapping[int, Counters]
    hazards: tuple[Any, ...]
    notes: tuple[Any, ...]
    """findings that are no hazards"""
    printed: str
    estimate: model.Estimate
    seconds: float
    """the host's time for compilation and simulation: no GPU would take that long"""

    @property
    def findings(self) -> tuple[Any, ...]:
        """The hazards, one for each kind, line and array: an unrolled loop repeats its line's."""
        return distinct(self.hazards)

    @property
    def registers(self) -> int | None:
        """Registers per thread of the kernel that needs most."""
        return max((launch.resources.registers for launch in self.launches if launch.resources), default=None)

    @property
    def occupancy(self) -> model.Occupancy | None:
        """The occupancy of the launch that has least."""
        known = [launch.occupancy for launch in self.launches if launch.occupancy]
        return min(known, key=lambda occupancy: occupancy.fraction, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; ratios that mean nothing for this kernel are None."""
        return {
            "name": self.name, "title": self.title, "case": self.case, "gpu": self.gpu,
            "launches": [asdict(launch) | {"counters": launch.counters.plain()} for launch in self.launches],
            "counters": self.counters.plain(), "derived": derived(self.counters),
            "lines": {str(line): {k: v for k, v in c.plain().items() if v} for line, c in self.lines.items()},
            "hazards": [hazard.to_dict() for hazard in self.hazards],
            "notes": [note.to_dict() for note in self.notes],
            "printed": self.printed,
            "estimate": asdict(self.estimate) | {"agreement": asdict(model.agreement())},
            "seconds": round(self.seconds, 3),
        }  # fmt: skip


def profile_source(
    source: str, sizes: Mapping[str, float] | None = None, *, name: str = "kernel.cu",
    constants: Mapping[str, int] | None = None, gpu: str = REPORT_GPU, seed: int = 0,
) -> KernelReport:  # fmt: skip
    """Run a kernel file once on the simulator with random inputs and report what happened.

    Sizes that are not given are 4096 for a kernel with one size and 128 for others; other scalars are 1. Raises
    ContractError, CompileError, LaunchError, SimulationError. Hazards are reported, not raised.
    """
    start = time.perf_counter()
    contract = parse_contract(source, name=name)
    program = Program(contract, device="sim", constants=constants)
    plan = contract.bind(usual_sizes(contract, constants=constants) | dict(sizes or {}), constants=constants)
    run = program.run(plan.scalars, random_inputs(plan, np.random.default_rng(seed)))
    return make_report(run, program, gpu=gpu, seconds=time.perf_counter() - start)


def make_report(run: RunResult, program: Program, *, gpu: str = REPORT_GPU, seconds: float = 0.0) -> KernelReport:
    """Gather the report of a finished run on the simulator."""
    spec = model.find_gpu(gpu)
    contract = run.plan.contract
    return KernelReport(
        name=contract.name, title=contract.title, source=contract.source, case=case_text(run.plan), gpu=spec.name,
        launches=tuple(_launch_report(launch, program, spec) for launch in run.launches),
        counters=run.counters, lines=run.lines, printed=run.printed,
        hazards=tuple(run.hazards), notes=distinct(run.notes),
        estimate=full_gpu_estimate(run.counters, spec, array_bytes=array_bytes(run.plan)), seconds=seconds,
    )  # fmt: skip


def full_gpu_estimate(
    counters: Counters, gpu: str | model.GpuSpec = REPORT_GPU, *, array_bytes: int | None = None
) -> model.Estimate:
    """The roofline bound as if there were work for every SM: small cases would only show how small they are.

    With `array_bytes` every array moves through DRAM once.
    """
    spec = model.find_gpu(gpu)
    filled = Counters({**counters.plain(), "blocks": max(spec.sms, counters.blocks)})
    return model.estimate(filled, gpu=spec, array_bytes=array_bytes)


def array_bytes(plan: Plan) -> int:
    """Bytes of a run's arrays together."""
    return sum(int(np.prod(array.shape or (0,))) * array.dtype.itemsize for array in plan.arrays.values())


def case_text(plan: Plan) -> str:
    """The sizes of a run, equal ones together: "M = N = 64, K = 32"."""
    by_value: dict[int | float, list[str]] = {}
    for name, value in plan.scalars.items():
        by_value.setdefault(value, []).append(name)
    replaced = [f"{name} = {value}" for name, value in plan.constants.items()]
    return ", ".join([*(f"{' = '.join(names)} = {value:g}" for value, names in by_value.items()), *replaced])


def usual_sizes(contract: Contract, *, constants: Mapping[str, int] | None = None) -> dict[str, int | float]:
    """A size for every integer scalar of the header that it does not compute, and 1 for the other scalars.

    What a Usual line says comes first. Where a Needs line says which size it wants (`BATCH == 1`, `S <= MOST_S`,
    `F % FB == 0`), it gets that one.
    """
    computed = {size.name for size in contract.sizes}
    scalars = {p.name: p for p in contract.parameters() if not p.is_array and p.name not in computed}
    sizes = [name for name, parameter in scalars.items() if parameter.is_size]
    usual = _ONE_SIZE if len(sizes) == 1 else SEVERAL_SIZES
    named = _CONVOLUTION if {"C", "F"} & set(sizes) else {}  # channels and filters, where a product has M, N and K
    chosen = {name: named.get(name, usual) for name in sizes}
    known = contract.declarations.constexpr_values(constants or {})
    for condition in contract.needs:
        chosen |= _wanted(condition.tree, chosen, known)
    return {name: chosen.get(name, 1.0) for name in scalars} | dict(contract.usual)


def _wanted(condition: Expression, sizes: Mapping[str, int], constants: Mapping[str, int]) -> dict[str, int]:
    """The size that makes a condition true which `sizes` break, if it names one; other conditions are left alone."""
    values = {**constants, **sizes}
    try:
        match condition:
            case Operation("==", (Operation("%", (Name(name), step)), 0)) if name in sizes:
                unit = evaluate(step, values)
                return {name: -(-sizes[name] // unit) * unit}
            case Operation("==", (Name(name), wanted)) if name in sizes:
                return {name: evaluate(wanted, values)}
            case Operation("<=", (Name(name), most)) if name in sizes:
                return {name: min(sizes[name], evaluate(most, values))}
    except (EvaluationError, ZeroDivisionError):  # it speaks of sizes that the header computes, or of nothing
        pass
    return {}


def derived(counters: Counters) -> dict[str, float | None]:
    """Every derived number by name; None where there was nothing to measure."""
    values = {name: getattr(counters, name) for name in DERIVED}
    return {name: value if np.isfinite(value) else None for name, value in values.items()}


def distinct(hazards: Iterable[Any]) -> tuple[Any, ...]:
    """The first hazard of each kind, line and array."""
    found: dict[tuple[str, int, str], Any] = {}
    for hazard in hazards:
        found.setdefault((hazard.kind, hazard.line, hazard.array), hazard)
    return tuple(found.values())


NO_RESOURCES = "registers, spills and occupancy are not known with this compiler, clang: ptxas, of NVIDIA, assigns them"


def _launch_report(launch: Launch, program: Program, spec: model.GpuSpec) -> LaunchReport:
    """Resources and occupancy on `spec`, or on the oldest GPU that the compiler knows where that one is older."""
    resources = occupancy = None
    note = ""
    try:
        resources = program.module.resources(spec.compiled_arch)[launch.kernel]
        occupancy = program.kernel(launch.kernel).occupancy(launch.block, gpu=spec, shared_mem=launch.shared_mem)
    except CompileError:
        note = f"{launch.kernel} does not compile for {spec.name}: it uses instructions of newer GPUs"
    except CompilerLacks:
        note = NO_RESOURCES
    except LaunchError as error:
        note = error.message
    return LaunchReport(
        kernel=launch.kernel, grid=launch.grid, block=launch.block, shared_bytes=launch.shared_mem,
        resources=resources, occupancy=occupancy, counters=launch.counters, note=note,
    )  # fmt: skip


def generated_code(
    source: str, what: str, sizes: Mapping[str, float] | None = None, *, name: str = "kernel.cu",
    constants: Mapping[str, int] | None = None,
) -> list[tuple[str, str]]:  # fmt: skip
    """What a kernel file becomes: (title, text) of its "ptx", or of each launch's "lanes", LLVM "ir" or host "asm".

    IR and assembly are those of a launch with all counters and checks. Raises as `profile_source` does.
    """
    compiled = compile_cuda(source, name=name, constants=constants)
    if what == "ptx":
        return [(f"{name}, {compiled.compiler}, {compiled.arch}", compiled.ptx)]
    contract = parse_contract(source, name=name)
    plan = contract.bind(usual_sizes(contract, constants=constants) | dict(sizes or {}), constants=constants)
    module = ptxsim.parse(compiled.ptx)
    shapes = {f"{launch.entry} in blocks of {launch.block}": launch for launch in plan.launches}
    return [
        (f"{shape}, with counters and checks", module.kernel(launch.entry).listing(what, launch.block))
        for shape, launch in shapes.items()
    ]
