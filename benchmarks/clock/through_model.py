"""Microbenchmarks of register banks, pipes and branches through the clock's model, beside what the GPU took.

    python benchmarks/clock/through_model.py [--only TEXT]     (after driver.py build: it reads those cubins)

Each row is a row of benchmarks/results/clock_h200.json, measured the same way: long loop less short one. No constant is
changed by it; it shows which mechanism the model lacks.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import statistics
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]
from driver import CUBINS, OUT, groups
from micro import Row

from warpschool.clock.cubin import listing
from warpschool.clock.machine import find_machine
from warpschool.clock.predict import predict_launch
from warpschool.clock.program import Program, encode
from warpschool.clock.sass import read_functions
from warpschool.clock.trace import KernelLaunch
from warpschool.errors import WarpschoolError

PLACE, DATA, ROOM = 1 << 20, (1 << 20) + (1 << 16), 1 << 17
PASSES = 2
"""of a kernel over its loop; the GPU times the second one"""
RESERVED = 1024
"""bytes of shared memory that each block of this GPU loses"""
FAMILIES = ("banks/", "mix/", "/rate", "branch/")


@functools.cache
def _program(group: str, kernel: str) -> Program:
    code = (CUBINS / f"{group}.cubin").read_bytes()
    return encode(read_functions(code, listing(code), file=f"{group}.cu", reserved=RESERVED)[kernel])


def _cycles(row: Row, group: str, kernel: str, loops: int) -> float:
    params: list[np.generic] = [np.uint64(PLACE), np.uint64(DATA), *(np.int32(n) for n in (loops, *row.args))]
    launch = KernelLaunch((1, 1, 1), (row.threads, 1, 1), params, arrays=[(PLACE, np.zeros(ROOM, np.uint8))])
    return predict_launch(_program(group, kernel), launch, find_machine("h200"), warm=True).cycles


def predicted(row: Row, group: str) -> float:
    """The model's figure for a row. Raises WarpschoolError where it cannot follow the kernel."""
    if row.minus:
        spent = _cycles(row, group, row.kernel, row.loops) - _cycles(row, group, row.minus, row.loops)
    else:  # what the kernel does besides its loop is left out by a longer one
        spent = _cycles(row, group, row.kernel, 2 * row.loops) - _cycles(row, group, row.kernel, row.loops)
    return spent / PASSES / row.per * row.scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows with this in their names")
    options = parser.parse_args()
    measured = {row["name"]: row["value"] for row in json.loads(OUT.read_text(encoding="utf-8"))["rows"]}
    kernels, rows = groups()
    where = {kernel.name: group for group, some in kernels.items() for kernel in some}
    errors = []
    for row in rows:
        wanted = row.reduce == "span" and row.blocks == 1 and any(family in row.name for family in FAMILIES)
        if not wanted or options.only not in row.name or row.name not in measured:
            continue
        try:
            found = predicted(row, f"banks_{row.variant}" if row.variant else where[row.kernel])
        except WarpschoolError as error:
            print(f"{row.name:48s} {measured[row.name]:9.3f}        - {error.message}", flush=True)
            continue
        print(f"{row.name:48s} {measured[row.name]:9.3f} {found:9.3f}", flush=True)
        errors.append(abs(math.log(found / measured[row.name])) if found > 0 else math.inf)
    if not errors:
        raise SystemExit(f"no row of {', '.join(FAMILIES)} has {options.only!r} in its name")
    print(f"{len(errors)} rows, median error {math.expm1(statistics.median(errors)):.1%}")


if __name__ == "__main__":
    main()
