"""What do the wrong elements have in common? Two questions: what value do they have, and where do they stand.

`describe` answers in one line, such as "zero: all rows from 128 on" or "transposed".
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]

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


def describe(actual: np.ndarray, expected: np.ndarray, bad: Mask, bound: np.ndarray) -> str:
    """Return one line about the wrong elements (`bad`), or "" where there is no pattern."""
    moved = _moved(actual, expected, bound)
    if moved:
        return moved
    what, which = _common_value(actual, expected, bad)
    where = _where(which)
    if what and where:
        return f"{what}: {where}"
    return what or ("" if which.all() else where)  # that all are wrong is no pattern


# ------------------------------------------------------------------------------------------------ right, but elsewhere


def _moved(actual: np.ndarray, expected: np.ndarray, bound: np.ndarray) -> str:
    """Name the rearrangement that turns the expected values into the actual ones."""
    if not 4 <= actual.size <= _MOST_MOVED or actual.ndim == 0:
        return ""
    for name, source in _rearrangements(np.arange(actual.size).reshape(actual.shape)):
        inside = source >= 0
        index = source[inside]
        allowed = bound.ravel()[index]
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(actual.astype(np.float64).ravel()[inside] - expected.astype(np.float64).ravel()[index])
            if np.all(error <= allowed):
                return name
    return ""


def _rearrangements(order: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each name with, per element of the result in memory order, the element that stands there (-1: free)."""
    if order.ndim >= 2 and min(order.shape[-2:]) > 1:
        rows, columns = order.shape[-2:]
        swapped = order.swapaxes(-1, -2)
        yield "transposed (element [row, column] holds what belongs to [column, row])", swapped.ravel()
        for tile in _TILES:
            if rows % tile == 0 and columns % tile == 0 and (rows, columns) != (tile, tile):
                tiles = order.reshape(*order.shape[:-2], rows // tile, tile, columns // tile, tile)
                yield f"rows and columns swapped inside each {tile} x {tile} tile", tiles.swapaxes(-3, -1).ravel()
    flat = order.ravel()
    for distance in range(1, min(_MOST_SHIFT, flat.size // 2) + 1):
        plural = "element" if distance == 1 else "elements"
        ahead = np.concatenate([np.full(distance, -1), flat[:-distance]])
        behind = np.concatenate([flat[distance:], np.full(distance, -1)])
        yield f"shifted by {distance} {plural} towards the end", ahead
        yield f"shifted by {distance} {plural} towards the start", behind
    if order.ndim >= 2 and order.shape[-2] > 1:
        for distance in (order.shape[-1], -order.shape[-1]):
            source = np.full(flat.size, -1)
            front, back = max(distance, 0), max(-distance, 0)
            source[front : flat.size - back] = flat[back : flat.size - front]
            yield f"shifted by one row towards the {'end' if distance > 0 else 'start'}", source
    yield "in reverse order", flat[::-1]


# ------------------------------------------------------------------------------------------------ a common value


def _common_value(actual: np.ndarray, expected: np.ndarray, bad: Mask) -> tuple[str, Mask]:
    """Return what the wrong values have in common, and the elements for which that holds."""
    untouched = bad & is_poison(actual)
    if untouched.any():
        value = "NaN" if actual.dtype.kind == "f" else f"{poison(actual.dtype)[0]}"
        rest = "" if untouched.sum() == bad.sum() else " (others are wrong too)"
        words = f"never written, or added to without a start value (still {value}, as before the launch){rest}"
        return words, untouched
    if actual.dtype.kind == "f" and (np.isnan(actual) & bad).any():
        is_nan = np.isnan(actual) & bad
        return "NaN" if is_nan.sum() == bad.sum() else "NaN (others are wrong too)", is_nan
    got, wanted = actual[bad].astype(np.float64), expected[bad].astype(np.float64)
    if np.all(got == 0):
        return "zero", bad
    if bad.sum() < 3:
        return "", bad
    return _factor(got, wanted) or _offset(got, wanted) or _constant(got), bad


def _factor(got: np.ndarray, wanted: np.ndarray) -> str:
    if np.any(wanted == 0) or not np.all(np.isfinite(got)):
        return ""
    ratios = got / wanted
    factor = float(np.median(ratios))
    spread = float(np.max(np.abs(ratios - factor)))
    varied = np.ptp(wanted) > 0
    return f"off by a factor of {factor:.4g}" if varied and spread <= 1e-3 * abs(factor) else ""


def _offset(got: np.ndarray, wanted: np.ndarray) -> str:
    if not np.all(np.isfinite(got)):
        return ""
    differences = got - wanted
    offset = float(np.median(differences))
    spread = float(np.max(np.abs(differences - offset)))
    varied = np.ptp(wanted) > 10 * abs(spread)
    return f"off by {offset:+.4g}" if offset and varied and spread <= 1e-3 * abs(offset) else ""


def _constant(got: np.ndarray) -> str:
    return f"the same value, {got[0]:.7g}, everywhere" if got.size > 3 and np.all(got == got[0]) else ""


# ------------------------------------------------------------------------------------------------ a common place


def _where(bad: Mask) -> str:
    """Say where the marked elements (one at least) stand: all, whole rows or columns, edges, tiles, or a period."""
    if bad.all():
        return "every element"
    if bad.ndim == 0 or bad.size < 2:
        return ""
    for rule in (_along_one_axis, _edges, _corner, _box, _in_tiles, _period):
        text = rule(bad)
        if text:
            return text
    return ""


def _axis_name(axis: int, ndim: int, *, plural: bool) -> str:
    if ndim == 1:
        name = "element"
    elif axis >= ndim - 2:
        name = "column" if axis == ndim - 1 else "row"
    else:
        return f"matrices (axis {axis})" if plural else f"matrix (axis {axis})"
    return name + "s" if plural else name


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
    one, many = (_axis_name(axis, ndim, plural=plural) for plural in (False, True))
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


def _edges(bad: Mask) -> str:
    """Rows from r on and columns from c on: the edge tiles of a grid."""
    plane = _plane(bad)
    if plane is None:
        return ""
    row = int(np.argmax(plane.all(axis=1))) if plane.all(axis=1).any() else 0
    column = int(np.argmax(plane.all(axis=0))) if plane.all(axis=0).any() else 0
    if not row or not column:
        return ""
    edge = np.zeros_like(plane)
    edge[row:], edge[:, column:] = True, True
    return f"all rows from {row} on and all columns from {column} on" if np.array_equal(edge, plane) else ""


def _corner(bad: Mask) -> str:
    """The diagonal, or everything above or below it."""
    plane = _plane(bad)
    if plane is None or min(plane.shape) < 3:
        return ""
    above = np.arange(plane.shape[1]) - np.arange(plane.shape[0])[:, None]
    shapes = {
        "the diagonal": above == 0,
        "everything but the diagonal": above != 0,
        "everything above the diagonal": above > 0,
        "everything below the diagonal": above < 0,
    }
    return next((name for name, shape in shapes.items() if np.array_equal(shape, plane)), "")


def _box(bad: Mask) -> str:
    """Some rows, and in each of them the same columns."""
    plane = _plane(bad)
    if plane is None or plane.sum() < 2:
        return ""
    in_rows, in_columns = plane.any(axis=1), plane.any(axis=0)
    if not np.array_equal(np.outer(in_rows, in_columns), plane):
        return ""
    rows = _indices(np.flatnonzero(in_rows), in_rows.size, 0, 2)
    columns = _indices(np.flatnonzero(in_columns), in_columns.size, 1, 2)
    return f"{rows} in {columns}" if rows and columns else ""


def _in_tiles(bad: Mask) -> str:
    """The same places in every tile (smallest tile that fits), or whole tiles (largest)."""
    plane = _plane(bad)
    if plane is None:
        return ""
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
