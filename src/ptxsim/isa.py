"""The one table of PTX instructions that the simulator executes.

A row names the instruction, its section of the PTX ISA (version 9.0), how it behaves (`kind`) and how exact its result
is. Handlers are found by opcode: `translate` has one per row, `oracle` has one per row, and a test holds them to it.
The documentation's page of supported PTX is generated from this table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ptxsim.syntax.program import Instruction

VALUE = "value"
"""Lane by lane, destination from sources: uniform sources give a uniform result."""
LOAD = "load"
STORE = "store"
ATOMIC = "atomic"
WARP = "warp"
"""Reads other lanes of the warp."""
TENSOR = "tensor"
"""Whole-warp matrix instruction."""
CONTROL = "control"
EFFECT = "effect"
"""No destination: fences, hints."""


def _always(_: Instruction) -> bool:
    return True


def _never(_: Instruction) -> bool:
    return False


def _not_store(i: Instruction) -> bool:
    return "store" not in i.modifiers


def _reduction(i: Instruction) -> bool:
    return "red" in i.modifiers


def _not_set_up(i: Instruction) -> bool:
    return "init" not in i.modifiers and "inval" not in i.modifiers


@dataclass(frozen=True)
class Row:
    """One instruction of the table."""

    opcode: str
    kind: str
    section: str
    """PTX ISA section number"""
    summary: str
    writes: Callable[[Instruction], bool] = _always
    """whether operand 0 is a destination"""
    ulp: float = 0.0
    """largest error of the simulator's result in units in the last place; 0 means bit-exact"""


def _rows(kind: str, section: str, entries: dict[str, str], **more: object) -> list[Row]:
    return [Row(opcode, kind, section, summary, **more) for opcode, summary in entries.items()]  # type: ignore[arg-type]


_TABLE: list[Row] = [
    *_rows(VALUE, "9.7.1", {
        "add": "sum (integer, saturating s32, floating point with rounding modes, ftz, sat; packed f16x2)",
        "sub": "difference",
        "mul": "product: lo, hi, wide; floating point",
        "mad": "multiply and add: lo, hi, wide; mad.f32 is fma",
        "mul24": "24-bit product",
        "mad24": "24-bit multiply and add",
        "sad": "sum of absolute differences",
        "div": "quotient: integer, rn, approx, full",
        "rem": "integer remainder",
        "abs": "absolute value",
        "neg": "negation",
        "min": "minimum (PTX NaN rules)",
        "max": "maximum (PTX NaN rules)",
        "popc": "number of one bits",
        "clz": "number of leading zeros",
        "bfind": "position of the highest significant bit",
        "fns": "position of the n-th set bit",
        "brev": "bit reversal",
        "bfe": "bit field extract",
        "bfi": "bit field insert",
        "bmsk": "bit mask",
        "szext": "sign- or zero-extend from a width",
        "dp4a": "four-way byte dot product and accumulate",
        "dp2a": "two-way half-word dot product and accumulate",
        "vabsdiff2": "two absolute differences of 16-bit numbers, packed or summed",
        "vabsdiff4": "four absolute differences of bytes, packed or summed",
    }),
    *_rows(VALUE, "9.7.2", {
        "addc": "add with carry", "subc": "subtract with borrow", "madc": "multiply and add with carry",
    }),
    *_rows(VALUE, "9.7.3", {
        "testp": "floating-point property test",
        "copysign": "copy the sign",
        "fma": "fused multiply and add",
        "rcp": "reciprocal",
        "sqrt": "square root",
        "rsqrt": "reciprocal square root",
        "sin": "approximate sine", "cos": "approximate cosine",
        "lg2": "approximate base-2 logarithm", "ex2": "approximate base-2 exponential",
        "tanh": "approximate hyperbolic tangent",
    }),
    *_rows(VALUE, "9.7.6", {
        "set": "compare, give a number", "setp": "compare, give predicates",
        "selp": "select by predicate", "slct": "select by sign",
    }),
    *_rows(VALUE, "9.7.8", {
        "and": "bitwise and", "or": "bitwise or", "xor": "bitwise exclusive or", "not": "bitwise not",
        "cnot": "C's logical not", "lop3": "any three-input logic function",
        "shf": "funnel shift", "shl": "shift left", "shr": "shift right", "prmt": "byte permute",
    }),
    *_rows(VALUE, "9.7.9", {
        "mov": "copy, pack, unpack, address of a variable", "cvta": "convert to or from a generic address",
        "cvt": "convert between types with rounding and saturation; pairs of e4m3 and e5m2",
        "isspacep": "test an address's state space",
    }),
    *_rows(LOAD, "9.7.9.8", {"ld": "load, also vectors of up to 16 bytes", "ldu": "load read-only data"}),
    *_rows(STORE, "9.7.9.11", {"st": "store, also vectors of up to 16 bytes"}, writes=_never),
    *_rows(EFFECT, "9.7.9.25", {
        "cp": "cp.async from global to shared memory; groups or a barrier object to wait for it",
    }, writes=_never),
    *_rows(ATOMIC, "9.7.13.5", {"atom": "atomic operation with result"}),
    *_rows(ATOMIC, "9.7.13.6", {"red": "atomic reduction without result"}, writes=_never),
    *_rows(ATOMIC, "9.7.13.15", {
        "mbarrier": "barrier object in shared memory: init, inval, arrive, arrive_drop, test_wait, try_wait, "
                    "pending_count",
    }, writes=_not_set_up),
    *_rows(WARP, "9.7.9.6", {"shfl": "exchange registers within a warp"}),
    *_rows(WARP, "9.7.13.9", {
        "vote": "vote: all, any, uni, ballot", "match": "lanes with equal values", "redux": "reduction over a warp",
        "activemask": "mask of the active lanes", "elect": "one leader among the lanes of a mask",
    }),
    *_rows(TENSOR, "9.7.14.4", {
        "wmma": "wmma.load, wmma.store and wmma.mma in every shape, layout and type up to sm_90",
    }, writes=_not_store),
    *_rows(TENSOR, "9.7.14.5", {
        "mma": "mma.sync in every dense shape and type up to sm_90: f16, bf16, tf32, f64, int8, int4, b1",
        "ldmatrix": "ldmatrix: one, two or four 8 x 8 matrices from shared memory, also transposed",
        "movmatrix": "movmatrix: an 8 x 8 matrix transposed between lanes",
    }),
    *_rows(TENSOR, "9.7.14.5", {
        "stmatrix": "stmatrix: one, two or four 8 x 8 matrices to shared memory, also transposed",
    }, writes=_never),
    *_rows(CONTROL, "9.7.12", {
        "bra": "branch", "brx": "indexed branch (switch table)", "ret": "return", "exit": "end of the thread",
    }, writes=_never),
    *_rows(CONTROL, "9.7.12.5", {"call": "call of a device function (inlined), vprintf, __assertfail"}),
    *_rows(CONTROL, "9.7.13.1", {
        "bar": "block barrier; bar.warp.sync", "barrier": "block barrier",
    }, writes=_reduction),
    *_rows(EFFECT, "9.7.9.19", {"createpolicy": "cache policy: a number that changes nothing"}),
    *_rows(EFFECT, "9.7.13.4", {
        "membar": "memory fence", "fence": "memory fence", "prefetch": "prefetch hint", "prefetchu": "prefetch hint",
        "discard": "cache hint", "applypriority": "cache hint", "nanosleep": "pause", "griddepcontrol": "no effect",
        "pmevent": "performance-monitor event: ignored",
    }, writes=_never),
    *_rows(CONTROL, "9.7.19", {"trap": "abort the kernel", "brkpt": "breakpoint: ignored"}, writes=_never),
]  # fmt: skip

INSTRUCTIONS: dict[str, Row] = {row.opcode: row for row in _TABLE}
