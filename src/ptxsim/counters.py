"""The one table of everything that a launch counts: names, units and meanings.

Names with an Nsight Compute metric mean what Nsight Compute means by it; names without one are the simulator's own.
"""

from __future__ import annotations

from dataclasses import dataclass

VERSION = 4
"""Goes up when a counter of this table counts something else: a class is not graded with two versions."""


@dataclass(frozen=True)
class Counter:
    """One row of the table; `metric` is Nsight Compute's name, or None where it has none."""

    name: str
    metric: str | None
    unit: str
    meaning: str

    @property
    def key(self) -> str:
        """The name under which a mapping of counters lists it."""
        return self.metric or self.name


def _lsu(kind: str, space: str, operation: str) -> str:
    return f"l1tex__t_{kind}_pipe_lsu_mem_{space}_op_{operation}.sum"


_PTX = " (PTX level: the compiled code may differ)"
_CLASSES = {
    "fp32": "single-precision arithmetic",
    "fp64": "double-precision arithmetic",
    "fp16": "half-precision and bfloat16 arithmetic",
    "dot": "dot products of packed integers (dp4a, dp2a)",
    "integer": "integer and logic operations, address arithmetic included",
    "memory_global": "loads, stores and atomics to global memory",
    "memory_shared": "loads, stores and atomics to shared memory",
    "tensor": "matrix products on tensor cores",
    "control": "branches, barriers and predicates",
    "conversion": "conversions between types",
    "special": "special functions: square root, sine, exponential, reciprocal",
    "other": "everything else: moves, shuffles, votes, local and constant memory, textures and surfaces",
}
COUNTERS: tuple[Counter, ...] = (
    # global memory
    Counter(
        "global_load_requests", _lsu("requests", "global", "ld"), "requests",
        "Warp-wide loads from global memory, cp.async copies included as Nsight Compute includes them.",
    ),
    Counter(
        "global_load_sectors", _lsu("sectors", "global", "ld"), "sectors",
        "32-byte sectors that global loads and cp.async copies touch.",
    ),
    Counter(
        "global_load_sectors_ideal", None, "sectors",
        "Fewest sectors that could hold the distinct bytes of each global load request.",
    ),
    Counter("global_load_bytes", None, "bytes", "Bytes that active threads ask for in global loads and cp.async."),
    Counter(
        "global_store_requests", _lsu("requests", "global", "st"), "requests",
        "Warp-wide stores to global memory.",
    ),
    Counter(
        "global_store_sectors", _lsu("sectors", "global", "st"), "sectors",
        "32-byte sectors that global stores touch.",
    ),
    Counter(
        "global_store_sectors_ideal", None, "sectors",
        "Fewest sectors that could hold the distinct bytes of each global store request.",
    ),
    Counter("global_store_bytes", None, "bytes", "Bytes that active threads write in global stores."),
    Counter(
        "global_atomic_requests", _lsu("requests", "global", "atom"), "requests",
        "Warp-wide atomics that return a value.",
    ),
    Counter(
        "global_reduction_requests", _lsu("requests", "global", "red"), "requests",
        "Warp-wide atomics without a result.",
    ),
    Counter("global_atomic_lanes", None, "lanes", "Threads that execute atomics, with a result or without."),
    Counter(
        "async_copy_requests", None, "instructions",
        "Warp-wide cp.async copies from global to shared memory, those that only fill with zeros included.",
    ),
    Counter(
        "async_copy_sectors", None, "sectors", "32-byte sectors of global memory that each cp.async request reads."
    ),
    Counter(
        "async_copy_sectors_placed", None, "sectors",
        "The share of cp.async in global_load_sectors: past L1 (.cg) a sector counts once for each 32 bytes of shared "
        "memory that it goes to.",
    ),
    Counter(
        "async_copy_bytes", None, "bytes",
        "Bytes that active threads write to shared memory with cp.async, zeros included.",
    ),
    Counter(
        "bulk_copies", None, "copies",
        "Copies in bulk that threads ask for: boxes of tensors (TMA) and runs of bytes, in either direction.",
    ),
    # constant memory
    Counter("constant_load_requests", None, "requests", "Warp-wide loads from constant memory."),
    Counter(
        "constant_load_passes", None, "passes",
        "Passes of the constant cache: it serves one word at a time, to all lanes that want it.",
    ),
    # shared memory
    Counter("shared_atomic_requests", None, "instructions", "Warp-wide atomics on shared memory."),
    Counter("shared_atomic_lanes", None, "lanes", "Threads that execute atomics on shared memory."),
    Counter(
        "shared_load_requests", "smsp__inst_executed_op_shared_ld.sum", "instructions",
        "Warp-wide loads from shared memory; neighbours of a thread that ptxas loads together count as one.",
    ),
    Counter("shared_load_wavefronts", None, "wavefronts", "Passes that shared loads take, bank conflicts included."),
    Counter(
        "shared_load_bank_conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "wavefronts",
        "Extra passes of shared loads because several threads want different words of one bank.",
    ),
    Counter("shared_load_bytes", None, "bytes", "Bytes that active threads ask for in shared loads."),
    Counter(
        "shared_store_requests", "smsp__inst_executed_op_shared_st.sum", "instructions",
        "Warp-wide stores to shared memory.",
    ),
    Counter("shared_store_wavefronts", None, "wavefronts", "Passes that shared stores take, bank conflicts included."),
    Counter(
        "shared_store_bank_conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", "wavefronts",
        "Extra passes of shared stores because several threads want different words of one bank.",
    ),
    Counter("shared_store_bytes", None, "bytes", "Bytes that active threads write in shared stores."),
    # local memory
    Counter(
        "local_load_requests", _lsu("requests", "local", "ld"), "requests",
        "Warp-wide loads from local memory (spills, local arrays).",
    ),
    Counter(
        "local_store_requests", _lsu("requests", "local", "st"), "requests",
        "Warp-wide stores to local memory (spills, local arrays).",
    ),
    # textures and surfaces: what a GPU makes of one instruction may be several requests
    Counter(
        "texture_instructions", "smsp__inst_executed_op_texture.sum", "instructions",
        "Warp-wide texture fetches and gathers.",
    ),
    Counter(
        "surface_load_instructions", "smsp__inst_executed_op_surface_ld.sum", "instructions",
        "Warp-wide loads from surfaces.",
    ),
    Counter(
        "surface_store_instructions", "smsp__inst_executed_op_surface_st.sum", "instructions",
        "Warp-wide stores to surfaces.",
    ),
    # instructions
    Counter(
        "warp_instructions", "smsp__inst_executed.sum", "instructions",
        "Instructions, counted once per warp" + _PTX + ".",
    ),
    Counter(
        "thread_instructions", "smsp__thread_inst_executed.sum", "instructions",
        "Instructions, counted once per active thread" + _PTX + ".",
    ),
    Counter(
        "fma_instructions", "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", "instructions",
        "Single-precision multiply-adds, per thread.",
    ),
    Counter(
        "fadd_instructions", "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", "instructions",
        "Single-precision additions, per thread" + _PTX + ".",
    ),
    Counter(
        "fmul_instructions", "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", "instructions",
        "Single-precision multiplications, per thread" + _PTX + ".",
    ),
    Counter(
        "packed_fma_instructions", None, "instructions",
        "Multiply-adds on a pair of half or bfloat16 numbers at once, per thread" + _PTX + ".",
    ),
    Counter(
        "dot_instructions", None, "instructions",
        "Dot products of four 8-bit integers with four others (dp4a), per thread" + _PTX + ".",
    ),
    # tensor cores
    Counter("tensor_instructions", None, "instructions", "Matrix products on tensor cores, per warp" + _PTX + "."),
    Counter(
        "tensor_pipe_instructions", "sm__inst_executed_pipe_tensor.sum", "instructions",
        "Machine instructions of the tensor pipe that these products become on sm_90.",
    ),
    Counter("tensor_operations", None, "operations", "Multiplications and additions of matrix products."),
    Counter(
        "tensor_instructions_copying", None, "instructions",
        "Matrix products issued by a warp while a cp.async group of its threads is committed and not yet waited for.",
    ),
    Counter("barriers", None, "instructions", "Block-wide barriers, counted once per warp."),
    Counter(
        "mbarrier_arrivals", None, "instructions",
        "Arrivals of threads at barrier objects (mbarrier), counted once per warp" + _PTX + ".",
    ),
    Counter(
        "divergent_branches", None, "branches",
        "Branches at which the active threads of a warp parted ways" + _PTX + ".",
    ),
    Counter("blocks", "launch__grid_size", "blocks", "Thread blocks that ran."),
    *(
        Counter(f"instructions_{name}", None, "instructions", f"Instructions, once per warp: {what}" + _PTX + ".")
        for name, what in _CLASSES.items()
    ),
    *(
        Counter(
            f"thread_instructions_{name}", None, "instructions",
            f"Instructions, once per active thread: {what}" + _PTX + ".",
        )
        for name, what in _CLASSES.items()
    ),
)  # fmt: skip
BY_NAME: dict[str, Counter] = {c.name: c for c in COUNTERS} | {c.metric: c for c in COUNTERS if c.metric}
