"""What the child process of a check may use, and what a student's Python may do.

The latter is counted in Python's own steps, the same on every machine, however busy it is: a cell's syntax tree gets a
call in front of every loop's body, function's body and element of a comprehension, which takes from a budget as many
steps as there are nodes to run. What runs inside NumPy or another library is not counted: there the limit of processor
time stands behind.
"""

from __future__ import annotations

import ast
import builtins
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from time import sleep  # this one: students' Python gets another
from typing import Any

from ptxsim import system
from warpschool.compile import CompileLimits, limit_compilations

_WATCH_S = 0.02
CPU_S, WALL_S = 900, 14400.0
"""Time stands behind what is counted (`submission.WORK_LIMIT`, `MOST_STEPS`) and decides nothing where that does.

docs/reference/verdicts.md has the margins: the slowest right check takes 35 s of processor time, and what counts allow
ends within a tenth of the limit. Elapsed time, which other programs stretch, is for a child that hangs: its end
is the grader's fault, never a student's.
"""
COMPILER_BYTES = 704 << 20
"""Address space of the compiler in a class's checks: with its check it stays below 800 MB of memory.

The most that a right source is known to take, cooperative groups and `cuda::barrier` in one, are 624 MB.
"""
FAULT = 70
"""How a check's process ends that has a result, but one in which the grader failed as nobody foresaw."""


@dataclass(frozen=True)
class Limits:
    """`wall_s` is kept by the parent; the others by the kernel. `memory_bytes` is address space, simulator only.

    `threads` of the simulator, 0 for as many as there are cores; `resident_bytes` is the most memory in use at any
    moment, 0 for no limit; `compiler_bytes` is the compiler's address space; without `may_cache` what was compiled is
    not kept for another check of the same source.
    """

    wall_s: float = WALL_S
    cpu_s: int = CPU_S
    memory_bytes: int = 12 << 30
    file_bytes: int = 64 << 20
    threads: int = 0
    resident_bytes: int = 0
    compiler_bytes: int = CompileLimits.memory_bytes
    may_cache: bool = True

    def apply(self, *, on_gpu: bool) -> None:
        """Set the limits of this process and of all that it starts."""
        system.limit(cpu_s=round(self.cpu_s * system.slowness()), cpu_grace_s=5, file_bytes=self.file_bytes)
        limit_compilations(CompileLimits(memory_bytes=self.compiler_bytes))
        if self.resident_bytes:
            log = os.dup(2)  # pytest puts a file of its own in the place of stderr while tests run
            threading.Thread(target=self._watch_memory, args=(log,), daemon=True).start()
        if not on_gpu:  # a CUDA context maps far more address space than it uses
            system.limit(memory_bytes=self.memory_bytes)

    def require_memory(self, log: int = 2) -> None:
        """End this process, and say why, if it ever used more memory than it may.

        Address space, which the kernel limits, says little of use. Whoever answers asks once more before: looks in
        between only end sooner what has to end, and when they happen changes nothing.
        """
        if self.resident_bytes and system.peak_bytes() > self.resident_bytes:
            os.write(log, f"MemoryError: more than {self.resident_bytes >> 20} MB in use\n".encode())
            os._exit(1)

    def _watch_memory(self, log: int) -> None:
        while True:
            self.require_memory(log)
            sleep(_WATCH_S)


# ---------------------------------------------------------------- steps of a student's Python


MOST_STEPS = 1 << 28
"""Nodes of its syntax tree that a student's Python may run: a quarter of a minute of it at most."""
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
