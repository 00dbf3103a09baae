"""Launches side by side: which of them wait for which, and a recording of a session in which the others may overlap.

A small batch's kernels leave most of a GPU idle. The gradient of a layer's weights is needed by nobody but the
optimizer, so it can be computed while the slopes go on to the layer before. What may overlap follows from memory alone:
a launch waits for those before it that wrote what it touches, and for those that read what it writes. Only arrays are
looked at: a file whose kernels leave something for others in a `__device__` variable is not for this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warpschool.contract import Contract
from warpschool.device import DeviceArray, Launch
from warpschool.nn.graph import Graph
from warpschool.nn.session import Session

QUEUES = 2
"""Streams of a recording. More were hardly faster on an H200: kernels that run at once share its SMs."""

APART_BYTES = 4 << 30
"""Arrays of a graph that have no more in all get places of their own: those that share one wait for each other."""

Span = tuple[int, int]
"""First byte of some memory, and the first behind it."""


@dataclass(frozen=True, eq=False)
class Piece:
    """A launch and the memory that it touches."""

    launch: Launch
    reads: tuple[Span, ...]
    writes: tuple[Span, ...]

    def waits_for(self, earlier: Piece) -> bool:
        return _meet(self.reads + self.writes, earlier.writes) or _meet(self.writes, earlier.reads)


def _meet(some: Iterable[Span], others: Sequence[Span]) -> bool:
    return any(a[0] < b[1] and b[0] < a[1] for a in some for b in others)


def pieces(session: Session) -> list[Piece]:
    """The launches of a session's last run in their order. Arrays are written unless the kernel's header says `in`."""
    return [_piece(contract, arrays, launch) for contract, arrays, launch in session.parts()]


def _piece(contract: Contract, arrays: Mapping[str, DeviceArray], launch: Launch) -> Piece:
    touched = [
        (parameter.direction, _span(arrays[parameter.name]))
        for parameter in contract.entry(launch.kernel).parameters if parameter.is_array
    ]  # fmt: skip
    return Piece(
        launch,
        tuple(span for direction, span in touched if direction != "out"),
        tuple(span for direction, span in touched if direction != "in"),
    )


def may_lie_apart(graph: Graph) -> bool:
    """Whether a graph is so small that its arrays need not share memory."""
    return sum(value.nbytes for value in graph.values.values()) <= APART_BYTES


def _span(array: DeviceArray) -> Span:
    return array.address, array.address + array.nbytes


def dependencies(found: Sequence[Piece]) -> list[tuple[int, ...]]:
    """For each piece the numbers of those before it that it waits for."""
    return [tuple(m for m in range(n) if piece.waits_for(found[m])) for n, piece in enumerate(found)]


def queues(waits: Sequence[Sequence[int]], count: int) -> list[int]:
    """The queue of each piece: behind the last one that it waits for, if nothing else is there; else another one."""
    last: list[int] = [-1] * count  # the last piece of each queue
    chosen: list[int] = []
    for n, before in enumerate(waits):
        ends = [chosen[m] for m in before if last[chosen[m]] == m]
        queue = ends[-1] if ends else min(range(count), key=last.__getitem__)
        chosen.append(queue)
        last[queue] = n
    return chosen


def record(session: Session, stream: Any, count: int = QUEUES) -> Any:
    """A CUDA graph of the session's run, for a GPU, in so many queues; `stream` is the one that the session uses.

    Sessions with calls that do more than launch are recorded one call after the other.
    """
    with stream:
        stream.begin_capture()
        if session.repeats:
            _fork(pieces(session), count, stream, session.device)
        else:
            session.run()
        return stream.end_capture()


def _fork(found: Sequence[Piece], count: int, stream: Any, device: Any) -> None:
    """Put the pieces into several streams that begin and end with this one."""
    waits = dependencies(found)
    chosen = queues(waits, count)
    streams = [stream, *(device.Stream(non_blocking=True) for _ in range(max(chosen, default=0)))]
    begun = stream.record()
    done: list[Any] = []
    for other in streams[1:]:
        other.wait_event(begun)
    for piece, before, queue in zip(found, waits, chosen, strict=True):
        own, launch = streams[queue], piece.launch
        for m in before:
            if chosen[m] != queue:
                own.wait_event(done[m])
        launch.call.kernel(launch.grid, launch.block, launch.call.arguments, shared_mem=launch.shared_mem, stream=own)
        done.append(own.record())
    for other in streams[1:]:
        stream.wait_event(other.record())
