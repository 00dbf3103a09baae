"""Gather, scatter, and exchange between lanes."""

from __future__ import annotations

from ptxsim.codegen.emit import BITS, WARP, Builder, Value, constant
from ptxsim.codegen.runtime.helper import I32, I64, MASK, Helper, arg, i32

INTEGERS = ("i8", "i16", "i32", "i64")


def masked_gather(b: Builder, name: str, type_: str, pointers: Value, bits: Value) -> Value:
    align = BITS[type_] // 8
    vector = f"<{WARP} x {type_}>"
    b.declared[name] = f"declare {vector} @{name}(<{WARP} x ptr>, i32, <{WARP} x i1>, {vector})"
    return b.let(type_, WARP, f"call {vector} @{name}({pointers}, i32 {align}, {bits}, {vector} zeroinitializer)")


def gather(type_: str) -> str:
    b = Helper()
    address, mask = arg(I64, "address", WARP), arg(I32, "mask")
    b.label("entry")
    pointers = b.convert("inttoptr", address, "ptr")
    bits = b.bits_mask(mask)
    name = f"llvm.masked.gather.v{WARP}{type_}.v{WARP}p0"
    aligned = Value("ptr", pointers.text, WARP)
    loaded = masked_gather(b, name, type_, aligned, bits)
    b.ret(loaded)
    return b.define(f"ws_gather_{type_}", f"<{WARP} x {type_}>", address, mask)


def scatter(type_: str) -> str:
    b = Helper()
    address, value = arg(I64, "address", WARP), arg(type_, "value", WARP)
    b.label("entry")
    pointers = b.convert("inttoptr", address, "ptr")
    name = f"llvm.masked.scatter.v{WARP}{type_}.v{WARP}p0"
    b.declared[name] = f"declare void @{name}({value.ir_type}, <{WARP} x ptr>, i32, <{WARP} x i1>)"
    b.emit(f"call void @{name}({value}, {pointers}, i32 {BITS[type_] // 8}, {b.bits_mask(MASK)})")
    b.ret()
    return b.define(f"ws_scatter_{type_}", "void", address, MASK, value)


def permute() -> str:
    """value[source[lane]] for every lane."""
    b = Helper()
    value, source = arg(I32, "value", WARP), arg(I32, "source", WARP)
    b.label("entry")
    slot = b.stack(value)
    pointers = b.let("ptr", WARP, f"getelementptr i32, {slot}, {source}")
    b.ret(
        masked_gather(
            b, f"llvm.masked.gather.v{WARP}i32.v{WARP}p0", I32, pointers, Value("i1", "splat (i1 true)", WARP)
        )
    )
    return b.define("ws_permute", f"<{WARP} x i32>", value, source)


def match_any() -> str:
    """For every lane the members that hold the same value."""
    b = Helper()
    value = arg(I64, "value", WARP)
    b.label("entry")
    slot, result = b.stack(value), b.stack(constant(I32, 0, WARP))
    with b.loop(i32(WARP)) as lane:
        same = b.and_(b.mask_bits(b.icmp("eq", value, b.splat(b.element(slot, I64, lane)))), MASK)
        b.store(same, b.let("ptr", 0, f"getelementptr i32, {result}, {lane}"))
    b.ret(b.load(I32, result, WARP, align=64))
    return b.define("ws_match_any", f"<{WARP} x i32>", value, MASK)
