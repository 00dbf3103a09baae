"""Shared memory: bank conflicts, loads that are examined together, and the ways of an access.

The loads of a basic block through one register differ by constants, and no barrier lies between them: one look at all
their granules serves them all (`shared_looks`). Where that look fails, each is accounted for by the exact rules
(`runtime.races`), and they go on as if it had not, for bounds are all that decides what a load gives. Where some lanes
are outside, what all lanes get is laid out elsewhere as if it were shared memory, and loaded from there. So there is
one branch for all these loads, and none between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptxsim.analysis.effects import may_write_shared
from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.access import (
    LINE,
    MemoryAccess,
    Shape,
    access_of,
    by_shape,
    extent,
    finish,
    from_window,
    gather_scatter,
    is_signal,
    is_wide,
    low_offset,
    pattern_of,
    place_of,
    report_access,
    scalar_base,
    shape_of,
    shared_offsets,
    signal,
    stored_values,
)
from ptxsim.codegen.accounting import account
from ptxsim.codegen.emit import ALL_LANES, NULL, WARP, IRValue, constant, constants
from ptxsim.codegen.shared_looks import granules_of, passes, runs_of
from ptxsim.codegen.translator import Translator
from ptxsim.syntax.program import Address, Register


def shared_base(t: Translator) -> IRValue:
    return t.convert("ptrtoint", t.field("shared", "ptr"), "i64")


def general_shared(
    t: Translator, a: MemoryAccess, offset: IRValue, values: list[IRValue] | None, mask: IRValue, cell: int | None
) -> list[IRValue]:
    if t.unit.options.check or cell is not None:
        counter = NULL if cell is None else t.counter_pointer(cell)
        mask = account(t, a, "shared", offset, mask, counter=counter, values=values)
    address = t.add(t.resize(offset, "i64"), t.splat(shared_base(t)))
    results = gather_scatter(t, a, address, values, mask)
    if is_signal(a.instruction, a.space) or a.instruction.has("volatile"):
        signal(t, address, mask, L.READS if a.is_load else L.WRITES, a.instruction)
    return results


def conflict_cell(t: Translator, a: MemoryAccess) -> int | None:
    """Counters for wavefronts and bank conflicts of a site."""
    return t.cells(a.line, f"shared_{a.verb}_wavefronts", f"shared_{a.verb}_bank_conflicts")


def counted_requests(t: Translator, a: MemoryAccess, offset: IRValue, mask: IRValue) -> int | None:
    """Counters that `general_shared` shall fill; None where the machine code asks for something else, counted here."""
    requests = t.unit.shared_requests.get(id(a.instruction))
    if requests is None:
        return conflict_cell(t, a)
    cell = conflict_cell(t, a) if requests else None
    if cell is not None:
        for r in requests:
            _count_lanes(t, t.add_const(offset, r.shift), mask, r.nbytes, cell)
    return None


def _count_lanes(t: Translator, offset: IRValue, mask: IRValue, bytes_: int, cell: int) -> None:
    t.call("ws_count_shared", "void", offset, mask, constant("i32", bytes_), t.counter_pointer(cell))


def translate_shared(t: Translator, a: MemoryAccess) -> None:
    if t.unit.followed:
        report_access(t, a, shared_offsets(t, a), t.active)
    values, pattern = stored_values(t, a), pattern_of(t, a)
    offsets = pattern.offsets if pattern.scalar and not t.masked else None
    shape = shape_of(offsets, a.bytes_) if offsets is not None else None
    if offsets is not None and shape is not None and not a.lane_by_lane and (a.is_load or shape.distinct == WARP):
        return _shared_pattern(t, a, offsets, shape, values)
    offset = shared_offsets(t, a)
    finish(t, a, general_shared(t, a, offset, values, t.active, counted_requests(t, a, offset, t.active)), Lanes())


def bank_conflicts(offsets: Sequence[int], bytes_: int) -> tuple[int, int]:
    """(wavefronts, conflicts) of one request of a full warp: 32 lanes a phase, 16 for 8 bytes, 8 for 16 bytes.

    Wide accesses take twice as many lanes a phase where every lane i wants the address of lane i^1, or every one that
    of i^2 (measured on an H200, benchmarks/fidelity.py).
    """
    unit = max(4, bytes_)
    side_by_side = 128 // unit
    paired = any(all(offsets[n] == offsets[n ^ distance] for n in range(WARP)) for distance in (1, 2))
    per_phase = min(WARP, side_by_side * (2 if paired else 1))
    wavefronts = 0
    for first in range(0, WARP, per_phase):
        banks: dict[int, set[int]] = {}
        for o in offsets[first : first + per_phase]:
            banks.setdefault(o // unit % side_by_side, set()).add(o // unit)
        wavefronts += max(map(len, banks.values()))
    return wavefronts, wavefronts - WARP // per_phase


def _shared_pattern(
    t: Translator, a: MemoryAccess, offsets: tuple[int, ...], shape: Shape, values: list[IRValue] | None
) -> None:
    p = _Pattern.of(t, a, offsets)
    requests = t.unit.shared_requests.get(id(a.instruction))
    for bytes_ in [a.bytes_] if requests is None else [r.nbytes for r in requests]:
        if bytes_ >= 4:  # a shift of the base turns the banks but keeps the conflicts
            wavefronts, conflicts = bank_conflicts(offsets, bytes_)
            t.count(f"shared_{a.verb}_wavefronts", a.line, per_warp=wavefronts)
            t.count(f"shared_{a.verb}_bank_conflicts", a.line, per_warp=conflicts)
        elif (cell := conflict_cell(t, a)) is not None:
            _count_lanes(t, p.lanes(a), ALL_LANES, bytes_, cell)
    place = None
    if a.is_load:
        place = _place_of_load(p, a) if t.unit.options.check else p.place()
    elif not t.unit.options.check:
        place = p.host()
    if place is not None:
        first = t.add_const(place, a.address.offset)
        if t.loads_factors(a, offsets, place):
            return None
        return by_shape(t, a, shape, lambda: first, values, None, list, lines=place)
    passed = passes(t, a, p.base, granules_of([a], offsets, t.unit.shared_granule_log2), p.inside(a))

    def general() -> list[IRValue]:
        return general_shared(t, a, p.lanes(a), values, ALL_LANES, None)

    by_shape(t, a, shape, lambda: t.add_const(p.host(), a.address.offset), values, passed, general)


@dataclass(frozen=True)
class _Pattern:
    """The address of an access as a register and what its lanes add to that."""

    t: Translator
    base: IRValue
    """what the register holds for lane 0: an offset into shared memory"""
    wide: bool
    offsets: tuple[int, ...]

    @classmethod
    def of(cls, t: Translator, a: MemoryAccess, offsets: tuple[int, ...]) -> _Pattern:
        wide = is_wide(t, a)
        base = scalar_base(t, a, "i64" if wide else "i32")
        return cls(t, from_window(t, a.instruction, base, L.SHARED_WINDOW) if wide else base, wide, offsets)

    def lanes(self, a: MemoryAccess) -> IRValue:
        """Offsets of an access through the register, for all lanes."""
        offset = self.t.add_const(self.t.widen(self.base, Lanes(self.offsets)), a.address.offset)
        return low_offset(self.t, offset) if self.wide else offset

    def host(self) -> IRValue:
        """The host's address of the register's, which may be negative where an access's own offset makes that good."""
        return self.t.add(self.t.resize(self.base, "i64", signed=True), shared_base(self.t))

    def place(self) -> IRValue:
        """The same, found once for all loads; on the main path."""
        key = "host", self.base.text
        if key not in self.t.scratch:
            self.t.scratch[key] = self.host()
        return self.t.scratch[key]

    def inside(self, a: MemoryAccess) -> IRValue:
        """Whether all accesses of this block through the register lie in shared memory and are aligned; on the main
        path."""
        t, key = self.t, ("inside shared", self.base.text)
        if key not in t.scratch:
            low, high, aligned = extent(t, a, self.offsets)
            wide = t.resize(self.base, "i64", signed=True)
            ok = t.icmp("ule", t.add_const(wide, high), t.field("shared_bytes", "i64"))
            ok = t.and_(ok, t.icmp("sge", t.add_const(wide, low), constant("i64", 0)))
            if aligned > 1:
                ok = t.and_(ok, t.icmp("eq", t.and_const(wide, aligned - 1), constant("i64", 0)))
            t.scratch[key] = ok
        return t.scratch[key]


# ---------------------------------------------------------------- loads that are examined together


@dataclass(frozen=True)
class _Loads:
    """Loads of one stretch of a basic block through one register."""

    members: tuple[MemoryAccess, ...]
    places: dict[int, IRValue]
    """bytes per lane -> what the register's address is for loads of that size: a host's address (i64)"""


_MOST_GRANULES, _MOST_RUNS, _MOST_ROOM = 2048, 64, 1 << 14


def _place_of_load(p: _Pattern, a: MemoryAccess) -> IRValue | None:
    """From where a load, with checks, takes its values, as the register's address; None where it goes alone."""
    groups, key = p.t.groups, ("reads", p.base.text)
    group: _Loads | None = groups.get(key)
    if group is None or all(m.instruction is not a.instruction for m in group.members):
        found = _collected(p, a)
        if not found:
            return None
        group = groups[key] = _Loads(tuple(found), _examined(p, found))
    return group.places[a.bytes_]


def _collected(p: _Pattern, a: MemoryAccess) -> list[MemoryAccess]:
    """The block's loads from here on through the same register: so many as one look serves, and one layout."""
    t, base, room = p.t, a.address.base, _Room(p.t.unit.shared_granule_log2, p.offsets)
    for i in t.block.instructions[t.position :]:
        if i.opcode in ("ld", "ldu"):
            where = place_of(i)[0]
            m = access_of(t, i) if isinstance(where, Address) and where.base == base else None
            if m is not None and m.space == "shared" and not m.lane_by_lane and not room.take(m):
                break
        elif may_write_shared(i):
            break
        if isinstance(base, Register) and base.name in i.written:
            break
    return room.loads


class _Room:
    """Collects loads as long as one look serves them, and those of a size can be laid out without partial overlaps."""

    def __init__(self, granule_log2: int, offsets: tuple[int, ...]) -> None:
        self.granule_log2, self.offsets = granule_log2, offsets
        self.loads: list[MemoryAccess] = []
        self.users: dict[int, int] = {}
        self.limits: dict[int, tuple[int, int]] = {}
        """bytes per lane -> lowest and highest place of loads of that size"""

    def take(self, m: MemoryAccess) -> bool:
        """Takes another load; False where it has to do without the others."""
        size, low, high = m.bytes_, m.address.offset + min(self.offsets), m.address.offset + max(self.offsets)
        before = self.limits.get(size, (low, high))
        low, high = min(low, before[0]), max(high, before[1])
        aligned = not self.loads or not any((m.address.offset + o - before[0]) % size for o in self.offsets)
        if size < 1 << self.granule_log2 or high - low > _MOST_ROOM or not aligned:
            return False
        users = granules_of([m], self.offsets, self.granule_log2, self.users)
        if self.loads and (len(users) > _MOST_GRANULES or len(runs_of(users)) > _MOST_RUNS):
            return False
        self.loads.append(m)
        self.users, self.limits[size] = users, (low, high)
        return True


def _examined(p: _Pattern, loads: list[MemoryAccess]) -> dict[int, IRValue]:
    """Examines loads; for each size of theirs, what stands for the register's address."""
    t, host = p.t, p.host()
    fine = passes(t, loads[0], p.base, granules_of(loads, p.offsets, t.unit.shared_granule_log2), p.inside(loads[0]))
    one_by_one, elsewhere, end = (t.new_label(name) for name in ("onebyone", "elsewhere", "examined"))
    quick_at = t.label_now
    t.branch(fine, end, one_by_one, likely=True, then=one_by_one)
    masks = [account(t, m, "shared", p.lanes(m), ALL_LANES) for m in loads]
    everybody = masks[0]
    for mask in masks[1:]:
        everybody = t.and_(everybody, mask)
    known_at = t.label_now
    t.branch(t.icmp("eq", everybody, ALL_LANES), end, elsewhere, likely=True, then=elsewhere)
    layouts = {size: _laid_out(p, [m for m in loads if m.bytes_ == size]) for size in sorted({m.bytes_ for m in loads})}
    for m, mask in zip(loads, masks, strict=True):
        layouts[m.bytes_].fill(p, m, mask)
    last_at = t.label_now
    t.br(end, then=end)
    return {size: t.phi((host, quick_at), (host, known_at), (x.base, last_at)) for size, x in layouts.items()}


@dataclass(frozen=True)
class _Layout:
    """What loads of one size give where some lanes are outside, laid out as shared memory is."""

    base: IRValue
    """what stands for the register's address (i64)"""

    def fill(self, p: _Pattern, a: MemoryAccess, mask: IRValue) -> None:
        """Puts down what the lanes of a load get: those that may not go on get zeros."""
        t = p.t
        real = t.add(t.resize(p.lanes(a), "i64"), t.splat(shared_base(t)))
        at = t.add(t.splat(self.base), constants("i64", [o + a.address.offset for o in p.offsets]))
        gather_scatter(t, a, at, gather_scatter(t, a, real, None, mask), ALL_LANES)


def _laid_out(p: _Pattern, loads: list[MemoryAccess]) -> _Layout:
    """Room for loads of one size, and for the lines around them that a pattern may be picked out of."""
    size, places = loads[0].bytes_, [m.address.offset + o for m in loads for o in p.offsets]
    low, high = min(places) - LINE, max(places) + size + LINE
    area = p.t.area(f"loads of {size}", high - low)
    return _Layout(p.t.add_const(p.t.convert("ptrtoint", area, "i64"), -low))
