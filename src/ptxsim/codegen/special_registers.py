"""Special registers (PTX ISA, chapter 10): where a thread is, how large the grid is, clocks that count steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import WARP, Value, constant, constants
from ptxsim.codegen.unit import thread_count
from ptxsim.errors import UnsupportedInstruction

if TYPE_CHECKING:
    from ptxsim.codegen.translator import Translator


def special_register(t: Translator, name: str, lanes: int) -> Value:
    """A special register as i32 (clocks: i64)."""
    b = t.b
    axis = "xyz".find(name[-1]) if "." in name else 0
    base = name.split(".")[0]
    if base == "tid":
        return _thread_index(t, axis, lanes)
    if base == "laneid" or base.startswith("lanemask"):
        values = _lane_constants(base)
        return constants("i32", values[:: WARP // lanes]) if lanes else constant("i32", values[0])
    if base in ("ctaid", "nctaid"):
        at = b.offset(Value("ptr", "%w"), L.field(base) + 4 * axis)
        value = b.load("i32", at, invariant=True)
    elif base == "ntid":
        value = constant("i32", t.unit.block[axis])
    elif base == "warpid":
        value = t.warp_index()
    elif base == "nwarpid":
        value = constant("i32", -(-thread_count(t.unit.block) // WARP))
    elif base in ("smid", "gridid", "clusterid", "cluster_ctaid", "cluster_ctarank"):
        value = constant("i32", 0)
    elif base in ("nsmid", "nclusterid", "cluster_nctaid", "cluster_nctarank"):
        value = constant("i32", 1)
    elif base == "WARP_SZ":
        value = constant("i32", WARP)
    elif base == "dynamic_smem_size":
        value = b.resize(t.field("dynamic_bytes", "i64"), "i32")
    elif base in ("total_smem_size", "aggr_smem_size"):
        value = b.resize(t.field("shared_bytes", "i64"), "i32")
    elif base in ("clock", "clock64", "clock_hi", "globaltimer", "globaltimer_lo", "globaltimer_hi"):
        value = _clock(t)
        if base.endswith("_hi"):
            value = b.lshr(value, 32)
    else:
        raise _unsupported_register(name)
    return b.splat(value, lanes) if lanes and not value.lanes else value


def _clock(t: Translator) -> Value:
    """Steps of this worker so far: grows by one each time it is read."""
    at = t.b.offset(Value("ptr", "%w"), L.field("clock"))
    value = t.b.add_const(t.b.load("i64", at), 1)
    t.b.store(value, at)
    return value


def _thread_index(t: Translator, axis: int, lanes: int) -> Value:
    b, (x, y, _) = t.b, t.unit.block
    linear = b.shl(t.warp_index(), 5)
    if lanes:
        linear = b.add(b.splat(linear, lanes), constants("i32", range(0, WARP, WARP // lanes)))
    if axis == 0:
        return b.binary("urem", linear, b.like(linear, x))
    if axis == 1:
        return b.binary("urem", b.binary("udiv", linear, b.like(linear, x)), b.like(linear, y))
    return b.binary("udiv", linear, b.like(linear, x * y))


def _unsupported_register(name: str) -> Exception:
    if name.startswith("envreg"):  # cooperative groups find the grid's barrier through them
        return UnsupportedInstruction(
            f"no barrier of a whole grid (grid.sync() reads %{name}): blocks run one after the other, in any order",
            next_step="End the kernel where all blocks have to meet, and go on in a second one.",
        )
    return UnsupportedInstruction(f"the simulator does not know the special register %{name}")


def _lane_constants(name: str) -> list[int]:
    masks = {
        "laneid": range(WARP),
        "lanemask_eq": [1 << n for n in range(WARP)],
        "lanemask_le": [(2 << n) - 1 for n in range(WARP)],
        "lanemask_lt": [(1 << n) - 1 for n in range(WARP)],
        "lanemask_ge": [~((1 << n) - 1) for n in range(WARP)],
        "lanemask_gt": [~((2 << n) - 1) for n in range(WARP)],
    }
    if name not in masks:
        raise _unsupported_register(name)
    return list(masks[name])
