"""Starters: a reference solution without what the student is to write.

A hole in a solution:

    // BEGIN SOLUTION: what to do (about 4 lines)
    ...
    // END SOLUTION

The starter keeps both markers and loses the lines between them, so solving a step only adds lines. A step that starts
from a given wrong kernel carries it right after the hole, each line behind `//| ` so that the solution ignores it:

    // BEGIN STARTER
    //| const int row = ...;
    // END STARTER

In the starter those lines stand inside the hole instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from warpschool.errors import CourseError

_BEGIN = re.compile(r"^\s*// BEGIN SOLUTION: (?P<task>.+) \(about (?P<lines>\d+) lines?\)$")
_END = "// END SOLUTION"
_BEGIN_STARTER = "// BEGIN STARTER"
_END_STARTER = "// END STARTER"
_GIVEN = "//| "


@dataclass(frozen=True)
class Hole:
    """One gap of a step: its task, the size it announces and the size it has, in lines; `line` is its marker's."""

    line: int
    task: str
    announced_lines: int
    solution: tuple[str, ...]
    given: tuple[str, ...]

    @property
    def solution_lines(self) -> int:
        """Lines that are not blank."""
        return sum(1 for text in self.solution if text.strip())


def make_starter(solution: str, *, name: str = "kernel.cu") -> str:
    """Return the starter of a solution's source text.

    Raises CourseError, with file and line, where the markers are malformed or missing.
    """
    return "".join(f"{line}\n" for line in _split(solution, name)[0])


def find_holes(solution: str, *, name: str = "kernel.cu") -> tuple[Hole, ...]:
    """Return the holes of a solution's source text, in order; raises as `make_starter` does."""
    return tuple(_split(solution, name)[1])


def _split(solution: str, name: str) -> tuple[list[str], list[Hole]]:
    lines = solution.splitlines()
    kept: list[str] = []
    holes: list[Hole] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        if "BEGIN SOLUTION" not in line:
            if any(mark in line for mark in (_END, _BEGIN_STARTER, _END_STARTER)):
                raise CourseError(f"{name}:{index + 1}: {line.strip()!r} has no BEGIN SOLUTION before it")
            kept.append(line)
            index += 1
            continue
        hole, end = _read_hole(lines, index, name)
        holes.append(hole)
        kept += [line, *hole.given, lines[index + 1 + len(hole.solution)]]
        index = end
    if not holes:
        raise CourseError(
            f"{name}: no '// BEGIN SOLUTION: ... (about N lines)' marker", next_step="Mark what a student writes."
        )
    return kept, holes


def _read_hole(lines: list[str], start: int, name: str) -> tuple[Hole, int]:
    """Read the hole whose marker is `lines[start]`; return it and the index of the first line after it."""
    marker = _BEGIN.match(lines[start])
    if marker is None:
        raise CourseError(
            f"{name}:{start + 1}: write '// BEGIN SOLUTION: what to do (about N lines)', not {lines[start].strip()!r}"
        )
    end = _find(lines, start, _END, name)
    body = lines[start + 1 : end]
    given: list[str] = []
    after = end + 1
    if after < len(lines) and lines[after].strip() == _BEGIN_STARTER:
        last = _find(lines, after, _END_STARTER, name)
        for number, line in enumerate(lines[after + 1 : last], start=after + 2):
            if line.lstrip().startswith(_GIVEN):
                given.append(line.replace(_GIVEN, "", 1))
            elif line.strip() == _GIVEN.strip():
                given.append("")
            else:
                raise CourseError(f"{name}:{number}: a line between the STARTER markers starts with '{_GIVEN}'")
        after = last + 1
    hole = Hole(start + 1, marker["task"], int(marker["lines"]), tuple(body), tuple(given))
    return hole, after


def _find(lines: list[str], start: int, mark: str, name: str) -> int:
    for index in range(start + 1, len(lines)):
        if lines[index].strip() == mark:
            return index
        if "// BEGIN " in lines[index]:
            break
    raise CourseError(f"{name}:{start + 1}: {lines[start].strip()!r} has no '{mark}'")


def stale_starters(solutions: Path, kernels: Path) -> dict[Path, str | None]:
    """Return the files of `kernels` that differ from what `solutions` gives: path -> right text, None: delete it."""
    wanted = {
        kernels / path.relative_to(solutions): make_starter(path.read_text("utf-8"), name=str(path))
        for path in sorted(solutions.glob("lab*/*.cu"))
    }
    stale: dict[Path, str | None] = {
        path: text for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text
    }
    stale.update({path: None for path in sorted(kernels.glob("lab*/*.cu")) if path not in wanted})
    return stale


def write_starters(solutions: Path, kernels: Path) -> list[Path]:
    """Bring `kernels` up to date with `solutions`; return the files that were written or deleted."""
    stale = stale_starters(solutions, kernels)
    for path, text in stale.items():
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    return list(stale)
