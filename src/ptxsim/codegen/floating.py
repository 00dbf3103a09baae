"""Floating-point numbers: formats, rounding, arithmetic and approximate functions (PTX ISA 9.7.3, 9.7.4).

Nothing calls the host's math library, whose results differ from host to host. f32 and f64 operations round to nearest
even as written. Directed roundings of f32 take a result as an f64 and its error, both exact; those of f64 go through a
helper that sets the host's rounding mode. Half operations widen: once to f32 for + - * (innocuous double rounding,
24 >= 2*11 + 2), to f64 for fma. Approximate functions are f64 polynomials rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ptxsim.codegen import host
from ptxsim.codegen.emit import (
    I32,
    WARP,
    Builder,
    Helper,
    IRValue,
    RuntimeFunction,
    arg,
    constant,
    helper,
    i32,
    mangled,
)
from ptxsim.codegen.values import VALUES, ValueRow, bits_of, is_float, unsupported, value
from ptxsim.syntax.program import TWICE, Instruction

_DIRECTED = ("rz", "rm", "rp")
SMALLEST_NORMAL = {"float": 0x00800000, "half": 0x0400, "double": 0x0010000000000000, "bfloat": 0x0080}
INFINITY = {"float": 0x7F800000, "half": 0x7C00, "double": 0x7FF << 52, "bfloat": 0x7F80}
MAGNITUDE = {"float": 0x7FFFFFFF, "half": 0x7FFF, "double": (1 << 63) - 1, "bfloat": 0x7FFF}
FloatOp = Callable[..., IRValue]


def flush(b: Builder, x: IRValue) -> IRValue:
    """Subnormal numbers to zero of the same sign."""
    bits = bits_of(b, x)
    tiny = b.icmp("ult", b.and_const(bits, MAGNITUDE[x.type]), b.like(bits, SMALLEST_NORMAL[x.type]))
    sign = b.and_const(bits, ~MAGNITUDE[x.type])
    return b.bitcast(b.select(tiny, sign, bits), x.type)


def saturate(b: Builder, x: IRValue) -> IRValue:
    """Clamp to [0, 1]; NaN becomes 0."""
    zero, one = b.like(x, 0.0), b.like(x, 1.0)
    x = b.select(b.fcmp("ogt", x, zero), x, zero)
    return b.select(b.fcmp("olt", x, one), x, one)


def finish(b: Builder, i: Instruction, x: IRValue) -> IRValue:
    if i.has("ftz"):
        x = flush(b, x)
    if i.has("relu"):
        x = relu(b, x)
    return saturate(b, x) if i.has("sat") else x


def relu(b: Builder, x: IRValue) -> IRValue:
    """Negative numbers and -0 become +0."""
    bits = bits_of(b, x)
    number = b.icmp("ule", b.and_const(bits, MAGNITUDE[x.type]), b.like(bits, INFINITY[x.type]))
    negative = b.and_(number, b.icmp("slt", bits, b.like(bits, 0)))
    return b.bitcast(b.select(negative, b.like(bits, 0), bits), x.type)


def canonical_nan(b: Builder, x: IRValue) -> IRValue:
    """NaN with the bits that NVIDIA GPUs give halves: 0x7FFF.

    NaNs are found by their bits: processors that compute with no halves would widen each to compare it.
    """
    bits = bits_of(b, x)
    is_nan = b.icmp("ugt", b.and_const(bits, MAGNITUDE[x.type]), b.like(bits, INFINITY[x.type]))
    return b.bitcast(b.select(is_nan, b.like(bits, 0x7FFF), bits), x.type)


def absolute(b: Builder, x: IRValue) -> IRValue:
    """|x|. Of bf16 by its bits, and so below: LLVM 20 would round it again, by a routine that is not there."""
    if x.type != "bfloat":
        return b.intrinsic("fabs", x)
    return b.bitcast(b.and_const(bits_of(b, x), MAGNITUDE[x.type]), x.type)


def negated(b: Builder, x: IRValue) -> IRValue:
    """-x, of NaNs too."""
    if x.type != "bfloat":
        return b.let(x.type, x.lanes, f"fneg {x}")
    bits = bits_of(b, x)
    return b.bitcast(b.xor(bits, b.like(bits, 1 << 15)), x.type)


def widen(b: Builder, x: IRValue, type_: str) -> IRValue:
    """x in a wider format."""
    if x.type == "bfloat":
        x = b.widened(x)
    return x if x.type == type_ else b.convert("fpext", x, type_)


def narrow(b: Builder, x: IRValue, type_: str) -> IRValue:
    """x rounded to nearest even in a narrower format."""
    if type_ == "half" and x.type == "double" and not host.has_halves():
        x = _to_odd_float(b, x)  # others round no f64 to a half: LLVM would call a routine that is not there
    if type_ != "bfloat":
        return x if x.type == type_ else b.convert("fptrunc", x, type_)
    if x.type == "double":
        x = _to_odd_float(b, x)
    bits = b.bitcast(x, "i32")
    up = b.add_const(b.and_const(b.lshr(bits, 16), 1), 0x7FFF)
    rounded = b.lshr(b.add(bits, up), 16)
    nan = b.icmp("ugt", b.and_const(bits, 0x7FFFFFFF), b.like(bits, 0x7F800000))
    return b.bitcast(b.resize(b.select(nan, b.like(bits, 0x7FFF), rounded), "i16"), "bfloat")


def _to_odd_float(b: Builder, x: IRValue) -> IRValue:
    """An f64 cut to f32 with its last bit set where a part was lost, so that one more rounding is right."""
    cut = rounded(b, x, "float", "rz")
    lost = b.resize(b.fcmp("one", b.convert("fpext", cut, "double"), x), "i32")
    return b.bitcast(b.or_(b.bitcast(cut, "i32"), lost), "float")


def inputs(b: Builder, i: Instruction, *xs: IRValue) -> list[IRValue]:
    return [flush(b, x) for x in xs] if i.has("ftz") else list(xs)


def direction(i: Instruction) -> str | None:
    return next((m for m in i.modifiers if m in _DIRECTED), None)


def round_directed(b: Builder, total: IRValue, error: IRValue, mode: str, type_: str = "float") -> IRValue:
    """total + error (f64, exact, |error| below total's last place) rounded to `type_` in direction rz, rm or rp."""
    nearest = narrow(b, total, type_)
    back = widen(b, nearest, "double")
    above = b.or_(
        b.fcmp("ogt", back, total), b.and_(b.fcmp("oeq", back, total), b.fcmp("olt", error, b.like(error, 0.0)))
    )
    below = b.or_(
        b.fcmp("olt", back, total), b.and_(b.fcmp("oeq", back, total), b.fcmp("ogt", error, b.like(error, 0.0)))
    )
    bits = bits_of(b, nearest)
    negative = b.icmp("slt", bits, b.like(bits, 0))
    one, zero = b.like(bits, 1), b.like(bits, 0)
    magnitude = MAGNITUDE[type_]
    is_zero = b.icmp("eq", b.and_const(bits, magnitude), zero)
    # next number down: towards zero for positives, away for negatives; from zero, the smallest negative
    down = b.select(is_zero, b.like(bits, ~magnitude | 1), b.select(negative, b.add(bits, one), b.sub(bits, one)))
    up = b.select(is_zero, one, b.select(negative, b.sub(bits, one), b.add(bits, one)))
    if mode == "rm":
        bits = b.select(above, down, bits)
    elif mode == "rp":
        bits = b.select(below, up, bits)
    else:
        positive_total = b.fcmp("oge", total, b.like(total, 0.0))
        bits = b.select(b.and_(above, positive_total), down, b.select(b.and_(below, b.not_(positive_total)), up, bits))
    return b.bitcast(bits, type_)


def rounded(b: Builder, x: IRValue, type_: str, mode: str | None) -> IRValue:
    """x in a narrower format, rounded to nearest even or in a direction."""
    if mode is None:
        return narrow(b, x, type_)
    wide = widen(b, x, "double")
    return round_directed(b, wide, b.like(wide, 0.0), mode, type_)


def two_sum(b: Builder, x: IRValue, y: IRValue) -> tuple[IRValue, IRValue]:
    """x + y and its rounding error (Knuth)."""
    total = b.binary("fadd", x, y)
    y_part = b.binary("fsub", total, x)
    x_part = b.binary("fsub", total, y_part)
    return total, b.binary("fadd", b.binary("fsub", x, x_part), b.binary("fsub", y, y_part))


def widened(b: Builder, *xs: IRValue) -> list[IRValue]:
    return [widen(b, x, "double") for x in xs]


def round_to_odd(b: Builder, total: IRValue, error: IRValue) -> IRValue:
    """total cut to where its error points, its last bit set where a part was lost: one more rounding is then right."""
    bits = bits_of(b, total)
    signs = b.xor(bits, bits_of(b, error))
    back = b.binary("ashr", signs, b.like(bits, 31 if total.type == "float" else 63))  # -1 where they differ
    odd = b.or_(b.add(bits, back), b.like(bits, 1))
    inexact = b.fcmp("one", error, b.like(error, 0.0))  # not beside infinities, whose error is no number
    return b.bitcast(b.select(inexact, odd, bits), total.type)


def packed_half(b: Builder, i: Instruction, op: FloatOp, *xs: IRValue) -> IRValue:
    """A packed operation on both halves of 32-bit values."""
    element = "bfloat" if i.type == "bf16x2" else "half"
    lanes = xs[0].lanes
    split = [b.bitcast(x, element, 2 * max(1, lanes)) for x in xs]
    result = canonical_nan(b, op(b, i, *split))
    return b.bitcast(result, "i32", lanes)


ROUNDING_MODES = {"rz": 0, "rp": 2, "rm": 3}
"""PTX rounding modifier -> LLVM's number of the mode (llvm.set.rounding)."""
_NEAREST = 1


def _directed_helper(operation: str, count: int) -> RuntimeFunction:
    """ws_directed_OPERATION(mode, operands...) for a warp of f64.

    It sets the host's rounding mode, computes, and sets it back to nearest; a function of its own, so that no other
    operation is scheduled in between.
    """

    def body(b: Helper, mode: IRValue, *operands: IRValue) -> None:
        b.call("llvm.set.rounding", "void", mode)
        name = f"llvm.experimental.constrained.{operation}.v{WARP}f64"
        types = ", ".join(x.ir_type for x in operands)
        b.declared[name] = f"declare <{WARP} x double> @{name}({types}, metadata, metadata)"
        flags = 'metadata !"round.dynamic", metadata !"fpexcept.ignore"'
        listed = ", ".join(map(str, operands))
        result = b.let("double", WARP, f"call <{WARP} x double> @{name}({listed}, {flags}) strictfp")
        b.call("llvm.set.rounding", "void", i32(_NEAREST))
        b.ret(result)

    operands = (arg("double", f"x{k}", WARP) for k in range(count))
    return helper(f"ws_directed_{operation}", "<32 x double>", arg(I32, "mode"), *operands)(body)


DIRECTED = tuple(
    _directed_helper(operation, count)
    for operation, count in {"fadd": 2, "fmul": 2, "fdiv": 2, "fma": 3, "sqrt": 1}.items()
)


def _of_double(b: Builder, i: Instruction, operation: str, *xs: IRValue) -> IRValue:
    """A directed operation on f64: products and quotients are not exact in anything wider."""
    lanes = xs[0].lanes
    wide = [b.shuffle(x, [*range(lanes)] * (WARP // lanes)) if lanes else b.splat(x) for x in xs]
    mode = constant("i32", ROUNDING_MODES[direction(i) or ""])
    result = b.call(f"ws_directed_{operation}", "double", mode, *wide, lanes=WARP)
    return b.shuffle(result, range(lanes)) if lanes else b.extract(result, 0)


def _directed(b: Builder, i: Instruction, x: IRValue, y: IRValue, op: str) -> IRValue:
    if x.type == "double":
        return _of_double(b, i, op, x, y)
    p, q = widened(b, x, y)
    if op == "fmul":
        return round_directed(b, b.binary("fmul", p, q), b.like(p, 0.0), direction(i) or "")
    total, error = two_sum(b, p, q)
    return _signed_zero(b, round_directed(b, total, error, direction(i) or "", x.type), i, p, q)


def _signed_zero(b: Builder, result: IRValue, i: Instruction, p: IRValue, q: IRValue) -> IRValue:
    """Rounding down, a sum that is exactly zero is -0 unless both terms are +0."""
    if not i.has("rm"):
        return result
    signs = b.or_(bits_of(b, p), bits_of(b, q))
    negative = b.and_(b.fcmp("oeq", result, b.like(result, 0.0)), b.icmp("slt", signs, b.like(signs, 0)))
    exact = b.fcmp("oeq", b.binary("fadd", p, q), b.like(p, 0.0))
    return b.select(b.and_(negative, exact), b.like(result, -0.0), result)


def _narrow(b: Builder, op: str, x: IRValue, y: IRValue) -> IRValue:
    """A half operation through f32."""
    if x.type not in ("half", "bfloat"):
        return b.binary(op, x, y)
    return narrow(b, b.binary(op, widen(b, x, "float"), widen(b, y, "float")), x.type)


def _factors(b: Builder, i: Instruction, x: IRValue, *others: IRValue) -> tuple[IRValue, ...]:
    """Operands as they are multiplied: where products count twice, the first factor does."""
    return (_narrow(b, "fadd", x, x) if i.has(TWICE) else x, *others)


def _arithmetic(op: str) -> FloatOp:
    def compute(b: Builder, i: Instruction, x: IRValue, y: IRValue) -> IRValue:
        x, y = _factors(b, i, *inputs(b, i, x, y))
        return finish(b, i, _directed(b, i, x, y, op) if direction(i) else _narrow(b, op, x, y))

    return compute


add_float, mul_float = _arithmetic("fadd"), _arithmetic("fmul")


def sub_float(b: Builder, i: Instruction, x: IRValue, y: IRValue) -> IRValue:
    return add_float(b, i, x, negated(b, y))


def fma_float(b: Builder, i: Instruction, x: IRValue, y: IRValue, z: IRValue) -> IRValue:
    x, y, z = _factors(b, i, *inputs(b, i, x, y, z))
    mode = direction(i)
    if mode and x.type == "double":
        result = _of_double(b, i, "fma", x, y, z)
    elif mode:
        p, q, r = widened(b, x, y, z)
        product = b.binary("fmul", p, q)
        total, error = two_sum(b, product, r)
        result = _signed_zero(b, round_directed(b, total, error, mode), i, product, r)
    elif x.type == "bfloat" or (x.type == "half" and not host.has_halves()):
        result = fma_wide(b, x, y, z)
    else:
        result = b.intrinsic("fma", x, y, z)
    return finish(b, i, result)


def fma_wide(b: Builder, x: IRValue, y: IRValue, z: IRValue) -> IRValue:
    """x * y + z of halves or bf16, rounded once: in a format that holds each product, and rounded to odd there.

    Products of halves fit f32: 22 bits, and exponents from -48. Those of bf16 would leave its range, so they take f64,
    of which a vector holds half as many: on ARM without arithmetic of halves that is four times as long to generate.
    """
    p, q, r = (widen(b, value, "float" if x.type == "half" else "double") for value in (x, y, z))
    total, error = two_sum(b, b.binary("fmul", p, q), r)
    return narrow(b, round_to_odd(b, total, error), x.type)


def _extreme(name: str) -> FloatOp:
    """PTX min and max: a NaN loses to a number, -0 is below +0; `.NaN` propagates NaN."""
    order = "olt" if name == "min" else "ogt"

    def compute(b: Builder, i: Instruction, x: IRValue, y: IRValue) -> IRValue:
        x, y = inputs(b, i, x, y)
        sign = b.xor(bits_of(b, x), bits_of(b, y)) if i.has("xorsign") else None
        if i.has("abs"):
            x, y = absolute(b, x), absolute(b, y)
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


def divide_float(b: Builder, i: Instruction, x: IRValue, y: IRValue) -> IRValue:
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


def _upper_word(b: Builder, i: Instruction, x: IRValue) -> IRValue:
    """The `.approx.ftz.f64` functions read and write the upper half of a number alone (9.7.3.13, 9.7.3.17)."""
    if x.type == "double" and i.has("approx") and i.has("ftz"):
        return b.bitcast(b.and_const(b.bitcast(x, "i64"), ~0xFFFFFFFF), "double")
    return x


@value("sqrt")
def _sqrt(b: Builder, i: Instruction, x: IRValue) -> IRValue:
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
def _rsqrt(b: Builder, i: Instruction, x: IRValue) -> IRValue:
    (x,) = inputs(b, i, _upper_word(b, i, x))
    if x.type == "double":
        return _upper_word(b, i, finish(b, i, b.binary("fdiv", b.like(x, 1.0), b.intrinsic("sqrt", x))))
    (wide,) = widened(b, x)
    return finish(b, i, narrow(b, b.binary("fdiv", b.like(wide, 1.0), b.intrinsic("sqrt", wide)), x.type))


@value("testp")
def _testp(b: Builder, i: Instruction, x: IRValue) -> IRValue:
    bits = bits_of(b, x)
    magnitude, infinity = b.and_const(bits, MAGNITUDE[x.type]), INFINITY[x.type]
    tiny = b.icmp("ult", magnitude, b.like(bits, SMALLEST_NORMAL[x.type]))
    zero = b.icmp("eq", magnitude, b.like(bits, 0))
    finite = b.icmp("ult", magnitude, b.like(bits, infinity))
    tests: dict[str, Callable[[], IRValue]] = {
        "finite": lambda: finite,
        "infinite": lambda: b.icmp("eq", magnitude, b.like(bits, infinity)),
        "number": lambda: b.fcmp("ord", x, x),
        "notanumber": lambda: b.fcmp("uno", x, x),
        "normal": lambda: b.or_(b.and_(finite, b.not_(tiny)), zero),  # zero counts as normal
        "subnormal": lambda: b.and_(tiny, b.not_(zero)),
    }
    if i.modifiers[0] not in tests:
        raise unsupported(i)
    return tests[i.modifiers[0]]()


def _through_double(function: Callable[[Builder, IRValue], IRValue]) -> FloatOp:
    def compute(b: Builder, i: Instruction, x: IRValue) -> IRValue:
        return compute_scalar(b, i, x) if is_float(i.type) else packed_half(b, i, compute_scalar, x)

    def compute_scalar(b: Builder, i: Instruction, x: IRValue) -> IRValue:
        if x.type == "double":
            raise unsupported(i)
        (x,) = inputs(b, i, x)
        (wide,) = widened(b, x)
        return finish(b, i, narrow(b, function(b, wide), x.type))

    return compute


def _polynomial(b: Builder, x: IRValue, coefficients: list[float]) -> IRValue:
    """Horner's scheme; the first coefficient is the constant term."""
    result = b.like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = b.intrinsic("fma", result, x, b.like(x, c))
    return result


def _to_int64(b: Builder, x: IRValue) -> IRValue:
    return b.call(f"llvm.fptosi.sat.{mangled('i64', x.lanes)}.{mangled(x.type, x.lanes)}", "i64", x, lanes=x.lanes)


_EXP2 = [math.log(2) ** k / math.factorial(k) for k in range(12)]
_LOG2 = [2 / math.log(2) / (2 * k + 1) for k in range(10)]
_TURNS = float.fromhex("0x1.45f306p-3")
"""1 / (2 pi) as an f32."""
_SIN = [(-1) ** k / math.factorial(2 * k + 1) for k in range(8)]
_COS = [(-1) ** k / math.factorial(2 * k) for k in range(8)]


def exp2_double(b: Builder, x: IRValue) -> IRValue:
    """2^x for f64 x from an f32: a degree-11 series on [-1/2, 1/2], relative error below 1e-13."""
    limit = b.like(x, 400.0)
    x = b.select(b.fcmp("ogt", x, limit), limit, x)
    x = b.select(b.fcmp("olt", x, b.like(x, -400.0)), b.like(x, -400.0), x)
    whole = b.intrinsic("roundeven", x)
    fraction = b.binary("fsub", x, whole)
    scale = b.bitcast(b.shl(b.add_const(_to_int64(b, whole), 1023), 52), "double")
    return b.binary("fmul", _polynomial(b, fraction, _EXP2), scale)


def log2_double(b: Builder, x: IRValue) -> IRValue:
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


def _within_turns(b: Builder, x: IRValue) -> IRValue:
    """Angles beyond 100 pi, for which PTX states no error, as an H200 takes them: in turns, cut to f32."""
    turns = widen(b, rounded(b, b.binary("fmul", x, b.like(x, _TURNS)), "float", "rz"), "double")
    part = b.intrinsic("copysign", b.binary("fsub", turns, b.intrinsic("trunc", turns)), x)
    far = b.fcmp("ogt", b.intrinsic("fabs", x), b.like(x, 100 * math.pi))
    return b.select(far, b.binary("fmul", part, b.like(x, 2 * math.pi)), x)


def _sincos(quarter: int) -> Callable[[Builder, IRValue], IRValue]:
    """sin(x + quarter * pi/2) after reduction by pi/2 in two parts."""

    def compute(b: Builder, x: IRValue) -> IRValue:
        x = _within_turns(b, x)
        tiny = b.fcmp("olt", b.intrinsic("fabs", x), b.like(x, 2.0**-126))
        zero = b.intrinsic("copysign", b.like(x, 0.0), x)
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
        result = b.select(negative, b.let("double", x.lanes, f"fneg {result}"), result)
        return result if quarter else b.select(tiny, zero, result)

    return compute


def _tanh(b: Builder, x: IRValue) -> IRValue:
    """tanh x = 1 - 2 / (e^2x + 1), with the odd series near zero where that cancels."""
    limited = b.select(b.fcmp("ogt", x, b.like(x, 40.0)), b.like(x, 40.0), x)
    power = exp2_double(b, b.binary("fmul", limited, b.like(x, 2 / math.log(2))))
    one = b.like(x, 1.0)
    far = b.binary("fsub", one, b.binary("fdiv", b.like(x, 2.0), b.binary("fadd", power, one)))
    near = b.binary("fmul", x, _polynomial(b, b.binary("fmul", x, x), [1.0, -1 / 3, 2 / 15, -17 / 315, 62 / 2835]))
    return b.select(b.fcmp("olt", b.intrinsic("fabs", x), b.like(x, 0.02)), near, far)


VALUES |= {
    "fma": ValueRow(lambda b, i, *xs: fma_float(b, i, *xs) if is_float(i.type) else packed_half(b, i, fma_float, *xs)),
    "rcp": ValueRow(lambda b, i, x: _upper_word(b, i, divide_float(b, i, b.like(x, 1.0), _upper_word(b, i, x)))),
    "copysign": ValueRow(lambda b, i, x, y: b.intrinsic("copysign", y, x)),  # PTX: the sign of a, the magnitude of b
    "ex2": ValueRow(_through_double(exp2_double)),
    "lg2": ValueRow(_through_double(log2_double)),
    "sin": ValueRow(_through_double(_sincos(0))),
    "cos": ValueRow(_through_double(_sincos(1))),
    "tanh": ValueRow(_through_double(_tanh)),
}
