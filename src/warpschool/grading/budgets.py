"""Counts that several grader files hold against a budget. Each takes the fixture `kernel`, a run of it, or both."""

from __future__ import annotations

from ptxsim.limits import WARP
from warpschool.counters import ratio
from warpschool.grading.submission import Submission
from warpschool.harness.launcher import RunResult

FULL_REQUEST_BYTES = WARP * 16
"""What a warp moves with one instruction if every lane moves the 16 bytes that an instruction can."""
REGISTERS_PER_SM = 65_536
_WHAT = {
    "global_load": "bytes that a warp loads from global memory by one instruction",
    "global_store": "bytes that a warp stores to global memory by one instruction",
    "shared_load": "bytes that a warp loads from shared memory by one instruction",
}


def shared_bytes_of_blocks(kernel: Submission, run: RunResult) -> int:
    """Shared memory, static and dynamic, of all blocks of all launches together."""
    static = {name: used.shared_bytes for name, used in kernel.resources().items()}
    return sum(launch.blocks * (static[launch.kernel] + launch.shared_mem) for launch in run.launches)


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
    """Barriers that a block passes, on average over all blocks of all launches; each warp counts once."""
    warps = sum(launch.blocks * -(-launch.threads_per_block // WARP) for launch in run.launches)
    return ratio(run.counters.barriers, warps)


def require_registers(kernel: Submission, run: RunResult, *, arch: str = "sm_80") -> None:
    """Raise Judgement (PERF) if a block's threads want more registers than there are, or if registers are spilled."""
    used = kernel.resources(arch=arch)
    for launch in run.launches:
        mine = used[launch.kernel]
        spilled = mine.spill_load_bytes + mine.spill_store_bytes
        kernel.within(spilled, 0, f"registers that {launch.kernel} spills to local memory", unit="bytes")
        kernel.within(
            mine.registers * launch.threads_per_block, REGISTERS_PER_SM, f"registers of a block of {launch.kernel}"
        )
