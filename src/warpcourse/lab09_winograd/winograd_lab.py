"""What the Winograd lab's notebook measures: errors of tiles, costs of stages, and what was recorded on GPUs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.harness.launcher import Program
from warpschool.nn import Convolution, convolve
from warpschool.nn.pipelines import run
from warpschool.nn.winograd import Matrices, convolve_in, matrices
from warpschool.nn.winograd_pipeline import Winograd
from warpschool.nn.winograd_source import sources
from warpschool.notebook.runs import program
from warpschool.show.table import Table, small_table

LAB = "lab09_winograd/"
DTYPES = (np.float64, np.float32, np.float16)
_Rows = Sequence[Sequence[Fraction]]


def right_results(found: tuple[_Rows, _Rows, _Rows] | None, m: int, r: int) -> int | None:
    """How many of the m results matrices (At, G, Bt) compute right, for every filter and all pixels; None for None.

    Exact: result i must be the sum over a of g[a] d[i + a], and that is a statement about each g[a] d[b] alone.
    """
    if found is None or any(rows is None for rows in found):
        return None
    at, g, bt = (np.array([[Fraction(x) for x in row] for row in rows], dtype=object) for rows in found)
    side = m + r - 1
    if (at.shape, g.shape, bt.shape) != ((m, side), (side, r), (side, side)):
        return 0
    whole = np.einsum("ik,ka,kb->iab", at, g, bt)
    wanted = np.array([[[int(b == i + a) for b in range(side)] for a in range(r)] for i in range(m)])
    return sum(bool((whole[i] == wanted[i]).all()) for i in range(m))


def errors_by_tile(
    tiles: Sequence[int], r: int = 3, *, channels: int = 64, seed: int = 0
) -> dict[str, list[float | None]]:
    """Largest errors of F(m x m, r x r), of the largest result, for each m and precision; None where it overflows."""
    size = 24 + r - 1
    problem = Convolution(batch=1, channels=channels, height=size, width=size, filters=8, rows=r, cols=r)
    x, w = problem.arrays(np.random.default_rng(seed))
    exact = convolve(x, w)
    found: dict[str, list[float | None]] = {}
    for dtype in DTYPES:
        with np.errstate(over="ignore", invalid="ignore"):
            results = [convolve_in(x, w, matrices(m, r), dtype=dtype) for m in tiles]
        worst = [float(np.abs(y - exact).max() / np.abs(exact).max()) for y in results]
        found[np.dtype(dtype).name] = [error if np.isfinite(error) else None for error in worst]
    return found


def own_pipeline(exact: Matrices | None = None, *, device: str = "sim") -> Winograd:
    """The student's own four kernels; the transforms are written from `exact` where that is given."""
    product = program(f"{LAB}03_batched_gemm", device=device)
    if exact is None:
        steps = ("01_filter_transform", "02_input_transform", "04_output_transform")
        filters, images, results = (program(LAB + step, device=device) for step in steps)
    else:
        filters, images, results = (
            Program(parse_contract(text, name=name), device=device) for name, text in sources(exact).items()
        )
    return Winograd(filters=filters, images=images, product=product, results=results)


def stage_costs(pipeline: Winograd, problem: Convolution, *, seed: int = 0) -> Table:
    """What each kernel of a pipeline costs on the simulator, and the products against those of direct convolution."""
    x, w = problem.arrays(np.random.default_rng(seed))
    done = run(pipeline, x, w, pad=problem.pad)
    rows = []
    for launch in done.launches:
        c = launch.counters
        adds = c.fadd_instructions + c.fmul_instructions
        counts = (c.fma_instructions, adds, c.global_load_bytes, c.global_store_bytes)
        rows.append((launch.kernel, *(f"{count:,}" for count in counts)))
    error = np.abs(pipeline.device.asnumpy(done.y) - convolve(x, w, pad=problem.pad)).max()
    products = sum(launch.counters.fma_instructions for launch in done.launches if launch.kernel == "batched_gemm")
    note = (
        f"{pipeline.exact}: {products:,} products, direct convolution {problem.products:,}: "
        f"{problem.products / max(1, products):.2f} times as many. Largest error {error:.1e}."
    )
    return small_table(("kernel", "multiply-adds", "other operations", "bytes loaded", "bytes stored"), rows, note)


def recorded(*, course: Course | None = None) -> Table:
    """The layers in benchmarks/results/winograd_*.json against cuDNN; empty where the course carries none."""
    root = (course or Course.find()).root
    rows, notes = [], []
    for path in sorted((root / "benchmarks" / "results").glob("winograd_*.json")):
        result = json.loads(path.read_text("utf-8"))
        rows += [_recorded_row(row) for row in result["rows"]]
        notes.append(result["device"])
    header = ("layer", "method", "ms", "cuDNN ms", "ours / cuDNN", "largest error", "cuDNN's")
    return small_table(header, tuple(rows), f"Recorded on {', '.join(notes)}." if notes else "Nothing recorded.")


def _recorded_row(row: Mapping[str, Any]) -> tuple[Any, ...]:
    shown: tuple[tuple[str, Callable[[float], str]], ...] = (
        ("time_ms", "{:.3f}".format), ("cudnn_ms", "{:.3f}".format), ("ratio", "{:.2f}".format),
        ("max_error", "{:.0e}".format), ("cudnn_error", "{:.0e}".format),
    )  # fmt: skip
    return (row["layer"], row["method"], *(write(row[name]) for name, write in shown))
