"""The way back through Winograd's stages, in float64: gradients by the transposes of the transforms.

    z = unpool(dy, choice, height=14, width=14, pool=2)        # gradients before ReLU and pooling
    dM = transform_gradients(z, exact)                          # A z A^T, [side * side, F, P]
    dx = gradient_of_images(U @ dM, exact, batch=2, height=14, width=14)
    dw = gradient_of_filters(V @ dM.transpose(0, 2, 1), exact)

U [side * side, C, F] and V [side * side, C, P] are those of the forward pass (`warpschool.nn.winograd`): forward, every
stage is linear, so no transform is computed a second time. Source: the same factors as forward, transposed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpschool.nn.winograd import Matrices


def choose(z: npt.ArrayLike, pool: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest of each pool x pool results, at least 0, and which it was: 1, 2, ..., or 0 where none passed.

    z [BATCH,F,H,W]; both results are [BATCH,F,H/pool,W/pool]. What is left over at an edge belongs to no window.
    """
    values = np.asarray(z)
    batch, filters, height, width = values.shape
    rows, cols = height // pool, width // pool
    whole = values[:, :, : rows * pool, : cols * pool].reshape(batch, filters, rows, pool, cols, pool)
    windows = whole.transpose(0, 1, 2, 4, 3, 5).reshape(batch, filters, rows, cols, pool * pool)
    kept = np.maximum(windows.max(axis=-1), 0)
    return kept, np.where(kept > 0, windows.argmax(axis=-1) + 1, 0).astype(np.uint8)


def unpool(dy: npt.ArrayLike, choice: npt.ArrayLike, *, height: int, width: int, pool: int) -> np.ndarray:
    """Return the gradient [BATCH,F,height,width] of what `choose` was given, from those of its results."""
    slopes, chosen = np.asarray(dy, np.float64), np.asarray(choice)
    z = np.zeros((*slopes.shape[:2], height, width))
    rows, cols = height // pool * pool, width // pool * pool
    for k in range(pool * pool):
        z[:, :, k // pool : rows : pool, k % pool : cols : pool] = np.where(chosen == k + 1, slopes, 0.0)
    return z


def transform_gradients(z: npt.ArrayLike, exact: Matrices) -> np.ndarray:
    """Return dM = A z A^T for the tiles of the results' gradients [BATCH,F,H,W], as [side * side, F, P]."""
    at = exact.float64[0]
    slopes = np.asarray(z, np.float64)
    batch, filters, height, width = slopes.shape
    down, across = -(-height // exact.m), -(-width // exact.m)
    room = ((0, 0), (0, 0), (0, down * exact.m - height), (0, across * exact.m - width))
    pieces = np.pad(slopes, room).reshape(batch, filters, down, exact.m, across, exact.m).transpose(0, 1, 2, 4, 3, 5)
    stacked = (at.T @ pieces @ at).transpose(4, 5, 1, 0, 2, 3)
    return np.ascontiguousarray(stacked).reshape(exact.positions, filters, batch * down * across)


def gradient_of_images(
    dV: np.ndarray, exact: Matrices, *, batch: int, height: int, width: int, pad: int = 1
) -> np.ndarray:
    """Return dx [BATCH,C,height,width]: the sum of all tiles B dV B^T, each in its place."""
    bt = exact.float64[2]
    down, across = (-(-(size + 2 * pad - exact.r + 1) // exact.m) for size in (height, width))
    tiles = dV.reshape(exact.side, exact.side, dV.shape[1], batch, down, across).transpose(3, 2, 4, 5, 0, 1)
    pixels = bt.T @ tiles @ bt
    room = exact.side - exact.m
    dx = np.zeros((batch, dV.shape[1], down * exact.m + room, across * exact.m + room))
    for i in range(exact.side):
        for j in range(exact.side):
            dx[:, :, i : i + down * exact.m : exact.m, j : j + across * exact.m : exact.m] += pixels[..., i, j]
    return dx[:, :, pad : pad + height, pad : pad + width]


def gradient_of_filters(dU: np.ndarray, exact: Matrices) -> np.ndarray:
    """Return dw = G^T dU G, [F,C,r,r], for dU [side * side, C, F]."""
    g = exact.float64[1]
    tiles = dU.reshape(exact.side, exact.side, *dU.shape[1:]).transpose(3, 2, 0, 1)
    return g.T @ tiles @ g
