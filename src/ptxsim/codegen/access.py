"""Loads and stores: what all spaces share.

In `full`, an address with a known lane pattern becomes a few wide accesses and shuffles, behind one test of bounds and,
in shared memory, one look at the race shadow; a varying global address is tested at run time for the two shapes that
matter, contiguous and uniform, per 16 lanes. Everything else, and everything in `masked`, takes the general path:
one call that checks and counts all lanes, then a gather or scatter of those that may go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ptxsim.analysis.effects import ACQUIRES
from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import WARP, WORKER, IRValue, constant, report_signal, tell_async
from ptxsim.codegen.translator import UNIFORM, Translator
from ptxsim.codegen.unit import Unit
from ptxsim.kernel.unread import Pieces, pieces_read
from ptxsim.syntax.program import Address, Instruction, Operand, Register, Symbol, Vector, bytes_of

HALF = WARP // 2


@dataclass(frozen=True)
class MemoryAccess:
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
    waits: bool = False
    """a load whose value only decides where the kernel goes on"""
    pieces: Pieces = ()
    """of a vector of which some elements are never read, with checks: stretches of those that are"""

    @property
    def lane_by_lane(self) -> bool:
        """Whether the general path must account for every lane."""
        return self.exact or self.optimistic or bool(self.pieces)

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
        if not self.exact:
            return plain
        is_data = self.is_load and not self.waits and not self.instruction.has("acquire")
        if is_signal(self.instruction, self.space):
            return plain | L.STRONG_ACCESS | (L.DATA_ACCESS if is_data else 0) | narrow(self.instruction)
        if self.instruction.has("volatile"):
            return plain | L.VOLATILE_ACCESS | (L.DATA_ACCESS if is_data else 0)
        return plain


def access_of(t: Translator, i: Instruction) -> MemoryAccess | None:
    """What a load or store does; None where it names no address. One that is asked for twice is the same site."""
    where, what, _ = place_of(i)
    if not isinstance(where, Address):
        return None
    space, is_load = space_of(t.unit, i, where), i.opcode != "st"
    site = t.site_of(i, space, "read" if is_load else "write")
    how = {"exact": t.unit.options.exact, "optimistic": id(i) in t.unit.optimistic, "waits": id(i) in t.unit.waits}
    registers = elements(what)
    pieces = pieces_read(registers) if is_load and t.unit.options.check else ()
    return MemoryAccess(i, space, is_load, where, registers, bytes_of(i.type), site, pieces=pieces, **how)


def elements(operand: Operand) -> tuple[Operand, ...]:
    """The elements of a vector operand; one of a scalar."""
    return operand.elements if isinstance(operand, Vector) else (operand,)


def plain_kind(a: MemoryAccess) -> int:
    """What an access does to memory, without its order."""
    if a.instruction.opcode in ("atom", "red"):
        return L.ATOMIC
    if a.instruction.opcode == "mbarrier":
        return L.AT_BARRIER_OBJECT
    return L.READ if a.is_load else L.WRITE


def narrow(i: Instruction) -> int:
    """The flag of an access that is strong for its own block alone."""
    return L.NARROW_ACCESS if i.has("cta") else 0


_SIGNALS = frozenset({"relaxed", "acquire", "release", "mmio"})


def is_signal(i: Instruction, space: str) -> bool:
    """Whether a load or store is meant to race: relaxed and stronger, or volatile outside shared memory.

    Volatile shared memory is how code of old relied on a warp's lockstep: within a warp it excuses nothing. Between
    warps it is a signal, too (`shadow.ExactStep`).
    """
    return not _SIGNALS.isdisjoint(i.modifiers) or (i.has("volatile") and space != "shared")


def space_of(unit: Unit, i: Instruction, where: Address) -> str:
    """The space of an access; of a generic one the only space from which its pointer can come, if there is one."""
    if i.space != "generic" or not isinstance(where.base, Register):
        return i.space
    roots = unit.pointers.get(where.base.name, frozenset())
    spaces = {r if r in ("shared", "local") else "global" for r in roots}
    return spaces.pop() if len(spaces) == 1 and "?" not in roots else "generic"


def put_loaded(t: Translator, i: Instruction, target: Operand, value: IRValue, own: Lanes) -> None:
    if isinstance(target, Register):
        t.put(target.name, t.as_storage(target.name, value, i.type[0] == "s"), own)


def vector_address(t: Translator, a: MemoryAccess, kind: str) -> IRValue:
    """Addresses of all lanes as `kind` (i64 global, i32 shared offsets)."""
    base = a.address.base
    value = t.resize(t.get(base.name, WARP) if isinstance(base, Register) else t.source(base, "u64", 0), kind)
    return t.displaced(value if value.lanes else t.splat(value), a.address.offset)


def is_wide(t: Translator, a: MemoryAccess) -> bool:
    """Whether an address of shared memory has 64 bits, so that it may lie in another state space; with checks."""
    base = a.address.base
    if isinstance(base, Symbol):
        variable = t.kernel.variables.get(base.name)
        return t.unit.options.check and (variable is None or variable.space != "shared")
    return t.unit.options.check and not (isinstance(base, Register) and t.storage(base.name) != "i64")


def from_window(t: Translator, i: Instruction, address: IRValue, window: int) -> IRValue:
    """A generic address (i64) as an offset into the space of a window; one that is written with its space is that."""
    return t.add_const(address, -window) if i.space == "generic" else address


def low_offset(t: Translator, offset: IRValue) -> IRValue:
    """An offset into shared memory (i64) in 32 bits; NOT_SHARED where it does not fit."""
    low = t.resize(offset, "i32")
    return t.select(t.icmp("eq", t.resize(low, "i64", signed=True), offset), low, t.like(low, L.NOT_SHARED))


def shared_offsets(t: Translator, a: MemoryAccess) -> IRValue:
    """Offsets of all lanes in shared memory (i32)."""
    if not is_wide(t, a):
        return vector_address(t, a, "i32")
    return low_offset(t, from_window(t, a.instruction, vector_address(t, a, "i64"), L.SHARED_WINDOW))


def pattern_of(t: Translator, a: MemoryAccess) -> Lanes:
    """Lane pattern of the address."""
    base = a.address.base
    return t.pattern(base.name) if isinstance(base, Register) else UNIFORM


def scalar_base(t: Translator, a: MemoryAccess, kind: str) -> IRValue:
    """Lane 0's address without the instruction's offset."""
    base = a.address.base
    return t.resize(t.get(base.name, 0) if isinstance(base, Register) else t.source(base, "u64", 0), kind)


def stored_values(t: Translator, a: MemoryAccess) -> list[IRValue] | None:
    """What a store writes, as vectors of raw bits."""
    if a.is_load:
        return None
    bits = f"b{8 * a.element_bytes}"
    return [t.source(r, bits, WARP) for r in a.registers]


def finish(t: Translator, a: MemoryAccess, results: list[IRValue], own: Lanes) -> None:
    if a.is_load:
        for register, value in zip(a.registers, results, strict=True):
            put_loaded(t, a.instruction, register, value, own)


def report_access(
    t: Translator, a: MemoryAccess, offset: IRValue, mask: IRValue, kind: int | None = None
) -> None:
    """Tells who follows the asynchronous engines that lanes access shared memory at these offsets (i32)."""
    if t.unit.followed:
        words = (constant("i64", n) for n in (a.bytes_, plain_kind(a) if kind is None else kind))
        tell_async(t, L.AsyncEvent.ACCESS, t.warp_index(), mask, t.site_number(a.site), *words, lanes=offset)


def move_lanes(t: Translator, element: str, address: IRValue, mask: IRValue, value: IRValue | None) -> IRValue:
    """Loads the lanes of `mask`, or stores a value."""
    if value is None:
        return t.call(f"ws_gather_{element}", element, address, mask, lanes=WARP)
    return t.call(f"ws_scatter_{element}", "void", address, mask, value)


def gather_scatter(
    t: Translator, a: MemoryAccess, address: IRValue, values: list[IRValue] | None, mask: IRValue
) -> list[IRValue]:
    if a.element_bytes == 4 and len(a.registers) == 4:
        area = t.area("quads", 4 * a.element_bytes * WARP)
        parts = [t.offset(area, k * a.element_bytes * WARP) for k in range(4)]
        for value, part in zip(values or (), parts, strict=False):
            t.store(value, part)
        t.call(f"ws_{'scatter' if values else 'gather'}_quads", "void", address, mask, area)
        return [] if values else [t.load(a.element, part, WARP) for part in parts]
    places = (t.add_const(address, k * a.element_bytes) for k in range(len(a.registers)))
    moved = [move_lanes(t, a.element, at, mask, values[k] if values else None) for k, at in enumerate(places)]
    return moved if values is None else []


def either(
    t: Translator,
    a: MemoryAccess,
    conditions: Sequence[IRValue | Callable[[], IRValue]],
    fast: Callable[[], list[IRValue]],
    slow: Callable[[], list[IRValue]],
    after_fast: Callable[[], None] | None = None,
) -> list[IRValue]:
    """fast() where all conditions hold, else slow(); joins the results."""
    quick, general, end = t.new_label("fast"), t.new_label("slow"), t.new_label("join")
    for condition in conditions:
        following = t.new_label("ok")
        value = condition if isinstance(condition, IRValue) else condition()
        t.branch(value, following, general, likely=True, then=following)
    t.br(quick, then=quick)
    first = fast()
    if after_fast:
        after_fast()
    first_at = t.label_now
    t.br(end, then=general)
    second = slow()
    second_at = t.label_now
    t.br(end, then=end)
    return [t.phi((x, first_at), (y, second_at)) for x, y in zip(first, second, strict=True)]


def by_shape(
    t: Translator,
    a: MemoryAccess,
    shape: Shape,
    base: Callable[[], IRValue],
    values: list[IRValue] | None,
    passed: IRValue | None,
    general: Callable[[], list[IRValue]],
    after: Callable[[], None] | None = None,
    lines: IRValue | None = None,
) -> None:
    """An access in wide pieces from `base` on (the host's address, i64), or where `passed` does not hold, `general`.

    `lines`: as for `load_shape`.
    """

    def fast() -> list[IRValue]:
        if values is None:
            return load_shape(t, a, shape, base(), lines)
        store_shape(t, a, shape, base(), values)
        return []

    def slow() -> list[IRValue]:
        results = general()
        return [t.extract(r, 0) for r in results] if shape.distinct == 1 else results

    results = fast() if passed is None else either(t, a, [passed], fast, slow, after)
    finish(t, a, results, UNIFORM if shape.distinct == 1 else Lanes())


def place_of(i: Instruction) -> tuple[Operand, Operand, int]:
    """(where, what, bytes per lane) of a load or store."""
    where, what = i.operands[:2] if i.opcode == "st" else i.operands[1::-1]
    return where, what, bytes_of(i.type) * (len(what.elements) if isinstance(what, Vector) else 1)


def extent(t: Translator, a: MemoryAccess, offsets: tuple[int, ...]) -> tuple[int, int, int]:
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
    counts = Counter(offsets)
    return Shape(tuple(runs), tuple(index[o] for o in offsets), tuple(counts[u] for u in unique))


def load_shape(
    t: Translator, a: MemoryAccess, shape: Shape, base: IRValue, lines: IRValue | None = None
) -> list[IRValue]:
    """One value per element register; scalars where all lanes read one address.

    `base` is lane 0's full address (i64); `lines` that of the register in it, where memory around may be read too.
    """
    parts = len(a.registers)
    if shape.distinct == 1:
        only = t.add_const(base, shape.runs[0][0])
        return [t.load(a.element, t.pointer(t.add_const(only, k * a.element_bytes))) for k in range(parts)]
    if lines is not None and _is_scattered(a, shape):
        return _from_lines(t, a, shape, lines)
    halves = _halves(shape)
    pieces: list[list[IRValue]] = [[] for _ in range(parts)]
    for start, count in shape.runs:
        pointer = t.pointer(t.add_const(base, start))
        if count == 1:
            singles = [t.load(a.element, t.offset(pointer, k * a.element_bytes)) for k in range(parts)]
            for piece, single in zip(pieces, singles, strict=True):
                alone = f"insertelement <1 x {a.element}> poison, {single}, i32 0"
                piece.append(t.splat(single, HALF) if halves else t.let(a.element, 1, alone))
            continue
        big = t.load(a.element, pointer, count * parts)
        for k in range(parts):
            pieces[k].append(big if parts == 1 else t.shuffle(big, [n * parts + k for n in range(count)]))
    if halves:  # each half warp is one run or one value: no permutation needed
        return [t.concat([p[h] for h in halves]) for p in pieces]
    return [t.shuffle(t.concat(p), shape.place) for p in pieces]


LINE, _MOST_LINES = 64, 4
"""Bytes of a vector of the host; how many of them a pattern is picked out of."""


def _is_scattered(a: MemoryAccess, shape: Shape) -> bool:
    """Whether a pattern has so many pieces in so little room that it is quicker to load all of it."""
    first, last = shape.runs[0][0], shape.runs[-1][0] + (shape.runs[-1][1] - 1) * a.bytes_
    return a.element_bytes == 4 and len(shape.runs) > 2 and last - first + a.bytes_ <= (_MOST_LINES - 1) * LINE


def _from_lines(t: Translator, a: MemoryAccess, shape: Shape, base: IRValue) -> list[IRValue]:
    """A pattern of words picked out of the lines of shared memory around it, which the block's other loads share.

    They are counted from the register's address, `base`.
    """
    places = [start + k * a.bytes_ for start, count in shape.runs for k in range(count)]
    offset = a.address.offset
    found = []
    for k in range(len(a.registers)):
        words = [offset + places[p] + k * a.element_bytes for p in shape.place]
        numbers = sorted({w // LINE for w in words})
        lines = t.concat([_line(t, a, base, n) for n in numbers])
        width = LINE // a.element_bytes
        found.append(t.shuffle(lines, [numbers.index(w // LINE) * width + w % LINE // 4 for w in words]))
    return found


def _line(t: Translator, a: MemoryAccess, base: IRValue, number: int) -> IRValue:
    """One line, loaded where nobody has since the last store."""
    key = "line", base.text, t.stores, number
    if key not in t.scratch:
        at = t.add_const(base, number * LINE)
        t.scratch[key] = t.load(a.element, t.pointer(at), LINE // a.element_bytes)
    return t.scratch[key]


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


def store_shape(t: Translator, a: MemoryAccess, shape: Shape, base: IRValue, values: list[IRValue]) -> None:
    """Stores distinct addresses, run by run; `values` have one lane per entry of `shape.place`."""
    parts = len(values)
    width = len(shape.place)
    lane_at = {index: lane for lane, index in enumerate(shape.place)}
    done = 0
    joined = values[0] if parts == 1 else t.concat(values)
    for start, count in shape.runs:
        lanes = [lane_at[index] for index in range(done, done + count)]
        done += count
        big = t.shuffle(joined, [part * width + lane for lane in lanes for part in range(parts)])
        t.store(big, t.pointer(t.add_const(base, start)), align=a.element_bytes)


_RELEASES = frozenset({"release", "acq_rel", "sc"})


def own_stretch(t: Translator) -> None:
    """Begins a stretch for an atomic, so that `run.ordering` can give it away without what came before it."""
    if t.unit.options.exact and t.unit.partial_order:
        t.increment(t.offset(WORKER, L.field("time")), constant("i32", 1))


def signal(t: Translator, address: IRValue, mask: IRValue, flags: int, i: Instruction) -> None:
    """Reports an atomic or a volatile access at host addresses `address` by the lanes of `mask`, to `run.ordering`."""
    if not (t.unit.options.exact and t.unit.partial_order):
        return
    if not _RELEASES.isdisjoint(i.modifiers):
        flags |= L.RELEASES
    if not ACQUIRES.isdisjoint(i.modifiers):
        flags |= L.ACQUIRES
    if i.has("cta"):
        flags |= L.WITHIN_BLOCK
    report_signal(t, t.warp_index, address, mask, flags)
