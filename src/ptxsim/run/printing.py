"""printf while a launch runs: formats, arguments and strings are read when it is called, as a GPU does."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from operator import itemgetter

import numpy as np

from ptxsim.codegen import layout as L
from ptxsim.codegen.unit import Unit
from ptxsim.limits import WARP
from ptxsim.memory import Memory
from ptxsim.printf import BAD_STRING, NO_FORMAT, NO_TEXT, formatted, zero_ended
from ptxsim.run.ordering import LISTENER

_RECORD_BYTES, _MOST_ARGUMENT_BYTES = 32, 256
"""What a call costs of the bytes that a launch may print, besides its strings: it, and its arguments at most."""
_OFFSET, _CLUSTER_OFFSET = (1 << 56) - 1, (1 << L.CLUSTER_WINDOW_SHIFT) - 1
_GLOBAL, _SHARED, _LOCAL = range(3)
"""Places in `codegen.warp.PRINT_SPACES`."""
_OUTSIDE = (L.OUT_OF_BOUNDS, L.SHARED_OUT_OF_BOUNDS, L.LOCAL_OUT_OF_BOUNDS)
Wrong = Callable[[int, int, int, int, int], None]
"""Hears of a string outside of memory: kind, site, warp, lane, address."""
Print = tuple[int, str]
"""The linear index of a block, and what it has printed."""


class Printer:
    """One host thread's printf: what generated code calls for a warp at a time."""

    def __init__(
        self, worker: L.WorkerState, unit: Unit, memory: Memory, wrong: Wrong, failed: Callable[[BaseException], None]
    ) -> None:
        self.worker, self.unit, self.memory, self.wrong, self.failed = worker, unit, memory, wrong, failed
        self.printed: list[Print] = []
        self.cost = _RECORD_BYTES + min(_MOST_ARGUMENT_BYTES, max(4, unit.kernel.local_bytes))
        self.listener = LISTENER(self.hear)
        worker.on_print = ctypes.cast(self.listener, ctypes.c_void_p).value

    def hear(self, _kind: int, warp: int, lanes_and_site: int, context: int | None) -> None:
        """Lanes of a warp call printf."""
        w = self.worker
        try:
            for lane in range(WARP):
                if lanes_and_site >> lane & 1 and w.print_used <= w.print_limit:
                    returned = self._print(lanes_and_site >> 32, warp, lane, context or 0)
                    w.print_formats[lane] = returned & 0xFFFFFFFF
        except BaseException as error:  # must not escape into machine code: the launch raises it afterwards
            self.failed(error)
            w.print_used = w.print_limit + 1

    def _print(self, site: int, warp: int, lane: int, context: int) -> int:
        """What a lane's call returns; its text is kept if there is room for it."""
        w = self.worker
        text, arguments = int(w.print_formats[lane]), int(w.print_arguments[lane])
        if not text:
            return NO_FORMAT
        used = self.cost
        unreadable = False

        def string_at(address: int, most: int | None) -> bytes:
            nonlocal used, unreadable
            room = w.print_limit + 1
            space, at, view = self._memory_at(address, lane, context)
            found, ended = zero_ended(view, at, room if most is None else min(most, room))
            unreadable = found is BAD_STRING
            if not ended:
                known = at if space != _GLOBAL else address
                self.wrong(_OUTSIDE[space], site + space, warp, lane, known + (0 if unreadable else len(found)))
            used += len(found)
            return found

        def argument(offset: int, size: int) -> bytes:
            _, at, view = self._memory_at(arguments + offset, lane, context)
            return (view[at : at + size] if at >= 0 else view[:0]).tobytes().ljust(size, b"\0")

        pattern = string_at(text, None)
        used = self.cost
        if unreadable:
            return NO_TEXT
        made = formatted(pattern, argument, string_at)
        w.print_used = min(w.print_used + used, w.print_limit + 1)
        if w.print_used <= w.print_limit:
            self.printed.append((w.block, made.text))
        return made.arguments

    def _memory_at(self, address: int, lane: int, context: int) -> tuple[int, int, np.ndarray]:
        """The space in which a generic address lies, where in it, and the memory there as a thread sees it."""
        w, at = self.worker, address & _OFFSET
        if address >> 56 == L.SHARED_WINDOW >> 56:
            rank, at = at >> L.CLUSTER_WINDOW_SHIFT, at & _CLUSTER_OFFSET
            start = w.shared
            if 0 < rank <= w.cluster_size[0] * w.cluster_size[1] * w.cluster_size[2] and w.cluster:
                start = L.ClusterPart.from_address(w.cluster).shared + (rank - 1) * w.shared_stride
            return _SHARED, at, _bytes_at(start, w.shared_bytes)
        if address >> 56 == L.LOCAL_WINDOW >> 56:
            size = self.unit.kernel.local_bytes
            words = _bytes_at(context + self.unit.context.local, WARP * size).reshape(-1, WARP, 4)
            return _LOCAL, at, words[:, lane].reshape(-1)
        found = self.memory.find(address)
        if found is not None:
            return _GLOBAL, address - found.address, found.view()
        own, size = address - w.params, self.unit.kernel.param_bytes
        inside = self.unit.own_parameters and 0 <= own < size
        return _GLOBAL, own if inside else -1, _bytes_at(w.params, size if inside else 0)


def _bytes_at(address: int, size: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address)) if size else np.zeros(0, np.uint8)


def printed_text(printed: Iterable[Print]) -> str:
    """All text, in the order of blocks; within one in the order of printing."""
    return "".join(text for _, text in sorted(printed, key=itemgetter(0)))


def string_at(memory: Memory, address: int) -> bytes:
    """The zero-terminated string at a global address."""
    allocation = memory.find(address)
    if allocation is None:
        return BAD_STRING
    return allocation.view()[address - allocation.address :].tobytes().split(b"\0", 1)[0]
