"""Traps, calls of the CUDA runtime, and instructions without an effect here (PTX ISA 9.7.12, 9.7.13, 9.7.19)."""

from __future__ import annotations

import numpy as np

from ptxsim.errors import KernelTrap
from ptxsim.heap import HEAP_ALIGNMENT
from ptxsim.limits import WARP
from ptxsim.oracle.clusters import arrive
from ptxsim.oracle.lanes import WINDOWS, ActiveLanes, handler, unsupported
from ptxsim.oracle.memory import CLUSTER_SHIFT
from ptxsim.printf import BAD_STRING, NO_FORMAT, NO_TEXT, formatted, zero_ended
from ptxsim.syntax.program import Instruction, InstructionOrigin, Operand, Symbol


@handler(
    "membar",
    "fence",
    "prefetch",
    "prefetchu",
    "discard",
    "applypriority",
    "nanosleep",
    "griddepcontrol",
    "brkpt",
    "pmevent",
)
def _no_effect(lanes: ActiveLanes, i: Instruction) -> None:
    pass


@handler("createpolicy")
def _createpolicy(lanes: ActiveLanes, i: Instruction) -> None:
    lanes.write(i.operands[0], np.zeros(lanes.mask.shape, np.uint64), "b64")


@handler("bar", "barrier")
def _arrive(lanes: ActiveLanes, i: Instruction) -> None:
    """bar.arrive: the warps are counted at a barrier and go on; those that wait end a basic block (`machine`)."""
    if i.has("cluster"):
        arrive(lanes)
        return
    lanes.launch.counts.add("barriers", i.source.line, lanes.busy.sum())
    numbers = lanes.each(i.operands[0], "u32")
    for row in np.flatnonzero(lanes.busy):
        block = int(lanes.state.block_of_row[lanes.row_numbers[row, 0], 0])
        lanes.state.arrivals[block, int(numbers[row, np.argmax(lanes.mask[row])])] += WARP


@handler("trap")
def _trap(lanes: ActiveLanes, i: Instruction) -> None:
    what = {
        InstructionOrigin.STACK: "the call stack is full",
        InstructionOrigin.POINTER: "a call through a pointer that is no function",
        InstructionOrigin.NULL_POINTER: "a call through a null pointer",
        InstructionOrigin.HOST_POINTER: "a call through a pointer to a function of the host",
    }
    told = what.get(i.origin, "the kernel executed trap")
    raise KernelTrap(f"{told} in {_first_thread(lanes)}", line=i.source.line)


@handler("call")
def _call(lanes: ActiveLanes, i: Instruction) -> None:
    result, callee, *arguments = i.operands
    assert isinstance(callee, Symbol)
    values = [np.broadcast_to(lanes.bits(a), lanes.mask.shape) for a in arguments]
    if callee.name == "vprintf":
        returned = np.zeros(lanes.mask.shape, np.int32)
        for row, lane in np.argwhere(lanes.mask):
            returned[row, lane] = _print(lanes, row, lane, int(values[0][row, lane]), int(values[1][row, lane]))
        lanes.write(result, returned, "s32")
        return
    if i.origin is InstructionOrigin.HEAP:
        _heap(lanes, i, callee.name, result, values)
        return
    if callee.name != "__assertfail":
        raise unsupported(i, f"there is no function '{callee.name}'")
    row, lane = np.argwhere(lanes.mask)[0]
    texts = (_string_at(lanes, row, lane, int(values[k][row, lane])) for k in (0, 1, 3))
    message, file, function = (text.decode("utf-8", "replace") for text in texts)
    raise KernelTrap(
        f"assertion `{message}` failed in {function}, {_first_thread(lanes)}", file=file, line=int(values[2][row, lane])
    )


def _heap(lanes: ActiveLanes, i: Instruction, name: str, result: Operand, values: list[np.ndarray]) -> None:
    """malloc and free, thread by thread."""
    heap, line = lanes.launch.memory.device_heap(), i.source.line
    given = np.zeros(lanes.mask.shape, np.uint64)
    for row, lane in np.argwhere(lanes.mask):
        value = int(values[0][row, lane])
        if name == "free":
            heap.free(value, line)
        else:
            alignment = int(values[1][row, lane]) if len(values) > 1 else HEAP_ALIGNMENT
            block = heap.allocate(value, line, alignment)
            given[row, lane] = block.address if block is not None else 0
    if name != "free":
        lanes.write(result, given, "b64")


def _first_thread(lanes: ActiveLanes) -> str:
    row, lane = np.argwhere(lanes.mask)[0]
    return lanes.state.place(int(lanes.row_numbers[row, 0]), lane)


def _memory_at(lanes: ActiveLanes, row: int, lane: int, address: int) -> tuple[np.ndarray, int]:
    """The memory that a generic address leads to, as one thread sees it, and where in it; -1 for outside."""
    space = next((name for name, window in WINDOWS.items() if address >> 56 == window >> 56), "global")
    if space == "global":
        a = lanes.launch.memory.find(address)
        return (a.view(), address - a.address) if a else (np.zeros(0, np.uint8), -1)
    state, number, at = lanes.state, int(lanes.row_numbers[row, 0]), address & (1 << 56) - 1
    block = int(state.block_of_row[number, 0])
    if space == "shared" and at >> CLUSTER_SHIFT:
        block += (at >> CLUSTER_SHIFT) - 1 - int(state.rank_of_row[number, 0])
        at &= (1 << CLUSTER_SHIFT) - 1
    shared, local = state.shared[block], state.local[number * WARP + lane]
    return {"shared": shared, "local": local, "param": lanes.launch.params}[space], at


def _string_at(lanes: ActiveLanes, row: int, lane: int, address: int, most: int | None = None) -> bytes:
    """The zero-terminated string at a generic address, up to so many bytes."""
    view, at = _memory_at(lanes, row, lane, address)
    return zero_ended(view, at, len(view) if most is None else most)[0]


def _print(lanes: ActiveLanes, row: int, lane: int, text: int, arguments: int) -> int:
    """Prints for a thread; what its call returns."""
    if not text:
        return NO_FORMAT

    def argument(offset: int, size: int) -> bytes:
        view, at = _memory_at(lanes, row, lane, arguments + offset)
        return bytes(view[at : at + size] if at >= 0 else b"").ljust(size, b"\0")

    pattern = _string_at(lanes, row, lane, text)
    if pattern is BAD_STRING:
        return NO_TEXT
    made = formatted(pattern, argument, lambda address, most: _string_at(lanes, row, lane, address, most))
    number = lanes.state.number_of_row[lanes.row_numbers[row, 0], 0]
    lanes.launch.printed.append((int(number), made.text))
    return made.arguments
