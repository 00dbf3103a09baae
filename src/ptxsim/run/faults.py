"""How launches end that do not come to their end: the error for what a block's fault was, with its line and why."""

from __future__ import annotations

import ctypes
from collections import Counter
from typing import Any, Protocol

from ptxsim.codegen import layout as L
from ptxsim.codegen.unit import Unit
from ptxsim.errors import EndlessWait, KernelDeadlock, KernelTrap, PrintLimitExceeded, StepLimitExceeded
from ptxsim.finding import Finding
from ptxsim.limits import MAX_LOCAL_BYTES, WARP
from ptxsim.record import Terms
from ptxsim.run.hazards import Reporter, unravel
from ptxsim.run.loops import calls_at, endless_line, executions, loops_of, never_ends
from ptxsim.run.printing import string_at
from ptxsim.run.stalls import Look, Waiting
from ptxsim.run.textures import complaint
from ptxsim.run.worker import HostWorker, LaunchSetup

_ENDLESS = "Check the loop's condition, and that every thread changes the variable it tests."
_WAITING = (
    "Check the loop's condition. If it waits for another block: on the simulator blocks run one after another to their "
    "end, so only an earlier block can have set what this one waits for; on a GPU that is the only safe order, too."
)
_NOBODY = (
    "Who is to do it? Check that this thread does not itself wait, in a loop of its own or at a barrier, that locks "
    "are given back, and that the scope of the atomics reaches both (`_block` and thread_scope_block end with a block)."
)
_TRAPS = {
    L.FAULT_TRAP: "the kernel executed trap",
    L.FAULT_STACK: "a thread's calls need more than their stack of {stack:,} bytes: the recursion is too deep",
    L.FAULT_POINTER: "a call through a pointer that is no function of this signature",
    L.FAULT_NULL_POINTER: "a call through a null pointer to a function",
    L.FAULT_HOST_POINTER: "a call through a pointer to a function of the host",
}
_INSTEAD = {
    L.FAULT_STACK: "Does it end? If it does, the stack is too small: cudaDeviceSetLimit(cudaLimitStackSize, bytes) "
    f"makes it larger, {MAX_LOCAL_BYTES:,} at most.",
    L.FAULT_POINTER: "Check that the pointer was set, and that the function takes and returns what the call says.",
    L.FAULT_NULL_POINTER: "Check that the pointer was set: `if (callback != nullptr)` where it need not be.",
    L.FAULT_HOST_POINTER: "That is what host code gets where it takes the address of a function. Let a __device__ "
    "variable hold the device's, and copy the pointer from there (cudaMemcpyFromSymbol).",
}

_MOST_TEXT = 200
"""Characters of an assertion that are shown."""
_MISSED = ("out-of-bounds", "misaligned", "async-order")
"""hazards that can be why a barrier object never hears of what it waits for"""


class Launch(Protocol):
    """What is asked of a launch (`engine.Launching`)."""

    setup: LaunchSetup
    terms: Terms
    unit: Unit
    file: str

    def counted(self, workers: list[HostWorker]) -> tuple[dict[int, dict[str, int]], dict[str, int]]: ...
    def hazards(self, workers: list[HostWorker]) -> tuple[Finding, ...]: ...


def raise_fault(launch: Launch, workers: list[HostWorker]) -> None:
    """Raises the error of the first worker that met a fault, if one did."""
    for w in workers:
        if w.error is not None:
            raise w.error
    failed = next((w for w in workers if w.struct.fault), None)
    if failed is None or failed.strayed:  # its hazards say it
        return
    fault = failed.struct
    line = int(fault.fault_site)
    calls = calls_at(launch.unit.kernel.blocks, line)
    where: dict[str, Any] = {"file": launch.file, "line": line, "calls": calls}
    block = f"block {tuple(fault.ctaid)}"
    if fault.fault == L.FAULT_BUDGET:
        raise _spent(launch, workers, failed, block)
    if fault.fault == L.FAULT_STALL:
        raise _stalled(launch, workers, failed)
    if fault.fault == L.FAULT_PRINT:
        limit = launch.setup.manner.print_limit
        raise PrintLimitExceeded(f"{block} printed more than the limit of {limit:,} bytes", **where)
    if fault.fault == L.FAULT_DEADLOCK:
        raise _deadlock(launch, failed, block, where)
    if fault.fault in (L.FAULT_TEXTURE, L.FAULT_ASSERT):
        memory = launch.setup.memory
        reporter = Reporter(launch.unit, memory, launch.terms.grid, launch.file)
        thread = reporter.thread(fault.fault_thread >> L.WARP_SHIFT, fault.fault_thread & (WARP - 1))
        if fault.fault == L.FAULT_ASSERT:
            asserted = string_at(memory, fault.fault_text).decode("utf-8", "replace")
            what = f"failed its assertion `{asserted[:_MOST_TEXT]}{' ...' * (len(asserted) > _MOST_TEXT)}`"
        else:
            what = complaint(fault, memory)
        raise KernelTrap(f"thread {thread} of {block} {what}", **where)
    told = _TRAPS[fault.fault].format(stack=launch.unit.kernel.stack_bytes)
    raise KernelTrap(f"{told} in {block}", next_step=_INSTEAD.get(fault.fault, ""), **where)


def _spent(launch: Launch, workers: list[HostWorker], failed: HostWorker, block: str) -> StepLimitExceeded:
    """The error for a budget of loop iterations that is used up, at the loop that has used it up."""
    fault, setup = failed.struct, launch.setup
    counted = [(launch.unit.plan.executions, w.counters) for w in workers]
    masked = setup.code.masked_plan
    if masked is not None:
        counted += [(masked.executions, w.masked_counters) for w in workers if w.masked_counters is not None]
    totals = Counter(launch.counted(workers)[1])
    del totals["blocks"]
    spent_at = int(fault.fault_site)
    is_certain = never_ends(launch.unit.kernel.blocks, spent_at)
    where: dict[str, Any] = {"file": launch.file, "counted": totals, "is_certain": is_certain}
    if fault.share < setup.block_budget or launch.unit.in_turns:  # where blocks take turns, they share the launch's
        loops = loops_of(launch.unit.kernel.blocks)
        waits = any(loop.head in launch.unit.spin_heads and spent_at in loop.lines for loop in loops)
        return StepLimitExceeded(
            f"the launch has used up its budget of {setup.launch_budget:,} loop iterations in {block}"
            f"{', which waits in this loop for what another thread should do' * waits}",
            next_step=_NOBODY if waits
            else "Use fewer blocks or a smaller problem, or give the launch a larger step_limit.",
            line=spent_at, **where,
        )  # fmt: skip
    line = endless_line(launch.unit.kernel.blocks, executions(counted), spent_at)
    return StepLimitExceeded(
        f"{block} ran this loop until its budget of {setup.block_budget:,} iterations was used up: "
        "most likely it never ends",
        next_step=_WAITING if launch.unit.spin_heads else _ENDLESS,
        line=line, calls=calls_at(launch.unit.kernel.blocks, line), **where,
    )  # fmt: skip


def _stalled(launch: Launch, workers: list[HostWorker], failed: HostWorker) -> EndlessWait:
    """The error for threads that look for what nobody is left to do."""
    found = failed.stalls.found if failed.stalls is not None else None
    assert found is not None
    unit, memory = launch.unit, launch.setup.memory
    reporter = Reporter(unit, memory, launch.terms.grid, launch.file)
    totals = Counter(launch.counted(workers)[1])
    del totals["blocks"]
    who = f"thread {reporter.thread(found.warp, found.lane)} of block {unravel(found.block, launch.terms.grid)}"
    others = [
        f"{count:,} other warp{'s' * (count > 1)} {what}{'s' * (count == 1)} {where}"
        for count, what, where in (
            (found.in_loops, "look", "in a loop, too"), (found.at_barriers, "wait", "at a barrier"),
        ) if count
    ]  # fmt: skip
    return EndlessWait(
        f"deadlock: {who} waits in this loop for ever: {_looked_at(found, reporter, launch)}"
        f"{''.join(f'; {told}' for told in others)}",
        next_step=_NOBODY, file=launch.file, line=found.line, calls=calls_at(unit.kernel.blocks, found.line),
        counted=totals, is_certain=True,
    )  # fmt: skip


def _looked_at(found: Waiting, reporter: Reporter, launch: Launch) -> str:
    """What a thread looks at, and that nobody will change it."""
    look = found.look
    nobody = "and no thread that is left will change what it finds there"
    if look is None:
        return "no thread that is left will change what it looks at"
    does = "reads" if look.reads else "updates"
    if look.address is None:
        return f"it {does} {_array_of(look, launch)}, {nobody}"
    if look.space == "shared" or look.address >> 56 == L.SHARED_WINDOW >> 56:
        offset = look.address & (1 << L.CLUSTER_WINDOW_SHIFT) - 1
        return f"it {does} {reporter.shared_array(offset)} at byte {offset} of shared memory, {nobody}"
    workspace = launch.setup.workspace
    if workspace is not None and workspace.address <= look.address < workspace.end:
        return "it is at a barrier of the grid, grid.sync(), to which some block does not come"
    array, offset = reporter.locate(look.address, "global")
    return f"it {does} {array} at byte {offset}, {nobody}"


def _array_of(look: Look, launch: Launch) -> str:
    """The array at which a thread looks, or else the space."""
    if look.space == "shared" or look.root == "shared":
        return "shared memory"
    if look.root.startswith("param+"):
        at = int(look.root.removeprefix("param+"))
        found = launch.setup.memory.find(int.from_bytes(launch.terms.params[at : at + 8], "little"))
        if found is not None and found.name:
            return found.name
    return "global memory"


def _deadlock(launch: Launch, failed: HostWorker, block: str, where: dict[str, Any]) -> KernelDeadlock:
    fault = failed.struct
    reporter = Reporter(launch.unit, launch.setup.memory, launch.terms.grid, launch.file)
    offset = int(fault.waiting_at)
    state = ctypes.c_uint64.from_address(fault.shared + offset).value
    expected, missing = state & L.COUNT_MASK, state >> L.COUNT_BITS & L.COUNT_MASK
    thread = reporter.thread(fault.waiting_thread >> L.WARP_SHIFT, fault.waiting_thread & (WARP - 1))
    waits = f"thread {thread} of {block} waits at the barrier object in {reporter.shared_array(offset)} for ever: "
    before = next((h for h in launch.hazards([failed]) if h.kind in _MISSED), None)
    first = f"Before that, in line {before.line}: {before.message}. " if before else ""
    announced, came = failed.follower.awaited(offset) if failed.follower else (0, 0)
    if missing == 0 and announced != came:
        return KernelDeadlock(
            f"{waits}its phase expects {announced:,} bytes, {came:,} came",
            next_step=f"{first}Announce by expect_tx what a phase's copies bring: always the bytes of whole boxes.",
            **where,
        )
    if missing > expected:  # a negative number of 20 bits
        return KernelDeadlock(
            f"{waits}more than the {expected:,} arrivals of a phase have come, so that none of its phases ends",
            next_step=f"{first}Set the object up for as many arrivals as there are: arrive.expect_tx is one, too.",
            **where,
        )
    return KernelDeadlock(
        f"{waits}{expected - missing:,} of {expected:,} arrivals have come and nobody else is about to arrive",
        next_step=f"{first}Compare the count that the object was set up with to the threads that arrive in a phase.",
        **where,
    )
