"""Loads and stores: what all spaces share.

In `full`, an address with a known lane pattern becomes a few wide accesses and shuffles, behind one test of bounds and,
in shared memory, one look at the race shadow; a varying global address is tested at run time for the two shapes that
matter, contiguous and uniform, per 16 lanes. Everything else, and everything in `masked`, takes the general path:
one call that checks and counts all lanes, then a gather or scatter of those that may go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import WARP, Value, constant
from ptxsim.codegen.functions import CONTEXT, NULL, WORKER, report
from ptxsim.codegen.translator import UNIFORM, Translator
from ptxsim.syntax.program import Address, Instruction, Operand, Register, Vector, bytes_of

HALF = WARP // 2




@dataclass(frozen=True)
class Access:
    """One load or store: what moves, where, and how it is accounted for."""

    instruction: Instruction
    space: str
    is_load: bool
    address: Address
    registers: tuple[Operand, ...]
    element_bytes: int
    site: int
    exact: bool = False
    """for the exact race shadow"""
    optimistic: bool = False
    """a load whose value a compare-and-swap will verify: it counts as an atomic access"""

    @property
    def lane_by_lane(self) -> bool:
        """Whether the general path must account for every lane."""
        return self.exact or self.optimistic

    @property
    def bytes_(self) -> int:
        """Bytes per lane."""
        return self.element_bytes * len(self.registers)

    @property
    def line(self) -> int:
        return self.instruction.source.line

    @property
    def verb(self) -> str:
        return "load" if self.is_load else "store"

    @property
    def element(self) -> str:
        return f"i{8 * self.element_bytes}"

    @property
    def kind(self) -> int:
        plain = L.READ if self.is_load else L.WRITE
        if self.optimistic:
            return plain | L.STRONG_ACCESS if self.exact else L.ATOMIC
        return plain | L.STRONG_ACCESS if self.exact and is_signal(self.instruction, self.space) else plain


_SIGNALS = frozenset({"relaxed", "acquire", "release", "mmio"})


def is_signal(i: Instruction, space: str) -> bool:
    """Whether a load or store is meant to race: relaxed and stronger, or volatile outside shared memory.

    Volatile shared memory is how code of old relied on a warp's lockstep: there it excuses nothing.
    """
    return not _SIGNALS.isdisjoint(i.modifiers) or (i.has("volatile") and space != "shared")


def inferred_space(t: Translator, where: Address) -> str | None:
    """The space of a generic access whose pointer can only come from one."""
    if not isinstance(where.base, Register):
        return None
    roots = t.unit.pointers.get(where.base.name, frozenset())
    spaces = {r if r in ("shared", "local") else "global" for r in roots}
    return spaces.pop() if len(spaces) == 1 and "?" not in roots else None


def put_loaded(t: Translator, i: Instruction, target: Operand, value: Value, own: Lanes) -> None:
    if isinstance(target, Register):
        t.put(target.name, t.as_storage(target.name, value, i.type[0] == "s"), own)


def vector_address(t: Translator, a: Access, kind: str) -> Value:
    """Addresses of all lanes as `kind` (i64 global, i32 shared offsets)."""
    b, base = t.b, a.address.base
    if isinstance(base, Register):
        value = b.resize(t.get(base.name, WARP), kind)
    else:
        value = b.splat(b.resize(t.source(base, "u64", 0), kind))
    return b.add_const(value, a.address.offset)


def pattern_of(t: Translator, a: Access) -> Lanes:
    """Lane pattern of the address."""
    base = a.address.base
    return t.pattern(base.name) if isinstance(base, Register) else UNIFORM


def scalar_base(t: Translator, a: Access, kind: str) -> Value:
    """Lane 0's address without the instruction's offset."""
    base = a.address.base
    if isinstance(base, Register):
        return t.b.resize(t.get(base.name, 0), kind)
    return t.b.resize(t.source(base, "u64", 0), kind)


def stored_values(t: Translator, a: Access) -> list[Value] | None:
    """What a store writes, as vectors of raw bits."""
    if a.is_load:
        return None
    bits = f"b{8 * a.element_bytes}"
    return [t.source(r, bits, WARP) for r in a.registers]


def finish(t: Translator, a: Access, results: list[Value], own: Lanes) -> None:
    if a.is_load:
        for register, value in zip(a.registers, results, strict=True):
            put_loaded(t, a.instruction, register, value, own)


def account(
    t: Translator, a: Access, space: str, address: Value, mask: Value, *, kind: int | None = None, counter: Value = NULL
) -> Value:
    """Checks and counts an access of the lanes in `mask`; those that may go on."""
    fixed = (constant("i32", k) for k in (a.bytes_, a.site, a.kind if kind is None else kind))
    checked = constant("i32", int(t.unit.options.check))
    return t.b.call(t.unit.access(space), "i32", WORKER, CONTEXT, address, mask, *fixed, counter, checked)


def move_lanes(t: Translator, element: str, address: Value, mask: Value, value: Value | None) -> Value:
    """Loads the lanes of `mask`, or stores a value."""
    if value is None:
        return t.b.call(f"ws_gather_{element}", element, address, mask, lanes=WARP)
    return t.b.call(f"ws_scatter_{element}", "void", address, mask, value)


def gather_scatter(t: Translator, a: Access, address: Value, values: list[Value] | None, mask: Value) -> list[Value]:
    places = (t.b.add_const(address, k * a.element_bytes) for k in range(len(a.registers)))
    moved = [move_lanes(t, a.element, at, mask, values[k] if values else None) for k, at in enumerate(places)]
    return moved if values is None else []


def either(
    t: Translator,
    a: Access,
    conditions: Sequence[Value | Callable[[], Value]],
    fast: Callable[[], list[Value]],
    slow: Callable[[], list[Value]],
    after_fast: Callable[[], None] | None = None,
) -> list[Value]:
    """fast() where all conditions hold, else slow(); joins the results."""
    b = t.b
    quick, general, end = b.new_label("fast"), b.new_label("slow"), b.new_label("join")
    for condition in conditions:
        following = b.new_label("ok")
        value = condition if isinstance(condition, Value) else condition()
        b.branch(value, following, general, likely=True)
        b.label(following)
    b.br(quick)
    b.label(quick)
    first = fast()
    if after_fast:
        after_fast()
    first_at = b.label_now
    b.br(end)
    b.label(general)
    second = slow()
    second_at = b.label_now
    b.br(end)
    b.label(end)
    return [b.phi((x, first_at), (y, second_at)) for x, y in zip(first, second, strict=True)]


def by_shape(
    t: Translator,
    a: Access,
    shape: Shape,
    base: Callable[[], Value],
    values: list[Value] | None,
    passed: Value | None,
    general: Callable[[], list[Value]],
    after: Callable[[], None] | None = None,
) -> None:
    """An access in wide pieces from `base` on (the host's address, i64), or where `passed` does not hold, `general`."""

    def fast() -> list[Value]:
        if values is None:
            return load_shape(t, a, shape, base())
        store_shape(t, a, shape, base(), values)
        return []

    def slow() -> list[Value]:
        results = general()
        return [t.b.extract(r, 0) for r in results] if shape.distinct == 1 else results

    results = fast() if passed is None else either(t, a, [passed], fast, slow, after)
    finish(t, a, results, UNIFORM if shape.distinct == 1 else Lanes())


def place_of(i: Instruction) -> tuple[Operand, Operand, int]:
    """(where, what, bytes per lane) of a load or store."""
    where, what = i.operands[:2] if i.opcode == "st" else i.operands[1::-1]
    return where, what, bytes_of(i.type) * (len(what.elements) if isinstance(what, Vector) else 1)


def extent(t: Translator, a: Access, offsets: tuple[int, ...]) -> tuple[int, int, int]:
    """(lowest, highest + 1) byte that this block touches through the register of `a`, and the alignment to test."""
    base, aligned = a.address.base, 1
    ends: list[int] = []
    for i in t.block.instructions[t.position :]:
        if i.opcode in ("ld", "ldu", "st") and i.space == a.instruction.space:
            where, _, size = place_of(i)
            if isinstance(where, Address) and where.base == base:
                places = [where.offset + o for o in offsets]
                ends += [min(places), max(places) + size]
                # where some lane is misaligned whatever the base: never take the fast path
                aligned = max(aligned, 1 << 40 if any(at % size for at in places) else size)
        if isinstance(base, Register) and base.name in i.written:
            break
    return min(ends), max(ends), aligned


MOST_PIECES = 8
"""A pattern in more pieces than this is gathered."""


@dataclass(frozen=True)
class Shape:
    """A pattern as runs of adjacent accesses: (first offset, number of accesses) over the distinct offsets."""

    runs: tuple[tuple[int, int], ...]
    place: tuple[int, ...]
    """lane -> index among the distinct offsets"""
    shared_by: tuple[int, ...]
    """distinct offset -> number of lanes that use it"""

    @property
    def distinct(self) -> int:
        return len(self.shared_by)


def shape_of(offsets: Sequence[int], bytes_: int) -> Shape | None:
    """The shape, or None if it has too many pieces."""
    unique = sorted(set(offsets))
    runs: list[tuple[int, int]] = []
    for u in unique:
        if runs and u == runs[-1][0] + runs[-1][1] * bytes_:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        elif runs and u < runs[-1][0] + runs[-1][1] * bytes_:
            return None  # overlapping accesses
        else:
            runs.append((u, 1))
    if len(runs) > MOST_PIECES:
        return None
    index = {u: k for k, u in enumerate(unique)}
    counts = [0] * len(unique)
    for o in offsets:
        counts[index[o]] += 1
    return Shape(tuple(runs), tuple(index[o] for o in offsets), tuple(counts))


def load_shape(t: Translator, a: Access, shape: Shape, base: Value) -> list[Value]:
    """One value per element register; scalars where all lanes read one address. `base` is lane 0's full address
    (i64)."""
    b, parts = t.b, len(a.registers)
    if shape.distinct == 1:
        only = b.add_const(base, shape.runs[0][0])
        return [b.load(a.element, b.pointer(b.add_const(only, k * a.element_bytes))) for k in range(parts)]
    halves = _halves(shape)
    pieces: list[list[Value]] = [[] for _ in range(parts)]
    for start, count in shape.runs:
        pointer = b.pointer(b.add_const(base, start))
        if count == 1:
            singles = [b.load(a.element, b.offset(pointer, k * a.element_bytes)) for k in range(parts)]
            for piece, single in zip(pieces, singles, strict=True):
                alone = f"insertelement <1 x {a.element}> poison, {single}, i32 0"
                piece.append(b.splat(single, HALF) if halves else b.let(a.element, 1, alone))
            continue
        big = b.load(a.element, pointer, count * parts)
        for k in range(parts):
            pieces[k].append(big if parts == 1 else b.shuffle(big, [n * parts + k for n in range(count)]))
    if halves:  # each half warp is one run or one value: no permutation needed
        return [b.concat([p[h] for h in halves]) for p in pieces]
    return [b.shuffle(b.concat(p), shape.place) for p in pieces]


def _halves(shape: Shape) -> tuple[int, ...] | None:
    """The run that each half warp reads, if each reads exactly one: 16 neighbours in order, or a single place."""
    starts, found = [], 0
    for _, count in shape.runs:
        starts.append((found, count))
        found += count
    chosen = []
    for h in range(0, len(shape.place), HALF):
        places = shape.place[h : h + HALF]
        run = next(k for k, (first, count) in enumerate(starts) if first <= places[0] < first + count)
        first, count = starts[run]
        one = count == 1 and set(places) == {first}
        ramp = count == HALF and list(places) == list(range(first, first + HALF))
        if len(places) < HALF or not (one or ramp):
            return None
        chosen.append(run)
    return tuple(chosen)


def store_shape(t: Translator, a: Access, shape: Shape, base: Value, values: list[Value]) -> None:
    """Stores distinct addresses, run by run; `values` have one lane per entry of `shape.place`."""
    b, parts = t.b, len(values)
    width = len(shape.place)
    lane_at = [0] * width
    for lane, index in enumerate(shape.place):
        lane_at[index] = lane
    done = 0
    joined = values[0] if parts == 1 else b.concat(values)
    for start, count in shape.runs:
        lanes = lane_at[done : done + count]
        done += count
        big = b.shuffle(joined, [part * width + lane for lane in lanes for part in range(parts)])
        b.store(big, b.pointer(b.add_const(base, start)), align=a.element_bytes)


_ORDERS = frozenset({"release", "acq_rel", "sc"})


def signal(t: Translator, address: Value, mask: Value, flags: int, i: Instruction) -> None:
    """Reports an atomic or a volatile access at host addresses `address` by the lanes of `mask`, to `run.ordering`."""
    if not (t.unit.options.exact and t.unit.partial_order):
        return
    b = t.b
    if not _ORDERS.isdisjoint(i.modifiers):
        flags |= L.RELEASES
    slot = b.offset(WORKER, L.field("signal_addresses"))
    b.store(address, slot, align=8)
    both = b.or_(b.resize(mask, "i64"), constant("i64", flags << 32))
    report(b, L.Event.SIGNAL, t.warp_index(), both, slot)
