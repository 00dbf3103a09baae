"""Commands for teachers: a class on nbgrader, folders of kernels, likeness, new labs."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from warpschool.atomic import write_file
from warpschool.cli.options import (
    DeviceChoice,
    OnDevice,
    Scheduler,
    SecretFile,
    Slurm,
    StoreFolder,
    Timing,
    Workers,
    course,
    require_writable_target,
)
from warpschool.cli.output import BAD_INPUT, INTERRUPTED, LACKING, Output, guarded, save
from warpschool.errors import ArgumentError, CourseError, ToolMissing
from warpschool.show.progress import Bar
from warpschool.show.table import Cell, Table

if TYPE_CHECKING:
    from warpschool.classroom.export import Line
    from warpschool.classroom.nbgrader_app import ClassApp
    from warpschool.classroom.rounds import Change, Round, Where
    from warpschool.grading import Result
    from warpschool.grading.folders import Submitted
    from warpschool.grading.records import Record
    from warpschool.grading.result import Timed
    from warpschool.grading.verdicts import Verdict

ClassOption = Annotated[
    Path, typer.Option("--class", metavar="DIR", help="The class's folder; by default the one around here.")
]
LabName = Annotated[str, typer.Argument(metavar="LAB", help="An assignment of the class: lab02_tiling, or lab02.")]
Students = Annotated[
    list[str] | None, typer.Option("--student", metavar="ID", help="Only this student; repeat it for several.")
]
HERE = Path(".")
FORMAT = 1
_INSTALL = "Install it with: pip install 'warpschool[teach]'"


GradesFormat = StrEnum("GradesFormat", ["csv", "canvas", "moodle"])
"""What `export` writes."""

# ---------------------------------------------------------------- a class


@guarded
def quickstart(
    output: Output,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The class's new folder.")],
    name: Annotated[str, typer.Option("--name", help="nbgrader's course id; by default the folder's name.")] = "",
) -> None:
    """Make a class's folder: the labs as nbgrader's source, its configuration, and grading.toml.

    What is there already is never overwritten; run it again after an update to get new labs.

    Example: warpschool quickstart gpu-course
    """
    _require_nbgrader()
    from warpschool.classroom.config import make_class

    added, kept = make_class(folder, course(), name=name)
    output.data({"folder": str(folder.resolve()), "added": added, "kept": kept})
    output.show(f"{folder}: {len(added)} files added, {len(kept)} left as they are.")
    output.show(f"Next: cd {folder}, look at grading.toml, and: warpschool release lab00")


@guarded
def release(output: Output, lab: LabName, folder: ClassOption = HERE) -> None:
    """Make the students' version of a lab, the same bytes as formgrader's Generate button.

    Refused where the notebook holds a solution, or points that do not add up. After a change of points, release again
    and grade with --regrade.

    Example: warpschool release lab02
    """
    app, name = _class(folder, lab)
    app.convert("release", name)
    path = app.folder.root / str(app.coursedir.release_directory) / name / f"{name}.ipynb"
    assignment = app.folder.assignment(name)
    output.data({"assignment": name, "notebook": str(path), "points": assignment.points})
    output.show("Released: ", (str(path), "bold"), f" ({assignment.points:g} points)")
    output.show(f"Hand it out, or: nbgrader release_assignment {name}", style="dim")


@guarded
def rubric(
    output: Output,
    lab: Annotated[str, typer.Argument(metavar="LAB", help="A lab: lab02_tiling, or lab02.")],
) -> None:
    """Print what good answers to a lab's questions say: for the people who grade them, not for students.

    Formgrader shows the same below each question, as its mark scheme.

    Example: warpschool rubric lab02
    """
    from warpschool.grading.assignment import read_rubrics

    found = course().lab(lab)
    rubrics = read_rubrics(course(), found.name)
    if not rubrics:
        raise CourseError(f"{found} has no rubric", next_step=f"Write grader/{found}/rubric.md.")
    output.data({"lab": found.name, "rubrics": rubrics})
    for name, text in rubrics.items():
        output.heading(name)
        output.show(text)


@guarded
def import_(
    output: Output,
    archive: Annotated[Path, typer.Argument(metavar="ZIP", help="All submissions, as Canvas or Moodle gave them.")],
    lab: LabName,
    folder: ClassOption = HERE,
    students: Annotated[
        Path | None, typer.Option("--students", metavar="FILE", help="Lines of: name in the zip,student id.")
    ] = None,
) -> None:
    """Put the submissions of a zip from Canvas or Moodle into the class's folder.

    Taken are each student's newest notebook and PDF; nothing of the zip is trusted.

    Example: warpschool import submissions.zip lab02
    """
    app, name = _class(folder, lab)
    from warpschool.classroom.imports import import_zip, read_students

    names = read_students(students) if students is not None else {}
    done = import_zip(archive, app.folder.root / app.folder.submitted, name, students=names)
    output.data({"assignment": name, "taken": {k: list(v) for k, v in done.taken.items()}, "left": dict(done.left)})
    output.show(f"{len(done.taken)} students handed in {name}.")
    for member, why in done.left.items():
        output.show(f"  left: {member}: {why}", style="yellow")
    if not done.taken:
        raise typer.Exit(BAD_INPUT)
    output.show(f"Next: warpschool grade {name}")


@guarded
def feedback(output: Output, lab: LabName, folder: ClassOption = HERE, student: Students = None) -> None:
    """Write each student's feedback page: points, what was seen on which line, hints; nothing that is for graders only.

    Example: warpschool feedback lab02
    """
    app, name = _class(folder, lab)
    _show_judge(output)
    pages = app.write_feedback(name, student or ())
    target = app.feedback_folder
    output.data({"course": _judge(), "assignment": name, "pages": [str(path) for path in pages]})
    output.show(f"{len(pages)} pages: ", (f"{target}/STUDENT/{name}/{name}.html", "bold"))
    output.show(f"Students get them with: nbgrader release_feedback {name}", style="dim")


@guarded
def export(
    output: Output,
    labs: Annotated[list[str] | None, typer.Argument(metavar="[LAB]...", help="Assignments; by default all.")] = None,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The file to write.")] = Path("grades.csv"),
    form: Annotated[GradesFormat, typer.Option("--format", help="Whose file it is to be.")] = GradesFormat.csv,
    template: Annotated[
        Path | None, typer.Option("--template", metavar="FILE", help="For canvas: the gradebook that Canvas exported.")
    ] = None,
    incomplete: Annotated[
        bool, typer.Option("--incomplete", help="Leave open what waits for a person, and write the rest.")
    ] = False,
    folder: ClassOption = HERE,
) -> None:
    """Write the grades, late penalties computed anew, for a spreadsheet, Canvas or Moodle.

    Example: warpschool export lab02 --format moodle --to grades.csv
    """
    require_writable_target(to)
    if (form is GradesFormat.canvas) != (template is not None):
        raise ArgumentError("--format canvas and --template belong together", next_step="Canvas: Grades, Export.")
    app, names = _classes(folder, labs or [])
    _show_judge(output)
    from warpschool.classroom import export as formats

    app.recompute_penalties(names)
    with app.gradebook() as gradebook:
        lines = formats.grade_lines(gradebook, app.folder, names)
    waiting = [line for line in lines if line.waits]
    if waiting and not incomplete:
        raise ArgumentError(_waiting(waiting), next_step="Grade them in formgrader, or leave them open: --incomplete")
    if template is not None:
        text = formats.as_canvas(lines, formats.read_template(template))
    else:
        text = formats.FORMATS[form](lines)
    write_file(to, text)
    noted = [line for line in lines if line.notes]
    output.data({
        "course": _judge(), "file": str(to), "grades": len(lines), "waiting": len(waiting),
        "notes": [[line.student, line.assignment, *line.notes] for line in noted],
    })  # fmt: skip
    output.show(f"{len(lines)} grades: ", (str(to), "bold"))
    for line in noted:
        output.show(f"  {line.student}: {line.assignment}: {'; '.join(line.notes)}", style="dim")
    if waiting:
        output.show(_waiting(waiting), style="yellow")


# ---------------------------------------------------------------- grading


@guarded
def grade(
    output: Output,
    target: Annotated[
        str,
        typer.Argument(
            metavar="LAB|DIR",
            help="An assignment of the class around here, or a folder of STUDENT/labNN_topic/NN_idea.cu or .ipynb.",
        ),
    ],
    student: Students = None,
    regrade: Annotated[
        bool, typer.Option("--regrade", help="Grade what is graded already, too, and name every changed score.")
    ] = False,
    class_folder: ClassOption = HERE,
    step: Annotated[str | None, typer.Option("--step", metavar="STEP", help="All files are for this step.")] = None,
    device: OnDevice = DeviceChoice.sim,
    seed: Annotated[int | None, typer.Option(help="Seed of the random inputs; the same for everybody.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write all results as JSON.")] = None,
    workers: Workers = 1,
    scheduler: Scheduler = None,
    slurm: Slurm = False,
    store: StoreFolder = None,
    secret_seed_file: SecretFile = None,
    timing: Timing = None,
) -> None:
    """Grade a class's assignment into nbgrader's gradebook, or a folder of kernels and notebooks.

    Of an assignment: what is new or changed since it was graded; no student's Python is run for a kernel's points.
    Of a folder: one result for each file (--step, --device, --seed, --out, --store, --secret-seed-file and --time are
    for this). A wrong kernel is a result, not a failure of this command. Equal kernels are checked once. Finished
    results are kept: after Ctrl-C, a crash or a kill the same command does the rest.

    Example: warpschool grade lab02 --workers 2; or: warpschool grade submissions/ --out results.json
    """
    from warpschool.grading.folders import find_submissions, grade_submissions, offers

    if sys.platform != "linux":
        raise ArgumentError(
            f"on {sys.platform} nothing confines what others hand in: classes are graded on Linux",
            next_step="Grade in a Linux container. Your own kernels: warpschool check STEP.",
        )
    if scheduler and slurm:
        raise ArgumentError("--scheduler and --slurm exclude each other")
    if not Path(target).is_dir():
        if timing:
            raise ArgumentError("--time is for a folder of kernels", next_step="warpschool grade submissions/ --time")
        from warpschool.classroom.rounds import Where

        where = Where(workers, scheduler, slurm)
        _grade_lab(target, folder=class_folder, students=student or [], regrade=regrade, where=where, output=output)
        return
    if out is not None:
        require_writable_target(out)
    _show_judge(output)
    found, foreign = find_submissions(Path(target), course(), step)
    results = grade_submissions(
        found, device=str(device), seed=seed or 0, secret_file=secret_seed_file, store=store, workers=workers,
        scheduler=scheduler, slurm=slurm,
    )  # fmt: skip
    done: dict[Submitted, Result] = {}
    interrupted = False
    with output.progress(len(found), transient=False) as bar:
        shown = _Verdicts(bar)
        try:
            for item, result in results:
                done[item] = result
                shown.done(result.verdict)
        except KeyboardInterrupt:
            interrupted = True
    graded = [(item, done[item]) for item in found if item in done]
    told = _timed(graded, str(device)) if timing and not interrupted else {}
    listed = [
        {"student": item.student, "file": str(item.path), "result": _with_time(result, told.get(item))}
        for item, result in graded
    ]
    offered = offers(Path(target), foreign, course())
    document = {
        "format": FORMAT, "course": _judge(), "planned": len(found), "results": listed, "foreign": foreign,
        "offered": {name: list(steps) for name, steps in offered.items()},
    }  # fmt: skip
    output.data(document)
    _show_folder(output, graded, foreign)
    for item, one in told.items():
        output.show(f"{item.student} {item.step.name}: {one}")
    for name, steps in offered.items():
        output.show(f"{name} looks like {' or '.join(steps[:3])}: name it so, then grade again", style="yellow")
    if out is not None:
        save(output, out, json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "Results")
    if interrupted:
        output.errors.print(Text(f"interrupted: {len(graded)} of {len(found)} files are graded", style="bold"))
        raise typer.Exit(INTERRUPTED)
    if any(not result.is_grade for _, result in graded):
        output.errors.print(Text("some checks failed themselves (SE): these are no grades; run the same command again"))
        raise typer.Exit(LACKING)


def _timed(graded: list[tuple[Submitted, Result]], device: str) -> dict[Submitted, Timed]:
    """Times of the accepted kernels beside their references; equal ones are timed once."""
    from warpschool.tour.timed import timed

    known: dict[tuple[str, bytes], Timed] = {}
    found = {}
    for item, _ in ((item, result) for item, result in graded if result.ok):
        key = (item.step.name, item.data)
        if key not in known:
            known[key] = timed(item.step, item.data.decode("utf-8", "replace"), device=device)
        found[item] = known[key]
    return found


def _with_time(result: Result, told: Timed | None) -> dict[str, Any]:
    return result.to_dict() | ({"timed": told.to_dict()} if told is not None else {})


def _show_folder(output: Output, graded: list[tuple[Submitted, Result]], foreign: list[str]) -> None:
    rows = tuple(
        (
            item.student, item.step.name, Cell(str(result.verdict), "good" if result.ok else "bad"),
            f"{result.score:g}" if result.is_grade else "?",  # a fault of the grader is no 0
            f"{result.max_score:g}",
        )
        for item, result in graded
    )  # fmt: skip
    output.table(Table("", ("student", "step", "verdict", "points", "of"), rows, frozenset(["points", "of"])))
    _show_costs(output, [(item.student, result) for item, result in graded])
    if foreign:
        output.show(f"Left alone, for they belong to no graded step: {', '.join(foreign)}", style="yellow")


def _show_costs(output: Output, results: list[tuple[str, Result]]) -> None:
    """The dearest checks, and what this machine lacks to close them off."""
    from warpschool.grading.confinement import confinement_problem
    from warpschool.grading.costs import most_expensive

    rows = tuple(
        (who, result.step, f"{cost.share:.0%}", f"{cost.executed:,}", f"{cost.translated:,}", f"{cost.launches:,}")
        for who, result, cost in most_expensive(results)
    )
    if rows:
        output.heading("Most expensive")
        head = ("student", "step", "of a budget", "executed", "translated", "launches")
        output.table(Table("", head, rows, frozenset(head[2:])))
    if problem := confinement_problem():
        output.show(f"Note: {problem}.", style="yellow")


class _Verdicts:
    """How many submissions have which verdict, beside a bar."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar
        self.counts: Counter[str] = Counter()

    def done(self, verdict: Verdict) -> None:
        """One more submission has its verdict."""
        self.counts[str(verdict)] += 1
        text = Text()
        for name, count in sorted(self.counts.items(), key=lambda item: (-item[1], item[0])):
            style = {"AC": "bold green", "SE": "bold magenta"}.get(name, "red")
            text.append(f"{name} ", style=style).append(f"{count}  ")
        self.bar.aside(text)
        self.bar.advance()


def _grade_lab(lab: str, *, folder: Path, students: list[str], regrade: bool, where: Where, output: Output) -> None:
    """Grade an assignment of a class into its gradebook; the class part of `warpschool grade`."""
    app, name = _class(folder, lab)
    _show_judge(output)
    from warpschool.classroom.rounds import grade_class

    shown: list[_Verdicts] = []
    with ExitStack() as stack:

        def begin(jobs: int, _submissions: int) -> None:
            shown.append(_Verdicts(stack.enter_context(output.progress(jobs, transient=False))))

        def tell(what: str, of: Any) -> None:
            if what == "job":
                shown[0].done(of.verdict)

        done = grade_class(app, name, students=students, regrade=regrade, where=where, begin=begin, tell=tell)
    output.data({
        "course": _judge(), "assignment": done.assignment,
        "graded": {s: json.loads(r.to_json()) for s, r in done.graded.items()},
        "waits": {s: list(cells) for s, cells in done.waits.items()},
        "unchanged": list(done.unchanged), "without_notebook": list(done.without_notebook), "failed": dict(done.failed),
        "offered": {s: list(files) for s, files in done.offered.items()},
        "changes": [asdict(change) for change in done.changes], "moved_aside": list(done.moved),
    })  # fmt: skip
    _show_round(output, done)
    if done.failed or any(not record.is_complete for record in done.graded.values()):
        raise typer.Exit(LACKING)


def _show_round(output: Output, done: Round) -> None:
    if rows := tuple(_row(student, record, done.waits.get(student, ())) for student, record in done.graded.items()):
        head = ("student", "points", "of", "verdicts", "waits for a person", "notes")
        output.table(Table("", head, rows, frozenset(["points", "of"])))
    _show_costs(output, [(student, r) for student, record in done.graded.items() for r in record.results.values()])
    if done.changes:
        output.heading("Changed scores")
        columns = ("student", "cell", "before", "after", "of")
        output.table(Table("", columns, tuple(map(_change, done.changes)), frozenset(columns[2:])))
    for student, why in done.failed.items():
        output.show(f"{student}: not graded: {why}", style="bold red")
    for student in done.without_notebook:
        output.show(_without_notebook(student, done), style="yellow")
    for path in done.moved:
        output.show(f"Moved to quarantine/, for it is no regular file: {path}", style="yellow")
    if failures := sum(not record.is_complete for record in done.graded.values()):
        output.show(f"{failures} submissions wait for the grader, which failed; run this again.", style="bold red")
    output.show(f"{len(done.graded)} graded, {len(done.unchanged)} unchanged since they were graded.")
    if earlier := [student for student in done.waits if student not in done.graded]:
        output.show(f"Of these, a person has to look at: {', '.join(earlier)}", style="yellow")


def _without_notebook(student: str, done: Round) -> str:
    """What to do about a hand-in without the notebook: a file with the lab's cells is offered."""
    said = f"{student}: no notebook {done.assignment}.ipynb"
    if found := done.offered.get(student):
        place = f"submitted/{student}"
        target = f"{place}/{done.assignment}/{done.assignment}.ipynb"
        said += f"; {found[0]} has its cells. To take it: mv {quote(f'{place}/{found[0]}')} {quote(target)}"
    return said


def _row(student: str, record: Record, waits: tuple[str, ...]) -> tuple[object, ...]:
    known = sum(cell.score or 0.0 for cell in record.cells)
    counts = Counter(str(result.verdict) for result in record.results.values())
    verdicts = "BAD" if record.problem else " ".join(f"{v} {n}" if n > 1 else v for v, n in counts.items())
    return (
        student, _points(known), _points(sum(cell.points for cell in record.cells)),
        Cell(verdicts, "good" if set(counts) == {"AC"} else "bad"),
        ", ".join(waits),
        "; ".join(filter(None, (record.problem, *record.notes, record.report))),
    )  # fmt: skip


def _change(change: Change) -> tuple[str, ...]:
    before, after = ("open" if score is None else _points(score) for score in (change.before, change.after))
    return change.student, change.grade_id, before, after, _points(change.points)


def _points(value: float) -> str:
    """Points for people: two decimals are enough, and the gradebook has all of them."""
    return f"{round(value, 2):g}"


def _waiting(lines: list[Line]) -> str:
    shown = [f"{line.student}: {line.assignment}: {', '.join(line.waits)}" for line in lines[:8]]
    more = [f"and {len(lines) - 8} more"] if len(lines) > 8 else []
    return "\n".join([f"{len(lines)} submissions are not finally graded:", *(f"  {text}" for text in [*shown, *more])])


def _class(folder: Path, lab: str) -> tuple[ClassApp, str]:
    """The class, and the full name of one of its assignments."""
    app, names = _classes(folder, [lab])
    return app, names[0]


def _classes(folder: Path, labs: list[str]) -> tuple[ClassApp, list[str]]:
    _require_nbgrader()
    from warpschool.classroom.folder import find_class
    from warpschool.classroom.nbgrader_app import ClassApp
    from warpschool.course import require_no_other

    root = find_class(folder)
    require_no_other(course(), root)
    app = ClassApp(root)
    return app, [app.folder.find(lab) for lab in labs]


def _require_nbgrader() -> None:
    if importlib.util.find_spec("nbgrader") is None:
        raise ToolMissing("nbgrader is not installed", next_step=_INSTALL)


# ---------------------------------------------------------------- likeness, new labs


@guarded
def alike(
    output: Output,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Holds STUDENT/labNN_topic/NN_idea.cu or notebooks of labs.")
    ],
    step: Annotated[str | None, typer.Option("--step", metavar="STEP", help="All .cu files are for this step.")] = None,
    known: Annotated[
        list[Path] | None,
        typer.Option("--known", metavar="DIR", help="Solutions from elsewhere; the course's grader/known, too."),
    ] = None,
    least: Annotated[float, typer.Option("--least", min=0.1, max=1.0, help="Show kernels that are this alike.")] = 0.6,
    compiles: Annotated[
        bool, typer.Option("--compile/--no-compile", help="Compare compiled code where the texts leave it open.")
    ] = True,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write a page with the kernels side by side.")
    ] = None,
) -> None:
    """List groups of kernels that are alike however they are disguised; no score depends on it.

    What a step's starter and reference give is left out, and what more than half of a class wrote: that is said, and
    is no group. Names, layout, comments, spelling, the order of declarations and helper functions do not count.

    Example: warpschool alike submissions/ --known found-on-the-web/ --out alike.html
    """
    from warpschool.grading.folders import sources_by_step
    from warpschool.grading.plagiarism import Likeness, alike_kernels
    from warpschool.show.plagiarism import report as page_of, to_dict, usual_words

    if out is not None:
        require_writable_target(out)
    sources = sources_by_step(folder, course(), step)
    elsewhere, foreign = _known(known or [], step)
    found: dict[str, Likeness] = {}
    with output.progress(len(sources), "steps") as bar:
        for name, one in alike_kernels(sources, course(), known=elsewhere, least=least, compiles=compiles):
            found[name] = one
            bar.advance()
    output.data({"steps": {name: to_dict(one) for name, one in found.items()}, "foreign": foreign})
    rows = tuple(
        (name, len(group.members), ", ".join([*group.members, *group.known]), f"{group.alike:.0%}", group.shared,
         group.seen)
        for name, one in found.items() for group in one.groups
    )  # fmt: skip
    if rows:
        head = ("step", "hand-ins", "who", "alike", "places", "seen in")
        output.table(Table("", head, rows, frozenset(["hand-ins", "alike", "places"])))
        output.show("This is a list to look at, not a finding: short kernels have few right forms.", style="dim")
    else:
        output.show("No two kernels are alike.")
    for name, one in found.items():
        for words in usual_words(one):
            output.show(f"{name}: {words}", style="dim")
    if foreign:
        output.show(f"Known, but for no graded step: {', '.join(foreign)}", style="yellow")
    if out is not None:
        save(output, out, page_of(found, sources, elsewhere), "Side by side")


def _known(folders: list[Path], step: str | None) -> tuple[dict[str, dict[str, str]], list[str]]:
    """The solutions from elsewhere, step -> name -> source, and the files among them that belong to no graded step."""
    from warpschool.grading.folders import known_solutions

    own = course().root / "grader" / "known"
    found: dict[str, dict[str, str]] = {}
    foreign: list[str] = []
    for folder in [*folders, *([own] if own.is_dir() else [])]:
        if not folder.is_dir():
            raise ArgumentError(f"{folder} is no folder", next_step="Name the folder that holds the solutions.")
        solutions, others = known_solutions(folder, course(), step if folder != own else None)
        foreign += [f"{folder.name}/{name}" for name in others]
        for name, texts in solutions.items():
            found.setdefault(name, {}).update({f"{folder.name}/{file}": text for file, text in texts.items()})
    return found, foreign


@guarded
def new_lab(
    output: Output,
    name: Annotated[str, typer.Argument(metavar="NAME", help="reduction, or lab12_reduction.")],
    title: Annotated[str, typer.Option(help="The notebook's heading; by default from the name.")] = "",
    root: Annotated[Path | None, typer.Option(metavar="DIR", help="The checkout; by default the one in use.")] = None,
) -> None:
    """Make a new lab that works: solution, starter, grader, rubric, notebook, and wrong kernels with their verdicts.

    Then replace its parts by your own; docs/teach/new-lab.md says in which order. The content tests say what does not
    fit together yet. Python that only this lab needs goes into warpcourse/LAB/, and is found there.

    Example: warpschool new-lab reduction --title "Lab 16: reductions"
    """
    try:
        from warpschool.authoring.new_lab import new_lab as make
    except ModuleNotFoundError as error:
        raise ToolMissing(f"{error.name} is not installed", next_step=_INSTALL) from None
    made = make(name, title=title, root=root)
    output.data({"lab": made.name, "step": made.step, "root": str(made.root), "files": list(made.files)})
    output.show(f"{made.name}:")
    for file in made.files:
        output.show(f"  {file}")
    output.show(
        f"Next: warpschool check {made.step} --kernel solutions/{made.step}.cu\n"
        f"      python -m pytest tests/content tests/specimens -k {made.name}\n"
        f"then edit solutions/{made.step}.cu and labs/{made.name}/{made.name}.md, and after each change:\n"
        "      python -m warpschool.authoring"
    )


def _judge() -> dict[str, str]:
    """Who judges: the folder of the course at hand and the package's version, as `--json` has them."""
    from warpschool.version import __version__

    return {"folder": str(course().root), "version": __version__}


def _show_judge(output: Output) -> None:
    """Say who judges, where no JSON is asked for: two checkouts of a course have two sets of budgets."""
    said = _judge()
    output.show(f"Course: {said['folder']} (warpschool {said['version']})", style="dim")
