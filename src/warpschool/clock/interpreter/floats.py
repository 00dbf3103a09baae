"""Floating-point instructions, as far as paths and addresses hang on them."""

from __future__ import annotations

from warpschool.clock.interpreter.layout import (
    FLAGS,
    HALF_ABS,
    HALF_NEG,
    NOT_MINE,
    OP,
    OP_F2I,
    OP_FADD,
    OP_FFMA,
    OP_FMNMX,
    OP_FMUL,
    OP_FRND,
    OP_HALF,
    OP_I2F,
    OP_MUFU,
    PS0,
    PS0_NOT,
    UPPER,
)
from warpschool.clock.interpreter.registers import predicate, signed
from warpschool.clock.native import (
    bits,
    cos,
    exp2,
    f32,
    floor,
    fma,
    i32,
    i64,
    log2,
    lshr,
    native,
    rint,
    sin,
    sqrt,
    u8,
    u32,
)


@native
def float_holds(x: float, y: float, how: int) -> int:
    """The same of floats; bit 3 says what holds of numbers that cannot be compared."""
    if x < y:
        return how & 1
    if x == y:
        return lshr(how, 1) & 1
    if x > y:
        return lshr(how, 2) & 1
    return lshr(how, 3) & 1


@native
def special(which: int, x: float) -> float:
    """MUFU: 0 reciprocal, 1 of the square root, 2 exponential, 3 logarithm, 4 sine, 5 cosine, 6 square root."""
    if which == 0:
        return 1.0 / x
    if which == 1:
        return 1.0 / sqrt(x)
    if which == 2:
        return exp2(x)
    if which == 3:
        return log2(x)
    if which == 4:
        return sin(x)
    if which == 5:
        return cos(x)
    return sqrt(x)


@native
def rounded(x: float, how: int) -> float:
    """FRND: to a whole number; bits of `how` as of F2I."""
    if how & 2:
        return floor(x) if x > 0.0 else -floor(-x)
    if how & 4:
        return floor(x)
    if how & 8:
        return -floor(-x)
    return rint(x)


@native
def whole(x: float, how: int) -> int:
    """F2I: to an integer; bits of `how`: 1 unsigned, 2 to zero, 4 down, 8 up."""
    r = rounded(x, how)
    if how & 1:
        r = 0.0 if r < 0.0 else r
        return int(min(r, 4294967295.0))
    return int(max(min(r, 2147483647.0), -2147483648.0))


@native
def limited(x: float, how: int) -> float:
    """What .SAT makes of a sum: between 0 and 1, and 0 of what is no number."""
    if how == 0:
        return x
    return min(x, 1.0) if x > 0.0 else 0.0


@native
def widened(word: int, how: int) -> int:
    """The float that a half is, as bits."""
    half = lshr(word, 16) if how & UPPER else word & 65535
    size = half & 32767
    exponent = lshr(size, 10)
    if exponent == 31:
        found = 2139095040 | ((size & 1023) << 13)
    elif exponent == 0:
        found = bits(float(size) * 5.9604644775390625e-08)
    else:
        found = (size << 13) + 939524096
    negative = 0 if how & HALF_ABS else lshr(half, 15)
    if how & HALF_NEG:
        negative = 1 - negative
    return found | (negative << 31)


@native
def floats(
    f: i32,
    i: int,
    regs: u32,
    pool: u32,
    preds: u32,
    warp: int,
    lanes: int,
    active: int,
    a: u32,
    b: u32,
    c: u32,
    d: u32,
    e: u32,
    launch: i64,
    const: u8,
    block: i64,
) -> int:  # fmt: skip
    """Numbers in binary32, and conversions.

    1 where `d` is the result, 0 where all is written, NOT_MINE for an instruction of another kind.
    """
    op = f[i + OP]
    how = f[i + FLAGS]
    writes = 1
    if op == OP_FADD:
        for lane in range(32):
            d[lane] = bits(limited(f32(a[lane]) + f32(b[lane]), how))
    elif op == OP_FMUL:
        for lane in range(32):
            d[lane] = bits(limited(f32(a[lane]) * f32(b[lane]), how))
    elif op == OP_FFMA:
        for lane in range(32):
            d[lane] = bits(limited(fma(f32(a[lane]), f32(b[lane]), f32(c[lane])), how))
    elif op == OP_FMNMX:
        smaller = predicate(preds, warp, f[i + PS0], f[i + PS0_NOT])
        for lane in range(32):
            u = f32(a[lane])
            v = f32(b[lane])
            less = u < v or v != v
            if lshr(smaller, lane) & 1:
                d[lane] = a[lane] if less else b[lane]
            else:
                d[lane] = a[lane] if u > v or v != v else b[lane]
    elif op == OP_MUFU:
        for lane in range(32):
            d[lane] = bits(special(how, f32(a[lane])))
    elif op == OP_I2F:
        for lane in range(32):
            x = a[lane] if how & 1 else signed(a[lane])
            r = bits(float(x))
            if how & 2 and f32(r) < float(x):
                r += 1 if r < 2147483648 else -1
            d[lane] = r
    elif op == OP_HALF:
        for lane in range(32):
            d[lane] = widened(a[lane], how)
    elif op == OP_FRND:
        for lane in range(32):
            d[lane] = bits(rounded(f32(a[lane]), how))
    elif op == OP_F2I:
        for lane in range(32):
            d[lane] = whole(f32(a[lane]), how)
    else:
        return NOT_MINE
    return writes
