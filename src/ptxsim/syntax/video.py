"""Video instructions, read: which parts of its registers one takes, and what it does with them (PTX ISA 9.7.17).

Operands of these instructions may carry a selector: `%r1.b2` is a byte, `%r1.h0` a half, `%r1.h32` two halves of eight
bytes. The parser takes it off and keeps it beside the operand (`Instruction.selectors`); the form check, the translator
and the oracle read it through this module.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ptxsim.syntax.program import Instruction, Register

SCALAR = frozenset({"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset"})
_PACKED = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset")
PACKED = frozenset(f"{name}{parts}" for name in _PACKED for parts in "24")
VIDEO = SCALAR | PACKED
_SELECTED = re.compile(r"(-?)\s*([\w$%]++)(?:\.([bh]\d{1,4}))?", re.ASCII)
_NEGATED = "-"


class NoSuchSelection(Exception):
    """The instruction does not take this part of an operand."""


def split_selector(text: str) -> tuple[str, str]:
    """An operand as written and its selector: "-%r1.b2" is ("%r1", "-b2"), "%r1" is ("%r1", "")."""
    match = _SELECTED.fullmatch(text)
    if match is None or (match[1] and match[2][0].isdigit()):  # a negative number
        return text, ""
    return match[2], match[1] + (match[3] or "")


@dataclass(frozen=True)
class Part:
    """Bits of an operand: `width` of them from bit `start` on; negated, where a minus stands before it."""

    start: int = 0
    width: int = 32
    negated: bool = False


@dataclass(frozen=True)
class ScalarVideo:
    """One byte, half or word from each of A and B; `target` is where of D the result goes, the rest is C's."""

    a: Part
    b: Part
    target: Part
    negates_c: bool
    second: str
    """the operation with C: "add", "min", "max", or "" """


@dataclass(frozen=True)
class PackedVideo:
    """Two halves or four bytes from each side. `a` and `b` say which of the eight bytes or four halves of B:A."""

    width: int
    a: tuple[int, ...]
    b: tuple[int, ...]
    mask: tuple[bool, ...]
    """the parts of D that are computed; the others are C's"""
    sums: bool
    """whether the parts are added to C instead"""


def _part(selector: str) -> Part:
    own = selector.removeprefix(_NEGATED)
    if own and not re.fullmatch(r"b[0-3]|h[01]", own):
        raise NoSuchSelection(f"there is no part '.{own}'")
    width = {"b": 8, "h": 16, "": 32}[own[:1]]
    return Part(int(own[1:] or 0) * width % 32, width, selector.startswith(_NEGATED))


def selectors_of(i: Instruction) -> tuple[str, ...]:
    """One for each operand, "" where none is written."""
    return i.selectors or ("",) * len(i.operands)


def scalar_video(i: Instruction) -> ScalarVideo:
    """What a scalar video instruction takes; raises NoSuchSelection."""
    chosen = selectors_of(i)
    if len(chosen) not in ((4,) if i.opcode == "vmad" else (3, 4)):
        raise NoSuchSelection(f"{len(chosen)} operands are the wrong number")
    target, a, b = map(_part, chosen[:3])
    negates_c = chosen[3:] == (_NEGATED,)
    seconds = [m for m in i.modifiers if m in ("add", "min", "max")]
    second = seconds[0] if seconds else ""
    if len(seconds) > 1:
        raise NoSuchSelection(f"'.{seconds[0]}' and '.{seconds[1]}' exclude each other")
    if any(chosen[3:]) and not negates_c:
        raise NoSuchSelection("the last operand is taken whole")
    if (second or chosen[0]) and len(chosen) == 3:
        raise NoSuchSelection("it needs a fourth operand")
    if chosen[0] and (second or i.opcode == "vmad"):
        raise NoSuchSelection("its result is a whole register")
    if any(part.negated for part in (target, a, b)) or negates_c:
        if i.opcode != "vmad" or target.negated:
            raise NoSuchSelection("it takes no negated operands")
        if (a.negated != b.negated) + negates_c + i.has("po") > 1:
            raise NoSuchSelection("it negates the product or the addend, and neither with '.po'")
    return ScalarVideo(a, b, target, negates_c, second)


def packed_video(i: Instruction) -> PackedVideo:
    """What a SIMD video instruction takes; raises NoSuchSelection."""
    count = int(i.opcode[-1])
    letter, width = ("h", 16) if count == 2 else ("b", 8)
    chosen = selectors_of(i)
    if len(chosen) != 4 or chosen[3]:
        raise NoSuchSelection("it takes three sources, the last one whole")
    if not all(isinstance(o, Register) for o in i.operands[1:]):
        raise NoSuchSelection("its sources are registers")
    if i.has("add") and i.has("sat"):
        raise NoSuchSelection("'.add' and '.sat' exclude each other")
    mask = _digits(chosen[0], letter, count, range(count))
    if chosen[0] and list(mask) != sorted(set(mask)):
        raise NoSuchSelection(f"there is no mask '.{chosen[0]}'")
    both = range(2 * count)
    a, b = (_digits(s, letter, count, own) for s, own in zip(chosen[1:3], (both[:count], both[count:]), strict=True))
    if len(a) != count or len(b) != count:
        raise NoSuchSelection(f"it selects {count} parts of each operand")
    return PackedVideo(width, a, b, tuple(k in mask for k in range(count)), i.has("add"))


def _digits(selector: str, letter: str, count: int, default: Sequence[int]) -> tuple[int, ...]:
    """The numbers of a selector, the lowest part's first: "h32" is (2, 3)."""
    if not selector:
        return tuple(default)
    numbers = tuple(int(digit) for digit in reversed(selector[1:])) if selector[1:].isdigit() else ()
    if selector[0] != letter or not numbers or len(numbers) > count or max(numbers) >= 2 * count:
        raise NoSuchSelection(f"there is no part '.{selector}'")
    return numbers


def shift_of(i: Instruction) -> int:
    """By how many bits vmad scales its result down."""
    return 7 if i.has("shr7") else 15 if i.has("shr15") else 0
