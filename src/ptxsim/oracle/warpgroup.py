"""Products of a warpgroup, as figures and formulas of PTX ISA 9.7.15 have them.

Each warp's lanes compute their 16 rows when they execute `wgmma.mma_async`: nobody may look before they have waited.
"""

from __future__ import annotations

import numpy as np

from ptxsim.oracle.lanes import ActiveLanes, handler
from ptxsim.oracle.tensor import matrix_of, multiply, typed, write_matrix
from ptxsim.syntax.matrices import Product
from ptxsim.syntax.program import Instruction
from ptxsim.syntax.warpgroup import WarpgroupProduct, sources, warpgroup_product

_ROWS = 16


@handler("wgmma")
def _wgmma(lanes: ActiveLanes, i: Instruction) -> None:
    if not i.has("mma_async"):
        return
    p, operands = warpgroup_product(i), sources(i)
    held = p.fragment("d")
    c = typed(matrix_of(lanes, i.operands[0], held), p.d)
    adds = np.broadcast_to(lanes.read(operands.adds, "pred"), lanes.mask.shape)[:, 0]
    c = np.where(adds[:, None, None], c, np.zeros((), c.dtype))
    warps = lanes.row_numbers[:, 0] % lanes.state.warps
    if operands.a_in_registers:
        a = typed(matrix_of(lanes, operands.a, p.fragment("a")), p.a)
    else:
        rows = _ROWS * (warps % 4)[:, None] + np.arange(_ROWS)
        a = typed(_operand(lanes, lanes.bits(operands.a), rows, p, p.a, operands.turned[0]), p.a)
    columns = np.broadcast_to(np.arange(p.columns), (len(warps), p.columns))
    b = typed(_operand(lanes, lanes.bits(operands.b), columns, p, p.b, operands.turned[1]), p.b).swapaxes(1, 2)
    product = Product(
        "mma", p.shape, p.d, p.a, p.b, p.d, p.saturates, "and" if p.a == "b1" else "",
    )  # fmt: skip
    result = multiply(product, a * operands.signs[0], b * operands.signs[1], c)
    write_matrix(lanes, i.operands[0], held, result)
    counts, line, count = lanes.launch.counts, i.source.line, int(lanes.mask.any(axis=1).sum())
    counts.add("tensor_instructions", line, count)
    counts.add("tensor_pipe_instructions", line, count)
    counts.add("tensor_operations", line, count * p.operations)


def _operand(
    lanes: ActiveLanes, descriptor: np.ndarray, rows: np.ndarray, p: WarpgroupProduct, type_name: str, turned: bool
) -> np.ndarray:
    """Raw bits of an operand's elements, shape (warps, rows, k), by its descriptor; zero outside of shared memory."""
    bits = 256 // p.depth
    words = np.broadcast_to(descriptor, lanes.mask.shape)[:, 0].astype(np.int64).view(np.uint64)
    start, leading, stride = ((words >> np.uint64(s) & np.uint64(0x3FFF)).astype(np.int64) * 16 for s in (0, 16, 32))
    base = (words >> np.uint64(49) & np.uint64(7)).astype(np.int64)
    mode = (words >> np.uint64(62)).astype(np.int64)
    row_of_eight = np.array([0, 7, 3, 1])[mode][:, None, None]
    width = np.array([16, 128, 64, 32])[mode][:, None, None]
    start, leading, stride, base = (x[:, None, None] for x in (start, leading, stride, base))
    r, byte = rows[:, :, None], np.arange(p.depth) * bits // 8
    k = np.arange(p.depth)
    if not turned:
        swizzled = r % 8 * width + r // 8 * stride + byte
        plain = r % 8 * 16 + r // 8 * stride + byte // 16 * leading + byte % 16
    else:
        tile, within = 2 * r // width, 2 * r % width
        swizzled = within + tile * leading + k % 8 * width + k // 8 * stride
        plain = r % 8 * 2 + r // 8 * stride + k % 8 * 16 + k // 8 * leading
    address = start + np.where(mode[:, None, None] == 0, plain, swizzled)
    address = address ^ (address // 128 - base & row_of_eight) * 16
    memory = lanes.state.shared[lanes.state.block_of_row[lanes.rows][:, 0]]
    size = max(1, bits // 8)
    inside = address + size <= memory.shape[1]
    at = np.where(inside, address, 0)[..., None] + np.arange(size)
    data = np.take_along_axis(memory[:, None, None], at, axis=-1).astype(np.uint64) if memory.shape[1] else None
    if data is None:
        return np.zeros(address.shape, np.uint64)
    value = (data << 8 * np.arange(size, dtype=np.uint64)).sum(axis=-1, dtype=np.uint64)
    if bits < 8:
        value = value >> (k % 8).astype(np.uint64) & np.uint64(1)
    return np.where(inside, value, np.uint64(0))


