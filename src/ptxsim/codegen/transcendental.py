"""The approximate functions ex2, lg2, sin, cos and tanh of f32 and halves (PTX ISA 9.7.3.18 to 9.7.3.22).

They are f64 polynomials rounded once, so their results are the same on every host.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ptxsim.codegen.emit import Builder, Value
from ptxsim.codegen.float_formats import FloatOp, finish, inputs, narrow, packed_half, widened
from ptxsim.codegen.values import unsupported, value
from ptxsim.syntax.program import Instruction


def _through_double(function: Callable[[Builder, Value], Value]) -> FloatOp:
    def compute(b: Builder, i: Instruction, x: Value) -> Value:
        if i.type in ("f16x2", "bf16x2"):
            return packed_half(b, i, compute_scalar, x)
        return compute_scalar(b, i, x)

    def compute_scalar(b: Builder, i: Instruction, x: Value) -> Value:
        if x.type == "double":
            raise unsupported(i)
        (x,) = inputs(b, i, x)
        (wide,) = widened(b, x)
        return finish(b, i, narrow(b, function(b, wide), x.type))

    return compute


def _polynomial(b: Builder, x: Value, coefficients: list[float]) -> Value:
    """Horner's scheme; the first coefficient is the constant term."""
    result = b.like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = b.intrinsic("fma", result, x, b.like(x, c))
    return result


def _to_int64(b: Builder, x: Value) -> Value:
    lanes = f"v{x.lanes}" if x.lanes else ""
    return b.call(f"llvm.fptosi.sat.{lanes}i64.{lanes}f64", "i64", x, lanes=x.lanes)


_EXP2 = [math.log(2) ** k / math.factorial(k) for k in range(12)]
_LOG2 = [2 / math.log(2) / (2 * k + 1) for k in range(10)]
_SIN = [(-1) ** k / math.factorial(2 * k + 1) for k in range(8)]
_COS = [(-1) ** k / math.factorial(2 * k) for k in range(8)]


def exp2_double(b: Builder, x: Value) -> Value:
    """2^x for f64 x from an f32: a degree-11 series on [-1/2, 1/2], relative error below 1e-13."""
    limit = b.like(x, 400.0)
    x = b.select(b.fcmp("ogt", x, limit), limit, x)
    x = b.select(b.fcmp("olt", x, b.like(x, -400.0)), b.like(x, -400.0), x)
    whole = b.intrinsic("roundeven", x)
    fraction = b.binary("fsub", x, whole)
    scale = b.bitcast(b.shl(b.add_const(_to_int64(b, whole), 1023), 52), "double")
    return b.binary("fmul", _polynomial(b, fraction, _EXP2), scale)


def log2_double(b: Builder, x: Value) -> Value:
    """log2 x for f64 x from an f32: exponent plus an atanh series on [sqrt(1/2), sqrt(2)]."""
    bits = b.bitcast(x, "i64")
    # shift the mantissa's range to [sqrt(1/2), sqrt(2))
    offset = b.sub(bits, b.like(bits, 0x3FE6A09E667F3BCD))
    exponent = b.binary("ashr", offset, b.like(bits, 52))
    mantissa = b.bitcast(b.sub(bits, b.shl(exponent, 52)), "double")
    one = b.like(x, 1.0)
    s = b.binary("fdiv", b.binary("fsub", mantissa, one), b.binary("fadd", mantissa, one))
    series = b.binary("fmul", s, _polynomial(b, b.binary("fmul", s, s), _LOG2))
    result = b.binary("fadd", b.convert("sitofp", b.resize(exponent, "i32"), "double"), series)
    infinity, nan = b.like(x, math.inf), b.like(x, math.nan)
    result = b.select(b.fcmp("oeq", x, infinity), infinity, result)
    result = b.select(b.fcmp("oeq", x, b.like(x, 0.0)), b.like(x, -math.inf), result)
    return b.select(b.or_(b.fcmp("olt", x, b.like(x, 0.0)), b.fcmp("uno", x, x)), nan, result)


def _sincos(quarter: int) -> Callable[[Builder, Value], Value]:
    """sin(x + quarter * pi/2) after reduction by pi/2 in two parts."""

    def compute(b: Builder, x: Value) -> Value:
        turns = b.intrinsic("roundeven", b.binary("fmul", x, b.like(x, 2 / math.pi)))
        high, low = 1.5707963267948966, 6.123233995736766e-17
        r = b.intrinsic("fma", turns, b.like(x, -high), x)
        r = b.intrinsic("fma", turns, b.like(x, -low), r)
        square = b.binary("fmul", r, r)
        sine = b.binary("fmul", r, _polynomial(b, square, _SIN))
        cosine = _polynomial(b, square, _COS)
        quadrant = b.add_const(_to_int64(b, turns), quarter)
        odd = b.icmp("ne", b.and_const(quadrant, 1), b.like(quadrant, 0))
        result = b.select(odd, cosine, sine)
        negative = b.icmp("ne", b.and_const(quadrant, 2), b.like(quadrant, 0))
        return b.select(negative, b.let("double", x.lanes, f"fneg {result}"), result)

    return compute


def _tanh(b: Builder, x: Value) -> Value:
    """tanh x = 1 - 2 / (e^2x + 1), with the odd series near zero where that cancels."""
    limited = b.select(b.fcmp("ogt", x, b.like(x, 40.0)), b.like(x, 40.0), x)
    power = exp2_double(b, b.binary("fmul", limited, b.like(x, 2 / math.log(2))))
    one = b.like(x, 1.0)
    far = b.binary("fsub", one, b.binary("fdiv", b.like(x, 2.0), b.binary("fadd", power, one)))
    square = b.binary("fmul", x, x)
    near = b.binary("fmul", x, _polynomial(b, square, [1.0, -1 / 3, 2 / 15, -17 / 315, 62 / 2835]))
    return b.select(b.fcmp("olt", b.intrinsic("fabs", x), b.like(x, 0.02)), near, far)


value("ex2")(_through_double(exp2_double))
value("lg2")(_through_double(log2_double))
value("sin")(_through_double(_sincos(0)))
value("cos")(_through_double(_sincos(1)))
value("tanh")(_through_double(_tanh))
