"""Calls are inlined: one flat list of instructions per kernel. (`calls` does those that cannot be.)

Names of the n-th inlined call end in `@n`, which cannot occur in a PTX identifier. Calls of functions without a body
stay as `call` instructions with operands (result register or sink, function symbol, arguments...).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from ptxsim.kernel.call_parameters import CallParameters, in_local_memory
from ptxsim.kernel.wide import in_halves
from ptxsim.syntax.forms import Checker
from ptxsim.syntax.needs import FormError, UnknownForm
from ptxsim.syntax.program import (
    Address,
    Function,
    Guard,
    Instruction,
    Module,
    Operand,
    Pair,
    Register,
    Sink,
    SourceLine,
    Symbol,
    Variable,
    Vector,
)
from ptxsim.syntax.refusals import misformed, refusal, refused, unsupported

MAX_INSTRUCTIONS = 300_000
"""Most instructions of a kernel once its calls are inlined."""

EXTERNAL_FUNCTIONS = {"vprintf": 2, "__assertfail": 5}
"""Functions of the CUDA runtime that the simulator provides, with their number of arguments."""


@dataclass
class Flat:
    """A kernel's code without calls: instructions and labels in order, and every register and variable they use."""

    code: list[Instruction | str]
    registers: dict[str, str]
    variables: dict[str, Variable]


@dataclass
class _Frame:
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


def inline(module: Module, function: Function, *, outlined: Collection[str] = (), tag: str = "") -> Flat:
    """Copies `function` with every call replaced by the callee's body. Raises UnsupportedInstruction.

    Calls of the functions `outlined` and calls through pointers stay, as `call.stack` with operands (parameter blocks
    of the results, callee, parameter blocks of the arguments). `tag` ends every name of the copy.
    """
    return _Inliner(module, function, outlined, tag).run()


class _Inliner:
    def __init__(self, module: Module, function: Function, outlined: Collection[str], tag: str) -> None:
        self.module, self.outlined, self.tag = module, outlined, tag
        self.code: list[Instruction | str] = []
        self.registers: dict[str, str] = {}
        self.variables: dict[str, Variable] = {}
        self.parameters = CallParameters(self.registers, self.variables)
        self.calls = 0
        self.checked: set[tuple[str, tuple[str, ...]]] = set()
        self.active = {function.name}
        self.copied: set[str] = set()
        own = (i.source.file for i in function.body if isinstance(i, Instruction) and i.source.line)
        self.home_file = next(own, 0)
        self.frames = [self.frame(function, tag, {})]

    def frame(self, function: Function, suffix: str, blocks: dict[str, str]) -> _Frame:
        """Starts a copy of `function`: its registers and variables under their new names."""
        for name, type_name in function.registers.items():
            self.registers[name + suffix] = type_name
        for name, v in function.variables.items():
            if v.space == "param":
                blocks[name] = name + suffix
                self.parameters.declare(v, name + suffix)
            elif v.space == "shared":  # one for all calls: shared variables are static
                final = name if not suffix else f"{function.name}.{name}"
                self.variables[final] = replace(v, name=final)
            else:
                self.variables[name + suffix] = replace(v, name=name + suffix)
        checker = Checker(function.registers) if function.name not in self.copied else None
        self.copied.add(function.name)
        return _Frame(function, suffix, f"end{suffix}", blocks, checker)

    def run(self) -> Flat:
        while self.frames:
            frame = self.frames[-1]
            body = frame.function.body
            if frame.position == len(body):
                if frame.suffix:
                    self.code.append(frame.end)
                    self.code.extend(frame.after)
                self.active.remove(frame.function.name)
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
        return Flat(in_halves(self.code, self.registers), self.registers, self.variables)

    def copy(self, frame: _Frame, i: Instruction) -> None:
        if _HINT in i.modifiers:
            i = _without_hint(i)
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
        if suffix:
            guard = Guard(i.guard.register + suffix, i.guard.negated) if i.guard else None
            if i.opcode == "ret":
                i = Instruction("bra", ("uni",), (), guard, i.source, i.ptx_line, (frame.end,))
            else:
                operands = tuple([self.rename(frame, o) for o in i.operands])
                targets = tuple([t + suffix for t in i.targets])
                i = Instruction(i.opcode, i.modifiers, operands, guard, self.source(frame, i), i.ptx_line, targets)
        elif frame.blocks:
            operands = tuple([self.rename(frame, o) for o in i.operands])
            i = Instruction(i.opcode, i.modifiers, operands, i.guard, i.source, i.ptx_line, i.targets)
        if frame.blocks:
            self.append(_by_address(i) if suffix and "param" in i.modifiers else i)
        else:
            self.code.append(i)

    def check(self, frame: _Frame, checker: Checker, i: Instruction) -> None:
        """Refuses what the simulator does not execute and what is no instruction."""
        key = (i.opcode, i.modifiers)
        if key not in self.checked:
            self.checked.add(key)
            if refusal(i) is not None:
                raise unsupported(self.module, i.with_(source=self.source(frame, i)))
        try:
            checker.check(i)
        except UnknownForm as e:
            i = i.with_(source=self.source(frame, i))
            raise unsupported(self.module, i, f"the simulator does not know {e} of '{i.full_name[:60]}'") from None
        except FormError as e:
            raise misformed(self.module, i.with_(source=self.source(frame, i)), str(e)) from None

    def source(self, frame: _Frame, i: Instruction) -> SourceLine:
        """An instruction's line; functions of other files than the kernel's carry the line of their call."""
        own = not frame.suffix or (i.source.line and i.source.file == self.home_file)
        return i.source if own else frame.call

    # ---------------------------------------------------------------- names

    def rename(self, frame: _Frame, operand: Operand) -> Operand:
        found = frame.renamed.get(id(operand))  # the function's body keeps every operand alive
        if found is None:
            found = frame.renamed[id(operand)] = self.renamed(frame, operand)
        return found

    def renamed(self, frame: _Frame, operand: Operand) -> Operand:
        match operand:
            case Register(name):
                return Register(name + frame.suffix) if frame.suffix else operand
            case Symbol(name, offset):
                return Symbol(self.symbol(frame, name), offset)
            case Address(base, offset):
                return Address(self.renamed(frame, base), offset)  # type: ignore[arg-type]
            case Vector(elements):
                return Vector(tuple([self.renamed(frame, e) for e in elements]))
            case Pair(first, second):
                return Pair(self.renamed(frame, first), self.renamed(frame, second))
            case _:
                return operand

    def symbol(self, frame: _Frame, name: str) -> str:
        block = frame.blocks.get(name)
        if block is not None:
            return block
        v = frame.function.variables.get(name)
        if v is None or not frame.suffix:
            return name
        return f"{frame.function.name}.{name}" if v.space == "shared" else name + frame.suffix

    # ---------------------------------------------------------------- calls

    def call(self, frame: _Frame, i: Instruction) -> None:
        i = i.with_(source=self.source(frame, i))
        returned, callee, arguments, *_ = i.operands
        assert isinstance(returned, Vector) and isinstance(arguments, Vector)
        self.calls += 1
        suffix = f"@{self.calls}{self.tag}"
        skip = f"skip{suffix}"
        if i.guard:
            guard = Guard(i.guard.register + frame.suffix, not i.guard.negated)
            self.code.append(Instruction("bra", ("skip",), (), guard, i.source, i.ptx_line, (skip,)))
        after: list[Instruction | str] = [skip] if i.guard else []
        if not isinstance(callee, Symbol) or callee.name in self.outlined:
            self.stacked(frame, i, callee, returned, arguments)
            self.code.extend(after)
            return
        function = self.module.functions.get(callee.name)
        if function is None:
            self.external(frame, i, callee.name, returned, arguments)
            self.code.extend(after)
            return
        formal = (*function.params, *function.returns)
        actual = (*arguments.elements, *returned.elements)
        if len(arguments.elements) != len(function.params) or len(actual) != len(formal):
            raise refused(self.module, i.source, f"the call of '{function.name}' has the wrong number of arguments")
        blocks = {p.name: self.block(frame, i, o, p.size_bytes) for p, o in zip(formal, actual, strict=True)}
        inner = self.frame(function, suffix, blocks)
        inner.after = after
        inner.call = i.source
        self.frames.append(inner)
        self.active.add(function.name)

    def stacked(self, frame: _Frame, i: Instruction, callee: Operand, returned: Vector, arguments: Vector) -> None:
        """Leaves a call for `calls`: its parameters are in local memory."""
        if isinstance(callee, Symbol):
            function = self.module.functions[callee.name]
            if (len(arguments.elements), len(returned.elements)) != (len(function.params), len(function.returns)):
                raise refused(self.module, i.source, f"the call of '{function.name}' has the wrong number of arguments")
        else:
            callee = self.rename(frame, callee)
        lists = []
        for operands in (returned, arguments):
            names = [self.block(frame, i, o, 0) for o in operands.elements]
            for name in names:
                self.parameters.blocks[name].addressed = True
            lists.append(Vector(tuple(Symbol(name) for name in names)))
        self.code.append(Instruction("call", ("stack",), (lists[0], callee, lists[1]), None, i.source, i.ptx_line))

    def block(self, frame: _Frame, i: Instruction, operand: Operand, size_bytes: int) -> str:
        """The parameter block that a call names."""
        name = frame.blocks.get(operand.name) if isinstance(operand, Symbol) else None
        if name is None:
            raise unsupported(self.module, i, "the simulator expects call arguments in .param variables")
        self.parameters.grow(name, size_bytes)
        return name

    def external(self, frame: _Frame, i: Instruction, name: str, returned: Vector, arguments: Vector) -> None:
        """A call of the CUDA runtime: its arguments come from registers, its result goes to one."""
        count = EXTERNAL_FUNCTIONS.get(name)
        if count != len(arguments.elements) or len(returned.elements) > 1:
            raise unsupported(
                self.module,
                i,
                f"the simulator has no function '{name[:60]}'",
                next_step="Device-side library calls such as malloc or launches of other kernels need a GPU.",
            )
        values: list[Operand] = []
        for k, argument in enumerate(arguments.elements):
            block = self.block(frame, i, argument, 0)
            value = Register(f"%argument{k}@{self.calls}{self.tag}")
            self.registers[value.name] = type_name = self.scalar(i, block)
            self.append(Instruction("ld", ("param", type_name), (value, _at(block)), None, i.source, i.ptx_line))
            values.append(value)
        result: Operand = Sink()
        if returned.elements:
            block = self.block(frame, i, returned.elements[0], 0)
            result = Register(f"%result@{self.calls}{self.tag}")
            self.registers[result.name] = type_name = self.scalar(i, block)
        self.code.append(Instruction("call", ("uni",), (result, Symbol(name), *values), None, i.source, i.ptx_line))
        if isinstance(result, Register):
            self.append(Instruction("st", ("param", type_name), (_at(block), result), None, i.source, i.ptx_line))

    def scalar(self, i: Instruction, block: str) -> str:
        size = self.parameters.size(block)
        if size not in (4, 8):
            raise unsupported(self.module, i, "an argument of this call has the wrong size")
        return f"b{8 * size}"

    def append(self, i: Instruction) -> None:
        """Adds an instruction that may access a call parameter."""
        self.parameters.note(i, len(self.code))
        self.code.append(i)


_HINT = "L2::cache_hint"


def _without_hint(i: Instruction) -> Instruction:
    """A cache hint names a policy in the last operand: neither matters here."""
    return replace(i, modifiers=tuple(m for m in i.modifiers if m != _HINT), operands=i.operands[:-1])


def _by_address(i: Instruction) -> Instruction:
    """In a called function, a parameter reached through its address lies in local memory."""
    direct = any(isinstance(o, Address) and isinstance(o.base, Symbol) for o in i.operands)
    return i if direct else in_local_memory(i)


def _at(block: str) -> Address:
    return Address(Symbol(block))
