"""Planning and walking the tour: one step after the other, so that an interrupted tour keeps what is done."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from warpcourse.ladder import is_for_one_gpu
from warpschool.compile import compile_cuda
from warpschool.contract import parse_contract
from warpschool.course import Course, Step
from warpschool.device import get_device, gpu_problem
from warpschool.errors import CompilerMissing, CourseError, WarpschoolError
from warpschool.grading.verdicts import Verdict, judge
from warpschool.harness.launcher import Program
from warpschool.inspect.profile import REPORT_GPU, make_report
from warpschool.tour.gpu import time_on_gpu
from warpschool.tour.graded import RecordedKernel, run_criterion, stated_criterion
from warpschool.tour.mistake import has_barrier, run_mistake
from warpschool.tour.report import Mistake, TourStep

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
        finished = [step for step in lab.steps if step.solution and step.grader]
        unfinished = [step.idea for step in lab.steps if step not in finished]
        if unfinished:
            left_out.append(f"{lab.name}: {', '.join(unfinished)} (no reference or no graded tests yet)")
        for_one_gpu = [step for step in finished if is_for_one_gpu(step)]
        if for_one_gpu:
            names = ", ".join(step.idea for step in for_one_gpu)
            left_out.append(f"{lab.name}: {names} (for one kind of GPU; nothing can be counted)")
        finished = [step for step in finished if step not in for_one_gpu]
        steps += finished if every_step else _furthest(course, finished)
    if not steps:
        raise CourseError(
            "the course has no finished step", next_step="Reinstall warpschool, or check out its repository."
        )
    return TourPlan(tuple(steps), device != "sim" and gpu_problem() is None, tuple(left_out))


def _furthest(course: Course, steps: list[Step]) -> list[Step]:
    """The step with the longest ladder behind it; among equals the last that later labs continue, or the last."""

    def rank(step: Step) -> tuple[int, bool, str]:
        later = [after for after in course.successors(step.name) if after.lab != step.lab]
        goes_on = any(_entries(after) == _entries(step) for after in later)
        return _rungs(course, step), goes_on, step.name

    return [max(steps, key=rank)] if steps else []


def _rungs(course: Course, step: Step) -> int:
    """The number of steps in a row, back along the From lines, that share this step's entries."""
    names = _entries(step)
    ladder = reversed(course.ladder(step.name))
    return len(list(itertools.takewhile(lambda before: _entries(before) == names, ladder)))


def _entries(step: Step) -> tuple[str, ...]:
    if step.solution is None:
        return ()
    contract = parse_contract(step.solution.read_text(encoding="utf-8"), name=step.file_name)
    return tuple(str(entry) for entry in contract.entries)


def run_tour(plan: TourPlan, *, gpu: str = REPORT_GPU, say: Say = lambda _: None) -> Iterator[TourStep | Mistake]:
    """Run the steps in order and yield each when it is done; the first product with a barrier is also run without it.

    `say` is told what is happening. A kernel that fails is a step that is not right; only a machine that cannot compile
    at all ends the tour.
    """
    broken: Callable[[], Mistake] | None = None
    for step in plan.steps:
        kernel, outcome = _run_step(step, on_gpu=plan.on_gpu, gpu=gpu, say=say)
        yield outcome
        if broken is None and outcome.right and kernel is not None and _is_product_with_barrier(kernel):
            broken = _mistake(step, kernel)
    if broken is not None:
        say("leaving out a barrier, to see whether it is noticed")
        yield broken()


def _is_product_with_barrier(kernel: RecordedKernel) -> bool:
    run = kernel.last_run
    return run is not None and run.counters.fma_instructions > 0 and has_barrier(kernel.source)


def _mistake(step: Step, kernel: RecordedKernel) -> Callable[[], Mistake]:
    run, arrays = kernel.last_run, kernel.last_arrays
    assert run is not None
    return lambda: run_mistake(step.name, kernel.source, name=kernel.name, sizes=run.plan.scalars, arrays=arrays)


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
    report = figures = None
    note = ""
    if kernel is not None and kernel.last_run is not None:
        say("computing registers and occupancy")
        program = Program(kernel.contract, device="sim", constants=kernel.last_run.plan.constants)
        report = make_report(kernel.last_run, program, gpu=gpu, seconds=seconds)
        if on_gpu and failure is None:
            say("timing on the GPU")
            try:
                figures = time_on_gpu(kernel.contract, kernel.last_run.plan)
            except WarpschoolError as error:
                note = error.message
    return kernel, TourStep(
        step=step.name, title=step.title, verdict=failure.verdict if failure else Verdict.AC,
        seen=failure.seen if failure else "", line=failure.line if failure else 0, counts=counts, report=report,
        gpu=figures, gpu_note=note,
    )  # fmt: skip


def _kernel_of(step: Step, *, on_gpu: bool) -> RecordedKernel:
    """The step's reference, compiled."""
    if step.solution is None:
        raise CourseError(f"{step} has no reference")
    source = step.solution.read_text(encoding="utf-8")
    contract = parse_contract(source, name=step.file_name)
    compile_cuda(source, name=step.file_name)
    return RecordedKernel(contract, on_gpu=on_gpu)
