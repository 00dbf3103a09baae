"""Shared memory: bank conflicts, bounds, and quick looks at the race shadow.

The loads of a basic block through one register differ by constants, and no barrier lies between them: one look at all
their granules serves them all. Where that look fails, each access goes by the exact rules (`runtime.races`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptxsim.analysis.effects import may_write_shared
from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.access import (
    MemoryAccess,
    Shape,
    account,
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
    space_of,
    stored_values,
)
from ptxsim.codegen.emit import ALL_LANES, NULL, WARP, WORKER, IRValue, constant, constants
from ptxsim.codegen.shadow import SEVERAL_READERS, clock, may_read, may_write
from ptxsim.codegen.translator import Translator
from ptxsim.syntax.program import Address, Instruction, Register


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
    if is_signal(a.instruction, a.space):
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
    wide = is_wide(t, a)
    base = scalar_base(t, a, "i64" if wide else "i32")
    if wide:
        base = from_window(t, a.instruction, base, L.SHARED_WINDOW)

    def vector_offset() -> IRValue:
        offset = t.add_const(t.widen(base, Lanes(offsets)), a.address.offset)
        return low_offset(t, offset) if wide else offset

    requests = t.unit.shared_requests.get(id(a.instruction))
    for bytes_ in [a.bytes_] if requests is None else [r.nbytes for r in requests]:
        if bytes_ >= 4:  # a shift of the base turns the banks but keeps the conflicts
            wavefronts, conflicts = bank_conflicts(offsets, bytes_)
            t.count(f"shared_{a.verb}_wavefronts", a.line, per_warp=wavefronts)
            t.count(f"shared_{a.verb}_bank_conflicts", a.line, per_warp=conflicts)
        elif (cell := conflict_cell(t, a)) is not None:
            _count_lanes(t, vector_offset(), ALL_LANES, bytes_, cell)

    def host_address() -> IRValue:
        # the register may hold a negative number that the instruction's offset makes good
        return t.add_const(t.add(t.resize(base, "i64", signed=True), shared_base(t)), a.address.offset)

    def general() -> list[IRValue]:
        return general_shared(t, a, vector_offset(), values, ALL_LANES, None)

    passed = None
    if t.unit.options.check:
        passed = reads_pass(t, a, base, offsets) if a.is_load else write_passes(t, a, base, offsets)
    by_shape(t, a, shape, host_address, values, passed, general)


_MOST_GRANULES, _MOST_RUNS, _CHUNK, _WORTH_A_GLANCE = 2048, 64, 32, 4
_MANY = -1


@dataclass(frozen=True)
class _Group:
    """Loads that one look has examined, and its outcome."""

    members: frozenset[int]
    passed: IRValue


def reads_pass(t: Translator, a: MemoryAccess, base: IRValue, offsets: tuple[int, ...]) -> IRValue:
    """Whether a load is inside, aligned and free of hazards, as far as the quick look can tell."""
    key = ("reads", base.text)
    group = t.groups.get(key)
    if group is None or id(a.instruction) not in group.members:
        members, users = _collect(t, a, offsets)
        group = t.groups[key] = _Group(members, _look(t, a, base, offsets, users))
    return group.passed


def write_passes(t: Translator, a: MemoryAccess, base: IRValue, offsets: tuple[int, ...]) -> IRValue:
    """The same for one store."""
    users: dict[int, int] = {}
    _add(users, a.instruction, offsets, t.unit.shared_granule_log2)
    return _look(t, a, base, offsets, users)


def _collect(t: Translator, a: MemoryAccess, offsets: tuple[int, ...]) -> tuple[frozenset[int], dict[int, int]]:
    """(the block's loads from here on through the same register, granule -> the lane that reads it or _MANY)."""
    members: set[int] = set()
    users: dict[int, int] = {}
    for i in t.block.instructions[t.position :]:
        if i.opcode in ("ld", "ldu"):
            where = i.operands[1]
            same = isinstance(where, Address) and where.base == a.address.base
            if isinstance(where, Address) and same and space_of(t.unit, i, where) == "shared":
                more = dict(users)
                _add(more, i, offsets, t.unit.shared_granule_log2)
                if members and (len(more) > _MOST_GRANULES or len(_runs(more)) > _MOST_RUNS):
                    break
                users = more
                members.add(id(i))
        elif may_write_shared(i):
            break
        if isinstance(a.address.base, Register) and a.address.base.name in i.written:
            break
    return frozenset(members), users


def _add(users: dict[int, int], i: Instruction, offsets: tuple[int, ...], granule_log2: int) -> None:
    """Adds one access's granules, counted from the base register's address."""
    where, _, size = place_of(i)
    assert isinstance(where, Address)
    granules = max(1, size >> granule_log2)
    for lane, offset in enumerate(offsets):
        first = (where.offset + offset) >> granule_log2
        for granule in range(first, first + granules):
            users[granule] = lane if users.get(granule, lane) == lane else _MANY


def _runs(users: dict[int, int]) -> list[list[int]]:
    """Neighbouring granules, in pieces of at most _CHUNK."""
    runs: list[list[int]] = []
    for granule in sorted(users):
        if runs and granule == runs[-1][-1] + 1 and len(runs[-1]) < _CHUNK:
            runs[-1].append(granule)
        else:
            runs.append([granule])
    return runs


def _look(t: Translator, a: MemoryAccess, base: IRValue, offsets: tuple[int, ...], users: dict[int, int]) -> IRValue:
    """Compares the granules' states and marks those that pass; whether all do.

    A read passes if each granule is last touched before the barrier, or read since by just these lanes, or by other
    warps; a write if each is last touched before the barrier or never.
    """
    granule_log2 = t.unit.shared_granule_log2
    if a.bytes_ < 1 << granule_log2:
        return IRValue("i1", "false")
    inside = _inside(t, a, base, offsets)
    look, end = t.new_label("look"), t.new_label("looked")
    outside_at = t.label_now
    t.branch(inside, look, end, likely=True, then=look)
    wide = t.resize(base, "i64", signed=True)
    index = t.binary("ashr", wide, t.like(wide, granule_log2))
    shadow = t.offset(t.field("shadow", "ptr"), t.shl(index, 2))
    epoch, me = clock(t, t.warp_index)
    runs = _runs(users)
    arms = [(IRValue("i1", "false"), outside_at)]
    if a.is_load and len(runs) >= _WORTH_A_GLANCE:
        arms += _glances(t, a, base, shadow, runs, epoch, end)
    verdicts: dict[int, IRValue] = {}
    for run in runs:
        lanes = 0 if len(run) == 1 else len(run)
        pointer = t.offset(shadow, run[0] * 4)
        state = t.load("i32", pointer, lanes)
        new, fine = _judged(t, a, state, _mine(t, a, me, [users[g] for g in run], lanes), epoch)
        # marking what passes is right even if another granule does not: the exact rules leave the same mark
        t.store_where(fine, new, pointer, state)
        verdicts[lanes] = t.and_(verdicts[lanes], fine) if lanes in verdicts else fine
    arms.append((_all(t, verdicts), t.label_now))
    t.br(end, then=end)
    return t.phi(*arms)


def _glances(
    t: Translator, a: MemoryAccess, base: IRValue, shadow: IRValue, runs: list[list[int]], epoch: IRValue, end: str
) -> list[tuple[IRValue, str]]:
    """Goes to `end` where several warps are known to have read all granules since the barrier, and notes that.

    The note says for which barrier of which block and for which address; it lies in the access's site, which shared
    memory has no other use for. Only a race could make it wrong, and that the other side tells.
    """
    note = t.offset(t.field("sites", "ptr"), 24 * a.site)
    now = t.or_(t.shl(t.resize(epoch, "i64"), 32), t.resize(t.resize(base, "i32"), "i64"))
    block = t.add_const(t.load("i64", t.offset(WORKER, L.field("block"))), 1)
    noted = t.and_(t.icmp("eq", t.load("i64", note), now), t.icmp("eq", t.load("i64", t.offset(note, 8)), block))
    first, closer, write = t.new_label("glance"), t.new_label("closer"), t.new_label("note")
    noted_at = t.label_now
    t.branch(noted, end, first, then=first)
    t.branch(_glance(t, shadow, runs, epoch), write, closer, then=write)
    t.store(now, note)
    t.store(block, t.offset(note, 8))
    t.br(end, then=closer)
    return [(IRValue("i1", "true"), noted_at), (IRValue("i1", "true"), write)]


def _glance(t: Translator, shadow: IRValue, runs: list[list[int]], epoch: IRValue) -> IRValue:
    """Whether several warps have read all granules since the barrier: then one more reader changes nothing."""
    verdicts: dict[int, IRValue] = {}
    for run in runs:
        lanes = 0 if len(run) == 1 else len(run)
        state = t.load("i32", t.offset(shadow, run[0] * 4), lanes)
        same = t.icmp("eq", state, _several(t, t.splat(epoch, lanes) if lanes else epoch))
        verdicts[lanes] = t.and_(verdicts[lanes], same) if lanes in verdicts else same
    return _all(t, verdicts)


def _all(t: Translator, verdicts: dict[int, IRValue]) -> IRValue:
    passed = IRValue("i1", "true")
    for fine in verdicts.values():
        passed = t.and_(passed, t.all_true(fine))
    return passed


def _several(t: Translator, epoch: IRValue) -> IRValue:
    """State of a granule that several warps have read since the barrier."""
    return t.or_(epoch, t.like(epoch, SEVERAL_READERS))


def _judged(t: Translator, a: MemoryAccess, state: IRValue, mine: IRValue, epoch: IRValue) -> tuple[IRValue, IRValue]:
    """(state to leave behind, whether the access is fine) for a run of granules."""
    before = t.splat(epoch, state.lanes) if state.lanes else epoch
    if not a.is_load:
        return mine, may_write(t, state, before)
    alone, was_read, elsewhere = may_read(t, state, mine, before)
    return t.select(alone, mine, _several(t, before)), t.or_(alone, t.and_(was_read, elsewhere))


def _mine(t: Translator, a: MemoryAccess, me: IRValue, users: list[int], lanes: int) -> IRValue:
    """What this access leaves behind in each granule of a run."""
    marks = [(L.MANY_LANES if user == _MANY else user) | a.kind << L.KIND_SHIFT for user in users]
    return t.or_(t.splat(me, lanes), constants("i32", marks)) if lanes else t.or_(me, constant("i32", marks[0]))


def _inside(t: Translator, a: MemoryAccess, base: IRValue, offsets: tuple[int, ...]) -> IRValue:
    """Whether all accesses of this block through the same base lie in shared memory and are aligned; on the main
    path."""
    key = ("inside shared", base.text)
    if key not in t.scratch:
        low, high, aligned = extent(t, a, offsets)
        wide = t.resize(base, "i64", signed=True)
        ok = t.icmp("ule", t.add_const(wide, high), t.field("shared_bytes", "i64"))
        ok = t.and_(ok, t.icmp("sge", t.add_const(wide, low), constant("i64", 0)))
        if aligned > 1:
            ok = t.and_(ok, t.icmp("eq", t.and_const(wide, aligned - 1), constant("i64", 0)))
        t.scratch[key] = ok
    return t.scratch[key]
