"""Whether a program drops what a call returns: read off the line that makes the call.

Who looks at `cudaGetLastError()` later, or asks what an error is called, is heard by the runtime library. A value that
is compared, kept or handed to a macro is not: so nobody is accused whose line does anything with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from warpschool.programs.report import HostFrame

Lines = Callable[[str], Sequence[str]]
_BEFORE, _BEHIND = 40, 8
"""Lines that are read around a call."""
_NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*', re.DOTALL | re.MULTILINE)
_ANY_CALL = r"cu(?:da)?[A-Z]\w*"
_CONTROL = ("if", "while", "for", "switch")


def is_dropped(hosts: Sequence[HostFrame], call: str, lines_of: Lines) -> bool:
    """Whether nothing becomes of the value of `call`, which the innermost of `hosts` made.

    Where a function only hands it on, its own caller decides. What cannot be read counts as used.
    """
    for frame in hosts:
        fates = _fates(frame, call, lines_of(frame.file))
        if fates != {"returned"}:
            return fates == {"dropped"}
        call = frame.function.rpartition("::")[2]
    return False


def _fates(frame: HostFrame, call: str, lines: Sequence[str]) -> set[str]:
    """What becomes of the call's value: "dropped", "returned", "used", of all calls of this name in the statement."""
    if not 0 < frame.line <= len(lines):
        return {"used"}
    first = max(0, frame.line - 1 - _BEFORE)
    before = "\n".join(lines[first : frame.line - 1])
    here = "\n".join(lines[frame.line - 1 : frame.line - 1 + _BEHIND])
    text = _NO_CODE.sub(_blank, f"{before}\n{here}")
    start = len(before) + 1
    line_end = start + len(lines[frame.line - 1])
    end = max(line_end, text.find(";", start))
    for name in (re.escape(call), _ANY_CALL):
        found = [m.start() for m in re.finditer(rf"\b{name}\s*(?:<[^<>;]*>\s*)?\(", text[:end]) if m.start() >= start]
        if found:
            return {_fate(text[:at]) for at in found}
    return {"used"}


def _blank(found: re.Match[str]) -> str:
    """As many characters, none of which is code."""
    kept = '"' if found[0].startswith('"') else " "
    return re.sub(r"[^\n]", kept, found[0])


def _fate(before: str) -> str:
    """By what stands in front of a call."""
    before = re.sub(r"(?:\b\w+\s*)?::\s*$", "", before).rstrip()
    if not before or before[-1] in ";{}":
        return "dropped"
    if before[-1] == ")":
        return _behind_brackets(before)
    word = re.search(r"\w+$", before)
    if word is None:
        return "used"
    return {"else": "dropped", "do": "dropped", "return": "returned"}.get(word[0], "used")


def _behind_brackets(before: str) -> str:
    """Behind a condition the call stands alone; behind a cast its value goes on, to nobody where that is to void."""
    depth, at = 0, len(before)
    for at in range(len(before) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(before[at], 0)
        if depth == 0:
            break
    word = re.search(r"(\w+)\s*$", before[:at])
    if word is None:
        return "used"
    return "dropped" if word[1] in _CONTROL else "returned" if word[1] == "return" else "used"
