"""The simulator: PTX in, results, counters and hazards out.

text -> parse -> Module -> cfg -> Kernel -> lanes, translate -> LLVM IR -> jit -> machine code -> engine -> LaunchRecord

Nothing heavy is imported here: each name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_PUBLIC = {
    "Allocation": "memory", "Hazard": "record", "LaunchRecord": "record", "Memory": "memory", "SimKernel": "run.engine",
    "available_threads": "run.worker", "bind": "run.engine", "load_module": "run.engine",
}  # fmt: skip
"""public name -> the module that defines it"""

__all__ = ["Allocation", "Hazard", "LaunchRecord", "Memory", "SimKernel", "available_threads", "bind", "load_module"]

if TYPE_CHECKING:
    from ptxsim.memory import Allocation, Memory
    from ptxsim.record import Hazard, LaunchRecord
    from ptxsim.run.engine import SimKernel, bind, load_module
    from ptxsim.run.worker import available_threads


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"ptxsim.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value
