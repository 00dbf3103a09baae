"""What a launch on the simulator leaves behind: counters, hazards and printed text."""

from __future__ import annotations

from dataclasses import dataclass

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Hazard:
    """Something that is undefined behaviour on a GPU, with the place and the threads involved.

    `kind` is "race", "out-of-bounds", "uninitialized", "divergent-barrier", "misaligned" or "warp-sync". `address` is
    the byte offset into `array` (which may lie outside it), or into shared or local memory.
    """

    kind: str
    line: int
    file: str
    message: str
    block: Triple
    thread: Triple
    access: str
    space: str
    array: str = ""
    address: int = 0
    other_thread: Triple | None = None
    other_block: Triple | None = None
    other_line: int = 0


@dataclass(frozen=True)
class LaunchRecord:
    """Counters of a launch in total and by source line, and its hazards."""

    totals: dict[str, int]
    lines: dict[int, dict[str, int]]
    hazards: tuple[Hazard, ...]
    printed: str
    grid: Triple
    block: Triple
