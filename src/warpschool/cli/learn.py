"""Commands for work on the labs: `start`, `lab`, `status`, `check`, `hint`, `diff`, `solution`."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from warpschool.cli.options import (
    CompilerChoice,
    DeviceChoice,
    OnDevice,
    Sizes,
    StepName,
    Timing,
    WithCompiler,
    course,
    read_sizes,
)
from warpschool.cli.output import BAD_INPUT, FAILED, INTERRUPTED, LACKING, OK, Output, guarded, report
from warpschool.errors import ArgumentError, CourseError, WarpschoolError
from warpschool.show.table import Cell, Table

if TYPE_CHECKING:
    from warpschool.course import Lab, Step
    from warpschool.grading import Criterion, Result, Source
    from warpschool.notebook.personal import CopyReport

_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


# ---------------------------------------------------------------- one's own copy


@guarded
def start(
    output: Output,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where your copy goes.")] = Path("my-warpschool"),
) -> None:
    """Make your own copy of the starters and notebooks; what you have edited is never overwritten.

    Run it again after an update: files that you have not touched are brought up to date; notebooks that you have edited
    get what the course has changed in other cells; otherwise the new version is put beside yours.

    Example: warpschool start ~/gpu-course
    """
    report = _updated(output, folder)
    output.data(report.to_dict())
    _show_copy(output, report)
    first = course().steps()[0]
    output.show(
        f"Next: cd {folder}, open kernels/{first.lab}/{first.file_name}, and: warpschool check lab00/01 --watch"
    )


@guarded
def lab(
    output: Output,
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Your copy; by default the one around here, or a new one.")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open a browser.")] = True,
    port: Annotated[int | None, typer.Option(metavar="N", help="Port of the server, or the next free one.")] = None,
    ip: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 in a container that publishes the port.")] = "",
    update: Annotated[bool, typer.Option("--update/--no-update", help="Whether to bring your copy up to date.")] = True,
) -> None:
    """Open JupyterLab on your own copy of the course; makes the copy if there is none.

    First it shows the labs: what each stands on, its hours, how much is done, where you are, and paths through them.

    An update never touches what you have edited: see warpschool start --help. With --json it says what it would run.

    Example: warpschool lab ~/gpu-course
    """
    from warpschool.notebook.jupyter import jupyter_command, serve
    from warpschool.notebook.personal import own_copy

    own = own_copy(folder)
    command = jupyter_command(own, browser=browser, port=port, ip=ip)
    report = _updated(output, own) if update or not own.exists() else None
    here = _show_route(output, own)
    output.data({
        "copy": str(own.resolve()), "command": command, "update": report.to_dict() if report else None, "here": here,
    })  # fmt: skip
    if output.as_json:
        return
    if report is not None:
        _show_copy(output, report)
    begin = f"Go on with labs/{here}." if here else "Everything is accepted."
    output.show(f"JupyterLab on {own}; Ctrl-C ends it. {begin}")
    raise typer.Exit(serve(command, own))


def _show_route(output: Output, own: Path) -> str:
    """The labs and where one is in them; returns that lab's name, "" where all is done or the course has no route."""
    from warpschool.grading.runner import state_of
    from warpschool.route import read_route
    from warpschool.show.route import HOURS, route_table, track_lines

    route = read_route(course())
    if route is None:
        return course().labs()[0].name
    done = {}
    for point in route.waypoints:
        states = [state_of(step, own).state for step in point.lab.steps if step.grader]
        begun = sum(state not in ("not started", "no file") for state in states)
        done[point.lab.name] = (states.count("accepted"), begun, len(states))
    here = route.here(done)
    output.table(route_table(route, done, here))
    output.show(HOURS, style="dim")
    for line in track_lines(route):
        output.show(line)
    return here.lab.name if here else ""


def _updated(output: Output, folder: Path) -> CopyReport:
    """Make the copy or bring it up to date; an interrupted one says how it is finished."""
    from warpschool.notebook.personal import update_copy

    course()  # refuses a folder of another one, before anything is written
    try:
        return update_copy(folder)
    except KeyboardInterrupt:
        output.errors.print(f"interrupted: what is written stays, and this does the rest: warpschool start {folder}")
        raise typer.Exit(INTERRUPTED) from None


def _show_copy(output: Output, report: CopyReport) -> None:
    """What an update did, as a table of the files that it did something about."""
    from warpschool.notebook.personal import Fate

    if report.is_new:
        output.show(f"{report.folder}: your copy of the course, {len(report.files)} files.")
        return
    current = report.of(Fate.current)
    rows = [(file.path, file.fate.value, file.beside) for file in report.files if file.fate is not Fate.current]
    if rows:
        output.table(Table("", ("file", "what happened", "new version"), tuple(rows)))
        output.show(f"{report.folder}: {len(rows)} files in the table, {len(current)} as they were delivered.")
        return
    output.show(f"{report.folder}: up to date, {len(current)} files as they were delivered.")


@guarded
def status(output: Output) -> None:
    """Show how far you are: every step of your copy, and the last check of the file as it is now.

    Example: warpschool status
    """
    from warpschool.grading.runner import state_of
    from warpschool.harness.source import personal_copy

    rows = [state_of(step) for step in course().steps() if step.grader]
    own = personal_copy(Path.cwd())
    answered = _answered()
    output.data({"copy": str(own) if own else None, "steps": [asdict(row) for row in rows], "questions": answered})
    kinds = {"accepted": "good", "not started": "soft", "no file": "soft"}
    cells = [(row.step, Cell(row.state, kinds.get(row.state, "warn")), row.points) for row in rows]
    output.table(Table("", ("step", "state", "points"), tuple(cells), frozenset(["points"])))
    done = sum(row.state == "accepted" for row in rows)
    where = own or "the checkout's kernels/ or nothing: warpschool start makes a copy"
    output.show(f"{done} of {len(rows)} steps accepted. Your copy: {where}", style="dim")
    begun = [f"{lab[:5]} {right} of {all_of_them}" for lab, (right, all_of_them) in answered.items() if right]
    output.show(f"Questions answered right (warpschool quiz LAB): {', '.join(begun) or 'none yet'}", style="dim")


def _answered() -> dict[str, tuple[int, int]]:
    """Lab -> (questions answered right, questions), of the labs that have some."""
    from warpschool.questions import progress, questions

    found = {lab.name: questions(lab, course()) for lab in course().labs()}
    return {name: (sum(progress(q).right for q in asked), len(asked)) for name, asked in found.items() if asked}


# ---------------------------------------------------------------- a step's check


@guarded
def check(
    output: Output,
    step: StepName,
    kernel: Annotated[
        Path | None, typer.Option("--kernel", metavar="FILE", help="The file to check instead of yours.")
    ] = None,
    device: OnDevice = DeviceChoice.auto,
    compiler: WithCompiler = CompilerChoice.auto,
    seed: Annotated[int | None, typer.Option(help="Seed of the random inputs.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Check again whenever the file is saved; Ctrl-C ends it.")
    ] = False,
    timing: Timing = None,
) -> None:
    """Grade your kernel for a step: verdict, points, what was seen and where, and the first hint. A lab: all its steps.

    Without --kernel it takes the step's file of your own copy (warpschool start) at or above this folder. More hints:
    warpschool hint STEP 2. The reference, when you give up or have finished: warpschool solution STEP.

    Example: warpschool check lab02/01 --watch, or for another file: warpschool check lab02/01 --kernel my.cu
    """
    if step.endswith(".cu") and Path(step).is_file():
        advice = f"Name the step too: warpschool check {_step_of(Path(step))} --kernel {step}"
        raise ArgumentError(f"{step} is a file, not a step", next_step=advice)
    if lab := _asked_lab(step):
        if kernel or watch or timing:
            raise ArgumentError(
                f"{lab.name} is a lab: --kernel, --watch and --time take one step", next_step=_steps_of(lab)
            )
        _ask_for_compiler()
        raise typer.Exit(_check_lab(output, lab, device, seed))
    found = course().step(step)
    if not found.is_program:
        _ask_for_compiler()
    if watch and output.as_json:
        raise ArgumentError("--watch and --json exclude each other")
    if watch:
        _watch(output, found, kernel, device, seed, timing)
        return
    raise typer.Exit(_check_once(output, found, _find(found, kernel), device, seed, timing))


def _ask_for_compiler() -> None:
    """Raise CompilerMissing here: a child's would be a verdict, and blame the grader."""
    from warpschool.compile import find_compiler

    find_compiler()


def _step_of(path: Path) -> str:
    """The step that a file is most likely for: that of its name and folder, else any."""
    try:
        return course().step(f"{path.resolve().parent.name}/{path.stem}").name
    except CourseError:
        return "lab02/01"


@guarded
def hint(
    output: Output,
    step: StepName,
    level: Annotated[
        int, typer.Argument(metavar="LEVEL", min=1, max=3, help="1 a nudge, 2 where to look, 3 pseudocode.")
    ] = 1,
) -> None:
    """Show hints for a step: a nudge, then where to look, then pseudocode.

    After a check, only for what failed; before any, for everything that is graded.

    Example: warpschool hint lab02/01 2
    """
    from warpschool.grading.runner import hints_for

    found = course().step(step)
    hints, after_check = hints_for(found)
    shown = {title: list(texts[:level]) for title, texts in hints.items()}
    output.data({"step": found.name, "level": level, "after_check": after_check, "hints": shown})
    if not shown:
        output.show(f"{found.name}: everything is right, there is nothing to hint at.")
    for title, texts in shown.items():
        output.show((title, "bold"))
        for number, text in enumerate(texts, start=1):
            output.show(f"  {number}. {text}")
        if not texts:
            output.show("  no hints for this one")
    if shown and level < 3:
        output.show(f"More: warpschool hint {_short(found)} {level + 1}", style="dim")


def exit_code_of(result: Result) -> int:
    """The exit code of a verdict."""
    return {"AC": OK, "BAD": BAD_INPUT, "SE": LACKING, "SKIP": LACKING}.get(str(result.verdict), FAILED)


def _is_skipped(result: Result) -> bool:
    """Whether this machine cannot check the step at all: nothing is wrong with the kernel."""
    return str(result.verdict) == "SKIP"


def show_result(output: Output, result: Result, source: str) -> None:
    """Verdict, points, findings on their lines, hints."""
    from warpschool.cli.draw import draw_observed  # first: Python forgets no Ctrl-C that comes while a module is made

    style = "bold green" if result.ok else "bold yellow" if _is_skipped(result) else "bold red"
    output.show(
        (result.step, "bold"), ": ", (f"{result.verdict}, {result.verdict.meaning}", style),
        f", {result.score:g} of {result.max_score:g} points",
    )  # fmt: skip
    output.show(f"checked: {result.source.get('name', '')} ({result.source.get('origin', '')})", style="dim")
    if result.not_on_gpu:
        output.show(f"on the simulator alone, as this GPU cannot run it: {result.not_on_gpu}", style="dim")
    for warning in result.warnings:
        output.show(("the compiler warns: ", "yellow"), warning)
    if result.seen:
        output.show()
        draw_observed(output, source, result)
        output.show()
        return
    shown: set[tuple[str, int]] = set()
    hinted: set[tuple[str, ...]] = set()
    for criterion in result.criteria:
        key = (str(criterion.verdict), criterion.line)
        _show_criterion(output, criterion, source, in_full=key not in shown, with_hint=criterion.hint not in hinted)
        if not criterion.ok and criterion.is_judged:
            shown.add(key)
            hinted.add(criterion.hint)


def _show_criterion(output: Output, criterion: Criterion, source: str, *, in_full: bool, with_hint: bool) -> None:
    """One criterion; of one that failed at the line of another in the same way, what it saw itself, in a line."""
    from warpschool.cli.draw import draw_observed
    from warpschool.show.notes import briefly

    if not criterion.is_judged:
        output.show(Text("not judged      ", style="bold yellow"), criterion.title)
        output.show("    ", criterion.seen, style="dim")
        return
    mark = Text("ok", style="bold green") if criterion.ok else Text(str(criterion.verdict), style="bold red")
    mark.pad_right(max(0, 7 - len(mark)))
    points = f"{criterion.points:g}/{criterion.weight:g}  "
    output.show(mark, points, (criterion.title, "" if criterion.ok else "bold"))
    if criterion.ok:
        return
    is_counted = str(criterion.verdict) == "PERF"
    if in_full or (is_counted and criterion.line):
        draw_observed(output, source, criterion)
    else:
        output.show("    ", briefly(criterion))
    if in_full and criterion.wrong is not None and criterion.wrong.wrong < criterion.wrong.count:
        for row in str(criterion.wrong).splitlines():
            output.show("    ", row, style="dim")
    if criterion.counts and is_counted:
        output.show(f"    counted: {criterion.counts}", style="dim")
    if criterion.hint and with_hint:
        output.show(("    hint: ", "bold cyan"), criterion.hint[0])


def _check_once(
    output: Output, step: Step, source: Source, device: str, seed: int | None, timing: bool | None, *, path: str = ""
) -> int:  # fmt: skip
    """Check and show; with the file's `path` also in lines for an editor."""
    from warpschool.grading.runner import check_and_remember
    from warpschool.show.problems import problem_lines

    result = check_and_remember(step, source, device=str(device), seed=seed)
    wanted = timing if timing is not None else device == DeviceChoice.gpu
    told = None
    if wanted and result.ok:
        from warpschool.tour.timed import timed

        told = timed(step, source.text, device=str(device))
    output.data(result.to_json() if told is None else {**result.to_dict(), "timed": told.to_dict()})
    show_result(output, result, source.data.decode("utf-8", errors="replace"))
    for line in problem_lines(result, path) if path else ():
        output.show(line)
    hinted = any(criterion.hint for criterion in result.criteria if not criterion.ok and criterion.is_judged)
    if hinted and not result.ok and not _is_skipped(result):
        output.show(f"The next hint: warpschool hint {_short(step)} 2", style="dim")
    if told is not None:
        output.show(str(told))
    return exit_code_of(result)


def _asked_lab(name: str) -> Lab | None:
    """The lab that a name without a step means, if it means one."""
    if "/" in name:
        return None
    with suppress(CourseError):
        return course().lab(name)
    return None


def _steps_of(lab: Lab) -> str:
    return f"Its steps: {', '.join(_short(step) for step in lab.steps)}."


def _check_lab(output: Output, lab: Lab, device: str, seed: int | None) -> int:
    """Check what there is of a lab, a line for each step as it is done."""
    from warpschool.grading.runner import check_and_remember

    results, codes = [], []
    for step in lab.steps:
        if step.grader is None:
            continue
        result = check_and_remember(step, _find(step, None), device=str(device), seed=seed)
        style = "green" if result.ok else "yellow" if _is_skipped(result) else "red"
        told = f"{result.verdict}, {result.verdict.meaning}"
        output.show(f"{step.name:36s} {result.score:g}/{result.max_score:g}  ", (told, style))
        results.append(result)
        codes.append(exit_code_of(result))
    output.data({"lab": lab.name, "steps": [json.loads(result.to_json()) for result in results]})
    right = sum(result.ok for result in results)
    output.show(f"{right} of {len(results)} steps accepted. What one lacks: warpschool check STEP", style="dim")
    return max(codes, default=OK)


def _find(step: Step, kernel: Path | None) -> Source:
    from warpschool.harness.source import find_source, read_source

    if kernel is not None and not kernel.is_fifo():  # of the shell's <(...), what was read once is gone
        read_source(kernel)  # says more about a file that cannot be a kernel than a verdict could
    return find_source(step, kernel, otherwise="Name a file: --kernel FILE.cu")


def _watch(
    output: Output, step: Step, kernel: Path | None, device: str, seed: int | None, timing: bool | None
) -> None:
    """Check whenever the source changes, until Ctrl-C."""
    from warpschool.grading.runner import saved_sources

    if kernel is not None and kernel.is_fifo():
        raise ArgumentError(f"--watch waits for a file to be saved, and {kernel} is a pipe", next_step="Name a file.")
    try:
        for source in saved_sources(lambda: _find(step, kernel)):
            try:
                if isinstance(source, WarpschoolError):
                    raise source
                output.show(f"--- {time.strftime('%H:%M:%S')} ---", style="dim")
                _check_once(output, step, source, device, seed, timing, path=_path_of(step, kernel))
                output.show("watching; Ctrl-C ends", style="dim")
            except WarpschoolError as error:
                report(error, output)
    except KeyboardInterrupt:
        output.show("ended")


def _path_of(step: Step, kernel: Path | None) -> str:
    """The file that is watched, from here if it lies below; "" for a notebook's cell without a file."""
    from warpschool.harness.source import own_file_of, personal_copy

    path = kernel or own_file_of(step, personal_copy(Path.cwd())) or step.starter
    if path is None:
        return ""
    path, here = path.resolve(), Path.cwd().resolve()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()


def _short(step: Step) -> str:
    return f"{step.lab[:5]}/{step.idea[:2]}"


# ---------------------------------------------------------------- what others wrote


@guarded
def diff(
    output: Output,
    first: Annotated[str, typer.Argument(metavar="A", help="A step or a file.")],
    second: Annotated[str | None, typer.Argument(metavar="B", help="Another; without it, A's starter.")] = None,
    solutions: Annotated[
        bool, typer.Option("--solutions", help="Of steps, take the references, not your files.")
    ] = False,
    size: Sizes = None,
    counters: Annotated[
        bool, typer.Option("--counters/--no-counters", help="Whether to run both and compare what they count.")
    ] = True,
) -> None:
    """Show what changes between two steps or files: between two steps of a ladder, that is the idea.

    Of the code, without headers and markers; and what that does to the counters of a run, as `ws.diff` shows it. Of
    two whole programs: what each kernel counts, and its predicted time.

    Example: warpschool diff lab01/01 lab02/01 --solutions
    """
    from warpschool.cli.programs import compare, is_program
    from warpschool.harness.source import Kind, of_course, resolve
    from warpschool.inspect.difference import difference
    from warpschool.show.diff import difference_exhibit

    files = [Path(name) for name in (first, second or "") if name.endswith(".cu") and Path(name).is_file()]
    if len(files) == 2 and all(is_program(path.read_text("utf-8", "replace")) for path in files):
        compare(output, *files)
        return
    kind: Kind = "reference" if solutions else "begun"
    own = resolve(first, kind)
    if second is None:
        a, b, names = of_course(course().step(first), "starter"), own, (f"{first}, as given", first)
    else:
        a, b, names = own, resolve(second, kind), (first, second)
    found = difference(a, b, read_sizes(size), count=counters)
    output.data({"a": a.label, "b": b.label, "diff": found.text, **found.to_dict()})
    for line in found.text.splitlines():
        output.show(line, style=_DIFF_STYLES.get(line[:1], ""))
    exhibit = difference_exhibit(found, names)
    output.show(exhibit.finding, style="bold")
    for sheet in exhibit.sheets:
        output.table(sheet)
    if exhibit.note:
        output.show(exhibit.note, style="dim")


@guarded
def solution(
    output: Output,
    step: StepName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Print a step's reference, after asking: a solution can be read only once for the first time.

    Example: warpschool solution lab02/01
    """
    from warpschool.harness.source import of_course

    found = course().step(step)
    text = of_course(found, "reference").text
    if not yes:
        if output.as_json or not sys.stdin.isatty():
            raise ArgumentError("nobody is there to be asked", next_step="If you mean it: --yes")
        if not typer.confirm(f"Show the whole solution of {found}? Hints come first: warpschool hint {found.name} 1"):
            raise typer.Exit(BAD_INPUT)
    output.data({"step": found.name, "source": text})
    if output.plain:
        output.show(text.rstrip("\n"))
        return
    from warpschool.show.source import coloured_text

    for line in text.splitlines():
        output.show(coloured_text(line))
