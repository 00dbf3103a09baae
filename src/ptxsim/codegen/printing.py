"""printf and assert: each lane leaves a record in the worker's print buffer; the host formats them afterwards.

A record is a header (see PRINT_HEADER) and the argument buffer's bytes, read from the lane's local memory.
"""

from __future__ import annotations

import struct

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.convert import LOCAL_WINDOW
from ptxsim.codegen.emit import ALL_LANES, WARP, Value, constant
from ptxsim.codegen.runtime.helper import Helper, arg, i32, i64
from ptxsim.codegen.translator import Translator
from ptxsim.codegen.values import unsupported
from ptxsim.syntax.program import Instruction, Register, Symbol

PRINT_HEADER = struct.Struct("<QQIIII")
"""format address, block, thread, argument bytes, source line, kind (0 printf, 1 assert)"""
MOST_ARGUMENT_BYTES = 256


def translate(t: Translator, i: Instruction) -> None:
    """A call to vprintf(format, arguments) or __assertfail(message, file, line, function, size)."""
    callee = next((o for o in i.operands if isinstance(o, Symbol)), None)
    name = callee.name if callee else "?"
    arguments = i.operands[i.operands.index(callee) + 1 :] if callee else ()
    if name == "vprintf":
        _print(t, i, arguments[0], arguments[1])
        if isinstance(i.operands[0], Register):
            t.write(i.operands[0], constant("i32", 0, WARP), Lanes())
    elif name == "__assertfail":
        t.fault(L.FAULT_ASSERT, i.source.line)
        t.b.label(t.b.new_label("after"))
    else:
        raise unsupported(i, f"calls {name}, which is not part of the program")


def _print(t: Translator, i: Instruction, text: object, arguments: object) -> None:
    b = t.b
    formats = t.source(text, "u64", WARP)  # type: ignore[arg-type]
    buffers = b.and_const(t.source(arguments, "u64", WARP), LOCAL_WINDOW - 1)  # type: ignore[arg-type]
    mask: Value = t.mask_bits if t.masked else ALL_LANES  # type: ignore[attr-defined]
    base = b.convert("ptrtoint", b.offset(Value("ptr", "%c"), t.unit.context.local), "i64")
    name = f"print_{t.kernel.local_bytes}"
    if name not in t.unit.helpers:
        t.unit.helpers[name] = _write_helper(t, name)
    status = b.call(
        name, "i32", Value("ptr", "%w"), Value("ptr", "%c"), formats, buffers, b.splat(base), mask,
        constant("i32", i.source.line),
    )  # fmt: skip
    full, fine = b.new_label("full"), b.new_label("printed")
    b.branch(b.icmp("ne", status, constant("i32", 0)), full, fine, likely=False)
    b.label(full)
    t.fault(L.FAULT_PRINT, i.source.line)
    b.label(fine)


def _write_helper(t: Translator, name: str) -> str:
    """Appends one record per active lane; returns 1 when the buffer is full."""
    b = Helper()
    b.declared = t.b.declared
    worker, context = arg("ptr", "w"), arg("ptr", "c")
    formats, buffers, base = arg("i64", "formats", WARP), arg("i64", "buffers", WARP), arg("i64", "base", WARP)
    mask, line = arg("i32", "mask"), arg("i32", "line")
    size = min(MOST_ARGUMENT_BYTES, max(4, t.kernel.local_bytes))
    b.label("entry")
    format_slot, buffer_slot = b.stack(formats), b.stack(buffers)
    base_at = b.stack(base)
    used_at = b.offset(worker, L.field("print_used"))
    warp = b.load("i32", b.offset(context, L.ContextLayout.WARP_INDEX))
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane, mask)):
        used = b.load("i32", used_at)
        following = b.add_const(used, PRINT_HEADER.size + size)
        with b.if_(b.icmp("ugt", following, b.load("i32", b.offset(worker, L.field("print_limit")))), likely=False):
            b.ret(i32(1))
            b.label(b.new_label("unreached"))
        record = b.offset(b.load("ptr", b.offset(worker, L.field("print"))), b.resize(used, "i64"))
        b.store(b.element(format_slot, "i64", lane), record)
        b.store(b.load("i64", b.offset(worker, L.field("block"))), b.offset(record, 8))
        b.store(b.add(b.shl(warp, 5), lane), b.offset(record, 16))
        b.store(i32(size), b.offset(record, 20))
        b.store(line, b.offset(record, 24))
        b.store(i32(0), b.offset(record, 28))
        start = b.element(buffer_slot, "i64", lane)
        home = b.add(b.element(base_at, "i64", lane), b.shl(b.resize(lane, "i64"), 2))
        limit = i64(t.kernel.local_bytes)
        with b.loop(i64(size)) as k:
            at = b.add(start, k)
            with b.if_(b.icmp("ult", at, limit)):
                address = b.add(home, b.add(b.shl(b.lshr(at, 2), 7), b.and_const(at, 3)))
                b.store(b.load("i8", b.pointer(address)), b.offset(record, b.add_const(k, PRINT_HEADER.size)))
        b.store(following, used_at)
    b.ret(i32(0))
    parameters = (worker, context, formats, buffers, base, mask, line)
    return b.define(name, "i32", *parameters).replace("define ", "define internal ", 1)
