"""Products on tensor cores, and their fragments between memory and registers (PTX ISA 9.7.14).

Registers become matrices by the fragment tables, then sums run along k in order. The model of arithmetic is
docs/design/simulator.md's: each element of D is a chain of fused multiply-adds from C on, k = 0, 1, 2, ..., rounded to
nearest in f32 (for f16 accumulators too, which round once more at the end) or f64. tf32 inputs lose their low 13 bits.
Integers are exact; they wrap around, or with .satfinite stop at the limits.
"""

from __future__ import annotations

import numpy as np

from ptxsim.fragments import Fragment
from ptxsim.limits import WARP
from ptxsim.oracle import exact
from ptxsim.oracle.convert import from_8_bits
from ptxsim.oracle.lanes import ActiveLanes, canonical, decode, encode, first_of, handler
from ptxsim.oracle.memory import Places, in_shared
from ptxsim.syntax.matrices import Product, Tile, product, tile
from ptxsim.syntax.program import Instruction, Operand, elements_of

_QUARTERS = 4


def matrix_of(lanes: ActiveLanes, registers: Operand, held: Fragment) -> np.ndarray:
    """Raw bits of the matrices that the warps hold, shape (rows of lanes, rows, columns), as uint64."""
    words = np.stack([lanes.each(r, "u64") for r in elements_of(registers)], axis=-1)
    lane, register, element = np.moveaxis(held.owners, -1, 0)
    shifts = (element * held.bits).astype(np.uint64)
    return words[:, lane, register] >> shifts & np.uint64((1 << held.bits) - 1)


def write_matrix(lanes: ActiveLanes, registers: Operand, held: Fragment, bits: np.ndarray) -> None:
    """Writes matrices, shape (rows of lanes, rows, columns), to a fragment's registers."""
    shifts = np.arange(held.elements, dtype=np.uint64) * np.uint64(held.bits)
    parts = bits.astype(np.uint64)[:, held.positions[..., 0], held.positions[..., 1]] << shifts
    words = np.bitwise_or.reduce(parts, axis=-1)
    for k, target in enumerate(elements_of(registers)):
        lanes.write(target, words[..., k], f"b{held.register_bits}")


def typed(bits: np.ndarray, type_name: str) -> np.ndarray:
    """Elements as numbers: f64 for floating point, int64 for integers."""
    if type_name in ("s8", "s4", "s32"):
        width = int(type_name[1:])
        return (bits.astype(np.int64) ^ 1 << width - 1) - (1 << width - 1)
    if type_name in ("u8", "u4", "b1"):
        return bits.astype(np.int64)
    if type_name in ("e4m3", "e5m2"):
        return from_8_bits(bits, f"{type_name}x2")
    if type_name == "tf32":
        bits = bits & np.uint64(0xFFFFE000)
    return decode(bits, type_name).astype(np.float64)


@handler("mma")
def _mma(lanes: ActiveLanes, i: Instruction) -> None:
    p = product(i)
    held = [p.fragment(x) for x in "abc"]
    a, b, c = (typed(matrix_of(lanes, r, h), h.type) for r, h in zip(i.operands[1:], held, strict=True))
    quarters = [slice(8 * q, 8 * q + 8) for q in range(_QUARTERS)] if p.quarters else [slice(None)]
    result = np.concatenate([multiply(p, a[:, q], b[..., q], c[:, q]) for q in quarters], axis=1)
    write_matrix(lanes, i.operands[0], p.fragment("d"), result)
    count_product(lanes, i, p)


def multiply(p: Product, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Raw bits of D."""
    if p.operation:
        pairs = (a[:, :, :, None] ^ b[:, None]) if p.operation == "xor" else (a[:, :, :, None] & b[:, None])
        return (c + pairs.sum(axis=2)).astype(np.int64).view(np.uint64) & np.uint64(0xFFFFFFFF)
    if p.d == "s32":
        total = c + a @ b
        total = np.clip(total, -(1 << 31), (1 << 31) - 1) if p.saturates else total
        return total.view(np.uint64) & np.uint64(0xFFFFFFFF)
    for k in range(a.shape[2]):
        x, y = a[:, :, k, None], b[:, k, None, :]
        if p.d == "f64":
            c = exact.by_lane(lambda p, q, r: exact.fma(p, q, r, "f64", "rn"), x, y, c)
        else:
            c = exact.round_to(exact.fma_to_odd(x, y, c), "f32")
    return encode(canonical(c, p.d), p.d)


def count_product(lanes: ActiveLanes, i: Instruction, p: Product) -> None:
    rows, copies = lanes.row_numbers[lanes.busy, 0], lanes.state.copies
    # warps of which a thread has a committed cp.async group that it has not waited for
    copying = {row for (row, _), groups in copies.items() if any(groups[:-1])}
    lanes.launch.counts.add_all(
        "tensor", i.source.line, instructions=len(rows), pipe_instructions=len(rows) * p.pipe_instructions,
        operations=len(rows) * p.operations, instructions_copying=len(copying.intersection(rows.tolist())),
    )  # fmt: skip


# ---------------------------------------------------------------- fragments in memory


class _Moved(ActiveLanes):
    """The same lanes, each accessing memory at an offset of its own from the address operand."""

    def __init__(self, lanes: ActiveLanes, offset: np.ndarray, mask: np.ndarray) -> None:
        super().__init__(lanes.state, lanes.rows, mask)
        self.offset = offset

    def bits(self, operand: Operand) -> np.ndarray:
        return super().bits(operand).astype(np.uint64) + self.offset.astype(np.uint64)


@handler("wmma")
def _wmma(lanes: ActiveLanes, i: Instruction) -> None:
    {"load": _load, "store": _store, "mma": _mma}[first_of(i, "load", "store", "mma") or ""](lanes, i)


def _line_stride(lanes: ActiveLanes, i: Instruction, t: Tile) -> np.ndarray:
    """Bytes from one row or column to the next, shape (rows of lanes, 32)."""
    if len(i.operands) == 3:
        return lanes.each(i.operands[2], "u32").astype(np.int64) * t.fragment.bits // 8
    return np.full(lanes.mask.shape, t.line_bytes)


def _count(lanes: ActiveLanes, i: Instruction, t: Tile, where: Operand, kind: str) -> None:
    """Counts the accesses of an sm_90 GPU."""
    stride, line, counts = _line_stride(lanes, i, t), i.source.line, lanes.launch.counts
    for space, mask in Places(lanes, i, where, 1).masks.items():
        if space not in ("global", "shared") or not mask.any():
            continue
        for r in t.requests(space == "shared"):
            offset = np.array(r.lines) * stride + np.array(r.starts)
            address = Places(_Moved(lanes, offset, mask), i, where, r.size).address
            if space == "global":
                counts.global_access(kind, line, address, mask, r.size)
            else:
                counts.shared_bytes(kind, line, mask, r.size)
                counts.shared_access(kind, line, address, mask, r.size)
                if not r.opens:
                    counts.add(f"shared_{kind}_requests", line, -mask.any(axis=1).sum())


def _bytes_at(lanes: ActiveLanes, i: Instruction, t: Tile, where: Operand) -> Places:
    """One lane's view of a whole fragment: its lines are read and written by lanes 0, 1, 2, ..."""
    stride = _line_stride(lanes, i, t)
    offset = np.arange(WARP) * stride[:, :1]
    mask = np.broadcast_to(np.arange(WARP) < t.lines, lanes.mask.shape) & lanes.busy[:, None]
    return Places(_Moved(lanes, offset, mask), i, where, t.line_bytes)


def _load(lanes: ActiveLanes, i: Instruction) -> None:
    t, where = tile(i), i.operands[1]
    _count(lanes, i, t, where, "load")
    lines = _bytes_at(lanes, i, t, where).load()[:, : t.lines]
    bits = np.unpackbits(lines, axis=-1, bitorder="little").reshape(*lines.shape[:2], -1, t.fragment.bits)
    elements = (bits.astype(np.uint64) << np.arange(t.fragment.bits, dtype=np.uint64)).sum(axis=-1)
    write_matrix(lanes, i.operands[0], t.fragment, elements if t.layout == "row" else elements.swapaxes(1, 2))


def _store(lanes: ActiveLanes, i: Instruction) -> None:
    t, where = tile(i), i.operands[0]
    _count(lanes, i, t, where, "store")
    matrix = matrix_of(lanes, i.operands[1], t.fragment)
    lines = np.ascontiguousarray(matrix if t.layout == "row" else matrix.swapaxes(1, 2))
    data = lines.astype(f"u{t.fragment.bits // 8}").view(np.uint8)
    padded = np.zeros((len(data), WARP, t.line_bytes), np.uint8)
    padded[:, : t.lines] = data
    _bytes_at(lanes, i, t, where).store(padded)


# ---------------------------------------------------------------- 8 x 8 matrices of 16-bit elements


def _matrices(lanes: ActiveLanes, i: Instruction, where: Operand, count: int, kind: str) -> Places:
    """The rows of `count` matrices, 16 bytes each, at the addresses that lanes 0 to 8 * count - 1 give."""
    mask = lanes.mask & (np.arange(WARP) < 8 * count)
    places = in_shared(ActiveLanes(lanes.state, lanes.rows, mask), i, where, 16)
    counts, line, warps = lanes.launch.counts, i.source.line, int(lanes.busy.sum())
    counts.shared_bytes(kind, line, mask, 16)
    for m in range(count):
        counts.shared_access(kind, line, places.address, mask & (np.arange(WARP) // 8 == m), 16)
    counts.add(f"shared_{kind}_requests", line, warps * (1 - count))
    return places


def _transposed(i: Instruction, matrix: np.ndarray) -> np.ndarray:
    return matrix.swapaxes(-1, -2) if i.has("trans") else matrix


def _count_of(i: Instruction) -> int:
    return int((first_of(i, "x1", "x2", "x4") or "x1")[1:])


@handler("ldmatrix")
def _ldmatrix(lanes: ActiveLanes, i: Instruction) -> None:
    count = _count_of(i)
    rows = np.ascontiguousarray(_matrices(lanes, i, i.operands[1], count, "load").load()[:, : 8 * count])
    matrices = _transposed(i, rows.view(np.uint16).reshape(-1, count, 8, 8))
    words = np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, count, WARP)
    for m, register in enumerate(elements_of(i.operands[0])):
        lanes.write(register, words[:, m], "b32")


@handler("stmatrix")
def _stmatrix(lanes: ActiveLanes, i: Instruction) -> None:
    count = _count_of(i)
    words = np.stack([lanes.each(r, "b32") for r in elements_of(i.operands[1])], axis=1)
    matrices = _transposed(i, np.ascontiguousarray(words).view(np.uint16).reshape(-1, count, 8, 8))
    data = np.zeros((len(words), WARP, 16), np.uint8)
    data[:, : 8 * count] = np.ascontiguousarray(matrices).view(np.uint8).reshape(-1, 8 * count, 16)
    _matrices(lanes, i, i.operands[0], count, "store").store(data)


@handler("movmatrix")
def _movmatrix(lanes: ActiveLanes, i: Instruction) -> None:
    words = np.ascontiguousarray(lanes.each(i.operands[1], "b32"))
    matrix = np.ascontiguousarray(words.view(np.uint16).reshape(-1, 8, 8).swapaxes(1, 2))
    lanes.write(i.operands[0], matrix.view(np.uint32).reshape(-1, WARP), "b32")
