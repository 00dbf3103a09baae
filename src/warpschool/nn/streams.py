"""Copies that overlap with kernels: a batch in parts, each in a stream of its own, and the timeline of what ran when.

    done = classify_in_parts(network, images, parts=8, streams=2)     # labels, and on a GPU the recorded timeline
    planned = schedule(order, {"copy in": 1.0, "kernels": 2.0, "copy out": 0.1})    # the same by a model, anywhere

A GPU copies in, computes and copies out at the same time, if the work is in different streams and the host's memory is
pinned; what is in one stream happens in order. The recorded timeline comes from events before and after each piece of
work; `schedule` computes one from three engines that each take their work in the order in which it was enqueued.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpschool.errors import ArgumentError
from warpschool.nn.network import Network, build
from warpschool.nn.session import Session

ENGINES = ("copy in", "kernels", "copy out")
"""What happens to each part, in this order."""


@dataclass(frozen=True)
class Work:
    """One piece of work: an engine's share of one part, in one stream."""

    engine: str
    part: int
    stream: int


@dataclass(frozen=True)
class TimedWork:
    """A piece of work with its time, in milliseconds from the beginning."""

    work: Work
    start_ms: float
    end_ms: float


@dataclass(frozen=True)
class StreamTimeline:
    """All pieces of work of one run; `recorded` by events on a GPU, or computed by a model."""

    spans: tuple[TimedWork, ...]
    recorded: bool

    @property
    def total_ms(self) -> float:
        """From the first piece's start to the last one's end."""
        return max(span.end_ms for span in self.spans) - min(span.start_ms for span in self.spans)

    @property
    def overlapped_ms(self) -> float:
        """How long copies and kernels were under way at the same time."""
        return _common(self._busy("kernels"), sorted(self._busy("copy in") + self._busy("copy out")))

    def _busy(self, engine: str) -> list[tuple[float, float]]:
        return sorted((span.start_ms, span.end_ms) for span in self.spans if span.work.engine == engine)


def _common(first: Sequence[tuple[float, float]], second: Sequence[tuple[float, float]]) -> float:
    """Length of the intersection of two unions of intervals."""
    return _covered(first) + _covered(second) - _covered(sorted([*first, *second]))


def _covered(intervals: Sequence[tuple[float, float]]) -> float:
    total, until = 0.0, float("-inf")
    for start, end in intervals:
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def schedule(order: Sequence[Work | tuple[str, int, int]], durations_ms: Mapping[str, float]) -> StreamTimeline:
    """Return when each piece of work runs if engines and streams both keep to the order in which it was enqueued.

    Raises ArgumentError for an unknown engine, and for a part that is not copied in, computed and copied out in this
    order, once each, in one stream.
    """
    works = [work if isinstance(work, Work) else Work(*work) for work in order]
    _require_order(works)
    free: dict[Any, float] = {}
    spans = []
    for work in works:
        start = max(free.get(work.engine, 0.0), free.get(work.stream, 0.0))
        end = start + durations_ms[work.engine]
        free[work.engine] = free[work.stream] = end
        spans.append(TimedWork(work, start, end))
    return StreamTimeline(tuple(spans), recorded=False)


def _require_order(works: Sequence[Work]) -> None:
    parts: dict[int, list[Work]] = {}
    for work in works:
        if work.engine not in ENGINES:
            raise ArgumentError(f"there is no engine {work.engine!r}", next_step=f"There are {', '.join(ENGINES)}.")
        parts.setdefault(work.part, []).append(work)
    if not parts:
        raise ArgumentError("nothing was enqueued")
    for part, found in parts.items():
        if tuple(work.engine for work in found) != ENGINES:
            told = ", ".join(work.engine for work in found)
            raise ArgumentError(f"part {part} was enqueued as {told}", next_step=f"Needed: {', '.join(ENGINES)}.")
        if len({work.stream for work in found}) > 1:
            raise ArgumentError(f"part {part} is spread over several streams: nothing keeps its order there")


@dataclass(frozen=True, eq=False)
class InParts:
    """What came of a batch in parts; `timeline` is None on a device without a clock."""

    labels: np.ndarray
    timeline: StreamTimeline | None


def classify_in_parts(
    network: Network, images: npt.ArrayLike, *, parts: int, streams: int, pinned: bool = True
) -> InParts:
    """Classify images in equal parts, part p in stream p % streams, each stream with an arena of its own.

    `pinned`: copy from and to page-locked memory; from pageable memory the host has to wait. Where the device has a
    clock all is done twice, and the second time is recorded. Raises ArgumentError for a number of images that `parts`
    does not divide.
    """
    host = np.asarray(images, network.dtype)
    if parts < 1 or streams < 1 or len(host) % parts:
        raise ArgumentError(f"{len(host)} images in {parts} parts and {streams} streams", next_step="Use equal parts.")
    device = network.kernels.device
    size = len(host) // parts
    graph = build(network.layers, size, network.image_shape, dtype=network.dtype)
    result = graph.values[network.result]
    make = device.pinned if pinned else np.empty
    x, labels = make(host.shape, host.dtype), make((len(host), *result.shape[1:]), result.dtype)
    x[...] = host
    queues = [device.Stream(non_blocking=True) for _ in range(min(streams, parts))]
    sessions = [Session(graph, network.kernels, guarded=False, stream=queue) for queue in queues]
    for session in sessions:
        session.load(network.parameters)
    device.synchronize()
    events: list[tuple[Work, Any, Any]] = []
    for _ in range(2 if device.measures_time else 1):
        origin = device.Event()
        origin.record(queues[0])
        events = list(_enqueue(sessions, queues, x, labels, parts, network.result))
        device.synchronize()
    if not device.measures_time:
        return InParts(labels, None)
    elapsed = device.elapsed_ms
    spans = tuple(TimedWork(work, elapsed(origin, before), elapsed(origin, after)) for work, before, after in events)
    return InParts(labels, StreamTimeline(spans, recorded=True))


def _enqueue(
    sessions: Sequence[Session], queues: Sequence[Any], x: np.ndarray, labels: np.ndarray, parts: int, result: str
) -> Iterator[tuple[Work, Any, Any]]:
    """Enqueue all parts, and yield each piece of work with its events."""
    size = len(x) // parts
    for part in range(parts):
        stream = part % len(queues)
        session, queue = sessions[stream], queues[stream]
        rows = slice(part * size, (part + 1) * size)
        marks = [_mark(session, queue)]
        session["x"].set(x[rows], stream=queue)
        marks.append(_mark(session, queue))
        session.run()
        marks.append(_mark(session, queue))
        session[result].get(out=labels[rows], stream=queue)
        marks.append(_mark(session, queue))
        for engine, before, after in zip(ENGINES, marks, marks[1:], strict=False):
            yield Work(engine, part, stream), before, after


def _mark(session: Session, queue: Any) -> Any:
    event = session.device.Event()
    event.record(queue)
    return event
