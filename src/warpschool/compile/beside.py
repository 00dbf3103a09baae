"""A file together with the headers of its own that it includes, as one text.

`#include "my.h"` means a file beside the kernel file. What compiles, counts, records or sends a source has one text and
no folder, so the headers travel in that text: behind the last line, as comments that begin with `//: `. Every line of
the file keeps its number; who compiles it takes the headers out again. Graded files are read alone and have none.
"""

from __future__ import annotations

import re
from pathlib import Path

from warpschool.compile.source import blank, normalise
from warpschool.errors import CompileError

_QUOTED = re.compile(r"^[^\S\n]*#[^\S\n]*include[^\S\n]*\"(?P<name>[^\"\n]+)\"", re.MULTILINE)
_HEAD = '//: header "{}"'
_BUNDLED = re.compile(r'^//: header "(?P<name>[^"\n]+)"\n(?P<text>(?://:(?! header ")[^\n]*\n)*)', re.MULTILINE)
_MOST = 64


def with_headers(source: str, folder: Path) -> str:
    """The source with all headers behind it that it includes from `folder` or below; itself where there are none.

    Raises CompileError for one that cannot be read, for two that share a name, and for more than 64.
    """
    found = _headers(source, folder.resolve())
    if not found:
        return source
    parts = [source if source.endswith("\n") else source + "\n"]
    for name, text in found.items():
        parts += [_HEAD.format(name) + "\n", *(f"//: {row}".rstrip() + "\n" for row in text.split("\n"))]
    return "".join(parts)


def headers_within(source: str) -> dict[str, str]:
    """The headers that a text brings along: name -> text."""
    if '\n//: header "' not in source:
        return {}
    return {
        match["name"]: "\n".join(row[4:] for row in match["text"].removesuffix("\n").split("\n"))
        for match in _BUNDLED.finditer(source if source.endswith("\n") else source + "\n")
    }


def _headers(source: str, root: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    places: dict[str, Path] = {}
    waiting = [(source, root)]
    while waiting:
        text, here = waiting.pop()
        for match in _QUOTED.finditer(blank(normalise(text))):
            name = match["name"]
            place = next((path for base in (here, root) if (path := (base / name).resolve()).is_file()), None)
            if place is None or not place.is_relative_to(root):
                continue
            if places.setdefault(name, place) != place:
                both = f"{places[name]} and {place}"
                raise CompileError(f'"{name}" is two files: {both}', next_step="Rename one of them.")
            if name not in found:
                found[name] = _read(place)
                waiting.append((found[name], place.parent))
            if len(found) > _MOST:
                raise CompileError(f"more than {_MOST} headers of its own are included")
    return found


def _read(path: Path) -> str:
    try:
        return normalise(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CompileError(f"cannot read the header {path}: {error}") from None
