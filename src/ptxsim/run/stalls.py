"""Threads that wait for ever for what nobody does: told when nothing can change any more, not when a budget is spent.

There are two ways to be sure, and a program that would go on is never ended. Everybody who is left waits at a barrier,
or in a loop that is left only when memory changes and that changes nothing itself (`analysis.waiting`), and has looked
in vain. Or all that decides how the launch goes on is twice the same: blocks run in turns that follow from registers,
memory, who waits where, and whose turn it is. That is looked at when threads have given way, at growing distances. What
neither tells, such as a lock that is tried until a count or a clock says otherwise, ends by its budget.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ptxsim.analysis.effects import looks
from ptxsim.codegen import layout as L
from ptxsim.codegen.unit import Unit, lanes_of
from ptxsim.limits import WARP
from ptxsim.run.loops import loops_of
from ptxsim.run.ordering import LISTENER
from ptxsim.syntax.program import Address, Immediate, Instruction, Operand, Register, Symbol, bytes_of

_FIRST, _MOST_LOOKS = 2, 64
"""Rounds of all resident blocks before the first look; looks at the rounds that follow one which is kept."""
_VAIN = 3
"""Rounds in which everybody has looked in vain, and nobody does anything else, after which that is so for ever."""
_FAR = 1 << 20
_C = L.ContextLayout
_COPIES = frozenset({"mov", "cvta", "cvt"})
_MOST_STEPS = 32
"""Instructions by which an address may follow from what is known."""


@dataclass(frozen=True)
class Look:
    """What a thread looks at in vain: the address (None: not known) and the space, as the instruction names it.

    `root` is what the address may be an address in (`analysis.effects`), where there is but one such thing.
    """

    line: int
    space: str
    address: int | None
    reads: bool
    """False: it updates the place, as a lock is taken"""
    root: str = ""


@dataclass(frozen=True)
class Waiting:
    """A thread that waits for ever, and how many warps wait with it: in loops like its own, and at barriers."""

    block: int
    warp: int
    lane: int
    line: int
    look: Look | None
    in_loops: int
    at_barriers: int


@dataclass(frozen=True)
class Places:
    """What the looks read: views of the worker's memory."""

    rows: np.ndarray
    """contexts as uint32, [place, warp, word]"""
    shared: np.ndarray
    shared_stride: int
    pending: np.ndarray
    pending_bytes: int
    memory: Callable[[], list[np.ndarray]]
    """all that the kernel may write"""
    others_write: Callable[[], bool]
    """whether somebody else may change memory, too: then nothing is certain"""


class Stalls:
    """What generated code calls when threads have given way for a while."""

    def __init__(
        self, worker: L.WorkerState, unit: Unit, residents: ctypes.Array[L.Resident], places: Places,
        failed: Callable[[BaseException], None],
    ) -> None:  # fmt: skip
        self.worker, self.unit, self.residents, self.places, self.failed = worker, unit, residents, places, failed
        self.begin()
        self.listener = LISTENER(self.hear)
        worker.on_stall = ctypes.cast(self.listener, ctypes.c_void_p).value

    def begin(self) -> None:
        """Nothing is kept yet."""
        self.found: Waiting | None = None
        self.resets, self.kept_at, self.vain, self.strays = -1, 0, 0, 0
        self.kept: list[bytes] = []
        self.memory: bytes | None = None
        """what memory held when `kept` was"""
        self.until = _FIRST

    def hear(self, _kind: int, _warp: int, pauses: int, _data: int | None) -> None:
        """Threads have given way so many times since blocks were let in or have ended."""
        try:
            if self.places.others_write():
                self.worker.next_look = pauses + _FAR
                return
            if self.worker.resets != self.resets:
                self.begin()
                self.resets = self.worker.resets
            active = len([*self._started()])
            rounds = pauses // active
            if not self._somebody_goes_on():
                self._count_vain()
                if self.vain >= _VAIN and self._tell():
                    return
                if rounds >= _FIRST:
                    self._look(rounds)
            far = not self.vain and (not self.kept or rounds - self.kept_at > _MOST_LOOKS)
            self.worker.next_look = max(pauses + active, self.until * active if far else 0)
        except BaseException as error:  # must not escape into machine code: the launch raises it afterwards
            self.failed(error)

    def _somebody_goes_on(self) -> bool:
        """Whether a barrier of a block or a cluster is about to be given up (`Turns`), which lets threads go on."""
        if not (self.unit.in_turns and self.unit.named):
            return False
        for place, _ in self._started():
            codes = self.places.rows[place, :, _C.STATUS // 4] >> 16
            if not np.isin(codes, (L.YIELDED, L.GAVE_WAY)).any():
                return True
        return False

    def _count_vain(self) -> None:
        """Counts the rounds in which everybody waited, and nobody found what he waited for."""
        w = self.worker
        nothing = not w.changed and w.strays == self.strays
        self.vain = self.vain + 1 if nothing and all(self._all_wait(place) for place, _ in self._started()) else 0
        w.changed, self.strays = 0, w.strays

    def _all_wait(self, place: int) -> bool:
        """Whether a block's threads wait at barriers or in loops that they leave only when memory changes."""
        rows, pure = self.places.rows[place], [*self.unit.pure_waits]
        codes, heads = rows[:, _C.STATUS // 4] >> 16, rows[:, _C.STATUS // 4] & 0xFFFF
        by_lane = codes == L.YIELDED
        still = np.isin(codes, (L.DONE, L.AT_BARRIER, L.MASKED_BARRIER))
        still |= (codes == L.GAVE_WAY) & np.isin(heads, pure)
        if not (still | by_lane).all():
            return False
        pcs = rows[by_lane].view(np.uint16)[:, _C.PCS // 2 : _C.PCS // 2 + WARP]
        return bool((((pcs & L.YIELD_FLAG) != 0) | np.isin(pcs, pure)).all())

    def _look(self, rounds: int) -> None:
        """Compares what is with what was kept (Brent's way to find a cycle), and keeps it at powers of 2."""
        if rounds >= self.until:
            self._keep(rounds, memory=None)
            self.until = 2 * rounds
        elif self.kept and self._is_as_kept():
            memory = self._memory()
            if memory != self.memory:
                self._keep(rounds, memory=memory)
            elif not self._tell():
                self.kept, self.until = [], 2 * rounds

    def _keep(self, rounds: int, memory: bytes | None) -> None:
        self.kept, self.kept_at, self.memory = [*self._state()], rounds, memory

    def _is_as_kept(self) -> bool:
        state = self._state()
        return all(next(state, None) == part for part in self.kept) and next(state, None) is None

    # -- state ----------------------------------------------------------------------------------------------------
    def _started(self) -> Iterator[tuple[int, L.BlockPart]]:
        """(place, what is known of it) of every block that is resident."""
        if not self.unit.in_turns:
            yield 0, self.worker.part
            return
        for place, resident in enumerate(self.residents):
            if resident.state != L.RESIDENT_NONE:
                yield place, resident.part

    def _state(self) -> Iterator[bytes]:
        """What decides how the launch goes on but for global memory, in parts: that of all blocks, and each block's."""
        w = self.worker
        yield repr(
            (w.whose_turn, w.give_up, w.yield_due, w.patience, w.strays, w.print_used, w.heap_moment, w.wanted)
        ).encode()
        for place, part in self._started():
            yield self._block_state(place, part)

    def _block_state(self, place: int, part: L.BlockPart) -> bytes:
        """Time as the race shadow counts it, and budgets, decide nothing until they end a launch."""
        w, places = self.worker, self.places
        digest = hashlib.blake2b(digest_size=16)
        known = (
            place, part.block, part.rank, part.vote_count, part.vote_lanes, part.turn, part.done, part.lockstep,
            part.clock, part.budget & w.patience, *part.arrivals,
        )  # fmt: skip
        if part.cluster:
            cluster = L.ClusterPart.from_address(part.cluster)
            known += cluster.arrived, cluster.phase, cluster.threads
        digest.update(repr(known).encode())
        times = places.rows[place, :, _C.SYNC_TIME // 4]
        kept = times.copy()
        times[:] = 0
        digest.update(places.rows[place].data)
        times[:] = kept
        start = place * places.shared_stride
        digest.update(places.shared[start : start + w.shared_bytes].data)
        if self.unit.copies_async:
            for piece in self._pending(place):
                digest.update(piece.data)
        return digest.digest()

    def _pending(self, place: int) -> Iterator[np.ndarray]:
        """The copies on their way, warp by warp."""
        for warp in range(self.places.rows.shape[1]):
            start = place * self.places.pending_bytes + warp * L.QUEUE_BYTES
            queue = self.places.pending[start : start + L.QUEUE_BYTES]
            copies = int(queue[:4].view(np.uint32)[0])
            yield queue[: L.QUEUE_ENTRIES + copies * L.QUEUE_ENTRY_BYTES]

    def _memory(self) -> bytes:
        digest = hashlib.blake2b(digest_size=16)
        for view in self.places.memory():
            digest.update(view.data)
        return digest.digest()

    # -- who waits ------------------------------------------------------------------------------------------------
    def _tell(self) -> bool:
        """Nothing changes any more: ends the launch with the first thread that looks for what nobody does.

        False where there is none: who looks at barrier objects alone is told by what they count (`FAULT_DEADLOCK`).
        """
        spinning = at_barriers = 0
        first: tuple[L.BlockPart, int, np.ndarray, int, int, bool] | None = None
        for place, part in self._started():
            for warp, row in enumerate(self.places.rows[place]):
                code, head = int(row[_C.STATUS // 4]) >> 16, int(row[_C.STATUS // 4]) & 0xFFFF
                if code not in (L.YIELDED, L.GAVE_WAY):
                    at_barriers += code != L.DONE
                    continue
                lane, head = self._first_lane(row) if code == L.YIELDED else (0, head)
                if head in self.unit.spins:
                    spinning += 1
                    first = first or (part, warp, row, lane, head, code == L.GAVE_WAY)
        if first is None:
            return False
        part, warp, row, lane, head, whole = first
        inside = (i for k in sorted(self.unit.spins[head]) for i in self.unit.kernel.blocks[k].instructions)
        seen = next((self._seen(i, head, row, lane, whole=whole) for i in looks(inside)), None)
        line = self._line(head) or (seen.line if seen else 0)
        self.found = Waiting(part.block, warp, lane, line, seen, spinning - 1, at_barriers)
        self.worker.fault, self.worker.fault_site = L.FAULT_STALL, line
        return True

    def _first_lane(self, row: np.ndarray) -> tuple[int, int]:
        """The first lane of a warp that looks at memory in a loop, and the loop's head."""
        pcs = row.view(np.uint16)[_C.PCS // 2 : _C.PCS // 2 + WARP].tolist()
        return next(((lane, pc) for lane, pc in enumerate(pcs) if pc in self.unit.spins), (0, L.EXITED))

    def _line(self, head: int) -> int:
        """The line at which a loop goes back."""
        return next((loop.line for loop in loops_of(self.unit.kernel.blocks) if loop.head == head), 0)

    def _seen(self, i: Instruction, head: int, row: np.ndarray, lane: int, *, whole: bool) -> Look:
        """What a look sees, as far as its address is known where the loop begins."""
        operand = next((o for o in i.operands if isinstance(o, Address)), None)
        value = None
        if operand is not None:
            value = _Value(self.unit, head, row.view(np.uint8), lane, whole=whole).of(operand.base, _MOST_STEPS)
        address = None if value is None or operand is None else value + operand.offset & (1 << 64) - 1
        base = operand.base.name if operand is not None and isinstance(operand.base, Register) else ""
        roots = [*self.unit.pointers.get(base, ())]
        return Look(i.source.line, i.space, address, i.opcode == "ld", roots[0] if len(roots) == 1 else "")


class _Value:
    """Values of registers for a lane of a warp that stands at the head of a loop."""

    def __init__(self, unit: Unit, head: int, context: np.ndarray, lane: int, *, whole: bool) -> None:
        self.unit, self.context, self.lane, self.whole = unit, context, lane, whole
        self.live = unit.kernel.blocks[head].live_in

    def of(self, operand: Operand, steps: int) -> int | None:
        """None where it does not follow by a few instructions from what is live there."""
        match operand:
            case Immediate(bits):
                return int(bits)
            case Symbol(name, offset):
                variable = self.unit.kernel.variables.get(name)
                own = variable is not None and variable.space == "shared"
                return variable.offset + offset if own and variable is not None else None
            case Register(name):
                return self._kept(name) if name in self.live else self._computed(name, steps - 1)
        return None

    def _kept(self, name: str) -> int:
        """What the warp's context holds; a whole warp's is in the form in which `full` keeps the register."""
        pattern, layout = self.unit.analysis.of(name), self.unit.context
        size = 8 if self.unit.kernel.registers[name].endswith("64") else 4
        form = lanes_of(pattern)
        if self.whole and form != WARP and name in layout.scalars:
            group = self.lane * max(1, form) // WARP
            at = layout.scalars[name] + group * size
            return int.from_bytes(self.context[at : at + size].tobytes(), "little") + pattern.offsets[self.lane]
        at = layout.slots[name] + self.lane * size
        return int.from_bytes(self.context[at : at + size].tobytes(), "little")

    def _loaded(self, place: Address, size: int, steps: int) -> int | None:
        """What lies in the lane's local memory, all lanes' words side by side."""
        base = self.of(place.base, steps)
        at = base + place.offset if base is not None else -1
        if not 0 <= at <= self.unit.kernel.local_bytes - size:
            return None
        start = self.unit.context.local
        words = self.context[start : start + WARP * self.unit.kernel.local_bytes].reshape(-1, WARP, 4)
        return int.from_bytes(words[:, self.lane].reshape(-1)[at : at + size].tobytes(), "little")

    def _computed(self, name: str, steps: int) -> int | None:
        makers = [i for b in self.unit.kernel.blocks for i in b.instructions if name in i.written]
        if len(makers) != 1 or steps <= 0:
            return None
        i = makers[0]
        if i.opcode == "ld" and i.space == "local" and isinstance(i.operands[1], Address):
            return self._loaded(i.operands[1], bytes_of(i.type), steps)
        values = [self.of(o, steps) for o in i.operands[1:]]
        if None in values:
            return None
        known = [v for v in values if v is not None]
        if i.opcode in _COPIES and len(known) == 1:
            return known[0]
        return sum(known) if i.opcode == "add" else None

