"""The ladder of kernels: what a step changes, what its main loop is made of, and what that costs on a GPU.

    change("lab02_tiling/01_tiled", "lab05_work_per_thread/01_coarsened").text
    measure(step).mix["FMA"]

Everything here is about the references in solutions/, at one stated case, counted by the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

import ptxsim
from ptxsim.limits import WARP
from warpschool import model
from warpschool.compile import Resources, compile_cuda
from warpschool.contract import Contract, parse_contract
from warpschool.counters import Counters
from warpschool.course import Course, Step
from warpschool.device import Launch
from warpschool.errors import CompileError, CompilerLacks, CourseError, LaunchError
from warpschool.harness.launcher import Program, RunResult, random_inputs
from warpschool.inspect.difference import Difference, changed_lines
from warpschool.recorded import results

GPUS = ("gtx1080", "k40", "rtx2080ti", "a100", "h200")
"""The GPUs of the course's sources, and two of today."""
CASE = {"M": 512, "N": 512, "K": 512}
RECORDED = ("gemm_*.json", "half_precision_*.json", "tensor_cores_*.json")
"""Files of benchmarks/results/ with a row for each measurement of a step."""
_OLDEST_COMPILED = "sm_75"

CLASSES: dict[str, tuple[str, ...]] = {
    "FMA": ("instructions_fp32", "instructions_fp16", "instructions_dot", "tensor_instructions"),
    "shared memory": ("instructions_memory_shared",),
    "global memory": ("instructions_memory_global",),
    "integer": ("instructions_integer", "instructions_conversion"),
    "branches, barriers": ("instructions_control",),
    "other": ("instructions_other", "instructions_special", "instructions_fp64"),
}
"""What an instruction mix tells apart; "FMA" is arithmetic on elements, whatever their precision."""


# ---------------------------------------------------------------- what changes


def change(before: str, after: str, *, around: int = 2, course: Course | None = None) -> Difference:
    """Compare the references of two steps; raises CourseError for a step without one."""
    course = course or Course.find()
    first, second = course.step(before), course.step(after)
    return Difference(first.name, second.name, changed_lines(_text(first), _text(second), around=around))


# ---------------------------------------------------------------- what it costs


@dataclass(frozen=True)
class GpuUse:
    """Registers, shared memory and occupancy of a step's kernel on one GPU; `occupancy` is None where no block fits.

    `arch` is what the compiler was asked for; `is_borrowed` where the GPU is older than any that it still knows.
    """

    gpu: str
    arch: str
    is_borrowed: bool
    resources: Resources | None
    occupancy: model.Occupancy | None
    note: str = ""


@dataclass(frozen=True)
class StepCost:
    """What a kernel file does at one case, `case` in words; `mix` is the share of each class in its main loop.

    `products` is M N K (M N without a K).
    """

    name: str
    case: str
    products: int
    counters: Counters
    barriers_per_block: float
    mix: Mapping[str, float]
    uses: tuple[GpuUse, ...]

    def use(self, gpu: str) -> GpuUse:
        """What the kernel uses on a GPU of `GPUS`; raises KeyError for another one."""
        return {use.gpu: use for use in self.uses}[model.find_gpu(gpu).name]


def measure(step: str | Step, sizes: Mapping[str, int] | None = None, *, course: Course | None = None) -> StepCost:
    """Count what a step's reference does; see `cost_of`."""
    found = step if isinstance(step, Step) else (course or Course.find()).step(step)
    return cost_of(_contract(found), sizes)


def cost_of(
    contract: Contract, sizes: Mapping[str, int] | None = None, *, constants: Mapping[str, int] | None = None,
    check: bool = False,
) -> StepCost:  # fmt: skip
    """Count what a kernel file does at one case, and in its main loop.

    `sizes` default to `CASE`, as far as the kernel has them; its other scalars are 1. With `check` hazards are looked
    for: without it, a kernel that nobody has checked can take this process with it.
    """
    scalars = {p.name for p in contract.parameters() if not p.is_array}
    chosen: dict[str, float] = {name: value for name, value in (sizes or CASE).items() if name in scalars}
    chosen |= dict.fromkeys(scalars - chosen.keys(), 1)
    program = Program(contract, device="sim", constants=constants)
    run = _run(program, chosen, check)
    launch = run.launches[0]
    return StepCost(
        name=contract.name,
        case=", ".join(f"{name} = {value}" for name, value in chosen.items() if name in CASE or value != 1),
        products=int(np.prod([chosen[name] for name in CASE if name in chosen])),
        counters=run.counters,
        barriers_per_block=run.counters.barriers / (launch.blocks * -(-launch.threads_per_block // WARP)),
        mix=mix_of(_main_loop(program, chosen, run, check)),
        uses=tuple(_use(program, launch, gpu) for gpu in GPUS),
    )


def mix_of(counters: Counters) -> dict[str, float]:
    """The share of each of `CLASSES` in all instructions, counted once per warp; all 0 where there are none."""
    counts = {name: sum(counters[part] for part in parts) for name, parts in CLASSES.items()}
    total = sum(counts.values())
    return {name: count / total if total else 0.0 for name, count in counts.items()}


def _main_loop(program: Program, sizes: Mapping[str, float], run: RunResult, check: bool) -> Counters:
    """The counters of the main loop alone: what a K twice as long adds. Without a K, those of the whole kernel."""
    if "K" not in sizes:
        return run.counters
    longer = _run(program, {**sizes, "K": 2 * sizes["K"]}, check).counters.plain()
    return Counters({name: longer[name] - count for name, count in run.counters.plain().items()})


def _run(program: Program, sizes: Mapping[str, float], check: bool) -> RunResult:
    plan = program.contract.bind(sizes, constants=program.constants)
    return program.run(sizes, random_inputs(plan, np.random.default_rng(0)), check=check)


def _use(program: Program, launch: Launch, gpu: str) -> GpuUse:
    spec = model.find_gpu(gpu)
    borrowed = spec.capability < (7, 5)
    place = (spec.name, _OLDEST_COMPILED if borrowed else spec.arch, borrowed)
    try:
        resources = program.module.resources(place[1])[launch.kernel]
    except CompileError:
        return GpuUse(*place, None, None, "uses instructions of newer GPUs")
    except CompilerLacks:
        return GpuUse(*place, None, None, "registers are not known with this compiler")
    try:
        occupancy = program.kernel(launch.kernel).occupancy(launch.block, gpu=spec, shared_mem=launch.shared_mem)
    except LaunchError as error:
        return GpuUse(*place, resources, None, error.message)
    return GpuUse(*place, resources, occupancy)


# ---------------------------------------------------------------- the loop itself


def inner_loop(which: str | Contract, *, count: int = 9, course: Course | None = None) -> str:
    """Return `count` lines of PTX from the middle of the straight piece of code that has most multiply-adds.

    `which` is a step, whose reference is taken, or a kernel file.
    """
    contract = which if isinstance(which, Contract) else _contract((course or Course.find()).step(which))
    texts, kernel = _compiled(contract)
    hot = max(kernel.blocks, key=lambda block: sum(i.opcode == "fma" for i in block.instructions))
    start = max(0, len(hot.instructions) // 2 - count // 2)
    return "\n".join(texts[i.ptx_line - 1].strip() for i in hot.instructions[start : start + count])


def code_size(contract: Contract) -> int:
    """Return how many PTX instructions a kernel file's first kernel has: what has to fit the instruction cache."""
    return sum(len(block.instructions) for block in _compiled(contract)[1].blocks)


def _compiled(contract: Contract) -> tuple[list[str], ptxsim.SimKernel]:
    """The lines of the PTX, and the first kernel."""
    ptx = compile_cuda(contract.source, name=contract.name).ptx
    return ptx.splitlines(), ptxsim.parse(ptx).kernel(contract.launches[0].entry)


# ---------------------------------------------------------------- what was measured


@dataclass(frozen=True)
class Measured:
    """A time that a benchmark of products took; `ratio` is the speed as a multiple of the reference's."""

    device: str
    step: str
    part: str
    sizes: Mapping[str, int]
    time_ms: float
    rate: float
    unit: str
    ratio: float
    reference: str
    reference_rate: float
    note: str = ""


def measured(*, course: Course | None = None) -> tuple[Measured, ...]:
    """Return every row of the recorded benchmarks of `RECORDED`; empty where the course carries none."""
    names = [field.name for field in fields(Measured) if field.name != "device"]
    return tuple(
        Measured(device=result["device"], **{name: row[name] for name in names})
        for pattern in RECORDED for result in results(pattern, course=course) for row in result["rows"]
    )  # fmt: skip


def _text(step: Step) -> str:
    if step.solution is None:
        raise CourseError(f"{step} has no reference in this course")
    return step.solution.read_text("utf-8")


def _contract(step: Step) -> Contract:
    return parse_contract(_text(step), name=step.file_name)
