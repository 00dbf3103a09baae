"""Fragments and 8 x 8 matrices between memory and registers (PTX ISA 9.7.14.4, 9.7.14.5.15 on)."""

from __future__ import annotations

import numpy as np

from ptxsim.oracle.lanes import WARP, Lanes
from ptxsim.oracle.memory import Places
from ptxsim.oracle.table import first_of, handler
from ptxsim.oracle.tensor import _mma, matrix_of, write_matrix
from ptxsim.syntax.matrices import Tile, tile
from ptxsim.syntax.program import Address, Instruction, Operand, Register, Vector


class _Moved(Lanes):
    """The same lanes, each accessing memory at an offset of its own from the address operand."""

    def __init__(self, lanes: Lanes, offset: np.ndarray, mask: np.ndarray) -> None:
        super().__init__(lanes.state, lanes.rows, mask)
        self.offset = offset

    def bits(self, operand: Operand) -> np.ndarray:
        return super().bits(operand).astype(np.uint64) + self.offset.astype(np.uint64)


@handler("wmma")
def _wmma(lanes: Lanes, i: Instruction) -> None:
    if i.has("load"):
        _load(lanes, i)
    elif i.has("store"):
        _store(lanes, i)
    else:
        _mma(lanes, i)


def _line_stride(lanes: Lanes, i: Instruction, t: Tile) -> np.ndarray:
    """Bytes from one row or column to the next, shape (rows of lanes, 32)."""
    if len(i.operands) == 3:
        elements = np.broadcast_to(lanes.read(i.operands[2], "u32"), lanes.mask.shape).astype(np.int64)
    else:
        elements = np.full(lanes.mask.shape, t.line_bytes * 8 // t.fragment.bits)
    return elements * t.fragment.bits // 8


def _count(lanes: Lanes, i: Instruction, t: Tile, where: Operand, kind: str) -> None:
    """Counts the accesses of an sm_90 GPU."""
    stride, line, counts = _line_stride(lanes, i, t), i.source.line, lanes.launch.counts
    spaces = Places(lanes, i, where, 1).masks
    for space, mask in spaces.items():
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
                    counts.add(f"shared_{kind}_requests", line, -int(mask.any(axis=1).sum()))


def _bytes_at(lanes: Lanes, i: Instruction, t: Tile, where: Operand) -> Places:
    """One lane's view of a whole fragment: its lines are read and written by lanes 0, 1, 2, ..."""
    stride = _line_stride(lanes, i, t)
    offset = np.arange(WARP) * stride[:, :1]
    mask = np.broadcast_to(np.arange(WARP) < t.lines, lanes.mask.shape) & lanes.mask.any(axis=1, keepdims=True)
    return Places(_Moved(lanes, offset, mask), i, where, t.line_bytes)


def _load(lanes: Lanes, i: Instruction) -> None:
    t, where = tile(i), i.operands[1]
    _count(lanes, i, t, where, "load")
    lines = _bytes_at(lanes, i, t, where).load()[:, : t.lines]
    bits = np.unpackbits(lines, axis=-1, bitorder="little").reshape(*lines.shape[:2], -1, t.fragment.bits)
    elements = (bits.astype(np.uint64) << np.arange(t.fragment.bits, dtype=np.uint64)).sum(axis=-1)
    write_matrix(lanes, i.operands[0], t.fragment, elements if t.layout == "row" else elements.swapaxes(1, 2))


def _store(lanes: Lanes, i: Instruction) -> None:
    t, where = tile(i), i.operands[0]
    _count(lanes, i, t, where, "store")
    matrix = matrix_of(lanes, i.operands[1], t.fragment)
    lines = np.ascontiguousarray(matrix if t.layout == "row" else matrix.swapaxes(1, 2))
    data = lines.astype(f"u{t.fragment.bits // 8}").view(np.uint8)
    padded = np.zeros((len(data), WARP, t.line_bytes), np.uint8)
    padded[:, : t.lines] = data
    _bytes_at(lanes, i, t, where).store(padded)


# ---------------------------------------------------------------- 8 x 8 matrices of 16-bit elements


def _matrices(lanes: Lanes, i: Instruction, where: Operand, count: int, kind: str) -> Places:
    """The rows of `count` matrices, 16 bytes each, at the addresses that lanes 0 to 8 * count - 1 give."""
    assert isinstance(where, Address)
    mask = lanes.mask & (np.arange(WARP) < 8 * count)
    places = Places(Lanes(lanes.state, lanes.rows, mask), i.with_(modifiers=("shared",)), where, 16)
    counts, line, warps = lanes.launch.counts, i.source.line, int(lanes.mask.any(axis=1).sum())
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
def _ldmatrix(lanes: Lanes, i: Instruction) -> None:
    count = _count_of(i)
    target = i.operands[0]
    assert isinstance(target, Vector)
    rows = np.ascontiguousarray(_matrices(lanes, i, i.operands[1], count, "load").load()[:, : 8 * count])
    matrices = _transposed(i, rows.view(np.uint16).reshape(-1, count, 8, 8))
    words = np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, count, WARP)
    for m, register in enumerate(target.elements):
        lanes.write(register, words[:, m], "b32")


@handler("stmatrix")
def _stmatrix(lanes: Lanes, i: Instruction) -> None:
    count = _count_of(i)
    source = i.operands[1]
    assert isinstance(source, Vector)
    words = np.stack([np.broadcast_to(lanes.read(r, "b32"), lanes.mask.shape) for r in source.elements], axis=1)
    matrices = _transposed(i, np.ascontiguousarray(words).view(np.uint16).reshape(-1, count, 8, 8))
    data = np.zeros((len(words), WARP, 16), np.uint8)
    data[:, : 8 * count] = np.ascontiguousarray(matrices).view(np.uint8).reshape(-1, 8 * count, 16)
    _matrices(lanes, i, i.operands[0], count, "store").store(data)


@handler("movmatrix")
def _movmatrix(lanes: Lanes, i: Instruction) -> None:
    assert isinstance(i.operands[0], Register)
    words = np.ascontiguousarray(np.broadcast_to(lanes.read(i.operands[1], "b32"), lanes.mask.shape))
    matrix = np.ascontiguousarray(words.view(np.uint16).reshape(-1, 8, 8).swapaxes(1, 2))
    lanes.write(i.operands[0], matrix.view(np.uint32).reshape(-1, WARP), "b32")


