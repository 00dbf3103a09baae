"""What arithmetic does to lane patterns: one rule for each kind of instruction.

A rule gets the instruction and the patterns of its sources, all known and in the same number of groups, and returns the
pattern of the result, or None where it has none to offer. The numbers of groups are the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ptxsim.analysis.lanes import EXACT, UNIFORM, ZERO, Lanes, trailing_zeros, wrap
from ptxsim.syntax.program import WIDTH_BITS, Immediate, Instruction, Operand


def is_integer(type_: str) -> bool:
    return type_[0] in "usb" and type_ not in ("b128", "bf16", "bf16x2", "u16x2", "s16x2")


def _range(low: int | None, high: int | None, bits: int) -> tuple[int | None, int | None]:
    """The range if it fits a signed number of `bits` bits."""
    if low is None or high is None or low < -(1 << (bits - 1)) or high >= 1 << (bits - 1):
        return None, None
    return low, high


def first_lane_limits(offsets: tuple[int, ...], type_: str) -> tuple[int, int]:
    """Range of lane 0's value in which no lane leaves the type's range."""
    bits = WIDTH_BITS[type_]
    bottom, top = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if type_[0] == "s" else (0, (1 << bits) - 1)
    return bottom - min(offsets), top - max(offsets)


def widened_source(instruction: Instruction) -> Operand | None:
    """The source whose lanes an instruction extends to a wider type."""
    if instruction.opcode in ("mul", "mad") and "wide" in instruction.modifiers:
        a, b = instruction.operands[1], instruction.operands[2]
        return b if isinstance(a, Immediate) else a
    if instruction.opcode == "cvt" and len(instruction.types) == 2:
        to, of = instruction.types
        if is_integer(to) and is_integer(of) and WIDTH_BITS[to] > WIDTH_BITS[of]:
            return instruction.operands[1]
    return None


def _sum(a: Lanes, b: Lanes, bits: int, sign: int = 1) -> Lanes:
    assert a.offsets is not None and b.offsets is not None
    offsets = tuple(wrap(p + sign * q, bits) for p, q in zip(a.offsets, b.offsets, strict=True))
    low = high = None
    if a.low is not None and a.high is not None and b.low is not None and b.high is not None:
        low, high = (a.low + b.low, a.high + b.high) if sign > 0 else (a.low - b.high, a.high - b.low)
    return Lanes(offsets, min(a.align, b.align), *_range(low, high, bits))


def _scaled(a: Lanes, factor: int, bits: int) -> Lanes:
    assert a.offsets is not None
    low = high = None
    if a.low is not None and a.high is not None:
        low, high = sorted((a.low * factor, a.high * factor))
    offsets = tuple(wrap(p * factor, bits) for p in a.offsets)
    return Lanes(offsets, min(EXACT, a.align + trailing_zeros(factor)), *_range(low, high, bits))


def _add(i: Instruction, s: list[Lanes]) -> Lanes | None:
    return _sum(s[0], s[1], WIDTH_BITS[i.type]) if "sat" not in i.modifiers else None


def _sub(i: Instruction, s: list[Lanes]) -> Lanes | None:
    return _sum(s[0], s[1], WIDTH_BITS[i.type], -1) if "sat" not in i.modifiers else None


def _mul(i: Instruction, s: list[Lanes]) -> Lanes | None:
    if "hi" in i.modifiers or "sat" in i.modifiers:
        return None
    bits = WIDTH_BITS[i.type] * (2 if "wide" in i.modifiers else 1)
    a, b = s[0], s[1]
    if b.value is None:
        a, b = b, a
    if b.value is None:
        return UNIFORM if a.offsets == ZERO and b.offsets == ZERO else None
    factor = b.value
    if "wide" in i.modifiers and i.type[0] != "s":  # operands are read as unsigned numbers
        factor &= (1 << WIDTH_BITS[i.type]) - 1
        if a.low is None or a.low < 0:
            a = replace(a, low=None, high=None)
    return _scaled(a, factor, bits)


def _mad(i: Instruction, s: list[Lanes]) -> Lanes | None:
    product = _mul(i, s)
    return _sum(product, s[2], WIDTH_BITS[i.type] * (2 if "wide" in i.modifiers else 1)) if product else None


def _copy(i: Instruction, s: list[Lanes]) -> Lanes | None:
    a, bits = s[0], WIDTH_BITS[i.type]
    if a.value is not None:  # an unsigned literal: ranges are kept as signed numbers
        value = wrap(a.value, bits)
        return Lanes(ZERO, a.align, value, value)
    return Lanes(a.offsets, a.align, *_range(a.low, a.high, bits))


def _convert(i: Instruction, s: list[Lanes]) -> Lanes | None:
    if len(i.types) < 2 or not all(is_integer(t) for t in i.types) or "sat" in i.modifiers:
        return None
    to, of = (WIDTH_BITS[t] for t in i.types)
    a = s[0]
    assert a.offsets is not None
    if to >= of:
        unsigned_negative = i.types[1][0] != "s" and (a.low is None or a.low < 0)
        return Lanes(a.offsets, a.align, None, None) if unsigned_negative else a
    return Lanes(tuple(wrap(c, to) for c in a.offsets), a.align, *_range(a.low, a.high, to))


def _shift_left(i: Instruction, s: list[Lanes]) -> Lanes | None:
    amount = s[1].value
    if amount is None or not 0 <= amount < WIDTH_BITS[i.type]:
        return None
    return _scaled(s[0], 1 << amount, WIDTH_BITS[i.type])


def _fits_below(a: Lanes) -> bool:
    """Whether the offsets live in the low bits that are zero in lane 0's value."""
    return a.offsets is not None and min(a.offsets) >= 0 and max(a.offsets) < 1 << a.align


def _shift_right(i: Instruction, s: list[Lanes]) -> Lanes | None:
    a, amount = s[0], s[1].value
    if amount is None or amount < 0 or not _fits_below(a):
        return None
    assert a.offsets is not None
    low = high = None
    if a.low is not None and a.high is not None and (a.low >= 0 or i.type[0] == "s"):
        low, high = a.low >> amount, a.high >> amount
    exact = (low, high) == (0, 0)
    if amount <= a.align:
        return Lanes(tuple(c >> amount for c in a.offsets), EXACT if exact else a.align - amount, low, high)
    return Lanes(ZERO, EXACT if exact else 0, low, high)


def _and(i: Instruction, s: list[Lanes]) -> Lanes | None:
    a, b = (s[0], s[1]) if s[1].value is not None else (s[1], s[0])
    mask = b.value
    if mask is None or not _fits_below(a):
        return None
    assert a.offsets is not None
    below = (1 << a.align) - 1
    rest = mask & ~below & ((1 << WIDTH_BITS[i.type]) - 1)
    offsets = tuple(c & mask for c in a.offsets)
    if rest == 0 or (a.low, a.high) == (0, 0):
        return Lanes(offsets, EXACT, 0, 0)
    return Lanes(
        offsets, max(a.align, trailing_zeros(rest)), *((0, rest) if mask >= 0 and rest < 1 << 31 else (None, None))
    )


def _or_xor(i: Instruction, s: list[Lanes]) -> Lanes | None:
    a, b = (s[0], s[1]) if s[1].value is not None else (s[1], s[0])
    bits = b.value
    if bits is None or not _fits_below(a):
        return None
    assert a.offsets is not None
    within = bits & ((1 << a.align) - 1)
    if i.opcode == "or":
        offsets = tuple((c | within) - within for c in a.offsets)
    else:
        offsets = tuple((c ^ within) - within for c in a.offsets)
    return Lanes(offsets, min(a.align, trailing_zeros(bits)))


def _select(i: Instruction, s: list[Lanes]) -> Lanes | None:
    a, b, chosen_by = s
    if chosen_by.offsets != ZERO or a.offsets != b.offsets:
        return None
    low = high = None
    if a.low is not None and b.low is not None and a.high is not None and b.high is not None:
        low, high = min(a.low, b.low), max(a.high, b.high)
    return Lanes(a.offsets, min(a.align, b.align), low, high)


RULES: dict[str, Callable[[Instruction, list[Lanes]], Lanes | None]] = {
    "add": _add, "sub": _sub, "mul": _mul, "mad": _mad, "mov": _copy, "cvta": _copy, "cvt": _convert,
    "shl": _shift_left, "shr": _shift_right, "and": _and, "or": _or_xor, "xor": _or_xor, "selp": _select,
}  # fmt: skip
