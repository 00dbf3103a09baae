"""Integer arithmetic (PTX ISA 9.7.1, 9.7.2).

Sources are arrays of the instruction's type; NumPy's integers wrap as the GPU's do. Multi-word results go through
`as_python`, object arrays of Python integers.
"""

from __future__ import annotations

import numpy as np

from ptxsim.oracle import floating
from ptxsim.oracle.lanes import Lanes
from ptxsim.oracle.table import handler, value
from ptxsim.syntax.program import FLOAT_TYPES, WIDTH_BITS, Instruction


def as_python(x: np.ndarray) -> np.ndarray:
    """The numbers as Python integers."""
    return x.astype(object)


def wrapped(x: np.ndarray, type_name: str) -> np.ndarray:
    """Python integers reduced to a PTX integer type."""
    width = WIDTH_BITS[type_name]
    bits = np.asarray(x & ((1 << width) - 1)).astype(f"u{width // 8}")
    return bits.view(f"i{width // 8}") if type_name[0] == "s" else bits


def _saturated(x: np.ndarray, type_name: str) -> np.ndarray:
    width = WIDTH_BITS[type_name]
    return np.clip(x, -(1 << (width - 1)), (1 << (width - 1)) - 1).astype(f"i{width // 8}")


def _is_float(i: Instruction) -> bool:
    return i.type in FLOAT_TYPES


# ---------------------------------------------------------------- sums


@value("add")
def _add(i: Instruction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if _is_float(i):
        return floating.add(i, x, y)
    return _saturated(x.astype(np.int64) + y, i.type) if i.has("sat") else x + y


@value("sub")
def _sub(i: Instruction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if _is_float(i):
        return floating.add(i, x, -y)
    return _saturated(x.astype(np.int64) - y, i.type) if i.has("sat") else x - y


def _with_carry(lanes: Lanes, i: Instruction, total: np.ndarray, carries: np.ndarray) -> None:
    """Writes a sum of Python integers and, with .cc, the carry flag."""
    lanes.write(i.operands[0], wrapped(total, i.type), i.type)
    if i.has("cc"):
        np.copyto(lanes.state.carry[lanes.rows], carries.astype(np.bool_), where=lanes.mask)


def _unsigned(lanes: Lanes, i: Instruction) -> list[np.ndarray]:
    return [as_python(lanes.read(o, "u" + i.type[1:])) for o in i.operands[1:]]


@handler("addc")
def _addc(lanes: Lanes, i: Instruction) -> None:
    x, y = _unsigned(lanes, i)
    total = x + y + lanes.state.carry[lanes.rows].astype(object)
    _with_carry(lanes, i, total, total >> WIDTH_BITS[i.type] != 0)


@handler("subc")
def _subc(lanes: Lanes, i: Instruction) -> None:
    x, y = _unsigned(lanes, i)
    total = x - y - (1 - lanes.state.carry[lanes.rows].astype(object))  # after a subtraction the flag means "no borrow"
    _with_carry(lanes, i, total, total >= 0)


@handler("madc")
def _madc(lanes: Lanes, i: Instruction) -> None:
    width = WIDTH_BITS[i.type]
    x, y = (as_python(lanes.read(o, i.type)) for o in i.operands[1:3])
    part = (x * y >> (width if i.has("hi") else 0)) & ((1 << width) - 1)
    total = part + as_python(lanes.read(i.operands[3], "u" + i.type[1:])) + lanes.state.carry[lanes.rows].astype(object)
    _with_carry(lanes, i, total, total >> width != 0)


@handler("add.cc")
def _add_cc(lanes: Lanes, i: Instruction) -> None:
    x, y = _unsigned(lanes, i)
    _with_carry(lanes, i, x + y, x + y >> WIDTH_BITS[i.type] != 0)


@handler("sub.cc")
def _sub_cc(lanes: Lanes, i: Instruction) -> None:
    x, y = _unsigned(lanes, i)
    _with_carry(lanes, i, x - y, x >= y)


@handler("mad.cc")
def _mad_cc(lanes: Lanes, i: Instruction) -> None:
    width = WIDTH_BITS[i.type]
    x, y = (as_python(lanes.read(o, i.type)) for o in i.operands[1:3])
    part = (x * y >> (width if i.has("hi") else 0)) & ((1 << width) - 1)
    total = part + as_python(lanes.read(i.operands[3], "u" + i.type[1:]))
    _with_carry(lanes, i, total, total >> width != 0)


# ---------------------------------------------------------------- products


def _double(type_name: str) -> str:
    return f"{type_name[0]}{2 * WIDTH_BITS[type_name]}"


def _product_type(i: Instruction) -> str:
    return _double(i.type) if i.has("wide") else i.type


def _product(i: Instruction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if i.has("wide"):
        wide = f"{'i' if i.type[0] == 's' else 'u'}{WIDTH_BITS[i.type] // 4}"
        return x.astype(wide) * y.astype(wide)
    if i.has("hi"):
        return wrapped(as_python(x) * as_python(y) >> WIDTH_BITS[i.type], i.type)
    return x * y


@value("mul", result=_product_type)
def _mul(i: Instruction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return floating.multiply(i, x, y) if _is_float(i) else _product(i, x, y)


@value("mad", sources=lambda i: (i.type, i.type, _product_type(i)), result=_product_type)
def _mad(i: Instruction, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    if _is_float(i):
        return floating.fma(i, x, y, z)
    if i.has("sat"):
        return _saturated(_product(i, x, y).astype(np.int64) + z, i.type)
    return _product(i, x, y) + z


def _low24(x: np.ndarray) -> np.ndarray:
    """Low 24 bits of a register, sign-extended for a signed type, as 64-bit integers."""
    wide = x.astype(np.int64) & 0xFFFFFF
    return np.where(wide >= 1 << 23, wide - (1 << 24), wide) if x.dtype.kind == "i" else wide


def _product24(i: Instruction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _low24(x) * _low24(y) >> (16 if i.has("hi") else 0)


@value("mul24")
def _mul24(i: Instruction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _product24(i, x, y).astype(x.dtype)


@value("mad24")
def _mad24(i: Instruction, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    if i.has("sat"):
        return _saturated(_product24(i, x, y).astype(np.int32).astype(np.int64) + z, i.type)
    return _product24(i, x, y).astype(x.dtype) + z


def _parts(x: np.ndarray, type_name: str, width: int) -> np.ndarray:
    """A 32-bit register's bytes or half-words as 64-bit integers, on a new last axis."""
    kind = "i" if type_name[0] == "s" else "u"
    return np.ascontiguousarray(x[..., None]).view(f"{kind}{width // 8}").astype(np.int64)


@value(
    "dp4a",
    sources=lambda i: (i.types[0], i.types[1], "s32" if "s32" in i.types else "u32"),
    result=lambda i: "s32" if "s32" in i.types else "u32",
)
def _dp4a(i: Instruction, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    return ((_parts(x, i.types[0], 8) * _parts(y, i.types[1], 8)).sum(axis=-1) + z).astype(z.dtype)


@value(
    "dp2a",
    sources=lambda i: (i.types[0], i.types[1], "s32" if "s32" in i.types else "u32"),
    result=lambda i: "s32" if "s32" in i.types else "u32",
)
def _dp2a(i: Instruction, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    chosen = _parts(y, i.types[1], 8)[..., 2:] if i.has("hi") else _parts(y, i.types[1], 8)[..., :2]
    return ((_parts(x, i.types[0], 16) * chosen).sum(axis=-1) + z).astype(z.dtype)


# ---------------------------------------------------------------- quotients and order


@value("div")
def _div(i: Instruction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if _is_float(i):
        return floating.divide(i, x, y)
    return _truncated(x, y)[0]


@value("rem")
def _rem(i: Instruction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _truncated(x, y)[1]


def _truncated(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quotient towards zero and remainder; by zero both are all ones, which is what an H200 gives."""
    p, q = np.broadcast_arrays(as_python(x), as_python(y))
    safe = np.where(q == 0, 1, q)
    quotient = np.where((p < 0) != (safe < 0), -(abs(p) // abs(safe)), abs(p) // abs(safe))
    quotient = np.where(q == 0, -1, quotient)
    remainder = np.where(q == 0, -1, p - quotient * safe)
    kind = ("s" if x.dtype.kind == "i" else "u") + str(8 * x.dtype.itemsize)
    return wrapped(quotient, kind), wrapped(remainder, kind)


@value("abs")
def _abs(i: Instruction, x: np.ndarray) -> np.ndarray:
    return floating.absolute(i, x) if _is_float(i) else np.abs(x)


@value("neg")
def _neg(i: Instruction, x: np.ndarray) -> np.ndarray:
    return floating.negate(i, x) if _is_float(i) else -x


@value("min")
def _min(i: Instruction, *xs: np.ndarray) -> np.ndarray:
    if _is_float(i):
        return floating.extreme(i, np.less, *xs)
    least = np.minimum.reduce(np.broadcast_arrays(*xs))
    return np.maximum(least, 0) if i.has("relu") else least


@value("max")
def _max(i: Instruction, *xs: np.ndarray) -> np.ndarray:
    if _is_float(i):
        return floating.extreme(i, np.greater, *xs)
    greatest = np.maximum.reduce(np.broadcast_arrays(*xs))
    return np.maximum(greatest, 0) if i.has("relu") else greatest


@value("sad")
def _sad(i: Instruction, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    return z + np.where(x < y, y - x, x - y)


@value("vabsdiff2", "vabsdiff4", sources=lambda i: ("b32", "b32", "b32"))
def _vabsdiff(i: Instruction, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Part by part; `.add` sums the differences onto the third operand."""
    size = 1 if i.opcode == "vabsdiff4" else 2
    kinds = [f"{'i' if t[0] == 's' else 'u'}{size}" for t in i.types[1:]]
    p, q = (np.ascontiguousarray(v[..., None]).view(k).astype(np.int64) for v, k in zip((x, y), kinds, strict=True))
    difference = np.abs(p - q)
    if i.has("add"):
        return (difference.sum(axis=-1) + z).astype(np.uint32)
    if i.has("sat"):
        difference = np.minimum(difference, (1 << 8 * size - (i.types[0][0] == "s")) - 1)
    return np.ascontiguousarray(difference.astype(f"u{size}")).view(np.uint32)[..., 0]
