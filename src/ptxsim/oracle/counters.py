"""What Nsight Compute would count, computed the obvious way: from every lane's address."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from ptxsim.limits import BANKS, SECTOR_BYTES, WARP, WORD_BYTES
from ptxsim.syntax.program import Instruction

_KEY_BITS = 52
"""Keys for np.unique: the number of a warp or phase above, a sector or word below."""


@dataclass
class Counts:
    """Counters by plain name, in total and by source line."""

    totals: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    lines: defaultdict[int, defaultdict[str, int]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(int))
    )

    def add(self, name: str, line: int, amount: int) -> None:
        if amount:
            self.totals[name] += int(amount)
            self.lines[line][name] += int(amount)

    def add_all(self, kind: str, line: int, **amounts: int) -> None:
        """Adds to several counters, whose names all begin with `kind`."""
        for name, amount in amounts.items():
            self.add(f"{kind}_{name}", line, amount)

    def instruction(self, i: Instruction, warps: int, threads: int) -> None:
        """One instruction, executed by `warps` warps with `threads` active lanes in all."""
        if i.added:  # stands for a predicate, or moves the call stack
            return
        line = i.source.line
        self.add("warp_instructions", line, warps)
        self.add("thread_instructions", line, threads)
        self.add(f"instructions_{i.counted}", line, warps)
        self.add(f"thread_instructions_{i.counted}", line, threads)
        if i.row.tally_warps:
            self.add(i.row.tally_warps, line, warps)
        if i.types and i.type in i.row.tally:
            self.add(i.row.tally[i.type], line, threads)

    def global_access(self, kind: str, line: int, address: np.ndarray, active: np.ndarray, size: int) -> None:
        """A load or store of `size` bytes per lane at `address`, shape (warps, 32); one request per warp."""
        sectors, ideal = _sectors(address, active, size)
        self.add_all(
            f"global_{kind}", line, requests=active.any(axis=1).sum(), bytes=active.sum() * size, sectors=sectors,
            sectors_ideal=ideal,
        )  # fmt: skip

    def async_access(
        self, line: int, address: np.ndarray, to: np.ndarray, reading: np.ndarray, active: np.ndarray, size: int,
        *, past_l1: bool,
    ) -> None:  # fmt: skip
        """A cp.async of `size` bytes per lane: a load for the lanes that read; the others only fill with zeros.

        Past L1, an H200 takes lanes together that want one 128-byte line and go to one sector of shared memory.
        """
        sectors, ideal = _sectors(address, reading, size)
        placed = sectors
        if past_l1:
            warp = np.nonzero(reading)[0]
            lines, places = address[reading].astype(np.int64) >> 7, to[reading].astype(np.int64) // SECTOR_BYTES
            placed = len(np.unique(np.stack([warp, lines, places]), axis=1).T)
        self.add_all(
            "global_load", line, requests=reading.any(axis=1).sum(), bytes=reading.sum() * size, sectors=placed,
            sectors_ideal=ideal,
        )  # fmt: skip
        self.add_all(
            "async_copy", line, sectors=sectors, sectors_placed=placed, requests=active.any(axis=1).sum(),
            bytes=active.sum() * size,
        )  # fmt: skip

    def constant_access(self, line: int, address: np.ndarray, active: np.ndarray) -> None:
        """A load from constant memory: a pass for each distinct word."""
        passes = sum(len(np.unique(row[mask] // WORD_BYTES)) for row, mask in zip(address, active, strict=True))
        self.add_all("constant_load", line, requests=active.any(axis=1).sum(), passes=passes)

    def local_access(self, kind: str, line: int, address: np.ndarray, active: np.ndarray, size: int) -> None:
        """A load or store of `size` bytes per lane at `address` of its own memory, shape (warps, 32)."""
        self.add(f"local_{kind}_requests", line, active.any(axis=1).sum())

    def shared_bytes(self, kind: str, line: int, active: np.ndarray, size: int) -> None:
        """What a shared load or store of `size` bytes per lane moves; `shared_access` counts its requests."""
        self.add(f"shared_{kind}_bytes", line, active.sum() * size)

    def shared_access(self, kind: str, line: int, address: np.ndarray, active: np.ndarray, size: int) -> None:
        """Shared memory: 64-bit accesses go half a warp at a time, 128-bit ones a quarter.

        Twice as many lanes go together where every lane i wants the address of lane i^1, or every one that of i^2.
        A phase takes as many wavefronts as the busiest bank has distinct words; all but one are bank conflicts.
        """
        warp, lane = np.nonzero(active)
        if not len(warp):
            return
        phases = {8: 2, 16: 4}.get(size, 1)
        own_phases = np.where(in_pairs(address, active), max(1, phases // 2), phases)
        phase = warp * phases + lane * own_phases[warp] // WARP
        word = (address[active].astype(np.int64) & 0xFFFFFFFF) // WORD_BYTES  # a wrong address may be longer
        words = np.unique((phase << _KEY_BITS | word)[:, None] + np.arange(max(1, size // WORD_BYTES)))
        per_bank = np.bincount((words >> _KEY_BITS) * BANKS + words % BANKS, minlength=BANKS * len(active) * phases)
        ways = per_bank.reshape(-1, BANKS).max(axis=1)
        self.add_all(
            f"shared_{kind}", line, requests=len(np.unique(warp)), wavefronts=ways.sum(),
            bank_conflicts=np.maximum(ways - 1, 0).sum(),
        )  # fmt: skip


def in_pairs(address: np.ndarray, active: np.ndarray) -> np.ndarray:
    """Warps whose lanes i and i^1 all want the same address, or all lanes i and i^2; as an H200 pairs them."""
    lanes = np.arange(WARP)
    found = np.zeros(len(address), bool)
    for distance in (1, 2):
        differs = (address != address[:, lanes ^ distance]) & active & active[:, lanes ^ distance]
        found |= ~differs.any(axis=1)
    return found


def _sectors(address: np.ndarray, active: np.ndarray, size: int) -> tuple[int, int]:
    """Sectors that each warp's lanes touch, and how few could hold the distinct bytes, summed over warps."""
    warp = np.nonzero(active)[0]
    if not len(warp):
        return 0, 0
    first = address[active].astype(np.int64)
    ends = np.concatenate([first, first + size - 1]) // SECTOR_BYTES
    ideal = 0
    for w in np.unique(warp):
        starts = np.sort(first[warp == w])
        # Of equally long ranges in order, each adds what lies before the start of the next.
        distinct_bytes = size + int(np.minimum(np.diff(starts), size).sum())
        ideal += -(-distinct_bytes // SECTOR_BYTES)
    return len(np.unique(np.tile(warp, 2) << _KEY_BITS | ends)), ideal
