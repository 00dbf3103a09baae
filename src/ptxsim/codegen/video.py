"""Video instructions: bytes, halves and words of registers, one at a time or packed (PTX ISA 9.7.17).

Scalar ones compute in 64 bits, which hold every intermediate result of 34; products of vmad take 128. Packed ones
compute part by part in 32.
"""

from __future__ import annotations

from ptxsim.codegen.emit import Builder, IRValue
from ptxsim.codegen.values import value
from ptxsim.syntax.program import Instruction
from ptxsim.syntax.video import PACKED, Part, packed_video, scalar_video, shift_of

_COMPARISONS = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}


def _taken(b: Builder, x: IRValue, part: Part, type_: str) -> IRValue:
    """A part of a register, extended to 64 bits; a negated one is put right where it is used."""
    high = b.shl(x, 32 - part.width - part.start) if part.width < 32 else x
    low = b.binary("ashr" if type_[0] == "s" else "lshr", high, b.like(x, 32 - part.width)) if part.width < 32 else x
    return b.resize(low, "i64", type_[0] == "s")


def _clamped(b: Builder, x: IRValue, low: int, high: int) -> IRValue:
    return b.intrinsic("smin", b.intrinsic("smax", x, b.like(x, low)), b.like(x, high))


def _range(width: int, is_signed: bool) -> tuple[int, int]:
    return (-(1 << width - 1), (1 << width - 1) - 1) if is_signed else (0, (1 << width) - 1)


def _combined(b: Builder, i: Instruction, name: str, p: IRValue, q: IRValue) -> IRValue:
    """The operation on two numbers that are wide enough for any result."""
    if name == "absdiff":
        return b.sub(b.intrinsic("smax", p, q), b.intrinsic("smin", p, q))
    if name in ("min", "max"):
        return b.intrinsic("s" + name, p, q)
    if name == "set":
        holds = b.icmp(_COMPARISONS[next(m for m in i.modifiers if m in _COMPARISONS)], p, q)
        return b.resize(holds, p.type)
    if name == "avrg":  # halves are rounded away from zero
        total = b.add(p, q)
        up = b.resize(b.icmp("sge", total, b.like(total, 0)), p.type)
        return b.binary("ashr", b.add(total, up), b.like(p, 1))
    return b.binary(name, p, q)


def _shifted(b: Builder, i: Instruction, p: IRValue, q: IRValue) -> IRValue:
    """Shifts by 32 at most; what a left shift loses beyond 64 bits is far beyond any result."""
    amount = b.and_const(q, 31) if i.has("wrap") else b.intrinsic("umin", q, b.like(q, 32))
    return b.binary("shl" if i.opcode == "vshl" else "ashr", p, amount)


@value("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset",
       operands=lambda i: ("b32",) * (len(i.operands) - 1))  # fmt: skip
def _scalar(b: Builder, i: Instruction, x: IRValue, y: IRValue, z: IRValue | None = None) -> IRValue:
    """Two parts combined; then saturated, combined with the third source, or put among its bits."""
    form, name = scalar_video(i), i.opcode[1:]
    *to, of_x, of_y = i.types
    is_signed = bool(to) and to[0] == "s32"
    p, q = _taken(b, x, form.a, of_x), _taken(b, y, form.b, of_y)
    result = _shifted(b, i, p, q) if name in ("shl", "shr") else _combined(b, i, name, p, q)
    if i.has("sat"):
        result = _clamped(b, result, *_range(form.target.width, is_signed))
    if z is not None and form.second:
        result = _combined(b, i, form.second, result, b.resize(z, "i64", is_signed))
    low = b.resize(result, "i32")
    if z is None or form.target.width == 32:
        return low
    mask = ((1 << form.target.width) - 1) << form.target.start
    return b.or_(b.and_const(b.shl(low, form.target.start), mask), b.and_const(z, ~mask))


@value("vmad", operands=lambda i: ("b32", "b32", "b32"))
def _vmad(b: Builder, i: Instruction, x: IRValue, y: IRValue, z: IRValue) -> IRValue:
    form, (_, of_x, of_y) = scalar_video(i), i.types
    minus = form.a.negated != form.b.negated
    is_signed = "s32" in (of_x, of_y) or minus or form.negates_c
    p, q = (b.resize(_taken(b, v, part, t), "i128", True) for v, part, t in ((x, form.a, of_x), (y, form.b, of_y)))
    product, addend = b.mul(p, q), b.resize(z, "i128", is_signed)
    total = b.sub(addend, product) if minus else b.sub(product, addend) if form.negates_c else b.add(product, addend)
    if i.has("po"):
        total = b.add_const(total, 1)
    result = b.binary("ashr", total, b.like(total, shift_of(i)))
    if i.has("sat"):
        result = _clamped(b, result, *_range(32, is_signed))
    return b.resize(result, "i32")


def _fields(b: Builder, x: IRValue, y: IRValue, chosen: tuple[int, ...], width: int, type_: str) -> list[IRValue]:
    """The chosen parts of y:x, extended to 32 bits."""
    op, each = "ashr" if type_[0] == "s" else "lshr", 32 // width
    return [b.binary(op, b.shl((x, y)[k // each], 32 - width * (k % each + 1)), b.like(x, 32 - width)) for k in chosen]


@value(*PACKED, operands=lambda i: ("b32", "b32", "b32"))
def _packed(b: Builder, i: Instruction, x: IRValue, y: IRValue, z: IRValue) -> IRValue:
    """Part by part, into the parts of the third source or added to it."""
    form, name = packed_video(i), i.opcode[1:-1]
    *to, of_x, of_y = i.types
    most, result = (1 << form.width) - 1, z
    sides = _fields(b, x, y, form.a, form.width, of_x), _fields(b, x, y, form.b, form.width, of_y)
    for k, (p, q) in enumerate(zip(*sides, strict=True)):
        if not form.mask[k]:
            continue
        part = _combined(b, i, name, p, q)
        if form.sums:
            result = b.add(result, part)
            continue
        if i.has("sat"):
            part = _clamped(b, part, *_range(form.width, to[0] == "s32"))
        place = b.shl(b.and_const(part, most), form.width * k)
        result = b.or_(b.and_const(result, ~(most << form.width * k)), place)
    return result
