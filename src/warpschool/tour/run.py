"""Planning and walking the tour: one step after the other, so that an interrupted tour keeps what is done.

Every criterion that counts something says so (`counts=`) and does it at one stated, aligned case. The tour runs that
criterion on the reference, so that what it shows is what is graded, and no second table of sizes exists.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import itertools
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from warpschool.clock.shipped import predicted_us as clock_us
from warpschool.compile import DEFAULT_ARCH, compile_cuda, compiler_name
from warpschool.contract import Contract, Plan, parse_contract
from warpschool.course import Course, Step
from warpschool.device import get_device, gpu_problem, repeated
from warpschool.device.measurement import Rules
from warpschool.errors import CompilerMissing, ContractError, CourseError, GradingError, NotMeasured, WarpschoolError
from warpschool.grading.criteria import CriterionInfo, graded_functions
from warpschool.grading.submission import Submission
from warpschool.grading.verdicts import Judgement, Verdict, judge
from warpschool.harness.launcher import Program, RunResult, random_inputs
from warpschool.inspect.profile import REPORT_GPU, array_bytes, case_text, make_report
from warpschool.inspect.timing import benchmark, benchmark_ratio
from warpschool.model import GpuSpec, find_gpu
from warpschool.tour.report import GpuFigures, Mistake, Tour, TourStep
from warpschool.version import __version__

SEED = 0
_BARRIER = re.compile(r"^[ \t]*__syncthreads\(\);[^\n]*", re.MULTILINE)
_TARGET_BYTES = 128 << 20
"""Arrays of this size together do not fit the L2 cache of any GPU in the table, and fill every SM."""
_MAX_FLOP = 6e11
_RULES = Rules(max_seconds=0.8, min_samples=5, warmup_ms=20.0)

Say = Callable[[str], None]


@dataclass(frozen=True)
class TourPlan:
    """The steps to run and whether on a GPU too; `left_out` says what is not finished yet."""

    steps: tuple[Step, ...]
    on_gpu: bool
    left_out: tuple[str, ...]


def plan_tour(*, every_step: bool = False, device: str = "auto", course: Course | None = None) -> TourPlan:
    """Choose one finished step of every lab, the furthest of its longest ladder, or every finished step.

    A step is finished when it has a reference and a grader. `device` is "sim", "gpu" (DeviceUnavailable without one) or
    "auto". Raises CourseError where nothing is finished.
    """
    get_device(device)
    course = course or Course.find()
    steps, left_out = [], []
    for lab in course.labs():
        kernels = [step for step in lab.steps if not step.is_program]  # a tour shows kernels
        finished = [step for step in kernels if step.solution and step.grader]
        missing = [step.idea for step in kernels if step not in finished]
        if missing:
            left_out.append(f"{lab.name}: {', '.join(missing)} (no reference or no graded tests yet)")
        steps += finished if every_step else _furthest(course, finished)
    if not steps:
        raise CourseError(
            "the course has no finished step", next_step="Reinstall warpschool, or check out its repository."
        )
    return TourPlan(tuple(steps), device != "sim" and gpu_problem() is None, tuple(left_out))


def _furthest(course: Course, steps: list[Step]) -> list[Step]:
    """The step with the longest ladder behind it; among equals the last that later labs continue, or the last."""

    def rank(step: Step) -> tuple[int, bool, str]:
        later = [_entries(after) for after in course.successors(step.name) if after.lab != step.lab]
        return _rungs(course, step), _entries(step) in later, step.name

    return [max(steps, key=rank)] if steps else []


def _rungs(course: Course, step: Step) -> int:
    """The number of steps in a row, back along the From lines, that share this step's entries."""
    names = _entries(step)
    ladder = reversed(course.ladder(step.name))
    return sum(1 for _ in itertools.takewhile(lambda before: _entries(before) == names, ladder))


def _entries(step: Step) -> tuple[str, ...]:
    if step.solution is None:
        return ()
    contract = parse_contract(step.solution.read_text(encoding="utf-8"), name=step.file_name)
    return tuple(str(entry) for entry in contract.entries)


def take_tour(
    plan: TourPlan, *, gpu: str = REPORT_GPU, say: Say = lambda _: None,
    done: Callable[[TourStep], None] = lambda _: None,
) -> Tour:  # fmt: skip
    """Run a plan and gather everything; Ctrl-C ends it early and keeps what is done. `done` is told of each step."""
    start = time.perf_counter()
    steps: list[TourStep] = []
    mistake: Mistake | None = None
    interrupted = False
    try:
        for found in run_tour(plan, gpu=gpu, say=say):
            if isinstance(found, Mistake):
                mistake = found
            else:
                steps.append(found)
                done(found)
    except KeyboardInterrupt:
        interrupted = True
    spec = find_gpu(gpu)
    return Tour(
        steps=tuple(steps), planned=len(plan.steps), mistake=mistake, gpu=spec.name, interrupted=interrupted,
        roofline_gpu=_roofline_gpu(spec, plan.on_gpu), environment=_environment(), left_out=plan.left_out,
        device=get_device("gpu" if plan.on_gpu else "sim").description, seconds=time.perf_counter() - start,
    )  # fmt: skip


def _roofline_gpu(asked: GpuSpec, on_gpu: bool) -> GpuSpec:
    """The GPU at hand, if its limits are known, so that measured times stand under their own roofs."""
    try:
        return getattr(get_device("gpu"), "spec", asked) if on_gpu else asked
    except WarpschoolError:
        return asked


def _environment() -> dict[str, str]:
    """The versions that the figures depend on."""
    return {
        "warpschool": __version__, "compiler": compiler_name(),
        "PTX for": DEFAULT_ARCH, "llvmlite": importlib.metadata.version("llvmlite"),
        "Python": platform.python_version(), "machine": platform.machine(),
    }  # fmt: skip


def run_tour(plan: TourPlan, *, gpu: str = REPORT_GPU, say: Say = lambda _: None) -> Iterator[TourStep | Mistake]:
    """Run the steps in order and yield each when it is done; the first product with a barrier is also run without it.

    `say` is told what is happening. A kernel that fails is a step that is not right; only a machine that cannot compile
    at all ends the tour.
    """
    product: tuple[Step, RecordedKernel] | None = None
    for step in plan.steps:
        kernel, outcome = _run_step(step, on_gpu=plan.on_gpu, gpu=gpu, say=say)
        yield outcome
        if product is None and outcome.right and kernel is not None and _is_product_with_barrier(kernel):
            product = step, kernel
    if product is not None:
        say("leaving out a barrier, to see whether it is noticed")
        yield _mistake(*product)


def _is_product_with_barrier(kernel: RecordedKernel) -> bool:
    run = kernel.shown_run
    return run is not None and run.counters.fma_instructions > 0 and _BARRIER.search(kernel.source) is not None


def _run_step(step: Step, *, on_gpu: bool, gpu: str, say: Say) -> tuple[RecordedKernel | None, TourStep]:
    start = time.perf_counter()
    kernel: RecordedKernel | None = None
    counts = ""
    try:
        info, test = stated_criterion(step)
        counts = info.counts
        say("compiling")
        kernel = _kernel_of(step, on_gpu=on_gpu)
        say("running on the simulator" + (" and the GPU" if on_gpu else ""))
        failure = run_criterion(test, kernel)
    except CompilerMissing:
        raise
    except WarpschoolError as error:
        failure = judge(error)
    seconds = time.perf_counter() - start
    report = figures = predicted_us = None
    note = ""
    if kernel is not None and kernel.shown_run is not None:
        say("computing registers and occupancy")
        program = Program(kernel.contract, device="sim", constants=kernel.shown_run.plan.constants)
        report = make_report(kernel.shown_run, program, gpu=gpu, seconds=seconds)
        if on_gpu and failure is None:
            say("timing on the GPU")
            try:
                figures = time_on_gpu(kernel.contract, kernel.shown_run.plan)
            except WarpschoolError as error:
                note = error.message
        elif failure is None:
            say("predicting its time")
            plan = kernel.shown_run.plan
            inputs = partial(random_inputs, plan, np.random.default_rng(0))
            predicted_us = clock_us(kernel.contract, plan, inputs=inputs)
    return kernel, TourStep(
        step=step.name, title=step.title, verdict=failure.verdict if failure else Verdict.AC,
        seen=failure.seen if failure else "", line=failure.line if failure else 0, counts=counts, report=report,
        gpu=figures, gpu_note=note, predicted_us=predicted_us,
    )  # fmt: skip


def _kernel_of(step: Step, *, on_gpu: bool) -> RecordedKernel:
    """The step's reference, compiled."""
    if step.solution is None:
        raise CourseError(f"{step} has no reference")
    source = step.solution.read_text(encoding="utf-8")
    contract = parse_contract(source, name=step.file_name)
    compile_cuda(source, name=step.file_name)
    return RecordedKernel(contract, on_gpu=on_gpu)


# ---------------------------------------------------------------- what is graded


class RecordedKernel(Submission):
    """The kernel under test that remembers a run on the simulator and its arrays.

    It is the first one with the file's own constants, or the first of all where there is none.
    """

    def __init__(self, contract: Contract, *, on_gpu: bool = False) -> None:
        super().__init__(contract, compiler="", arch=DEFAULT_ARCH, on_gpu=on_gpu)
        self.shown_run: RunResult | None = None
        self.shown_arrays: dict[str, np.ndarray] = {}

    def _run(
        self, device: str, sizes: Mapping[str, float], arrays: Mapping[str, Any], constants: Mapping[str, int] | None,
        **simulator: Any,
    ) -> RunResult:  # fmt: skip
        run = super()._run(device, sizes, arrays, constants, **simulator)
        if simulator:  # in another order: not what is shown
            return run
        if device == "sim" and (self.shown_run is None or (self.shown_run.plan.constants and not constants)):
            self.shown_run = run
            self.shown_arrays = {name: np.asarray(array) for name, array in arrays.items()}
        return run


def stated_criterion(step: Step) -> tuple[CriterionInfo, Callable[..., Any]]:
    """The first criterion of a step that counts something, else its first. Raises GradingError where there is none."""
    found = graded_functions(step)
    if not found:
        raise GradingError(f"the grader of {step} has no criterion")
    return next(((info, test) for info, test in found if info.counts), found[0])


def run_criterion(test: Callable[..., Any], kernel: RecordedKernel) -> Judgement | None:
    """Run one criterion; None when it is met, else what failed."""
    fixtures: dict[str, Callable[[], Any]] = {
        "kernel": lambda: kernel,
        "reference": lambda: Submission(kernel.contract, compiler="", arch=DEFAULT_ARCH),
        "seed": lambda: SEED,
        "rng": lambda: np.random.default_rng(SEED),
    }
    wanted = inspect.signature(test).parameters
    unknown = [name for name in wanted if name not in fixtures]
    if unknown:
        return Judgement(Verdict.SE, f"the tour cannot run this criterion: it wants {', '.join(unknown)}")
    try:
        test(**{name: fixtures[name]() for name in wanted})
    except Exception as error:
        return judge(error)
    return None


# ---------------------------------------------------------------- on the GPU


def time_on_gpu(contract: Contract, small: Plan) -> GpuFigures:
    """Time a kernel file on the GPU at a larger case than `small`.

    Raises NotMeasured for a file whose inputs cannot be made up (indices, for example), and what a run raises.
    """
    if any(array.is_given and (array.dtype.kind != "f" or array.shape is None) for array in small.arrays.values()):
        raise NotMeasured("not timed: random numbers are no input for it")
    plan = enlarged(contract, small)
    program = Program(contract, device="gpu", constants=plan.constants)
    run = program.run(plan.scalars, random_inputs(plan, np.random.default_rng(0)))

    launch_all = repeated(run.launches)
    flop = product_flop(plan)
    if not flop:
        return GpuFigures(case=case_text(plan), timing=benchmark(launch_all, device="gpu", rules=_RULES))
    ratio = benchmark_ratio(launch_all, _cublas(run), device="gpu", rules=_RULES)
    return GpuFigures(
        case=case_text(plan), timing=ratio.candidate, cublas=ratio.speed,
        gflops=ratio.candidate.per_second(flop) * 1e-9,
        note="" if ratio.stable else "the ratio did not settle",
    )  # fmt: skip


def product_flop(plan: Plan) -> float:
    """2 M N K (times BATCH) for a product of single-precision matrices C[M,N]; 0 for anything else."""
    sizes = plan.scalars
    floats = all(array.dtype == np.float32 for array in plan.arrays.values())
    if not floats or not {"M", "N", "K"} <= set(sizes):
        return 0.0
    return 2.0 * sizes["M"] * sizes["N"] * sizes["K"] * sizes.get("BATCH", 1)


def enlarged(contract: Contract, small: Plan) -> Plan:
    """The same case with its sizes doubled until the arrays are large enough or the work is, or the kernel refuses."""
    integers = {name for name, value in small.scalars.items() if isinstance(value, int)}
    plan = small
    while array_bytes(plan) < _TARGET_BYTES and product_flop(plan) * 8 <= _MAX_FLOP:
        doubled = {name: value * (2 if name in integers else 1) for name, value in plan.scalars.items()}
        try:
            plan = contract.bind(doubled, constants=small.constants)
        except ContractError:  # the kernel takes no such sizes: a filter's rows are constants, for example
            return plan
    return plan


def _cublas(run: RunResult) -> Callable[[], Any]:
    """The same product by cuBLAS, on arrays of its own."""
    import cupy

    sizes = run.plan.scalars
    batch = [int(sizes["BATCH"])] if "BATCH" in sizes else []
    m, n, k = (int(sizes[name]) for name in "MNK")
    a = cupy.random.default_rng(0).random((*batch, m, k), dtype=np.float32)
    b = cupy.random.default_rng(1).random((*batch, k, n), dtype=np.float32)
    c = cupy.empty((*batch, m, n), dtype=np.float32)
    return lambda: cupy.matmul(a, b, out=c)


# ---------------------------------------------------------------- the mistake


def without_barrier(source: str) -> tuple[str, int]:
    """The source with its first barrier's line left empty, so that other lines keep their numbers, and that line."""
    match = _BARRIER.search(source)
    if match is None:
        raise ValueError("the source has no barrier")
    return source[: match.start()] + source[match.end() :], source.count("\n", 0, match.start()) + 1


def _mistake(step: Step, kernel: RecordedKernel) -> Mistake:
    """Run the source without its first barrier, as the kernel ran when it was shown, and keep the first race."""
    run = kernel.shown_run
    assert run is not None
    broken, line = without_barrier(kernel.source)
    contract = parse_contract(broken, name=kernel.name)
    hazards = list(Program(contract, device="sim").run(run.plan.scalars, kernel.shown_arrays).hazards)
    found = [hazard for hazard in hazards if hazard.kind == "race"] or hazards
    return Mistake(
        step=step.name, name=kernel.name, source=broken, removed_line=line,
        removed_text=kernel.source.split("\n")[line - 1].strip(), hazard=found[0] if found else None,
        places=len({h.line for h in found}),
    )  # fmt: skip
