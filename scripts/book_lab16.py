"""The figures of docs/learn/lab16.md: a pair joined from parts, tiles of a causal text, bytes of attention; fast
kernels beside the steps, and a network that learnt."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scripts import book_runs as runs
from scripts.book_pictures import BLUE, EMPTY, GREY, ORANGE, PAPER, blues, draw_map, svg

from warpschool.contract import Contract, parse_contract
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
             ("and 1", join(join(left, singles[2]), singles[3])), ("3 and 1 by themselves", right),
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
    head = (">tokens", "step", ">asked for", ">stored", ">stored, times the result's size", ">multiply-adds, millions")
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


DRAWN_TO_SCALE, GAP = 1024, 130
"""Tokens of the picture in which each array is as large as it is, and how far its parts stand apart."""


def areas_picture() -> str:
    """What three kernels keep in memory, and what one keeps, to scale: a head of 1,024 tokens, D = 64."""
    n, table = DRAWN_TO_SCALE, D + GAP
    wide = (2 * (n + GAP) + 2 * D + GAP, n + 2 * GAP + 2 * D)
    figure = Figure(figsize=(8.4, 3.1), layout="constrained", facecolor=PAPER)
    left, right = figure.subplots(1, 2, width_ratios=[one + 160 for one in wide])
    _strips(left, query=None)
    for number, told in enumerate(("scores", "shares")):
        x = table + number * (n + GAP)
        left.add_patch(Rectangle((x, 0), n, n, facecolor=f"{ORANGE}55", edgecolor=ORANGE, hatch="//", linewidth=0.8))
        left.text(x + n / 2, n / 2, f"{told}\n{n:,} x {n:,}", ha="center", va="center", fontsize=9)
    left.set_title("step 04: three kernels, a table between two of them", fontsize=9)
    _strips(right, query=4)
    tile = (table + 5 * TILE, 4 * TILE, TILE, TILE)
    _block(right, tile, "", colour=ORANGE)
    right.annotate("one tile of scores,\nin registers", xy=(tile[0] + TILE, tile[1] + TILE / 2),
                   xytext=(tile[0] + 2.4 * TILE, tile[1] + 2 * TILE), fontsize=8, va="center",
                   arrowprops={"arrowstyle": "-", "color": GREY})  # fmt: skip
    right.set_title("step 05: one kernel, no table", fontsize=9)
    for axes, across in zip((left, right), wide, strict=True):
        _block(axes, (across - D, 0, D, n), "O")
        axes.set(xlim=(-80, across + 80), ylim=(n + 20, -2 * D - 190), aspect="equal")
        axes.axis("off")
    return svg(figure, "lab16-areas")


def _strips(axes: Axes, *, query: int | None) -> None:
    """Q as it lies, K and V on their sides above the table whose columns they belong to; or what one tile needs."""
    n, apart = DRAWN_TO_SCALE, query is None
    _block(axes, (0, 0, D, n), "Q")
    for number, told in enumerate("KV"):
        x = D + GAP + (number * (n + GAP) if apart else 0)
        y = -GAP - D if apart or number == 0 else 20 - GAP
        _block(axes, (x, y, n, D), told)
        if not apart:
            _block(axes, (x + 5 * TILE, y, TILE, D), "", strong=True)
    if query is not None:
        _block(axes, (0, query * TILE, D, TILE), "", strong=True)


def _block(
    axes: Axes, place: tuple[float, float, float, float], told: str, *, colour: str = BLUE, strong: bool = False
) -> None:
    left, top, wide, high = place
    face = colour if strong else f"{colour}44"
    axes.add_patch(Rectangle((left, top), wide, high, facecolor=face, edgecolor=colour, linewidth=0.8))
    at = (left - 30, top + high / 2) if wide > high else (left + wide / 2, top - 36)
    axes.text(*at, told, ha="center", va="center", fontsize=9, fontweight="bold")


TILES_DRAWN = 3
TAKES = {"S": 64 * 128 * 64 // 2048, "p": 64 * 128 // 16, "V": 64 * 128 * 64 // 2048}
"""Cycles of an SM for 64 queries and 128 keys, D = 64: scores, their powers, and values, by tensor cores but powers."""
Turn = tuple[int, str, int, int]
"""a warpgroup, what it does (S0: scores of tile 0, p0: their powers, V0: values), its first cycle, the one behind"""


def units_picture() -> str:
    """Who has tensor cores and who computes powers: one warpgroup in turn, begun ahead, and two warpgroups."""
    figure = Figure(figsize=(8.4, 4.6), layout="constrained", facecolor=PAPER)
    ways = (
        ("one warpgroup, one after the other", 1, False),
        ("one warpgroup, values a tile behind", 1, True),
        ("two warpgroups, values a tile behind", 2, True),
    )
    for axes, (told, groups, ahead) in zip(figure.subplots(len(ways), 1, sharex=True), ways, strict=True):
        turns = scheduled(groups, ahead=ahead)
        tiles = groups * TILES_DRAWN
        _draw_turns(axes, turns, f"{told}: {max(end for *_, end in turns) / tiles:,.0f} cycles for each tile")
    figure.axes[-1].set_xlabel("cycles")
    return svg(figure, "lab16-units")


def scheduled(groups: int, *, ahead: bool) -> list[Turn]:
    """When each warpgroup has which unit, if a unit serves one at a time, and first whoever can begin first."""
    tiles = range(TILES_DRAWN)
    plan = [f"{kind}{tile}" for tile in tiles for kind in "SpV"]
    if ahead:
        plan = ["S0", "p0", *(name for tile in tiles[1:] for name in (f"S{tile}", f"V{tile - 1}", f"p{tile}")),
                f"V{tiles[-1]}"]  # fmt: skip
    left = {group: list(plan) for group in range(groups)}
    free: dict[bool, int] = {}
    done: dict[tuple[int, str], int] = {}
    turns = []
    while any(left.values()):
        begin, group = min(
            (max(_ready(done, group, names[0], ahead), free.get(names[0][0] == "p", 0)), group)
            for group, names in left.items()
            if names
        )
        name = left[group].pop(0)
        done[group, name] = free[name[0] == "p"] = begin + TAKES[name[0]]
        turns.append((group, name, begin, done[group, name]))
    return turns


def _ready(done: dict[tuple[int, str], int], group: int, name: str, ahead: bool) -> int:
    """When all that must have ended before has ended."""
    tile = int(name[1:])
    before = {
        "S": (f"p{tile - 1}", f"V{tile - 2 if ahead else tile - 1}"),
        "p": (f"S{tile}",),
        "V": (f"p{tile}",),
    }[name[0]]
    return max(done.get((group, other), 0) for other in before)


def _draw_turns(axes: Axes, turns: list[Turn], told: str) -> None:
    """Two rows of bars: tensor cores, powers."""
    for group, name, begin, end in turns:
        colour, row = (BLUE, ORANGE)[group], int(name[0] == "p")
        axes.add_patch(Rectangle((begin, row + 0.1), end - begin, 0.8, facecolor=f"{colour}44", edgecolor=colour))
        axes.text((begin + end) / 2, row + 0.5, name + "\u2032" * group, ha="center", va="center", fontsize=7)
    axes.set(ylim=(2, 0), xlim=(0, 3700), yticks=(0.5, 1.5), yticklabels=("tensor cores", "powers"))
    axes.set_title(told, fontsize=9, loc="left")
    axes.set_facecolor(PAPER)
    axes.spines[["top", "right"]].set_visible(False)


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


# ---------------------------------------------------------------- beside the steps

DECODING = ("08_decoding", "decoding_fragments")
BACKWARD = ("07_backward", "attention_backward_atomics")
READER, APART = "read_all", "parts apart"
COUNTED, D_DECODING = 2_048, 128
"""Kept tokens for which instructions are counted, and the numbers of a key."""


def instructions_table() -> str:
    """Instructions that a warp issues for each KiB of keys and values, by the simulator."""
    rows = []
    for name, contract in zip(DECODING, (runs.contract(f"{LAB}/{DECODING[0]}"), _beside(DECODING[1])), strict=True):
        counters = runs.run(contract, {"TEXTS": 1, "GROUPS": 1, "N": COUNTED}).counters
        kib = 2 * COUNTED * D_DECODING * 2 / 1024
        issued, added = counters.warp_instructions, counters.fma_instructions / 32
        rows.append((f"`{name}`", f"{issued / kib:.0f}", f"{added / kib:.0f}"))
    return runs.table(("kernel", ">instructions a KiB", ">multiply-adds among them"), rows)


def _beside(name: str) -> Contract:
    """A kernel file of benchmarks/kernels."""
    path = runs.ROOT / "benchmarks" / "kernels" / f"{name}.cu"
    return parse_contract(path.read_text(encoding="utf-8"), name=path.name)


def decoding_table() -> str:
    """Decoding, with and without the joining of its parts, and reading alone, against a copy of as many bytes."""
    found = _decoding()
    kinds = (*((name, "") for name in DECODING), (DECODING[1], APART), (READER, ""))
    columns = [[row for row in found if (row["step"], row["note"]) == kind] for kind in kinds]
    rows = []
    for step, beside, apart, reading in zip(*columns, strict=True):
        texts, groups, kept = step["sizes"].values()
        moved = 4 * texts * groups * kept * D_DECODING
        rows.append((texts, f"{kept:,}", f"{moved / 1e6:,.0f} MB", runs.us(beside["reference_ms"] * 1e3),
                     f"{reading['ratio']:.2f}", runs.us(step["time_ms"] * 1e3), f"{step['ratio']:.2f}",
                     runs.us(beside["time_ms"] * 1e3), f"{beside['ratio']:.2f}", f"{apart['ratio']:.2f}"))  # fmt: skip
    head = (">texts", ">kept tokens", ">keys and values", ">a copy", ">reading alone, of its speed", ">08",
            ">of the copy's speed", ">`decoding_fragments`", ">of the copy's speed",
            ">its parts left apart")  # fmt: skip
    return runs.table(head, rows)


def _decoding() -> list[dict[str, Any]]:
    """The rows of decoding of a record that has all of them, from benchmarks/attention.py."""
    for chip in ("h200", "h100"):
        rows = [row for row in recorded(f"attention_{chip}.json")["rows"] if row["part"] == "decoding"]
        if any(row["note"] == APART for row in rows):
            return rows
    raise LookupError("benchmarks/attention.py was never run with its part \"decoding\"")


def backward_table() -> str:
    """Backward in float32 against PyTorch's, from benchmarks/attention.py."""
    rows = []
    for row in recorded("attention_h200.json")["rows"]:
        if row["part"] == "backward":
            mask = "causal" if row["sizes"]["causal"] else "none"
            products = {BACKWARD[0]: 7, BACKWARD[1]: 5}[row["step"]]
            rows.append((f"`{row['step']}`", mask, products, runs.us(row["time_ms"] * 1e3),
                         runs.us(row["reference_ms"] * 1e3), f"{row['ratio']:.2f}"))  # fmt: skip
    return runs.table(("kernel", "mask", ">products", ">time", ">PyTorch's", ">of its speed"), rows)


# ---------------------------------------------------------------- a network that learnt


def writer_table() -> str:
    """What the recorded network came to, and its step beside PyTorch's."""
    found = recorded("writer_h200.json")
    eager, compiled = found["against"]
    rows = [
        ("parameters", f"{found['parameters']:,}"),
        ("steps, of 32 texts of 256 characters", f"{found['steps']:,}"),
        ("time of training", runs.us(found["seconds"] * 1e6)),
        ("loss of stories that were held out, nats a character", f"{found['held_out']:.4f}"),
        ("the least there is for them", f"{found['least']:.4f}"),
        ("lines it wrote that are right in every answer", f"{found['right']} of {found['lines']}"),
        ("a step", runs.us(eager["step_ms"] * 1e3)),
        ("PyTorch's step, eager", runs.us(eager["pytorch_step_ms"] * 1e3)),
        ("PyTorch's step, compiled", runs.us(compiled["pytorch_step_ms"] * 1e3)),
    ]
    return runs.table(("what", ">how much"), rows)


def written_table() -> str:
    """A line that the recorded network wrote."""
    return f"> {recorded('writer_h200.json')['written'].splitlines()[0]}"


LEVELS = 4


def looks_picture() -> str:
    """For each block the most that any of its heads gives each character, before two answers."""
    looks = recorded("writer_h200.json")["looks"]
    figure = Figure(figsize=(11, 1.3 * len(looks)), layout="constrained", facecolor=PAPER)
    for axes, look in zip(figure.subplots(len(looks), 1), looks, strict=True):
        most = np.array(look["weights"]).max(axis=1)
        blocks, count = most.shape
        draw_map(axes, np.ceil(most * LEVELS - 0.2).clip(0, LEVELS).astype(int), blues(LEVELS))
        text = look["text"].replace("\n", " ")
        axes.set(aspect="auto", ylabel="block", title=f"before {text[count:count + look['letters']]!r}")
        axes.set_yticks(np.arange(blocks) + 0.5, [str(block + 1) for block in range(blocks)])
        axes.set_xticks(np.arange(count) + 0.5, list(text[:count]))
        axes.tick_params(axis="x", labelsize=6, length=0)
    return svg(figure, "lab16-looks")


TABLES = {
    "pairs": pairs_table, "bytes": bytes_table, "times": times_table, "cycles": cycles_table, "hopper": hopper_table,
    "instructions": instructions_table, "decoding": decoding_table, "backward": backward_table,
    "writer": writer_table, "written": written_table,
}  # fmt: skip
IMAGES = {
    "lab16-tiles.svg": tiles_picture, "lab16-looks.svg": looks_picture, "lab16-areas.svg": areas_picture,
    "lab16-units.svg": units_picture,
}  # fmt: skip
