"""Shared memory that nobody has written: what makes it so again, and what passes for written although nobody did."""

from __future__ import annotations

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import (
    GRANULES,
    I32,
    I64,
    MASK,
    OFFSET,
    SIZE,
    WARP,
    WORKER,
    Helper,
    IRValue,
    arg,
    helper,
    i32,
    i64,
)
from ptxsim.codegen.runtime.races import each_granule, granules_of
from ptxsim.codegen.shadow import FIRST_UPDATE, FLYING, WHO, WRITTEN

_SHADOWS = tuple((how, g) for how in ("shared", "exact") for (g,) in GRANULES)


def _state_bytes(how: str) -> int:
    """Bytes of a granule's state in a shadow."""
    return L.EXACT_CELL_BYTES if how == "exact" else 4


@helper("ws_{}_ended_{}", "void", WORKER, OFFSET, MASK, SIZE, over=_SHADOWS)
def ended(b: Helper, offset: IRValue, how: str, granule_log2: int) -> None:
    """What lay here is no more: as if nobody had ever written it."""
    with each_granule(b, offset, granule_log2) as (shadow, _, _, granule):
        size = _state_bytes(how)
        at = b.offset(shadow, b.mul(b.resize(granule, I64), i64(size)))
        b.fill(at, 0 if how == "exact" else -1, i64(size))


@helper("ws_begun_{}", "void", WORKER, OFFSET, MASK, SIZE, over=GRANULES)
def begun(b: Helper, offset: IRValue, granule_log2: int) -> None:
    """What nobody has written yet is written from here on, by nobody in particular."""
    with each_granule(b, offset, granule_log2) as (shadow, _, at, granule):
        end = b.add(b.resize(at, I64), b.resize(SIZE, I64))
        slot = b.offset(shadow, b.shl(b.resize(granule, I64), 2))
        with b.if_(b.icmp("ule", end, b.worker("shared_bytes", I64))):
            state = b.load(I32, slot)
            b.store(b.select(b.icmp("eq", state, i32(L.UNTOUCHED)), i32(0), state), slot)


@helper("ws_{}_padding_{}", "void", WORKER, OFFSET, MASK, SIZE, arg(I32, "before"), over=_SHADOWS)
def padding(b: Helper, offset: IRValue, before: IRValue, how: str, granule_log2: int) -> None:
    """Granules that nobody has touched become like another of the same lane, or of the `before` bytes before them: they
    are padding of what is copied."""
    exact, shadow, offsets = how == "exact", b.worker("shadow", "ptr"), b.stack(offset)
    size = _state_bytes(how)

    def cell(granule: IRValue) -> IRValue:
        return b.offset(shadow, b.mul(b.resize(granule, I64), i64(size)))

    def untouched(at: IRValue) -> IRValue:
        if not exact:
            return b.icmp("eq", b.load(I32, at), i32(L.UNTOUCHED))
        return b.icmp("eq", b.or_(*(b.load(I32, b.offset(at, entry)) for entry in (WRITTEN, FIRST_UPDATE))), i32(0))

    def flies(at: IRValue) -> IRValue:
        if not exact:
            return b.icmp("eq", b.load(I32, at), i32(L.IN_FLIGHT))
        return b.icmp("ne", b.and_const(b.load(I32, b.offset(at, WRITTEN + WHO)), FLYING), i32(0))

    granules, like = granules_of(b, granule_log2), b.variable(I32, i32(-1))
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        at = b.element(offsets, I32, lane)
        first, end = b.lshr(at, granule_log2), b.add(b.resize(at, I64), b.resize(SIZE, I64))
        b.store(i32(-1), like)
        inside = b.and_(b.icmp("ule", end, b.worker("shared_bytes", I64)), b.icmp("uge", at, before))
        nearby = b.lshr(b.sub(at, before), granule_log2)
        with b.if_(inside), b.loop(b.add(granules, b.sub(first, nearby))) as k:
            there = cell(b.add(nearby, k))
            with b.if_(b.not_(b.or_(untouched(there), flies(there)))):
                b.store(b.add(nearby, k), like)
        origin = b.load(I32, like)
        with b.if_(b.icmp("ne", origin, i32(-1))), b.loop(granules) as k:
            there = cell(b.add(first, k))
            with b.if_(untouched(there)):
                b.call("llvm.memcpy.p0.p0.i64", "void", there, cell(origin), i64(size), IRValue("i1", "false"))
