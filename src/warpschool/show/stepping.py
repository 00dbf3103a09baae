"""A recording in a notebook: buttons and keys step through it; without scripts, in exports too, it is a table."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from collections.abc import Callable
from importlib import resources
from typing import Any, ParamSpec

from warpschool.inspect.debugger.pages import changed, drawn_lanes, lane_ranges, lane_texts, where
from warpschool.inspect.debugger.recording import Moment, Recording, trace as record
from warpschool.show import player
from warpschool.show.page import details, escape, notebook_box, scrolling
from warpschool.show.source import code_table, coloured_lines, pieces_html
from warpschool.show.table import Cell, Table

Given = ParamSpec("Given")
MOST_STEPS = 240
_TABLE_STEPS = 60
_STYLE = """
.warpschool .stepping button { font: inherit; padding: .25rem .7rem; margin: 0 .3rem .3rem 0; border: 1px solid
  var(--soft); border-radius: .35rem; background: var(--faint); color: var(--ink); cursor: pointer; }
.warpschool .stepping button:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.warpschool .stepping td button, .warpschool .stepping th button { border: 0; background: none; padding: 0 .3rem;
  margin: 0; color: var(--soft); text-decoration: underline dotted; }
.warpschool .stepping tr.here > * { background: color-mix(in srgb, var(--accent) 22%, transparent); font-weight: 700; }
.warpschool .stepping td.off { color: var(--soft); font-style: italic; }
.warpschool .stepping td.wide { text-align: left; }
.warpschool .stepping [data-part=lanes] { font-family: ui-monospace, "DejaVu Sans Mono", monospace; white-space: pre; }
"""
_BUTTONS = (("before", "↑ this line before"), ("again", "↓ this line again"))
"""beside those of the player"""


class ShownRecording(Recording):
    """A recording that a notebook shows."""

    def _repr_html_(self) -> str:
        return stepping_html(self)


def _shown(record: Callable[Given, Recording]) -> Callable[Given, ShownRecording]:
    @functools.wraps(record)
    def trace(*arguments: Given.args, **options: Given.kwargs) -> ShownRecording:
        return ShownRecording(**vars(record(*arguments, **options)))

    return trace


trace = _shown(record)
"""`ws.trace`: the debugger's, with a display."""


def stepping_html(recording: Recording) -> str:
    """The first steps of a recording, to step through and as a table."""
    count = min(len(recording), MOST_STEPS)
    moments = [recording.at(number) for number in range(count)]
    steps = _steps(moments)
    document = json.dumps({"steps": steps}).replace("</", "<\\/")
    name = f"stepping-{hashlib.sha256((recording.title + document).encode()).hexdigest()[:12]}"
    script = (resources.files("warpschool.show") / "stepping.js").read_text(encoding="utf-8").replace("__ID__", name)
    return notebook_box(
        f'<style>{_STYLE}</style><div class="stepping" id="{name}"><p><b>{escape(recording)}</b></p>'
        + "".join(f"<p>{escape(text)}</p>" for text in _notes(recording, count))
        + _panel(recording, {step["line"] for step in steps}, count)
        + _table(moments)
        + f'<script type="application/json">{document}</script></div>{player.script()}<script>{script}</script>'
    )


def _notes(recording: Recording, count: int) -> list[str]:
    notes = [recording.note] if recording.note else []
    notes += [f"line {h.line}: {h.kind}: {h.message}" for h in recording.findings[:4]]
    if count < len(recording):
        notes.append(
            f"Here are the first {count} of {len(recording)} steps; smaller sizes give fewer, "
            "`recording.at(n)` and `warpschool debug` show all."
        )
    return notes


def _steps(moments: list[Moment]) -> list[dict[str, Any]]:
    """What changes from step to step, as the script reads it."""
    found = []
    before: dict[str, Any] = {}
    for moment in moments:
        now = {name: [values.type.name, _texts(moment, name)] for name, values in moment.variables.items()}
        found.append({
            "line": moment.line,
            "said": where(moment).text.replace("\n", "  "),
            "lanes": f"lanes 0..31  {drawn_lanes(moment)}   # active  . waiting  x returned",
            "on": "".join("1" if on else "0" for on in moment.active),
            "set": {name: entry for name, entry in now.items() if before.get(name) != entry},
            "gone": [name for name in before if name not in now],
        })  # fmt: skip
        before = now
    return found


def _texts(moment: Moment, name: str) -> list[str]:
    """A text a lane, or one for all that are alike."""
    texts = lane_texts(moment.variables[name], moment)
    return texts[:1] if len(set(texts)) == 1 else texts


def _panel(recording: Recording, visited: set[int], count: int) -> str:
    """The part that the script brings to life; hidden without one."""
    buttons = "".join(f'<button type="button" data-move="{move}">{text}</button>' for move, text in _BUTTONS)
    heads = "".join(f'<th scope="col">{lane}</th>' for lane in range(32))
    variables = scrolling(
        "variables in each lane",
        f'<table class="code"><caption>Variables before this step; ● has just changed, in parentheses: a lane that '
        f'waits</caption><thead><tr><th scope="col">variable</th>{heads}</tr></thead>'
        '<tbody data-part="variables"></tbody></table>',
    )
    return (
        '<div data-part="panel" role="group" aria-label="the recording" hidden>'
        f'{player.controls(count, "steps")}<div>{buttons}</div>'
        '<p data-part="status" role="status"></p><p data-part="lanes"></p>'
        f"{_source(recording, visited)}{variables}</div>"
    )


def _source(recording: Recording, visited: set[int]) -> str:
    rows = []
    first = max(1, min(visited, default=1) - 2)
    numbered = enumerate(coloured_lines(recording.contract.source), start=1)
    for number, pieces in itertools.islice(numbered, first - 1, max(visited, default=1) + 1):
        label = (
            f'<button type="button" aria-label="go to line {number}">{number}</button>' if number in visited else number
        )
        rows.append(
            f'<tr data-line="{number}"><th scope="row"><span data-mark></span> {label}</th>'
            f'<td class="src"><code>{pieces_html(pieces)}</code></td></tr>'
        )
    return code_table(rows, recording.contract.name, label="source")


def _table(moments: list[Moment]) -> str:
    """The same as a table that needs no script."""
    rows = []
    for moment, after in itertools.pairwise(moments[: _TABLE_STEPS + 1]):
        code = f"<code>{escape(moment.recording.source_line(moment.line).strip())}</code>"
        new = changed(moment, after).strip().removeprefix("new: ")
        active = lane_ranges(moment.active)
        rows.append([moment.number, moment.line, Cell("", "src", markup=code), active, new])
    table = Table.of("", ["step", "line", "source", "active lanes", "changes"], rows).html(label="steps", kind="code")
    return details(f"The first {len(rows)} steps as a table", table)
