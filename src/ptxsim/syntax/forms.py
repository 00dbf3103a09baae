"""The forms of instructions: which modifiers, types and operands each opcode takes (PTX ISA, chapter 9).

Everything behind the parser may rely on them: `check` runs on every instruction of a kernel when it is built. A
modifier or type that is not listed is refused, so that nothing is silently taken for something else.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxsim.syntax.combinations import problem
from ptxsim.syntax.needs import (
    FormError,
    Need,
    Rule,
    UnknownForm,
    atomic,
    barrier,
    barrier_object,
    chosen_by_sign,
    compared,
    converted,
    copied,
    element,
    extreme,
    fragments,
    matched,
    matrix_move,
    matrix_product,
    moved,
    nothing,
    policy,
    product,
    result,
    same,
    shuffled,
    source,
    tested,
    three_way,
    voted,
    widths,
)
from ptxsim.syntax.program import (
    FLOAT8_TYPES,
    WIDTH_BITS,
    Address,
    Immediate,
    Instruction,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)


@dataclass(frozen=True)
class Form:
    """`types`: what the last type may be; `counts`: how many types are written."""

    rule: Rule
    types: frozenset[str]
    modifiers: frozenset[str]
    counts: tuple[int, ...] = (1,)


def _words(*texts: str) -> frozenset[str]:
    return frozenset(word for text in texts for word in text.split())


_INT = "u16 s16 u32 s32 u64 s64"
_PACKED_INT = "u16x2 s16x2"
_BITS = "b16 b32 b64"
_HALF = "f16 bf16 f16x2 bf16x2"
_FLOAT = "f32 f64 " + _HALF
_ROUND = "rn rz rm rp"
_COMPARE = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan"
_BOOLEAN = "and or xor"
_SPACES = "global shared shared::cta local param param::entry param::func const"
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
_ATOMIC = f"{_SPACES} {_ORDER} {_BOOLEAN} add inc dec min max noftz v2 v4"

_MATRIX = "sync aligned row col m16n16k16 m32n8k16 m8n32k16 m16n16k8 m8n8k4 m8n8k32 m8n8k128"
_PRODUCT = (
    f"{_MATRIX} m16n8k4 m16n8k8 m16n8k16 m16n8k32 m16n8k64 m16n8k128 m16n8k256 m8n8k16 satfinite xor and popc rn "
    "s4 u4 b1"
)
_MATRIX_TYPES = "f16 bf16 tf32 f32 f64 s8 u8 s32"

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
    "min": _form(extreme, f"{_INT} {_PACKED_INT} {_FLOAT}", "ftz NaN xorsign abs relu"),
    "max": _form(extreme, f"{_INT} {_PACKED_INT} {_FLOAT}", "ftz NaN xorsign abs relu"),
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
    "slct": _form(chosen_by_sign, "s32 f32", "ftz", (2,)),
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
        _words(_ROUND, "rna rni rzi rmi rpi ftz sat satfinite relu"), (2,),
    ),
    "ld": Form(lambda i: [element("to", i), Need("at")], _ANY_TYPE | {"b128"}, _words(_MEMORY)),
    "ldu": Form(lambda i: [element("to", i), Need("at")], _ANY_TYPE, _words("global v2 v4")),
    "st": Form(lambda i: [Need("at"), element("of", i)], _ANY_TYPE | {"b128"}, _words(_MEMORY)),
    "atom": _form(atomic, f"{_BITS} b128 u32 s32 u64 s64 {_FLOAT}", f"{_ATOMIC} cas exch"),
    "red": _form(atomic, f"b32 b64 u32 s32 u64 s64 {_FLOAT}", _ATOMIC),
    "shfl": _form(shuffled, "b32", "sync up down bfly idx"),
    "vote": _form(voted, "pred b32", "sync all any uni ballot"),
    "match": _form(matched, "b32 b64", "any all sync"),
    "redux": _form(widths(32, 32, 32), "u32 s32 b32", f"sync add min max {_BOOLEAN}"),
    "elect": _form(lambda i: [result(32, beside=True), source(32)], "", "sync", (0,)),
    "createpolicy": _form(policy, "b64", f"fractional range cvt L2 global {_CACHE}"),
    "pmevent": _form(lambda i: [Need("number")], "", "mask", (0,)),
    **dict.fromkeys(("vabsdiff2", "vabsdiff4"), _form(same(3), "u32 s32", "add sat", (3,))),
    "activemask": _form(widths(32), "b32"),
    "bra": _form(nothing, "", "uni skip", (0,)),
    "brx": _form(lambda i: [source(32)], "", "idx uni", (0,)),
    "ret": _form(nothing, "", "uni", (0,)), "exit": _form(nothing, "", "", (0,)),
    "bar": _form(barrier, "u32 pred", "sync arrive red warp popc and or cta aligned", (0, 1)),
    "barrier": _form(barrier, "u32 pred", "sync arrive red popc and or cta aligned", (0, 1)),
    "membar": _form(nothing, "", "cta gl sys gpu proxy alias", (0,)),
    "fence": _form(nothing, "", f"{_ORDER} proxy alias async generic", (0,)),
    "prefetch": _form(lambda i: [Need("at")], "", "global local L1 L2 L2::evict_last L2::evict_normal", (0,)),
    "prefetchu": _form(lambda i: [Need("at")], "", "L1", (0,)),
    "discard": _form(lambda i: [Need("at"), Need("number")], "", "global L2", (0,)),
    "applypriority": _form(lambda i: [Need("at"), Need("number")], "", "global L2::evict_normal", (0,)),
    "nanosleep": _form(lambda i: [source(32)], "u32"),
    "griddepcontrol": _form(nothing, "", "launch_dependents wait", (0,)),
    "trap": _form(nothing, "", "", (0,)), "brkpt": _form(nothing, "", "", (0,)),
    "wmma": _form(
        fragments, _MATRIX_TYPES, f"{_PRODUCT} load store mma a b c d {_SPACES}", tuple(range(5)),
    ),
    "mma": _form(matrix_product, _MATRIX_TYPES, _PRODUCT, tuple(range(5))),
    "ldmatrix": _form(matrix_move, "b16", "sync aligned m8n8 x1 x2 x4 trans shared shared::cta"),
    "stmatrix": _form(matrix_move, "b16", "sync aligned m8n8 x1 x2 x4 trans shared shared::cta"),
    "movmatrix": _form(widths(32, 32), "b16", "sync aligned m8n8 trans"),
    "mbarrier": _form(
        barrier_object, "b64",
        f"init inval arrive arrive_drop test_wait try_wait pending_count parity noComplete {_SPACES} {_ORDER}",
    ),
    "cp": _form(
        copied, "b64",
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
        key = (i.opcode, i.modifiers, *map(type, i.operands))
        needs = self.needs.get(key)
        if needs is None:
            _check_modifiers(i, form)
            needs = tuple(form.rule(i))
            if len(needs) != len(i.operands):
                raise FormError(f"{len(i.operands)} operands are the wrong number")
            if Vector not in key:  # a vector's length is part of the form, but not of the key
                self.needs[key] = needs
        for need, operand in zip(needs, i.operands, strict=True):
            if need.braces:
                pass
            elif type(operand) is Register and need.count == 1 and need.width == self.widths[operand.name]:
                if need.role in ("to", "of"):
                    continue
            elif type(operand) is Immediate and need.role == "of" and need.count == 1:
                continue
            if not self.fits(need, operand):
                raise FormError(f"operand {i.operands.index(operand) + 1} is not what this instruction takes")

    def fits(self, need: Need, operand: Operand) -> bool:
        if isinstance(operand, Register) and need.count == 1 and not need.braces:
            return need.role in ("to", "of") and self.width_fits(need, operand)
        if need.count > 1 or need.braces:
            single = Need(need.role, need.width, need.wider)
            return (
                isinstance(operand, Vector)
                and len(operand.elements) == need.count
                and all(self.fits(single, e) for e in operand.elements)
            )
        if need.role == "at":
            return isinstance(operand, Address) and self.base_fits(operand)
        if need.role == "number":
            return isinstance(operand, Immediate)
        if need.role == "of":
            return isinstance(operand, Immediate) or (need.width != 1 and isinstance(operand, Special | Symbol))
        if isinstance(operand, Pair) and need.beside:
            second = operand.second
            return self.fits(Need("to", need.width), operand.first) and self.fits(Need("to", 1), second)
        return isinstance(operand, Sink)

    def width_fits(self, need: Need, register: Register) -> bool:
        width = self.widths[register.name]
        if need.width == 0:
            return True
        if need.wider and need.width > 1:
            return width >= need.width
        return width == need.width

    def base_fits(self, address: Address) -> bool:
        base = address.base
        return not isinstance(base, Register) or self.widths[base.name] in (32, 64)


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
