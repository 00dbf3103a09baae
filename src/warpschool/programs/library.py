"""cuBLAS's routines on NumPy. Matrices lie by columns; sums are made in double precision and rounded once.

NVIDIA's own sums depend on its version and GPU to the last bits; these do not.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpschool.programs.arena import Arena, Piece

Values = npt.NDArray[np.floating]


class OutsideAllocation(Exception):
    """A routine would use memory that no allocation holds: `piece` is the nearest one."""

    def __init__(self, piece: Piece | None, offset: int, nbytes: int) -> None:
        super().__init__(nbytes)
        self.piece, self.offset, self.nbytes = piece, offset, nbytes


@dataclass(frozen=True)
class Done:
    """What a routine did: its result where it has one, multiply-adds, and bytes of its arrays."""

    result: float
    multiplies: int
    nbytes: int


class Routine:
    """One call: its fields in their order, and the memory that they name."""

    def __init__(self, arena: Arena, fields: bytes) -> None:
        self.arena, self.nbytes = arena, 0
        self._fields = [*struct.unpack(f"<{len(fields) // 8}q", fields)]
        self.dtype = np.dtype(np.float32 if self.whole() == 4 else np.float64)

    def whole(self) -> int:
        return int(self._fields.pop(0))

    def scalar(self) -> float:
        return float(struct.unpack("<d", struct.pack("<q", self.whole()))[0])

    def vector(self, n: int) -> Values:
        """Address and step; a negative step goes backwards from the end, as in BLAS."""
        address, step = self.whole(), self.whole()
        found = self._array(address, (n,), (abs(step),))
        return found if step >= 0 else found[::-1]

    def matrix(self, rows: int, columns: int, batch: int = 0) -> Values:
        """Address, leading dimension and, with `batch`, the step from one matrix to the next."""
        address, leading = self.whole(), self.whole()
        if leading < max(1, rows):
            raise ValueError("the leading dimension is smaller than the number of rows")
        if not batch:
            return self._array(address, (rows, columns), (1, leading))
        return self._array(address, (batch, rows, columns), (self.whole(), 1, leading))

    def integers(self, n: int) -> npt.NDArray[np.int32] | None:
        """Pivots, from 1 as Fortran counts, or what is wrong with a matrix; none where the address is 0."""
        address = self.whole()
        return self._array(address, (n,), (1,), np.dtype(np.int32)) if address else None

    def _array(
        self, address: int, shape: tuple[int, ...], steps: tuple[int, ...], dtype: np.dtype | None = None
    ) -> npt.NDArray[Any]:
        """Memory of the arena in elements. Raises OutsideAllocation."""
        dtype = dtype or self.dtype
        size = dtype.itemsize
        if 0 in shape:
            return np.zeros(shape, dtype)
        nbytes = (sum((n - 1) * step for n, step in zip(shape, steps, strict=True)) + 1) * size
        piece = self.arena.at(address)
        if piece is None or address + nbytes > piece.end:
            near = piece or self.arena.nearest(address)
            raise OutsideAllocation(near, address - near.start if near is not None else 0, nbytes)
        piece.fill(piece.start, piece.end)
        self.nbytes += nbytes
        offset = address - piece.allocation.address
        strides = tuple(step * size for step in steps)
        return np.ndarray(shape, dtype, piece.allocation.view(), offset, strides)


def _gemm(r: Routine) -> tuple[float, int]:
    by_a, by_b, m, n, k = (r.whole() for _ in range(5))
    alpha, count = r.scalar(), max(1, r._fields[-1])
    a = r.matrix(*((k, m) if by_a else (m, k)), batch=count)
    b = r.matrix(*((n, k) if by_b else (k, n)), batch=count)
    beta = r.scalar()
    c = r.matrix(m, n, batch=count)
    a, b = (x.swapaxes(1, 2) if turned else x for x, turned in ((a, by_a), (b, by_b)))
    product = alpha * (a.astype(np.float64) @ b.astype(np.float64))
    c[...] = product if beta == 0 else product + beta * c.astype(np.float64)
    return 0.0, count * m * n * k


def _geam(r: Routine) -> tuple[float, int]:
    by_a, by_b, m, n = (r.whole() for _ in range(4))
    alpha = r.scalar()
    a = r.matrix(*((n, m) if by_a else (m, n)))
    beta = r.scalar()
    b = r.matrix(*((n, m) if by_b else (m, n))) if beta else (r.whole(), r.whole(), np.zeros((m, n)))[2]
    c = r.matrix(m, n)
    c[...] = alpha * (a.T if by_a else a) + (beta * (b.T if by_b else b) if beta else 0)
    return 0.0, m * n


def _gemv(r: Routine) -> tuple[float, int]:
    turned, m, n = r.whole(), r.whole(), r.whole()
    alpha = r.scalar()
    a = r.matrix(m, n)
    x = r.vector(m if turned else n)
    beta = r.scalar()
    y = r.vector(n if turned else m)
    product = alpha * ((a.T if turned else a).astype(np.float64) @ x.astype(np.float64))
    y[...] = product if beta == 0 else product + beta * y.astype(np.float64)
    return 0.0, m * n


def _ger(r: Routine) -> tuple[float, int]:
    m, n, alpha = r.whole(), r.whole(), r.scalar()
    x, y = r.vector(m), r.vector(n)
    a = r.matrix(m, n)
    a += alpha * np.outer(x.astype(np.float64), y.astype(np.float64))
    return 0.0, m * n


def _getrf(r: Routine) -> tuple[float, int]:
    """LU in place, with the rows exchanged where pivots are wanted; tells which pivot is 0, from 1, or 0."""
    n = r.whole()
    a, pivots, info = r.matrix(n, n), r.integers(n), r.integers(1)
    lu, singular = a.astype(np.float64), 0
    for k in range(n):
        best = k + int(np.argmax(np.abs(lu[k:, k]))) if pivots is not None else k
        if pivots is not None:
            lu[[k, best]] = lu[[best, k]]
            pivots[k] = best + 1
        if lu[k, k] == 0:
            singular = singular or k + 1
            continue
        lu[k + 1 :, k] /= lu[k, k]
        lu[k + 1 :, k + 1 :] -= np.outer(lu[k + 1 :, k], lu[k, k + 1 :])
    a[...] = lu
    if info is not None:
        info[0] = singular
    return 0.0, n**3 // 3


def _rows(pivots: npt.NDArray[np.int32] | None, n: int) -> npt.NDArray[np.intp]:
    """Where each row of a factored matrix stood before."""
    rows = np.arange(n)
    for k, other in enumerate(pivots if pivots is not None else ()):
        rows[[k, other - 1]] = rows[[other - 1, k]]
    return rows


def _getrs(r: Routine) -> tuple[float, int]:
    turned, n, columns = r.whole(), r.whole(), r.whole()
    lu, pivots = r.matrix(n, n).astype(np.float64), r.integers(n)
    b = r.matrix(n, columns)
    lower, upper, rows = np.tril(lu, -1) + np.eye(n), np.triu(lu), _rows(pivots, n)
    if turned:
        found = np.empty((n, columns))
        found[rows] = np.linalg.solve(lower.T, np.linalg.solve(upper.T, b.astype(np.float64)))
    else:
        found = np.linalg.solve(upper, np.linalg.solve(lower, b[rows].astype(np.float64)))
    b[...] = found
    return 0.0, n * n * columns


def _getri(r: Routine) -> tuple[float, int]:
    n = r.whole()
    lu, pivots = r.matrix(n, n).astype(np.float64), r.integers(n)
    c, info = r.matrix(n, n), r.integers(1)
    zero = np.flatnonzero(np.diag(lu) == 0)
    if info is not None:
        info[0] = zero[0] + 1 if zero.size else 0
    if zero.size:
        return 0.0, 0
    inverse = np.linalg.solve(np.triu(lu), np.linalg.inv(np.tril(lu, -1) + np.eye(n)))
    c[:, _rows(pivots, n)] = inverse
    return 0.0, n**3


def _axpy(r: Routine) -> tuple[float, int]:
    n, alpha = r.whole(), r.scalar()
    x, y = r.vector(n), r.vector(n)
    y[...] = alpha * x.astype(np.float64) + y
    return 0.0, n


def _scal(r: Routine) -> tuple[float, int]:
    n, alpha = r.whole(), r.scalar()
    x = r.vector(n)
    x[...] = alpha * x.astype(np.float64)
    return 0.0, n


def _copy(r: Routine) -> tuple[float, int]:
    n = r.whole()
    x, y = r.vector(n), r.vector(n)
    y[...] = x
    return 0.0, 0


def _swap(r: Routine) -> tuple[float, int]:
    n = r.whole()
    x, y = r.vector(n), r.vector(n)
    x[...], y[...] = y.copy(), x.copy()
    return 0.0, 0


def _dot(r: Routine) -> tuple[float, int]:
    n = r.whole()
    x, y = r.vector(n), r.vector(n)
    return float(x.astype(np.float64) @ y.astype(np.float64)), n


def _nrm2(r: Routine) -> tuple[float, int]:
    n = r.whole()
    return float(np.linalg.norm(r.vector(n).astype(np.float64))), n


def _asum(r: Routine) -> tuple[float, int]:
    n = r.whole()
    return float(np.abs(r.vector(n).astype(np.float64)).sum()), n


def _amax(r: Routine) -> tuple[float, int]:
    n = r.whole()
    return float(np.argmax(np.abs(r.vector(n))) + 1 if n else 0), n  # counted from 1, as Fortran does


def _amin(r: Routine) -> tuple[float, int]:
    n = r.whole()
    return float(np.argmin(np.abs(r.vector(n))) + 1 if n else 0), n


_ROUTINES: dict[str, Callable[[Routine], tuple[float, int]]] = {
    "gemm": _gemm, "geam": _geam, "gemv": _gemv, "ger": _ger, "axpy": _axpy, "scal": _scal, "copy": _copy,
    "swap": _swap, "dot": _dot, "nrm2": _nrm2, "asum": _asum, "amax": _amax, "amin": _amin,
    "getrf": _getrf, "getrs": _getrs, "getri": _getri,
}  # fmt: skip


def run(name: str, fields: bytes, arena: Arena) -> tuple[str, Done]:
    """The routine's full name, "cublasSgemm", and what it did. Raises OutsideAllocation, ValueError."""
    routine = Routine(arena, fields)
    result, multiplies = _ROUTINES[name](routine)
    letter = "S" if routine.dtype.itemsize == 4 else "D"
    return f"cublas{letter}{name}", Done(result, multiplies, routine.nbytes)
