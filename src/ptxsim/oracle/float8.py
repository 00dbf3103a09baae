"""Numbers of 8 bits, two in a register: e4m3 and e5m2 (PTX ISA 5.2.3, 9.7.9.21), by tables of all their values."""

from __future__ import annotations

import numpy as np

from ptxsim.oracle.floating import relu
from ptxsim.oracle.values import canonical
from ptxsim.syntax.program import Instruction

NAN = 0x7F


def _values(fraction_bits: int, bias: int, finite: int) -> np.ndarray:
    """The numbers of the codes 0 .. finite - 1."""
    code = np.arange(finite)
    exponent, fraction = code >> fraction_bits, (code & (1 << fraction_bits) - 1) / (1 << fraction_bits)
    return np.where(exponent == 0, np.ldexp(fraction, 1 - bias), np.ldexp(1 + fraction, exponent - bias))


VALUES = {"e4m3x2": _values(3, 7, 0x7F), "e5m2x2": _values(2, 15, 0x7C)}
"""Finite numbers above or equal to zero by code. Above them: infinity (e5m2 alone), and what is no number."""


def encoded(i: Instruction, x: np.ndarray, to: str) -> np.ndarray:
    """Pairs of numbers, shape (..., 2), rounded to nearest, ties to the even code; infinity becomes the largest."""
    x = relu(x) if i.has("relu") else x
    table = VALUES[to]
    size = np.minimum(np.abs(x.astype(np.float64)), table[-1])
    above = np.clip(np.searchsorted(table, size), 1, len(table) - 1)
    down, up = size - table[above - 1], table[above] - size
    code = np.where((down < up) | ((down == up) & (above % 2 == 1)), above - 1, above)
    code = np.where(np.isnan(x), NAN, code | np.where(np.signbit(x), 0x80, 0)).astype(np.uint16)
    return code[..., 0] | code[..., 1] << np.uint16(8)


def decoded(i: Instruction, pair: np.ndarray, of: str) -> np.ndarray:
    """Pairs of 8-bit numbers as f16, shape (..., 2)."""
    code = np.stack([pair & 0xFF, pair >> 8], axis=-1).astype(np.int64)
    table = np.concatenate([VALUES[of], [np.inf] if of == "e5m2x2" else [], np.full(4, np.nan)])
    x = np.where(code >= 0x80, -1.0, 1.0) * table[code & 0x7F]
    return canonical((relu(x) if i.has("relu") else x).astype(np.float16), "f16")
