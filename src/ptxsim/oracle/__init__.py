"""A plain NumPy interpreter of PTX: slow, small and obvious.

It is the reference that the translated code is tested against. Every thread is a lane of NumPy arrays of shape
(warps, 32); every instruction has one small handler (`integer`, `bits`, `floating`, `convert`, `memory`, `async_copy`,
`mbarriers`, `warp`, `control`); `machine` moves the lanes through the basic blocks in min-PC order. Nothing is cached,
nothing is skipped: counters come from every lane's address, and rounding is exact where NumPy lacks a mode.
"""

from ptxsim.oracle import async_copy, bits, control, convert, floating, integer, mbarriers, memory, tensor_memory, warp
from ptxsim.oracle.machine import OracleResult, run
from ptxsim.oracle.table import HANDLERS

__all__ = [
    "HANDLERS",
    "OracleResult",
    "async_copy",
    "bits",
    "control",
    "convert",
    "floating",
    "integer",
    "mbarriers",
    "memory",
    "run",
    "tensor_memory",
    "warp",
]
