"""Which modifiers of an instruction go together: those that exclude each other, those that it cannot do without, and
those that only some types take (PTX ISA, chapter 9).

`forms` says what each opcode knows at all; this says what makes sense in one instruction, so that no handler meets a
mixture that it would have to guess at.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxsim.syntax.program import FLOAT8_TYPES, FLOAT_TYPES, Instruction


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ROUNDING = _words("rn rz rm rp rna rni rzi rmi rpi")
COMPARISONS = _words("eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan")
_UNORDERED = _words("equ neu ltu leu gtu geu num nan")
_UNSIGNED = _words("lo ls hi hs")
_BOOLEANS = _words("and or xor")
_PARTS = _words("lo hi wide")
_ATOMIC = _words("add inc dec min max and or xor exch cas")
_ADDRESS_SPACES = _words("global shared shared::cta local param const")
_PROPERTIES = _words("finite infinite number notanumber normal subnormal")
_PERMUTATIONS = _words("f4e b4e rc8 ecl ecr rc16")
_SHUFFLES, _VOTES = _words("up down bfly idx"), _words("all any uni ballot")
_HALVES = _words("f16 bf16 f16x2 bf16x2")

EXCLUSIVE = (
    ROUNDING | {"approx", "full"}, COMPARISONS | {"wide"}, _BOOLEANS, _words("v2 v4 v8"), _words("clamp wrap"),
    _words("l r"), _SHUFFLES, _PROPERTIES, _PERMUTATIONS, _words("weak volatile relaxed acquire release acq_rel sc"),
    _words("cta cluster gpu sys gl"), _words("launch_dependents wait"),
    _words("commit_group wait_group wait_all ca cg mbarrier"),
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
    "atom": ((_ATOMIC, bool),), "red": ((_ATOMIC, bool),),
    "cvta": ((_ADDRESS_SPACES, bool),), "isspacep": ((_ADDRESS_SPACES, bool),),
    "cvt": ((_words("rn"), _float8), (_words("satfinite"), lambda i: i.types[0] in FLOAT8_TYPES)),
    "dp2a": ((_words("lo hi"), bool),), "brx": ((_words("idx"), bool),),
    "cp": (
        (_words("async"), bool), (_words("commit_group wait_group wait_all ca cg mbarrier"), bool),
        (_words("arrive"), lambda i: i.has("mbarrier")),
    ),
    "mbarrier": ((_words("init inval arrive arrive_drop test_wait try_wait pending_count"), bool),),
}  # fmt: skip
"""Opcode -> sets of which an instruction has exactly one, where the condition holds."""
_ONLY_IF_REQUIRED = {"setp": _BOOLEANS, "set": _BOOLEANS, "mul": _PARTS, "mad": _PARTS, "lop3": _words("and or")}


def _some_float(i: Instruction) -> bool:
    return any(t in FLOAT_TYPES for t in i.types)


def _saturates(i: Instruction) -> bool:
    kinds = _words("f32 f16 f16x2")
    if i.opcode in ("mad", "mad24"):
        return i.type == "f32" or (i.type == "s32" and i.has("hi"))
    if i.opcode in ("cvt", "vabsdiff2", "vabsdiff4") or i.type in kinds:
        return True
    return i.type == "s32" and i.opcode in ("add", "sub") and not i.has("cc")


def _clips(i: Instruction) -> bool:
    if i.opcode in ("min", "max"):
        return i.type in ("s32", "s16x2", *_HALVES)
    return any(t in _HALVES or t in FLOAT8_TYPES or t == "tf32" for t in i.types)


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
    "satfinite": lambda i: i.opcode != "cvt" or i.types[0] in FLOAT8_TYPES,
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


_TWICE = frozenset({"wmma", "mma"})
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
    if len(chosen & _ADDRESS_SPACES) > (2 if i.opcode == "cp" else 1):
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
    if i.type in FLOAT_TYPES and chosen & _UNSIGNED:
        return f"'.{min(chosen & _UNSIGNED)}' does not go with '.{i.type}'"
    if i.type[0] == "s" and chosen & _UNSIGNED:
        return f"'.{min(chosen & _UNSIGNED)}' does not go with '.{i.type}'"
    if i.type[0] == "b" and i.type not in FLOAT_TYPES and not chosen & {"eq", "ne"}:
        return f"'.{i.type}' compares for equality alone"
    return ""
