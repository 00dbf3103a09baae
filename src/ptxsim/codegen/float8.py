"""Numbers of 8 bits, two in a register: e4m3 and e5m2 (PTX ISA 5.2.3, 9.7.9.21)."""

from __future__ import annotations

from dataclasses import dataclass

from ptxsim.codegen.emit import Builder, Value
from ptxsim.codegen.float_formats import canonical_nan, narrow, relu, widen
from ptxsim.codegen.values import unsupported
from ptxsim.syntax.program import Instruction


@dataclass(frozen=True)
class Format:
    """`largest` is the largest finite number, `smallest` the smallest one above zero."""

    fraction_bits: int
    bias: int
    largest: float
    smallest: float


FORMATS = {"e4m3x2": Format(3, 7, 448.0, 2.0**-9), "e5m2x2": Format(2, 15, 57344.0, 2.0**-16)}
NAN = 0x7F


def convert(b: Builder, i: Instruction, x: Value, *more: Value) -> Value:
    """cvt from or to a pair of 8-bit numbers; the first of two sources becomes the upper half."""
    to, of = i.types
    if of in FORMATS:
        halves = [_half(b, i, FORMATS[of], b.lshr(x, shift)) for shift in (0, 8)]
        return _joined(b, halves, 16, "i32")
    sources = [*more, x] if more else [_float_of(b, x, shift) for shift in (0, 16)]
    if len(sources) != 2:
        raise unsupported(i)
    return _joined(b, [_byte(b, i, FORMATS[to], s) for s in sources], 8, "i16")


def _joined(b: Builder, parts: list[Value], bits: int, kind: str) -> Value:
    low, high = (b.resize(p, kind) for p in parts)
    return b.or_(low, b.shl(high, bits))


def _float_of(b: Builder, pair: Value, shift: int) -> Value:
    return widen(b, b.bitcast(b.resize(b.lshr(pair, shift), "i16"), "half"), "float")


def _byte(b: Builder, i: Instruction, f: Format, x: Value) -> Value:
    """An f32 rounded to nearest even, as i32; numbers beyond the largest become the largest."""
    if i.has("relu"):
        x = relu(b, x)
    bits = b.bitcast(x, "i32")
    magnitude = b.and_const(bits, 0x7FFFFFFF)
    nan = b.icmp("ugt", magnitude, b.like(magnitude, 0x7F800000))
    size = b.bitcast(magnitude, "float")
    size = b.select(b.fcmp("ogt", size, b.like(size, f.largest)), b.like(size, f.largest), size)
    # normal numbers: round the fraction's bits off, then move the exponent's zero
    cut = 23 - f.fraction_bits
    raw = b.bitcast(size, "i32")
    odd = b.and_const(b.lshr(raw, cut), 1)
    normal = b.lshr(b.add(b.add_const(raw, (1 << (cut - 1)) - 1), odd), cut)
    normal = b.add_const(normal, -((127 - f.bias) << f.fraction_bits))
    # small ones: a sum with a number whose last place is the smallest step rounds them to whole steps
    anchor = b.like(size, f.smallest * 2.0**23)
    steps = b.sub(b.bitcast(b.binary("fadd", size, anchor), "i32"), b.bitcast(anchor, "i32"))
    is_small = b.fcmp("olt", size, b.like(size, f.smallest * 2.0**f.fraction_bits))
    code = b.or_(b.select(is_small, steps, normal), b.and_const(b.lshr(bits, 24), 0x80))
    return b.select(nan, b.like(code, NAN), code)


def _half(b: Builder, i: Instruction, f: Format, pair: Value) -> Value:
    """The number in the low 8 bits as an i16 with the bits of an f16, which holds all of them."""
    code = b.and_const(b.resize(pair, "i32"), 0xFF)
    magnitude = b.and_const(code, 0x7F)
    # as the bits of an f32 whose exponent is too small by the difference of the biases
    tiny = b.bitcast(b.shl(magnitude, 23 - f.fraction_bits), "float")
    size = b.binary("fmul", tiny, b.like(tiny, 2.0 ** (127 - f.bias)))
    bits = b.or_(b.bitcast(size, "i32"), b.shl(b.and_const(code, 0x80), 24))
    x = b.bitcast(bits, "float")
    if f.fraction_bits == 3:  # one code is no number; there is no infinity
        special = b.icmp("eq", magnitude, b.like(magnitude, NAN))
        x = b.select(special, b.like(x, float("nan")), x)
    else:
        special = b.icmp("uge", magnitude, b.like(magnitude, 0x7C))
        infinite = b.bitcast(b.or_(b.and_const(bits, -0x80000000), b.like(bits, 0x7F800000)), "float")
        ends = b.select(b.icmp("eq", magnitude, b.like(magnitude, 0x7C)), infinite, b.like(x, float("nan")))
        x = b.select(special, ends, x)
    if i.has("relu"):
        x = relu(b, x)
    return b.bitcast(canonical_nan(b, narrow(b, x, "half")), "i16")
