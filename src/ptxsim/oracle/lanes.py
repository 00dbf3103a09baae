"""The lanes that execute one instruction together, the state that they work on, and who executes what.

Registers hold unsigned integers of their width, predicates booleans. A typed value is an array of the matching NumPy
type; bfloat16 and tf32 values are float32 arrays whose low bits are zero; packed types have a last axis of length 2.
Every instruction has one small handler, found by its opcode.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ptxsim.analysis.merging import SharedRequest
from ptxsim.errors import UnsupportedInstruction
from ptxsim.limits import WARP
from ptxsim.memory import Memory
from ptxsim.oracle.counters import Counts
from ptxsim.record import Terms
from ptxsim.syntax.program import (
    FLOAT_TYPES,
    RESERVED,
    WIDTH_BITS,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
    elements_of,
)

UNSIGNED: dict[int, type] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64, 128: np.object_}
"""NumPy types by width; 128 bits are Python's integers."""
_SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_FLOAT = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "tf32": np.float32}
PACKED = {"f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16"}
"""Packed types and the type of their two elements."""

CANONICAL_NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "tf32": 0x7FFFE000, "f32": 0x7FFFFFFF, "f64": 0xFFF8000000000000}
"""The NaN that arithmetic gives. The payload of a NaN source is not preserved (PTX ISA 9.7.3, 9.7.4); an H200 does
preserve it in f64, where PTX leaves it open, and gives this f64 NaN where no source is one."""


def register_dtype(type_name: str) -> type:
    """NumPy type of a register."""
    return np.bool_ if type_name == "pred" else UNSIGNED[WIDTH_BITS[type_name]]


def decode(bits: np.ndarray, type_name: str) -> np.ndarray:
    """Register bits read as `type_name`; a wider register gives its low bits."""
    if type_name == "pred":
        return bits.astype(np.bool_)
    width = WIDTH_BITS[type_name]
    bits = bits.astype(UNSIGNED[width])
    if type_name in PACKED:
        return decode(np.ascontiguousarray(bits[..., None]).view(np.uint16), PACKED[type_name])
    if type_name == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if type_name in _FLOAT:
        return bits.view(_FLOAT[type_name])
    return bits.view(_SIGNED[width]) if type_name[0] == "s" else bits


def encode(value: np.ndarray, type_name: str) -> np.ndarray:
    """The bits of a typed value, as an unsigned array of the type's width."""
    value = np.asarray(value)
    if type_name == "pred":
        return value.astype(np.bool_)
    if type_name in PACKED:
        halves = np.ascontiguousarray(encode(value, PACKED[type_name]))
        return halves.view(np.uint32)[..., 0]
    if type_name == "bf16":
        return (value.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    if type_name in _FLOAT:
        return value.astype(_FLOAT[type_name]).view(UNSIGNED[WIDTH_BITS[type_name]])
    return value.astype(UNSIGNED[WIDTH_BITS[type_name]])


def canonical(value: np.ndarray, type_name: str) -> np.ndarray:
    """`value` with every NaN replaced by the canonical one."""
    type_name = PACKED.get(type_name, type_name)
    nan = decode(np.array(CANONICAL_NAN[type_name], np.uint64), type_name)
    return np.where(np.isnan(value), nan, value).astype(value.dtype)


# ---------------------------------------------------------------- lanes and their state


SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW = 1 << 56, 1 << 57, 1 << 58
"""Where shared, local and parameter memory lie among generic addresses: above every address of the host."""
WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}


def shared_offset(address: int) -> int | None:
    """Where in a block's shared memory a generic address points; None for one that points elsewhere."""
    return address & (1 << 56) - 1 if address >> 56 == SHARED_WINDOW >> 56 else None


@dataclass
class Blocks:
    """What all blocks of a launch share."""

    kernel: Kernel
    terms: Terms
    memory: Memory
    globals: dict[str, int]
    """addresses of the module's variables"""
    counts: Counts
    shared_requests: dict[int, tuple[SharedRequest, ...]]
    """what the machine code asks for in place of shared loads"""
    printed: list[tuple[int, str]] = field(default_factory=list)
    """the linear index of a block, and what it has printed"""
    clock: int = 0
    """instructions executed so far, which is what the clock registers show"""
    runs: defaultdict[int, np.ndarray] = field(default_factory=lambda: defaultdict(lambda: np.zeros(2, int)))
    """basic block -> how many warps and how many threads have executed it"""

    def count_instructions(self) -> None:
        """Adds the instructions of all executed blocks to the counters; predication is no instruction."""
        for index, (warps, threads) in self.runs.items():
            for i in self.kernel.blocks[index].executed:
                self.counts.instruction(i, warps, threads)

    @cached_property
    def addresses(self) -> dict[str, int]:
        """Those of variables and parameters within their own state spaces."""
        own = {v.name: v.offset for v in self.kernel.variables.values() if v.space in ("shared", "local")}
        return {p.name: p.offset for p in self.kernel.params} | own | self.globals

    @cached_property
    def constants(self) -> frozenset[int]:
        """Addresses of the variables in constant memory."""
        declared = self.kernel.module.globals
        return frozenset(address for name, address in self.globals.items() if declared[name].space == "const")

    @cached_property
    def params(self) -> np.ndarray:
        """The parameter block."""
        return np.frombuffer(self.terms.params, np.uint8)

    @property
    def shared_bytes(self) -> int:
        """Static and dynamic shared memory of a block."""
        return self.kernel.block_shared_bytes(self.terms.shared_bytes)


TURNS = 1 << 32
"""More than there are blocks."""


@dataclass(frozen=True)
class Copy:
    """A cp.async on its way: bytes for a block's shared memory."""

    block: int
    address: int
    data: np.ndarray


class ThreadState:
    """Registers, memory and position of every thread of some blocks that run side by side.

    Thread arrays have shape (rows, 32): one row per warp, the warps of the first block first.
    """

    def __init__(self, launch: Blocks, blocks: Sequence[int]) -> None:
        self.launch = launch
        x, y, _ = launch.terms.block
        self.warps = launch.terms.warps
        self.shape = (self.warps * len(blocks), WARP)
        number = np.tile(np.arange(self.warps * WARP).reshape(self.warps, WARP), (len(blocks), 1))
        self.thread = (number % x, number // x % y, number // (x * y))
        self.block_of_row = np.repeat(np.arange(len(blocks)), self.warps)[:, None]
        block = np.array(blocks)[self.block_of_row]
        x, y, _ = launch.terms.grid
        self.number_of_row = block
        """linear index of each row's block, shape (rows, 1)"""
        self.block = (block % x, block // x % y, block // (x * y))
        self.registers: dict[str, np.ndarray] = {
            n: np.zeros(self.shape, register_dtype(t)) for n, t in launch.kernel.registers.items()
        }
        self.carry = np.zeros(self.shape, np.bool_)
        self.shared = np.full((len(blocks), launch.shared_bytes), 0xFF, np.uint8)
        if (reserved := launch.kernel.variables.get(RESERVED)) is not None:
            self.shared[:, reserved.offset : reserved.offset + reserved.size_bytes] = 0
        self.local = np.full((self.shape[0] * WARP, launch.kernel.local_bytes), 0xFF, np.uint8)
        self.pc = np.zeros(self.shape, np.int64)
        self.done = number >= launch.terms.threads
        self.waits_at = np.full(self.shape, -1)
        """number of the block barrier at which a lane waits, -2 at a warp barrier, -1 for none"""
        self.warp_mask = np.zeros(self.shape, np.uint32)
        self.expected = np.zeros(self.shape, np.int64)
        """how many threads the block barrier at which a lane waits is for, 0 for all"""
        self.waits_for = np.full(self.shape, None, object)
        """the block barrier's instruction"""
        self.copies: defaultdict[tuple[int, int], list[list[Copy]]] = defaultdict(lambda: [[]])
        """(row, lane) -> its groups of asynchronous copies that have not landed; the last group is still open"""
        self.gives_way = np.zeros(self.shape, np.bool_)
        """lanes that have looked at a barrier object in vain: the others go on before them"""
        self.failed_waits = 0
        """since an arrival or the end of a wait"""
        size = math.prod(launch.terms.cluster)
        self.cluster_of_row, self.rank_of_row = self.block_of_row // size, self.block_of_row % size
        self.cluster_arrivals: defaultdict[int, int] = defaultdict(int)
        """threads of a cluster that have come to its barrier in this phase"""
        self.cluster_phase = np.zeros(len(blocks), np.int64)
        self.arrived_in = np.zeros(self.shape, np.int64)
        """the phase in which a lane came to it"""
        self.arrivals: defaultdict[tuple[int, int], int] = defaultdict(int)
        """(block, named barrier) -> threads that have arrived there without waiting"""
        self.brought = np.zeros(self.shape, np.bool_)
        """the predicate that a lane brought to a bar.red"""

    def turns(self) -> np.ndarray:
        """Who runs first: lanes that are deepest in calls, and of them those at the lowest block."""
        pointer = self.launch.kernel.stack_pointer
        return self.pc if pointer is None else self.pc - self.registers[pointer].astype(np.int64) * TURNS

    def place(self, row: int, lane: int) -> str:
        """Block and thread of a lane, for messages."""
        block = tuple(int(axis[row, 0]) for axis in self.block)
        return f"block {block}, thread {tuple(int(axis[row, lane]) for axis in self.thread)}"


class ActiveLanes:
    """Some rows (warps) and the mask of their lanes that execute."""

    def __init__(self, state: ThreadState, rows: slice, mask: np.ndarray) -> None:
        self.state = state
        self.launch = state.launch
        self.rows = rows
        self.mask = mask

    @property
    def row_numbers(self) -> np.ndarray:
        """Numbers of the rows among all of the state, shape (rows, 1)."""
        return np.arange(self.state.shape[0])[self.rows][:, None]

    # ---------------------------------------------------------------- operands

    def bits(self, operand: Operand) -> np.ndarray:
        """Raw bits of a source: shape (rows, 32), or (1, 1) for a constant."""
        match operand:
            case Register(name):
                return self.state.registers[name][self.rows]
            case Immediate(value):
                return np.array([[value & (1 << 64) - 1]], np.uint64)
            case Special(name):
                return np.atleast_2d(self.special(name)).astype(np.uint64)
            case Symbol(name, offset):
                if name not in self.launch.addresses:
                    raise UnsupportedInstruction(f"'{name}' has no address here")
                return np.array([[(self.launch.addresses[name] + offset) & (1 << 64) - 1]], np.uint64)
        raise TypeError(f"no value: {operand}")

    def read(self, operand: Operand, type_name: str) -> np.ndarray:
        """A source read as a PTX type."""
        return decode(self.bits(operand), type_name)

    def each(self, operand: Operand, type_name: str) -> np.ndarray:
        """The same for each lane, a constant too: shape (rows, 32)."""
        return np.broadcast_to(self.read(operand, type_name), self.mask.shape)

    @property
    def busy(self) -> np.ndarray:
        """Which rows have an active lane."""
        return np.logical_or.reduce(self.mask, axis=1)

    def write(self, operand: Operand, value: np.ndarray, type_name: str) -> None:
        """Writes the active lanes of a destination; a wider register is sign- or zero-extended."""
        if isinstance(operand, Sink):
            return
        assert isinstance(operand, Register)
        register = self.state.registers[operand.name][self.rows]
        bits: Any = encode(value, type_name)
        if type_name[0] == "s" and register.dtype.itemsize > bits.dtype.itemsize:
            bits = bits.view(f"i{bits.dtype.itemsize}").astype(f"i{register.dtype.itemsize}")
        np.copyto(register, bits.astype(register.dtype), where=self.mask)

    def special(self, name: str) -> np.ndarray | int:
        """A special register (PTX ISA, section 10)."""
        base, _, axis = name.partition(".")
        state, launch = self.state, self.launch
        if axis in ("x", "y", "z"):
            k = "xyz".index(axis)
            here, size, side = state.block[k][self.rows], launch.terms.grid[k], launch.terms.cluster[k]
            vectors: dict[str, np.ndarray | int] = {
                "tid": state.thread[k][self.rows], "ntid": launch.terms.block[k], "ctaid": here, "nctaid": size,
                "clusterid": here // side, "nclusterid": size // side, "cluster_ctaid": here % side,
                "cluster_nctaid": side,
            }  # fmt: skip
            return vectors[base]
        lane = np.arange(WARP)[None, :]
        one = np.uint64(1) << lane.astype(np.uint64)
        below, full = one - np.uint64(1), np.uint64(0xFFFFFFFF)
        values: dict[str, np.ndarray | int] = {
            "laneid": lane,
            "warpid": self.row_numbers % state.warps,
            "nwarpid": state.warps,
            "total_smem_size": launch.shared_bytes,
            "aggr_smem_size": launch.shared_bytes,
            "dynamic_smem_size": launch.terms.shared_bytes,
            "lanemask_eq": one,
            "lanemask_lt": below,
            "lanemask_le": below | one,
            "lanemask_gt": full ^ (below | one),
            "lanemask_ge": full ^ below,
            **dict.fromkeys(("ntid", "nctaid", "cluster_nctaid", "nclusterid"), 1),  # .w
            **dict.fromkeys(("tid", "ctaid", "cluster_ctaid", "clusterid"), 0),
            **dict.fromkeys(("clock", "clock64", "globaltimer", "globaltimer_lo"), launch.clock),
            "nsmid": 1,
            "cluster_nctarank": math.prod(launch.terms.cluster),
            "cluster_ctarank": state.rank_of_row[self.rows],
            "is_explicit_cluster": int(math.prod(launch.terms.cluster) > 1),
            **dict.fromkeys(("smid", "gridid", "clock_hi", "globaltimer_hi"), 0),
        }
        if base not in values:
            raise UnsupportedInstruction(f"the oracle has no special register '%{name}'")
        return values[base]


# ---------------------------------------------------------------- handlers


Handler = Callable[[ActiveLanes, Instruction], None]
ValueFunction = TypeVar("ValueFunction", bound=Callable[..., Any])
Types = Callable[[Instruction], tuple[str, ...]]

HANDLERS: dict[str, Handler] = {}


def handler(*opcodes: str) -> Callable[[Handler], Handler]:
    """Registers a function of (lanes, instruction) for `opcodes`: "add.float" and "add.cc" are the additions of
    floating-point numbers and with a carry."""

    def register(function: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(opcodes, function))
        return function

    return register


def handler_of(i: Instruction) -> Handler:
    own = i.opcode
    if i.has("cc"):
        own += ".cc"
    elif i.types and i.type in FLOAT_TYPES:
        own += ".float"
    found = HANDLERS.get(own) or HANDLERS.get(i.opcode)
    if found is None:
        raise unsupported(i)
    return found


def value(
    *opcodes: str, sources: Types | None = None, result: Callable[[Instruction], str] | None = None
) -> Callable[[ValueFunction], ValueFunction]:
    """Registers a function of (instruction, typed sources...) that gives the typed result.

    `sources` and `result` name the PTX types of the operands; by default the instruction's last type is that of all.
    A result for two destinations (a pair or a vector) is a tuple.
    """

    def register(function: ValueFunction) -> ValueFunction:
        @handler(*opcodes)
        def execute(lanes: ActiveLanes, i: Instruction) -> None:
            types = sources(i) if sources else (i.type,) * (len(i.operands) - 1)
            found = function(i, *(lanes.read(o, t) for o, t in zip(i.operands[1:], types, strict=True)))
            results = found if isinstance(found, tuple) else (found,)
            for target, one in zip(elements_of(i.operands[0]), results, strict=True):
                lanes.write(target, one, result(i) if result else i.type)

        return function

    return register


def operations(
    functions: Mapping[str, Callable[..., Any]], *, sources: Types | None = None,
    result: Callable[[Instruction], str] | None = None,
) -> None:  # fmt: skip
    """Registers functions of the typed sources alone, by opcode; the rest is as in `value`."""
    for opcode, function in functions.items():
        value(opcode, sources=sources, result=result)(lambda i, *xs, function=function: function(*xs))


def unsupported(i: Instruction, why: str = "") -> UnsupportedInstruction:
    return UnsupportedInstruction(
        f"the oracle does not execute '{i.full_name}'{': ' + why if why else ''}", line=i.source.line
    )


def first_of(i: Instruction, *modifiers: str) -> str | None:
    """The first of `modifiers` that the instruction has."""
    return next((m for m in modifiers if m in i.modifiers), None)
