"""What `print` and conditions of breakpoints understand: an expression over variables, evaluated in every lane.

    sum        tileA[threadIdx.y][k]        row * K + ka        quad.x        k == 3 and threadIdx.x < 4

Python's parser reads it, and nothing but the nodes below is evaluated. `&&`, `||` and `!` are understood too.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptxsim.limits import WARP
from warpschool.errors import ArgumentError
from warpschool.inspect.debugger.moment import Moment, Values
from warpschool.inspect.debugger.symbols import Type
from warpschool.suggest import did_you_mean

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: np.fmod, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_BUILT_IN = ("threadIdx", "blockIdx", "blockDim", "gridDim", "laneId", "warpId")
_EXAMPLE = "For example: print sum, print tileA[threadIdx.y][k], print row * K + k"


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
