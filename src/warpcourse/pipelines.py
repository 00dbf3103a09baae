"""A pipeline of bulk copies and products: who waits for whom, without a clock.

The simulator knows what warps hand to each other through barrier objects, not when. Here every copy takes two steps and
all products of a tile one, and nobody waits for anything but what the kernel waits for: the shortest schedule that the
kernel allows. It shows what overlaps and what cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from warpcourse.lessons import BLUE, GREEN, ORANGE, RED, say_nothing
from warpschool.show.figures import Picture

COPY_STEPS, PRODUCT_STEPS = 2.0, 1.0
COPIES, WAITS = "copies", "waits"
_WARPGROUP = 4
_COLOURS = (BLUE, ORANGE, GREEN, RED, "#CC79A7", "#56B4E9")
_MOST_STEPS = 30.0


@dataclass(frozen=True)
class Bar:
    """What is under way from `start` to `end`: copies of a tile, products of a warpgroup with it, or a wait.

    `row` is "copies", "warpgroup N", or "waits N" of that warpgroup. `stage` is the place among the stages, `tile`
    which tile it is, counted from 0; a wait has neither (-1).
    """

    row: str
    start: float
    end: float
    stage: int = -1
    tile: int = -1


def schedule(handoffs: Iterable[Any], block: int = 0) -> tuple[Bar, ...]:
    """The shortest schedule of a block, from `Launch.handoffs`; empty where nothing is multiplied.

    Blocks of a cluster that hand something to this one are followed, too.
    """
    handoffs = tuple(handoffs)
    stages = {place: n for n, place in enumerate(dict.fromkeys(
        h.place for h in handoffs if h.kind == "copy" and h.place[0] == block
    ))}  # fmt: skip
    plan = _Plan(block, stages)
    for h in handoffs:
        getattr(plan, h.kind)(h)
    return tuple(sorted(plan.bars.values(), key=lambda bar: (bar.row, bar.start)))


class _Plan:
    """Time goes on for each warp by itself; at an object it is that of the last whom it waits for."""

    def __init__(self, block: int, stages: dict[tuple[int, int], int]) -> None:
        self.block, self.stages = block, stages
        self.now: dict[tuple[int, int], float] = {}
        self.over: dict[tuple[tuple[int, int], int], float] = {}
        """(object, phase) -> when it is over"""
        self.tile_of: dict[tuple[tuple[int, int], int], int] = {}
        self.waited: dict[tuple[int, int], tuple[tuple[int, int], int] | None] = {}
        """warp -> the object and phase for which it waited last, until it multiplies"""
        self.bars: dict[tuple[object, ...], Bar] = {}

    def copy(self, h: Any) -> None:
        key, start = (h.place, h.phase), self.now.get((h.block, h.warp), 0.0)
        end = start + COPY_STEPS
        self.over[key] = max(self.over.get(key, 0.0), end)
        if h.place[0] == self.block:
            tile = self.tile_of.setdefault(key, len(self.tile_of))
            before = self.bars.get((COPIES, tile))
            first = min(start, before.start) if before else start
            last = max(end, before.end) if before else end
            self.bars[COPIES, tile] = Bar(COPIES, first, last, self.stages[h.place], tile)

    def arrive(self, h: Any) -> None:
        key = (h.place, h.phase)
        self.over[key] = max(self.over.get(key, 0.0), self.now.get((h.block, h.warp), 0.0))

    def wait(self, h: Any) -> None:
        who, key = (h.block, h.warp), (h.place, h.phase)
        now = self.now.get(who, 0.0)
        until = max(now, self.over.get(key, 0.0))
        self.now[who] = until
        self.waited[who] = key
        if until > now and h.block == self.block and self._is_shown(h.warp):
            self.bars[WAITS, h.warp, now] = Bar(f"{WAITS} {h.warp // _WARPGROUP}", now, until)

    def multiply(self, h: Any) -> None:
        """All products between two waits are those of one tile."""
        who = (h.block, h.warp)
        key = self.waited.get(who)
        if key is None:
            return
        self.waited[who] = None
        start = self.now.get(who, 0.0)
        self.now[who] = start + PRODUCT_STEPS
        if h.block == self.block and self._is_shown(h.warp) and key in self.tile_of:
            row = f"warpgroup {h.warp // _WARPGROUP}"
            tile = self.tile_of[key]
            self.bars[row, tile] = Bar(row, start, self.now[who], self.stages[key[0]], tile)

    @staticmethod
    def _is_shown(warp: int) -> bool:
        """A warpgroup is shown by its first warp: its four go together."""
        return warp % _WARPGROUP == 0


def draw_pipeline(bars: Sequence[Bar]) -> Picture:
    """The schedule: a row for each stage and each warpgroup that multiplies; tiles by number, stages by colour."""
    shown = [bar for bar in bars if bar.start < _MOST_STEPS]
    groups = sorted({bar.row for bar in shown if bar.row.startswith("warpgroup")})
    if not groups:
        figure, axes = plt.subplots(figsize=(8, 1.2))
        text = "this kernel hands no tiles from bulk copies to products"
        say_nothing(axes, "", text)
        return Picture(figure, f"A pipeline: {text}.")
    stages = sorted({bar.stage for bar in shown if bar.row == COPIES})
    rows = [*(f"stage {n}" for n in stages), *groups]
    figure, axes = plt.subplots(figsize=(10, 0.9 + 0.42 * len(rows)), layout="constrained")
    for bar in shown:
        if bar.row == COPIES:
            _draw_copy(axes, bar, shown, rows.index(f"stage {bar.stage}"))
        elif bar.row in rows:
            _box(axes, rows.index(bar.row), bar.start, bar.end, _colour(bar), str(bar.tile))
        elif (row := bar.row.replace(WAITS, "warpgroup")) in rows:
            corner, width = (bar.start, rows.index(row) - 0.35), bar.end - bar.start
            axes.add_patch(Rectangle(corner, width, 0.7, facecolor="#E8E8E8", hatch="///", edgecolor="white"))
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, min(_MOST_STEPS, max(bar.end for bar in shown)))
    axes.set_xlabel("steps, no times: a copy takes two, the products of a tile one")
    axes.set_title("Who waits for whom. Dark: a tile's copy, its products; pale: it is there; grey: waits", fontsize=10)
    return Picture(figure, _told(shown, groups))


def _colour(bar: Bar) -> str:
    return _COLOURS[bar.stage % len(_COLOURS)]


def _draw_copy(axes: Axes, copy: Bar, bars: Sequence[Bar], y: int) -> None:
    """A copy into its stage, and the tile that is there until the last products with it are over."""
    used = max((bar.end for bar in bars if bar.tile == copy.tile and bar.row != COPIES), default=copy.end)
    axes.add_patch(Rectangle((copy.end, y - 0.35), used - copy.end, 0.7, facecolor=_colour(copy), alpha=0.3))
    _box(axes, y, copy.start, copy.end, _colour(copy), f"copy of {copy.tile}")


def _box(axes: Axes, y: int, start: float, end: float, colour: str, text: str) -> None:
    axes.add_patch(Rectangle((start, y - 0.35), end - start, 0.7, facecolor=colour, edgecolor="white"))
    axes.text((start + end) / 2, y, text, ha="center", va="center", color="white", fontsize=8)


def _told(bars: Sequence[Bar], groups: Sequence[str]) -> str:
    copies = [bar for bar in bars if bar.row == COPIES]
    stages = 1 + max(bar.stage for bar in copies)
    held = next((bar for bar in copies if bar.start > 0), None)
    at_once = min(stages, len(copies)) - 1
    text = f"A pipeline of {stages} stages: copies of tiles {copies[0].tile} to {at_once} begin at once"
    if held is not None:
        text += f"; that of tile {held.tile} waits until step {held.start:g}, when its stage is empty"
    first = min((bar for bar in bars if bar.row == groups[0]), key=lambda bar: bar.start)
    return f"{text}. {groups[0]} multiplies tile {first.tile} from step {first.start:g} on, when it is full."
