"""cp.async: copies from global to shared memory that land when the thread waits for them (PTX ISA 9.7.9.25)."""

from __future__ import annotations

import numpy as np

from ptxsim.oracle import mbarriers
from ptxsim.oracle.lanes import Copy, Lanes
from ptxsim.oracle.memory import Places
from ptxsim.oracle.table import first_of, handler, unsupported
from ptxsim.syntax.program import Immediate, Instruction, Register, Sink


@handler("cp")
def _cp(lanes: Lanes, i: Instruction) -> None:
    if i.has("mbarrier"):
        _tie(lanes, i)
        return
    action = first_of(i, "commit_group", "wait_group", "wait_all", "ca", "cg")
    if not i.has("async") or action is None:
        raise unsupported(i)
    if action in ("ca", "cg"):
        _start(lanes, i)
        return
    for row, lane in np.argwhere(lanes.mask):
        groups = lanes.state.copies.setdefault((int(lanes.row_numbers[row, 0]), int(lane)), [[]])
        if action == "commit_group":
            groups.append([])
            continue
        if action == "wait_all":
            landing = len(groups)
        else:
            pending = i.operands[0]
            assert isinstance(pending, Immediate)
            landing = max(0, len(groups) - 1 - pending.bits)  # the last group is still open
        for copy in (copy for group in groups[:landing] for copy in group):
            _land(lanes, copy)
        groups[:landing] = [] if landing < len(groups) else [[]]


def _start(lanes: Lanes, i: Instruction) -> None:
    """Reads the source; where fewer bytes are read than copied, or the source is to be ignored, the rest is zero."""
    to, origin, size_operand, *more = i.operands
    assert isinstance(size_operand, Immediate)
    size = size_operand.bits
    wanted = np.full(lanes.mask.shape, size)
    if more and isinstance(more[0], Register) and lanes.state.registers[more[0].name].dtype == bool:
        wanted[lanes.read(more[0], "pred")] = 0
    elif more:
        wanted = np.minimum(np.broadcast_to(lanes.read(more[0], "u32"), lanes.mask.shape), size)
    reading = Lanes(lanes.state, lanes.rows, lanes.mask & (wanted > 0))
    source = Places(reading, i.with_(modifiers=("global",)), origin, size)
    data = source.load()
    data[np.arange(size) >= wanted[..., None]] = 0
    target = Places(lanes, i.with_(modifiers=("shared",)), to, size)
    lanes.launch.counts.async_access(
        i.source.line, source.address, target.address, reading.mask, lanes.mask, size, past_l1=i.has("cg")
    )
    for row, lane in np.argwhere(lanes.mask):
        number = int(lanes.row_numbers[row, 0])
        copy = Copy(int(lanes.state.block_of_row[number, 0]), int(target.address[row, lane]), data[row, lane].copy())
        lanes.state.copies.setdefault((number, int(lane)), [[]])[-1].append(copy)


def _tie(lanes: Lanes, i: Instruction) -> None:
    """A barrier object is to wait for the lanes' copies: they land here, which is as early as may be."""
    for row, lane in np.argwhere(lanes.mask):
        for group in lanes.state.copies.get((int(lanes.row_numbers[row, 0]), int(lane)), []):
            for copy in group:
                _land(lanes, copy)
            group.clear()
    if i.has("noinc"):  # else the phase waits for one more, which has just arrived
        mbarriers.arrive(lanes, i, Sink(), i.operands[0], Immediate(1))


def _land(lanes: Lanes, copy: Copy) -> None:
    shared = lanes.state.shared[copy.block]
    if copy.address + len(copy.data) <= len(shared):
        shared[copy.address : copy.address + len(copy.data)] = copy.data
