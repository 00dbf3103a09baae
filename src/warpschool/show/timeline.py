"""`show_timeline`: what ran when in which stream of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from warpschool.errors import ArgumentError
from warpschool.inspect.timeline import Span, Timeline, make_timeline, read_timeline
from warpschool.show.columns import percent
from warpschool.show.exhibit import Exhibit, Frame
from warpschool.show.sheet import Sheet
from warpschool.show.timeline_picture import timeline_svg


def show_timeline(recorded: Timeline | Sequence[Span] | str | Path) -> Exhibit:
    """Show a recorded timeline: a row for each stream, a bar for each copy and kernel.

    `recorded` is a `warpschool.inspect.timeline.Timeline`, spans, or the path of a timeline that was saved as JSON.
    Recording needs a GPU (`warpschool.inspect.timeline.Recorder`); showing does not. Raises ArgumentError for what is
    no timeline.
    """
    timeline = _timeline(recorded)
    finding = _finding(timeline)
    streams = len({span.stream for span in timeline.spans})
    label = f"{len(timeline.spans)} spans in {streams} stream{'s' * (streams != 1)} on {timeline.device}."
    told = "; ".join(_told(span) for span in timeline.spans[:12])
    more = len(timeline.spans) - 12
    alt = f"Timeline. {finding} {told}{f'; and {more} more' if more > 0 else ''}."
    frame = Frame(timeline_svg(timeline), label, alt)
    return Exhibit(f"Timeline on {timeline.device}", finding, (frame,), (_sheet(timeline),))


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


def _told(span: Span) -> str:
    return f"{span.name} in {span.stream} from {span.start_ms:.3g} to {span.end_ms:.3g} ms"


def _sheet(timeline: Timeline) -> Sheet:
    rows = [
        [span.name, span.stream, span.kind, f"{span.start_ms:.4g}", f"{span.end_ms:.4g}", f"{span.duration_ms:.4g}"]
        for span in timeline.spans
    ]
    return Sheet.of("Spans", ["span", "stream", "kind", "start in ms", "end in ms", "took ms"], rows)
