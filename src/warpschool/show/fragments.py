"""`show_fragments`: which lane of a warp owns which element of a tensor-core product's operands."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ptxsim.fragments import MMA_SHAPES, WMMA_SHAPES, Fragment, fragment
from ptxsim.limits import WARP
from warpschool.device import Launch
from warpschool.errors import ArgumentError
from warpschool.harness.launcher import RunResult
from warpschool.show.exhibit import Exhibit, View
from warpschool.show.svg import Svg
from warpschool.show.table import Table
from warpschool.show.theme import SERIES
from warpschool.suggest import did_you_mean

_LEFT, _TOP = 44, 40
_WIDE, _HIGH = 34.0, 27.0
_SUMS = {"f16": "f32", "bf16": "f32", "tf32": "f32", "f64": "f64"}
_SUM_TYPES = ("f16", "f32", "f64", "s32")
_NAMES = {"a": "A", "b": "B", "c": "C", "d": "D"}
_WMMA = re.compile(r"wmma\.mma\.\S*?(m\d+n\d+k\d+)\.(\S+)")
_MMA = re.compile(r"(?<![\w.])mma\.sync\.\S*?(m\d+n\d+k\d+)\.\w+\.\w+\.(\S+)")
_NAME = 'Name a product: ws.show_fragments("mma", "m16n8k16", "f16").'
_TYPE = re.compile(r"\b(?:f16|bf16|tf32|f64|f32|s8|u8|s4|u4|b1|s32)\b")


def show_fragments(
    which: str | Launch | RunResult, shape: str = "", type: str = "", *, sums: str = "", operands: str = "abc",
    lane: int = 0,
) -> Exhibit:  # fmt: skip
    """Show which lane owns which element, one picture for each operand: A, B and the sums C.

    `which` is "wmma" or "mma" with a `shape` such as "m16n8k16" and the `type` of A and B such as "f16"; or a launch or
    a run, whose first such instruction is taken. `sums` is the accumulators' type (usually f32, or s32 for integers).
    `lane` has its elements framed. Raises ArgumentError where there is no such product.
    """
    if not 0 <= lane < WARP:
        raise ArgumentError(f"there is no lane {lane}", next_step="A warp has the lanes 0 to 31.")
    if not operands or set(operands) - set(_NAMES):
        raise ArgumentError(f"operands={operands!r} names no operands", next_step='There are "a", "b", "c" and "d".')
    if not isinstance(which, str):
        instruction, shape, type, sums = _first_product(which)
    else:
        instruction = which
    if sums and sums not in _SUM_TYPES:
        raise ArgumentError(f"no product sums in {sums!r}", next_step=did_you_mean(sums, _SUM_TYPES))
    sums = sums or _SUMS.get(type, "s32")
    found = [(name, _fragment(instruction, shape, type if name in "ab" else sums, name)) for name in operands]
    frames = tuple(_frame(name, one, lane, number, len(found)) for number, (name, one) in enumerate(found, start=1))
    said = "; ".join(f"{_NAMES[name]} {one.rows} x {one.columns}, {_holds(one)}" for name, one in found)
    return Exhibit(
        f"{instruction} {shape}, {type} with sums in {sums}", f"A lane holds of {said}.", frames,
        tuple(_sheet(name, one) for name, one in found),
        note="In a box stands the lane, below it the register of the lane; colours tell registers apart as well.",
    )  # fmt: skip


def _fragment(instruction: str, shape: str, type: str, operand: str) -> Fragment:
    try:
        return fragment(instruction, shape, type, operand)
    except ValueError as error:
        shapes = {"wmma": WMMA_SHAPES, "mma": MMA_SHAPES}
        known = "; ".join(f"{name}: {_listed(table)}" for name, table in shapes.items() if instruction in (name, ""))
        raise ArgumentError(f"{error}", next_step=f"There is {known or 'wmma or mma'}.") from None


def _listed(table: dict[str, str]) -> str:
    return ", ".join(f"{shape} ({types})" for shape, types in table.items())


def _first_product(which: Launch | RunResult) -> tuple[str, str, str, str]:
    """(instruction, shape, type of A and B, type of the sums) of the first matrix instruction in a launch's PTX."""
    if not isinstance(which, Launch | RunResult):
        what = f"show_fragments takes a name, a launch or a run, not {type(which).__name__}"
        raise ArgumentError(what, next_step=_NAME)
    launches: Iterable[Launch] = which.launches if isinstance(which, RunResult) else (which,)
    for launch in launches:
        ptx = launch.call.kernel.module.ptx if launch.call else ""
        for name, pattern in (("wmma", _WMMA), ("mma", _MMA)):
            if match := pattern.search(ptx):
                types = _TYPE.findall(match[2])
                if name == "wmma" and len(types) == 2:  # halves are not written: the sums' types are
                    return name, match[1], "f16", types[1]
                return name, match[1], types[1], types[-1]
    raise ArgumentError("this launch has no matrix instruction", next_step=_NAME)


def _holds(one: Fragment) -> str:
    each = f" of {one.elements} elements" if one.elements > 1 else ""
    copies = f", every element {one.copies} times in the warp" if one.copies > 1 else ""
    return f"{one.registers} register{'s' * (one.registers != 1)}{each}{copies}"


def _frame(name: str, one: Fragment, lane: int, number: int, count: int) -> View:
    label = (
        f"Operand {_NAMES[name]} ({number} of {count}): {one.rows} x {one.columns} of {one.type}. Framed: lane {lane}."
    )
    held = [f"({row}, {column})" for row, column in held_by(one, lane)]
    owns = ", ".join(held[:8]) + (f" and {len(held) - 8} more" if len(held) > 8 else "")
    alt = f"{label} A lane has {_holds(one)}. Lane {lane} owns (row, column) {owns or 'copies only'}."
    return View(fragment_svg(one, lane=lane), label, alt)


def _sheet(name: str, one: Fragment) -> Table:
    rows = [
        [f"lane {lane}", *(" ".join(f"({r}, {c})" for r, c in one.positions[lane, register].tolist())
                           for register in range(one.registers))]
        for lane in range(WARP)
    ]  # fmt: skip
    head = ["lane", *(f"r{register}" for register in range(one.registers))]
    return Table.of(f"Operand {_NAMES[name]}: (row, column) of each lane's registers", head, rows)


# ---------------------------------------------------------------- the picture


def fragment_svg(fragment: Fragment, *, lane: int) -> Svg:
    """The matrix; boxes of one register share a colour and its name, those of `lane` have a thick border."""
    wide = _WIDE if fragment.columns <= 24 else 26.0
    svg = Svg(_LEFT + fragment.columns * wide + 18, _TOP + fragment.rows * _HIGH + 16)
    svg.text(_LEFT, 14, "column →", "s k")
    svg.text(8, 14, "row ↓", "s k")
    for column in range(0, fragment.columns, 2 if fragment.columns > 8 else 1):
        svg.text(_LEFT + (column + 0.5) * wide, _TOP - 8, column, "s m k")
    for row in range(fragment.rows):
        svg.text(_LEFT - 8, _TOP + (row + 0.5) * _HIGH + 4, row, "s e k")
        for column in range(fragment.columns):
            owner, register, _ = fragment.owner(row, column)
            x, y = _LEFT + column * wide, _TOP + row * _HIGH
            fill = f"fill:var(--s{register % SERIES});fill-opacity:.22"
            svg.rect(x + 0.5, y + 0.5, wide - 1, _HIGH - 1, "", style=fill, r=2)
            svg.text(x + wide / 2, y + 13, owner, "m b" if owner == lane else "m", style="font-size:11px")
            svg.text(x + wide / 2, y + 23, f"r{register}", "m s", style="font-size:8px")
    for row, column in held_by(fragment, lane):
        style = "fill:none;stroke:var(--ink);stroke-width:2.4"
        svg.rect(_LEFT + column * wide + 1, _TOP + row * _HIGH + 1, wide - 2, _HIGH - 2, "", style=style, r=2)
    return svg


def held_by(fragment: Fragment, lane: int) -> list[tuple[int, int]]:
    """(row, column) of each element that a lane owns; of copies only the first owner counts."""
    return [
        (row, column)
        for row in range(fragment.rows)
        for column in range(fragment.columns)
        if fragment.owner(row, column)[0] == lane
    ]
