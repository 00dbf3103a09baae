"""The figures of docs/learn/lab04.md: banks of a column in three layouts, passes by padding, what was measured."""

from __future__ import annotations

import math

from matplotlib.figure import Figure
from scripts import book_runs as runs
from scripts.book_pictures import BLUE, GREY, ORANGE, PAPER, svg

from warpcourse.ladder import measured
from warpschool.inspect.accesses import WarpRequest

LAB = "lab04_bank_conflicts"
PADDED, SWIZZLED, PRODUCT = (
    f"{LAB}/{name}" for name in ("01_transpose_padded", "02_transpose_swizzled", "03_gemm_padded")
)
SQUARE = {"M": 64, "N": 64}
CUBE = {"M": 64, "N": 64, "K": 64}
COLUMN = 5
MISTAKES = tuple(
    f"{LAB}/{name}"
    for name in (
        "01_transpose_padded/unpadded",
        "01_transpose_padded/padded_by_two",
        "01_transpose_padded/two_pitches",
        "01_transpose_padded/conflicts_moved",
        "02_transpose_swizzled/sum_without_modulo",
        "02_transpose_swizzled/swizzled_when_written_only",
        "02_transpose_swizzled/three_bits_only",
        "03_gemm_padded/padded_by_one",
        "03_gemm_padded/padded_by_four",
        "03_gemm_padded/single_floats",
    )
)


def column(step: str, pad: int | None = None) -> WarpRequest:
    """The load of one column of the tile, as it lies there."""
    constants = None if pad is None else {"PAD": pad}
    return runs.seen(runs.contract(step), SQUARE, constants=constants).select("shared", "load")[COLUMN]


def pads_table() -> str:
    """Columns of padding: passes of a column by the rule and counted, bytes, predicted time."""
    kernel, rows = runs.contract(PADDED), []
    for pad in (0, 1, 2, 3, 4, 8):
        c = runs.run(kernel, {"M": 256, "N": 256}, constants={"PAD": pad}).counters
        counted = c.shared_load_wavefronts / c.shared_load_requests
        assert counted == math.gcd(32 + pad, 32)
        time = runs.us(runs.time_us(runs.predicted(kernel, {"M": 2048, "N": 2048}, constants={"PAD": pad})))
        rows.append(
            (
                pad,
                32 + pad,
                math.gcd(32 + pad, 32),
                f"{counted:g}",
                f"{4 * 32 * (32 + pad):,}",
                time,
            )
        )
    head = (">PAD", ">floats a row", ">gcd with 32", ">passes counted", ">bytes of the tile", ">predicted, 2048 x 2048")
    return runs.table(head, rows)


def pairs_table() -> str:
    """The product with 64-bit loads: passes of the load of a column of pairs."""
    kernel, rows = runs.contract(PRODUCT), []
    recorded = {row.step: row for row in measured(course=runs.COURSE) if row.part == "branches"}
    for pad in (0, 2, 4, 6, 8):
        loads = runs.seen(kernel, CUBE, constants={"PAD": pad}).select("shared", "load", "tileB")
        passes, least = sum(a.wavefronts for a in loads), sum(a.fewest for a in loads)
        found = runs.predicted(kernel, {"M": 1024, "N": 1024, "K": 1024}, constants={"PAD": pad})
        rows.append((pad, f"{least:,}", f"{passes:,}", runs.us(runs.time_us(found))))
    row = recorded[PRODUCT]
    told = f"\n\n*Measured with PAD = 2 on an H200, n = 4096: {row.time_ms:.1f} ms, {row.ratio:.2f} of cuBLAS's speed.*"
    head = (">PAD", ">passes without conflicts, a block at n = 64", ">counted", ">predicted, n = 1024")
    return runs.table(head, rows) + told


def times_table() -> str:
    """Three transposes on an H200."""
    recorded = {row.step: row for row in measured(course=runs.COURSE) if row.part == "copies"}
    rows = []
    for step in ("lab03_coalescing/03_transpose_tiled", PADDED, SWIZZLED):
        found = runs.run(runs.contract(step), {"M": 256, "N": 256})
        c, row = found.counters, recorded[step]
        rows.append(
            (
                runs.short(step),
                f"{c.shared_load_wavefronts - c.shared_load_requests:,}",
                f"{c.warp_instructions:,}",
                runs.us(row.time_ms * 1e3),
                f"{row.rate:.2f} TB/s",
                f"{row.ratio:.2f}",
            )
        )
    head = ("step", ">passes in excess, 256 x 256", ">instructions of warps", ">measured, 8192 x 8192", ">which is",
            ">of a copy's speed")  # fmt: skip
    return runs.table(head, rows)


def banks_picture() -> str:
    """The words of one column of the tile: rows of the tile down, banks across; the number is the pass."""
    requests = {"no padding": column(PADDED, 0), "one float of padding": column(PADDED, 1), "XOR": column(SWIZZLED)}
    figure = Figure(figsize=(8.4, 3.2), layout="constrained", facecolor=PAPER)
    for axes, (title, request) in zip(figure.subplots(1, 3), requests.items(), strict=True):
        pitch = 33 if title.startswith("one") else 32
        axes.set_facecolor(PAPER)
        for word in request.words():
            colour = BLUE if word.turn == 0 else ORANGE
            axes.plot([word.bank + 0.5], [word.number // pitch + 0.5], "s", color=colour, markersize=4)
        axes.set(xlim=(0, 32), ylim=(32, 0), xticks=[0, 8, 16, 24, 32], yticks=[0, 8, 16, 24, 32], aspect="equal")
        axes.grid(color=GREY, linewidth=0.3)
        axes.set(xlabel="bank", ylabel="row of the tile" if title == "no padding" else "")
        passes = f"{request.wavefronts} pass" + ("es" if request.wavefronts > 1 else "")
        axes.set_title(f"{title}: {passes}", fontsize=9)
    return svg(figure, "lab04-banks")


TABLES = {"pads": pads_table, "pairs": pairs_table, "times": times_table}
IMAGES = {"lab04-banks.svg": banks_picture}
