"""Writes docs/teach/syllabus.md: fourteen weeks, two projects, and a table of what each lab has.

Weeks, hours and hand-ins come from labs/route.toml, points from the notebooks, questions and cases from their files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from warpschool.authoring.notebooks import points_of, read_notebook
from warpschool.course import Course, Lab
from warpschool.notebook.cases import names as case_names
from warpschool.questions import questions
from warpschool.route import Stage, count, read_route
from warpschool.show.pictures import names as pictures
from warpschool.show.route import hours, short

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "teach" / "syllabus.md"
TRACK = "one semester"
_PICTURE = re.compile(r"\b(?:draw_\w+|show_\w+|picture|roofline|own_pipeline)\(|!\[")
_PREDICTED = re.compile(r"ws\.check_prediction\(")

HEAD = """<!-- Written by `scripts/syllabus.py` from labs/route.toml, notebooks and questions. Do not edit. -->

# A syllabus of fourteen weeks

For a course of one meeting of 90 minutes and one exercise session a week. A week's reading is done before the
meeting; its concept checks open it (`warpschool quiz lab02`, or `ws.quiz("lab02")`), since they show in five
minutes what has to be explained; its kernels are written in the exercise session and at home. Hand-ins are due
before the next meeting. Hours are those of [the route](../learn/route.md): an estimate, told there.

| week | labs and steps | opened by | hand-in | points | hours |
|---|---|---|---|---:|---:|
"""

PROJECTS = """
A hand-in's points are those of its whole lab where all steps are asked for; of a part, the steps' own share, which
`warpschool grade` computes. [Misconceptions](misconceptions.md) has a question and a specimen for what a meeting
will run into. Model answers to every "Explain" cell, point by point, stand in `grader/labNN_topic/rubric.md`, which
students' copies never carry; `warpschool rubric` shows them beside the answers.

## Two projects

Both run from week 8 to week 14 beside smaller hand-ins, in groups of two or three, and end in ten minutes of talk.
A milestone is a repository that builds, a page of text, and the counters that it is about.

### A product faster than step 07

Take the ladder of lab 05, or of lab 07 on tensor cores, and one shape that it serves badly: few rows, a long K, a
batch of small ones.

| milestone | week | what is handed in |
|---|---:|---|
| the question | 8 | the shape, the reference's counters and predicted time there, the bound by the roofline |
| one idea | 10 | a kernel that is right at ragged sizes, no finding, one counter that is lower; why not yet faster |
| the second idea | 12 | a split of K, a stream of tiles, another layout: chosen by what the warps wait for |
| the report | 14 | a table of shapes, measured or predicted, with what did not work |

### A layer from a paper

Take one layer that the course does not have (a depthwise or a dilated convolution, group normalisation, an
embedding's gradient) and write it forward and backward.

| milestone | week | what is handed in |
|---|---:|---|
| the reference | 8 | the formulas, and a float64 version in NumPy whose gradients pass finite differences |
| the naive kernel | 10 | forward and backward, right at ragged sizes; bytes moved against the least that would do |
| one idea | 12 | a tile, a fusion or a layout that lowers the bytes; the bank conflicts and sectors of it |
| the report | 14 | a network of `warpschool.nn` that trains with it, and what part of a step it takes |

Points for both: a quarter each for right answers with tests that a wrong kernel fails (hand in three wrong ones of
your own), for the counters, for the explanation, and for the talk.

## What each lab has

Words are those of the notebook and, where there is one, of its chapter; pictures are calls that draw, and images of
the chapter; moving ones those of `labs/pictures.toml`, which the site's chapters show; exercises are steps,
predictions, debugging cases and points of explanation.

| lab | words | chapter | pictures | moving | checks | steps | predictions | cases | explanation | points |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
"""


@dataclass(frozen=True)
class Inventory:
    """What one lab has."""

    words: int
    chapter: int
    pictures: int
    moving: int
    checks: int
    steps: int
    predictions: int
    cases: int
    explanation: float
    points: float

    def row(self, lab: Lab) -> str:
        """A line of the table."""
        numbers = (
            self.words, self.chapter or "", self.pictures, self.moving or "", self.checks, self.steps,
            self.predictions, self.cases or "", f"{self.explanation:g}", f"{self.points:g}",
        )  # fmt: skip
        return f"| {short(lab.name)} | {' | '.join(map(str, numbers))} |"


def inventory(course: Course, lab: Lab) -> Inventory:
    """Count what a lab has."""
    assert lab.notebook is not None
    text = lab.notebook.with_suffix(".md").read_text("utf-8")
    chapter = ROOT / "docs" / "learn" / f"{lab.name[:5]}.md"
    told = chapter.read_text("utf-8") if chapter.is_file() else ""
    cells = read_notebook(lab.notebook).cells
    tasks = [cell for cell in cells if cell.metadata.get("nbgrader", {}).get("task")]
    return Inventory(
        round(count(lab).words), len(told.split()), len(_PICTURE.findall(text)) + told.count("!["),
        sum(name.startswith(f"{lab.name[:5]}/") for name in pictures(course)), len(questions(lab, course)),
        len(lab.steps), len(_PREDICTED.findall(text)), len(case_names(course, lab.name)), sum(map(points_of, tasks)),
        sum(map(points_of, cells)),
    )  # fmt: skip


def page() -> str:
    """The whole page."""
    course = Course(ROOT)
    route = read_route(course)
    assert route is not None
    track = next(track for track in route.tracks if track.name == TRACK)
    labs = {lab.name: inventory(course, lab) for lab in course.labs() if lab.notebook is not None}
    weeks = "\n".join(_week(stage, labs, course) for stage in track.stages)
    table = "\n".join(labs[lab.name].row(lab) for lab in course.labs() if lab.name in labs)
    return f"{HEAD}{weeks}\n{PROJECTS}{table}\n"


def _week(stage: Stage, labs: dict[str, Inventory], course: Course) -> str:
    names = dict.fromkeys(step.lab for step in stage.steps)
    by_lab = {name: [step for step in stage.steps if step.lab == name] for name in names}
    told = "; ".join(
        short(name) if len(steps) == len(course.lab(name).steps)
        else f"{short(name)}: {', '.join(step.idea[:2] for step in steps)}"
        for name, steps in by_lab.items()
    )  # fmt: skip
    whole = [name for name, steps in by_lab.items() if len(steps) == len(course.lab(name).steps)]
    points = f"{sum(labs[name].points for name in whole):g}" if whole else "a part"
    opened = ", ".join(f"`quiz {short(name)}`" for name in by_lab)
    cells = (
        stage.when.removeprefix("week "), told, opened, stage.hand_in or "nothing", points if stage.hand_in else "",
        hours(stage.hours),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def files() -> dict[Path, str]:
    """The page."""
    return {PAGE: page()}
