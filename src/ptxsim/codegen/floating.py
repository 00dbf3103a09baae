"""Floating-point arithmetic (PTX ISA 9.7.3, 9.7.4), without calls into the host's math library.

f32 and f64 operations round to nearest even as written; directed roundings of f32 go through f64 with an error term,
those of f64 through a helper. `float_formats` has the formats and modifiers, `transcendental` sine and its like.
"""

from __future__ import annotations

import math

from ptxsim.codegen.emit import WARP, Builder, Value, constant
from ptxsim.codegen.float_formats import (
    MAGNITUDE,
    SMALLEST_NORMAL,
    FloatOp,
    direction,
    finish,
    inputs,
    narrow,
    packed_half,
    round_directed,
    round_to_odd,
    two_sum,
    widen,
    widened,
)
from ptxsim.codegen.runtime import rounding
from ptxsim.codegen.values import bits_of, is_float, unsupported, value
from ptxsim.syntax.program import Instruction


def _of_double(b: Builder, i: Instruction, operation: str, *xs: Value) -> Value:
    """A directed operation on f64: products and quotients are not exact in anything wider."""
    wide = [x if x.lanes == WARP else b.splat(x) if not x.lanes else b.shuffle(x, _spread(x.lanes)) for x in xs]
    mode = constant("i32", rounding.MODES[direction(i) or ""])
    result = b.call(f"ws_directed_{operation}", "double", mode, *wide, lanes=WARP)
    lanes = xs[0].lanes
    return result if lanes == WARP else b.shuffle(result, range(lanes)) if lanes else b.extract(result, 0)


def _spread(lanes: int) -> list[int]:
    return [k % lanes for k in range(WARP)]


def _directed(b: Builder, i: Instruction, x: Value, y: Value, op: str) -> Value:
    if x.type == "double":
        return _of_double(b, i, op, x, y)
    p, q = widened(b, x, y)
    if op == "fmul":
        return round_directed(b, b.binary("fmul", p, q), b.like(p, 0.0), direction(i) or "")
    total, error = two_sum(b, p, q)
    return _signed_zero(b, round_directed(b, total, error, direction(i) or "", x.type), i, p, q)


def _signed_zero(b: Builder, result: Value, i: Instruction, p: Value, q: Value) -> Value:
    """Rounding down, a sum that is exactly zero is -0 unless both terms are +0."""
    if not i.has("rm"):
        return result
    signs = b.or_(bits_of(b, p), bits_of(b, q))
    negative = b.and_(b.fcmp("oeq", result, b.like(result, 0.0)), b.icmp("slt", signs, b.like(signs, 0)))
    exact = b.fcmp("oeq", b.binary("fadd", p, q), b.like(p, 0.0))
    return b.select(b.and_(negative, exact), b.like(result, -0.0), result)


def _narrow(b: Builder, op: str, x: Value, y: Value) -> Value:
    """A half operation through f32."""
    if x.type not in ("half", "bfloat"):
        return b.binary(op, x, y)
    return narrow(b, b.binary(op, widen(b, x, "float"), widen(b, y, "float")), x.type)


def _arithmetic(op: str) -> FloatOp:
    def compute(b: Builder, i: Instruction, x: Value, y: Value) -> Value:
        x, y = inputs(b, i, x, y)
        result = _directed(b, i, x, y, op) if direction(i) else _narrow(b, op, x, y)
        return finish(b, i, result)

    return compute


add_float, mul_float = _arithmetic("fadd"), _arithmetic("fmul")


def sub_float(b: Builder, i: Instruction, x: Value, y: Value) -> Value:
    return add_float(b, i, x, b.let(y.type, y.lanes, f"fneg {y}"))


def fma_float(b: Builder, i: Instruction, x: Value, y: Value, z: Value) -> Value:
    x, y, z = inputs(b, i, x, y, z)
    mode = direction(i)
    if mode and x.type == "double":
        result = _of_double(b, i, "fma", x, y, z)
    elif mode:
        p, q, r = widened(b, x, y, z)
        product = b.binary("fmul", p, q)
        total, error = two_sum(b, product, r)
        result = _signed_zero(b, round_directed(b, total, error, mode), i, product, r)
    elif x.type in ("half", "bfloat"):
        p, q, r = widened(b, x, y, z)
        total, error = two_sum(b, b.binary("fmul", p, q), r)
        result = narrow(b, round_to_odd(b, total, error), x.type)
    else:
        result = b.intrinsic("fma", x, y, z)
    return finish(b, i, result)


@value("fma")
def _fma(b: Builder, i: Instruction, x: Value, y: Value, z: Value) -> Value:
    if not is_float(i.type):
        return packed_half(b, i, fma_float, x, y, z)
    return fma_float(b, i, x, y, z)


def _extreme(name: str) -> FloatOp:
    """PTX min and max: a NaN loses to a number, -0 is below +0; `.NaN` propagates NaN."""
    order = "olt" if name == "min" else "ogt"

    def compute(b: Builder, i: Instruction, x: Value, y: Value) -> Value:
        x, y = inputs(b, i, x, y)
        sign = b.xor(bits_of(b, x), bits_of(b, y)) if i.has("xorsign") else None
        if i.has("abs"):
            x, y = b.intrinsic("fabs", x), b.intrinsic("fabs", y)
        first = b.fcmp(order, x, y)
        # equal numbers differ in sign only for zeros: the sign bit decides
        x_negative = b.icmp("slt", bits_of(b, x), b.like(bits_of(b, x), 0))
        tie = b.and_(b.fcmp("oeq", x, y), x_negative if name == "min" else b.not_(x_negative))
        y_nan = b.fcmp("uno", y, y)
        result = b.select(b.or_(b.or_(first, tie), y_nan), x, y)
        if i.has("NaN"):
            result = b.select(b.fcmp("uno", x, x), x, b.select(y_nan, y, result))
        if sign is not None:
            signed_bits = b.or_(bits_of(b, result), b.and_const(sign, ~MAGNITUDE[x.type]))
            result = b.select(b.fcmp("uno", result, result), result, b.bitcast(signed_bits, x.type))
        return finish(b, i, result)

    return compute


min_float, max_float = _extreme("min"), _extreme("max")


def divide_float(b: Builder, i: Instruction, x: Value, y: Value) -> Value:
    x, y = inputs(b, i, x, y)
    if (mode := direction(i)) and x.type == "double":
        return _of_double(b, i, "fdiv", x, y)
    if mode:
        p, q = widened(b, x, y)
        quotient = b.binary("fdiv", p, q)
        rest = b.intrinsic("fma", b.let("double", p.lanes, f"fneg {quotient}"), q, p)
        error = b.select(b.fcmp("olt", q, b.like(q, 0.0)), b.let("double", p.lanes, f"fneg {rest}"), rest)
        return finish(b, i, round_directed(b, quotient, error, mode))
    result = b.binary("fdiv", x, y)
    # beyond 2^126 the approximate quotient of finite numbers is 0 (9.7.3.8)
    if i.opcode == "div" and i.has("approx") and x.type == "float":
        huge = b.fcmp("ogt", b.intrinsic("fabs", y), b.like(y, 2.0**126))
        vanishes = b.binary("fmul", x, b.like(x, 0.0))
        finite = b.fcmp("olt", b.intrinsic("fabs", y), b.like(y, math.inf))
        result = b.select(b.and_(huge, finite), b.intrinsic("copysign", vanishes, result), result)
    return finish(b, i, result)


@value("rcp")
def _rcp(b: Builder, i: Instruction, x: Value) -> Value:
    return _upper_word(b, i, divide_float(b, i, b.like(x, 1.0), _upper_word(b, i, x)))


def _upper_word(b: Builder, i: Instruction, x: Value) -> Value:
    """The `.approx.ftz.f64` functions read and write the upper half of a number alone (9.7.3.13, 9.7.3.17)."""
    if x.type == "double" and i.has("approx") and i.has("ftz"):
        return b.bitcast(b.and_const(b.bitcast(x, "i64"), ~0xFFFFFFFF), "double")
    return x


@value("sqrt")
def _sqrt(b: Builder, i: Instruction, x: Value) -> Value:
    (x,) = inputs(b, i, x)
    if (mode := direction(i)) and x.type == "double":
        return _of_double(b, i, "sqrt", x)
    if mode:
        (p,) = widened(b, x)
        root = b.intrinsic("sqrt", p)
        error = b.intrinsic("fma", b.let("double", p.lanes, f"fneg {root}"), root, p)
        return finish(b, i, round_directed(b, root, error, mode))
    return finish(b, i, b.intrinsic("sqrt", x))


@value("rsqrt")
def _rsqrt(b: Builder, i: Instruction, x: Value) -> Value:
    (x,) = inputs(b, i, _upper_word(b, i, x))
    if x.type == "double":
        return _upper_word(b, i, finish(b, i, b.binary("fdiv", b.like(x, 1.0), b.intrinsic("sqrt", x))))
    (wide,) = widened(b, x)
    root = b.binary("fdiv", b.like(wide, 1.0), b.intrinsic("sqrt", wide))
    return finish(b, i, narrow(b, root, x.type))


@value("copysign")
def _copysign(b: Builder, i: Instruction, x: Value, y: Value) -> Value:
    return b.intrinsic("copysign", y, x)  # PTX: the sign of a, the magnitude of b


@value("testp")
def _testp(b: Builder, i: Instruction, x: Value) -> Value:
    bits = bits_of(b, x)
    magnitude = b.and_const(bits, MAGNITUDE[x.type])
    infinity = {"float": 0x7F800000, "double": 0x7FF << 52}[x.type]
    tiny = b.icmp("ult", magnitude, b.like(bits, SMALLEST_NORMAL[x.type]))
    zero = b.icmp("eq", magnitude, b.like(bits, 0))
    finite = b.icmp("ult", magnitude, b.like(bits, infinity))
    match i.modifiers[0]:
        case "finite":
            return finite
        case "infinite":
            return b.icmp("eq", magnitude, b.like(bits, infinity))
        case "number":
            return b.fcmp("ord", x, x)
        case "notanumber":
            return b.fcmp("uno", x, x)
        case "normal":
            return b.or_(b.and_(finite, b.not_(tiny)), zero)  # zero counts as normal
        case "subnormal":
            return b.and_(tiny, b.not_(zero))
    raise unsupported(i)
