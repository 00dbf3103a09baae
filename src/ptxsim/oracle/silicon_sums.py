"""How a Hopper GPU's tensor cores add, to the last bit.

The simulator adds in order of k and rounds each step to nearest (`tensor`). Silicon does not. It takes a group of
products, all of 32 bytes of a row, together with the accumulator. Every term is brought to the largest exponent among
them and cut off below so many bits of fraction; then the sum is exact, and is cut off once more to the result's
format (rounded to nearest for f16). An exponent is that of the factors, not of their product: 1.5 * 1.5 counts as
1 * 1. A longer product is done group by group, each with the sum so far. `ptxsim.adders` has the numbers, and where
they come from. `codegen.silicon_sums` does the same in machine code.
"""

from __future__ import annotations

import numpy as np

from ptxsim.adders import FORMATS, SMALLEST_EXPONENT, Adder, adder

_UNUSED = {"tf32": 13}
"""Low bits of an element that count for nothing."""
_NAN = {"f16": 0x7FFF, "f32": 0x7FFFFFFF}
_FAR = -(1 << 20)
"""The exponent of a zero: below all others."""


def silicon_product(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, types: tuple[str, str, str], instruction: str = "mma"
) -> np.ndarray:
    """Bits of `a b + c`, shape (..., m, n), of bits of A (..., m, k), B (..., k, n) and C (..., m, n).

    `types` are those of A, B, and of C and D ("f32" or "f16").
    """
    of_a, of_b, of_d = types
    how = adder(instruction, of_a, of_d)
    x, y = (_parts(bits, type_) for bits, type_ in ((a, of_a), (b, of_b)))
    found = c
    for first in range(0, a.shape[-1], how.group):
        part = slice(first, first + how.group)
        found = _group(
            [v[..., part] for v in x], [v.swapaxes(-1, -2)[..., part] for v in y], _parts(found, of_d), how, of_d
        )
    return found


def _parts(bits: np.ndarray, type_: str) -> list[np.ndarray]:
    """(significand as a whole number with its sign, exponent of its last bit, exponent, what it is) of every number.

    What it is: 0 a finite number, 1 an infinity, 2 a NaN.
    """
    exponent_bits, fraction_bits = FORMATS[type_]
    raw = bits.astype(np.int64) >> _UNUSED.get(type_, 0)
    fraction, top = raw & (1 << fraction_bits) - 1, (1 << exponent_bits) - 1
    e = raw >> fraction_bits & top
    sign = np.where(raw >> fraction_bits + exponent_bits & 1, -1, 1)
    units = np.where(e > 0, fraction + (1 << fraction_bits), fraction)
    exponent = np.maximum(e, 1) - ((1 << exponent_bits - 1) - 1)
    if type_ == "e4m3":
        kind = np.where((e == top) & (fraction == 7), 2, 0)
    else:
        kind = np.where(e == top, np.where(fraction != 0, 2, 1), 0)
    return [sign * units, exponent - fraction_bits, np.where(units == 0, _FAR, exponent), kind]


def _group(x: list[np.ndarray], y: list[np.ndarray], z: list[np.ndarray], how: Adder, d: str) -> np.ndarray:
    """One sum of products x (..., m, k) by y (..., n, k) and z (..., m, n)."""
    (xs, xl, xe, xk), (ys, yl, ye, yk) = ([v[..., :, None, :] for v in x], [v[..., None, :, :] for v in y])
    significand = np.concatenate([xs * ys, z[0][..., None]], axis=-1)
    last = np.concatenate([xl + yl, z[1][..., None]], axis=-1)
    exponent = np.concatenate([np.maximum(xe + ye, _FAR), z[2][..., None]], axis=-1)
    largest = exponent.max(axis=-1)
    lowest = np.maximum(largest, SMALLEST_EXPONENT) - how.kept  # the exponent of the last bit that is kept
    shift = np.clip(last - lowest[..., None], -62, 62)
    kept = np.abs(significand) << np.maximum(shift, 0) >> np.maximum(-shift, 0)
    kept = np.where(exponent == _FAR, 0, kept)
    total = (np.sign(significand) * kept).sum(axis=-1)
    rounded = (_to_nearest if d == "f16" else _cut)(total, lowest, how, d)
    return _special(rounded, [xs, xk], [ys, yk], z, d)


def _position(total: np.ndarray, lowest: np.ndarray, how: Adder, d: str) -> tuple[np.ndarray, np.ndarray]:
    """(the exponent of a sum, never below the format's smallest; by how many bits it is too long)."""
    smallest = 2 - (1 << FORMATS[d][0] - 1)
    length = np.frexp(np.abs(total).astype(np.float64))[1]  # sums stay below 2^53: exact
    exponent = np.maximum(length - 1 + lowest, smallest)
    return exponent, exponent - how.result - lowest


def _shifted(magnitude: np.ndarray, excess: np.ndarray) -> np.ndarray:
    down, up = np.clip(excess, 0, 62), np.clip(-excess, 0, 62)
    return magnitude >> down << up


def _cut(total: np.ndarray, lowest: np.ndarray, how: Adder, d: str) -> np.ndarray:
    exponent, excess = _position(total, lowest, how, d)
    return _encoded(total, _shifted(np.abs(total), excess), exponent, how, d)


def _to_nearest(total: np.ndarray, lowest: np.ndarray, how: Adder, d: str) -> np.ndarray:
    exponent, excess = _position(total, lowest, how, d)
    magnitude, down = np.abs(total), np.clip(excess, 0, 62)
    units = _shifted(magnitude, excess)
    twice = 2 * (magnitude - (units << down))
    ahead = np.where(excess > 0, (twice > 1 << down) | ((twice == 1 << down) & (units & 1 == 1)), False)
    return _encoded(total, units + ahead, exponent, how, d)


def _encoded(total: np.ndarray, units: np.ndarray, exponent: np.ndarray, how: Adder, d: str) -> np.ndarray:
    """Bits of a number of `units` in the last place of its exponent; infinity where it is too large."""
    exponent_bits, fraction_bits = FORMATS[d]
    smallest, bias = 2 - (1 << exponent_bits - 1), (1 << exponent_bits - 1) - 1
    wide = units << fraction_bits - how.result
    carries = (exponent - smallest + 1 << fraction_bits) + wide - (1 << fraction_bits)  # a carry raises the exponent
    bits = np.where(wide >> fraction_bits > 0, carries, wide)
    bits = np.where(exponent > bias, (1 << exponent_bits) - 1 << fraction_bits, bits)
    bits = np.minimum(bits, (1 << exponent_bits) - 1 << fraction_bits)
    sign = ((total < 0) & (bits != 0)).astype(np.int64) << exponent_bits + fraction_bits  # what is cut to zero is +0
    return (bits | sign).astype(np.uint16 if d == "f16" else np.uint32)


def _special(
    rounded: np.ndarray, x: list[np.ndarray], y: list[np.ndarray], z: list[np.ndarray], d: str
) -> np.ndarray:  # fmt: skip
    """Infinities and NaNs among the terms."""
    (xs, xk), (ys, yk) = x, y
    infinite = (xk == 1) | (yk == 1)
    spoilt = (xk == 2) | (yk == 2) | (infinite & (xs * ys == 0))
    sign = np.sign(xs) * np.sign(ys)
    up = (infinite & (sign > 0)).any(axis=-1) | (z[3] == 1) & (z[0] > 0)
    down = (infinite & (sign < 0)).any(axis=-1) | (z[3] == 1) & (z[0] < 0)
    spoilt_at = spoilt.any(axis=-1) | (z[3] == 2) | up & down
    exponent_bits, fraction_bits = FORMATS[d]
    top = (1 << exponent_bits) - 1 << fraction_bits
    found = np.where(up, top, np.where(down, top | 1 << exponent_bits + fraction_bits, rounded))
    return np.where(spoilt_at, _NAN[d], found).astype(rounded.dtype)
