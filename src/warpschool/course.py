"""Where the course's content is: labs, steps, and each step's starter, reference, grader and notebook.

A step is called `lab02_tiling/01_tiled`. In a checkout its files are

    labs/lab02_tiling/lab02_tiling.ipynb      the lab's notebook, built of the text beside it
    kernels/lab02_tiling/01_tiled.cu          starter
    solutions/lab02_tiling/01_tiled.cu        reference
    grader/lab02_tiling/test_01_tiled.py      graded tests

A lab of one's own may have Python modules, too: `warpcourse/lab20_mine/cases.py` beside those folders is imported as
`warpcourse.lab20_mine.cases`.

An installed wheel carries the same folders in `warpschool/_content/`. A checkout around the package wins.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from warpschool.contract.header import Header, read_header
from warpschool.errors import CourseError
from warpschool.suggest import closest, did_you_mean

_PACKAGE = Path(__file__).resolve().parent
_CONTENT_FOLDERS = ("labs", "kernels", "solutions", "grader")
_LAB = re.compile(r"lab\d\d_\w+")
_STEP = re.compile(r"\d\d_\w+")
_FROM = re.compile(r"(?:(lab\d\d_\w+)/)?(\d\d_\w+)\.cu")


@dataclass(frozen=True)
class Step:
    """One step of a lab; a file that this course does not carry is None."""

    name: str
    starter: Path | None
    solution: Path | None
    grader: Path | None

    @property
    def lab(self) -> str:
        return self.name.split("/")[0]

    @property
    def idea(self) -> str:
        """The file's name without .cu."""
        return self.name.split("/")[1]

    @property
    def file_name(self) -> str:
        return f"{self.idea}.cu"

    @property
    def title(self) -> str:
        """What stands behind the file's name in its first line."""
        return self._header.title

    @property
    def target(self) -> str:
        """The one architecture that it is written for, which no simulator runs; "" for any."""
        return self._header.text_of("Target")

    @property
    def is_program(self) -> bool:
        """Whether it is a whole program, with `main`: its header says by `Program:` how it is called."""
        return bool(self._header.text_of("Program"))

    @property
    def follows(self) -> str:
        """The step of its `From:` line, or ""."""
        match = _FROM.match(self._header.text_of("From"))
        return f"{match[1] or self.lab}/{match[2]}" if match else ""

    @cached_property
    def _header(self) -> Header:
        path = self.solution or self.starter
        if path is None:
            raise CourseError(f"{self.name} has neither a starter nor a reference")
        return read_header(path.read_text(encoding="utf-8"), file=path.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Lab:
    """One lab: its steps in order, and its notebook where there is one."""

    name: str
    steps: tuple[Step, ...]
    notebook: Path | None

    def __str__(self) -> str:
        return self.name


class Course:
    """The content below one root folder; `Course.find()` gives the one that belongs to this package."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @staticmethod
    def find() -> Course:
        """Return the course of the checkout around the package, else the one inside it.

        Raises CourseError when there is neither.
        """
        return _adopted.get() or _around_or_inside()

    @contextmanager
    def adopted(self) -> Iterator[None]:
        """Be what `find` gives, as long as this lasts: whoever judges for a course knows no other one."""
        token = _adopted.set(self)
        try:
            yield
        finally:
            _adopted.reset(token)

    @property
    def modules(self) -> Path:
        """The folder of the Python modules that belong to the course's own labs, whether there are any or not."""
        return self.root / "warpcourse"

    def labs(self) -> tuple[Lab, ...]:
        """Return all labs that have content, in order."""
        return tuple(self._lab(name) for name in self._lab_names())

    def lab(self, name: str) -> Lab:
        """Return a lab by name or unambiguous beginning ("lab02"); raises CourseError with what there is."""
        return self._lab(_pick(name, self._lab_names(), "lab"))

    def steps(self) -> tuple[Step, ...]:
        """Return the steps of all labs, in order."""
        return tuple(step for lab in self.labs() for step in lab.steps)

    def kernels(self) -> tuple[Step, ...]:
        """Return the steps of all labs that are kernels, and not whole programs, in order."""
        return tuple(step for step in self.steps() if not step.is_program)

    def step(self, name: str) -> Step:
        """Return a step by name ("lab02_tiling/01_tiled") or unambiguous beginnings of both parts ("lab02/01").

        Raises CourseError with close matches.
        """
        return self._step(*_pick(name, self._step_names(), "step").split("/"))

    def ladder(self, name: str) -> tuple[Step, ...]:
        """Return the chain of `From:` lines that leads to a step, the first step first.

        Raises CourseError at a From line that leads nowhere or in a circle.
        """
        chain = [self.step(name)]
        while chain[0].follows:
            step = chain[0]
            try:
                before = self.step(step.follows)
            except CourseError as error:
                raise CourseError(f"the From line of {step} leads nowhere: {error.message}") from None
            if before in chain:
                raise CourseError(f"the From lines of {' and '.join(map(str, chain))} form a circle")
            chain.insert(0, before)
        return tuple(chain)

    def successors(self, name: str) -> tuple[Step, ...]:
        """Return the steps whose `From:` line names this one."""
        wanted = self.step(name).name
        return tuple(step for step in self.steps() if step.follows == wanted)

    @property
    def explanations(self) -> dict[str, str]:
        """What a notebook predicts -> what leads to the number, of all labs. Raises CourseError for a broken file."""
        return {what: text for path in self._explained() for what, text in _toml(path).items()}

    def explanation(self, what: str) -> str:
        """What leads to one of those numbers; "" for what is none. Reads no other lab's file than the one it is in."""
        with_it = (path for path in self._explained() if what.encode() in path.read_bytes())
        return next((found for path in with_it if (found := _toml(path).get(what))), "")

    def _explained(self) -> list[Path]:
        return sorted((self.root / "grader").glob("lab*/predictions.toml"))

    def _step_names(self) -> list[str]:
        """All steps' names, in order, by looking into folders only: a check asks for one step ten times."""
        return [f"{lab}/{idea}" for lab in self._lab_names() for idea in self._ideas(lab)]

    def _lab_names(self) -> list[str]:
        found = {name for folder in _CONTENT_FOLDERS for name in _listed(self.root / folder) if _LAB.fullmatch(name)}
        return sorted(name for name in found if any((self.root / f / name).is_dir() for f in _CONTENT_FOLDERS))

    def _ideas(self, lab: str) -> list[str]:
        files = [name for folder in ("kernels", "solutions") for name in _listed(self.root / folder / lab)]
        return sorted({name[:-3] for name in files if name.endswith(".cu") and _STEP.fullmatch(name[:-3])})

    def _lab(self, name: str) -> Lab:
        notebook = self.root / "labs" / name / f"{name}.ipynb"
        return Lab(name, tuple(self._step(name, idea) for idea in self._ideas(name)), _existing(notebook))

    def _step(self, lab: str, idea: str) -> Step:
        return Step(
            f"{lab}/{idea}",
            starter=_existing(self.root / "kernels" / lab / f"{idea}.cu"),
            solution=_existing(self.root / "solutions" / lab / f"{idea}.cu"),
            grader=_existing(self.root / "grader" / lab / f"test_{idea}.py"),
        )


def _toml(path: Path) -> dict[str, str]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{path} is no TOML: {error}") from None


_adopted: ContextVar[Course | None] = ContextVar("adopted", default=None)


@cache
def _around_or_inside() -> Course:
    if checkout := checkout_root():
        return Course(checkout)
    packaged = _PACKAGE / "_content"
    if packaged.is_dir():
        return Course(packaged)
    raise CourseError(
        f"no course content: neither a checkout around {_PACKAGE} nor {packaged}",
        next_step="Install the warpschool wheel, or work in a checkout.",
    )


def course_around(folder: Path) -> Path | None:
    """Return the nearest folder at or above `folder` that holds graders of labs, or None: a checkout, or a fork."""
    start = folder.resolve()
    for candidate in (start, *start.parents):
        if any(_LAB.fullmatch(path.parent.name) for path in (candidate / "grader").glob("lab*/test_*.py")):
            return candidate
    return None


def require_no_other(course: Course, folder: Path) -> None:
    """Raise CourseError where `folder` lies in another course than the one that would judge.

    Whoever works in a clone means its budgets; those of the package that the command came with are others.
    """
    other = course_around(folder)
    if other is None or other == course.root.resolve():
        return
    is_checkout = (other / "src" / "warpschool").is_dir()
    by_itself = f"PYTHONPATH={other / 'src'} python -m warpschool" if is_checkout else "the package built of it"
    raise CourseError(
        f"this folder belongs to the course in {other}, but this command judges by the one in {course.root}",
        next_step=f"To judge by the course here run {by_itself}; to judge by the other one, run this outside {other}.",
    )


def checkout_root() -> Path | None:
    """Return the root of the checkout that this package runs from, or None for an installed one."""
    root = _PACKAGE.parents[1]
    is_checkout = (root / "src" / "warpschool").resolve() == _PACKAGE and (root / "kernels").is_dir()
    return root if is_checkout else None


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _existing(path: Path) -> Path | None:
    return path if path.is_file() else None


def _pick(name: str, known: list[str], what: str) -> str:
    """Return the one known name that `name` means: itself, or the only one whose parts begin like its parts."""
    asked = str(name).strip().strip("/").removesuffix(".cu")
    if asked in known:
        return asked
    parts = asked.split("/")
    begins = [full for full in known if _begins(full.split("/"), parts)]
    if len(begins) == 1:
        return begins[0]
    if begins:
        raise CourseError(f"'{name}' could be any of {', '.join(begins[:8])}", next_step="Write more of the name.")
    raise CourseError(f"there is no {what} '{name}'", next_step=_nearest(asked, known))


def _nearest(asked: str, known: list[str]) -> str:
    """What may be meant by a name that begins nothing: one spelt alike, the lab's steps, a step of that idea, a lab."""
    if not known:
        return "This course has no content: reinstall warpschool."
    if match := closest(asked, known, cutoff=0.9):
        return f"Did you mean {match}?"
    lab = asked.split("/")[0]
    inside = [full for full in known if lab and full.startswith(lab) and "/" in full]
    if inside and len({full.split("/")[0] for full in inside}) == 1:
        return f"{inside[0].split('/')[0]} has: {', '.join(full.split('/')[1] for full in inside)}."
    idea = asked.split("/")[-1].lstrip("0123456789_")
    if alike := [full for full in known if len(idea) > 2 and idea in full]:
        return f"Did you mean {' or '.join(alike[:4])}?"
    advice = did_you_mean(asked, known)
    if advice.startswith("Did") or len(known) <= 12:
        return advice
    labs = list(dict.fromkeys(full.split("/")[0] for full in known))
    return f"The labs are {labs[0]} to {labs[-1]}; warpschool status lists every step."


def _begins(full: list[str], parts: list[str]) -> bool:
    return len(full) == len(parts) and all(map(_is_begun, full, parts))


_NUMBER = re.compile(r"(?:lab)?0*(\d+)(?=_|$)")


def _is_begun(full: str, part: str) -> bool:
    """Whether `part` means `full`: its number, with or without zeros and "lab" ("lab1", "3"), or its beginning."""
    part = part.lower()
    if number := _NUMBER.fullmatch(part):
        own = _NUMBER.match(full)
        return own is not None and own[1] == number[1]
    return bool(part) and full.startswith(part)
