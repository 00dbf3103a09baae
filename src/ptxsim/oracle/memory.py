"""Loads, stores, atomics, asynchronous copies and barrier objects (PTX ISA 9.7.9, 9.7.9.25, 9.7.13, 9.7.13.15).

Every access is checked: reading outside an array gives zeros, writing there does nothing. A generic address tells its
space by its window. Within one instruction the lanes access memory in order, so the highest lane's store stays. Copies
of cp.async land when the thread waits for them; what the 64 bits of a barrier object mean is that of the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ptxsim.analysis.merging import Request
from ptxsim.limits import WARP
from ptxsim.oracle import exact
from ptxsim.oracle.floating import flush, narrow, wide
from ptxsim.oracle.lanes import (
    PACKED,
    WINDOWS,
    Copy,
    Lanes,
    canonical,
    decode,
    encode,
    first_of,
    handler,
    unsupported,
)
from ptxsim.syntax.program import (
    FLOAT_TYPES,
    WIDTH_BITS,
    Address,
    Immediate,
    Instruction,
    Operand,
    Register,
    Sink,
    Vector,
    bytes_of,
)

Chunk = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Mask of lanes, shape (rows, 32); the bytes of one array; and the indices of those each lane accesses."""
_WINDOW_BITS = np.uint64((1 << 56) - 1)


class Places:
    """Where each active lane of an instruction accesses memory: space and address, shape (rows, 32)."""

    def __init__(self, lanes: Lanes, i: Instruction, operand: Operand, size: int) -> None:
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
            space = "global" if i.space == "const" else i.space
            self.masks = {space: lanes.mask}
            width = 32 if space in ("shared", "local") else 64
            self.address = address & np.uint64((1 << width) - 1)
        self.is_const = i.space == "const"

    def count(self, i: Instruction, kind: str) -> None:
        """Counts the access; parameter memory has no counters."""
        line, counts = i.source.line, self.lanes.launch.counts
        if i.added:  # the call stack's own
            return
        for space, mask in self.masks.items():
            if space == "global" and self.is_const:
                counts.constant_access(line, self.address, mask)
            elif space == "global":
                counts.global_access(kind, line, self.address, mask, self.size)
            elif space == "shared":
                self.count_shared(i, kind, mask)
            elif space == "local":
                counts.add(f"local_{kind}_requests", line, int(mask.any(axis=1).sum()))

    def count_shared(self, i: Instruction, kind: str, mask: np.ndarray) -> None:
        """Counts what the machine code asks for in place of this access (`merging`)."""
        line, launch = i.source.line, self.lanes.launch
        launch.counts.shared_bytes(kind, line, mask, self.size)
        for r in launch.shared_requests.get(id(i), (Request(0, self.size),)):
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
        state, rows = self.lanes.state, self.lanes.row_numbers
        for space, mask in self.masks.items():
            if not mask.any():
                continue
            if space == "global":
                yield from self.global_chunks(mask, step)
                continue
            if space == "param":
                view, start, length = (
                    self.lanes.launch.params,
                    np.zeros((1, 1), np.int64),
                    len(self.lanes.launch.params),
                )
            elif space == "shared":
                view, length = state.shared.reshape(-1), state.shared.shape[1]
                start = state.block_of_row[self.lanes.rows] * length
            else:
                view, length = state.local.reshape(-1), state.local.shape[1]
                start = (rows * WARP + np.arange(WARP)) * length
            inside = mask & self.fits(self.address, length)
            yield inside, view, (start + self.address.astype(np.int64))[inside][:, None] + step

    def fits(self, offset: np.ndarray, length: int) -> np.ndarray:
        """Whether the access ends within `length` bytes; written so that no sum wraps around 2**64."""
        return offset <= np.uint64(max(0, length - self.size)) if length >= self.size else np.zeros(offset.shape, bool)

    def global_chunks(self, mask: np.ndarray, step: np.ndarray) -> Iterator[Chunk]:
        for a in self.lanes.launch.memory.allocations:
            inside = mask & (self.address >= np.uint64(a.address))
            inside &= self.fits(self.address - np.uint64(a.address), a.nbytes)
            if inside.any():
                yield inside, a.view(), (self.address[inside] - np.uint64(a.address)).astype(np.int64)[:, None] + step


def _elements(i: Instruction) -> int:
    return int((first_of(i, "v2", "v4", "v8") or "v1")[1:])


def _listed(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, Vector) else (operand,)


@handler("ld", "ldu")
def _ld(lanes: Lanes, i: Instruction) -> None:
    width = bytes_of(i.type)
    places = Places(lanes, i, i.operands[1], width * _elements(i))
    places.count(i, "load")
    data = places.load()
    for k, element in enumerate(_listed(i.operands[0])):
        piece = np.ascontiguousarray(data[..., k * width : (k + 1) * width])
        lanes.write(element, piece.view(f"u{width}")[..., 0], _integer_type(i.type))


def _integer_type(type_name: str) -> str:
    """The integer type that extends like `type_name` when a wider register receives it."""
    return ("s" if type_name[0] == "s" else "u") + str(WIDTH_BITS[type_name])


@handler("st")
def _st(lanes: Lanes, i: Instruction) -> None:
    width = bytes_of(i.type)
    places = Places(lanes, i, i.operands[0], width * _elements(i))
    places.count(i, "store")
    data = np.zeros((*lanes.mask.shape, places.size), np.uint8)
    for k, element in enumerate(_listed(i.operands[1])):
        bits = np.broadcast_to(lanes.read(element, f"u{8 * width}"), lanes.mask.shape)
        data[..., k * width : (k + 1) * width] = np.ascontiguousarray(bits[..., None]).view(np.uint8)
    places.store(data)


# ---------------------------------------------------------------- atomics

Operation = Callable[..., np.ndarray]


def _swap_if_equal(old: np.ndarray, compare: np.ndarray, new: np.ndarray) -> np.ndarray:
    return np.where(old == compare, new, old)



_OPERATIONS: dict[str, Operation] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, new: new,
    "inc": lambda old, limit: np.where(old >= limit, 0, old + 1),
    "dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - 1),
    "cas": _swap_if_equal,
}


def _operation(i: Instruction, space: str) -> Operation:
    name = first_of(i, "add", "min", "max", *_OPERATIONS)
    if name is None:
        raise unsupported(i)
    if name in _OPERATIONS:
        return _OPERATIONS[name]
    type_name = PACKED.get(i.type, i.type)
    if type_name not in FLOAT_TYPES:
        return {"add": np.add, "min": np.minimum, "max": np.maximum}[name]
    if name != "add":
        return {"min": np.fmin, "max": np.fmax}[name]
    if type_name == "f32" and space == "global" and not i.has("noftz"):
        return lambda old, new: canonical(flush(flush(old, "f32") + flush(new, "f32"), "f32"), "f32")
    if type_name == "bf16":
        return lambda old, new: canonical(narrow(exact.sum_to_odd(*wide(old, new)), "bf16", "rn"), "bf16")
    return lambda old, new: canonical(old + new, type_name)


@handler("atom", "red")
def _atom(lanes: Lanes, i: Instruction) -> None:
    """Lane after lane: the old value goes to the destination, the operation's result to memory."""
    returns = i.opcode == "atom"
    memory, *values = i.operands[1:] if returns else i.operands
    width, count = bytes_of(i.type), _elements(i)
    places = Places(lanes, i, memory, width * count)
    name = "global_atomic_requests" if returns else "global_reduction_requests"
    if "global" in places.masks:
        lanes.launch.counts.add(name, i.source.line, int(places.masks["global"].any(axis=1).sum()))
    sources = [
        np.stack([np.broadcast_to(lanes.bits(e), lanes.mask.shape) for e in _listed(v)], axis=-1) for v in values
    ]
    if i.type == "b128":
        _swap_wide(lanes, i, places, [source[..., 0] for source in sources])
        return
    old = np.zeros((*lanes.mask.shape, count), f"u{width}")
    for mask, view, index in places.chunks():
        space = next(s for s, m in places.masks.items() if (m & mask).any())
        operation = _operation(i, space)
        for place, at in zip(np.argwhere(mask), index, strict=True):
            row, lane = place
            before = view[at].view(f"u{width}")
            old[row, lane] = before
            arguments = [decode(source[row, lane], i.type) for source in sources]
            view[at] = np.ascontiguousarray(encode(operation(decode(before, i.type), *arguments), i.type)).view(
                np.uint8
            )
    if returns:
        for k, element in enumerate(_listed(i.operands[0])):
            lanes.write(element, old[..., k], _integer_type(i.type))


def _swap_wide(lanes: Lanes, i: Instruction, places: Places, sources: list[np.ndarray]) -> None:
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
"""expected arrivals in the low 20 bits, then as many for the missing ones, then the number of the phase"""


@handler("mbarrier")
def _mbarrier(lanes: Lanes, i: Instruction) -> None:
    shape = lanes.mask.shape
    if i.has("pending_count"):
        lanes.write(i.operands[0], lanes.bits(i.operands[1]) >> np.uint64(_FIELD) & np.uint64(_COUNT), "u32")
    elif i.has("init") or i.has("inval"):
        count = lanes.read(i.operands[1], "u32") if i.has("init") else np.zeros((), np.uint32)
        wide = np.broadcast_to(count, shape).astype(np.uint64) & np.uint64(_COUNT)
        _object(lanes, i, i.operands[0]).store(_as_bytes(wide | wide << np.uint64(_FIELD)))
    elif i.has("arrive") or i.has("arrive_drop"):
        _arrive(lanes, i, i.operands[0], i.operands[1], i.operands[2] if len(i.operands) > 2 else Immediate(1))
    else:
        now = _object(lanes, i, i.operands[1]).load().view(np.uint64)[..., 0] >> np.uint64(2 * _FIELD)
        if i.has("parity"):
            over = (now & np.uint64(1)) != (lanes.read(i.operands[2], "u32") & 1)
        else:
            over = now != lanes.bits(i.operands[2]) >> np.uint64(2 * _FIELD)
        over = np.broadcast_to(over, shape)
        lanes.write(i.operands[0], over, "pred")
        lanes.state.gives_way[lanes.rows] |= lanes.mask & ~over
        lanes.state.failed_waits = lanes.state.failed_waits + 1 if not (lanes.mask & over).any() else 0


def _object(lanes: Lanes, i: Instruction, operand: Operand) -> Places:
    return Places(lanes, i.with_(modifiers=("shared",)), operand, 8)


def _as_bytes(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values[..., None]).view(np.uint8)


def _arrive(lanes: Lanes, i: Instruction, result: Operand, where: Operand, count: Operand) -> None:
    """The lanes arrive one after the other; each gets the state before."""
    old = np.zeros(lanes.mask.shape, np.uint64)
    counts = np.broadcast_to(lanes.read(count, "u32"), lanes.mask.shape)
    for mask, view, index in _object(lanes, i, where).chunks():
        for (row, lane), at in zip(np.argwhere(mask), index, strict=True):
            before = int(view[at].view(np.uint64)[0])
            old[row, lane] = before
            expected, missing, phase = before & _COUNT, before >> _FIELD & _COUNT, before >> 2 * _FIELD
            if i.has("arrive_drop"):
                expected = expected - int(counts[row, lane]) & _COUNT
            missing -= int(counts[row, lane])
            if missing <= 0:
                missing, phase = expected, phase + 1
            after = expected | missing << _FIELD | phase << 2 * _FIELD
            view[at] = np.array([after & (1 << 64) - 1], np.uint64).view(np.uint8)
    lanes.state.failed_waits = 0
    if not isinstance(result, Sink):
        lanes.write(result, old, "b64")

# ---------------------------------------------------------------- asynchronous copies


@handler("cp")
def _cp(lanes: Lanes, i: Instruction) -> None:
    if i.has("mbarrier"):
        _tie(lanes, i)
        return
    action = first_of(i, "commit_group", "wait_group", "wait_all", "ca", "cg")
    if not i.has("async") or action is None:
        raise unsupported(i)
    if action in ("ca", "cg"):
        _start_copy(lanes, i)
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


def _start_copy(lanes: Lanes, i: Instruction) -> None:
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
        _arrive(lanes, i, Sink(), i.operands[0], Immediate(1))


def _land(lanes: Lanes, copy: Copy) -> None:
    shared = lanes.state.shared[copy.block]
    if copy.address + len(copy.data) <= len(shared):
        shared[copy.address : copy.address + len(copy.data)] = copy.data
