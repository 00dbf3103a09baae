"""How the tensor cores of a Hopper GPU add: what is known of their adders.

Facts and numbers: P. Xie et al., "MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores"
(arXiv:2511.10909); F. A. Khattak and M. Mikaitis, "Accurate Models of NVIDIA Tensor Cores" (arXiv:2512.07004). That no
term is aligned to less than `SMALLEST_EXPONENT`, and that what is cut to zero is +0, was read off an H200 by
`benchmarks/tensor_sums.py`, which records what a GPU makes of chosen numbers: with both every sum is equal.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxsim.fragments import ELEMENT_BITS

FORMATS = {"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 10), "e4m3": (4, 3), "e5m2": (5, 2), "f32": (8, 23)}
"""Type -> bits of its exponent and of its fraction."""
SMALLEST_EXPONENT = -133
"""Terms are never aligned to less: the exponent of bfloat16's smallest number."""
ORDERED, HOPPER = "ordered", "hopper"
TENSOR_SUMS = (ORDERED, HOPPER)
"""How products of tensor cores are added: along k, each step rounded to nearest, or as a Hopper GPU does."""
_GROUP_BITS = 256
"""Of a row of A that are added at once."""


@dataclass(frozen=True)
class Adder:
    """How a product adds: products of a group, bits of fraction kept of every term, and of the result."""

    group: int
    kept: int
    result: int


def adder(instruction: str, type_: str, d: str) -> Adder:
    """The adder of "mma" or "wgmma" for elements of a type: 8-bit numbers go through a narrow one in `wgmma`."""
    narrow = instruction == "wgmma" and ELEMENT_BITS[type_] == 8
    return Adder(_GROUP_BITS // ELEMENT_BITS[type_], 13 if narrow else 25, 10 if d == "f16" else 13 if narrow else 23)
