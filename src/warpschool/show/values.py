"""`show_values`: what some variables of a warp hold each time that it comes to a line, one picture after the other.

The debugger records the warp, so the values are those of the kernel itself. Each expression has a panel of bars, with a
place for each visit and in it one for each lane; where all lanes agree, one bar serves them all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ptxsim.limits import WARP
from warpschool.errors import ArgumentError
from warpschool.harness.source import Kind, resolve
from warpschool.inspect.debugger.pages import evaluate
from warpschool.inspect.debugger.recording import Recording, trace
from warpschool.show.exhibit import Exhibit, View
from warpschool.show.svg import Svg
from warpschool.show.table import Table

MOST = 24
_WIDTH, _LEFT, _TOP, _TALL, _GAP = 904, 190, 34, 54, 34

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Panel:
    """An expression: its name in words, and its values of shape (visits, lanes); NaN where a lane has none."""

    name: str
    values: Values

    @property
    def is_shared(self) -> bool:
        """Whether all lanes agree, each time."""
        return all(_agree(row) for row in self.values)

    def told(self, visit: int) -> str:
        """What it holds, in words."""
        row = self.values[visit]
        if not _agree(row):
            known = row[np.isfinite(row)]
            return f"{self.name}: {_number(known.min())} to {_number(known.max())}" if known.size else f"{self.name}: -"
        return f"{self.name}: {_number(row[0])}"


def show_values(
    which: str | Path, sizes: Mapping[str, float], *, at: str, names: Mapping[str, str],
    lanes: Sequence[int] = (0, WARP), warp: int = 0, block: int = 0, source: Kind = "own",
    constants: Mapping[str, int] | None = None, seed: int = 0, most: int = MOST,
) -> Exhibit:  # fmt: skip
    """Show what a warp's variables hold each time just before a line.

    `show_values("lab00/03", {"n": 256}, at="__syncthreads", names={"sum": "this lane's sum"})`

    `at` is a piece of the line's text, that stands in no other line; `names` maps an expression, as the debugger takes
    it ("sum[0]", "tile[threadIdx.x]"), to its name in words. `lanes` are the first, and the one behind the last.

    Raises ArgumentError for a line that is none or several, for one that the warp never comes to, and for what is no
    expression there.
    """
    contract = resolve(which, source).contract()
    lines = [number for number, line in enumerate(contract.source.splitlines(), start=1) if at in line]
    if len(lines) != 1:
        raise ArgumentError(f"{len(lines)} lines of {contract.name} hold {at!r}", next_step="Give more of one line.")
    first, last = lanes
    if not 0 <= first < last <= WARP:
        raise ArgumentError(f"lanes={tuple(lanes)} are none of a warp", next_step=f"For example: lanes=(0, {WARP})")
    recording = trace(contract, sizes, block=block, warp=warp, constants=constants, seed=seed)
    visits = [number for number, step in enumerate(recording.steps) if step.line == lines[0]]
    if not visits:
        raise ArgumentError(f"warp {warp} of block {block} never comes to line {lines[0]} of {contract.name}",
                            next_step="Take another warp, or larger sizes.")  # fmt: skip
    shown = visits[:most]
    panels = [_panel(recording, expression, name, shown, slice(first, last)) for expression, name in names.items()]
    title = f"Block {block}, warp {warp} of {contract.name}, lanes {first} to {last - 1}, at line {lines[0]}"
    frames = tuple(_frame(panels, visit) for visit in range(len(shown)))
    note = f"The first {most} of {len(visits)} times." if len(visits) > most else ""
    rows = [[visit + 1, panel.name, *_span(panel.values[visit])] for visit in range(len(shown)) for panel in panels]
    sheet = Table.of("Values", ["time", "what", "least", "most"], rows)
    return Exhibit(title, _finding(panels), frames, (sheet,), note=note)


def _panel(recording: Recording, expression: str, name: str, visits: Sequence[int], lanes: slice) -> _Panel:
    rows = []
    for number in visits:
        found = evaluate(expression, recording.at(number))
        rows.append(np.where(found.defined & found.active, found.array.astype(np.float64), np.nan)[lanes])
    return _Panel(name, np.stack(rows))


def _finding(panels: Sequence[_Panel]) -> str:
    """How often what all lanes share changes."""
    told = [
        f"{panel.name} changes {sum(a != b for a, b in pairwise(panel.values[:, 0].tolist()))} times"
        for panel in panels
        if panel.is_shared
    ]
    times = f"It comes there {len(panels[0].values)} times"
    return f"{times}; {', '.join(told)}." if told else f"{times}."


def _agree(row: Values) -> bool:
    return len(set(row.tolist())) == 1


def _span(row: Values) -> tuple[str, str]:
    known = row[~np.isnan(row)]
    return (_number(known.min()), _number(known.max())) if known.size else ("-", "-")


def _number(value: float) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return "-" if math.isnan(value) else f"{value:.4g}"


# ---------------------------------------------------------------- the picture


def _frame(panels: Sequence[_Panel], visit: int) -> View:
    label = f"Time {visit + 1} of {len(panels[0].values)}. {'; '.join(panel.told(visit) for panel in panels)}."
    return View(values_svg(panels, visit), label, f"{label} Blue: now; grey: the times before.")


def values_svg(panels: Sequence[_Panel], visit: int) -> Svg:
    """A panel below the other; what is to come stays empty."""
    svg = Svg(_WIDTH, _TOP + len(panels) * (_TALL + _GAP))
    visits, lanes = panels[0].values.shape
    place = (_WIDTH - _LEFT - 16) / visits
    for number in range(visits):
        svg.text(_LEFT + (number + 0.5) * place, 16, number + 1, "m b" if number == visit else "s m")
    svg.text(_LEFT - 12, 16, "time", "s e")
    for number, panel in enumerate(panels):
        _bars(svg, panel, visit, _TOP + number * (_TALL + _GAP), place, lanes)
    return svg


def _bars(svg: Svg, panel: _Panel, visit: int, top: float, place: float, lanes: int) -> None:
    known = panel.values[np.isfinite(panel.values)]
    high, low = max(0.0, known.max(initial=0.0)), min(0.0, known.min(initial=0.0))
    scale = (_TALL - 4) / ((high - low) or 1.0)
    zero = top + 16 + high * scale
    svg.text(_LEFT - 12, top + 16 + _TALL / 2, panel.name, "e")
    svg.line(_LEFT, zero, _WIDTH - 16, zero, "g")
    for number in range(visit + 1):
        now = number == visit
        style = f"fill:var(--{'s0' if now else 's5'});fill-opacity:{'.85' if now else '.35'}"
        row = panel.values[number, :1] if panel.is_shared else panel.values[number]
        wide = 0.92 * place / len(row)
        for lane, value in enumerate(row.tolist()):
            x = _LEFT + number * place + 0.04 * place + lane * wide
            if math.isfinite(value):
                tall = max(1.0, abs(value) * scale)
                drawn = wide if panel.is_shared else 0.86 * wide
                svg.rect(x, zero - tall if value > 0 else zero, drawn, tall, "", style=style)
        if panel.is_shared:
            above = zero - max(0.0, row[0] if math.isfinite(row[0]) else 0.0) * scale
            svg.text(_LEFT + (number + 0.5) * place, above - 4, _number(row[0]), "m k b" if now else "s m k")
