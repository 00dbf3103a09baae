"""What ended a launch early, as an error that names the block, the line and what to do next."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from ptxsim.codegen import layout as L
from ptxsim.codegen.layout import COUNT_BITS, COUNT_MASK
from ptxsim.errors import KernelDeadlock, KernelTrap, PrintLimitExceeded, StepLimitExceeded
from ptxsim.kernel.calls import STACK_BYTES
from ptxsim.limits import WARP
from ptxsim.run.hazards import Reporter

if TYPE_CHECKING:
    from ptxsim.run.launching import Launching
    from ptxsim.run.worker import Worker


_ENDLESS = "Check the loop's condition, and that every thread changes the variable it tests."
_WAITING = (
    "Check the loop's condition. If it waits for another block: on the simulator blocks run one after another to their "
    "end, so only an earlier block can have set what this one waits for; on a GPU that is the only safe order, too."
)
_TRAPS = {
    L.FAULT_ASSERT: "an assertion failed",
    L.FAULT_TRAP: "the kernel executed trap",
    L.FAULT_STACK: f"a thread's calls need more than their stack of {STACK_BYTES >> 10} KB: the recursion is too deep",
    L.FAULT_POINTER: "a call through a pointer that is no function of this signature",
}


def raise_fault(launch: Launching, workers: list[Worker]) -> None:
    """Raises the error of the first worker that met a fault, if one did."""
    for w in workers:
        if w.error is not None:
            raise w.error
    fault = next((w.struct for w in workers if w.struct.fault), None)
    if fault is None:
        return
    where: dict[str, Any] = {"file": launch.kernel.file, "line": int(fault.fault_site)}
    block = f"block {tuple(fault.ctaid)}"
    if fault.fault == L.FAULT_BUDGET:
        if fault.started < launch.block_budget:
            raise StepLimitExceeded(
                f"the launch has used up its budget of {launch.launch_budget:,} loop iterations in {block}",
                next_step="Use fewer blocks or a smaller problem, or give the launch a larger step_limit.",
                **where,
            )
        raise StepLimitExceeded(
            f"{block} ran this loop until its budget of {launch.block_budget:,} iterations was used up: "
            "most likely it never ends",
            next_step=_WAITING if launch.unit.spin_heads else _ENDLESS,
            **where,
        )
    if fault.fault == L.FAULT_PRINT:
        raise PrintLimitExceeded(f"{block} printed more than the limit of {launch.print_limit:,} bytes", **where)
    if fault.fault == L.FAULT_DEADLOCK:
        raise _deadlock(launch, fault, block, where)
    raise KernelTrap(f"{_TRAPS[fault.fault]} in {block}", **where)


def _deadlock(launch: Launching, fault: L.Worker, block: str, where: dict[str, Any]) -> KernelDeadlock:
    reporter = Reporter(launch.unit, launch.kernel.memory, launch.grid, launch.kernel.file)
    offset = int(fault.waiting_at)
    state = ctypes.c_uint64.from_address(fault.shared + offset).value
    expected, missing = state & COUNT_MASK, state >> COUNT_BITS & COUNT_MASK
    thread = reporter.thread(fault.waiting_thread >> L.WARP_SHIFT, fault.waiting_thread & (WARP - 1))
    return KernelDeadlock(
        f"thread {thread} of {block} waits at the barrier object in {reporter.shared_array(offset)} for ever: "
        f"{expected - missing:,} of {expected:,} arrivals have come and nobody else is about to arrive",
        next_step="Compare the count that the object was set up with to the threads that arrive in every phase.",
        **where,
    )
