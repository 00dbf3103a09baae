"""The heat map of a wrong result: where in the array the wrong elements stand."""

from __future__ import annotations

import math
import re

from warpschool.harness.compare import WrongMap
from warpschool.show.exhibit import Exhibit, Frame
from warpschool.show.sheet import Sheet
from warpschool.show.svg import Svg

_LEFT, _TOP = 56, 34
_WIDEST = 640.0
_LARGEST, _SMALLEST = 14.0, 7.0


def mismatch_exhibit(found: WrongMap) -> Exhibit:
    """The map with its text and the wrong boxes in a table."""
    said = f"{found.wrong:,} of {found.count:,} elements are wrong" + (f": {found.pattern}" if found.pattern else "")
    label = f"Wrong elements of {found.name}. " + _scale(found)
    alt = f"Map of {found.name}, {_size(found)}: {said}. Wrong are {'; '.join(_places(found, 4))}."
    picture = Frame(mismatch_svg(found), label, alt)
    return Exhibit(f"{found.name}, {_size(found)}", f"{said}.", (picture,), (_sheet(found),))


def mismatch_svg(found: WrongMap) -> Svg:
    """Boxes that hold wrong elements are crossed and filled, the fuller the more of them are wrong."""
    down, across = len(found.rows), len(found.rows[0])
    side = max(_SMALLEST, min(_LARGEST, _WIDEST / across))
    svg = Svg(max(_LEFT + across * side + 20, 300), _TOP + down * side + 40)
    near, far = f"{side * 0.28:.1f}", f"{side * 0.72:.1f}"
    svg.define(
        f'<pattern id="cross" x="{_LEFT}" y="{_TOP}" width="{side:g}" height="{side:g}" patternUnits="userSpaceOnUse">'
        f'<path d="M{near} {near}L{far} {far}M{far} {near}L{near} {far}" style="stroke:var(--paper);stroke-width:1.6"/>'
        "</pattern>"
    )
    svg.rect(_LEFT, _TOP, across * side, down * side, "f")
    for row, marks in enumerate(found.rows):
        for run in re.finditer(r"([1-9#])\1*", marks):
            x, y, width = _LEFT + run.start() * side, _TOP + row * side, len(run[0]) * side
            share = 1.0 if run[1] == "#" else int(run[1]) / 10
            svg.rect(x, y, width, side, "", style=f"fill:var(--bad);fill-opacity:{0.35 + 0.65 * share:.2f}")
            svg.rect(x, y, width, side, "", style="fill:url(#cross)")
    _lattice(svg, down, across, side)
    _axes(svg, found, side)
    return svg


def _lattice(svg: Svg, down: int, across: int, side: float) -> None:
    for row in range(down + 1):
        svg.line(_LEFT, _TOP + row * side, _LEFT + across * side, _TOP + row * side, "g", style="stroke-width:.6")
    for column in range(across + 1):
        svg.line(_LEFT + column * side, _TOP, _LEFT + column * side, _TOP + down * side, "g", style="stroke-width:.6")


def _axes(svg: Svg, found: WrongMap, side: float) -> None:
    down, across = len(found.rows), len(found.rows[0])
    for column in range(0, across, _power_of_two(36 / side)):
        svg.text(_LEFT + (column + 0.5) * side, _TOP - 6, column * found.box_columns, "s m k")
    for row in range(0, down, _power_of_two(18 / side)):
        svg.text(_LEFT - 6, _TOP + (row + 0.5) * side + 4, row * found.box_rows, "s e k")
    svg.text(_LEFT, 14, "column →" if len(found.shape) > 1 else "element →", "s k")
    y = _TOP + down * side + 24
    svg.rect(_LEFT, y - 11, 14, 14, "", style="fill:var(--bad)")
    svg.path(f"M{_LEFT + 4} {y - 7}l6 6m0 -6l-6 6", style="stroke:var(--paper);stroke-width:1.6")
    svg.text(_LEFT + 20, y, "wrong", "s")
    svg.rect(_LEFT + 70, y - 11, 14, 14, "f", style="stroke:var(--line)")
    svg.text(_LEFT + 90, y, "right", "s")


def _power_of_two(least: float) -> int:
    return 1 << max(0, math.ceil(math.log2(least)))


def _size(found: WrongMap) -> str:
    size = " x ".join(f"{n:,}" for n in found.shape)
    return size if len(found.shape) > 1 else f"{size} elements"


def _scale(found: WrongMap) -> str:
    if found.box_rows == found.box_columns == 1:
        scale = "A box is an element."
    else:
        scale = f"A box is {found.box_rows} x {found.box_columns} elements; the fuller, the more of them are wrong."
    if len(found.shape) == 1 and len(found.rows) > 1:
        return f"{scale} The array is drawn in rows of {found.columns} elements."
    return f"{scale} All dimensions but the last are drawn below each other." if len(found.shape) > 2 else scale


def _places(found: WrongMap, most: int) -> list[str]:
    """Ranges of rows and columns of boxes with wrong elements, equal neighbours together."""
    groups: list[tuple[int, int, str]] = []
    for row, marks in enumerate(found.rows):
        if groups and groups[-1][1] == row - 1 and groups[-1][2] == marks:
            groups[-1] = (groups[-1][0], row, marks)
        elif marks.strip("."):
            groups.append((row, row, marks))
    told = []
    for first, last, marks in groups:
        end = min((last + 1) * found.box_rows, found.height)
        told.append(f"{_range('row', first * found.box_rows, end)}, {_columns(found, marks)}")
    return told if len(told) <= most else [*told[:most], f"and {len(told) - most} more groups of rows"]


def _columns(found: WrongMap, marks: str) -> str:
    runs = [
        _range("", r.start() * found.box_columns, min(r.end() * found.box_columns, found.columns))
        for r in re.finditer(r"[1-9#]+", marks)
    ]
    more = f" and {len(runs) - 6} more ranges" if len(runs) > 6 else ""
    return f"columns {', '.join(run.strip() for run in runs[:6])}{more}"


def _range(what: str, start: int, end: int) -> str:
    if end - start == 1:
        return f"{what} {start}".strip()
    return f"{what}{'s' if what else ''} {start} to {end - 1}".strip()


def _sheet(found: WrongMap) -> Sheet:
    rows = [place.split(", ", 1) for place in _places(found, 64)]
    return Sheet.of(
        f"Where {found.name} is wrong", ["rows", "columns with wrong elements"],
        [[first, rest[0] if rest else ""] for first, *rest in rows], wide=["columns with wrong elements"],
    )  # fmt: skip
