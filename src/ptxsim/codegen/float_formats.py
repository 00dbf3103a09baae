"""Floating-point formats: widening, rounding and what modifiers do to a result (PTX ISA 9.7.3).

Directed roundings take a result as an f64 and its error, both exact. Half operations widen: once to f32 for + - *
(innocuous double rounding, 24 >= 2*11 + 2), to f64 for fma.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxsim.codegen import host
from ptxsim.codegen.emit import Builder, Value
from ptxsim.codegen.values import bits_of
from ptxsim.syntax.program import Instruction

_DIRECTED = ("rz", "rm", "rp")
SMALLEST_NORMAL = {"float": 0x00800000, "half": 0x0400, "double": 0x0010000000000000, "bfloat": 0x0080}
INFINITY = {"float": 0x7F800000, "half": 0x7C00, "double": 0x7FF << 52, "bfloat": 0x7F80}
MAGNITUDE = {"float": 0x7FFFFFFF, "half": 0x7FFF, "double": (1 << 63) - 1, "bfloat": 0x7FFF}
FloatOp = Callable[..., Value]


def flush(b: Builder, x: Value) -> Value:
    """Subnormal numbers to zero of the same sign."""
    bits = bits_of(b, x)
    tiny = b.icmp("ult", b.and_const(bits, MAGNITUDE[x.type]), b.like(bits, SMALLEST_NORMAL[x.type]))
    sign = b.and_const(bits, ~MAGNITUDE[x.type])
    return b.bitcast(b.select(tiny, sign, bits), x.type)


def saturate(b: Builder, x: Value) -> Value:
    """Clamp to [0, 1]; NaN becomes 0."""
    zero, one = b.like(x, 0.0), b.like(x, 1.0)
    x = b.select(b.fcmp("ogt", x, zero), x, zero)
    return b.select(b.fcmp("olt", x, one), x, one)


def finish(b: Builder, i: Instruction, x: Value) -> Value:
    if i.has("ftz"):
        x = flush(b, x)
    if i.has("relu"):
        x = relu(b, x)
    return saturate(b, x) if i.has("sat") else x


def relu(b: Builder, x: Value) -> Value:
    """Negative numbers and -0 become +0."""
    bits = bits_of(b, x)
    number = b.icmp("ule", b.and_const(bits, MAGNITUDE[x.type]), b.like(bits, INFINITY[x.type]))
    negative = b.and_(number, b.icmp("slt", bits, b.like(bits, 0)))
    return b.bitcast(b.select(negative, b.like(bits, 0), bits), x.type)


def canonical_nan(b: Builder, x: Value) -> Value:
    """NaN with the bits that NVIDIA GPUs give halves: 0x7FFF."""
    bits = bits_of(b, x)
    return b.bitcast(b.select(b.fcmp("uno", x, x), b.like(bits, 0x7FFF), bits), x.type)


def widen(b: Builder, x: Value, type_: str) -> Value:
    """x in a wider format. bf16 goes by bits: the host's conversions flush its subnormals."""
    if x.type == "bfloat":
        x = b.bitcast(b.shl(b.resize(b.bitcast(x, "i16"), "i32"), 16), "float")
    return x if x.type == type_ else b.convert("fpext", x, type_)


def narrow(b: Builder, x: Value, type_: str) -> Value:
    """x rounded to nearest even in a narrower format."""
    if type_ == "half" and x.type == "double" and not host.has("avx512fp16"):
        x = _to_odd_float(b, x)  # no other x86 rounds an f64 to a half: LLVM would call a routine that is not there
    if type_ != "bfloat":
        return x if x.type == type_ else b.convert("fptrunc", x, type_)
    if x.type == "double":
        x = _to_odd_float(b, x)
    bits = b.bitcast(x, "i32")
    up = b.add_const(b.and_const(b.lshr(bits, 16), 1), 0x7FFF)
    rounded = b.lshr(b.add(bits, up), 16)
    nan = b.icmp("ugt", b.and_const(bits, 0x7FFFFFFF), b.like(bits, 0x7F800000))
    return b.bitcast(b.resize(b.select(nan, b.like(bits, 0x7FFF), rounded), "i16"), "bfloat")


def _to_odd_float(b: Builder, x: Value) -> Value:
    """An f64 cut to f32 with its last bit set where a part was lost, so that one more rounding is right."""
    cut = round_directed(b, x, b.like(x, 0.0), "rz")
    lost = b.resize(b.fcmp("one", b.convert("fpext", cut, "double"), x), "i32")
    return b.bitcast(b.or_(b.bitcast(cut, "i32"), lost), "float")


def inputs(b: Builder, i: Instruction, *xs: Value) -> list[Value]:
    return [flush(b, x) for x in xs] if i.has("ftz") else list(xs)


def direction(i: Instruction) -> str | None:
    return next((m for m in i.modifiers if m in _DIRECTED), None)


def round_directed(b: Builder, total: Value, error: Value, mode: str, type_: str = "float") -> Value:
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


def two_sum(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """x + y and its rounding error (Knuth)."""
    total = b.binary("fadd", x, y)
    y_part = b.binary("fsub", total, x)
    x_part = b.binary("fsub", total, y_part)
    return total, b.binary("fadd", b.binary("fsub", x, x_part), b.binary("fsub", y, y_part))


def widened(b: Builder, *xs: Value) -> list[Value]:
    return [widen(b, x, "double") for x in xs]


def round_to_odd(b: Builder, total: Value, error: Value) -> Value:
    """total with its last bit set where a part was lost, so that one more rounding is right."""
    bits = bits_of(b, total)
    inexact = b.fcmp("une", error, b.like(error, 0.0))
    finite = b.fcmp("ord", b.binary("fsub", total, total), b.like(total, 0.0))
    even = b.icmp("eq", b.and_const(bits, 1), b.like(bits, 0))
    toward = b.icmp("eq", b.icmp("slt", bits, b.like(bits, 0)), b.fcmp("olt", error, b.like(error, 0.0)))
    odd = b.select(toward, b.add_const(bits, 1), b.add_const(bits, -1))
    return b.bitcast(b.select(b.and_(b.and_(inexact, finite), even), odd, bits), "double")


def packed_half(b: Builder, i: Instruction, op: FloatOp, *xs: Value) -> Value:
    """A packed operation on both halves of 32-bit values."""
    element = "bfloat" if i.type == "bf16x2" else "half"
    lanes = xs[0].lanes
    split = [b.let(element, 2 * max(1, lanes), f"bitcast {x} to <{2 * max(1, lanes)} x {element}>") for x in xs]
    result = canonical_nan(b, op(b, i, *split))
    return b.let("i32", lanes, f"bitcast {result} to {'i32' if not lanes else f'<{lanes} x i32>'}")
