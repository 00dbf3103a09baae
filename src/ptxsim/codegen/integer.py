"""Arithmetic of integers (PTX ISA 9.7.1); what has forms for floats and packed halves goes on to `floating`."""

from __future__ import annotations

from collections.abc import Callable

from ptxsim.codegen.emit import Builder, Value
from ptxsim.codegen.float_formats import FloatOp, flush, packed_half
from ptxsim.codegen.floating import add_float, divide_float, fma_float, max_float, min_float, mul_float, sub_float
from ptxsim.codegen.values import intrinsic_name, is_float, signed, value
from ptxsim.syntax.program import WIDTH_BITS, Instruction

_PACKED, _PAIRS = ("f16x2", "bf16x2"), ("u16x2", "s16x2")


@value("add")
def _add(b: Builder, i: Instruction, x: Value, y: Value) -> Value:
    if i.type in _PACKED:
        return packed_half(b, i, add_float, x, y)
    if is_float(i.type):
        return add_float(b, i, x, y)
    if i.type in _PAIRS:
        return _by_half(b, x, y, b.add)
    return b.intrinsic("sadd.sat", x, y) if i.has("sat") else b.add(x, y)


def _by_half(b: Builder, x: Value, y: Value, op: Callable[[Value, Value], Value]) -> Value:
    """An operation on both 16-bit halves."""
    lanes = 2 * max(1, x.lanes)
    p, q = (b.let("i16", lanes, f"bitcast {v} to <{lanes} x i16>") for v in (x, y))
    return b.let("i32", x.lanes, f"bitcast {op(p, q)} to {x.ir_type}")


@value("sub")
def _sub(b: Builder, i: Instruction, x: Value, y: Value) -> Value:
    if i.type in _PACKED:
        return packed_half(b, i, sub_float, x, y)
    if is_float(i.type):
        return sub_float(b, i, x, y)
    if i.type in _PAIRS:
        return _by_half(b, x, y, b.sub)
    return b.intrinsic("ssub.sat", x, y) if i.has("sat") else b.sub(x, y)


def _wide_type(type_: str) -> str:
    return type_[0] + str(2 * int(type_[1:]))


def _third_type(i: Instruction) -> tuple[str, ...]:
    return (i.type, i.type, _wide_type(i.type) if i.has("wide") else i.type)


@value("mul")
def _mul(b: Builder, i: Instruction, x: Value, y: Value) -> Value:
    if i.type in _PACKED:
        return packed_half(b, i, mul_float, x, y)
    if is_float(i.type):
        return mul_float(b, i, x, y)
    if i.has("lo"):
        return b.mul(x, y)
    wide = f"i{2 * WIDTH_BITS[i.type]}"
    product = b.mul(b.resize(x, wide, signed(i)), b.resize(y, wide, signed(i)))
    return product if i.has("wide") else b.resize(b.lshr(product, WIDTH_BITS[i.type]), x.type)


@value("mad", operands=_third_type)
def _mad(b: Builder, i: Instruction, x: Value, y: Value, z: Value) -> Value:
    if is_float(i.type):
        return fma_float(b, i, x, y, z)
    product = _mul(b, i, x, y)
    return b.intrinsic("sadd.sat", product, z) if i.has("sat") else b.add(product, z)


def _low24(b: Builder, i: Instruction, x: Value) -> Value:
    return b.binary("ashr" if signed(i) else "lshr", b.shl(x, 8), b.like(x, 8))


@value("mul24", "mad24")
def _mul24(b: Builder, i: Instruction, x: Value, y: Value, z: Value | None = None) -> Value:
    x, y = _low24(b, i, x), _low24(b, i, y)
    if i.has("hi"):
        wide = b.mul(b.resize(x, "i64", signed(i)), b.resize(y, "i64", signed(i)))
        product = b.resize(b.lshr(wide, 16), "i32")
    else:
        product = b.mul(x, y)
    if z is None:
        return product
    return b.intrinsic("sadd.sat", product, z) if i.has("sat") else b.add(product, z)


@value("sad")
def _sad(b: Builder, i: Instruction, x: Value, y: Value, z: Value) -> Value:
    kind = "s" if signed(i) else "u"
    return b.add(z, b.sub(b.intrinsic(kind + "max", x, y), b.intrinsic(kind + "min", x, y)))


def divide(b: Builder, i: Instruction, x: Value, y: Value) -> tuple[Value, Value]:
    """Integer quotient and remainder. Division by zero gives all ones for both, as NVIDIA GPUs do."""
    zero = b.icmp("eq", y, b.like(y, 0))
    divisor = b.select(zero, b.like(y, 1), y)
    kind = "s" if signed(i) else "u"
    if x.type in ("i16", "i32"):
        # float64 holds both operands exactly and its truncated quotient is exact: far faster than lane-wise division
        dividend_f, divisor_f = (b.convert(f"{kind}itofp", v, "double") for v in (x, divisor))
        quotient_f = b.binary("fdiv", dividend_f, divisor_f)
        quotient = b.resize(b.convert(f"fpto{kind}i", quotient_f, "i64"), x.type)
    else:
        if signed(i):  # INT_MIN / -1 traps on the host
            minus_one = b.icmp("eq", divisor, b.like(y, -1))
            safe = b.binary("sdiv", x, b.select(minus_one, b.like(y, 1), divisor))
            quotient = b.select(minus_one, b.sub(b.like(x, 0), x), safe)
        else:
            quotient = b.binary("udiv", x, divisor)
    remainder = b.sub(x, b.mul(quotient, divisor))
    return b.select(zero, b.like(x, -1), quotient), b.select(zero, b.like(x, -1), remainder)


@value("div")
def _div(b: Builder, i: Instruction, x: Value, y: Value) -> Value:
    return divide_float(b, i, x, y) if is_float(i.type) else divide(b, i, x, y)[0]


@value("rem")
def _rem(b: Builder, i: Instruction, x: Value, y: Value) -> Value:
    return divide(b, i, x, y)[1]


@value("abs")
def _abs(b: Builder, i: Instruction, x: Value) -> Value:
    if i.type in _PACKED:
        return packed_half(b, i, lambda b, i, v: b.intrinsic("fabs", v), x)
    if is_float(i.type):
        return b.intrinsic("fabs", flush(b, x) if i.has("ftz") else x)
    return b.call(f"llvm.abs.{intrinsic_name(x)}", x.type, x, Value("i1", "false"), lanes=x.lanes)


@value("neg")
def _neg(b: Builder, i: Instruction, x: Value) -> Value:
    if i.type in _PACKED:
        return packed_half(b, i, lambda b, i, v: b.let(v.type, v.lanes, f"fneg {v}"), x)
    if is_float(i.type):
        x = flush(b, x) if i.has("ftz") else x
        return b.let(x.type, x.lanes, f"fneg {x}")
    return b.sub(b.like(x, 0), x)


@value("min")
def _min(b: Builder, i: Instruction, x: Value, y: Value, *more: Value) -> Value:
    return _extreme(b, i, min_float, "min", x, y, *more)


@value("max")
def _max(b: Builder, i: Instruction, x: Value, y: Value, *more: Value) -> Value:
    return _extreme(b, i, max_float, "max", x, y, *more)


def _extreme(b: Builder, i: Instruction, of_floats: FloatOp, name: str, x: Value, y: Value, *more: Value) -> Value:
    if i.type in _PACKED:
        return packed_half(b, i, of_floats, x, y)
    if is_float(i.type):
        result = of_floats(b, i, x, y)
        return of_floats(b, i, result, more[0]) if more else result
    kind = ("s" if signed(i) else "u") + name
    if i.type in _PAIRS:
        x = _by_half(b, x, y, lambda p, q: b.intrinsic(kind, p, q))
        return _by_half(b, x, b.like(x, 0), lambda p, q: b.intrinsic("smax", p, q)) if i.has("relu") else x
    if i.has("relu"):
        return b.intrinsic("smax", b.intrinsic(kind, x, y), b.like(x, 0))
    return b.intrinsic(kind, x, y)


def _parts(b: Builder, x: Value, is_signed: bool, bits: int) -> list[Value]:
    """The fields of a 32-bit value, extended."""
    op = "ashr" if is_signed else "lshr"
    return [b.binary(op, b.shl(x, 32 - bits - k), b.like(x, 32 - bits)) for k in range(0, 32, bits)]


@value("dp4a")
def _dp4a(b: Builder, i: Instruction, x: Value, y: Value, total: Value) -> Value:
    a_type, b_type = (i.types[0], i.types[-1])
    for p, q in zip(_parts(b, x, a_type[0] == "s", 8), _parts(b, y, b_type[0] == "s", 8), strict=True):
        total = b.add(total, b.mul(p, q))
    return total


@value("dp2a")
def _dp2a(b: Builder, i: Instruction, x: Value, y: Value, total: Value) -> Value:
    a_type, b_type = (i.types[0], i.types[-1])
    bytes_ = _parts(b, y, b_type[0] == "s", 8)
    chosen = bytes_[2:] if i.has("hi") else bytes_[:2]
    for p, q in zip(_parts(b, x, a_type[0] == "s", 16), chosen, strict=True):
        total = b.add(total, b.mul(p, q))
    return total


@value("vabsdiff2", "vabsdiff4", operands=lambda i: ("b32", "b32", "b32"))
def _vabsdiff(b: Builder, i: Instruction, x: Value, y: Value, z: Value) -> Value:
    """Part by part; `.add` sums the differences onto the third operand."""
    bits = 8 if i.opcode == "vabsdiff4" else 16
    most = (1 << bits) - 1
    result = z if i.has("add") else b.like(x, 0)
    pairs = zip(_parts(b, x, i.types[1][0] == "s", bits), _parts(b, y, i.types[2][0] == "s", bits), strict=True)
    for k, (p, q) in enumerate(pairs):
        difference = b.sub(b.intrinsic("smax", p, q), b.intrinsic("smin", p, q))
        if i.has("add"):
            result = b.add(result, difference)
            continue
        if i.has("sat"):
            difference = b.intrinsic("umin", difference, b.like(x, most >> 1 if i.types[0][0] == "s" else most))
        result = b.or_(result, b.shl(b.and_const(difference, most), bits * k))
    return result
