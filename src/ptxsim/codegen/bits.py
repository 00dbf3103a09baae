"""Logic, shifts, bit fields and permutations of bytes (PTX ISA 9.7.1, 9.7.8)."""

from __future__ import annotations

from ptxsim.codegen.emit import Builder, Value
from ptxsim.codegen.values import clamp_shift, intrinsic_name, signed, unsupported, value
from ptxsim.syntax.program import WIDTH_BITS, Immediate, Instruction


@value("popc")
def _popc(b: Builder, i: Instruction, x: Value) -> Value:
    return b.resize(b.intrinsic("ctpop", x), "i32")


@value("clz")
def _clz(b: Builder, i: Instruction, x: Value) -> Value:
    return b.resize(_leading_zeros(b, x), "i32")


def _leading_zeros(b: Builder, x: Value) -> Value:
    return b.call(f"llvm.ctlz.{intrinsic_name(x)}", x.type, x, Value("i1", "false"), lanes=x.lanes)


@value("bfind")
def _bfind(b: Builder, i: Instruction, x: Value) -> Value:
    width = WIDTH_BITS[i.type]
    if signed(i):
        x = b.xor(x, b.binary("ashr", x, b.like(x, width - 1)))
    zeros = _leading_zeros(b, x)
    found = zeros if i.has("shiftamt") else b.sub(b.like(x, width - 1), zeros)
    none = b.icmp("eq", x, b.like(x, 0))
    return b.resize(b.select(none, b.like(x, -1), found), "i32", signed=True)


@value("brev")
def _brev(b: Builder, i: Instruction, x: Value) -> Value:
    return b.intrinsic("bitreverse", x)


def _field_types(i: Instruction) -> tuple[str, ...]:
    return (i.type, "u32", "u32")


def _field(b: Builder, x: Value, position: Value, length: Value) -> tuple[Value, Value]:
    """Position and length of a bit field: modulo 256 for 32-bit instructions alone, as NVIDIA GPUs do."""
    if x.type == "i32":
        return b.and_const(position, 255), b.and_const(length, 255)
    return b.resize(position, x.type), b.resize(length, x.type)


@value("bfe", operands=_field_types)
def _bfe(b: Builder, i: Instruction, x: Value, position: Value, length: Value) -> Value:
    width = WIDTH_BITS[i.type]
    position, length = _field(b, x, position, length)
    last = b.like(x, width - 1)
    if not signed(i):
        shifted = clamp_shift(b, x, position, "lshr")
        return b.and_(shifted, b.not_(clamp_shift(b, b.like(x, -1), length, "shl")))
    # the field's top bit, or the number's where the field runs over it, fills the rest
    top = b.intrinsic("umin", b.sub(b.add(position, length), b.like(x, 1)), last)
    sign = b.sub(b.like(x, 0), b.and_const(b.binary("lshr", x, top), 1))
    mask = b.not_(clamp_shift(b, b.like(x, -1), length, "shl"))
    kept = b.and_(clamp_shift(b, x, position, "ashr"), mask)
    # above the field: copies of the sign
    field = b.or_(kept, b.and_(sign, b.not_(mask)))
    return b.select(b.icmp("eq", length, b.like(x, 0)), b.like(x, 0), field)


@value("bfi", operands=lambda i: (i.type, i.type, "u32", "u32"))
def _bfi(b: Builder, i: Instruction, x: Value, base: Value, position: Value, length: Value) -> Value:
    position, length = _field(b, x, position, length)
    ones = b.not_(clamp_shift(b, b.like(x, -1), length, "shl"))
    mask = clamp_shift(b, ones, position, "shl")
    return b.or_(b.and_(clamp_shift(b, x, position, "shl"), mask), b.and_(base, b.not_(mask)))


@value("bmsk", operands=lambda i: ("b32", "b32"))
def _bmsk(b: Builder, i: Instruction, position: Value, length: Value) -> Value:
    if i.has("wrap"):
        position, length = b.and_const(position, 31), b.and_const(length, 31)
    ones = b.not_(clamp_shift(b, b.like(position, -1), length, "shl"))
    return clamp_shift(b, ones, position, "shl")


@value("szext", operands=lambda i: (i.type, "u32"))
def _szext(b: Builder, i: Instruction, x: Value, width: Value) -> Value:
    if i.has("wrap"):
        width = b.and_const(width, 31)
    unused = b.intrinsic("umin", b.sub(b.like(x, 32), b.intrinsic("umin", width, b.like(x, 32))), b.like(x, 32))
    up = clamp_shift(b, x, unused, "shl")
    down = clamp_shift(b, up, unused, "ashr" if signed(i) else "lshr")
    return b.select(b.icmp("eq", width, b.like(x, 0)), b.like(x, 0), down)


@value("and", "or", "xor")
def _logic(b: Builder, i: Instruction, x: Value, y: Value) -> Value:
    return b.binary(i.opcode, x, y)


@value("not")
def _not(b: Builder, i: Instruction, x: Value) -> Value:
    return b.not_(x)


@value("cnot")
def _cnot(b: Builder, i: Instruction, x: Value) -> Value:
    return b.resize(b.icmp("eq", x, b.like(x, 0)), x.type)


@value("lop3", operands=lambda i: ("b32", "b32", "b32", "b32", "pred")[: len(i.operands) - 1])
def _lop3(
    b: Builder, i: Instruction, x: Value, y: Value, z: Value, table: Value, other: Value | None = None
) -> Value | tuple[Value, ...]:
    lut = i.operands[4]
    if not isinstance(lut, Immediate):
        raise unsupported(i)
    result = b.like(x, 0)
    for row in range(8):
        if lut.bits >> row & 1:
            term = x if row & 4 else b.not_(x)
            term = b.and_(term, y if row & 2 else b.not_(y))
            result = b.or_(result, b.and_(term, z if row & 1 else b.not_(z)))
    if other is None:
        return result
    some = b.icmp("ne", result, b.like(result, 0))
    return result, b.binary("or" if i.has("or") else "and", some, other)


@value("shl", operands=lambda i: (i.type, "u32"))
def _shl(b: Builder, i: Instruction, x: Value, amount: Value) -> Value:
    return _shift(b, i, x, amount, "shl")


@value("shr", operands=lambda i: (i.type, "u32"))
def _shr(b: Builder, i: Instruction, x: Value, amount: Value) -> Value:
    return _shift(b, i, x, amount, "ashr" if signed(i) else "lshr")


def _shift(b: Builder, i: Instruction, x: Value, amount: Value, op: str) -> Value:
    last = i.operands[2]
    if isinstance(last, Immediate) and 0 <= last.bits < WIDTH_BITS[i.type]:
        return b.binary(op, x, b.like(x, last.bits))
    # compare in 32 bits: a large amount must not wrap when narrowed
    limited = b.intrinsic("umin", amount, b.like(amount, WIDTH_BITS[i.type]))
    return clamp_shift(b, x, b.resize(limited, x.type), op)


@value("shf", operands=lambda i: ("b32", "b32", "u32"))
def _shf(b: Builder, i: Instruction, low: Value, high: Value, amount: Value) -> Value:
    limit = 31 if i.has("wrap") else None
    amount = b.and_const(amount, 31) if limit else b.intrinsic("umin", amount, b.like(amount, 32))
    both = b.or_(b.shl(b.resize(high, "i64"), 32), b.resize(low, "i64"))
    wide = b.resize(amount, "i64")
    if i.has("l"):
        return b.resize(b.lshr(b.binary("shl", both, wide), 32), "i32")
    return b.resize(b.binary("lshr", both, wide), "i32")


@value("prmt", operands=lambda i: ("b32", "b32", "b32"))
def _prmt(b: Builder, i: Instruction, x: Value, y: Value, selector: Value) -> Value:
    both = b.or_(b.shl(b.resize(y, "i64"), 32), b.resize(x, "i64"))
    mode = next((m for m in i.modifiers if m in _PRMT_MODES), None)
    result = b.like(x, 0)
    for k in range(4):
        if mode:
            table = _PRMT_MODES[mode]
            s = b.and_const(selector, 3)
            position = b.like(selector, table[0][k])
            for case in (1, 2, 3):
                position = b.select(b.icmp("eq", s, b.like(s, case)), b.like(s, table[case][k]), position)
            sign = None
        else:
            nibble = b.lshr(selector, 4 * k)
            position, sign = b.and_const(nibble, 7), b.and_const(nibble, 8)
        byte = b.and_const(b.resize(b.binary("lshr", both, b.resize(b.shl(position, 3), "i64")), "i32"), 255)
        if sign is not None:
            filled = b.select(b.icmp("ne", b.and_const(byte, 128), b.like(byte, 0)), b.like(byte, 255), b.like(byte, 0))
            byte = b.select(b.icmp("ne", sign, b.like(sign, 0)), filled, byte)
        result = b.or_(result, b.shl(byte, 8 * k))
    return result


_PRMT_MODES = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}
"""PTX ISA, prmt: source byte of each result byte, for the selector's value 0 to 3."""


@value("fns", operands=lambda i: ("b32", "b32", "s32"))
def _fns(b: Builder, i: Instruction, mask: Value, base: Value, offset: Value) -> Value:
    """Position of the |offset|-th set bit at or above (below, if negative) `base`; all ones if there is none."""
    result, left_up, left_down = b.like(mask, -1), offset, offset
    for k in range(32):
        for bit, up in ((k, True), (31 - k, False)):
            here = b.icmp("ne", b.and_const(b.lshr(mask, bit), 1), b.like(mask, 0))
            at = b.like(base, bit)
            if up:
                counts = b.and_(here, b.icmp("uge", at, base))
                hit = b.and_(counts, b.icmp("eq", left_up, b.like(offset, 1)))
                left_up = b.select(
                    b.and_(counts, b.icmp("sgt", left_up, b.like(offset, 0))), b.add_const(left_up, -1), left_up
                )
            else:
                counts = b.and_(here, b.icmp("ule", at, base))
                hit = b.and_(counts, b.icmp("eq", left_down, b.like(offset, -1)))
                left_down = b.select(
                    b.and_(counts, b.icmp("slt", left_down, b.like(offset, 0))), b.add_const(left_down, 1), left_down
                )
            # the counters stop at 0 once their bit is found, so each hits once
            result = b.select(hit, at, result)
    base_set = b.icmp("ne", b.and_const(clamp_shift(b, mask, base, "lshr"), 1), b.like(mask, 0))
    zero = b.icmp("eq", offset, b.like(offset, 0))
    return b.select(zero, b.select(base_set, base, b.like(base, -1)), result)
