"""What the operands of an instruction must be: one rule for each kind of instruction (PTX ISA, chapter 9).

`forms` is the table that says which opcode follows which rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ptxsim.analysis import matrices
from ptxsim.syntax.program import FLOAT8_TYPES, WIDTH_BITS, Instruction, Pair, Register, Vector


class FormError(Exception):
    """The instruction is not well formed."""


class UnknownForm(Exception):
    """The instruction has a modifier or type that the simulator does not know."""


@dataclass(frozen=True)
class Need:
    """What an operand must be.

    `role`: "to" destination, "of" source, "at" address, "number" immediate. `width` in bits, 1 for predicates. `wider`
    allows wider registers, `count` asks for a vector, `braces` for one even of a single element, `beside` for an
    optional predicate destination, `%r1|%p1`.
    """

    role: str
    width: int = 0
    wider: bool = False
    count: int = 1
    beside: bool = False
    braces: bool = False


Rule = Callable[[Instruction], Iterable[Need]]


def bits(type_name: str) -> int:
    return WIDTH_BITS[type_name]


def result(width: int, **more: bool) -> Need:
    return Need("to", width, **more)


def source(width: int, **more: bool) -> Need:
    return Need("of", width, **more)


def same(sources: int) -> Rule:
    """A destination and sources of the instruction's type."""
    return lambda i: [result(bits(i.type)), *[source(bits(i.type))] * sources]


def widths(*widths: int | None) -> Rule:
    """Destination and sources of fixed widths; None stands for the instruction's type."""

    def rule(i: Instruction) -> list[Need]:
        first, *rest = [bits(i.type) if w is None else w for w in widths]
        return [result(first), *[source(w) for w in rest]]

    return rule


def product(addend: bool) -> Rule:
    def rule(i: Instruction) -> list[Need]:
        wide = bits(i.type) * (2 if i.has("wide") else 1)
        if wide > 64:
            raise FormError("there is no such product")
        return [result(wide), *[source(bits(i.type))] * 2, *([source(wide)] if addend else [])]

    return rule


def extreme(i: Instruction) -> list[Need]:
    return [result(bits(i.type)), *[source(bits(i.type))] * (3 if len(i.operands) == 4 else 2)]


def tested(i: Instruction) -> list[Need]:
    other = [source(1)] if len(i.operands) == 4 else []
    return [result(1, beside=True), *[source(bits(i.type))] * 2, *other]


_PAIRS = ("f16x2", "bf16x2")


def compared(i: Instruction) -> list[Need]:
    to, of = i.types
    usual = {"f16": "u16 s16 u32 s32 f16 f32", "bf16": "u16 s16 u32 s32 bf16"}.get(of, "u32 s32 f16 bf16 f32")
    if to not in (("u32", "s32", of) if of in _PAIRS else usual.split()):
        raise FormError(f"'.{of}' is not compared to give '.{to}'")
    other = [source(1)] if len(i.operands) == 4 else []
    return [result(bits(i.types[0])), *[source(bits(i.type))] * 2, *other]


def chosen_by_sign(i: Instruction) -> list[Need]:
    first = bits(i.types[0])
    return [result(first), *[source(first)] * 2, source(32)]


def three_way(i: Instruction) -> list[Need]:
    other = [source(1)] if len(i.operands) == 6 else []
    if other and not isinstance(i.operands[0], Pair):
        raise FormError("with a predicate it has two results, d|p")
    return [result(32, beside=bool(other)), *[source(32)] * 3, Need("number"), *other]


def moved(i: Instruction) -> list[Need]:
    to, of = (i.operands[k] if len(i.operands) == 2 else None for k in (0, 1))
    width = bits(i.type)
    for vector in (to, of):
        if isinstance(vector, Vector) and (len(vector.elements) not in (2, 4) or width // len(vector.elements) < 16):
            raise FormError("the vector has the wrong number of elements")
    return [
        Need("to", width // len(to.elements), count=len(to.elements)) if isinstance(to, Vector) else result(width),
        Need("of", width // len(of.elements), count=len(of.elements)) if isinstance(of, Vector) else source(width),
    ]


def converted(i: Instruction) -> list[Need]:
    to, of = (bits(t) for t in i.types)
    sources = 2 if len(i.operands) == 3 else 1
    if not FLOAT8_TYPES.isdisjoint(i.types):
        if (*i.types, sources) not in _FLOAT8_PAIRS:
            raise UnknownForm(f"'.{'.'.join(i.types)}' with {sources} sources")
        return [result(to), *[source(of)] * sources]
    return [result(to, wider=True), *[source(of, wider=True)] * sources]


_FLOAT8_PAIRS = {pair for t in FLOAT8_TYPES for pair in ((t, "f32", 2), (t, "f16x2", 1), ("f16x2", t, 1))}
"""Conversions of 8-bit numbers: result, source, and how many sources."""


def _count(i: Instruction) -> int:
    return next((int(m[1:]) for m in i.modifiers if m in ("v2", "v4", "v8")), 1)


def element(role: str, i: Instruction) -> Need:
    if _count(i) * bits(i.type) > 256 or (i.type == "b128" and (_count(i) > 1 or i.space in ("param", "const"))):
        raise FormError("the vector is too long")
    return Need(role, bits(i.type), wider=True, count=_count(i))


def atomic(i: Instruction) -> list[Need]:
    if i.type == "b128" and not (i.has("cas") or i.has("exch")):
        raise UnknownForm("the type '.b128' but for cas and exch")
    sources = 2 if i.has("cas") else 1
    exact = [Need(role, bits(i.type), count=_count(i)) for role in ("to", *["of"] * sources)]
    return [exact[0], Need("at"), *exact[1:]] if i.opcode == "atom" else [Need("at"), *exact[1:]]


def shuffled(i: Instruction) -> list[Need]:
    return [result(32, beside=True), *[source(32)] * (4 if i.has("sync") else 3)]


def voted(i: Instruction) -> list[Need]:
    return [result(bits(i.type)), source(1), *([source(32)] if i.has("sync") else [])]


def matched(i: Instruction) -> list[Need]:
    return [result(32, beside=i.has("all")), source(bits(i.type)), source(32)]


def barrier(i: Instruction) -> list[Need]:
    if i.has("warp"):
        return [source(32)]
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
    if i.has("pending_count"):
        return [result(32), source(64)]
    if i.has("arrive") or i.has("arrive_drop"):
        return [result(64), at, *extra[:1]]
    return [result(1), at, source(32 if i.has("parity") else 64), *(extra[1:2] if i.has("try_wait") else [])]


def copied(i: Instruction) -> list[Need]:
    if i.has("mbarrier") != bool(i.types):
        raise FormError("it has the wrong number of types")
    if i.has("mbarrier"):
        return [Need("at")]
    if i.has("commit_group") or i.has("wait_all"):
        return []
    if i.has("wait_group"):
        return [Need("number")]
    more = []
    if len(i.operands) > 3:
        last = i.operands[3]
        more = [Need("of", 0) if isinstance(last, Register) else Need("number")]
    return [Need("at"), Need("at"), Need("number"), *more]


def policy(i: Instruction) -> list[Need]:
    numbers = [Need("of", 32)] * (len(i.operands) - (2 if i.has("range") else 1))
    if i.has("cvt"):
        numbers = [Need("number")]
    return [result(64), *([Need("at")] if i.has("range") else []), *numbers]


def _held(role: str, held: matrices.Fragment) -> Need:
    """The registers of a fragment."""
    return Need(role, held.register_bits, count=held.registers, braces=True)


def fragments(i: Instruction) -> list[Need]:
    try:
        if "mma" in i.modifiers:
            return matrix_product(i)
        held = matrices.tile(i).fragment
    except matrices.NoSuchMatrix as error:
        raise UnknownForm(str(error)) from None
    stride = [source(32)] if len(i.operands) == 3 else []
    if i.has("store"):
        return [Need("at"), _held("of", held), *stride]
    return [_held("to", held), Need("at"), *stride]


def matrix_product(i: Instruction) -> list[Need]:
    try:
        p = matrices.product(i)
    except matrices.NoSuchMatrix as error:
        raise UnknownForm(str(error)) from None
    return [_held("to" if operand == "d" else "of", p.fragment(operand)) for operand in "dabc"]


def matrix_move(i: Instruction) -> list[Need]:
    count = next((int(m[1:]) for m in i.modifiers if m in ("x1", "x2", "x4")), 0)
    if not count or not i.has("m8n8"):
        raise UnknownForm("this shape")
    to_registers = i.opcode == "ldmatrix"
    registers = Need("to" if to_registers else "of", 32, count=count, braces=True)
    return [registers, Need("at")] if to_registers else [Need("at"), registers]


def nothing(i: Instruction) -> list[Need]:
    return []
