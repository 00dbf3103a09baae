"""Quick looks at the race shadow for whole lines of a fragment, by the rules of `runtime.races`.

A look passes for most accesses of a whole warp and leaves their marks behind. A mark is right even where another
granule of the same access does not pass: the exact rules, which are asked then, leave the same one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import Value, constants
from ptxsim.codegen.functions import CONTEXT, I32, I64, Helper, i32

_SOMEBODY = L.MANY_WARPS | L.KIND_MASK_BELOW
"""In a state: who accessed the granule."""


_KIND = 3 << L.KIND_SHIFT


class _Look:
    """What the looks of both spaces share: the mark of this access, and the verdict over all lines."""

    def __init__(self, b: Helper, granule: int, line_bytes: int, kind: int) -> None:
        self.b, self.granule, self.count, self.kind = b, granule, line_bytes >> granule, kind
        self.epoch = b.shl(b.worker("epoch", I32), L.TIME_SHIFT)
        time = b.shl(b.worker("time", I32), L.TIME_SHIFT)
        warp = b.load(I32, b.offset(CONTEXT, L.ContextLayout.WARP_INDEX))
        self.mark = b.or_(b.or_(time, b.shl(warp, L.WARP_SHIFT)), i32(kind << L.KIND_SHIFT))
        self.verdict: Value | None = None

    def _and(self, fine: Value) -> None:
        self.verdict = fine if self.verdict is None else self.b.and_(self.verdict, fine)

    def passed(self) -> Value:
        assert self.verdict is not None
        return self.b.all_true(self.verdict)


class SharedLook(_Look):
    """Lines of shared memory.

    A read passes if each granule was last touched before the block's barrier, or read since by the same lane or by
    other warps; a write if each was last touched before the barrier, or never.
    """

    def __init__(self, b: Helper, granule: int, line_bytes: int, kind: int) -> None:
        super().__init__(b, granule, line_bytes, kind)
        self.shadow = b.worker("shadow", "ptr")
        self.before, self.me = b.splat(self.epoch, self.count), b.splat(self.mark, self.count)
        several = L.READ << L.KIND_SHIFT | L.MANY_WARPS | L.MANY_LANES
        self.several = b.or_(self.before, b.like(self.before, several))

    def line(self, offset: Value, users: Sequence[int]) -> None:
        """Looks at the line at `offset` (i64); `users` are the lanes that access its granules."""
        b = self.b
        at = b.offset(self.shadow, b.shl(b.lshr(offset, self.granule), 2))
        state = b.load(I32, at, self.count)
        mine = b.or_(self.me, constants(I32, users))
        if self.kind == L.WRITE:
            fine, new = b.icmp("ule", b.add_const(state, 1), self.before), mine  # UNTOUCHED + 1 wraps to 0
        else:
            change = b.xor(state, mine)
            alone = b.or_(b.icmp("ult", state, self.before), b.icmp("eq", change, b.like(change, 0)))
            elsewhere = b.icmp("ne", b.and_const(change, L.MANY_WARPS | 31 << L.WARP_SHIFT), b.like(change, 0))
            was_read = b.icmp("eq", b.and_const(change, _KIND), b.like(change, 0))
            fine = b.or_(alone, b.and_(was_read, elsewhere))
            new = b.select(alone, mine, self.several)
        b.store(b.select(fine, new, state), at)
        self._and(fine)


class ArrayLook(_Look):
    """Lines of an array in global memory that begins at `low` and has its shadow at `shadow`.

    An access passes if nobody has touched the granules in this launch, or only this block: before its last barrier, or
    the same lane since, which may write what it read or read what it read.
    """

    def __init__(self, b: Helper, granule: int, line_bytes: int, kind: int, low: Value, shadow: Value) -> None:
        super().__init__(b, granule, line_bytes, kind)
        self.low, self.shadow = low, b.pointer(shadow)
        me = b.shl(b.resize(b.add_const(b.resize(b.worker("block", I64), I32), 1), I64), 32)
        self.mine = b.splat(b.or_(me, b.resize(self.mark, I64)), self.count)
        self.first = b.splat(me, self.count)
        self.since = b.sub(b.splat(b.or_(me, b.resize(self.epoch, I64)), self.count), self.first)

    def line(self, address: Value, users: Sequence[int]) -> None:
        """Looks at the line at `address`; `users` are the lanes that access its granules."""
        b = self.b
        at = b.offset(self.shadow, b.shl(b.lshr(b.sub(address, self.low), self.granule), 3))
        state = b.load(I64, at, self.count)
        mine = b.or_(self.mine, constants(I64, users))
        untouched = b.icmp("eq", state, b.like(state, 0))
        earlier = b.icmp("ult", b.sub(state, self.first), self.since)  # by this block, before its barrier
        unlike = -1 << 32 | _SOMEBODY | (_KIND if self.kind == L.READ else 0)
        same = b.icmp("eq", b.and_(b.xor(state, mine), b.like(state, unlike)), b.like(state, 0))
        fine = b.or_(b.or_(untouched, earlier), same)
        b.store(b.select(fine, mine, state), at)
        self._and(fine)
