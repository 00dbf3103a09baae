"""What a precision costs: matrix products as kernels of labs 05 to 07 round them, against float64.

Every product here is summed in order, one rounding for each multiply-add, as a thread's registers do it. Tensor cores
round their sums in another order and not always to nearest; they stay within the same bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpschool.errors import ArgumentError
from warpschool.harness.compare import tolerance_for

Matrix = npt.NDArray[np.float32] | npt.NDArray[np.float64]
MOST = 127
"""The largest 8-bit integer that is used: signs are treated alike."""


def rounded(values: npt.ArrayLike, bits: int, *, smallest_exponent: int = -126) -> npt.NDArray[np.float64]:
    """Round to numbers with `bits` significant bits, ties to even; below 2^smallest_exponent steps get no finer."""
    exact = np.asarray(values, np.float64)
    _, exponent = np.frexp(exact)
    step = np.ldexp(1.0, np.maximum(exponent, smallest_exponent + 1) - bits)
    return np.rint(exact / step) * step


def to_half(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The nearest halves; infinite from 65520 on."""
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float16).astype(np.float64)


def to_float(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The nearest floats."""
    return np.asarray(values).astype(np.float32).astype(np.float64)


def to_tf32(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The nearest TF32 numbers: a float's range, 11 significant bits."""
    return rounded(values, 11)


def to_bfloat16(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The nearest bfloat16 numbers: a float's range, 8 significant bits."""
    return rounded(values, 8)


Rounding = Callable[[npt.ArrayLike], npt.NDArray[np.float64]]


def product(
    a: Matrix, b: Matrix, *, stored: Rounding = to_float, summed: Rounding = to_float, promoted_every: int = 0
) -> npt.NDArray[np.float64]:
    """Return a @ b with rounded operands and a rounding after each multiply-add; shapes (M, K) and (K, N).

    With `promoted_every`, sums of so many products are then added up as floats.
    """
    left, right = stored(a), stored(b)
    total = np.zeros((len(left), right.shape[1]))
    part = total.copy()
    for k in range(left.shape[1]):
        part = summed(part + left[:, k : k + 1] * right[k])  # the product of two 24-bit numbers is exact in 53 bits
        if promoted_every and ((k + 1) % promoted_every == 0 or k + 1 == left.shape[1]):
            total = to_float(total + part)
            part = np.zeros_like(part)
    return total if promoted_every else part


# ---------------------------------------------------------------- 8-bit integers


@dataclass(frozen=True)
class Quantised:
    """x ~ scale * q: `scale` has an element for each row, or one for all; `saturated` is the share beyond the range."""

    q: npt.NDArray[np.int8]
    scale: npt.NDArray[np.float64]
    saturated: float

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """The numbers that the integers stand for."""
        return self.q * self.scale


def quantise(x: Matrix, *, per_row: bool = True, clip: float = np.inf) -> Quantised:
    """Return 8-bit integers for a matrix, as 03_quantize_int8 makes them; what lies beyond `clip` saturates."""
    magnitude = np.abs(np.asarray(x, np.float64))
    largest = magnitude.max(axis=1, keepdims=True) if per_row else magnitude.max(keepdims=True)
    limit = np.minimum(largest, clip)
    scale = limit / MOST
    steps = np.divide(x, scale, out=np.zeros(np.shape(x)), where=scale > 0)
    q = np.clip(np.rint(steps), -MOST, MOST).astype(np.int8)
    return Quantised(q, scale, float((magnitude > limit).mean()))


def int8_product(a: Matrix, b: Matrix, *, per_row: bool = True) -> npt.NDArray[np.float64]:
    """Return a @ b by exact integers: scales for each row of a and each column of b, or one for each matrix."""
    left, right = quantise(a, per_row=per_row), quantise(b.T, per_row=per_row)
    exact = left.q.astype(np.float64) @ right.q.T.astype(np.float64)  # below 2^53
    return exact * left.scale * right.scale.T


def calibrations(x: Matrix, *, candidates: int = 64) -> dict[str, float]:
    """Return limits for one scale that calibration would choose: rule -> clip.

    The largest magnitude; the one that 99.99 % or 99.9 % do not exceed; and, of `candidates` fractions of the largest,
    the one with the smallest mean squared error of the quantised values.
    """
    magnitude = np.abs(np.asarray(x, np.float64))
    largest = float(magnitude.max())
    if not largest > 0:
        raise ArgumentError("all values are zero: there is nothing to calibrate")
    tried = largest * np.arange(1, candidates + 1) / candidates
    errors = [float(((quantise(x, per_row=False, clip=clip).values - x) ** 2).mean()) for clip in tried]
    return {
        "largest": largest,
        "99.99 %": float(np.quantile(magnitude, 0.9999)),
        "99.9 %": float(np.quantile(magnitude, 0.999)),
        "smallest error": float(tried[int(np.argmin(errors))]),
    }


# ---------------------------------------------------------------- inputs


def inputs(kind: str, m: int, n: int, k: int, *, seed: int = 0) -> tuple[Matrix, Matrix]:
    """Return float32 matrices (m, k) and (k, n) for sums that are "well" or "ill" conditioned.

    "well": all terms are positive, nothing cancels. "ill": the second half of the terms takes away what the first half
    brought, but for a thousandth: the sum of magnitudes is a thousand times the sum, or more.
    """
    rng = np.random.default_rng([seed, k])
    if kind == "well":
        return rng.uniform(0, 1, (m, k)).astype(np.float32), rng.uniform(0, 1, (k, n)).astype(np.float32)
    if kind != "ill":
        raise ArgumentError(f"'{kind}' is no kind of input", next_step='There are "well" and "ill".')
    half = (k + 1) // 2
    a, b = rng.uniform(0.5, 1, (m, half)), rng.uniform(0.5, 1, (half, n))
    back = b * (1 + rng.uniform(-2e-3, 4e-3, b.shape))
    return np.hstack([a, a])[:, :k].astype(np.float32), np.vstack([b, -back])[:k].astype(np.float32)


# ---------------------------------------------------------------- errors


@dataclass(frozen=True)
class Precision:
    """How a product is computed; `bound` gives the tolerance's share of the terms' magnitudes for K, None: no bound."""

    name: str
    compute: Callable[[Matrix, Matrix], npt.NDArray[np.float64]]
    bound: Callable[[int], float] | None = None


def _bound(accumulator: str, stored_bits: int, promoted_every: int = 0) -> Callable[[int], float]:
    """What the tolerance allows, and twice the rounding of the operands."""

    def share(k: int) -> float:
        summed = tolerance_for("float32", k, accumulator, promoted_every=promoted_every).accumulated
        return summed + (2 * 2.0**-stored_bits if stored_bits < 24 else 0.0)

    return share


PRECISIONS: tuple[Precision, ...] = (
    Precision("float", product, _bound("float32", 24)),
    Precision("TF32, summed as float", lambda a, b: product(a, b, stored=to_tf32), _bound("float32", 11)),
    Precision("half, summed as float", lambda a, b: product(a, b, stored=to_half), _bound("float32", 11)),
    Precision("bfloat16, summed as float", lambda a, b: product(a, b, stored=to_bfloat16), _bound("float32", 8)),
    Precision(
        "half2, promoted every 16", lambda a, b: product(a, b, stored=to_half, summed=to_half, promoted_every=16),
        _bound("float16", 11, 16),
    ),
    Precision(
        "half, summed as half", lambda a, b: product(a, b, stored=to_half, summed=to_half), _bound("float16", 11)
    ),
    Precision("int8, a scale for each row", int8_product),
    Precision("int8, one scale", lambda a, b: int8_product(a, b, per_row=False)),
)  # fmt: skip


@dataclass(frozen=True)
class Errors:
    """Errors of one precision over K, relative to the root mean square of the exact elements.

    `mse` is the mean squared error relative to the mean square; `allowed` is the bound of `worst`, None without one.
    """

    name: str
    ks: tuple[int, ...]
    mse: tuple[float, ...]
    worst: tuple[float, ...]
    allowed: tuple[float, ...] | None


def errors(
    kind: str, ks: Sequence[int] = (16, 64, 256, 1024, 4096), *, m: int = 16, n: int = 16, seed: int = 0,
    precisions: Sequence[Precision] = PRECISIONS,
) -> tuple[Errors, ...]:  # fmt: skip
    """Compute m x n sums of each length in each precision; `kind` as in `inputs`."""
    cases = [_Case.of(kind, m, n, k, seed) for k in ks]
    return tuple(_errors(precision, cases) for precision in precisions)


@dataclass(frozen=True)
class _Case:
    a: Matrix
    b: Matrix
    exact: npt.NDArray[np.float64]
    magnitude: float
    """largest sum of the terms' magnitudes, relative to the root mean square of the sums"""

    @classmethod
    def of(cls, kind: str, m: int, n: int, k: int, seed: int) -> _Case:
        a, b = inputs(kind, m, n, k, seed=seed)
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        exact = wide_a @ wide_b
        return cls(a, b, exact, float((abs(wide_a) @ abs(wide_b)).max() / _rms(exact)))


def _errors(precision: Precision, cases: Sequence[_Case]) -> Errors:
    mse, worst, allowed = [], [], []
    for case in cases:
        with np.errstate(over="ignore", invalid="ignore"):
            difference = (precision.compute(case.a, case.b) - case.exact) / _rms(case.exact)
        mse.append(float((difference**2).mean()))
        worst.append(float(abs(difference).max()))
        if precision.bound is not None:
            allowed.append(precision.bound(case.a.shape[1]) * case.magnitude)
    ks = tuple(case.a.shape[1] for case in cases)
    return Errors(precision.name, ks, tuple(mse), tuple(worst), tuple(allowed) or None)


def _rms(values: npt.NDArray[np.float64]) -> float:
    return float(np.sqrt((values**2).mean()))


def mean_squared_error(actual: npt.ArrayLike, exact: npt.ArrayLike) -> float:
    """Mean squared error, relative to the mean square of the exact values."""
    reference = np.asarray(exact, np.float64)
    return float(((np.asarray(actual, np.float64) - reference) ** 2).mean() / (reference**2).mean())


