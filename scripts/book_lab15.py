"""The figures of docs/learn/lab15.md: scans as trees and in counts, how often atomics meet, and recorded times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scripts import book_runs as runs
from scripts.book_pictures import BLUE, GREEN, GREY, ORANGE, PAPER, arrow, box, svg

import warpschool as ws
from warpcourse.lab15_patterns.cases import atomic_lanes
from warpcourse.lab15_patterns.lab import bytes_to_count
from warpschool.recorded import recorded

LAB = "lab15_patterns"
SMALL = 64
"""elements of a scan that is drawn: the fewest that step 03 takes"""
SCANS = ("02_kogge_stone", "03_work_efficient")
MISTAKES = tuple(
    f"{LAB}/{name}"
    for name in (
        "01_segmented_sum/plain_addition",
        "01_segmented_sum/past_the_last_lane",
        "02_kogge_stone/one_buffer_one_barrier",
        "02_kogge_stone/half_the_steps",
        "03_work_efficient/left_overwritten",
        "03_work_efficient/no_gaps",
        "04_look_back/tile_by_block",
        "04_look_back/relaxed_store",
        "05_histogram/plain_addition",
        "06_compaction/itself_counted",
    )
)
Edge = tuple[int, int, int]


@dataclass
class Round:
    """What the lanes of a warp have loaded and stored since they began a round of a scan."""

    number: int = 0
    loaded: dict[int, set[int]] = field(default_factory=dict)
    recent: dict[int, set[int]] = field(default_factory=dict)
    """loaded since the last store"""
    stored: dict[int, set[int]] = field(default_factory=dict)

    def load(self, places: Mapping[int, Sequence[int]]) -> None:
        """A round ends where, after a store, something is loaded that is new, or that was stored in it."""
        for lane, some in places.items():
            self.recent.setdefault(lane, set()).update(some)
        begins = any(
            not set(some) <= self.loaded.get(lane, set()) or set(some) & self.stored.get(lane, set())
            for lane, some in places.items()
        )
        if self.stored and begins:
            self.number, self.stored, self.loaded = self.number + 1, {}, {}
        for lane, recent in self.recent.items():
            self.loaded.setdefault(lane, set()).update(recent)

    def store(self, places: Mapping[int, int]) -> set[Edge]:
        """The edges that lead into the places."""
        self.recent = {}
        for lane, place in places.items():
            self.stored.setdefault(lane, set()).add(place)
        return {
            (self.number, origin, place)
            for lane, place in places.items()
            for origin in self.loaded.get(lane, ())
            if origin != place
        }


def edges(step: str) -> list[Edge]:
    """(round, from, to): which other place's number goes into a place, of a scan in shared memory."""
    tree = step.startswith("03")

    def place_of(word: int) -> int:
        """Step 03 leaves a word free after each 32; step 02 has two rows of sums."""
        return word - word // 33 if tree else word % SMALL

    seen = runs.seen(runs.contract(f"{LAB}/{step}"), {"n": SMALL}, constants={"SPAN": SMALL})
    found: set[Edge] = set()
    rounds: dict[int, Round] = {}
    for request in (a for a in seen.accesses if a.space == "shared"):
        own = rounds.setdefault(request.warp, Round())
        words = dict(zip(request.lanes.tolist(), request.elements().tolist(), strict=True))
        if request.kind == "load":
            count = request.nbytes // 4
            own.load({lane: [place_of(first + k) for k in range(count)] for lane, first in words.items()})
        else:
            found |= own.store({lane: place_of(word) for lane, word in words.items()})
    return sorted(found)


def _draw(axes: Axes, title: str, found: Sequence[Edge]) -> None:
    rounds = sorted({number for number, _, _ in found})
    ends = [(origin, place, rounds.index(number)) for number, origin, place in found]
    for colour, some in ((ORANGE, [e for e in ends if e[0] > e[1]]), (BLUE, [e for e in ends if e[0] <= e[1]])):
        across = [x for origin, place, _ in some for x in (origin, place, np.nan)]  # one path: a gap behind each line
        axes.plot(across, [y for _, _, row in some for y in (row, row + 1, np.nan)], color=colour, linewidth=0.6)
    axes.plot([place for _, place, _ in ends], [row + 1 for _, _, row in ends], "o", color=BLUE, markersize=1.5)
    axes.vlines(range(SMALL), 0, len(rounds), color=GREY, linewidth=0.2, zorder=0)
    axes.set(
        xlim=(-0.7, SMALL - 0.3),
        ylim=(len(rounds) + 0.3, -0.3),
        xticks=range(0, SMALL, 16),
        yticks=range(len(rounds) + 1),
    )
    axes.set_facecolor(PAPER)
    axes.spines[:].set_visible(False)
    axes.set(xlabel="place in shared memory", ylabel="round")
    axes.set_title(title, fontsize=9)


def trees_picture() -> str:
    """Both scans: a line for each number that goes from one place to another."""
    figure = Figure(figsize=(8.4, 3.4), layout="constrained", facecolor=PAPER)
    for axes, step, told in zip(
        figure.subplots(1, 2), SCANS, ("02: all at once", "03: up and down a tree"), strict=True
    ):
        found = edges(step)
        _draw(axes, f"{told}, {len(found)} lines", found)
    return svg(figure, "lab15-trees")


def scans_table() -> str:
    """Counts of the two scans in a block, and of the one over all blocks."""
    rows = []
    for step in (*SCANS, "04_look_back"):
        kernel = runs.contract(f"{LAB}/{step}")
        size = {"n": 8192} | ({"first": 0} if step.startswith("04") else {})
        found = runs.run(kernel, size)
        c = found.counters
        warps = sum(launch.blocks * launch.threads_per_block // 32 for launch in found.launches)
        rows.append(
            (
                step[:2],
                f"{c.operations / 8192:.2f}",
                f"{c.barriers / warps:.0f}",
                f"{c.shared_load_wavefronts + c.shared_store_wavefronts:,}",
                f"{(c.global_load_bytes + c.global_store_bytes) / 8192:.2f}",
            )
        )
    head = ("step", ">additions an element", ">barriers of a warp", ">passes of shared memory",
            ">bytes of global memory an element")  # fmt: skip
    return runs.table(head, rows)


def atomics_table() -> str:
    """Three ways to count bytes, for three kinds of data."""
    plain = runs.printed("lab15", "count.cu")
    ways = {"all to global memory": (plain, {"SHARED": 0}), "a histogram for each block": (plain, {"SHARED": 1}),
            "the reference: one lane adds for its equals": (runs.contract(f"{LAB}/05_histogram"), {})}  # fmt: skip
    rows = []
    for told, (kernel, constants) in ways.items():
        for kind, x in bytes_to_count().items():
            found = runs.run(kernel, {"n": len(x)}, {"x": x}, constants=constants)
            time = ws.predict_time(found.launches[0], gpu="h200")
            assert time.us is not None, time.reason
            rows.append(
                (
                    told,
                    kind,
                    f"{atomic_lanes(found, 'global'):,}",
                    f"{atomic_lanes(found, 'shared'):,}",
                    runs.us(time.us),
                )
            )
    head = ("way", "65,536 bytes of", ">additions to global memory", ">to shared memory", ">predicted")
    return runs.table(head, rows)


WAYS = {
    ("scan", "lab15_patterns/04_look_back"): "04: a flag and two numbers for each tile",
    ("scan", "look_back_lines, side by side"): "`look_back_lines`, all words side by side",
    ("scan", "look_back_lines"): "`look_back_lines`, a line of memory for each word",
    ("scan", "torch.cumsum"): "CUB, as `torch.cumsum` calls it",
    ("segments", "lab15_patterns/01_segmented_sum"): "01: an addition for each run of a warp",
    ("segments", "segmented_fours"): "`segmented_fours`",
    ("sort", "lab15_patterns/07_radix_pass"): "07, eight passes, keys with values",
    ("sort", "radix_sweep"): "`radix_sweep`, four passes, keys with values",
    ("sort", "radix_sweep, keys alone"): "`radix_sweep`, keys alone",
}
"""part and name of a recorded row -> what the chapter calls it"""
SHOWN_SIZES = {"scan": ({"n": 1 << 28},), "segments": ({"n": 1 << 26, "S": 1 << 10}, {"n": 1 << 26, "S": 1 << 20}),
               "sort": ({"n": 1 << 26},)}  # fmt: skip


def speeds_table() -> str:
    """Recorded times of steps and of the fast kernels, against a copy or against cupy.sort."""
    rows = []
    for (part, name), told in WAYS.items():
        for sizes in SHOWN_SIZES[part]:
            found = next(
                row for row in recorded("patterns_h200.json")["rows"]
                if (row["part"], row["step"], row["sizes"]) == (part, name, sizes)
            )  # fmt: skip
            segments = f", {sizes['S']:,} segments" if "S" in sizes else ""
            rows.append(
                (f"{sizes['n']:,}{segments}", told, runs.us(found["time_ms"] * 1e3), found["reference"],
                 f"{found['ratio']:.2f}")
            )  # fmt: skip
    return runs.table(("elements", "way", ">time", "against", ">of its speed"), rows)


TOLD = ((10, True), (25, True), (7, False), (4, False))
"""What tiles 0 to 3 have told when tile 4 looks: a number, and whether it is all up to the tile's end."""


def look_back_picture() -> str:
    """Tile 4 looks at those before it, one after the other, until one knows everything before."""
    figure = Figure(figsize=(7.4, 2.4), layout="constrained", facecolor=PAPER)
    axes = figure.subplots()
    asking, size, found = len(TOLD), (1.5, 0.7), 0
    for tile, (number, is_whole) in enumerate(TOLD):
        told = f"{number}: all so far" if is_whole else f"{number}: its own"
        box(axes, (2 * tile, 0), size, told, colour=GREEN if is_whole else ORANGE)
        axes.text(2 * tile, -0.6, f"tile {tile}", ha="center", va="center", fontsize=8)
    for look, tile in enumerate(reversed(range(asking)), start=1):
        number, is_whole = TOLD[tile]
        found += number
        y = 0.9 + 0.45 * (look - 1)
        begin = 2 * asking - 0.3 * (3 - look)
        axes.plot([begin, begin, 2 * tile], [size[1] / 2, y, y], color=BLUE, linewidth=1.2)
        arrow(axes, (2 * tile, y), (2 * tile, size[1] / 2), BLUE, thin=True)
        axes.text(2 * tile + 0.12, y + 0.18, f"look {look}: {found} so far", va="center", fontsize=8)
        if is_whole:
            break
    box(axes, (2 * asking, 0), size, f"{found} lie before", colour=BLUE)
    axes.text(2 * asking, -0.6, f"tile {asking}", ha="center", va="center", fontsize=8)
    axes.set(xlim=(-0.9, 2 * asking + 0.9), ylim=(-0.85, 2.2))
    axes.axis("off")
    return svg(figure, "lab15-look-back")


TABLES = {"scans": scans_table, "atomics": atomics_table, "speeds": speeds_table}
IMAGES = {"lab15-trees.svg": trees_picture, "lab15-look-back.svg": look_back_picture}
