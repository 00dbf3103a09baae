"""Threads that look for what nobody does: whether all that decides how they go on has been the same before."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

import numpy as np

from ptxsim.analysis.waiting import pure_waits, tells_time
from ptxsim.oracle.lanes import ThreadState
from ptxsim.syntax.program import Block

_VAIN = 2
"""Times that everybody has looked in vain, with nobody who does anything else, after which that is so for ever."""


class Stall:
    """Compares what threads and memory hold each time that nobody can go on, with what they held before."""

    def __init__(self, state: ThreadState, spins: Collection[int]) -> None:
        self.state, self.spins = state, spins
        every = (i for b in state.launch.kernel.blocks for i in b.executed) if spins else ()
        self.reads_clock = any(tells_time(o) for i in every for o in i.operands)
        self.seen = 0
        """how often threads looked at memory when nobody could go on"""
        self.until, self.kept = 1, b""
        self.pure = pure_waits(state.launch.kernel) if spins else {}
        self.changed = True
        """whether somebody who waited went on since nobody could"""
        self.vain = 0

    def note_leaving(self, block: Block, pc: np.ndarray) -> None:
        """Lanes go on behind a block, each where `pc` says."""
        bodies = [body for body in self.pure.values() if block.index in body]
        self.changed |= any(not np.isin(pc, [*body]).all() for body in bodies)

    def all_wait(self) -> bool:
        """Whether all that are left wait at barriers, or in loops that they leave only when memory changes."""
        state = self.state
        in_loops = state.gives_way & np.isin(state.pc, [*self.pure])
        return bool((state.done | (state.waits_at != -1) | in_loops).all())

    def repeats(self, passes: Mapping[int, tuple[int, int]]) -> tuple[int, int, int] | None:
        """The first thread that waits for ever: its row, its lane, its loop's head. None where something changes.

        `passes` is what the scheduler counts of rows that go round in loops, which decides when they give way.
        """
        waiting = self.state.gives_way & np.isin(self.state.pc, [*self.spins])
        on_their_way = any(group for groups in self.state.copies.values() for group in groups)
        if not waiting.any() or on_their_way:
            return None
        self.seen += 1
        self.vain = self.vain + 1 if not self.changed and self.all_wait() else 0
        self.changed = False
        now = self._digest(sorted(passes.items()))
        if now == self.kept or self.vain >= _VAIN:
            row, lane = np.argwhere(waiting)[0]
            return int(row), int(lane), int(self.state.pc[row, lane])
        if self.seen >= self.until:  # Brent's way to find a cycle
            self.until, self.kept = 2 * self.seen, now
        return None

    def _digest(self, passes: object) -> bytes:
        state, launch = self.state, self.state.launch
        digest = hashlib.blake2b(digest_size=16)
        arrays = [
            *state.registers.values(), state.carry, state.shared, state.local, state.pc, state.done, state.waits_at,
            state.warp_mask, state.expected, state.gives_way, state.brought, state.cluster_phase, state.arrived_in,
            *(a.view() for a in launch.memory.arrays),
        ]  # fmt: skip
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
        counts = *sorted(state.arrivals.items()), *sorted(state.cluster_arrivals.items())
        digest.update(repr((counts, passes, launch.clock if self.reads_clock else 0)).encode())
        return digest.digest()
