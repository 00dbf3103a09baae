"""Findings on source lines: the array that is marked, and both threads that meet, each at its own line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ptxsim import Finding
from warpschool.grading.result import Criterion
from warpschool.grading.verdicts import Observed, case_words
from warpschool.show.source import Note

_SIGNS = (("①", "②"), ("③", "④"), ("⑤", "⑥"), ("⑦", "⑧"))


def note_on(source: str, line: int, message: str, *, array: str = "") -> Note | None:
    """Return a message as a note on its line; None for a line that the source does not have.

    The mark is put under `array` where the line mentions it; else under the line.
    """
    rows = source.removesuffix("\n").split("\n")
    if not 1 <= line <= len(rows):
        return None
    return Note(line, message, *_mark(rows[line - 1].expandtabs(4).rstrip(), array))


def note_below(source: str, line: int, message: str, *, array: str = "") -> Note | None:
    """Return a message as a note on its line; None also for one that quotes the line itself, as a compiler's does."""
    note = note_on(source, line, message, array=array)
    if note is None or "\n" not in message:
        return note
    return None if source.split("\n")[line - 1].strip() in message else note


def finding_notes(source: str, found: Finding, *, number: int = 0, kind: str = "", more: str = "") -> list[Note]:
    """Return the notes for one finding: two where it names two threads, at most one else; none without a line.

    `number` counts the findings from 0, so that their threads have signs of their own; `kind` stands before the
    sentence and `more` behind it.
    """
    told = found.told
    note = note_on(source, found.line, f"{kind}{found.message}{more}", array=found.variable)
    if note is None or not told.is_pair or (found.other_did == "copy" and not told.line):
        return [note, *call_notes(source, found.calls)] if note else []
    there = note_on(source, told.line, "", array=found.variable) or replace(note, start=0, width=0)
    if there.line == note.line:  # one mark is enough
        there = replace(there, start=0, width=0)
    first, second = _SIGNS[number % len(_SIGNS)]
    whom = told.whom
    if found.others != "thread" and found.other_thread is not None:
        whom += f" (one is thread {found.other_thread})"
    glue = " " if found.kind == "divergent-barrier" else ": "
    it = " it" if found.kind == "race" and found.other_did != "copy" else ""
    here = " here" if told.line else ""
    return [
        replace(note, text=f"{first} {kind}{told.who} {told.does}{glue}{told.why}{more}"),
        replace(there, text=f"{second} {whom} {told.did}{it}{here}", is_second=True),
        *call_notes(source, (*found.calls, *found.other_calls)),
    ]


def call_notes(source: str, calls: Iterable[int]) -> list[Note]:
    """Return a note on each line that called the helper in which something happened."""
    found = (note_on(source, line, "called here") for line in dict.fromkeys(calls))
    return [replace(note, is_second=True) for note in found if note is not None]


def observed_notes(source: str, about: Observed) -> list[Note]:
    """Return the notes for what a criterion saw; none without a line, and for what quotes the source itself."""
    if about.finding is not None:
        return finding_notes(source, about.finding, more=about.message.removeprefix(about.finding.message))
    note = note_below(source, about.line, about.message)
    return [note] if note else []


def briefly(criterion: Criterion) -> str:
    """What a criterion saw, in one line: sizes, line, the message's first words, and the pattern if there is one."""
    first = criterion.message.split("\n")[0]
    case = f"at {case_words(criterion.case)}" if criterion.case else ""
    line = f"line {criterion.line}" if criterion.line else ""
    where = ", ".join(filter(None, (case, line)))
    pattern = f": {criterion.wrong.pattern}" if criterion.wrong is not None and criterion.wrong.pattern else ""
    return f"{where}: {first}{pattern}" if where else f"{first}{pattern}"


def hazard_notes(source: str, hazards: Iterable[Finding]) -> list[Note]:
    """Return the notes for the hazards of a run, each with its kind."""
    return [
        note
        for number, found in enumerate(hazards)
        for note in finding_notes(source, found, number=number, kind=f"{found.kind}: ")
    ]


def diagnostic_notes(diagnostics: Iterable[Any]) -> list[Note]:
    """Return a note for each message of the compiler that has a place."""
    return [
        Note(
            found.line, "\n".join([f"{found.severity}: {found.message}", *found.notes]),
            len(found.text[: max(0, found.column - 1)].expandtabs(4)), found.width if found.column else 0,
        )
        for found in diagnostics
        if found.line
    ]  # fmt: skip


def _mark(text: str, array: str) -> tuple[int, int]:
    """Start and width of the mark: the array with its brackets, else the whole statement."""
    match = re.search(rf"\b{re.escape(array)}\b", text) if array else None
    if match:
        return match.start(), _with_brackets(text, match.end()) - match.start()
    code = text.split("//")[0].rstrip() or text
    start = len(code) - len(code.lstrip())
    return start, max(1, len(code) - start)


def _with_brackets(text: str, end: int) -> int:
    """The end of `name[...][...]`, given the end of its name."""
    depth = 0
    for place, sign in enumerate(text[end:], start=end):
        if not depth and sign != "[":
            return place
        depth += {"[": 1, "]": -1}.get(sign, 0)
    return len(text)
