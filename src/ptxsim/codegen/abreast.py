"""Warps abreast: a part of `full` that only reads and computes, written again for a few warps at once.

Between two barriers of a tiled product every warp multiplies its own row of A by the same tile of B. Warp by warp, each
vector of B is loaded for one multiply-add, and there are too few sums to keep the host's multipliers busy. Abreast,
what all these warps read at the same addresses is loaded once, and there are as many sums as they have together.

Such a part is straight code that stores to nothing but its warp's context, so that no warp can see what another does.
It is written again from its text: a line that depends on a warp's own values is repeated for each warp, and any other
stands for all. Addresses of whole vectors are taken to be alike; the function asks first, and where they are not runs
one warp after the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ptxsim.codegen import lockstep
from ptxsim.codegen.emit import CONTEXT, WARP, Builder, IRValue, constant, i32, i64
from ptxsim.codegen.unit import FullPart, Unit, thread_count

_NARROW, _WIDE = 2, 4
"""Warps that the host's vector registers have room for: 16 of 32 bytes, 32 of 64."""
_LEAST_SHARED = 8
"""Loads of vectors that warps must have in common for this to be worth the compilation."""

_NAME = re.compile(r'%(?:"[^"]*"|[\w.$-]+)')
_DEFINED = re.compile(rf"({_NAME.pattern}) = (.*)")
_CONTEXT_PLACE = re.compile(r"getelementptr i8, ptr %c, i64 (\d+)")
_WORD_LOAD = re.compile(rf"load (i32|i64), ptr ({_NAME.pattern}), align \d+")
_VECTOR_LOAD = re.compile(rf"load <\d+ x \w+>, ptr ({_NAME.pattern}), align \d+")
_HOME_LOAD = re.compile(r'load [^,]+, ptr (%"R[^"]*"), align \d+')
_STORE = re.compile(rf"store (?:<\d+ x \w+>|\w+) (\S+), ptr ({_NAME.pattern}), align \d+")
_PURE = re.compile(r"call [^@]*@llvm\.|load (?!volatile|atomic)|(?!call|load|alloca|phi|atomicrmw|cmpxchg)")
_CONTROL = re.compile(r"br |switch |ret |unreachable|\S+:$")


@dataclass
class _Straight:
    """What one warp does in a part, its registers' homes resolved into the values that they hold."""

    lines: list[str] = field(default_factory=list)
    result: int = 0
    places: dict[str, int] = field(default_factory=dict)
    """pointer into the warp's context -> bytes from its start"""
    words: dict[str, tuple[str, str]] = field(default_factory=dict)
    """word loaded from the context -> its type, and the pointer"""
    came_from: dict[str, frozenset[str]] = field(default_factory=lambda: dict.fromkeys(("%c", "%w"), frozenset()))
    """value -> the words that it depends on"""
    alike: set[str] = field(default_factory=set)
    """words that addresses of whole vectors depend on"""
    shared: int = 0
    """loads of such vectors"""


def warps_abreast(unit: Unit) -> int:
    """How many warps run at once."""
    return _WIDE if unit.wide_vectors else _NARROW


def abreast(unit: Unit, part: FullPart, lines: Sequence[str]) -> str | None:
    """A part in lockstep for so many warps at once, at least, whose contexts follow each other; None where nothing is
    gained.

    `lines` are what it does with a single one.
    """
    warps, watched = warps_abreast(unit), unit.options.check or unit.options.count
    if watched or len(part.blocks) > 1 or thread_count(unit.block) < WARP * warps or not unit.in_lockstep:
        return None
    straight = _read(lines, part.entries[0])
    if straight is None or straight.shared < _LEAST_SHARED:
        return None
    b = Builder("abreast")
    b.label("entry")
    part_alone, entry = IRValue("ptr", f"@{part.name}"), IRValue("i32", "%entry_block")
    size, groups = unit.context.size, b.binary("udiv", lockstep.COUNT, i64(warps))
    with b.loop(groups) as group:
        start = b.mul(group, i64(warps * size))
        b.emit(f"{CONTEXT.text} = getelementptr i8, {lockstep.CONTEXTS}, {start}")
        contexts = [CONTEXT, *(b.offset(CONTEXT, k * size) for k in range(1, warps))]
        together, apart, done = (b.new_label(name) for name in ("together", "apart", "done"))
        b.branch(_alike(b, straight, contexts), together, apart, likely=True, then=together)
        b.lines += _repeated(straight, [c.text for c in contexts])
        b.br(done, then=apart)
        lockstep.call(b, part_alone, (CONTEXT, i64(warps)), entry)
        b.br(done, then=done)
    some = b.mul(groups, i64(warps))
    rest = b.sub(lockstep.COUNT, some)
    with b.if_(b.icmp("ne", rest, i64(0)), likely=False):
        lockstep.call(b, part_alone, (b.offset(lockstep.CONTEXTS, b.mul(some, i64(size))), rest), entry)
    lockstep.note(b, b.add_const(lockstep.COUNT, -1), i32(straight.result))
    b.ret(i32(straight.result))
    return b.function(lockstep.header(part.abreast_name, in_lockstep=True))


def _alike(b: Builder, straight: _Straight, contexts: list[IRValue]) -> IRValue:
    """Whether warps have the same words where addresses of whole vectors depend on them."""
    same = constant("i1", 1)
    for word in sorted(straight.alike):
        type_, pointer = straight.words[word]
        first, *others = (b.load(type_, b.offset(context, straight.places[pointer])) for context in contexts)
        for other in others:
            same = b.and_(same, b.icmp("eq", first, other))
    return same


def _read(text: Sequence[str], entry: int) -> _Straight | None:
    """The way through a part; None where it branches, or does something that others could see."""
    lines = iter("\n".join(text).splitlines())
    for line in lines:
        if line == f"E{entry}:":
            break
    found, held, same = _Straight(), dict[str, str](), dict[str, str]()
    for line in lines:
        if line in (f"br label %F{entry}", f"F{entry}:"):
            continue
        if line.startswith("ret i32 "):
            found.result = int(line.removeprefix("ret i32 "))
            return found
        line = _NAME.sub(lambda name: same.get(name[0], name[0]), line)
        if _CONTROL.match(line) or not _take(found, line, held, same):
            return None
    return None


def _take(found: _Straight, line: str, held: dict[str, str], same: dict[str, str]) -> bool:
    """Notes a line; whether warps may do it abreast. `held`: home -> its value. `same`: value -> the one that it is."""
    if stored := _STORE.fullmatch(line):
        value, pointer = stored.groups()
        if pointer.startswith('%"R'):
            held[pointer] = value
            return True
        found.lines.append(line)
        return pointer in found.places
    defined = _DEFINED.fullmatch(line)
    if defined is None:
        return False
    name, what = defined.groups()
    if (home := _HOME_LOAD.fullmatch(what)) and home[1] in held:
        same[name] = held[home[1]]
        return True
    used = _NAME.findall(what)
    if not _PURE.match(what) or not found.came_from.keys() >= set(used):
        return False
    found.lines.append(line)
    found.came_from[name] = frozenset().union(*(found.came_from[x] for x in used))
    if place := _CONTEXT_PLACE.fullmatch(what):
        found.places[name] = int(place[1])
    elif (word := _WORD_LOAD.fullmatch(what)) and word[2] in found.places:
        found.words[name] = word[1], word[2]
        found.came_from[name] = frozenset({name})
    elif (vector := _VECTOR_LOAD.match(what)) and vector[1] not in found.places:
        found.alike |= found.came_from[vector[1]]
        found.shared += 1
    return True


def _repeated(straight: _Straight, contexts: list[str]) -> list[str]:
    """The lines for all warps: once what is alike, and for each warp what depends on its own values."""
    own = {CONTEXT.text}
    lines: list[str] = []
    for line in straight.lines:
        defined = _DEFINED.fullmatch(line)
        name = defined[1] if defined else None
        if name in straight.alike:
            type_, pointer = straight.words[name]
            lines.append(f"{name} = load {type_}, ptr {pointer}.0")
        elif own.isdisjoint(_NAME.findall(line)):
            lines.append(line)
        else:
            own |= {name} if name else set()
            lines += [_for_warp(line, own, k, context) for k, context in enumerate(contexts)]
    return lines


def _for_warp(line: str, own: set[str], k: int, context: str) -> str:
    def renamed(match: re.Match[str]) -> str:
        name = match[0]
        return context if name == CONTEXT.text else f"{name}.{k}" if name in own else name

    return _NAME.sub(renamed, line)

