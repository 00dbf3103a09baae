"""What CUDA allows: of a launch anywhere, and of a multiprocessor (SM) of each compute capability.

Sources: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability", and the
arithmetic-throughput table beside it (lanes); allocation granularities as in NVIDIA's occupancy calculator.
"""

from __future__ import annotations

from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20
WARP = 32
"""Threads of a warp."""
SECTOR_BYTES, BANKS, WORD_BYTES = 32, 32, 4
"""What global memory is read and written in; banks of shared memory, and the word that each serves in a pass."""
MAX_THREADS, MAX_BLOCK, MAX_GRID = 1024, (1024, 1024, 64), ((1 << 31) - 1, 65535, 65535)
"""Threads of a block, its sides, and those of a grid."""
MAX_LOCAL_BYTES, MAX_PARAMETER_BYTES = 512 * KIB, 32_764
"""Local memory of a thread; parameters of a kernel."""
MOST_BARRIERS = 16
"""Barriers of a block that `bar.sync` names by number."""
MAX_CLUSTER, MAX_LARGE_CLUSTER = 8, 16
"""Blocks of a cluster; and of one whose kernel may have a size that not every GPU with clusters takes."""
STATIC_SHARED_LIMIT = 48 * KIB
"""Bytes of shared memory that a kernel may declare; more is dynamic, and asked for at the launch."""
CONSTANT_LIMIT = 64 * KIB
"""Bytes of constant memory that the variables of a file may take."""
HEAP_BYTES = 8 * MIB
"""What a kernel's `malloc` and `new` may have at a time: cudaLimitMallocHeapSize where nobody sets it."""


@dataclass(frozen=True)
class SmLimits:
    """What one multiprocessor of a compute capability holds and hands out."""

    capability: tuple[int, int]
    warps: int
    """resident warps"""
    blocks: int
    """resident blocks"""
    shared_bytes: int
    """shared memory for all resident blocks"""
    shared_bytes_per_block: int
    """most that one block may have (above 48 KiB only if the kernel opts in)"""
    fp32_lanes: int
    """single-precision multiply-adds per clock"""
    shared_granularity: int
    reserved_shared_bytes: int = 0
    """shared memory per block that the system keeps for itself"""
    registers: int = 65_536
    registers_per_thread: int = 255
    register_granularity: int = 256
    """registers are handed out per warp in multiples of this"""
    partitions: int = 4
    """a warp's registers come from one of this many equal parts of the register file"""
    threads_per_block: int = MAX_THREADS


def _limits(*rows: SmLimits) -> dict[tuple[int, int], SmLimits]:
    return {row.capability: row for row in rows}


LIMITS: dict[tuple[int, int], SmLimits] = _limits(
    #         capability warps blocks   shared  per block  lanes granularity reserved
    SmLimits((3, 5), 64, 16, 48 * KIB, 48 * KIB, 192, 256),
    SmLimits((5, 2), 64, 32, 96 * KIB, 48 * KIB, 128, 256),
    SmLimits((6, 0), 64, 32, 64 * KIB, 48 * KIB, 64, 256, partitions=2),
    SmLimits((6, 1), 64, 32, 96 * KIB, 48 * KIB, 128, 256),
    SmLimits((7, 0), 64, 32, 96 * KIB, 96 * KIB, 64, 256),
    SmLimits((7, 5), 32, 16, 64 * KIB, 64 * KIB, 64, 256),
    SmLimits((8, 0), 64, 32, 164 * KIB, 163 * KIB, 64, 128, 1 * KIB),
    SmLimits((8, 6), 48, 16, 100 * KIB, 99 * KIB, 128, 128, 1 * KIB),
    SmLimits((8, 9), 48, 24, 100 * KIB, 99 * KIB, 128, 128, 1 * KIB),
    SmLimits((9, 0), 64, 32, 228 * KIB, 227 * KIB, 128, 128, 1 * KIB),
    SmLimits((10, 0), 64, 32, 228 * KIB, 227 * KIB, 128, 128, 1 * KIB),
    SmLimits((12, 0), 48, 24, 100 * KIB, 99 * KIB, 128, 128, 1 * KIB),
)
