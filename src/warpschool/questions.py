"""Concept checks: a lab's questions, each with an answer that says why, and why each other answer is wrong.

`labs/labNN_topic/quiz.toml` holds them. A question has an `id`, a `kind`, what it asks, and `why`, which explains the
answer. `code` may stand below what is asked.

    [[question]]
    id = "tile-bytes"
    kind = "choice"                              # one of several; they are shown in an order of their own
    ask = "Which of these halves the bytes?"
    why = "…"
    right = "a tile twice as wide"
    wrong = [["twice the threads", "why that is wrong"], ["…", "…"]]

    kind = "number"                              # `answer`, within a relative `tolerance` (0 without one)
    answer = 16
    unit = "barriers"
    wrong = [[8, "one barrier a round is forgotten"]]    # answers that are known to come
    recipe = "run('lab02/01', M=128, N=128, K=128).counters.barriers / 512"    # what a test computes it by

    kind = "order"                               # `steps` in the right order, each with why it stands there
    steps = [["load a tile", "nothing can be multiplied before"], ["…", "…"]]

    kind = "bug"                                 # `line` of `code`, counted from 1, is the one to blame
    line = 4
    mended = "…"                                 # what stands there in a kernel that is right; lines may be several
    wrong = [[2, "that line is fine, since …"]]
    [question.shows]                             # what a test sees when it runs the kernel below this header
    header = "// Entry: …"
    sizes = { n = 300 }
    finding = "race"                             # a finding, "answers" that differ, or a counter that is larger
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from ptxsim import cache
from warpschool.course import Course, Lab
from warpschool.errors import ArgumentError, CourseError
from warpschool.suggest import did_you_mean

FILE = "quiz.toml"
KINDS = ("choice", "number", "order", "bug")
_KEYS = {
    "choice": ({"right", "wrong"}, set()),
    "number": ({"answer"}, {"unit", "tolerance", "wrong", "recipe"}),
    "order": ({"steps"}, set()),
    "bug": ({"code", "line", "mended", "shows"}, {"wrong"}),
}
"""kind -> (what it must say, what it may say), beside what all say"""
_MUST, _MAY = {"id", "kind", "ask", "why"}, {"code"}
_SHOWS = {"header", "sizes", "finding"}
_LETTERS = "abcdefghij"
_STORE = "quiz"
_LOOK = "Follow two threads through the lines, and ask at each which values they meet."


@dataclass(frozen=True)
class Shows:
    """How a test sees that a kernel with a bug has it: below this header, at these sizes, by this finding."""

    header: str
    sizes: Mapping[str, float]
    finding: str


@dataclass(frozen=True)
class Judged:
    """What became of an answer, and the words that explain it."""

    right: bool
    told: str


@dataclass(frozen=True)
class Question:
    """One question of a lab. `options` are what is shown with letters: choices, or steps in a wrong order."""

    lab: str
    id: str
    kind: str
    ask: str
    why: str
    code: str = ""
    options: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    """a wrong option, number or line, as text -> why it is wrong; of a step why it stands where it does"""
    solution: tuple[str, ...] = ()
    """the right option, or the steps in their order"""
    number: float = 0.0
    tolerance: float = 0.0
    unit: str = ""
    recipe: str = ""
    mended: str = ""
    shows: Shows | None = None

    @property
    def name(self) -> str:
        """As one types it: lab02/tile-bytes."""
        return f"{self.lab[:5]}/{self.id}"

    @property
    def right_answer(self) -> str:
        """The right answer as one types it: a letter, letters in order, a number, a line."""
        if self.kind in ("choice", "order"):
            return "".join(_LETTERS[self.options.index(text)] for text in self.solution)
        return f"{self.number:.10g}"

    @property
    def right_text(self) -> str:
        """The right answer in words."""
        if self.kind == "choice":
            return f"{self.right_answer}: {self.solution[0]}"
        if self.kind == "order":
            return ", then ".join(_LETTERS[self.options.index(text)] for text in self.solution)
        if self.kind == "bug":
            return f"line {self.number:.0f}"
        return f"{_shown(self.number)} {self.unit}".rstrip()

    @property
    def how(self) -> str:
        """How one answers."""
        return {
            "choice": "a letter", "order": "the letters in order", "bug": "the number of a line",
            "number": f"a number{f' ({self.unit})' if self.unit else ''}",
        }[self.kind]  # fmt: skip

    def judge(self, answer: str) -> Judged:
        """Compare an answer with the right one. Raises ArgumentError for what is none."""
        given = _normal(self, answer)
        if given == self.right_answer or (self.kind == "number" and self._is_near(given)):
            return Judged(True, self.why)
        return Judged(False, self._why_not(given))

    def _is_near(self, given: str) -> bool:
        return math.isclose(float(given), self.number, rel_tol=self.tolerance, abs_tol=1e-12)

    def _why_not(self, given: str) -> str:
        if self.kind == "choice":
            return self.reasons[self.options[_LETTERS.index(given)]]
        if self.kind == "order":
            place = next(n for n, pair in enumerate(zip(given, self.right_answer, strict=True)) if pair[0] != pair[1])
            said = self.options[_LETTERS.index(given[place])]
            return f"Place {place + 1} is not “{said}”. {self.reasons[said]}"
        known = next((why for text, why in self.reasons.items() if _same(text, given)), "")
        if known or self.kind == "bug":
            return known or f"Line {given} does what it should. {_LOOK}"
        return f"{'Too few' if float(given) < self.number else 'Too many'}. Write down what is counted, one by one."

    @cached_property
    def key(self) -> str:
        """What progress is kept under: a question that was rewritten is a new one."""
        said = [self.ask, self.code, *self.options, *self.solution, str(self.number)]
        return cache.content_key(_STORE, self.lab, self.id, hashlib.sha256(json.dumps(said).encode()).hexdigest())


@dataclass(frozen=True)
class Progress:
    """What somebody has answered to a question so far, the first answer first."""

    answers: tuple[str, ...] = ()
    right: bool = False


# ---------------------------------------------------------------- reading


def questions(lab: Lab, course: Course | None = None) -> tuple[Question, ...]:
    """The questions of a lab; none where it has no file. Raises CourseError with the file, the question, what next."""
    path = (course or Course.find()).root / "labs" / lab.name / FILE
    if not path.is_file():
        return ()
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{path} is no TOML: {error}", next_step="Mend that line.") from None
    rows = found.get("question", [])
    if not isinstance(rows, list) or set(found) - {"question"}:
        raise CourseError(f"{path} holds more than questions", next_step="Begin each with a line [[question]].")
    made = tuple(_question(lab.name, row, path, number) for number, row in enumerate(rows, start=1))
    names = [question.id for question in made]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise CourseError(f"{path}: two questions are called {twice}", next_step="Give one another id.")
    return made


def find_question(name: str, course: Course | None = None) -> Question:
    """The question that is meant by lab02/tile-bytes. Raises CourseError where there is none."""
    lab_name, _, wanted = name.partition("/")
    course = course or Course.find()
    found = questions(course.lab(lab_name), course)
    for number, question in enumerate(found, start=1):
        if wanted in (question.id, str(number)):
            return question
    raise CourseError(
        f"{lab_name} has no question '{wanted}'", next_step=did_you_mean(wanted, [question.id for question in found])
    )


def _question(lab: str, row: Any, path: Path, number: int) -> Question:
    try:
        return _made(lab, row)
    except (CourseError, ValueError, TypeError, KeyError) as error:
        name = row.get("id", "") if isinstance(row, dict) else ""
        said = error.message if isinstance(error, CourseError) else f"{type(error).__name__}: {error}"
        step = error.next_step if isinstance(error, CourseError) else "warpschool.questions has examples."
        raise CourseError(f"{path}: question {number} ({name}): {said}", next_step=step) from None


def _made(lab: str, row: Mapping[str, Any]) -> Question:
    _check(row)
    kind, wrong = row["kind"], {_text(said): str(why) for said, why in row.get("wrong", ())}
    given: dict[str, Any] = {"code": row.get("code", "").strip("\n"), "reasons": wrong}
    if kind == "choice":
        given |= {"options": _mixed(row["id"], [row["right"], *wrong]), "solution": (row["right"],)}
    elif kind == "order":
        given["reasons"] = dict(row["steps"])
        steps = tuple(given["reasons"])
        given |= {"options": _mixed(row["id"], steps, never=steps), "solution": steps}
    elif kind == "number":
        given |= {"number": float(row["answer"]), "tolerance": float(row.get("tolerance", 0))}
        given |= {"unit": row.get("unit", ""), "recipe": row.get("recipe", "")}
    else:
        given |= {"number": float(row["line"]), "mended": row["mended"].strip("\n"), "shows": Shows(**row["shows"])}
    made = Question(lab, row["id"], kind, row["ask"].strip(), row["why"].strip(), **given)
    _check_answers(made)
    return made


def _check(row: Mapping[str, Any]) -> None:
    """Raises CourseError for a question that says too little, too much, or no known kind."""
    kind = row.get("kind")
    if kind not in KINDS:
        raise CourseError(f"its kind is {kind!r}", next_step=f"There are {', '.join(KINDS)}.")
    must, may = _MUST | _KEYS[kind][0], _MAY | _KEYS[kind][1]
    if missing := sorted(must - set(row)):
        raise CourseError(f"it lacks {', '.join(missing)}", next_step=f"A {kind} needs {', '.join(sorted(must))}.")
    if unknown := sorted(set(row) - must - may):
        raise CourseError(f"a {kind} has no key {unknown[0]}", next_step=did_you_mean(unknown[0], [*must, *may]))
    if kind == "bug" and set(row["shows"]) != _SHOWS:
        raise CourseError("its `shows` is not whole", next_step=f"It has {', '.join(sorted(_SHOWS))}.")


def _check_answers(made: Question) -> None:
    if made.kind in ("choice", "order") and not 3 <= len(made.options) <= len(_LETTERS):
        raise CourseError(f"it has {len(made.options)} to choose from", next_step=f"Give 3 to {len(_LETTERS)}.")
    if made.kind == "bug" and not 1 <= made.number <= len(made.code.splitlines()):
        raise CourseError(f"its code has no line {made.number:g}", next_step="Lines of `code` count from 1.")
    if made.kind == "number" and any(_same(text, made.right_answer) for text in made.reasons):
        raise CourseError("the right answer is among the wrong ones", next_step="Take it out there.")


def _mixed(name: str, texts: Sequence[str], *, never: Sequence[str] = ()) -> tuple[str, ...]:
    """The texts in an order that follows from the question's name, so that nobody's habit shows; not in `never`."""
    if len(set(texts)) < len(texts):
        raise CourseError("two of its answers are the same text", next_step="Say them differently.")
    random, mixed = Random(name), list(texts)
    random.shuffle(mixed)
    while tuple(mixed) == tuple(never):
        random.shuffle(mixed)
    return tuple(mixed)


def _text(said: object) -> str:
    return f"{said:.10g}" if isinstance(said, int | float) else str(said)


def _shown(number: float) -> str:
    return f"{number:,.10g}" if abs(number) < 1e15 else f"{number:g}"


def _same(text: str, given: str) -> bool:
    try:
        return math.isclose(float(text), float(given), rel_tol=1e-9)
    except ValueError:
        return text == given


def _normal(question: Question, answer: str) -> str:
    """An answer as `right_answer` writes it. Raises ArgumentError for what cannot be one."""
    given = str(answer).strip().lower()
    letters = _LETTERS[: len(question.options)]
    if question.kind == "choice" and len(given) == 1 and given in letters:
        return given
    if question.kind == "order":
        given = "".join(c for c in given if c.isalnum())
        if sorted(given) == sorted(letters):
            return given
    if question.kind in ("number", "bug"):
        try:
            value = float(given.removeprefix("line").replace(",", "").replace("_", ""))
        except ValueError:
            value = math.nan
        lines = range(1, len(question.code.splitlines()) + 1)
        if math.isfinite(value) and (question.kind == "number" or value in lines):
            return f"{value:.10g}"
    shown = {"choice": f"One of {', '.join(letters)}.", "order": f"Each of {letters} once, as in {letters[::-1]}."}
    raise ArgumentError(
        f"{answer!r} is no answer to {question.name}",
        next_step=shown.get(question.kind, f"Answer with {question.how}."),
    )


# ---------------------------------------------------------------- progress


def answer(question: Question, said: str) -> Judged:
    """Judge an answer and keep it, beside the results of checks. Raises ArgumentError for what is none."""
    judged, before = question.judge(said), progress(question)
    entry = {"answers": [*before.answers, _normal(question, said)][-20:], "right": judged.right or before.right}
    cache.store(_STORE, question.key, entry)
    return judged


def progress(question: Question) -> Progress:
    """What was answered so far."""
    entry = cache.load(_STORE, question.key) or {}
    return Progress(tuple(map(str, entry.get("answers", ()))), bool(entry.get("right", False)))
