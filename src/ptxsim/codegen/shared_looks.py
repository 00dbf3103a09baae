"""Quick looks at the race shadow of shared memory, in a kernel's own code.

A look compares the states of all granules that some accesses touch, and marks them. The usual cases come first, each
with one comparison for all granules: nobody has touched them since the barrier; one other warp has read them, as this
one does; several have. What none of these lets pass is compared granule by granule, and then goes by the exact rules
(`runtime.races`), which leave the same marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ptxsim.codegen import layout as L
from ptxsim.codegen.access import MemoryAccess
from ptxsim.codegen.emit import WORKER, IRValue, constant, constants
from ptxsim.codegen.shadow import ALIKE, OTHER_WARP, SEVERAL_READERS, clock, may_read
from ptxsim.codegen.translator import Translator

_CHUNK, _WORTH_A_GLANCE, _FOLDED = 32, 4, 8
_MANY = -1


def granules_of(
    accesses: Iterable[MemoryAccess], offsets: Sequence[int], granule_log2: int, known: Mapping[int, int] | None = None
) -> dict[int, int]:
    """Granule, counted from the base register's address -> the lane that accesses it, or _MANY; beside `known` ones."""
    users = dict(known or {})
    for a in accesses:
        granules = max(1, a.bytes_ >> granule_log2)
        for lane, offset in enumerate(offsets):
            first = (a.address.offset + offset) >> granule_log2
            for granule in range(first, first + granules):
                users[granule] = lane if users.get(granule, lane) == lane else _MANY
    return users


def runs_of(users: Mapping[int, int]) -> list[list[int]]:
    """Neighbouring granules, in pieces of at most _CHUNK."""
    runs: list[list[int]] = []
    for granule in sorted(users):
        if runs and granule == runs[-1][-1] + 1 and len(runs[-1]) < _CHUNK:
            runs[-1].append(granule)
        else:
            runs.append([granule])
    return runs


def passes(t: Translator, a: MemoryAccess, base: IRValue, users: dict[int, int], inside: IRValue) -> IRValue:
    """Marks the granules of accesses of a's kind that pass; whether all do, and are `inside`.

    A read passes if each granule is last touched before the barrier, or read since by just these lanes, or by other
    warps; a write if each is last touched before the barrier or never.
    """
    granule_log2 = t.unit.shared_granule_log2
    if a.bytes_ < 1 << granule_log2:
        return IRValue("i1", "false")
    start, end = t.new_label("look"), t.new_label("looked")
    outside_at = t.label_now
    t.branch(inside, start, end, likely=True, then=start)
    wide = t.resize(base, "i64", signed=True)
    index = t.binary("ashr", wide, t.like(wide, granule_log2))
    look = _Look(t, a, t.offset(t.field("shadow", "ptr"), t.shl(index, 2)), *clock(t, t.warp_index), users, end)
    look.arms.append((IRValue("i1", "false"), outside_at))
    if not a.is_load:
        look.untouched()
        look.leave(passed=False)
    else:
        if len(look.runs) >= _WORTH_A_GLANCE:
            look.glances(base)
            look.untouched()
            look.read_by_another()
        else:
            look.untouched()
        look.arms.append((look.one_by_one(), t.label_now))
        t.br(end)
    t.label(end)
    return t.phi(*look.arms)


@dataclass
class _Look:
    """One look: `leave` is called where it comes to an end."""

    t: Translator
    access: MemoryAccess
    shadow: IRValue
    """state of the granule at the base register's address"""
    epoch: IRValue
    me: IRValue
    users: dict[int, int]
    end: str
    arms: list[tuple[IRValue, str]] = field(default_factory=list)
    """(verdict, label from which it comes)"""
    runs: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.runs = runs_of(self.users)

    # -- granules -------------------------------------------------------------------------------------------------
    def _at(self, run: list[int]) -> IRValue:
        return self.t.offset(self.shadow, 4 * run[0])

    def _state(self, run: list[int]) -> IRValue:
        return self.t.load("i32", self._at(run), len(run))

    def _marked(self, run: list[int], who: IRValue) -> IRValue:
        """What an access of the warp in `who` leaves behind in each granule of a run."""
        return self.t.or_(self.t.splat(who, len(run)), constants("i32", [self._mark(g) for g in run]))

    def _mark(self, granule: int) -> int:
        user = self.users[granule]
        return (L.MANY_LANES if user == _MANY else user) | self.access.kind << L.KIND_SHIFT

    def _several(self) -> IRValue:
        """State of a granule that several warps have read since the barrier."""
        return self.t.or_(self.epoch, constant("i32", SEVERAL_READERS))

    def _no_bit(self, op: str, parts: Iterable[IRValue]) -> IRValue:
        return self._all("eq", op, parts, constant("i32", 0))

    def _all(self, predicate: str, op: str, parts: Iterable[IRValue], bound: IRValue) -> IRValue:
        """Whether all words of some vectors compare with a bound, given how to make one word of two for that."""
        t, joined = self.t, dict[int, IRValue]()
        for part in parts:
            joined[part.lanes] = self._joined(op, joined[part.lanes], part) if part.lanes in joined else part
        verdict = IRValue("i1", "true")
        for whole in joined.values():
            folded = self._fold(op, whole)
            verdict = t.and_(verdict, t.all_true(t.icmp(predicate, folded, t.splat(bound, folded.lanes))))
        return verdict

    def _joined(self, op: str, x: IRValue, y: IRValue) -> IRValue:
        return self.t.or_(x, y) if op == "or" else self.t.intrinsic(op, x, y)

    def _fold(self, op: str, x: IRValue) -> IRValue:
        while x.lanes > _FOLDED and x.lanes % 2 == 0:
            half = x.lanes // 2
            x = self._joined(op, self.t.shuffle(x, range(half)), self.t.shuffle(x, range(half, x.lanes)))
        return x

    # -- cases ----------------------------------------------------------------------------------------------------
    def leave(self, *, passed: bool) -> None:
        self.arms.append((IRValue("i1", "true" if passed else "false"), self.t.label_now))
        self.t.br(self.end)

    def untouched(self) -> None:
        """Passes where nobody has touched any granule since the barrier; for a write, or ever."""
        t, states = self.t, (self._state(run) for run in self.runs)
        if self.access.is_load:
            fine = self._all("ult", "umax", states, self.epoch)
        else:  # UNTOUCHED + 1 wraps to 0
            fine = self._all("ule", "umax", (t.add_const(state, 1) for state in states), self.epoch)
        with t.leaving(fine, "fresh", "touched", likely=True):
            for run in self.runs:
                t.store(self._marked(run, self.me), self._at(run))
            self.leave(passed=True)

    def read_by_another(self) -> None:
        """Passes where one other warp, or several, have read each granule as this one does."""
        t, first = self.t, self.runs[0][0]
        state = t.load("i32", t.offset(self.shadow, 4 * first))
        who = t.xor(state, constant("i32", self._mark(first)))
        change = t.xor(who, self.me)
        recent = t.icmp("uge", state, self.epoch)
        was_read = t.icmp("eq", t.and_const(change, ALIKE), constant("i32", 0))
        elsewhere = t.icmp("ne", t.and_const(change, OTHER_WARP), constant("i32", 0))
        same = self._no_bit("or", (t.xor(self._state(run), self._marked(run, who)) for run in self.runs))
        fine = t.and_(t.and_(recent, was_read), t.and_(elsewhere, same))
        with t.leaving(fine, "another", "mixed", likely=True):
            for run in self.runs:
                t.store(t.splat(self._several(), len(run)), self._at(run))
            self.leave(passed=True)

    def glances(self, base: IRValue) -> None:
        """Passes where several warps are known to have read all granules since the barrier, and notes that.

        The note says for which barrier of which block and for which address; it lies in the access's site, which shared
        memory has no other use for. Only a race could make it wrong, and that the other side tells.
        """
        t = self.t
        note = t.offset(t.field("sites", "ptr"), 24 * self.access.site)
        now = t.or_(t.shl(t.resize(self.epoch, "i64"), 32), t.resize(t.resize(base, "i32"), "i64"))
        block = t.add_const(t.load("i64", t.offset(WORKER, L.field("block"))), 1)
        noted = t.icmp("eq", t.load("i64", note), now)
        noted = t.and_(noted, t.icmp("eq", t.load("i64", t.offset(note, 8)), block))
        with t.leaving(noted, "noted", "glance", likely=None):
            self.leave(passed=True)
        several = self._several()
        same = self._no_bit("or", (t.xor(self._state(run), t.splat(several, len(run))) for run in self.runs))
        with t.leaving(same, "note", "closer", likely=None):
            t.store(now, note)
            t.store(block, t.offset(note, 8))
            self.leave(passed=True)

    def one_by_one(self) -> IRValue:
        """Judges each granule for itself, and marks those that pass; whether all do."""
        t, verdicts = self.t, dict[int, IRValue]()
        for run in self.runs:
            state, mine = self._state(run), self._marked(run, self.me)
            alone, was_read, elsewhere = may_read(t, state, mine, t.splat(self.epoch, len(run)))
            fine = t.or_(alone, t.and_(was_read, elsewhere))
            new = t.select(alone, mine, t.splat(self._several(), len(run)))
            # marking what passes is right even if another granule does not: the exact rules leave the same mark
            t.store_where(fine, new, self._at(run), state)
            verdicts[len(run)] = t.and_(verdicts[len(run)], fine) if len(run) in verdicts else fine
        passed = IRValue("i1", "true")
        for fine in verdicts.values():
            passed = t.and_(passed, t.all_true(fine))
        return passed
