"""Loads, stores and atomics: which space an access goes to; local memory; addresses that may lead anywhere."""

from __future__ import annotations

from collections.abc import Callable

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.access import Access, finish, inferred_space, put_loaded, signal, stored_values, vector_address
from ptxsim.codegen.emit import ALL_LANES, WARP, Builder, Value, constant, constants
from ptxsim.codegen.floating import add_float, canonical_bits, flush, narrow, packed_half, widen
from ptxsim.codegen.functions import Helper, arg, i32
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
    registers = what.elements if isinstance(what, Vector) else (what,)
    size = bytes_of(i.type)
    if size > 8:
        raise unsupported(i)
    site = t.unit.site(i, space, "read" if is_load else "write")
    how = {"exact": t.unit.options.exact, "optimistic": id(i) in t.unit.optimistic}
    access = Access(i, space, is_load, where, tuple(registers), size, site, **how)
    _book(t, access)
    handlers = {
        "global": translate_global, "const": translate_global, "shared": translate_shared, "local": translate_local,
        "generic": translate_generic,
    }  # fmt: skip
    handlers[space](t, access)


def _book(t: Translator, a: Access) -> None:
    """The counts that do not depend on addresses."""
    line = a.instruction.source.line
    verb = "load" if a.is_load else "store"
    if a.instruction.has("skip"):  # the call stack's own
        return
    if a.space in ("global", "shared", "local"):
        merged = t.unit.shared_requests.get(id(a.instruction))
        t.count(f"{a.space}_{verb}_requests", line, per_warp=1 if merged is None else len(merged))
        if a.space != "local":
            t.count(f"{a.space}_{verb}_bytes", line, per_lane=a.bytes_)
    elif a.space == "const":
        t.count("constant_load_requests", line, per_warp=1)


def book_lanes(t: Translator, a: Access, space: str, mask: Value) -> None:
    """The same counts for the lanes of a generic access that turned out to be in `space`: at least one."""
    if not t.unit.options.count:
        return
    b, line, verb = t.b, a.instruction.source.line, "load" if a.is_load else "store"
    cell = t.unit.plan.cell(2)
    t.unit.plan.named(cell, f"{space}_{verb}_requests", line)
    t.bump(cell, constant("i64", 1))
    if space != "local":
        t.unit.plan.named(cell + 1, f"{space}_{verb}_bytes", line)
        lanes = b.resize(b.call("llvm.ctpop.i32", "i32", mask), "i64")
        t.bump(cell + 1, b.mul(lanes, constant("i64", a.bytes_)))


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
        put_loaded(t, i, element, value, Lanes((0,) * WARP))


def translate_local(t: Translator, a: Access) -> None:
    """Local memory is interleaved by lane in 4-byte words, as the hardware does, so equal offsets are contiguous."""
    b = t.b
    values = stored_values(t, a)
    mask: Value = t.mask_bits if t.masked else ALL_LANES  # type: ignore[attr-defined]
    offset = b.and_const(vector_address(t, a, "i64"), L.LOCAL_WINDOW - 1)
    if t.unit.options.check:
        mask = b.call(
            "ws_check_local", "i32", Value("ptr", "%w"), Value("ptr", "%c"), offset, mask, constant("i32", a.bytes_),
            constant("i32", a.site), constant("i64", t.kernel.local_bytes),
        )  # fmt: skip
    base = b.convert("ptrtoint", b.offset(Value("ptr", "%c"), t.unit.context.local), "i64")
    finish(t, a, local_words(t, a, offset, base, values, mask), Lanes())


def local_address(t: Translator, offset: Value, base: Value) -> Value:
    """Host addresses of local byte offsets."""
    b = t.b
    word = b.shl(b.lshr(offset, 2), 7)
    lane = constants("i64", [4 * n for n in range(WARP)])
    return b.add(b.add(word, b.and_const(offset, 3)), b.add(lane, b.splat(base)))


def local_words(
    t: Translator, a: Access, offset: Value, base: Value, values: list[Value] | None, mask: Value
) -> list[Value]:
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


def translate_generic(t: Translator, a: Access) -> None:
    """A pointer that may lead anywhere: each lane goes by the window that its address is in."""
    b = t.b
    values = stored_values(t, a)
    mask: Value = t.mask_bits if t.masked else ALL_LANES  # type: ignore[attr-defined]
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
        book_lanes(t, a, space, which)
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
        base = b.convert("ptrtoint", b.offset(Value("ptr", "%c"), t.unit.context.local), "i64")
        inner = b.and_const(address, L.LOCAL_WINDOW - 1)

        def local() -> list[Value]:
            m = local_mask
            if t.unit.options.check:
                m = b.call(
                    "ws_check_local", "i32", Value("ptr", "%w"), Value("ptr", "%c"), inner, m,
                    constant("i32", a.bytes_), constant("i32", a.site), constant("i64", t.kernel.local_bytes),
                )  # fmt: skip
            return local_words(t, a, inner, base, values, m)

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
    b = t.b
    mask: Value = t.mask_bits if t.masked else ALL_LANES  # type: ignore[attr-defined]
    address, mask = host_addresses(t, a, mask)
    name = _helper(t, i, operation, i.type)
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


def host_addresses(t: Translator, a: Access, mask: Value, kind: int = L.ATOMIC) -> tuple[Value, Value]:
    """Host address of every lane, and the lanes that may go on."""
    b, check = t.b, t.unit.options.check
    null = Value("ptr", "null")
    fixed = (
        constant("i32", a.bytes_),
        constant("i32", a.site),
        constant("i32", kind),
        null,
        constant("i32", int(check)),
    )
    worker, context = Value("ptr", "%w"), Value("ptr", "%c")
    if a.space == "shared":
        offset = vector_address(t, a, "i32")
        mask = b.call(t.unit.access("shared"), "i32", worker, context, offset, mask, *fixed)
        return b.add(b.resize(offset, "i64"), b.splat(shared_base(t))), mask
    address = vector_address(t, a, "i64")
    access_global = t.unit.access("global")
    if a.space == "global":
        return address, b.call(access_global, "i32", worker, context, address, mask, *fixed)
    window = b.lshr(address, 56)
    in_shared = b.icmp("eq", window, b.like(window, L.SHARED_WINDOW >> 56))
    shared_bits = b.mask_bits(in_shared)
    offset = b.resize(address, "i32")
    shared_ok = b.call(
        t.unit.access("shared"),
        "i32",
        worker,
        context,
        offset,
        b.and_(mask, shared_bits),
        *fixed,
    )
    global_ok = b.call(access_global, "i32", worker, context, address, b.and_(mask, b.not_(shared_bits)), *fixed)
    host = b.add(b.resize(offset, "i64"), b.splat(shared_base(t)))
    return b.select(in_shared, host, address), b.or_(shared_ok, global_ok)


def _helper(t: Translator, i: Instruction, operation: str, type_: str) -> str:
    """The function that performs one atomic operation for a warp, written on first use."""
    name = f"atomic_{operation}_{type_}"
    if name not in t.unit.helpers:
        t.unit.helpers[name] = _write_atomic(t, i, name, operation, type_)
    return name


def _write_atomic(t: Translator, i: Instruction, name: str, operation: str, type_: str) -> str:
    b = Helper()
    b.declared = t.b.declared
    kind = LLVM_TYPE[type_]
    address, mask = arg("i64", "address", WARP), arg("i32", "mask")
    values = [arg(kind, f"value{k}", WARP) for k in range(2 if operation == "cas" else 1)]
    b.label("entry")
    addresses, result = b.stack(address), b.stack(Value(kind, "zeroinitializer", WARP))
    slots = [b.stack(v) for v in values]
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane, mask)):
        pointer = b.pointer(b.element(addresses, "i64", lane))
        old = b.load(kind, pointer)
        b.store(old, b.let("ptr", 0, f"getelementptr {kind}, {result}, {lane}"))
        new = _combine(b, i, operation, type_, old, [b.element(s, kind, lane) for s in slots])
        b.store(new, pointer)
    b.ret(b.load(kind, result, WARP, align=64))
    return b.define(name, f"<{WARP} x {kind}>", address, mask, *values).replace("define ", "define internal ", 1)


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
