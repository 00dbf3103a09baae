"""Barrier objects in shared memory (PTX ISA 9.7.13.15). What the 64 bits mean is that of the simulator."""

from __future__ import annotations

import numpy as np

from ptxsim.oracle.lanes import Lanes
from ptxsim.oracle.memory import Places
from ptxsim.oracle.table import handler
from ptxsim.syntax.program import Immediate, Instruction, Operand, Sink

_BITS, _COUNT = 20, (1 << 20) - 1
"""expected arrivals in the low 20 bits, then as many for the missing ones, then the number of the phase"""


@handler("mbarrier")
def _mbarrier(lanes: Lanes, i: Instruction) -> None:
    shape = lanes.mask.shape
    if i.has("pending_count"):
        lanes.write(i.operands[0], lanes.bits(i.operands[1]) >> np.uint64(_BITS) & np.uint64(_COUNT), "u32")
    elif i.has("init") or i.has("inval"):
        count = lanes.read(i.operands[1], "u32") if i.has("init") else np.zeros((), np.uint32)
        wide = np.broadcast_to(count, shape).astype(np.uint64) & np.uint64(_COUNT)
        _places(lanes, i, i.operands[0]).store(_bytes(wide | wide << np.uint64(_BITS)))
    elif i.has("arrive") or i.has("arrive_drop"):
        arrive(lanes, i, i.operands[0], i.operands[1], i.operands[2] if len(i.operands) > 2 else Immediate(1))
    else:
        now = _places(lanes, i, i.operands[1]).load().view(np.uint64)[..., 0] >> np.uint64(2 * _BITS)
        if i.has("parity"):
            over = (now & np.uint64(1)) != (lanes.read(i.operands[2], "u32") & 1)
        else:
            over = now != lanes.bits(i.operands[2]) >> np.uint64(2 * _BITS)
        over = np.broadcast_to(over, shape)
        lanes.write(i.operands[0], over, "pred")
        lanes.state.gives_way[lanes.rows] |= lanes.mask & ~over
        lanes.state.failed_waits = lanes.state.failed_waits + 1 if not (lanes.mask & over).any() else 0


def _places(lanes: Lanes, i: Instruction, operand: Operand) -> Places:
    return Places(lanes, i.with_(modifiers=("shared",)), operand, 8)


def _bytes(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values[..., None]).view(np.uint8)


def arrive(lanes: Lanes, i: Instruction, result: Operand, where: Operand, count: Operand) -> None:
    """The lanes arrive one after the other; each gets the state before."""
    old = np.zeros(lanes.mask.shape, np.uint64)
    counts = np.broadcast_to(lanes.read(count, "u32"), lanes.mask.shape)
    for mask, view, index in _places(lanes, i, where).chunks():
        for (row, lane), at in zip(np.argwhere(mask), index, strict=True):
            before = int(view[at].view(np.uint64)[0])
            old[row, lane] = before
            expected, missing, phase = before & _COUNT, before >> _BITS & _COUNT, before >> 2 * _BITS
            if i.has("arrive_drop"):
                expected = expected - int(counts[row, lane]) & _COUNT
            missing -= int(counts[row, lane])
            if missing <= 0:
                missing, phase = expected, phase + 1
            after = expected | missing << _BITS | phase << 2 * _BITS
            view[at] = np.array([after & (1 << 64) - 1], np.uint64).view(np.uint8)
    lanes.state.failed_waits = 0
    if not isinstance(result, Sink):
        lanes.write(result, old, "b64")
