"""Winograd's minimal filtering F(m x m, r x r): exact matrices, each stage in float64, its way back, and CUDA source.

    exact = matrices(4, 3)              # F(4,3) from the points 0, 1, -1, 2, -2 and infinity
    exact.amplification                 # 31: rounding errors, as a multiple of the definition's
    exact.At, exact.G, exact.Bt         # rows of Fractions: y = At ((G g) * (Bt d)) for m results y of r weights g

    U = transform_filters(w, exact)             # [SIDE*SIDE, C, F]
    V = transform_images(x, exact, pad=1)       # [SIDE*SIDE, C, P], P = BATCH * TY * TX tiles
    y = transform_results(multiply(U, V), exact, batch=..., height=..., width=...)

    dM = transform_gradients(z, exact)          # A z A^T, [SIDE*SIDE, F, P]; U and V are those of the forward pass
    dx = gradient_of_images(U @ dM, exact, batch=2, height=14, width=14)
    dw = gradient_of_filters(V @ dM.transpose(0, 2, 1), exact)

    filters, images, results = (parse_contract(text, name=name) for name, text in sources(exact).items())

A filter of r weights and a piece of d = m + r - 1 pixels are polynomials; m results of their correlation need no more
products than there are pixels, each of values at one point (A. Lavin and S. Gray, "Fast algorithms for convolutional
neural networks", 2016; S. Winograd, "Arithmetic complexity of computations", 1980; points: A. Toom and S. Cook). Every
stage is linear, so that the way back takes the transposes of its factors and computes no transform a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from importlib import resources
from math import prod

import numpy as np
import numpy.typing as npt

from warpschool.errors import ArgumentError
from warpschool.nn.references import Convolution

Row = tuple[Fraction, ...]
Rows = tuple[Row, ...]
POINTS = (
    Fraction(0),
    *(Fraction(s * a, b) for a, b in ((1, 1), (2, 1), (1, 2), (4, 1), (1, 4), (3, 4), (4, 3)) for s in (1, -1)),
)
"""Finite points in the order in which they are taken: small numbers, and powers of two, cost least accuracy."""
NEARER = {
    (5, 3): tuple(Fraction(s * a, b) for a, b in ((1, 3), (7, 8), (5, 3)) for s in (1, -1)),
    (7, 3): tuple(Fraction(s * a, b) for a, b in ((1, 4), (3, 4), (9, 8), (2, 1)) for s in (1, -1)),
}
"""(m, r) -> finite points found by a search among fractions of small numbers. `amplification` is 18 and 135; with the
first of POINTS it would be 43 and 1,200."""


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
    def amplification(self) -> float:
        """How much larger a result's rounding errors are than those of the definition, about: those of the product.

        A product's error grows with the numbers that it multiplies, which are as large as the rows of `G` and `Bt`,
        and goes into the results by `At`; independent errors add by their squares. Both axes do the same, and the
        definition has r * r terms.
        """
        at, g, bt = (np.square(matrix) for matrix in self.float64)
        return float((at @ (g.sum(axis=1) * bt.sum(axis=1))).max() / self.r)

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
    finite = _points(m + r - 2, NEARER.get((m, r)) if points is None else points)
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


def tiles(problem: Convolution, exact: Matrices) -> tuple[int, int]:
    """Return how many tiles an image has down and across.

    Raises ArgumentError for a stride, and for filters that are not r x r.
    """
    if problem.stride != 1 or (problem.rows, problem.cols) != (exact.r, exact.r):
        raise ArgumentError(
            f"{exact} cannot compute filters of {problem.rows} x {problem.cols} at stride {problem.stride}",
            next_step=f"Needed: filters of {exact.r} x {exact.r}, stride 1.",
        )
    return -(-problem.out_height // exact.m), -(-problem.out_width // exact.m)


def kernel_sizes(problem: Convolution, exact: Matrices) -> dict[str, dict[str, int]]:
    """Return the scalars of the four kernels, "filters", "images", "product" and "results".

    Raises ArgumentError as `tiles` does.
    """
    down, across = tiles(problem, exact)
    batch, channels = {"BATCH": problem.batch}, {"C": problem.channels}
    return {
        "filters": {"F": problem.filters} | channels,
        "images": batch | channels | {"H": problem.height, "W": problem.width, "PAD": problem.pad},
        "product": {"POSITIONS": exact.positions} | channels
        | {"F": problem.filters, "P": problem.batch * down * across},
        "results": batch | {"F": problem.filters, "OH": problem.out_height, "OW": problem.out_width},
    }  # fmt: skip


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
    height, width = images.shape[2:]
    down, across = (-(-(size + 2 * pad - exact.r + 1) // exact.m) for size in (height, width))
    room = [(pad, count * exact.m + exact.r - 1 - pad - size) for count, size in ((down, height), (across, width))]
    padded = np.pad(images, ((0, 0), (0, 0), (pad, max(0, room[0][1])), (pad, max(0, room[1][1]))))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (exact.side, exact.side), axis=(2, 3))
    pieces = windows[:, :, : down * exact.m : exact.m, : across * exact.m : exact.m]
    return _stacked(bt @ pieces @ bt.T)


def _stacked(tiles: np.ndarray) -> np.ndarray:
    """[BATCH,C,TY,TX,side,side] -> [side * side, C, BATCH * TY * TX]."""
    batch, channels, down, across, *sides = tiles.shape
    stacked = np.ascontiguousarray(tiles.transpose(4, 5, 1, 0, 2, 3))
    return stacked.reshape(prod(sides), channels, batch * down * across)


def _apart(stacked: np.ndarray, exact: Matrices, batch: int, down: int, across: int) -> np.ndarray:
    """The way back."""
    tiles = stacked.reshape(exact.side, exact.side, stacked.shape[1], batch, down, across)
    return tiles.transpose(3, 2, 4, 5, 0, 1)


def multiply(U: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Return M[i] = U[i]^T V[i], [side * side, F, P]: for each position a product of F x C by C x P."""
    return U.transpose(0, 2, 1) @ V


def transform_results(M: np.ndarray, exact: Matrices, *, batch: int, height: int, width: int) -> np.ndarray:
    """Return Y = A^T M A, tiles put together and cropped to [BATCH,F,height,width], in M's own precision."""
    at = exact.float64[0].astype(M.dtype)
    down, across = -(-height // exact.m), -(-width // exact.m)
    results = (at @ _apart(M, exact, batch, down, across) @ at.T).transpose(0, 1, 2, 4, 3, 5)
    whole = results.reshape(batch, -1, down * exact.m, across * exact.m)
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


# ---------------------------------------------------------------- the way back


def transform_gradients(z: npt.ArrayLike, exact: Matrices) -> np.ndarray:
    """Return dM = A z A^T for the tiles of the results' gradients [BATCH,F,H,W], as [side * side, F, P]."""
    at = exact.float64[0]
    slopes = np.asarray(z, np.float64)
    batch, filters, height, width = slopes.shape
    down, across = -(-height // exact.m), -(-width // exact.m)
    room = ((0, 0), (0, 0), (0, down * exact.m - height), (0, across * exact.m - width))
    pieces = np.pad(slopes, room).reshape(batch, filters, down, exact.m, across, exact.m).transpose(0, 1, 2, 4, 3, 5)
    return _stacked(at.T @ pieces @ at)


def gradient_of_images(
    dV: np.ndarray, exact: Matrices, *, batch: int, height: int, width: int, pad: int = 1
) -> np.ndarray:
    """Return dx [BATCH,C,height,width]: the sum of all tiles B dV B^T, each in its place."""
    bt = exact.float64[2]
    down, across = (-(-(size + 2 * pad - exact.r + 1) // exact.m) for size in (height, width))
    pixels = bt.T @ _apart(dV, exact, batch, down, across) @ bt
    room = exact.side - exact.m
    dx = np.zeros((batch, dV.shape[1], down * exact.m + room, across * exact.m + room))
    for i, j in np.ndindex(exact.side, exact.side):
        dx[:, :, i : i + down * exact.m : exact.m, j : j + across * exact.m : exact.m] += pixels[..., i, j]
    return dx[:, :, pad : pad + height, pad : pad + width]


def gradient_of_filters(dU: np.ndarray, exact: Matrices) -> np.ndarray:
    """Return dw = G^T dU G, [F,C,r,r], for dU [side * side, C, F]."""
    g = exact.float64[1]
    tiles = dU.reshape(exact.side, exact.side, *dU.shape[1:]).transpose(3, 2, 0, 1)
    return g.T @ tiles @ g


# ---------------------------------------------------------------- CUDA source


def sources(exact: Matrices) -> dict[str, str]:
    """Return {file name: kernel file} of the three transforms: filters, images, results, in this order."""
    transforms = {
        "filter_transform.cu": (exact.G, exact.r),
        "input_transform.cu": (exact.Bt, exact.side),
        "output_transform.cu": (exact.At, exact.side),
    }
    return {name: _filled(name, exact, rows, length) for name, (rows, length) in transforms.items()}


def pooled_results(exact: Matrices) -> str:
    """Return the kernel file of the results' transform with bias, ReLU and the mean of each 2 x 2.

    Raises ArgumentError where a tile does not hold whole windows.
    """
    if exact.m % 2:
        raise ArgumentError(f"{exact}: a tile of {exact.m} x {exact.m} does not hold whole windows of 2 x 2")
    return _filled("pooled_results.cu", exact, exact.At, exact.side)


def transform_lines(rows: Rows, *, to: str = "to", of: str = "of") -> list[str]:
    """Return statements that set to[i] to row i times the vector `of`."""
    lines: list[str] = []
    for i, twin in _twins(rows):
        if twin is None:
            lines.append(f"{to}[{i}] = {_chain(rows[i], of)};")
            continue
        same, other = _split(rows[i], rows[twin])
        lines += [
            f"const float same{i} = {_chain(same, of)};",
            f"const float other{i} = {_chain(other, of)};",
            f"{to}[{i}] = same{i} + other{i};",
            f"{to}[{twin}] = same{i} - other{i};",
        ]
    return lines


def paired_lines(rows: Rows, *, to: str = "to", of: str = "of") -> list[str]:
    """The same for a matrix whose columns come in pairs: sums and differences of two numbers serve all rows."""
    columns = list(zip(*rows, strict=True))
    terms: list[tuple[str, Row]] = []
    lines: list[str] = []
    for j, twin in _twins(columns):
        if twin is None:
            terms.append((f"{of}[{j}]", columns[j]))
            continue
        same, other = _split(columns[j], columns[twin])
        lines += [f"const float sum{j} = {of}[{j}] + {of}[{twin}];", f"const float less{j} = {of}[{j}] - {of}[{twin}];"]
        terms += [(f"sum{j}", same), (f"less{j}", other)]
    sums = (_sum((column[i], name) for name, column in terms) for i in range(len(rows)))
    return lines + [f"{to}[{i}] = {text};" for i, text in enumerate(sums)]


def _twins(rows: Sequence[Row]) -> Iterator[tuple[int, int | None]]:
    """Each row's number, but for those that are a twin's, and that of its twin, None where it has none."""
    left = list(range(len(rows)))
    while left:
        i = left.pop(0)
        twin = next((k for k in left if _is_twin(rows[i], rows[k])), None)
        if twin is not None:
            left.remove(twin)
        yield i, twin


def _is_twin(row: Sequence[Fraction], other: Sequence[Fraction]) -> bool:
    """Equal magnitudes, and both equal and opposite signs."""
    pairs = [(a, b) for a, b in zip(row, other, strict=True) if a or b]
    return all(abs(a) == abs(b) for a, b in pairs) and len({a == b for a, b in pairs}) == 2


def _split(row: Sequence[Fraction], other: Sequence[Fraction]) -> tuple[Row, Row]:
    """What two rows have in common, and what has opposite signs in them."""
    zero = Fraction(0)
    same = tuple(a if a == b else zero for a, b in zip(row, other, strict=True))
    return same, tuple(a if a != b else zero for a, b in zip(row, other, strict=True))


def _chain(row: Sequence[Fraction], of: str) -> str:
    return _sum((factor, f"{of}[{k}]") for k, factor in enumerate(row))


def _sum(terms: Iterable[tuple[Fraction, str]]) -> str:
    """A sum of products, the last term innermost; factors of 1 and -1 cost no multiplication."""
    text = ""
    for factor, name in sorted((t for t in terms if t[0]), key=lambda term: abs(term[0]) != 1):
        if not text:
            text = name if factor == 1 else f"-{name}" if factor == -1 else f"{_number(factor)} * {name}"
        elif factor == 1:
            text = f"{text} + {name}"
        elif factor == -1:
            text = f"{text} - {name}"
        else:
            text = f"fmaf({_number(factor)}, {name}, {text})"
    return text or "0.0f"


def _number(value: Fraction) -> str:
    """A float literal: exact, as a quotient where no decimal is."""
    if value.denominator & (value.denominator - 1):
        return f"({value.numerator}.0f / {value.denominator}.0f)"
    return f"{float(value)!r}f"


def _filled(name: str, exact: Matrices, rows: Rows, length: int) -> str:
    """The kernel file `kernels/name` with what the matrices say put in."""
    folder = resources.files("warpschool.nn") / "kernels"
    write = paired_lines if rows is exact.At else transform_lines
    shared = {part: (folder / f"{part.lower()}.cuh").read_text("utf-8").rstrip("\n") for part in ("COMMON", "COLUMNS")}
    values = shared | {
        "NAME": str(exact), "TILE": str(exact.m), "FILTER": str(exact.r), "LENGTH": str(length),
        "COUNT": str(len(rows)), "BODY": "\n    ".join(write(rows)),
    }  # fmt: skip
    text = (folder / name).read_text("utf-8")
    for word, value in values.items():
        text = text.replace(f"@{word}@", value)
    return text
