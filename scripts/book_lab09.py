"""The figures of docs/learn/lab09.md: products and errors by tile size, F(2,3) in numbers, overlapping tiles, what four
kernels cost."""

from __future__ import annotations

from collections import Counter
from math import exp, log
from statistics import fmean

import numpy as np
from matplotlib.figure import Figure
from scripts import book_flow, book_runs as runs
from scripts.book_pictures import PAPER, blues, draw_map, svg

from warpcourse.lab09_winograd.lab import errors_by_tile
from warpschool.harness.launcher import Program
from warpschool.nn import Convolution, convolve
from warpschool.nn.pipelines import Winograd, run as run_pipeline
from warpschool.nn.winograd import matrices, transform_filters, transform_images, transform_results
from warpschool.recorded import recorded

LAB = "lab09_winograd"
IN_PARTS = ", sums in parts"
TILES = (2, 4, 6, 8)
POINTS: tuple[tuple[int, str], ...] = (
    (4, "0, ±1, ±2"), (4, "0, ±2/3, ±3/2"),
    (5, "0, ±1, ±2, 1/2"), (5, "±1/3, ±7/8, ±5/3"),
    (6, "0, ±1, ±2, ±1/2"),
    (7, "0, ±1, ±2, ±1/2, 4"), (7, "±1/4, ±3/4, ±9/8, ±2"),
)  # fmt: skip
"""results of a tile along each axis, and points; infinity is one of them always"""
LAYERS = ("vgg01", "vgg02", "vgg05", "vgg08", "vgg11", "lenet2")
STAGES = ("filter_transform", "input_transform", "batched_gemm", "output_transform")
MISTAKES = tuple(
    f"{LAB}/{name}"
    for name in (
        "01_filter_transform/columns_only",
        "01_filter_transform/straight_from_memory",
        "02_input_transform/no_left_edge",
        "02_input_transform/no_overlap",
        "02_input_transform/dense_in_floats",
        "03_batched_gemm/positions_of_tiles",
        "04_output_transform/not_cropped",
        "04_output_transform/sign_of_the_last",
        "05_fused_epilogue/no_shift",
        "07_fused_f2/no_barrier_after_products",
    )
)


def products_table() -> str:
    """Products for a tile of results of a 3 x 3 filter, and the largest error beside float64."""
    found = errors_by_tile(TILES)
    rows = []
    for number, m in enumerate(TILES):
        direct, fewer = 9 * m * m, (m + 2) ** 2
        errors = [found[name][number] for name in ("float32", "float16")]
        told = ["overflows" if error is None else f"{error:.0e}" for error in errors]
        rows.append(
            (
                f"{m} x {m}",
                f"{m + 2} x {m + 2}",
                direct,
                fewer,
                f"{direct / fewer:.2f}",
                f"{(m + 2) ** 2 / m**2:.2f}",
                *told,
            )
        )
    head = ("results of a tile", "pixels", ">products, by definition", ">by Winograd", ">times fewer",
            ">numbers for each pixel", ">error in float", ">in half")  # fmt: skip
    return runs.table(head, rows)


def points_table() -> str:
    """What the points of a tile do to the error: the count that is made beforehand, and what comes out."""
    x, w = Convolution(batch=1, channels=64, height=30, width=30, filters=8, rows=3, cols=3).arrays(
        np.random.default_rng(5)
    )
    wanted = convolve(x, w)
    rows = []
    for m, points in POINTS:
        signed = (p for word in points.split(", ") for p in ((word[1:], f"-{word[1:]}") if word[0] == "±" else (word,)))
        exact = matrices(m, 3, signed)
        U, V = transform_filters(w, exact, dtype=np.float32), transform_images(x, exact, dtype=np.float32)
        M = np.zeros((exact.positions, U.shape[2], V.shape[2]), np.float32)
        for c in range(U.shape[1]):  # one channel after the other, as step 03 sums; a library's order is its own
            M += U[:, c, :, None] * V[:, c, None, :]
        found = transform_results(M, exact, batch=1, height=28, width=28)
        error = np.abs(found - wanted).max() / np.abs(wanted).max()
        rows.append((str(exact), points, f"{exact.amplification:,.0f}", f"{error:.0e}"))
    return runs.table(("form", "points", ">errors enlarged, by count", ">error in float"), rows)


def forms_table() -> str:
    """Recorded forms at VGG16's layers 2 to 13, all together."""
    found = recorded("winograd_h200.json")["forms"]
    layers = {row["layer"] for row in found}
    rows = []
    for form in dict.fromkeys(row["form"] for row in found):
        own = {row["layer"]: row for row in found if row["form"] == form.removesuffix(IN_PARTS)}
        own |= {row["layer"]: row for row in found if row["form"] == form}  # short sums are never parted
        if form.startswith("F(2x2") or set(own) != layers:
            continue
        mine, four = (sum(row[key] for row in own.values()) for key in ("time_ms", "f4_ms"))
        errors = exp(fmean(log(row["max_error"] / row["f4_error"]) for row in own.values()))
        rows.append((_shown(form), f"{mine:.2f} ms", f"{mine / four:.2f}", f"{errors:.2g}"))
    return runs.table(("form", ">layers 2 to 13", ">of F(4x4,3x3)'s time", ">of its errors"), rows)


def _shown(form: str) -> str:
    """Each point and its negative once."""
    name, points, listed = form.partition(", points ")
    words = listed.split()
    return name + points + ", ".join(f"±{p}" if f"-{p}" in words else p for p in words if not p.startswith("-"))


def read_counts() -> np.ndarray:
    """How often each pixel of a 16 x 16 image is read by the transform of the images."""
    size = {"BATCH": 1, "C": 1, "H": 16, "W": 16, "PAD": 1}
    counts: Counter[int] = Counter()
    for request in runs.seen(runs.contract(f"{LAB}/02_input_transform"), size).select("global", "load", "x"):
        for first in request.elements():
            counts.update(range(int(first), int(first) + request.nbytes // 4))
    return np.array([counts[place] for place in range(256)]).reshape(16, 16)


def overlap_picture() -> str:
    """Those counts as a map, with numbers."""
    figure = Figure(figsize=(4.2, 3.8), layout="constrained", facecolor=PAPER)
    axes = figure.subplots()
    counts = read_counts()
    draw_map(axes, counts, blues(5))
    for (row, col), count in np.ndenumerate(counts):
        axes.text(
            col + 0.5, row + 0.5, count, ha="center", va="center", fontsize=6, color="white" if count > 2 else "black"
        )
    axes.set(xticks=range(0, 17, 4), yticks=range(0, 17, 4))
    axes.set_title("reads of each pixel, 4 x 4 tiles of 6 x 6 pixels", fontsize=9)
    return svg(figure, "lab09-overlap")


def stages_table() -> str:
    """Four kernels at one layer: arithmetic and bytes."""
    problem = Convolution(batch=2, channels=64, height=28, width=28, filters=64, rows=3, cols=3, pad=1)
    x, w = problem.arrays(np.random.default_rng(1))
    filters, images, product, results = (
        Program(runs.contract(f"{LAB}/{name}"), device="sim")
        for name in ("01_filter_transform", "02_input_transform", "03_batched_gemm", "04_output_transform")
    )
    done = run_pipeline(Winograd(filters=filters, images=images, product=product, results=results), x, w, pad=1)
    rows = []
    for launch in done.launches:
        c = launch.counters
        flops, moved = c.flops, c.global_load_bytes + c.global_store_bytes
        rows.append(
            (
                launch.kernel,
                f"{c.fma_instructions:,}",
                f"{c.fadd_instructions + c.fmul_instructions:,}",
                f"{c.global_load_bytes / 1e6:.2f} MB",
                f"{c.global_store_bytes / 1e6:.2f} MB",
                f"{flops / moved:.1f}",
            )
        )
    rows.append(("by definition", f"{problem.products:,}", "", "", "", ""))
    head = ("kernel", ">multiply-adds", ">other operations", ">loaded", ">stored", ">operations a byte")
    return runs.table(head, rows)


def times_table() -> str:
    """Recorded layers, 32 images of VGG16 and 10,000 of the digits' second layer."""
    rows = []
    for row in recorded("winograd_h200.json")["rows"]:
        if row["layer"] in LAYERS:
            stages = row["stages_ms"]
            shares = [f"{stages[name]:.3f}" if name in stages else "" for name in STAGES]
            for whole in ("three_channels", "convolve"):
                if whole in stages:
                    shares[2] = f"{stages[whole]:.3f} (one kernel)"
            if "transform_filters" in stages:
                shares[0] = f"{stages['transform_filters']:.3f}"
            rows.append(
                (
                    row["layer"],
                    row["method"].split("),")[0].rstrip(")") + ")",
                    *shares,
                    f"{row['time_ms']:.3f} ms",
                    f"{row['ratio']:.2f}",
                )
            )
    head = ("layer", "method", ">filters", ">images", ">product", ">results", ">together", ">of cuDNN's time")
    return runs.table(head, rows)


TABLES = {
    "products": products_table, "points": points_table, "forms": forms_table, "stages": stages_table,
    "times": times_table,
}  # fmt: skip
IMAGES = {"lab09-overlap.svg": overlap_picture, "lab09-flow.svg": book_flow.there_picture}
