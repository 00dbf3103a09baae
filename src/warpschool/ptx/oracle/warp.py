"""Instructions that look at other lanes of the warp (PTX ISA 9.7.9.6, 9.7.13.9 and on).

Only active lanes take part. What a lane reads from an inactive one is undefined in PTX; here it is the register's
last value.
"""

from __future__ import annotations

import numpy as np

from ..program import Instruction, Pair, Sink
from .lanes import WARP, Lanes
from .table import first_of, handler, unsupported

_LANE = np.arange(WARP)[None, :]


def _outputs(i: Instruction) -> tuple:
    """The destination and, where given, the predicate beside it."""
    first = i.operands[0]
    return (first.first, first.second) if isinstance(first, Pair) else (first, Sink())


@handler("shfl")
def _shfl(lanes: Lanes, i: Instruction) -> None:
    source, lane_operand, clamp_operand = i.operands[1:4]
    x = np.broadcast_to(lanes.read(source, "b32"), lanes.mask.shape)
    b = (lanes.read(lane_operand, "u32") & np.uint32(31)).astype(np.int64)
    c = lanes.read(clamp_operand, "u32").astype(np.int64)
    clamp, segment = c & 31, c >> 8 & 31
    lowest = _LANE & segment
    highest = lowest | clamp & ~segment
    if i.has("up"):
        j = _LANE - b
        valid = j >= highest
    elif i.has("down"):
        j = _LANE + b
        valid = j <= highest
    elif i.has("bfly"):
        j = _LANE ^ b
        valid = j <= highest
    else:
        j = lowest | b & ~segment
        valid = j <= highest
    j = np.broadcast_to(np.where(valid, j, _LANE), lanes.mask.shape)
    result, predicate = _outputs(i)
    lanes.write(result, np.take_along_axis(x, j, axis=1), "b32")
    lanes.write(predicate, np.broadcast_to(valid, lanes.mask.shape), "pred")


def _members(lanes: Lanes, i: Instruction) -> np.ndarray:
    """Lanes that take part: the active ones named in the member mask, the last operand of .sync forms."""
    if not i.has("sync"):
        return lanes.mask
    mask = lanes.read(i.operands[-1], "u32").astype(np.int64)
    return lanes.mask & (mask >> _LANE & 1 == 1)


def _ballot(members: np.ndarray) -> np.ndarray:
    """Each row's lanes as bits, in every lane."""
    bits = (members * (np.uint64(1) << _LANE.astype(np.uint64))).sum(axis=1, keepdims=True)
    return np.broadcast_to(bits, members.shape).astype(np.uint32)


@handler("vote")
def _vote(lanes: Lanes, i: Instruction) -> None:
    predicate = np.broadcast_to(lanes.read(i.operands[1], "pred"), lanes.mask.shape)
    members = _members(lanes, i)
    holds, fails = members & predicate, members & ~predicate
    if i.has("ballot"):
        lanes.write(i.operands[0], _ballot(holds), "b32")
        return
    some, none_fails = holds.any(axis=1, keepdims=True), ~fails.any(axis=1, keepdims=True)
    result = none_fails if i.has("all") else some if i.has("any") else none_fails | ~some
    lanes.write(i.operands[0], np.broadcast_to(result, lanes.mask.shape), "pred")


@handler("match")
def _match(lanes: Lanes, i: Instruction) -> None:
    x = np.broadcast_to(lanes.read(i.operands[1], i.type), lanes.mask.shape)
    members = _members(lanes, i)
    result, predicate = _outputs(i)
    if i.has("any"):
        same = (x[:, :, None] == x[:, None, :]) & members[:, None, :]
        weights = np.uint64(1) << np.arange(WARP, dtype=np.uint64)
        lanes.write(result, (same * weights).sum(axis=2).astype(np.uint32), "b32")
        return
    equal = [len(np.unique(row[m])) == 1 for row, m in zip(x, members, strict=True)]
    all_equal = np.broadcast_to(np.array(equal)[:, None], lanes.mask.shape)
    lanes.write(result, np.where(all_equal, _ballot(members), np.uint32(0)), "b32")
    lanes.write(predicate, all_equal, "pred")


_REDUCTIONS = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


@handler("redux")
def _redux(lanes: Lanes, i: Instruction) -> None:
    if i.type == "f32":
        raise unsupported(i, "reductions of .f32")
    operation = _REDUCTIONS[first_of(i, *_REDUCTIONS) or ""]
    x = np.broadcast_to(lanes.read(i.operands[1], i.type), lanes.mask.shape)
    members = _members(lanes, i)
    results = [operation.reduce(row[m]) if m.any() else x.dtype.type(0) for row, m in zip(x, members, strict=True)]
    lanes.write(i.operands[0], np.broadcast_to(np.array(results)[:, None], lanes.mask.shape), i.type)


@handler("activemask")
def _activemask(lanes: Lanes, i: Instruction) -> None:
    lanes.write(i.operands[0], _ballot(lanes.mask), "b32")
