"""The forms of instructions: which modifiers, types and operands each opcode takes (PTX ISA, chapter 9).

First what operands must be, one rule for each kind of instruction; then which modifiers go together; then the table of
forms by opcode, one for each row of `ptxsim.isa`, and the check. Everything behind the parser may rely on it: it runs
on every instruction of a kernel when that is built. A modifier or type that is not listed is refused, so that nothing
is silently taken for something else and no handler meets a mixture that it would have to guess at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ptxsim.isa import LOWERED
from ptxsim.limits import MOST_BARRIERS, WARP
from ptxsim.syntax import bulk, matrices, video as videos, warpgroup as warpgroups
from ptxsim.syntax.program import (
    FLOAT8_TYPES,
    FLOAT_TYPES,
    WIDTH_BITS,
    Address,
    Immediate,
    Instruction,
    Operand,
    Register,
    ResultPair,
    Sink,
    Special,
    Symbol,
    Vector,
    elements_of,
)
from ptxsim.tensormap import BYTES, ELEMENTS, FIELDS


def _words(*texts: str) -> frozenset[str]:
    return frozenset(word for text in texts for word in text.split())


# ---------------------------------------------------------------- what operands must be


class FormError(Exception):
    """The instruction is not well formed."""


class UnknownForm(Exception):
    """The instruction has a modifier or type that the simulator does not know."""


@dataclass(frozen=True)
class Need:
    """What an operand must be.

    `role`: "to" destination, "of" source, "at" address, "number" immediate, "place" in a texture or surface, "any".
    `width` in bits, 1 for predicates. `wider` allows wider registers, `count` asks for a vector or so many coordinates,
    `braces` for a vector even of a single element, `beside` for an optional predicate destination, `%r1|%p1`.
    """

    role: str
    width: int = 0
    wider: bool = False
    count: int = 1
    beside: bool = False
    braces: bool = False


Rule = Callable[[Instruction], Iterable[Need]]


def result(width: int, **more: bool) -> Need:
    return Need("to", width, **more)


def source(width: int, **more: bool) -> Need:
    return Need("of", width, **more)


def same(sources: int) -> Rule:
    """A destination and sources of the instruction's type."""
    return lambda i: [result(WIDTH_BITS[i.type]), *[source(WIDTH_BITS[i.type])] * sources]


def widths(*widths: int | None) -> Rule:
    """Destination and sources of fixed widths; None stands for the instruction's type."""

    def rule(i: Instruction) -> list[Need]:
        first, *rest = [WIDTH_BITS[i.type] if w is None else w for w in widths]
        return [result(first), *[source(w) for w in rest]]

    return rule


def product(addend: bool) -> Rule:
    def rule(i: Instruction) -> list[Need]:
        wide = WIDTH_BITS[i.type] * (2 if i.has("wide") else 1)
        if wide > 64:
            raise FormError("there is no such product")
        return [result(wide), *[source(WIDTH_BITS[i.type])] * 2, *([source(wide)] if addend else [])]

    return rule


def predicate_at(place: int, i: Instruction) -> list[Need]:
    """The predicate that may stand as the last source."""
    return [source(1)] if len(i.operands) == place + 1 else []


def tested(i: Instruction) -> list[Need]:
    return [result(1, beside=True), *[source(WIDTH_BITS[i.type])] * 2, *predicate_at(3, i)]


_PAIRS = ("f16x2", "bf16x2")


def compared(i: Instruction) -> list[Need]:
    to, of = i.types
    usual = {"f16": "u16 s16 u32 s32 f16 f32", "bf16": "u16 s16 u32 s32 bf16"}.get(of, "u32 s32 f16 bf16 f32")
    if to not in (("u32", "s32", of) if of in _PAIRS else usual.split()):
        raise FormError(f"'.{of}' is not compared to give '.{to}'")
    return [result(WIDTH_BITS[to]), *[source(WIDTH_BITS[of])] * 2, *predicate_at(3, i)]


def three_way(i: Instruction) -> list[Need]:
    other = predicate_at(5, i)
    if other and not isinstance(i.operands[0], ResultPair):
        raise FormError("with a predicate it has two results, d|p")
    return [result(32, beside=bool(other)), *[source(32)] * 3, Need("number"), *other]


def _listed(role: str, width: int, operand: Operand | None) -> Need:
    """One side of a move: a register, or two or four that share its bits."""
    if not isinstance(operand, Vector):
        return Need(role, width)
    count = len(operand.elements)
    if count not in (2, 4) or width // count < 16:
        raise FormError("the vector has the wrong number of elements")
    return Need(role, width // count, count=count)


def moved(i: Instruction) -> list[Need]:
    to, of = i.operands if len(i.operands) == 2 else (None, None)
    return [_listed("to", WIDTH_BITS[i.type], to), _listed("of", WIDTH_BITS[i.type], of)]


PACKED_INTEGERS = _words("u2 s2 u4 s4 u8 s8 u16 s16")
"""What cvt.pack makes of two numbers."""


def _packed(i: Instruction) -> list[Need]:
    wanted = [m for m in i.modifiers if m not in ("pack", "sat")]
    if wanted[0] not in PACKED_INTEGERS or wanted[1:] != (["s32"] if wanted[0][1:] == "16" else ["s32", "b32"]):
        raise FormError("it packs two .s32 into one of .u16, .s16, or with a third source .b32 of .u8, .u4, .u2")
    if i.modifiers[:2] != ("pack", "sat"):
        raise FormError("it needs '.sat'")
    return [result(32), *[source(32)] * (2 if wanted[0][1:] == "16" else 3)]


def converted(i: Instruction) -> list[Need]:
    if i.has("pack"):
        return _packed(i)
    if len(i.types) != 2:
        raise FormError("it has the wrong number of types")
    to, of = (WIDTH_BITS[t] for t in i.types)
    sources = 2 if len(i.operands) == 3 else 1
    if not FLOAT8_TYPES.isdisjoint(i.types):
        if (*i.types, sources) not in _FLOAT8_PAIRS:
            raise UnknownForm(f"'.{'.'.join(i.types)}' with {sources} sources")
        return [result(to), *[source(of)] * sources]
    if "tf32" in i.types and (*i.types, sources) != ("tf32", "f32", 1):
        raise UnknownForm(f"'.{'.'.join(i.types)}' with {sources} sources")
    return [result(to, wider=True), *[source(of, wider=True)] * sources]


_FLOAT8_PAIRS = {pair for t in FLOAT8_TYPES for pair in ((t, "f32", 2), (t, "f16x2", 1), ("f16x2", t, 1))}
"""Conversions of 8-bit numbers: result, source, and how many sources."""


def _count(i: Instruction) -> int:
    return next((int(m[1:]) for m in i.modifiers if m in ("v2", "v4", "v8")), 1)


def element(role: str, i: Instruction) -> Need:
    if _count(i) * WIDTH_BITS[i.type] > 256 or (i.type == "b128" and (_count(i) > 1 or i.space in ("param", "const"))):
        raise FormError("the vector is too long")
    return Need(role, WIDTH_BITS[i.type], wider=True, count=_count(i))


def atomic(i: Instruction) -> list[Need]:
    if i.type == "b128" and not (i.has("cas") or i.has("exch")):
        raise UnknownForm("the type '.b128' but for cas and exch")
    if _count(i) > 1:
        _check_vector_atomic(i)
    elif i.type in FLOAT_TYPES and (i.has("min") or i.has("max")):
        raise FormError("numbers of this type have a minimum in vectors alone")
    sources = 2 if i.has("cas") else 1
    exact = [Need(role, WIDTH_BITS[i.type], count=_count(i)) for role in ("to", *["of"] * sources)]
    return [exact[0], Need("at"), *exact[1:]] if i.opcode == "atom" else [Need("at"), *exact[1:]]


_SENT_SUMS = {
    "add": "u32 s32 u64 s64", "min": "u32 s32", "max": "u32 s32", "inc": "u32", "dec": "u32",
    **dict.fromkeys(("and", "or", "xor"), "b32"),
}  # fmt: skip


def sent(i: Instruction) -> list[Need]:
    """st.async and red.async: where to, what, and the barrier object that hears of it."""
    if not i.has("mbarrier::complete_tx::bytes"):
        raise FormError("it needs '.mbarrier::complete_tx::bytes'")
    if i.space != "cluster":
        raise UnknownForm("generic addresses, only '.shared::cluster',")
    if i.opcode == "red":
        operation = next((m for m in _SENT_SUMS if i.has(m)), "")
        if not (i.has("relaxed") and i.has("cluster")):
            raise FormError("it needs '.relaxed.cluster'")
        if i.type not in _SENT_SUMS.get(operation, "") or _count(i) > 1:
            raise FormError("there is no such reduction")
    elif WIDTH_BITS[i.type] not in (32, 64) or i.type[-2:] == "x2" or _count(i) * WIDTH_BITS[i.type] > 128:
        raise FormError("it sends 4, 8 or 16 bytes")
    return [Need("at"), Need("of", WIDTH_BITS[i.type], count=_count(i)), Need("at")]


def _check_vector_atomic(i: Instruction) -> None:
    """Vectors of 16 bytes at most in global memory: f32 is added, halves have a minimum and maximum, too (sm_90)."""
    if i.space not in ("global", "generic"):
        raise FormError("vectors are reduced in global memory alone")
    if i.type not in ("f32", *_HALVES) or _count(i) * WIDTH_BITS[i.type] > 128:
        raise FormError("there is no such vector")
    if not (i.has("add") or (i.type != "f32" and (i.has("min") or i.has("max")))):
        raise FormError("this operation takes no vectors")


def barrier(i: Instruction) -> list[Need]:
    if i.has("cluster"):
        return []
    if i.has("warp"):
        return [source(32)]
    first = int(i.has("red"))
    number = i.operands[first] if first < len(i.operands) else None
    if isinstance(number, Immediate) and not 0 <= number.bits < MOST_BARRIERS:
        raise FormError(f"a block's barriers have the numbers 0 to {MOST_BARRIERS - 1}")
    threads = i.operands[first + 1] if len(i.operands) - 2 * first > 1 else None
    if isinstance(threads, Immediate) and threads.bits % WARP:
        raise FormError(f"a barrier is for whole warps, a multiple of {WARP} threads")
    if i.has("arrive"):
        return [source(32)] * 2
    if not i.has("red"):
        return [source(32)] * (2 if len(i.operands) == 2 else 1)
    return [result(32 if i.has("popc") else 1), *[source(32)] * (2 if len(i.operands) == 4 else 1), source(1)]


def barrier_object(i: Instruction) -> list[Need]:
    at, extra = Need("at"), [source(32)] * max(0, len(i.operands) - 2)
    if i.has("init"):
        return [at, source(32)]
    if i.has("inval"):
        return [at]
    if i.has("complete_tx") or (i.has("expect_tx") and not (i.has("arrive") or i.has("arrive_drop"))):
        return [at, source(32)]
    if i.has("pending_count"):
        return [result(32), source(64)]
    if i.has("arrive") or i.has("arrive_drop"):
        return [result(64), at, *extra[:1]]
    return [result(1), at, source(32 if i.has("parity") else 64), *(extra[1:2] if i.has("try_wait") else [])]


def copied_in_bulk(i: Instruction) -> list[Need]:
    if bulk.is_group(i):
        return [Need("number")] * i.has("wait_group")
    try:
        copy = bulk.bulk_copy(i)
    except bulk.NoSuchCopy as error:
        raise FormError(str(error)) from None
    what: dict[int, Need] = {id(copy.size): source(32), id(copy.blocks): source(16)}
    needs = []
    for operand in i.operands:
        if isinstance(operand, Address):
            at = operand.coordinates
            needs.append(Need("place", 32, count=len(at)) if at else Need("at"))
        elif isinstance(operand, Vector):
            needs.append(Need("of", 16, count=len(operand.elements), braces=True))
        else:
            needs.append(what.get(id(operand), source(64)))
    return needs


def copied(i: Instruction) -> list[Need]:
    if bulk.is_bulk(i):
        return copied_in_bulk(i)
    if i.has("mbarrier") != bool(i.types):
        raise FormError("it has the wrong number of types")
    if i.has("mbarrier"):
        return [Need("at")]
    if i.has("commit_group") or i.has("wait_all"):
        return []
    if i.has("wait_group"):
        return [Need("number")]
    more = [Need("of") if isinstance(last, Register) else Need("number") for last in i.operands[3:4]]
    return [Need("at"), Need("at"), Need("number"), *more]


def policy(i: Instruction) -> list[Need]:
    places = [Need("at")] * i.has("range")
    numbers = [Need("number")] if i.has("cvt") else [source(32)] * (len(i.operands) - 1 - len(places))
    return [result(64), *places, *numbers]


def _held(role: str, held: matrices.Fragment) -> Need:
    """The registers of a fragment."""
    return Need(role, held.register_bits, count=held.registers, braces=True)


def fragments(i: Instruction) -> list[Need]:
    if i.opcode == "wmma" and sum(map(i.has, ("load", "store", "mma"))) != 1:
        raise UnknownForm("this operation")
    try:
        if i.opcode == "mma" or i.has("mma"):
            p = matrices.product(i)
            return [_held("to" if operand == "d" else "of", p.fragment(operand)) for operand in "dabc"]
        held = matrices.tile(i).fragment
    except matrices.NoSuchMatrix as error:
        raise UnknownForm(str(error)) from None
    stride = [source(32)] * (len(i.operands) == 3)
    return [Need("at"), _held("of", held), *stride] if i.has("store") else [_held("to", held), Need("at"), *stride]


def warpgroup(i: Instruction) -> list[Need]:
    if not i.has("mma_async"):
        return [Need("number")] * i.has("wait_group")
    try:
        p = warpgroups.warpgroup_product(i)
    except matrices.NoSuchMatrix as error:
        raise UnknownForm(str(error)) from None
    in_registers = len(i.operands) > 1 and isinstance(i.operands[1], Vector)
    if in_registers and p.a == "b1" and p.depth != 256:
        raise UnknownForm("this shape")
    a = _held("of", p.fragment("a")) if in_registers else source(64)
    more = [Need("number")] * warpgroups.immediates_of(p, a_in_registers=in_registers)
    return [_held("to", p.fragment("d")), a, source(64), source(1), *more]


def fence(i: Instruction) -> list[Need]:
    """The one for tensor maps that are changed names the map when it acquires."""
    return [Need("at"), Need("number")] if i.has("tensormap::generic") and i.has("acquire") else []


def map_change(i: Instruction) -> list[Need]:
    """A field of a tensor map by its name, one of several by its number; or the copy of a whole map."""
    if i.has("cp_fenceproxy"):
        if not {"release", "tensormap::generic", "sync", "aligned"} <= set(i.modifiers):
            raise UnknownForm("these modifiers")
        _of_at_most(i, 2, BYTES, least=BYTES)
        return [Need("at"), Need("at"), Need("number")]
    names = [m for m in i.modifiers if m in FIELDS]
    if len(names) != 1 or not i.has("replace") or not i.has("tile") or not i.has("b1024"):
        raise UnknownForm("these modifiers")
    (name,) = names
    wide = name in ("global_address", "global_stride")
    if i.types != ("b64" if wide else "b32",):
        raise UnknownForm("this type")
    if (limit := _MAP_MODES.get(name)) is not None:
        _of_at_most(i, 1, limit)
        return [Need("at"), Need("number")]
    if FIELDS[name].times == 1:
        return [Need("at"), source(64 if wide else 32)]
    _of_at_most(i, 1, FIELDS[name].times - 1)
    return [Need("at"), Need("number"), source(64 if wide else 32)]


_MAP_MODES = {"elemtype": len(ELEMENTS) - 1, "interleave_layout": 2, "swizzle_mode": 3, "fill_mode": 1}
"""Fields whose new number is written in the instruction, and the largest that there is."""


def _of_at_most(i: Instruction, operand: int, most: int, least: int = 0) -> None:
    """Raises UnknownForm for another number."""
    value = i.operands[operand] if operand < len(i.operands) else None
    if isinstance(value, Immediate) and not least <= value.bits <= most:
        raise UnknownForm("this number")


def matrix_move(i: Instruction) -> list[Need]:
    count = next((int(m[1:]) for m in i.modifiers if m in ("x1", "x2", "x4")), 0)
    if not count or not i.has("m8n8"):
        raise UnknownForm("this shape")
    if i.opcode == "ldmatrix":
        return [Need("to", 32, count=count, braces=True), Need("at")]
    return [Need("at"), Need("of", 32, count=count, braces=True)]


GEOMETRIES = {"1d": 1, "2d": 2, "3d": 4, "a1d": 2, "a2d": 4, "cube": 4, "acube": 4}
"""How many coordinates a place has: the layer first, and of four the last means nothing (PTX ISA 9.7.10.3)."""


def _place(i: Instruction) -> Need:
    place = i.operands[1 if i.row.has_result else 0]
    if isinstance(place, Address) and isinstance(place.base, Symbol):
        raise UnknownForm("references, only objects by their 64-bit handles,")
    counts = [GEOMETRIES[m] for m in i.modifiers if m in GEOMETRIES]
    if len(counts) != 1:
        raise FormError(f"it needs one of '.{', .'.join(GEOMETRIES)}'")
    return Need("place", 32, count=counts[0])


def fetched(i: Instruction) -> list[Need]:
    to, coordinate = i.types
    if len(i.operands) != 2:
        raise UnknownForm("samplers, offsets and depth compare")
    if to not in ("u32", "s32", "f32"):
        raise UnknownForm(f"the type '.{to}'")
    if coordinate == "s32" and not i.has("1d"):
        raise UnknownForm("integer coordinates but for .1d")
    return [Need("to", 32, count=4, beside=True), _place(i)]


def queried(i: Instruction) -> list[Need]:
    return [result(32), Need("at")]


def on_surface(i: Instruction) -> list[Need]:
    count = _count(i)
    if count * WIDTH_BITS[i.type] > 128:
        raise FormError("the vector is too long")
    if len(i.operands) != 2:
        raise FormError(f"{len(i.operands)} operands are the wrong number")
    moved = Need("to" if i.row.has_result else "of", WIDTH_BITS[i.type], wider=True, count=count, braces=True)
    return [moved, _place(i)] if i.row.has_result else [_place(i), moved]


def seen(i: Instruction) -> list[Need]:
    """A video instruction: words of which it takes parts."""
    if not {"u32", "s32"}.issuperset(i.types):
        raise FormError("its types are .u32 and .s32")
    try:
        videos.packed_video(i) if i.opcode in videos.PACKED else videos.scalar_video(i)
    except videos.NoSuchSelection as error:
        raise FormError(str(error)) from None
    return [result(32), *[source(32)] * (len(i.operands) - 1)]


def nothing(i: Instruction) -> list[Need]:
    return []


# ---------------------------------------------------------------- which modifiers go together


ROUNDING = _words("rn rz rm rp rna rni rzi rmi rpi")
COMPARISONS = _words("eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan")
_UNORDERED = _words("equ neu ltu leu gtu geu num nan")
_UNSIGNED = _words("lo ls hi hs")
_BOOLEANS = _words("and or xor")
_PARTS = _words("lo hi wide")
_OPERATIONS = _words("add inc dec min max and or xor exch cas")
_ADDRESS_SPACES = _words("global shared shared::cta local param const")
_PROPERTIES = _words("finite infinite number notanumber normal subnormal")
_PERMUTATIONS = _words("f4e b4e rc8 ecl ecr rc16")
_SHUFFLES, _VOTES = _words("up down bfly idx"), _words("all any uni ballot")
_HALVES = _words("f16 bf16 f16x2 bf16x2")
_QUERIES = _words("width height depth array_size normalized_coords")

EXCLUSIVE = (
    ROUNDING | {"approx", "full"}, COMPARISONS | {"wide"}, _BOOLEANS, _words("v2 v4 v8"), _words("clamp wrap"),
    _words("l r"), _SHUFFLES, _PROPERTIES, _PERMUTATIONS, _words("weak volatile relaxed acquire release acq_rel sc"),
    _words("cta cluster gpu sys gl"), _words("launch_dependents wait"),
    _words("commit_group wait_group wait_all ca cg mbarrier"), _words("trap clamp zero"), _QUERIES,
    _words("shr7 shr15"),
)  # fmt: skip
"""Of each of these an instruction has one at most."""


def _whole(i: Instruction) -> bool:
    return i.type not in FLOAT_TYPES


def _float8(i: Instruction) -> bool:
    return not FLOAT8_TYPES.isdisjoint(i.types)


REQUIRED: dict[str, tuple[tuple[frozenset[str], Callable[[Instruction], bool]], ...]] = {
    "mul": ((_PARTS, _whole),), "mad": ((_PARTS, _whole),),
    "mul24": ((_words("lo hi"), _whole),), "mad24": ((_words("lo hi"), _whole),), "madc": ((_words("lo hi"), _whole),),
    "setp": ((COMPARISONS, bool), (_BOOLEANS, lambda i: len(i.operands) == 4)),
    "set": ((COMPARISONS, bool), (_BOOLEANS, lambda i: len(i.operands) == 4)),
    "lop3": ((_words("and or"), lambda i: len(i.operands) == 6),),
    "shf": ((_words("l r"), bool), (_words("clamp wrap"), bool)),
    "szext": ((_words("clamp wrap"), bool),), "bmsk": ((_words("clamp wrap"), bool),),
    "testp": ((_PROPERTIES, bool),), "shfl": ((_SHUFFLES, bool),), "vote": ((_VOTES, bool),),
    "match": ((_words("any all"), bool), (_words("sync"), bool)),
    "redux": ((_words("add min max and or xor"), bool), (_words("sync"), bool)),
    "atom": ((_OPERATIONS, bool),), "red": ((_OPERATIONS, bool),),
    **dict.fromkeys(("cvta", "isspacep"), ((_ADDRESS_SPACES | {"shared::cluster"}, bool),)),
    "cvt": ((_words("rn"), _float8), (_words("satfinite"), lambda i: i.types[0] in FLOAT8_TYPES)),
    "dp2a": ((_words("lo hi"), bool),), "brx": ((_words("idx"), bool),),
    "cp": (
        (_words("async"), bool),
        (_words("commit_group wait_group wait_all ca cg mbarrier"), lambda i: not i.has("bulk")),
        (_words("arrive"), lambda i: i.has("mbarrier")),
    ),
    "mbarrier": (
        (_words("init inval arrive arrive_drop test_wait try_wait pending_count"),
         lambda i: not i.has("expect_tx") and not i.has("complete_tx")),
    ),
    "tex": ((frozenset(GEOMETRIES), bool), (_words("v4"), bool)),
    "tld4": ((_words("r g b a"), bool), (_words("2d"), bool), (_words("v4"), bool)),
    **dict.fromkeys(("suld", "sust"), ((frozenset(GEOMETRIES), bool), (_words("b"), bool))),
    **dict.fromkeys(("txq", "suq"), ((_QUERIES, bool),)),
    **dict.fromkeys(("vset", "vset2", "vset4"), ((COMPARISONS, bool),)),
    **dict.fromkeys(("vshl", "vshr"), ((_words("clamp wrap"), bool),)),
}  # fmt: skip
"""Opcode -> sets of which an instruction has exactly one, where the condition holds."""
_ONLY_IF_REQUIRED = {"setp": _BOOLEANS, "set": _BOOLEANS, "mul": _PARTS, "mad": _PARTS, "lop3": _words("and or")}


def _some_float(i: Instruction) -> bool:
    return any(t in FLOAT_TYPES for t in i.types)


def _saturates(i: Instruction) -> bool:
    if i.opcode in ("mad", "mad24"):
        return i.type == "f32" or (i.type == "s32" and i.has("hi"))
    if i.opcode == "cvt" or i.opcode in videos.VIDEO or i.type in ("f32", "f16", "f16x2"):
        return True
    return i.type == "s32" and i.opcode in ("add", "sub") and not i.has("cc")


def _clips(i: Instruction) -> bool:
    if i.opcode in ("min", "max"):
        return i.type in ("s32", "s16x2", *_HALVES)
    return any(t in _HALVES or t in FLOAT8_TYPES or t == "tf32" for t in i.types)


def _narrowed(i: Instruction) -> bool:
    """Conversions of f32 that may end at the largest number in place of infinity."""
    rounds = "rna" if i.types[0] == "tf32" else "rn rz"
    return i.types[0] in (*_HALVES, "tf32") and i.type == "f32" and any(i.has(m) for m in rounds.split())


CONDITIONS: dict[str, Callable[[Instruction], bool]] = {
    **dict.fromkeys(ROUNDING, _some_float),
    **dict.fromkeys(("rz", "rm", "rp"), lambda i: i.opcode == "cvt" or (_some_float(i) and i.type not in _HALVES)),
    "rna": lambda i: i.opcode == "cvt",
    **dict.fromkeys(("rni", "rzi", "rmi", "rpi"), lambda i: i.opcode == "cvt" and i.type in FLOAT_TYPES),
    **dict.fromkeys(_UNORDERED, lambda i: i.type in FLOAT_TYPES),
    **dict.fromkeys(("approx", "full"), _some_float),
    **dict.fromkeys(("NaN", "xorsign"), lambda i: i.type in FLOAT_TYPES),
    "ftz": lambda i: any(t in ("f32", "f16", "f16x2", "bf16", "bf16x2", "f64") for t in i.types),
    "sat": _saturates,
    "relu": _clips,
    "satfinite": lambda i: i.opcode != "cvt" or i.types[0] in FLOAT8_TYPES or _narrowed(i),
    **dict.fromkeys(
        _BOOLEANS, lambda i: i.opcode not in ("atom", "red") or (i.type[0] == "b" and i.type not in FLOAT_TYPES)
    ),
    "cc": lambda i: i.type in ("u32", "s32", "u64", "s64"),
    "const": lambda i: i.opcode in ("ld", "cvta", "isspacep"),
    "parity": lambda i: i.has("test_wait") or i.has("try_wait"),
    "noComplete": lambda i: i.has("arrive") or i.has("arrive_drop"),
    "ballot": lambda i: i.opcode != "vote" or i.type == "b32",
    **dict.fromkeys(("all", "any", "uni"), lambda i: i.opcode != "vote" or i.type == "pred"),
}
"""Modifier -> what must hold of an instruction that has it."""


_TWICE = frozenset({"wmma", "mma", "wgmma"})
"""Instructions that may name a layout or a type of elements for each operand."""


def problem(i: Instruction) -> str:
    """What is wrong with the modifiers of `i`, in words; "" if nothing is."""
    present = [m for m in i.modifiers if m not in i.types]
    if len(set(present)) != len(present) and i.opcode not in _TWICE:
        return "a modifier stands there twice"
    chosen = frozenset(present)
    for group in EXCLUSIVE:
        if len(group & chosen) > 1:
            return f"'.{' and .'.join(sorted(group & chosen))}' exclude each other"
    if len(chosen & _ADDRESS_SPACES) > (2 if i.opcode in ("cp", "tensormap") else 1):
        return "it names several state spaces"
    for group, holds in REQUIRED.get(i.opcode, ()):
        count = len(group & chosen)
        if holds(i) and count != 1:
            return f"it needs one of '.{', .'.join(sorted(group))}'" if not count else "it names several operations"
        if not holds(i) and count and _ONLY_IF_REQUIRED.get(i.opcode) == group:
            return f"'.{min(group & chosen)}' does not belong here"
    for modifier in present:
        condition = CONDITIONS.get(modifier)
        if condition is not None and i.types and not condition(i):
            return f"'.{modifier}' does not go with '.{i.type}'"
    return _comparison_problem(i, chosen) if i.opcode in ("setp", "set") else ""


def _comparison_problem(i: Instruction, chosen: frozenset[str]) -> str:
    """Comparisons by type: floating-point ones, unsigned ones, and the plain ones of bits."""
    if (i.type in FLOAT_TYPES or i.type[0] == "s") and chosen & _UNSIGNED:
        return f"'.{min(chosen & _UNSIGNED)}' does not go with '.{i.type}'"
    if i.type[0] == "b" and i.type not in FLOAT_TYPES and not chosen & {"eq", "ne"}:
        return f"'.{i.type}' compares for equality alone"
    return ""


# ---------------------------------------------------------------- the table


@dataclass(frozen=True)
class Form:
    """`types`: what the last type may be; `counts`: how many types are written."""

    rule: Rule
    types: frozenset[str]
    modifiers: frozenset[str]
    counts: tuple[int, ...] = (1,)


_INT = "u16 s16 u32 s32 u64 s64"
_PACKED_INT = "u16x2 s16x2"
_BITS = "b16 b32 b64"
_HALF = "f16 bf16 f16x2 bf16x2"
_FLOAT = "f32 f64 " + _HALF
_ROUND = "rn rz rm rp"
_COMPARE = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan"
_BOOLEAN = "and or xor"
_SPACES = "global shared shared::cta shared::cluster local param param::entry param::func const"
_CACHE = (
    "ca cg cs lu cv cop wb wt nc L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate "
    "L2::evict_normal L2::evict_first L2::evict_last L2::64B L2::128B L2::256B"
)
_ORDER = "weak volatile relaxed acquire release acq_rel cta cluster gpu sys mmio sc"
_ANY_TYPE = _words(_INT, _BITS, "b8 u8 s8 f16 bf16 f32 f64 f16x2 bf16x2")


def _form(rule: Rule, types: str = "", modifiers: str = "", counts: tuple[int, ...] = (1,)) -> Form:
    return Form(rule, _words(types), _words(modifiers), counts)


_CARRY = "u32 s32 u64 s64"
_MEMORY = f"{_SPACES} {_CACHE} {_ORDER} v2 v4 v8 unified"
_ATOMIC = f"{_SPACES} {_ORDER} {_BOOLEAN} add inc dec min max noftz v2 v4 v8"

_MATRIX = "sync aligned row col m16n16k16 m32n8k16 m8n32k16 m16n16k8 m8n8k4 m8n8k32 m8n8k128"
_PRODUCT = (
    f"{_MATRIX} m16n8k4 m16n8k8 m16n8k16 m16n8k32 m16n8k64 m16n8k128 m16n8k256 m8n8k16 satfinite xor and popc rn "
    "s4 u4 b1"
)
_MATRIX_TYPES = "f16 bf16 tf32 f32 f64 s8 u8 s32"
_ON_SURFACE, _SURFACE_TYPES = "b 1d 2d 3d a1d a2d v2 v4 trap clamp zero", "b8 b16 b32 b64"

FORMS: dict[str, Form] = {
    "add": _form(same(2), f"{_INT} {_PACKED_INT} {_FLOAT}", f"{_ROUND} ftz sat cc"),
    "sub": _form(same(2), f"{_INT} {_FLOAT}", f"{_ROUND} ftz sat cc"),
    "mul": _form(product(False), f"{_INT} {_FLOAT}", f"{_ROUND} ftz sat lo hi wide"),
    "mad": _form(product(True), f"{_INT} f32 f64", f"{_ROUND} ftz sat lo hi wide cc"),
    "mul24": _form(same(2), "u32 s32", "lo hi"),
    "mad24": _form(same(3), "u32 s32", "lo hi sat"),
    "addc": _form(same(2), _CARRY, "cc"), "subc": _form(same(2), _CARRY, "cc"),
    "madc": _form(same(3), _CARRY, "lo hi cc"),
    "sad": _form(same(3), _INT),
    "div": _form(same(2), f"{_INT} f32 f64", f"{_ROUND} ftz approx full"),
    "rem": _form(same(2), _INT),
    "abs": _form(same(1), f"s16 s32 s64 {_FLOAT}", "ftz"),
    "neg": _form(same(1), f"s16 s32 s64 {_FLOAT}", "ftz"),
    **dict.fromkeys(("min", "max"), _form(
        lambda i: same(3 if len(i.operands) == 4 and i.type == "f32" else 2)(i), f"{_INT} {_PACKED_INT} {_FLOAT}",
        "ftz NaN xorsign abs relu",
    )),
    "popc": _form(widths(32, None), "b32 b64"), "clz": _form(widths(32, None), "b32 b64"),
    "bfind": _form(widths(32, None), "u32 s32 u64 s64", "shiftamt"),
    "fns": _form(widths(32, 32, 32, 32), "b32"),
    "brev": _form(same(1), "b32 b64"),
    "bfe": _form(widths(None, None, 32, 32), "u32 s32 u64 s64"),
    "bfi": _form(widths(None, None, None, 32, 32), "b32 b64"),
    "bmsk": _form(widths(32, 32, 32), "b32", "clamp wrap"),
    "szext": _form(widths(32, 32, 32), "u32 s32", "clamp wrap"),
    "dp4a": _form(same(3), "u32 s32", counts=(2,)), "dp2a": _form(same(3), "u32 s32", "lo hi", counts=(2,)),
    "testp": _form(widths(1, None), "f32 f64", "finite infinite number notanumber normal subnormal"),
    "copysign": _form(same(2), "f32 f64"),
    "fma": _form(same(3), _FLOAT, f"{_ROUND} ftz sat relu"),
    "rcp": _form(same(1), "f32 f64", f"{_ROUND} approx ftz"),
    "sqrt": _form(same(1), "f32 f64", f"{_ROUND} approx ftz"),
    "rsqrt": _form(same(1), "f32 f64", "approx ftz"),
    "sin": _form(same(1), "f32", "approx ftz"), "cos": _form(same(1), "f32", "approx ftz"),
    "lg2": _form(same(1), "f32", "approx ftz"),
    "ex2": _form(same(1), f"f32 {_HALF}", "approx ftz"), "tanh": _form(same(1), f"f32 {_HALF}", "approx"),
    "set": _form(compared, f"{_INT} {_BITS} {_FLOAT}", f"{_COMPARE} {_BOOLEAN} ftz", counts=(2,)),
    "setp": _form(tested, f"{_INT} {_BITS} {_FLOAT}", f"{_COMPARE} {_BOOLEAN} ftz"),
    "selp": _form(widths(None, None, None, 1), f"{_INT} {_BITS} f32 f64"),
    "slct": _form(
        lambda i: [*[Need(role, WIDTH_BITS[i.types[0]]) for role in ("to", "of", "of")], source(32)],
        "s32 f32", "ftz", (2,),
    ),
    "and": _form(same(2), f"pred {_BITS}"), "or": _form(same(2), f"pred {_BITS}"),
    "xor": _form(same(2), f"pred {_BITS}"), "not": _form(same(1), f"pred {_BITS}"),
    "cnot": _form(same(1), _BITS),
    "lop3": _form(three_way, "b32", "and or"),
    "shf": _form(widths(32, 32, 32, 32), "b32", "l r clamp wrap"),
    "shl": _form(widths(None, None, 32), _BITS),
    "shr": _form(widths(None, None, 32), f"{_BITS} {_INT}"),
    "prmt": _form(widths(32, 32, 32, 32), "b32", "f4e b4e rc8 ecl ecr rc16"),
    "mov": _form(moved, f"pred {_INT} {_BITS} b128 f16 bf16 f32 f64 f16x2 bf16x2"),
    "cvta": _form(same(1), "u32 u64", f"to {_SPACES}"),
    "isspacep": _form(lambda i: [result(1), source(64)], "", _SPACES, (0,)),
    "cvt": Form(
        converted, _ANY_TYPE | FLOAT8_TYPES | {"tf32"},
        _words(_ROUND, "rna rni rzi rmi rpi ftz sat satfinite relu pack u2 s2 u4 s4"), (1, 2, 3),
    ),
    "ld": Form(lambda i: [element("to", i), Need("at")], _ANY_TYPE | {"b128"}, _words(_MEMORY)),
    "ldu": Form(lambda i: [element("to", i), Need("at")], _ANY_TYPE, _words("global v2 v4")),
    "st": Form(
        lambda i: sent(i) if i.has("async") else [Need("at"), element("of", i)], _ANY_TYPE | {"b128"},
        _words(_MEMORY, "async mbarrier::complete_tx::bytes"),
    ),
    "atom": _form(atomic, f"{_BITS} b128 u32 s32 u64 s64 {_FLOAT}", f"{_ATOMIC} cas exch"),
    "red": _form(
        lambda i: sent(i) if i.has("async") else atomic(i), f"b32 b64 u32 s32 u64 s64 {_FLOAT}",
        f"{_ATOMIC} async mbarrier::complete_tx::bytes",
    ),
    "shfl": _form(
        lambda i: [result(32, beside=True), *[source(32)] * (4 if i.has("sync") else 3)], "b32",
        "sync up down bfly idx",
    ),
    "vote": _form(
        lambda i: [result(WIDTH_BITS[i.type]), source(1), *[source(32)] * i.has("sync")], "pred b32",
        "sync all any uni ballot",
    ),
    "match": _form(
        lambda i: [result(32, beside=i.has("all")), source(WIDTH_BITS[i.type]), source(32)], "b32 b64",
        "any all sync",
    ),
    "redux": _form(widths(32, 32, 32), "u32 s32 b32", f"sync add min max {_BOOLEAN}"),
    "elect": _form(lambda i: [result(32, beside=True), source(32)], "", "sync", (0,)),
    "createpolicy": _form(policy, "b64", f"fractional range cvt L2 global L2::evict_unchanged {_CACHE}"),
    "pmevent": _form(lambda i: [Need("number")], "", "mask", (0,)),
    **dict.fromkeys(("vadd", "vsub", "vabsdiff", "vmin", "vmax"), _form(seen, "u32 s32", "sat add min max", (3,))),
    **dict.fromkeys(("vshl", "vshr"), _form(seen, "u32", "sat clamp wrap add min max", (3,))),
    "vmad": _form(seen, "u32 s32", "sat shr7 shr15 po", (3,)),
    "vset": _form(seen, "u32 s32", "eq ne lt le gt ge add min max", (2,)),
    **dict.fromkeys(videos.PACKED, _form(seen, "u32 s32", "sat add", (3,))),
    **dict.fromkeys(("vset2", "vset4"), _form(seen, "u32 s32", "eq ne lt le gt ge add", (2,))),
    "activemask": _form(widths(32), "b32"),
    "bra": _form(nothing, "", "uni", (0,)),
    "brx": _form(lambda i: [source(32)], "", "idx uni", (0,)),
    # whatever stands there: it is held against the function that is called, where its calls are inlined
    "call": _form(lambda i: [Need("any")] * len(i.operands), "", "uni", (0,)),
    "ret": _form(nothing, "", "uni", (0,)), "exit": _form(nothing, "", "", (0,)),
    "bar": _form(barrier, "u32 pred", "sync arrive red warp popc and or cta aligned", (0, 1)),
    "barrier": _form(
        barrier, "u32 pred", "sync arrive red popc and or cta aligned cluster wait acquire release relaxed", (0, 1),
    ),
    "wgmma": _form(
        warpgroup, "f16 bf16 tf32 f32 s8 u8 s32",
        "mma_async fence commit_group wait_group sync aligned satfinite e4m3 e5m2 b1 and popc "
        + " ".join(f"m64n{n}k{k}" for n in range(8, 257, 8) for k in (8, 16, 32, 256)), tuple(range(4)),
    ),
    "setmaxnreg": _form(lambda i: [Need("number")], "u32", "inc dec sync aligned"),
    "mapa": _form(lambda i: [result(WIDTH_BITS[i.type]), source(WIDTH_BITS[i.type]), source(32)], "u32 u64",
                  "shared::cluster"),
    "getctarank": _form(lambda i: [result(32), source(WIDTH_BITS[i.type])], "u32 u64", "shared::cluster"),
    "membar": _form(nothing, "", "cta gl sys gpu proxy alias", (0,)),
    "fence": _form(
        fence, "", f"{_ORDER} {_SPACES} proxy alias async async::generic generic mbarrier_init tensormap::generic "
        "sync_restrict::shared::cta sync_restrict::shared::cluster", (0,),
    ),
    "tensormap": _form(
        map_change, "b32 b64",
        "replace tile global_address rank box_dim global_dim global_stride element_stride elemtype interleave_layout "
        "swizzle_mode fill_mode b1024 cp_fenceproxy global shared::cta tensormap::generic release cta cluster gpu sys "
        "sync aligned", (0, 1),
    ),
    "prefetch": _form(
        lambda i: [Need("at")], "", f"{_SPACES} local L1 L2 L2::evict_last L2::evict_normal tensormap", (0,),
    ),
    "prefetchu": _form(lambda i: [Need("at")], "", "L1", (0,)),
    "discard": _form(lambda i: [Need("at"), Need("number")], "", "global L2", (0,)),
    "applypriority": _form(lambda i: [Need("at"), Need("number")], "", "global L2::evict_normal", (0,)),
    "nanosleep": _form(lambda i: [source(32)], "u32"),
    "griddepcontrol": _form(nothing, "", "launch_dependents wait", (0,)),
    "trap": _form(nothing, "", "", (0,)), "brkpt": _form(nothing, "", "", (0,)),
    "wmma": _form(
        fragments, _MATRIX_TYPES, f"{_PRODUCT} load store mma a b c d {_SPACES}", tuple(range(5)),
    ),
    "mma": _form(fragments, _MATRIX_TYPES, f"{_PRODUCT} e4m3 e5m2", tuple(range(5))),
    "ldmatrix": _form(matrix_move, "b16", "sync aligned m8n8 x1 x2 x4 trans shared shared::cta"),
    "stmatrix": _form(matrix_move, "b16", "sync aligned m8n8 x1 x2 x4 trans shared shared::cta"),
    "movmatrix": _form(widths(32, 32), "b16", "sync aligned m8n8 trans"),
    "mbarrier": _form(
        barrier_object, "b64",
        "init inval arrive arrive_drop test_wait try_wait pending_count parity noComplete expect_tx complete_tx "
        f"{_SPACES} {_ORDER}",
    ),
    "tex": _form(fetched, "s32 f32", "1d 2d 3d a1d a2d cube acube v4", (2,)),
    "tld4": _form(fetched, "f32", "r g b a 2d v4", (2,)),
    "txq": _form(queried, "b32", "width height depth array_size normalized_coords"),
    "suld": _form(on_surface, _SURFACE_TYPES, f"{_ON_SURFACE} ca cg cs cv"),
    "sust": _form(on_surface, _SURFACE_TYPES, f"{_ON_SURFACE} wb cg cs wt"),
    "suq": _form(queried, "b32", "width height depth array_size"),
    "cp": _form(
        copied, "b64 f16 bf16 f32 f64 u32 s32 u64 s64 b32",
        "bulk tensor 1d 2d 3d 4d 5d tile im2col im2col_no_offs mbarrier::complete_tx::bytes multicast::cluster "
        "bulk_group read prefetch L2 L2::cache_hint reduce add min max inc dec and or xor noftz "
        f"async ca cg mbarrier arrive noinc {_SPACES} commit_group wait_group wait_all L2::64B L2::128B L2::256B",
        (0, 1),
    ),
}  # fmt: skip


class Checker:
    """Checks the instructions of one function; `registers` gives the types of those it may mention."""

    def __init__(self, registers: dict[str, str]) -> None:
        self.widths = {name: WIDTH_BITS[type_name] for name, type_name in registers.items()}
        self.needs: dict[tuple[object, ...], tuple[Need, ...]] = {}

    def check(self, i: Instruction) -> None:
        """Raises FormError or UnknownForm."""
        form = FORMS.get(i.opcode)
        if form is None:
            return
        key = (i.opcode, i.modifiers, i.selectors, *map(type, i.operands))
        needs = self.needs.get(key)
        if needs is None:
            _check_modifiers(i, form)
            needs = tuple(form.rule(i))
            if len(needs) != len(i.operands):
                raise FormError(f"{len(i.operands)} operands are the wrong number")
            if Vector not in key and i.opcode not in LOWERED:  # lengths and numbers are of the form, not of the key
                self.needs[key] = needs
        for need, operand in zip(needs, i.operands, strict=True):
            if not self.fits(need, operand):
                raise FormError(f"operand {i.operands.index(operand) + 1} is not what this instruction takes")

    def fits(self, need: Need, operand: Operand) -> bool:
        if need.role == "place":
            if not isinstance(operand, Address) or len(operand.coordinates) != need.count or operand.offset:
                return False
            by_handle = isinstance(operand.base, Register) and self.widths[operand.base.name] == 64
            return by_handle and all(self.fits(source(need.width), c) for c in operand.coordinates)
        if need.beside and need.count > 1 and isinstance(operand, ResultPair):
            return self.fits(Need("to", need.width, count=need.count), operand.first) and self.fits(
                Need("to", 1), operand.second
            )
        if need.count > 1 or need.braces:
            single, elements = Need(need.role, need.width, need.wider), elements_of(operand)
            return (
                isinstance(operand, Vector)
                and len(elements) == need.count
                and all(self.fits(single, e) for e in elements)
            )
        role, width = need.role, need.width
        if isinstance(operand, Register):
            own = self.widths[operand.name]
            return role == "any" or (
                role in ("to", "of") and (own == width or not width or (need.wider and own > width > 1))
            )
        if role == "at":
            base = operand.base if isinstance(operand, Address) and not operand.coordinates else None
            return base is not None and (not isinstance(base, Register) or self.widths[base.name] in (32, 64))
        if role == "number":
            return isinstance(operand, Immediate)
        if role == "of":
            if width == 1 and isinstance(operand, Special):
                return operand.name == "is_explicit_cluster"
            return isinstance(operand, Immediate) or (width != 1 and isinstance(operand, Special | Symbol))
        if isinstance(operand, ResultPair) and need.beside:
            return self.fits(Need("to", width), operand.first) and self.fits(Need("to", 1), operand.second)
        return role == "any" or isinstance(operand, Sink)


def _check_modifiers(i: Instruction, form: Form) -> None:
    types = i.types
    for modifier in i.modifiers:
        if modifier not in WIDTH_BITS and modifier not in form.modifiers:
            raise UnknownForm(f"'.{modifier[:40]}'")
    if len(types) not in form.counts:
        raise FormError("it has the wrong number of types")
    if types and types[-1] not in form.types:
        raise UnknownForm(f"the type '.{types[-1]}'")
    wrong = problem(i)
    if wrong:
        raise FormError(wrong)
