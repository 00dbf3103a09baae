"""The figures of docs/learn/lab05.md: what a multiply-add costs from step to step, whose elements a warp computes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scripts import book_runs as runs
from scripts.book_pictures import BLUE, GREY, PAPER, svg

import warpschool as ws
from warpcourse.ladder import measure, measured
from warpschool.clock.prediction import Prediction
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.harness.launcher import random_inputs
from warpschool.inspect.accesses import trace
from warpschool.recorded import recorded

ROOT = Path(__file__).resolve().parents[1]
COURSE = Course(ROOT)
LAB = "lab05_work_per_thread"
STEPS = ("lab02_tiling/01_tiled", *(f"{LAB}/{name}" for name in (
    "01_coarsened", "02_wide_loads", "04_register_blocked", "05_vectorized", "06_double_buffered", "07_warp_tiled",
)))  # fmt: skip
SQUARE = {"M": 4096, "N": 4096, "K": 4096}
MISTAKES = tuple(f"{LAB}/{name}" for name in (
    "04_register_blocked/index_at_run_time", "04_register_blocked/tile_overrun",
    "04_register_blocked/no_barrier_after_product", "05_vectorized/padded_by_one", "06_double_buffered/same_buffer",
    "06_double_buffered/two_barriers", "06_double_buffered/too_few_registers", "07_warp_tiled/as_before",
))  # fmt: skip
FOOTPRINTS = ("lab02_tiling/01_tiled", f"{LAB}/01_coarsened", f"{LAB}/04_register_blocked", f"{LAB}/07_warp_tiled")


def short(step: str) -> str:
    """`lab05/04`."""
    lab, idea = step.split("/")
    return f"{lab[:5]}/{idea[:2]}"


def costs_table() -> str:
    """Counts of each step, for each multiply-add."""
    lines = [
        "| step | FMA among the loop's instructions | bytes of global memory per FMA | bytes of shared memory per FMA "
        "| passes per FMA of a warp | registers | warps on an SM |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for step in STEPS:
        cost = measure(step, course=COURSE)
        use, c = cost.use("h200"), cost.counters
        assert use.occupancy is not None and use.resources is not None
        lines.append(
            f"| {short(step)} | {cost.mix['FMA']:.0%} | {c.global_load_bytes / cost.products:.3g} "
            f"| {c.shared_bytes_per_fma:.3g} | {c.shared_load_wavefronts * 32 / cost.products:.3g} "
            f"| {use.resources.registers} | {use.occupancy.warps} |"
        )
    return "\n".join(lines)


@cache
def predicted(step: str) -> Prediction:
    """The clock's prediction for the reference on an H200."""
    solution = COURSE.step(step).solution
    assert solution is not None
    return ws.predict_time(str(solution), SQUARE, gpu="h200")


def times_table() -> str:
    """Recorded and predicted times, and what the warps wait for."""
    ladder = {row.step: row for row in measured(course=COURSE) if row.part == "ladder" and "M" in row.sizes}
    lines = ["| step | measured | of cuBLAS's speed | predicted | the three commonest states |"]
    lines.append("|---|---:|---:|---:|---|")
    for step in STEPS:
        row, found = ladder[step], predicted(step)
        assert dict(row.sizes) == SQUARE and row.reference == "cuBLAS" and found.us is not None
        states = sorted(found.launches[0].states.items(), key=lambda item: -item[1])[:3]
        told = ", ".join(f"{name} {share:.0%}" for name, share in states)
        lines.append(f"| {short(step)} | {row.time_ms:.2f} ms | {row.ratio:.2f} | {found.us * 1e-3:.1f} ms | {told} |")
    return "\n".join(lines)


def limit_table() -> str:
    """The last step as it is, on zeros and without what it loads, from benchmarks/gemm.py's part "limit"."""
    rows = []
    for row in recorded("gemm_limit_h100.json")["rows"]:
        assert row["part"] == "limit" and row["step"] == STEPS[-1]
        size = " x ".join(f"{n:,}" for n in row["sizes"].values())
        rows.append((size, row["note"], f"{row['rate']:.1f}", f"{row['reference_rate']:.1f}", f"{row['ratio']:.3f}"))
    return runs.table(("M x N x K", "step 07", ">TFLOP/s", ">cuBLAS", ">of its speed"), rows)


@cache
def footprint(step: str) -> tuple[frozenset[tuple[int, int]], int, int]:
    """What the first warp of a block stores in C: (its elements, rows and columns of the block)."""
    solution = COURSE.step(step).solution
    assert solution is not None
    contract = parse_contract(solution.read_text("utf-8"), name=solution.name)
    size = {"M": 256, "N": 256, "K": 16}
    stores = trace(contract, size, random_inputs(contract.bind(size))).select("global", "store", "C")
    all_of_it, own = set(), set()
    for request in stores:
        for first in request.elements():
            places = {divmod(int(first) + k, size["N"]) for k in range(request.nbytes // 4)}
            all_of_it |= places
            own |= places if request.warp == 0 else set()
    return frozenset(own), 1 + max(row for row, _ in all_of_it), 1 + max(col for _, col in all_of_it)


def reads_table() -> str:
    """Rows and columns that a warp needs for each step of k, and the products that it makes of them."""
    lines = ["| step | rows of A | columns of B | floats for each k | products | products a float |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for step in FOOTPRINTS:
        own, _, _ = footprint(step)
        rows, cols = len({row for row, _ in own}), len({col for _, col in own})
        assert len(own) == rows * cols
        uses = len(own) / (rows + cols)
        lines.append(f"| {short(step)} | {rows} | {cols} | {rows + cols} | {len(own):,} | {uses:.1f} |")
    return "\n".join(lines)


def footprint_picture() -> str:
    """Each step's block of C, and in it the elements of its first warp, all to one scale."""
    figure = Figure(figsize=(8.4, 2.0), layout="constrained", facecolor=PAPER)
    panels = figure.subplots(1, len(FOOTPRINTS))
    for axes, step in zip(panels, FOOTPRINTS, strict=True):
        own, rows, cols = footprint(step)
        axes.set_facecolor(PAPER)
        axes.add_patch(Rectangle((0, 0), cols, rows, facecolor="none", edgecolor=GREY, linewidth=1))
        for row in sorted({row for row, _ in own}):
            run = sorted(col for r, col in own if r == row)
            start = run[0]
            for col, after in zip(run, [*run[1:], -1], strict=True):
                if after != col + 1:
                    axes.add_patch(Rectangle((start, row), col + 1 - start, 1, facecolor=BLUE, linewidth=0))
                    start = after
        axes.set(xlim=(-4, 260), ylim=(132, -4), xticks=[], yticks=[], aspect="equal")
        axes.spines[:].set_visible(False)
        axes.set_title(f"{short(step)}\nblock of {rows} x {cols}", fontsize=9)
    return svg(figure, "lab05-warp")


TABLES = {"costs": costs_table, "times": times_table, "reads": reads_table, "limit": limit_table}
IMAGES = {"lab05-warp.svg": footprint_picture}
