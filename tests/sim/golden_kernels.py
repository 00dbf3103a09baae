"""How the golden kernels of `data/kernels.cu` are launched: run by the oracle, and recorded once on silicon."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

WORDS = 24
"""32-bit words of output per thread."""


@dataclass(frozen=True)
class Launch:
    """Grid, block, number of input words, what x and y hold ("f" floats, "u" random words, "F" doubles)."""

    grid: int
    block: int
    n: int
    x: str = "u"
    y: str = "u"
    shared_bytes: int = 0
    out_words: int = 0
    extra: bytes = b""
    """further parameters after n"""
    result: str = "u4"
    """NumPy type in which results are compared"""
    tolerance: float = 0.0
    """largest relative difference; 0 means equal bits"""


_PAIR = struct.pack("<i3f", 3, 0.5, 1.25, -2.0) + struct.pack("<d", 0.125)

LAUNCHES: dict[str, Launch] = {
    "calls": Launch(2, 48, 90, "f", "f", extra=_PAIR),
    "divergence": Launch(3, 40, 110),
    "reduction": Launch(3, 128, 1000, out_words=2),
    "memory_spaces": Launch(2, 64, 200, "f", "f", shared_bytes=256, result="f4"),
    "wide": Launch(2, 32, 230, "f", "F"),
    "integers": Launch(2, 64, 120),
    "math_float": Launch(2, 64, 128, "f", "f", result="f4", tolerance=1e-5),
    "math_double": Launch(2, 64, 128, "f", "f", result="f8", tolerance=1e-14),
    "halves": Launch(2, 64, 128, "f", "f"),
    "warps": Launch(2, 64, 128),
    "atomics": Launch(2, 64, 128, y="f", out_words=2 * WORDS + 10 + 128),
    "barriers": Launch(1, 64, 64),
    "trigonometry": Launch(1, 64, 64, "f", "f", result="f8", tolerance=1e-14),
    "async_copies": Launch(2, 64, 1000, "f", "f", result="f4"),
    "collectives": Launch(2, 96, 150),
}


def inputs(name: str) -> tuple[np.ndarray, np.ndarray]:
    """x and y as uint32 words."""
    launch = LAUNCHES[name]
    rng = np.random.default_rng(len(name) * 1000 + launch.n)
    return _words(rng, launch.x, launch.n), _words(rng, launch.y, launch.n)


def _words(rng: np.random.Generator, kind: str, n: int) -> np.ndarray:
    if kind == "u":
        words = rng.integers(0, 1 << 32, 4 * n, np.uint32, endpoint=False)
        words[::7] %= np.uint32(50)
        return words
    x = rng.standard_normal(4 * n) * 10.0 ** rng.integers(-1, 2, 4 * n)
    return x.astype(np.float64 if kind == "F" else np.float32).view(np.uint32)


def out_words(name: str) -> int:
    launch = LAUNCHES[name]
    return launch.out_words or launch.grid * launch.block * WORDS
