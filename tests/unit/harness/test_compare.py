"""Tolerances, reports and patterns."""

from __future__ import annotations

import numpy as np
import pytest

from warpschool.errors import ArgumentError
from warpschool.harness.compare import Comparison, compare, is_poison, poison, tolerance_for

RNG = np.random.default_rng(7)


def matrix(rows: int = 64, columns: int = 48) -> np.ndarray:
    return np.random.default_rng(3).uniform(-1, 1, (rows, columns))


def test_right_results_pass():
    a, b = RNG.uniform(-1, 1, (33, 127)).astype(np.float32), RNG.uniform(-1, 1, (127, 31)).astype(np.float32)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    sums = np.zeros((33, 31), np.float32)
    for k in range(127):
        sums += a[:, k : k + 1] * b[k : k + 1]
    result = compare(sums, expected, tolerance=tolerance_for("float32", 127), name="C")
    assert result.ok
    assert bool(result)
    assert (result.wrong, result.worst) == (0, None)
    assert str(result) == "C: all 1023 elements are right"
    tight = tolerance_for("float32", 127, scale=np.abs(a).astype(float) @ np.abs(b))
    assert compare(sums, expected, tolerance=tight).ok


@pytest.mark.parametrize("k", [1, 16, 256, 4096])
def test_a_lost_product_does_not_pass(k):
    rng = np.random.default_rng(k)
    a, b = rng.uniform(0.5, 1, (8, k)), rng.uniform(0.5, 1, (k, 8))
    expected = a @ b
    wrong = (expected - a[:, :1] @ b[:1]).astype(np.float32)
    assert compare(wrong, expected, tolerance=tolerance_for("float32", k)).wrong == 64


def test_half_results_are_allowed_half_a_unit_of_half():
    expected = RNG.uniform(-1, 1, 1000)
    assert compare(expected.astype(np.float16), expected).ok
    assert not compare((expected * (1 + 2**-9)).astype(np.float16), expected).ok


def test_nan_never_passes():
    for value in (np.nan, np.inf, -np.inf):
        got = np.zeros(4, np.float32)
        got[2] = value
        result = compare(got, np.zeros(4))
        assert (result.ok, result.wrong, result.first[0].index) == (False, 1, (2,))
    assert compare(np.array([np.inf], np.float32), np.array([np.inf])).ok
    assert not compare(np.array([1.0], np.float32), np.array([np.inf])).ok


def test_integers_are_exact():
    assert compare(np.array([1, 2], np.int32), np.array([1, 2])).ok
    assert not compare(np.array([2**62 + 1]), np.array([2**62])).ok
    assert not compare(np.array([2**63 + 1], np.uint64), np.array([2**62], np.int64)).ok
    assert tolerance_for("int32").reason == "integers are compared exactly"


def test_reasons_name_what_they_rest_on():
    reason = tolerance_for("float16", 64, "float32").reason
    assert "k = 64" in reason
    assert "2^-24" in reason
    assert "float16" in reason
    assert "approximate" in tolerance_for("float32", extra_ulp=2).reason
    assert tolerance_for("float32", 8).accumulated == 9 * 2.0**-24
    assert tolerance_for("float32", 899).accumulated == 180 * 2.0**-24


def test_bad_arguments():
    with pytest.raises(ArgumentError, match=r"shape \[2\], its reference \[3\]"):
        compare(np.zeros(2), np.zeros(3))
    with pytest.raises(ArgumentError, match="holds NaN"):
        compare(np.zeros(2), np.array([1.0, np.nan]))
    with pytest.raises(ArgumentError, match="no tolerance is known"):
        tolerance_for(np.longdouble)
    with pytest.raises(ArgumentError, match="k = 0"):
        tolerance_for("float32", 0)


def test_the_report_shows_first_and_worst():
    expected = matrix()
    got = expected.astype(np.float32)
    got[5, 7] += 1
    got[63, 47] += 100
    got[10, :3] -= 0.5
    got[11, 0] -= 0.25
    text = str(compare(got, expected, name="C"))
    assert "C: 6 of 3072 elements are wrong" in text
    assert f"C[5, 7] expected {expected[5, 7]:.7g}, got {got[5, 7]:.7g}" in text
    assert "... and 1 more" in text
    assert "worst: C[63, 47]" in text
    assert "allowed error" in text


def test_poison():
    for name in ("float16", "float32", "float64", "int32", "uint8"):
        array = np.full(3, poison(np.dtype(name))[0])
        assert array.dtype == name
        assert is_poison(array).all()
        assert np.isnan(array).all() or array.dtype.kind in "iu"
    assert not is_poison(np.array([np.nan], np.float32)).any()


def change(edit) -> Comparison:
    expected = matrix()
    got = expected.astype(np.float32)
    changed = edit(got)
    return compare(got if changed is None else changed, expected)


def put(index, value):
    def edit(got):
        got[index] = value

    return edit


def scaled(index, factor):
    def edit(got):
        got[index] *= factor

    return edit


NEVER = "never written (still NaN, as before the launch)"
POISON = poison(np.dtype("float32"))[0]
EVERYWHERE = (slice(None), slice(None))


@pytest.mark.parametrize(
    ("edit", "pattern"),
    [
        (put(EVERYWHERE, POISON), f"{NEVER}: every element"),
        (put(np.s_[32:], POISON), f"{NEVER}: all rows from 32 on"),
        (put(np.s_[:, 33:], POISON), f"{NEVER}: all columns from 33 on"),
        (put(np.s_[:16], np.nan), "NaN: all rows before 16"),
        (put(np.s_[9], -np.inf), "infinite: row 9 only"),
        (put(np.s_[:, 47], 0), "zero: the last column 47"),
        (put(np.s_[9], 0), "zero: row 9 only"),
        (put(np.s_[4:8], 0), "zero: rows 4 to 7"),
        (put(np.s_[40:, [3, 19]], 0), "zero: all rows from 40 on in columns 3 and 19"),
        (put(np.s_[1::2], 0), "zero: every second row, from 1 on"),
        (put(np.s_[:, 2::3], 0), "zero: every 3rd column, from 2 on"),
        (put(np.s_[[r for r in range(64) if r % 4]], 0), "zero: all rows but every 4th, from 0 on"),
        (put(np.s_[16:32, 32:48], 0), "zero: rows 16 to 31 in all columns from 32 on"),
        (put(EVERYWHERE, 3.5), "the same value, 3.5, everywhere: every element"),
        (put((np.arange(48), np.arange(48)), 0), "zero: the diagonal"),
        (scaled(EVERYWHERE, 2), "off by a factor of 2: every element"),
        (scaled(np.s_[60:], -1), "off by a factor of -1: all rows from 60 on"),
        (lambda got: got * (1 + 1e-4 * np.resize([-1, 0, 1], got.shape)), "close to what is right: off by at most"),
        (lambda got: got.astype(np.float16).astype(np.float32), "close to what is right: off by"),
        (lambda got: got + np.float32(0.5), "off by +0.5: every element"),
        (lambda got: np.ascontiguousarray(got.T).reshape(got.shape), "transposed (element [row, column] holds"),
        (lambda got: np.roll(got, 1), "shifted by 1 element towards the end"),
        (lambda got: np.roll(got, -2), "shifted by 2 elements towards the start"),
        (lambda got: np.roll(got, 48), "shifted by one row towards the end"),
        (lambda got: got[::-1, ::-1], "in reverse order"),
    ],
)
def test_patterns(edit, pattern):
    result = change(edit)
    assert not result.ok
    assert result.pattern.startswith(pattern)


def test_tile_patterns():
    expected = matrix(64, 64)
    got = expected.astype(np.float32)
    tiles = got.reshape(4, 16, 4, 16)
    assert "swapped inside each 16 x 16 tile" in compare(tiles.swapaxes(1, 3).reshape(64, 64), expected).pattern
    got = expected.astype(np.float32)
    got[48:], got[:, 32:] = 0, 0
    assert compare(got, expected).pattern == "zero: all rows from 48 on and all columns from 32 on"
    got = expected.astype(np.float32)
    got.reshape(4, 16, 4, 16)[:, 15] = 0
    got.reshape(4, 16, 4, 16)[:, :, :, 15] = 0
    words = "zero: in each 16 x 16 tile: all rows from 15 on and all columns from 15 on"
    assert compare(got, expected).pattern == words
    got = expected.astype(np.float32)
    got.reshape(4, 16, 4, 16)[[0, 1, 3], :, [1, 2, 0], :] = 0
    assert compare(got, expected).pattern == "zero: 3 whole 16 x 16 tiles"


def test_one_dimension_and_batches():
    expected = np.arange(1000) + 0.5
    got = expected.astype(np.float32)
    got[992:] = POISON
    assert compare(got, expected).pattern == f"{NEVER}: all elements from 992 on"
    expected = RNG.uniform(1, 2, (3, 8, 9))
    got = expected.astype(np.float32)
    got[1] = 0
    assert compare(got, expected).pattern == "zero: matrix (axis 0) 1 only"
    got = expected.astype(np.float32)
    got[:, 4:, :] = 0
    assert compare(got, expected).pattern == "zero: all rows from 4 on"


def test_partly_written_says_so():
    expected = matrix()
    got = expected.astype(np.float32)
    got[40:] = POISON
    got[0, 0] = 9
    assert compare(got, expected).pattern == f"{NEVER} (others are wrong too): all rows from 40 on"


def test_any_set_of_wrong_elements_can_be_described():
    rng = np.random.default_rng(9)
    for _ in range(600):
        shape = tuple(rng.integers(1, 40, rng.integers(1, 4)))
        expected = rng.uniform(1, 2, shape)
        got = expected.astype(rng.choice(["float16", "float32", "float64"]))
        start = [rng.integers(0, length) for length in shape]
        stop = [rng.integers(begin, length) + 1 for begin, length in zip(start, shape, strict=True)]
        step = rng.integers(1, 5, len(shape))
        box = tuple(slice(*limits) for limits in zip(start, stop, step, strict=True))
        got[box] = rng.choice([0, np.nan, np.inf, -1, 7])
        result = compare(got, expected)
        assert not result.ok
        assert str(result)


def test_wrong_elements_outside_the_full_tiles():
    expected = matrix(33, 17)
    got = expected.astype(np.float32)
    got[32, 3:5] = 0
    assert compare(got, expected).pattern == "zero: the last row 32 in columns 3 to 4"
    got[32] = 0
    assert compare(got, expected).pattern == "zero: the last row 32"


def test_scattered_errors_have_no_pattern():
    expected = matrix()
    got = expected.astype(np.float32)
    got[[1, 5, 17, 40], [2, 30, 3, 11]] = RNG.uniform(5, 9, 4)
    assert compare(got, expected).pattern == ""


def test_scalars_and_tiny_arrays():
    assert compare(np.float32(1), np.float64(2)).wrong == 1
    assert compare(np.zeros((1, 1), np.float32), np.ones((1, 1))).pattern == "zero: every element"
