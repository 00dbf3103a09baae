"""Floats of 8 bits against the simulator's own values, and against the definition of rounding."""

from __future__ import annotations

import numpy as np

from ptxsim.oracle.convert import FLOAT8_VALUES
from warpcourse import floats8

CODES = np.arange(256)
NUMBERS = CODES[CODES % 128 < 127]


def test_every_byte_stands_for_what_the_simulator_says() -> None:
    known = np.asarray(FLOAT8_VALUES["e4m3x2"], np.float64)
    count = len(known)  # codes of positive numbers, or of all
    assert count >= 127
    assert np.array_equal(floats8.decode(CODES[:127]), known[:127])
    assert np.array_equal(floats8.decode(CODES[128:255]), -known[:127])
    assert np.isnan(floats8.decode([127, 255])).all()


def test_every_number_comes_back() -> None:
    assert np.array_equal(floats8.encode(floats8.decode(NUMBERS)), NUMBERS)


def test_encoding_takes_the_nearest_and_of_two_the_even_one() -> None:
    positive = floats8.decode(np.arange(127))
    middles = (positive[1:] + positive[:-1]) / 2
    lower = np.arange(126)
    assert np.array_equal(floats8.encode(middles), lower + lower % 2)
    assert np.array_equal(floats8.encode(np.nextafter(middles, 0)), lower)
    assert np.array_equal(floats8.encode(-np.nextafter(middles, np.inf)), lower + 1 + 128)


def test_what_is_too_large_ends_at_the_largest_and_nan_stays() -> None:
    assert np.array_equal(floats8.decode(floats8.encode([1e9, -np.inf])), [448, -448])
    assert np.isnan(floats8.decode(floats8.encode([np.nan]))).all()
    assert floats8.encode([-0.0]) == 128
