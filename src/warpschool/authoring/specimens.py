"""Specimens: kernels whose verdict is known, each told by what it changes in a step's solution.

`tests/specimens/lab02_tiling/01_tiled/late_barrier.toml` is an edit of `solutions/lab02_tiling/01_tiled.cu`:

    why = "reads the tiles before they are complete."
    verdict = "RACE"
    at = 'sum += tileA[threadIdx.y][k] * tileB[k][threadIdx.x];'

    [[edit]]
    replace = '__syncthreads();  // the tiles are complete'
    by = ''

`why` and `verdict` must be there. `at` is text that the kernel made has exactly once; the last line that it touches is
the one to blame, and without `at` none is. `criterion` is the title of a criterion that must fail. `from` names another
step whose solution is edited, for a step before this one that is handed in again. Edits apply in their order, and
`replace` must occur exactly once in what those before have left. In TOML the line break behind an opening ''' does not
count.

What is no small edit is a whole kernel, `right_shuffles.cu`. Its verdict stands behind the line to blame,
`// expect: RACE`, or on a line of its own where there is none.

Kernels called right_* solve the step in another way than the solution, and must be accepted.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpschool.errors import CourseError
from warpschool.grading.verdicts import Verdict

_KEYS = {"why", "verdict", "at", "criterion", "from", "edit"}
_EDIT_KEYS = {"replace", "by"}
_EXPECTATION = re.compile(r"^(?P<code>.*?)(?P<comment>// expect: (?P<verdict>\w+))$", re.MULTILINE)


@dataclass(frozen=True)
class Edit:
    """Text of which there is one, and what stands there instead."""

    replace: str
    by: str


@dataclass(frozen=True)
class Specimen:
    """A kernel and what the grader must say about it; `whole` is its text where it is no edit of `base`'s solution."""

    path: Path
    why: str
    verdict: Verdict
    at: str = ""
    criterion: str = ""
    base: str = ""
    edits: tuple[Edit, ...] = ()
    whole: str = ""

    @property
    def step(self) -> str:
        """The step that it is handed in for."""
        return "/".join(self.path.parts[-3:-1])

    @property
    def is_right(self) -> bool:
        return self.path.name.startswith("right_")

    def source(self, solutions: Path) -> str:
        """Return the kernel's text; raises CourseError, which names the edit, where one does not apply exactly once."""
        if self.whole:
            return self.whole
        solution = solutions / f"{self.base}.cu"
        if not solution.is_file():
            raise CourseError(f"{self.path} edits {solution}, which does not exist", next_step="Correct `from`.")
        text = solution.read_text("utf-8")
        for number, edit in enumerate(self.edits, start=1):
            where = f"{self.path}: the text that edit {number} replaces"
            text = text.replace(_only(edit.replace, text, where, solution), edit.by)
        return text

    def line(self, source: str) -> int:
        """Return the number of the line to blame in what `source` returned, 0 for none; raises CourseError likewise."""
        if not self.at:
            return 0
        before, at, _ = source.partition(_only(self.at, source, f"{self.path}: the text of `at`", self.path))
        return (before + at.rstrip("\n")).count("\n") + 1


def paths(folder: Path) -> list[Path]:
    """The files of all specimens below a folder, in order."""
    return sorted(path for suffix in ("toml", "cu") for path in folder.rglob(f"*.{suffix}"))


def read(path: Path) -> Specimen:
    """Return one specimen; raises CourseError where the file does not say what it must."""
    text = path.read_text("utf-8")
    return _read_whole(path, text) if path.suffix == ".cu" else _read_edits(path, text)


def _read_whole(path: Path, text: str) -> Specimen:
    found = list(_EXPECTATION.finditer(text))
    if len(found) != 1:
        raise CourseError(
            f"{path} states {len(found)} expectations",
            next_step="It needs one comment such as `// expect: RACE`, at the end of the line to blame.",
        )
    at = found[0]["comment"] if found[0]["code"].strip() else ""
    why = text.split("\n", 1)[0].partition(".cu:")[2].strip()
    return Specimen(path, why, _verdict(path, found[0]["verdict"]), at=at, whole=text)


def _read_edits(path: Path, text: str) -> Specimen:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CourseError(f"{path} is no TOML: {error}") from None
    edits = data.get("edit", [])
    if not isinstance(edits, list) or not all(isinstance(edit, dict) for edit in edits):
        raise CourseError(f"{path}: `edit` is no table", next_step="Begin each edit with a line [[edit]].")
    _check_keys(data, path, must={"why", "verdict"}, may=_KEYS)
    for number, edit in enumerate(edits, start=1):
        _check_keys(edit, f"{path}: edit {number}", must=_EDIT_KEYS, may=_EDIT_KEYS)
    step = "/".join(path.parts[-3:-1])
    base = data.get("from", step)
    if base == step and not edits:
        raise CourseError(f"{path} edits nothing", next_step="Add an [[edit]], or name another step by `from`.")
    return Specimen(
        path, data["why"], _verdict(path, data["verdict"]), at=data.get("at", ""), criterion=data.get("criterion", ""),
        base=base, edits=tuple(Edit(**edit) for edit in edits),
    )  # fmt: skip


def _check_keys(table: dict[str, Any], where: object, *, must: set[str], may: set[str]) -> None:
    """Text for every key that must be there, and no other keys than those known."""
    if missing := sorted(must - set(table)):
        raise CourseError(f"{where} lacks {', '.join(missing)}", next_step=f"It needs {', '.join(sorted(must))}.")
    if unknown := sorted(set(table) - may):
        raise CourseError(f"{where} has no key {', '.join(unknown)}", next_step=f"Known are {', '.join(sorted(may))}.")
    if wrong := sorted(key for key, value in table.items() if key != "edit" and not isinstance(value, str)):
        raise CourseError(f"{where}: {', '.join(wrong)} must be text", next_step="Put it between quotes.")


def _verdict(path: Path, word: str) -> Verdict:
    if word not in set(Verdict):
        raise CourseError(f"{path}: {word} is no verdict", next_step=f"There are {', '.join(Verdict)}.")
    return Verdict(word)


def _only(part: str, text: str, where: str, file: Path) -> str:
    """The part, which `text` must have exactly once."""
    found = text.count(part) if part else 0
    if found != 1:
        raise CourseError(
            f"{where} occurs {found} times instead of once:\n{part}",
            next_step=f"Give more of the lines around it, as they stand in {file.name} with the edits before it.",
        )
    return part
