"""The figures of docs/learn/lab01.md: how often a block reads an element, intensities, and the roofline."""

from __future__ import annotations

from collections import Counter

import numpy as np
from matplotlib.figure import Figure
from scripts import book_runs as runs
from scripts.book_pictures import BLUE, GREEN, GREY, ORANGE, PAPER, blues, draw_map, new_figure, svg

from warpcourse.ladder import measured
from warpschool.model import Roofline, find_gpu

LAB = "lab01_naive_gemm"
NAIVE = f"{LAB}/01_naive"
GPU = find_gpu("h200")
LARGE = 4096
MISTAKES = tuple(
    f"{LAB}/{name}"
    for name in (
        "01_naive/no_guard",
        "01_naive/guard_off_by_one",
        "01_naive/sum_without_a_value",
        "01_naive/transposed_b",
        "01_naive/sum_written_each_time",
        "01_naive/loads_twice",
        "02_alpha_beta/zero_times_nan",
        "02_alpha_beta/beta_per_product",
    )
)


def square(n: int) -> dict[str, int]:
    return {"M": n, "N": n, "K": n}


def counts_table() -> str:
    """Loads and intensities of the reference at growing sizes."""
    rows = []
    for n in (32, 64, 128, 256):
        c = runs.run(runs.contract(NAIVE), square(n)).counters
        found = Roofline.intensities(c, array_bytes=3 * n * n * 4)
        rows.append(
            (
                n,
                f"{c.global_load_bytes // 4:,}",
                f"{c.global_load_bytes / 4 / n**2:.0f}",
                *(f"{found[level]:.3g}" for level in ("L1", "L2", "DRAM")),
            )
        )
    head = (">n", ">floats loaded", ">for each element of C", ">FLOP a byte: asked for", ">sectors touched",
            ">each matrix once")  # fmt: skip
    return runs.table(head, rows)


def times_table() -> str:
    """The reference on an H200 at three sizes."""
    rows = []
    for kind in ("small", "medium", "large"):
        found = runs.timed(NAIVE, kind)
        flops = 2 * found.sizes["M"] * found.sizes["N"] * found.sizes["K"]
        sizes = " x ".join(f"{found.sizes[name]:,}" for name in "MNK")
        rows.append(
            (
                sizes,
                f"{flops / 1e6:,.3g} M" if flops < 1e9 else f"{flops / 1e9:,.1f} G",
                runs.us(found.measured_us),
                f"{flops / found.measured_us * 1e-6:.2f} TFLOP/s",
                runs.us(found.predicted_us),
            )
        )
    return runs.table(("M x N x K", ">operations", ">measured", ">which is", ">predicted"), rows)


def reads(name: str) -> np.ndarray:
    """How often the first block asks for each element of A or B, in a product of 32 x 32 x 32."""
    counts: Counter[int] = Counter()
    for request in runs.seen(runs.contract(NAIVE), square(32)).select("global", "load", name):
        for first in request.elements():
            counts.update(range(int(first), int(first) + request.nbytes // 4))
    return np.array([counts[place] for place in range(32 * 32)]).reshape(32, 32)


def reads_picture() -> str:
    """Both maps."""
    figure = Figure(figsize=(6.4, 3.0), layout="constrained", facecolor=PAPER)
    for axes, name in zip(figure.subplots(1, 2), "AB", strict=True):
        counts = reads(name)
        draw_map(axes, counts, blues(16))
        axes.set(xticks=[0, 16, 32], yticks=[0, 16, 32])
        axes.set_title(f"{name}: each blue element {counts.max()} times", fontsize=9)
    return svg(figure, "lab01-reads")


def roofline_picture() -> str:
    """Roofs of an H200, and the reference's points for n = 4096: bounds of L1 and DRAM, and the measured speed."""
    row = next(row for row in measured(course=runs.COURSE) if row.step == NAIVE and row.sizes["M"] == LARGE)
    c = runs.run(runs.contract(NAIVE), square(64)).counters
    at_l1 = c.flops / c.global_load_bytes  # stores, which a large K makes few, left out
    at_dram = 2 * LARGE / (3 * 4)
    peak = GPU.fp32_tflops
    figure, axes = new_figure(6.4, 3.6)
    x = np.geomspace(0.05, 2000, 200)
    levels = (("DRAM", GPU.dram_gb_per_s, ORANGE, at_dram), ("L1", GPU.l1_gb_per_s, BLUE, at_l1))
    for name, speed, colour, at in levels:
        axes.loglog(x, np.minimum(x * speed * 1e-3, peak), color=colour, label=f"{name}: {speed / 1e3:.1f} TB/s")
        axes.plot([at], [min(at * speed * 1e-3, peak)], "o", color=colour)
        axes.axvline(at, color=colour, linewidth=0.5, linestyle=":")
    axes.axhline(peak, color=GREY, linewidth=0.8)
    axes.plot([at_l1], [row.rate], "*", markersize=13, color=GREEN, label=f"measured: {row.rate:.1f} TFLOP/s")
    axes.set_xticks([0.1, 0.25, 1, 10, 100, 683], ["0.1", "1/4", "1", "10", "100", "683"])
    axes.set_yticks([0.1, 1, 10, 66.9], ["0.1", "1", "10", "66.9"])
    axes.minorticks_off()
    axes.set(xlabel="operations a byte", ylabel="TFLOP/s", ylim=(0.1, 120))
    axes.legend(frameon=False, loc="lower right")
    return svg(figure, "lab01-roofline")


TABLES = {"counts": counts_table, "times": times_table}
IMAGES = {"lab01-reads.svg": reads_picture, "lab01-roofline.svg": roofline_picture}
