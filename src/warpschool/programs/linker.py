"""Several modules of PTX as one: what `nvlink` does for files that were compiled with -rdc=true.

Text goes in and comes out. Names of a file's own get a suffix where another file has them too; of a function or
variable that several files bring along as `.weak`, the first stays; numbers of source files are counted on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from warpschool.errors import PtxSyntaxError

_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_HEADER = re.compile(r"\s*\.(?:version|target|address_size)\b[^\n]*\n?")
_FILE = re.compile(r'\s*\.file\s+(\d+)(\s+"[^"\n]*"[^\n]*\n?)')
_SECTION = re.compile(r"\s*\.section\b[^{]*\{[^}]*\}")
_LOOSE = re.compile(r"\s*(?:\.pragma\b[^;]*;|\.alias\b[^;]*;|\.loc\b[^\n]*|;)")
_LINKAGE = re.compile(r"\s*\.(visible|weak|extern|common)\b")
_FUNCTION = re.compile(r"\s*\.(?:entry|func)\b\s*(?:\([^)]*\)\s*)?([\w$]+)")
_VARIABLE = re.compile(r"\s*\.(?:global|const|shared|tex)\b[^;=]*?([A-Za-z_$%][\w$]*)\s*(?:\[[^\]]*\]\s*)*(?:=|;)")
_PLACE = re.compile(r"(\.loc\s+|\binlined_at\s+)(\d+)")
_REST = re.compile(r"\s*\Z")
_BRACE_OR_END = re.compile(r"[{};]")


@dataclass(frozen=True)
class _Piece:
    """A function or variable of a module: `linkage` is visible, weak, extern, common, or "" for the file's own."""

    name: str
    linkage: str
    text: str
    defines: bool


def link(modules: Sequence[str]) -> str:
    """One module of several. Raises PtxSyntaxError: a name has two definitions, or this is no PTX that nvcc makes."""
    if len(modules) == 1:
        return modules[0]
    texts = [_COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else " ", text) for text in modules]
    head = "".join(m[0] for m in _HEADER.finditer(texts[0]))
    parts = [[*_pieces(text)] for text in texts]
    owners: dict[str, set[int]] = {}
    for number, pieces in enumerate(parts):
        for piece in pieces:
            owners.setdefault(piece.name, set()).add(number)
    made, defined, files = [head], set[str](), 0
    for number, (text, pieces) in enumerate(zip(texts, parts, strict=True)):
        own = {p.name for p in pieces if not p.linkage and len(owners[p.name]) > 1}
        renamed = _renamer(own, number)
        for piece in pieces:
            if piece.defines and piece.name not in own:
                if piece.name in defined:
                    if piece.linkage in ("weak", "common"):
                        continue
                    raise PtxSyntaxError(
                        f"{piece.name} is defined in two files", next_step="Make one of them static, or extern."
                    )
                defined.add(piece.name)
            made.append(renamed(_counted_on(piece.text, files)))
        names = [*_FILE.finditer(text)]
        made += [f"\n.file {files + int(m[1])}{m[2]}" for m in names]
        files += max((int(m[1]) for m in names), default=0)
    return "".join(made)


def _renamer(names: set[str], number: int) -> Callable[[str], str]:
    """What gives a file's own names their suffix."""
    if not names:
        return lambda text: text
    pattern = re.compile(r"(?<![\w$%.])(" + "|".join(re.escape(n) for n in sorted(names)) + r")(?![\w$])")
    return lambda text: pattern.sub(lambda m: f"{m[1]}$file{number}", text)


def _counted_on(text: str, files: int) -> str:
    return _PLACE.sub(lambda m: f"{m[1]}{int(m[2]) + files}", text) if files else text


def _pieces(text: str) -> Iterator[_Piece]:
    """The functions and variables of a module, in their order."""
    at = 0
    while _REST.match(text, at) is None:
        for passed in (_HEADER, _FILE, _SECTION, _LOOSE):
            if (match := passed.match(text, at)) is not None:
                at = match.end()
                break
        else:
            start = at
            linkage = _LINKAGE.match(text, at)
            at = linkage.end() if linkage else at
            found = _FUNCTION.match(text, at)
            body = found is not None
            found = found or _VARIABLE.match(text, at)
            if found is None:
                raise PtxSyntaxError(f"cannot link this PTX: {text[start : start + 60].strip()!r}")
            at, defines = _end_of(text, found.end() if body else at, body)
            kind = linkage[1] if linkage else ""
            yield _Piece(found[1], kind, text[start:at], defines if body else kind != "extern")


def _end_of(text: str, at: int, body: bool) -> tuple[int, bool]:
    """Where a function or variable ends, and whether that is a body's brace."""
    if not body:
        return text.index(";", at) + 1, False
    depth = 0
    for match in _BRACE_OR_END.finditer(text, at):
        if match[0] == ";" and not depth:
            return match.end(), False
        depth += (match[0] == "{") - (match[0] == "}")
        if match[0] == "}" and not depth:
            return match.end(), True
    raise PtxSyntaxError("a function of this PTX does not end")
