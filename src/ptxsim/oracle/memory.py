"""Loads, stores, atomics, asynchronous copies and barrier objects (PTX ISA 9.7.9, 9.7.9.25, 9.7.13, 9.7.13.15).

Every access is checked: reading outside an array gives zeros, writing there does nothing. A generic address tells its
space by its window. Within one instruction the lanes access memory in order, so the highest lane's store stays. Copies
of cp.async land when the thread waits for them; what the 64 bits of a barrier object mean is that of the simulator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from ptxsim.analysis.merging import SharedRequest
from ptxsim.limits import WARP
from ptxsim.oracle import exact
from ptxsim.oracle.boxes import load_box, reduced, store_box
from ptxsim.oracle.floating import extreme, flush, narrow, wide
from ptxsim.oracle.lanes import (
    PACKED,
    PARAM_WINDOW,
    WINDOWS,
    ActiveLanes,
    Copy,
    canonical,
    decode,
    encode,
    first_of,
    handler,
    unsupported,
)
from ptxsim.syntax.bulk import BulkCopy, bulk_copy, is_bulk, is_group
from ptxsim.syntax.program import (
    FLOAT_TYPES,
    WIDTH_BITS,
    Address,
    Immediate,
    Instruction,
    Operand,
    Register,
    Sink,
    bytes_of,
    elements_of,
)
from ptxsim.tensormap import BYTES, TensorMap, box_bytes

Chunk = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Mask of lanes, shape (rows, 32); the bytes of one array; and the indices of those each lane accesses."""
CLUSTER_SHIFT = 24
"""In an address of a cluster's shared memory, where the block's rank + 1 begins (0: the own block)."""
_WINDOW_BITS = np.uint64((1 << 56) - 1)


class Places:
    """Where each active lane of an instruction accesses memory: space and address, shape (rows, 32)."""

    def __init__(self, lanes: ActiveLanes, i: Instruction, operand: Operand, size: int) -> None:
        assert isinstance(operand, Address)
        self.lanes, self.size = lanes, size
        base = lanes.bits(operand.base).astype(np.uint64)
        offset = np.uint64(operand.offset & (1 << 64) - 1)
        address = np.broadcast_to(base + offset, lanes.mask.shape)
        if i.space == "generic":
            window = address >> np.uint64(56) << np.uint64(56)
            self.masks = {name: lanes.mask & (window == w) for name, w in WINDOWS.items()}
            self.masks["global"] = lanes.mask & ~np.logical_or.reduce([window == w for w in WINDOWS.values()])
            self.address = np.where(self.masks["global"], address, address & _WINDOW_BITS)
        else:
            self.masks = {"shared" if i.space == "cluster" else i.space: lanes.mask}
            narrow = lanes.bits(operand.base).dtype.itemsize <= 4  # such an address wraps around
            self.address = address & np.uint64(0xFFFFFFFF if narrow else (1 << 64) - 1)
        self.blocks = lanes.state.block_of_row[lanes.rows]
        if i.space == "cluster" or (i.space == "generic" and lanes.launch.terms.cluster != (1, 1, 1)):
            self._find_blocks()

    def _find_blocks(self) -> None:
        """Splits addresses of a cluster's shared memory into the block's and the offset in its memory."""
        state, shared = self.lanes.state, self.masks.get("shared", np.zeros((1, 1), bool))
        rank = (self.address >> np.uint64(CLUSTER_SHIFT)).astype(np.int64) & 0xFF
        size = math.prod(self.lanes.launch.terms.cluster)
        own = state.block_of_row[self.lanes.rows]
        there = np.where(rank > 0, state.cluster_of_row[self.lanes.rows] * size + rank - 1, own)
        self.blocks = np.where(shared, there, own)
        offset = self.address & np.uint64((1 << CLUSTER_SHIFT) - 1)
        outside = shared & (rank > size)
        self.address = np.where(shared, np.where(outside, np.uint64(1 << 40), offset), self.address)
        self.blocks = np.where(outside, own, self.blocks)

    def count(self, i: Instruction, kind: str) -> None:
        """Counts the access; parameter memory has no counters."""
        line, counts = i.source.line, self.lanes.launch.counts
        if i.added:  # the call stack's own
            return
        for space, mask in self.masks.items():
            if space == "const":
                counts.constant_access(line, self.address, mask)
            elif space == "global":
                counts.global_access(kind, line, self.address, mask, self.size)
            elif space == "shared":
                self.count_shared(i, kind, mask)
            elif space == "local":
                counts.local_access(kind, line, self.address, mask, self.size)

    def count_shared(self, i: Instruction, kind: str, mask: np.ndarray) -> None:
        """Counts what the machine code asks for in place of this access (`merging`)."""
        line, launch = i.source.line, self.lanes.launch
        launch.counts.shared_bytes(kind, line, mask, self.size)
        for r in launch.shared_requests.get(id(i), (SharedRequest(0, self.size),)):
            address = self.address + np.uint64(r.shift & 0xFFFFFFFF) & np.uint64(0xFFFFFFFF)
            launch.counts.shared_access(kind, line, address, mask, r.nbytes)

    def load(self) -> np.ndarray:
        """The bytes at each place, shape (rows, 32, size)."""
        data = np.zeros((*self.lanes.mask.shape, self.size), np.uint8)
        for mask, view, index in self.chunks():
            data[mask] = view[index]
        return data

    def store(self, data: np.ndarray) -> None:
        """Writes bytes, shape (rows, 32, size)."""
        for mask, view, index in self.chunks():
            view[index] = data[mask]

    def chunks(self) -> Iterator[Chunk]:
        """What is accessed in bounds, array by array."""
        step = np.arange(self.size, dtype=np.int64)
        state, launch, rows = self.lanes.state, self.lanes.launch, self.lanes.row_numbers
        spaces = {
            "param": (launch.params[None], np.zeros((1, 1), int)),
            "shared": (state.shared, self.blocks),
            "local": (state.local, rows * WARP + np.arange(WARP)),
        }
        for space, mask in self.masks.items():
            if space in ("global", "const"):
                yield from self.global_chunks(mask, step, launch.constants if space == "const" else None)
            elif mask.any():
                memory, number = spaces[space]
                length = memory.shape[1]
                inside = mask & self.fits(self.address, length)
                if inside.any():
                    number = np.broadcast_to(number, mask.shape)
                    at = (number * length + self.address.astype(np.int64))[inside]
                    yield inside, memory.reshape(-1), at[:, None] + step

    def fits(self, offset: np.ndarray, length: int) -> np.ndarray:
        """Whether the access ends within `length` bytes; written so that no sum wraps around 2**64."""
        return offset <= np.uint64(max(0, length - self.size)) if length >= self.size else np.zeros(offset.shape, bool)

    def global_chunks(self, mask: np.ndarray, step: np.ndarray, constants: frozenset[int] | None) -> Iterator[Chunk]:
        """In all arrays, or in those at the addresses of variables in constant memory."""
        for a in self.lanes.launch.memory.arrays:
            if constants is not None and a.address not in constants:
                continue
            inside = mask & (self.address >= np.uint64(a.address))
            inside &= self.fits(self.address - np.uint64(a.address), a.nbytes)
            if inside.any():
                yield inside, a.view(), (self.address[inside] - np.uint64(a.address)).astype(np.int64)[:, None] + step


def in_shared(lanes: ActiveLanes, i: Instruction, operand: Operand, size: int) -> Places:
    """Places in shared memory, also where an instruction that can only mean it does not write so."""
    places = Places(lanes, i.with_(modifiers=("shared",) if i.space == "shared" else ()), operand, size)
    places.masks = {"shared": places.masks["shared"]}
    return places


def _elements(i: Instruction) -> int:
    return int((first_of(i, "v2", "v4", "v8") or "v1")[1:])


@handler("ld", "ldu")
def _ld(lanes: ActiveLanes, i: Instruction) -> None:
    width = bytes_of(i.type)
    places = Places(lanes, i, i.operands[1], width * _elements(i))
    places.count(i, "load")
    data = places.load()
    for k, element in enumerate(elements_of(i.operands[0])):
        piece = np.ascontiguousarray(data[..., k * width : (k + 1) * width])
        lanes.write(element, piece.view(f"u{width}")[..., 0], _integer_type(i.type))


def _integer_type(type_name: str) -> str:
    """The integer type that extends like `type_name` when a wider register receives it."""
    return ("s" if type_name[0] == "s" else "u") + str(WIDTH_BITS[type_name])


@handler("st")
def _st(lanes: ActiveLanes, i: Instruction) -> None:
    if i.has("async"):
        _send(lanes, i)
        return
    width = bytes_of(i.type)
    places = Places(lanes, i, i.operands[0], width * _elements(i))
    places.count(i, "store")
    data = np.zeros((*lanes.mask.shape, places.size), np.uint8)
    for k, element in enumerate(elements_of(i.operands[1])):
        bits = lanes.each(element, f"u{8 * width}")
        data[..., k * width : (k + 1) * width] = np.ascontiguousarray(bits[..., None]).view(np.uint8)
    places.store(data)


# ---------------------------------------------------------------- atomics

Operation = Callable[..., Any]
_OPERATIONS: dict[str, Operation] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, new: new,
    "inc": lambda old, limit: np.where(old >= limit, 0, old + 1),
    "dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - 1),
    "cas": lambda old, compare, new: np.where(old == compare, new, old),
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
}


def _operation(i: Instruction, space: str) -> Operation:
    name = first_of(i, "add", "min", "max", *_OPERATIONS)
    if name is None:
        raise unsupported(i)
    type_name = PACKED.get(i.type, i.type)
    if type_name not in FLOAT_TYPES or name not in ("add", "min", "max"):
        return _OPERATIONS[name]
    if name != "add":  # as the instructions min and max, for both halves of a pair
        return lambda old, new: extreme(name == "min", old, new, type_name)
    if type_name == "f32" and space == "global" and not i.has("noftz"):
        return lambda old, new: canonical(flush(flush(old, "f32") + flush(new, "f32"), "f32"), "f32")
    if type_name == "bf16":
        return lambda old, new: canonical(narrow(exact.sum_to_odd(*wide(old, new)), "bf16", "rn"), "bf16")
    return lambda old, new: canonical(old + new, type_name)


@handler("atom", "red")
def _atom(lanes: ActiveLanes, i: Instruction) -> None:
    """Lane after lane: the old value goes to the destination, the operation's result to memory."""
    if i.has("async"):
        _send(lanes, i)
        return
    returns = i.opcode == "atom"
    memory, *values = i.operands[1:] if returns else i.operands
    width, count = bytes_of(i.type), _elements(i)
    places = Places(lanes, i, memory, width * count)
    if "global" in places.masks:
        name = "global_atomic_requests" if returns else "global_reduction_requests"
        lanes.launch.counts.add(name, i.source.line, places.masks["global"].any(axis=1).sum())
    sources = [
        np.stack([np.broadcast_to(lanes.bits(e), lanes.mask.shape) for e in elements_of(v)], axis=-1) for v in values
    ]
    if i.type == "b128":
        _swap_wide(lanes, i, places, [source[..., 0] for source in sources])
        return
    old = np.zeros((*lanes.mask.shape, count), f"u{width}")
    for mask, view, index in places.chunks():
        space = next(s for s, m in places.masks.items() if (m & mask).any())
        operation = _operation(i, space)
        for (row, lane), at in zip(np.argwhere(mask), index, strict=True):
            old[row, lane] = before = view[at].view(f"u{width}")
            arguments = [decode(source[row, lane], i.type) for source in sources]
            after = encode(operation(decode(before, i.type), *arguments), i.type)
            view[at] = np.ascontiguousarray(after).view(np.uint8)
    if returns:
        for k, element in enumerate(elements_of(i.operands[0])):
            lanes.write(element, old[..., k], _integer_type(i.type))


def _swap_wide(lanes: ActiveLanes, i: Instruction, places: Places, sources: list[np.ndarray]) -> None:
    """atom.cas and atom.exch of 16 bytes, which are one Python integer."""
    old = np.zeros(lanes.mask.shape, object)
    for mask, view, index in places.chunks():
        for (row, lane), at in zip(np.argwhere(mask), index, strict=True):
            before = old[row, lane] = int.from_bytes(view[at].tobytes(), "little")
            if i.has("exch") or before == sources[0][row, lane]:
                view[at] = np.frombuffer(int(sources[-1][row, lane]).to_bytes(16, "little"), np.uint8)
    lanes.write(i.operands[0], old, "b128")


# ---------------------------------------------------------------- barrier objects


_FIELD, _COUNT = 20, (1 << 20) - 1
_PHASE, _BYTES = 61, (1 << 21) - 1
"""expected arrivals in the low 20 bits, then as many for the missing ones, 21 for bytes, the number of the phase"""


@handler("mbarrier")
def _mbarrier(lanes: ActiveLanes, i: Instruction) -> None:
    if i.has("pending_count"):
        lanes.write(i.operands[0], lanes.bits(i.operands[1]) >> np.uint64(_FIELD) & np.uint64(_COUNT), "u32")
    elif i.has("init") or i.has("inval"):
        where, count = (*i.operands, Immediate(0))[:2]
        field = lanes.each(count, "u32").astype(np.uint64) & np.uint64(_COUNT)
        _object(lanes, i, where).store((field | field << np.uint64(_FIELD))[..., None].view(np.uint8))
    elif i.has("arrive") or i.has("arrive_drop"):
        result, where, number = (*i.operands, Immediate(1))[:3]
        count, expected = (Immediate(1), number) if i.has("expect_tx") else (number, Immediate(0))
        change_object(lanes, i, result, where, lanes.each(count, "u32"), lanes.each(expected, "s32"))
    elif i.has("expect_tx") or i.has("complete_tx"):
        nbytes = lanes.each(i.operands[1], "s32") * (1 if i.has("expect_tx") else -1)
        change_object(lanes, i, Sink(), i.operands[0], np.zeros(lanes.mask.shape, int), nbytes)
    else:
        now = _object(lanes, i, i.operands[1]).load().view(np.uint64)[..., 0] >> np.uint64(_PHASE)
        if i.has("parity"):
            over = (now & np.uint64(1)) != (lanes.read(i.operands[2], "u32") & 1)
        else:
            over = now != lanes.bits(i.operands[2]) >> np.uint64(_PHASE)
        lanes.write(i.operands[0], over, "pred")
        lanes.state.gives_way[lanes.rows] |= lanes.mask & ~over
        lanes.state.failed_waits = lanes.state.failed_waits + 1 if not (lanes.mask & over).any() else 0


def _object(lanes: ActiveLanes, i: Instruction, operand: Operand) -> Places:
    if i.space == "cluster":
        return Places(lanes, i.with_(modifiers=("shared::cluster",)), operand, 8)
    return in_shared(lanes, i, operand, 8)


def change_object(
    lanes: ActiveLanes, i: Instruction, result: Operand, where: Operand, counts: np.ndarray, nbytes: np.ndarray
) -> None:
    """The lanes arrive one after the other, with more bytes to wait for or fewer; each gets the state before."""
    old = np.zeros(lanes.mask.shape, np.uint64)
    for mask, view, index in _object(lanes, i, where).chunks():
        for (row, lane), at in zip(np.argwhere(mask), index, strict=True):
            old[row, lane] = before = int(view[at].view(np.uint64)[0])
            drops = int(counts[row, lane]) if i.has("arrive_drop") else 0
            after = changed_object(before, int(counts[row, lane]), int(nbytes[row, lane]), drops)
            view[at] = np.array([after], np.uint64).view(np.uint8)
    lanes.state.failed_waits = 0
    lanes.write(result, old, "b64")


def changed_object(state: int, count: int, nbytes: int, drops: int = 0) -> int:
    """A barrier object after so many arrivals, and so many bytes more to wait for."""
    expected, missing, phase = (state & _COUNT) - drops & _COUNT, (state >> _FIELD & _COUNT) - count, state >> _PHASE
    outstanding = (state >> 2 * _FIELD) + nbytes & _BYTES
    if missing <= 0 and not outstanding:
        missing, phase = expected, phase + 1
    return expected | (missing & _COUNT) << _FIELD | outstanding << 2 * _FIELD | (phase & 7) << _PHASE


def _send(lanes: ActiveLanes, i: Instruction) -> None:
    """st.async and red.async: what they send is there at once, and the barrier object has its bytes (9.7.9.12)."""
    width, count = bytes_of(i.type), _elements(i)
    sources = np.stack([lanes.each(e, f"u{8 * width}") for e in elements_of(i.operands[1])], axis=-1)
    operation = _operation(i, "shared") if i.opcode == "red" else lambda old, new: new
    for mask, view, index in Places(lanes, i, i.operands[0], width * count).chunks():
        for (row, lane), at in zip(np.argwhere(mask), index, strict=True):
            old, new = (decode(x, i.type) for x in (view[at].view(f"u{width}"), sources[row, lane]))
            view[at] = np.ascontiguousarray(encode(operation(old, new), i.type)).view(np.uint8)
    arrivals, nbytes = np.zeros(lanes.mask.shape, int), np.full(lanes.mask.shape, -width * count)
    change_object(lanes, i, Sink(), i.operands[2], arrivals, nbytes)


# ---------------------------------------------------------------- asynchronous copies


@handler("cp")
def _cp(lanes: ActiveLanes, i: Instruction) -> None:
    if is_bulk(i):
        copy_in_bulk(lanes, i)
        return
    if i.has("ca") or i.has("cg"):
        _start_copy(lanes, i)
        return
    for row, lane in np.argwhere(lanes.mask):
        groups = lanes.state.copies[int(lanes.row_numbers[row, 0]), int(lane)]
        if i.has("commit_group"):
            groups.append([])
        elif i.has("wait_group"):
            assert isinstance(i.operands[0], Immediate)
            _land(lanes, groups, max(0, len(groups) - 1 - i.operands[0].bits))  # the last group is still open
        else:  # what a barrier object is to wait for lands here as well, which is as early as may be
            _land(lanes, groups, len(groups))
    if i.has("noinc"):  # else the phase waits for one more, which has just arrived
        once, none = np.ones(lanes.mask.shape, int), np.zeros(lanes.mask.shape, int)
        change_object(lanes, i, Sink(), i.operands[0], once, none)


def _land(lanes: ActiveLanes, groups: list[list[Copy]], count: int) -> None:
    """The copies of the first groups arrive; one group stays open."""
    for copy in chain.from_iterable(groups[:count]):
        shared = lanes.state.shared[copy.block]
        if copy.address + len(copy.data) <= len(shared):
            shared[copy.address : copy.address + len(copy.data)] = copy.data
    groups[:count] = [] if count < len(groups) else [[]]


def copy_in_bulk(lanes: ActiveLanes, i: Instruction) -> None:
    """Each lane's copy, at once, for each block that is to have it."""
    if is_group(i):
        return
    copy = bulk_copy(i)
    if not copy.to:
        return
    state, launch = lanes.state, lanes.launch
    launch.counts.add("bulk_copies", i.source.line, lanes.mask.sum())
    cluster = i.with_(modifiers=("shared::cluster",))
    local, far_operand = (copy.target, copy.source) if copy.to == "shared" else (copy.source, copy.target)
    assert local is not None and far_operand is not None
    near = Places(lanes, cluster, local, 1)
    barrier = Places(lanes, cluster, copy.barrier, 8) if copy.barrier is not None else None
    far = Places(lanes, i.with_(modifiers=("shared" if copy.to == copy.origin else "global",)), far_operand, 1)
    masks = lanes.each(copy.blocks, "u16") if copy.blocks is not None else None
    size = math.prod(launch.terms.cluster)
    for row, lane in np.argwhere(lanes.mask):
        blocks = [int(np.broadcast_to(near.blocks, lanes.mask.shape)[row, lane])]
        if masks is not None:
            first = int(state.cluster_of_row[lanes.rows][row, 0]) * size
            blocks = [first + r for r in range(size) if int(masks[row, lane]) >> r & 1]
        for block in blocks:
            own = int(lanes.row_numbers[row, 0])
            places = int(far.address[row, lane]), int(near.address[row, lane])
            moved = _move_in_bulk(lanes, copy, (row, lane), *places, block, own)
            if barrier is not None:
                there = np.broadcast_to(barrier.blocks, lanes.mask.shape)[row, lane]
                there = block if masks is not None else int(there)
                at = slice(int(barrier.address[row, lane]), int(barrier.address[row, lane]) + 8)
                word = state.shared[there][at].view(np.uint64)
                word[0] = changed_object(int(word[0]), 0, -moved)
    state.failed_waits = 0


def _move_in_bulk(
    lanes: ActiveLanes, copy: BulkCopy, place: tuple[int, int], far: int, near: int, block: int, own: int
) -> int:
    """One copy between global memory (or the own block's) and a block's shared memory; how many bytes it announces."""
    state, memory = lanes.state, lanes.launch.memory
    shared = state.shared[block]
    if copy.tensor is not None:
        tensor_map = TensorMap.decode(bytes(_map_at(lanes, far)))
        numbers = [int(lanes.each(c, "s32")[place]) for c in copy.tensor.coordinates]
        offsets = tuple(int(lanes.each(o, "u16")[place]) for o in copy.offsets)
        if copy.to == "shared":
            load_box(memory, tensor_map, tuple(numbers), offsets, shared, near)
        else:
            store_box(memory, tensor_map, tuple(numbers), shared, near, copy.operation)
        return box_bytes(tensor_map)
    assert copy.size is not None
    nbytes = int(lanes.each(copy.size, "u32")[place])
    local = shared[near : near + nbytes]
    if copy.to == copy.origin:
        other = state.shared[int(state.block_of_row[own, 0])][far : far + nbytes]
    else:
        found = memory.find(far)
        other = found.view()[far - found.address :][:nbytes] if found is not None else local.copy()
    target, source = (local, other) if copy.to == "shared" else (other, local)
    target[:] = reduced(copy.operation, copy.type, target, source) if copy.operation else source
    return nbytes


def _map_at(lanes: ActiveLanes, address: int) -> np.ndarray:
    """The 128 bytes of a tensor map: in memory, or among the parameters."""
    if address >> 56 == PARAM_WINDOW >> 56:
        return lanes.launch.params[address & (1 << 56) - 1 :][:BYTES]
    found = lanes.launch.memory.find(address)
    return found.view()[address - found.address :][:BYTES] if found is not None else np.zeros(BYTES, np.uint8)


def _start_copy(lanes: ActiveLanes, i: Instruction) -> None:
    """Reads the source; where fewer bytes are read than copied, or the source is to be ignored, the rest is zero."""
    to, origin, bytes_, *more = i.operands
    assert isinstance(bytes_, Immediate)
    size = bytes_.bits
    wanted = np.full(lanes.mask.shape, size)
    if more and isinstance(more[0], Register) and lanes.state.registers[more[0].name].dtype == bool:
        wanted[lanes.read(more[0], "pred")] = 0
    elif more:
        wanted = np.minimum(lanes.each(more[0], "u32"), size)
    reading = ActiveLanes(lanes.state, lanes.rows, lanes.mask & (wanted > 0))
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
        lanes.state.copies[number, int(lane)][-1].append(copy)
