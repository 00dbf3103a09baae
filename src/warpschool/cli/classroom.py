"""Commands for a class on nbgrader: `quickstart`, `release`, `import`, `feedback`, `export`, and `grade LAB`."""

from __future__ import annotations

import importlib.util
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from warpschool.atomic import write_file
from warpschool.cli.failures import BAD_INPUT, LACKING, guarded
from warpschool.cli.files import require_writable_target
from warpschool.cli.options import AsJson, Plain
from warpschool.cli.output import Cell, Output
from warpschool.errors import ArgumentError, CourseError, ToolMissing

if TYPE_CHECKING:
    from warpschool.classroom.export import Line
    from warpschool.classroom.nbgrader_app import ClassApp
    from warpschool.classroom.rounds import Change, Round, Where
    from warpschool.grading.records import Record

ClassOption = Annotated[
    Path, typer.Option("--class", metavar="DIR", help="The class's folder; by default the one around here.")
]
LabName = Annotated[str, typer.Argument(metavar="LAB", help="An assignment of the class: lab02_tiling, or lab02.")]
Students = Annotated[
    list[str] | None, typer.Option("--student", metavar="ID", help="Only this student; repeat it for several.")
]
HERE = Path(".")


class Format(StrEnum):
    """What `export` writes."""

    csv = "csv"
    canvas = "canvas"
    moodle = "moodle"


@guarded
def quickstart(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The class's new folder.")],
    name: Annotated[str, typer.Option("--name", help="nbgrader's course id; by default the folder's name.")] = "",
    as_json: AsJson = False,
    plain: Plain = False,
) -> None:
    """Make a class's folder: the labs as nbgrader's source, its configuration, and grading.toml.

    What is there already is never overwritten; run it again after an update to get new labs.

    Example: warpschool quickstart gpu-course
    """
    _require_nbgrader()
    from warpschool.classroom.quickstart import make_class
    from warpschool.course import Course

    output = Output(as_json=as_json, plain=plain)
    added, kept = make_class(folder, Course.find(), name=name)
    output.data({"folder": str(folder.resolve()), "added": added, "kept": kept})
    output.show(f"{folder}: {len(added)} files added, {len(kept)} left as they are.")
    output.show(f"Next: cd {folder}, look at grading.toml, and: warpschool release lab00")


@guarded
def release(lab: LabName, folder: ClassOption = HERE, as_json: AsJson = False, plain: Plain = False) -> None:
    """Make the students' version of a lab, the same bytes as formgrader's Generate button.

    Refused where the notebook holds a solution, or points that do not add up. After a change of points, release again
    and grade with --regrade.

    Example: warpschool release lab02
    """
    output = Output(as_json=as_json, plain=plain)
    app, name = _class(folder, lab)
    app.convert("release", name)
    path = app.folder.root / str(app.coursedir.release_directory) / name / f"{name}.ipynb"
    assignment = app.folder.assignment(name)
    output.data({"assignment": name, "notebook": str(path), "points": assignment.points})
    output.show("Released: ", (str(path), "bold"), f" ({assignment.points:g} points)")
    output.show(f"Hand it out, or: nbgrader release_assignment {name}", style="dim")


@guarded
def rubric(
    lab: Annotated[str, typer.Argument(metavar="LAB", help="A lab: lab02_tiling, or lab02.")],
    as_json: AsJson = False,
    plain: Plain = False,
) -> None:
    """Print what good answers to a lab's questions say: for the people who grade them, not for students.

    Formgrader shows the same below each question, as its mark scheme.

    Example: warpschool rubric lab02
    """
    from warpschool.course import Course
    from warpschool.grading.rubrics import read_rubrics

    output = Output(as_json=as_json, plain=plain)
    course = Course.find()
    found = course.lab(lab)
    rubrics = read_rubrics(course, found.name)
    if not rubrics:
        raise CourseError(f"{found} has no rubric", next_step=f"Write grader/{found}/rubric.md.")
    output.data({"lab": found.name, "rubrics": rubrics})
    for name, text in rubrics.items():
        output.heading(name)
        output.show(text)


@guarded
def import_(
    archive: Annotated[Path, typer.Argument(metavar="ZIP", help="All submissions, as Canvas or Moodle gave them.")],
    lab: LabName,
    folder: ClassOption = HERE,
    students: Annotated[
        Path | None, typer.Option("--students", metavar="FILE", help="Lines of: name in the zip,student id.")
    ] = None,
    as_json: AsJson = False,
    plain: Plain = False,
) -> None:
    """Put the submissions of a zip from Canvas or Moodle into the class's folder.

    Taken are each student's newest notebook and PDF; nothing of the zip is trusted.

    Example: warpschool import submissions.zip lab02
    """
    output = Output(as_json=as_json, plain=plain)
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
def feedback(
    lab: LabName, folder: ClassOption = HERE, student: Students = None, as_json: AsJson = False, plain: Plain = False
) -> None:
    """Write each student's feedback page: points, what was seen on which line, hints; nothing that is for graders only.

    Example: warpschool feedback lab02
    """
    output = Output(as_json=as_json, plain=plain)
    app, name = _class(folder, lab)
    import glob

    from warpschool.classroom.late import recompute

    with app.gradebook() as gradebook:
        recompute(gradebook, name, app.folder.policy.late)
    for one in student or ["*"]:
        app.convert("feedback", name, student=one if one == "*" else glob.escape(one))
    target = app.folder.root / str(app.coursedir.feedback_directory)
    pages = sorted(path for path in target.glob(f"*/{name}/*.html") if not student or path.parts[-3] in student)
    output.data({"assignment": name, "pages": [str(path) for path in pages]})
    output.show(f"{len(pages)} pages: ", (f"{target}/STUDENT/{name}/{name}.html", "bold"))
    output.show(f"Students get them with: nbgrader release_feedback {name}", style="dim")


@guarded
def export(
    labs: Annotated[list[str] | None, typer.Argument(metavar="[LAB]...", help="Assignments; by default all.")] = None,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The file to write.")] = Path("grades.csv"),
    form: Annotated[Format, typer.Option("--format", help="Whose file it is to be.")] = Format.csv,
    template: Annotated[
        Path | None, typer.Option("--template", metavar="FILE", help="For canvas: the gradebook that Canvas exported.")
    ] = None,
    incomplete: Annotated[
        bool, typer.Option("--incomplete", help="Leave open what waits for a person, and write the rest.")
    ] = False,
    folder: ClassOption = HERE,
    as_json: AsJson = False,
    plain: Plain = False,
) -> None:
    """Write the grades, late penalties computed anew, for a spreadsheet, Canvas or Moodle.

    Example: warpschool export lab02 --format moodle --to grades.csv
    """
    output = Output(as_json=as_json, plain=plain)
    require_writable_target(to)
    if (form is Format.canvas) != (template is not None):
        raise ArgumentError("--format canvas and --template belong together", next_step="Canvas: Grades, Export.")
    app, names = _classes(folder, labs or [])
    from warpschool.classroom import export as formats
    from warpschool.classroom.late import recompute

    with app.gradebook() as gradebook:
        for name in names or [found.name for found in gradebook.assignments]:
            recompute(gradebook, name, app.folder.policy.late)
        lines = formats.grade_lines(gradebook, app.folder, names)
    waiting = [line for line in lines if line.waits]
    if waiting and not incomplete:
        raise ArgumentError(_waiting(waiting), next_step="Grade them in formgrader, or leave them open: --incomplete")
    if template is not None:
        text = formats.as_canvas(lines, formats.read_template(template))
    else:
        text = formats.FORMATS[form](lines)
    write_file(to, text)
    output.data({"file": str(to), "grades": len(lines), "waiting": len(waiting)})
    output.show(f"{len(lines)} grades: ", (str(to), "bold"))
    if waiting:
        output.show(_waiting(waiting), style="yellow")


def grade_lab(
    lab: str, *, folder: Path, students: list[str], regrade: bool, where: Where, output: Output
) -> None:
    """Grade an assignment of a class into its gradebook; the class part of `warpschool grade`."""
    app, name = _class(folder, lab)
    from warpschool.classroom.rounds import grade_class
    from warpschool.cli.batch_options import batch_progress

    state: dict[str, Any] = {}

    def begin(jobs: int, submissions: int) -> None:
        state["bar"] = batch_progress(output, jobs)
        state["shown"] = state["bar"].__enter__()

    def tell(what: str, of: Any) -> None:
        if what == "job":
            state["shown"].done(of.verdict)

    try:
        done = grade_class(app, name, students=students, regrade=regrade, where=where, begin=begin, tell=tell)
    finally:
        if "bar" in state:
            state["bar"].__exit__(None, None, None)
    output.data(_document(done))
    _show_round(output, done)
    if done.failed or any(not record.is_complete for record in done.graded.values()):
        raise typer.Exit(LACKING)


def _document(done: Round) -> dict[str, Any]:
    import json
    from dataclasses import asdict

    return {
        "assignment": done.assignment, "graded": {s: json.loads(r.to_json()) for s, r in done.graded.items()},
        "unchanged": list(done.unchanged), "without_notebook": list(done.without_notebook), "failed": dict(done.failed),
        "changes": [asdict(change) for change in done.changes], "moved_aside": list(done.moved),
    }  # fmt: skip


def _show_round(output: Output, done: Round) -> None:
    rows = [_row(student, record) for student, record in done.graded.items()]
    if rows:
        head = ["student", "points", "of", "verdicts", "waits for a person", "notes"]
        output.table(head, rows, numbers=("points", "of"))
    if done.changes:
        output.heading("Changed scores")
        output.table(["student", "cell", "before", "after", "of"], [_change(change) for change in done.changes],
                     numbers=("before", "after", "of"))  # fmt: skip
    for student, why in done.failed.items():
        output.show(f"{student}: not graded: {why}", style="bold red")
    if done.without_notebook:
        output.show(f"No notebook {done.assignment}.ipynb: {', '.join(done.without_notebook)}", style="yellow")
    for path in done.moved:
        output.show(f"Moved to quarantine/, for it is no regular file: {path}", style="yellow")
    failures = sum(not record.is_complete for record in done.graded.values())
    if failures:
        output.show(f"{failures} submissions wait for the grader, which failed; run this again.", style="bold red")
    output.show(f"{len(done.graded)} graded, {len(done.unchanged)} unchanged since they were graded.")


def _row(student: str, record: Record) -> list[Cell]:
    from warpschool.grading.records import State

    known = sum(cell.score or 0.0 for cell in record.cells)
    counts = Counter(str(result.verdict) for result in record.results.values())
    verdicts = "BAD" if record.problem else " ".join(f"{v} {n}" if n > 1 else v for v, n in counts.items())
    waits = [cell.grade_id for cell in record.cells if cell.state is State.PERSON]
    return [
        student, _points(known), _points(sum(cell.points for cell in record.cells)),
        Text(verdicts, style="bold green" if set(counts) == {"AC"} else "bold red"), ", ".join(waits),
        "; ".join(filter(None, (record.problem, *record.notes, record.report))),
    ]  # fmt: skip


def _change(change: Change) -> list[Cell]:
    before, after = ("open" if score is None else _points(score) for score in (change.before, change.after))
    return [change.student, change.grade_id, before, after, _points(change.points)]


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

    app = ClassApp(find_class(folder))
    return app, [app.folder.find(lab) for lab in labs]


def _require_nbgrader() -> None:
    if importlib.util.find_spec("nbgrader") is None:
        raise ToolMissing("nbgrader is not installed", next_step="Install it with: pip install 'warpschool[teach]'")
