"""What streams leave unordered: accesses to the same bytes of which neither must come before the other.

Every stream has a clock with an entry for each stream: how much of that one's work has ended before what comes next
here. Events carry clocks from one stream to another, and what the host waits for everybody knows. The simulator itself
runs all work in the order of the calls, so a race of streams never shows in what a program computes here.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpschool.programs.wire import NON_BLOCKING

_REMEMBERED = 256
"""Accesses to one allocation that later ones are compared with."""
_Clock = dict[int, int]


@dataclass(frozen=True)
class Bytes:
    """Some bytes of an allocation: all from `start` to `end`, or those that a mask says, `granule` at a time."""

    start: int
    end: int
    mask: npt.NDArray[np.bool_] | None = None
    granule: int = 1

    @staticmethod
    def of(mask: npt.NDArray[np.bool_], granule: int) -> Bytes:
        places = np.flatnonzero(mask)
        if not places.size:
            return NOTHING
        return Bytes(int(places[0]) * granule, (int(places[-1]) + 1) * granule, mask, granule)

    def meets(self, other: Bytes) -> bool:
        """Whether some byte is in both."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return start < end and bool(np.any(self._within(start, end) & other._within(start, end)))

    def _within(self, start: int, end: int) -> npt.NDArray[np.bool_]:
        if self.mask is None:
            return np.ones(end - start, np.bool_)
        first = start // self.granule
        part = np.repeat(self.mask[first : -(-end // self.granule)], self.granule)
        return part[start - first * self.granule :][: end - start]


NOTHING = Bytes(0, 0)


@dataclass(frozen=True)
class Access:
    """What some work of a stream does to one allocation."""

    stream: int
    moment: int
    what: str
    reads: Bytes
    writes: Bytes

    def disturbs(self, other: Access) -> bool:
        return self.writes.meets(other.writes) or self.writes.meets(other.reads) or self.reads.meets(other.writes)


@dataclass
class Streams:
    """The clocks, and the last accesses to each allocation by its number."""

    several: bool = False
    """whether there is work outside the default stream"""
    _clocks: dict[int, _Clock] = field(default_factory=dict)
    _host: _Clock = field(default_factory=dict)
    _events: dict[int, _Clock] = field(default_factory=dict)
    _recent: dict[int, deque[Access]] = field(default_factory=dict)

    def begin(self, stream: int) -> int:
        """Some work is put into a stream; its moment there."""
        self.several = self.several or stream != 0
        clock = self._now(stream)
        clock[stream] = clock.get(stream, 0) + 1
        return clock[stream]

    def moment(self, stream: int) -> int:
        """Of the last work of a stream."""
        return self._clocks[stream][stream]

    def record(self, event: int, stream: int) -> None:
        self._events[event] = dict(self._now(stream))

    def wait(self, stream: int, event: int) -> None:
        _join(self._now(stream), self._events.get(event, {}))

    def host_waits(self, *, stream: int | None = None, event: int | None = None) -> None:
        """For a stream, an event, or with neither for all."""
        if event is not None:
            _join(self._host, self._events.get(event, {}))
        elif stream is not None:
            _join(self._host, self._now(stream))
        else:
            for clock in self._clocks.values():
                _join(self._host, clock)

    def access(self, piece: int, now: Access) -> Access | None:
        """Keeps an access; returns an earlier one that it disturbs and nothing orders before it."""
        clock = self._clocks[now.stream]
        recent = self._recent.setdefault(piece, deque(maxlen=_REMEMBERED))
        while recent and recent[0].moment <= self._host.get(recent[0].stream, 0):
            recent.popleft()
        loose = (a for a in recent if a.stream != now.stream and a.moment > clock.get(a.stream, 0))
        found = next((a for a in loose if now.disturbs(a)), None)
        recent.append(now)
        return found

    def _now(self, stream: int) -> _Clock:
        """A stream's clock with all that its next work comes behind. The default stream waits for others, and they for
        it, but for those that were made not to."""
        clock = self._clocks.setdefault(stream, {})
        _join(clock, self._host)
        if stream == 0:
            for other, theirs in self._clocks.items():
                if not other & NON_BLOCKING:
                    _join(clock, theirs)
        elif not stream & NON_BLOCKING:
            _join(clock, self._clocks.get(0, {}))
        return clock


def _join(clock: _Clock, other: _Clock) -> None:
    for stream, moment in other.items():
        if moment > clock.get(stream, 0):
            clock[stream] = moment
