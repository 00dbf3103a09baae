"""The small language that the clock's machines are written in."""

from __future__ import annotations

import numpy as np
import pytest

from warpschool.clock.native import NativeError, _reached, bits, f32, f64, lshr, native, popc, u32

LIMIT = 5


@native
def _tripled(x: int) -> int:
    return x * 3 if x > 2 else popc(x)


@native
def _total(values: f64, words: u32, n: int) -> float:
    found = 0.0
    i = 0
    while True:
        if i >= n or values[i] < 0:
            break
        found += values[i] + _tripled(i)
        i += 1
    for k in range(0, n, 2):
        if k == LIMIT - 1:
            continue
        words[k] = words[k + 1] - 1
    return found


@native
def _shifts(x: int) -> int:
    return lshr(x, 60) + (x >> 60)


@native
def _nearest(x: float) -> float:
    return f32(bits(x))


@native
def _mixed(x: int) -> int:
    y = 1
    y = x * 0.5
    return y


@native
def _all_of_them(values: f64, words: u32) -> int:
    return _tripled(1) + _shifts(2) + _mixed(3) + _tripled(4) + int(_nearest(2.0)) + int(_total(values, words, 5))


def test_functions_are_reached_in_the_same_order_in_every_process() -> None:
    """The compile cache goes by their text: an order by hashes would differ, and nothing would ever be found there."""
    assert [name.lstrip("_") for name in _reached(_all_of_them)] == [
        "all_of_them", "shifts", "mixed", "nearest", "tripled", "total",
    ]  # fmt: skip


def test_a_loop_of_numbers_and_arrays() -> None:
    words = np.zeros(9, np.uint32)
    assert _total(np.arange(8.0), words, 8) == sum(range(8)) + 0 + 1 + 1 + 9 + 12 + 15 + 18 + 21
    assert words.tolist() == [2**32 - 1, 0, 2**32 - 1, 0, 0, 0, 2**32 - 1, 0, 0]


def test_it_ends_where_the_second_condition_says() -> None:
    values = np.array([1.0, 2.0, -1.0, 4.0])
    assert _total(values, np.zeros(5, np.uint32), 4) == 3.0 + 0 + 1


def test_shifts_with_zeros_and_with_the_sign() -> None:
    assert _shifts(-(1 << 60)) == 15 + -1


def test_numbers_are_rounded_to_binary32() -> None:
    assert _nearest(0.1) == float(np.float32(0.1))


def test_an_array_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="values"):
        _total(np.arange(8), np.zeros(9, np.uint32), 8)


def test_a_variable_keeps_its_type() -> None:
    with pytest.raises(NativeError, match="holds integers"):
        _mixed(1)
