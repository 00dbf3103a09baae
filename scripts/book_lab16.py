"""The figures of docs/learn/lab16.md: a pair joined from parts, tiles of a causal text, bytes of attention."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure
from scripts import book_runs as runs
from scripts.book_pictures import EMPTY, GREY, PAPER, blues, draw_map, svg

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


TABLES = {"pairs": pairs_table, "bytes": bytes_table, "times": times_table}
IMAGES = {"lab16-tiles.svg": tiles_picture}
