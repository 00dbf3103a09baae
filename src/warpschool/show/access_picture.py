"""One request of a warp, drawn: which lane touches which 32-byte sector, or which bank in which pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ptxsim.limits import SECTOR_BYTES
from warpschool.inspect.accesses import Access
from warpschool.show.svg import Svg

_WIDTH = 904
_LEFT, _CELL = 92, 25.0
_LANES = 32
_TOP, _BOX = 26, 22
_SECTORS_TOP, _SECTOR_HEIGHT = 150, 26
_MOST_DRAWN = 128
"""sectors; more would be thinner than a pixel"""


def sector_svg(access: Access) -> Svg:
    """Lanes above, the sectors that they touch below: used bytes filled, the rest of each sector hatched."""
    sectors = access.sectors[:_MOST_DRAWN]
    rows = -(-len(sectors) // _LANES)
    svg = Svg(_WIDTH, _SECTORS_TOP + max(1, rows) * (_SECTOR_HEIGHT + 26) + 32)
    _lanes(svg, access)
    svg.text(_LEFT - 10, _SECTORS_TOP + 12, "memory", "s e")
    svg.text(_LEFT - 10, _SECTORS_TOP + 26, "32-byte sectors", "s e k")
    places = _places(sectors)
    lanes = _lanes_of_bytes(access)
    for lane in access.lanes:
        first = int(access.offsets[lane])
        x, y = _middle(places, first, access.nbytes)
        if y:
            svg.line(_LEFT + (lane + 0.5) * _CELL, _TOP + _BOX, x, y, style="stroke-width:.8;opacity:.65")
    for sector, (x, y, width) in places.items():
        _sector(svg, sector, x, y, width, lanes, access)
    _share(svg, _used(access), SECTOR_BYTES * len(access.sectors), "bytes moved were asked for")
    return svg


def bank_svg(access: Access, *, passes: int = 0) -> Svg:
    """Banks across, passes down: a box is a word, with the lane that wants it (of several the first and their number).

    `passes` is for how many there is room, so that pictures that follow each other have one size.
    """
    words: dict[tuple[int, int], list[int]] = defaultdict(list)
    for word in access.words():
        words[word.turn, word.bank].append(word.lane)
    count = max(access.wavefronts, passes, 1)
    step = 24 if count <= 8 else 17
    top = 52
    svg = Svg(_WIDTH, top + count * step + 46)
    svg.text(_LEFT - 10, 40, "bank", "s e")
    for bank in range(_LANES):
        svg.text(_LEFT + (bank + 0.5) * _CELL, 40, bank, "s m k")
    needed = access.wavefronts - access.excess
    for turn in range(access.wavefronts):
        y = top + turn * step
        extra = turn >= needed
        svg.text(
            _LEFT - 10, y + step / 2 + 4, f"pass {turn + 1}{' +' if extra else ''}", "s e k" if step < 20 else "s e"
        )
        for bank in range(_LANES):
            x, lanes = _LEFT + bank * _CELL, words.get((turn, bank))
            if lanes is None:
                svg.rect(x + 1, y + 1, _CELL - 2, step - 2, "o", r=2)
                continue
            svg.rect(x + 1, y + 1, _CELL - 2, step - 2, "x" if extra else "u", r=2)
            said = str(lanes[0]) if len(lanes) == 1 else f"×{len(lanes)}"
            svg.text(x + _CELL / 2, y + step / 2 + 4, said, f"m k {'ow' if extra else 'ou'}")
    base = top + count * step + 26
    svg.rect(_LEFT, base - 10, 14, 12, "u", r=2)
    svg.text(_LEFT + 20, base, "a word, with the lane that wants it (×n: n lanes)", "s")
    if access.excess:
        svg.rect(_LEFT + 330, base - 10, 14, 12, "x", r=2)
        svg.text(_LEFT + 350, base, "+: a pass that exists only because banks were taken", "s")
    return svg


def _lanes(svg: Svg, access: Access) -> None:
    svg.text(_LEFT - 10, _TOP + 15, "lane", "s e")
    active = set(map(int, access.lanes))
    for lane in range(_LANES):
        x = _LEFT + lane * _CELL
        kind = "u" if lane in active else "o"
        svg.rect(x + 1, _TOP, _CELL - 2, _BOX, kind, r=3, style="" if lane in active else "stroke-dasharray:3 2")
        svg.text(x + _CELL / 2, _TOP + 15, lane, "m k ou" if lane in active else "m k s")


def _places(sectors: Sequence[int]) -> dict[int, tuple[float, float, float]]:
    """Sector -> (x, y, width); sectors that do not follow each other have a gap between them."""
    found: dict[int, tuple[float, float, float]] = {}
    for row in range(0, len(sectors), _LANES):
        part = sectors[row : row + _LANES]
        width = min(8 * _CELL, _LANES * _CELL / len(part))
        left = _LEFT + (_LANES * _CELL - width * len(part)) / 2
        y = _SECTORS_TOP + row // _LANES * (_SECTOR_HEIGHT + 26)
        for place, sector in enumerate(part):
            follows = place + 1 < len(part) and part[place + 1] == sector + 1
            gap = 1 if follows or width < 6 else min(8.0, width / 6)
            found[sector] = (left + place * width, y, width - gap)
    return found


def _middle(places: dict[int, tuple[float, float, float]], offset: int, nbytes: int) -> tuple[float, float]:
    """Where the line of a lane ends: above the middle of its bytes, in the sector of the first; (0, 0) if not drawn."""
    x, y, width = places.get(offset // SECTOR_BYTES, (0.0, 0.0, 0.0))
    inside = offset % SECTOR_BYTES
    middle = inside + min(nbytes, SECTOR_BYTES - inside) / 2
    return x + width * middle / SECTOR_BYTES, y


def _lanes_of_bytes(access: Access) -> dict[int, list[int]]:
    """Byte offset -> the lanes that start there."""
    found: dict[int, list[int]] = defaultdict(list)
    for lane in access.lanes:
        found[int(access.offsets[lane])].append(int(lane))
    return found


def _sector(
    svg: Svg, sector: int, x: float, y: float, width: float, lanes: dict[int, list[int]], access: Access
) -> None:
    first = sector * SECTOR_BYTES
    used = [False] * SECTOR_BYTES
    for offset in lanes:
        for byte in range(max(offset, first), min(offset + access.nbytes, first + SECTOR_BYTES)):
            used[byte - first] = True
    if not all(used):
        svg.rect(x, y, width, _SECTOR_HEIGHT, "w", r=2)
    start = 0
    for byte in range(1, SECTOR_BYTES + 1):
        if byte == SECTOR_BYTES or used[byte] != used[start]:
            if used[start]:
                svg.rect(
                    x + width * start / SECTOR_BYTES, y, width * (byte - start) / SECTOR_BYTES, _SECTOR_HEIGHT, "u", r=2
                )
            start = byte
    for offset, here in lanes.items():
        cell = width * min(access.nbytes, SECTOR_BYTES) / SECTOR_BYTES
        if first <= offset < first + SECTOR_BYTES and cell >= 15:
            said = str(here[0]) if len(here) == 1 else f"×{len(here)}" if cell < 40 else f"{here[0]}–{here[-1]}"
            svg.text(x + width * (offset - first) / SECTOR_BYTES + cell / 2, y + 17, said, "m k ou")
            if cell < width * 0.9 and offset > first:
                edge = x + width * (offset - first) / SECTOR_BYTES
                svg.line(edge, y, edge, y + _SECTOR_HEIGHT, style="stroke:var(--paper)")
    if width >= 44:
        svg.text(x, y + _SECTOR_HEIGHT + 13, f"byte {first:,}", "s k")
    elif sector in (min(access.sectors), max(access.sectors)):
        side = "k s" if sector == min(access.sectors) else "k s e"
        svg.text(x if sector == min(access.sectors) else x + width, y + _SECTOR_HEIGHT + 13, f"byte {first:,}", side)


def _used(access: Access) -> int:
    """Distinct bytes that the lanes ask for."""
    found: set[int] = set()
    for offset in access.offsets[access.lanes]:
        found.update(range(int(offset), int(offset) + access.nbytes))
    return len(found)


def _share(svg: Svg, used: int, moved: int, what: str) -> None:
    """A bar at the bottom: how much of what was moved was wanted."""
    y = svg.height - 24
    share = used / moved if moved else 0.0
    width = 200.0
    svg.rect(_LEFT, y, width, 12, "w" if share < 1 else "u", r=3)
    svg.rect(_LEFT, y, max(2.0, width * share), 12, "u", r=3)
    said = (
        f"{used:,} of {moved:,} {what} ({100 * share:.0f} %); hatched: moved for nothing"
        if share < 1
        else (f"all {moved:,} bytes that were moved were asked for")
    )
    svg.text(_LEFT + width + 12, y + 10, said, "s")
