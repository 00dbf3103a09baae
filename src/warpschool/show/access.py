"""`show_access`: which lane touches which sector of global memory, or which bank of shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from warpschool.device import Launch
from warpschool.errors import ArgumentError
from warpschool.harness.launcher import RunResult
from warpschool.inspect.accesses import Access, Trace, trace_launch
from warpschool.show.access_picture import bank_svg, sector_svg
from warpschool.show.exhibit import Exhibit, Frame
from warpschool.show.sheet import Sheet
from warpschool.suggest import did_you_mean

MOST_PICTURES = 16
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


def _frame(access: Access, number: int, count: int, passes: int) -> Frame:
    svg = sector_svg(access) if access.space == "global" else bank_svg(access, passes=passes)
    cost, unit = _cost(access), _UNITS[access.space]
    said = f"{cost} {_plural(unit, cost)}" + (f", {cost - access.excess} would do" if access.excess else "")
    label = f"Request {number} of {count}, {access.nbytes} bytes a lane: {said}."
    return Frame(svg, label, f"{label} {_alt(access)}")


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


def _requests(drawn: Sequence[Access], series: Sequence[Access]) -> Sheet:
    cost, best = ("sectors", "fewest sectors") if drawn[0].space == "global" else ("passes", "fewest passes")
    rows = [
        [series.index(a) + 1, len(a.lanes), a.nbytes, f"{int(a.offsets[a.lanes].min()):,}",
         f"{int(a.offsets[a.lanes].max()):,}", _cost(a), _cost(a) - a.excess]
        for a in drawn
    ]  # fmt: skip
    head = ["request", "lanes", "bytes a lane", "first byte", "last byte", cost, best]
    return Sheet.of(f"Requests of warp {drawn[0].warp} in line {drawn[0].line}", head, rows)


def _lane_sheet(access: Access, number: int) -> Sheet:
    caption = f"Lane by lane, request {number}"
    if access.space == "global":
        rows = [
            [f"lane {lane}", f"{access.offsets[lane]:,}", f"{access.offsets[lane] // 32:,}"] for lane in access.lanes
        ]
        return Sheet.of(caption, ["lane", f"byte of {access.array}", "sector"], rows)
    rows = [[f"lane {word.lane}", f"{word.number:,}", f"{word.bank}", f"{word.turn + 1}"] for word in access.words()]
    return Sheet.of(caption, ["lane", "word", "bank", "pass"], rows)
