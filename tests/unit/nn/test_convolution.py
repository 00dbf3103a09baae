"""The convolution problem: its sizes, its refusals, and its float64 reference."""

from __future__ import annotations

import numpy as np
import pytest

from warpschool.errors import ArgumentError
from warpschool.nn import Convolution, convolve

CASES = [
    {"batch": 1, "channels": 1, "height": 1, "width": 1, "filters": 1, "rows": 1, "cols": 1},
    {"batch": 2, "channels": 3, "height": 7, "width": 9, "filters": 4, "rows": 3, "cols": 3, "pad": 1},
    {"batch": 1, "channels": 2, "height": 8, "width": 5, "filters": 3, "rows": 2, "cols": 4, "stride": 2},
    {"batch": 2, "channels": 1, "height": 11, "width": 11, "filters": 2, "rows": 11, "cols": 11, "stride": 4, "pad": 2},
    {"batch": 1, "channels": 2, "height": 5, "width": 6, "filters": 1, "rows": 1, "cols": 5, "stride": 3, "pad": 4},
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, c.values())))


def by_loops(x: np.ndarray, w: np.ndarray, problem: Convolution) -> np.ndarray:
    """The sum as the definition writes it, element by element."""
    y = np.zeros(problem.output_shape)
    for n, f, i, j in np.ndindex(*problem.output_shape):
        for c, r, s in np.ndindex(*problem.filter_shape[1:]):
            row, col = i * problem.stride + r - problem.pad, j * problem.stride + s - problem.pad
            if 0 <= row < problem.height and 0 <= col < problem.width:
                y[n, f, i, j] += float(x[n, c, row, col]) * float(w[f, c, r, s])
    return y


@each_case
def test_reference_is_the_definition(case):
    problem = Convolution(**case)
    x, w = problem.arrays(np.random.default_rng(1))
    y = convolve(x, w, stride=problem.stride, pad=problem.pad)
    assert y.dtype == np.float64 and y.shape == problem.output_shape
    np.testing.assert_allclose(y, by_loops(x, w, problem), rtol=1e-12, atol=1e-12)
    assert Convolution.of(x, w, stride=problem.stride, pad=problem.pad) == problem


@each_case
def test_reference_agrees_with_pytorch(case):
    torch = pytest.importorskip("torch")
    problem = Convolution(**case)
    x, w = problem.arrays(np.random.default_rng(2), np.float64)
    theirs = torch.nn.functional.conv2d(
        torch.from_numpy(x), torch.from_numpy(w), stride=problem.stride, padding=problem.pad
    )
    ours = convolve(x, w, stride=problem.stride, pad=problem.pad)
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-12, atol=1e-12)


def test_sizes_and_amounts():
    problem = Convolution(batch=2, channels=3, height=28, width=20, filters=8, rows=5, cols=3, stride=2, pad=1)
    assert (problem.out_height, problem.out_width) == (13, 10)
    assert problem.sizes == {
        "BATCH": 2, "C": 3, "H": 28, "W": 20, "F": 8, "R": 5, "S": 3, "STRIDE": 2, "PAD": 1,
    }  # fmt: skip
    assert problem.terms == 45 and problem.products == 2 * 8 * 13 * 10 * 45 and problem.flop == 2 * problem.products
    x, w = problem.arrays(np.random.default_rng(0), np.int8)
    assert x.dtype == w.dtype == np.int8 and min(x.min(), w.min()) >= -8 and max(x.max(), w.max()) < 8


@pytest.mark.parametrize(
    ("x", "w", "said"),
    [
        ((2, 3, 8, 8), (4, 5, 3, 3), ["[2, 3, 8, 8]", "[4, 5, 3, 3]", "3 and 5 channels"]),
        ((3, 8, 8), (4, 3, 3, 3), ["[3, 8, 8]", "[4, 3, 3, 3]", "BATCH,C,H,W"]),
        ((1, 1, 2, 9), (1, 1, 3, 3), ["[1, 1, 2, 9]", "[1, 1, 3, 3]", "H + 2*PAD >= R"]),
        ((0, 1, 9, 9), (1, 1, 3, 3), ["batch = 0"]),
    ],
)
def test_wrong_shapes_are_refused_with_both_shapes(x, w, said):
    with pytest.raises(ArgumentError) as caught:
        convolve(np.zeros(x), np.zeros(w))
    assert all(text in str(caught.value) for text in said), str(caught.value)


@pytest.mark.parametrize("change", [{"stride": 0}, {"pad": -1}, {"filters": 0}])
def test_impossible_sizes_are_refused(change):
    with pytest.raises(ArgumentError, match="1 or more"):
        Convolution(**{**CASES[1], **change})
