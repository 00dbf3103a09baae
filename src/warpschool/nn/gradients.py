"""Training in float64: the loss, the gradients of every layer, and the optimizers, as the definitions say.

    loss, dx = cross_entropy(scores, labels)              # one loss for each image; dx: slope of their mean
    dw, db, dx = fc_backward(x, w, dy, relu=True)
    y, bits = bias_relu_pool(z, bias, average=False)      # bits say which of a window's results pass the slope on
    dz = pool_relu_backward(dy, bits, z.shape, average=False)
    dx = conv_backward_data(dy, w, problem)
    dw, db = conv_backward_filter(x, dy, problem)

The kernels of lab 11 are compared with these; `finite_difference` checks these in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from warpschool.nn.convolution import Convolution

PLACES = ((0, 0), (0, 1), (1, 0), (1, 1))
"""Rows and columns of a window's results, in the order of their bits."""


def cross_entropy(scores: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return each image's loss, -log of its label's probability, and the slope of the mean loss in all scores."""
    x, label = np.asarray(scores, np.float64), np.asarray(labels)
    shifted = x - x.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    sums = exponentials.sum(axis=1, keepdims=True)
    rows = np.arange(len(x))
    slope = exponentials / sums
    slope[rows, label] -= 1
    return np.log(sums[:, 0]) - shifted[rows, label], slope / len(x)


def fc_backward(
    x: npt.ArrayLike, w: npt.ArrayLike, dy: npt.ArrayLike, *, relu: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return dw [IN,OUT], db [OUT] and dx [BATCH,IN] of y = x w + bias.

    x [BATCH,IN], w [IN,OUT], dy [BATCH,OUT]; `relu`: x is what a ReLU left, so dx is zero where x is.
    """
    inputs, weights, slopes = (np.asarray(a, np.float64) for a in (x, w, dy))
    dx = slopes @ weights.T
    return inputs.T @ slopes, slopes.sum(axis=0), np.where(inputs > 0, dx, 0.0) if relu else dx


# ---------------------------------------------------------------- pooling


def bias_relu_pool(z: npt.ArrayLike, bias: npt.ArrayLike, *, average: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return pooled results [BATCH,C,H/2,W/2] and bits [BATCH,C,cdiv(H,2),cdiv(W,2)]: which results pass the slope on.

    Windows are 2 x 2; bit 2 i + j is result (i, j). Bits of windows that the edge cuts are 0.
    """
    values = np.asarray(z, np.float64) + np.asarray(bias, np.float64)[:, None, None]
    batch, channels, height, width = values.shape
    whole = values[:, :, : height // 2 * 2, : width // 2 * 2]
    windows = np.stack([whole[:, :, i::2, j::2] for i, j in PLACES])
    positive = np.maximum(windows, 0.0)
    passes = windows > 0
    if not average:
        passes &= np.arange(4)[:, None, None, None, None] == windows.argmax(axis=0)
    bits = np.zeros((batch, channels, -(-height // 2), -(-width // 2)), np.uint8)
    bits[:, :, : height // 2, : width // 2] = sum(passes[p].astype(np.uint8) << p for p in range(4))
    return positive.mean(axis=0) if average else positive.max(axis=0), bits


def pool_relu_backward(dy: npt.ArrayLike, bits: np.ndarray, shape: Sequence[int], *, average: bool) -> np.ndarray:
    """Return the slope [BATCH,C,H,W] of what `bias_relu_pool` was given; `shape` is its shape."""
    slope = np.asarray(dy, np.float64) * (0.25 if average else 1.0)
    height, width = shape[2] // 2, shape[3] // 2
    dz = np.zeros(tuple(shape))
    for place, (i, j) in enumerate(PLACES):
        passes = bits[:, :, :height, :width] >> place & 1
        dz[:, :, i : 2 * height : 2, j : 2 * width : 2] = slope * passes
    return dz


def saved_words(bits: np.ndarray, *, packed: bool) -> np.ndarray:
    """Return the bits as kernels keep them: a byte for each window, or, packed, four words for every 32 windows."""
    flat = np.asarray(bits, np.uint8).reshape(-1)
    if not packed:
        return np.pad(flat, (0, -flat.size % 4)).view(np.uint32)
    groups = np.pad(flat, (0, -flat.size % 32)).reshape(-1, 1, 32)
    places = groups >> np.arange(4, dtype=np.uint8)[None, :, None] & 1
    return np.packbits(places, axis=2, bitorder="little").view(np.uint32).reshape(-1)


# ---------------------------------------------------------------- convolution


def conv_backward_data(dy: npt.ArrayLike, w: npt.ArrayLike, problem: Convolution) -> np.ndarray:
    """Return the slope [BATCH,C,H,W] of a convolution's images from that of its results [BATCH,F,OH,OW]."""
    slopes, filters = np.asarray(dy, np.float64), np.asarray(w, np.float64)
    pad = problem.pad
    padded = np.zeros((problem.batch, problem.channels, problem.height + 2 * pad, problem.width + 2 * pad))
    flat = slopes.reshape(problem.batch, problem.filters, -1)
    for r, s in np.ndindex(problem.rows, problem.cols):
        share = (filters[:, :, r, s].T @ flat).reshape(problem.batch, problem.channels, *slopes.shape[2:])
        padded[_met(problem, r, s)] += share
    return padded[:, :, pad : pad + problem.height, pad : pad + problem.width]


def _met(problem: Convolution, r: int, s: int) -> tuple[slice, ...]:
    """The pixels of padded images that element (r, s) of a filter meets, window by window."""
    rows = slice(r, r + problem.stride * problem.out_height, problem.stride)
    cols = slice(s, s + problem.stride * problem.out_width, problem.stride)
    return slice(None), slice(None), rows, cols


def conv_backward_filter(x: npt.ArrayLike, dy: npt.ArrayLike, problem: Convolution) -> tuple[np.ndarray, np.ndarray]:
    """Return the slopes of a convolution's filters [F,C,R,S] and of a bias added to its results [F]."""
    pad = problem.pad
    padded = np.pad(np.asarray(x, np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    slopes = np.asarray(dy, np.float64)
    dw = np.zeros(problem.filter_shape)
    for r, s in np.ndindex(problem.rows, problem.cols):
        dw[:, :, r, s] = np.einsum("nfij,ncij->fc", slopes, padded[_met(problem, r, s)], optimize=True)
    return dw, slopes.sum(axis=(0, 2, 3))


# ---------------------------------------------------------------- optimizers


def sgd_momentum(
    w: npt.ArrayLike, g: npt.ArrayLike, v: npt.ArrayLike, *, rate: float, momentum: float = 0.9, decay: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the new weights and velocities: v = momentum v + (g + decay w), w = w - rate v."""
    weights, slopes, speeds = (np.asarray(a, np.float64) for a in (w, g, v))
    speeds = momentum * speeds + slopes + decay * weights
    return weights - rate * speeds, speeds


def adam(
    w: npt.ArrayLike, g: npt.ArrayLike, m: npt.ArrayLike, v: npt.ArrayLike, *, step: int, rate: float,
    beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Return the new weights and both running means (Kingma, Ba 2015, algorithm 1); `step` counts from 1."""
    weights, slopes, means, squares = (np.asarray(a, np.float64) for a in (w, g, m, v))
    means = beta1 * means + (1 - beta1) * slopes
    squares = beta2 * squares + (1 - beta2) * slopes**2
    corrected = squares / (1 - beta2**step)
    return weights - rate * means / (1 - beta1**step) / (np.sqrt(corrected) + epsilon), means, squares


def finite_difference(
    loss: Callable[[np.ndarray], float], at: npt.ArrayLike, direction: npt.ArrayLike, *, step: float = 1e-6
) -> float:
    """Return the slope of `loss` at a point along a direction, by two values of the loss on both sides of it."""
    point, along = np.asarray(at, np.float64), np.asarray(direction, np.float64)
    return (loss(point + step * along) - loss(point - step * along)) / (2 * step)
