"""What a source says around a line: the loop that a line belongs to, variables that are declared without a value.

No C++ parser: brackets and words of the text without comments and strings. What is not found is not told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warpschool.compile.source import blank, line_of

_LOOP = re.compile(r"\b(?P<word>for|while|do)\b")
_TYPE = r"(?:float|double|int|unsigned|long|short|char|bool|(?:__)?half2?|size_t|u?int\d+_t|(?:float|int|uint)[234])"
_DECLARED = re.compile(rf"(?<![\w(,])(?:unsigned\s+|long\s+)?{_TYPE}\s+(?P<names>[^;(){{}}=]*(?:=[^;]*)?);")
_DYNAMIC = re.compile(r"\bextern\b[^;{}]*\b__shared__\b[^;{}]*?\b(?P<name>\w+)\s*\[\s*\]\s*;")
_NAME = re.compile(r"\s*\*?\s*(?P<name>[A-Za-z_]\w*)\s*(?P<size>(?:\[[^\]]*\]\s*)*)(?P<value>=.*)?\s*", re.DOTALL)


def loop_around(source: str, line: int) -> int:
    """The line where the innermost loop begins that the line is part of; the line itself where there is none."""
    code = blank(source, strings=True)
    around = [(first, last) for first, last in _loops(code) if first <= line <= last]
    return max(around, default=(line, line))[0]


def _loops(code: str) -> Iterator[tuple[int, int]]:
    """First and last line of every loop."""
    for match in _LOOP.finditer(code):
        body = match.end()
        if match["word"] != "do":
            opened = code.find("(", body)
            if opened < 0 or code[body:opened].strip():
                continue
            body = _closing(code, opened) + 1
        end = _end_of_statement(code, body)
        if end > body:
            yield line_of(code, match.start()), line_of(code, end)


def _end_of_statement(code: str, start: int) -> int:
    """Offset of the last character of the statement that begins at `start`; -1 where it has no end."""
    at = start
    while at < len(code):
        if code[at] in "([":
            at = _closing(code, at)
        elif code[at] == "{":
            return _closing(code, at)
        elif code[at] == ";":
            return at
        at += 1
    return -1


def _closing(code: str, opened: int) -> int:
    """Offset of the bracket that closes the one at `opened`; the last character where none does."""
    depth = 0
    for at in range(opened, len(code)):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if not depth:
            return at
    return len(code) - 1


def dynamic_shared(source: str) -> str:
    """The name of the array in dynamic shared memory that a source declares; "" where it declares none."""
    match = _DYNAMIC.search(blank(source, strings=True))
    return match["name"] if match is not None else ""


def unset_variable(source: str, line: int) -> tuple[str, int]:
    """The variable that the line names and that was declared without a value last before it, and the line of that.

    ("", 0) where there is none.
    """
    code = blank(source, strings=True)
    rows = code.split("\n")
    if not 1 <= line <= len(rows):
        return "", 0
    start = sum(len(row) + 1 for row in rows[: line - 1])
    end = max(_end_of_statement(code, start), start + len(rows[line - 1]))
    words = set(re.findall(r"[A-Za-z_]\w*", code[start : end + 1]))
    found = [(at, name) for at, name in _declared_without(code) if at <= line and name in words]
    at, name = max(found, default=(0, ""))
    return name, at


def _declared_without(code: str) -> Iterator[tuple[int, str]]:
    """Line and name of every local variable that is declared without a value; `__shared__` ones are none."""
    for match in _DECLARED.finditer(code):
        before = code[code.rfind("\n", 0, match.start()) + 1 : match.start()]
        if re.search(r"__shared__|__constant__|__device__|extern|static|constexpr", before):
            continue
        for part in re.split(r",(?![^(\[{]*[)\]}])", match["names"]):
            named = _NAME.fullmatch(part)
            if named is not None and not named["value"]:
                yield line_of(code, match.start()), named["name"]


_ALIGNMENT = re.compile(
    r"\b(?:__align__|alignas)\s*\(\s*\w+\s*\)|__attribute__\s*\(\(\s*aligned\s*\(\s*\w+\s*\)\s*\)\)"
)


def without_alignment(source: str) -> str:
    """The source whose declarations promise no alignment but their types': every line stays where it is.

    Where an alignment is promised the compiler may join loads of neighbours into one that nobody has written.
    """
    return _ALIGNMENT.sub("", source)
