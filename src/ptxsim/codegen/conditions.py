"""Conditions that a few numbers decide: whether all lanes of a warp, or none of them, are inside of an array, say.

`if (row < M && column < K)` compares lanes that lie next to each other with a number. Lane by lane that takes a dozen
vector instructions; but whether it holds for all of them or for none, the lowest and the highest lane tell. So a branch
asks these two first, and what its condition is in each lane is worked out only where they do not settle it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from ptxsim.analysis.lanes import ZERO, Lanes
from ptxsim.codegen.emit import WARP, IRValue, constant
from ptxsim.codegen.translator import Translator
from ptxsim.codegen.unit import lanes_of
from ptxsim.syntax.program import WIDTH_BITS, Block, Branch, Instruction, Operand, Register, registers_in

_LESS = {"lt": (False, True), "lo": (False, True), "le": (False, False), "ls": (False, False),
         "gt": (True, True), "hi": (True, True), "ge": (True, False), "hs": (True, False)}  # fmt: skip
"""comparison -> whether its sides change places to make it "less", and whether strictly"""
_TYPES = ("s32", "u32")
_JOINS = ("and", "or", "not")

_Facts = tuple[IRValue | None, IRValue | None]
"""Scalars: where the first holds, the predicate does in all lanes; where the second, in none."""


@dataclass(frozen=True)
class Condition:
    """The predicate of a block's branch, and what computes it and serves nothing else: predicate -> instruction."""

    register: str
    makers: dict[str, Instruction]

    def facts(self, t: Translator) -> _Facts:
        """What is known of it without looking at each lane; the block's instructions have been translated."""
        return _facts(t, self, self.register)


def condition(t: Translator, block: Block) -> Condition | None:
    """The condition of a block's branch, where scalars may decide it."""
    end = block.terminator
    if not isinstance(end, Branch) or t.pattern(end.guard.register).uniform:
        return None
    register, instructions = end.guard.register, block.instructions
    readers = Counter(name for i in instructions for name in i.read)
    places: dict[str, list[int]] = {}
    for place, i in enumerate(instructions):
        for name in i.written:
            places.setdefault(name, []).append(place)
    makers: dict[int, str] = {}
    asked, pending = Counter[str](), [register]
    while pending:
        name = pending.pop(0)
        own = places.get(name, [])
        if len(own) != 1 or name in block.live_out or readers[name] != asked[name]:  # others want it too
            continue
        i = instructions[own[0]]
        if not _is_condition(i) or any(places.get(source, [-1])[-1] > own[0] for source in _sources(i)):
            continue
        makers[own[0]] = name
        if i.opcode in _JOINS:
            asked.update(_sources(i))
            pending += _sources(i)
    found = Condition(register, {makers[place]: instructions[place] for place in sorted(makers)})
    return found if makers and any(_decided(t, found, register)) else None


def _sources(i: Instruction) -> list[str]:
    return [name for operand in i.operands[1:] for name in registers_in(operand)]


def _is_condition(i: Instruction) -> bool:
    if i.guard is not None or not isinstance(i.operands[0], Register):
        return False
    return (i.opcode == "setp" and len(i.operands) == 3) or (i.opcode in _JOINS and i.type == "pred")


def _decided(t: Translator, c: Condition, name: str) -> tuple[bool, bool]:
    """Which of the two facts there are of a predicate."""
    i = c.makers.get(name)
    if i is None:
        known = t.pattern(name).known
        return known, known
    if i.opcode == "setp":
        known = _compared(t, i) is not None
        return known, known
    sides = [_decided(t, c, source) for source in _sources(i)]
    if i.opcode == "not":
        return sides[0][::-1]
    alls, nones = zip(*sides, strict=True)
    return (all(alls), any(nones)) if i.opcode == "and" else (any(alls), all(nones))


def _facts(t: Translator, c: Condition, name: str) -> _Facts:
    i = c.makers.get(name)
    if i is None:
        return _of_pattern(t, name) if t.pattern(name).known else (None, None)
    if i.opcode == "setp":
        sides = _compared(t, i)
        return _of_comparison(t, i, *sides) if sides is not None else (None, None)
    facts = [_facts(t, c, source) for source in _sources(i)]
    if i.opcode == "not":
        return facts[0][1], facts[0][0]
    alls, nones = zip(*facts, strict=True)
    if i.opcode == "and":
        return _every(t, alls), _some(t, nones)
    return _some(t, alls), _every(t, nones)


def _every(t: Translator, facts: tuple[IRValue | None, ...]) -> IRValue | None:
    return _joined(t.and_, [one for one in facts if one is not None]) if None not in facts else None


def _some(t: Translator, facts: tuple[IRValue | None, ...]) -> IRValue | None:
    known = [one for one in facts if one is not None]
    return _joined(t.or_, known) if known else None


def _joined(join: Callable[[IRValue, IRValue], IRValue], values: list[IRValue]) -> IRValue:
    found = values[0]
    for value in values[1:]:
        found = join(found, value)
    return found


def _of_pattern(t: Translator, name: str) -> _Facts:
    """A predicate that is the same in all lanes of each group."""
    value = t.get(name, t.form(name))
    if not value.lanes:
        return value, t.not_(value)
    bits = t.mask_bits(value)
    return t.all_true(value), t.icmp("eq", bits, t.like(bits, 0))


def _compared(t: Translator, i: Instruction) -> tuple[Lanes, Lanes] | None:
    """The patterns of a comparison's sides, of which one at most differs from lane to lane within a group."""
    if i.type not in _TYPES or not any(m in _LESS for m in i.modifiers):
        return None
    patterns = [t.unit.analysis.operand(operand) for operand in i.operands[1:]]
    a, b = patterns
    if a is None or b is None or not (a.known and b.known) or ZERO not in (a.offsets, b.offsets):
        return None
    return a, b


def _of_comparison(t: Translator, i: Instruction, a: Lanes, b: Lanes) -> _Facts:
    """`a < b`, group by group: in all lanes where the highest of the one side is below the lowest of the other.

    The ends are numbers of 64 bits. Where a lane may have wrapped around, neither is known.
    """
    turned, strict = next(_LESS[m] for m in i.modifiers if m in _LESS)
    groups = max(a.groups, b.groups)
    sides = [_ends(t, operand, i.type, own, groups) for operand, own in zip(i.operands[1:], (a, b), strict=True)]
    lower, upper = sides[::-1] if turned else sides
    alls, nones = [], []
    for one, other in zip(lower, upper, strict=True):
        alls.append(t.icmp("slt" if strict else "sle", one.high, other.low))
        nones.append(t.icmp("sge" if strict else "sgt", one.low, other.high))
        alls += [end for end in (one.fits_low, other.fits_high) if end is not None]
        nones += [end for end in (one.fits_high, other.fits_low) if end is not None]
    return _joined(t.and_, alls), _joined(t.and_, nones)


@dataclass(frozen=True)
class _Ends:
    """The lowest and the highest value of a group's lanes; whether it is in its type's range, where that may not be."""

    low: IRValue
    high: IRValue
    fits_low: IRValue | None
    fits_high: IRValue | None


def _ends(t: Translator, operand: Operand, type_: str, own: Lanes, groups: int) -> list[_Ends]:
    form = lanes_of(own)
    value = t.source(operand, type_, form)
    signed, bits, size = type_[0] == "s", WIDTH_BITS[type_], WARP // groups
    bottom, top = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    found = []
    for group in range(groups):
        first = t.extract(value, group * form // groups) if form else value
        first = t.resize(first, "i64", signed)
        offsets = own.offsets[group * size : (group + 1) * size]
        low, high = t.add_const(first, min(offsets)), t.add_const(first, max(offsets))
        found.append(
            _Ends(
                low, high,
                t.icmp("sge", low, constant("i64", bottom)) if min(offsets) < 0 else None,
                t.icmp("sle", high, constant("i64", top)) if max(offsets) > 0 else None,
            )
        )  # fmt: skip
    return found
