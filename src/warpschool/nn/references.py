"""A layer's answers in float64 NumPy, whatever the arrays hold: what kernels are compared with.

    problem = Convolution(batch=2, channels=3, height=28, width=28, filters=8, rows=5, cols=5, pad=2)
    problem = Convolution.of(x, w, stride=2, pad=1)        # from arrays; shapes that do not fit are refused
    y = convolve(x, w, stride=2, pad=1)
    y, bits = bias_relu_pool(z, bias, average=False)       # bits say which of a window's results pass the slope on
    loss, dx = cross_entropy(scores, labels)               # one loss for each image; dx: slope of their mean
    dw, db, dx = fc_backward(x, w, dy, relu=True)

Images are [BATCH,C,H,W], filters [F,C,R,S], results [BATCH,F,OH,OW], features [BATCH,FEATURES]. Like every library for
neural networks this one does not flip the filters: y[n,f,i,j] is the sum over c, r, s of
x[n,c,i*STRIDE+r-PAD,j*STRIDE+s-PAD] * w[f,c,r,s], where x counts as zero outside the image. Pooling leaves out a row or
column that fills no window. `finite_difference` checks the gradients in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpschool.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """The sizes of one convolution. Raises ArgumentError for sizes below 1 and for filters larger than the image."""

    batch: int
    channels: int
    height: int
    width: int
    filters: int
    rows: int
    """R, of a filter"""
    cols: int
    """S, of a filter"""
    stride: int = 1
    pad: int = 0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < (name != "pad"):
                raise ArgumentError(
                    f"a convolution with {name} = {value}", next_step="Sizes are 1 or more, pad 0 or more."
                )
        if self.height + 2 * self.pad < self.rows or self.width + 2 * self.pad < self.cols:
            raise ArgumentError(
                f"filters {list(self.filter_shape)} are larger than images {list(self.image_shape)} with {self.pad} "
                "zeros on each side",
                next_step="Needed: H + 2*PAD >= R and W + 2*PAD >= S.",
            )

    @staticmethod
    def of(x: npt.ArrayLike, w: npt.ArrayLike, *, stride: int = 1, pad: int = 0) -> Convolution:
        """Return the problem that images and filters pose; anything with a shape serves.

        Raises ArgumentError, with both shapes, where they do not fit.
        """
        images, filters = tuple(np.shape(x)), tuple(np.shape(w))
        told = f"images have shape {list(images)}, filters {list(filters)}"
        if len(images) != 4 or len(filters) != 4:
            raise ArgumentError(told, next_step="Needed: images [BATCH,C,H,W] and filters [F,C,R,S].")
        if images[1] != filters[1]:
            raise ArgumentError(
                f"{told}: {images[1]} and {filters[1]} channels",
                next_step="The second numbers of both, the channels, must be equal.",
            )
        return Convolution(
            batch=images[0], channels=images[1], height=images[2], width=images[3], filters=filters[0],
            rows=filters[2], cols=filters[3], stride=stride, pad=pad,
        )  # fmt: skip

    # ---------------------------------------------------------------- shapes

    @property
    def out_height(self) -> int:
        """OH."""
        return (self.height + 2 * self.pad - self.rows) // self.stride + 1

    @property
    def out_width(self) -> int:
        """OW."""
        return (self.width + 2 * self.pad - self.cols) // self.stride + 1

    @property
    def image_shape(self) -> tuple[int, int, int, int]:
        return self.batch, self.channels, self.height, self.width

    @property
    def filter_shape(self) -> tuple[int, int, int, int]:
        return self.filters, self.channels, self.rows, self.cols

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
        return self.batch, self.filters, self.out_height, self.out_width

    @property
    def sizes(self) -> dict[str, int]:
        """The same numbers under the names that kernel headers use (without OH and OW, which headers derive)."""
        return {
            "BATCH": self.batch, "C": self.channels, "H": self.height, "W": self.width, "F": self.filters,
            "R": self.rows, "S": self.cols, "STRIDE": self.stride, "PAD": self.pad,
        }  # fmt: skip

    # ---------------------------------------------------------------- amounts

    @property
    def terms(self) -> int:
        """Products that are added up for one result: C R S."""
        return self.channels * self.rows * self.cols

    @property
    def products(self) -> int:
        """Multiply-adds of the direct method, those with padding included."""
        return self.batch * self.filters * self.out_height * self.out_width * self.terms

    @property
    def flop(self) -> int:
        """Operations of the direct method: a multiply-add counts as two."""
        return 2 * self.products

    def arrays(self, rng: np.random.Generator, dtype: npt.DTypeLike = np.float32) -> tuple[np.ndarray, np.ndarray]:
        """Return random images and filters: floats uniform in [-1, 1), integers in [-8, 8)."""
        kind = np.dtype(dtype).kind
        shapes: Sequence[tuple[int, ...]] = (self.image_shape, self.filter_shape)
        x, w = (rng.uniform(-1, 1, s) if kind == "f" else rng.integers(-8, 8, s) for s in shapes)
        return x.astype(dtype), w.astype(dtype)


def convolve(x: npt.ArrayLike, w: npt.ArrayLike, *, stride: int = 1, pad: int = 0) -> np.ndarray:
    """Return the direct convolution of images and filters, accumulated in float64.

    Raises ArgumentError, with both shapes, where they do not fit.
    """
    problem = Convolution.of(x, w, stride=stride, pad=pad)
    filters, padded = np.asarray(w, np.float64), _padded(x, pad)
    y = np.zeros((problem.batch, problem.filters, problem.out_height * problem.out_width))
    for r, s in np.ndindex(problem.rows, problem.cols):
        y += filters[:, :, r, s] @ padded[_met(problem, r, s)].reshape(problem.batch, problem.channels, -1)
    return y.reshape(problem.output_shape)


def _padded(x: npt.ArrayLike, pad: int) -> np.ndarray:
    return np.pad(np.asarray(x, np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))


def _met(problem: Convolution, r: int, s: int) -> tuple[slice, ...]:
    """The pixels of padded images that element (r, s) of a filter meets, window by window."""
    rows = slice(r, r + problem.stride * problem.out_height, problem.stride)
    cols = slice(s, s + problem.stride * problem.out_width, problem.stride)
    return slice(None), slice(None), rows, cols


def im2col(x: npt.ArrayLike, problem: Convolution) -> np.ndarray:
    """Return the unrolled images [BATCH, C*R*S, OH*OW]: row (c, r, s), column (i, j) is x[c, i*STRIDE+r-PAD, ...]."""
    pad, stride = problem.pad, problem.stride
    padded = np.pad(np.asarray(x), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (problem.rows, problem.cols), axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]  # [BATCH, C, OH, OW, R, S]
    columns: Sequence[int] = (problem.batch, problem.terms, problem.out_height * problem.out_width)
    return np.ascontiguousarray(windows.transpose(0, 1, 4, 5, 2, 3)).reshape(columns)


def pooling_order(y: np.ndarray) -> np.ndarray:
    """Return [BATCH,F,OH,OW] with every window of 2 x 2 as a column of four: [BATCH,F,2*OH,OW/2]."""
    batch, filters, rows, cols = y.shape
    return np.ascontiguousarray(windows(y).transpose(0, 1, 2, 4, 3)).reshape(batch, filters, 2 * rows, cols // 2)


# ---------------------------------------------------------------- layers


def bias_relu(x: npt.ArrayLike, bias: npt.ArrayLike) -> np.ndarray:
    """Return max(x + bias, 0); the second axis of x is the bias's."""
    values = np.asarray(x, np.float64)
    shape = (-1, *(1,) * (values.ndim - 2))
    return np.maximum(values + np.asarray(bias, np.float64).reshape(shape), 0)


def windows(x: npt.ArrayLike, pool: int = 2) -> np.ndarray:
    """Return the elements of each window along a new last axis: [BATCH,C,H / pool,W / pool,pool * pool]."""
    values = np.asarray(x)
    batch, channels, height, width = values.shape
    rows, cols = height // pool, width // pool
    whole = values[:, :, : rows * pool, : cols * pool].reshape(batch, channels, rows, pool, cols, pool)
    return whole.transpose(0, 1, 2, 4, 3, 5).reshape(batch, channels, rows, cols, pool * pool)


def mean_pool(x: npt.ArrayLike) -> np.ndarray:
    """Return the mean of each window."""
    return windows(np.asarray(x, np.float64)).mean(axis=-1)


def max_pool(x: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest of each window, and its number 2 * row + column as a byte: the first of equals."""
    parts = windows(x)
    return parts.max(axis=-1), parts.argmax(axis=-1).astype(np.uint8)


def fully_connected(x: npt.ArrayLike, w: npt.ArrayLike, bias: npt.ArrayLike, *, relu: bool = False) -> np.ndarray:
    """Return x w + bias, with `relu` at least 0."""
    y = np.asarray(x, np.float64) @ np.asarray(w, np.float64) + np.asarray(bias, np.float64)
    return np.maximum(y, 0) if relu else y


def softmax(x: npt.ArrayLike) -> np.ndarray:
    """Return exp(x) over its sum along the last axis."""
    scores = np.asarray(x, np.float64)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


# ---------------------------------------------------------------- gradients


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


# ---------------------------------------------------------------- pooling, and its gradients


def bias_relu_pool(z: npt.ArrayLike, bias: npt.ArrayLike, *, average: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return pooled results [BATCH,C,H/2,W/2] and bits [BATCH,C,cdiv(H,2),cdiv(W,2)]: which results pass the slope on.

    Windows are 2 x 2; bit 2 i + j is result (i, j). Bits of windows that the edge cuts are 0.
    """
    values = np.asarray(z, np.float64) + np.asarray(bias, np.float64)[:, None, None]
    batch, channels, height, width = values.shape
    found = windows(values)
    passes = found > 0
    if not average:
        passes &= np.arange(4) == found.argmax(axis=-1)[..., None]
    bits = np.zeros((batch, channels, -(-height // 2), -(-width // 2)), np.uint8)
    bits[:, :, : height // 2, : width // 2] = (passes << np.arange(4)).sum(axis=-1)
    positive = np.maximum(found, 0.0)
    return positive.mean(axis=-1) if average else positive.max(axis=-1), bits


def pool_relu_backward(dy: npt.ArrayLike, bits: np.ndarray, shape: Sequence[int], *, average: bool) -> np.ndarray:
    """Return the slope [BATCH,C,H,W] of what `bias_relu_pool` was given; `shape` is its shape."""
    slope = np.asarray(dy, np.float64) * (0.25 if average else 1.0)
    height, width = shape[2] // 2, shape[3] // 2
    dz = np.zeros(tuple(shape))
    for place, (i, j) in enumerate(np.ndindex(2, 2)):
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


def choose(z: npt.ArrayLike, pool: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest of each pool x pool results, at least 0, and which it was: 1, 2, ..., or 0 where none passed.

    z [BATCH,F,H,W]; both results are [BATCH,F,H/pool,W/pool]. What is left over at an edge belongs to no window.
    """
    found = windows(z, pool)
    kept = np.maximum(found.max(axis=-1), 0)
    return kept, np.where(kept > 0, found.argmax(axis=-1) + 1, 0).astype(np.uint8)


def unpool(dy: npt.ArrayLike, choice: npt.ArrayLike, *, height: int, width: int, pool: int) -> np.ndarray:
    """Return the gradient [BATCH,F,height,width] of what `choose` was given, from those of its results."""
    slopes, chosen = np.asarray(dy, np.float64), np.asarray(choice)
    z = np.zeros((*slopes.shape[:2], height, width))
    rows, cols = height // pool * pool, width // pool * pool
    for k in range(pool * pool):
        z[:, :, k // pool : rows : pool, k % pool : cols : pool] = np.where(chosen == k + 1, slopes, 0.0)
    return z


# ---------------------------------------------------------------- gradients of convolutions


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


def conv_backward_filter(x: npt.ArrayLike, dy: npt.ArrayLike, problem: Convolution) -> tuple[np.ndarray, np.ndarray]:
    """Return the slopes of a convolution's filters [F,C,R,S] and of a bias added to its results [F]."""
    padded, slopes = _padded(x, problem.pad), np.asarray(dy, np.float64)
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
