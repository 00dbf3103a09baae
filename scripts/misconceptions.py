"""Writes docs/teach/misconceptions.md from grader/misconceptions.toml, specimens, criteria and concept checks.

Each row is put together from what its parts say themselves: verdict and line from the specimen, the hint from the
grader, the question from the lab's quiz. A part that is not there ends the script with the row's name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from warpschool.authoring import specimens
from warpschool.course import Course
from warpschool.grading.criteria import criteria_of
from warpschool.questions import find_question

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "grader" / "misconceptions.toml"
PAGE = ROOT / "docs" / "teach" / "misconceptions.md"

HEAD = """<!-- Written by `scripts/misconceptions.py` from grader/misconceptions.toml. Do not edit. -->

# Misconceptions

{count} things that students believe of GPUs and that are not so. For each there is a wrong kernel, which tests check;
the verdict that it gets, and the line that is blamed; the first hint that its author is shown; and a concept check that
asks about it beforehand: `warpschool quiz lab02/two-barriers`, or `ws.quiz("lab02")` in the notebook.

In class the question comes first; let the answers be argued, then run the specimen.

"""


def page() -> str:
    """The whole page."""
    rows = tomllib.loads(SOURCE.read_text("utf-8"))["misconception"]
    course = Course(ROOT)
    text = HEAD.format(count=len(rows))
    labs = sorted({row["specimen"].split("/")[0] for row in rows})
    for lab in labs:
        text += f"## {lab}\n\n"
        text += "".join(_entry(course, row) for row in rows if row["specimen"].startswith(f"{lab}/"))
    return text.rstrip() + "\n"


def _entry(course: Course, row: Mapping[str, str]) -> str:
    name = row["specimen"]
    specimen = specimens.read(_path(name))
    step = course.step("/".join(name.split("/")[:2]))
    hints = {criterion.title: criterion.hint for criterion in criteria_of(step)}
    if row["criterion"] not in hints:
        raise SystemExit(f"{row['id']}: {step} has no criterion {row['criterion']!r}")
    question = find_question(row["question"], course)
    line = specimen.at.strip().splitlines()[-1].strip() if specimen.at.strip() else ""
    blamed = f", at `{line}`" if line else ""
    hint = _escaped(hints[row["criterion"]][0])
    return (
        f"### {row['believes'].rstrip('.')}\n\n{row['truth']}\n\n"
        f"- Specimen: `{_path(name).relative_to(ROOT).as_posix()}`: {specimen.why}\n"
        f"- Diagnosis: **{specimen.verdict}**, {specimen.verdict.meaning}{blamed}\n"
        f"- Hint of “{row['criterion']}”: {hint}\n"
        f"- Question: `{question.name}`: {_escaped(question.ask.splitlines()[0])}\n\n"
    )


def _escaped(text: str) -> str:
    """Text whose brackets outside of code are no links."""
    parts = text.split("`")
    return "`".join(part if place % 2 else part.replace("[", "\\[") for place, part in enumerate(parts))


def _path(name: str) -> Path:
    base = ROOT / "tests" / "specimens" / name
    found = [path for path in (base.with_suffix(".toml"), base.with_suffix(".cu")) if path.is_file()]
    if not found:
        raise SystemExit(f"there is no specimen {base}")
    return found[0]


def files() -> dict[Path, str]:
    """The page."""
    return {PAGE: page()}
