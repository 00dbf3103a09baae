"""`show_passes`: a network's layers there and back, one pass after the other, with what each took.

A pass is a layer's way there (an arrow to the right), its way back to its inputs (to the left), or to its weights
(down). Below stand two measures of each, of which those of passes that have been are filled. All of it comes from a
record (`benchmarks/results/passes_*.json`, written by `python -m scripts.passes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warpschool.course import Course
from warpschool.errors import ArgumentError
from warpschool.recorded import recorded
from warpschool.show.exhibit import Exhibit, View
from warpschool.show.svg import Svg
from warpschool.show.table import Table

KINDS: Mapping[str, tuple[str, str]] = {
    "forward": ("forward", "s0"), "backward": ("backward", "s1"), "inputs": ("backward, to its inputs", "s1"),
    "weights": ("backward, to its weights", "s2"),
}  # fmt: skip
"""kind of a pass -> its name, its colour"""
_WIDTH, _SIDE, _BOXES, _HIGH = 904, 16, 62, 28
_PANELS = (166, 282)
_TALL = 76
"""where the two panels of bars begin, and how high they are"""


@dataclass(frozen=True)
class Pass:
    """One layer's pass of a kind, and what it took by each of the two measures."""

    layer: str
    kind: str
    values: tuple[float, float]

    @property
    def told(self) -> str:
        return f"{self.layer} {KINDS[self.kind][0]}"


def show_passes(record: str, *, course: Course | None = None) -> Exhibit:
    """Show the passes of a record: `show_passes("passes_vgg16.json")`.

    Raises ArgumentError for what is no record of passes.
    """
    found = recorded(record, course=course)
    try:
        title, measures = str(found["title"]), (str(found["measures"][0]), str(found["measures"][1]))
        passes = [Pass(row["layer"], row["kind"], (row["values"][0], row["values"][1])) for row in found["passes"]]
        if not passes or any(one.kind not in KINDS for one in passes):
            raise KeyError("passes")
    except (KeyError, IndexError, TypeError) as error:
        raise ArgumentError(f"{record} is no record of passes: {error}", next_step="python -m scripts.passes") from None
    frames = tuple(_frame(passes, measures, now) for now in range(len(passes)))
    rows = [[one.told, *(f"{value:,.4g}" for value in one.values)] for one in passes]
    return Exhibit(title, _finding(passes, measures), frames, (Table.of("Passes", ["pass", *measures], rows),))


def _finding(passes: Sequence[Pass], measures: Sequence[str]) -> str:
    there, back = (
        sum(one.values[0] for one in passes if (one.kind == "forward") == forward) for forward in (True, False)
    )
    if not back:
        return f"All together {_number(there)} {measures[0]}."
    return f"There {_number(there)}, back {_number(back)} {measures[0]}: {back / there:.2g} times as much."


def _frame(passes: Sequence[Pass], measures: Sequence[str], now: int) -> View:
    one = passes[now]
    took = "; ".join(f"{_number(value)} {measure}" for value, measure in zip(one.values, measures, strict=True))
    label = f"{one.told} ({now + 1} of {len(passes)}): {took}."
    return View(_drawn(passes, measures, now), label, label)


def _drawn(passes: Sequence[Pass], measures: Sequence[str], now: int) -> Svg:
    layers = list(dict.fromkeys(one.layer for one in passes))
    slot = (_WIDTH - 2 * _SIDE) / len(layers)
    svg = Svg(_WIDTH, _PANELS[1] + _TALL + 34)
    for number, layer in enumerate(layers):
        x = _SIDE + slot * number
        svg.rect(x + 0.1 * slot, _BOXES, 0.8 * slot, _HIGH, "o", r=4)
        svg.text(x + slot / 2, _BOXES + 18, layer, "m" if slot > 60 else "m k")
        svg.text(x + slot / 2, _PANELS[1] + _TALL + 14, layer, "s m k")
    for number, one in enumerate(passes):
        if number <= now:
            x = _SIDE + slot * layers.index(one.layer)
            _arrow(svg, one, x, slot, strong=number == now)
    for place, measure in enumerate(measures):
        svg.text(_SIDE, _PANELS[place] - 12, measure, "s")
        _bars(svg, passes, place, now, layers, slot)
    return svg


def _arrow(svg: Svg, one: Pass, x: float, slot: float, *, strong: bool) -> None:
    """To the right above the box, to the left or down below it."""
    style = f"stroke:var(--{KINDS[one.kind][1]});stroke-width:{2.5 if strong else 1.2};fill:none"
    style += "" if strong else ";stroke-opacity:.55"
    left, right, below = x + 0.15 * slot, x + 0.85 * slot, _BOXES + _HIGH + 14
    if one.kind == "forward":
        y = _BOXES - 14
        svg.path(f"M{left:.1f} {y}H{right:.1f}m-6 -4l6 4l-6 4", "", style=style)
    elif one.kind == "weights":
        middle = x + slot / 2
        svg.path(f"M{middle:.1f} {below + 6}v16m-4 -6l4 6l4 -6", "", style=style)
    else:
        svg.path(f"M{right:.1f} {below}H{left:.1f}m6 -4l-6 4l6 4", "", style=style)


def _bars(svg: Svg, passes: Sequence[Pass], place: int, now: int, layers: Sequence[str], slot: float) -> None:
    """A group of bars for each layer: what is to come as an outline, what has been in its colour."""
    most = max(one.values[place] for one in passes) or 1.0
    bottom = _PANELS[place] + _TALL
    svg.line(_SIDE, bottom, _WIDTH - _SIDE, bottom, "g")
    drawn: dict[tuple[str, int], str] = {}  # one path for all bars that look the same
    for number, one in enumerate(passes):
        own = [other.kind for other in passes if other.layer == one.layer]
        wide = 0.8 * slot / max(2, len(own))
        high = max(0.8, _TALL * one.values[place] / most)
        x = _SIDE + slot * (layers.index(one.layer) + 0.1) + own.index(one.kind) * wide
        look = (KINDS[one.kind][1], (number > now) - (number < now))
        drawn[look] = drawn.get(look, "") + f"M{x:.1f} {bottom}v{-high:.1f}h{wide * 0.9:.1f}v{high:.1f}z"
        if number == now:
            svg.text(x + wide / 2, bottom - high - 3, _number(one.values[place]), "m k")
    for (colour, state), path in drawn.items():
        opacity = 1 if state == 0 else 0.5
        fill = "none" if state > 0 else f"var(--{colour})"
        style = f"fill:{fill};fill-opacity:{opacity};stroke:var(--{colour});stroke-opacity:{opacity};stroke-width:.8"
        svg.path(path, "", style=style)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def passes_record(title: str, measures: Sequence[str], passes: Sequence[Pass]) -> dict[str, Any]:
    """What `show_passes` reads."""
    rows = [{"layer": one.layer, "kind": one.kind, "values": list(one.values)} for one in passes]
    return {"title": title, "measures": list(measures), "passes": rows}
