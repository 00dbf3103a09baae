"""What is found in a run: each thing once, with the places of the host's code looked up at the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ptxsim import Finding
from warpschool.programs.arena import Arena, Piece
from warpschool.programs.hosts import Loaded, Place, frames
from warpschool.programs.report import HostFrame, Note

_ALLOCATION = re.compile(
    r"\bcuda(?:Malloc|HostAlloc|HostRegister)\w*\s*(?:<[^<>]*>)?\s*\(\s*(?:\([^()]*\)\s*)?&?\s*([\w.>\[\]-]+?)\s*,"
)
_WRAPPED = re.compile(r"\(\s*(?:\([^()]*\)\s*)?&\s*([A-Za-z_][\w.>\[\]-]*?)\s*,")
_NUMBERED = re.compile(r"\ballocation \d+\b")
_MOST = 1000
Stacks = Mapping[tuple[Place, ...], tuple[HostFrame, ...]]


@cache
def read_lines(file: str) -> tuple[str, ...]:
    """A file's lines; none of one that cannot be read."""
    try:
        return tuple(Path(file).read_text("utf-8", "replace").split("\n"))
    except OSError:
        return ()


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
    lines_of: Callable[[str], Sequence[str]] = read_lines
    """the lines of a source file, in which memory gets its names"""

    def device(self, finding: Finding, kernel: str, launch: int, hosts: tuple[Place, ...], address: int = 0) -> None:
        """A kernel's hazard; the same line's in another launch is the same."""
        nowhere = finding.detail == "nowhere"
        piece = self.arena.by_name.get(finding.array) if not nowhere else None
        freed = self.arena.was_at(address) if address and finding.kind == "out-of-bounds" else None
        kind = "use-after-free" if freed is not None else finding.kind
        key = (kernel, kind, finding.line, finding.access, finding.detail)
        self._add(key, _Raw(kind, finding, kernel, launch, {}, hosts, freed or piece))

    def kernel(
        self, kind: str, kernel: str, launch: int, hosts: tuple[Place, ...], piece: Piece | None = None, **facts: Any
    ) -> None:  # fmt: skip
        """A kernel's end that was none of its own, or what it did to an array as a whole."""
        key = kind, kernel, facts.get("line"), piece.origin if piece is not None else None
        self._add(key, _Raw(kind, None, kernel, launch, facts, hosts, piece))

    def host(self, kind: str, hosts: tuple[Place, ...], piece: Piece | None = None, **facts: Any) -> None:
        """Something that the host did."""
        self._add((kind, hosts), _Raw(kind, None, "", 0, facts, hosts, piece))

    def has(self, hosts: tuple[Place, ...]) -> bool:
        """Whether something is known of a place of the host's."""
        return any(raw.hosts == hosts for raw in self.found.values())

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
        everywhere = {piece.origin for piece in self.arena.by_name.values()} if raws else set()
        stacks = frames([*(r.hosts for r in raws), *everywhere, *(p.freed for p in pieces)])
        names = _Names(stacks, everywhere, self.lines_of)
        return tuple(self._note(raw, stacks, names) for raw in raws)

    def _note(self, raw: _Raw, stacks: Stacks, names: _Names) -> Note:
        finding, facts, piece = raw.finding, dict(raw.facts), raw.piece
        if finding is not None and (named := self.arena.by_name.get(finding.array)) is not None:
            finding = replace(finding, array=names.of(named))
        if message := facts.get("message"):  # a launch's end names memory as the simulator does
            facts["message"] = _NUMBERED.sub(lambda m: self._named(m[0], names), message)
        if piece is not None:
            facts = {"name": names.of(piece), "size": piece.nbytes, "memory": piece.kind.name.lower()} | facts
        hosts = asking(stacks.get(raw.hosts, ()), raw.kernel)
        return Note(
            raw.kind, finding, raw.kernel, raw.launch, facts, hosts,
            stacks.get(piece.origin, ()) if piece is not None else (),
            stacks.get(piece.freed, ()) if piece is not None and piece.freed else (), raw.times,
        )  # fmt: skip

    def _named(self, allocation: str, names: _Names) -> str:
        piece = self.arena.by_name.get(allocation)
        return names.of(piece) if piece is not None else allocation


def asking(hosts: tuple[HostFrame, ...], kernel: str) -> tuple[HostFrame, ...]:
    """A launch's stack without the kernel's own function of the host, which stands at the kernel's line."""
    return hosts[1:] if hosts and kernel and _base(hosts[0].function) == _base(kernel) else hosts


def _base(name: str) -> str:
    """A function's name without namespaces, template arguments and parameters."""
    plain = re.sub(r"[<(].*", "", name.removeprefix("void "))
    return plain.rpartition("::")[2]


class _Names:
    """What the program calls its memory: the pointers that its lines give to cudaMalloc.

    Several calls in one line are told apart by the order of their code.
    """

    def __init__(
        self, stacks: Stacks, origins: Iterable[tuple[Place, ...]], lines_of: Callable[[str], Sequence[str]]
    ) -> None:
        self._stacks, self._lines_of = stacks, lines_of
        self._calls: dict[HostFrame, list[tuple[Place, ...]]] = {}
        for origin in sorted(set(origins)):
            for frame in stacks.get(origin, ())[:1]:
                self._calls.setdefault(frame, []).append(origin)

    def of(self, piece: Piece) -> str:
        if piece.name:
            return piece.name
        for depth, frame in enumerate(self._stacks.get(piece.origin, ())):
            lines = self._lines_of(frame.file)
            line = lines[frame.line - 1] if 0 < frame.line <= len(lines) else ""
            found = _ALLOCATION.findall(line) or _WRAPPED.findall(line)
            if found:
                calls = self._calls.get(frame, []) if depth == 0 else []
                place = calls.index(piece.origin) if len(calls) == len(found) > 1 else 0
                return str(found[place])
        return f"allocation {piece.number}"


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
            now = Loaded.of(self.pid)
            self.loaded = now if now.starts else self.loaded  # a confined process may not look
            found = self.loaded.places(callers)
        return found
