"""The lanes that execute one instruction together, the state that they work on, and who executes what.

Registers hold unsigned integers of their width, predicates booleans. A typed value is an array of the matching NumPy
type; bfloat16 and tf32 values are float32 arrays whose low bits are zero; packed types have a last axis of length 2.
Every instruction has one small handler, found by its opcode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ptxsim.analysis.merging import Request
from ptxsim.errors import UnsupportedInstruction
from ptxsim.limits import WARP
from ptxsim.memory import Memory
from ptxsim.oracle.counters import Counts
from ptxsim.record import Terms
from ptxsim.syntax.program import (
    WIDTH_BITS,
    Block,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
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
    shared_requests: dict[int, tuple[Request, ...]]
    """what the machine code asks for in place of shared loads"""
    printed: list[str] = field(default_factory=list)
    clock: int = 0
    """instructions executed so far, which is what the clock registers show"""
    runs: dict[int, list[int]] = field(default_factory=dict)
    """basic block -> how many warps and how many threads have executed it"""

    def executed(self, block: Block, warps: int, threads: int) -> None:
        run = self.runs.setdefault(block.index, [0, 0])
        run[0] += warps
        run[1] += threads

    def count_instructions(self) -> None:
        """Adds the instructions of all executed blocks to the counters; predication is no instruction."""
        for index, (warps, threads) in self.runs.items():
            block = self.kernel.blocks[index]
            for i in block.executed:
                self.counts.instruction(i, warps, threads)

    @cached_property
    def params(self) -> np.ndarray:
        """The parameter block."""
        return np.frombuffer(self.terms.params, np.uint8)

    @property
    def shared_bytes(self) -> int:
        """Static and dynamic shared memory of a block."""
        dynamic = [v.offset for v in self.kernel.variables.values() if v.space == "shared" and v.external]
        return max([self.kernel.shared_bytes, *dynamic]) + self.terms.shared_bytes


TURNS = 1 << 32
"""More than there are blocks."""


@dataclass(frozen=True)
class Copy:
    """A cp.async on its way: bytes for a block's shared memory."""

    block: int
    address: int
    data: np.ndarray


class State:
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
        self.block = (block % x, block // x % y, block // (x * y))
        self.registers: dict[str, np.ndarray] = {
            n: np.zeros(self.shape, register_dtype(t)) for n, t in launch.kernel.registers.items()
        }
        self.carry = np.zeros(self.shape, np.bool_)
        self.shared = np.full((len(blocks), launch.shared_bytes), 0xFF, np.uint8)
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
        self.copies: dict[tuple[int, int], list[list[Copy]]] = {}
        """(row, lane) -> its groups of asynchronous copies that have not landed; the last group is still open"""
        self.gives_way = np.zeros(self.shape, np.bool_)
        """lanes that have looked at a barrier object in vain: the others go on before them"""
        self.failed_waits = 0
        """since an arrival or the end of a wait"""
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

    def __init__(self, state: State, rows: slice, mask: np.ndarray) -> None:
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
                return np.array([[(self.address_of(name) + offset) & (1 << 64) - 1]], np.uint64)
        raise TypeError(f"no value: {operand}")

    def read(self, operand: Operand, type_name: str) -> np.ndarray:
        """A source read as a PTX type."""
        return decode(self.bits(operand), type_name)

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

    # ---------------------------------------------------------------- names

    def address_of(self, name: str) -> int:
        """Address of a variable or parameter within its own state space."""
        launch = self.launch
        if name in launch.globals:
            return launch.globals[name]
        v = launch.kernel.variables.get(name)
        if v is not None and v.space in ("shared", "local"):
            return v.offset
        for p in launch.kernel.params:
            if p.name == name:
                return p.offset
        raise UnsupportedInstruction(f"'{name}' has no address here")

    def special(self, name: str) -> np.ndarray | int:
        """A special register (PTX ISA, section 10)."""
        base, _, axis = name.partition(".")
        state, launch = self.state, self.launch
        rows = self.row_numbers
        lane = np.arange(WARP)[None, :]
        if base in _VECTORS:
            k = "xyzw".index(axis)
            if k == 3:
                return int(base in ("ntid", "nctaid", "cluster_nctaid", "nclusterid"))
            vectors: dict[str, np.ndarray | int] = {
                "tid": state.thread[k][self.rows],
                "ntid": launch.terms.block[k],
                "ctaid": state.block[k][self.rows],
                "nctaid": launch.terms.grid[k],
                "clusterid": state.block[k][self.rows],
                "nclusterid": launch.terms.grid[k],
                "cluster_ctaid": 0,
                "cluster_nctaid": 1,
            }
            return vectors[base]
        if base.startswith("lanemask_"):
            one = np.uint64(1) << lane.astype(np.uint64)
            full = np.uint64(0xFFFFFFFF)
            below = one - np.uint64(1)
            masks = {"eq": one, "lt": below, "le": below | one, "gt": full ^ (below | one), "ge": full ^ below}
            return masks[base[9:]]
        if base in ("clock", "clock64", "globaltimer", "globaltimer_lo"):
            return launch.clock
        values: dict[str, np.ndarray | int] = {
            "laneid": lane,
            "warpid": rows % state.warps,
            "nwarpid": state.warps,
            "total_smem_size": launch.shared_bytes,
            "aggr_smem_size": launch.shared_bytes,
            "dynamic_smem_size": launch.terms.shared_bytes,
            "nsmid": 1,
            "cluster_nctarank": 1,
        }
        zeros = ("smid", "gridid", "clock_hi", "globaltimer_hi", "is_explicit_cluster", "cluster_ctarank")
        if base not in values and base not in zeros:
            raise UnsupportedInstruction(f"the oracle has no special register '%{name}'")
        return values.get(base, 0)


_VECTORS = frozenset({"tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid"})

# ---------------------------------------------------------------- handlers


Handler = Callable[[ActiveLanes, Instruction], None]
ValueFunction = TypeVar("ValueFunction", bound=Callable[..., Any])
Types = Callable[[Instruction], tuple[str, ...]]

HANDLERS: dict[str, Handler] = {}


def handler(*opcodes: str) -> Callable[[Handler], Handler]:
    """Registers a function of (lanes, instruction) for `opcodes`."""

    def register(function: Handler) -> Handler:
        for opcode in opcodes:
            HANDLERS[opcode] = function
        return function

    return register


def value(
    *opcodes: str, sources: Types | None = None, result: Callable[[Instruction], str] | None = None
) -> Callable[[ValueFunction], ValueFunction]:
    """Registers a function of (instruction, typed sources...) that gives the typed result.

    `sources` and `result` name the PTX types of the operands; by default the instruction's last type is that of all.
    A result for two destinations (a pair or a vector) is a tuple.
    """

    def register(function: ValueFunction) -> ValueFunction:
        def execute(lanes: ActiveLanes, i: Instruction) -> None:
            types = sources(i) if sources else (i.type,) * (len(i.operands) - 1)
            arguments = [lanes.read(o, t) for o, t in zip(i.operands[1:], types, strict=True)]
            results = function(i, *arguments)
            type_name = result(i) if result else i.type
            destination = i.operands[0]
            if isinstance(results, tuple):
                assert isinstance(destination, Pair | Vector)
                targets = (
                    destination.elements if isinstance(destination, Vector) else (destination.first, destination.second)
                )
                for target, one in zip(targets, results, strict=True):
                    lanes.write(target, one, type_name)
            else:
                lanes.write(destination, results, type_name)

        for opcode in opcodes:
            HANDLERS[opcode] = execute
        return function

    return register


def unsupported(i: Instruction, why: str = "") -> UnsupportedInstruction:
    return UnsupportedInstruction(
        f"the oracle does not execute '{i.full_name}'{': ' + why if why else ''}", line=i.source.line
    )


def first_of(i: Instruction, *modifiers: str) -> str | None:
    """The first of `modifiers` that the instruction has."""
    return next((m for m in modifiers if m in i.modifiers), None)
