"""A network's layers in float64 NumPy, whatever the arrays hold: what kernels are compared with.

Images are [BATCH,C,H,W], features [BATCH,FEATURES]. Windows are 2 x 2; a row or column that is left over belongs to
none.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def bias_relu(x: npt.ArrayLike, bias: npt.ArrayLike) -> np.ndarray:
    """Return max(x + bias, 0); the second axis of x is the bias's."""
    values = np.asarray(x, np.float64)
    shape = (-1, *(1,) * (values.ndim - 2))
    return np.maximum(values + np.asarray(bias, np.float64).reshape(shape), 0)


def windows(x: npt.ArrayLike) -> np.ndarray:
    """Return the four elements of each window along a new last axis: [BATCH,C,H / 2,W / 2,4]."""
    values = np.asarray(x)
    batch, channels, height, width = values.shape
    whole = values[:, :, : height // 2 * 2, : width // 2 * 2].reshape(batch, channels, height // 2, 2, width // 2, 2)
    return whole.transpose(0, 1, 2, 4, 3, 5).reshape(batch, channels, height // 2, width // 2, 4)


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
