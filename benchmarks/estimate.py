"""How well the roofline bound ranks the course's references: bounds from counters against times measured on an H200.

    python benchmarks/estimate.py [--json FILE]

No GPU is needed: the times are those that `references.py`, `half_precision.py` and `tensor_cores.py` recorded. Each
step counts once, at the case that was timed. Its counters come from a smaller case on the simulator and are multiplied
by the ratio of work. Writes the table, and the correlation where `warpschool profile` finds it.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpschool.contract import parse_contract
from warpschool.counters import Counters
from warpschool.course import Course
from warpschool.errors import WarpschoolError
from warpschool.harness.launcher import Program, random_inputs
from warpschool.inspect.profile import array_bytes, full_gpu_estimate, usual_sizes
from warpschool.model.roofline import RECORD

RESULTS = Path(__file__).parent / "results"
GPU = "h200"
_LARGEST = {"M": 512, "N": 512, "K": 512, "n": 1 << 18}
"""What sizes are halved down to before the simulator runs."""


@dataclass(frozen=True)
class Measured:
    """A step's case and the time that it took on the GPU."""

    step: str
    sizes: Mapping[str, float]
    constants: Mapping[str, int]
    time_ms: float


def measured() -> Iterator[Measured]:
    """Return every step that was timed, once, at its first case."""
    steps = json.loads((RESULTS / "references_h200.json").read_text())["steps"]
    for name, row in steps.items():
        if row.get("gpu"):
            yield Measured(name, _sizes(row["gpu"]["case"]), {}, row["gpu"]["timing"]["median_ms"])
    seen = set(steps)
    for file in ("half_precision_h200.json", "tensor_cores_h200.json"):
        for row in json.loads((RESULTS / file).read_text())["rows"]:
            if row["step"] not in seen:
                seen.add(row["step"])
                yield Measured(row["step"], row["sizes"], row["constants"], row["time_ms"])


def bound_ms(case: Measured) -> tuple[float, str]:
    """(the bound on the GPU at the case, what limits it)."""
    path = Course.find().step(case.step).solution
    assert path is not None
    contract = parse_contract(path.read_text(encoding="utf-8"), name=path.name)
    usual = usual_sizes(contract)
    constants = dict(case.constants) | {name: int(v) for name, v in case.sizes.items() if name not in usual}
    scalars = usual | {name: v for name, v in case.sizes.items() if name in usual}
    whole = contract.bind(scalars, constants=constants)
    sizes, ratio = _smaller(scalars)
    small = contract.bind(sizes, constants=constants)
    program = Program(contract, device="sim", constants=constants)
    run = program.run(small.scalars, random_inputs(small, np.random.default_rng(0)))
    counters = Counters({name: count * ratio for name, count in run.counters.plain().items()})
    estimate = full_gpu_estimate(counters, GPU, array_bytes=array_bytes(whole))
    return estimate.time_ms, estimate.limited_by


def figures() -> dict[str, Any]:
    """Return the rows, what had to be left out and why, and the rank correlations."""
    rows: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    for case in measured():
        try:
            bound, limit = bound_ms(case)
        except WarpschoolError as error:
            left_out[case.step] = error.message
            print(f"{case.step}: left out: {error.message}", file=sys.stderr, flush=True)
            continue
        rows.append(
            {
                "step": case.step, "sizes": dict(case.sizes), "constants": dict(case.constants), "bound_ms": bound,
                "limited_by": limit, "time_ms": case.time_ms,
            }
        )  # fmt: skip
        print(f"{case.step}: {bound:.4g} of {case.time_ms:.4g} ms, {limit}", file=sys.stderr, flush=True)
    products = [row for row in rows if {row["sizes"].get(name) for name in "MNK"} == {4096}]
    return {
        "what": "roofline bounds against measured times", "gpu": GPU, "rows": rows, "left_out": left_out,
        "rank_correlation": _correlation(rows),
        "products_of_4096": {"kernels": len(products), "rank_correlation": _correlation(products)},
    }  # fmt: skip


def _correlation(rows: list[dict]) -> float:
    return round(spearman([row["bound_ms"] for row in rows], [row["time_ms"] for row in rows]), 4)


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


def _ranks(values: Sequence[float]) -> np.ndarray:
    _, place, count = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def _sizes(case: str) -> dict[str, float]:
    """Read "M = N = 64, alpha = 1.5" back; six digits are not all of a large size, which is a power of two."""
    found: dict[str, float] = {}
    for names, text in re.findall(r"((?:\w+ = )+)([-+.\w]+)", case):
        value = float(text)
        if "e+" in text:
            value = 2.0 ** round(math.log2(value))
        found |= {name: int(value) if value.is_integer() else value for name in re.findall(r"\w+", names)}
    return found


def _smaller(sizes: Mapping[str, float]) -> tuple[dict[str, float], int]:
    """(sizes halved until they are small, the ratio of work)."""
    found, ratio = dict(sizes), 1
    for name, most in _LARGEST.items():
        while found.get(name, 0) > most:
            found[name] = int(found[name]) // 2
            ratio *= 2
    return found, ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, default=RESULTS / "estimate_h200.json", help="where the figures go")
    arguments = parser.parse_args()
    result = figures()
    arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    short = {
        "gpu": "NVIDIA H200", "kernels": len(result["rows"]), "rank_correlation": result["rank_correlation"],
        "products_of_4096": result["products_of_4096"],
    }  # fmt: skip
    RECORD.write_text(json.dumps(short, indent=1) + "\n")
    print(f"{len(result['rows'])} references: rank correlation {result['rank_correlation']}")


if __name__ == "__main__":
    main()
