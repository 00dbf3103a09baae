"""One judged run of a kernel: what the cases of several labs hand to their criteria."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpschool.counters import Counters
from warpschool.grading.submission import Submission
from warpschool.harness.launcher import RunResult


@dataclass(frozen=True, eq=False)
class Case:
    """What a run was given, and what came of it."""

    sizes: Mapping[str, Any]
    """integers, and floats where the kernel takes some"""
    arrays: Mapping[str, np.ndarray]
    run: RunResult

    @property
    def counters(self) -> Counters:
        return self.run.counters

    @property
    def operations(self) -> int:
        """Additions, multiplications and multiply-adds of all threads, each counted as one."""
        counters = self.counters
        return counters.fma_instructions + counters.fadd_instructions + counters.fmul_instructions


def run_case(
    kernel: Submission, rng: np.random.Generator, sizes: Mapping[str, Any],
    constants: Mapping[str, int] | None = None, **given: np.ndarray,
) -> Case:  # fmt: skip
    """Run with constants that differ from the file's own only; arrays that are not given are random."""
    own = kernel.contract.declarations.constexpr_values({})
    changed = {name: value for name, value in (constants or {}).items() if own.get(name) != value}
    arrays = kernel.inputs(sizes, rng, constants=changed, **given)
    return Case(sizes, arrays, kernel.run(sizes, arrays, constants=changed))
