"""A sum of products as a Hopper GPU's tensor cores add it: `ptxsim.oracle.silicon_sums` in machine code.

All terms of a group, the sum so far among them, are cut off below the same place, a number of bits under the largest
exponent; then they are added exactly, and the sum is cut off once more. In float64 every step of that is exact: a
product has 22 bits, a cut term at most 28, and a group no more than 33 terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ptxsim.adders import FORMATS, SMALLEST_EXPONENT, Adder
from ptxsim.codegen.emit import Builder, IRValue, constant

_NONE = -(1 << 20)
"""The exponent of a term that is zero."""
_BIAS = 1023
_HALF_ZERO = 2.0**-25
"""The largest number that is rounded to an f16 of zero."""


def silicon_sum(
    b: Builder, how: Adder, types: tuple[str, str, str], pairs: Sequence[tuple[IRValue, IRValue]], start: IRValue
) -> IRValue:
    """`start` plus the products of all pairs, vectors of f32, group by group.

    `types` are those of A, B and D. A sum of f16 is left with one bit more than its last one, "to odd": what follows
    rounds it.
    """
    for first in range(0, len(pairs), how.group):
        start = _group(b, how, types, pairs[first : first + how.group], start)
    return start


def _group(
    b: Builder, how: Adder, types: tuple[str, str, str], pairs: Sequence[tuple[IRValue, IRValue]], start: IRValue
) -> IRValue:
    of_a, of_b, of_d = types
    terms = [_wide(b, start)]
    exponents = [_or_none(b, _exponent(b, start, of_d), terms[0])]
    for x, y in pairs:
        terms.append(b.binary("fmul", _wide(b, x), _wide(b, y)))
        exponent = b.add(_exponent(b, x, of_a), _exponent(b, y, of_b))
        exponents.append(_or_none(b, exponent, terms[-1]))
    largest = reduce(lambda x, y: b.intrinsic("smax", x, y), exponents)
    lowest = b.add_const(b.intrinsic("smax", largest, b.like(largest, SMALLEST_EXPONENT)), -how.kept)
    down, up = (_power(b, e) for e in (b.sub(b.like(lowest, 0), lowest), lowest))
    cut = [b.intrinsic("trunc", b.binary("fmul", term, down)) for term in terms]
    total = b.binary("fmul", reduce(lambda x, y: b.binary("fadd", x, y), cut), up)
    return _shortened(b, how, of_d, total)


def _wide(b: Builder, x: IRValue) -> IRValue:
    return b.convert("fpext", x, "double")


def _exponent(b: Builder, x: IRValue, type_: str) -> IRValue:
    """The exponent of a number, which is no smaller for one that is subnormal in its format."""
    bits = b.bitcast(x, "i32")
    raw = b.add_const(b.and_const(b.lshr(bits, 23), 0xFF), -127)
    return b.intrinsic("smax", raw, b.like(raw, 2 - (1 << FORMATS[type_][0] - 1)))


def _or_none(b: Builder, exponent: IRValue, term: IRValue) -> IRValue:
    return b.select(b.fcmp("oeq", term, b.like(term, 0.0)), b.like(exponent, _NONE), exponent)


def _power(b: Builder, exponent: IRValue) -> IRValue:
    """2 to a whole number that float64 has."""
    bits = b.shl(b.resize(b.add_const(exponent, _BIAS), "i64", signed=True), 52)
    return b.bitcast(bits, "double")


def _shortened(b: Builder, how: Adder, of_d: str, total: IRValue) -> IRValue:
    """A sum cut off to the bits of a result (towards zero), as f32; what becomes zero is +0."""
    near = b.convert("fptrunc", total, "float")
    magnitude, size = (b.intrinsic("fabs", x) for x in (_wide(b, near), total))
    bits = b.bitcast(near, "i32")
    finite = b.fcmp("olt", size, b.like(size, 2.0**128))
    beyond = b.and_(b.fcmp("ogt", magnitude, size), finite)
    bits = b.select(beyond, b.add_const(bits, -1), bits)
    if of_d == "f16":
        inexact = b.and_(b.fcmp("one", magnitude, size), finite)
        bits = b.select(inexact, b.or_(bits, b.like(bits, 1)), bits)
    else:
        bits = b.and_const(bits, -1 << FORMATS["f32"][1] - how.result)
    is_zero = b.icmp("eq", b.and_const(bits, 0x7FFFFFFF), b.like(bits, 0))
    if of_d == "f16":  # what comes after rounds to zero, and keeps the sign
        is_zero = b.or_(is_zero, b.fcmp("ole", size, b.like(size, _HALF_ZERO)))
    return b.bitcast(b.select(is_zero, constant("i32", 0, bits.lanes), bits), "float")
