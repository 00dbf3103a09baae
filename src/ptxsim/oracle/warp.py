"""Instructions that look at other lanes of the warp (PTX ISA 9.7.9.6, 9.7.13.9 and on).

Only active lanes take part. What a lane reads from an inactive one is undefined in PTX; here it is the register's
last value.
"""

from __future__ import annotations

import numpy as np

from ptxsim.limits import WARP
from ptxsim.oracle.lanes import ActiveLanes, first_of, handler, unsupported
from ptxsim.syntax.program import Instruction, elements_of

_LANE = np.arange(WARP)[None, :]


def _write(lanes: ActiveLanes, i: Instruction, result: np.ndarray, predicate: np.ndarray) -> None:
    """Writes the destination and, where given, the predicate beside it."""
    for target, value, type_name in zip(elements_of(i.operands[0]), (result, predicate), ("b32", "pred"), strict=False):
        lanes.write(target, value, type_name)


@handler("shfl")
def _shfl(lanes: ActiveLanes, i: Instruction) -> None:
    source, lane_operand, clamp_operand = i.operands[1:4]
    b = (lanes.read(lane_operand, "u32") & np.uint32(31)).astype(np.int64)
    c = lanes.read(clamp_operand, "u32").astype(np.int64)
    clamp, segment = c & 31, c >> 8 & 31
    lowest = _LANE & segment
    highest = lowest | clamp & ~segment
    wanted = {"up": _LANE - b, "down": _LANE + b, "bfly": _LANE ^ b, "idx": lowest | b & ~segment}
    j = wanted[first_of(i, *wanted) or "idx"]
    valid = j >= highest if i.has("up") else j <= highest
    j = np.broadcast_to(np.where(valid, j, _LANE), lanes.mask.shape)
    _write(lanes, i, np.take_along_axis(lanes.each(source, "b32"), j, axis=1), valid)


def _partners(lanes: ActiveLanes, i: Instruction) -> np.ndarray:
    """Which active lanes each lane works with, shape (rows, 32, 32).

    In .sync forms they are those that the lane's member mask, the last operand, names: the lanes of a warp may execute
    an instruction together in groups with different masks.
    """
    active = lanes.mask[:, None, :]
    if not i.has("sync"):
        return np.broadcast_to(active, (*lanes.mask.shape, WARP))
    mask = lanes.each(i.operands[-1], "u32").astype(np.int64)
    return active & (mask[:, :, None] >> np.arange(WARP) & 1 == 1)


def _as_bits(members: np.ndarray) -> np.ndarray:
    """Sets of lanes along the last axis as 32-bit masks."""
    return (members * (np.uint64(1) << np.arange(WARP, dtype=np.uint64))).sum(axis=-1).astype(np.uint32)


@handler("vote")
def _vote(lanes: ActiveLanes, i: Instruction) -> None:
    predicate = lanes.each(i.operands[1], "pred")[:, None, :]
    partners = _partners(lanes, i)
    if i.has("ballot"):
        lanes.write(i.operands[0], _as_bits(partners & predicate), "b32")
        return
    some, none_fails = (partners & predicate).any(axis=2), ~(partners & ~predicate).any(axis=2)
    lanes.write(i.operands[0], none_fails if i.has("all") else some if i.has("any") else none_fails | ~some, "pred")


@handler("match")
def _match(lanes: ActiveLanes, i: Instruction) -> None:
    x = lanes.each(i.operands[1], i.type)
    partners = _partners(lanes, i)
    same = x[:, :, None] == x[:, None, :]
    all_equal = ~(partners & ~same).any(axis=2)
    found = partners & (same if i.has("any") else all_equal[:, :, None])
    _write(lanes, i, _as_bits(found), all_equal)


_REDUCTIONS = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


@handler("redux")
def _redux(lanes: ActiveLanes, i: Instruction) -> None:
    if i.type == "f32":
        raise unsupported(i, "reductions of .f32")
    operation = _REDUCTIONS[first_of(i, *_REDUCTIONS) or ""]
    x, partners = lanes.each(i.operands[1], i.type), _partners(lanes, i)
    result = np.zeros_like(x)
    for row, lane in np.argwhere(lanes.mask & partners.any(axis=2)):
        result[row, lane] = operation.reduce(x[row][partners[row, lane]], dtype=x.dtype)
    lanes.write(i.operands[0], result, i.type)


@handler("activemask")
def _activemask(lanes: ActiveLanes, i: Instruction) -> None:
    lanes.write(i.operands[0], _as_bits(lanes.mask)[:, None], "b32")


@handler("elect")
def _elect(lanes: ActiveLanes, i: Instruction) -> None:
    """The lowest active lane of the mask leads."""
    leader = np.argmax(_partners(lanes, i), axis=2).astype(np.uint32)
    _write(lanes, i, leader, leader == _LANE)
