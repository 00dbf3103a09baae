"""What bulk copies do to global memory, whether they move boxes or runs of bytes: reductions, and the race shadow."""

from __future__ import annotations

from collections.abc import Callable

from ptxsim.codegen.emit import CONTEXT, I32, I64, NULL, SITE, WARP, WORKER, Helper, IRValue, constants, i32, i64
from ptxsim.codegen.floating import flush, narrow, widen
from ptxsim.codegen.tensor_moves import Mode
from ptxsim.tensormap import ELEMENTS

_LINE = 4 * WARP
"""Bytes of global memory that are accounted for together."""
FLOATS = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}
LOAD, STORE = "load", "store"


def account_run(b: Helper, mode: Mode, start: IRValue, nbytes: IRValue, kind: int) -> None:
    """Bounds and race shadow of `nbytes` of global memory from `start` on: one lane for every 4 bytes, and what stands
    out at both ends byte by byte."""
    head = b.intrinsic("umin", b.and_const(b.sub(i64(0), start), 3), nbytes)
    words = b.and_const(b.sub(nbytes, head), ~3)
    _account_bytes(b, mode, start, head, kind)
    _account_words(b, mode, b.add(start, head), words, kind)
    _account_bytes(b, mode, b.add(b.add(start, head), words), b.sub(b.sub(nbytes, head), words), kind)


def _account_bytes(b: Helper, mode: Mode, start: IRValue, count: IRValue, kind: int) -> None:
    with b.loop(count) as k:
        where = b.splat(b.add(start, k), WARP)
        b.call(mode.access, I32, WORKER, CONTEXT, where, i32(1), i32(1), SITE, i32(kind), NULL, i32(1))


def _account_words(b: Helper, mode: Mode, start: IRValue, nbytes: IRValue, kind: int) -> None:
    lanes = b.add(b.splat(start), constants(I64, [4 * n for n in range(WARP)]))
    with b.loop(b.lshr(b.add_const(nbytes, _LINE - 1), 7)) as line:
        done = b.shl(line, 7)
        left = b.lshr(b.sub(nbytes, done), 2)
        count = b.intrinsic("umin", left, i64(WARP))
        mask = b.resize(b.sub(b.binary("shl", i64(1), count), i64(1)), I32)
        where = b.add(lanes, b.splat(done))
        b.call(mode.access, I32, WORKER, CONTEXT, where, mask, i32(4), SITE, i32(kind), NULL, i32(1))


Combine = Callable[[Helper, IRValue, IRValue], IRValue]


def reduction(operation: str, type_: str) -> Combine | None:
    """How an element is reduced; None where there is no such reduction of this type (PTX ISA 9.7.9.25.5.3)."""
    is_float, is_signed = type_ in ELEMENTS and ELEMENTS[type_].is_float, type_[0] == "s"
    if operation in ("and", "or", "xor"):
        return None if is_float else lambda b, x, y: b.binary(operation, x, y)
    if operation in ("inc", "dec"):
        return _INCREMENTS[operation] if type_ == "u32" else None
    if not is_float:
        if operation == "add":
            return lambda b, x, y: b.add(x, y)
        return lambda b, x, y: b.intrinsic(("s" if is_signed else "u") + operation, x, y)
    base = type_.removesuffix(".ftz")
    if base not in FLOATS or (operation != "add" and base not in ("f16", "bf16")):
        return None
    if base == "bf16":  # by bits: where a processor rounds nothing to bf16, LLVM calls a routine that is not there
        return lambda b, x, y: narrow(b, _floats(b, operation, widen(b, x, "float"), widen(b, y, "float")), "bfloat")
    if operation != "add":
        return lambda b, x, y: _floats(b, operation, x, y)
    if type_ == "f32.ftz":
        return lambda b, x, y: flush(b, b.binary("fadd", flush(b, x), flush(b, y)))
    return lambda b, x, y: b.binary("fadd", x, y)


def _floats(b: Helper, operation: str, x: IRValue, y: IRValue) -> IRValue:
    if operation == "add":
        return b.binary("fadd", x, y)
    return b.intrinsic("minnum" if operation == "min" else "maxnum", x, y)


def _increment(b: Helper, x: IRValue, y: IRValue) -> IRValue:
    return b.select(b.icmp("uge", x, y), b.like(x, 0), b.add_const(x, 1))


def _decrement(b: Helper, x: IRValue, y: IRValue) -> IRValue:
    return b.select(b.or_(b.icmp("eq", x, b.like(x, 0)), b.icmp("ugt", x, y)), y, b.add_const(x, -1))


_INCREMENTS: dict[str, Combine] = {"inc": _increment, "dec": _decrement}
