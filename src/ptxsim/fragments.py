"""Fragments: which lane of a warp holds which element of a matrix, for every matrix instruction.

A fragment is one operand of a tensor-core product, spread over the registers of 32 lanes. All of them are made of
tiles, eight rows high for A (eight columns wide for B): lane 4g + t holds row g of the tile and, of its four groups of
neighbouring elements along k, group t. Accumulators are tiles of 8 x 8 with two neighbouring elements per lane.
The PTX ISA (9.7.14) gives these layouts for `mma`; for `wmma` it leaves them open, and the tables here are those of
sm_80 to sm_90, read off the machine code that ptxas makes of `wmma.load` and `wmma.store`.

    >>> held = fragment("mma", "m16n8k16", "f16", "a")
    >>> held.positions[5, 1].tolist()          # lane 5, register 1: (row, column) of its two elements
    [[9, 2], [9, 3]]
    >>> held.owner(9, 3)                       # row 9, column 3: (lane, register, element of the register)
    (5, 1, 1)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from ptxsim.limits import WARP

ELEMENT_BITS = {
    "f64": 64, "f32": 32, "s32": 32, "tf32": 32, "f16": 16, "bf16": 16, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8,
    "s4": 4, "u4": 4, "b1": 1,
}  # fmt: skip
"""Bits of one element as it lies in a register."""

WMMA_SHAPES = {
    "m16n16k16": "f16 bf16 s8 u8", "m32n8k16": "f16 bf16 s8 u8", "m8n32k16": "f16 bf16 s8 u8", "m16n16k8": "tf32",
    "m8n8k4": "f64", "m8n8k32": "s4 u4", "m8n8k128": "b1",
}  # fmt: skip
MMA_SHAPES = {
    "m8n8k4": "f64 f16", "m16n8k4": "tf32 f64", "m16n8k8": "f16 bf16 tf32 f64",
    "m16n8k16": "f16 bf16 f64 s8 u8 e4m3 e5m2", "m8n8k16": "s8 u8",
    "m16n8k32": "s8 u8 s4 u4 e4m3 e5m2", "m8n8k32": "s4 u4",
    "m16n8k64": "s4 u4", "m8n8k128": "b1", "m16n8k128": "b1", "m16n8k256": "b1",
}  # fmt: skip
"""Shape of the product -> types of A and B. `fragment` also takes the accumulators' types."""
WARPGROUP_DEPTHS = {
    "f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32, "b1": 256,
}  # fmt: skip
"""Type of A and B -> k of a warpgroup's products: 32 bytes of a row."""


def dimensions(shape: str) -> tuple[int, int, int]:
    """(m, n, k) of a shape's name, "m16n8k16"."""
    found = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape)
    if not found:
        raise ValueError(f"{shape!r} is no shape of a product")
    m, n, k = map(int, found.groups())
    return m, n, k


@dataclass(frozen=True)
class Fragment:
    """Where the elements of one operand are.

    `positions[lane, register, element]` is (row, column) in the operand's matrix, which has `rows` x `columns`
    elements of `bits` bits: m x k for A, k x n for B, m x n for C and D. The first element of a register is in its
    lowest bits. wmma's f16 operands hold every element more than once: `copies`.
    """

    instruction: str
    shape: str
    type: str
    operand: str
    rows: int
    columns: int
    positions: np.ndarray = field(compare=False, repr=False)
    layout: str = ""
    """"row" or "col" where the fragment depends on it: mma.m8n8k4's A and B"""

    @property
    def registers(self) -> int:
        """Registers per lane."""
        return int(self.positions.shape[1])

    @property
    def elements(self) -> int:
        """Elements per register."""
        return int(self.positions.shape[2])

    @property
    def bits(self) -> int:
        return ELEMENT_BITS[self.type]

    @property
    def register_bits(self) -> int:
        return self.bits * self.elements

    @property
    def copies(self) -> int:
        """How often the warp holds each element."""
        return self.positions[..., 0].size // (self.rows * self.columns)

    def owner(self, row: int, column: int) -> tuple[int, int, int]:
        """(lane, register, element of the register) that holds an element; the first, if several do."""
        lane, register, element = self.owners[row, column]
        return int(lane), int(register), int(element)

    @property
    def owners(self) -> np.ndarray:
        """(lane, register, element) of every element: shape (rows, columns, 3)."""
        return _owners(self)


@cache
def _owners(f: Fragment) -> np.ndarray:
    found = np.zeros((f.rows, f.columns, 3), int)
    places = np.moveaxis(np.indices(f.positions.shape[:3]), 0, -1)
    # first registers last, so that they win over their copies
    rows, columns = f.positions[:, ::-1, :, 0], f.positions[:, ::-1, :, 1]
    found[rows, columns] = places[:, ::-1]
    found.flags.writeable = False
    return found


@cache
def fragment(instruction: str, shape: str, type: str, operand: str) -> Fragment:
    """The fragment of `operand` ("a", "b", "c" or "d") of a "wmma" or "mma" product, or of a warp's part of "wgmma".

    `type` is the operand's element type: "f16", "bf16", "tf32", "f64", "s8", "u8", "s4", "u4" or "b1" for A and B,
    "f16", "f32", "s32" or "f64" for accumulators. Raises ValueError where there is no such fragment, and for the
    quarter-warp products of mma.m8n8k4 on f16.
    """
    shapes = {"wmma": WMMA_SHAPES, "mma": MMA_SHAPES}.get(instruction, {})
    m, n, k = dimensions(shape)
    if instruction == "wgmma":
        shapes = {shape: " ".join(t for t, depth in WARPGROUP_DEPTHS.items() if (m, depth) == (16, k))}
    is_input = operand in ("a", "b")
    if shape not in shapes or operand not in ("a", "b", "c", "d") or (is_input and type not in shapes[shape].split()):
        raise ValueError(f"{instruction} has no operand {operand!r} of {shape} and {type or 'no type'}")
    if (instruction, shape, type) == ("mma", "m8n8k4", "f16"):
        raise ValueError("mma.m8n8k4 on f16 makes four products per warp, one per quarter")
    if is_input:
        tiles, group = _input_tiles(instruction, shape, type, operand)
        major, minor = _tile_positions(tiles, group)
        if operand == "b":
            major, minor = minor, major
        size = (m, k) if operand == "a" else (k, n)
    else:
        major, minor = _accumulator_positions(shape, packed=type == "f16")
        size = (m, n)
    positions = np.stack([major, minor], axis=-1)
    positions.flags.writeable = False
    return Fragment(instruction, shape, type, operand, *size, positions)


def _input_tiles(instruction: str, shape: str, type: str, operand: str) -> tuple[list[tuple[int, int]], int]:
    """Tiles of A or B, one per register, as (index along m or n, index along k); elements per lane and tile."""
    m, n, k = dimensions(shape)
    group = max(1, 32 // ELEMENT_BITS[type])
    across, along = (m if operand == "a" else n) // 8, k // (4 * group)
    pairs_first = operand == "a" or shape == "m8n32k16"  # sixteen rows of A, or what stands in for them
    if pairs_first:
        step = min(2, across)
        tiles = [(p + d, q) for p in range(0, across, step) for q in range(along) for d in range(step)]
    else:
        tiles = [(p, q) for p in range(across) for q in range(along)]
    copies = 8 // len(tiles) if (instruction, type) == ("wmma", "f16") else 1
    return tiles * copies, group


def _tile_positions(tiles: list[tuple[int, int]], group: int) -> tuple[np.ndarray, np.ndarray]:
    """Position along m or n and along k of every lane's elements: shape (32, registers, elements)."""
    lane, register, element = np.indices((WARP, len(tiles), group))
    p, q = np.array(tiles).T
    return 8 * p[register] + lane // 4, group * (4 * q[register] + lane % 4) + element


def _accumulator_positions(shape: str, *, packed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of an accumulator; `packed`: both elements of a lane's pair in one register."""
    m, n, _ = dimensions(shape)
    turned = shape == "m8n32k16"  # computed as the transposed product
    high, wide = (n, m) if turned else (m, n)
    tiles = [(p, q) for q in range(wide // 8) for p in range(high // 8)]
    each = 1 if packed else 2
    lane, register, element = np.indices((WARP, len(tiles) * each, 2 if packed else 1))
    p, q = np.array(tiles).T
    tile, second = register // each, element if packed else register % 2
    rows, columns = 8 * p[tile] + lane // 4, 8 * q[tile] + 2 * (lane % 4) + second
    return (columns, rows) if turned else (rows, columns)


@cache
def quarter_fragment(type: str, operand: str, layout: str) -> Fragment:
    """The fragments of `mma.m8n8k4` on f16, which makes four products of 8 x 8 x 4 at once.

    Lanes 4q..4q+3 and 16+4q..19+4q work on product q. The four matrices are given as one: those of A and C under each
    other (row 8q + r), those of B side by side (column 8q + c).
    """
    packed = type == "f16"
    lane, register, element = np.indices((WARP, 2 if operand in ("a", "b") else 4 if packed else 8, 2 if packed else 1))
    i = register * (2 if packed else 1) + element
    quarter, low, high = lane % 16 // 4, lane % 4, lane // 16 * 4
    if operand in ("a", "b"):
        along_lanes = (operand == "a") == (layout == "row")  # a lane holds four neighbours along k
        outer, k = (low + high, i) if along_lanes else (i + high, low)
        rows, columns = (outer + 8 * quarter, k) if operand == "a" else (k, outer + 8 * quarter)
    elif packed:
        rows, columns = low + high + 8 * quarter, i
    else:
        rows, columns = (lane & 1) + (i & 2) + high + 8 * quarter, (i & 4) + (lane & 2) + (i & 1)
    positions = np.stack([rows, columns], axis=-1)
    positions.flags.writeable = False
    size = {"a": (32, 4), "b": (4, 32)}.get(operand, (32, 8))
    return Fragment("mma", "m8n8k4", type, operand, *size, positions, layout)
