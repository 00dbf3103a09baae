"""What generated code has written down of asynchronous work, cluster by cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ptxsim.codegen import layout as L
from ptxsim.limits import WARP

_MOST_WAITING = 16 * L.ASYNC_RECORDS
"""Records of a cluster that are kept until it is over; of a longer one the first are judged before."""
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
class Sequence:
    """What happened to the cluster in one place, all of it or a part."""

    number: int
    records: np.ndarray
    is_whole: bool

    def digest(self, worker: L.WorkerState) -> int:
        """The same for clusters that did the same, wherever they stand in the grid and in memory."""
        r = self.records
        kind = r["kind"]
        told = [kind, r["warp"], r["rank"], r["mask"], r["notice"]["words"]]
        with_lanes, with_places = r[_WITH_LANES[kind]], r[_WITH_PLACES[kind]]
        told.append(np.where(_lanes_in(with_lanes), with_lanes["notice"]["lanes"], 0))
        told.append(np.where(_lanes_in(with_places), _places(with_places), 0))
        shape = np.array([worker.shared_bytes, worker.shared_stride, *worker.cluster_size], np.uint64)
        return hash(b"".join(piece.tobytes() for piece in (shape, *told)))

    def events(self) -> Iterator[tuple[int, int, int, Told]]:
        """(kind, warp, mask, what else is told), in order."""
        r, places = self.records, _places(self.records)
        plain = (r[name].tolist() for name in ("kind", "warp", "mask", "rank", "block"))
        words, lanes = r["notice"]["words"].tolist(), r["notice"]["lanes"]
        for k, (kind, warp, mask, rank, block) in enumerate(zip(*plain, strict=True)):
            yield kind, warp, mask, Told(rank, block, words[k], lanes[k], places[k])


def _places(records: np.ndarray) -> npt.NDArray[np.int64]:
    """Where each lane's object lies, counted from the block's shared memory."""
    return (records["addresses"] - records["shared"][:, None]).view(np.int64)


def _lanes_in(records: np.ndarray) -> npt.NDArray[np.bool_]:
    """Which lanes are in the masks of records."""
    masks = records["mask"].astype("<u4").view(np.uint8).reshape(-1, WARP // 8)
    return np.unpackbits(masks, axis=1, bitorder="little").view(np.bool_)


class Log:
    """The records of one host thread, which code writes and `Follower` takes."""

    def __init__(self, worker: L.WorkerState, blocks: int) -> None:
        self._worker, self._blocks = worker, blocks
        self._array = np.zeros(L.ASYNC_RECORDS, np.dtype(L.AsyncRecord))
        worker.records = self._array.ctypes.data
        self._waiting: defaultdict[int, list[np.ndarray]] = defaultdict(list)
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

    def _sequence(self, number: int) -> Sequence:
        pieces = self._waiting.pop(number)
        return Sequence(number, pieces[0] if len(pieces) == 1 else np.concatenate(pieces), number not in self._judged)

    def _take(self) -> Iterator[Sequence]:
        """Sorts the records by cluster, and makes room for others; a cluster is over when another begins in its place.
        """
        fresh = self._array[: int(self._worker.record_count)].copy()
        self._worker.record_count = 0
        numbers = fresh["resident"] // self._blocks
        begins = (fresh["kind"] == L.AsyncEvent.BLOCK) & (fresh["rank"] == 0)
        for number in np.unique(numbers).tolist():
            own = numbers == number
            mine, starts = fresh if own.all() else fresh[own], np.flatnonzero(begins[own])
            for piece, is_new in zip(np.split(mine, starts), [False, *[True] * len(starts)], strict=True):
                if is_new and self._waiting[number]:
                    yield self._sequence(number)
                if is_new:
                    self._judged.discard(number)
                if len(piece):
                    self._waiting[number].append(piece)
