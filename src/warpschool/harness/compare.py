"""Is a result right? The tolerance that rounding allows, and a report of what differs.

References accumulate in float64. An element is right when `err <= tolerance`, so NaN is never right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpschool.errors import ArgumentError
from warpschool.harness.inputs import describe
from warpschool.harness.mismatch import WrongMap, wrong_map

_SHOWN = 5
_UNIT_ROUNDOFF = {"float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}
_CONFIDENCE = 6.0


@dataclass(frozen=True)
class Tolerance:
    """How far each element may be off: `accumulated * scale + rounded * |expected| + smallest`.

    `scale` is the sum of the magnitudes of the terms that were added up, per element or for all; None stands for the
    largest |expected|. `reason` says in words where the bound comes from.
    """

    accumulated: float
    rounded: float
    smallest: float
    reason: str
    scale: npt.NDArray[np.float64] | float | None = field(default=None, repr=False)

    def bound(self, expected: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the allowed error of each element."""
        magnitude = np.abs(expected)
        finite = magnitude[np.isfinite(magnitude)]
        scale = self.scale if self.scale is not None else float(finite.max(initial=0.0))
        return np.broadcast_to(self.accumulated * np.abs(scale) + self.smallest, expected.shape) + np.where(
            np.isfinite(magnitude), self.rounded * magnitude, 0.0
        )


def tolerance_for(
    dtype: npt.DTypeLike, k: int = 1, accumulator: npt.DTypeLike = "float32", *,
    scale: npt.ArrayLike | None = None, extra_ulp: float = 0.0, promoted_every: int = 0,
) -> Tolerance:  # fmt: skip
    """Return the tolerance for sums of `k` products held in `accumulator` and stored as `dtype`.

    An error of n roundings of relative size u is at most n u times the sum of the terms' magnitudes, and with
    probability beyond 1 - 1e-7 at most 6 sqrt(n) u times it (Higham and Mary, "A new approach to probabilistic
    rounding error analysis", 2019, theorem 2.4); the smaller of the two is used. Storing adds half a unit in the last
    place of `dtype`; `extra_ulp` adds units of it, for functions that are approximate by definition. Integer results
    are exact. `scale`: see Tolerance. With `promoted_every` no more than so many products are summed in `accumulator`
    before their sum is added to one in float32. Below the smallest normal number a rounding is half a subnormal step.
    """
    stored, held = np.dtype(dtype), np.dtype(accumulator)
    if stored.kind in "iub":
        return Tolerance(0.0, 0.0, 0.0, "integers are compared exactly")
    for kind in (stored, held):
        if kind.name not in _UNIT_ROUNDOFF:
            known = ", ".join(_UNIT_ROUNDOFF)
            raise ArgumentError(f"no tolerance is known for {kind.name}", next_step=f"Known: {known}.")
    if k < 1:
        raise ArgumentError(f"k = {k}: a sum has one product or more")
    chunk = min(k, promoted_every) if promoted_every else k
    accumulated, reason = _summed(chunk, held, "their sum")
    if chunk < k:
        chunks = -(-k // chunk)
        promoted, more = _summed(chunks, np.dtype("float32"), "the sum of these")
        accumulated += promoted
        reason += f", promoted there to float32: {more.replace('products', 'such sums')}"
    rounded = _UNIT_ROUNDOFF[stored.name] * (1 + 2 * extra_ulp)
    what = "the sum of the terms' magnitudes" if scale is not None else "the largest expected magnitude"
    reason += f", of {what}; stored as {stored.name}"
    if extra_ulp:
        reason += f", {extra_ulp:g} units in the last place for approximate functions"
    own_scale = None if scale is None else np.asarray(scale, np.float64)
    smallest = float(np.finfo(stored).smallest_subnormal + k * np.finfo(held).smallest_subnormal / 2)
    return Tolerance(accumulated, rounded, smallest, reason, own_scale)


def _summed(k: int, held: np.dtype, total: str) -> tuple[float, str]:
    """The relative error of a sum of `k` products, and where it comes from in words."""
    roundings = k + 1
    growth = min(float(roundings), _CONFIDENCE * math.sqrt(roundings))
    unit = _UNIT_ROUNDOFF[held.name]
    bound = "n" if growth == roundings else "6 sqrt(n)"
    reason = (
        f"n = {roundings} roundings in {held.name} (k = {k} products and {total}), bounded by {bound} = {growth:.4g} "
        f"times 2^{int(math.log2(unit))}"
    )
    return growth * unit, reason


@dataclass(frozen=True)
class Mismatch:
    """One wrong element."""

    index: tuple[int, ...]
    expected: float
    got: float
    allowed: float

    def __str__(self) -> str:
        place = ", ".join(map(str, self.index))
        return f"[{place}] expected {_number(self.expected)}, got {_number(self.got)}"


@dataclass(frozen=True)
class Comparison:
    """The outcome; `worst` has the largest error measured in its own tolerance, `pattern` is "" when none was found.

    `map` says where the wrong elements stand; None where all is right.
    """

    ok: bool
    wrong: int
    count: int
    first: tuple[Mismatch, ...]
    worst: Mismatch | None
    pattern: str
    tolerance: Tolerance
    name: str = "result"
    map: WrongMap | None = field(default=None, repr=False)

    @property
    def worst_error(self) -> float:
        """Absolute error of `worst`; 0 when all is right, NaN when it is not a number."""
        return 0.0 if self.worst is None else abs(self.worst.got - self.worst.expected)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        if self.ok:
            return f"{self.name}: all {self.count} elements are right"
        lines = [f"{self.name}: {self.wrong} of {self.count} elements are wrong"]
        if self.pattern:
            lines.append(f"pattern: {self.pattern}")
        lines += [f"{self.name}{mismatch}" for mismatch in self.first]
        if self.wrong > len(self.first):
            lines.append(f"... and {self.wrong - len(self.first)} more")
        if self.worst is not None and self.worst.index not in [mismatch.index for mismatch in self.first]:
            lines.append(f"worst: {self.name}{self.worst}")
        if self.worst is not None:
            allowed = f"{self.worst.allowed:.3g}" if self.worst.allowed else "0"
            lines.append(f"allowed error: {allowed} ({self.tolerance.reason})")
        return "\n".join(lines)


def compare(
    actual: npt.ArrayLike, expected: npt.ArrayLike, *, tolerance: Tolerance | None = None, name: str = "result"
) -> Comparison:
    """Compare a result with its float64 (or integer) reference; the default tolerance is that of k = 1.

    Raises ArgumentError when shapes differ or the reference itself holds NaN.
    """
    got = np.asarray(actual)
    wanted = np.asarray(expected)
    if got.shape != wanted.shape:
        raise ArgumentError(f"{name} has shape {list(got.shape)}, its reference {list(wanted.shape)}")
    if wanted.dtype.kind == "f" and np.isnan(wanted).any():
        raise ArgumentError(f"the reference of {name} holds NaN", next_step="Check how the reference is computed.")
    tolerance = tolerance or tolerance_for(got.dtype)
    error, bound = _errors(got, wanted, tolerance)
    bad = ~(error <= bound)
    if not bad.any():
        return Comparison(True, 0, got.size, (), None, "", tolerance, name)
    places = np.argwhere(bad)
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = np.where(bad, np.where(np.isnan(error), np.inf, error / np.where(bound > 0, bound, 1.0)), -1.0)
    worst = np.unravel_index(int(np.argmax(excess)), got.shape)
    first = tuple(_mismatch(got, wanted, bound, index) for index in places[:_SHOWN])
    pattern = describe(got, wanted, bad, bound)
    return Comparison(
        False, len(places), got.size, first, _mismatch(got, wanted, bound, np.array(worst)), pattern, tolerance, name,
        wrong_map(bad, name=name, pattern=pattern),
    )  # fmt: skip


def _errors(
    got: np.ndarray, wanted: np.ndarray, tolerance: Tolerance
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the error and the bound of each element; equal elements, infinities included, have no error."""
    if got.dtype.kind in "iub" and wanted.dtype.kind in "iub":
        different = got.astype(object) != wanted.astype(object) if _mixed_64(got, wanted) else got != wanted
        return different.astype(np.float64), np.zeros(got.shape)
    as_float, reference = got.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(as_float == reference, 0.0, np.abs(as_float - reference))
    return error, tolerance.bound(reference)


def _mixed_64(got: np.ndarray, wanted: np.ndarray) -> bool:
    """uint64 against int64: NumPy would compare them as float64."""
    return {got.dtype.name, wanted.dtype.name} == {"int64", "uint64"}


def _mismatch(got: np.ndarray, wanted: np.ndarray, bound: np.ndarray, index: np.ndarray) -> Mismatch:
    place = tuple(int(i) for i in index)
    return Mismatch(place, wanted[place].item(), got[place].item(), float(bound[place]))


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.7g}"
