"""Shared memory: bank conflicts, bounds, and the inline part of the race shadow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..emit import WARP, Value, constant, constants
from ..lanes import Lanes
from . import layout as L
from .access import (
    Access,
    either,
    extent,
    finish,
    gather_scatter,
    pattern_of,
    scalar_base,
    stored_values,
    vector_address,
)
from .shapes import Shape, load_shape, shape_of, store_shape
from .translator import Translator


def shared_base(t: Translator) -> Value:
    return t.b.convert("ptrtoint", t.field("shared", "ptr"), "i64")


def general_shared(
    t: Translator, a: Access, offset: Value, values: list[Value] | None, mask: Value, cell: int | None
) -> list[Value]:
    b, o = t.b, t.unit.options
    if o.check or cell is not None:
        counter = t.counter_pointer(cell) if cell is not None else Value("ptr", "null")
        mask = b.call(
            f"ws_access_shared_{t.unit.shared_granule_log2}", "i32", Value("ptr", "%w"), Value("ptr", "%c"), offset,
            mask, constant("i32", a.bytes_), constant("i32", a.site), constant("i32", a.kind), counter,
            constant("i32", int(o.check)),
        )  # fmt: skip
    address = b.add(b.resize(offset, "i64"), b.splat(shared_base(t)))
    return gather_scatter(t, a, address, values, mask)


def conflict_cell(t: Translator, a: Access) -> int | None:
    """Counters for wavefronts and bank conflicts of a site."""
    if not t.unit.options.count:
        return None
    cell = t.unit.plan.cell(2)
    verb = "load" if a.is_load else "store"
    t.unit.plan.named(cell, f"shared_{verb}_wavefronts", a.instruction.source.line)
    t.unit.plan.named(cell + 1, f"shared_{verb}_bank_conflicts", a.instruction.source.line)
    return cell


def translate_shared(t: Translator, a: Access) -> None:
    values = stored_values(t, a)
    if t.masked:
        offset = vector_address(t, a, "i32")
        mask: Value = t.mask_bits  # type: ignore[attr-defined]
        return finish(t, a, general_shared(t, a, offset, values, mask, conflict_cell(t, a)), Lanes())
    pattern = pattern_of(t, a)
    offsets = pattern.offsets if pattern.scalar else None
    shape = shape_of(offsets, a.bytes_) if offsets is not None else None
    if offsets is None or shape is None or not (a.is_load or shape.distinct == WARP):
        offset = vector_address(t, a, "i32")
        return finish(t, a, general_shared(t, a, offset, values, constant("i32", -1), conflict_cell(t, a)), Lanes())
    _shared_pattern(t, a, offsets, shape, values)


def bank_conflicts(offsets: Sequence[int], bytes_: int) -> tuple[int, int]:
    """(wavefronts, conflicts) of one request of a full warp: 32 lanes a phase, 16 for 8 bytes, 8 for 16 bytes."""
    unit = max(4, bytes_)
    per_phase = 128 // unit
    wavefronts = phases = 0
    for first in range(0, WARP, per_phase):
        banks: dict[int, set[int]] = {}
        for o in offsets[first : first + per_phase]:
            banks.setdefault(o // unit % per_phase, set()).add(o // unit)
        wavefronts += max(len(words) for words in banks.values())
        phases += 1
    return wavefronts, wavefronts - phases


def _shared_pattern(
    t: Translator, a: Access, offsets: tuple[int, ...], shape: Shape, values: list[Value] | None
) -> None:
    b, o = t.b, t.unit.options
    cell = None
    if a.bytes_ >= 4:  # a shift of the base turns the banks but keeps the conflicts
        wavefronts, conflicts = bank_conflicts(offsets, a.bytes_)
        verb, line = "load" if a.is_load else "store", a.instruction.source.line
        t.count(f"shared_{verb}_wavefronts", line, per_warp=wavefronts)
        t.count(f"shared_{verb}_bank_conflicts", line, per_warp=conflicts)
    else:
        cell = conflict_cell(t, a)
    base = scalar_base(t, a, "i32")

    def vector_offset() -> Value:
        return b.add_const(t.widen(base, Lanes(offsets)), a.address.offset)

    if cell is not None:
        b.call(
            "ws_count_shared",
            "void",
            vector_offset(),
            constant("i32", -1),
            constant("i32", a.bytes_),
            t.counter_pointer(cell),
        )

    def host_address() -> Value:
        return b.add_const(b.add(b.resize(base, "i64"), shared_base(t)), a.address.offset)

    def fast() -> list[Value]:
        if a.is_load:
            return load_shape(t, a, shape, host_address())
        assert values is not None
        store_shape(t, a, shape, host_address(), values)
        return []

    def slow() -> list[Value]:
        results = general_shared(t, a, vector_offset(), values, constant("i32", -1), None)
        return [b.extract(r, 0) for r in results] if shape.distinct == 1 else results

    own = Lanes((0,) * WARP) if shape.distinct == 1 else Lanes()
    if not o.check:
        return finish(t, a, fast(), own)
    inside = _inside_shared(t, a, base, offsets)
    marks = _shadow_marks(t, a, shape)
    finish(t, a, either(t, a, [inside, lambda: _shadow_pass(t, a, base, marks)], fast, slow), own)


def _inside_shared(t: Translator, a: Access, base: Value, offsets: tuple[int, ...]) -> Value:
    """Like _inside_allocation, for shared memory."""
    b = t.b
    key = ("inside shared", base.text)
    if key not in t.scratch:
        low, high, aligned = extent(t, a, offsets)
        wide = b.resize(base, "i64")
        ok = b.icmp("ule", b.add_const(wide, high), t.field("shared_bytes", "i64"))
        ok = b.and_(ok, b.icmp("sge", b.add_const(wide, low), constant("i64", 0)))
        if aligned > 1:
            ok = b.and_(ok, b.icmp("eq", b.and_const(wide, aligned - 1), constant("i64", 0)))
        t.scratch[key] = ok
    return t.scratch[key]


@dataclass(frozen=True)
class Marks:
    """What the race shadow is compared with and set to, for one run of granules (0 lanes: one granule)."""

    start: int
    lanes: int
    mine: Value
    before: Value
    several: Value


def _shadow_marks(t: Translator, a: Access, shape: Shape) -> list[Marks]:
    """Prepares the shadow comparison; runs on the main path, because its values are kept for later accesses."""
    granule = t.unit.shared_granule_log2
    per_access = max(1, a.bytes_ >> granule)
    marks, done = [], 0
    for start, count in shape.runs:
        users = range(done, done + count)
        done += count
        lanes = 0 if count * per_access == 1 else count * per_access
        mine = _my_states(t, a, shape, users, per_access, lanes)
        marks.append(Marks(start, lanes, mine, _barrier_state(t, lanes), _shared_state(t, lanes)))
    return marks


def _shadow_pass(t: Translator, a: Access, base: Value, marks: list[Marks]) -> Value:
    """Looks at the granules' states and marks them; false where the exact rules must decide.

    A read passes if each granule is last touched before the barrier, or read since by just this access's lanes, or by other
    warps; a write if each is last touched before the barrier or never.
    """
    b, granule = t.b, t.unit.shared_granule_log2
    if a.bytes_ < 1 << granule:
        return Value("i1", "false")
    index = b.lshr(b.resize(b.add_const(base, a.address.offset), "i64"), granule)
    shadow = b.offset(t.field("shadow", "ptr"), b.shl(index, 2))
    passed = Value("i1", "true")
    stores: list[tuple[Value, Value]] = []
    for m in marks:
        pointer = b.offset(shadow, (m.start >> granule) * 4)
        state = b.load("i32", pointer, m.lanes)
        if a.is_load:
            change = b.xor(state, m.mine)
            alone = b.or_(b.icmp("ult", state, m.before), b.icmp("eq", change, b.like(change, 0)))
            elsewhere = b.icmp("ne", b.and_const(change, L.MANY_WARPS | 31 << L.WARP_SHIFT), b.like(change, 0))
            was_read = b.icmp("eq", b.and_const(change, 3 << L.KIND_SHIFT), b.like(change, 0))
            fine = b.or_(alone, b.and_(was_read, elsewhere))
            new = b.select(alone, m.mine, m.several)
        else:
            new = m.mine
            fine = b.icmp("ule", b.add_const(state, 1), m.before)  # UNTOUCHED + 1 wraps to 0
        passed = b.and_(passed, b.all_true(fine))
        stores.append((new, pointer))
    return _store_if(t, passed, stores)


def _store_if(t: Translator, passed: Value, stores: list[tuple[Value, Value]]) -> Value:
    """Marks the granules where all pass; the exact rules must see them unmarked otherwise."""
    b = t.b
    mark, end = b.new_label("mark"), b.new_label("marked")
    b.branch(passed, mark, end, likely=True)
    b.label(mark)
    for state, pointer in stores:
        b.store(state, pointer)
    b.br(end)
    b.label(end)
    return passed


def _times(t: Translator) -> tuple[Value, Value]:
    """(epoch, time of this warp's accesses), both shifted into place."""
    key = ("times",)
    if key not in t.scratch:
        b, worker = t.b, Value("ptr", "%w")
        epoch = b.shl(b.load("i32", b.offset(worker, L.field("epoch"))), L.TIME_SHIFT)
        time = b.shl(b.load("i32", b.offset(worker, L.field("time"))), L.TIME_SHIFT)
        t.scratch["times",] = epoch
        t.scratch["me",] = b.or_(time, b.shl(t.warp_index(), L.WARP_SHIFT))
    return t.scratch["times",], t.scratch["me",]


def _my_states(t: Translator, a: Access, shape: Shape, users: Sequence[int], per_access: int, lanes: int) -> Value:
    """What this access leaves behind in each granule of a run."""
    key = ("mine", a.kind, shape, tuple(users), per_access)
    if key not in t.scratch:
        b = t.b
        _, me = _times(t)
        lane_of = {index: lane for lane, index in enumerate(shape.place)}
        marks = [
            (L.MANY_LANES if shape.shared_by[u] > 1 else lane_of[u]) | a.kind << L.KIND_SHIFT
            for u in users
            for _ in range(per_access)
        ]
        mine = b.or_(
            b.splat(me, lanes) if lanes else me, constants("i32", marks) if lanes else constant("i32", marks[0])
        )
        t.scratch[key] = mine
    return t.scratch[key]


def _barrier_state(t: Translator, lanes: int) -> Value:
    epoch, _ = _times(t)
    if not lanes:
        return epoch
    key = ("epoch", lanes)
    if key not in t.scratch:
        t.scratch[key] = t.b.splat(epoch, lanes)
    return t.scratch[key]


def _shared_state(t: Translator, lanes: int) -> Value:
    """State of a granule that several warps have read since the barrier."""
    key = ("several", lanes)
    if key not in t.scratch:
        b = t.b
        epoch, _ = _times(t)
        state = b.or_(epoch, constant("i32", L.READ << L.KIND_SHIFT | L.MANY_WARPS | L.MANY_LANES))
        t.scratch[key] = b.splat(state, lanes) if lanes else state
    return t.scratch[key]
