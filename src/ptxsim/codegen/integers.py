"""Integers: arithmetic, logic, shifts, bit fields, and carries (PTX ISA 9.7.1, 9.7.2, 9.7.8).

What has forms for floats and packed halves goes on to `floating`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen.emit import BITS, WARP, Builder, IRValue
from ptxsim.codegen.floating import (
    FloatOp,
    absolute,
    add_float,
    divide_float,
    fma_float,
    inputs,
    max_float,
    min_float,
    mul_float,
    negated,
    packed_half,
    sub_float,
)
from ptxsim.codegen.translator import Translator
from ptxsim.codegen.values import (
    VALUES,
    ValueRow,
    clamp_shift,
    handles,
    is_float,
    signed,
    unsupported,
    value,
)
from ptxsim.syntax.program import WIDTH_BITS, Immediate, Instruction

_PACKED, _PAIRS = ("f16x2", "bf16x2"), ("u16x2", "s16x2")


def _or_floats(of_floats: FloatOp) -> Callable[[FloatOp], FloatOp]:
    """Sends floats and packed halves to `of_floats`; what is decorated is for integers."""

    def decorate(of_integers: FloatOp) -> FloatOp:
        def compute(b: Builder, i: Instruction, *xs: IRValue) -> IRValue:
            if i.type in _PACKED:
                return packed_half(b, i, of_floats, *xs)
            return of_floats(b, i, *xs) if is_float(i.type) else of_integers(b, i, *xs)

        return compute

    return decorate


def _by_half(b: Builder, x: IRValue, y: IRValue, op: Callable[[IRValue, IRValue], IRValue]) -> IRValue:
    """An operation on both 16-bit halves."""
    lanes = 2 * max(1, x.lanes)
    p, q = (b.bitcast(v, "i16", lanes) for v in (x, y))
    return b.bitcast(op(p, q), "i32", x.lanes)


def _sum(name: str, of_floats: FloatOp) -> None:
    @value(name)
    @_or_floats(of_floats)
    def compute(b: Builder, i: Instruction, x: IRValue, y: IRValue) -> IRValue:
        if i.type in _PAIRS:
            return _by_half(b, x, y, partial(b.binary, name))
        return b.intrinsic(f"s{name}.sat", x, y) if i.has("sat") else b.binary(name, x, y)


_sum("add", add_float)
_sum("sub", sub_float)


def _wide_product(b: Builder, i: Instruction, x: IRValue, y: IRValue) -> IRValue:
    """A product in twice as many bits."""
    wide = f"i{2 * BITS[x.type]}"
    return b.mul(b.resize(x, wide, signed(i)), b.resize(y, wide, signed(i)))


def _upper_half(b: Builder, i: Instruction, x: IRValue, y: IRValue) -> IRValue:
    """The upper half of a product's bits.

    Of a vector of i128 it is taken as every other word: a shift and a cut to 64 bits, followed by one to 16, are one
    cut to LLVM 22, which takes the wrong words then.
    """
    product, width = _wide_product(b, i, x, y), BITS[x.type]
    if width < 64 or not x.lanes:
        return b.resize(b.lshr(product, width), x.type)
    return b.shuffle(b.bitcast(product, "i64", 2 * x.lanes), range(1, 2 * x.lanes, 2))


@value("mul")
@_or_floats(mul_float)
def _mul(b: Builder, i: Instruction, x: IRValue, y: IRValue) -> IRValue:
    if i.has("lo"):
        return b.mul(x, y)
    return _wide_product(b, i, x, y) if i.has("wide") else _upper_half(b, i, x, y)


def _added(b: Builder, i: Instruction, product: IRValue, z: IRValue) -> IRValue:
    return b.intrinsic("sadd.sat", product, z) if i.has("sat") else b.add(product, z)


@value("mad", operands=lambda i: (i.type, i.type, f"{i.type[0]}{2 * int(i.type[1:])}" if i.has("wide") else i.type))
@_or_floats(fma_float)
def _mad(b: Builder, i: Instruction, x: IRValue, y: IRValue, z: IRValue) -> IRValue:
    return _added(b, i, _mul(b, i, x, y), z)


def _low24(b: Builder, i: Instruction, x: IRValue) -> IRValue:
    return b.binary("ashr" if signed(i) else "lshr", b.shl(x, 8), b.like(x, 8))


@value("mul24", "mad24")
def _mul24(b: Builder, i: Instruction, x: IRValue, y: IRValue, z: IRValue | None = None) -> IRValue:
    x, y = _low24(b, i, x), _low24(b, i, y)
    product = b.resize(b.lshr(_wide_product(b, i, x, y), 16), "i32") if i.has("hi") else b.mul(x, y)
    return product if z is None else _added(b, i, product, z)


@value("sad")
def _sad(b: Builder, i: Instruction, x: IRValue, y: IRValue, z: IRValue) -> IRValue:
    kind = "s" if signed(i) else "u"
    return b.add(z, b.sub(b.intrinsic(kind + "max", x, y), b.intrinsic(kind + "min", x, y)))


def divide(b: Builder, i: Instruction, x: IRValue, y: IRValue) -> tuple[IRValue, IRValue]:
    """Integer quotient and remainder. Division by zero gives all ones for both, as NVIDIA GPUs do."""
    zero = b.icmp("eq", y, b.like(y, 0))
    divisor = b.select(zero, b.like(y, 1), y)
    kind = "s" if signed(i) else "u"
    if x.type in ("i16", "i32"):
        # float64 holds both operands exactly and its truncated quotient is exact: far faster than lane-wise division
        dividend_f, divisor_f = (b.convert(f"{kind}itofp", v, "double") for v in (x, divisor))
        quotient = b.resize(b.convert(f"fpto{kind}i", b.binary("fdiv", dividend_f, divisor_f), "i64"), x.type)
    elif signed(i):  # INT_MIN / -1 traps on the host
        minus_one = b.icmp("eq", divisor, b.like(y, -1))
        safe = b.binary("sdiv", x, b.select(minus_one, b.like(y, 1), divisor))
        quotient = b.select(minus_one, b.sub(b.like(x, 0), x), safe)
    else:
        quotient = b.binary("udiv", x, divisor)
    remainder = b.sub(x, b.mul(quotient, divisor))
    return b.select(zero, b.like(x, -1), quotient), b.select(zero, b.like(x, -1), remainder)


@value("abs")
def _abs(b: Builder, i: Instruction, x: IRValue) -> IRValue:
    if i.type in _PACKED:
        return packed_half(b, i, lambda b, i, v: absolute(b, *inputs(b, i, v)), x)
    if is_float(i.type):
        return absolute(b, *inputs(b, i, x))
    return b.intrinsic("abs", x, IRValue("i1", "false"))


@value("neg")
def _neg(b: Builder, i: Instruction, x: IRValue) -> IRValue:
    if i.type in _PACKED:
        return packed_half(b, i, lambda b, i, v: negated(b, *inputs(b, i, v)), x)
    if is_float(i.type):
        return negated(b, *inputs(b, i, x))
    return b.sub(b.like(x, 0), x)


def _extreme(name: str, of_floats: FloatOp) -> None:
    def folded(b: Builder, i: Instruction, x: IRValue, y: IRValue, *more: IRValue) -> IRValue:
        result = of_floats(b, i, x, y)
        return of_floats(b, i, result, *more) if more else result

    @value(name)
    @_or_floats(folded)
    def compute(b: Builder, i: Instruction, x: IRValue, y: IRValue) -> IRValue:
        kind = ("s" if signed(i) else "u") + name
        if i.type in _PAIRS:
            x = _by_half(b, x, y, lambda p, q: b.intrinsic(kind, p, q))
            return _by_half(b, x, b.like(x, 0), lambda p, q: b.intrinsic("smax", p, q)) if i.has("relu") else x
        result = b.intrinsic(kind, x, y)
        return b.intrinsic("smax", result, b.like(x, 0)) if i.has("relu") else result


_extreme("min", min_float)
_extreme("max", max_float)


def _parts(b: Builder, x: IRValue, is_signed: bool, bits: int) -> list[IRValue]:
    """The fields of a 32-bit value, extended."""
    op = "ashr" if is_signed else "lshr"
    return [b.binary(op, b.shl(x, 32 - bits - k), b.like(x, 32 - bits)) for k in range(0, 32, bits)]


@value("dp4a", "dp2a")
def _dot(b: Builder, i: Instruction, x: IRValue, y: IRValue, total: IRValue) -> IRValue:
    """The bytes of y times those of x, or half of them times x's halves."""
    if i.opcode == "dp4a":
        numbers, bytes_ = _parts(b, x, i.types[0][0] == "s", 8), _parts(b, y, i.types[-1][0] == "s", 8)
    else:
        four = _parts(b, y, i.types[-1][0] == "s", 8)
        bytes_ = four[2:] if i.has("hi") else four[:2]
        numbers = _parts(b, x, i.types[0][0] == "s", 16)
    for p, q in zip(numbers, bytes_, strict=True):
        total = b.add(total, b.mul(p, q))
    return total


@value("bfind")
def _bfind(b: Builder, i: Instruction, x: IRValue) -> IRValue:
    width = WIDTH_BITS[i.type]
    if signed(i):
        x = b.xor(x, b.binary("ashr", x, b.like(x, width - 1)))
    zeros = b.intrinsic("ctlz", x, IRValue("i1", "false"))
    found = zeros if i.has("shiftamt") else b.sub(b.like(x, width - 1), zeros)
    return b.resize(b.select(b.icmp("eq", x, b.like(x, 0)), b.like(x, -1), found), "i32", signed=True)


def _field(b: Builder, x: IRValue, position: IRValue, length: IRValue) -> tuple[IRValue, IRValue]:
    """Position and length of a bit field: modulo 256 for 32-bit instructions alone, as NVIDIA GPUs do."""
    if x.type == "i32":
        return b.and_const(position, 255), b.and_const(length, 255)
    return b.resize(position, x.type), b.resize(length, x.type)


@value("bfe", operands=lambda i: (i.type, "u32", "u32"))
def _bfe(b: Builder, i: Instruction, x: IRValue, position: IRValue, length: IRValue) -> IRValue:
    width = WIDTH_BITS[i.type]
    position, length = _field(b, x, position, length)
    last = b.like(x, width - 1)
    if not signed(i):
        return b.and_(clamp_shift(b, x, position, "lshr"), b.not_(clamp_shift(b, b.like(x, -1), length, "shl")))
    # the field's top bit, or the number's where the field runs over it, fills the rest
    top = b.intrinsic("umin", b.sub(b.add(position, length), b.like(x, 1)), last)
    sign = b.sub(b.like(x, 0), b.and_const(b.binary("lshr", x, top), 1))
    mask = b.not_(clamp_shift(b, b.like(x, -1), length, "shl"))
    # above the field: copies of the sign
    field = b.or_(b.and_(clamp_shift(b, x, position, "ashr"), mask), b.and_(sign, b.not_(mask)))
    return b.select(b.icmp("eq", length, b.like(x, 0)), b.like(x, 0), field)


@value("bfi", operands=lambda i: (i.type, i.type, "u32", "u32"))
def _bfi(b: Builder, i: Instruction, x: IRValue, base: IRValue, position: IRValue, length: IRValue) -> IRValue:
    position, length = _field(b, x, position, length)
    mask = clamp_shift(b, b.not_(clamp_shift(b, b.like(x, -1), length, "shl")), position, "shl")
    return b.or_(b.and_(clamp_shift(b, x, position, "shl"), mask), b.and_(base, b.not_(mask)))


@value("bmsk", operands=lambda i: ("b32", "b32"))
def _bmsk(b: Builder, i: Instruction, position: IRValue, length: IRValue) -> IRValue:
    if i.has("wrap"):
        position, length = b.and_const(position, 31), b.and_const(length, 31)
    return clamp_shift(b, b.not_(clamp_shift(b, b.like(position, -1), length, "shl")), position, "shl")


@value("szext", operands=lambda i: (i.type, "u32"))
def _szext(b: Builder, i: Instruction, x: IRValue, width: IRValue) -> IRValue:
    if i.has("wrap"):
        width = b.and_const(width, 31)
    unused = b.intrinsic("umin", b.sub(b.like(x, 32), b.intrinsic("umin", width, b.like(x, 32))), b.like(x, 32))
    down = clamp_shift(b, clamp_shift(b, x, unused, "shl"), unused, "ashr" if signed(i) else "lshr")
    return b.select(b.icmp("eq", width, b.like(x, 0)), b.like(x, 0), down)


@value("lop3", operands=lambda i: ("b32", "b32", "b32", "b32", "pred")[: len(i.operands) - 1])
def _lop3(
    b: Builder, i: Instruction, x: IRValue, y: IRValue, z: IRValue, table: IRValue, other: IRValue | None = None
) -> IRValue | tuple[IRValue, ...]:
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
    return result, b.binary("or" if i.has("or") else "and", b.icmp("ne", result, b.like(result, 0)), other)


@value("shl", "shr", operands=lambda i: (i.type, "u32"))
def _shift(b: Builder, i: Instruction, x: IRValue, amount: IRValue) -> IRValue:
    last, op = i.operands[2], "shl" if i.opcode == "shl" else "ashr" if signed(i) else "lshr"
    if isinstance(last, Immediate) and 0 <= last.bits < WIDTH_BITS[i.type]:
        return b.binary(op, x, b.like(x, last.bits))
    # compare in 32 bits: a large amount must not wrap when narrowed
    limited = b.intrinsic("umin", amount, b.like(amount, WIDTH_BITS[i.type]))
    return clamp_shift(b, x, b.resize(limited, x.type), op)


@value("shf", operands=lambda i: ("b32", "b32", "u32"))
def _shf(b: Builder, i: Instruction, low: IRValue, high: IRValue, amount: IRValue) -> IRValue:
    amount = b.and_const(amount, 31) if i.has("wrap") else b.intrinsic("umin", amount, b.like(amount, 32))
    both = b.or_(b.shl(b.resize(high, "i64"), 32), b.resize(low, "i64"))
    wide = b.resize(amount, "i64")
    if i.has("l"):
        return b.resize(b.lshr(b.binary("shl", both, wide), 32), "i32")
    return b.resize(b.binary("lshr", both, wide), "i32")


@value("prmt", operands=lambda i: ("b32", "b32", "b32"))
def _prmt(b: Builder, i: Instruction, x: IRValue, y: IRValue, selector: IRValue) -> IRValue:
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
def _fns(b: Builder, i: Instruction, mask: IRValue, base: IRValue, offset: IRValue) -> IRValue:
    """Position of the |offset|-th set bit at or above (below, if negative) `base`; all ones if there is none."""
    result, left = b.like(mask, -1), {"up": offset, "down": offset}
    for k in range(32):
        for bit, way, step, beyond, above in ((k, "up", 1, "uge", "sgt"), (31 - k, "down", -1, "ule", "slt")):
            here = b.icmp("ne", b.and_const(b.lshr(mask, bit), 1), b.like(mask, 0))
            at = b.like(base, bit)
            counts = b.and_(here, b.icmp(beyond, at, base))
            hit = b.and_(counts, b.icmp("eq", left[way], b.like(offset, step)))
            waits = b.and_(counts, b.icmp(above, left[way], b.like(offset, 0)))
            left[way] = b.select(waits, b.add_const(left[way], -step), left[way])
            # the counters stop at 0 once their bit is found, so each hits once
            result = b.select(hit, at, result)
    base_set = b.icmp("ne", b.and_const(clamp_shift(b, mask, base, "lshr"), 1), b.like(mask, 0))
    return b.select(b.icmp("eq", offset, b.like(offset, 0)), b.select(base_set, base, b.like(base, -1)), result)


VALUES |= {
    "div": ValueRow(lambda b, i, x, y: divide_float(b, i, x, y) if is_float(i.type) else divide(b, i, x, y)[0]),
    "rem": ValueRow(lambda b, i, x, y: divide(b, i, x, y)[1]),
    "popc": ValueRow(lambda b, i, x: b.resize(b.intrinsic("ctpop", x), "i32")),
    "clz": ValueRow(lambda b, i, x: b.resize(b.intrinsic("ctlz", x, IRValue("i1", "false")), "i32")),
    "brev": ValueRow(lambda b, i, x: b.intrinsic("bitreverse", x)),
    "not": ValueRow(lambda b, i, x: b.not_(x)),
    "cnot": ValueRow(lambda b, i, x: b.resize(b.icmp("eq", x, b.like(x, 0)), x.type)),
    **dict.fromkeys(("and", "or", "xor"), ValueRow(lambda b, i, x, y: b.binary(i.opcode, x, y))),
}


@handles("addc", "subc", "madc", "add.cc", "sub.cc", "mad.cc")
def _with_carry(t: Translator, i: Instruction) -> None:
    """add, sub and mad, with carry in (addc, subc, madc) or out (.cc), lane by lane.

    The condition code lives within a basic block; NVRTC writes such chains in one piece.
    """
    x, y, *more = (t.source(o, i.type, WARP) for o in i.operands[1:])
    width = BITS[x.type]
    wide = f"i{2 * width}"
    if more:
        x = _upper_half(t, i, x, y) if i.has("hi") else t.mul(x, y)
        (y,) = more
    subtracts = i.opcode.startswith("sub")
    if subtracts:  # x + ~y + 1: the flag after a subtraction means "no borrow", as NVIDIA GPUs have it
        y = t.not_(y)
    total = t.add(t.resize(x, wide), t.resize(y, wide))
    if i.opcode in ("addc", "subc", "madc"):
        if t.carry is None:
            raise unsupported(i, "a carry from another basic block")
        total = t.add(total, t.resize(t.carry, wide))
    elif subtracts:
        total = t.add_const(total, 1)
    if i.has("cc"):
        t.carry = t.icmp("ne", t.and_const(t.lshr(total, width), 1), t.like(total, 0))
    t.write(i.operands[0], t.resize(total, x.type), Lanes())
