"""The small language that the clock's machines are written in."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from warpschool.clock.native import NativeError, bits, f32, f64, lshr, native, popc, u32

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


def test_the_cache_knows_what_another_process_has_compiled():
    """The text of a machine's functions is the key of its machine code: it does not hang on how names are hashed."""
    ask = (
        "import hashlib; from warpschool.clock import interpreter, native;"
        "print(hashlib.sha256(native._ir_of(interpreter.run_block).encode()).hexdigest())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", ask], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1
