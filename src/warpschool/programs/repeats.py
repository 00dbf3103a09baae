"""Launches that would do again what they did before: programs that measure repeat a launch a hundred times.

A launch that reads nothing of what it writes, and prints nothing, is decided by the bytes that it reads. As long as
nobody has changed those, nor what it wrote, the same launch would leave everything as it is. Its outcome is then that
of before, and nothing is run. Changes are followed by allocation: copies, fills, other launches, libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from ptxsim import Allocation, LaunchRecord

_MOST_KNOWN = 256
Launch = tuple[object, ...]
"""All that a launch is asked for: the function, its shape, its parameters."""


@dataclass
class Repeats:
    """`is_ours` says of an allocation whether all that changes it is told here: no host writes there unseen."""

    is_ours: Callable[[Allocation], bool]
    _now: int = 0
    _changes: dict[int, int] = field(default_factory=dict)
    """by an allocation's address: when it was changed last"""
    _all_changed: int = 0
    _known: dict[Launch, tuple[int, LaunchRecord]] = field(default_factory=dict)
    """when such a launch was run, and its outcome"""

    def change(self, *allocations: Allocation) -> None:
        """Somebody writes there, or may."""
        self._now += 1
        self._changes.update(dict.fromkeys((a.address for a in allocations), self._now))

    def change_all(self) -> None:
        """Anything may have been written to, or allocated anew."""
        self._now += 1
        self._all_changed = self._now
        self._changes.clear()
        self._known.clear()

    def outcome(self, launch: Launch, watched: Collection[int]) -> LaunchRecord | None:
        """What the launch would do, where that is known and changes nothing; `watched` are addresses of which the
        outcome has to say how they were used."""
        at, record = self._known.get(launch, (0, None))
        if record is None:
            return None
        used = (*record.reach.read, *record.reach.written)
        if any(self._changes.get(a.address, 0) > at for a in used):
            del self._known[launch]
            return None
        told = {touched.address for touched in record.touched or ()}
        return None if any(a.address in watched and a.address not in told for a in used) else record

    def ran(self, launch: Launch, record: LaunchRecord) -> None:
        """The launch was run, with this outcome."""
        reach = record.reach
        self.change(*reach.written)
        if reach.settled and all(map(self.is_ours, (*reach.read, *reach.written))):
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[launch] = self._now, record
