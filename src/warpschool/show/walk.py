"""`show_walk`: which elements of each array a block touches, one picture after the other, as the interpreter saw it.

A picture holds what happens between two barriers (`by="barrier"`), on one source line ("line"), in one turn of a loop
("turn"), in one launch ("launch"), or what one lane ("lane"), one warp ("warp") or one of several `blocks` ("block")
touches. Arrays of three dimensions lie plane beside plane, those of four in rows of such planes; shared memory has 32
words in a row, one for each bank. `lane` and `warp` leave one thread's or one warp's part over: what it reads again and
again is its reuse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ptxsim.limits import WORD_BYTES
from warpschool.contract import Contract, Plan
from warpschool.errors import ArgumentError
from warpschool.harness.launcher import given_sizes, random_inputs
from warpschool.harness.source import Kind, resolve
from warpschool.inspect.accesses import WarpRequest, trace
from warpschool.show.exhibit import Exhibit, View
from warpschool.show.svg import Svg
from warpschool.show.table import Table

WAYS = ("barrier", "line", "turn", "launch", "lane", "warp", "block")
MOST = 24
_WIDTH, _GAP, _TOP = 904, 34, 40
_LARGEST, _LEGIBLE, _SMALLEST = 18.0, 3.0, 0.75
_WORDS = 32
_LETTER = 7.5
"""the width of a letter of a title"""
_HIGHEST = 420
_LONGEST = 90

Part = tuple[WarpRequest, npt.NDArray[np.int64]]
"""a request, and those of its lanes that are meant"""
Touched = dict[tuple[str, str], npt.NDArray[np.int64]]
"""(array, "load" or "store") -> how often each of its elements was touched"""


@dataclass(frozen=True)
class _Grid:
    """How an array is laid out: in `planes` planes of `high` rows and `plane` columns, which lie in rows themselves."""

    name: str
    rows: int
    columns: int
    high: int
    plane: int
    item_bytes: int
    planes: int = 1
    is_shared: bool = False

    @property
    def title(self) -> str:
        """Its name and shape."""
        if self.is_shared:
            return f"{self.name}, {self.high} rows of {self.plane} banks"
        return f"{self.name}  {self.high} x {self.plane}" + (f", {self.planes} planes" if self.planes > 1 else "")

    def places(self, elements: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The row and column of each element."""
        number, inside = np.divmod(elements, self.high * self.plane)
        down, across = np.divmod(number, self.columns // self.plane)
        return down * self.high + inside // self.plane, across * self.plane + inside % self.plane


@dataclass(frozen=True)
class _Scene:
    """What one picture holds: the requests, what was touched before, and its name."""

    label: str
    now: Touched
    before: Touched


def show_walk(
    which: str | Path, sizes: Mapping[str, float], *, block: int = 0, blocks: Sequence[int] = (), by: str = "barrier",
    warp: int | None = None, lane: int | None = None, arrays: Sequence[str] = (), most: int = MOST,
    source: Kind = "own", constants: Mapping[str, int] | None = None,
) -> Exhibit:  # fmt: skip
    """Show how a block walks through its arrays: `ws.show_walk("lab02/01", {"M": 48, "N": 48, "K": 64})`.

    `which` is a step, or a .cu file with a header; `source="reference"` takes the course's kernel of the step. `by`
    says what a picture holds, `warp` and `lane` whose part is shown, `arrays` which arrays; `by="block"` shows several
    `blocks`, one after the other. Inputs are random.

    Raises ArgumentError for what is no way to cut, CourseError and LaunchError where there is no such kernel or size.
    """
    if by not in WAYS:
        raise ArgumentError(f"by={by!r} is no way to cut", next_step=f"There are {', '.join(WAYS)}.")
    if (by == "block") != bool(blocks):
        raise ArgumentError('several blocks are shown by="block", and no others', next_step="Give blocks=(0, 1), too.")
    contract = resolve(which, source).contract()
    sizes = given_sizes(sizes)
    plan = contract.bind(sizes, constants=constants)
    each: dict[int, list[Part]] = {}
    for number in blocks or (block,):
        seen = trace(contract, sizes, random_inputs(plan), block=number, constants=constants).accesses
        kept = [r for r in seen if warp in (None, r.warp) and (not arrays or r.array in arrays)]
        each[number] = _parts(kept, lane)
    parts = [part for own in each.values() for part in own]
    one = f"block {block}" if not blocks else "blocks " + ", ".join(map(str, blocks))
    whose = ", ".join([one, *(f"{name} {n}" for name, n in (("warp", warp), ("lane", lane)) if n is not None)])
    title = f"How {whose} of {contract.name} walk{'' if blocks else 's'}"
    if not parts:
        return Exhibit(title, "It touches none of these arrays.")
    grids = _grids(plan, [request for request, _ in parts])
    scenes = list(_scenes(_blocks(each) if blocks else _cuts(contract, parts, by), grids))
    frames = tuple(_frame(scene, grids, number, len(scenes)) for number, scene in enumerate(scenes[:most], start=1))
    note = f"The first {most} of {len(scenes)} pictures." if len(scenes) > most else ""
    return Exhibit(title, _finding(parts, grids), frames, (_sheet(scenes[:most]),), note=note)


# ---------------------------------------------------------------- what was touched


def _grids(plan: Plan, requests: Sequence[WarpRequest]) -> dict[str, _Grid]:
    """How each array that is touched is laid out: as the header says, shared memory in rows of 32 words."""
    found: dict[str, _Grid] = {}
    for name in dict.fromkeys(request.array for request in requests):
        own = [r for r in requests if r.array == name]
        array = plan.arrays.get(name)
        if array is not None and array.shape:
            *down, across, high, wide = (1, 1, 1, *array.shape)[-max(3, len(array.shape)) :]
            planes, beside = math.prod(down) * across, _beside(across, wide)
            size = -(-planes // beside) * high, beside * wide
            found[name] = _Grid(name, *size, high, wide, array.dtype.itemsize, planes)
        else:
            end = max(int(r.offsets.max()) + r.nbytes for r in own)
            rows = -(-end // (_WORDS * WORD_BYTES))
            found[name] = _Grid(name or "shared memory", rows, _WORDS, rows, _WORDS, WORD_BYTES, is_shared=True)
    return found


def _beside(across: int, wide: int) -> int:
    """How many planes stand in a row: all, or a part where an element would be too small to see."""
    most = max(1, int((_WIDTH - 2 * _GAP) / (wide * _LEGIBLE)))
    return across if across <= most else max(n for n in range(1, most + 1) if across % n == 0)


def _parts(kept: Sequence[WarpRequest], lane: int | None) -> list[Part]:
    """The requests with those of their lanes that are meant."""
    if lane is None:
        return [(request, request.lanes) for request in kept]
    return [(request, np.array([lane])) for request in kept if request.offsets[lane] >= 0]


def _scenes(cuts: Iterable[tuple[str, list[Part]]], grids: Mapping[str, _Grid]) -> Iterator[_Scene]:
    before: Touched = {}
    for label, group in cuts:
        now: Touched = {}
        for request, lanes in group:
            kind = "store" if request.kind == "store" else "load"  # a copy loads, too
            counts = now.setdefault((request.array, kind), _zeros(grids[request.array]))
            elements = _elements(request, lanes, grids[request.array])
            np.add.at(counts, elements[elements < counts.size], 1)
        yield _Scene(label, now, dict(before))
        for name, counts in now.items():
            before[name] = before[name] + counts if name in before else counts


def _elements(request: WarpRequest, lanes: npt.NDArray[np.int64], grid: _Grid) -> npt.NDArray[np.int64]:
    """The elements that these lanes touch, one after the other where an access is wide."""
    wide = max(1, request.nbytes // grid.item_bytes)
    return (request.offsets[lanes, None] // grid.item_bytes + np.arange(wide)).ravel()


def _zeros(grid: _Grid) -> npt.NDArray[np.int64]:
    return np.zeros(grid.rows * grid.columns, np.int64)


def _cuts(contract: Contract, parts: Sequence[Part], by: str) -> Iterator[tuple[str, list[Part]]]:
    """The parts of each picture, with its name."""
    if by == "lane":
        for lane in sorted({int(lane) for _, lanes in parts for lane in lanes}):
            yield f"lane {lane}", [(r, np.array([lane])) for r, lanes in parts if lane in lanes]
    elif by == "warp":
        for warp in sorted({request.warp for request, _ in parts}):
            yield f"warp {warp}", [(r, lanes) for r, lanes in parts if r.warp == warp]
    elif by == "turn":
        yield from _turns(parts)
    else:
        for key, group in groupby(parts, key=lambda part: _key(part[0], by)):
            yield _label(contract, key, by), list(group)


def _blocks(each: Mapping[int, Sequence[Part]]) -> Iterator[tuple[str, list[Part]]]:
    """Kernel by kernel the part of each block."""
    for kernel in dict.fromkeys(request.kernel for parts in each.values() for request, _ in parts):
        for number, parts in each.items():
            if own := [part for part in parts if part[0].kernel == kernel]:
                yield f"{kernel}, block {number}", own


def _turns(parts: Sequence[Part]) -> Iterator[tuple[str, list[Part]]]:
    """A turn ends where a warp comes to a line, for the same array, that it has been at in this turn."""
    turn: list[Part] = []
    been: set[tuple[str, int, str, str, int]] = set()
    number = 1
    for part in parts:
        request = part[0]
        place = (request.kernel, request.line, request.array, request.kind, request.warp)
        if place in been:
            yield f"turn {number}", turn
            turn, been, number = [], set(), number + 1
        turn.append(part)
        been.add(place)
    yield f"turn {number}", turn


def _key(request: WarpRequest, by: str) -> tuple[str, int]:
    return request.kernel, {"launch": request.launch, "barrier": request.phase, "line": request.line}[by]


def _label(contract: Contract, key: tuple[str, int], by: str) -> str:
    kernel, number = key
    if by == "line":
        code = contract.source.splitlines()[number - 1].strip()
        return f"line {number}: {code}" if len(code) < _LONGEST else f"line {number}"
    if by == "launch":
        return f"{kernel}, launch {number + 1}"
    barriers = "1 barrier" if number == 1 else f"{number} barriers"
    return f"{kernel}, behind {barriers}" if number else f"{kernel}, before the first barrier"


# ---------------------------------------------------------------- words


_DONE = {"load": "loaded", "store": "stored"}


def _told(scene: _Scene) -> str:
    """What is touched in a scene, in words."""
    parts = []
    for (name, kind), counts in scene.now.items():
        distinct, touches = int((counts > 0).sum()), int(counts.sum())
        often = f", each {touches / distinct:.3g} times" if touches > distinct else ""
        elements = "1 element" if distinct == 1 else f"{distinct:,} elements"
        parts.append(f"{name or 'shared memory'}: {elements} {_DONE[kind]}{often}")
    return "; ".join(parts) or "nothing"


def _finding(parts: Sequence[Part], grids: Mapping[str, _Grid]) -> str:
    """How often what is brought from global memory is read in shared memory."""
    counts = {"global": 0, "shared": 0}
    for request, lanes in parts:
        if request.kind != "store":
            counts[request.space] += _elements(request, lanes, grids[request.array]).size
    told = [f"loads {counts['global']:,} elements from global memory"] if counts["global"] else []
    ratio = f", {counts['shared'] / counts['global']:.3g} for each of them" if counts["global"] else ""
    told += [f"reads {counts['shared']:,} from shared memory{ratio}"] if counts["shared"] else []
    return f"It {' and '.join(told) or 'loads nothing'}."


def _sheet(scenes: Sequence[_Scene]) -> Table:
    rows = [
        [number, scene.label, name or "shared memory", kind, int((counts > 0).sum()), int(counts.sum())]
        for number, scene in enumerate(scenes, start=1)
        for (name, kind), counts in scene.now.items()
    ]
    return Table.of("What each picture touches", ["picture", "when", "array", "kind", "elements", "touches"], rows)


# ---------------------------------------------------------------- the picture


def _frame(scene: _Scene, grids: Mapping[str, _Grid], number: int, count: int) -> View:
    said = _told(scene)
    label = f"{scene.label} ({number} of {count}). {said}."
    return View(walk_svg(scene, grids), label, f"{label} Blue: loaded now; orange: stored now; grey: touched before.")


def walk_svg(scene: _Scene, grids: Mapping[str, _Grid]) -> Svg:
    """All arrays beside each other, below each other where they are too wide."""
    cell = _cell(list(grids.values()))
    places, height = _placed(list(grids.values()), cell)
    svg = Svg(_WIDTH, height + 30)
    for name, grid in grids.items():
        _draw(svg, scene, name, grid, places[grid.name], cell)
    for place, (kind, text) in enumerate((("s0", "loaded now"), ("s1", "stored now"), ("s5", "touched before"))):
        x = 12 + 130 * place
        opacity = ".3" if kind == "s5" else ".85"
        svg.rect(x, height + 8, 14, 14, "", style=f"fill:var(--{kind});fill-opacity:{opacity}", r=2)
        svg.text(x + 20, height + 20, text, "s")
    return svg


def _cell(grids: Sequence[_Grid]) -> float:
    """The side of an element: as large as the picture's width and height allow."""
    cell = _LARGEST
    while cell > _SMALLEST and (
        max(grid.columns for grid in grids) * cell > _WIDTH - 2 * _GAP or _placed(grids, cell)[1] > _HIGHEST
    ):
        cell *= 0.9
    return cell


def _placed(grids: Sequence[_Grid], cell: float) -> tuple[dict[str, tuple[float, float]], float]:
    """Array -> its upper left corner, and the height of all."""
    places, x, y, row = {}, 12.0, float(_TOP), 0.0
    for grid in grids:
        wide = max(grid.columns * cell, _LETTER * len(grid.title))
        if x > 12.0 and x + wide > _WIDTH - 12:
            x, y, row = 12.0, y + row + _GAP, 0.0
        places[grid.name] = (x, y)
        x, row = x + wide + _GAP, max(row, grid.rows * cell)
    return places, y + row + 12


def _draw(svg: Svg, scene: _Scene, name: str, grid: _Grid, place: tuple[float, float], cell: float) -> None:
    x, y = place
    across = grid.columns // grid.plane
    svg.text(x, y - 8, grid.title, "b")
    for plane in range(grid.planes):
        left, top = plane % across * grid.plane * cell, plane // across * grid.high * cell
        svg.rect(x + left, y + top, grid.plane * cell, grid.high * cell, "o")
    for kind in ("load", "store"):
        if (old := scene.before.get((name, kind))) is not None:
            _fill(svg, grid, old, (x, y), cell, "fill:var(--s5);fill-opacity:.3")
    for kind, colour in (("load", "s0"), ("store", "s1")):
        if (new := scene.now.get((name, kind))) is not None:
            _fill(svg, grid, new, (x, y), cell, f"fill:var(--{colour});fill-opacity:.85")


def _fill(
    svg: Svg, grid: _Grid, counts: npt.NDArray[np.int64], corner: tuple[float, float], cell: float, style: str
) -> None:
    """A box for each run of touched elements in a row."""
    rows, columns = grid.places(np.flatnonzero(counts))
    mask = np.zeros((grid.rows, grid.columns + 1), bool)
    mask[rows, columns] = True
    for row in np.flatnonzero(mask.any(axis=1)):
        ends = np.flatnonzero(np.diff(mask[row].astype(np.int8), prepend=0))
        for first, last in zip(ends[::2], ends[1::2], strict=True):
            svg.rect(corner[0] + first * cell, corner[1] + row * cell, (last - first) * cell, cell, "", style=style)
