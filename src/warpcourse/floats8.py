"""Floats of 8 bits, type e4m3: a sign, 4 bits of exponent, 3 of fraction; no infinity, and 448 is the largest.

NumPy has no such type: arrays hold their bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

LARGEST = 448.0
_BIAS = 7


def _positive() -> npt.NDArray[np.float64]:
    """The value of each code from 0 to 126; 127 is NaN."""
    code = np.arange(127)
    exponent, fraction = code >> 3, code & 7
    normal = (8 + fraction) * 2.0 ** (exponent - _BIAS - 3)
    return np.where(exponent > 0, normal, fraction * 2.0 ** (1 - _BIAS - 3))


_POSITIVE = _positive()
_MIDDLES = (_POSITIVE[1:] + _POSITIVE[:-1]) / 2
VALUES = np.concatenate([_POSITIVE, [np.nan], -_POSITIVE, [np.nan]])
"""What each of the 256 bytes stands for."""


def encode(x: npt.ArrayLike) -> Bytes:
    """The nearest e4m3, of two as near the even one; past 448 it is 448, as `cvt.satfinite` has it."""
    numbers = np.asarray(x, np.float64)
    size = np.abs(numbers)
    low = np.searchsorted(_MIDDLES, size, side="left")  # in the middle: the lower of the two
    tied = (low < len(_MIDDLES)) & (_MIDDLES[np.minimum(low, len(_MIDDLES) - 1)] == size)
    code = low + (tied & (low % 2 == 1))
    code = np.where(np.isnan(numbers), 127, code) | np.where(np.signbit(numbers), 128, 0)
    return code.astype(np.uint8)


def decode(codes: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The numbers that these bytes stand for."""
    found: npt.NDArray[np.float64] = VALUES[np.asarray(codes, np.uint8)]
    return found
