"""Notes on source lines: what was found there, and for a hazard both threads that meet, each on its own line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from warpschool.show.frame import frame

_THREAD = r"thread \([^)]*\)(?: of block \([^)]*\))?"
_RACE = re.compile(
    rf"(?P<first>{_THREAD}) (?P<does>.+?), which (?P<second>.+?) "
    r"(?P<did>wrote and read|wrote|read|updated atomically)(?: in line (?P<line>\d+))?: (?P<why>.+)",
    re.DOTALL,
)
_COPY = re.compile(
    rf"(?P<first>{_THREAD}) (?P<does>.+?), to which (?P<second>the copy) of line (?P<line>\d+) (?P<did>is on its way): "
    r"(?P<why>.+)",
    re.DOTALL,
)
_BARRIER = re.compile(
    rf"(?P<first>{_THREAD}) (?P<does>waits at a barrier) (?P<why>that not all threads reach): (?P<second>{_THREAD}) "
    r"(?P<did>.*?)(?: of line (?P<line>\d+))?",
    re.DOTALL,
)
_SIGNS = (("①", "②"), ("③", "④"), ("⑤", "⑥"), ("⑦", "⑧"))


@dataclass(frozen=True)
class Note:
    """What is to be said below a line; `start` and `width` mark characters of it, `is_second` the other thread."""

    line: int
    text: str
    start: int = 0
    width: int = 0
    is_second: bool = False


def hazard_notes(source: str, line: int, message: str, *, number: int = 0, other: object = None) -> list[Note]:
    """Return the notes for one finding: two where it names two threads, at most one else; none without a line.

    `number` counts the findings from 0, so that their threads have signs of their own; `other` is the second thread
    where it is known better than the message tells.
    """
    drawn = frame(source, line, message, around=0)
    if drawn is None:
        return []
    first, second = _SIGNS[number % len(_SIGNS)]
    kind, body = _split_kind(message)
    found = next((m for m in (p.fullmatch(body) for p in (_RACE, _COPY, _BARRIER)) if m), None)
    if found is None:
        return [Note(line, message, drawn.start, drawn.width)]
    place = int(found["line"] or 0) or line
    if frame(source, place, "", around=0) is None:
        place = line
    second_thread = found["second"]
    if other is not None and "several" in second_thread:
        second_thread += f" (one is thread {other})"
    glue = " " if found["why"].startswith("that ") else ": "
    it = "" if found["did"].startswith(("has", "waits", "is")) else " it"
    mark = frame(source, place, message, around=0) if place != line else None
    return [
        Note(line, f"{first} {kind}{found['first']} {found['does']}{glue}{found['why']}", drawn.start, drawn.width),
        Note(
            place,
            f"{second} {second_thread} {found['did']}{it}{' here' if found['line'] else ''}",
            mark.start if mark else 0, mark.width if mark else 0, is_second=True,
        ),
    ]  # fmt: skip


def by_line(notes: Iterable[Note]) -> Mapping[int, Sequence[Note]]:
    """Line -> its notes, in their order; equal ones once."""
    found: dict[int, list[Note]] = {}
    for note in notes:
        here = found.setdefault(note.line, [])
        if note not in here:
            here.append(note)
    return found


def diagnostic_notes(diagnostics: Iterable[object]) -> list[Note]:
    """Return a note for each message of the compiler that has a place."""
    notes = []
    for item in diagnostics:
        line, message = getattr(item, "line", 0), getattr(item, "message", "")
        if line:
            before = getattr(item, "text", "")[: max(0, getattr(item, "column", 0) - 1)].expandtabs(4)
            more = "".join(f"\n{text}" for text in getattr(item, "notes", ()))
            width = getattr(item, "width", 0) if getattr(item, "column", 0) else 0
            notes.append(Note(line, f"{getattr(item, 'severity', 'error')}: {message}{more}", len(before), width))
    return notes


def _split_kind(message: str) -> tuple[str, str]:
    """("race: ", the rest): what a report puts before a hazard's own sentence."""
    match = re.match(r"[a-z][a-z-]*: ", message)
    return (match[0], message[match.end() :]) if match else ("", message)
