"""Global and constant memory: patterns, groups, shapes found at run time, and the general path."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.access import (
    HALF,
    MemoryAccess,
    Shape,
    by_shape,
    either,
    extent,
    finish,
    gather_scatter,
    is_signal,
    load_shape,
    pattern_of,
    scalar_base,
    shape_of,
    signal,
    store_shape,
    stored_values,
    vector_address,
)
from ptxsim.codegen.accounting import account
from ptxsim.codegen.emit import ALL_LANES, CONTEXT, NULL, WARP, WORKER, IRValue, constant, constants
from ptxsim.codegen.translator import Translator
from ptxsim.limits import SECTOR_BYTES
from ptxsim.syntax.program import Register, Symbol


def pattern_sectors(t: Translator, lane0: IRValue, offsets: tuple[int, ...], bytes_: int) -> IRValue:
    """Number of 32-byte sectors that a pattern touches, which depends on the base modulo 32 alone."""
    unique = sorted(set(offsets))
    if all(q - p <= 32 for p, q in pairwise(unique)):  # no sector is skipped
        first = t.lshr(t.add_const(lane0, unique[0]), 5)
        last = t.lshr(t.add_const(lane0, unique[-1] + bytes_ - 1), 5)
        return t.add_const(t.sub(last, first), 1)
    table = [len({(r * bytes_ + u) // 32 for u in unique}) for r in range(max(1, 32 // bytes_))]
    if len(set(table)) == 1:
        return constant("i64", table[0])
    return t.extract(constants("i64", table), t.lshr(t.and_const(lane0, 31), bytes_.bit_length() - 1))


def count_places(t: Translator, cell: int, firsts: list[IRValue]) -> None:
    """Sectors and ideal sectors of a few places, each aligned and all together no larger than one sector."""
    found = constant("i64", 1)
    sectors = [t.lshr(f, 5) for f in firsts]
    for k in range(1, len(sectors)):
        other = reduce(t.and_, [t.icmp("ne", sectors[k], before) for before in sectors[:k]])
        found = t.add(found, t.resize(other, "i64"))
    t.bump(cell, found)
    t.bump(cell + 1, constant("i64", 1))


def count_intervals(t: Translator, cell: int, firsts: list[IRValue], ends: list[IRValue]) -> None:
    """Sectors and ideal sectors of two byte intervals that may overlap."""

    def union(lows: list[IRValue], highs: list[IRValue]) -> IRValue:
        total = t.add(t.sub(highs[0], lows[0]), t.sub(highs[1], lows[1]))
        overlap = t.sub(t.intrinsic("umin", *highs), t.intrinsic("umax", *lows))
        return t.sub(total, t.intrinsic("smax", overlap, constant("i64", 0)))

    starts = [t.lshr(f, 5) for f in firsts]
    stops = [t.lshr(t.add_const(e, 31), 5) for e in ends]
    t.bump(cell, union(starts, stops))
    t.bump(cell + 1, t.lshr(t.add_const(union(firsts, ends), 31), 5))


def general_global(
    t: Translator, a: MemoryAccess, address: IRValue, values: list[IRValue] | None, mask: IRValue, cell: int | None
) -> list[IRValue]:
    """Any global access of the lanes in `mask`: account for it, then gather or scatter."""
    o, granule = t.unit.options, t.unit.global_granule_log2
    if a.space == "const":  # also without checks: no kernel reads the host's memory
        return gather_scatter(t, a, address, values, account(t, a, "const", address, mask))
    if not o.check and cell is None:
        return gather_scatter(t, a, address, values, mask)
    counter = NULL if cell is None else t.counter_pointer(cell)
    if len(a.registers) == 1 and not a.exact:  # one call for all keeps code small where a kernel has many accesses
        fixed = constant("i32", a.bytes_), t.site_number(a.site), constant("i32", a.kind), counter
        checked = constant("i32", int(o.check))
        state = (WORKER, CONTEXT, address, mask)
        if values is None:
            return [t.call(f"ws_load_global_{a.element}_{granule}", a.element, *state, *fixed, checked, lanes=WARP)]
        t.call(f"ws_store_global_{a.element}_{granule}", "void", *state, *fixed, checked, values[0])
        return []
    mask = account(t, a, "global", address, mask, counter=counter, values=values)
    results = gather_scatter(t, a, address, values, mask)
    if is_signal(a.instruction, a.space):
        signal(t, address, mask, L.READS if a.is_load else L.WRITES, a.instruction)
    return results


def sector_cell(t: Translator, a: MemoryAccess) -> int | None:
    """Counters for sectors and ideal sectors of a site."""
    if a.space == "const":
        return None
    return t.cells(a.line, f"global_{a.verb}_sectors", f"global_{a.verb}_sectors_ideal")


def _count_constant(t: Translator, a: MemoryAccess) -> None:
    """The passes of a load from constant memory: its distinct words."""
    pattern = pattern_of(t, a)
    if not t.masked and pattern.scalar and pattern.offsets is not None and len(set(pattern.offsets)) == 1:
        t.count("constant_load_passes", a.line, per_warp=1)
    elif (cell := t.cells(a.line, "constant_load_passes")) is not None:
        t.call("ws_count_constant", "void", vector_address(t, a, "i64"), t.active, t.counter_pointer(cell))


def translate_global(t: Translator, a: MemoryAccess) -> None:
    if a.space == "const":
        _count_constant(t, a)
    cell = sector_cell(t, a)
    values = stored_values(t, a)

    def lane_by_lane() -> None:
        finish(t, a, general_global(t, a, vector_address(t, a, "i64"), values, t.active, cell), Lanes())

    # with checks, every store is examined and tracked: nothing to gain from its shape
    if t.masked or (t.unit.options.check and (a.lane_by_lane or not a.is_load)):
        return lane_by_lane()
    pattern = pattern_of(t, a)
    if pattern.scalar and pattern.offsets is not None:
        shape = shape_of(pattern.offsets, a.bytes_)
        if shape is not None and (a.is_load or shape.distinct == WARP):
            return _global_pattern(t, a, pattern.offsets, shape, values, cell)
    elif pattern.known and a.space == "global" and _global_grouped(t, a, pattern, values, cell):
        return None
    if pattern.known or a.space != "global":
        return lane_by_lane()
    return _global_varying(t, a, vector_address(t, a, "i64"), values, cell)


def _global_pattern(
    t: Translator,
    a: MemoryAccess,
    offsets: tuple[int, ...],
    shape: Shape,
    values: list[IRValue] | None,
    cell: int | None,
) -> None:
    base = scalar_base(t, a, "i64")
    lane0 = t.add_const(base, a.address.offset)

    def counted() -> IRValue:
        if cell is not None:
            t.bump(cell, pattern_sectors(t, lane0, offsets, a.bytes_))
            t.bump(cell + 1, constant("i64", -(-shape.distinct * a.bytes_ // 32)))
        return lane0

    def addresses() -> IRValue:
        return t.add_const(t.widen(base, Lanes(offsets)), a.address.offset)

    def general() -> list[IRValue]:
        return general_global(t, a, addresses(), values, ALL_LANES, cell)

    check = t.unit.options.check
    if not check and (a.space != "const" or _inside_variable(t, a)):
        return by_shape(t, a, shape, counted, values, None, general)
    inside, site = _inside_allocation(t, a, base, offsets)
    by_shape(t, a, shape, counted, values, inside, general, (lambda: _track(t, a, site, addresses)) if check else None)


def _inside_variable(t: Translator, a: MemoryAccess) -> bool:
    """Whether an access of a variable by its name is inside, as far as the code says."""
    base = a.address.base
    variable = t.kernel.variables.get(base.name) if isinstance(base, Symbol) else None
    if variable is None or not isinstance(base, Symbol):
        return False
    offset = base.offset + a.address.offset
    return variable.space == a.space and 0 <= offset <= variable.size_bytes - a.bytes_


def _track(t: Translator, a: MemoryAccess, site: IRValue, address: Callable[[], IRValue]) -> None:
    """Race tracking behind a fast access: stores always, loads where some block may write the array."""
    written = t.icmp("ne", t.load("i64", t.offset(site, 16)), constant("i64", 0)) if a.is_load else None
    with t.if_(written, likely=False) if written else nullcontext():
        t.call(
            f"ws_race_global_{t.unit.global_granule_log2}", "void", WORKER, CONTEXT, address(),
            ALL_LANES, constant("i32", a.bytes_), constant("i32", a.site), constant("i32", a.kind),
        )  # fmt: skip


def _inside_allocation(
    t: Translator, a: MemoryAccess, base: IRValue, offsets: tuple[int, ...]
) -> tuple[IRValue, IRValue]:
    """(whether all accesses of this block through the same base lie in one allocation and are aligned, the site).

    The block's accesses through one register differ by constants, so one test serves them all: a store or load that the
    test lets pass is inside, and where it fails each access is examined by itself.
    """
    key = ("inside", base.text)
    if key in t.scratch:
        return t.scratch[key], t.scratch["site", base.text]
    low, high, aligned = extent(t, a, offsets)
    site = t.offset(t.field("sites", "ptr"), 24 * a.site)
    first, last = t.add_const(base, low), t.add_const(base, high)
    limits = [t.load("i64", t.offset(site, 8 * k)) for k in range(2)]
    if base.lanes:
        limits = [t.splat(x, base.lanes) for x in limits]
    ok = t.and_(t.icmp("uge", first, limits[0]), t.icmp("ule", last, limits[1]))
    ok = t.and_(ok, t.icmp("ult", first, limits[1]))  # an address just below 2^64 has its end at 0
    if aligned > 1:
        ok = t.and_(ok, t.icmp("eq", t.and_const(base, aligned - 1), t.like(base, 0)))
    ok = t.all_true(ok)
    t.scratch[key], t.scratch["site", base.text] = ok, site
    return ok, site


@dataclass(frozen=True)
class _Grouped:
    """An access whose addresses have a pattern within each half or quarter of the warp."""

    t: Translator
    access: MemoryAccess
    pattern: Lanes
    bases: IRValue
    """the groups' first addresses, without the access's own offset"""
    shapes: tuple[Shape, ...]

    @property
    def size(self) -> int:
        return WARP // self.pattern.groups

    def firsts(self) -> list[IRValue]:
        t, offset = self.t, self.access.address.offset
        return [t.add_const(t.extract(self.bases, g), offset) for g in range(self.pattern.groups)]

    def vector(self) -> IRValue:
        """All 32 addresses."""
        return self.t.add_const(self.t.widen(self.bases, self.pattern), self.access.address.offset)

    def count(self, cell: int, lows: list[IRValue], highs: list[IRValue]) -> None:
        t = self.t
        if all(s.distinct == 1 for s in self.shapes) and self.pattern.groups * self.access.bytes_ <= SECTOR_BYTES:
            return count_places(t, cell, lows)
        if self.pattern.groups == 2 and all(len(s.runs) == 1 for s in self.shapes):
            return count_intervals(t, cell, lows, highs)
        mask, bytes_ = ALL_LANES, constant("i32", self.access.bytes_)
        t.call("ws_count_global", "void", self.vector(), mask, bytes_, t.counter_pointer(cell))
        return None

    def load(self, firsts: list[IRValue]) -> list[IRValue]:
        t, loaded = self.t, []
        for first, shape in zip(firsts, self.shapes, strict=True):
            values = load_shape(t, self.access, shape, first)
            loaded.append([t.splat(v, self.size) if not v.lanes else v for v in values])
        return [t.concat([group[k] for group in loaded]) for k in range(len(self.access.registers))]

    def store(self, firsts: list[IRValue], values: list[IRValue]) -> None:
        for g, (first, shape) in enumerate(zip(firsts, self.shapes, strict=True)):
            lanes = range(g * self.size, (g + 1) * self.size)
            store_shape(self.t, self.access, shape, first, [self.t.shuffle(v, lanes) for v in values])


def _grouped_shapes(a: MemoryAccess, parts: list[tuple[int, ...]]) -> tuple[Shape, ...] | None:
    """Shapes of the groups' accesses; None where one has none, or a store's lanes share places."""
    found = [shape_of(part, a.bytes_) for part in parts]
    shapes = tuple(s for s in found if s is not None and (a.is_load or s.distinct == len(parts[0])))
    return shapes if len(shapes) == len(parts) and (a.is_load or len(parts) <= 2) else None


def _global_grouped(
    t: Translator, a: MemoryAccess, pattern: Lanes, values: list[IRValue] | None, cell: int | None
) -> bool:
    """Addresses with a pattern within each half or quarter of the warp. False: not one that this path serves."""
    offsets, base = pattern.offsets, a.address.base
    assert offsets is not None and isinstance(base, Register)
    size = WARP // pattern.groups
    parts = [offsets[g * size : (g + 1) * size] for g in range(pattern.groups)]
    shapes = _grouped_shapes(a, parts)
    if shapes is None:
        return False
    bases = t.get(base.name, pattern.groups)
    grouped = _Grouped(t, a, pattern, bases, shapes)
    firsts = grouped.firsts()
    lows = [t.add_const(f, min(p)) for f, p in zip(firsts, parts, strict=True)]
    highs = [t.add_const(f, max(p) + a.bytes_) for f, p in zip(firsts, parts, strict=True)]

    def fast() -> list[IRValue]:
        if cell is not None:
            grouped.count(cell, lows, highs)
        if values is None:
            return grouped.load(firsts)
        grouped.store(firsts, values)
        return []

    def slow() -> list[IRValue]:
        return general_global(t, a, grouped.vector(), values, ALL_LANES, cell)

    conditions: list[IRValue | Callable[[], IRValue]] = [] if a.is_load else [_apart(t, lows, highs)]
    if not t.unit.options.check:
        finish(t, a, either(t, a, conditions, fast, slow) if conditions else fast(), Lanes())
        return True
    inside, site = _inside_allocation(t, a, bases, offsets)
    conditions.insert(0, inside)
    finish(t, a, either(t, a, conditions, fast, slow, lambda: _track(t, a, site, grouped.vector)), Lanes())
    return True


def _global_varying(
    t: Translator, a: MemoryAccess, address: IRValue, values: list[IRValue] | None, cell: int | None
) -> None:
    """Addresses known only now: 16 lanes at a time they are mostly contiguous or all the same."""
    o = t.unit.options
    groups = [t.shuffle(address, range(g, g + HALF)) for g in (0, HALF)]
    firsts = [t.extract(g, 0) for g in groups]
    steps = [t.sub(g, t.splat(f, HALF)) for g, f in zip(groups, firsts, strict=True)]
    ramp = constants("i64", [k * a.bytes_ for k in range(HALF)])
    contiguous = [t.all_true(t.icmp("eq", s, ramp)) for s in steps]
    dense = contiguous
    if a.is_load:
        same = [t.all_true(t.icmp("eq", s, t.like(s, 0))) for s in steps]
        dense = [t.or_(c, u) for c, u in zip(contiguous, same, strict=True)]
    spans = [t.select(c, constant("i64", HALF * a.bytes_), constant("i64", a.bytes_)) for c in contiguous]
    ends = [t.add(f, s) for f, s in zip(firsts, spans, strict=True)]
    conditions: list[IRValue | Callable[[], IRValue]] = [t.and_(*dense)]
    if o.check:
        site = t.offset(t.field("sites", "ptr"), 24 * a.site)
        low, high = t.load("i64", site), t.load("i64", t.offset(site, 8))
        ok = t.and_(*[_between(t, f, e, low, high) for f, e in zip(firsts, ends, strict=True)])
        if a.bytes_ > 1:
            odd = t.and_const(t.or_(*firsts), a.bytes_ - 1)
            ok = t.and_(ok, t.icmp("eq", odd, constant("i64", 0)))
        conditions.append(ok)
        if not a.is_load:
            conditions.append(lambda: _apart(t, firsts, ends))

    def fast() -> list[IRValue]:
        if cell is not None:
            count_intervals(t, cell, firsts, ends)
        if a.is_load:
            return _load_groups(t, a, firsts, contiguous)
        assert values is not None
        for g, first in enumerate(firsts):
            lanes = range(g * HALF, (g + 1) * HALF)
            joined = values[0] if len(values) == 1 else t.concat(values)
            big = t.shuffle(joined, [part * WARP + lane for lane in lanes for part in range(len(values))])
            t.store(big, t.pointer(first), align=a.element_bytes)
        return []

    def track() -> None:
        if o.check:
            _track(t, a, site, lambda: address)

    def slow() -> list[IRValue]:
        return general_global(t, a, address, values, ALL_LANES, cell)

    finish(t, a, either(t, a, conditions, fast, slow, track), Lanes())


def _between(t: Translator, first: IRValue, end: IRValue, low: IRValue, high: IRValue) -> IRValue:
    """Whether [first, end) lies in [low, high); an address just below 2^64 has its end at 0."""
    return t.and_(t.and_(t.icmp("uge", first, low), t.icmp("ule", end, high)), t.icmp("ult", first, high))


def _apart(t: Translator, firsts: list[IRValue], ends: list[IRValue]) -> IRValue:
    """Whether the two half warps write different places."""
    return t.or_(t.icmp("ule", ends[0], firsts[1]), t.icmp("ule", ends[1], firsts[0]))


def _load_groups(t: Translator, a: MemoryAccess, firsts: list[IRValue], contiguous: list[IRValue]) -> list[IRValue]:
    parts = len(a.registers)
    halves: list[list[IRValue]] = [[] for _ in range(parts)]
    for first, is_ramp in zip(firsts, contiguous, strict=True):
        ramp, one, join = t.new_label("ramp"), t.new_label("one"), t.new_label("half")
        pointer = t.pointer(first)
        t.branch(is_ramp, ramp, one, then=ramp)
        big = t.load(a.element, pointer, HALF * parts)
        wide = [big] if parts == 1 else [t.shuffle(big, [n * parts + k for n in range(HALF)]) for k in range(parts)]
        t.br(join, then=one)
        single = [t.splat(t.load(a.element, t.offset(pointer, k * a.element_bytes)), HALF) for k in range(parts)]
        t.br(join, then=join)
        for k in range(parts):
            halves[k].append(t.phi((wide[k], ramp), (single[k], one)))
    return [t.concat(h) for h in halves]
