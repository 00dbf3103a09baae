"""What ran when on a GPU: spans between events in streams, recorded once and readable anywhere.

    recorder = Recorder(device)
    with recorder.span("copy in", stream, kind="copy in"):
        array.set(host, stream=stream)
    timeline = recorder.finish()

The simulator has no clock, so nothing is recorded there; a timeline that was saved as JSON is shown on any machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warpschool.device.protocol import Device
from warpschool.errors import ArgumentError, NotMeasured

_RECORD = "Name a file that Timeline.to_json() wrote on a machine with a GPU: see warpschool.inspect.timeline.Recorder."
KINDS = ("copy in", "kernel", "copy out", "other")
FORMAT = 1


@dataclass(frozen=True)
class Span:
    """Something that ran in a stream from `start_ms` to `end_ms`, counted from the recording's first event."""

    name: str
    stream: str
    start_ms: float
    end_ms: float
    kind: str = "kernel"

    @property
    def duration_ms(self) -> float:
        return self.end_ms - self.start_ms


@dataclass(frozen=True)
class Timeline:
    """Spans recorded on one device, in the order of their starts."""

    device: str
    spans: tuple[Span, ...]

    @property
    def length_ms(self) -> float:
        """From the first start to the last end."""
        return max(span.end_ms for span in self.spans) - min(span.start_ms for span in self.spans)

    @property
    def work_ms(self) -> float:
        """All spans added up."""
        return sum(span.duration_ms for span in self.spans)

    def at_once_ms(self, least: int = 2) -> float:
        """How long at least so many spans ran at the same time."""
        edges = sorted([(s.start_ms, 1) for s in self.spans] + [(s.end_ms, -1) for s in self.spans])
        total, running, last = 0.0, 0, 0.0
        for time_ms, change in edges:
            total += time_ms - last if running >= least else 0.0
            running, last = running + change, time_ms
        return total

    def to_json(self) -> str:
        """The timeline as text."""
        data = {"format": FORMAT, "device": self.device, "spans": [asdict(span) for span in self.spans]}
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"

    @staticmethod
    def from_json(text: str) -> Timeline:
        """Read what `to_json` wrote; raises ArgumentError for anything else."""
        try:
            data = json.loads(text)
            if data["format"] != FORMAT:
                raise ValueError(f"format {data['format']}, not {FORMAT}")
            return make_timeline(str(data["device"]), [Span(**span) for span in data["spans"]])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArgumentError(f"this is no recorded timeline: {error}", next_step=_RECORD) from None


def make_timeline(device: str, spans: list[Span]) -> Timeline:
    """Return the timeline of these spans; raises ArgumentError for none, or one that ends before it starts."""
    if not spans:
        raise ArgumentError("a timeline needs at least one span", next_step=_RECORD)
    for span in spans:
        if not 0 <= span.start_ms <= span.end_ms < float("inf") or span.kind not in KINDS:
            raise ArgumentError(f"no span can be {span}", next_step=f"Kinds are {', '.join(KINDS)}; times grow.")
    return Timeline(device, tuple(sorted(spans, key=lambda span: (span.start_ms, span.stream))))


def read_timeline(path: str | Path) -> Timeline:
    """Read a recorded timeline; raises ArgumentError for a file that is none."""
    try:
        return Timeline.from_json(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ArgumentError(f"cannot read {path}: {why}", next_step=_RECORD) from None


class Recorder:
    """Puts events around pieces of work in streams of one device. Raises NotMeasured on the simulator."""

    def __init__(self, device: Device) -> None:
        if not device.measures_time:
            raise NotMeasured(
                f"{device.description} has no clock, so there is no timeline to record",
                next_step="Record it on a GPU, save it with to_json(), and show the file here.",
            )
        self.device = device
        self._zero = device.Event()
        self._zero.record()
        self._marks: list[tuple[str, str, str, Any, Any]] = []
        self._streams: dict[int, Any] = {}

    @contextmanager
    def span(self, name: str, stream: Any = None, *, kind: str = "kernel") -> Iterator[None]:
        """Everything that is put into `stream` inside is one span."""
        where = self._stream_name(stream)
        start, end = self.device.Event(), self.device.Event()
        start.record(stream)
        yield
        end.record(stream)
        self._marks.append((name, where, kind, start, end))

    def finish(self) -> Timeline:
        """Wait for all work and return what was recorded."""
        self.device.synchronize()
        spans = [
            Span(name, stream, self.device.elapsed_ms(self._zero, start), self.device.elapsed_ms(self._zero, end), kind)
            for name, stream, kind, start, end in self._marks
        ]
        return make_timeline(self.device.description, spans)

    def _stream_name(self, stream: Any) -> str:
        if stream is None:
            return "default stream"
        self._streams.setdefault(id(stream), stream)
        return f"stream {list(self._streams).index(id(stream)) + 1}"
