"""Where a result is wrong: a coarse map of the wrong elements, small enough to travel with a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
        box = "element" if self.box_rows == self.box_columns == 1 else f"{self.box_rows} x {self.box_columns} elements"
        head = f"{self.name}: a character is {'an' if box == 'element' else ''} {box}; . right, # wrong"
        tenths = ", 1 to 9 tenths wrong" if box != "element" else ""
        return "\n".join([f"{head}{tenths}".replace("is  ", "is "), *self.rows])


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
    shape = tuple(int(n) for n in bad.shape)
    return WrongMap(name, shape, height, columns, box_rows, box_columns, rows, int(bad.sum()), pattern)


def _folded(bad: npt.NDArray[np.bool_]) -> npt.NDArray[np.int8]:
    """The array as a matrix of 0 and 1; -1 stands where a last row is not full."""
    if bad.ndim >= 2:
        return bad.reshape(-1, bad.shape[-1]).astype(np.int8)
    columns = min(bad.size, MOST_COLUMNS)
    flat = np.full(-(-bad.size // columns) * columns, -1, np.int8)
    flat[: bad.size] = bad.reshape(-1)
    return flat.reshape(-1, columns)
