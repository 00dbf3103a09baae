"""What the debugger's commands print, as text and as plain data; and the expressions that they understand.

    sum        tileA[threadIdx.y][k]        row * K + ka        quad.x        k == 3 and threadIdx.x < 4

Python's parser reads an expression, and nothing but the nodes below is evaluated, in every lane. `&&`, `||` and `!` are
understood too.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptxsim.limits import WARP
from warpschool.errors import ArgumentError
from warpschool.inspect.accesses import Access
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
_BUILT_IN = ("threadIdx", "blockIdx", "blockDim", "gridDim", "laneId", "warpId")
_EXAMPLE = "For example: print sum, print tileA[threadIdx.y][k], print row * K + k"


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


# ---------------------------------------------------------------- expressions


@dataclass(frozen=True, eq=False)
class _Array:
    """A shared or global array on its way to an element."""

    name: str
    data: np.ndarray


@dataclass(frozen=True, eq=False)
class _Lanes:
    """A value in every lane; `array` has shape (32, ...)."""

    array: np.ndarray
    defined: np.ndarray
    type: Type


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
    return Values(text.strip(), found.type, found.array, found.defined, moment.active)


class _Evaluator:
    def __init__(self, moment: Moment, text: str) -> None:
        self.moment, self.text = moment, text

    def value(self, tree: ast.expr) -> _Lanes | _Array:
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
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS or isinstance(op, ast.Div):
                return self.combined(self.lanes(left), op, self.lanes(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
                return self.combined(self.lanes(left), op, self.lanes(right))
            case ast.BoolOp(op=op, values=parts):
                return self.joined(op, [self.lanes(part) for part in parts])
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                found = self.lanes(inner)
                return self.made(-found.array, found.defined)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                found = self.lanes(inner)
                return self.made(found.array == 0, found.defined)
        raise ArgumentError(f"'{self.text}': only variables, elements and arithmetic can be shown", next_step=_EXAMPLE)

    def lanes(self, tree: ast.expr) -> _Lanes:
        found = self.value(tree)
        if isinstance(found, _Array):
            raise ArgumentError(f"'{self.text}': {found.name} has {found.data.ndim} more dimensions here")
        return found

    def made(self, array: np.ndarray, defined: np.ndarray | None = None) -> _Lanes:
        kind = {"b": "bool", "f": "float", "u": "unsigned"}.get(array.dtype.kind, "int")
        return _Lanes(array, np.ones(WARP, bool) if defined is None else defined, Type(kind, array.dtype))

    def named(self, name: str) -> _Lanes | _Array:
        moment = self.moment
        if name in moment.variables:
            found = moment.variables[name]
            return _Lanes(found.array, found.defined & ~moment.exited, found.type)
        if any(array.name == name for array in moment.recording.shared):
            return _Array(name, moment.shared(name))
        contract = moment.recording.contract
        constants = contract.declarations.constexpr_values(moment.recording.plan.constants)
        if name in constants:
            return self.made(np.full(WARP, constants[name]))
        if name in ("laneId", "warpId"):
            return self.made(np.arange(WARP) if name == "laneId" else np.full(WARP, moment.recording.warp))
        known = [*moment.variables, *(a.name for a in moment.recording.shared), *constants, *_BUILT_IN]
        raise ArgumentError(f"there is no '{name}' at line {moment.line}", next_step=did_you_mean(name, known))

    def index(self, name: str, axis: str) -> _Lanes:
        if axis not in ("x", "y", "z"):
            raise ArgumentError(f"{name} has x, y and z, not '{axis}'")
        k = "xyz".index(axis)
        recording = self.moment.recording
        if name == "threadIdx":
            number = recording.warp * WARP + np.arange(WARP)
            x, y, _ = recording.block_shape
            return self.made((number % x, number // x % y, number // (x * y))[k])
        triple = {"blockIdx": recording.block, "blockDim": recording.block_shape, "gridDim": recording.grid}[name]
        return self.made(np.full(WARP, triple[k]))

    def member(self, found: _Lanes, member: str) -> _Lanes:
        names = found.array.dtype.names or ()
        if member not in names:
            raise ArgumentError(f"'{self.text}': there is no member '{member}'", next_step=did_you_mean(member, names))
        return self.made(found.array[member], found.defined)

    def element(self, found: _Lanes | _Array, index: _Lanes) -> _Lanes | _Array:
        """One element in each lane; a lane whose index is outside has none."""
        numbers = index.array.astype(np.int64)
        if isinstance(found, _Lanes) and found.type.points_to is not None:
            return self.pointed(found, numbers, index.defined)
        if isinstance(found, _Lanes):
            if found.array.ndim < 2:
                raise ArgumentError(f"'{self.text}': that is no array")
            inside = (numbers >= 0) & (numbers < found.array.shape[1]) & index.defined & found.defined
            return self.made(found.array[np.arange(WARP), np.where(inside, numbers, 0)], inside)
        inside = (numbers >= 0) & (numbers < len(found.data)) & index.defined
        return self.made(found.data[np.where(inside, numbers, 0)], inside)

    def pointed(self, found: _Lanes, numbers: np.ndarray, defined: np.ndarray) -> _Lanes:
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
        return _Lanes(array, known, pointee)

    def bytes_at(self, address: int, size: int) -> bytes | None:
        name, offset = self.moment.pointed_at(address)
        for shared in self.moment.recording.shared:
            if shared.name == name:
                start = shared.offset + offset
                return self.moment.shared_bytes[start : start + size].tobytes()
        given = self.moment.recording.inputs.get(name)
        if given is None and name:
            raise ArgumentError(
                f"{name} is not an input: what it held at this moment is not recorded",
                next_step="`touched` shows what a line reads and writes.",
            )
        if given is None:
            return None
        data = np.ascontiguousarray(given).reshape(-1).view(np.uint8)[offset : offset + size].tobytes()
        return data if len(data) == size else None

    def combined(self, left: _Lanes, op: ast.AST, right: _Lanes) -> _Lanes:
        a, b = left.array, right.array
        if isinstance(op, ast.Div):
            whole = a.dtype.kind in "iub" and b.dtype.kind in "iub"
            safe = np.where(b == 0, 1, b)
            result = np.trunc(a / safe).astype(np.int64) if whole else a / b
            return self.made(result, left.defined & right.defined & ((b != 0) | (not whole)))
        if a.dtype.kind == "u" and b.dtype.kind == "i":
            a = a.astype(np.int64)
        return self.made(_OPERATORS[type(op)](a, b), left.defined & right.defined)

    def joined(self, op: ast.AST, parts: list[_Lanes]) -> _Lanes:
        join = np.logical_and if isinstance(op, ast.And) else np.logical_or
        return self.made(
            join.reduce([part.array != 0 for part in parts]), np.logical_and.reduce([part.defined for part in parts])
        )
