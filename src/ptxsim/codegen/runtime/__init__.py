"""The helpers that translated kernels call off the fast path, written once in LLVM IR.

All take a warp's lanes at once: addresses as a vector, active lanes as a 32-bit mask. They check bounds, count sectors
and bank conflicts, keep the race shadow, gather and scatter. A kernel's own code handles the common shapes inline and
calls these for the rest, so they favour exactness over speed.
"""

from __future__ import annotations

from functools import cache

from ptxsim.codegen import floating
from ptxsim.codegen.emit import module_text
from ptxsim.codegen.functions import Helper
from ptxsim.codegen.runtime import barriers, copies, memory, races


def _group(functions: dict[str, str]) -> tuple[str, tuple[str, ...]]:
    return module_text(functions.values(), Helper.declarations, functions), tuple(functions)


@cache
def rare_modules() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Helpers that few kernels call, compiled when one does: group -> IR text and the functions' names."""
    return {
        "rounding": _group({f"ws_directed_{op}": floating.directed(op) for op in floating.DIRECTED_OPERANDS}),
        "named": _group({"ws_bar_arrive": barriers.bar_arrive(), "ws_named_release": barriers.named_release()}),
        "copies": _group({
            "ws_async_issue": copies.async_issue(),
            "ws_async_commit": copies.async_commit(),
            "ws_async_wait": copies.async_wait(),
            "ws_count_copies": memory.count_copies(),
            "ws_async_under_way": copies.async_under_way(),
            "ws_async_track": copies.async_track(),
            "ws_async_settle": copies.async_settle(),
            "ws_mbarrier_arrive": copies.mbarrier_arrive(),
            "ws_mbarrier_waited": copies.mbarrier_waited(),
            **{f"ws_flight_{g}": races.flight(g) for g in (0, 1, 2)},
        }),
        "exact": _group(races.exact_functions()),
    }  # fmt: skip


@cache
def runtime_module() -> tuple[str, tuple[str, ...]]:
    """IR text of the helpers that most kernels call, and their names."""
    functions = {
        "ws_hazard": memory.hazard(),
        "ws_find": memory.find(),
        "ws_check_global": memory.check_global(),
        "ws_check_shared": memory.check_shared(),
        "ws_count_global": memory.count_global(),
        "ws_count_shared": memory.count_shared(),
        "ws_count_constant": memory.count_constant(),
        "ws_permute": memory.permute(),
        "ws_match_any": memory.match_any(),
        "ws_check_local": memory.check_local(),
        "ws_warp_sync": barriers.warp_sync(),
        "ws_idle": barriers.idle(),
        "ws_block_barrier": barriers.block_barrier(),
        **{f"ws_race_shared_{g}": races.race_shared(g) for g in (0, 1, 2)},
        **{f"ws_race_global_{g}": races.race_global(g) for g in (0, 1, 2)},
        **{f"ws_access_global_{g}": races.access_global(g) for g in (0, 1, 2)},
        **{f"ws_access_shared_{g}": races.access_shared(g) for g in (0, 1, 2)},
        **{f"ws_gather_{t}": memory.gather(t) for t in memory.INTEGERS},
        **{f"ws_scatter_{t}": memory.scatter(t) for t in memory.INTEGERS},
        **{f"ws_load_global_{t}_{g}": races.load_global(t, g) for t in memory.INTEGERS for g in (0, 1, 2)},
        **{f"ws_store_global_{t}_{g}": races.store_global(t, g) for t in memory.INTEGERS for g in (0, 1, 2)},
    }
    return module_text(functions.values(), Helper.declarations, functions), tuple(functions)
