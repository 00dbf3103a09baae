"""Integer arithmetic, bits, logic and shifts (PTX ISA 9.7.1, 9.7.2, 9.7.8).

Sources are arrays of the instruction's type; NumPy's integers wrap as the GPU's do. Multi-word results go through
`as_python`, object arrays of Python integers.
"""

from __future__ import annotations

import numpy as np

from ptxsim.oracle.lanes import ActiveLanes, handler, operations, value
from ptxsim.syntax.program import WIDTH_BITS, Instruction


def as_python(x: np.ndarray) -> np.ndarray:
    """The numbers as Python integers."""
    return x.astype(object)


def wrapped(x: np.ndarray, type_name: str) -> np.ndarray:
    """Whole numbers, Python's or NumPy's, reduced to a PTX integer type."""
    width = WIDTH_BITS[type_name]
    wide = as_python(x) if width == 64 else x
    bits = np.asarray(wide & ((1 << width) - 1)).astype(f"u{width // 8}")
    return bits.view(f"i{width // 8}") if type_name[0] == "s" else bits


def _saturated(x: np.ndarray, type_name: str) -> np.ndarray:
    width = WIDTH_BITS[type_name]
    return np.clip(x, -(1 << (width - 1)), (1 << (width - 1)) - 1).astype(f"i{width // 8}")


# ---------------------------------------------------------------- sums


@value("add", "sub")
def _sum(i: Instruction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    operation = np.add if i.opcode == "add" else np.subtract
    return _saturated(operation(x.astype(np.int64), y), i.type) if i.has("sat") else operation(x, y)


@handler("addc", "add.cc", "subc", "sub.cc", "madc", "mad.cc")
def _carrying(lanes: ActiveLanes, i: Instruction) -> None:
    """A sum of Python integers with the carry flag; x - y is x + ~y + 1, so that the flag then means "no borrow"."""
    width, subtracts = WIDTH_BITS[i.type], i.opcode in ("sub", "subc")
    mask = (1 << width) - 1
    *factor, x, y = (as_python(lanes.read(o, i.type)) for o in i.operands[1:])
    if factor:
        x = factor[0] * x >> (width if i.has("hi") else 0)
    if subtracts:
        y = ~y
    carry = lanes.state.carry[lanes.rows].astype(object) if i.opcode in ("addc", "subc", "madc") else int(subtracts)
    total = (x & mask) + (y & mask) + carry
    lanes.write(i.operands[0], wrapped(total, i.type), i.type)
    if i.has("cc"):
        np.copyto(lanes.state.carry[lanes.rows], (total > mask).astype(np.bool_), where=lanes.mask)


# ---------------------------------------------------------------- products


def _product_type(i: Instruction) -> str:
    return f"{i.type[0]}{2 * WIDTH_BITS[i.type]}" if i.has("wide") else i.type


@value("mul", result=_product_type)
def _product(i: Instruction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if i.has("wide"):
        wide = f"{'i' if i.type[0] == 's' else 'u'}{WIDTH_BITS[i.type] // 4}"
        return x.astype(wide) * y.astype(wide)
    if i.has("hi"):
        return wrapped(as_python(x) * as_python(y) >> WIDTH_BITS[i.type], i.type)
    return x * y


@value("mad", sources=lambda i: (i.type, i.type, _product_type(i)), result=_product_type)
def _mad(i: Instruction, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    if i.has("sat"):
        return _saturated(_product(i, x, y).astype(np.int64) + z, i.type)
    return _product(i, x, y) + z


def _low24(x: np.ndarray) -> np.ndarray:
    """Low 24 bits of a register, sign-extended for a signed type, as 64-bit integers."""
    wide = x.astype(np.int64) & 0xFFFFFF
    return np.where(wide >= 1 << 23, wide - (1 << 24), wide) if x.dtype.kind == "i" else wide


def _product24(i: Instruction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _low24(x) * _low24(y) >> (16 if i.has("hi") else 0)


@value("mul24", "mad24")
def _mad24(i: Instruction, x: np.ndarray, y: np.ndarray, *addend: np.ndarray) -> np.ndarray:
    product = _product24(i, x, y)
    if i.has("sat"):
        return _saturated(product.astype(np.int32).astype(np.int64) + addend[0], i.type)
    return sum(addend, product.astype(x.dtype))


def _parts(x: np.ndarray, type_name: str, width: int) -> np.ndarray:
    """A 32-bit register's bytes or half-words as 64-bit integers, on a new last axis."""
    kind = "i" if type_name[0] == "s" else "u"
    return np.ascontiguousarray(x[..., None]).view(f"{kind}{width // 8}").astype(np.int64)


@value(
    "dp4a",
    "dp2a",
    sources=lambda i: (i.types[0], i.types[1], "s32" if "s32" in i.types else "u32"),
    result=lambda i: "s32" if "s32" in i.types else "u32",
)
def _dot(i: Instruction, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Four bytes of x, or two half-words, times as many bytes of y."""
    p, q = _parts(x, i.types[0], 8 if i.opcode == "dp4a" else 16), _parts(y, i.types[1], 8)
    if i.opcode == "dp2a":
        q = q[..., 2:] if i.has("hi") else q[..., :2]
    return ((p * q).sum(axis=-1) + z).astype(z.dtype)


# ---------------------------------------------------------------- quotients and order


def _truncated(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quotient towards zero and remainder; by zero both are all ones, which is what an H200 gives."""
    p, q = np.broadcast_arrays(as_python(x), as_python(y))
    safe = np.where(q == 0, 1, q)
    quotient = np.where((p < 0) != (safe < 0), -(abs(p) // abs(safe)), abs(p) // abs(safe))
    quotient = np.where(q == 0, -1, quotient)
    remainder = np.where(q == 0, -1, p - quotient * safe)
    kind = ("s" if x.dtype.kind == "i" else "u") + str(8 * x.dtype.itemsize)
    return wrapped(quotient, kind), wrapped(remainder, kind)


operations({
    "div": lambda x, y: _truncated(x, y)[0],
    "rem": lambda x, y: _truncated(x, y)[1],
    "abs": np.abs,
    "neg": np.negative,
    "sad": lambda x, y, z: z + np.where(x < y, y - x, x - y),
})  # fmt: skip


@value("min", "max")
def _extreme(i: Instruction, *xs: np.ndarray) -> np.ndarray:
    found = (np.minimum if i.opcode == "min" else np.maximum).reduce(np.broadcast_arrays(*xs))
    return np.maximum(found, 0) if i.has("relu") else found


# ---------------------------------------------------------------- bits


_bit_length = np.vectorize(int.bit_length, otypes=[np.int64])
"""Of arrays of Python integers."""
operations({
    "popc": lambda x: np.vectorize(int.bit_count, otypes=[np.uint32])(as_python(x)),
    "clz": lambda x: 8 * x.itemsize - _bit_length(as_python(x)),
}, result=lambda i: "u32")  # fmt: skip


@value("bfind", result=lambda i: "u32")
def _bfind(i: Instruction, x: np.ndarray) -> np.ndarray:
    magnitude = np.where(x < 0, ~x, x) if x.dtype.kind == "i" else x
    position = _bit_length(as_python(magnitude)) - 1
    if i.has("shiftamt"):
        position = np.where(position < 0, -1, WIDTH_BITS[i.type] - 1 - position)
    return position


def _nth_set(mask: int, base: int, offset: int) -> int:
    """Position of the |offset|-th set bit from `base` upwards (downwards if negative); base itself for 0."""
    if offset == 0:
        return base if base < 32 and mask >> base & 1 else 0xFFFFFFFF
    step, wanted = (1, offset) if offset > 0 else (-1, -offset)
    position = base
    while 0 <= position < 32:
        wanted -= mask >> position & 1
        if wanted == 0:
            return position
        position += step
    return 0xFFFFFFFF


operations({
    "fns": lambda *xs: np.vectorize(_nth_set, otypes=[np.uint32])(*map(as_python, xs)),
}, sources=lambda i: ("b32", "u32", "s32"), result=lambda i: "b32")  # fmt: skip


def _reversed(x: np.ndarray) -> np.ndarray:
    bits = np.unpackbits(np.ascontiguousarray(x[..., None]).view(np.uint8), axis=-1, bitorder="little")
    return np.packbits(bits[..., ::-1], axis=-1, bitorder="little").view(x.dtype)[..., 0]


operations({"brev": _reversed})


def _place(i: Instruction, x: np.ndarray) -> np.ndarray:
    """A position or length: 32-bit instructions read 8 bits of it, 64-bit ones (on an H200) all."""
    return as_python(x) & (0xFF if WIDTH_BITS[i.type] == 32 else 0xFFFFFFFF)


def _field(i: Instruction, x: np.ndarray, position: np.ndarray | int, length: np.ndarray) -> np.ndarray:
    """Bits position.. of x, above them a signed type's sign: beyond the top, x has its sign anyway."""
    n = np.minimum(length, WIDTH_BITS[i.type])
    field = as_python(x) >> position & (1 << n) - 1
    return wrapped(field - 2 * (field & 1 << n >> 1) if i.type[0] == "s" else field, i.type)


@value("bfe", sources=lambda i: (i.type, "u32", "u32"))
def _bfe(i: Instruction, x: np.ndarray, position: np.ndarray, length: np.ndarray) -> np.ndarray:
    return _field(i, x, _place(i, position), _place(i, length))


@value("szext", sources=lambda i: (i.type, "u32"))
def _szext(i: Instruction, x: np.ndarray, length: np.ndarray) -> np.ndarray:
    return _field(i, x, 0, as_python(length) & (31 if i.has("wrap") else 0xFFFFFFFF))


@value("bfi", sources=lambda i: (i.type, i.type, "u32", "u32"))
def _bfi(i: Instruction, x: np.ndarray, y: np.ndarray, position: np.ndarray, length: np.ndarray) -> np.ndarray:
    width = WIDTH_BITS[i.type]
    p, n = np.minimum(_place(i, position), width), np.minimum(_place(i, length), width)
    mask = ((1 << n) - 1 << p) & (1 << width) - 1
    return wrapped(as_python(y) & ~mask | as_python(x) << p & mask, i.type)


@value("bmsk", sources=lambda i: ("u32", "u32"), result=lambda i: "b32")
def _bmsk(i: Instruction, *place: np.ndarray) -> np.ndarray:
    p, n = (x & 31 if i.has("wrap") else np.minimum(x, 32) for x in map(as_python, place))
    return wrapped((1 << n) - 1 << p, "b32")


# ---------------------------------------------------------------- logic and shifts


operations({
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "cnot": lambda x: (x == 0).astype(x.dtype),
})  # fmt: skip


@value("lop3", sources=lambda i: ("b32", "b32", "b32", "u32", "pred")[: len(i.operands) - 1])
def _lop3(
    i: Instruction, x: np.ndarray, y: np.ndarray, z: np.ndarray, table: np.ndarray, *more: np.ndarray
) -> np.ndarray | tuple[np.ndarray, ...]:
    result = np.zeros(np.broadcast_shapes(x.shape, y.shape, z.shape), np.uint32)
    for k in range(8):
        term = (x if k & 4 else ~x) & (y if k & 2 else ~y) & (z if k & 1 else ~z)
        result |= np.where(table >> np.uint32(k) & np.uint32(1), term, np.uint32(0))
    combine = np.logical_and if i.has("and") else np.logical_or
    return (result, combine(result != 0, *more)) if more else result


@value("shl", "shr", sources=lambda i: (i.type, "u32"))
def _shift(i: Instruction, x: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """By the width or more: zeros, or to the right the sign of a signed type."""
    width = WIDTH_BITS[i.type]
    shift = np.left_shift if i.opcode == "shl" else np.right_shift
    shifted = shift(x, np.minimum(amount, width - 1).astype(x.dtype))
    return shifted if x.dtype.kind == "i" else np.where(amount >= width, 0, shifted)


@value("shf")
def _shf(i: Instruction, low: np.ndarray, high: np.ndarray, amount: np.ndarray) -> np.ndarray:
    n = (amount & np.uint32(31) if i.has("wrap") else np.minimum(amount, 32)).astype(np.uint64)
    both = high.astype(np.uint64) << np.uint64(32) | low
    if i.has("l"):
        n = np.uint64(32) - n
    return (both >> n).astype(np.uint32)


_PRMT_MODES: dict[str, list[tuple[int, ...]]] = {
    "f4e": [(k, k + 1, k + 2, k + 3) for k in range(4)],
    "b4e": [(k, (k - 1) & 7, (k - 2) & 7, (k - 3) & 7) for k in range(4)],
    "rc8": [(k, k, k, k) for k in range(4)],
    "ecl": [tuple(max(k, b) for b in range(4)) for k in range(4)],
    "ecr": [tuple(min(k, b) for b in range(4)) for k in range(4)],
    "rc16": [(0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)],
}
"""Bytes chosen for result bytes 0..3, by the two low bits of the selector (PTX ISA, prmt)."""


@value("prmt")
def _prmt(i: Instruction, x: np.ndarray, y: np.ndarray, selector: np.ndarray) -> np.ndarray:
    both = y.astype(np.uint64) << np.uint64(32) | x
    mode = next((m for m in i.modifiers if m in _PRMT_MODES), None)
    result = np.zeros(np.broadcast_shapes(both.shape, selector.shape), np.uint64)
    for k in range(4):
        if mode:
            choice = np.array([row[k] for row in _PRMT_MODES[mode]], np.uint64)[selector & np.uint32(3)]
            replicate = np.zeros((), np.uint64)
        else:
            nibble = (selector >> np.uint32(4 * k) & np.uint32(15)).astype(np.uint64)
            choice, replicate = nibble & np.uint64(7), nibble >> np.uint64(3)
        byte = both >> choice * np.uint64(8) & np.uint64(0xFF)
        sign = np.where(byte >> np.uint64(7), np.uint64(0xFF), np.uint64(0))
        result |= np.where(replicate, sign, byte) << np.uint64(8 * k)
    return result.astype(np.uint32)
