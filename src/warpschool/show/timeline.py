"""`show_timeline`: what ran when in which stream of a GPU, or in which cycle on one of its multiprocessors.

`show_streams` goes through recorded streams moment by moment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from warpschool.clock.prediction import DEFAULT
from warpschool.clock.timeline import issue_timeline
from warpschool.course import Course
from warpschool.device import Launch
from warpschool.errors import ArgumentError
from warpschool.inspect.timeline import Span, Timeline, make_timeline, read_timeline
from warpschool.recorded import recorded
from warpschool.show.columns import percent
from warpschool.show.exhibit import Exhibit, View
from warpschool.show.issues import issue_exhibit
from warpschool.show.svg import Svg
from warpschool.show.table import Table

_WIDTH, _LEFT, _ROW = 904, 120, 34
_TOP = 30
_FILLS = {"copy in": "s0", "kernel": "s1", "copy out": "s2", "other": "s5"}
_SIGNS = {"copy in": "↓", "kernel": "▪", "copy out": "↑", "other": "·"}


def show_timeline(
    what: Timeline | Sequence[Span] | Launch | str | Path, sizes: Mapping[str, float] | None = None, *,
    gpu: str = DEFAULT, scheduler: int = 0, start: int | None = None, cycles: int = 240,
    constants: Mapping[str, int] | None = None, number: int = 0, warm: bool = False,
) -> Exhibit:  # fmt: skip
    """Show what ran when.

    A launch that ran on the simulator, a kernel file or a step ("lab05/07", with `sizes`): which warp of one
    `scheduler` issues what in each of some `cycles` from `start` on (without: where much happens in the middle), and
    for what the others wait, as the clock predicts it for `gpu`; of several launches it is `number`.

    A `warpschool.inspect.timeline.Timeline`, spans, or the path of a timeline that was saved as JSON: a row for each
    stream, a bar for each copy and kernel. Recording needs a GPU (`warpschool.inspect.timeline.Recorder`).

    Raises ArgumentError for what is neither, and PathUnknown for a launch that cannot be predicted.
    """
    if isinstance(what, Launch) or (isinstance(what, str) and not what.endswith(".json")):
        found = issue_timeline(
            what, sizes, gpu=gpu, constants=constants, start=start, cycles=cycles, number=number, warm=warm
        )
        return issue_exhibit(found, scheduler)
    return _recorded(_timeline(what))


def show_streams(record: str, *, course: Course | None = None) -> Exhibit:
    """Show timelines of a record below each other, moment by moment: what is done, what runs, what is to come.

    The record (`benchmarks/results/streams_*.json`, written by `python -m scripts.passes`) holds a title, and for each
    timeline its name and its spans. Raises ArgumentError for what is no such record.
    """
    found = recorded(record, course=course)
    try:
        title, parts = str(found["title"]), [(str(part["name"]), part) for part in found["timelines"]]
        lines = [(name, make_timeline(str(part["device"]), [Span(**s) for s in part["spans"]])) for name, part in parts]
    except (KeyError, TypeError) as error:
        raise ArgumentError(f"{record} is no record of streams: {error}", next_step="Write it anew.") from None
    ends = sorted({span.end_ms for _, line in lines for span in line.spans})
    starts = [0.0, *ends[:-1]]
    frames = tuple(_moment(lines, start, end, f"{n} of {len(ends)}") for n, (start, end) in enumerate(
        zip(starts, ends, strict=True), start=1))  # fmt: skip
    rows = [
        [name, span.name, span.stream, f"{span.start_ms:.4g}", f"{span.end_ms:.4g}"]
        for name, line in lines for span in line.spans
    ]  # fmt: skip
    sheet = Table.of("Spans", ["timeline", "span", "stream", "start in ms", "end in ms"], rows)
    told = " ".join(f"{name}: {_finding(line)}" for name, line in lines)
    return Exhibit(title, told, frames, (sheet,))


def _moment(lines: Sequence[tuple[str, Timeline]], start: float, end: float, number: str) -> View:
    """What runs between two ends of spans."""
    now, middle = [], (start + end) / 2
    svg = Svg(_WIDTH, sum(_height(line) + 26 for _, line in lines) + 4)
    longest = max(line.length_ms for _, line in lines)
    y = 0.0
    for name, line in lines:
        svg.text(12, y + 16, name, "b")
        running = [span for span in line.spans if span.start_ms <= middle < span.end_ms]
        done = all(span.end_ms <= middle for span in line.spans)
        busy = " and ".join(f"{span.name} in {span.stream}" for span in running)
        now.append(f"{name}: {busy or ('done' if done else 'nothing, between two')}")
        _lines(svg, line, longest, y + 26, middle, end)
        y += _height(line) + 26
    label = f"At {middle:.3g} ms ({number}). {'; '.join(now)}."
    return View(svg, label, f"{label} Full: runs now; pale: done; outline: to come.")


def _height(timeline: Timeline) -> float:
    return _TOP + len({span.stream for span in timeline.spans}) * _ROW + 34


def _lines(svg: Svg, timeline: Timeline, longest: float, top: float, middle: float, end: float) -> None:
    """One timeline at a moment: its rows, an axis that all share, and a mark where time has come to."""
    streams = sorted({span.stream for span in timeline.spans}, key=_stream_key)
    scale, bottom = (_WIDTH - _LEFT - 24) / longest, top + len(streams) * _ROW
    step = _round_step(longest / 8)
    for tick in range(math.floor(longest / step + 1e-9) + 1):
        x = _LEFT + tick * step * scale
        svg.line(x, top, x, bottom + 4, "g", style="stroke-width:.8")
        svg.text(x, bottom + 18, f"{tick * step:g}", "s m k")
    svg.text(_WIDTH - 24, top - 8, "ms, predicted →", "s e k")
    for row, stream in enumerate(streams):
        y = top + row * _ROW
        svg.text(_LEFT - 12, y + 21, _cut(stream, 16), "s e")
        for span in (span for span in timeline.spans if span.stream == stream):
            runs, done = span.start_ms <= middle < span.end_ms, span.end_ms <= middle
            fill = ".75" if runs else ".3" if done else "0"
            x, wide = _LEFT + span.start_ms * scale, max(1.5, span.duration_ms * scale)
            colour = f"var(--{_FILLS[span.kind]})"
            svg.rect(x, y + 5, wide, _ROW - 10, "", style=f"fill:{colour};fill-opacity:{fill};stroke:{colour}", r=3)
            if wide > 16:
                svg.text(x + wide / 2, y + 21, _SIGNS[span.kind], "m k")
    mark = _LEFT + min(end, timeline.length_ms) * scale
    svg.line(mark, top - 2, mark, bottom + 4, "l", style="stroke-dasharray:3 3")


def _recorded(timeline: Timeline) -> Exhibit:
    """A recorded timeline: a row for each stream."""
    finding = _finding(timeline)
    streams = len({span.stream for span in timeline.spans})
    label = f"{len(timeline.spans)} spans in {streams} stream{'s' * (streams != 1)} on {timeline.device}."
    told = "; ".join(
        f"{span.name} in {span.stream} from {span.start_ms:.3g} to {span.end_ms:.3g} ms" for span in timeline.spans[:12]
    )
    more = len(timeline.spans) - 12
    alt = f"Timeline. {finding} {told}{f'; and {more} more' if more > 0 else ''}."
    rows = [
        [span.name, span.stream, span.kind, f"{span.start_ms:.4g}", f"{span.end_ms:.4g}", f"{span.duration_ms:.4g}"]
        for span in timeline.spans
    ]
    sheet = Table.of("Spans", ["span", "stream", "kind", "start in ms", "end in ms", "took ms"], rows)
    return Exhibit(f"Timeline on {timeline.device}", finding, (View(timeline_svg(timeline), label, alt),), (sheet,))


def _timeline(recorded: object) -> Timeline:
    if isinstance(recorded, Timeline):
        return recorded
    if isinstance(recorded, str | Path):
        return read_timeline(recorded)
    if isinstance(recorded, Sequence) and all(isinstance(span, Span) for span in recorded):
        return make_timeline("a device", list(recorded))
    raise ArgumentError(
        f"show_timeline takes a recorded timeline, not {type(recorded).__name__}",
        next_step="Record one on a GPU with warpschool.inspect.timeline.Recorder, or name a file that was saved there.",
    )


def _finding(timeline: Timeline) -> str:
    at_once, length = timeline.at_once_ms(), timeline.length_ms
    said = f"{timeline.work_ms:.3g} ms of work in {length:.3g} ms"
    if not at_once:
        return f"{said}: nothing overlaps."
    return f"{said}: for {percent(at_once / length)} of the time two or more things ran at once."


# ---------------------------------------------------------------- the picture


def timeline_svg(timeline: Timeline) -> Svg:
    """Bars along one axis of time; a sign before the name says what kind of work a bar is."""
    streams = list(dict.fromkeys(span.stream for span in sorted(timeline.spans, key=lambda s: _stream_key(s.stream))))
    svg = Svg(_WIDTH, _TOP + len(streams) * _ROW + 62)
    start = min(span.start_ms for span in timeline.spans)
    scale = (_WIDTH - _LEFT - 24) / max(timeline.length_ms, 1e-9)
    bottom = _TOP + len(streams) * _ROW
    _axis(svg, timeline.length_ms, scale, bottom)
    for row, stream in enumerate(streams):
        y = _TOP + row * _ROW
        svg.text(_LEFT - 12, y + 21, _cut(stream, 16), "s e")
        for span in timeline.spans:
            if span.stream == stream:
                _bar(svg, span, _LEFT + (span.start_ms - start) * scale, y + 5, max(1.5, span.duration_ms * scale))
    used = {span.kind for span in timeline.spans}
    for place, kind in enumerate(kind for kind in _FILLS if kind in used):
        x = _LEFT + 130 * place
        svg.rect(x, bottom + 40, 14, 14, "", style=f"fill:var(--{_FILLS[kind]});fill-opacity:.35", r=2)
        svg.text(x + 7, bottom + 51, _SIGNS[kind], "m k")
        svg.text(x + 20, bottom + 52, kind, "s")
    return svg


def _bar(svg: Svg, span: Span, x: float, y: float, width: float) -> None:
    colour = f"var(--{_FILLS[span.kind]})"
    svg.rect(x, y, width, _ROW - 10, "", style=f"fill:{colour};fill-opacity:.35;stroke:{colour}", r=3)
    said = f"{_SIGNS[span.kind]} {span.name}"
    room = int((width - 8) / 6.2)
    if room >= 1:
        svg.text(x + 5, y + 16, said if len(said) <= room else _SIGNS[span.kind] if room < 4 else _cut(said, room), "k")


def _axis(svg: Svg, length: float, scale: float, bottom: float) -> None:
    step = _round_step(length / 8)
    for tick in range(math.floor(length / step + 1e-9) + 1):
        x = _LEFT + tick * step * scale
        svg.line(x, _TOP - 4, x, bottom + 4, "g", style="stroke-width:.8")
        svg.text(x, bottom + 18, f"{tick * step:g}", "s m k")
    svg.text(_WIDTH - 24, 16, "ms since the first start →", "s e k")


def _round_step(rough: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(max(rough, 1e-9)))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)


def _stream_key(stream: str) -> tuple[str, int]:
    head = stream.rstrip("0123456789")
    return head, int(stream[len(head) :] or 0)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
