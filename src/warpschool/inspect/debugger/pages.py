"""What the debugger's commands print, as text and as plain data; and the expressions that they understand.

    sum        tileA[threadIdx.y][k]        row * K + ka        quad.x        k == 3 and threadIdx.x < 4

Python's parser reads an expression, and nothing but the nodes below is evaluated, in every lane. `&&`, `||` and `!` are
understood too.
"""

from __future__ import annotations

import ast
import operator
import re
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ptxsim.limits import WARP
from warpschool.errors import ArgumentError
from warpschool.inspect.accesses import WarpRequest
from warpschool.inspect.debugger.recording import Moment, Recording, SharedArray, Values, value_text
from warpschool.inspect.debugger.symbols import Type
from warpschool.suggest import did_you_mean

_PER_ROW = 8
_AROUND = 4
_MOST_CHANGED = 6
_MOST_ROWS, _MOST_COLUMNS = 32, 16
NO_VALUE = "·"
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: np.fmod, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_BUILT_IN = ("threadIdx", "blockIdx", "blockDim", "gridDim")
_EXAMPLE = "For example: print sum, print tileA[threadIdx.y][k], print row * K + k"


@dataclass(frozen=True)
class Reply:
    """The answer to a command: text, the same as plain data, whether it was an error, and whether to leave."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)
    failed: bool = False
    leave: bool = False


def where(moment: Moment) -> Reply:
    """The step and its line."""
    recording = moment.recording
    source = recording.source_line(moment.line)
    data = {
        "step": moment.number, "steps": len(recording), "line": moment.line, "source": source.strip(),
        "active": _mask(moment),
    }  # fmt: skip
    if moment.step is None:
        end = f" early: {recording.ended}" if recording.ended else "."
        return Reply(f"step {moment.number} of {len(recording)}: the recording ends{end}", data)
    count = moment.step.lanes
    lanes = "all 32 lanes" if count == WARP else f"{count} of 32 lanes: {lane_ranges(moment.active)}"
    inside = f" in {moment.step.function}" if moment.step.copy else ""
    lines = [f"step {moment.number} of {len(recording)}, {lanes}{inside}", f"{moment.line:5} ▸ {source}"]
    lines += [f"      ! {hit.kind}: {hit.message}" for hit in recording.findings if hit.line == moment.line]
    return Reply("\n".join(lines), data)


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


def values(found: Values, moment: Moment) -> Reply:
    """A variable in every lane."""
    data = _values_data(found, moment)
    here = np.flatnonzero(~moment.exited)
    if len(found.shown) and found.defined[here].all() and len({found.array[lane].tobytes() for lane in here}) == 1:
        text = value_text(found.array[found.shown[0]], found.type, moment)
        return Reply(f"{found.name} = {text} ({found.type.name}) in every lane", data)
    texts = lane_texts(found, moment)
    width = max(map(len, texts))
    rows = [f"{found.name} ({found.type.name})"]
    for first in range(0, WARP, _PER_ROW):
        cells = "  ".join(text.rjust(width) for text in texts[first : first + _PER_ROW])
        rows.append(f"  lanes {first:2}..{first + _PER_ROW - 1:2}  {cells}")
    return Reply("\n".join(rows), data)


def lane_texts(found: Values, moment: Moment) -> list[str]:
    """One text a lane; in parentheses where the lane is not active, a dot where it has no value."""
    texts = _values_data(found, moment)["values"]
    shown = (text if text is None or on else f"({text})" for text, on in zip(texts, moment.active, strict=True))
    return [NO_VALUE if text is None else text for text in shown]


def _values_data(found: Values, moment: Moment) -> dict[str, Any]:
    ok = found.defined & ~moment.exited
    texts = [value_text(found.array[k], found.type, moment) if ok[k] else None for k in range(WARP)]
    return {"name": found.name, "type": found.type.name, "values": texts}


def variables(moment: Moment) -> Reply:
    """Every variable in scope, in the first active lanes."""
    lanes = np.flatnonzero(moment.active)
    rows = []
    for name, found in moment.variables.items():
        texts = lane_texts(found, moment)
        cells = ", ".join(texts[lane] for lane in lanes[:4]) + (", ..." if len(lanes) > 4 else "")
        if found.is_uniform and len(found.shown) == len(lanes):
            cells = f"{texts[lanes[0]]} (every active lane)"
        rows.append((name, found.type.name, cells))
    widths = [max((len(row[k]) for row in rows), default=0) for k in (0, 1)]
    lines = [f"  {name:{widths[0]}}  {kind:{widths[1]}}  {text}" for name, kind, text in rows]
    data = {"variables": [_values_data(found, moment) for found in moment.variables.values()]}
    return Reply("\n".join(lines) or "no variable is in scope here", data)


def lanes(moment: Moment) -> Reply:
    """The active mask, drawn."""
    waiting = ~moment.active & ~moment.exited
    text = (
        f"lanes 0..31   {drawn_lanes(moment)}   mask 0x{_mask(moment):08x}\n"
        f"# active: {lane_ranges(moment.active) or 'none'}   "
        f". waiting elsewhere: {lane_ranges(waiting) or 'none'}   "
        f"x returned: {lane_ranges(moment.exited) or 'none'}"
    )
    masks = {"active": moment.active, "exited": moment.exited, "waiting": waiting}
    return Reply(text, {name: np.flatnonzero(mask).tolist() for name, mask in masks.items()})


def drawn_lanes(moment: Moment) -> str:
    """A sign for each lane: # active, . waiting elsewhere, x returned."""
    signs = np.where(moment.active, "#", np.where(moment.exited, "x", "."))
    return " ".join("".join(signs[k : k + 8]) for k in range(0, WARP, 8))


def _mask(moment: Moment) -> int:
    """The active lanes as the bits of a number."""
    return int(np.packbits(moment.active, bitorder="little").view("<u4")[0])


def lane_ranges(mask: np.ndarray) -> str:
    """Lanes as ranges: 0-3, 8."""
    found = np.flatnonzero(mask)
    runs = np.split(found, np.flatnonzero(np.diff(found) > 1) + 1)
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs if len(run))


# ---------------------------------------------------------------- memory


def shared(moment: Moment, name: str = "") -> Reply:
    """An array as a table; rows and columns beyond what fits on a screen are counted. Without a name: what there is."""
    arrays = moment.recording.shared
    if not name:
        text = "\n".join([*(f"  {_declaration(array)}" for array in arrays), "`shared NAME` shows one."])
        return Reply(text if arrays else "this kernel has no shared memory", {"arrays": [a.name for a in arrays]})
    whole = moment.shared(name)
    array = np.atleast_1d(whole)
    if array.ndim == 1:
        starts = range(0, min(len(array), _MOST_ROWS * _PER_ROW), _PER_ROW)
        rows = {f"[{k}]": array[k : k + _PER_ROW] for k in starts}
    else:
        places = list(np.ndindex(array.shape[:-1]))[:_MOST_ROWS]
        rows = {"".join(f"[{k}]" for k in place): array[place][:_MOST_COLUMNS] for place in places}
    texts = {label: [_number(value) for value in row] for label, row in rows.items()}
    width = max((len(text) for row in texts.values() for text in row), default=1)
    indent = max(map(len, texts), default=1)
    lines = [f"{label:>{indent}}  " + " ".join(t.rjust(width) for t in row) for label, row in texts.items()]
    hidden = array.size - sum(map(len, rows.values()))
    text = "\n".join([name, *lines] + ([f"and {hidden:,} more elements"] if hidden else []))
    return Reply(text, {"name": name, "values": _plain(whole)})


def _declaration(array: SharedArray) -> str:
    _, shape = array.dtype.subdtype or (array.dtype, ())
    dims = "".join(f"[{length or ''}]" for length in shape)
    return f"{array.type_name} {array.name}{dims}, {array.dtype.itemsize or 'dynamic'} bytes at offset {array.offset}"


def _number(value: Any) -> str:
    if isinstance(value, np.floating):
        return "unset" if np.isnan(value) else f"{float(value):.4g}"
    return str(value)


def _plain(array: np.ndarray) -> Any:
    """An array as JSON: numbers, NaN as None, structs as lists."""
    if array.dtype.kind == "f":
        array = np.where(np.isfinite(array), array.astype(object), np.array(None))
    return array.tolist()


def touched(moment: Moment) -> Reply:
    """The requests of the line that comes next."""
    accesses = moment.step.accesses if moment.step else ()
    text = "\n".join(_request(access) for access in accesses[:16])
    requests = [
        {
            "space": a.space, "kind": a.kind, "array": a.array, "bytes": a.nbytes, "lanes": a.lanes.tolist(),
            "offsets": a.offsets[a.lanes].tolist(),
            "sectors" if a.space == "global" else "passes": a.cost,
        }
        for a in accesses
    ]  # fmt: skip
    return Reply(text or "this line touches neither global nor shared memory", {"requests": requests})


def _request(access: WarpRequest) -> str:
    item, lanes_ = access.nbytes, access.lanes
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


# ---------------------------------------------------------------- the rest


def source(recording: Recording, line: int, breakpoints: Collection[int]) -> Reply:
    """Source lines around one; * marks breakpoints, and a number says how often the warp came to a line."""
    lines = recording.contract.source.splitlines()
    visits = Counter(step.line for step in recording.steps)
    rows = []
    for number in range(max(1, line - _AROUND), min(len(lines), line + _AROUND) + 1):
        mark = "▸" if number == line else "*" if number in breakpoints else " "
        rows.append(f"{number:5} {mark} {f'{visits[number]}x' if number in visits else '':>6}  {lines[number - 1]}")
    return Reply("\n".join(rows))


def hazards(recording: Recording) -> Reply:
    """What the simulator found in the whole grid."""
    found = recording.findings
    lines = [f"line {h.line}: {h.kind}: {h.message} (block {h.block}, thread {h.thread})" for h in found]
    none = "the simulator found no race, no access out of bounds, no uninitialised read in the whole grid"
    data = {"hazards": [{"kind": h.kind, "line": h.line, "message": h.message} for h in found]}
    return Reply("\n".join(lines) or none, data)


# ---------------------------------------------------------------- expressions


class _Array(Values):
    """A shared array, alike in all lanes, on its way to an element."""


def evaluate(text: str, moment: Moment) -> Values:
    """Return the values of an expression in all lanes. Raises ArgumentError, with what is wrong with it."""
    plain = re.sub(r"!(?!=)", " not ", text.replace("&&", " and ").replace("||", " or ")).replace("->", ".").strip()
    if plain.startswith("%") and plain in moment.variables:
        return moment[plain]
    try:
        tree = ast.parse(plain, mode="eval").body
    except SyntaxError:
        raise ArgumentError(f"'{text}' is no expression", next_step=_EXAMPLE) from None
    with np.errstate(all="ignore"):
        found = _Evaluator(moment, text).value(tree)
    if isinstance(found, _Array):
        raise ArgumentError(f"'{text}' is a whole array", next_step=f"Name an element, or: shared {found.name}")
    return replace(found, name=text.strip())


class _Evaluator:
    def __init__(self, moment: Moment, text: str) -> None:
        self.moment, self.text = moment, text

    def value(self, tree: ast.expr) -> Values:
        match tree:
            case ast.Constant(value=bool() | int() | float()):
                return self.made(np.full(WARP, tree.value))
            case ast.Name(id=name):
                return self.named(name)
            case ast.Attribute(value=ast.Name(id=name), attr=axis) if name in _BUILT_IN:
                return self.index(name, axis)
            case ast.Attribute(value=inner, attr=member):
                return self.member(self.lanes(inner), member)
            case ast.Subscript(value=inner, slice=index):
                return self.element(self.value(inner), self.lanes(index))
            case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]) if (
                type(op) in _OPERATORS or isinstance(op, ast.Div)
            ):
                return self.combined(self.lanes(left), op, self.lanes(right))
            case ast.BoolOp(op=op, values=parts):
                return self.joined(op, [self.lanes(part) for part in parts])
            case ast.UnaryOp(op=ast.USub() | ast.Not() as op, operand=inner):
                found = self.lanes(inner)
                return self.made(-found.array if isinstance(op, ast.USub) else found.array == 0, found.defined)
        raise ArgumentError(f"'{self.text}': only variables, elements and arithmetic can be shown", next_step=_EXAMPLE)

    def lanes(self, tree: ast.expr) -> Values:
        found = self.value(tree)
        if isinstance(found, _Array):
            raise ArgumentError(f"'{self.text}': {found.name} has {found.array.ndim - 1} more dimensions here")
        return found

    def made(self, array: np.ndarray, defined: np.ndarray | None = None) -> Values:
        kind = {"b": "bool", "f": "float", "u": "unsigned"}.get(array.dtype.kind, "int")
        known = np.ones(WARP, bool) if defined is None else defined
        return Values("", Type(kind, array.dtype), array, known, self.moment.active)

    def named(self, name: str) -> Values:
        moment = self.moment
        if name in moment.variables:
            found = moment.variables[name]
            return replace(found, defined=found.defined & ~moment.exited)
        shared = [array.name for array in moment.recording.shared]
        if name in shared:
            array = moment.shared(name)
            return _Array(**vars(self.made(np.broadcast_to(array, (WARP, *array.shape)))) | {"name": name})
        recording = moment.recording
        constants = recording.contract.declarations.constexpr_values(recording.plan.constants)
        numbers: dict[str, Any] = {"laneId": np.arange(WARP), "warpId": moment.recording.warp, **constants}
        if name in numbers:
            return self.made(np.broadcast_to(numbers[name], WARP))
        known = [*moment.variables, *shared, *constants, *_BUILT_IN, "laneId", "warpId"]
        raise ArgumentError(f"there is no '{name}' at line {moment.line}", next_step=did_you_mean(name, known))

    def index(self, name: str, axis: str) -> Values:
        if axis not in ("x", "y", "z"):
            raise ArgumentError(f"{name} has x, y and z, not '{axis}'")
        recording = self.moment.recording
        number = recording.warp * WARP + np.arange(WARP)
        x, y, _ = recording.block_shape
        triples: dict[str, Any] = {
            "threadIdx": (number % x, number // x % y, number // (x * y)), "blockIdx": recording.block,
            "blockDim": recording.block_shape, "gridDim": recording.grid,
        }  # fmt: skip
        return self.made(np.broadcast_to(triples[name]["xyz".index(axis)], WARP))

    def member(self, found: Values, member: str) -> Values:
        names = found.array.dtype.names or ()
        if member not in names:
            raise ArgumentError(f"'{self.text}': there is no member '{member}'", next_step=did_you_mean(member, names))
        return self.made(found.array[member], found.defined)

    def element(self, found: Values, index: Values) -> Values:
        """One element in each lane; a lane whose index is outside has none."""
        numbers = index.array.astype(np.int64)
        if found.type.points_to is not None:
            return self.pointed(found, numbers, index.defined)
        if found.array.ndim < 2:
            raise ArgumentError(f"'{self.text}': that is no array")
        inside = (numbers >= 0) & (numbers < found.array.shape[1]) & index.defined & found.defined
        return self.made(found.array[np.arange(WARP), np.where(inside, numbers, 0)], inside)

    def pointed(self, found: Values, numbers: np.ndarray, defined: np.ndarray) -> Values:
        """`pointer[i]`: known for inputs, which a kernel does not change, and for shared memory."""
        pointee = found.type.points_to
        assert pointee is not None
        size = pointee.dtype.itemsize
        array = np.zeros(WARP, pointee.dtype)
        known = np.zeros(WARP, bool)
        for lane in np.flatnonzero(found.defined & defined):
            data = self.bytes_at(int(found.array[lane]) + int(numbers[lane]) * size, size)
            if data is not None:
                array[lane] = np.frombuffer(data, pointee.dtype)[0]
                known[lane] = True
        return replace(found, type=pointee, array=array, defined=known)

    def bytes_at(self, address: int, size: int) -> bytes | None:
        name, start = self.moment.pointed_at(address)
        given = self.moment.recording.inputs.get(name)
        for shared in self.moment.recording.shared:
            if shared.name == name:
                given, start = self.moment.shared_bytes, shared.offset + start
        if given is None and name:
            raise ArgumentError(
                f"{name} is not an input: what it held at this moment is not recorded",
                next_step="`touched` shows what a line reads and writes.",
            )
        data = b"" if given is None else given.tobytes()[start : start + size]
        return data if len(data) == size else None

    def combined(self, left: Values, op: ast.AST, right: Values) -> Values:
        a, b = left.array, right.array
        if isinstance(op, ast.Div):
            whole = a.dtype.kind in "iub" and b.dtype.kind in "iub"
            result = np.trunc(a / np.where(b == 0, 1, b)).astype(np.int64) if whole else a / b
            return self.made(result, left.defined & right.defined & ((b != 0) | (not whole)))
        if a.dtype.kind == "u" and b.dtype.kind == "i":
            a = a.astype(np.int64)
        return self.made(_OPERATORS[type(op)](a, b), left.defined & right.defined)

    def joined(self, op: ast.AST, parts: list[Values]) -> Values:
        join = np.logical_and if isinstance(op, ast.And) else np.logical_or
        return self.made(
            join.reduce([part.array != 0 for part in parts]), np.logical_and.reduce([part.defined for part in parts])
        )
