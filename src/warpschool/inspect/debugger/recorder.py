"""Watches the interpreter run one block and writes down what one of its warps does, source line by source line.

A step is what the warp does on one line with one set of active lanes. A loop that stands on one line gives a step an
iteration: a jump back to where the step has been begins a new one. Each step keeps what it changed, so that any moment
can be put together again, backwards too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptxsim import MemoryRequest, SimKernel, Watcher
from ptxsim.limits import WARP
from ptxsim.oracle import BlockState
from warpschool.inspect.accesses import WarpRequest
from warpschool.inspect.debugger.symbols import Symbols

MOST_STEPS = 50_000
"""Steps that are written down; a longer run ends there, and the recording says so."""
EXITED = -1
Changes = tuple[np.ndarray, np.ndarray]
"""Offsets of bytes, and the bytes that are there afterwards."""
_NOTHING = np.zeros(0, np.int64)


class RecordingFull(Exception):
    """Ends the run: enough has been written down."""


@dataclass(frozen=True, eq=False)
class _Begun:
    """What is known of a step when it begins.

    `places`: the PTX line at which each lane stood before the step, `EXITED` for one that has returned; `copies`: which
    inlined copy of a function each lane was in.
    """

    line: int
    function: str
    active: np.ndarray
    places: np.ndarray
    copies: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Open(_Begun):
    """The step that is being executed."""

    ptx_line: int
    copy: str
    touched: set[str] = field(default_factory=set)
    accesses: list[WarpRequest] = field(default_factory=list)
    stored: list[np.ndarray] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class LineStep(_Begun):
    """What a warp did on `line`, with the lanes `active` (bool of shape (32,)).

    `registers`, `shared` and `local` are what was there afterwards; `stored` are the bytes of local memory, by their
    flat offset, that were written, also those that held the same before.
    """

    registers: dict[str, np.ndarray]
    shared: Changes
    local: Changes
    stored: np.ndarray
    accesses: tuple[WarpRequest, ...]

    @property
    def lanes(self) -> int:
        """How many lanes are active."""
        return int(self.active.sum())

    @property
    def copy(self) -> str:
        """The inlined copy of a function that the active lanes are in, "" in the kernel itself."""
        return self.copies[int(np.argmax(self.active))]


class StepRecorder(Watcher):
    """Follows warp number `warp` of the one block that the interpreter runs."""

    def __init__(
        self, kernel: SimKernel, symbols: Symbols, warp: int, report: Callable[[int], None] | None = None
    ) -> None:
        self.kernel, self.symbols, self.warp = kernel, symbols, warp
        self.report = report
        self.steps: list[LineStep] = []
        self.shared = np.zeros(0, np.uint8)
        self.local = np.zeros((0, 0), np.uint8)
        self._first = {block.index: self._entry(block.index) for block in kernel.blocks}
        self._returns = {b.index for b in kernel.blocks if not b.successors and not b.instructions}
        """where lanes that have returned wait for the others"""
        self._copy_of: dict[int, str] = {}
        self._state: Any = None
        self._open: _Open | None = None
        self._last_ptx_line = 0
        self._places = np.zeros(WARP, np.int32)
        self._copies: tuple[str, ...] = ("",) * WARP

    # ---------------------------------------------------------------- the interpreter's calls

    def step(self, state: BlockState, instruction: Any, active: np.ndarray) -> None:
        """An instruction is about to be executed by some lanes of some warps."""
        i, active = instruction, active[self.warp]
        if self._state is None:
            self._state = state
            self.shared, self.local = state.shared.copy(), state.local[self.warp].copy()
            self._shared_now, self._local_now = self.shared.copy(), self.local.copy()
        if not active.any():
            return
        copy = self._copy(i)
        step = self._open
        jumped_back = step is not None and step.ptx_line <= i.ptx_line < self._last_ptx_line and copy == step.copy
        line = i.source.line or (step.line if step else 0)
        if step is None or line != step.line or jumped_back or (active != step.active).any():
            self.finish()
            self._start(line, active, i, copy)
        assert self._open is not None
        self._open.touched.update(i.written)
        self._last_ptx_line = i.ptx_line

    def request(self, request: MemoryRequest) -> None:
        """A warp accesses memory."""
        if self._open is not None and request.warp == self.warp:
            self._open.accesses.append(WarpRequest(**vars(request)))

    def local_store(self, warp: int, address: np.ndarray, active: np.ndarray, size: int) -> None:
        """Lanes write their own memory; what lies outside of it ends the run."""
        length = self.local.shape[1]
        inside = active & (address >= 0) & (address + size <= length)
        if self._open is not None and warp == self.warp and inside.any():
            first = (np.flatnonzero(inside) * length + address[inside])[:, None]
            self._open.stored.append((first + np.arange(size)).ravel())

    # ---------------------------------------------------------------- steps

    def _start(self, line: int, active: np.ndarray, i: Any, copy: str) -> None:
        if len(self.steps) >= MOST_STEPS:
            raise RecordingFull
        if self.report and len(self.steps) % 500 == 0:
            self.report(len(self.steps))
        function = self.symbols.function_at(i.ptx_line)
        places, copies = self._places.copy(), list(self._copies)
        for lane in np.flatnonzero(~active):
            block = int(self._state.at[self.warp, lane])
            entry = self._first[block]
            if self._state.returned[self.warp, lane] or block in self._returns:
                places[lane] = EXITED
            elif not self.symbols.functions or self.symbols.function_at(entry[0]):
                places[lane], copies[lane] = entry
        if function is not None or not self.symbols.functions:
            places[active] = i.ptx_line
            copies = [copy if on else old for on, old in zip(active, copies, strict=True)]
        self._places, self._copies = places, tuple(copies)
        named = self.symbols.function_at(int(places[int(np.argmax(active))])) or self.kernel
        self._open = _Open(line, named.name, active, places, self._copies, i.ptx_line, copy)

    def finish(self) -> None:
        """Write down what the open step left behind; other warps' stores to shared memory are in there too."""
        step, self._open = self._open, None
        if step is None:
            return
        registers = {name: self._state.registers[name][self.warp].copy() for name in step.touched}
        shared = _changes(self._shared_now, self._state.shared)
        local = _changes(self._local_now, self._state.local[self.warp])
        stored = np.unique(np.concatenate(step.stored)) if step.stored else _NOTHING
        self.steps.append(
            LineStep(
                step.line, step.function, step.active, step.places, step.copies, registers, shared, local, stored,
                tuple(step.accesses),
            )
        )  # fmt: skip

    # ---------------------------------------------------------------- places and memory

    def _entry(self, number: int) -> tuple[int, str]:
        """The PTX line at which a basic block begins, and the inlined copy that it belongs to."""
        seen: set[int] = set()
        while number not in seen:
            seen.add(number)
            block = self.kernel.blocks[number]
            if block.executed:
                return block.executed[0].ptx_line, next((c for i in block.executed if (c := _suffix(i))), "")
            number = next(iter(block.successors), number)
        return 0, ""

    def _copy(self, i: Any) -> str:
        if id(i) not in self._copy_of:
            self._copy_of[id(i)] = _suffix(i)
        return self._copy_of[id(i)]


def _changes(before: np.ndarray, now: np.ndarray) -> Changes:
    """The bytes that differ, by their flat offset; `before` becomes `now`."""
    flat_before, flat_now = before.reshape(-1), now.reshape(-1)
    where = np.flatnonzero(flat_before != flat_now)
    values = flat_now[where].copy()
    flat_before[where] = values
    return where, values


def _suffix(i: Any) -> str:
    """The inlined copy that an instruction belongs to, as the end of its registers' names; "" for the kernel itself."""
    guard = (i.guard.register,) if i.guard else ()
    return next((name[name.index("@") :] for name in (*guard, *i.written, *i.read) if "@" in name), "")
