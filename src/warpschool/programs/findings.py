"""What is found in a run: each thing once, with the places of the host's code looked up at the end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ptxsim import Finding
from warpschool.programs.arena import Arena, Piece
from warpschool.programs.hosts import Loaded, Place, frames
from warpschool.programs.report import HostFrame, Note

_ALLOCATION = re.compile(r"\bcuda(?:Malloc|HostAlloc|HostRegister)\w*\s*(?:<[^<>]*>)?\s*\(\s*(?:\([^()]*\)\s*)?&?\s*([\w.>\[\]-]+?)\s*,")
_WRAPPED = re.compile(r"\(\s*(?:\([^()]*\)\s*)?&\s*([A-Za-z_][\w.>\[\]-]*?)\s*,")
_MOST = 1000


@dataclass
class _Raw:
    kind: str
    finding: Finding | None
    kernel: str
    launch: int
    facts: Mapping[str, Any]
    hosts: tuple[Place, ...]
    piece: Piece | None
    times: int = 1


@dataclass
class Findings:
    """Collected while the program runs, told when it has ended."""

    arena: Arena
    found: dict[object, _Raw] = field(default_factory=dict)

    def device(self, finding: Finding, kernel: str, launch: int, hosts: tuple[Place, ...], address: int = 0) -> None:
        """A kernel's hazard; the same line's in another launch is the same."""
        key = (kernel, finding.kind, finding.line, finding.access, finding.detail)
        piece = self.arena.by_name.get(finding.array)
        freed = self.arena.was_at(address) if address and finding.kind == "out-of-bounds" else None
        kind = "use-after-free" if freed is not None else finding.kind
        self._add(key, _Raw(kind, finding, kernel, launch, {}, hosts, freed or piece))

    def kernel(self, kind: str, kernel: str, launch: int, hosts: tuple[Place, ...], **facts: Any) -> None:
        """A kernel's end that was none of its own."""
        self._add((kind, kernel, facts.get("line")), _Raw(kind, None, kernel, launch, facts, hosts, None))

    def host(self, kind: str, hosts: tuple[Place, ...], piece: Piece | None = None, **facts: Any) -> None:
        """Something that the host did."""
        self._add((kind, hosts), _Raw(kind, None, "", 0, facts, hosts, piece))

    def leak(self, piece: Piece) -> None:
        """Memory that was never freed; those of one place in the program are one."""
        key = ("leak", piece.origin)
        before = self.found.get(key)
        facts = {"bytes": piece.nbytes + (before.facts["bytes"] if before else 0)}
        if before is not None:
            before.facts = facts
        self._add(key, _Raw("leak", None, "", 0, facts, (), piece))

    def _add(self, key: object, raw: _Raw) -> None:
        before = self.found.get(key)
        if before is not None:
            before.times += 1
        elif len(self.found) < _MOST:
            self.found[key] = raw

    def told(self) -> tuple[Note, ...]:
        """All of them, with functions, files and lines."""
        raws = list(self.found.values())
        pieces = [p for raw in raws if (p := raw.piece) is not None]
        named = [p for raw in raws if raw.finding is not None and (p := self.arena.by_name.get(raw.finding.array))]
        stacks = frames([*(r.hosts for r in raws), *(p.origin for p in [*pieces, *named]), *(p.freed for p in pieces)])
        return tuple(self._note(raw, stacks) for raw in raws)

    def _note(self, raw: _Raw, stacks: Mapping[tuple[Place, ...], tuple[HostFrame, ...]]) -> Note:
        finding, facts, piece = raw.finding, dict(raw.facts), raw.piece
        if finding is not None and (named := self.arena.by_name.get(finding.array)) is not None:
            finding = replace(finding, array=_name_of(named, stacks))
        if piece is not None:
            facts = {"name": _name_of(piece, stacks), "size": piece.nbytes, "memory": piece.kind.name.lower()} | facts
        return Note(
            raw.kind, finding, raw.kernel, raw.launch, facts, stacks.get(raw.hosts, ()),
            stacks.get(piece.origin, ()) if piece is not None else (),
            stacks.get(piece.freed, ()) if piece is not None and piece.freed else (), raw.times,
        )  # fmt: skip


def _name_of(piece: Piece, stacks: Mapping[tuple[Place, ...], tuple[HostFrame, ...]]) -> str:
    """A variable's name: its own, or that of the pointer which the program's line gives to cudaMalloc."""
    if piece.name:
        return piece.name
    for frame in stacks.get(piece.origin, ()):
        line = _line(frame.file, frame.line)
        match = _ALLOCATION.search(line) or _WRAPPED.search(line)
        if match:
            return match[1]
    return f"allocation {piece.number}"


@cache
def _lines(file: str) -> tuple[str, ...]:
    try:
        return tuple(Path(file).read_text("utf-8", "replace").split("\n"))
    except OSError:
        return ()


def _line(file: str, number: int) -> str:
    lines = _lines(file)
    return lines[number - 1] if 0 < number <= len(lines) else ""


@dataclass
class Process:
    """The program's process, as far as addresses of its code are concerned."""

    pid: int
    loaded: Loaded = field(default_factory=lambda: Loaded((), (), ()))

    def places(self, callers: Iterable[int]) -> tuple[Place, ...]:
        """Looked up while the process lives; libraries that it loaded later are found too."""
        callers = tuple(callers)
        found = self.loaded.places(callers)
        if not found and callers:
            self.loaded = Loaded.of(self.pid)
            found = self.loaded.places(callers)
        return found
