"""A plain NumPy interpreter of PTX: slow, small and obvious.

It is the reference that the translated code is tested against. Every thread is a lane of NumPy arrays of shape
(warps, 32); every instruction has one small handler (`integer`, `floating`, `convert`, `memory`, `tensor`, `textures`,
`video`, `warp`, `warpgroup`, `clusters`, `control`); `machine` moves the lanes through the basic blocks in min-PC
order. Nothing is cached, nothing is skipped: counters come from every lane's address, and rounding is exact where NumPy
lacks a mode. Of the translator it knows nothing, so that it judges independently.
"""

from ptxsim.oracle import (  # noqa: F401  (they register handlers)
    clusters,
    control,
    convert,
    floating,
    integer,
    memory,
    tensor,
    textures,
    video,
    warp,
    warpgroup,
)
from ptxsim.oracle.counters import in_pairs
from ptxsim.oracle.lanes import HANDLERS, shared_offset
from ptxsim.oracle.machine import (
    BlockState,
    MemoryRequest,
    OracleResult,
    Watcher,
    depends_on_order,
    run,
    trace,
)

__all__ = [
    "HANDLERS", "BlockState", "MemoryRequest", "OracleResult", "Watcher", "depends_on_order", "in_pairs", "run",
    "shared_offset", "trace",
]  # fmt: skip
