"""The helpers that translated kernels call off the fast path, written once in LLVM IR.

All take a warp's lanes at once: addresses as a vector, active lanes as a 32-bit mask. They check bounds, count sectors
and bank conflicts, keep the race shadow, gather and scatter. A kernel's own code handles the common shapes inline and
calls these for the rest, so they favour exactness over speed.
"""

from __future__ import annotations

from functools import cache

from ptxsim.codegen.emit import module_text
from ptxsim.codegen.runtime import (
    async_copy,
    barriers,
    bounds,
    counting,
    exact,
    mbarriers,
    movement,
    named,
    races,
    rounding,
)
from ptxsim.codegen.runtime.helper import Helper


def _group(functions: dict[str, str]) -> tuple[str, tuple[str, ...]]:
    return module_text(functions.values(), Helper.declarations, functions), tuple(functions)


@cache
def rare_modules() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Helpers that few kernels call, compiled when one does: group -> IR text and the functions' names."""
    return {
        "rounding": _group({f"ws_directed_{op}": rounding.directed(op) for op in rounding.OPERANDS}),
        "named": _group({"ws_bar_arrive": named.arrive(), "ws_named_release": named.release()}),
        "copies": _group({
            "ws_async_issue": async_copy.async_issue(),
            "ws_async_commit": async_copy.async_commit(),
            "ws_async_wait": async_copy.async_wait(),
            "ws_count_copies": counting.count_copies(),
            "ws_async_under_way": async_copy.async_under_way(),
            "ws_async_track": async_copy.async_track(),
            "ws_async_settle": async_copy.async_settle(),
            "ws_mbarrier_arrive": mbarriers.arrive(),
            "ws_mbarrier_waited": mbarriers.waited(),
            **{f"ws_flight_{g}": races.flight(g) for g in (0, 1, 2)},
        }),
        "exact": _group(exact.functions()),
    }  # fmt: skip


@cache
def runtime_module() -> tuple[str, tuple[str, ...]]:
    """IR text of the helpers that most kernels call, and their names."""
    functions = {
        "ws_hazard": bounds.hazard(),
        "ws_find": bounds.find(),
        "ws_check_global": bounds.check_global(),
        "ws_check_shared": bounds.check_shared(),
        "ws_count_global": counting.count_global(),
        "ws_count_shared": counting.count_shared(),
        "ws_count_constant": counting.count_constant(),
        "ws_permute": movement.permute(),
        "ws_match_any": movement.match_any(),
        "ws_check_local": bounds.check_local(),
        "ws_warp_sync": barriers.warp_sync(),
        "ws_idle": barriers.idle(),
        "ws_block_barrier": barriers.block_barrier(),
        **{f"ws_race_shared_{g}": races.race_shared(g) for g in (0, 1, 2)},
        **{f"ws_race_global_{g}": races.race_global(g) for g in (0, 1, 2)},
        **{f"ws_access_global_{g}": races.access_global(g) for g in (0, 1, 2)},
        **{f"ws_access_shared_{g}": races.access_shared(g) for g in (0, 1, 2)},
        **{f"ws_gather_{t}": movement.gather(t) for t in movement.INTEGERS},
        **{f"ws_scatter_{t}": movement.scatter(t) for t in movement.INTEGERS},
        **{f"ws_load_global_{t}_{g}": races.load_global(t, g) for t in movement.INTEGERS for g in (0, 1, 2)},
        **{f"ws_store_global_{t}_{g}": races.store_global(t, g) for t in movement.INTEGERS for g in (0, 1, 2)},
    }
    return module_text(functions.values(), Helper.declarations, functions), tuple(functions)
