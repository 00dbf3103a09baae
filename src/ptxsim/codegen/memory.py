"""Loads, stores and atomics: which space an access goes to; local memory; addresses that may lead anywhere."""

from __future__ import annotations

from collections.abc import Callable

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.access import (
    UNIFORM,
    Access,
    account,
    finish,
    inferred_space,
    move_lanes,
    put_loaded,
    signal,
    stored_values,
    vector_address,
)
from ptxsim.codegen.emit import WARP, Builder, Value, constant, constants
from ptxsim.codegen.floating import add_float, canonical_bits, flush, narrow, packed_half, widen
from ptxsim.codegen.functions import ADDRESS, CONTEXT, MASK, WORKER, Helper, arg, i32
from ptxsim.codegen.global_memory import general_global, sector_cell, translate_global
from ptxsim.codegen.shared_memory import conflict_cell, general_shared, shared_base, translate_shared
from ptxsim.codegen.translator import Translator
from ptxsim.codegen.values import LLVM_TYPE, handles, is_float, unsupported
from ptxsim.syntax.program import Address, Instruction, Operand, Sink, Symbol, Vector, bytes_of


@handles("ld", "ldu", "st")
def _load_or_store(t: Translator, i: Instruction) -> None:
    """A load or store of any space."""
    is_load = i.opcode != "st"
    space = i.space
    if space == "param":
        return _load_parameter(t, i)
    where, what = (i.operands[1], i.operands[0]) if is_load else (i.operands[0], i.operands[1])
    if not isinstance(where, Address):
        raise unsupported(i)
    if space == "generic":
        space = inferred_space(t, where) or "generic"
    size = bytes_of(i.type)
    if size > 8:
        raise unsupported(i)
    site = t.unit.site(i, space, "read" if is_load else "write")
    how = {"exact": t.unit.options.exact, "optimistic": id(i) in t.unit.optimistic}
    access = Access(i, space, is_load, where, _elements(what), size, site, **how)
    _book(t, access)
    handlers = {
        "global": translate_global, "const": translate_global, "shared": translate_shared, "local": _translate_local,
        "generic": _translate_generic,
    }  # fmt: skip
    handlers[space](t, access)


def _book(t: Translator, a: Access) -> None:
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


def _book_lanes(t: Translator, a: Access, space: str, mask: Value) -> None:
    """The same counts for the lanes of a generic access that turned out to be in `space`: at least one."""
    if not t.unit.options.count:
        return
    b, cell = t.b, t.unit.plan.cell(2)
    t.unit.plan.named(cell, f"{space}_{a.verb}_requests", a.line)
    t.bump(cell, constant("i64", 1))
    if space != "local":
        t.unit.plan.named(cell + 1, f"{space}_{a.verb}_bytes", a.line)
        t.bump(cell + 1, b.mul(b.resize(b.intrinsic("ctpop", mask), "i64"), constant("i64", a.bytes_)))


def _load_parameter(t: Translator, i: Instruction) -> None:
    where = i.operands[1]
    if i.opcode == "st" or not isinstance(where, Address) or not isinstance(where.base, Symbol):
        raise unsupported(i, "this use of parameter space")
    b, base = t.b, where.base
    offset = next(p.offset for p in t.kernel.params if p.name == base.name) + base.offset + where.offset
    size = bytes_of(i.type)
    for k, element in enumerate(_elements(i.operands[0])):
        value = b.load(f"i{8 * size}", b.offset(t.field("params", "ptr"), offset + k * size), align=1, invariant=True)
        put_loaded(t, i, element, value, UNIFORM)


def _translate_local(t: Translator, a: Access) -> None:
    """Local memory is interleaved by lane in 4-byte words, as the hardware does, so equal offsets are contiguous."""
    b, values = t.b, stored_values(t, a)
    offset = b.and_const(vector_address(t, a, "i64"), L.LOCAL_WINDOW - 1)
    mask = _check_local(t, a, offset, t.active)
    base = b.convert("ptrtoint", b.offset(CONTEXT, t.unit.context.local), "i64")
    finish(t, a, _local_words(t, a, offset, base, values, mask), Lanes())


def _check_local(t: Translator, a: Access, offset: Value, mask: Value) -> Value:
    """The lanes that may go on."""
    if not t.unit.options.check:
        return mask
    return t.b.call(
        "ws_check_local", "i32", WORKER, CONTEXT, offset, mask, constant("i32", a.bytes_), constant("i32", a.site),
        constant("i64", t.kernel.local_bytes),
    )  # fmt: skip


def _local_address(t: Translator, offset: Value, base: Value) -> Value:
    """Host addresses of local byte offsets."""
    b = t.b
    word = b.shl(b.lshr(offset, 2), 7)
    lane = constants("i64", [4 * n for n in range(WARP)])
    return b.add(b.add(word, b.and_const(offset, 3)), b.add(lane, b.splat(base)))


def _local_words(
    t: Translator, a: Access, offset: Value, base: Value, values: list[Value] | None, mask: Value
) -> list[Value]:
    b, results = t.b, []
    for k in range(len(a.registers)):
        at = b.add_const(offset, k * a.element_bytes)
        value = values[k] if values else None
        if a.element_bytes <= 4:
            results.append(move_lanes(t, a.element, _local_address(t, at, base), mask, value))
            continue
        words = []
        for half in (0, 1):
            address = _local_address(t, b.add_const(at, 4 * half), base)
            part = value and b.resize(b.lshr(value, 32 * half), "i32")
            words.append(move_lanes(t, "i32", address, mask, part))
            if values is None:
                words[half] = b.resize(words[half], "i64")
        if values is None:
            results.append(b.or_(words[0], b.shl(words[1], 32)))
    return results if values is None else []


def _translate_generic(t: Translator, a: Access) -> None:
    """A pointer that may lead anywhere: each lane goes by the window that its address is in."""
    b, values, mask = t.b, stored_values(t, a), t.active
    address = vector_address(t, a, "i64")
    window = b.lshr(address, 56)
    in_shared = b.icmp("eq", window, b.like(window, L.SHARED_WINDOW >> 56))
    in_local = b.icmp("eq", window, b.like(window, L.LOCAL_WINDOW >> 56))
    shared_mask = b.and_(mask, b.mask_bits(in_shared))
    local_mask = b.and_(mask, b.mask_bits(in_local))
    global_mask = b.and_(mask, b.not_(b.or_(shared_mask, local_mask)))
    results = [b.like(Value(a.element, "", WARP), 0) for _ in a.registers] if a.is_load else []

    def part(space: str, which: Value, run: Callable[[], list[Value]]) -> None:
        nonlocal results
        then, end = b.new_label("part"), b.new_label("next")
        before = b.label_now
        b.branch(b.icmp("ne", which, constant("i32", 0)), then, end)
        b.label(then)
        _book_lanes(t, a, space, which)
        found = run()
        if found:
            chosen = b.bits_mask(which)
            found = [b.select(chosen, f, r) for f, r in zip(found, results, strict=True)]
        then_end = b.label_now
        b.br(end)
        b.label(end)
        results = [b.phi((f, then_end), (r, before)) for f, r in zip(found, results, strict=True)]

    cell = sector_cell(t, a)
    part("global", global_mask, lambda: general_global(t, a, address, values, global_mask, cell))
    conflicts = conflict_cell(t, a)
    offset = b.resize(address, "i32")
    part("shared", shared_mask, lambda: general_shared(t, a, offset, values, shared_mask, conflicts))
    if t.kernel.local_bytes:
        base = b.convert("ptrtoint", b.offset(CONTEXT, t.unit.context.local), "i64")
        inner = b.and_const(address, L.LOCAL_WINDOW - 1)

        def local() -> list[Value]:
            return _local_words(t, a, inner, base, values, _check_local(t, a, inner, local_mask))

        part("local", local_mask, local)
    finish(t, a, results, Lanes())


_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")


@handles("atom", "red")
def _atomic(t: Translator, i: Instruction) -> None:
    """atom and red, on global, shared and generic addresses."""
    has_result = i.opcode == "atom"
    operands = i.operands[1:] if has_result else i.operands
    where = operands[0]
    operation = next((m for m in i.modifiers if m in _OPERATIONS), None)
    if operation is None or not isinstance(where, Address):
        raise unsupported(i)
    space = i.space
    if space == "generic":
        space = inferred_space(t, where) or "generic"
    elements = [_elements(o) for o in operands[1:]]
    a = Access(i, space, False, where, elements[0], bytes_of(i.type), t.unit.site(i, space, "atomic"))
    _book_atomic(t, i, space, has_result)
    b, (address, mask) = t.b, host_addresses(t, a)
    name = _operation(t, i, operation)
    for k, parts in enumerate(zip(*elements, strict=True)):
        vectors = [t.source(o, i.type, WARP) for o in parts]
        at = b.add_const(address, k * a.element_bytes)
        old = b.call(name, vectors[0].type, at, mask, *vectors, lanes=WARP)
        if has_result and not isinstance(i.operands[0], Sink):
            t.write(_elements(i.operands[0])[k], old, Lanes())
    signal(t, address, mask, L.UPDATES, i)


def _elements(operand: Operand) -> tuple[Operand, ...]:
    """The elements of a vector atomic's operand; one for a scalar's."""
    return operand.elements if isinstance(operand, Vector) else (operand,)


def _book_atomic(t: Translator, i: Instruction, space: str, has_result: bool) -> None:
    line = i.source.line
    if space == "shared":
        t.count("shared_atomic_requests", line, per_warp=1)
    else:
        t.count("global_atomic_requests" if has_result else "global_reduction_requests", line, per_warp=1)


def host_addresses(t: Translator, a: Access, kind: int = L.ATOMIC) -> tuple[Value, Value]:
    """Host address of every lane, and the lanes that may go on."""
    b, mask = t.b, t.active
    if a.space == "shared":
        offset = vector_address(t, a, "i32")
        mask = account(t, a, "shared", offset, mask, kind=kind)
        return b.add(b.resize(offset, "i64"), b.splat(shared_base(t))), mask
    address = vector_address(t, a, "i64")
    if a.space == "global":
        return address, account(t, a, "global", address, mask, kind=kind)
    window = b.lshr(address, 56)
    in_shared = b.icmp("eq", window, b.like(window, L.SHARED_WINDOW >> 56))
    shared_bits = b.mask_bits(in_shared)
    offset = b.resize(address, "i32")
    shared_ok = account(t, a, "shared", offset, b.and_(mask, shared_bits), kind=kind)
    global_ok = account(t, a, "global", address, b.and_(mask, b.not_(shared_bits)), kind=kind)
    host = b.add(b.resize(offset, "i64"), b.splat(shared_base(t)))
    return b.select(in_shared, host, address), b.or_(shared_ok, global_ok)


def _operation(t: Translator, i: Instruction, operation: str) -> str:
    """The function that performs one atomic operation for a warp."""
    kind = LLVM_TYPE[i.type]
    values = [arg(kind, f"value{k}", WARP) for k in range(2 if operation == "cas" else 1)]

    def body(b: Helper) -> None:
        addresses, result = b.stack(ADDRESS), b.stack(Value(kind, "zeroinitializer", WARP))
        slots = [b.stack(v) for v in values]
        with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
            pointer = b.pointer(b.element(addresses, "i64", lane))
            old = b.load(kind, pointer)
            b.set_element(result, old, lane)
            new = _combine(b, i, operation, i.type, old, [b.element(s, kind, lane) for s in slots])
            b.store(new, pointer)
        b.ret(b.load(kind, result, WARP, align=64))

    return t.helper(f"atomic_{operation}_{i.type}", f"<{WARP} x {kind}>", (ADDRESS, MASK, *values), body)


def _combine(b: Builder, i: Instruction, operation: str, type_: str, old: Value, values: list[Value]) -> Value:
    """The value that memory holds afterwards."""
    x = values[0]
    if operation == "exch":
        return x
    if operation == "cas":
        raw = [b.bitcast(v, f"i{8 * bytes_of(type_)}") if is_float(type_) else v for v in (old, x)]
        return b.select(b.icmp("eq", *raw), values[1], old)
    if type_ in ("f16x2", "bf16x2"):
        return packed_half(b, i, add_float, old, x)
    if is_float(type_):
        if operation != "add":
            raise unsupported(i)
        if type_ in ("f16", "bf16"):
            return narrow(b, b.binary("fadd", widen(b, old, "float"), widen(b, x, "float")), old.type)
        total = b.binary("fadd", old, x)
        if type_ == "f64":
            return total
        if i.space != "shared":  # global memory's adders flush subnormals
            total = flush(b, b.binary("fadd", flush(b, old), flush(b, x)))
        return b.bitcast(canonical_bits(b, b.bitcast(total, "i32")), "float")
    if operation in ("min", "max"):
        return b.intrinsic(("s" if type_[0] == "s" else "u") + operation, old, x)
    if operation == "inc":
        return b.select(b.icmp("uge", old, x), b.like(old, 0), b.add_const(old, 1))
    if operation == "dec":
        wraps = b.or_(b.icmp("eq", old, b.like(old, 0)), b.icmp("ugt", old, x))
        return b.select(wraps, x, b.add_const(old, -1))
    return b.binary(operation, old, x)
