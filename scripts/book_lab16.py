"""The figures of docs/learn/lab16.md: a pair joined from parts, tiles of a causal text, bytes of attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scripts import book_runs as runs
from scripts.book_pictures import EMPTY, GREY, PAPER, blues, draw_map, svg

from warpschool.recorded import recorded

LAB = "lab16_attention"
FUSED = f"{LAB}/05_fused"
D, TILE = 64, 64
DRAWN = 256
MISTAKES = tuple(
    f"{LAB}/{name}"
    for name in (
        "01_online_softmax/nothing_subtracted",
        "01_online_softmax/sums_as_they_are",
        "01_online_softmax/empty_part",
        "02_layer_norm/mean_of_squares",
        "04_three_kernels/hidden_are_zero",
        "05_fused/out_does_not_shrink",
        "09_hopper/values_first",
    )
)


def pairs_table() -> str:
    """Scores 2, 0, 3 and 1, joined one after the other and in two halves."""

    def join(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
        m = max(a[0], b[0])
        return m, a[1] * math.exp(a[0] - m) + b[1] * math.exp(b[0] - m)

    singles = [(score, 1.0) for score in (2.0, 0.0, 3.0, 1.0)]
    left, right = join(*singles[:2]), join(*singles[2:])
    steps = [("2", singles[0]), ("and 0", left), ("and 3", join(left, singles[2])),
             ("and 1", join(join(left, singles[2]), singles[3])), ("halves: 3 and 1", right),
             ("(2 and 0) and (3 and 1)", join(left, right))]  # fmt: skip
    return runs.table(("parts", ">largest", ">sum"), [(told, f"{m:g}", f"{s:.3f}") for told, (m, s) in steps])


def bytes_table() -> str:
    """What is asked for and stored for one head, by the simulator."""
    rows = []
    for tokens in (128, 256, 512):
        size = {"HEADS": 1, "N": tokens, "causal": 0}
        for step in ("04_three_kernels", "05_fused"):
            c = runs.run(runs.contract(f"{LAB}/{step}"), size).counters
            rows.append(
                (
                    tokens,
                    step[:2],
                    f"{c.global_load_bytes / 1e6:.2f} MB",
                    f"{c.global_store_bytes / 1e6:.2f} MB",
                    f"{c.global_store_bytes / 4 / (tokens * D):.2f}",
                    f"{c.fma_instructions / 1e6:.1f}",
                )
            )
    head = (">tokens", "step", ">asked for", ">stored", ">stored, in results", ">multiply-adds, millions")
    return runs.table(head, rows)


def times_table() -> str:
    """Predicted for an H200: sixteen heads of 512 tokens, not causal."""
    rows = []
    for step in ("04_three_kernels", "05_fused"):
        found = runs.predicted(runs.contract(f"{LAB}/{step}"), {"HEADS": 16, "N": 512, "causal": 0})
        longest = max(found.launches, key=lambda launch: launch.us or 0.0)
        waits = f"{longest.waits_for} {longest.states[longest.waits_for]:.0%}"
        rows.append((step[:2], len(found.launches), runs.us(runs.time_us(found)), waits))
    return runs.table(("step", ">kernels", ">predicted", "the longest waits most for"), rows)


def tiles() -> np.ndarray:
    """For each block of queries, how many floats of each tile of keys it asks for, in tiles; a causal text."""
    size = {"HEADS": 1, "N": DRAWN, "causal": 1}
    count = DRAWN // TILE
    found = np.zeros((count, count), int)
    for block in range(count):
        for request in runs.seen(runs.contract(FUSED), size, block=block).select("global", "load", "K"):
            for element in request.elements():
                found[block, int(element) // D // TILE] += request.nbytes // 4
    return found // (TILE * D)


def tiles_picture() -> str:
    """Which tiles of keys the blocks of queries read."""
    figure = Figure(figsize=(3.4, 3.2), layout="constrained", facecolor=PAPER)
    axes = figure.subplots()
    counts = tiles()
    draw_map(axes, counts, {0: EMPTY, 1: blues(2)[1]})
    for (row, col), many in np.ndenumerate(counts):
        axes.text(col + 0.5, row + 0.5, "read" if many else "", ha="center", va="center", fontsize=8)
    axes.plot([0, len(counts)], [0, len(counts)], color=GREY, linewidth=0.8)
    ticks = range(len(counts) + 1)
    labels = [str(TILE * tick) for tick in ticks]
    axes.set_xticks(ticks, labels)
    axes.set_yticks(ticks, labels)
    axes.set(xlabel="key", ylabel="query")
    return svg(figure, "lab16-tiles")


def cycles_table() -> str:
    """Cycles of an SM for a tile of 128 x 128 scores: 2,048 multiply-adds of halves and 16 powers in each."""
    rows = []
    for d in (64, 128):
        products, powers = 2 * 128 * 128 * d // 2048, 128 * 128 // 16
        rows.append((d, f"{products:,}", f"{powers:,}", f"{products + powers:,}", f"{max(products, powers):,}"))
    return runs.table((">D", ">two products", ">powers", ">one after the other", ">at once"), rows)


def hopper_table() -> str:
    """Steps 06 and 09 beside cuDNN's attention, the shortest and the longest texts, from benchmarks/attention.py."""
    found = recorded("attention_h100.json")["rows"]
    steps: dict[tuple[int, int, int], list[dict[str, Any]]] = {}
    for row in found:
        if row["part"] in ("forward", "hopper") and row["reference"] == "cuDNN":
            size = row["sizes"]
            steps.setdefault((size["N"], size["D"], size["causal"]), []).append(row)
    rows = [
        (f"{n:,}", d, "causal" if causal else "none", f"{six['rate']:.0f}", f"{nine['rate']:.0f}",
         f"{nine['reference_rate']:.0f}", f"{nine['ratio']:.2f}")
        for (n, d, causal), (six, nine) in sorted(steps.items())
        if n in (1_024, 16_384)
    ]  # fmt: skip
    head = (">tokens", ">D", "mask", ">06, TFLOP/s", ">09, TFLOP/s", ">cuDNN, TFLOP/s", ">09, of cuDNN's speed")
    return runs.table(head, rows)


TABLES = {
    "pairs": pairs_table, "bytes": bytes_table, "times": times_table, "cycles": cycles_table, "hopper": hopper_table,
}  # fmt: skip
IMAGES = {"lab16-tiles.svg": tiles_picture}
