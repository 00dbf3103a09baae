"""How well the roofline bound ranks kernels: its order of the course's references against times measured on a GPU.

`benchmarks/estimate.py` computes the figures and writes them beside this module.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RECORD = Path(__file__).parent / "agreement.json"
TRUSTED = 0.9
"""From this rank correlation on kernels may be ranked by their bounds."""


@dataclass(frozen=True)
class Agreement:
    """Spearman's rank correlation of bounds with measured times, over so many kernels on one GPU."""

    gpu: str
    kernels: int
    rank_correlation: float

    def __str__(self) -> str:
        told = f"rank correlation {self.rank_correlation:.2f} with times measured on {self.gpu}"
        told += f", over {self.kernels} reference kernels"
        return told if self.rank_correlation >= TRUSTED else f"do not rank kernels by it: only {told}"


@functools.cache
def agreement() -> Agreement:
    """Return the recorded agreement."""
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    return Agreement(found["gpu"], found["kernels"], found["rank_correlation"])


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation; equal values share the mean of their ranks.

    Raises ValueError for fewer than two pairs, different lengths, or values that are all equal.
    """
    if len(first) != len(second) or len(first) < 2:
        raise ValueError(f"{len(first)} and {len(second)} values: a rank correlation needs two or more pairs")
    ranks = _ranks(first), _ranks(second)
    if any(np.ptp(one) == 0 for one in ranks):
        raise ValueError("values that are all equal have no order")
    return float(np.corrcoef(*ranks)[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    _, place, count = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]
