"""The figures of docs/learn/lab08.md: what each way to convolve loads, stores and takes; how often a pixel is read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scripts import book_runs as runs
from scripts.book_pictures import BLUE, ORANGE, PAPER, blues, draw_map, svg

import warpschool as ws
from warpcourse.lab08_convolution import LAYERS, operations
from warpschool.contract import Contract, parse_contract
from warpschool.course import Course
from warpschool.harness.launcher import Program, random_inputs
from warpschool.inspect.accesses import trace
from warpschool.nn import pipelines
from warpschool.recorded import beside_best, results

ROOT = Path(__file__).resolve().parents[1]
COURSE = Course(ROOT)
LAB = "lab08_convolution"
STEPS = ("01_direct", "03_direct_shared", "06_im2col_gemm", "07_implicit_gemm", "12_register_tiles")
PREDICTED_BATCH = 64
MISTAKES = tuple(f"{LAB}/{name}" for name in (
    "01_direct/no_padding", "03_direct_shared/halo_forgotten", "03_direct_shared/no_barrier_after_product",
    "03_direct_shared/dense_rows", "05_im2col/lanes_down_a_column", "07_implicit_gemm/edges_forgotten",
))  # fmt: skip
WINDOWS = (1, 3, 5, 7, 11)


def _contract(step: str) -> Contract:
    solution = COURSE.step(f"{LAB}/{step}").solution
    assert solution is not None
    return parse_contract(solution.read_text("utf-8"), name=solution.name)


def _fixed(step: str) -> dict[str, int]:
    return {"FILTER_R": 5, "FILTER_S": 5} if step.startswith("12") else {}


def counts_table() -> str:
    """Each way at the two layers of the digits' network, for 4 images."""
    lines = ["| step | layer | products a loaded float | load sectors used | store sectors used | stored, in outputs |"]
    lines.append("|---|---|---:|---:|---:|---:|")
    for step in STEPS:
        for layer, problem in LAYERS.items():
            x, w = problem.arrays(np.random.default_rng(1))
            own = pipelines.OneFile(Program(_contract(step), device="sim", constants=_fixed(step)))
            c = pipelines.run(own, x, w).counters
            outputs = problem.products // problem.terms
            lines.append(
                f"| {step[:2]} | {layer} | {problem.products / (c.global_load_bytes / 4):.1f} "
                f"| {c.global_load_efficiency:.0%} | {c.global_store_efficiency:.0%} "
                f"| {c.global_store_bytes / 4 / outputs:.3g} |"
            )
    return "\n".join(lines)


def times_table() -> str:
    """Predicted for some images; recorded for 10,000 where there is a record."""
    found = beside_best("convolution", course=COURSE)
    rows = [row for row in found["rows"] if row["section"] == "digits"] if found else []
    chip = found["device"] if found else "a GPU"
    ladders = results("digits_ladder_*.json", course=COURSE)
    ladder = next((one for one in ladders if one["device"] == chip), {"rows": ()})
    alone = {(row["layer"], row["way"]): row["time_ms"] for row in ladder["rows"]}
    head = f"| step | layer | predicted, {PREDICTED_BATCH} images | commonest state "
    lines = [f"{head}| measured on an {chip}, 10,000 images | of PyTorch's choice | of cuDNN's fastest |"]
    lines.append("|---|---|---:|---|---:|---:|---:|")
    for step in ("01_direct", "03_direct_shared", "07_implicit_gemm", "12_register_tiles"):
        for number, (layer, problem) in enumerate(LAYERS.items(), start=1):
            sizes = {
                "BATCH": PREDICTED_BATCH, "C": problem.channels, "H": problem.height, "W": problem.width,
                "F": problem.filters, "R": 5, "S": 5, "STRIDE": 1, "PAD": 0,
            }  # fmt: skip
            solution = str(COURSE.step(f"{LAB}/{step}").solution)
            told = ws.predict_time(solution, sizes, gpu="h200", constants=_fixed(step))
            assert told.us is not None, told.reason
            longest = max(told.launches, key=lambda launch: launch.us or 0.0)
            state, share = max(longest.states.items(), key=lambda item: item[1])
            row = next((r for r in rows if r["step"] == f"{LAB}/{step}" and r["layer"] == f"conv{number}"), None)
            time = row["time_ms"] if row else alone.get((str(number), step))
            cells = f"{time:.2f} ms | " if time else " | "
            cells += f"{row['ratio']:.2f} | {row['best']['ratio']:.2f}" if row else " | "
            lines.append(f"| {step[:2]} | {layer} | {told.us:.1f} us | {state} {share:.0%} | {cells} |")
    return "\n".join(lines)


def costs_table() -> str:
    """What an unrolled image of 64 x 32 x 32 takes, and operations direct and by frequencies for 64 filters."""
    channels, size = 64, 32
    found = operations(windows=WINDOWS, channels=channels, size=size)
    lines = ["| window | image | unrolled | times as large | direct, million operations | by frequencies |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for r, direct, fourier in zip(WINDOWS, found["direct"], found["frequencies"], strict=True):
        image, unrolled = channels * size * size * 4, channels * r * r * size * size * 4
        lines.append(
            f"| {r} x {r} | {image / 1e6:.2f} MB | {unrolled / 1e6:.2f} MB | {unrolled // image} | {direct:,.0f} "
            f"| {fourier:,.0f} |"
        )
    return "\n".join(lines)


def read_counts(step: str) -> np.ndarray:
    """How often the first block asks global memory for each pixel of one 28 x 28 image with one filter of 5 x 5."""
    contract = _contract(step)
    size = {"BATCH": 1, "C": 1, "H": 28, "W": 28, "F": 1, "R": 5, "S": 5, "STRIDE": 1, "PAD": 0}
    counts: Counter[int] = Counter()
    for request in trace(contract, size, random_inputs(contract.bind(size))).select("global", "load", "x"):
        for first in request.elements():
            counts.update(range(int(first), int(first) + request.nbytes // 4))
    return np.array([counts[pixel] for pixel in range(28 * 28)]).reshape(28, 28)


def reads_picture() -> str:
    """Those counts of two steps, as grey and as numbers along the middle."""
    figure = Figure(figsize=(7.2, 3.4), layout="constrained", facecolor=PAPER)
    for axes, step in zip(figure.subplots(1, 2), ("01_direct", "03_direct_shared"), strict=True):
        counts = read_counts(step)
        draw_map(axes, counts, blues(25))
        for row, col in ((0, 0), (1, 1), (2, 2), (3, 3), (6, 6), (14, 14)):
            colour = "black" if counts[row, col] < 13 else "white"
            axes.text(col + 0.5, row + 0.5, str(counts[row, col]), ha="center", va="center", fontsize=6, color=colour)
        axes.set(xticks=[0, 14, 28], yticks=[0, 14, 28])
        told = f"step {step[:2]}: {counts.sum():,} floats asked for,\none pixel up to {counts.max()} times"
        axes.set_title(told, fontsize=9)
    return svg(figure, "lab08-reads")


def unrolled() -> np.ndarray:
    """Step 05's matrix for an image of 5 x 5 whose pixels are their own numbers, and windows of 3 x 3."""
    size = {"BATCH": 1, "C": 1, "H": 5, "W": 5, "R": 3, "S": 3, "STRIDE": 1, "PAD": 0}
    pixels = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    found = runs.run(_contract("05_im2col"), size, {"x": pixels}).outputs["cols"]
    return np.asarray(found, dtype=np.int64).reshape(9, 9)


def _draw_numbers(axes: Axes, numbers: np.ndarray, marked: int, told: str) -> None:
    """A grid of pixels' numbers; one pixel is blue wherever it occurs."""
    draw_map(axes, np.asarray(numbers == marked, dtype=np.int64), {1: f"{BLUE}55"})
    for (row, col), number in np.ndenumerate(numbers):
        axes.text(col + 0.5, row + 0.5, str(number), ha="center", va="center", fontsize=7)
    axes.set(xticks=range(numbers.shape[1] + 1), yticks=range(numbers.shape[0] + 1), xticklabels=[], yticklabels=[])
    axes.grid(visible=True, linewidth=0.4)
    axes.tick_params(length=0)
    axes.set_title(told, fontsize=9)


def columns_picture() -> str:
    """An image with a window, and the matrix that step 05 makes of it, with the window's column."""
    figure = Figure(figsize=(7.2, 3.6), layout="constrained", facecolor=PAPER)
    image, matrix = figure.subplots(1, 2, width_ratios=(5, 9))
    columns, place, middle = unrolled(), 5, 12  # the window in row 1, column 2 of the results
    _draw_numbers(image, np.arange(25).reshape(5, 5), middle, "image: a window")
    _draw_numbers(matrix, columns, middle, "matrix: a column for each window")
    top, left = divmod(int(columns[0, place]), 5)
    for axes, corner, width, height in ((image, (left, top), 3, 3), (matrix, (place, 0), 1, 9)):
        axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=ORANGE, linewidth=2.0, clip_on=False))
    return svg(figure, "lab08-columns")


TABLES = {"counts": counts_table, "times": times_table, "costs": costs_table}
IMAGES = {"lab08-reads.svg": reads_picture, "lab08-columns.svg": columns_picture}
