"""Matrix instructions, read: what `wmma`, `mma`, `ldmatrix`, `stmatrix` and `movmatrix` compute and move.

Everything behind the parser that deals with them (the form check, the oracle, the translator, the counters) reads an
instruction through this module. PTX ISA 9.7.14; `requests` are the memory accesses that an sm_90 GPU makes for a
`wmma.load` or `wmma.store`, as ptxas writes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from ptxsim.fragments import (
    ELEMENT_BITS,
    MMA_SHAPES,
    WMMA_SHAPES,
    Fragment,
    dimensions,
    fragment,
    quarter_fragment,
)
from ptxsim.limits import WARP
from ptxsim.syntax.program import Instruction

_TYPES = frozenset(ELEMENT_BITS)
_ACCUMULATORS = {
    "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",),
    "e4m3": ("f16", "f32"), "e5m2": ("f16", "f32"),
}  # fmt: skip
_ALIKE = ({"s8", "u8"}, {"s4", "u4"}, {"e4m3", "e5m2"})
"""Types of A and B that go together."""
_INTEGERS = frozenset({"s8", "u8", "s4", "u4", "b1"})


class NoSuchMatrix(Exception):
    """No GPU has this matrix instruction, or none up to sm_90."""


@dataclass(frozen=True)
class Product:
    """D = A * B + C over one warp. `operation` is "" (multiply and add) or, for single bits, "xor" or "and"."""

    instruction: str
    shape: str
    d: str
    a: str
    b: str
    c: str
    saturates: bool = False
    operation: str = ""
    layouts: tuple[str, str] = ("row", "col")

    @property
    def quarters(self) -> bool:
        """Whether each quarter of the warp computes a product of its own (mma.m8n8k4 on f16)."""
        return (self.instruction, self.shape, self.a) == ("mma", "m8n8k4", "f16")

    def fragment(self, operand: str) -> Fragment:
        """The layout of "a", "b", "c" or "d"."""
        if self.quarters:
            layout = self.layouts["ab".index(operand)] if operand in ("a", "b") else ""
            return quarter_fragment(getattr(self, operand), operand, layout)
        return fragment(self.instruction, self.shape, getattr(self, operand), operand)

    @property
    def operations(self) -> int:
        """Multiplications and additions of one execution by a warp."""
        m, n, k = dimensions(self.shape)
        return 2 * m * n * k * (4 if self.quarters else 1)

    @property
    def pipe_instructions(self) -> int:
        """Machine instructions for the tensor pipe on sm_90 (HMMA, IMMA, DMMA, BMMA)."""
        if self.quarters:
            return 0
        m, n, _ = dimensions(self.shape)
        count = max(1, m * n // 128)
        if self.instruction == "wmma" and self.a == "tf32":
            count *= 2
        twice = self.a in ("s4", "u4") or (self.operation == "xor")
        return count * 2 if twice else count


@cache
def _product(opcode: str, modifiers: tuple[str, ...]) -> Product:
    shapes = WMMA_SHAPES if opcode == "wmma" else MMA_SHAPES
    shape = next((m for m in modifiers if m in shapes), None)
    if shape is None:
        raise NoSuchMatrix("this shape")
    types = [m for m in modifiers if m in _TYPES]
    if opcode == "wmma" and len(types) == 2:
        types = [types[0], "f16", "f16", types[1]]
    if len(types) != 4:
        raise NoSuchMatrix("these types")
    d, a, b, c = types
    _check_types(shapes[shape].split(), d, a, b, c)
    operation = next((m for m in modifiers if m in ("xor", "and")), "")
    if (a == "b1") != bool(operation):
        raise NoSuchMatrix("this operation")
    layouts = tuple(m for m in modifiers if m in ("row", "col"))
    if len(layouts) != 2:
        raise NoSuchMatrix("these layouts")
    quarters = opcode == "mma" and (shape, a) == ("m8n8k4", "f16")
    if layouts != ("row", "col") and not quarters and (opcode == "mma" or ELEMENT_BITS[a] < 8):
        raise NoSuchMatrix("these layouts")
    saturates = "satfinite" in modifiers
    if saturates and (a not in _INTEGERS or a == "b1"):
        raise NoSuchMatrix("saturation of these types")
    return Product(opcode, shape, d, a, b, c, saturates, operation, (layouts[0], layouts[1]))


def _check_types(inputs: list[str], d: str, a: str, b: str, c: str) -> None:
    alike = a == b or {a, b} in _ALIKE
    if a not in inputs or b not in inputs or not alike:
        raise NoSuchMatrix("these types")
    allowed = _ACCUMULATORS.get(a, ("s32",))
    if d not in allowed or c not in allowed or (a in ("e4m3", "e5m2") and c != d):
        raise NoSuchMatrix("these accumulators")


def product(i: Instruction) -> Product:
    """The product of a `wmma.mma` or `mma`; raises NoSuchMatrix."""
    return _product(i.opcode, i.modifiers)


# ---------------------------------------------------------------- fragments in memory


@dataclass(frozen=True)
class Request:
    """What one memory instruction of the warp, or one 8 x 8 matrix of an `ldmatrix`, accesses.

    Lane l accesses `size` bytes at byte `starts[l]` of row (or column) `lines[l]` of the matrix in memory.
    """

    lines: tuple[int, ...]
    starts: tuple[int, ...]
    size: int
    opens: bool = True
    """whether a new instruction begins: False for the second and later matrices of an `ldmatrix`"""


@dataclass(frozen=True)
class Tile:
    """A fragment in memory: rows (layout "row") or columns of it lie `stride` elements apart."""

    fragment: Fragment
    layout: str

    @property
    def lines(self) -> int:
        """Rows or columns in memory."""
        return self.fragment.rows if self.layout == "row" else self.fragment.columns

    @property
    def line_bytes(self) -> int:
        along = self.fragment.columns if self.layout == "row" else self.fragment.rows
        return along * self.fragment.bits // 8

    def requests(self, shared: bool) -> tuple[Request, ...]:
        """The accesses of an sm_90 GPU."""
        return _requests(self.fragment, self.layout, shared)


@cache
def _tile(modifiers: tuple[str, ...]) -> Tile:
    operand = "d" if "store" in modifiers else next((m for m in modifiers if m in ("a", "b", "c")), None)
    shape = next((m for m in modifiers if m in WMMA_SHAPES), None)
    layout = next((m for m in modifiers if m in ("row", "col")), None)
    types = [m for m in modifiers if m in _TYPES]
    if operand is None or shape is None or layout is None or len(types) != 1:
        raise NoSuchMatrix("this fragment")
    inputs = WMMA_SHAPES[shape].split()
    if operand in ("c", "d") and types[0] not in {t for x in inputs for t in _ACCUMULATORS.get(x, ("s32",))}:
        raise NoSuchMatrix("this fragment")
    try:
        found = fragment("wmma", shape, types[0], operand)
    except ValueError:
        raise NoSuchMatrix("this fragment") from None
    if found.bits < 8 and layout != ("row" if operand == "a" else "col"):
        raise NoSuchMatrix("this layout")
    return Tile(found, layout)


def tile(i: Instruction) -> Tile:
    """The fragment and layout of a `wmma.load` or `wmma.store`; raises NoSuchMatrix."""
    return _tile(i.modifiers)


@cache
def _requests(f: Fragment, layout: str, shared: bool) -> tuple[Request, ...]:
    line, along = (f.positions[..., k] for k in ((0, 1) if layout == "row" else (1, 0)))
    registers = f.registers // f.copies
    side_by_side = f.elements == 1 or bool((line[..., 0] == line[..., -1]).all())
    found: list[Request] = []

    def add(lines: np.ndarray, first: np.ndarray, size: int) -> None:
        starts = first * f.bits // 8
        found.append(Request(tuple(map(int, lines)), tuple(map(int, starts)), size))

    if f.bits == 16 and not side_by_side:  # loaded as it lies in memory, then transposed between lanes
        lane = np.arange(WARP)
        for r in range(registers):
            add(line[:, r].min() + lane // 4, along[:, r].min() + 2 * (lane % 4), 4)
    elif side_by_side:
        step = 1
        if f.operand in ("c", "d") and f.elements == 1 and (along[:, 1, 0] == along[:, 0, 0] + 1).all():
            step = 2  # a lane's pair lies side by side: one wide access
        for r in range(0, registers, step):
            add(line[:, r, 0], along[:, r, 0], f.register_bits * step // 8)
    else:  # bytes across the lines
        for r in range(registers):
            for e in range(f.elements):
                add(line[:, r, e], along[:, r, e], f.bits // 8)
    if shared and f.operand in ("a", "b") and f.bits <= 16 and (side_by_side or f.bits == 16):
        height = min(16, f.rows if f.operand == "a" else f.columns) // 8
        along_k = (f.columns if f.operand == "a" else f.rows) * f.bits // 128
        each = height * along_k
        found = [Request(r.lines, r.starts, r.size, k % each == 0) for k, r in enumerate(found)]
    return tuple(found)
