"""`warpschool check` and `warpschool hint`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from warpschool.cli.failures import BAD_INPUT, FAILED, LACKING, OK, guarded, report
from warpschool.cli.files import read_source
from warpschool.cli.options import AsJson, DeviceChoice, OnDevice, Plain, StepName
from warpschool.cli.output import Output
from warpschool.errors import ArgumentError, WarpschoolError

if TYPE_CHECKING:
    from warpschool.course import Step
    from warpschool.grading import Criterion, Result, Source

_POLL_S = 0.3


@guarded
def check(
    step: StepName,
    kernel: Annotated[
        Path | None, typer.Option("--kernel", metavar="FILE", help="The file to check instead of yours.")
    ] = None,
    device: OnDevice = DeviceChoice.auto,
    seed: Annotated[int | None, typer.Option(help="Seed of the random inputs.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Check again whenever the file is saved; Ctrl-C ends it.")
    ] = False,
    as_json: AsJson = False,
    plain: Plain = False,
) -> None:
    """Grade your kernel for a step: verdict, points, what was seen and where, and the first hint.

    Without --kernel it takes the step's file of your own copy (warpschool start) at or above this folder. More hints:
    warpschool hint STEP 2. The reference, when you give up or have finished: warpschool solution STEP.

    Example: warpschool check lab02/01 --watch, or for another file: warpschool check lab02/01 --kernel my.cu
    """
    from warpschool.course import Course

    output = Output(as_json=as_json, plain=plain)
    if step.endswith(".cu") and Path(step).is_file():
        advice = f"Name the step too: warpschool check {_step_of(Path(step))} --kernel {step}"
        raise ArgumentError(f"{step} is a file, not a step", next_step=advice)
    found = Course.find().step(step)
    if watch and as_json:
        raise ArgumentError("--watch and --json exclude each other")
    if watch:
        _watch(output, found, kernel, device, seed)
        return
    raise typer.Exit(_check_once(output, found, kernel, device, seed))


def _step_of(path: Path) -> str:
    """The step that a file is most likely for: that of its name and folder, else any."""
    from warpschool.course import Course
    from warpschool.errors import CourseError

    try:
        return Course.find().step(f"{path.resolve().parent.name}/{path.stem}").name
    except CourseError:
        return "lab02/01"


@guarded
def hint(
    step: StepName,
    level: Annotated[
        int, typer.Argument(metavar="LEVEL", min=1, max=3, help="1 a nudge, 2 where to look, 3 pseudocode.")
    ] = 1,
    as_json: AsJson = False,
    plain: Plain = False,
) -> None:
    """Show hints for a step: a nudge, then where to look, then pseudocode.

    After a check, only for what failed; before any, for everything that is graded.

    Example: warpschool hint lab02/01 2
    """
    from warpschool.cli.results import last_result
    from warpschool.course import Course
    from warpschool.grading import criteria_of, find_source

    output = Output(as_json=as_json, plain=plain)
    found = Course.find().step(step)
    criteria = {info.title: info.hint for info in criteria_of(found)}
    try:
        result = last_result(found.name, find_source(found))
    except WarpschoolError:
        result = None  # nobody has started: hints are for everything
    if result is not None:
        criteria = {c.title: c.hint for c in result.criteria if not c.ok}
    shown = {title: list(hints[:level]) for title, hints in criteria.items()}
    output.data({"step": found.name, "level": level, "after_check": result is not None, "hints": shown})
    if not shown:
        output.show(f"{found.name}: everything is right, there is nothing to hint at.")
    for title, hints in shown.items():
        output.show((title, "bold"))
        for number, text in enumerate(hints, start=1):
            output.show(f"  {number}. {text}")
        if not hints:
            output.show("  no hints for this one")
    if shown and level < 3:
        output.show(f"More: warpschool hint {_short(found)} {level + 1}", style="dim")


def exit_code_of(result: Result) -> int:
    """The exit code of a verdict."""
    verdict = str(result.verdict)
    return {"AC": OK, "BAD": BAD_INPUT, "SE": LACKING, "SKIP": LACKING}.get(verdict, FAILED)


def _is_skipped(result: Result) -> bool:
    """Whether this machine cannot check the step at all: nothing is wrong with the kernel."""
    return str(result.verdict) == "SKIP"


def show_result(output: Output, result: Result, source: str) -> None:
    """Verdict, points, findings on their lines, hints."""
    style = "bold green" if result.ok else "bold yellow" if _is_skipped(result) else "bold red"
    output.show(
        (result.step, "bold"), ": ", (f"{result.verdict}, {result.verdict.meaning}", style),
        f", {result.score:g} of {result.max_score:g} points",
    )  # fmt: skip
    output.show(f"checked: {result.source.get('name', '')} ({result.source.get('origin', '')})", style="dim")
    if result.not_on_gpu:
        output.show(f"on the simulator alone, as this GPU cannot run it: {result.not_on_gpu}", style="dim")
    from warpschool.cli.draw import draw_finding

    if result.seen:
        output.show()
        draw_finding(output, source, result.line, result.seen)
        output.show()
        return
    shown: dict[tuple[str, int], str] = {}
    for criterion in result.criteria:
        key = (str(criterion.verdict), criterion.line)
        _show_criterion(output, criterion, source, like=shown.get(key, ""))
        shown.setdefault(key, criterion.title)


def _show_criterion(output: Output, criterion: Criterion, source: str, *, like: str) -> None:
    """One criterion; one that failed like an earlier one (`like`) at the same line is told in a line."""
    from warpschool.cli.draw import draw_finding
    from warpschool.show.notes import split_case

    mark = Text("ok", style="bold green") if criterion.ok else Text(str(criterion.verdict), style="bold red")
    mark.pad_right(max(0, 7 - len(mark)))
    points = f"{criterion.points:g}/{criterion.weight:g}  "
    output.show(mark, points, (criterion.title, "" if criterion.ok else "bold"))
    if criterion.ok:
        return
    if like:
        case, _ = split_case(criterion.seen)
        where = f" in line {criterion.line}" if criterion.line else ""
        output.show(f"    the same{where} as in '{like}'{f', at {case}' if case else ''}", style="dim")
        return
    draw_finding(output, source, criterion.line, criterion.seen)
    if criterion.wrong is not None and criterion.wrong.wrong < criterion.wrong.count:
        for row in str(criterion.wrong).splitlines():
            output.show("    ", row, style="dim")
    if criterion.counts and str(criterion.verdict) == "PERF":
        output.show(f"    counted: {criterion.counts}", style="dim")
    if criterion.hint:
        output.show(("    hint: ", "bold cyan"), criterion.hint[0])


def _check_once(
    output: Output, step: Step, kernel: Path | None, device: str, seed: int | None, *, source: Source | None = None
) -> int:
    from warpschool.cli.results import remember
    from warpschool.grading.runner import DEFAULT_SEED, check_source

    source = source or _find(step, kernel)
    result = check_source(step, source, device=str(device), seed=DEFAULT_SEED if seed is None else seed)
    remember(result)
    output.data(result.to_json())
    show_result(output, result, source.data.decode("utf-8", errors="replace"))
    hinted = any(criterion.hint for criterion in result.criteria if not criterion.ok)
    if hinted and not result.ok and not _is_skipped(result):
        output.show(f"The next hint: warpschool hint {_short(step)} 2", style="dim")
    return exit_code_of(result)


def _find(step: Step, kernel: Path | None) -> Source:
    from warpschool.grading import find_source

    if kernel is not None:
        read_source(kernel)  # says more about a file that cannot be a kernel than a verdict could
    return find_source(step, kernel, otherwise="Name a file: --kernel FILE.cu")


def _watch(output: Output, step: Step, kernel: Path | None, device: str, seed: int | None) -> None:
    """Check whenever the source changes, until Ctrl-C. A file that is gone while an editor saves it is waited for."""
    last, complaint = "", ""
    try:
        while True:
            try:
                source = _find(step, kernel)
                if source.sha256 != last:
                    last, complaint = source.sha256, ""
                    output.show(f"--- {time.strftime('%H:%M:%S')} ---", style="dim")
                    _check_once(output, step, kernel, device, seed, source=source)
                    output.show("watching; Ctrl-C ends", style="dim")
            except WarpschoolError as error:
                if str(error) != complaint:
                    complaint, last = str(error), ""
                    report(error, output)
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        output.show("ended")


def _short(step: Step) -> str:
    return f"{step.lab[:5]}/{step.idea[:2]}"
