"""What translated code counts, and how the numbers become named counters per source line.

Most counts are fixed by how often each basic block ran: they are constants times the block's execution count. The rest
(sectors of addresses known only at run time, bank conflicts of irregular accesses) have counters of their own.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class AccessSite:
    """One memory access in the code, as hazards and counters refer to it."""

    line: int
    space: str
    access: str
    """"read", "write" or "atomic" """


@dataclass
class CounterPlan:
    """Which cell of the counter array holds what."""

    size: int = 0
    per_block: list[tuple[int, str, int, int]] = field(default_factory=list)
    """(cell of an execution count, name, source line, factor)"""
    direct: list[tuple[int, str, int]] = field(default_factory=list)
    """(cell, name, source line)"""

    def cell(self, count: int = 1) -> int:
        """Reserves `count` neighbouring cells; returns the first."""
        self.size += count
        return self.size - count

    def scaled(self, cell: int, name: str, line: int, factor: int) -> None:
        if factor:
            self.per_block.append((cell, name, line, factor))

    def named(self, cell: int, name: str, line: int) -> None:
        self.direct.append((cell, name, line))

    def evaluate(self, cells: np.ndarray) -> dict[int, dict[str, int]]:
        """Counters by source line, from the counter array (uint64, shape (size,))."""
        lines: defaultdict[int, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        values = [int(c) for c in cells]
        for cell, name, line, factor in self.per_block:
            if values[cell]:
                lines[line][name] += values[cell] * factor
        for cell, name, line in self.direct:
            if values[cell]:
                lines[line][name] += values[cell]
        return {line: dict(names) for line, names in sorted(lines.items())}
