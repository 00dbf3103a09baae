"""What a student's Python may do, counted in its own steps: the same on every machine, however busy it is.

A cell's syntax tree gets a call in front of every loop's body, function's body and element of a comprehension, which
takes from a budget as many steps as there are nodes to run. What runs inside NumPy or another library is not counted:
there the limit of processor time stands behind.
"""

from __future__ import annotations

import ast
import builtins
import os
import time
from collections.abc import Callable
from typing import Any

MOST_STEPS = 1 << 30
"""Nodes of its syntax tree that a student's Python may run: half a minute to a minute of it, on any machine."""
MOST_SLEEP_S = 60.0
"""What all its calls of `time.sleep` may ask for together."""
EXIT_CODE = 119
"""How a process ends whose budget is used up; no limit of the system's ends it so."""
_TICK = "__warpschool_steps__"


def limit_steps(*, steps: int = MOST_STEPS, sleep_s: float = MOST_SLEEP_S) -> Counted:
    """Give this process its budget; returns what makes a syntax tree count."""
    real = time.sleep
    setattr(builtins, _TICK, _spender(steps, "does not come to an end"))
    spend_sleep = _spender(sleep_s, "waits for too long")

    def sleep(seconds: Any, /) -> None:
        spend_sleep(max(0.0, seconds))
        real(seconds)

    time.sleep = sleep
    return Counted()


def _spender(left: float, what: str) -> Callable[[float], bool]:
    def spend(amount: float) -> bool:
        nonlocal left
        left -= amount
        if left < 0:
            os.write(2, f"the cells' Python {what}\n".encode())
            os._exit(EXIT_CODE)  # an exception could be caught
        return True

    return spend


class Counted(ast.NodeTransformer):
    """Makes a tree count its steps; for IPython's `ast_transformers`."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        inner = _size(node)
        super().generic_visit(node)
        match node:
            case ast.For() | ast.AsyncFor() | ast.While():
                node.body.insert(0, ast.copy_location(ast.Expr(_tick(node, inner)), node))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                has_text = ast.get_docstring(node, clean=False) is not None
                node.body.insert(int(has_text), ast.copy_location(ast.Expr(_tick(node, inner)), node))
            case ast.Lambda():
                node.body = ast.copy_location(ast.BoolOp(ast.And(), [_tick(node, inner), node.body]), node)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                for generator in node.generators:
                    generator.ifs.insert(0, _tick(node, inner))
        return node


def _tick(node: ast.AST, amount: int) -> ast.Call:
    """A call that takes from the budget, and is true."""
    call = ast.copy_location(ast.Call(ast.Name(_TICK, ast.Load()), [ast.Constant(amount)], []), node)
    return ast.fix_missing_locations(call)


_REPEATED: tuple[type[Any], ...] = (
    ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ListComp, ast.SetComp,
    ast.DictComp, ast.GeneratorExp,
)  # fmt: skip


def _size(node: ast.AST) -> int:
    """Nodes that one round of a loop, or one call, can run; what counts by itself stands for one."""
    if not isinstance(node, _REPEATED):
        return 0
    count, left = 1, list(ast.iter_child_nodes(node))
    while left:
        found = left.pop()
        count += isinstance(found, ast.expr | ast.stmt)
        if not isinstance(found, _REPEATED):
            left.extend(ast.iter_child_nodes(found))
    return count
