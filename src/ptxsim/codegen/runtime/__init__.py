"""The helpers that translated kernels call off the fast path, written once in LLVM IR.

All take a warp's lanes at once: addresses as a vector, active lanes as a 32-bit mask. They check bounds, count sectors
and bank conflicts, keep the race shadow, gather and scatter. A kernel's own code handles the common shapes inline and
calls these for the rest, so they favour exactness over speed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from ptxsim.codegen import floating
from ptxsim.codegen.emit import Helper, RuntimeFunction, module_text
from ptxsim.codegen.runtime import asynchronous, barriers, control, copies, heap, memory, races, textures, untouched

_CALLED = re.compile(r"@([\w.]+)\(")


def _module(functions: Iterable[RuntimeFunction]) -> tuple[str, tuple[str, ...]]:
    """IR text and names of functions that are compiled together: the same text whatever was written before it."""
    texts = {name: text for function in functions for name, text in function.texts().items()}
    called = {name for text in texts.values() for name in _CALLED.findall(text)}
    declared = {name: text for name, text in Helper.declarations.items() if name in called}
    return module_text(texts.values(), declared, texts), tuple(texts)


@cache
def rare_modules() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Helpers that few kernels call, compiled when one does: group -> IR text and the functions' names."""
    groups: dict[str, tuple[RuntimeFunction, ...]] = {
        "rounding": floating.DIRECTED,
        "named": (barriers.bar_arrive, barriers.named_release),
        "cluster": (barriers.cluster_arrive, barriers.cluster_leave, memory.check_cluster),
        "copies": (
            copies.async_issue, copies.async_commit, copies.async_wait, memory.count_copies, copies.async_under_way,
            copies.async_track, copies.async_settle, copies.mbarrier_arrive, copies.mbarrier_waited, races.flight,
        ),
        "textures": (
            textures.texture_problem, textures.texture_object, textures.texel, textures.texture_axis,
            textures.texture_sum, textures.texture, textures.texture_linear, textures.texture_query, textures.surface,
        ),
        "exact": (
            races.known, races.race_found, races.exact_step, races.landed, races.exact_shared, races.exact_global,
            races.exact_flight, races.exact_access, heap.exact_freed,
        ),
        "heap": (heap.freed,),
        "padding": (untouched.padding,),
        "ended": (untouched.ended,),
        "begun": (untouched.begun,),
    }  # fmt: skip
    return {group: _module(functions) for group, functions in groups.items()}


@cache
def usual_modules() -> dict[str, tuple[str, tuple[str, ...]]]:
    """The same for the helpers that most kernels call: in groups that take about as long to compile."""
    groups: dict[str, tuple[RuntimeFunction, ...]] = {
        "memory": (
            memory.hazard, memory.find, memory.check_global, memory.check_shared, memory.count_global,
            memory.count_shared, memory.count_constant, memory.permute, memory.match_any, memory.check_local,
            memory.gather, memory.gather_quads, memory.scatter, memory.scatter_quads,
        ),
        "order": (
            barriers.warp_sync, barriers.idle, barriers.block_barrier, control.run, control.enter, control.go_on,
            control.branch, races.look_shared, races.together_shared, races.together_global, races.race_shared,
            races.race_global, races.access_global, races.access_shared, races.load_global, races.store_global,
            asynchronous.async_tell,
        ),
    }  # fmt: skip
    return {group: _module(functions) for group, functions in groups.items()}
