"""The ladder of kernels: what a step changes, what its main loop is made of, and what that costs on a GPU.

    change("lab02_tiling/01_tiled", "lab05_work_per_thread/01_coarsened").text
    measure(step).mix["FMA"]

Everything here is about the references in solutions/, at one stated case, counted by the simulator.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from warpschool import model
from warpschool.compile import Resources
from warpschool.contract import Contract, parse_contract
from warpschool.contract.header import read_header
from warpschool.counters import Counters
from warpschool.course import Course, Step
from warpschool.errors import CompileError, CourseError, LaunchError
from warpschool.launcher import Program, RunResult
from warpschool.profile import random_inputs

GPUS = ("gtx1080", "k40", "rtx2080ti", "a100", "h200")
"""The GPUs of the course's sources, and two of today."""
CASE = {"M": 512, "N": 512, "K": 512}
_LONGER = {"K": 1024}
"""The main loop's instructions are those that this K takes more than the case's."""
_OLDEST_COMPILED = "sm_75"
_MARKS = re.compile(r"^\s*// (BEGIN|END) SOLUTION")

CLASSES: dict[str, tuple[str, ...]] = {
    "FMA": (),
    "shared memory": ("instructions_memory_shared",),
    "global memory": ("instructions_memory_global",),
    "integer": ("instructions_integer", "instructions_conversion"),
    "branches, barriers": ("instructions_control",),
    "other": ("instructions_other", "instructions_special", "instructions_fp16", "instructions_fp64"),
}
"""What an instruction mix tells apart; "FMA" is single-precision arithmetic, of which a matrix product has no other."""


# ---------------------------------------------------------------- what changes


@dataclass(frozen=True)
class Change:
    """The difference between the code of two steps, headers and hole markers left out; `text` is a unified diff."""

    before: str
    after: str
    text: str

    @property
    def added(self) -> int:
        return self._count("+")

    @property
    def removed(self) -> int:
        return self._count("-")

    def _count(self, sign: str) -> int:
        return sum(line.startswith(sign) and not line.startswith(3 * sign) for line in self.text.splitlines())


def change(before: str, after: str, *, around: int = 2, course: Course | None = None) -> Change:
    """Compare the references of two steps; raises CourseError for a step without one."""
    course = course or Course.find()
    first, second = course.step(before), course.step(after)
    lines = difflib.unified_diff(
        code_of(_text(first)).splitlines(), code_of(_text(second)).splitlines(),
        first.file_name, second.file_name, lineterm="", n=around,
    )  # fmt: skip
    return Change(first.name, second.name, "\n".join(lines))


def code_of(source: str) -> str:
    """Return a kernel file without its header block, hole markers and starter parts."""
    lines = source.splitlines()
    start = next((place for place, line in enumerate(lines) if not line.startswith("//")), len(lines))
    kept: list[str] = []
    in_starter = False
    for line in lines[start:]:
        if "// BEGIN STARTER" in line or "// END STARTER" in line:
            in_starter = "BEGIN" in line
        elif not in_starter and not _MARKS.match(line):
            kept.append(line)
    return "\n".join(kept).strip("\n") + "\n"


# ---------------------------------------------------------------- what it costs


@dataclass(frozen=True)
class GpuUse:
    """Registers, shared memory and occupancy of a step's kernel on one GPU; `occupancy` is None where no block fits.

    `arch` is what the compiler was asked for: sm_75 for older GPUs, which it does not know any more.
    """

    gpu: str
    arch: str
    resources: Resources | None
    occupancy: model.Occupancy | None
    note: str = ""


@dataclass(frozen=True)
class StepCost:
    """What a step's reference does at one case, in words `case`; `mix` is the share of each class in its main loop."""

    step: Step
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
    """Count what a step's reference does. `sizes` default to `CASE`, as far as the step has them."""
    found = step if isinstance(step, Step) else (course or Course.find()).step(step)
    contract = parse_contract(_text(found), name=found.file_name)
    scalars = {p.name for p in contract.parameters() if not p.is_array}
    chosen: dict[str, float] = {name: value for name, value in (sizes or CASE).items() if name in scalars}
    chosen |= dict.fromkeys(scalars - chosen.keys(), 1)
    program = Program(contract, device="sim")
    run = _run(program, contract, chosen)
    launch = run.launches[0]
    warps = -(-launch.threads_per_block // 32)
    return StepCost(
        step=found,
        case=", ".join(f"{name} = {value}" for name, value in chosen.items() if name in CASE or value != 1),
        products=int(np.prod([chosen[name] for name in CASE if name in chosen])),
        counters=run.counters,
        barriers_per_block=run.counters.barriers / (launch.blocks * warps),
        mix=mix_of(_main_loop(program, contract, chosen, run)),
        uses=tuple(_use(program, launch.kernel, launch.block, launch.shared_mem, gpu) for gpu in GPUS),
    )


def mix_of(counters: Counters) -> dict[str, float]:
    """The share of each of `CLASSES` in all instructions, counted once per warp."""
    counts = {name: float(sum(counters[part] for part in parts)) for name, parts in CLASSES.items()}
    counts["FMA"] = float(counters.instructions_fp32)
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()} if total else counts


def _main_loop(program: Program, contract: Contract, sizes: Mapping[str, float], run: RunResult) -> Counters:
    """The counters of the main loop alone: what a longer K adds. Without a K, those of the whole kernel."""
    if "K" not in sizes:
        return run.counters
    longer = _run(program, contract, {**sizes, **_LONGER}).counters.plain()
    return Counters({name: longer[name] - count for name, count in run.counters.plain().items()})


def _run(program: Program, contract: Contract, sizes: Mapping[str, float]) -> RunResult:
    plan = contract.bind(sizes)
    return program.run(sizes, random_inputs(plan, np.random.default_rng(0)), check=False)


def _use(program: Program, kernel: str, block: tuple[int, int, int], shared_mem: int, gpu: str) -> GpuUse:
    spec = model.find_gpu(gpu)
    arch = spec.arch if spec.capability >= (7, 5) else _OLDEST_COMPILED
    try:
        resources = program.module.resources(arch)[kernel]
    except CompileError:
        return GpuUse(spec.name, arch, None, None, "uses instructions of newer GPUs")
    try:
        occupancy = program.kernel(kernel).occupancy(block, gpu=spec, shared_mem=shared_mem)
    except LaunchError as error:
        return GpuUse(spec.name, arch, resources, None, error.message)
    return GpuUse(spec.name, arch, resources, occupancy, occupancy.note)


def headline(step: Step) -> dict[str, str]:
    """A step's title, idea and limits, as its header states them."""
    header = read_header(_text(step), file=step.file_name)
    return {"title": header.title, "Idea": header.text_of("Idea"), "Limits": header.text_of("Limits")}


def _text(step: Step) -> str:
    if step.solution is None:
        raise CourseError(f"{step} has no reference in this course")
    return step.solution.read_text("utf-8")
