"""The inline part of the race shadow: most shared accesses pass with a few vector comparisons.

The loads of a basic block through one register differ by constants, and no barrier lies between them: one look at all
their granules serves them all. Where that look fails, each access goes by the exact rules (`runtime.races`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxsim.analysis.effects import may_write_shared
from ptxsim.codegen import layout as L
from ptxsim.codegen.access import Access, extent
from ptxsim.codegen.emit import Value, constant, constants
from ptxsim.codegen.translator import Translator
from ptxsim.syntax.program import Address, Instruction, Register, Vector, bytes_of

_MOST_GRANULES, _MOST_RUNS, _CHUNK, _WORTH_A_GLANCE = 2048, 64, 32, 4
_MANY = -1


@dataclass(frozen=True)
class _Group:
    """Loads that one look has examined, and its outcome."""

    members: frozenset[int]
    passed: Value


def reads_pass(t: Translator, a: Access, base: Value, offsets: tuple[int, ...]) -> Value:
    """Whether a load is inside, aligned and free of hazards, as far as the quick look can tell."""
    key = ("reads", base.text)
    group = t.groups.get(key)
    if group is None or id(a.instruction) not in group.members:
        members, users = _collect(t, a, offsets)
        group = t.groups[key] = _Group(members, _look(t, a, base, offsets, users))
    return group.passed


def write_passes(t: Translator, a: Access, base: Value, offsets: tuple[int, ...]) -> Value:
    """The same for one store."""
    users: dict[int, int] = {}
    _add(users, a.instruction, offsets, t.unit.shared_granule_log2)
    return _look(t, a, base, offsets, users)


def _collect(t: Translator, a: Access, offsets: tuple[int, ...]) -> tuple[frozenset[int], dict[int, int]]:
    """(the block's loads from here on through the same register, granule -> the lane that reads it or _MANY)."""
    members: set[int] = set()
    users: dict[int, int] = {}
    for i in t.block.instructions[t.position :]:
        if i.opcode in ("ld", "ldu") and i.space == "shared":
            where = i.operands[1]
            if isinstance(where, Address) and where.base == a.address.base:
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
    is_store = i.opcode == "st"
    where, what = (i.operands[0], i.operands[1]) if is_store else (i.operands[1], i.operands[0])
    assert isinstance(where, Address)
    size = bytes_of(i.type) * (len(what.elements) if isinstance(what, Vector) else 1)
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


def _look(t: Translator, a: Access, base: Value, offsets: tuple[int, ...], users: dict[int, int]) -> Value:
    """Compares the granules' states and marks those that pass; whether all do.

    A read passes if each granule is last touched before the barrier, or read since by just these lanes, or by other
    warps; a write if each is last touched before the barrier or never.
    """
    b, granule_log2 = t.b, t.unit.shared_granule_log2
    if a.bytes_ < 1 << granule_log2:
        return Value("i1", "false")
    inside = _inside(t, a, base, offsets)
    look, end = b.new_label("look"), b.new_label("looked")
    outside_at = b.label_now
    b.branch(inside, look, end, likely=True)
    b.label(look)
    wide = b.resize(base, "i64", signed=True)
    index = b.binary("ashr", wide, b.like(wide, granule_log2))
    shadow = b.offset(t.field("shadow", "ptr"), b.shl(index, 2))
    epoch, me = _times(t)
    runs = _runs(users)
    arms = [(Value("i1", "false"), outside_at)]
    if a.is_load and len(runs) >= _WORTH_A_GLANCE:
        unchanged = _glance(t, shadow, runs, epoch)
        arms.append((Value("i1", "true"), b.label_now))
        closer = b.new_label("closer")
        b.branch(unchanged, end, closer)
        b.label(closer)
    verdicts: dict[int, Value] = {}
    for run in runs:
        lanes = 0 if len(run) == 1 else len(run)
        pointer = b.offset(shadow, run[0] * 4)
        state = b.load("i32", pointer, lanes)
        new, fine = _judged(t, a, state, _mine(t, a, me, [users[g] for g in run], lanes), epoch)
        # marking what passes is right even if another granule does not: the exact rules leave the same mark
        b.store(b.select(fine, new, state), pointer)
        verdicts[lanes] = b.and_(verdicts[lanes], fine) if lanes in verdicts else fine
    arms.append((_all(t, verdicts), b.label_now))
    b.br(end)
    b.label(end)
    return b.phi(*arms)


def _glance(t: Translator, shadow: Value, runs: list[list[int]], epoch: Value) -> Value:
    """Whether several warps have read all granules since the barrier: then one more reader changes nothing."""
    b = t.b
    verdicts: dict[int, Value] = {}
    for run in runs:
        lanes = 0 if len(run) == 1 else len(run)
        state = b.load("i32", b.offset(shadow, run[0] * 4), lanes)
        same = b.icmp("eq", state, _several(t, b.splat(epoch, lanes) if lanes else epoch))
        verdicts[lanes] = b.and_(verdicts[lanes], same) if lanes in verdicts else same
    return _all(t, verdicts)


def _all(t: Translator, verdicts: dict[int, Value]) -> Value:
    passed = Value("i1", "true")
    for fine in verdicts.values():
        passed = t.b.and_(passed, t.b.all_true(fine))
    return passed


def _several(t: Translator, epoch: Value) -> Value:
    """State of a granule that several warps have read since the barrier."""
    return t.b.or_(epoch, t.b.like(epoch, L.READ << L.KIND_SHIFT | L.MANY_WARPS | L.MANY_LANES))


def _judged(t: Translator, a: Access, state: Value, mine: Value, epoch: Value) -> tuple[Value, Value]:
    """(state to leave behind, whether the access is fine) for a run of granules."""
    b = t.b
    before = b.splat(epoch, state.lanes) if state.lanes else epoch
    if not a.is_load:
        return mine, b.icmp("ule", b.add_const(state, 1), before)  # UNTOUCHED + 1 wraps to 0
    change = b.xor(state, mine)
    alone = b.or_(b.icmp("ult", state, before), b.icmp("eq", change, b.like(change, 0)))
    elsewhere = b.icmp("ne", b.and_const(change, L.MANY_WARPS | 31 << L.WARP_SHIFT), b.like(change, 0))
    was_read = b.icmp("eq", b.and_const(change, 3 << L.KIND_SHIFT), b.like(change, 0))
    return b.select(alone, mine, _several(t, before)), b.or_(alone, b.and_(was_read, elsewhere))


def _mine(t: Translator, a: Access, me: Value, users: list[int], lanes: int) -> Value:
    """What this access leaves behind in each granule of a run."""
    b = t.b
    marks = [(L.MANY_LANES if user == _MANY else user) | a.kind << L.KIND_SHIFT for user in users]
    if not lanes:
        return b.or_(me, constant("i32", marks[0]))
    return b.or_(b.splat(me, lanes), constants("i32", marks))


def _times(t: Translator) -> tuple[Value, Value]:
    """(epoch, this warp's time and index), shifted into place."""
    b, worker = t.b, Value("ptr", "%w")
    epoch = b.shl(b.load("i32", b.offset(worker, L.field("epoch"))), L.TIME_SHIFT)
    time = b.shl(b.load("i32", b.offset(worker, L.field("time"))), L.TIME_SHIFT)
    return epoch, b.or_(time, b.shl(t.warp_index(), L.WARP_SHIFT))


def _inside(t: Translator, a: Access, base: Value, offsets: tuple[int, ...]) -> Value:
    """Whether all accesses of this block through the same base lie in shared memory and are aligned; on the main
    path."""
    b = t.b
    key = ("inside shared", base.text)
    if key not in t.scratch:
        low, high, aligned = extent(t, a, offsets)
        wide = b.resize(base, "i64", signed=True)
        ok = b.icmp("ule", b.add_const(wide, high), t.field("shared_bytes", "i64"))
        ok = b.and_(ok, b.icmp("sge", b.add_const(wide, low), constant("i64", 0)))
        if aligned > 1:
            ok = b.and_(ok, b.icmp("eq", b.and_const(wide, aligned - 1), constant("i64", 0)))
        t.scratch[key] = ok
    return t.scratch[key]
