"""Atomic operations: the active lanes of a warp one after another, in lane order (PTX ISA 9.7.13.5)."""

from __future__ import annotations

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.access import Access, inferred_space, vector_address
from ptxsim.codegen.convert import SHARED_WINDOW
from ptxsim.codegen.emit import ALL_LANES, WARP, Builder, Value, constant
from ptxsim.codegen.float_formats import flush, narrow, packed_half, widen
from ptxsim.codegen.floating import add_float
from ptxsim.codegen.nans import canonical_bits
from ptxsim.codegen.runtime.helper import Helper, arg, i32
from ptxsim.codegen.shared_memory import shared_base
from ptxsim.codegen.signals import UPDATES, signal
from ptxsim.codegen.translator import Translator
from ptxsim.codegen.values import LLVM_TYPE, is_float, unsupported
from ptxsim.syntax.program import Address, Instruction, Operand, Sink, Vector, bytes_of

_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")


def translate(t: Translator, i: Instruction) -> None:
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
    _book(t, i, space, has_result)
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
    signal(t, address, mask, UPDATES, i)


def _elements(operand: Operand) -> tuple[Operand, ...]:
    """The elements of a vector atomic's operand; one for a scalar's."""
    return operand.elements if isinstance(operand, Vector) else (operand,)


def _book(t: Translator, i: Instruction, space: str, has_result: bool) -> None:
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
    in_shared = b.icmp("eq", window, b.like(window, SHARED_WINDOW >> 56))
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
        t.unit.helpers[name] = _write_helper(t, i, name, operation, type_)
    return name


def _write_helper(t: Translator, i: Instruction, name: str, operation: str, type_: str) -> str:
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
