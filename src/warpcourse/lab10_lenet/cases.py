"""Cases that the grader files of the networks' labs share: a layer on random inputs, against its float64 references.

Each returns what `kernel.counters` and its like take: sizes and arrays. All raise Judgement.
"""

from __future__ import annotations

import numpy as np

from warpcourse.cases import Given, product_of, scale_of
from warpschool.grading.submission import Submission
from warpschool.nn import Convolution, convolve, references

NHWC = (0, 2, 3, 1)
NCHW = (0, 3, 1, 2)


def check_relu(kernel: Submission, rng: np.random.Generator, batch: int, channels: int, places: int) -> Given:
    """y = max(x + bias, 0)."""
    sizes = {"BATCH": batch, "C": channels, "P": places}
    arrays = kernel.inputs(sizes, rng)
    scale = np.abs(arrays["x"]) + np.abs(arrays["bias"])[:, None]
    expected = references.bias_relu(arrays["x"], arrays["bias"])
    kernel.check_against(kernel.run(sizes, arrays), {"y": expected}, k=2, scale=scale)
    return sizes, arrays


def check_mean_pool(kernel: Submission, rng: np.random.Generator, shape: tuple[int, int, int, int]) -> Given:
    """The mean of windows of 2 x 2; where the kernel takes a bias, after bias and ReLU."""
    sizes = dict(zip(("BATCH", "C", "H", "W"), shape, strict=True))
    arrays = kernel.inputs(sizes, rng)
    x = references.bias_relu(arrays["x"], arrays["bias"]) if "bias" in arrays else arrays["x"]
    kernel.check_against(kernel.run(sizes, arrays), {"y": references.mean_pool(x)}, k=5, scale=1.0)
    return sizes, arrays


def check_max_pool(
    kernel: Submission, rng: np.random.Generator, shape: tuple[int, int, int, int], *, levels: int = 0
) -> Given:
    """The largest of windows of 2 x 2 and its number. `levels`: so many different values, for windows with equals."""
    sizes = dict(zip(("BATCH", "C", "H", "W"), shape, strict=True))
    arrays = kernel.inputs(sizes, rng)
    if levels:
        arrays["x"] = rng.integers(-levels, 1, shape).astype(np.float32)
    largest, which = references.max_pool(arrays["x"])
    kernel.check_against(kernel.run(sizes, arrays), {"y": largest, "index": which})
    return sizes, arrays


def check_fully_connected(
    kernel: Submission, rng: np.random.Generator, batch: int, inputs: int, outputs: int, *, relu: bool = False
) -> Given:
    """y = x w + bias, and ReLU where it is asked for."""
    sizes = {"BATCH": batch, "IN": inputs, "OUT": outputs, "RELU": int(relu)}
    arrays = kernel.inputs(sizes, rng)
    expected = references.fully_connected(arrays["x"], arrays["w"], arrays["bias"], relu=relu)
    scale = product_of(arrays["x"], arrays["w"])[1] + np.abs(arrays["bias"])
    kernel.check_against(kernel.run(sizes, arrays), {"y": expected}, k=inputs + 1, scale=scale)
    return sizes, arrays


def check_stage(kernel: Submission, rng: np.random.Generator, problem: Convolution) -> Given:
    """Convolution, bias, ReLU and the mean of 2 x 2, NCHW in float32."""
    sizes = {name: size for name, size in problem.sizes.items() if name != "STRIDE"}
    arrays = kernel.inputs(sizes, rng)
    results = convolve(arrays["x"], arrays["w"], pad=problem.pad)
    expected = references.mean_pool(references.bias_relu(results, arrays["bias"]))
    scale = scale_of(arrays["x"], arrays["w"]) + np.abs(arrays["bias"])[:, None, None]
    kernel.check_against(kernel.run(sizes, arrays), {"y": expected}, k=problem.terms + 5, scale=scale)
    return sizes, arrays


def check_half_stage(
    kernel: Submission, rng: np.random.Generator, problem: Convolution, *, pool: bool = True, relu: bool = True
) -> Given:
    """The same for half precision in NHWC, summed in float32 and rounded once; one channel may go without its axis."""
    own = {parameter.name for parameter in kernel.contract.parameters()}
    sizes = {name: size for name, size in problem.sizes.items() if name in own}
    settings = {} if pool and relu else {"POOL": 1 + pool, "RELU": int(relu)}
    arrays = kernel.inputs(sizes, rng, constants=settings)
    x, w = (_as_nchw(arrays[name]) for name in ("x", "w"))
    bias = arrays["bias"].astype(np.float64)[:, None, None]
    results = convolve(x, w, pad=problem.pad) + bias
    sums = convolve(np.abs(x), np.abs(w), pad=problem.pad) + np.abs(bias)
    expected = np.maximum(results, 0) if relu else results
    if pool:
        expected, sums = references.mean_pool(expected), references.mean_pool(sums)
    run = kernel.run(sizes, arrays, constants=settings)
    kernel.check_against(run, {"y": expected.transpose(NHWC)}, k=problem.terms, scale=sums.transpose(NHWC))
    return sizes, arrays


def _as_nchw(array: np.ndarray) -> np.ndarray:
    return (array if array.ndim == 4 else array[..., None]).transpose(NCHW)
