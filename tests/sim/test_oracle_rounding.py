"""Exact arithmetic of the oracle against Python's fractions, which round nothing."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ptxsim.oracle import exact

MODES = ("rn", "rz", "rm", "rp")
NARROW = ("f16", "bf16", "f32", "tf32")


def rounded(x: Fraction, type_name: str, mode: str) -> float:
    """A fraction rounded to a format, from the definition: the neighbours are searched, not computed."""
    f = exact.FORMATS[type_name]
    if x == 0:
        return 0.0
    sign, magnitude = (-1 if x < 0 else 1), abs(x)
    exponent = max(math.floor(_log2(magnitude)) + 1 - f.precision, f.smallest)
    ulp = Fraction(2) ** exponent
    below = magnitude // ulp * ulp
    above = below if below == magnitude else below + ulp
    down, up = (below, above) if sign > 0 else (-above, -below)  # towards -infinity and +infinity
    if mode == "rn":
        low, high = magnitude - below, above - magnitude
        even = below if below / ulp % 2 == 0 else above
        chosen = sign * (below if low < high else above if high < low else even)
    else:
        chosen = {"rz": down if sign > 0 else up, "rm": down, "rp": up}[mode]
    largest = (2 - Fraction(2) ** (1 - f.precision)) * Fraction(2) ** (f.largest - 1)
    if abs(chosen) > largest:
        outward = mode == "rn" or (mode == "rm" and sign < 0) or (mode == "rp" and sign > 0)
        return sign * (math.inf if outward else float(largest))
    return float(chosen)


def _log2(x: Fraction) -> int:
    """Exponent of the largest power of two that is not above x."""
    k = x.numerator.bit_length() - x.denominator.bit_length()
    return k if Fraction(2) ** k <= x else k - 1


def finite(width: int) -> st.SearchStrategy[float]:
    return st.floats(allow_nan=False, allow_infinity=False, width=width)


@settings(max_examples=300, deadline=None)
@given(finite(32), finite(32), finite(32), st.sampled_from(MODES), st.sampled_from(NARROW))
def test_narrow_formats(x, y, z, mode, type_name):
    x, y, z = (float(v) for v in exact.round_to(np.array([x, y, z]), type_name, "rz"))
    a, b, c = (np.array([v]) for v in (x, y, z))
    for total, expected in (
        (exact.sum_to_odd(a, b), Fraction(x) + Fraction(y)),
        (a * b, Fraction(x) * Fraction(y)),
        (exact.fma_to_odd(a, b, c), Fraction(x) * Fraction(y) + Fraction(z)),
    ):
        assert float(exact.round_to(total, type_name, mode)[0]) == rounded(expected, type_name, mode)


@settings(max_examples=300, deadline=None)
@given(finite(64), finite(64), finite(64), st.sampled_from(MODES))
def test_double(x, y, z, mode):
    assert exact.fma(x, y, z, "f64", mode) == rounded(Fraction(x) * Fraction(y) + Fraction(z), "f64", mode)
    assert exact.add(x, y, "f64", mode) == rounded(Fraction(x) + Fraction(y), "f64", mode)
    assert exact.multiply(x, y, "f64", mode) == rounded(Fraction(x) * Fraction(y), "f64", mode)
    if y:
        assert exact.divide(x, y, "f64", mode) == rounded(Fraction(x) / Fraction(y), "f64", mode)


@settings(max_examples=200, deadline=None)
@given(st.floats(min_value=0, allow_infinity=False, width=32), st.sampled_from(MODES), st.sampled_from(("f32", "f64")))
def test_square_root(x, mode, type_name):
    root = exact.square_root(x, type_name, mode)
    ulp = Fraction(math.ulp(root) if type_name == "f64" else float(np.spacing(np.float32(root))))
    square = Fraction(root) ** 2
    if mode == "rn":
        half = ulp / 2
        assert max(Fraction(0), Fraction(root) - half) ** 2 <= x <= (Fraction(root) + half) ** 2
    elif mode == "rp":
        assert square >= x and (root == 0 or (Fraction(root) - ulp) ** 2 < x)
    else:
        assert square <= x < (Fraction(root) + ulp) ** 2


@settings(max_examples=200, deadline=None)
@given(st.integers(-(1 << 63), (1 << 64) - 1), st.sampled_from(MODES), st.sampled_from(("f16", "f32", "f64")))
def test_integers(x, mode, type_name):
    assert exact.from_integer(x, type_name, mode) == rounded(Fraction(x), type_name, mode)


@pytest.mark.parametrize("mode", MODES)
def test_signs_of_zero(mode):
    minus = -1.0 if mode == "rm" else 1.0
    assert math.copysign(1, exact.add(1.5, -1.5, "f64", mode)) == minus
    assert math.copysign(1, exact.add(-0.0, -0.0, "f64", mode)) == -1
    assert math.copysign(1, exact.fma(0.0, -3.0, 0.0, "f64", mode)) == minus
    total = exact.sum_to_odd(np.array([2.0]), np.array([-2.0]), mode=mode)
    assert math.copysign(1, total[0]) == minus


def test_special_numbers():
    inf, nan = math.inf, math.nan
    assert exact.fma(inf, 2.0, -1.0, "f64", "rn") == inf
    assert exact.fma(1e308, 10.0, -inf, "f64", "rn") == -inf
    assert math.isnan(exact.fma(inf, 0.0, 1.0, "f64", "rn"))
    assert math.isnan(exact.fma(inf, 1.0, -inf, "f64", "rn"))
    assert math.isnan(exact.fma(1.0, 1.0, nan, "f64", "rn"))
    assert exact.divide(1.0, -0.0, "f64", "rn") == -inf
    assert math.isnan(exact.divide(0.0, 0.0, "f64", "rn"))
    assert math.isnan(exact.square_root(-1.0, "f64", "rn"))
    assert exact.fma(1e308, 10.0, 0.0, "f64", "rz") == np.finfo(np.float64).max
