"""Calls are inlined: one flat list of instructions per kernel. (`calls` does those that cannot be.)

Names of the n-th inlined call end in `@n`, which cannot occur in a PTX identifier. Calls of functions without a body
stay as `call` instructions with operands (result register or sink, function symbol, arguments...). The blocks of bytes
that calls hand over become registers, or local variables where registers do not do.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise

from ptxsim.syntax.forms import Checker, FormError, UnknownForm
from ptxsim.syntax.program import (
    WIDTH_BITS,
    Address,
    Function,
    Guard,
    Instruction,
    InstructionOrigin,
    Operand,
    PtxFile,
    Register,
    ResultPair,
    Sink,
    SourceLine,
    Symbol,
    Variable,
    Vector,
    bytes_of,
    elements_of,
    registers_in,
)
from ptxsim.syntax.refusals import misformed, refusal, refused, too_new, unsupported

MAX_INSTRUCTIONS = 300_000
"""Most instructions of a kernel once its calls are inlined."""

HEAP_FUNCTIONS = {"malloc": 1, "free": 1, "__nv_aligned_device_malloc": 2}
EXTERNAL_FUNCTIONS = {"vprintf": 2, "__assertfail": 5, **HEAP_FUNCTIONS}
"""Functions of the CUDA runtime that the simulator provides, with their number of arguments: all, and the heap's."""
_LAUNCHES = ("__cudaCDP", "cudaLaunchDevice", "cudaGetParameterBuffer")
"""What the names of those begin with by which a kernel launches others."""


@dataclass
class Flat:
    """A kernel's code without calls: instructions and labels in order, and every register and variable they use."""

    code: list[Instruction | str]
    registers: dict[str, str]
    variables: dict[str, Variable]


@dataclass
class _FunctionCopy:
    """One function being copied: `suffix` makes its names unique, `blocks` maps its parameter names to call blocks."""

    function: Function
    suffix: str
    end: str
    blocks: dict[str, str]
    checker: Checker | None
    """checks the instructions, on the first copy of a function only"""
    call: SourceLine = field(default_factory=SourceLine)
    """where it was called"""
    position: int = 0
    renamed: dict[int, Operand] = field(default_factory=dict)
    after: list[Instruction | str] = field(default_factory=list)


def inline(module: PtxFile, function: Function, *, outlined: Collection[str] = (), tag: str = "") -> Flat:
    """Copies `function` with every call replaced by the callee's body. Raises UnsupportedInstruction.

    Calls of the functions `outlined` and calls through pointers stay, for the stack, with operands (parameter blocks
    of the results, callee, parameter blocks of the arguments). `tag` ends every name of the copy.
    """
    return _Inliner(module, function, outlined, tag).run()


class _Inliner:
    def __init__(self, module: PtxFile, function: Function, outlined: Collection[str], tag: str) -> None:
        self.module, self.outlined, self.tag = module, outlined, tag
        self.code: list[Instruction | str] = []
        self.registers: dict[str, str] = {}
        self.variables: dict[str, Variable] = {}
        self.parameters = _Parameters(self.registers, self.variables)
        self.calls = 0
        self.checked: set[tuple[str, tuple[str, ...]]] = set()
        self.copied: set[str] = set()
        self.home_file = function.home_file
        self.frames = [self.frame(function, tag, {})]

    def frame(self, function: Function, suffix: str, blocks: dict[str, str]) -> _FunctionCopy:
        """Starts a copy of `function`: its registers and variables under their new names."""
        for name, type_name in function.registers.items():
            self.registers[name + suffix] = type_name
        for name, v in function.variables.items():
            if v.space == "param":
                blocks[name] = name + suffix
                self.parameters.blocks[name + suffix] = _Block(v.size_bytes, v.align)
            elif v.space == "shared":  # one for all calls: shared variables are static
                final = name if not suffix else f"{function.name}.{name}"
                self.variables[final] = replace(v, name=final)
            else:
                self.variables[name + suffix] = replace(v, name=name + suffix)
        checker = Checker(function.registers) if function.name not in self.copied else None
        self.copied.add(function.name)
        return _FunctionCopy(function, suffix, f"end{suffix}", blocks, checker)

    def run(self) -> Flat:
        while self.frames:
            frame = self.frames[-1]
            body = frame.function.body
            if frame.position == len(body):
                if frame.suffix:
                    self.code.append(frame.end)
                    self.code.extend(frame.after)
                self.frames.pop()
                continue
            item = body[frame.position]
            frame.position += 1
            if isinstance(item, str):
                self.code.append(item + frame.suffix)
            else:
                self.copy(frame, item)
        if self.parameters.blocks:
            self.code = self.parameters.lowered(self.code)
        return Flat(_in_halves(self.code, self.registers), self.registers, self.variables)

    def copy(self, frame: _FunctionCopy, i: Instruction) -> None:
        if _HINT in i.modifiers:  # it names a policy in the last operand: neither matters here
            i = replace(i, modifiers=tuple(m for m in i.modifiers if m != _HINT), operands=i.operands[:-1])
        if frame.checker:
            self.check(frame, frame.checker, i)
        if len(self.code) > MAX_INSTRUCTIONS or len(self.registers) > 2 * MAX_INSTRUCTIONS:
            raise refused(
                self.module,
                i.source,
                f"the kernel has more than {MAX_INSTRUCTIONS:,} instructions with its calls inlined",
            )
        if i.opcode == "call":
            self.call(frame, i)
            return
        suffix = frame.suffix
        guard = Guard(i.guard.register + suffix, i.guard.negated) if i.guard else None
        if suffix and i.opcode == "ret":
            i = Instruction("bra", ("uni",), (), guard, i.source, i.ptx_line, (frame.end,))
        elif suffix or frame.blocks:
            operands = tuple([self.rename(frame, o) for o in i.operands])
            targets = tuple([t + suffix for t in i.targets])
            place = self.source(frame, i), i.ptx_line, targets
            i = Instruction(i.opcode, i.modifiers, operands, guard, *place, selectors=i.selectors)
        if not frame.blocks:
            self.code.append(i)
        else:
            self.append(_by_address(i) if suffix and "param" in i.modifiers else i)

    def check(self, frame: _FunctionCopy, checker: Checker, i: Instruction) -> None:
        """Refuses what the simulator does not execute and what is no instruction."""
        key = (i.opcode, i.modifiers)
        if key not in self.checked:
            self.checked.add(key)
            if (refusal(i) or too_new(i, self.module.target, self.module.version)) is not None:
                raise unsupported(self.module, i.with_(source=self.source(frame, i)))
        try:
            checker.check(i)
        except UnknownForm as e:
            i = i.with_(source=self.source(frame, i))
            raise unsupported(self.module, i, f"the simulator does not know {e} of '{i.full_name[:60]}'") from None
        except FormError as e:
            raise misformed(self.module, i.with_(source=self.source(frame, i)), str(e)) from None

    def source(self, frame: _FunctionCopy, i: Instruction) -> SourceLine:
        """An instruction's line; functions of other files than the kernel's carry the line of their call."""
        if not frame.call.line:
            return i.source
        own = i.source.line and i.source.file == self.home_file
        return i.source.called_from(frame.call) if own else frame.call

    # ---------------------------------------------------------------- names

    def rename(self, frame: _FunctionCopy, operand: Operand) -> Operand:
        found = frame.renamed.get(id(operand))  # the function's body keeps every operand alive
        if found is None:
            found = frame.renamed[id(operand)] = self.renamed(frame, operand)
        return found

    def renamed(self, frame: _FunctionCopy, operand: Operand) -> Operand:
        match operand:
            case Register(name):
                return Register(name + frame.suffix) if frame.suffix else operand
            case Symbol(name, offset):
                return Symbol(self.symbol(frame, name), offset)
            case Address(base, offset, at):
                places = tuple([self.renamed(frame, o) for o in at])
                return Address(self.renamed(frame, base), offset, places)  # type: ignore[arg-type] # a base stays a base
            case Vector(elements):
                return Vector(tuple([self.renamed(frame, e) for e in elements]))
            case ResultPair(first, second):
                return ResultPair(self.renamed(frame, first), self.renamed(frame, second))
            case _:
                return operand

    def symbol(self, frame: _FunctionCopy, name: str) -> str:
        block = frame.blocks.get(name)
        if block is not None:
            return block
        v = frame.function.variables.get(name)
        if v is None or not frame.suffix:
            return name
        return f"{frame.function.name}.{name}" if v.space == "shared" else name + frame.suffix

    # ---------------------------------------------------------------- calls

    def call(self, frame: _FunctionCopy, i: Instruction) -> None:
        i = i.with_(source=self.source(frame, i))
        returned, callee, arguments, *_ = i.operands
        assert isinstance(returned, Vector) and isinstance(arguments, Vector)
        self.calls += 1
        suffix = f"@{self.calls}{self.tag}"
        skip = f"skip{suffix}"
        if i.guard:
            guard = Guard(i.guard.register + frame.suffix, not i.guard.negated)
            self.code.append(Instruction("bra", (), (), guard, i.source, i.ptx_line, (skip,), InstructionOrigin.ADDED))
        after: list[Instruction | str] = [skip] if i.guard else []
        function = self.module.functions.get(callee.name) if isinstance(callee, Symbol) else None
        if function is not None:
            formal, actual = (function.params, function.returns), (arguments.elements, returned.elements)
            if [len(f) for f in formal] != [len(a) for a in actual]:
                raise refused(self.module, i.source, f"the call of '{function.name}' has the wrong number of arguments")
            if function.name not in self.outlined:
                pairs = zip(chain(*formal), chain(*actual), strict=True)
                blocks = {p.name: self.block(frame, i, o, p.size_bytes) for p, o in pairs}
                self.frames.append(replace(self.frame(function, suffix, blocks), after=after, call=i.source))
                return
        if function is None and isinstance(callee, Symbol):
            self.external(frame, i, callee.name, returned, arguments)
        else:
            self.stacked(frame, i, callee, returned, arguments)
        self.code.extend(after)

    def stacked(
        self, frame: _FunctionCopy, i: Instruction, callee: Operand, returned: Vector, arguments: Vector
    ) -> None:
        """Leaves a call for `calls`: its parameters are in local memory."""
        lists = []
        for list_ in (returned, arguments):
            names = [self.block(frame, i, o, 0) for o in list_.elements]
            for name in names:
                self.parameters.blocks[name].addressed = True
            lists.append(Vector(tuple(Symbol(name) for name in names)))
        operands = (lists[0], callee if isinstance(callee, Symbol) else self.rename(frame, callee), lists[1])
        self.code.append(Instruction("call", (), operands, None, i.source, i.ptx_line, origin=InstructionOrigin.STACK))

    def block(self, frame: _FunctionCopy, i: Instruction, operand: Operand, size_bytes: int) -> str:
        """The parameter block that a call names."""
        name = frame.blocks.get(operand.name) if isinstance(operand, Symbol) else None
        if name is None:
            raise unsupported(self.module, i, "the simulator expects call arguments in .param variables")
        block = self.parameters.blocks[name]
        block.size = max(block.size, size_bytes)
        return name

    def external(self, frame: _FunctionCopy, i: Instruction, name: str, returned: Vector, arguments: Vector) -> None:
        """A call of the CUDA runtime: its arguments come from registers, its result goes to one."""
        count = EXTERNAL_FUNCTIONS.get(name)
        if count != len(arguments.elements) or len(returned.elements) > 1:
            what, next_step = f"the simulator has no function '{name[:60]}'", "Calls of the CUDA runtime need a GPU."
            if name.startswith(_LAUNCHES):
                what = "a kernel that launches kernels (dynamic parallelism) is not simulated"
                next_step = "Launch from the host, one kernel after the other, or loop inside of one kernel."
            raise unsupported(self.module, i, what, next_step=next_step)
        values: list[Operand] = []
        sizes = (8,) if name in HEAP_FUNCTIONS else (4, 8)
        for k, argument in enumerate(arguments.elements):
            value, modifiers, at = self.scalar(frame, i, argument, f"argument{k}", sizes)
            self.append(Instruction("ld", modifiers, (value, at), None, i.source, i.ptx_line))
            values.append(value)
        result: Operand = Sink()
        if returned.elements:
            result, modifiers, at = self.scalar(frame, i, returned.elements[0], "result", sizes)
        origin = InstructionOrigin.HEAP if name in HEAP_FUNCTIONS else InstructionOrigin.TEXT
        operands = (result, Symbol(name), *values)
        self.code.append(Instruction("call", ("uni",), operands, None, i.source, i.ptx_line, origin=origin))
        if returned.elements:
            self.append(Instruction("st", modifiers, (at, result), None, i.source, i.ptx_line))

    def scalar(
        self, frame: _FunctionCopy, i: Instruction, operand: Operand, name: str, sizes: tuple[int, ...]
    ) -> tuple[Register, tuple[str, ...], Address]:
        """A new register for an argument or result, and how and where its parameter block is accessed."""
        block = self.block(frame, i, operand, 0)
        size = self.parameters.blocks[block].size
        if size not in sizes:
            raise unsupported(self.module, i, "an argument of this call has the wrong size")
        register = Register(f"%{name}@{self.calls}{self.tag}")
        self.registers[register.name] = f"b{8 * size}"
        return register, ("param", f"b{8 * size}"), Address(Symbol(block))

    def append(self, i: Instruction) -> None:
        """Adds an instruction that may access a call parameter."""
        self.parameters.note(i, len(self.code))
        self.code.append(i)


_HINT = "L2::cache_hint"


def _by_address(i: Instruction) -> Instruction:
    """In a called function, a parameter reached through its address lies in local memory."""
    direct = any(isinstance(o, Address) and isinstance(o.base, Symbol) for o in i.operands)
    return i if direct else _in_local_memory(i)


# ---------------------------------------------------------------- parameters of calls


@dataclass
class _Block:
    """`size` bytes, accessed as (offset, width) pairs."""

    size: int
    align: int
    accesses: set[tuple[int, int]] = field(default_factory=set)
    resized: set[tuple[int, int]] = field(default_factory=set)
    """accesses from or to a register of another width"""
    addressed: bool = False
    pieces: dict[int, int] = field(default_factory=dict)
    """offset -> width of the registers it became; empty where it became a local variable"""


class _Parameters:
    """All parameter blocks of a kernel's calls. New registers and variables go to the two dictionaries given.

    A block (`.param .b8 param0[24]`) is cut into the pieces in which caller and callee access it, and every piece
    becomes a register. Where pieces overlap in ways that a `mov` cannot join, or where an address is taken, the block
    becomes a local variable instead.
    """

    def __init__(self, registers: dict[str, str], variables: dict[str, Variable]) -> None:
        self.registers = registers
        self.variables = variables
        self.blocks: dict[str, _Block] = {}
        self.accesses: dict[int, tuple[str, int]] = {}
        """place in the code -> the block accessed there, and the offset"""

    def note(self, i: Instruction, place: int) -> None:
        """Notes which bytes of which block the instruction at `place` of the code accesses."""
        if i.opcode in ("ld", "st") and i.has("param"):
            memory, value = i.operands if i.opcode == "st" else i.operands[::-1]
            if isinstance(memory, Address) and isinstance(memory.base, Symbol) and memory.base.name in self.blocks:
                self.note_access(i, place, memory.base.name, memory.base.offset + memory.offset, value)
                return
        for operand in i.operands:
            base = operand.base if isinstance(operand, Address) else operand
            if isinstance(base, Symbol) and base.name in self.blocks:
                self.blocks[base.name].addressed = True

    def note_access(self, i: Instruction, place: int, name: str, offset: int, value: Operand) -> None:
        block, width = self.blocks[name], bytes_of(i.type)
        for k, element in enumerate(elements_of(value)):
            access = (offset + k * width, width)
            block.accesses.add(access)
            if isinstance(element, Register) and WIDTH_BITS[self.registers[element.name]] != 8 * width:
                block.resized.add(access)
        self.accesses[place] = name, offset

    def lowered(self, code: list[Instruction | str]) -> list[Instruction | str]:
        """The code with accesses to blocks turned into moves, or into local accesses where moves do not do."""
        for name, block in self.blocks.items():
            block.pieces = {} if block.addressed else _pieces(block)
            for offset, width in block.pieces.items():
                self.registers[_piece(name, offset)] = f"b{max(16, 8 * width)}"
            if not block.pieces and (block.accesses or block.addressed):
                self.variables[name] = Variable(name, "local", "b8", block.size, max(block.align, 8))
        result: list[Instruction | str] = []
        for place, i in enumerate(code):
            if isinstance(i, str) or place not in self.accesses:
                result.append(i)
            else:
                result += self.moves(i, *self.accesses[place])
        return result

    def moves(self, i: Instruction, name: str, offset: int) -> list[Instruction]:
        """What stands for one `ld.param` or `st.param`."""
        width, pieces = bytes_of(i.type), self.blocks[name].pieces
        if not pieces:
            return [_in_local_memory(i)]
        moves: list[Instruction] = []
        for k, element in enumerate(elements_of(i.operands[0 if i.opcode == "ld" else 1])):
            start = offset + k * width
            parts = [Register(_piece(name, at)) for at in range(start, start + width, pieces[start])]
            whole: Operand = parts[0] if len(parts) == 1 else Vector(tuple(parts))
            if not isinstance(element, Sink):
                bits = WIDTH_BITS[self.registers[element.name]] if isinstance(element, Register) else 8 * width
                modifiers = _load_move(bits, i.type) if i.opcode == "ld" else _store_move(bits, 8 * width)
                opcode = "mov" if len(modifiers) == 1 else "cvt"
                operands = (element, whole) if i.opcode == "ld" else (whole, element)
                moves.append(Instruction(opcode, modifiers, operands, i.guard, i.source, i.ptx_line))
        return moves


def _in_local_memory(i: Instruction) -> Instruction:
    """An access to a parameter as one to local memory."""
    return replace(i, modifiers=tuple(["local" if m == "param" else m for m in i.modifiers]))


def _load_move(register_bits: int, type_name: str) -> tuple[str, ...]:
    """Modifiers of the move from a parameter's register: (type) for mov, (to, from) for cvt."""
    bits = WIDTH_BITS[type_name]
    sign = "s" if type_name[0] == "s" else "u"
    return (f"b{bits}",) if register_bits == bits else (f"{sign}{register_bits}", f"{sign}{bits}")


def _store_move(register_bits: int, bits: int) -> tuple[str, ...]:
    bits = max(16, bits)
    return (f"b{bits}",) if register_bits <= bits else (f"u{bits}", f"u{register_bits}")


def _piece(block: str, offset: int) -> str:
    return f"%{block}+{offset}"


def _pieces(block: _Block) -> dict[int, int]:
    """Cuts a block at the ends of all its accesses; empty if some access is then no sum of 1, 2 or 4 equal pieces."""
    cuts = sorted({offset for offset, _ in block.accesses} | {offset + width for offset, width in block.accesses})
    pieces = {start: end - start for start, end in pairwise(cuts)}
    for offset, width in block.accesses:
        first = pieces[offset]
        count, rest = divmod(width, first)
        whole = rest == 0 and all(pieces.get(offset + k * first) == first for k in range(count))
        if offset < 0 or not whole or count not in (1, 2, 4):
            return {}
        if count > 1 and (first < 2 or (offset, width) in block.resized):
            return {}
    return pieces


# ---------------------------------------------------------------- registers of 16 bytes


_HALVES = ("v2", "b64")


def _in_halves(code: list[Instruction | str], registers: dict[str, str]) -> list[Instruction | str]:
    """The code with `ld.b128` as a load of two halves and a move, `st.b128` likewise (PTX ISA 9.7.9.8); `registers`
    gains the halves."""
    found: list[Instruction | str] = []
    for i in code:
        if isinstance(i, str) or not _is_wide(i):
            found.append(i)
            continue
        loads = i.opcode == "ld"
        whole, where = i.operands if loads else i.operands[::-1]
        halves = Vector((Register(f"%half0@{len(found)}"), Register(f"%half1@{len(found)}")))
        registers.update(dict.fromkeys(registers_in(halves), "b64"))
        modifiers = (*(m for m in i.modifiers if m != "b128"), *_HALVES)
        access = i.with_(modifiers=modifiers, operands=(halves, where) if loads else (where, halves))
        operands = (whole, halves) if loads else (halves, whole)
        move = i.with_(opcode="mov", modifiers=("b128",), operands=operands, origin=InstructionOrigin.ADDED)
        found += [access, move] if loads else [move, access]
    return found


def _is_wide(i: Instruction) -> bool:
    return i.opcode in ("ld", "st") and "b128" in i.modifiers
