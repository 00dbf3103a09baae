"""Products of a warpgroup, read: what `wgmma.mma_async` multiplies, and where its operands lie (PTX ISA 9.7.15).

Four warps compute 64 rows together, each of them 16, and the four need nothing of each other's: for the simulator one
`wgmma.mma_async` is a product of 16 rows by each warp, `m16nNkK`. Registers of D, and of A where it is in registers,
are spread like those of `mma` (figures of PTX ISA 9.7.15.5.1), with more columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ptxsim.fragments import WARPGROUP_DEPTHS, Fragment, dimensions, fragment
from ptxsim.syntax.matrices import NoSuchMatrix
from ptxsim.syntax.program import Instruction, Operand, Vector

ROWS = 64
"""of a warpgroup's product; a warp computes a quarter of them"""
_ACCUMULATORS = {
    "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "e4m3": ("f16", "f32"), "e5m2": ("f16", "f32"),
    "s8": ("s32",), "u8": ("s32",), "b1": ("s32",),
}  # fmt: skip
_TURNED = ("f16", "bf16")
"""Types of operands that may lie along M or N in memory."""


@dataclass(frozen=True)
class WarpgroupProduct:
    """D = A * B + D, or A * B; the warp's part of it."""

    shape: str
    """m16nNkK"""
    d: str
    a: str
    b: str
    saturates: bool = False

    @property
    def columns(self) -> int:
        return dimensions(self.shape)[1]

    @property
    def depth(self) -> int:
        return dimensions(self.shape)[2]

    def fragment(self, operand: str) -> Fragment:
        """The layout of "d" or "a" in a warp's registers."""
        return fragment("wgmma", self.shape, getattr(self, operand), operand)

    @property
    def operations(self) -> int:
        """Multiplications and additions of one execution by a warp."""
        m, n, k = dimensions(self.shape)
        return 2 * m * n * k


def _columns_fit(n: int, a: str) -> bool:
    if not 8 <= n <= 256 or n % 8:
        return False
    return a not in ("s8", "u8", "b1") or n in (8, 24) or n % 16 == 0


@cache
def _product(modifiers: tuple[str, ...]) -> WarpgroupProduct:
    shape = next((m for m in modifiers if m.startswith("m64n")), "")
    types = [m for m in modifiers if m in _ACCUMULATORS or m in ("f32", "s32")]
    if not shape or len(types) != 3:
        raise NoSuchMatrix("this shape")
    d, a, b = types
    try:
        _, n, k = dimensions(shape)
    except ValueError:
        raise NoSuchMatrix("this shape") from None
    if a not in _ACCUMULATORS or WARPGROUP_DEPTHS[a] != k or not _columns_fit(n, a):
        raise NoSuchMatrix("this shape")
    alike = a == b or {a, b} in ({"s8", "u8"}, {"e4m3", "e5m2"})
    if not alike or d not in _ACCUMULATORS[a]:
        raise NoSuchMatrix("these types")
    saturates = "satfinite" in modifiers
    if saturates and a not in ("s8", "u8"):
        raise NoSuchMatrix("saturation of these types")
    if (a == "b1") != ("and" in modifiers and "popc" in modifiers):
        raise NoSuchMatrix("this operation")
    return WarpgroupProduct(f"m16n{n}k{k}", d, a, b, saturates)


def warpgroup_product(i: Instruction) -> WarpgroupProduct:
    """The product of a `wgmma.mma_async`; raises NoSuchMatrix."""
    return _product(i.modifiers)


@dataclass(frozen=True)
class Sources:
    """The operands of a `wgmma.mma_async` behind D."""

    a: Operand
    """a vector of registers, or the register of a descriptor"""
    b: Operand
    adds: Operand
    """scale-d: whether D's old value is added"""
    signs: tuple[int, int]
    """by which A and B are multiplied, 1 or -1"""
    turned: tuple[bool, bool]
    """whether A lies along M in memory, and B along N"""

    @property
    def a_in_registers(self) -> bool:
        return isinstance(self.a, Vector)


def sources(i: Instruction) -> Sources:
    """The operands by name; those that an instruction of its type has not are as if they did nothing."""
    p = warpgroup_product(i)
    _, a, b, adds, *immediates = i.operands
    numbers = [o.bits if hasattr(o, "bits") else 1 for o in immediates]
    signs, turned = (1, 1), (False, False)
    if p.a not in ("s8", "u8", "b1"):
        signs = (_sign(numbers[0]), _sign(numbers[1]))
    if p.a in _TURNED:
        flags = [bool(n) for n in numbers[2:]]
        turned = (False, flags[0]) if isinstance(a, Vector) else (flags[0], flags[1])
    return Sources(a, b, adds, signs, turned)


def _sign(bits: int) -> int:
    return -1 if bits & 0xFFFFFFFF == 0xFFFFFFFF else 1


def immediates_of(p: WarpgroupProduct, *, a_in_registers: bool) -> int:
    """How many immediate operands follow scale-d."""
    if p.a in ("s8", "u8", "b1"):
        return 0
    if p.a in _TURNED:
        return 3 if a_in_registers else 4
    return 2


# ---------------------------------------------------------------- descriptors


SWIZZLE_BYTES = (0, 128, 64, 32)
"""By the top two bits of a descriptor."""


@dataclass(frozen=True)
class MatrixDescriptor:
    """Where an operand lies in shared memory (PTX ISA, "Matrix Descriptor Format" of wgmma); all in bytes."""

    start: int
    leading: int
    stride: int
    base: int
    """of the swizzle's pattern: which row of eight the first one is"""
    swizzle: int

    @classmethod
    def decode(cls, bits: int) -> MatrixDescriptor:
        """The descriptor that a 64-bit register is."""
        fields = [(bits >> shift & 0x3FFF) << 4 for shift in (0, 16, 32)]
        return cls(fields[0], fields[1], fields[2], bits >> 49 & 7, SWIZZLE_BYTES[bits >> 62 & 3])
