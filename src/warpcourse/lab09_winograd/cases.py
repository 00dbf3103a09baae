"""Cases that the grader files of the Winograd lab share: each stage on random inputs, against its float64 reference.

Tolerances follow from sums of magnitudes: transforms add and subtract numbers that are far larger than their results.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from warpcourse.cases import Case, run_case
from warpschool.grading.submission import Submission
from warpschool.nn import convolve, winograd
from warpschool.nn.references import windows
from warpschool.nn.winograd import Matrices, matrices

R = 3
"""Rows and columns of the lab's filters."""


def check_filters(kernel: Submission, rng: np.random.Generator, *, tile: int = 4, **sizes: int) -> Case:
    """U = G g G^T for filters [F,C,3,3]. Raises Judgement."""
    exact, case = matrices(tile, R), run_case(kernel, rng, sizes, {"TILE": tile})
    w = case.arrays["w"]
    expected, scale = (winograd.transform_filters(a, e) for a, e in _with_magnitudes(w, exact))
    return case.check({"U": expected}, k=2 * R, scale=scale)


def check_images(kernel: Submission, rng: np.random.Generator, *, tile: int = 4, **sizes: int) -> Case:
    """V = B^T d B for the tiles of images [BATCH,C,H,W] with PAD zeros on each side. Raises Judgement."""
    exact, case = matrices(tile, R), run_case(kernel, rng, sizes, {"TILE": tile})
    x, pad = case.arrays["x"], sizes["PAD"]
    expected, scale = (winograd.transform_images(a, e, pad=pad) for a, e in _with_magnitudes(x, exact))
    return case.check({"V": expected}, k=2 * exact.side, scale=scale)


def check_products(kernel: Submission, rng: np.random.Generator, **sizes: int) -> Case:
    """M[i] = U[i]^T V[i] for all positions i. Raises Judgement."""
    case = run_case(kernel, rng, sizes)
    U, V = (case.arrays[name].astype(np.float64) for name in "UV")
    return case.check({"M": winograd.multiply(U, V)}, k=sizes["C"], scale=winograd.multiply(np.abs(U), np.abs(V)))


def check_results(kernel: Submission, rng: np.random.Generator, *, tile: int = 4, **sizes: int) -> Case:
    """Y = A^T M A, cropped to [BATCH,F,OH,OW]. Raises Judgement."""
    exact, case = matrices(tile, R), run_case(kernel, rng, sizes, {"TILE": tile})
    expected, scale = _results(case.arrays["M"], exact, sizes, 0)
    return case.check({"y": expected}, k=2 * exact.side, scale=scale)


def check_epilogue(kernel: Submission, rng: np.random.Generator, *, tile: int = 4, pool: int = 2, **sizes: int) -> Case:
    """Y = A^T M A without its first CROP rows and columns, plus bias, at least 0, the largest of POOL x POOL."""
    exact, case = matrices(tile, R), run_case(kernel, rng, sizes, {"TILE": tile, "POOL": pool})
    bias = case.arrays["bias"].astype(np.float64)[:, None, None]
    results, scale = _results(case.arrays["M"], exact, sizes, sizes["CROP"])
    largest, scale = (windows(sums, pool).max(axis=-1) for sums in (results, scale))
    expected = np.maximum(largest + bias, 0)
    return case.check({"y": expected}, k=2 * exact.side + 1, scale=scale + np.abs(bias))


def check_first_layer(
    kernel: Submission, rng: np.random.Generator, *, tile: int = 4, channels: int = 3, **sizes: int
) -> Case:
    """A whole convolution with few channels, plus bias, at least 0; U is the float64 reference's. Raises Judgement."""
    exact = matrices(tile, R)
    w = rng.uniform(-1, 1, (sizes["F"], channels, R, R)).astype(np.float32)
    constants = {"TILE": tile, "CHANNELS": channels} if (tile, channels) != (4, 3) else {}
    U = winograd.transform_filters(w, exact).astype(np.float32)
    x = rng.uniform(-1, 1, (sizes["BATCH"], channels, sizes["H"], sizes["W"])).astype(np.float32)
    case = run_case(kernel, rng, sizes, constants, x=x, U=U)
    bias = case.arrays["bias"].astype(np.float64)[:, None, None]
    scale = winograd.magnitudes(x, w, exact, pad=sizes["PAD"]) + np.abs(bias)
    expected = np.maximum(convolve(x, w, pad=sizes["PAD"]) + bias, 0)
    return case.check({"y": expected}, k=channels + 4 * exact.side, scale=scale)


def check_fused(kernel: Submission, rng: np.random.Generator, *, tile: int = 2, **sizes: int) -> Case:
    """A whole convolution from images and filters. Raises Judgement."""
    exact, case = matrices(tile, R), run_case(kernel, rng, sizes)
    x, w, pad = case.arrays["x"], case.arrays["w"], sizes["PAD"]
    scale = winograd.magnitudes(x, w, exact, pad=pad)
    return case.check({"y": convolve(x, w, pad=pad)}, k=sizes["C"] + 4 * exact.side, scale=scale)


def _with_magnitudes(array: np.ndarray, exact: Matrices) -> tuple[tuple[np.ndarray, Matrices], ...]:
    return (array, exact), (np.abs(array), exact.absolute)


def _results(M: np.ndarray, exact: Matrices, sizes: Mapping[str, int], crop: int) -> tuple[np.ndarray, np.ndarray]:
    """Results and the sums of their terms' magnitudes, `crop` of them cut off at each side."""
    height, width = sizes["OH"], sizes["OW"]
    found = []
    for sums, used in _with_magnitudes(M.astype(np.float64), exact):
        whole = winograd.transform_results(
            sums, used, batch=sizes["BATCH"], height=height + 2 * crop, width=width + 2 * crop
        )
        found.append(whole[:, :, crop : crop + height, crop : crop + width])
    return found[0], found[1]
