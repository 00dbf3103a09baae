"""A GPU simulator: PTX in; results, counters and hazards out.

    module = ptxsim.parse(text)                                 # -> Module; raises PtxSyntaxError
    memory = ptxsim.Memory()                                    # device memory: allocate, view, free
    kernel = module.kernel("scale")                             # -> SimKernel; raises UnsupportedInstruction
    record = kernel.launch(grid, block, params, memory)         # -> LaunchRecord(counters, lines, hazards, printed)
    result = ptxsim.oracle.run(kernel, grid, block, params, memory)         # the same by a plain interpreter, slowly
    result = ptxsim.trace(kernel, grid, block, params, memory, watcher)     # one block of it, with somebody watching

Public modules: `errors` (everything that is raised on purpose), `counters` (the table of what is counted), `limits`
(what CUDA and each GPU allow), `oracle`, `isa` (the table of instructions), `fragments` (which lane holds which element
of a matrix), `cache` (files of compiled code). Everything else is internal. README.md beside this file has an example.

Nothing heavy is imported here: each name is loaded when it is first used, and llvmlite with the first launch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_PUBLIC = {
    "Allocation": "memory", "Hazard": "record", "LaunchRecord": "record", "Memory": "memory", "MemoryRequest": "oracle",
    "Module": "module", "SimKernel": "module", "Watcher": "oracle", "available_threads": "run.worker",
    "parse": "module", "simd": "codegen.host", "source_name": "syntax.program", "trace": "oracle",
}  # fmt: skip
"""public name -> the module that defines it"""
_MODULES = frozenset({"cache", "counters", "errors", "fragments", "isa", "limits", "oracle"})

__all__ = [
    "Allocation", "Hazard", "LaunchRecord", "Memory", "MemoryRequest", "Module", "SimKernel", "Watcher",
    "available_threads", "parse", "simd", "source_name", "trace",
]  # fmt: skip

if TYPE_CHECKING:
    from ptxsim.codegen.host import simd
    from ptxsim.memory import Allocation, Memory
    from ptxsim.module import Module, SimKernel, parse
    from ptxsim.oracle import MemoryRequest, Watcher, trace
    from ptxsim.record import Hazard, LaunchRecord
    from ptxsim.run.worker import available_threads
    from ptxsim.syntax.program import source_name


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name in _MODULES:
        return importlib.import_module(f"ptxsim.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"ptxsim.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value
