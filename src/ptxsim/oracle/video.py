"""Video instructions, with Python's integers (PTX ISA 9.7.17)."""

from __future__ import annotations

import numpy as np

from ptxsim.oracle.integer import as_python, wrapped
from ptxsim.oracle.lanes import first_of, value
from ptxsim.syntax.program import Instruction
from ptxsim.syntax.video import PACKED, Part, packed_video, scalar_video, shift_of

_COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
                "ge": np.greater_equal}  # fmt: skip


def _number(x: np.ndarray, part: Part, type_name: str) -> np.ndarray:
    """The number that some bits of a register are."""
    bits = as_python(x) >> part.start & (1 << part.width) - 1
    return np.where(bits >> part.width - 1 == 1, bits - (1 << part.width), bits) if type_name == "s32" else bits


def _saturated(x: np.ndarray, width: int, is_signed: bool) -> np.ndarray:
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if is_signed else (0, (1 << width) - 1)
    return np.minimum(np.maximum(x, low), high)


def _operation(i: Instruction, name: str, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    if name in ("shl", "shr"):
        amount = q & 31 if i.has("wrap") else np.minimum(q, 32)
        return p << amount if name == "shl" else p >> amount
    if name == "set":
        return as_python(_COMPARISONS[first_of(i, *_COMPARISONS) or ""](p, q).astype(np.int64))
    return {
        "add": lambda: p + q, "sub": lambda: p - q, "absdiff": lambda: abs(p - q),
        "min": lambda: np.minimum(p, q), "max": lambda: np.maximum(p, q),
        "avrg": lambda: np.where(p + q >= 0, p + q + 1, p + q) // 2,
    }[name]()  # fmt: skip


@value("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset",
       sources=lambda i: ("b32",) * (len(i.operands) - 1), result=lambda i: "b32")  # fmt: skip
def _scalar(i: Instruction, x: np.ndarray, y: np.ndarray, *more: np.ndarray) -> np.ndarray:
    form = scalar_video(i)
    to = i.types[0] if len(i.types) == 3 else "u32"
    result = _operation(i, i.opcode[1:], _number(x, form.a, i.types[-2]), _number(y, form.b, i.types[-1]))
    if i.has("sat"):
        result = _saturated(result, form.target.width, to == "s32")
    if form.second:
        result = _operation(i, form.second, result, _number(more[0], Part(), to))
    elif more and form.target.width < 32:
        field = (1 << form.target.width) - 1
        rest = as_python(more[0]) & ~(field << form.target.start)
        result = rest | (result & field) << form.target.start
    return wrapped(result, "b32")


@value("vmad", sources=lambda i: ("b32",) * 3, result=lambda i: "b32")
def _vmad(i: Instruction, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The signs of the sources, not the type of the result, say whether it is a signed number that saturates."""
    form = scalar_video(i)
    opposite = form.a.negated ^ form.b.negated
    is_signed = "s32" in i.types[1:] or opposite or form.negates_c
    addend = _number(z, Part(), "s32" if is_signed else "u32")
    product = _number(x, form.a, i.types[1]) * _number(y, form.b, i.types[2])
    total = (-product if opposite else product) + (-addend if form.negates_c else addend) + i.has("po")
    result = total >> shift_of(i)
    return wrapped(_saturated(result, 32, is_signed) if i.has("sat") else result, "b32")


@value(*PACKED, sources=lambda i: ("b32",) * 3, result=lambda i: "b32")
def _packed(i: Instruction, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    form = packed_video(i)
    both, old = as_python(y) << 32 | as_python(x), as_python(z)
    total, merged = old, old & 0
    for k, (p, q) in enumerate(zip(form.a, form.b, strict=True)):
        sides = [_number(both, Part(form.width * n, form.width), t) for n, t in ((p, i.types[-2]), (q, i.types[-1]))]
        part = _operation(i, i.opcode[1:-1], *sides)
        if i.has("sat"):
            part = _saturated(part, form.width, i.types[0] == "s32")
        field = (1 << form.width) - 1
        total = total + (part if form.mask[k] else 0)
        merged = merged | ((part if form.mask[k] else old >> form.width * k) & field) << form.width * k
    return wrapped(total if form.sums else merged, "b32")
