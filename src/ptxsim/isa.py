"""The one table of PTX instructions that the simulator executes.

A row says everything that the parser, the analyses and the engine believe of an instruction: whether lanes that agree
on its sources agree on its result, what its result may point to, what it does to memory, for whom its order matters,
how control goes on behind it and under which name it is counted. **What a row does not say is taken for the worst**: a
result that varies, a pointer to anywhere, an access to all memory, an order that matters to everybody.

The translator and the oracle find their handlers by opcode, and tests hold both and the forms (`syntax.forms`) to this
table. The oracle takes no more from it than names: what an instruction does it says once more, so that one mistake is
not two. The documentation's page of supported PTX is written from here. Section numbers are those of PTX ISA 9.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, Flag, auto
from typing import Any

VALUE = "value"
LOAD = "load"
STORE = "store"
ATOMIC = "atomic"
ACROSS = "warp"
"""Reads other lanes of the warp."""
TENSOR = "tensor"
"""Whole-warp matrix instruction."""
TEXTURE = "texture"
"""Goes by the handle of a texture or surface object."""
CONTROL = "control"
EFFECT = "effect"
"""Fences, copies in the background, hints."""


class Likeness(Enum):
    """What lanes know of each other's result."""

    VARYING = auto()
    """nothing, even where they agree on all sources"""
    FROM_SOURCES = auto()
    """a function of the lane's own sources alone: lanes that agree on those agree on it, and it is computed once"""
    UNIFORM = auto()
    """one for the warp"""
    OF_MASK = auto()
    """one for the lanes of the mask that is its last operand"""
    OF_ADDRESS = auto()
    """what memory holds at its address"""


class Pointer(Enum):
    """Where a 64-bit result may point."""

    ANYWHERE = auto()
    NOWHERE = auto()
    """it is a number"""
    SOURCES = auto()
    """where one of its sources points"""
    ADDEND = auto()
    """where its last source points"""
    MEMORY = auto()
    """where what it loads points: known of a kernel's parameters"""


class Order(Flag):
    """To whom it may show when an instruction is executed."""

    NOBODY = 0
    BLOCKS = auto()
    """to other blocks, outside of shared memory: who comes first decides what somebody sees"""
    FENCE = auto()
    """it orders accesses of threads without a barrier of the whole block"""
    WAITS = auto()
    """a loop around it may wait for another thread"""
    PINS = auto()
    """ptxas moves no shared load across it (unless all that it accesses lies in other spaces)"""
    EVERYBODY = BLOCKS | FENCE | WAITS | PINS


STRONG: dict[str, Order] = {
    "volatile": Order.BLOCKS | Order.WAITS,
    "relaxed": Order.WAITS,
    "mmio": Order.WAITS,
    "acquire": Order.FENCE | Order.WAITS,
    **dict.fromkeys(("release", "acq_rel", "sc"), Order.FENCE),
    **dict.fromkeys(("gpu", "sys"), Order.BLOCKS),
}
"""What these modifiers, scopes wider than a cluster among them, add to any instruction's order; WAITS only where there
is a result to look at."""


class Flow(Enum):
    """How control goes on behind an instruction."""

    NEXT = auto()
    BRANCH = auto()
    BARRIER = auto()
    """once the block has come"""
    WARP_BARRIER = auto()
    """once the lanes of its mask have come"""
    END = auto()
    """not at all: the function or the thread ends"""
    TRAP = auto()
    """not at all: the launch ends"""


@dataclass(frozen=True)
class AddressUse:
    """What an instruction does at one of its addresses."""

    reads: bool = False
    writes: bool = False
    space: str = ""
    """the state space, where the instruction need not name it"""
    by_handle: bool = False
    """it goes by a texture or surface object, not by an address operand: it may reach any array"""


READS, WRITES, UPDATES = AddressUse(reads=True), AddressUse(writes=True), AddressUse(reads=True, writes=True)
IN_SHARED = AddressUse(reads=True, writes=True, space="shared")
READS_OBJECT = AddressUse(reads=True, space="global", by_handle=True)
WRITES_OBJECT = AddressUse(writes=True, space="global", by_handle=True)

BY_TYPE, BY_SPACE = "by type", "by space"
"""Counted as arithmetic on its type (fp64, fp32, fp16, integer), or as an access of its space."""


@dataclass(frozen=True)
class Row:
    """One instruction of the table."""

    opcode: str
    kind: str
    """the heading under which the documentation lists it; tensor instructions have a translator of their own"""
    section: str
    summary: str
    has_result: bool = True
    """whether operand 0 is a destination"""
    updates: bool = False
    """whether what that destination held before is a source too"""
    result: Likeness = Likeness.VARYING
    pointer: Pointer = Pointer.ANYWHERE
    counted: str = "other"
    """a class of `ptxsim.counters`, BY_TYPE or BY_SPACE"""
    tally: Mapping[str, str] = field(default_factory=dict)
    """type -> the counter that goes up by one for each thread"""
    tally_warps: str = ""
    """the counter that goes up by one for each warp"""
    accesses: Sequence[AddressUse] | None = None
    """one for each address operand; None: anything, anywhere"""
    granule: int | str = 1
    """bytes that races distinguish: a number, "element" (as many as a lane moves), "type" (as many as its type has) or
    "tile" (a matrix fragment)"""
    order: Order = Order.EVERYBODY
    flow: Flow = Flow.NEXT
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """modifier -> what is different with it; the last of several wins"""

    def of(self, modifiers: Sequence[str]) -> Row:
        """The row as it is for an instruction with these modifiers."""
        found = self
        for modifier, changes in self.variants.items():
            if modifier in modifiers:
                found = replace(found, **changes)
        return found


_Entry = str | tuple[str, Mapping[str, Any]]


def _rows(kind: str, section: str, entries: Mapping[str, _Entry], **says: Any) -> list[Row]:
    """Rows of a section. An entry is a summary, or one with what its row says besides or instead of `says`."""
    pairs = {opcode: entry if isinstance(entry, tuple) else (entry, {}) for opcode, entry in entries.items()}
    return [Row(opcode, kind, section, summary, **{**says, **own}) for opcode, (summary, own) in pairs.items()]


_IN_REGISTERS: dict[str, Any] = {"accesses": (), "order": Order.NOBODY}
_LANE_BY_LANE = {
    **_IN_REGISTERS, "result": Likeness.FROM_SOURCES, "pointer": Pointer.NOWHERE, "counted": BY_TYPE,
}  # fmt: skip
"""Arithmetic: the destination follows from the sources of the same lane, and nothing else happens."""
_POINTS = {"pointer": Pointer.SOURCES}
_WITH_CARRY = {"result": Likeness.VARYING}
"""The carry may differ where the sources agree."""
_HINT = {**_IN_REGISTERS, "counted": "integer"}
_FADD = {"tally": {"f32": "fadd_instructions"}, "variants": {"cc": _WITH_CARRY}}
_DOT = {"counted": "dot"}
_SPECIAL, _CONVERSION, _OTHER = {"counted": "special"}, {"counted": "conversion"}, {"counted": "other"}
_FENCE = {"accesses": (), "order": Order.BLOCKS | Order.FENCE | Order.PINS, "has_result": False}
_MATRIX = {"accesses": (), "order": Order.NOBODY, "pointer": Pointer.NOWHERE}
_MOVES_MATRIX = {"counted": BY_SPACE, "granule": 4}
_PASSES = {"has_result": False, "updates": False, "counted": "control"}
_AT_BARRIER = {"red": {"has_result": True}, "arrive": {"flow": Flow.NEXT}}
_HAS_RESULT = {"has_result": True}
_ARRIVES = {**_HAS_RESULT, "tally_warps": "mbarrier_arrivals"}
_ENDS, _NO_RESULT = {"flow": Flow.END}, {"has_result": False}

_SENT = {"async": {"accesses": (IN_SHARED, IN_SHARED), "order": Order.FENCE | Order.WAITS | Order.PINS, "granule": 4}}
"""What goes to another block's shared memory and tells a barrier object."""

_TABLE: list[Row] = [
    *_rows(VALUE, "9.7.1", {
        "add": ("sum (integer, saturating s32, floating point with rounding modes, ftz, sat; packed f16x2)",
                {**_FADD, **_POINTS}),
        "sub": ("difference", {**_FADD, **_POINTS}),
        "mul": ("product: lo, hi, wide; floating point", {"tally": {"f32": "fmul_instructions"}}),
        "mad": ("multiply and add: lo, hi, wide; mad.f32 is fma",
                {"pointer": Pointer.ADDEND, "tally": {"f32": "fma_instructions"}, "variants": {"cc": _WITH_CARRY}}),
        "mul24": "24-bit product",
        "mad24": "24-bit multiply and add",
        "sad": "sum of absolute differences",
        "div": "quotient: integer, rn, approx, full",
        "rem": "integer remainder",
        "abs": "absolute value",
        "neg": "negation",
        "min": ("minimum (PTX NaN rules)", _POINTS),
        "max": ("maximum (PTX NaN rules)", _POINTS),
        "popc": "number of one bits",
        "clz": "number of leading zeros",
        "bfind": "position of the highest significant bit",
        "fns": "position of the n-th set bit",
        "brev": "bit reversal",
        "bfe": "bit field extract",
        "bfi": "bit field insert",
        "bmsk": "bit mask",
        "szext": "sign- or zero-extend from a width",
        "dp4a": ("four-way byte dot product and accumulate",
                 {**_DOT, "tally": dict.fromkeys(("u32", "s32"), "dot_instructions")}),
        "dp2a": ("two-way half-word dot product and accumulate", _DOT),
    }, **_LANE_BY_LANE),
    *_rows(VALUE, "9.7.2", {
        "addc": "add with carry", "subc": "subtract with borrow", "madc": "multiply and add with carry",
    }, **_LANE_BY_LANE | _WITH_CARRY),
    *_rows(VALUE, "9.7.3", {
        "testp": "floating-point property test",
        "copysign": "copy the sign",
        "fma": ("fused multiply and add",
                {"tally": {"f32": "fma_instructions", "f16x2": "packed_fma_instructions",
                           "bf16x2": "packed_fma_instructions"}}),
        "rcp": ("reciprocal", _SPECIAL),
        "sqrt": ("square root", _SPECIAL),
        "rsqrt": ("reciprocal square root", _SPECIAL),
        "sin": ("approximate sine", _SPECIAL), "cos": ("approximate cosine", _SPECIAL),
        "lg2": ("approximate base-2 logarithm", _SPECIAL), "ex2": ("approximate base-2 exponential", _SPECIAL),
        "tanh": ("approximate hyperbolic tangent", _SPECIAL),
    }, **_LANE_BY_LANE),
    *_rows(VALUE, "9.7.6", {
        "set": "compare, give a number", "setp": "compare, give predicates",
        "selp": ("select by predicate", _POINTS), "slct": ("select by sign", _POINTS),
    }, **_LANE_BY_LANE),
    *_rows(VALUE, "9.7.8", {
        "and": ("bitwise and", _POINTS), "or": ("bitwise or", _POINTS), "xor": ("bitwise exclusive or", _POINTS),
        "not": "bitwise not", "cnot": "C's logical not", "lop3": "any three-input logic function",
        "shf": "funnel shift", "shl": "shift left", "shr": "shift right", "prmt": "byte permute",
    }, **_LANE_BY_LANE),
    *_rows(VALUE, "9.7.9", {
        "mov": ("copy, pack, unpack, address of a variable", _OTHER | _POINTS),
        "cvta": ("convert to or from a generic address", _CONVERSION | _POINTS),
        "cvt": ("convert between types with rounding and saturation; pairs of e4m3 and e5m2", _CONVERSION | _POINTS),
        "isspacep": "test an address's state space",
        "mapa": ("address of a variable in another block's shared memory",
                 {**_OTHER, "pointer": Pointer.ANYWHERE, "variants": {"shared::cluster": _POINTS}}),
        "getctarank": ("rank of the block whose shared memory an address is in", _OTHER),
    }, **_LANE_BY_LANE),
    *_rows(VALUE, "9.7.17", {
        "vadd": "video: sum of bytes, halves or words; a second operation or merge with the third source",
        "vsub": "video: difference", "vabsdiff": "video: absolute difference", "vmin": "video: minimum",
        "vmax": "video: maximum", "vshl": "video: shift left", "vshr": "video: shift right",
        "vmad": "video: product and sum, scaled down by 7 or 15 bits",
        "vset": "video: comparison that gives 0 or 1",
        **{
            f"v{name}{parts}": f"video: {'two' if parts == 2 else 'four'} {what} of "
            f"{'halves' if parts == 2 else 'bytes'}, packed or summed"
            for parts in (2, 4) for name, what in (
                ("add", "sums"), ("sub", "differences"), ("avrg", "averages"), ("absdiff", "absolute differences"),
                ("min", "minima"), ("max", "maxima"), ("set", "comparisons"),
            )
        },
    }, **_LANE_BY_LANE),
    *_rows(LOAD, "9.7.9.8", {"ld": "load, also vectors of up to 16 bytes", "ldu": "load read-only data"},
           result=Likeness.OF_ADDRESS, pointer=Pointer.MEMORY, counted=BY_SPACE, accesses=(READS,), granule="element",
           order=Order.NOBODY),
    *_rows(STORE, "9.7.9.11", {
        "st": "store, also vectors of up to 16 bytes; st.async to shared memory of the cluster, with a barrier object",
    }, has_result=False, counted=BY_SPACE, accesses=(WRITES,), granule="element", order=Order.PINS, variants=_SENT),
    *_rows(EFFECT, "9.7.9.25", {
        "cp": "cp.async from global to shared memory; groups or a barrier object to wait for it; bulk copies, "
              "reductions and boxes of tensors, also for all blocks of a cluster",
    }, has_result=False, counted="memory_global", granule=4, order=Order.PINS, variants={
        "commit_group": {"order": Order.NOBODY},
        "bulk": {"accesses": None, "order": Order.FENCE | Order.WAITS | Order.PINS},
        "prefetch": {"accesses": (), "order": Order.NOBODY},
    }, accesses=(AddressUse(writes=True, space="shared"), AddressUse(reads=True, space="global"))),
    *_rows(ATOMIC, "9.7.13.5", {"atom": "atomic operation with result, also on vectors of floating-point numbers"},
           counted=BY_SPACE, accesses=(UPDATES,),
           granule="element", order=Order.BLOCKS | Order.WAITS | Order.PINS),
    *_rows(ATOMIC, "9.7.13.6", {
        "red": "atomic reduction without result; red.async in shared memory of the cluster, with a barrier object",
    }, has_result=False, counted=BY_SPACE, accesses=(UPDATES,), granule="element", order=Order.BLOCKS | Order.PINS,
           variants=_SENT),
    *_rows(ATOMIC, "9.7.13.15", {
        "mbarrier": "barrier object in shared memory: init, inval, arrive, arrive_drop, test_wait, try_wait, "
                    "pending_count; expect_tx, complete_tx, arrive.expect_tx",
    }, pointer=Pointer.NOWHERE, counted="control", accesses=(IN_SHARED,), granule=4,
       order=Order.FENCE | Order.WAITS | Order.PINS,
       variants={
           **dict.fromkeys(("init", "inval", "expect_tx", "complete_tx"), _NO_RESULT),
           **dict.fromkeys(("arrive", "arrive_drop"), _ARRIVES),
       }),
    *_rows(ACROSS, "9.7.9.6", {
        "shfl": ("exchange registers within a warp", _POINTS),
    }, **_IN_REGISTERS),
    *_rows(ACROSS, "9.7.13.9", {
        "vote": ("vote: all, any, uni, ballot", {"result": Likeness.OF_MASK}),
        "match": "lanes with equal values",
        "redux": ("reduction over a warp", {"result": Likeness.OF_MASK, "counted": "integer"}),
        "activemask": ("mask of the active lanes", {"result": Likeness.UNIFORM}),
        "elect": ("one leader among the lanes of a mask", {"counted": "integer"}),
    }, pointer=Pointer.NOWHERE, **_IN_REGISTERS),
    *_rows(TENSOR, "9.7.14.4", {
        "wmma": "wmma.load, wmma.store and wmma.mma in every shape, layout and type up to sm_90",
    }, pointer=Pointer.NOWHERE, counted=BY_SPACE, accesses=(READS,), granule="tile", order=Order.NOBODY, variants={
        "store": {"has_result": False, "accesses": (WRITES,), "order": Order.PINS},
        "mma": {"counted": "tensor", "accesses": ()},
    }),
    *_rows(TENSOR, "9.7.14.5", {
        "mma": ("mma.sync in every dense shape and type up to sm_90: f16, bf16, tf32, f64, e4m3, e5m2, int8, int4, b1",
                {"counted": "tensor"}),
        "ldmatrix": ("ldmatrix: one, two or four 8 x 8 matrices from shared memory, also transposed",
                     {**_MOVES_MATRIX, "accesses": (AddressUse(reads=True, space="shared"),)}),
        "movmatrix": "movmatrix: an 8 x 8 matrix transposed between lanes",
        "wgmma": ("warpgroup products: mma_async in every dense shape and type, fence, commit_group, wait_group",
                  {"counted": "tensor", "updates": True, "order": Order.PINS,
                   "accesses": (), "variants": {
                       **dict.fromkeys(("fence", "commit_group"), _PASSES),
                       "wait_group": {**_PASSES, "flow": Flow.BARRIER},
                   }}),
        "stmatrix": ("stmatrix: one, two or four 8 x 8 matrices to shared memory, also transposed",
                     {**_MOVES_MATRIX, "accesses": (AddressUse(writes=True, space="shared"),), "has_result": False,
                      "order": Order.PINS}),
    }, **_MATRIX),
    *_rows(TEXTURE, "9.7.10", {
        "tex": "texture fetch: 1d, 2d, 3d, cube, layered; filtered; from linear memory by an integer",
        "tld4": "texture gather: one component of the four texels around a place",
        "txq": ("texture query: width, height, depth, array_size, normalized_coords", {"accesses": ()}),
    }, pointer=Pointer.NOWHERE, accesses=(READS_OBJECT,), granule=4, order=Order.NOBODY),
    *_rows(TEXTURE, "9.7.11", {
        "suld": ("surface load (suld.b): trap, clamp, zero", {"accesses": (READS_OBJECT,)}),
        "sust": ("surface store (sust.b): trap, clamp, zero",
                 {"accesses": (WRITES_OBJECT,), "has_result": False, "order": Order.PINS}),
        "suq": ("surface query: width, height, depth, array_size", {"pointer": Pointer.NOWHERE, "accesses": ()}),
    }, granule="type", order=Order.NOBODY),
    *_rows(CONTROL, "9.7.12", {
        "bra": ("branch", {"flow": Flow.BRANCH}), "brx": ("indexed branch (switch table)", {"flow": Flow.BRANCH}),
        "ret": ("return", _ENDS), "exit": ("end of the thread", _ENDS),
    }, has_result=False, counted="control", **_IN_REGISTERS),
    *_rows(CONTROL, "9.7.12.5", {
        "call": "call of a device function (inlined), vprintf, __assertfail, malloc, free",
    }, result=Likeness.FROM_SOURCES, pointer=Pointer.NOWHERE, counted="control", accesses=(), order=Order.PINS),
    *_rows(CONTROL, "9.7.13.1", {
        "setmaxnreg": ("registers of a warp: a request that changes nothing here",
                       {"flow": Flow.NEXT}),
        "bar": ("block barrier; bar.warp.sync", {"variants": {"warp": {"flow": Flow.WARP_BARRIER}, **_AT_BARRIER}}),
        "barrier": ("block barrier; barrier.cluster.arrive and wait", {"variants": _AT_BARRIER}),
    }, has_result=False, result=Likeness.UNIFORM, pointer=Pointer.NOWHERE, counted="control", accesses=(),
       order=Order.PINS, flow=Flow.BARRIER),
    *_rows(EFFECT, "9.7.9.19", {
        "createpolicy": ("cache policy: a number that changes nothing",
                         {"result": Likeness.UNIFORM, "pointer": Pointer.NOWHERE}),
    }, **_HINT),
    *_rows(EFFECT, "9.7.13.4", {
        "tensormap": "change of a tensor map in memory (replace), and its copy to global memory (cp_fenceproxy)",
        "membar": ("memory fence", _FENCE | _OTHER), "fence": ("memory fence", _FENCE | _OTHER),
        "prefetch": "prefetch hint", "prefetchu": "prefetch hint", "discard": "cache hint",
        "applypriority": "cache hint", "nanosleep": ("pause", {"order": Order.PINS}), "griddepcontrol": "no effect",
        "pmevent": "performance-monitor event: ignored",
    }, has_result=False, **_HINT),
    *_rows(CONTROL, "9.7.19", {
        "trap": ("abort the kernel", {"flow": Flow.TRAP, "counted": "control"}), "brkpt": "breakpoint: ignored",
    }, has_result=False, **_HINT),
]  # fmt: skip

LOWERED = frozenset({"tensormap"})
"""Instructions that a kernel has no more once it is built: others stand in their place (`ptxsim.kernel`)."""
INSTRUCTIONS: dict[str, Row] = {row.opcode: row for row in _TABLE}
HEAP_CALL = replace(
    INSTRUCTIONS["call"], result=Likeness.VARYING, pointer=Pointer.ANYWHERE, order=Order.BLOCKS | Order.PINS
)
"""A call of malloc or free: no two lanes get the same, and who comes first decides who gets what."""
UNKNOWN = Row("", CONTROL, "", "an instruction that is refused", has_result=False)
"""What is believed of an instruction that is not in the table, until it is refused: a row that says nothing."""


@dataclass(frozen=True)
class Refused:
    """An instruction, or one with a modifier, that is known and not executed."""

    what: str
    """what it is, behind "a": a thread-block cluster instruction"""
    why: str
    gpu: str = ""
    """what runs it; empty: any GPU"""


HOPPER = "an sm_90a GPU (Hopper: H100, H200)"
CLUSTERS = "an sm_90 or newer GPU (Hopper, Blackwell)"
BLACKWELL = "an sm_100a GPU (Blackwell: B200)"
BLACKWELL_GEFORCE = "an sm_120a GPU (Blackwell: GeForce RTX 50)"
AMPERE = "an sm_80 or newer GPU (Ampere and later)"
_TOO_NEW = "what is simulated ends with sm_90a"
_NO_MIPMAPS = "textures have one level here"
_FLAT_GATHERS = "gathers are from plain 2d textures here"
_SPARSE = Refused("sparse tensor-core product", "products are dense here", AMPERE)
_FORMATTED = Refused("formatted surface access", "surfaces are accessed by their bytes (.b)")
_NOT_KEPT = Refused("query", "texture and surface objects do not keep it here")
_NEW_FLOATS = Refused("conversion of 4-, 6- and 8-bit floats", _TOO_NEW, BLACKWELL)
_NEW_PRODUCT = Refused("tensor-core product of 4- to 8-bit floats", _TOO_NEW, BLACKWELL_GEFORCE)
_LEVEL = Refused("texture fetch from a mipmap", _NO_MIPMAPS)
_STACK_ROOM = Refused("run-time stack allocation", "how much local memory a thread has is fixed before it starts")
_MULTISAMPLED = Refused("fetch from a multisampled texture", "a texel has one sample here")

REFUSED: dict[str, Refused] = {
    "tcgen05": Refused("tensor-memory matrix instruction", _TOO_NEW, BLACKWELL),
    "clusterlaunchcontrol": Refused("thread-block cluster instruction", _TOO_NEW, BLACKWELL),
    "multimem": Refused("multi-GPU memory instruction", "there is one GPU here", CLUSTERS),
    "istypep": Refused("texture query", "textures are objects by their handles here, no references"),
    "sured": Refused("surface reduction", "surfaces are loaded and stored here"),
    **dict.fromkeys(("alloca", "stacksave", "stackrestore"), _STACK_ROOM),
    **dict.fromkeys(("tex.level", "tex.grad", "tex.base", "txq.level"), _LEVEL),
    "tld4.a2d": Refused("gather from a layered texture", _FLAT_GATHERS),
    **dict.fromkeys(("tld4.cube", "tld4.acube"), Refused("gather from a cubemap", _FLAT_GATHERS)),
    **dict.fromkeys(("tex.2dms", "tex.a2dms", "txq.num_samples"), _MULTISAMPLED),
    "tex.v2": Refused("texture fetch of pairs of halves", "fetches give four values of 32 bits here"),
    "txq.num_mipmap_levels": _LEVEL,
    **dict.fromkeys(
        [f"txq.{q}" for q in ("channel_data_type", "channel_order", "filter_mode", "addr_mode_0", "addr_mode_1",
                              "addr_mode_2", "force_unnormalized_coords")]
        + [f"suq.{q}" for q in ("channel_data_type", "channel_order", "memory_layout")], _NOT_KEPT,
    ),
    "suld.p": _FORMATTED, "sust.p": _FORMATTED,
    "fma.oob": Refused("product that takes NaNs outside of a tensor for zeros",
                       "which operands count is not on record", CLUSTERS),
    "mma.sp": _SPARSE, "mma.sp::ordered_metadata": _SPARSE, "wgmma.sp": replace(_SPARSE, gpu=HOPPER),
    **dict.fromkeys(
        [f"mma.{kind}" for kind in ("kind::f8f6f4", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4")], _NEW_PRODUCT,
    ),
    **dict.fromkeys(("ldmatrix.m16n16", "ldmatrix.m8n16"), Refused("load of 8-bit matrices", _TOO_NEW, BLACKWELL)),
    "stmatrix.m16n8": Refused("store of 8-bit matrices", _TOO_NEW, BLACKWELL),
    "ldu.b128": Refused("load of 16 bytes at once", "ldu loads 8 bytes at most here, or vectors"),
    **dict.fromkeys([f"isspacep.{s}" for s in ("const", "param", "param::entry")],
                    Refused("test for constant or parameter memory", "they have no windows of generic addresses here")),
    **dict.fromkeys([f"cvt.{t}" for t in ("e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2", "rs")], _NEW_FLOATS),
    **dict.fromkeys([f"{op}.f32x2" for op in ("add", "sub", "mul", "fma")],
                    Refused("operation on two f32", _TOO_NEW, BLACKWELL)),
    "redux.f32": Refused("reduction of f32 over a warp", _TOO_NEW, BLACKWELL),
    "st.bulk": Refused("bulk initialisation of shared memory", _TOO_NEW, BLACKWELL),
}  # fmt: skip
"""What is not executed, by opcode, or by opcode and modifier."""
