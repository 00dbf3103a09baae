"""What the debugger's commands print, as text and as plain data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ptxsim.limits import WARP
from warpschool.inspect.accesses import Access
from warpschool.inspect.debugger.moment import Moment, SharedArray, Values, value_text
from warpschool.inspect.debugger.recording import Recording

_PER_ROW = 8
_AROUND = 4
_MOST_CHANGED = 6
_MOST_ROWS, _MOST_COLUMNS = 32, 16
NO_VALUE = "·"


def where(moment: Moment) -> str:
    """The step and its line."""
    recording = moment.recording
    if moment.step is None:
        end = f" early: {recording.ended}" if recording.ended else "."
        return f"step {moment.number} of {len(recording)}: the recording ends{end}"
    count = moment.step.lanes
    lanes = "all 32 lanes" if count == WARP else f"{count} of 32 lanes: {lane_ranges(moment.active)}"
    inside = f" in {moment.step.function}" if moment.step.copy else ""
    text = f"step {moment.number} of {len(recording)}, {lanes}{inside}"
    lines = [text, f"{moment.line:5} ▸ {recording.source_line(moment.line)}"]
    hits = [h for h in recording.findings if h.line == moment.line]
    return "\n".join(lines + [f"      ! {hit.kind}: {hit.message}" for hit in hits])


def where_data(moment: Moment) -> dict[str, Any]:
    return {
        "step": moment.number, "steps": len(moment.recording), "line": moment.line,
        "source": moment.recording.source_line(moment.line).strip(),
        "active": int(np.packbits(moment.active, bitorder="little").view("<u4")[0]),
    }  # fmt: skip


def changed(before: Moment, now: Moment) -> str:
    """Which variables have other values than before, in the lanes that are active now or were."""
    found = []
    for name, values in now.variables.items():
        old = before.variables.get(name)
        lanes = [
            lane for lane in np.flatnonzero(values.defined)
            if old is None or not old.defined[lane] or old.array[lane].tobytes() != values.array[lane].tobytes()
        ]  # fmt: skip
        if lanes:
            first = value_text(values.array[lanes[0]], values.type, now)
            alike = all(values.array[lane].tobytes() == values.array[lanes[0]].tobytes() for lane in lanes)
            found.append(f"{name} = {first}" + ("" if alike else f" in lane {lanes[0]}, ..."))
    more = f", and {len(found) - _MOST_CHANGED} more" if len(found) > _MOST_CHANGED else ""
    return f"      new: {', '.join(found[:_MOST_CHANGED])}{more}" if found else ""


def values(found: Values, moment: Moment) -> str:
    """A variable in every lane."""
    shown = found.shown
    here = np.flatnonzero(~moment.exited)
    if len(shown) and found.defined[here].all() and len({found.array[lane].tobytes() for lane in here}) == 1:
        text = value_text(found.array[shown[0]], found.type, moment)
        return f"{found.name} = {text} ({found.type.name}) in every lane"
    texts = lane_texts(found, moment)
    width = max(map(len, texts))
    rows = [f"{found.name} ({found.type.name})"]
    for first in range(0, WARP, _PER_ROW):
        cells = "  ".join(text.rjust(width) for text in texts[first : first + _PER_ROW])
        rows.append(f"  lanes {first:2}..{first + _PER_ROW - 1:2}  {cells}")
    return "\n".join(rows)


def lane_texts(found: Values, moment: Moment) -> list[str]:
    """One text a lane; in parentheses where the lane is not active, a dot where it has no value."""
    texts = []
    for lane in range(WARP):
        if not found.defined[lane] or moment.exited[lane]:
            texts.append(NO_VALUE)
            continue
        text = value_text(found.array[lane], found.type, moment)
        texts.append(text if moment.active[lane] else f"({text})")
    return texts


def values_data(found: Values, moment: Moment) -> dict[str, Any]:
    ok = found.defined & ~moment.exited
    texts = [value_text(found.array[k], found.type, moment) if ok[k] else None for k in range(WARP)]
    return {"name": found.name, "type": found.type.name, "values": texts}


def locals_table(moment: Moment) -> str:
    if not moment.variables:
        return "no variable is in scope here"
    rows = []
    for name, found in moment.variables.items():
        texts = lane_texts(found, moment)
        lanes = np.flatnonzero(moment.active)[:4]
        same = found.is_uniform and len(found.shown) == int(moment.active.sum())
        cells = f"{texts[lanes[0]]} (every active lane)" if same else ", ".join(texts[lane] for lane in lanes)
        rows.append((name, found.type.name, cells + ("" if same or moment.active.sum() <= 4 else ", ...")))
    widths = [max(len(row[k]) for row in rows) for k in (0, 1)]
    return "\n".join(f"  {name:{widths[0]}}  {kind:{widths[1]}}  {text}" for name, kind, text in rows)


def locals_data(moment: Moment) -> dict[str, Any]:
    return {"variables": [values_data(found, moment) for found in moment.variables.values()]}


def lanes(moment: Moment) -> str:
    """The active mask, drawn."""
    signs = np.where(moment.active, "#", np.where(moment.exited, "x", "."))
    drawn = " ".join("".join(signs[k : k + 8]) for k in range(0, WARP, 8))
    mask = where_data(moment)["active"]
    return (
        f"lanes 0..31   {drawn}   mask 0x{mask:08x}\n"
        f"# active: {lane_ranges(moment.active) or 'none'}   "
        f". waiting elsewhere: {lane_ranges(~moment.active & ~moment.exited) or 'none'}   "
        f"x returned: {lane_ranges(moment.exited) or 'none'}"
    )


def lanes_data(moment: Moment) -> dict[str, Any]:
    return {
        "active": np.flatnonzero(moment.active).tolist(), "exited": np.flatnonzero(moment.exited).tolist(),
        "waiting": np.flatnonzero(~moment.active & ~moment.exited).tolist(),
    }  # fmt: skip


def lane_ranges(mask: np.ndarray) -> str:
    """Lanes as ranges: 0-3, 8."""
    found: list[list[int]] = []
    for lane in np.flatnonzero(mask):
        if found and lane == found[-1][-1] + 1:
            found[-1][-1] = int(lane)
        else:
            found.append([int(lane), int(lane)])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


# ---------------------------------------------------------------- memory


def shared_list(moment: Moment) -> str:
    arrays = moment.recording.shared
    if not arrays:
        return "this kernel has no shared memory"
    return "\n".join(f"  {_declaration(array)}" for array in arrays) + "\n`shared NAME` shows one."


def _declaration(array: SharedArray) -> str:
    _, shape = array.dtype.subdtype or (array.dtype, ())
    dims = "".join(f"[{length or ''}]" for length in shape)
    return f"{array.type_name} {array.name}{dims}, {array.dtype.itemsize or 'dynamic'} bytes at offset {array.offset}"


def shared_array(moment: Moment, name: str) -> str:
    """An array as a table; rows and columns beyond what fits on a screen are counted."""
    array = np.atleast_1d(moment.shared(name))
    flat = array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array[: _MOST_ROWS * _PER_ROW]
    if array.ndim == 1:
        rows = [flat[k : k + _PER_ROW] for k in range(0, len(flat), _PER_ROW)]
        names = [f"[{k}]" for k in range(0, len(flat), _PER_ROW)]
    else:
        rows = [row[:_MOST_COLUMNS] for row in flat[:_MOST_ROWS]]
        names = ["".join(f"[{k}]" for k in np.unravel_index(n, array.shape[:-1])) for n in range(len(rows))]
    texts = [[_number(value) for value in row] for row in rows]
    width = max((len(text) for row in texts for text in row), default=1)
    label = max(map(len, names), default=1)
    lines = [f"{n:>{label}}  " + " ".join(t.rjust(width) for t in row) for n, row in zip(names, texts, strict=True)]
    hidden = array.size - sum(map(len, rows))
    return "\n".join([name, *lines] + ([f"and {hidden:,} more elements"] if hidden else []))


def _number(value: Any) -> str:
    if isinstance(value, np.floating):
        return "unset" if np.isnan(value) else f"{float(value):.4g}"
    return str(value)


def touched(moment: Moment) -> str:
    """The requests of the line that comes next."""
    step = moment.step
    if step is None or not step.accesses:
        return "this line touches neither global nor shared memory"
    return "\n".join(_request(access, moment) for access in step.accesses[:16])


def _request(access: Access, moment: Moment) -> str:
    item = access.nbytes
    lanes_ = access.lanes
    if not lanes_.size:
        return f"{access.kind} of {access.array}, before its first element"
    first = ", ".join(f"lane {lane}: {access.array}[{access.offsets[lane] // item}]" for lane in lanes_[:4])
    more = ", ..." if lanes_.size > 4 else ""
    cost = (
        f"{len(access.sectors)} sectors, {access.fewest_sectors} would hold it"
        if access.space == "global"
        else f"{access.wavefronts} passes through the banks"
    )
    unit = f", elements of {item} bytes" if item != 4 else ""
    return f"{access.space} {access.kind} by {lanes_.size} lanes: {first}{more} ({cost}{unit})"


def touched_data(moment: Moment) -> dict[str, Any]:
    accesses = moment.step.accesses if moment.step else ()
    return {
        "requests": [
            {
                "space": a.space, "kind": a.kind, "array": a.array, "bytes": a.nbytes, "lanes": a.lanes.tolist(),
                "offsets": a.offsets[a.lanes].tolist(),
                **({"sectors": len(a.sectors)} if a.space == "global" else {"passes": a.wavefronts}),
            }
            for a in accesses
        ]
    }  # fmt: skip


# ---------------------------------------------------------------- the rest


def source(recording: Recording, line: int, breakpoints: Collection[int]) -> str:
    """Source lines around one; * marks breakpoints, and a number says how often the warp came to a line."""
    lines = recording.contract.source.splitlines()
    visits: dict[int, int] = {}
    for step in recording.steps:
        visits[step.line] = visits.get(step.line, 0) + 1
    rows = []
    for number in range(max(1, line - _AROUND), min(len(lines), line + _AROUND) + 1):
        mark = "▸" if number == line else "*" if number in breakpoints else " "
        rows.append(f"{number:5} {mark} {f'{visits[number]}x' if number in visits else '':>6}  {lines[number - 1]}")
    return "\n".join(rows)


def hazards(recording: Recording) -> str:
    if not recording.findings:
        return "the simulator found no race, no access out of bounds, no uninitialised read in the whole grid"
    return "\n".join(
        f"line {h.line}: {h.kind}: {h.message} (block {h.block}, thread {h.thread})" for h in recording.findings
    )


def overview(commands: Sequence[tuple[str, str]]) -> str:
    """All commands, each with a line."""
    width = max(len(usage) for usage, _ in commands)
    lines = [f"  {usage:{width}}  {summary}" for usage, summary in commands]
    first = "The whole way of one warp is recorded: go forwards and backwards in it, and look at what each lane holds."
    last = "An empty line repeats the last step. A good start: break LINE, continue, locals."
    return "\n".join([first, *lines, last])
