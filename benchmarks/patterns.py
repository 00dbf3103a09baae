"""Lab 15's scan over all blocks against a copy of the same array: both read and write each element once.

    python benchmarks/patterns.py [--out FILE] [--seconds 0.5]

The reference of 04_look_back, and the same with flag and number in one word (kernels/look_back_packed.cu), are compared
with a float64 sum, then timed in turns with a copy, L2 flushed; zeroing what their blocks share is in their time.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import Bench, Step, cupy

import warpschool as ws
from warpschool.device.measurement import Rules

STEP = "lab15_patterns/04_look_back"
PACKED = Path(__file__).with_name("kernels") / "look_back_packed.cu"
TILE, THREADS = 4096, 256
SIZES = (1 << 20, 1 << 24, (1 << 26) + 12_345, 1 << 28)


def reference(x: Any, y: Any) -> tuple[Callable[[], None], int]:
    """The step's launch with its zeroed arrays, and its registers."""
    step, n = Step(STEP), x.size
    tiles = -(-n // TILE)
    state = cupy.zeros(tiles + 1, cupy.int32)
    sums = cupy.empty((2, tiles), cupy.float32)
    arrays = {"x": x, "y": y, "ticket": state[:1], "flag": state[1:], "sum": sums[0], "prefix": sums[1]}
    launch = step.work({"n": n, "first": 0}, arrays)

    def work() -> None:
        state.fill(0)
        launch()

    return work, step.registers


def packed(x: Any, y: Any) -> tuple[Callable[[], None], int]:
    """The same with one word for each tile."""
    kernel = ws.RawModule(code=PACKED.read_text("utf-8"), name=PACKED.name, device="gpu").get_function("scan")
    n = x.size
    tiles = -(-n // TILE)
    words = cupy.zeros(tiles + 1, cupy.uint64)

    def work() -> None:
        words.fill(0)
        kernel((tiles,), (THREADS,), (x, y, words[:1].view(cupy.int32), words[1:], np.int32(n)))

    return work, int(kernel.attributes["num_regs"])


def main() -> None:
    """Check and time both at all sizes, print a line for each, write all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    parser.add_argument("--seconds", type=float, default=0.5, help="at most this long for one measurement")
    options = parser.parse_args()
    bench = Bench(Rules(max_seconds=options.seconds, target_error=0.005, min_samples=10))
    for n in SIZES:
        x = cupy.random.uniform(-1, 1, n, dtype=cupy.float32)
        exact, y, copy = cupy.cumsum(x, dtype=cupy.float64), cupy.empty_like(x), cupy.empty_like(x)
        for name, build in ((STEP, reference), ("look back, flag and number in one word", packed)):
            work, registers = build(x, y)
            y.fill(cupy.nan)
            work()
            error = float(cupy.abs(y - exact).max() / cupy.abs(exact).max())
            if not error < 1e-4:
                raise ArithmeticError(f"{name}, n = {n}: an error of {error:.2g} of the largest sum")
            bench.add(
                "scan", name, {"n": n}, work, partial(cupy.copyto, copy, x), error=error,
                amount=8.0 * n, against="a copy", unit="TB/s", registers=registers,
            )  # fmt: skip
        del x, exact, y, copy
        cupy.get_default_memory_pool().free_all_blocks()
    if options.out:
        device = ws.get_device("gpu")
        result = {
            "what": "scans against a copy", "device": device.description, "cuda_driver": device.driver,
            "flush": "L2 flushed before each sample", "rows": [asdict(row) for row in bench.rows],
        }  # fmt: skip
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
