"""The figures of docs/learn/lab07.md: who owns which element, what a product costs, a pipeline, speeds."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scripts import book_runs as runs
from scripts.book_pictures import BLUE, GREEN, GREY, ORANGE, PAPER, RED, draw_map, svg

from ptxsim.fragments import Fragment, fragment
from warpcourse.ladder import measured
from warpcourse.pipelines import COPIES, Bar, schedule
from warpschool.harness.launcher import Program, random_inputs
from warpschool.recorded import recorded

LAB = "lab07_tensor_cores"
RESULTS = "tensor_cores_h200.json"
STEPS = tuple(
    f"{LAB}/{name}"
    for name in (
        "01_wmma_naive",
        "02_wmma_shared",
        "03_wmma_pipelined",
        "05_mma_ptx",
        "06_wgmma",
        "07_wgmma_fp8",
    )
)
MISTAKES = tuple(
    f"{LAB}/{name}"
    for name in (
        "01_wmma_naive/b_col_major",
        "01_wmma_naive/c_always_read",
        "02_wmma_shared/fragments_crossed",
        "02_wmma_shared/unpadded",
        "03_wmma_pipelined/one_group_too_few",
        "03_wmma_pipelined/no_barrier",
        "03_wmma_pipelined/loaded_not_copied",
        "05_mma_ptx/not_swizzled",
        "05_mma_ptx/swizzled_when_copied_only",
        "06_wgmma/looks_before_tiles_have_come",
        "06_wgmma/announces_too_much",
        "07_wgmma_fp8/steps_of_halves",
    )
)
TILES = 10


def costs_table() -> str:
    """What the references load for each product of two numbers, at 512 x 512 x 512."""
    rows = []
    size = {"M": 512, "N": 512, "K": 512}
    for step in STEPS:
        kernel = runs.contract(step)
        given = size | {p.name: 1 for p in kernel.parameters() if not p.is_array and p.name not in size}
        c = runs.run(kernel, given).counters
        products = 512**3
        tensor = c.tensor_instructions
        rows.append(
            (
                runs.short(step),
                f"{c.global_load_bytes / products:.4g}" if c.global_load_bytes else "by bulk copies",
                f"{tensor:,}",
                f"{products / tensor:,.0f}",
                f"{(c.warp_instructions - tensor) / tensor:.1f}",
            )
        )
    head = ("step", ">bytes of global memory a product", ">tensor instructions of warps", ">products for each",
            ">other instructions for each")  # fmt: skip
    return runs.table(head, rows)


def times_table() -> str:
    """Recorded bursts and sustained speeds."""
    rows = []
    found = {(row.part, row.step): row for row in measured(course=runs.COURSE)
             if row.part in ("large", "sustained") and row.sizes["M"] == 4096}  # fmt: skip
    for step in (*STEPS[:3], f"{LAB}/04_wmma_int8", *STEPS[3:]):
        burst, long = found["large", step], found["sustained", step]
        rows.append(
            (
                runs.short(step),
                runs.us(burst.time_ms * 1e3),
                f"{burst.rate:.0f}",
                f"{long.rate:.0f}",
                f"{burst.ratio:.2f}",
                burst.reference,
            )
        )
    head = ("step", ">measured, n = 4096", ">TFLOP/s (8 bits: TOP/s)", ">sustained", ">of its library's speed", "which")
    return runs.table(head, rows)


def sums_table() -> str:
    """How far sums of 8-bit floats were off on a GPU, and what they took."""
    found = recorded(RESULTS)
    timings = {(row["part"], row["sizes"]["K"]): row for row in found["rows"] if row["step"].endswith("fp8")}
    rows = []
    for row in found["accuracy"]:
        k, who = row["K"], row["of"]
        named = runs.short(who) if "/" in who else who
        timed = timings["accurate" if "promoted" in who else "large", k]
        rate = timed["rate" if who == timed["step"] else "reference_rate"]
        rows.append((f"{k:,}", named, f"{row['relative_error']:.1e}", f"{rate:,.0f}"))
    return runs.table((">K", "whose", ">relative error", ">TFLOP/s"), rows)


def zeros_table() -> str:
    """Steps and their libraries on normally distributed numbers and on zeros, in bursts."""
    rows = []
    found = {(row["part"], row["step"], row["sizes"]["K"]): row for row in recorded(RESULTS)["rows"]}
    for part, step, k in found:
        if part == "zeros":
            pair = found["large", step, k], found[part, step, k]
            rows.append(
                (runs.short(step), f"{k:,}", *(f"{one['rate']:,.0f}" for one in pair),
                 *(f"{one['reference_rate']:,.0f}" for one in pair), *(f"{one['ratio']:.2f}" for one in pair))
            )  # fmt: skip
    head = ("step", ">n", ">TFLOP/s", ">on zeros", ">library", ">on zeros", ">ratio", ">on zeros")
    return runs.table(head, rows)


def limit_table() -> str:
    """Steps 03 and 05 as they are and with less to do, in bursts and sustained: shares of cuBLAS's speed."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in recorded("tensor_cores_limit_h100.json")["rows"]:
        found.setdefault((row["step"], row["note"]), []).append(f"{row['ratio']:.2f}")
    head = ("step", "its loop", ">n = 4,096", ">sustained", ">n = 8,192", ">sustained")
    return runs.table(head, [(runs.short(step), note, *shares) for (step, note), shares in found.items()])


def sizes_table() -> str:
    """Step 06 at five sizes."""
    rows = [
        (" x ".join(f"{side:,}" for side in row["sizes"].values()), row["constants"].get("TSN", 256),
         f"{row['time_ms'] * 1e3:.1f} us", f"{row['reference_ms'] * 1e3:.1f} us", f"{row['ratio']:.2f}")
        for row in recorded(RESULTS)["rows"] if row["part"] == "sizes" and row["step"].endswith("06_wgmma")
    ]  # fmt: skip
    return runs.table(("M x N x K", ">columns of a tile", ">step 06", ">cuBLAS", ">of its speed"), rows)


def _draw_fragment(axes: Axes, one: Fragment, title: str) -> None:
    owners = np.array([[one.owner(row, col)[:2] for col in range(one.columns)] for row in range(one.rows)])
    draw_map(axes, owners[:, :, 1] % 4, {r: f"{colour}40" for r, colour in enumerate((BLUE, ORANGE, GREEN, RED))})
    axes.hlines(range(one.rows + 1), 0, one.columns, color=GREY, linewidth=0.3)
    axes.vlines(range(one.columns + 1), 0, one.rows, color=GREY, linewidth=0.3)
    for (row, col), lane in np.ndenumerate(owners[:, :, 0]):
        axes.text(col + 0.5, row + 0.5, str(lane), ha="center", va="center", fontsize=5.5)
        if lane == 0:
            axes.add_patch(Rectangle((col, row), 1, 1, facecolor="none", edgecolor="black", linewidth=1.4))
    axes.set(xticks=range(0, one.columns + 1, 8), yticks=range(0, one.rows + 1, 8))
    axes.set_title(title, fontsize=9)


def fragments_picture() -> str:
    """The three operands of mma.m16n8k16 with the lane that owns each element."""
    figure = Figure(figsize=(8.4, 3.6), layout="constrained", facecolor=PAPER)
    panels = figure.subplots(1, 3, width_ratios=(2, 1, 1))
    for axes, (operand, kind, title) in zip(
        panels, (("a", "f16", "A: 16 x 16"), ("b", "f16", "B: 16 x 8"), ("c", "f32", "C: 16 x 8")), strict=True
    ):
        _draw_fragment(axes, fragment("mma", "m16n8k16", kind, operand), title)
    return svg(figure, "lab07-fragments")


def bars() -> tuple[Bar, ...]:
    """Who waits for whom in one block of step 06, over a few tiles."""
    program = Program(runs.contract(f"{LAB}/06_wgmma"), device="sim")
    sizes = {"M": 256, "N": 256, "K": 64 * TILES}
    found = program.run(sizes, random_inputs(program.contract.bind(sizes)), handoffs=True)
    return schedule(found.launches[0].handoffs)


def pipeline_picture() -> str:
    """Stages and warpgroups as rows, steps of the shortest schedule to the right."""
    shown = bars()
    stages = sorted({bar.stage for bar in shown if bar.row == COPIES})
    groups = sorted({bar.row for bar in shown if bar.row.startswith("warpgroup")})
    rows = [*(f"stage {stage}" for stage in stages), *groups]
    figure = Figure(figsize=(8.4, 0.8 + 0.36 * len(rows)), layout="constrained", facecolor=PAPER)
    axes = figure.subplots()
    axes.set_facecolor(PAPER)
    colours = (BLUE, ORANGE, GREEN, RED)
    for bar in shown:
        if bar.row != COPIES and bar.row not in rows:
            continue
        y = rows.index(f"stage {bar.stage}" if bar.row == COPIES else bar.row)
        colour = colours[bar.stage % 4]
        axes.add_patch(Rectangle((bar.start, y - 0.35), bar.end - bar.start, 0.7, facecolor=colour, edgecolor=PAPER))
        told = f"copy {bar.tile}" if bar.row == COPIES else str(bar.tile)
        axes.text((bar.start + bar.end) / 2, y, told, ha="center", va="center", fontsize=7, color="white")
        if bar.row == COPIES:
            used = max((b.end for b in shown if b.tile == bar.tile and b.row != COPIES), default=bar.end)
            axes.add_patch(Rectangle((bar.end, y - 0.35), used - bar.end, 0.7, facecolor=colour, alpha=0.25))
    axes.set_yticks(range(len(rows)), rows)
    axes.set(ylim=(len(rows) - 0.5, -0.5), xlim=(0, max(bar.end for bar in shown)), xlabel="steps")
    axes.spines[["top", "right"]].set_visible(False)
    return svg(figure, "lab07-pipeline")


TABLES = {
    "costs": costs_table, "times": times_table, "sums": sums_table, "zeros": zeros_table, "sizes": sizes_table,
    "limit": limit_table,
}  # fmt: skip
IMAGES = {"lab07-fragments.svg": fragments_picture, "lab07-pipeline.svg": pipeline_picture}
