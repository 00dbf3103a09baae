"""Which counters stand beside a source line, and how they are written; terminal and HTML show the same columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from warpschool.counters import Counters

NO_ARITHMETIC = "they do no single-precision arithmetic outside tensor cores"


@dataclass(frozen=True)
class LineColumn:
    """One column of a line report; `excess` is the part of `value` that a better kernel would not need."""

    head: str
    meaning: str
    value: Callable[[Counters], int]
    excess: Callable[[Counters], int] = lambda _: 0

    def text(self, counters: Counters | None) -> str:
        """The cell's text, "" for zero; a wasted part is written out as "(+n)", never by colour alone."""
        if counters is None or not self.value(counters):
            return ""
        wasted = self.excess(counters)
        return f"{short(self.value(counters))}{f' (+{short(wasted)})' if wasted else ''}"


LINE_COLUMNS: tuple[LineColumn, ...] = (
    LineColumn("instructions", "PTX instructions, counted once per warp", lambda c: c.warp_instructions),
    LineColumn("FMA", "multiply-adds, counted per thread", lambda c: c.fma_instructions),
    LineColumn(
        "load sectors",
        "32-byte sectors that global loads touch; (+n): n more than the fewest possible",
        lambda c: c.global_load_sectors,
        lambda c: c.excess_load_sectors,
    ),
    LineColumn(
        "store sectors",
        "32-byte sectors that global stores touch; (+n): n more than the fewest possible",
        lambda c: c.global_store_sectors,
        lambda c: c.excess_store_sectors,
    ),
    LineColumn(
        "atomics", "warp-wide atomics on global memory",
        lambda c: c.global_atomic_requests + c.global_reduction_requests,
    ),
    LineColumn(
        "shared passes",
        "passes (wavefronts) of shared loads and stores; (+n): n of them because of bank conflicts",
        lambda c: c.shared_load_wavefronts + c.shared_store_wavefronts,
        lambda c: c.shared_bank_conflicts,
    ),
    LineColumn(
        "local", "requests to local memory: spilled registers and local arrays",
        lambda c: c.local_load_requests + c.local_store_requests,
    ),
    LineColumn("tensor", "matrix instructions on tensor cores, per warp", lambda c: c.tensor_instructions),
    LineColumn("barriers", "block-wide barriers, counted once per warp", lambda c: c.barriers),
    LineColumn("divergent", "branches at which the threads of a warp parted ways", lambda c: c.divergent_branches),
)  # fmt: skip


def used_columns(lines: Iterable[Counters]) -> tuple[LineColumn, ...]:
    """The columns that are not zero on every line."""
    found = list(lines)
    return tuple(column for column in LINE_COLUMNS if any(column.value(counters) for counters in found))


def shares(lines: Mapping[int, Counters]) -> dict[int, float]:
    """Line -> its share of all warp instructions: what "hot" means in the reports."""
    total = sum(counters.warp_instructions for counters in lines.values())
    return {line: counters.warp_instructions / total for line, counters in lines.items()} if total else {}


def short(count: float) -> str:
    """A count in at most six characters: 950, 16,384, 1.05 M."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e5)):
        if abs(count) >= size:
            scale = 1e3 if unit == "k" else size
            return f"{count / scale:.3g} {unit}" if count / scale < 999.5 else f"{count / scale:,.0f} {unit}"
    return f"{count:,.0f}"


def percent(fraction: float, *, digits: int = 0) -> str:
    """A fraction as a percentage; "-" for NaN, which means that there was nothing to measure."""
    return "-" if math.isnan(fraction) else f"{100 * fraction:.{digits}f} %"


def times(factor: float) -> str:
    """A ratio as "16x"; "-" where there was nothing to measure."""
    if not factor or math.isnan(factor) or math.isinf(factor):
        return "-"
    return f"{factor:.0f}x" if factor >= 9.95 else f"{factor:.1f}x".replace(".0x", "x")
