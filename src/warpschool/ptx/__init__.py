"""The simulator: PTX in, results, counters and hazards out.

text -> parse -> Module -> cfg -> Kernel -> lanes, translate -> LLVM IR -> jit -> machine code -> engine -> LaunchRecord
"""

from __future__ import annotations

from .engine import SimKernel, bind, load_module
from .memory import Allocation, Memory
from .record import Hazard, LaunchRecord
from .worker import available_threads

__all__ = ["Allocation", "Hazard", "LaunchRecord", "Memory", "SimKernel", "available_threads", "bind", "load_module"]
