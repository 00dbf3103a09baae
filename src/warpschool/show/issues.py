"""Which warp issued what in which cycle, and why the others waited: one picture, then pieces to step through."""

from __future__ import annotations

from collections import Counter

from warpschool.clock.prediction import MEANING
from warpschool.clock.timeline import Issue, IssueTimeline
from warpschool.errors import ArgumentError
from warpschool.show.columns import percent
from warpschool.show.exhibit import Exhibit, View
from warpschool.show.svg import Svg
from warpschool.show.table import Table

_WIDTH, _LEFT, _ROW, _TOP, _PIECE = 904, 92, 22, 26, 30
_SIGNS = {
    "long scoreboard": ("L", "s1"), "short scoreboard": ("S", "s2"), "barrier": ("B", "s3"),
    "math pipe throttle": ("M", "s0"), "MIO throttle": ("Q", "s4"), "LG throttle": ("Q", "s4"),
    "wait": ("w", "s5"), "not selected": ("n", "soft"),
}  # fmt: skip
_OTHER = ("o", "soft")
_MOST_ROWS = 40


def issue_exhibit(timeline: IssueTimeline, scheduler: int = 0) -> Exhibit:
    """Show one of the four schedulers of a multiprocessor. Raises ArgumentError for another one."""
    warps = timeline.of(scheduler) if 0 <= scheduler < 4 else ()
    if not warps:
        raise ArgumentError(f"schedulers are numbered from 0 to 3, and this one must have warps: not {scheduler}")
    own = [issue for issue in timeline.issues if issue.warp in warps]
    pieces = [(at, min(at + _PIECE, timeline.end)) for at in range(timeline.start, timeline.end, _PIECE)]
    whole = View(
        _picture(timeline, own, warps, timeline.start, timeline.end),
        f"Scheduler {scheduler}, cycles {timeline.start:,} to {timeline.end - 1:,} of {timeline.cycles:,}. "
        "Dark: the warp issues; coloured: it waits, and the letter says for what.",
        f"{len(warps)} warps as rows over {timeline.end - timeline.start} cycles. {_finding(timeline, scheduler, own)}",
    )
    views = [whole]
    for low, high in pieces if len(pieces) > 1 else ():
        said = _told(own, low, high, len(warps))
        views.append(View(_picture(timeline, own, warps, low, high), said, said))
    return Exhibit(
        f"{timeline.kernel} on one multiprocessor of {timeline.gpu}, predicted", _finding(timeline, scheduler, own),
        tuple(views), (_states(timeline, own), _issued(own)),
        note=f"A model's prediction, no measurement: {timeline.warps_per_block} warps make a block, "
        f"{_blocks_there(timeline.warps // timeline.warps_per_block)} at a time. {timeline.case}".strip(),
    )  # fmt: skip


def _blocks_there(count: int) -> str:
    return "1 block is there" if count == 1 else f"{count} blocks are there"


def _finding(timeline: IssueTimeline, scheduler: int, own: list[Issue]) -> str:
    waits = _cycles(timeline, own)
    busy = f"Scheduler {scheduler} issues in {percent(timeline.busy(scheduler))} of these cycles"
    if not waits:
        return f"{busy}."
    worst = max(waits, key=lambda state: waits[state])
    share = percent(waits[worst] / sum(waits.values()))
    return f"{busy}; its warps wait most in the state '{worst}', for {MEANING[worst]} ({share} of their waiting)."


def _cycles(timeline: IssueTimeline, own: list[Issue]) -> dict[str, int]:
    """State -> cycles that warps wait in it, as far as they are shown."""
    found: dict[str, int] = {}
    for issue in own:
        shown = min(issue.cycle, timeline.end) - max(issue.since, timeline.start)
        if shown > 0:
            found[issue.state] = found.get(issue.state, 0) + shown
    return found


def _told(own: list[Issue], low: int, high: int, warps: int) -> str:
    """What happens in some cycles, in a sentence or two."""
    now = [issue for issue in own if low <= issue.cycle < high]
    if now:
        counts = Counter((issue.opcode, issue.line) for issue in now)
        parts = [f"{n} x {opcode}{f' (line {line})' if line else ''}" for (opcode, line), n in counts.most_common(4)]
        more = len(counts) - len(parts)
        issued = f"{len(now)} instructions: {', '.join(parts)}{f' and {more} others' if more > 0 else ''}"
    else:
        issued = "nothing"
    waiting = Counter(issue.state for issue in own if issue.since < high and issue.cycle >= high)
    still = ", ".join(f"{n} for {MEANING[state]}" for state, n in waiting.most_common(3))
    rest = f" At the end {sum(waiting.values())} of {warps} warps wait: {still}." if waiting else ""
    return f"Cycles {low:,} to {high - 1:,}: issued is {issued}.{rest}"


def _states(timeline: IssueTimeline, own: list[Issue]) -> Table:
    waits = _cycles(timeline, own)
    total = sum(waits.values()) or 1
    rows = [
        (_SIGNS.get(state, _OTHER)[0], state, f"{cycles:,}", percent(cycles / total), MEANING[state])
        for state, cycles in sorted(waits.items(), key=lambda entry: -entry[1])
    ]
    heads = ("letter", "warp state", "cycles", "share", "the warp waits for")
    return Table.of("What warps wait for", heads, rows, wide=("warp state", "the warp waits for"))


def _issued(own: list[Issue]) -> Table:
    rows = [
        (f"{i.cycle:,}", i.warp, i.opcode, i.line or "-", i.waited, i.state if i.waited else "-")
        for i in own[:_MOST_ROWS]
    ]
    heads = ("cycle", "warp", "instruction", "line", "waited", "most of it")
    return Table.of(f"The first {len(rows)} of {len(own)} issues", heads, rows, wide=("instruction", "most of it"))


# ---------------------------------------------------------------- the picture


def _picture(timeline: IssueTimeline, own: list[Issue], warps: tuple[int, ...], low: int, high: int) -> Svg:
    """A row for each warp; `low` to `high` are the cycles shown."""
    scale = (_WIDTH - _LEFT - 16) / max(high - low, _PIECE)
    bottom = _TOP + len(warps) * _ROW
    used = {_SIGNS.get(i.state, _OTHER): i.state for i in own if i.since < high and i.cycle > low and i.waited}
    svg = Svg(_WIDTH, bottom + 58)
    _axis(svg, low, high, scale, bottom)
    for row, warp in enumerate(warps):
        y = _TOP + row * _ROW
        block = f"block {warp // timeline.warps_per_block}, " if timeline.warps > timeline.warps_per_block else ""
        svg.text(_LEFT - 8, y + 15, f"{block}warp {warp % timeline.warps_per_block}", "s e k")
        for issue in own:
            if issue.warp == warp and issue.since < high and issue.cycle >= low:
                _draw(svg, issue, low, high, scale, y)
    x = _LEFT
    for (sign, fill), state in sorted(used.items(), key=lambda entry: entry[1]):
        svg.rect(x, bottom + 36, 14, 14, "", style=f"fill:var(--{fill});fill-opacity:.4", r=2)
        svg.text(x + 7, bottom + 47, sign, "m k")
        name = "queue" if sign == "Q" else "other" if sign == "o" else state
        svg.text(x + 19, bottom + 48, name, "s k")
        x += 34 + 6 * len(name)
    return svg


def _draw(svg: Svg, issue: Issue, low: int, high: int, scale: float, y: float) -> None:
    """A wait as a coloured bar with its letter, and the issue that ends it as a dark box."""
    begin, end = max(issue.since, low), min(issue.cycle, high)
    if end > begin:
        sign, fill = _SIGNS.get(issue.state, _OTHER)
        x, width = _LEFT + (begin - low) * scale, (end - begin) * scale
        svg.rect(x, y + 5, width, _ROW - 10, "", style=f"fill:var(--{fill});fill-opacity:.4")
        if width >= 9:
            svg.text(x + width / 2, y + 15, sign, "m k")
    if low <= issue.cycle < high:
        x = _LEFT + (issue.cycle - low) * scale
        svg.rect(x, y + 2, max(scale - 0.5, 0.8), _ROW - 4, "u")
        name = issue.opcode.partition(".")[0]
        if scale >= 6 * len(name):
            svg.text(x + scale / 2, y + 15, name, "m k ou")


def _axis(svg: Svg, low: int, high: int, scale: float, bottom: float) -> None:
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if step * scale >= 70)
    for cycle in range(-(-low // step) * step, high + 1, step):
        x = _LEFT + (cycle - low) * scale
        svg.line(x, _TOP - 4, x, bottom + 4, "g", style="stroke-width:.8")
        svg.text(x, bottom + 18, f"{cycle:,}", "s m k")
    svg.text(_WIDTH - 16, 14, "cycle →", "s e k")
