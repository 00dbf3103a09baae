"""What generated code has written down of asynchronous work, cluster by cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ptxsim.codegen import layout as L
from ptxsim.limits import WARP
from ptxsim.run.spare import Spare

_MOST_WAITING = 16 * L.ASYNC_RECORDS
"""Records of a cluster that are kept until it is over; of a longer one the first are judged before."""
_RECORD = np.dtype(L.AsyncRecord)
_BYTES = L.ASYNC_RECORDS * _RECORD.itemsize
_spare = Spare(1 << 24)
_WITH_LANES, _WITH_PLACES = (
    np.isin(np.arange(len(L.AsyncEvent)), kinds)
    for kinds in (
        (L.AsyncEvent.OPEN, L.AsyncEvent.ARRIVE, L.AsyncEvent.ACCESS, L.AsyncEvent.PEER),
        (L.AsyncEvent.ARRIVE, L.AsyncEvent.WAITED),
    )
)
"""kind of an event -> whether `lanes`, and `places`, say something of those in its mask"""


@dataclass(frozen=True, slots=True)
class Told:
    """What an event says beside its kind, its warp and a mask (`L.AsyncEvent`)."""

    rank: int
    block: int
    words: list[int]
    lanes: npt.NDArray[np.int32]
    places: npt.NDArray[np.int64]
    """where each lane's object lies, counted from the block's shared memory"""


@dataclass(frozen=True)
class Piece:
    """Records that follow each other, and what they say wherever a cluster stands in the grid and in memory.

    `lanes` and `places` have a row for each record of which they say something; `before` counts these up to a record.
    """

    records: np.ndarray
    plain: npt.NDArray[np.uint64]
    lanes: npt.NDArray[np.int32]
    lanes_before: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    places_before: npt.NDArray[np.int64]

    @classmethod
    def of(cls, r: np.ndarray) -> Piece:
        kind, mask, notice = r["kind"], r["mask"], r["notice"]
        plain = np.empty((len(r), 12), np.uint64)
        for column, values in enumerate((kind, r["warp"], r["rank"], mask)):
            plain[:, column] = values
        plain[:, 4:] = notice["words"].view(np.uint64)
        some, placed = _WITH_LANES[kind], _WITH_PLACES[kind]
        lanes = np.where(_lanes_in(mask[some]), notice["lanes"][some], 0)
        places = np.where(_lanes_in(mask[placed]), _places(r["addresses"][placed], r["shared"][placed]), 0)
        return cls(r, plain, lanes, _counted(some), places, _counted(placed))

    def __len__(self) -> int:
        return len(self.records)

    def between(self, first: int, last: int) -> Piece:
        """A part of it."""
        a, b, c, d = (int(n[at]) for n in (self.lanes_before, self.places_before) for at in (first, last))
        counts = slice(first, last + 1)
        return Piece(
            self.records[first:last], self.plain[first:last], self.lanes[a:b], self.lanes_before[counts] - a,
            self.places[c:d], self.places_before[counts] - c,
        )  # fmt: skip


@dataclass(frozen=True)
class Sequence:
    """What happened to the cluster in one place, all of it or a part."""

    number: int
    pieces: list[Piece]
    is_whole: bool

    def digest(self, worker: L.WorkerState) -> int:
        """The same for clusters that did the same, wherever they stand in the grid and in memory."""
        shape = np.array([worker.shared_bytes, worker.shared_stride, *worker.cluster_size], np.uint64)
        told = [getattr(piece, name) for name in ("plain", "lanes", "places") for piece in self.pieces]
        return hash(b"".join(array.tobytes() for array in (shape, *told)))

    def events(self) -> Iterator[tuple[int, int, int, Told]]:
        """(kind, warp, mask, what else is told), in order."""
        for piece in self.pieces:
            r = piece.records
            places, lanes = _places(r["addresses"], r["shared"]), r["notice"]["lanes"]
            words = r["notice"]["words"].tolist()
            plain = (r[name].tolist() for name in ("kind", "warp", "mask", "rank", "block"))
            for k, (kind, warp, mask, rank, block) in enumerate(zip(*plain, strict=True)):
                yield kind, warp, mask, Told(rank, block, words[k], lanes[k], places[k])


def _places(addresses: npt.NDArray[np.uint64], shared: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Where each lane's object lies, counted from the block's shared memory."""
    return (addresses - shared[:, None]).view(np.int64)


def _lanes_in(masks: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Which lanes are in masks."""
    by_bytes = masks.astype("<u4").view(np.uint8).reshape(-1, WARP // 8)
    return np.unpackbits(by_bytes, axis=1, bitorder="little").view(np.bool_)


def _counted(some: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """How many there are before each place, and in all."""
    return np.concatenate([[0], np.cumsum(some)])


class Log:
    """The records of one host thread, which code writes and `Follower` takes."""

    def __init__(self, worker: L.WorkerState, blocks: int) -> None:
        self._worker, self._blocks = worker, blocks
        room = _spare.take(_BYTES)
        self._array = (np.empty(_BYTES, np.uint8) if room is None else room).view(_RECORD)
        worker.records = self._array.ctypes.data
        self._waiting: defaultdict[int, list[Piece]] = defaultdict(list)
        """by the place of a cluster: what has not been judged"""
        self._judged: set[int] = set()
        """places of clusters that are judged in parts"""

    @property
    def is_full(self) -> bool:
        return int(self._worker.record_count) >= L.ASYNC_RECORDS

    def over(self) -> Iterator[Sequence]:
        """What has come to its end: clusters, and parts of those that have gone on for long."""
        yield from self._take()
        for number, pieces in [*self._waiting.items()]:
            if sum(map(len, pieces)) > _MOST_WAITING:
                self._judged.add(number)
                yield self._sequence(number)

    def rest(self) -> Iterator[Sequence]:
        """All that is left."""
        yield from self._take()
        for number in [*self._waiting]:
            yield self._sequence(number)
            self._judged.add(number)

    def close(self) -> None:
        """Nothing more is written down: the next launch has the room."""
        _spare.give([self._array])
        del self._array

    def _sequence(self, number: int) -> Sequence:
        return Sequence(number, self._waiting.pop(number), number not in self._judged)

    def _take(self) -> Iterator[Sequence]:
        """Sorts the records by cluster, and makes room for others; a cluster is over when another begins in its place.
        """
        fresh = self._array[: int(self._worker.record_count)].copy()
        self._worker.record_count = 0
        numbers = fresh["resident"] // self._blocks
        begins = (fresh["kind"] == L.AsyncEvent.BLOCK) & (fresh["rank"] == 0)
        for number in np.unique(numbers).tolist():
            own = numbers == number
            mine, starts = Piece.of(fresh if own.all() else fresh[own]), np.flatnonzero(begins[own]).tolist()
            for k, (first, last) in enumerate(pairwise([0, *starts, len(mine)])):
                if k and self._waiting[number]:  # a new one begins
                    yield self._sequence(number)
                if k:
                    self._judged.discard(number)
                if last > first:
                    self._waiting[number].append(mine.between(first, last))
