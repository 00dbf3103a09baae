"""Correctly rounded floating-point arithmetic in every rounding mode.

Two roads. Formats narrower than f64 compute in f64 with round-to-odd, which keeps enough to round once more to any
format of at most 51 bits (Boldo and Melquiond, IEEE Trans. Computers 57, 2008). For f64 itself, and for quotients and
roots in directed modes, every lane is computed with Python's integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Format:
    """A binary format: bits of its significand (the hidden one counts) and the exponents of its extreme ulps."""

    precision: int
    smallest: int
    """smallest subnormal number = 2**smallest"""
    largest: int
    """largest number < 2**largest"""


FORMATS = {
    "f16": Format(11, -24, 16),
    "bf16": Format(8, -133, 128),
    "tf32": Format(11, -136, 128),
    "f32": Format(24, -149, 128),
    "f64": Format(53, -1074, 1024),
}
_TO_INTEGER: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rn": np.rint,
    "rz": np.trunc,
    "rm": np.floor,
    "rp": np.ceil,
    "rna": lambda x: np.trunc(x + np.copysign(0.5, x)),
}
"""Rounding of f64 numbers below 2**52 to whole numbers, by PTX's names of the modes."""
INTEGER_MODES = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def round_to(x: np.ndarray, type_name: str, mode: str = "rn") -> np.ndarray:
    """The f64 numbers `x` (exact or rounded to odd) rounded to a narrower format; the result stays f64."""
    f = FORMATS[type_name]
    _, exponent = np.frexp(x)
    ulp = np.ldexp(1.0, np.maximum(exponent - f.precision, f.smallest))
    rounded = np.copysign(_TO_INTEGER[mode](x / ulp) * ulp, x)
    return np.where(np.isfinite(x), _overflowed(rounded, f, mode), x)


def _overflowed(x: np.ndarray, f: Format, mode: str) -> np.ndarray:
    """Numbers beyond the format: infinity, or its largest number where the mode rounds towards zero there."""
    largest = math.ldexp(1 - 2.0**-f.precision, f.largest)
    directions: dict[str, np.ndarray] = {"rz": np.zeros(x.shape, bool), "rm": x < 0, "rp": x > 0}
    limit = np.where(directions.get(mode, np.ones(x.shape, bool)), np.inf, largest)
    return np.where(np.abs(x) > largest, np.copysign(limit, x), x)


def sum_to_odd(x: np.ndarray, y: np.ndarray, *, mode: str = "rn") -> np.ndarray:
    """x + y in f64; an inexact sum gets an odd last bit, which marks on which side the exact one lies.

    `mode` decides the sign of a sum of opposite numbers: +0, in rm -0 (IEEE 754-2008, 6.3).
    """
    total = x + y
    part = total - x  # Knuth's two-sum: total + error = x + y exactly
    error = (x - (total - part)) + (y - part)
    bits = np.asarray(total).view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    away = (error > 0) == (total > 0)
    odd = np.where(inexact, bits + np.where(away, 1, -1), bits).view(np.float64)
    return np.where((total == 0) & (np.signbit(x) != np.signbit(y)), -0.0, odd) if mode == "rm" else odd


def fma_to_odd(x: np.ndarray, y: np.ndarray, z: np.ndarray, *, mode: str = "rn") -> np.ndarray:
    """x * y + z for f64 arrays whose products are exact (factors of at most 26 bits), rounded to odd."""
    return sum_to_odd(x * y, z, mode=mode)


# ---------------------------------------------------------------- lane by lane


def by_lane(function: Callable[..., float], *arrays: np.ndarray) -> np.ndarray:
    """Applies a function of Python floats to every lane of f64 arrays."""
    broadcast = np.broadcast_arrays(*arrays)
    lanes = zip(*(a.ravel().tolist() for a in broadcast), strict=True)
    return np.array([function(*lane) for lane in lanes], np.float64).reshape(broadcast[0].shape)


def _integer(x: float) -> tuple[int, int]:
    """A finite x as (significand, exponent): x = significand * 2**exponent."""
    fraction, exponent = math.frexp(x)
    return int(fraction * (1 << 53)), exponent - 53


def _round(value: int, exponent: int, sticky: bool, type_name: str, mode: str) -> float:
    """value * 2**exponent, plus a little in its direction if `sticky`, rounded to a format. value is not 0."""
    f = FORMATS[type_name]
    negative = value < 0
    bits, exponent = abs(value) << 64 | sticky, exponent - 64  # more than any format holds: some are always cut off
    ulp = max(exponent + bits.bit_length() - f.precision, f.smallest)
    quotient, rest = divmod(bits, 1 << (ulp - exponent))
    half = 1 << (ulp - exponent - 1)
    quotient += {
        "rn": rest > half or (rest == half and quotient % 2 == 1),
        "rz": False,
        "rm": negative and rest > 0,
        "rp": not negative and rest > 0,
    }[mode]
    if quotient.bit_length() + ulp <= f.largest:
        result = math.ldexp(quotient, ulp)
    elif mode in ("rn", "rm" if negative else "rp"):
        result = math.inf
    else:
        result = math.ldexp((1 << f.precision) - 1, f.largest - f.precision)
    return -result if negative else result


def fma(x: float, y: float, z: float, type_name: str, mode: str) -> float:
    """x * y + z with one rounding."""
    if not (math.isfinite(x) and math.isfinite(y)):
        return x * y + z
    if not math.isfinite(z):  # which the product of finite numbers does not change, be it ever so large
        return z
    (a, p), (b, q), (c, r) = _integer(x), _integer(y), _integer(z)
    lowest = min(p + q, r)
    total = (a * b << (p + q - lowest)) + (c << (r - lowest))
    if total:
        return _round(total, lowest, False, type_name, mode)
    if math.copysign(1, x) * math.copysign(1, y) == math.copysign(1, z):  # two zeros of one sign
        return z
    return -0.0 if mode == "rm" else 0.0


def add(x: float, y: float, type_name: str, mode: str) -> float:
    """x + y."""
    return fma(x, 1.0, y, type_name, mode)


def multiply(x: float, y: float, type_name: str, mode: str) -> float:
    """x * y; a product of zero keeps its sign."""
    return fma(x, y, math.copysign(0.0, math.copysign(1, x) * math.copysign(1, y)), type_name, mode)


@np.errstate(all="ignore")
def divide(x: float, y: float, type_name: str, mode: str) -> float:
    """x / y."""
    if not (math.isfinite(x) and math.isfinite(y)) or x == 0 or y == 0:
        return float(np.divide(x, y))
    (a, p), (b, q) = _integer(x), _integer(y)
    quotient, rest = divmod(abs(a) << 64, abs(b))
    return _round(quotient if (a < 0) == (b < 0) else -quotient, p - q - 64, rest != 0, type_name, mode)


@np.errstate(all="ignore")
def square_root(x: float, type_name: str, mode: str) -> float:
    """The square root."""
    if not x > 0 or math.isinf(x):
        return float(np.sqrt(x))
    a, p = _integer(x)
    a, p = a << 64 + p % 2, p - 64 - p % 2
    root = math.isqrt(a)
    return _round(root, p // 2, root * root != a, type_name, mode)


def from_integer(x: int, type_name: str, mode: str) -> float:
    """A whole number in a floating-point format."""
    return _round(x, 0, False, type_name, mode) if x else 0.0
