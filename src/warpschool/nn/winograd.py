"""Winograd's minimal filtering F(m x m, r x r): its matrices in exact arithmetic, and each of its stages in float64.

    exact = matrices(4, 3)              # F(4,3) from the points 0, 1, -1, 2, -2 and infinity
    exact.At, exact.G, exact.Bt         # rows of Fractions: y = At ((G g) * (Bt d)) for m results y of r weights g

    U = transform_filters(w, exact)             # [SIDE*SIDE, C, F]
    V = transform_images(x, exact, pad=1)       # [SIDE*SIDE, C, P], P = BATCH * TY * TX tiles
    y = transform_results(multiply(U, V), exact, batch=..., height=..., width=...)

A filter of r weights and a piece of d = m + r - 1 pixels are polynomials; m results of their correlation need no more
products than there are pixels, each of values at one point (A. Lavin and S. Gray, "Fast algorithms for convolutional
neural networks", 2016; S. Winograd, "Arithmetic complexity of computations", 1980; points: A. Toom and S. Cook).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from warpschool.errors import ArgumentError
from warpschool.nn.convolution import Convolution

Row = tuple[Fraction, ...]
Rows = tuple[Row, ...]
POINTS = (
    Fraction(0),
    *(Fraction(s * a, b) for a, b in ((1, 1), (2, 1), (1, 2), (4, 1), (1, 4), (3, 4), (4, 3)) for s in (1, -1)),
)
"""Finite points in the order in which they are taken: small numbers, and powers of two, cost least accuracy."""


@dataclass(frozen=True)
class Matrices:
    """F(m,r): `At` is m x side, `G` side x r, `Bt` side x side, with side = m + r - 1."""

    m: int
    r: int
    points: Row
    """the finite points; infinity is always the last one"""
    At: Rows
    G: Rows
    Bt: Rows

    @property
    def side(self) -> int:
        """Pixels, and products, of m results: m + r - 1."""
        return self.m + self.r - 1

    @property
    def positions(self) -> int:
        """Products of m x m results and one channel: side squared."""
        return self.side**2

    @property
    def direct_products(self) -> int:
        """Products that m x m results take without the method."""
        return (self.m * self.r) ** 2

    @cached_property
    def float64(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`At`, `G` and `Bt` as float64 arrays."""
        at, g, bt = (np.array(rows, dtype=np.float64) for rows in (self.At, self.G, self.Bt))
        return at, g, bt

    @cached_property
    def absolute(self) -> Matrices:
        """The same with magnitudes for numbers: of magnitudes they make the sums that rounding is measured against."""
        sizes = (tuple(tuple(map(abs, row)) for row in rows) for rows in (self.At, self.G, self.Bt))
        return Matrices(self.m, self.r, self.points, *sizes)

    def __str__(self) -> str:
        return f"F({self.m}x{self.m},{self.r}x{self.r})"


def matrices(m: int, r: int, points: Iterable[int | str | Fraction] | None = None) -> Matrices:
    """Return the matrices of F(m,r), exactly, from m + r - 2 different finite points and infinity.

    Column j of `At` and row j of `G` hold the powers of point j, row j of `Bt` the coefficients of the polynomial that
    is zero at all other points; `G` is divided by that polynomial's value at point j. Where a sign is free, the first
    and last rows of `Bt` begin with a positive number, as in the published F(2,3) and F(4,3). Raises ArgumentError.
    """
    if m < 1 or r < 1:
        raise ArgumentError(f"F({m},{r})", next_step="Both numbers, of results and of weights, are 1 or more.")
    finite = _points(m + r - 2, points)
    at = [[p**i for p in finite] + [Fraction(i == m - 1)] for i in range(m)]
    g = [[p**k for k in range(r)] for p in finite] + [[Fraction(k == r - 1) for k in range(r)]]
    bt = [_with_zeros_at(finite[:j] + finite[j + 1 :], m + r - 1) for j in range(len(finite))]
    bt.append(_with_zeros_at(finite, m + r - 1))
    for j, p in enumerate(finite):
        value = prod((p - other for other in finite if other != p), start=Fraction(1))
        g[j] = [weight / value for weight in g[j]]
    if finite and next(c for c in bt[0] if c) < 0:
        bt[0], g[0] = [-c for c in bt[0]], [-c for c in g[0]]
    if next(c for c in bt[-1] if c) < 0:
        bt[-1] = [-c for c in bt[-1]]
        at[-1][-1] = -at[-1][-1]
    return Matrices(m, r, finite, _frozen(at), _frozen(g), _frozen(bt))


def _points(count: int, given: Iterable[int | str | Fraction] | None) -> Row:
    """The finite points, checked."""
    finite = tuple(Fraction(p) for p in (POINTS[:count] if given is None else given))
    if given is None and count > len(POINTS):
        raise ArgumentError(
            f"{count} finite points are needed, {len(POINTS)} have a default",
            next_step=f"Pass points=[...]: {count} different numbers. Tiles so large lose all accuracy, though.",
        )
    if len(finite) != count or len(set(finite)) != count:
        raise ArgumentError(
            f"{len(set(finite))} different finite points, {count} are needed: m + r - 2",
            next_step="Infinity is always the last point and not named.",
        )
    return finite


def _with_zeros_at(zeros: Row, length: int) -> list[Fraction]:
    """Coefficients of the product of (x - zero), lowest power first, filled up with zeros."""
    coefficients = [Fraction(1)]
    for zero in zeros:
        shifted = [Fraction(0), *coefficients]
        coefficients = [a - zero * b for a, b in zip(shifted, [*coefficients, Fraction(0)], strict=True)]
    return coefficients + [Fraction(0)] * (length - len(coefficients))


def _frozen(rows: Sequence[Sequence[Fraction]]) -> Rows:
    return tuple(tuple(row) for row in rows)


# ---------------------------------------------------------------- the stages


def tiles(problem: Convolution, exact: Matrices, *, shift: int = 0) -> tuple[int, int]:
    """Return how many tiles an image has down and across; `shift`: results that the first tile begins outside of it.

    Raises ArgumentError for a stride, and for filters that are not r x r.
    """
    if problem.stride != 1 or (problem.rows, problem.cols) != (exact.r, exact.r):
        raise ArgumentError(
            f"{exact} cannot compute filters of {problem.rows} x {problem.cols} at stride {problem.stride}",
            next_step=f"Needed: filters of {exact.r} x {exact.r}, stride 1.",
        )
    return -(-(problem.out_height + 2 * shift) // exact.m), -(-(problem.out_width + 2 * shift) // exact.m)


def transform_filters(w: npt.ArrayLike, exact: Matrices, *, dtype: npt.DTypeLike = np.float64) -> np.ndarray:
    """Return U = G g G^T for filters [F,C,r,r], as [side * side, C, F], computed in `dtype`."""
    g = exact.float64[1].astype(dtype)
    filters = np.asarray(w, dtype)
    if filters.ndim != 4 or filters.shape[2:] != (exact.r, exact.r):
        needed = f"Needed: [F,C,{exact.r},{exact.r}]."
        raise ArgumentError(f"filters have shape {list(filters.shape)}", next_step=needed)
    transformed = g @ filters @ g.T
    return np.ascontiguousarray(transformed.transpose(2, 3, 1, 0)).reshape(exact.positions, *filters.shape[1::-1])


def transform_images(
    x: npt.ArrayLike, exact: Matrices, *, pad: int = 0, dtype: npt.DTypeLike = np.float64
) -> np.ndarray:
    """Return V = B^T d B for the tiles of images [BATCH,C,H,W], as [side * side, C, BATCH * TY * TX]."""
    images = np.asarray(x, dtype)
    if images.ndim != 4:
        raise ArgumentError(f"images have shape {list(images.shape)}", next_step="Needed: [BATCH,C,H,W].")
    bt = exact.float64[2].astype(dtype)
    batch, channels, height, width = images.shape
    down, across = (-(-(size + 2 * pad - exact.r + 1) // exact.m) for size in (height, width))
    room = [(pad, count * exact.m + exact.r - 1 - pad - size) for count, size in ((down, height), (across, width))]
    padded = np.pad(images, ((0, 0), (0, 0), (pad, max(0, room[0][1])), (pad, max(0, room[1][1]))))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (exact.side, exact.side), axis=(2, 3))
    pieces = windows[:, :, : down * exact.m : exact.m, : across * exact.m : exact.m]
    transformed = bt @ pieces @ bt.T
    stacked = transformed.transpose(4, 5, 1, 0, 2, 3)
    return np.ascontiguousarray(stacked).reshape(exact.positions, channels, batch * down * across)


def multiply(U: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Return M[i] = U[i]^T V[i], [side * side, F, P]: for each position a product of F x C by C x P."""
    return U.transpose(0, 2, 1) @ V


def transform_results(M: np.ndarray, exact: Matrices, *, batch: int, height: int, width: int) -> np.ndarray:
    """Return Y = A^T M A, tiles put together and cropped to [BATCH,F,height,width], in M's own precision."""
    at = exact.float64[0].astype(M.dtype)
    down, across = -(-height // exact.m), -(-width // exact.m)
    filters = M.shape[1]
    sums = M.reshape(exact.side, exact.side, filters, batch, down, across).transpose(3, 2, 4, 5, 0, 1)
    results = (at @ sums @ at.T).transpose(0, 1, 2, 4, 3, 5)
    whole = results.reshape(batch, filters, down * exact.m, across * exact.m)
    return np.ascontiguousarray(whole[:, :, :height, :width])


def convolve_in(
    x: npt.ArrayLike, w: npt.ArrayLike, exact: Matrices, *, pad: int = 0, dtype: npt.DTypeLike = np.float32
) -> np.ndarray:
    """Return the convolution by F(m,r), every stage computed and stored in `dtype`: shows what tiles cost in accuracy.

    Half precision multiplies in float32 and rounds each stage's results, as tensor cores do.
    """
    problem = Convolution.of(x, w, pad=pad)
    tiles(problem, exact)
    U, V = transform_filters(w, exact, dtype=dtype), transform_images(x, exact, pad=pad, dtype=dtype)
    wider = np.float32 if np.dtype(dtype) == np.float16 else dtype
    M = multiply(U.astype(wider), V.astype(wider)).astype(dtype)
    sizes = {"batch": problem.batch, "height": problem.out_height, "width": problem.out_width}
    return transform_results(M.astype(wider), exact, **sizes).astype(dtype)


def magnitudes(x: npt.ArrayLike, w: npt.ArrayLike, exact: Matrices, *, pad: int = 0) -> np.ndarray:
    """Return for each result the sum of the magnitudes of all terms: what rounding errors are measured against."""
    return convolve_in(np.abs(x), np.abs(w), exact.absolute, pad=pad, dtype=np.float64)
