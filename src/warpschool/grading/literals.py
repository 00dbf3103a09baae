"""Python that is only data: cells that bind names to numbers, texts and lists are read, and nothing of them is run."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_MOST_DIGITS = 300
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip


def values_of(cells: Iterable[str]) -> dict[str, Any] | None:
    """Return what cells bind, if they do nothing but bind names to constants and arithmetic on them; else None."""
    values: dict[str, Any] = {}
    for cell in cells:
        for statement in ast.parse(cell).body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue
            if not isinstance(statement, ast.Assign) or not all(isinstance(t, ast.Name) for t in statement.targets):
                return None
            try:
                value = _constant(statement.value, values)
            except (ValueError, ArithmeticError, TypeError, RecursionError):
                return None
            values |= {target.id: value for target in statement.targets if isinstance(target, ast.Name)}
    return values


def _constant(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of a constant expression; raises ValueError for anything that would have to be run."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return value
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.Tuple(elts=items):
            return tuple(_constant(item, values) for item in items)
        case ast.List(elts=items):
            return [_constant(item, values) for item in items]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_number(operand, values))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _small(_OPERATORS[type(op)](_number(left, values), _number(right, values)))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, exponent = _number(left, values), _number(right, values)
            if abs(exponent) > 64:
                raise ValueError("a large power")
            return _small(base**exponent)
    raise ValueError("no constant")


def _number(node: ast.expr, values: Mapping[str, Any]) -> Any:
    value = _constant(node, values)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError("no number")
    return value


def _small(value: Any) -> Any:
    if isinstance(value, complex) or (isinstance(value, int) and value.bit_length() > 4 * _MOST_DIGITS):
        raise ValueError("too large")
    return value
