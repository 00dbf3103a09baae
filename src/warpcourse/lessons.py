"""Pictures of labs 00 to 05, which later labs use too.

Each function draws from numbers that it is given and returns the figure. What `warpschool.inspect.accesses` did not see
(None: a kernel made no such request) becomes a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from warpschool.counters import SECTOR_BYTES, Counters
from warpschool.inspect.accesses import WarpRequest
from warpschool.model import Roofline

# Okabe and Ito's palette: it stays distinct with every common form of colour blindness.
BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#B8B8B8"
_SERIES = (BLUE, ORANGE, GREEN, RED, "#CC79A7", "#56B4E9")


def draw_blocks(n: int, block: int) -> Figure:
    """A one-dimensional grid over `n` elements: one box per block, the threads past the end in grey."""
    blocks = -(-n // block)
    figure, axes = plt.subplots(figsize=(8, 1.3))
    for index in range(blocks):
        first, last = index * block, (index + 1) * block
        axes.add_patch(Rectangle((first, 0), block, 1, facecolor=_SERIES[index % 2], edgecolor="white", linewidth=2))
        if last > n:
            axes.add_patch(Rectangle((max(n, first), 0), last - max(n, first), 1, facecolor=GREY, hatch="///"))
        axes.text(first + block / 2, 0.5, f"block {index}", ha="center", va="center", color="white")
    axes.set(xlim=(0, blocks * block), ylim=(0, 1), yticks=[], xticks=[*range(0, n, block), n], xlabel="element")
    axes.set_title(f"{blocks} blocks of {block} threads for {n} elements; grey threads have no element", fontsize=10)
    figure.tight_layout()
    return figure


def draw_sectors(patterns: Mapping[str, npt.ArrayLike], *, item_bytes: int = 4) -> Figure:
    """Which 32-byte sectors the lanes of a warp touch.

    `patterns`: title -> the element that each lane takes (32 integers). One row of small boxes per pattern and lane.
    """
    figure, panels = plt.subplots(len(patterns), 1, figsize=(8, 1.7 * len(patterns)), squeeze=False)
    for axes, (title, elements) in zip(panels[:, 0], patterns.items(), strict=True):
        sectors = np.asarray(elements, dtype=np.int64) * item_bytes // SECTOR_BYTES
        places = {int(sector): place for place, sector in enumerate(dict.fromkeys(sectors))}
        width = len(sectors) / len(places)
        for lane, sector in enumerate(sectors):
            centre = (places[int(sector)] + 0.5) * width - 0.5
            axes.plot([lane, centre], [1, 0.25], color=BLUE, linewidth=0.8)
        for place in places.values():
            corner = ((place + 0.05) * width - 0.5, 0)
            axes.add_patch(Rectangle(corner, width * 0.9, 0.25, facecolor=ORANGE, edgecolor="black", linewidth=0.5))
        axes.plot(range(len(sectors)), [1] * len(sectors), "s", color=BLUE, markersize=5)
        axes.set(xlim=(-1, len(sectors)), ylim=(-0.05, 1.15))
        axes.set_yticks([0.12, 1], ["sectors", "lanes"])
        axes.set_xticks([])
        axes.set_title(f"{title}: {len(places)} sectors", fontsize=10)
    figure.tight_layout()
    return figure


def draw_tiles(
    rows: int, cols: int, depth: int, *, tile: int, block: tuple[int, int] = (1, 1), step: int | None = None
) -> Figure:
    """C = A * B and what block (y, x) of C reads, in grey; with `step`, the two tiles of that round in blue.

    C has `rows` x `cols` elements, each a sum of `depth` products.
    """
    figure, axes = plt.subplots(figsize=(6, 6))
    gap = max(rows, cols, depth) * 0.12
    y, x = block
    origin = {"A": (0.0, 0.0), "B": (depth + gap, -depth - gap), "C": (depth + gap, 0.0)}
    shape = {"A": (rows, depth), "B": (depth, cols), "C": (rows, cols)}
    reads = {"A": (y * tile, 0, tile, depth), "B": (0, x * tile, depth, tile)}
    for name, (left, top) in origin.items():
        height, width = shape[name]
        axes.add_patch(Rectangle((left, top), width, height, facecolor="white", edgecolor="black"))
        if name in reads:
            axes.add_patch(_part(origin[name], shape[name], *reads[name], GREY))
        for line in range(tile, max(height, width), tile):
            if line < width:
                axes.plot([left + line] * 2, [top, top + height], color="black", linewidth=0.3)
            if line < height:
                axes.plot([left, left + width], [top + line] * 2, color="black", linewidth=0.3)
        axes.text(left + width / 2, top - gap / 5, f"{name}  {height} x {width}", ha="center", va="bottom")
    axes.add_patch(_part(origin["C"], shape["C"], y * tile, x * tile, tile, tile, ORANGE))
    title = f"block ({x}, {y}) of C reads the grey parts"
    if step is not None:
        axes.add_patch(_part(origin["A"], shape["A"], y * tile, step * tile, tile, tile, BLUE))
        axes.add_patch(_part(origin["B"], shape["B"], step * tile, x * tile, tile, tile, BLUE))
        title = f"block ({x}, {y}) of C, round {step + 1} of {-(-depth // tile)}: the blue tiles are in shared memory"
    axes.set(xlim=(-gap / 2, depth + gap + cols + gap / 2), ylim=(rows + gap / 2, -depth - 2 * gap))
    axes.set_aspect("equal")
    axes.axis("off")
    axes.set_title(title, fontsize=10)
    return figure


def _part(
    origin: tuple[float, float], shape: tuple[int, int], row: int, col: int, tall: int, wide: int, colour: str
) -> Rectangle:
    """A part of a matrix, cut at its edges."""
    height, width = shape
    corner = (origin[0] + col, origin[1] + row)
    return Rectangle(corner, max(0, min(wide, width - col)), max(0, min(tall, height - row)), facecolor=colour)


def draw_lines(source: str, lines: Mapping[int, Counters], counter: str, *, per: str = "") -> Figure:
    """The source with a bar per line: what that line counted, as a multiple of the counter `per` where one is given."""
    texts = source.splitlines()
    shown = sorted(number for number, counts in lines.items() if 1 <= number <= len(texts) and counts[counter])
    first, last = (shown[0], shown[-1]) if shown else (1, min(len(texts), 5))
    numbers = range(first, last + 1)
    values = [_value(lines.get(number), counter, per) for number in numbers]
    figure, (code, bars) = plt.subplots(
        1, 2, figsize=(9, 0.4 + 0.26 * len(values)), sharey=True, width_ratios=(3, 1), layout="constrained"
    )
    for place, number in enumerate(numbers):
        text = f"{number:3}  {texts[number - 1]:.100}"
        code.text(0, place, text, family="monospace", fontsize=8, va="center", clip_on=True)
    code.axis("off")
    code.set_xlim(0, 1)
    drawn = bars.barh(range(len(values)), values, color=BLUE)
    labels = ["" if not value else f"{value:,.0f}" if value == int(value) else f"{value:,.3g}" for value in values]
    bars.bar_label(drawn, labels, fontsize=8, padding=2)
    bars.set_ylim(len(values) - 0.5, -0.5)
    bars.margins(x=0.3)
    bars.axis("off")
    figure.suptitle(f"{counter} / {per}" if per else counter, fontsize=10)
    return figure


def _value(counts: Counters | None, counter: str, per: str) -> float:
    if counts is None or not counts[counter]:
        return 0.0
    return counts[counter] / counts[per] if per else float(counts[counter])


def draw_roofline(
    gpu: str, intensities: Mapping[str, float], *, gflops: float | None = None, label: str = "kernel"
) -> Figure:
    """A GPU's roofs and a kernel's intensity (FLOP/byte) at each memory level, as `Roofline.intensities` gives them.

    A circle marks where an intensity meets its level's roof. Full circles are bounds; the one of L2 is hollow, since it
    is a bound only if nothing hits in L1. `gflops` is the measured speed, None where there was nothing to measure.
    """
    roofline = Roofline.of(gpu)
    figure, axes = plt.subplots(figsize=(7, 4.5))
    x = np.geomspace(2**-5, 2**9, 200)
    bounds = []
    for roof, colour in zip(roofline.roofs, _SERIES, strict=False):
        heights = [roofline.attainable_gflops(value, roof.level) for value in x]
        axes.loglog(x, heights, color=colour, label=f"{roof.level}: {roof.gb_per_s:,.0f} GB/s")
        if roof.level in intensities:
            bound = roofline.attainable_gflops(intensities[roof.level], roof.level)
            axes.plot([intensities[roof.level]] * 2, [1, bound], ":", color=colour)
            axes.plot(
                intensities[roof.level], bound, "o", color=colour, fillstyle="none" if roof.level == "L2" else "full"
            )
            if roof.level != "L2":
                bounds.append((bound, roof.level))
    axes.axhline(roofline.peak_gflops, color="black", linewidth=0.8)
    axes.text(x[0], roofline.peak_gflops * 1.1, f"arithmetic: {roofline.peak_gflops:,.0f} GFLOP/s", fontsize=8)
    if gflops is not None:
        place = intensities.get("L1", next(iter(intensities.values())))
        axes.plot(place, gflops, "*", color=RED, markersize=14, label=f"{label}: {gflops:,.0f} GFLOP/s measured")
    title = f"{roofline.gpu}: {label}"
    if bounds:
        title += ", at most {:,.0f} GFLOP/s ({})".format(*min(bounds))
    axes.set(xlabel="FLOP per byte of the level's traffic", ylabel="GFLOP/s", title=title)
    axes.set_ylim(10, roofline.peak_gflops * 3)
    axes.legend(fontsize=8, loc="lower right")
    figure.tight_layout()
    return figure


def draw_sweep(x: Sequence[int], panels: Mapping[str, Mapping[str, Sequence[float | None]]], *, xlabel: str) -> Figure:
    """One small plot per panel: title -> (label -> a value per x). None leaves a gap; a panel of gaps says so."""
    figure, all_axes = plt.subplots(1, len(panels), figsize=(3.4 * len(panels), 3.2), squeeze=False)
    for axes, (title, series) in zip(all_axes[0], panels.items(), strict=True):
        _draw_panel(axes, x, series)
        axes.set(xlabel=xlabel)
        axes.set_title(title, fontsize=10)
        axes.set_xticks(range(len(x)), [str(value) for value in x])
    figure.tight_layout()
    return figure


def _draw_panel(axes: Axes, x: Sequence[int], series: Mapping[str, Sequence[float | None]]) -> None:
    known = [value for values in series.values() for value in values if value is not None]
    if not known:
        axes.text(0.5, 0.5, "not measured\non this device", ha="center", va="center", transform=axes.transAxes)
        axes.set_yticks([])
        return
    for (label, values), colour, mark in zip(series.items(), _SERIES, "osD^v*", strict=False):
        heights = [np.nan if value is None else value for value in values]
        style = "-" if mark == "o" else "--"
        named = label if any(value is not None for value in values) else "_"  # the legend names what is to be seen
        axes.plot(range(len(x)), heights, style, marker=mark, color=colour, label=named)
    if min(known) > 0 and max(known) / min(known) > 20:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if len(series) > 1:
        axes.legend(fontsize=8)


# ---------------------------------------------------------------- labs 03 and 04: sectors and banks


_FLOAT_BYTES = 4
_SECTOR_FLOATS = SECTOR_BYTES // _FLOAT_BYTES
_BANKS = 32
_MOST_ROWS = 32
_CLASS_COLOURS = (GREEN, BLUE, ORANGE, RED, "#CC79A7", GREY)
_THIN_LINE = {"arrowstyle": "-", "lw": 0.5}


def draw_touched(accesses: Mapping[str, WarpRequest | None], cols: Mapping[str, int]) -> Figure:
    """What one request of a warp moves: touched floats blue, the unused rest of their sectors orange.

    `accesses`: title -> a request to global memory; `cols`: array -> floats in a row of it. Thin lines part sectors.
    """
    figure, panels = plt.subplots(1, len(accesses), figsize=(3.6 * len(accesses), 3.9), squeeze=False)
    for axes, (title, access) in zip(panels[0], accesses.items(), strict=True):
        if access is None:
            say_nothing(axes, title)
        else:
            _draw_matrix(axes, title, access, cols[access.array])
    figure.tight_layout()
    return figure


def _draw_matrix(axes: Axes, title: str, access: WarpRequest, cols: int) -> None:
    touched = np.concatenate([access.elements() + k for k in range(access.nbytes // _FLOAT_BYTES)])
    moved = np.concatenate([np.arange(_SECTOR_FLOATS) + _SECTOR_FLOATS * sector for sector in access.sectors])
    first, last = moved.min() // cols, min(moved.max() // cols, moved.min() // cols + _MOST_ROWS - 1)
    picture = np.zeros((last - first + 1, cols))
    for places, value in ((moved, 1), (touched, 2)):
        rows = places // cols - first
        inside = rows < len(picture)
        picture[rows[inside], places[inside] % cols] = value
    axes.imshow(
        picture, cmap=ListedColormap(["white", ORANGE, BLUE]), vmin=0, vmax=2, aspect="auto",
        extent=(0, cols, last + 1, first), interpolation="nearest",
    )  # fmt: skip
    for edge in range(_SECTOR_FLOATS, cols, _SECTOR_FLOATS):
        axes.axvline(edge, color="black", linewidth=0.2)
    _name_lanes(axes, access, cols, first)
    used, count = len(np.unique(touched)) * _FLOAT_BYTES, len(access.sectors)
    axes.set_title(
        f"{title}: {count} sector{'s' * (count != 1)},\n{used} of {SECTOR_BYTES * count} bytes used", fontsize=10
    )
    axes.set(xlabel=f"column of {access.array}", ylabel="row")
    axes.set_ylim(max(last + 1, first + 8), first)


def _name_lanes(axes: Axes, access: WarpRequest, cols: int, first_row: int) -> None:
    """Write the first and the last lane beside the float that it touches."""
    elements, lanes = access.elements(), access.lanes
    ends = {int(elements[0]): lanes[elements == elements[0]], int(elements[-1]): lanes[elements == elements[-1]]}
    for element, here in ends.items():
        row, col = element // cols, element % cols
        if row - first_row < _MOST_ROWS:
            name = f"lane {here[0]}" if len(here) == 1 else f"lanes {here[0]} to {here[-1]}"
            side, right = ("left", 1) if col < cols / 2 else ("right", -1)
            place = (col + 0.14 * cols * right, row + (2.0 if len(access.sectors) < 8 else 0.5))
            axes.annotate(name, (col + 0.5, row + 0.5), place, fontsize=7, va="center", ha=side, arrowprops=_THIN_LINE)


def draw_banks(accesses: Mapping[str, WarpRequest | None]) -> Figure:
    """Which lane meets which bank of shared memory, one panel a request.

    A row is 32 words, one for each bank. A box is a word, its number the lane that wants it (of several the first), its
    colour the pass that serves it.
    """
    columns = min(len(accesses), 2)
    count = -(-len(accesses) // columns)
    figure, panels = plt.subplots(count, columns, figsize=(5.5 * columns, 1), squeeze=False, layout="constrained")
    heights = np.zeros(panels.size)
    for place, (title, access) in enumerate(accesses.items()):
        axes = panels.flat[place]
        heights[place] = say_nothing(axes, title) if access is None else _draw_request(axes, title, access)
    for axes in panels.flat[len(accesses) :]:
        axes.axis("off")
    of_rows = heights.reshape(panels.shape).max(axis=1)
    for axes in panels.flat:  # boxes of one size in all panels
        if axes.images:
            axes.set_ylim(max(np.ptp(other.get_ylim()) for other in panels.flat if other.images) - 0.5, -0.5)
    panels[0, 0].get_gridspec().set_height_ratios(of_rows)
    figure.set_size_inches(5.5 * columns, of_rows.sum())
    return figure


def _draw_request(axes: Axes, title: str, access: WarpRequest) -> float:
    """Draw one request; return the height in inches that it wants."""
    words = access.words()
    rows = {row: place for place, row in enumerate(sorted({word.number // _BANKS for word in words}))}
    colours = plt.get_cmap("viridis")(np.linspace(0.15, 0.95, access.wavefronts))
    picture = np.ones((len(rows), _BANKS, 4))
    first_lane: dict[int, int] = {}
    for word in words:
        first_lane.setdefault(word.number, word.lane)
        picture[rows[word.number // _BANKS], word.bank] = colours[word.turn]
    axes.imshow(picture, aspect="auto", interpolation="nearest")
    for number, lane in first_lane.items():
        light = picture[rows[number // _BANKS], number % _BANKS, :3].mean() > 0.5
        place = (number % _BANKS, rows[number // _BANKS])
        axes.text(*place, str(lane), ha="center", va="center", fontsize=5, color="black" if light else "white")
    axes.set_xticks(range(0, _BANKS, 4))
    axes.set_yticks([])
    axes.set(xlabel="bank", ylabel="rows of 32 words")
    width = f", {access.nbytes} bytes a lane" if access.nbytes != _FLOAT_BYTES else ""
    axes.set_title(f"{title}: {access.wavefronts} pass{'es' * (access.wavefronts != 1)}{width}", fontsize=10)
    return 0.9 + 0.11 * len(rows)


def say_nothing(axes: Axes, title: str, said: str = "your kernel makes no such request yet") -> float:
    """Write a sentence where a picture would be; return the height in inches that it wants."""
    axes.text(0.5, 0.5, said, ha="center", va="center", transform=axes.transAxes)
    axes.set_title(title, fontsize=10)
    axes.axis("off")
    return 1.0


# ---------------------------------------------------------------- lab 05


def draw_mix(mixes: Mapping[str, Mapping[str, float]]) -> Figure:
    """What the main loops of kernels are made of: a bar for each kernel, a colour for each class of instructions."""
    figure, axes = plt.subplots(figsize=(8, 0.9 + 0.4 * len(mixes)), layout="constrained")
    left = np.zeros(len(mixes))
    classes = list(next(iter(mixes.values()), {}))
    for kind, colour in zip(classes, _CLASS_COLOURS, strict=False):
        shares = np.array([100 * mix[kind] for mix in mixes.values()])
        bars = axes.barh(list(mixes), shares, left=left, color=colour, label=kind, edgecolor="white", linewidth=0.5)
        axes.bar_label(
            bars, [f"{share:.0f}" if share >= 4 else "" for share in shares], label_type="center", fontsize=8
        )
        left += shares
    axes.invert_yaxis()
    axes.set(xlim=(0, 100), xlabel="% of the main loop's PTX instructions, counted once per warp")
    axes.legend(ncols=len(classes), fontsize=7, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
    return figure


def draw_shares(series: Mapping[str, Mapping[str, float | None]], *, xlabel: str) -> Figure:
    """Bars of shares between 0 and 1, a panel for each series: title -> (label -> share, None where not recorded)."""
    rows = max(map(len, series.values()), default=1)
    figure, panels = plt.subplots(
        1, len(series), figsize=(9, 0.9 + 0.3 * rows), sharex=True, squeeze=False, layout="constrained"
    )
    for axes, (title, values) in zip(panels[0], series.items(), strict=True):
        known = {label: value for label, value in values.items() if value is not None}
        if known:
            bars = axes.barh(list(known), list(known.values()), color=BLUE)
            axes.bar_label(bars, [f"{value:.1%}" for value in known.values()], fontsize=8, padding=2)
            axes.tick_params(axis="y", labelsize=8)
            axes.invert_yaxis()
            axes.set(xlim=(0, 1.15), xlabel=xlabel)
        else:
            say_nothing(axes, title, "nothing was recorded")
        axes.set_title(title, fontsize=10)
    return figure
