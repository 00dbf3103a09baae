"""`show_access`: which lane touches which sector of global memory, or which bank of shared memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ptxsim.limits import SECTOR_BYTES
from warpschool.device import Launch
from warpschool.errors import ArgumentError
from warpschool.harness.launcher import RunResult
from warpschool.inspect.accesses import Access, Trace, trace_launch
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
_UNITS = {"global": "sector", "shared": "pass"}


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
    fitting = [
        a for a in found
        if line in (None, a.line) and space in ("", a.space) and kind in ("", a.kind) and array in ("", a.array)
        and warp in (None, a.warp)
    ]  # fmt: skip
    asked = _asked(line, space, kind, array, warp, block)
    if not fitting and line is not None:
        raise ArgumentError(f"no request fits {asked}", next_step=_known(found, block))
    if not fitting:
        return Exhibit("No such request yet", f"Nothing fits {asked or 'this launch'}. {_known(found, block)}")
    chosen = max(fitting, key=lambda access: access.excess)
    series = [a for a in fitting if _place(a) == _place(chosen) and a.warp == chosen.warp]
    return _exhibit(series, _source_line(launch, chosen.line), most)


def _accesses(launch: Launch | RunResult | Trace, block: int) -> tuple[Access, ...]:
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


def _place(access: Access) -> tuple[str, int, str, str, str]:
    return access.kernel, access.line, access.space, access.kind, access.array


def _asked(line: int | None, space: str, kind: str, array: str, warp: int | None, block: int) -> str:
    asked = {"line": line, "space": space, "kind": kind, "array": array, "warp": warp, "block": block}
    return ", ".join(f"{name}={value!r}" for name, value in asked.items() if value not in (None, ""))


def _known(found: Sequence[Access], block: int) -> str:
    if not found:
        return f"Block {block} of this launch touches neither global nor shared memory."
    lines: dict[int, set[str]] = {}
    for access in found:
        lines.setdefault(access.line, set()).add(f"{access.kind} of {access.array} ({access.space})")
    told = "; ".join(f"line {line}: {', '.join(sorted(what))}" for line, what in sorted(lines.items()))
    return f"The requests are: {told}."


def _source_line(launch: Launch | RunResult | Trace, line: int) -> str:
    if isinstance(launch, RunResult):
        source = launch.plan.contract.source
    else:
        source = launch.source if isinstance(launch, Launch) else ""
    rows = source.split("\n")
    return rows[line - 1].strip() if 0 < line <= len(rows) else ""


def _exhibit(series: Sequence[Access], code: str, most: int) -> Exhibit:
    first = series[0]
    what = (
        f"{first.kind} of {first.space} {first.array}" if first.space == "shared" else f"{first.kind} of {first.array}"
    )
    drawn = _sample(series, most)
    passes = max(access.wavefronts for access in drawn) if first.space == "shared" else 0
    frames = tuple(_frame(a, series.index(a) + 1, len(series), passes) for a in drawn)
    notes = [] if len(drawn) == len(series) else [f"{len(drawn)} of the warp's {len(series)} requests are drawn."]
    worst = max(drawn, key=lambda access: access.excess)
    sheets = (_requests(drawn, series), _lane_sheet(worst, series.index(worst) + 1))
    title = f"Line {first.line}, {what}"
    return Exhibit(title, _finding(series), frames, sheets, code=code, note=" ".join(notes))


def _sample(series: Sequence[Access], most: int) -> list[Access]:
    """At most `most` requests: the first ones, and the most wasteful if it is not among them."""
    drawn = list(series[: max(1, most)])
    worst = max(series, key=lambda access: access.excess)
    if worst.excess > max(access.excess for access in drawn):
        drawn[-1] = worst
    return drawn


def _finding(series: Sequence[Access]) -> str:
    first, count = series[0], len(series)
    costs = sorted({_cost(access) for access in series})
    fewest = sorted({_cost(access) - access.excess for access in series})
    unit = _UNITS[first.space]
    each = "Warp {} makes one request here; it takes" if count == 1 else "Warp {} makes {} requests here; each takes"
    said = each.format(first.warp, count) + f" {_range(costs, unit)}"
    if not any(access.excess for access in series):
        return f"{said}, no more than it needs."
    return f"{said}, where {_range(fewest, unit).split(' ')[0]} would do."


def _range(values: Sequence[int], unit: str) -> str:
    told = f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"
    return f"{told} {_plural(unit, values[-1])}"


def _plural(unit: str, count: int) -> str:
    return unit if count == 1 else f"{unit}{'es' if unit.endswith('s') else 's'}"


def _cost(access: Access) -> int:
    return len(access.sectors) if access.space == "global" else access.wavefronts


def _frame(access: Access, number: int, count: int, passes: int) -> View:
    svg = sector_svg(access) if access.space == "global" else bank_svg(access, passes=passes)
    cost, unit = _cost(access), _UNITS[access.space]
    said = f"{cost} {_plural(unit, cost)}" + (f", {cost - access.excess} would do" if access.excess else "")
    label = f"Request {number} of {count}, {access.nbytes} bytes a lane: {said}."
    return View(svg, label, f"{label} {_alt(access)}")


def _alt(access: Access) -> str:
    """The pattern in words: who touches what."""
    lanes, offsets = access.lanes, access.offsets[access.lanes]
    whom = f"lanes {lanes[0]} to {lanes[-1]}" if len(lanes) > 1 else f"lane {lanes[0]}"
    if len(lanes) < 32:
        whom += f" ({len(lanes)} active)"
    steps = {int(step) for step in offsets[1:] - offsets[:-1]}
    if len(steps) == 1:
        step = steps.pop()
        how = "all the same address" if not step else f"addresses {step:,} bytes apart"
        told = f"{whom} touch {how}, from byte {int(offsets[0]):,} of {access.array} on"
    else:
        told = f"{whom} touch {len(set(map(int, offsets)))} addresses between byte {int(offsets.min()):,} and "
        told += f"{int(offsets.max()):,} of {access.array}"
    told = told.replace("touch", "touches") if len(lanes) == 1 else told
    if access.space == "shared":
        told += f"; they lie in {len({word.bank for word in access.words()})} of 32 banks"
    return f"{told[0].upper()}{told[1:]}."


def _requests(drawn: Sequence[Access], series: Sequence[Access]) -> Table:
    cost, best = ("sectors", "fewest sectors") if drawn[0].space == "global" else ("passes", "fewest passes")
    rows = [
        [series.index(a) + 1, len(a.lanes), a.nbytes, f"{int(a.offsets[a.lanes].min()):,}",
         f"{int(a.offsets[a.lanes].max()):,}", _cost(a), _cost(a) - a.excess]
        for a in drawn
    ]  # fmt: skip
    head = ["request", "lanes", "bytes a lane", "first byte", "last byte", cost, best]
    return Table.of(f"Requests of warp {drawn[0].warp} in line {drawn[0].line}", head, rows)


def _lane_sheet(access: Access, number: int) -> Table:
    caption = f"Lane by lane, request {number}"
    if access.space == "global":
        rows = [
            [f"lane {lane}", f"{access.offsets[lane]:,}", f"{access.offsets[lane] // 32:,}"] for lane in access.lanes
        ]
        return Table.of(caption, ["lane", f"byte of {access.array}", "sector"], rows)
    rows = [[f"lane {word.lane}", f"{word.number:,}", f"{word.bank}", f"{word.turn + 1}"] for word in access.words()]
    return Table.of(caption, ["lane", "word", "bank", "pass"], rows)


# ---------------------------------------------------------------- the pictures


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
                svg.line(edge, y, edge, y + _SECTOR_HEIGHT, style="stroke:var(--panel)")
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
