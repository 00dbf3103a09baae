"""Is a result right? The tolerance that rounding allows, a report of what differs, and what the wrong elements share.

References accumulate in float64. An element is right when `err <= tolerance`, so NaN is never right.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpschool.errors import ArgumentError

Mask = npt.NDArray[np.bool_]

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
        promoted, more = _summed(-(-k // chunk), np.dtype("float32"), "the sum of these")
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
    cause: str = ""
    """one of `CAUSES`: what the pattern is, for a program"""

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        if self.ok:
            return f"{self.name}: all {self.count} elements are right"
        lines = [f"{self.name}: {self.wrong} of {self.count} elements are wrong"]
        lines += [f"pattern: {self.pattern}"] if self.pattern else []
        lines += [f"{self.name}{mismatch}" for mismatch in self.first]
        if self.wrong > len(self.first):
            lines.append(f"... and {self.wrong - len(self.first)} more")
        if self.worst is not None and self.worst.index not in [mismatch.index for mismatch in self.first]:
            lines.append(f"worst: {self.name}{self.worst}")
        if self.worst is not None:
            lines.append(f"allowed error: {self.worst.allowed:.3g} ({self.tolerance.reason})")
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
    *first, gravest = (
        Mismatch(place, wanted[place].item(), got[place].item(), float(bound[place]))
        for place in (tuple(int(i) for i in index) for index in (*places[:_SHOWN], worst))
    )
    cause, pattern = describe(got, wanted, bad, bound)
    return Comparison(
        False, len(places), got.size, tuple(first), gravest, pattern, tolerance, name,
        wrong_map(bad, name=name, pattern=pattern), cause,
    )  # fmt: skip


def _errors(
    got: np.ndarray, wanted: np.ndarray, tolerance: Tolerance
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the error and the bound of each element; equal elements, infinities included, have no error."""
    if got.dtype.kind in "iub" and wanted.dtype.kind in "iub":
        if {got.dtype.name, wanted.dtype.name} == {"int64", "uint64"}:  # NumPy would compare them as float64
            got, wanted = got.astype(object), wanted.astype(object)
        return (got != wanted).astype(np.float64), np.zeros(got.shape)
    as_float, reference = got.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(as_float == reference, 0.0, np.abs(as_float - reference))
    return error, tolerance.bound(reference)


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.7g}"


# ---------------------------------------------------------------- a map of the wrong elements

MOST_ROWS, MOST_COLUMNS = 32, 64
_MARKS = ".123456789#"


@dataclass(frozen=True)
class WrongMap:
    """Which part of each box of elements is wrong.

    A box has `box_rows` x `box_columns` elements (fewer at the edges). `rows` has a string for each row of boxes and in
    it a character for each box: "." all right, "#" all wrong, "1" to "9" tenths that are wrong, rounded up. Arrays of
    more than two dimensions are shown with all but the last folded into rows; one-dimensional ones are folded into rows
    of `columns` elements.
    """

    name: str
    shape: tuple[int, ...]
    height: int
    columns: int
    box_rows: int
    box_columns: int
    rows: tuple[str, ...]
    wrong: int
    pattern: str = ""

    @property
    def count(self) -> int:
        """All elements of the array."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        is_single = self.box_rows == self.box_columns == 1
        box = "an element" if is_single else f"{self.box_rows} x {self.box_columns} elements"
        tenths = "" if is_single else ", 1 to 9 tenths wrong"
        return "\n".join([f"{self.name}: a character is {box}; . right, # wrong{tenths}", *self.rows])


def wrong_map(bad: npt.NDArray[np.bool_], *, name: str, pattern: str = "") -> WrongMap | None:
    """Return the map of a boolean array; None where nothing is wrong, or there is nothing to draw."""
    if not bad.any() or not bad.size:
        return None
    flat = _folded(bad)
    height, columns = flat.shape
    box_rows, box_columns = -(-height // MOST_ROWS), -(-columns // MOST_COLUMNS)
    down, across = np.arange(0, height, box_rows), np.arange(0, columns, box_columns)
    wrong = np.add.reduceat(np.add.reduceat((flat == 1).astype(np.int64), down, 0), across, 1)
    there = np.add.reduceat(np.add.reduceat((flat >= 0).astype(np.int64), down, 0), across, 1)
    tenths = -(-10 * wrong // np.maximum(there, 1))
    tenths = np.where((wrong < there) & (tenths == 10), 9, tenths)
    rows = tuple("".join(_MARKS[tenth] for tenth in row) for row in tenths)
    return WrongMap(name, bad.shape, height, columns, box_rows, box_columns, rows, int(bad.sum()), pattern)


def _folded(bad: npt.NDArray[np.bool_]) -> npt.NDArray[np.int8]:
    """The array as a matrix of 0 and 1; -1 stands where a last row is not full."""
    if bad.ndim >= 2:
        return bad.reshape(-1, bad.shape[-1]).astype(np.int8)
    columns = min(bad.size, MOST_COLUMNS)
    flat = np.full(-(-bad.size // columns) * columns, -1, np.int8)
    flat[: bad.size] = bad.reshape(-1)
    return flat.reshape(-1, columns)


# ---------------------------------------------------------------- outputs before a launch, and what wrong ones share

_POISON_BITS = {"float16": 0x7EAD, "float32": 0x7FC0DEAD, "float64": 0x7FF80000DEADDEAD}
_TILES = (8, 16, 32, 64, 128)
_MOST_SHIFT = 4
_MOST_MOVED = 1 << 22  # elements; above it a search for rearrangements takes seconds


@functools.cache
def poison(dtype: np.dtype) -> np.ndarray:
    """Return, as an array of one element, what outputs hold before a launch: a NaN of our own, or 0x7f bytes."""
    if dtype.name in _POISON_BITS:
        return np.array([_POISON_BITS[dtype.name]], dtype=f"u{dtype.itemsize}").view(dtype)
    if dtype.kind == "b":
        return np.array([False])
    return np.frombuffer(b"\x7f" * dtype.itemsize, dtype=dtype)


def is_poison(array: np.ndarray) -> Mask:
    """Return where an array still holds, bit by bit, what `poison` put there."""
    if array.dtype.kind == "b":
        return np.zeros(array.shape, dtype=bool)
    bits = np.dtype(f"u{array.dtype.itemsize}")
    return np.ascontiguousarray(array).view(bits) == poison(array.dtype).view(bits)[0]


CAUSES = (
    "transposed", "shifted-row", "shifted", "reversed", "unwritten", "nan", "infinite", "zero", "factor", "offset",
    "rounded", "truncated", "constant", "edge", "place", "",
)  # fmt: skip
"""What wrong elements may have in common; "edge" and "place" say where they stand, "" is nothing that is known."""


def describe(actual: np.ndarray, expected: np.ndarray, bad: Mask, bound: np.ndarray) -> tuple[str, str]:
    """Return one of `CAUSES`, and a line about the wrong elements (`bad`), "" without a pattern."""
    cause, moved = _moved(actual, expected, bound)
    if moved:
        return cause, moved
    cause, what, which = _common_value(actual, expected, bad)
    where = _where(which)
    if what:
        return cause, f"{what}: {where}" if where else what
    if which.all() or not where:  # that all are wrong is no pattern
        return "", ""
    return "edge" if _is_edge(bad) else "place", where


def _is_edge(bad: Mask) -> bool:
    """Whether all that is wrong lies behind the last multiple of a tile along some axis."""
    for axis, length in enumerate(bad.shape):
        found = np.flatnonzero(bad.any(axis=tuple(a for a in range(bad.ndim) if a != axis)))
        if found.size and any(found[0] >= length // tile * tile > 0 and length % tile for tile in _TILES):
            return True
    return False


# ------------------------------------------------------------------------------------------------ right, but elsewhere


def _moved(actual: np.ndarray, expected: np.ndarray, bound: np.ndarray) -> tuple[str, str]:
    """Name the rearrangement that turns the expected values into the actual ones."""
    if not 4 <= actual.size <= _MOST_MOVED or actual.ndim == 0:
        return "", ""
    for cause, name, source in _rearrangements(np.arange(actual.size).reshape(actual.shape)):
        inside = source >= 0
        index = source[inside]
        allowed = bound.ravel()[index]
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(actual.astype(np.float64).ravel()[inside] - expected.astype(np.float64).ravel()[index])
            if np.all(error <= allowed):
                return cause, name
    return "", ""


def _rearrangements(order: np.ndarray) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield each cause and name with, per element in memory order, the element that stands there (-1: free)."""
    if order.ndim >= 2 and min(order.shape[-2:]) > 1:
        rows, columns = order.shape[-2:]
        words = "transposed (element [row, column] holds what belongs to [column, row])"
        yield "transposed", words, order.swapaxes(-1, -2).ravel()
        for tile in _TILES:
            if rows % tile == 0 and columns % tile == 0 and (rows, columns) != (tile, tile):
                tiles = order.reshape(*order.shape[:-2], rows // tile, tile, columns // tile, tile)
                words = f"rows and columns swapped inside each {tile} x {tile} tile"
                yield "transposed", words, tiles.swapaxes(-3, -1).ravel()
    flat = order.ravel()
    distances = {n: f"{n} element{'s' if n > 1 else ''}" for n in range(1, min(_MOST_SHIFT, flat.size // 2) + 1)}
    if order.ndim >= 2 and order.shape[-2] > 1:
        distances.setdefault(order.shape[-1], "one row")
    for distance, words in distances.items():
        free = np.full(distance, -1)
        cause = "shifted-row" if words == "one row" else "shifted"
        yield cause, f"shifted by {words} towards the end", np.concatenate([free, flat[:-distance]])
        yield cause, f"shifted by {words} towards the start", np.concatenate([flat[distance:], free])
    yield "reversed", "in reverse order", flat[::-1]


# ------------------------------------------------------------------------------------------------ a common value


def _common_value(actual: np.ndarray, expected: np.ndarray, bad: Mask) -> tuple[str, str, Mask]:
    """Return the cause, what the wrong values have in common, and the elements for which that holds."""
    value = "NaN" if actual.dtype.kind == "f" else f"{poison(actual.dtype)[0]}"
    unwritten = f"never written (still {value}, as before the launch)"
    for cause, words, which in (
        ("unwritten", unwritten, bad & is_poison(actual)), ("nan", "NaN", bad & np.isnan(actual)),
        ("infinite", "infinite", bad & np.isinf(actual) & np.isfinite(expected)),
    ):  # fmt: skip
        if which.any():
            return cause, words if which.sum() == bad.sum() else f"{words} (others are wrong too)", which
    got, wanted = actual[bad].astype(np.float64), expected[bad].astype(np.float64)
    if np.all(got == 0):
        return "zero", "zero", bad
    if bad.sum() < 3:
        return "", "", bad
    return *_relation(got, wanted), bad


_NO_FACTOR, _CLOSE = 5e-4, 1e-2
"""A factor so near to 1 is none; values that are off by no more than this part of themselves are close."""


def _relation(got: np.ndarray, wanted: np.ndarray) -> tuple[str, str]:
    """Return the cause and the factor, the offset or the constant that explains all values, or ""."""
    if np.all(np.isfinite(got)):
        if np.any(got) and np.array_equal(got, np.trunc(got)) and np.all(np.abs(got - wanted) < 1.001):
            return "truncated", "cut off to whole numbers"
        if np.all(wanted != 0) and np.ptp(wanted) > 0:
            factor, spread = _middle(got / wanted)
            if spread <= 1e-3 * abs(factor) and abs(factor - 1) > max(spread, _NO_FACTOR):
                return "factor", f"off by a factor of {factor:.4g}"
        offset, spread = _middle(got - wanted)
        if offset and np.ptp(wanted) > 10 * spread and spread <= 1e-3 * abs(offset):
            return "offset", f"off by {offset:+.4g}"
        if np.all(wanted != 0) and (far := float(np.max(np.abs(got / wanted - 1)))) <= _CLOSE:
            return "rounded", f"close to what is right: off by at most {100 * far:.2g} %"
    is_one = got.size > 3 and np.all(got == got[0])
    return ("constant", f"the same value, {got[0]:.7g}, everywhere") if is_one else ("", "")


def _middle(values: np.ndarray) -> tuple[float, float]:
    """The median, and the largest distance from it."""
    middle = float(np.median(values))
    return middle, float(np.max(np.abs(values - middle)))


# ------------------------------------------------------------------------------------------------ a common place


def _where(bad: Mask) -> str:
    """Say where the marked elements (one at least) stand: all, whole rows or columns, edges, tiles, or a period."""
    if bad.all():
        return "every element"
    if bad.ndim == 0 or bad.size < 2:
        return ""
    said, plane = _along_one_axis(bad), _plane(bad)
    if not said and plane is not None:
        said = next(filter(None, (rule(plane) for rule in (_edges, _corner, _box, _in_tiles))), "")
    return said or _period(bad)


def _axis_names(axis: int, ndim: int) -> tuple[str, str]:
    """What one index along an axis is called, and what several are."""
    name = "element" if ndim == 1 else {ndim - 2: "row", ndim - 1: "column"}.get(axis, "")
    return (name, f"{name}s") if name else (f"matrix (axis {axis})", f"matrices (axis {axis})")


def _along_one_axis(bad: Mask) -> str:
    for axis in range(bad.ndim):
        others = tuple(a for a in range(bad.ndim) if a != axis)
        line = bad.any(axis=others)
        if others and not np.array_equal(np.all(bad, axis=others), line):
            continue
        text = _indices(np.flatnonzero(line), line.size, axis, bad.ndim)
        if text:
            return text
    return ""


def _indices(found: np.ndarray, length: int, axis: int, ndim: int) -> str:
    """Put a set of indices along one axis into words, or return ""."""
    one, many = _axis_names(axis, ndim)
    first, last = int(found[0]), int(found[-1])
    if found.size == 1:
        return f"{'the last ' if first == length - 1 else ''}{one} {first}{' only' if first < length - 1 else ''}"
    if found.size == last - first + 1:
        if last == length - 1:
            return f"all {many} from {first} on"
        return f"all {many} before {last + 1}" if first == 0 else f"{many} {first} to {last}"
    if found.size == 2:
        return f"{many} {first} and {last}"
    step = int(found[1] - found[0])
    if found.size >= 3 and first < step and last + step >= length and np.all(np.diff(found) == step):
        return f"every {_ordinal(step)} {one}, from {first} on"
    missing = np.setdiff1d(np.arange(length), found)
    step = int(missing[1] - missing[0]) if missing.size > 1 else 0
    is_regular = missing.size > 1 and missing[0] < step and missing[-1] + step >= length
    if is_regular and np.all(np.diff(missing) == step):
        return f"all {many} but every {_ordinal(step)}, from {int(missing[0])} on"
    return ""


def _ordinal(number: int) -> str:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0, "th")
    return "second" if number == 2 else f"{number}{suffix}"


def _plane(bad: Mask) -> Mask | None:
    """Return the mask of one matrix when all matrices of a batch look alike."""
    if bad.ndim < 2:
        return None
    matrices = bad.reshape(-1, *bad.shape[-2:])
    return matrices[0] if np.all(matrices == matrices[0]) else None


def _edges(plane: Mask) -> str:
    """Rows from r on and columns from c on: the edge tiles of a grid."""
    row, column = (int(np.argmax(plane.all(axis=axis))) for axis in (1, 0))  # 0 where none is all wrong, too
    if not row or not column:
        return ""
    edge = np.zeros_like(plane)
    edge[row:], edge[:, column:] = True, True
    return f"all rows from {row} on and all columns from {column} on" if np.array_equal(edge, plane) else ""


def _corner(plane: Mask) -> str:
    """The diagonal, or everything above or below it."""
    if min(plane.shape) < 3:
        return ""
    above = np.arange(plane.shape[1]) - np.arange(plane.shape[0])[:, None]
    shapes = {
        "the diagonal": above == 0,
        "everything but the diagonal": above != 0,
        "everything above the diagonal": above > 0,
        "everything below the diagonal": above < 0,
    }
    return next((name for name, shape in shapes.items() if np.array_equal(shape, plane)), "")


def _box(plane: Mask) -> str:
    """Some rows, and in each of them the same columns."""
    if plane.sum() < 2:
        return ""
    in_rows, in_columns = plane.any(axis=1), plane.any(axis=0)
    if not np.array_equal(np.outer(in_rows, in_columns), plane):
        return ""
    rows = _indices(np.flatnonzero(in_rows), in_rows.size, 0, 2)
    columns = _indices(np.flatnonzero(in_columns), in_columns.size, 1, 2)
    return f"{rows} in {columns}" if rows and columns else ""


def _in_tiles(plane: Mask) -> str:
    """The same places in every tile (smallest tile that fits), or whole tiles (largest)."""
    rows, columns = plane.shape
    for tile in _TILES:
        first = plane[:tile, :tile]
        repeated = np.tile(first, (-(-rows // tile), -(-columns // tile)))[:rows, :columns]
        if max(rows, columns) > tile <= min(rows, columns) and np.array_equal(repeated, plane):
            inside = _along_one_axis(first) or _edges(first) or _corner(first)
            return f"in each {tile} x {tile} tile: {inside}" if inside else ""
    for tile in reversed(_TILES):
        corners = plane[::tile, ::tile]
        whole = np.kron(corners, np.ones((tile, tile), dtype=bool))[:rows, :columns]
        if corners.size > 1 and np.array_equal(whole, plane):
            return f"{int(corners.sum())} whole {tile} x {tile} tiles"
    return ""


def _period(bad: Mask) -> str:
    """Every k-th element in memory order."""
    found = np.flatnonzero(bad.ravel())
    if found.size < 3 or bad.ndim == 1:
        return ""
    step = int(found[1] - found[0])
    if step < 2 or not np.all(np.diff(found) == step) or found[-1] + step < bad.size:
        return ""
    return f"every {_ordinal(step)} element in memory, from {int(found[0])} on"
