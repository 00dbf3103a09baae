"""Counts that several grader files hold against a budget. Each takes the fixture `kernel` and a run of it."""

from __future__ import annotations

from warpschool.grading.submission import Submission
from warpschool.launcher import RunResult


def shared_bytes_of_blocks(kernel: Submission, run: RunResult) -> int:
    """Shared memory, static and dynamic, of all blocks of all launches together."""
    static = {name: used.shared_bytes for name, used in kernel.resources().items()}
    return sum(launch.blocks * (static[launch.kernel] + launch.shared_mem) for launch in run.launches)
