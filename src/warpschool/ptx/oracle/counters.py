"""What Nsight Compute would count, computed the obvious way: from every lane's address."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from ..program import Instruction
from ..translate.plan import instruction_class

SECTOR_BYTES = 32
BANKS, WORD_BYTES = 32, 4
WARP = 32


@dataclass
class Counts:
    """Counters by plain name, in total and by source line."""

    totals: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    lines: defaultdict[int, defaultdict[str, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))

    def add(self, name: str, line: int, amount: int) -> None:
        if amount:
            self.totals[name] += int(amount)
            self.lines[line][name] += int(amount)

    def instruction(self, i: Instruction, warps: int, threads: int) -> None:
        """One instruction, executed by `warps` warps with `threads` active lanes in all."""
        line = i.source.line
        self.add("warp_instructions", line, warps)
        self.add("thread_instructions", line, threads)
        self.add(f"instructions_{instruction_class(i.opcode, i.modifiers)}", line, warps)
        name = {"fma": "fma", "mad": "fma", "add": "fadd", "sub": "fadd", "mul": "fmul"}.get(i.opcode)
        if name and i.types and i.type == "f32":
            self.add(f"{name}_instructions", line, threads)

    def global_access(self, kind: str, line: int, address: np.ndarray, active: np.ndarray, size: int) -> None:
        """A load or store of `size` bytes per lane at `address`, shape (warps, 32); one request per warp."""
        for row, mask in zip(address, active, strict=True):
            if not mask.any():
                continue
            first = np.unique(row[mask])
            touched = np.unique((first[:, None] + np.arange(size, dtype=np.uint64)).ravel())
            self.add(f"global_{kind}_requests", line, 1)
            self.add(f"global_{kind}_bytes", line, int(mask.sum()) * size)
            self.add(f"global_{kind}_sectors", line, len(np.unique(touched // SECTOR_BYTES)))
            self.add(f"global_{kind}_sectors_ideal", line, -(-len(touched) // SECTOR_BYTES))

    def shared_access(self, kind: str, line: int, address: np.ndarray, active: np.ndarray, size: int) -> None:
        """Shared memory: 64-bit accesses go half a warp at a time, 128-bit ones a quarter.

        A phase takes as many wavefronts as the busiest bank has distinct words; all but one are bank conflicts.
        """
        phases = {8: 2, 16: 4}.get(size, 1)
        words = max(1, size // WORD_BYTES)
        for row, mask in zip(address, active, strict=True):
            if not mask.any():
                continue
            self.add(f"shared_{kind}_requests", line, 1)
            self.add(f"shared_{kind}_bytes", line, int(mask.sum()) * size)
            for lanes in np.split(np.arange(WARP), phases):
                chosen = row[lanes][mask[lanes]] // WORD_BYTES
                if not len(chosen):
                    continue
                wanted = np.unique((chosen[:, None] + np.arange(words, dtype=np.uint64)).ravel())
                ways = int(np.bincount((wanted % BANKS).astype(np.int64)).max())
                self.add(f"shared_{kind}_wavefronts", line, ways)
                self.add(f"shared_{kind}_bank_conflicts", line, ways - 1)
