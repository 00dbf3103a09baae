"""Lab 09: errors of Winograd's tiles, costs of stages, what was recorded on GPUs, and pictures of tiles that overlap or
begin outside the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from warpcourse.lessons import BLUE, GREEN, GREY, ORANGE, RED
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.harness.launcher import Program
from warpschool.nn import Convolution, convolve
from warpschool.nn.pipelines import Winograd, run
from warpschool.nn.winograd import Matrices, convolve_in, matrices, sources
from warpschool.notebook.runs import program
from warpschool.recorded import beside_best
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
    note = f"{pipeline.exact}: no products yet, so that there is nothing to compare."
    if products:
        note = (
            f"{pipeline.exact}: {products:,} products, direct convolution {problem.products:,}: "
            f"{problem.products / products:.2f} times as many. Largest error {error:.1e}."
        )
    return small_table(("kernel", "multiply-adds", "other operations", "bytes loaded", "bytes stored"), rows, note)


def recorded(*, course: Course | None = None) -> Table:
    """The layers in benchmarks/results/winograd_*.json against cuDNN, twice; empty where the course carries none."""
    found = beside_best("winograd", course=course)
    rows = [
        (
            row["layer"], row["method"], f"{row['time_ms']:.3f}", f"{row['cudnn_ms']:.3f}", f"{row['ratio']:.2f}",
            f"{row['best']['time_ms']:.3f}", f"{row['best']['ratio']:.2f}", row["best"]["name"],
            f"{row['max_error']:.0e}", f"{row['best']['error']:.0e}",
        )
        for row in (found["rows"] if found else ())
    ]  # fmt: skip
    head = ("layer", "method", "ms", "PyTorch's choice", "ours / it", "cuDNN's fastest", "ours / it", "which it is",
            "largest error", "the fastest's")  # fmt: skip
    said = "PyTorch {torch} calls cuDNN {cudnn} in benchmark mode; beside it cuDNN's fastest algorithm. On an {device}."
    return small_table(head, rows, said.format(**found) if found else "Nothing recorded.")


# ---------------------------------------------------------------- pictures


_COLOURS = (BLUE, ORANGE, GREEN, RED)


def draw_overlap(size: int, *, tile: int = 4, r: int = 3, pad: int = 1) -> Figure:
    """An image of size x size with `pad` zeros around it, and the pixels that its first four tiles read."""
    side = tile + r - 1
    count = -(-(size + 2 * pad - r + 1) // tile)
    figure, axes = plt.subplots(figsize=(4, 4))
    extent = max(size + 2 * pad, (count - 1) * tile + side)
    _grid(axes, extent, inside=range(pad, pad + size))
    for number in range(4):
        corner = (number % 2 * tile + 0.1 * number, number // 2 * tile + 0.1 * number)
        axes.add_patch(Rectangle(corner, side, side, fill=False, edgecolor=_COLOURS[number], linewidth=2.5))
    axes.set_title(
        f"{size} x {size} pixels, zeros in grey: {count} x {count} tiles,\n{side} x {side} pixels for {tile} x {tile} "
        "results", fontsize=9,
    )  # fmt: skip
    figure.tight_layout()
    return figure


def draw_shift(size: int, *, tile: int = 4, pool: int = 2, crops: Sequence[int] = (0, 1)) -> Figure:
    """The results of size x size, one panel for each crop: tiles in black, windows of the pooling in colours."""
    figure, panels = plt.subplots(1, len(crops), figsize=(4 * len(crops), 4.2), squeeze=False)
    for axes, crop in zip(panels[0], crops, strict=True):
        count = -(-(size + 2 * crop) // tile)
        _grid(axes, count * tile, inside=range(crop, crop + size))
        across = 0
        for row in range(size // pool):
            for col in range(size // pool):
                x, y = crop + col * pool, crop + row * pool
                split = any(first // tile != (first + pool - 1) // tile for first in (x, y))
                across += split
                axes.add_patch(Rectangle((x + 0.12, y + 0.12), pool - 0.24, pool - 0.24, fill=False,
                                         edgecolor=RED if split else BLUE, linewidth=1.5))  # fmt: skip
        for line in range(0, count * tile + 1, tile):
            axes.plot([line, line], [0, count * tile], color="black", linewidth=2)
            axes.plot([0, count * tile], [line, line], color="black", linewidth=2)
        axes.set_title(f"CROP = {crop}: {count} x {count} tiles, {across} windows across tiles (red)", fontsize=9)
    figure.tight_layout()
    return figure


def _grid(axes: Axes, extent: int, *, inside: range) -> None:
    """extent x extent cells, those outside `inside` grey."""
    for row in range(extent):
        for col in range(extent):
            colour = "white" if row in inside and col in inside else GREY
            axes.add_patch(Rectangle((col, row), 1, 1, facecolor=colour, edgecolor="#dddddd", linewidth=0.5))
    axes.set(xlim=(-0.2, extent + 0.5), ylim=(extent + 0.5, -0.2), xticks=[], yticks=[], aspect="equal")
