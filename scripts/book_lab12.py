"""The figures of docs/learn/lab12.md: loads of tiles, who sums which channels, what splitting brings, layers."""

from __future__ import annotations

from functools import cache

from matplotlib.figure import Figure
from scripts import book_runs as runs
from scripts.book_pictures import BLUE, GREEN, GREY, ORANGE, PAPER, RED, svg

from warpcourse.lab12_split_channels.tiles import block_intensity, thread_intensity, tiles_of
from warpschool.clock.prediction import Prediction
from warpschool.nn import Convolution
from warpschool.recorded import recorded

LAB = "lab12_split_channels"
STEPS = tuple(
    f"{LAB}/{name}"
    for name in (
        "01_register_tile",
        "02_block_tile",
        "03_staged_store",
        "04_split_c_warp",
        "05_split_c_block",
        "06_split_c_grid",
    )
)
GRID = f"{LAB}/06_split_c_grid"
SPLITS = (1, 2, 4, 8, 16, 32)
SMALL = {"BATCH": 1, "C": 32, "H": 7, "W": 7, "F": 64, "R": 3, "S": 3, "STRIDE": 1, "PAD": 1}
R12 = {**SMALL, "C": 512, "F": 512}
LAYERS = ("R2", "R6", "R9", "R12", "R8", "R11", "Y18", "Y19")
MISTAKES = tuple(
    f"{LAB}/{name}"
    for name in (
        "01_register_tile/not_unrolled",
        "02_block_tile/one_stage_early",
        "02_block_tile/past_the_channels",
        "03_staged_store/not_padded",
        "04_split_c_warp/half_of_the_groups",
        "05_split_c_block/same_plane",
    )
)


def loads_table() -> str:
    """What the references load for each multiply-add at one layer, beside the two formulas."""
    problem = Convolution(batch=1, channels=32, height=16, width=16, filters=64, rows=3, cols=3, pad=1)
    rows = []
    for step in STEPS:
        kernel = runs.contract(step)
        tiles = tiles_of(kernel)
        found = runs.run(kernel, problem.sizes)
        c = found.launches[0].counters
        by_thread = c.shared_load_bytes or c.global_load_bytes
        rows.append(
            (
                runs.short(step),
                f"{found.launches[0].blocks}",
                f"{4 * c.fma_instructions / by_thread:.2f}",
                f"{thread_intensity(tiles, problem):.2f}",
                f"{4 * c.fma_instructions / c.global_load_bytes:.1f}",
                ""
                if step.endswith(("01_register_tile", "04_split_c_warp"))
                else f"{block_intensity(tiles, problem):.1f}",
                f"{found.launches[0].counters.excess_store_sectors:,}",
            )
        )
    head = ("step", ">blocks", ">products a load of a thread", ">by the formula", ">products a global load",
            ">by the formula for a block", ">store sectors in excess")  # fmt: skip
    return runs.table(head, rows)


@cache
def predicted(splits: int) -> Prediction:
    return runs.predicted(runs.contract(GRID), R12, constants={"SPLITS": splits})


def splits_table() -> str:
    """A layer of 512 channels of 7 x 7 and 512 filters, its channels cut in parts."""
    rows = []
    for splits in SPLITS:
        found = predicted(splits)
        conv = found.launches[0]
        blocks = conv.grid[0] * conv.grid[1] * conv.grid[2]
        rows.append(
            (
                splits,
                blocks,
                f"{min(blocks, 132)} of 132",
                runs.us(runs.time_us(found)),
                f"{conv.waits_for} {conv.states[conv.waits_for]:.0%}",
                f"{2 * 9 * 49 * 512 * 512 / runs.time_us(found) * 1e-6:.1f} TFLOP/s",
            )
        )
    head = (">parts", ">blocks", ">SMs with a block", ">predicted", "waits most for", ">speed")
    return runs.table(head, rows)


def channels_of(block: int) -> set[int]:
    """The channels of the image that one copy of the grid asks for."""
    places = SMALL["H"] * SMALL["W"]
    seen = runs.seen(runs.contract(GRID), SMALL, block=block)
    loads = [a for a in seen.accesses if (a.space, a.array) == ("global", "x")]  # copies that nobody waits for, here
    return {int(element) // places for request in loads for element in request.elements()}


def split_picture() -> str:
    """Which channels each of four copies of the grid sums, and predicted times against the number of parts."""
    figure = Figure(figsize=(8.4, 2.8), layout="constrained", facecolor=PAPER)
    left, right = figure.subplots(1, 2)
    for copy, colour in enumerate((BLUE, ORANGE, GREEN, RED)):
        left.broken_barh([(channel, 1) for channel in sorted(channels_of(copy))], (copy - 0.35, 0.7), facecolors=colour)
    left.set_yticks(range(4), [f"copy {copy}" for copy in range(4)])
    left.set(xlim=(0, SMALL["C"]), ylim=(3.6, -0.6), xlabel="channel")
    left.set_title("channels that a copy of the grid sums", fontsize=9)
    right.plot(range(len(SPLITS)), [predicted(splits).us for splits in SPLITS], "o-", color=BLUE)
    right.set_xticks(range(len(SPLITS)), list(map(str, SPLITS)))
    right.set_ylim(bottom=0)
    right.set(xlabel="parts of 512 channels", ylabel="us, predicted")
    for axes in (left, right):
        axes.set_facecolor(PAPER)
        axes.spines[["top", "right"]].set_color(GREY)
    return svg(figure, "lab12-split")


def layers_table() -> str:
    """Layers of ResNet and Yolo, one image, as recorded with the tiles that the search found."""
    found = {row["layer"]: row for row in recorded("split_channels_h200.json")["rows"]}
    rows = []
    for name in LAYERS:
        row = found[name]
        s, tiles = row["sizes"], row["tiles"]
        rows.append(
            (
                name,
                f"{s['C']} of {s['H']} x {s['W']}",
                f"{s['F']} of {s['R']} x {s['S']}",
                f"{tiles['groups']} x {tiles['splits']}",
                row["blocks"],
                runs.us(row["time_us"]),
                f"{row['tflop_per_s']:.1f}",
                runs.us(row["cudnn_us"]),
                f"{row['ratio']:.2f}",
            )
        )
    head = ("layer", "channels", "filters", ">parts in a block x copies of the grid", ">blocks",
            ">measured", ">TFLOP/s", ">cuDNN", ">of cuDNN's time")  # fmt: skip
    return runs.table(head, rows)


TABLES = {"loads": loads_table, "splits": splits_table, "layers": layers_table}
IMAGES = {"lab12-split.svg": split_picture}
