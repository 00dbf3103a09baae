"""Runs the kernels of `kernels_triton.py` on the simulator, compares them with NumPy, and writes down what they count.

    python benchmarks/triton_kernels.py [--write]

`--write` keeps the rows in benchmarks/results/triton.json, of which `scripts/triton_page.py` makes the table in
docs/learn/triton.md. No GPU is needed; Triton is (`pip install 'warpschool[triton]'`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import triton
from kernels_triton import Example, examples, product

import warpschool as ws
from warpschool.contract import parse_contract
from warpschool.counters import Counters
from warpschool.course import Course
from warpschool.harness.launcher import Program, random_inputs

RESULT = Path(__file__).parent / "results" / "triton.json"
COUNTED = (
    "warp_instructions", "global_load_requests", "global_load_sectors", "async_copy_requests", "shared_load_requests",
    "shared_load_wavefronts", "shared_store_requests", "shared_bank_conflicts", "barriers", "tensor_instructions",
)  # fmt: skip
STEP = "lab07_tensor_cores/05_mma_ptx"
SIDE, RAGGED, TILES = 256, 250, {"BM": 64, "BN": 64, "BK": 32, "HOW": "ieee"}


def run(example: Example) -> dict[str, Any]:
    """Launch one; its row. Raises ArithmeticError where NumPy disagrees or a hazard was found."""
    kernel = ws.TritonKernel(example.function, device="sim")
    arrays = {name: kernel.device.asarray(value.copy()) for name, value in example.arrays.items()}
    given = [arrays.get(one, one) if isinstance(one, str) else one for one in example.arguments]
    launch = kernel[example.grid](*given, **example.constants)
    error = max(float(np.abs(arrays[name].get() - found).max()) for name, found in example.answer.items())
    if not error <= example.tolerance or launch.hazards:
        raise ArithmeticError(f"{example.name}: off by {error:.3g}; {[*map(str, launch.hazards)]}")
    made = kernel.compile(*given, **example.constants)
    return {
        "kernel": example.name, "constants": {key: str(value) for key, value in example.constants.items()},
        "threads": made.threads, "shared_bytes": made.shared_bytes, "error": error, "tolerance": example.tolerance,
        **counted(launch.counters),
    }  # fmt: skip


def counted(counters: Counters) -> dict[str, int]:
    """The counters of a row."""
    return {name: int(getattr(counters, name)) for name in COUNTED}


def products() -> Iterator[dict[str, Any]]:
    """The tiled product in halves: Triton's with one stage and with three, at a ragged size too; the course's step."""
    for side, stages in ((SIDE, 1), (SIDE, 3), (RAGGED, 3)):
        rng = np.random.default_rng(0)
        kernel = ws.TritonKernel(product, device="sim")
        a, b = (kernel.device.asarray(rng.normal(size=(side, side)).astype(np.float16)) for _ in range(2))
        c = kernel.device.empty((side, side), np.float32)
        blocks = -(-side // 64)
        launch = kernel[blocks, blocks](a, b, c, side, side, side, **TILES, num_stages=stages)
        yield {"name": f"Triton, num_stages={stages}", "side": side, **counted(launch.counters)}
    step = Course(Path(__file__).parents[1]).step(STEP)
    assert step.solution is not None
    contract = parse_contract(step.solution.read_text("utf-8"), name=step.file_name)
    sizes = {"M": SIDE, "N": SIDE, "K": SIDE}
    run = Program(contract, device="sim").run(sizes, random_inputs(contract.bind(sizes)))
    yield {"name": STEP, "side": SIDE, **counted(run.launches[0].counters)}


def main() -> int:
    """Run all, print a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="keep the rows")
    options = parser.parse_args()
    rows = []
    for example in examples():
        rows.append(run(example))
        print(f"{example.name:16s} off by {rows[-1]['error']:.2g}", flush=True)
    if options.write:
        what = {
            "what": "kernels in Triton on the simulator",
            "triton": triton.__version__,
            "rows": rows,
            "products": [*products()],
        }
        RESULT.write_text(json.dumps(what, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
