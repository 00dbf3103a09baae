"""Loads and stores.

In `full`, an address with a known lane pattern becomes a few wide accesses and shuffles, behind one test of bounds and,
in shared memory, one look at the race shadow; a varying global address is tested at run time for the two shapes that
matter, contiguous and uniform, per 16 lanes. Everything else, and everything in `masked`, takes the general path:
one call that checks and counts all lanes, then a gather or scatter of those that may go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..emit import WARP, Value, constant, constants
from ..lanes import Lanes
from ..program import Address, Instruction, Operand, Register, Symbol, Vector, bytes_of
from . import layout as L
from .convert import LOCAL_WINDOW, SHARED_WINDOW
from .function import Translator
from .values import unsupported

_UNIFORM = Lanes((0,) * WARP)
_HALF = WARP // 2
_MOST_PIECES = 8
"""A pattern in more pieces than this is gathered."""


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

    @property
    def bytes_(self) -> int:
        """Bytes per lane."""
        return self.element_bytes * len(self.registers)

    @property
    def element(self) -> str:
        return f"i{8 * self.element_bytes}"

    @property
    def kind(self) -> int:
        return L.READ if self.is_load else L.WRITE


def translate(t: Translator, i: Instruction) -> None:
    """A load or store of any space."""
    is_load = i.opcode != "st"
    space = i.space
    if space == "param":
        return _load_parameter(t, i)
    where, what = (i.operands[1], i.operands[0]) if is_load else (i.operands[0], i.operands[1])
    if not isinstance(where, Address):
        raise unsupported(i)
    if space == "generic":
        space = _inferred_space(t, where) or "generic"
    registers = what.elements if isinstance(what, Vector) else (what,)
    size = bytes_of(i.type)
    if size > 8:
        raise unsupported(i)
    site = t.unit.site(i, space, "read" if is_load else "write")
    access = Access(i, space, is_load, where, tuple(registers), size, site)
    _book(t, access)
    {"global": _global, "const": _global, "shared": _shared, "local": _local, "generic": _generic}[space](t, access)


def _inferred_space(t: Translator, where: Address) -> str | None:
    """The space of a generic access whose pointer can only come from one."""
    if not isinstance(where.base, Register):
        return None
    roots = t.unit.pointers.get(where.base.name, frozenset())
    spaces = {r if r in ("shared", "local") else "global" for r in roots}
    return spaces.pop() if len(spaces) == 1 and "?" not in roots else None


def _book(t: Translator, a: Access) -> None:
    """The counts that do not depend on addresses."""
    line = a.instruction.source.line
    verb = "load" if a.is_load else "store"
    if a.space in ("global", "generic", "shared", "local"):
        space = "global" if a.space == "generic" else a.space
        t.count(f"{space}_{verb}_requests", line, per_warp=1)
        if space != "local":
            t.count(f"{space}_{verb}_bytes", line, per_lane=a.bytes_)


# ---------------------------------------------------------------- parameters


def _load_parameter(t: Translator, i: Instruction) -> None:
    where = i.operands[1]
    if i.opcode == "st" or not isinstance(where, Address) or not isinstance(where.base, Symbol):
        raise unsupported(i, "this use of parameter space")
    b, base = t.b, where.base
    offset = next(p.offset for p in t.kernel.params if p.name == base.name) + base.offset + where.offset
    size = bytes_of(i.type)
    target = i.operands[0]
    elements = target.elements if isinstance(target, Vector) else (target,)
    for k, element in enumerate(elements):
        value = b.load(f"i{8 * size}", b.offset(t.field("params", "ptr"), offset + k * size), align=1, invariant=True)
        _put_loaded(t, i, element, value, Lanes((0,) * WARP))


def _put_loaded(t: Translator, i: Instruction, target: Operand, value: Value, own: Lanes) -> None:
    if isinstance(target, Register):
        t.put(target.name, t.as_storage(target.name, value, i.type[0] == "s"), own)


# ---------------------------------------------------------------- addresses


def _vector_address(t: Translator, a: Access, kind: str) -> Value:
    """Addresses of all lanes as `kind` (i64 global, i32 shared offsets)."""
    b, base = t.b, a.address.base
    if isinstance(base, Register):
        value = b.resize(t.get(base.name, WARP), kind)
    else:
        value = b.splat(b.resize(t.source(base, "u64", 0), kind))
    return b.add_const(value, a.address.offset)


def _pattern(t: Translator, a: Access) -> Lanes:
    """Lane pattern of the address."""
    base = a.address.base
    return t.pattern(base.name) if isinstance(base, Register) else _UNIFORM


def _scalar_base(t: Translator, a: Access, kind: str) -> Value:
    """Lane 0's address without the instruction's offset."""
    base = a.address.base
    if isinstance(base, Register):
        return t.b.resize(t.get(base.name, 0), kind)
    return t.b.resize(t.source(base, "u64", 0), kind)


# ---------------------------------------------------------------- shapes of a pattern


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
    if len(runs) > _MOST_PIECES:
        return None
    index = {u: k for k, u in enumerate(unique)}
    counts = [0] * len(unique)
    for o in offsets:
        counts[index[o]] += 1
    return Shape(tuple(runs), tuple(index[o] for o in offsets), tuple(counts))


def _load_shape(t: Translator, a: Access, shape: Shape, base: Value) -> list[Value]:
    """One value per element register; scalars where all lanes read one address. `base` is lane 0's full address (i64)."""
    b, parts = t.b, len(a.registers)
    if shape.distinct == 1:
        start = b.add_const(base, shape.runs[0][0])
        return [b.load(a.element, b.pointer(b.add_const(start, k * a.element_bytes))) for k in range(parts)]
    halves = _halves(shape)
    pieces: list[list[Value]] = [[] for _ in range(parts)]
    for start, count in shape.runs:
        pointer = b.pointer(b.add_const(base, start))
        if count == 1:
            singles = [b.load(a.element, b.offset(pointer, k * a.element_bytes)) for k in range(parts)]
            for k, single in enumerate(singles):
                pieces[k].append(b.splat(single, _HALF) if halves else _one_lane(t, single))
            continue
        big = b.load(a.element, pointer, count * parts)
        for k in range(parts):
            pieces[k].append(big if parts == 1 else b.shuffle(big, [n * parts + k for n in range(count)]))
    if halves:  # each half warp is one run or one value: no permutation needed
        return [b.concat([p[h] for h in halves]) for p in pieces]
    return [b.shuffle(b.concat(p), shape.place) for p in pieces]


def _one_lane(t: Translator, x: Value) -> Value:
    return t.b.let(x.type, 1, f"insertelement <1 x {x.type}> poison, {x}, i32 0")


def _halves(shape: Shape) -> tuple[int, ...] | None:
    """The run that each half warp reads, if each reads exactly one: 16 neighbours in order, or a single place."""
    starts, found = [], 0
    for _, count in shape.runs:
        starts.append((found, count))
        found += count
    chosen = []
    for h in range(0, len(shape.place), _HALF):
        places = shape.place[h : h + _HALF]
        run = next(k for k, (first, count) in enumerate(starts) if first <= places[0] < first + count)
        first, count = starts[run]
        one = count == 1 and set(places) == {first}
        ramp = count == _HALF and list(places) == list(range(first, first + _HALF))
        if len(places) < _HALF or not (one or ramp):
            return None
        chosen.append(run)
    return tuple(chosen)


def _store_shape(t: Translator, a: Access, shape: Shape, base: Value, values: list[Value]) -> None:
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


# ---------------------------------------------------------------- global memory


def _general(t: Translator, a: Access, address: Value, values: list[Value] | None, mask: Value, cell: int | None) -> list[Value]:
    """Any global access of the lanes in `mask`: account for it, then gather or scatter."""
    b, o = t.b, t.unit.options
    counted = o.count and cell is not None
    if o.check or counted:
        counter = t.counter_pointer(cell) if counted and cell is not None else Value("ptr", "null")
        mask = b.call(
            f"ws_access_global_{t.unit.global_granule_log2}", "i32", Value("ptr", "%w"), Value("ptr", "%c"), address,
            mask, constant("i32", a.bytes_), constant("i32", a.site), constant("i32", a.kind), counter,
            constant("i32", int(o.check and a.space != "const")),
        )  # fmt: skip
    return _gather_scatter(t, a, address, values, mask)


def _gather_scatter(t: Translator, a: Access, address: Value, values: list[Value] | None, mask: Value) -> list[Value]:
    b, results = t.b, []
    for k in range(len(a.registers)):
        at = b.add_const(address, k * a.element_bytes)
        if values is None:
            results.append(b.call(f"ws_gather_{a.element}", a.element, at, mask, lanes=WARP))
        else:
            b.call(f"ws_scatter_{a.element}", "void", at, mask, values[k])
    return results


def _values(t: Translator, a: Access) -> list[Value] | None:
    """What a store writes, as vectors of raw bits."""
    if a.is_load:
        return None
    bits = f"b{8 * a.element_bytes}"
    return [t.source(r, bits, WARP) for r in a.registers]


def _finish(t: Translator, a: Access, results: list[Value], own: Lanes) -> None:
    if a.is_load:
        for register, value in zip(a.registers, results, strict=True):
            _put_loaded(t, a.instruction, register, value, own)


def _sector_cell(t: Translator, a: Access) -> int | None:
    """Counters for sectors and ideal sectors of a site."""
    if not t.unit.options.count or a.space == "const":
        return None
    cell = t.unit.plan.cell(2)
    verb = "load" if a.is_load else "store"
    t.unit.plan.named(cell, f"global_{verb}_sectors", a.instruction.source.line)
    t.unit.plan.named(cell + 1, f"global_{verb}_sectors_ideal", a.instruction.source.line)
    return cell


def _global(t: Translator, a: Access) -> None:
    cell = _sector_cell(t, a)
    values = _values(t, a)
    if t.masked:
        address = _vector_address(t, a, "i64")
        return _finish(t, a, _general(t, a, address, values, t.mask_bits, cell), Lanes())  # type: ignore[attr-defined]
    pattern = _pattern(t, a)
    if pattern.scalar and pattern.offsets is not None:
        shape = shape_of(pattern.offsets, a.bytes_)
        if shape is not None and (a.is_load or shape.distinct == WARP):
            return _global_pattern(t, a, pattern.offsets, shape, values, cell)
    elif pattern.known and a.space == "global" and _global_grouped(t, a, pattern, values, cell):
        return None
    address = _vector_address(t, a, "i64")
    if not pattern.known and a.space == "global":
        return _global_varying(t, a, address, values, cell)
    return _finish(t, a, _general(t, a, address, values, constant("i32", -1), cell), Lanes())


def _global_pattern(
    t: Translator, a: Access, offsets: tuple[int, ...], shape: Shape, values: list[Value] | None, cell: int | None
) -> None:
    b, o = t.b, t.unit.options
    base = _scalar_base(t, a, "i64")
    lane0 = b.add_const(base, a.address.offset)

    def fast() -> list[Value]:
        if cell is not None:
            t.bump(cell, _pattern_sectors(t, lane0, offsets, a.bytes_))
            t.bump(cell + 1, constant("i64", -(-shape.distinct * a.bytes_ // 32)))
        if a.is_load:
            return _load_shape(t, a, shape, lane0)
        assert values is not None
        _store_shape(t, a, shape, lane0, values)
        return []

    def slow() -> list[Value]:
        address = b.add_const(t.widen(base, Lanes(offsets)), a.address.offset)
        results = _general(t, a, address, values, constant("i32", -1), cell)
        return [b.extract(r, 0) for r in results] if shape.distinct == 1 else results

    own = Lanes((0,) * WARP) if shape.distinct == 1 else Lanes()
    if not o.check or a.space == "const":
        return _finish(t, a, fast(), own)
    inside, site = _inside_allocation(t, a, base, offsets)
    _finish(t, a, _either(t, a, [inside], fast, slow, _track(t, a, site, base, offsets)), own)


def _either(
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


def _track(t: Translator, a: Access, site: Value, base: Value, offsets: tuple[int, ...]) -> Callable[[], None]:
    """Race tracking behind a fast access: stores always, loads where some block may write the array."""
    b = t.b

    def track() -> None:
        if a.is_load:
            with b.if_(b.icmp("ne", b.load("i64", b.offset(site, 16)), constant("i64", 0)), likely=False):
                _race_global(t, a, b.add_const(t.widen(base, Lanes(offsets)), a.address.offset))
        else:
            _race_global(t, a, b.add_const(t.widen(base, Lanes(offsets)), a.address.offset))

    return track


def _race_global(t: Translator, a: Access, address: Value) -> None:
    t.b.call(
        f"ws_race_global_{t.unit.global_granule_log2}", "void", Value("ptr", "%w"), Value("ptr", "%c"), address,
        constant("i32", -1), constant("i32", a.bytes_), constant("i32", a.site), constant("i32", a.kind),
    )  # fmt: skip


def _inside_allocation(t: Translator, a: Access, base: Value, offsets: tuple[int, ...]) -> tuple[Value, Value]:
    """(whether all accesses of this block through the same base lie in one allocation and are aligned, the site).

    The block's accesses through one register differ by constants, so one test serves them all: a store or load that the
    test lets pass is inside, and where it fails each access is examined by itself.
    """
    b = t.b
    key = ("inside", base.text)
    if key in t.scratch:
        return t.scratch[key], t.scratch["site", base.text]
    low, high, aligned = _extent(t, a, offsets)
    site = b.offset(t.field("sites", "ptr"), 24 * a.site)
    first, last = b.add_const(base, low), b.add_const(base, high)
    limits = [b.load("i64", b.offset(site, 8 * k)) for k in range(2)]
    if base.lanes:
        limits = [b.splat(x, base.lanes) for x in limits]
    ok = b.and_(b.icmp("uge", first, limits[0]), b.icmp("ule", last, limits[1]))
    if aligned > 1:
        ok = b.and_(ok, b.icmp("eq", b.and_const(base, aligned - 1), b.like(base, 0)))
    ok = b.all_true(ok)
    t.scratch[key], t.scratch["site", base.text] = ok, site
    return ok, site


def _extent(t: Translator, a: Access, offsets: tuple[int, ...]) -> tuple[int, int, int]:
    """(lowest, highest + 1) byte that this block touches through the register of `a`, and the alignment to test."""
    base = a.address.base
    low = high = None
    aligned = 1
    from ..program import written

    for position in range(t.position, len(t.block.instructions)):
        i = t.block.instructions[position]
        if i.opcode in ("ld", "ldu", "st"):
            where = i.operands[1] if i.opcode != "st" else i.operands[0]
            what = i.operands[0] if i.opcode != "st" else i.operands[1]
            if isinstance(where, Address) and where.base == base and i.space == a.instruction.space:
                size = bytes_of(i.type) * (len(what.elements) if isinstance(what, Vector) else 1)
                first, last = where.offset + min(offsets), where.offset + max(offsets) + size
                low = first if low is None else min(low, first)
                high = last if high is None else max(high, last)
                if any((where.offset + o) % size for o in offsets):
                    aligned = 1 << 40  # some lane is misaligned whatever the base: never take the fast path
                aligned = max(aligned, size)
        if isinstance(base, Register) and base.name in written(i):
            break
    assert low is not None and high is not None
    return low, high, aligned


def _pattern_sectors(t: Translator, lane0: Value, offsets: tuple[int, ...], bytes_: int) -> Value:
    """Number of 32-byte sectors that a pattern touches, which depends on the base modulo 32 alone."""
    b = t.b
    unique = sorted(set(offsets))
    if all(q - p <= 32 for p, q in zip(unique, unique[1:], strict=False)):  # no sector is skipped
        first = b.lshr(b.add_const(lane0, unique[0]), 5)
        last = b.lshr(b.add_const(lane0, unique[-1] + bytes_ - 1), 5)
        return b.add_const(b.sub(last, first), 1)
    table = [len({(r * bytes_ + u) // 32 for u in unique}) for r in range(max(1, 32 // bytes_))]
    if len(set(table)) == 1:
        return constant("i64", table[0])
    index = b.lshr(b.and_const(lane0, 31), bytes_.bit_length() - 1)
    return b.extract(constants("i64", table), index)


def _global_varying(t: Translator, a: Access, address: Value, values: list[Value] | None, cell: int | None) -> None:
    """Addresses known only now: 16 lanes at a time they are mostly contiguous or all the same."""
    b, o = t.b, t.unit.options
    groups = [b.shuffle(address, range(g, g + _HALF)) for g in (0, _HALF)]
    firsts = [b.extract(g, 0) for g in groups]
    steps = [b.sub(g, b.splat(f, _HALF)) for g, f in zip(groups, firsts, strict=True)]
    ramp = constants("i64", [k * a.bytes_ for k in range(_HALF)])
    contiguous = [b.all_true(b.icmp("eq", s, ramp)) for s in steps]
    dense = contiguous
    if a.is_load:
        same = [b.all_true(b.icmp("eq", s, b.like(s, 0))) for s in steps]
        dense = [b.or_(c, u) for c, u in zip(contiguous, same, strict=True)]
    spans = [b.select(c, constant("i64", _HALF * a.bytes_), constant("i64", a.bytes_)) for c in contiguous]
    ends = [b.add(f, s) for f, s in zip(firsts, spans, strict=True)]
    conditions: list[Value | Callable[[], Value]] = [b.and_(*dense)]
    if o.check:
        site = b.offset(t.field("sites", "ptr"), 24 * a.site)
        low, high = b.load("i64", site), b.load("i64", b.offset(site, 8))
        ok = b.and_(*[b.and_(b.icmp("uge", f, low), b.icmp("ule", e, high)) for f, e in zip(firsts, ends, strict=True)])
        if a.bytes_ > 1:
            odd = b.and_const(b.or_(*firsts), a.bytes_ - 1)
            ok = b.and_(ok, b.icmp("eq", odd, constant("i64", 0)))
        conditions.append(ok)
        if not a.is_load:
            conditions.append(lambda: _apart(t, firsts, ends))

    def fast() -> list[Value]:
        if cell is not None:
            _count_intervals(t, cell, firsts, ends)
        if a.is_load:
            return _load_groups(t, a, firsts, contiguous)
        assert values is not None
        for g, first in enumerate(firsts):
            lanes = range(g * _HALF, (g + 1) * _HALF)
            joined = values[0] if len(values) == 1 else b.concat(values)
            big = b.shuffle(joined, [part * WARP + lane for lane in lanes for part in range(len(values))])
            b.store(big, b.pointer(first), align=a.element_bytes)
        return []

    def track() -> None:
        if not o.check:
            return
        if a.is_load:
            with b.if_(b.icmp("ne", b.load("i64", b.offset(site, 16)), constant("i64", 0)), likely=False):
                _race_global(t, a, address)
        else:
            _race_global(t, a, address)

    def slow() -> list[Value]:
        return _general(t, a, address, values, constant("i32", -1), cell)

    _finish(t, a, _either(t, a, conditions, fast, slow, track), Lanes())


def _global_grouped(t: Translator, a: Access, pattern: Lanes, values: list[Value] | None, cell: int | None) -> bool:
    """Addresses with a pattern within each half or quarter of the warp. False: not one that this path serves."""
    b, o, groups, offsets = t.b, t.unit.options, pattern.groups, pattern.offsets
    assert offsets is not None
    size = WARP // groups
    parts = [offsets[g * size : (g + 1) * size] for g in range(groups)]
    shapes = [shape_of(p, a.bytes_) for p in parts]
    if any(s is None or not (a.is_load or s.distinct == size) for s in shapes):
        return False
    if not a.is_load and groups > 2:
        return False
    base_register = a.address.base
    assert isinstance(base_register, Register)
    bases = t.get(base_register.name, groups)
    firsts = [b.add_const(b.extract(bases, g), a.address.offset) for g in range(groups)]
    lows = [b.add_const(f, min(p)) for f, p in zip(firsts, parts, strict=True)]
    highs = [b.add_const(f, max(p) + a.bytes_) for f, p in zip(firsts, parts, strict=True)]

    def vector() -> Value:
        return b.add_const(t.widen(bases, pattern), a.address.offset)

    def fast() -> list[Value]:
        if cell is not None:
            if groups == 2 and all(s is not None and len(s.runs) == 1 for s in shapes):
                _count_intervals(t, cell, lows, highs)
            else:
                b.call("ws_count_global", "void", vector(), constant("i32", -1), constant("i32", a.bytes_), t.counter_pointer(cell))
        if a.is_load:
            loaded = []
            for first, shape in zip(firsts, shapes, strict=True):
                assert shape is not None
                loaded.append([b.splat(v, size) if not v.lanes else v for v in _load_shape(t, a, shape, first)])
            return [b.concat([group[k] for group in loaded]) for k in range(len(a.registers))]
        assert values is not None
        for g, (first, shape) in enumerate(zip(firsts, shapes, strict=True)):
            assert shape is not None
            _store_shape(t, a, shape, first, [b.shuffle(v, range(g * size, (g + 1) * size)) for v in values])
        return []

    def slow() -> list[Value]:
        return _general(t, a, vector(), values, constant("i32", -1), cell)

    conditions: list[Value | Callable[[], Value]] = []
    if not a.is_load:
        conditions.append(_apart(t, lows, highs))
    if not o.check:
        _finish(t, a, _either(t, a, conditions, fast, slow) if conditions else fast(), Lanes())
        return True
    inside, site = _inside_allocation(t, a, bases, offsets)
    conditions.insert(0, inside)

    def track() -> None:
        if not a.is_load:
            return _race_global(t, a, vector())
        with b.if_(b.icmp("ne", b.load("i64", b.offset(site, 16)), constant("i64", 0)), likely=False):
            _race_global(t, a, vector())
        return None

    _finish(t, a, _either(t, a, conditions, fast, slow, track), Lanes())
    return True


def _apart(t: Translator, firsts: list[Value], ends: list[Value]) -> Value:
    """Whether the two half warps write different places."""
    b = t.b
    return b.or_(b.icmp("ule", ends[0], firsts[1]), b.icmp("ule", ends[1], firsts[0]))


def _load_groups(t: Translator, a: Access, firsts: list[Value], contiguous: list[Value]) -> list[Value]:
    b, parts = t.b, len(a.registers)
    halves: list[list[Value]] = [[] for _ in range(parts)]
    for first, is_ramp in zip(firsts, contiguous, strict=True):
        ramp, one, join = b.new_label("ramp"), b.new_label("one"), b.new_label("half")
        pointer = b.pointer(first)
        b.branch(is_ramp, ramp, one)
        b.label(ramp)
        big = b.load(a.element, pointer, _HALF * parts)
        wide = [big] if parts == 1 else [b.shuffle(big, [n * parts + k for n in range(_HALF)]) for k in range(parts)]
        b.br(join)
        b.label(one)
        single = [b.splat(b.load(a.element, b.offset(pointer, k * a.element_bytes)), _HALF) for k in range(parts)]
        b.br(join)
        b.label(join)
        for k in range(parts):
            halves[k].append(b.phi((wide[k], ramp), (single[k], one)))
    return [b.concat(h) for h in halves]


def _count_intervals(t: Translator, cell: int, firsts: list[Value], ends: list[Value]) -> None:
    """Sectors and ideal sectors of two byte intervals that may overlap."""
    b = t.b

    def union(lows: list[Value], highs: list[Value]) -> Value:
        total = b.add(b.sub(highs[0], lows[0]), b.sub(highs[1], lows[1]))
        overlap = b.sub(b.intrinsic("umin", *highs), b.intrinsic("umax", *lows))
        return b.sub(total, b.intrinsic("smax", overlap, constant("i64", 0)))

    starts = [b.lshr(f, 5) for f in firsts]
    stops = [b.lshr(b.add_const(e, 31), 5) for e in ends]
    t.bump(cell, union(starts, stops))
    t.bump(cell + 1, b.lshr(b.add_const(union(firsts, ends), 31), 5))


# ---------------------------------------------------------------- shared memory


def _shared_base(t: Translator) -> Value:
    return t.b.convert("ptrtoint", t.field("shared", "ptr"), "i64")


def _shared_general(t: Translator, a: Access, offset: Value, values: list[Value] | None, mask: Value, cell: int | None) -> list[Value]:
    b, o = t.b, t.unit.options
    if o.check or cell is not None:
        counter = t.counter_pointer(cell) if cell is not None else Value("ptr", "null")
        mask = b.call(
            f"ws_access_shared_{t.unit.shared_granule_log2}", "i32", Value("ptr", "%w"), Value("ptr", "%c"), offset,
            mask, constant("i32", a.bytes_), constant("i32", a.site), constant("i32", a.kind), counter,
            constant("i32", int(o.check)),
        )  # fmt: skip
    address = b.add(b.resize(offset, "i64"), b.splat(_shared_base(t)))
    return _gather_scatter(t, a, address, values, mask)


def _conflict_cell(t: Translator, a: Access) -> int | None:
    """Counters for wavefronts and bank conflicts of a site."""
    if not t.unit.options.count:
        return None
    cell = t.unit.plan.cell(2)
    verb = "load" if a.is_load else "store"
    t.unit.plan.named(cell, f"shared_{verb}_wavefronts", a.instruction.source.line)
    t.unit.plan.named(cell + 1, f"shared_{verb}_bank_conflicts", a.instruction.source.line)
    return cell


def _shared(t: Translator, a: Access) -> None:
    values = _values(t, a)
    if t.masked:
        offset = _vector_address(t, a, "i32")
        mask: Value = t.mask_bits  # type: ignore[attr-defined]
        return _finish(t, a, _shared_general(t, a, offset, values, mask, _conflict_cell(t, a)), Lanes())
    pattern = _pattern(t, a)
    offsets = pattern.offsets if pattern.scalar else None
    shape = shape_of(offsets, a.bytes_) if offsets is not None else None
    if offsets is None or shape is None or not (a.is_load or shape.distinct == WARP):
        offset = _vector_address(t, a, "i32")
        return _finish(t, a, _shared_general(t, a, offset, values, constant("i32", -1), _conflict_cell(t, a)), Lanes())
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
        cell = _conflict_cell(t, a)
    base = _scalar_base(t, a, "i32")

    def vector_offset() -> Value:
        return b.add_const(t.widen(base, Lanes(offsets)), a.address.offset)

    if cell is not None:
        b.call("ws_count_shared", "void", vector_offset(), constant("i32", -1), constant("i32", a.bytes_), t.counter_pointer(cell))

    def host_address() -> Value:
        return b.add_const(b.add(b.resize(base, "i64"), _shared_base(t)), a.address.offset)

    def fast() -> list[Value]:
        if a.is_load:
            return _load_shape(t, a, shape, host_address())
        assert values is not None
        _store_shape(t, a, shape, host_address(), values)
        return []

    def slow() -> list[Value]:
        results = _shared_general(t, a, vector_offset(), values, constant("i32", -1), None)
        return [b.extract(r, 0) for r in results] if shape.distinct == 1 else results

    own = Lanes((0,) * WARP) if shape.distinct == 1 else Lanes()
    if not o.check:
        return _finish(t, a, fast(), own)
    inside = _inside_shared(t, a, base, offsets)
    marks = _shadow_marks(t, a, shape)
    _finish(t, a, _either(t, a, [inside, lambda: _shadow_pass(t, a, base, marks)], fast, slow), own)


def _inside_shared(t: Translator, a: Access, base: Value, offsets: tuple[int, ...]) -> Value:
    """Like _inside_allocation, for shared memory."""
    b = t.b
    key = ("inside shared", base.text)
    if key not in t.scratch:
        low, high, aligned = _extent(t, a, offsets)
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
        mine = b.or_(b.splat(me, lanes) if lanes else me, constants("i32", marks) if lanes else constant("i32", marks[0]))
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


# ---------------------------------------------------------------- local memory


def _local(t: Translator, a: Access) -> None:
    """Local memory is interleaved by lane in 4-byte words, as the hardware does, so equal offsets are contiguous."""
    b = t.b
    values = _values(t, a)
    mask: Value = t.mask_bits if t.masked else constant("i32", -1)  # type: ignore[attr-defined]
    offset = b.and_const(_vector_address(t, a, "i64"), LOCAL_WINDOW - 1)
    if t.unit.options.check:
        mask = b.call(
            "ws_check_local", "i32", Value("ptr", "%w"), Value("ptr", "%c"), offset, mask, constant("i32", a.bytes_),
            constant("i32", a.site), constant("i64", t.kernel.local_bytes),
        )  # fmt: skip
    base = b.convert("ptrtoint", b.offset(Value("ptr", "%c"), t.unit.context.local), "i64")
    _finish(t, a, _local_words(t, a, offset, base, values, mask), Lanes())


def local_address(t: Translator, offset: Value, base: Value) -> Value:
    """Host addresses of local byte offsets."""
    b = t.b
    word = b.shl(b.lshr(offset, 2), 7)
    lane = constants("i64", [4 * n for n in range(WARP)])
    return b.add(b.add(word, b.and_const(offset, 3)), b.add(lane, b.splat(base)))


def _local_words(t: Translator, a: Access, offset: Value, base: Value, values: list[Value] | None, mask: Value) -> list[Value]:
    b, results = t.b, []
    for k in range(len(a.registers)):
        at = b.add_const(offset, k * a.element_bytes)
        if a.element_bytes <= 4:
            address = local_address(t, at, base)
            if values is None:
                results.append(b.call(f"ws_gather_{a.element}", a.element, address, mask, lanes=WARP))
            else:
                b.call(f"ws_scatter_{a.element}", "void", address, mask, values[k])
            continue
        words = []
        for half in (0, 1):
            address = local_address(t, b.add_const(at, 4 * half), base)
            if values is None:
                words.append(b.resize(b.call("ws_gather_i32", "i32", address, mask, lanes=WARP), "i64"))
            else:
                b.call("ws_scatter_i32", "void", address, mask, b.resize(b.lshr(values[k], 32 * half), "i32"))
        if words:
            results.append(b.or_(words[0], b.shl(words[1], 32)))
    return results


# ---------------------------------------------------------------- generic addresses


def _generic(t: Translator, a: Access) -> None:
    """A pointer that may lead anywhere: each lane goes by the window that its address is in."""
    b = t.b
    values = _values(t, a)
    mask: Value = t.mask_bits if t.masked else constant("i32", -1)  # type: ignore[attr-defined]
    address = _vector_address(t, a, "i64")
    window = b.lshr(address, 56)
    in_shared = b.icmp("eq", window, b.like(window, SHARED_WINDOW >> 56))
    in_local = b.icmp("eq", window, b.like(window, LOCAL_WINDOW >> 56))
    shared_mask = b.and_(mask, b.mask_bits(in_shared))
    local_mask = b.and_(mask, b.mask_bits(in_local))
    global_mask = b.and_(mask, b.not_(b.or_(shared_mask, local_mask)))
    results = [b.like(Value(a.element, "", WARP), 0) for _ in a.registers] if a.is_load else []

    def part(which: Value, run: Callable[[], list[Value]]) -> None:
        nonlocal results
        then, end = b.new_label("part"), b.new_label("next")
        before = b.label_now
        b.branch(b.icmp("ne", which, constant("i32", 0)), then, end)
        b.label(then)
        found = run()
        if found:
            chosen = b.bits_mask(which)
            found = [b.select(chosen, f, r) for f, r in zip(found, results, strict=True)]
        then_end = b.label_now
        b.br(end)
        b.label(end)
        results = [b.phi((f, then_end), (r, before)) for f, r in zip(found, results, strict=True)]

    cell = _sector_cell(t, a)
    part(global_mask, lambda: _general(t, a, address, values, global_mask, cell))
    conflict_cell = _conflict_cell(t, a)
    offset = b.resize(address, "i32")
    part(shared_mask, lambda: _shared_general(t, a, offset, values, shared_mask, conflict_cell))
    if t.kernel.local_bytes:
        base = b.convert("ptrtoint", b.offset(Value("ptr", "%c"), t.unit.context.local), "i64")
        inner = b.and_const(address, LOCAL_WINDOW - 1)

        def local() -> list[Value]:
            m = local_mask
            if t.unit.options.check:
                m = b.call(
                    "ws_check_local", "i32", Value("ptr", "%w"), Value("ptr", "%c"), inner, m, constant("i32", a.bytes_),
                    constant("i32", a.site), constant("i64", t.kernel.local_bytes),
                )  # fmt: skip
            return _local_words(t, a, inner, base, values, m)

        part(local_mask, local)
    _finish(t, a, results, Lanes())
