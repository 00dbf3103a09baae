"""The data model of a PTX program: what the parser makes and everything else reads.

Text becomes a `PtxFile` of `Function`s (`parse`), an entry function becomes a `Kernel` of basic blocks (`cfg`).
Registers hold raw bits: a register's type gives its width and nothing else; each instruction says how it reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import lru_cache
from typing import Any, TypeVar

from ptxsim.isa import BY_SPACE, BY_TYPE, HEAP_CALL, INSTRUCTIONS, UNKNOWN, Row
from ptxsim.syntax.computed import computed

WIDTH_BITS = {
    "pred": 1,
    "b8": 8, "u8": 8, "s8": 8,
    "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "e4m3x2": 16, "e5m2x2": 16,
    "b32": 32, "u32": 32, "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "u16x2": 32, "s16x2": 32, "tf32": 32,
    "b64": 64, "u64": 64, "s64": 64, "f64": 64,
    "b128": 128,
}  # fmt: skip
"""Width in bits of every PTX fundamental and packed type (PTX ISA, 5.2)."""

FLOAT_TYPES = frozenset({"f16", "bf16", "f32", "f64", "f16x2", "bf16x2", "tf32"})
FLOAT8_TYPES = frozenset({"e4m3x2", "e5m2x2"})
_ARITHMETIC = (("fp64", {"f64"}), ("fp32", {"f32"}), ("fp16", {"f16", "f16x2", "bf16", "bf16x2"}))
"""Classes of arithmetic by type; what has none of these types is counted as integer."""


def bytes_of(type_name: str) -> int:
    """Size in memory of one element of a PTX type."""
    return max(1, WIDTH_BITS[type_name] // 8)


# ---------------------------------------------------------------- operands


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register, `%r7`."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant. `bits` is a Python int: an integer literal's value, or the raw bits of a 0f/0d literal."""

    bits: int


@dataclass(frozen=True, slots=True)
class Special:
    """A special register without its percent sign, `tid.x`."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a variable, parameter or function, plus a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """A memory operand, `[base+offset]`, or with coordinates `[base, {%r1, %r2}]`."""

    base: Register | Symbol | Immediate
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """A brace list, `{%r1, %r2}`."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class ResultPair:
    """Two destinations, `%r1|%p2` (shfl, setp)."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Sink:
    """The bit bucket `_`."""


Operand = Register | Immediate | Special | Symbol | Address | Vector | ResultPair | Sink


@dataclass(frozen=True, slots=True)
class Guard:
    """The `@%p` or `@!%p` in front of an instruction."""

    register: str
    negated: bool = False


# ---------------------------------------------------------------- instructions


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of CUDA C++: index into `PtxFile.files` and 1-based line. Code inlined from a header carries the line of
    its call.

    `calls`: the lines of the same file that called the function around it, the nearest first.
    """

    file: int = 0
    line: int = 0
    calls: tuple[int, ...] = ()

    def called_from(self, call: SourceLine) -> SourceLine:
        """The same line in a copy of its function for this call."""
        return replace(self, calls=(*self.calls, call.line, *call.calls)) if self.line and call.line else self


class InstructionOrigin(Enum):
    """Why an instruction is there. No PTX text can spell it, so that no text can pass for what the simulator adds."""

    TEXT = auto()
    """the PTX has it, or one that it stands for"""
    ADDED = auto()
    """it stands for a predicate, moves the call stack or half of a 16-byte access: no counter counts it"""
    STACK = auto()
    """a call that is left for the stack, and the trap where the stack is full"""
    POINTER = auto()
    """the trap where a call's pointer leads to no function"""
    NULL_POINTER = auto()
    """the trap where it is null"""
    HOST_POINTER = auto()
    """the trap where it is none that a module gave: the address of the host's function of the same name"""
    HEAP = auto()
    """a call of the device heap's functions"""


TWICE = "its first factor twice"
"""A modifier of fma, mad and mul of floating-point types that no PTX text can spell; see `kernel.doubled`."""


@lru_cache(maxsize=4096)
def row_of(opcode: str, modifiers: tuple[str, ...]) -> Row:
    """What the table of instructions says of one in this variant."""
    row = INSTRUCTIONS.get(opcode, UNKNOWN)
    return row.of(modifiers) if row.variants else row


@dataclass(frozen=True)
class Instruction:
    """One PTX instruction: `@guard opcode.modifiers operands;`."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None = None
    source: SourceLine = SourceLine()
    ptx_line: int = 0
    targets: tuple[str, ...] = ()
    """Labels: of bra and brx.idx, and of the place behind a call on the stack."""
    origin: InstructionOrigin = InstructionOrigin.TEXT
    selectors: tuple[str, ...] = ()
    """For each operand of a video instruction, the part that is meant (`syntax.video`); empty where all are whole."""

    @computed
    def row(self) -> Row:
        """What the table of instructions says of it."""
        if self.origin is InstructionOrigin.HEAP:
            return HEAP_CALL
        return row_of(self.opcode, self.modifiers)

    @computed
    def full_name(self) -> str:
        """Opcode with modifiers, as written."""
        return ".".join((self.opcode, *self.modifiers))

    @computed
    def types(self) -> tuple[str, ...]:
        """The modifiers that are types, in order: (destination, source) for cvt, else usually one."""
        return tuple(m for m in self.modifiers if m in WIDTH_BITS)

    @computed
    def type(self) -> str:
        """The last type modifier: the type in which the sources are read."""
        return self.types[-1]

    @computed
    def space(self) -> str:
        """The state space of a memory instruction; "generic" where none is written, "cluster" for shared::cluster."""
        if "shared::cluster" in self.modifiers:
            return "cluster"
        bases = (m.split("::")[0] for m in self.modifiers)
        return next((m for m in bases if m in ("global", "shared", "local", "param", "const")), "generic")

    @property
    def spaces(self) -> frozenset[str]:
        """State spaces that it accesses, where the table says what it does; empty where it accesses none."""
        return frozenset(access.space or self.space for access in self.row.accesses or ())

    @property
    def renames(self) -> bool:
        """Whether it only gives a register's value another name."""
        named = self.opcode == "mov" and len(self.written) == len(self.read) == 1
        return named and isinstance(self.operands[1], Register)

    @property
    def result(self) -> Operand | None:
        """Its destination, if it has one."""
        operands = self.operands
        return operands[0] if operands and self.row.has_result and type(operands[0]) is not Address else None

    @property
    def sources(self) -> tuple[Operand, ...]:
        """Its operands behind the destination."""
        return self.operands if self.result is None else self.operands[1:]

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """The operands that it reads: its destination too, where that is updated."""
        return self.operands if self.row.updates else self.sources

    @computed
    def written(self) -> tuple[str, ...]:
        """Registers that it writes."""
        result = self.result
        return () if result is None else registers_in(result)

    @computed
    def read(self) -> tuple[str, ...]:
        """Registers that it reads, its guard included."""
        guard = (self.guard.register,) if self.guard else ()
        return (*guard, *(name for operand in self.inputs for name in registers_in(operand)))

    @computed
    def counted(self) -> str:
        """The class under which it is counted (`ptxsim.counters`)."""
        counted = self.row.counted
        if counted == BY_SPACE:
            spaces = {"shared": "memory_shared", **dict.fromkeys(("param", "local", "const"), "other")}
            return spaces.get(self.space, "memory_global")
        if counted == BY_TYPE:
            return next((name for name, types in _ARITHMETIC if not types.isdisjoint(self.modifiers)), "integer")
        return counted

    @property
    def added(self) -> bool:
        """Whether no counter counts it."""
        return self.origin is InstructionOrigin.ADDED

    def has(self, modifier: str) -> bool:
        return modifier in self.modifiers

    def with_(self, **changes: Any) -> Instruction:
        return replace(self, **changes)

    def __str__(self) -> str:
        guard = f"@{'!' if self.guard.negated else ''}{self.guard.register} " if self.guard else ""
        return f"{guard}{self.full_name}"


# ---------------------------------------------------------------- variables and functions


@dataclass(frozen=True)
class Variable:
    """A declared variable. `offset` is set by the layout: within its space's block frame (shared, local)."""

    name: str
    space: str
    type: str
    size_bytes: int
    align: int
    initial: bytes = b""
    relocations: tuple[tuple[int, str, int], ...] = ()
    """(byte offset, symbol, addend): initialisers that hold addresses."""
    offset: int = 0
    external: bool = False
    """`.extern .shared x[]`: starts where static shared memory ends."""


RESERVED, RESERVED_BYTES = "reserved area", 288
"""The part of shared memory that libraries may use behind a kernel's back, at %reserved_smem_offset_1: as a variable of
the kernel's that begins as zeros. Cooperative groups count on as many bytes for tiles of several warps."""


def source_name(name: str) -> str:
    """The source name inside a mangled one: _ZZ6matmulE5tileA -> tileA."""
    tail = name.rsplit("E", 1)[-1] if name.startswith("_ZZ") else name
    digits = len(tail) - len(tail.lstrip("0123456789"))
    return tail[digits : digits + int(tail[:digits])] if digits and digits < len(tail) else tail or name


@dataclass(frozen=True)
class Param:
    """A kernel parameter: its place in the parameter block."""

    name: str
    type: str
    size_bytes: int
    align: int
    offset: int


@dataclass
class Function:
    """A parsed function: a flat list of instructions and labels, in order."""

    name: str
    is_entry: bool
    params: tuple[Param, ...]
    returns: tuple[Param, ...] = ()
    registers: dict[str, str] = field(default_factory=dict)
    """register name -> PTX type"""
    variables: dict[str, Variable] = field(default_factory=dict)
    """its own .shared and .local variables"""
    body: list[Instruction | str] = field(default_factory=list)
    """instructions, and labels as plain strings"""
    max_threads: int | None = None
    """.maxntid's product, from __launch_bounds__"""
    cluster: tuple[int, int, int] | None = None
    """.reqnctapercluster, from __cluster_dims__"""

    @property
    def home_file(self) -> int:
        """The index in `PtxFile.files` of the file that it is written in; 0 where nothing says so."""
        own = (i.source.file for i in self.body if isinstance(i, Instruction) and i.source.line)
        return next(own, 0)


@dataclass
class PtxFile:
    """A parsed PTX file."""

    functions: dict[str, Function]
    globals: dict[str, Variable]
    """module-scope .global, .const and .shared variables"""
    files: dict[int, str]
    """.file index -> name"""
    target: str = ""
    version: str = ""

    @property
    def entries(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.functions.values() if f.is_entry)


# ---------------------------------------------------------------- control-flow graph


@dataclass(frozen=True)
class Jump:
    target: int
    source: SourceLine = SourceLine()
    """where the `bra` stood, if there was one"""


@dataclass(frozen=True)
class Branch:
    """Lanes whose guard holds go to `taken`, the others to `fallthrough`."""

    guard: Guard
    taken: int
    fallthrough: int
    instruction: Instruction


@dataclass(frozen=True)
class Switch:
    """brx.idx: lane goes to targets[index]."""

    index: Operand
    targets: tuple[int, ...]
    instruction: Instruction


@dataclass(frozen=True)
class Barrier:
    """bar/barrier.sync and bar/barrier.red: the warp waits for the block, then goes on at `target`."""

    target: int
    instruction: Instruction


@dataclass(frozen=True)
class WarpBarrier:
    """bar.warp.sync: the lanes of its mask meet, then go on at `target`."""

    target: int
    instruction: Instruction


@dataclass(frozen=True)
class Return:
    instruction: Instruction | None


Terminator = Jump | Branch | Switch | Barrier | WarpBarrier | Return


def successors(end: Terminator) -> tuple[int, ...]:
    """Where control may go on."""
    match end:
        case Branch(_, taken, fallthrough, _):
            return (taken, fallthrough)
        case Switch(_, targets, _):
            return targets
        case Return():
            return ()
        case _:
            return (end.target,)


def retargeted(end: Terminator, place: Sequence[int] | Mapping[int, int]) -> Terminator:
    """The terminator with every target k replaced by place[k]; a branch to one place is a jump."""
    match end:
        case Branch(guard, taken, fallthrough, i):
            if place[taken] == place[fallthrough]:
                return Jump(place[taken])
            return Branch(guard, place[taken], place[fallthrough], i)
        case Switch(index, targets, i):
            return Switch(index, tuple([place[t] for t in targets]), i)
        case Return():
            return end
        case _:
            return replace(end, target=place[end.target])


@dataclass
class Block:
    """A basic block. Blocks are numbered in min-PC order: a topological order in which every loop is contiguous."""

    index: int
    instructions: list[Instruction]
    terminator: Terminator
    live_in: frozenset[str] = frozenset()
    live_out: frozenset[str] = frozenset()

    @property
    def executed(self) -> list[Instruction]:
        """The instructions, and that of the terminator if it has one."""
        end: Instruction | None = getattr(self.terminator, "instruction", None)
        return self.instructions if end is None else [*self.instructions, end]

    @property
    def successors(self) -> tuple[int, ...]:
        return successors(self.terminator)


STACK, STACK_POINTER = "%stack@", "%sp@"
"""The call stack of a thread, a variable in local memory, and the register that points into it (`calls`)."""


_USUAL = 4
"""Registers that an instruction names as a rule."""


@dataclass
class Kernel:
    """An entry function ready for translation: calls inlined, blocks ordered, liveness known, variables laid out."""

    name: str
    module: PtxFile
    params: tuple[Param, ...]
    param_bytes: int
    registers: dict[str, str]
    blocks: list[Block]
    variables: dict[str, Variable]
    """.shared and .local variables with offsets, and the module's globals and constants (offset unset)"""
    shared_bytes: int
    """static shared memory"""
    local_bytes: int
    """local memory per thread"""
    max_threads: int | None = None
    cluster: tuple[int, int, int] | None = None
    """blocks of a cluster, where the kernel says so"""
    undefined: tuple[int, ...] = ()
    """source lines where some path reads a register that nothing has written before"""
    known: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """what translation has found out, by block shape"""
    like: tuple[Kernel, Callable[[Instruction], Instruction]] | None = field(
        default=None, init=False, repr=False, compare=False
    )
    """a kernel that this one was made of, instruction by instruction, with the same registers: what is known of that
    one's registers and addresses holds here"""

    def with_instructions(self, change: Callable[[Instruction], Instruction]) -> Kernel:
        """The same kernel with every instruction changed."""
        blocks = [replace(b, instructions=[change(i) for i in b.instructions]) for b in self.blocks]
        return replace(self, blocks=blocks)

    @computed
    def instruction_count(self) -> int:
        return sum(len(b.instructions) for b in self.blocks)

    @computed
    def weight(self) -> int:
        """Instructions, those with many registers (products of matrices) as several: compiling time follows it."""
        return sum(max(1, (len(i.read) + len(i.written)) // _USUAL) for b in self.blocks for i in b.instructions)

    def block_shared_bytes(self, dynamic: int) -> int:
        """A block's shared memory: static, and behind it, where its alignment wants it, `dynamic` bytes."""
        if not dynamic:
            return self.shared_bytes
        external = [v.offset for v in self.variables.values() if v.space == "shared" and v.external]
        return max([self.shared_bytes, *external]) + dynamic

    @property
    def stack_bytes(self) -> int:
        """A thread's call stack; 0 where all calls are inlined."""
        return self.variables[STACK].size_bytes if STACK in self.variables else 0

    @property
    def stack_pointer(self) -> str | None:
        """The register that grows with the depth of calls; None where all calls are inlined."""
        return STACK_POINTER if STACK_POINTER in self.registers and STACK in self.variables else None

    @property
    def back_edges(self) -> frozenset[tuple[int, int]]:
        """Edges (from, to) that go back in block order: every cycle has one."""
        return frozenset((b.index, s) for b in self.blocks for s in b.successors if s <= b.index)


# ---------------------------------------------------------------- what operands mention, what graphs reach


Node = TypeVar("Node")


def elements_of(operand: Operand) -> tuple[Operand, ...]:
    """What a vector or a pair consists of; of any other operand, that alone."""
    if isinstance(operand, Vector):
        return operand.elements
    return (operand.first, operand.second) if isinstance(operand, ResultPair) else (operand,)


def parts_of(operand: Operand) -> Iterator[Operand]:
    """The operand itself and all that it is made of."""
    yield operand
    inner = (operand.base, *operand.coordinates) if isinstance(operand, Address) else elements_of(operand)
    for part in inner:
        if part is not operand:
            yield from parts_of(part)


def registers_in(operand: Operand) -> tuple[str, ...]:
    """Names of the registers that an operand mentions."""
    if isinstance(operand, Register):  # asked for every operand there is: the usual case first
        return (operand.name,)
    return tuple([part.name for part in parts_of(operand) if isinstance(part, Register)])


def reached(start: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> list[Node]:
    """`start` and everything to which `following` leads from there, in the order in which it is met."""
    found = [*dict.fromkeys(start)]
    known = {*found}
    for node in found:
        fresh = [n for n in dict.fromkeys(following(node)) if n not in known]
        known.update(fresh)
        found += fresh  # which the loop comes to as well
    return found
