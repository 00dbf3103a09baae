"""Products on tensor cores (PTX ISA 9.7.14): registers to matrices by the fragment tables, then sums along k in order.

The model of arithmetic is docs/design/simulator.md's: each element of D is a chain of fused multiply-adds from C on,
k = 0, 1, 2, ..., rounded to nearest in f32 (for f16 accumulators too, which round once more at the end) or f64.
tf32 inputs lose their low 13 bits. Integers are exact; they wrap around, or with .satfinite stop at the limits.
"""

from __future__ import annotations

import numpy as np

from ptxsim.fragments import Fragment
from ptxsim.oracle import exact
from ptxsim.oracle.lanes import WARP, Lanes
from ptxsim.oracle.table import handler
from ptxsim.oracle.values import canonical, decode
from ptxsim.syntax.matrices import Product, product
from ptxsim.syntax.program import Instruction, Operand, Vector

_QUARTERS = 4


def elements_of(lanes: Lanes, registers: Operand, held: Fragment) -> np.ndarray:
    """Raw bits of a fragment's elements, shape (rows of lanes, 32, registers, elements), as uint64."""
    assert isinstance(registers, Vector)
    words = [np.broadcast_to(lanes.bits(r), lanes.mask.shape).astype(np.uint64) for r in registers.elements]
    shifts = np.arange(held.elements, dtype=np.uint64) * np.uint64(held.bits)
    mask = np.uint64((1 << held.bits) - 1)
    return np.stack(words, axis=-1)[..., None] >> shifts & mask


def matrix_of(lanes: Lanes, registers: Operand, held: Fragment) -> np.ndarray:
    """Raw bits of the matrices that the warps hold, shape (rows of lanes, rows, columns)."""
    lane, register, element = np.moveaxis(held.owners, -1, 0)
    return elements_of(lanes, registers, held)[:, lane, register, element]


def write_matrix(lanes: Lanes, registers: Operand, held: Fragment, bits: np.ndarray) -> None:
    """Writes matrices, shape (rows of lanes, rows, columns), to a fragment's registers."""
    assert isinstance(registers, Vector)
    shifts = np.arange(held.elements, dtype=np.uint64) * np.uint64(held.bits)
    parts = bits.astype(np.uint64)[:, held.positions[..., 0], held.positions[..., 1]] << shifts
    words = np.bitwise_or.reduce(parts, axis=-1)
    for k, target in enumerate(registers.elements):
        lanes.write(target, words[..., k], f"b{held.register_bits}")


def typed(bits: np.ndarray, type_name: str) -> np.ndarray:
    """Elements as numbers: f64 for floating point, int64 for integers."""
    if type_name in ("s8", "s4", "s32"):
        width = int(type_name[1:])
        value = bits.astype(np.int64)
        return value - (value >> (width - 1) << width)
    if type_name in ("u8", "u4", "b1"):
        return bits.astype(np.int64)
    if type_name == "tf32":
        return decode(bits & np.uint64(0xFFFFE000), "f32").astype(np.float64)
    return decode(bits, type_name).astype(np.float64)


@handler("mma")
def _mma(lanes: Lanes, i: Instruction) -> None:
    p = product(i)
    held = [p.fragment(x) for x in "abc"]
    a, b, c = (typed(matrix_of(lanes, r, h), h.type) for r, h in zip(i.operands[1:], held, strict=True))
    if p.quarters:
        parts = [
            _multiply(p, a[:, 8 * q : 8 * q + 8], b[..., 8 * q : 8 * q + 8], c[:, 8 * q : 8 * q + 8])
            for q in range(_QUARTERS)
        ]
        result = np.concatenate(parts, axis=1)
    else:
        result = _multiply(p, a, b, c)
    write_matrix(lanes, i.operands[0], p.fragment("d"), result)
    count_product(lanes, i, p)


def _multiply(p: Product, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Raw bits of D."""
    if p.operation:
        pairs = (a[:, :, :, None] ^ b[:, None]) if p.operation == "xor" else (a[:, :, :, None] & b[:, None])
        return (c + pairs.sum(axis=2)).astype(np.int64).view(np.uint64) & np.uint64(0xFFFFFFFF)
    if p.d == "s32":
        total = c + a @ b
        if p.saturates:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        return total.view(np.uint64) & np.uint64(0xFFFFFFFF)
    for k in range(a.shape[2]):
        c = _multiply_add(a[:, :, k, None], b[:, k, None, :], c, "f64" if p.d == "f64" else "f32")
    if p.d == "f64":
        return canonical(c, "f64").view(np.uint64)
    single = c.astype(np.float32)
    if p.d == "f16":
        return canonical(single.astype(np.float16), "f16").view(np.uint16)
    return canonical(single, "f32").view(np.uint32)


def _multiply_add(x: np.ndarray, y: np.ndarray, z: np.ndarray, type_name: str) -> np.ndarray:
    """x * y + z with one rounding, in f64 numbers."""
    if type_name == "f64":
        return exact.by_lane(lambda p, q, r: exact.fma(p, q, r, "f64", "rn"), x, y, z)
    total = exact.round_to(exact.fma_to_odd(x, y, z), "f32")
    return exact.zero_sign(total, x * y, z, "rn")


def count_product(lanes: Lanes, i: Instruction, p: Product) -> None:
    counts, line = lanes.launch.counts, i.source.line
    warps = int(lanes.mask.any(axis=1).sum())
    counts.add("tensor_instructions", line, warps)
    counts.add("tensor_pipe_instructions", line, warps * p.pipe_instructions)
    counts.add("tensor_operations", line, warps * p.operations)
    rows = lanes.row_numbers[lanes.mask.any(axis=1)].ravel()
    copying = sum(any(copies_under_way(lanes, int(row), lane) for lane in range(WARP)) for row in rows)
    counts.add("tensor_instructions_copying", line, copying)


def copies_under_way(lanes: Lanes, row: int, lane: int) -> bool:
    """Whether a thread has a committed cp.async group that it has not waited for."""
    groups = lanes.state.copies.get((row, lane), [[]])
    return any(groups[:-1])
