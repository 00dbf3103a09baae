"""Counts that several grader files hold against a budget. Each takes the fixture `kernel`, a run of it, or both."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
import numpy.typing as npt

from ptxsim.limits import WARP
from warpschool.counters import ratio
from warpschool.grading.submission import Submission
from warpschool.harness.launcher import RunResult

FULL_REQUEST_BYTES = WARP * 16
"""What a warp moves with one instruction if every lane moves the 16 bytes that an instruction can."""
_LOADS = ("load", "copy")
"""Kinds of requests that read an array: plain ones, and those of cp.async."""
REGISTERS_PER_SM = 65_536
_COPIED = 0.9
MOST_SPILLED = 64
"""Bytes that may be spilled, loads and stores together: so much hangs on the order in which a compiler adds."""
_WHAT = {
    "global_load": "bytes that a warp loads from global memory by one instruction",
    "global_store": "bytes that a warp stores to global memory by one instruction",
    "shared_load": "bytes that a warp loads from shared memory by one instruction",
}


def shared_bytes_of_blocks(run: RunResult) -> int:
    """Shared memory, static and dynamic, of all blocks of all launches together."""
    return sum(
        launch.blocks * (launch.call.kernel.attributes["shared_size_bytes"] + launch.shared_mem)
        for launch in run.launches
    )


def require_wide(kernel: Submission, run: RunResult, *kinds: str, fraction: float = 0.75) -> None:
    """Raise Judgement (PERF) if a source line's accesses of one of the kinds are narrower than 16 bytes a lane.

    Kinds are "global_load" (cp.async included), "global_store" and "shared_load". Bytes are requested bytes, on average
    over the line's requests; less than all of the 512 are accepted, since lanes at the end of a tile may rest.
    """
    for kind in kinds:
        for line, counters in run.lines.items():
            requests = counters[f"{kind}_requests"]
            if requests:
                nbytes = counters[f"{kind}_bytes"] / requests
                kernel.at_least(nbytes, fraction * FULL_REQUEST_BYTES, f"{_WHAT[kind]}, in line {line}", line=line)


def barriers_per_block(run: RunResult) -> float:
    """Barriers that a block passes, on average over the blocks of the launch that has most of them.

    Each warp counts once; an arrival at a barrier object is one too. Launches without work thin nothing out, and
    threads beyond one for each element of all arrays do not count.
    """
    elements = sum(prod(array.shape) for array in run.plan.arrays.values() if array.shape is not None)
    most = -(-elements // WARP)
    return max(
        ratio(launch.counters.block_barriers, min(most, launch.blocks * -(-launch.threads_per_block // WARP)))
        for launch in run.launches
    )


def require_barriers(kernel: Submission, run: RunResult, rounds: float, *, each: int = 2) -> None:
    """Raise Judgement (PERF) for more than `each` barriers a round, and two more, in any launch's blocks."""
    kernel.within(barriers_per_block(run), each * rounds + 2, "barriers for each block")


def require_lanes(kernel: Submission, run: RunResult, *, least: float = WARP / 2) -> None:
    """Raise Judgement (PERF) if of a warp's lanes fewer than `least` work, on average over a launch's instructions."""
    for launch in run.launches:
        lanes = ratio(launch.counters.thread_instructions, launch.counters.warp_instructions)
        kernel.at_least(lanes, least, f"lanes at work in each instruction of {launch.kernel}")


def require_read_once(
    kernel: Submission, sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike], *names: str, block: int
) -> None:
    """Raise Judgement (PERF) if a block loads a byte of one of these arrays more than once from global memory."""
    requests = kernel.requests(sizes, arrays, block=block)
    for name in names:
        loads = [one for one in requests if one.space == "global" and one.array == name and one.kind in _LOADS]
        touched = [one.offsets[one.lanes][:, None] + np.arange(one.nbytes) for one in loads]
        loaded = np.concatenate([part.ravel() for part in touched]) if touched else np.zeros(0, np.int64)
        kernel.within(len(loaded), len(np.unique(loaded)), f"bytes of {name} that a block loads", unit="bytes")


def require_products(kernel: Submission, run: RunResult, count: int, *, share: float = 0.9) -> None:
    """Raise Judgement (PERF) unless the outputs come from at least `count` products of single precision.

    A multiply-add is one, and so is a multiplication whose sum is added by itself. `share`: see `comes_from`.
    """
    kernel.at_least(run.counters.products, count, "products of single precision")
    kernel.comes_from(run, "products", share=share)


def require_tensor_products(
    kernel: Submission, run: RunResult, count: int, *, exactly: bool = False, share: float = 0.9
) -> None:
    """Raise Judgement (PERF) unless the outputs come from at least (or exactly) `count` operations of tensor cores."""
    kernel.at_least(run.counters.tensor_operations, count, "operations of tensor cores")
    if exactly:
        kernel.within(run.counters.tensor_operations, count, "operations of tensor cores")
    kernel.comes_from(run, "tensor products", share=share)


def require_copies(kernel: Submission, run: RunResult, least: float) -> None:
    """Raise Judgement (PERF) unless inputs come by cp.async, while at least a share `least` of products is under way.

    Nine tenths of what is loaded must come so, and zeros in its place must show in every output.
    """
    counters = run.counters
    share = ratio(counters.tensor_instructions_copying, counters.tensor_instructions)
    kernel.at_least(share, least, "share of matrix products with a copy under way")
    copied = ratio(counters.async_copy_bytes, counters.global_load_bytes)
    kernel.at_least(copied, _COPIED, "bytes that are copied asynchronously, of all that are loaded")
    kernel.comes_from(run, "copies")


def require_registers(
    kernel: Submission, run: RunResult, *, arch: str = "sm_80", where_known: bool = False
) -> None:
    """Raise Judgement (PERF) if a block's threads want more registers than there are, or spill more than a few.

    Clang knows neither: then the criterion is judged with NVRTC only (SKIP), or, `where_known`, by what else it asks.
    """
    if where_known and kernel.compiler_is("clang"):
        kernel.measured.append("registers and spills: judged with NVRTC only")
        return
    used = kernel.resources(arch=arch)
    for launch in run.launches:
        mine = used[launch.kernel]
        spilled = mine.spill_load_bytes + mine.spill_store_bytes
        kernel.within(spilled, MOST_SPILLED, f"registers that {launch.kernel} spills to local memory", unit="bytes")
        kernel.within(
            mine.registers * launch.threads_per_block, REGISTERS_PER_SM, f"registers of a block of {launch.kernel}"
        )
