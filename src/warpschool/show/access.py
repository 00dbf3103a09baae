"""`show_access`: which lane touches which sector of global memory, or which bank of shared memory."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from ptxsim.limits import SECTOR_BYTES
from warpschool.device import Launch
from warpschool.errors import ArgumentError
from warpschool.harness.launcher import RunResult
from warpschool.inspect.accesses import Trace, WarpRequest, trace_launch
from warpschool.show.exhibit import Exhibit, View
from warpschool.show.svg import Svg
from warpschool.show.table import Table
from warpschool.suggest import did_you_mean

MOST_PICTURES = 16
_WIDTH = 904
_LEFT, _CELL = 92, 25.0
_LANES = 32
_TOP, _BOX = 26, 22
_SECTORS_TOP, _SECTOR_HEIGHT = 150, 26
_MOST_DRAWN = 128
"""sectors; more would be thinner than a pixel"""
_UNITS = {"global": ("sector", "sectors"), "shared": ("pass", "passes")}


def show_access(
    launch: Launch | RunResult | Trace, line: int | None = None, *, space: str = "", kind: str = "", array: str = "",
    warp: int | None = None, block: int = 0, most: int = MOST_PICTURES,
) -> Exhibit:  # fmt: skip
    """Show what the lanes of a warp touch: sectors of global memory, or banks of shared memory and their passes.

    `launch` is a launch or a run on the simulator (`ws.run(step, sizes, device="sim")`), or a trace. Without a choice
    the most wasteful line is shown, and on it the first warp that wastes most; `line`, `space` ("global" or "shared"),
    `kind` ("load" or "store"), `array`, `warp` and `block` choose. Each of the warp's requests there is a picture,
    `most` of them at most. The block is run once more for it, on the arrays as they are now, which it leaves unchanged.

    A kernel that makes no such request yet is told so; raises ArgumentError for a `line` without one, and says which
    lines there are.
    """
    for name, value, known in (("space", space, _UNITS), ("kind", kind, ("load", "store"))):
        if value and value not in known:
            raise ArgumentError(f"{name}={value!r} is nothing to look at", next_step=did_you_mean(value, known))
    found = _accesses(launch, block)
    asked = {"line": line, "space": space, "kind": kind, "array": array, "warp": warp}
    fitting = [a for a in found if all(value in (None, "", getattr(a, name)) for name, value in asked.items())]
    chosen = ", ".join(f"{name}={v!r}" for name, v in (asked | {"block": block}).items() if v not in (None, ""))
    if not fitting and line is not None:
        raise ArgumentError(f"no request fits {chosen}", next_step=_known(found, block))
    if not fitting:
        return Exhibit("No such request yet", f"Nothing fits {chosen}. {_known(found, block)}")
    series_of = operator.attrgetter("kernel", "line", "space", "kind", "array", "warp")
    worst = max(fitting, key=lambda access: access.excess)
    series = [a for a in fitting if series_of(a) == series_of(worst)]
    return _exhibit(series, worst, _source_line(launch, worst.line), most)


def _accesses(launch: Launch | RunResult | Trace, block: int) -> tuple[WarpRequest, ...]:
    if isinstance(launch, Trace):
        return launch.accesses
    if isinstance(launch, RunResult):
        largest = max(launch.launches, key=lambda one: one.blocks)
        chosen = [one for one in launch.launches if block < one.blocks] or [largest]  # which says that it has no such
        return tuple(access for one in chosen for access in _accesses(one, block))
    if isinstance(launch, Launch):
        return trace_launch(launch, block=block).accesses
    raise ArgumentError(
        f"show_access takes a launch, a run or a trace, not {type(launch).__name__}",
        next_step='Show the result of ws.run(step, sizes, device="sim").',
    )


def _known(found: Sequence[WarpRequest], block: int) -> str:
    if not found:
        return f"Block {block} of this launch touches neither global nor shared memory."
    requests = sorted({(a.line, f"{a.kind} of {a.array} ({a.space})") for a in found})
    lines = groupby(requests, key=operator.itemgetter(0))
    told = "; ".join(f"line {line}: {', '.join(what for _, what in there)}" for line, there in lines)
    return f"The requests are: {told}."


def _source_line(launch: Launch | RunResult | Trace, line: int) -> str:
    source = launch.plan.contract.source if isinstance(launch, RunResult) else getattr(launch, "source", "")
    rows = source.split("\n")
    return rows[line - 1].strip() if 0 < line <= len(rows) else ""


def _exhibit(series: Sequence[WarpRequest], worst: WarpRequest, code: str, most: int) -> Exhibit:
    """The first requests, and the most wasteful if it is not among them."""
    drawn = list(series[: max(1, most)])
    if worst not in drawn:
        drawn[-1] = worst
    passes = max(access.wavefronts for access in drawn) if worst.space == "shared" else 0
    frames = tuple(_frame(a, series.index(a) + 1, len(series), passes) for a in drawn)
    notes = [] if len(drawn) == len(series) else [f"{len(drawn)} of the warp's {len(series)} requests are drawn."]
    sheets = (_requests(drawn, series), _lane_sheet(worst, series.index(worst) + 1))
    title = f"Line {worst.line}, {worst.kind} of {'shared ' if worst.space == 'shared' else ''}{worst.array}"
    return Exhibit(title, _finding(series), frames, sheets, code=code, note=" ".join(notes))


def _finding(series: Sequence[WarpRequest]) -> str:
    first, count = series[0], len(series)
    costs = [access.cost for access in series]
    takes = f"{min(costs)}" if len(set(costs)) == 1 else f"{min(costs)} to {max(costs)}"
    each = "Warp {} makes one request here; it takes" if count == 1 else "Warp {} makes {} requests here; each takes"
    said = f"{each.format(first.warp, count)} {takes} {_UNITS[first.space][max(costs) != 1]}"
    if not any(access.excess for access in series):
        return f"{said}, no more than it needs."
    return f"{said}, where {min(access.fewest for access in series)} would do."


def _frame(access: WarpRequest, number: int, count: int, passes: int) -> View:
    svg = sector_svg(access) if access.space == "global" else bank_svg(access, passes=passes)
    said = f"{access.cost} {_UNITS[access.space][access.cost != 1]}"
    said += f", {access.fewest} would do" if access.excess else ""
    label = f"Request {number} of {count}, {access.nbytes} bytes a lane: {said}."
    return View(svg, label, f"{label} {_alt(access)}")


def _alt(access: WarpRequest) -> str:
    """The pattern in words: who touches what."""
    lanes, offsets = access.lanes, access.offsets[access.lanes]
    whom = f"Lanes {lanes[0]} to {lanes[-1]}" if len(lanes) > 1 else f"Lane {lanes[0]}"
    active = f" ({len(lanes)} active)" if len(lanes) < 32 else ""
    told = f"{whom}{active} {'touch' if len(lanes) > 1 else 'touches'} "
    steps = set(np.diff(offsets).tolist())
    if len(steps) == 1:
        step = steps.pop()
        how = "all the same address" if not step else f"addresses {step:,} bytes apart"
        told += f"{how}, from byte {offsets[0]:,} of {access.array} on"
    else:
        told += f"{len(set(offsets.tolist()))} addresses between byte {offsets.min():,} and {offsets.max():,}"
        told += f" of {access.array}"
    if access.space == "shared":
        told += f"; they lie in {len({word.bank for word in access.words()})} of 32 banks"
    return f"{told}."


def _requests(drawn: Sequence[WarpRequest], series: Sequence[WarpRequest]) -> Table:
    _, units = _UNITS[drawn[0].space]
    rows = [
        [series.index(a) + 1, len(a.lanes), a.nbytes, f"{int(a.offsets[a.lanes].min()):,}",
         f"{int(a.offsets[a.lanes].max()):,}", a.cost, a.fewest]
        for a in drawn
    ]  # fmt: skip
    head = ["request", "lanes", "bytes a lane", "first byte", "last byte", units, f"fewest {units}"]
    return Table.of(f"Requests of warp {drawn[0].warp} in line {drawn[0].line}", head, rows)


def _lane_sheet(access: WarpRequest, number: int) -> Table:
    caption = f"Lane by lane, request {number}"
    if access.space == "global":
        rows = [
            [f"lane {lane}", f"{access.offsets[lane]:,}", f"{access.offsets[lane] // 32:,}"] for lane in access.lanes
        ]
        return Table.of(caption, ["lane", f"byte of {access.array}", "sector"], rows)
    rows = [[f"lane {word.lane}", f"{word.number:,}", f"{word.bank}", f"{word.turn + 1}"] for word in access.words()]
    return Table.of(caption, ["lane", "word", "bank", "pass"], rows)


# ---------------------------------------------------------------- the pictures


def sector_svg(access: WarpRequest) -> Svg:
    """Lanes above, the sectors that they touch below: used bytes filled, the rest of each sector hatched."""
    sectors = access.sectors[:_MOST_DRAWN]
    rows = -(-len(sectors) // _LANES)
    svg = Svg(_WIDTH, _SECTORS_TOP + max(1, rows) * (_SECTOR_HEIGHT + 26) + 32)
    _lanes(svg, access)
    svg.text(_LEFT - 10, _SECTORS_TOP + 12, "memory", "s e")
    svg.text(_LEFT - 10, _SECTORS_TOP + 26, "32-byte sectors", "s e k")
    places = _places(sectors)
    offsets = access.offsets[access.lanes].tolist()
    owners = {at: [lane for lane, other in zip(access.lanes, offsets, strict=True) if other == at] for at in offsets}
    used = {byte for first in owners for byte in range(first, first + access.nbytes)}
    for lane, first in zip(access.lanes, offsets, strict=True):
        inside = first % SECTOR_BYTES
        if first // SECTOR_BYTES in places:
            x, y, width = places[first // SECTOR_BYTES]
            middle = inside + min(access.nbytes, SECTOR_BYTES - inside) / 2  # of its bytes in the first sector
            style = "stroke-width:.8;opacity:.65"
            svg.line(_LEFT + (lane + 0.5) * _CELL, _TOP + _BOX, x + width * middle / SECTOR_BYTES, y, style=style)
    for sector, (x, y, width) in places.items():
        _sector(svg, sector, x, y, width, owners, used, access)
    _share(svg, len(used), SECTOR_BYTES * len(access.sectors))
    return svg


def bank_svg(access: WarpRequest, *, passes: int = 0) -> Svg:
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
    needed = access.fewest
    for turn in range(access.wavefronts):
        y = top + turn * step
        extra = turn >= needed
        svg.text(
            _LEFT - 10, y + step / 2 + 4, f"pass {turn + 1}{' +' if extra else ''}", "s e k" if step < 20 else "s e"
        )
        for bank in range(_LANES):
            x, lanes = _LEFT + bank * _CELL, words[turn, bank]
            fill = "x" if extra else "u"
            svg.rect(x + 1, y + 1, _CELL - 2, step - 2, fill if lanes else "o", r=2)
            if lanes:
                said = str(lanes[0]) if len(lanes) == 1 else f"×{len(lanes)}"
                svg.text(x + _CELL / 2, y + step / 2 + 4, said, f"m k {'ow' if extra else 'ou'}")
    base = top + count * step + 26
    svg.rect(_LEFT, base - 10, 14, 12, "u", r=2)
    svg.text(_LEFT + 20, base, "a word, with the lane that wants it (×n: n lanes)", "s")
    if access.excess:
        svg.rect(_LEFT + 330, base - 10, 14, 12, "x", r=2)
        svg.text(_LEFT + 350, base, "+: a pass that exists only because banks were taken", "s")
    return svg


def _lanes(svg: Svg, access: WarpRequest) -> None:
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


def _sector(
    svg: Svg, sector: int, x: float, y: float, width: float, lanes: dict[int, list[int]], used: set[int],
    access: WarpRequest,
) -> None:  # fmt: skip
    first = sector * SECTOR_BYTES
    if not used.issuperset(range(first, first + SECTOR_BYTES)):
        svg.rect(x, y, width, _SECTOR_HEIGHT, "w", r=2)
    for is_used, run in groupby(range(SECTOR_BYTES), key=lambda byte: first + byte in used):
        if is_used:
            start, *more = run
            length = width * (1 + len(more)) / SECTOR_BYTES
            svg.rect(x + width * start / SECTOR_BYTES, y, length, _SECTOR_HEIGHT, "u", r=2)
    for offset, here in lanes.items():
        cell = width * min(access.nbytes, SECTOR_BYTES) / SECTOR_BYTES
        if first <= offset < first + SECTOR_BYTES and cell >= 15:
            said = str(here[0]) if len(here) == 1 else f"×{len(here)}" if cell < 40 else f"{here[0]}–{here[-1]}"
            svg.text(x + width * (offset - first) / SECTOR_BYTES + cell / 2, y + 17, said, "m k ou")
            if cell < width * 0.9 and offset > first:
                edge = x + width * (offset - first) / SECTOR_BYTES
                svg.line(edge, y, edge, y + _SECTOR_HEIGHT, style="stroke:var(--panel)")
    if width >= 44 or sector == min(access.sectors):
        svg.text(x, y + _SECTOR_HEIGHT + 13, f"byte {first:,}", "s k")
    elif sector == max(access.sectors):
        svg.text(x + width, y + _SECTOR_HEIGHT + 13, f"byte {first:,}", "s k e")


def _share(svg: Svg, used: int, moved: int) -> None:
    """A bar at the bottom: how much of what was moved was wanted."""
    y = svg.height - 24
    share = used / moved
    width = 200.0
    svg.rect(_LEFT, y, width, 12, "w" if share < 1 else "u", r=3)
    svg.rect(_LEFT, y, max(2.0, width * share), 12, "u", r=3)
    said = (
        f"{used:,} of {moved:,} bytes moved were asked for ({100 * share:.0f} %); hatched: moved for nothing"
        if share < 1
        else (f"all {moved:,} bytes that were moved were asked for")
    )
    svg.text(_LEFT + width + 12, y + 10, said, "s")
