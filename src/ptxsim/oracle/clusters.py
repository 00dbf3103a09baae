"""Blocks of a cluster: their common barrier and each other's shared memory (PTX ISA 9.7.13, 9.7.9.23)."""

from __future__ import annotations

import numpy as np

from ptxsim.oracle.lanes import ActiveLanes, handler
from ptxsim.oracle.memory import CLUSTER_SHIFT
from ptxsim.syntax.program import Instruction

_OFFSET = np.uint64((1 << CLUSTER_SHIFT) - 1)


@handler("mapa")
def _mapa(lanes: ActiveLanes, i: Instruction) -> None:
    address = lanes.each(i.operands[1], i.type).astype(np.uint64)
    rank = lanes.each(i.operands[2], "u32").astype(np.uint64)
    window = address >> np.uint64(32) << np.uint64(32)
    lanes.write(i.operands[0], window | (rank + np.uint64(1)) << np.uint64(CLUSTER_SHIFT) | address & _OFFSET, i.type)


@handler("getctarank")
def _getctarank(lanes: ActiveLanes, i: Instruction) -> None:
    block = lanes.each(i.operands[1], i.type).astype(np.uint64) >> np.uint64(CLUSTER_SHIFT) & np.uint64(0xFF)
    own = lanes.state.rank_of_row[lanes.rows]
    lanes.write(i.operands[0], np.where(block == 0, own, block.astype(np.int64) - 1), "u32")


def arrive(lanes: ActiveLanes) -> None:
    """barrier.cluster.arrive: the active lanes are counted and remember in which phase."""
    state = lanes.state
    for row, busy in zip(lanes.row_numbers[:, 0], lanes.mask, strict=True):
        cluster = int(state.cluster_of_row[row, 0])
        state.cluster_arrivals[cluster] += int(busy.sum())
        state.arrived_in[row, busy] = state.cluster_phase[cluster]


@handler("setmaxnreg")
def _no_effect(lanes: ActiveLanes, i: Instruction) -> None:
    """Registers are handed from warp to warp: nothing that a program could see."""
