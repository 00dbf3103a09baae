"""A new lab: solution, starter, grader, rubric, text, its notebook and specimens of a first step that already works.

The files of `skeleton/` are copied with names put in; the author replaces one after the other, and the content tests
say at each moment what does not fit together yet.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from warpschool.atomic import write_file
from warpschool.authoring.lab_text import built
from warpschool.authoring.starters import make_starter
from warpschool.course import Course
from warpschool.errors import ArgumentError, CourseError

STEP = "01_first"
_NAME = re.compile(r"(?:lab(\d\d)_)?((?!lab\d)[a-z][a-z0-9_]*[a-z0-9])")
_SPECIMENS = ("no_guard.toml", "wrong_factor.toml", "scattered.toml", "right_grid_stride.cu")


@dataclass(frozen=True)
class NewLab:
    """What was made: the lab's name, its step, and the files, relative to `root`."""

    root: Path
    name: str
    files: tuple[str, ...]

    @property
    def step(self) -> str:
        return f"{self.name}/{STEP}"


def new_lab(name: str, *, title: str = "", root: Path | None = None) -> NewLab:
    """Make a lab in a checkout: `name` is "reduction", which takes the next number, or "lab12_reduction".

    Raises ArgumentError for a bad or taken name, CourseError where `root` is no checkout.
    """
    where = root or Course.find().root
    missing = [folder for folder in ("labs", "solutions", "grader", "kernels") if not (where / folder).is_dir()]
    if missing or (where / "_content").exists() or where.name == "_content":
        raise CourseError(
            f"{where} is not a checkout of the course", next_step="Clone or fork the course, and run this in it."
        )
    lab = _lab_name(name, Course(where))
    words = {"LAB": lab, "ID": lab[:5], "TITLE": title or f"Lab {lab[3:5]}: {lab[6:].replace('_', ' ')}"}
    texts = dict(_files(words, where))
    for path, text in texts.items():
        (where / path).parent.mkdir(parents=True, exist_ok=True)
        write_file(where / path, text)
    notebook = f"labs/{lab}/{lab}.ipynb"
    write_file(where / notebook, built((where / notebook).with_suffix(".md"), where / "solutions"))
    _update_readme(where)
    return NewLab(where, lab, (*texts, notebook))


def _lab_name(name: str, course: Course) -> str:
    match = _NAME.fullmatch(name)
    if match is None:
        raise ArgumentError(
            f"'{name}' is no name for a lab",
            next_step="Lower-case words with underscores: reduction, or lab12_reduction.",
        )
    taken = {lab.name[3:5]: lab.name for lab in course.labs()}
    number = match[1] or f"{max(map(int, taken), default=-1) + 1:02}"
    if number in taken:
        raise ArgumentError(f"there is {taken[number]} already", next_step="Leave the number out to take the next one.")
    if int(number) > 99:
        raise ArgumentError("labs are numbered 00 to 99, and all numbers are taken")
    return f"lab{number}_{match[2]}"


def _files(words: dict[str, str], root: Path) -> Iterator[tuple[str, str]]:
    """Path below the checkout, and text, of every file of the new lab that is not built of others."""
    lab = words["LAB"]
    solution = _text(f"{STEP}.cu", words)
    yield f"solutions/{lab}/{STEP}.cu", solution
    yield f"solutions/{lab}/answers.toml", _text("answers.toml", words)
    yield f"kernels/{lab}/{STEP}.cu", make_starter(solution, name=f"{STEP}.cu")
    yield f"grader/{lab}/test_{STEP}.py", _text(f"test_{STEP}.py.txt", words)
    yield f"grader/{lab}/rubric.md", _text("rubric.md", words)
    yield f"grader/{lab}/predictions.toml", _text("predictions.toml", words)
    yield f"labs/{lab}/{lab}.md", _text("lab.md", words)
    if (root / "tests" / "specimens").is_dir():
        for name in _SPECIMENS:
            yield f"tests/specimens/{lab}/{STEP}/{name}", _text(name, words)


def _text(name: str, words: dict[str, str]) -> str:
    text = (resources.files("warpschool.authoring") / "skeleton" / name).read_text(encoding="utf-8")
    return re.sub(f"@({'|'.join(words)})@", lambda match: words[match[1]], text)


def _update_readme(root: Path) -> None:
    """The README's table of labs names the new one, where the checkout has the script that writes it."""
    if (root / "scripts" / "pages.py").is_file():
        command = [sys.executable, "-m", "scripts.pages", "readme_tables"]
        subprocess.run(command, check=False, capture_output=True, cwd=root)
