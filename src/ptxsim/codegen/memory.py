"""Loads, stores and atomics: which space an access goes to; local memory; addresses that may lead anywhere."""

from __future__ import annotations

from collections.abc import Callable

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.access import (
    MemoryAccess,
    access_of,
    elements,
    finish,
    from_window,
    low_offset,
    move_lanes,
    narrow,
    own_stretch,
    put_loaded,
    shared_offsets,
    signal,
    space_of,
    stored_values,
    vector_address,
)
from ptxsim.codegen.accounting import account
from ptxsim.codegen.async_stores import send
from ptxsim.codegen.clusters import cluster_hosts, general_cluster, report_own, translate_cluster
from ptxsim.codegen.emit import (
    ADDRESS,
    CONTEXT,
    I32,
    MASK,
    WARP,
    WORKER,
    Builder,
    Helper,
    IRValue,
    arg,
    constant,
    constants,
    i32,
)
from ptxsim.codegen.floating import (
    add_float,
    canonical_nan,
    flush,
    max_float,
    min_float,
    packed_half,
)
from ptxsim.codegen.global_memory import general_global, sector_cell, translate_global
from ptxsim.codegen.nans import canonical_bits
from ptxsim.codegen.shared_memory import conflict_cell, general_shared, shared_base, translate_shared
from ptxsim.codegen.translator import UNIFORM, Translator
from ptxsim.codegen.values import LLVM_TYPE, handles, is_float, unsupported
from ptxsim.syntax.program import Address, Instruction, Sink, Symbol, bytes_of


@handles("ld", "ldu", "st")
def _load_or_store(t: Translator, i: Instruction) -> None:
    """A load or store of any space."""
    if i.has("async"):
        return send(t, i)
    if i.space == "param":
        return _load_parameter(t, i)
    access = access_of(t, i)
    if access is None or access.element_bytes > 8:
        raise unsupported(i)
    _book(t, access)
    handlers = {
        "global": translate_global, "const": translate_global, "shared": translate_shared, "local": _translate_local,
        "generic": _translate_generic, "cluster": translate_cluster,
    }  # fmt: skip
    handlers[access.space](t, access)


def _book(t: Translator, a: MemoryAccess) -> None:
    """The counts that do not depend on addresses."""
    if a.instruction.added:  # the call stack's own
        return
    if a.space in ("global", "shared", "local"):
        merged = t.unit.shared_requests.get(id(a.instruction))
        t.count(f"{a.space}_{a.verb}_requests", a.line, per_warp=1 if merged is None else len(merged))
        if a.space != "local":
            t.count(f"{a.space}_{a.verb}_bytes", a.line, per_lane=a.bytes_)
    elif a.space == "const":
        t.count("constant_load_requests", a.line, per_warp=1)


def _book_lanes(t: Translator, a: MemoryAccess, space: str, mask: IRValue) -> None:
    """The same counts for the lanes of a generic access that turned out to be in `space`: at least one."""
    if not t.unit.options.count:
        return
    cell = t.unit.plan.cell(2)
    t.unit.plan.named(cell, f"{space}_{a.verb}_requests", a.line)
    t.bump(cell, constant("i64", 1))
    if space != "local":
        t.unit.plan.named(cell + 1, f"{space}_{a.verb}_bytes", a.line)
        t.bump(cell + 1, t.mul(t.resize(t.intrinsic("ctpop", mask), "i64"), constant("i64", a.bytes_)))


def _load_parameter(t: Translator, i: Instruction) -> None:
    where = i.operands[1]
    if i.opcode == "st" or not isinstance(where, Address):
        raise unsupported(i, "this use of parameter space")
    base = where.base
    if not isinstance(base, Symbol):
        return _load_from_parameters(t, i)
    offset = next(p.offset for p in t.kernel.params if p.name == base.name) + base.offset + where.offset
    size, into = bytes_of(i.type), elements(i.operands[0])
    if not 0 <= offset <= t.kernel.param_bytes - size * len(into):
        return _outside_parameters(t, i, offset)
    for k, element in enumerate(into):
        value = t.load(f"i{8 * size}", t.offset(t.field("params", "ptr"), offset + k * size), align=1, invariant=True)
        put_loaded(t, i, element, value, UNIFORM)


def _load_from_parameters(t: Translator, i: Instruction) -> None:
    """A load of some place among the parameters: each lane's own, 0 where it is outside of them."""
    a = access_of(t, i)
    assert a is not None
    start = t.convert("ptrtoint", t.field("params", "ptr"), "i64")
    address = vector_address(t, a, "i64")
    offset = t.sub(address, t.splat(start))
    last = t.kernel.param_bytes - a.bytes_
    fits = t.mask_bits(t.icmp("ule", offset, t.like(offset, max(last, 0))))
    mask = t.and_(t.active, fits) if last >= 0 else constant("i32", 0)
    if t.unit.options.check:
        outside = t.and_(t.active, t.not_(mask))
        with t.if_(t.icmp("ne", outside, constant("i32", 0)), likely=False):
            lane = t.first_bit(outside)
            at = t.let("i64", 0, f"extractelement {offset}, {lane}")
            of = constant("i32", L.PARAM_OUT_OF_BOUNDS), t.site_number(a.site), lane
            t.call("ws_hazard", "void", WORKER, CONTEXT, *of, at, constant("i64", 0))
    places = (t.add_const(address, k * a.element_bytes) for k in range(len(a.registers)))
    finish(t, a, [move_lanes(t, a.element, at, mask, None) for at in places], Lanes())


def _outside_parameters(t: Translator, i: Instruction, offset: int) -> None:
    """A load of what lies behind the parameters, or before them: gives 0."""
    if t.unit.options.check:
        site, lane = t.unit.site(i, "param", "read"), t.first_bit(t.active)
        t.hazard(L.PARAM_OUT_OF_BOUNDS, site, lane, address=offset)
    for element in elements(i.operands[0]):
        put_loaded(t, i, element, constant(f"i{8 * bytes_of(i.type)}", 0), UNIFORM)


def _translate_local(t: Translator, a: MemoryAccess) -> None:
    """Local memory is interleaved by lane in 4-byte words, as the hardware does, so equal offsets are contiguous."""
    values = stored_values(t, a)
    offset = from_window(t, a.instruction, vector_address(t, a, "i64"), L.LOCAL_WINDOW)
    mask = _check_local(t, a, offset, t.active)
    base = t.convert("ptrtoint", t.offset(CONTEXT, t.unit.context.local), "i64")
    finish(t, a, _local_words(t, a, offset, base, values, mask), Lanes())


def _check_local(t: Translator, a: MemoryAccess, offset: IRValue, mask: IRValue) -> IRValue:
    """The lanes that may go on."""
    if not t.unit.options.check:
        return mask
    return t.call(
        "ws_check_local", "i32", WORKER, CONTEXT, offset, mask, constant("i32", a.bytes_), constant("i32", a.site),
        constant("i64", t.kernel.local_bytes),
    )  # fmt: skip


def _local_address(t: Translator, offset: IRValue, base: IRValue) -> IRValue:
    """Host addresses of local byte offsets."""
    word = t.shl(t.lshr(offset, 2), 7)
    lane = constants("i64", [4 * n for n in range(WARP)])
    return t.add(t.add(word, t.and_const(offset, 3)), t.add(lane, t.splat(base)))


def _local_words(
    t: Translator, a: MemoryAccess, offset: IRValue, base: IRValue, values: list[IRValue] | None, mask: IRValue
) -> list[IRValue]:
    results = []
    for k in range(len(a.registers)):
        at = t.add_const(offset, k * a.element_bytes)
        value = values[k] if values else None
        if a.element_bytes <= 4:
            results.append(move_lanes(t, a.element, _local_address(t, at, base), mask, value))
            continue
        words = []
        for half in (0, 1):
            address = _local_address(t, t.add_const(at, 4 * half), base)
            part = value and t.resize(t.lshr(value, 32 * half), "i32")
            words.append(move_lanes(t, "i32", address, mask, part))
            if values is None:
                words[half] = t.resize(words[half], "i64")
        if values is None:
            results.append(t.or_(words[0], t.shl(words[1], 32)))
    return results if values is None else []


def _translate_generic(t: Translator, a: MemoryAccess) -> None:
    """A pointer that may lead anywhere: each lane goes by the window that its address is in."""
    values, mask = stored_values(t, a), t.active
    address = vector_address(t, a, "i64")
    window = t.lshr(address, 56)
    in_shared = t.icmp("eq", window, t.like(window, L.SHARED_WINDOW >> 56))
    in_local = t.icmp("eq", window, t.like(window, L.LOCAL_WINDOW >> 56))
    shared_mask = t.and_(mask, t.mask_bits(in_shared))
    local_mask = t.and_(mask, t.mask_bits(in_local))
    global_mask = t.and_(mask, t.not_(t.or_(shared_mask, local_mask)))
    results = [t.like(IRValue(a.element, "", WARP), 0) for _ in a.registers] if a.is_load else []

    def part(space: str, which: IRValue, run: Callable[[], list[IRValue]]) -> None:
        nonlocal results
        then, end = t.new_label("part"), t.new_label("next")
        before = t.label_now
        t.branch(t.icmp("ne", which, constant("i32", 0)), then, end, then=then)
        _book_lanes(t, a, space, which)
        found = run()
        if found:
            chosen = t.bits_mask(which)
            found = [t.select(chosen, f, r) for f, r in zip(found, results, strict=True)]
        then_end = t.label_now
        t.br(end, then=end)
        results = [t.phi((f, then_end), (r, before)) for f, r in zip(found, results, strict=True)]

    cell = sector_cell(t, a)
    part("global", global_mask, lambda: general_global(t, a, address, values, global_mask, cell))
    conflicts = conflict_cell(t, a)
    if t.unit.clusters:
        inner = t.resize(address, "i32")
        part("shared", shared_mask, lambda: general_cluster(t, a, inner, values, shared_mask))
    else:
        offset = _inside_window(t, address)

        def in_block() -> list[IRValue]:
            report_own(t, a, offset, shared_mask)
            return general_shared(t, a, offset, values, shared_mask, conflicts)

        part("shared", shared_mask, in_block)
    if t.kernel.local_bytes:
        base = t.convert("ptrtoint", t.offset(CONTEXT, t.unit.context.local), "i64")
        inner = t.and_const(address, L.LOCAL_WINDOW - 1)
        part(
            "local",
            local_mask,
            lambda: _local_words(t, a, inner, base, values, _check_local(t, a, inner, local_mask)),
        )
    finish(t, a, results, Lanes())


def _inside_window(t: Translator, address: IRValue) -> IRValue:
    """Generic addresses of shared memory as offsets into it."""
    if not t.unit.options.check:
        return t.resize(address, "i32")
    return low_offset(t, t.add_const(address, -L.SHARED_WINDOW))


_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")


@handles("atom", "red")
def _atomic(t: Translator, i: Instruction) -> None:
    """atom and red, on global, shared and generic addresses."""
    if i.has("async"):
        return send(t, i)
    has_result = i.opcode == "atom"
    operands = i.operands[1:] if has_result else i.operands
    where = operands[0]
    operation = next((m for m in i.modifiers if m in _OPERATIONS), None)
    if operation is None or not isinstance(where, Address):
        raise unsupported(i)
    space = space_of(t.unit, i, where)
    values = [elements(o) for o in operands[1:]]
    a = MemoryAccess(i, space, False, where, values[0], bytes_of(i.type), t.unit.site(i, space, "atomic"))
    if space == "shared":
        t.count("shared_atomic_requests", i.source.line, per_warp=1)
    else:
        t.count(f"global_{'atomic' if has_result else 'reduction'}_requests", i.source.line, per_warp=1)
    t.count(f"{'shared' if space == 'shared' else 'global'}_atomic_lanes", i.source.line, per_lane=1)
    own_stretch(t)
    _report_atomic(t, a)
    address, mask = host_addresses(t, a)
    kept = [_keeps_subnormals(t, a)] if _flushes(i.type, operation) else []
    name = _operation(t, i, operation)
    for k, parts in enumerate(zip(*values, strict=True)):
        vectors = [t.source(o, i.type, WARP) for o in parts]
        at = t.add_const(address, k * a.element_bytes)
        old = t.call(name, vectors[0].type, at, mask, *kept, *vectors, lanes=WARP)
        if has_result and not isinstance(i.operands[0], Sink):
            t.write(elements(i.operands[0])[k], old, Lanes())
    signal(t, address, mask, L.UPDATES, i)


def _report_atomic(t: Translator, a: MemoryAccess) -> None:
    """Tells who follows the asynchronous engines of the lanes that update the block's shared memory."""
    if not t.unit.followed or a.space == "global":
        return
    if a.space == "shared":
        report_own(t, a, shared_offsets(t, a), t.active)
        return
    address, mask = vector_address(t, a, "i32" if a.space == "cluster" else "i64"), t.active
    if a.space == "generic":
        window = t.lshr(address, 56)
        mask = t.and_(mask, t.mask_bits(t.icmp("eq", window, t.like(window, L.SHARED_WINDOW >> 56))))
    report_own(t, a, t.resize(address, "i32"), mask)


def _flushes(type_: str, operation: str) -> bool:
    """Whether global memory's adders flush subnormal numbers (those of shared memory keep them)."""
    return (type_, operation) == ("f32", "add")


def _keeps_subnormals(t: Translator, a: MemoryAccess) -> IRValue:
    """The lanes whose address is in shared memory: a generic one may lead either way."""
    if a.space != "generic":
        return constant("i32", -1 if a.space in ("shared", "cluster") else 0)
    window = t.lshr(vector_address(t, a, "i64"), 56)
    return t.mask_bits(t.icmp("eq", window, t.like(window, L.SHARED_WINDOW >> 56)))


def host_addresses(t: Translator, a: MemoryAccess, kind: int = L.ATOMIC) -> tuple[IRValue, IRValue]:
    """Host address of every lane, and the lanes that may go on."""
    mask = t.active
    if a.space == "shared":
        offset = shared_offsets(t, a)
        mask = account(t, a, "shared", offset, mask, kind=kind)
        return t.add(t.resize(offset, "i64"), t.splat(shared_base(t))), mask
    if a.space == "cluster":
        return cluster_hosts(t, a, vector_address(t, a, "i32"), mask, kind)
    address = vector_address(t, a, "i64")
    outside = _across_blocks(t, a, kind)
    if a.space == "global":
        return address, account(t, a, "global", address, mask, kind=outside)
    window = t.lshr(address, 56)
    in_shared = t.icmp("eq", window, t.like(window, L.SHARED_WINDOW >> 56))
    shared_bits = t.mask_bits(in_shared)
    inside = t.and_(mask, shared_bits)
    if t.unit.clusters:
        host, shared_ok = cluster_hosts(t, a, t.resize(address, "i32"), inside, kind)
    else:
        offset = _inside_window(t, address)
        shared_ok = account(t, a, "shared", offset, inside, kind=kind)
        host = t.add(t.resize(offset, "i64"), t.splat(shared_base(t)))
    global_ok = account(t, a, "global", address, t.and_(mask, t.not_(shared_bits)), kind=outside)
    return t.select(in_shared, host, address), t.or_(shared_ok, global_ok)


def _across_blocks(t: Translator, a: MemoryAccess, kind: int) -> int:
    """The kind of an atomic in global memory. One of the scope of a block is none for others: the quick shadow, which
    knows no scopes, takes it for a write, and leaves the rest to the exact one."""
    if kind != L.ATOMIC or not a.instruction.has("cta"):
        return kind
    return kind | narrow(a.instruction) if t.unit.options.exact else L.WRITE


def _operation(t: Translator, i: Instruction, operation: str) -> str:
    """The function that performs one atomic operation for a warp."""
    kind = LLVM_TYPE[i.type]
    values = [arg(kind, f"value{k}", WARP) for k in range(2 if operation == "cas" else 1)]
    kept = [arg(I32, "kept")] if _flushes(i.type, operation) else []

    def body(b: Helper) -> None:
        addresses, result = b.stack(ADDRESS), b.stack(IRValue(kind, "zeroinitializer", WARP))
        slots = [b.stack(v) for v in values]
        with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
            pointer = b.pointer(b.element(addresses, "i64", lane))
            old = b.load(kind, pointer)
            b.set_element(result, old, lane)
            new = _combine(b, i, operation, i.type, old, [b.element(s, kind, lane) for s in slots])
            if kept:
                flushed = _flushed_sum(b, old, b.element(slots[0], kind, lane))
                new = b.select(b.lane_active(lane, kept[0]), new, flushed)
            b.store(new, pointer)
        b.ret(b.load(kind, result, WARP, align=64))

    return t.helper(f"atomic_{operation}_{i.type}", f"<{WARP} x {kind}>", (ADDRESS, MASK, *kept, *values), body)


def _flushed_sum(b: Builder, x: IRValue, y: IRValue) -> IRValue:
    return _canonical(b, flush(b, b.binary("fadd", flush(b, x), flush(b, y))))


def _canonical(b: Builder, x: IRValue) -> IRValue:
    return b.bitcast(canonical_bits(b, b.bitcast(x, "i32")), "float")


def _combine(b: Builder, i: Instruction, operation: str, type_: str, old: IRValue, values: list[IRValue]) -> IRValue:
    """The value that memory holds afterwards."""
    x = values[0]
    if operation == "exch":
        return x
    if operation == "cas":
        raw = [b.bitcast(v, f"i{8 * bytes_of(type_)}") if is_float(type_) else v for v in (old, x)]
        return b.select(b.icmp("eq", *raw), values[1], old)
    if type_ in ("f16", "bf16", "f16x2", "bf16x2"):
        of_halves = {"add": add_float, "min": min_float, "max": max_float}[operation]
        return packed_half(b, i, of_halves, old, x) if type_[-2:] == "x2" else canonical_nan(b, of_halves(b, i, old, x))
    if is_float(type_):
        total = b.binary("fadd", old, x)
        return total if type_ == "f64" else _canonical(b, total)
    if operation in ("min", "max"):
        return b.intrinsic(("s" if type_[0] == "s" else "u") + operation, old, x)
    if operation == "inc":
        return b.select(b.icmp("uge", old, x), b.like(old, 0), b.add_const(old, 1))
    if operation == "dec":
        wraps = b.or_(b.icmp("eq", old, b.like(old, 0)), b.icmp("ugt", old, x))
        return b.select(wraps, x, b.add_const(old, -1))
    return b.binary(operation, old, x)
