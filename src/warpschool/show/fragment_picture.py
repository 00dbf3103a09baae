"""One operand of a tensor-core product, drawn: in each box the lane that owns the element, below it the register."""

from __future__ import annotations

from ptxsim.fragments import Fragment
from warpschool.show.svg import SERIES_LIGHT, Svg

_LEFT, _TOP = 44, 40
_WIDE, _HIGH = 34.0, 27.0
_SERIES = len(SERIES_LIGHT)


def fragment_svg(fragment: Fragment, *, lane: int) -> Svg:
    """The matrix; boxes of one register share a colour and its name, those of `lane` have a thick border."""
    wide = _WIDE if fragment.columns <= 24 else 26.0
    svg = Svg(_LEFT + fragment.columns * wide + 18, _TOP + fragment.rows * _HIGH + 16)
    svg.text(_LEFT, 14, "column →", "s k")
    svg.text(8, 14, "row ↓", "s k")
    for column in range(0, fragment.columns, 2 if fragment.columns > 8 else 1):
        svg.text(_LEFT + (column + 0.5) * wide, _TOP - 8, column, "s m k")
    for row in range(fragment.rows):
        svg.text(_LEFT - 8, _TOP + (row + 0.5) * _HIGH + 4, row, "s e k")
        for column in range(fragment.columns):
            owner, register, _ = fragment.owner(row, column)
            x, y = _LEFT + column * wide, _TOP + row * _HIGH
            fill = f"fill:var(--s{register % _SERIES});fill-opacity:.22"
            svg.rect(x + 0.5, y + 0.5, wide - 1, _HIGH - 1, "", style=fill, r=2)
            svg.text(x + wide / 2, y + 13, owner, "m b" if owner == lane else "m", style="font-size:11px")
            svg.text(x + wide / 2, y + 23, f"r{register}", "m s", style="font-size:8px")
    for row, column in held_by(fragment, lane):
        style = "fill:none;stroke:var(--ink);stroke-width:2.4"
        svg.rect(_LEFT + column * wide + 1, _TOP + row * _HIGH + 1, wide - 2, _HIGH - 2, "", style=style, r=2)
    return svg


def held_by(fragment: Fragment, lane: int) -> list[tuple[int, int]]:
    """(row, column) of each element that a lane owns; of copies only the first owner counts."""
    return [
        (row, column)
        for row in range(fragment.rows)
        for column in range(fragment.columns)
        if fragment.owner(row, column)[0] == lane
    ]
