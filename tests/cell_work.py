"""What the cells of a notebook make the simulator do, counted in the notebook's own process: for a first cell.

    from tests.cell_work import record
    record("cells.jsonl")          # from here on a line for each cell: its first line, lines of LLVM text, steps

Steps are what the engine counts: about one for each basic block of a warp. Both are the same on every machine.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ptxsim.codegen import jit
from ptxsim.run import engine


class Simulated:
    """Lines of LLVM text that were compiled, and steps that were taken, since `count` was asked."""

    def __init__(self) -> None:
        self.lines = self.steps = 0


def count(replace: Any = setattr) -> Simulated:
    """Count from now on; `replace(object, name, value)` is told what to put in the engine's place."""
    found, compiled, account = Simulated(), jit._compiled, engine.Launching._account

    def compile_counted(ir, *arguments, **options):
        found.lines += ir.count("\n")
        return compiled(ir, *arguments, **options)

    def account_counted(self, workers, *arguments):
        found.steps += self.terms.blocks * self.terms.warps + sum(worker.steps for worker in workers)
        return account(self, workers, *arguments)

    replace(jit, "_compiled", compile_counted)
    replace(engine.Launching, "_account", account_counted)
    return found


def record(path: str) -> None:
    """Write a line for each cell that this notebook runs from now on."""
    from IPython import get_ipython

    counted, log = count(), Path(path)

    def after(result: Any) -> None:
        cell = result.info.raw_cell.strip().splitlines()
        row = {"cell": cell[0] if cell else "", "lines": counted.lines, "steps": counted.steps}
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        counted.lines = counted.steps = 0

    get_ipython().events.register("post_run_cell", after)
