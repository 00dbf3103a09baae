"""The figures of docs/learn/lab02.md: the walk of a block over its tiles, what tiles save, which size is good."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from scripts import book_runs as runs
from scripts.book_pictures import EMPTY, ORANGE, PAPER, blues, draw_map, svg

from warpcourse.ladder import measure, measured

LAB = "lab02_tiling"
TILED, NAIVE = f"{LAB}/01_tiled", "lab01_naive_gemm/01_naive"
MISTAKES = tuple(
    f"{LAB}/01_tiled/{name}"
    for name in (
        "no_barrier_after_load",
        "no_barrier_after_product",
        "barrier_in_branch",
        "returns_early",
        "not_zero_filled",
        "last_tile_forgotten",
        "tile_guard_missing",
        "transposed_tile",
        "tiles_loaded_twice",
    )
)
TILES = (2, 4, 8, 16, 32)


def square(n: int) -> dict[str, int]:
    return {"M": n, "N": n, "K": n}


def rounds(name: str) -> np.ndarray:
    """The round in which the block in the second row and third column loads each element of A or B; -1 for never."""
    found = np.full(64 * 64, -1)
    number = -1
    warps: set[int] = set()
    for request in runs.seen(runs.contract(TILED), square(64), block=6).select("global", "load", name):
        if number < 0 or request.warp in warps:  # a warp loads once in each round
            number, warps = number + 1, set()
        warps.add(request.warp)
        found[request.elements()] = number
    return found.reshape(64, 64)


def walk_picture() -> str:
    """A, B and C with the tiles of one block, in the order in which it loads them."""
    figure = Figure(figsize=(8.0, 3.0), layout="constrained", facecolor=PAPER)
    stored = np.full(64 * 64, -1)
    for request in runs.seen(runs.contract(TILED), square(64), block=6).select("global", "store", "C"):
        stored[request.elements()] = 4
    colours = {-1: EMPTY, **{number: blues(4)[number + 1] for number in range(4)}, 4: ORANGE}
    maps = {"A": rounds("A"), "B": rounds("B"), "C": stored.reshape(64, 64)}
    for axes, (name, found) in zip(figure.subplots(1, 3), maps.items(), strict=True):
        draw_map(axes, found, colours)
        for number in set(found[(found >= 0) & (found < 4)].tolist()):
            y, x = np.argwhere(found == number).mean(axis=0) + 0.5
            axes.text(x, y, number + 1, ha="center", va="center", color="black" if number < 2 else "white")
        axes.set(xticks=range(0, 65, 16), yticks=range(0, 65, 16))
        axes.set_title(
            {"A": "A: loaded in round", "B": "B: loaded in round", "C": "C: stored at the end"}[name], fontsize=9
        )
    return svg(figure, "lab02-walk")


def costs_table() -> str:
    """The naive kernel and the tiled one, for each multiply-add."""
    recorded = {row.step: row for row in measured(course=runs.COURSE) if row.part == "ladder"}
    rows = []
    for step in (NAIVE, TILED):
        cost = measure(step, course=runs.COURSE)
        c = cost.counters
        warp_fmas = cost.products / 32
        rows.append(
            (
                runs.short(step),
                f"{c.global_load_bytes / cost.products:.3g}",
                f"{c.shared_bytes_per_fma:.3g}",
                f"{(c.global_load_requests + c.shared_load_requests) / warp_fmas:.3g}",
                f"{cost.mix['FMA']:.0%}",
                f"{recorded[step].time_ms:.1f} ms",
                f"{recorded[step].rate:.1f} TFLOP/s",
            )
        )
    head = ("step", ">bytes of global memory per FMA", ">bytes of shared memory per FMA",
            ">load requests per FMA of a warp", ">FMA among the loop's instructions",
            ">measured, 4096 x 4096", ">which is")  # fmt: skip
    return runs.table(head, rows)


def sizes_table() -> str:
    """Tiles from 2 to 32: bytes, lanes, warps, barriers, and the predicted time."""
    kernel, rows = runs.contract(TILED), []
    for tile in TILES:
        c = runs.run(kernel, square(128), constants={"TILE": tile}).counters
        found = runs.predicted(kernel, square(2048), constants={"TILE": tile})
        (launch,) = found.launches
        lanes = c.thread_instructions / c.warp_instructions
        warps = min(64, launch.resident_blocks * -(-tile * tile // 32))
        rows.append(
            (
                tile,
                f"{c.global_load_bytes / 1e6:.2f} MB",
                f"{lanes:.0f} of 32",
                warps,
                f"{2 * 128 // tile}",
                runs.us(runs.time_us(found)),
                f"{launch.waits_for} {launch.states[launch.waits_for]:.0%}",
            )
        )
    head = (">TILE", ">loaded at n = 128", ">lanes at work", ">warps on an SM", ">barriers of a warp",
            ">predicted at n = 2048", "waits most for")  # fmt: skip
    return runs.table(head, rows)


TABLES = {"costs": costs_table, "sizes": sizes_table}
IMAGES = {"lab02-walk.svg": walk_picture}
