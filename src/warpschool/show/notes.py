"""What a finding's sentence says of its source lines: the array to mark, the case, both threads that meet."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from warpschool.show.source import Frame, Note, frame_of

_SHARED_NAME = re.compile(r"\bshared (\w+)\b")
_ARRAY_NAME = re.compile(r"\b(?:reads|writes|updates) (?:outside )?(\w+)")
_CASE = re.compile(r"at ((?:\w+ = \S+?(?:, )?)+): ")
_PLACE = re.compile(r"^[^\s:]+\.cuh?:\d+: ")
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


def frame(source: str, line: int, message: str, *, array: str = "", around: int = 2) -> Frame | None:
    """Return the lines around one with a message below it; None for a line that the source does not have."""
    note = note_on(source, line, message, array=array)
    return frame_of(source, [note], around=around) if note else None


def note_on(source: str, line: int, message: str, *, array: str = "") -> Note | None:
    """Return a message as a note on its line; None for a line that the source does not have.

    The mark is put under `array`, or the array that the message names, where the line mentions it; else under the line.
    """
    rows = source.removesuffix("\n").split("\n")
    if not 1 <= line <= len(rows):
        return None
    return Note(line, message, *_mark(rows[line - 1].expandtabs(4).rstrip(), array or array_in(message)))


def array_in(message: str) -> str:
    """The array that a hazard's message speaks of, or ""."""
    match = _SHARED_NAME.search(message) or _ARRAY_NAME.search(message)
    return match[1] if match and match[1] not in ("shared", "global", "local", "outside") else ""


def split_case(message: str) -> tuple[str, str]:
    """Split "at M = 31, N = 33: k.cu:7: what was seen" into its sizes and what was seen; the place is left out."""
    match = _CASE.match(message)
    case, rest = (match[1], message[match.end() :]) if match else ("", message)
    return case, _PLACE.sub("", rest)


def hazard_notes(source: str, line: int, message: str, *, number: int = 0, other: object = None) -> list[Note]:
    """Return the notes for one finding: two where it names two threads, at most one else; none without a line.

    `number` counts the findings from 0, so that their threads have signs of their own; `other` is the second thread
    where it is known better than the message tells.
    """
    note = note_on(source, line, message)
    if note is None:
        return []
    first, second = _SIGNS[number % len(_SIGNS)]
    kind, body = _split_kind(message)
    found = next((m for m in (p.fullmatch(body) for p in (_RACE, _COPY, _BARRIER)) if m), None)
    if found is None:
        return [note]
    place = int(found["line"] or 0) or line
    there = note_on(source, place, message) or note
    second_thread = found["second"]
    if other is not None and "several" in second_thread:
        second_thread += f" (one is thread {other})"
    glue = " " if found["why"].startswith("that ") else ": "
    it = "" if found["did"].startswith(("has", "waits", "is")) else " it"
    here = " here" if found["line"] else ""
    if there.line == line:  # one mark is enough
        there = replace(there, start=0, width=0)
    return [
        replace(note, text=f"{first} {kind}{found['first']} {found['does']}{glue}{found['why']}"),
        replace(there, text=f"{second} {second_thread} {found['did']}{it}{here}", is_second=True),
    ]


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
    while end < len(text) and text[end] == "[":
        depth, place = 0, end
        while place < len(text):
            depth += {"[": 1, "]": -1}.get(text[place], 0)
            place += 1
            if not depth:
                break
        end = place
    return end
