"""Calls that cannot be inlined: recursion and function pointers, on a stack in local memory.

A call saves the registers that its function needs afterwards (if that function may be entered again), puts arguments
and the number of the place to return to on the stack, and jumps. The callee finds them below its stack pointer, has its
local variables above it, and returns through a switch over the places that call it. So nothing here is new to the
rest of the simulator: lanes may be in different calls as they may be in different branches. The stack's own
instructions are marked as added: no counter counts them.

    ... | caller's local variables | saved registers | arguments | result | place | callee's local variables ...
        ^ caller's %sp                                                            ^ callee's %sp
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from ptxsim.kernel.inline import Flat, inline
from ptxsim.kernel.liveness import live_behind
from ptxsim.syntax.operands import align_up
from ptxsim.syntax.program import (
    STACK,
    STACK_POINTER,
    WIDTH_BITS,
    Address,
    Function,
    Guard,
    Immediate,
    Instruction,
    InstructionOrigin,
    Operand,
    PtxFile,
    Register,
    SourceLine,
    Symbol,
    Variable,
    Vector,
    reached,
)

STACK_BYTES = 16 << 10
"""Call stack of a thread, where nobody asks for more."""
_LIMIT = "%limit@"
_SLOT = 8
_ENTRY, _RETURN = "enter@{}", "leave@{}"
BACK = "back@"
"""How the labels of places begin to which a call on the stack returns."""


def function_number(module: PtxFile, name: str) -> int:
    """What a pointer to the function `name` holds."""
    return list(module.functions).index(name) + 1


def flatten(module: PtxFile, entry: Function, stack_bytes: int = STACK_BYTES) -> Flat:
    """A kernel's code in one list: calls inlined, those that cannot be on a stack of `stack_bytes`."""
    if all(f.is_entry for f in module.functions.values()) and None not in map(_callee, _calls(entry)):
        return inline(module, entry)
    graph = _CallGraph(module)
    outlined = graph.outlined(entry)
    flat = inline(module, entry, outlined=outlined.keys())
    if outlined or any(map(_is_stacked, flat.code)):
        flat = _Stacker(module, entry, flat, outlined, graph, stack_bytes).run()
    return replace(flat, code=[_with_numbers(module, i) for i in flat.code])


def inlined_size(module: PtxFile, entry: Function) -> int:
    """How many instructions a kernel has once its calls are inlined, found out without doing it.

    A chain of functions that call the next one twice doubles with each: 24 short ones make 100 million. A function that
    is called again from within itself counts once there.
    """
    sizes: dict[str, int] = {}

    def size(function: Function) -> int:
        sizes[function.name] = 0  # for calls from within
        own = sum(isinstance(i, Instruction) for i in function.body)
        for callee in filter(None, map(_callee, _calls(function))):
            if callee in module.functions:
                own += sizes[callee] if callee in sizes else size(module.functions[callee])
        sizes[function.name] = own
        return own

    return size(entry)


def _is_stacked(i: Instruction | str) -> bool:
    return isinstance(i, Instruction) and i.opcode == "call" and i.origin is InstructionOrigin.STACK


def _calls(function: Function) -> Iterator[Instruction]:
    return (i for i in function.body if isinstance(i, Instruction) and i.opcode == "call")


def _callee(call: Instruction) -> str | None:
    """The function that a call names; None for one through a pointer."""
    return call.operands[1].name if isinstance(call.operands[1], Symbol) else None


def _with_numbers(module: PtxFile, i: Instruction | str) -> Instruction | str:
    """Addresses of functions as numbers."""
    source = i.operands[1] if isinstance(i, Instruction) and i.opcode == "mov" else None
    if isinstance(i, str) or not isinstance(source, Symbol) or source.name not in module.functions:
        return i
    return replace(i, operands=(i.operands[0], Immediate(function_number(module, source.name))))


# ---------------------------------------------------------------- frames


class _StackFrame:
    """Where a function's parts lie, counted from its stack pointer."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.arguments: dict[str, int] = {}
        """parameter or result -> (negative) offset"""
        self.below = _SLOT
        """bytes below the stack pointer: arguments, result, place"""
        for p in (*function.returns, *function.params):
            self.below = align_up(self.below + p.size_bytes, 16)
            self.arguments[p.name] = -self.below


class _Stacker:
    """Writes the calls that `inline` has left for the stack."""

    def __init__(
        self, module: PtxFile, entry: Function, flat: Flat, outlined: dict[str, Function], graph: _CallGraph,
        stack_bytes: int,
    ) -> None:  # fmt: skip
        self.module, self.entry, self.flat, self.graph, self.stack_bytes = module, entry, flat, graph, stack_bytes
        self.frames = {name: _StackFrame(function) for name, function in outlined.items()}
        self.places: dict[str, list[str]] = {name: [] for name in outlined}
        self.registers = dict(flat.registers)
        self.variables = dict(flat.variables)
        self.sizes = {name: v.size_bytes for name, v in flat.variables.items()}
        """sizes of all parameter blocks"""
        self.largest = 0
        """most bytes of local variables of an outlined function"""
        self.count = 0

    def run(self) -> Flat:
        if not self.frames:  # there are only calls through pointers, and no function that they could mean
            return replace(self.flat, code=self.with_calls(self.flat.code, {}, 0), registers=self.registers)
        self.registers |= {STACK_POINTER: "b64", _LIMIT: "b64"}
        self.variables[STACK] = Variable(STACK, "local", "b8", self.stack_bytes, 16)
        source = next((i.source for i in self.flat.code if isinstance(i, Instruction)), SourceLine())
        code = [*self.with_calls(self.flat.code, {}, 0), Instruction("exit", (), ())]
        for name, frame in self.frames.items():
            flat = inline(self.module, frame.function, outlined=self.frames.keys(), tag=f"@{name}")
            self.registers |= flat.registers
            self.sizes |= {v.name: v.size_bytes for v in flat.variables.values()}
            code += self.body(name, frame, flat)
        start: list[Instruction | str] = [
            self.make(source, "mov", "b64", Register(STACK_POINTER), Symbol(STACK)),
            self.make(source, "mov", "b64", Register(_LIMIT), Symbol(STACK, self.stack_bytes - self.largest)),
        ]
        return Flat([*start, *(self.returning(i) for i in code)], self.registers, self.variables)

    def body(self, name: str, frame: _StackFrame, flat: Flat) -> list[Instruction | str]:
        """An outlined function: its local variables on the stack, its calls written out."""
        offsets, size = dict(frame.arguments), 0
        for v in flat.variables.values():
            if v.space == "local":
                offsets[v.name] = at = align_up(size, v.align)
                size = at + v.size_bytes
            else:
                self.variables[v.name] = v
        size = align_up(size, 16)
        self.largest = max(self.largest, size)
        moved = [self.on_stack(i, offsets) if isinstance(i, Instruction) else i for i in flat.code]
        place = self.register("b32")
        source = next((i.source for i in flat.code if isinstance(i, Instruction)), SourceLine())
        end: list[Instruction | str] = [
            self.make(source, "ld", "local.b32", place, Address(Register(STACK_POINTER), -_SLOT)),
            Instruction("brx", ("idx",), (place,), None, source, 0, (_RETURN.format(name),)),
        ]
        return [_ENTRY.format(name), *self.with_calls([*moved, *end], offsets, size, save=True)]

    def on_stack(self, i: Instruction, offsets: dict[str, int]) -> Instruction:
        """An instruction with the function's variables found from the stack pointer."""
        operands: list[Operand] = []
        if i.opcode in ("ld", "st"):  # a parameter, by its name or by its address
            i = replace(i, modifiers=tuple("local" if m.startswith("param") else m for m in i.modifiers))
        for o in i.operands:
            if isinstance(o, Address) and isinstance(o.base, Symbol) and o.base.name in offsets:
                o = Address(Register(STACK_POINTER), offsets[o.base.name] + o.base.offset + o.offset)
            elif isinstance(o, Symbol) and o.name in offsets and i.opcode == "mov":
                sum_ = i.operands[0], Register(STACK_POINTER), Immediate(offsets[o.name] + o.offset)
                return replace(i, opcode="add", modifiers=("s64",), operands=sum_)
            operands.append(o)
        return replace(i, operands=tuple(operands))

    def returning(self, i: Instruction | str) -> Instruction | str:
        """The switch at an outlined function's end, once all places that call it are known."""
        if isinstance(i, Instruction) and i.opcode == "brx" and i.targets[0].startswith(_RETURN.format("")):
            places = self.places[i.targets[0][len(_RETURN.format("")) :]]
            return replace(i, targets=tuple(places)) if places else Instruction("exit", (), ())
        return i

    # -- calls ------------------------------------------------------------------------------------------------------
    def with_calls(
        self, code: list[Instruction | str], offsets: dict[str, int], size: int, *, save: bool = False
    ) -> list[Instruction | str]:
        """`code` with its calls written out. `offsets`: its variables that lie on the stack, `size` bytes of them.
        `save`: the function may be entered again while it waits for a call."""
        calls = [k for k, i in enumerate(code) if _is_stacked(i)]
        live = live_behind(code, calls) if save and calls else {}
        result: list[Instruction | str] = []
        for k, i in enumerate(code):
            if isinstance(i, Instruction) and _is_stacked(i):
                result += self.call(i, offsets, size, sorted(live.get(k, frozenset()) - {STACK_POINTER}))
            else:
                result.append(i)
        return result

    def call(self, i: Instruction, offsets: dict[str, int], size: int, saved: list[str]) -> Iterator[Instruction | str]:
        """One call: `size` bytes of local variables and the registers `saved` stay below it."""
        results, callee, arguments = i.operands
        assert isinstance(results, Vector) and isinstance(arguments, Vector)
        names = self.callees(i, callee)
        if not names:  # an optional callback that no function of the module fits: a fault of who calls it
            yield from self.nowhere(i, callee)
            return
        frame = self.frames[names[0]]
        self.count += 1
        back = f"{BACK}{self.count}"
        full = align_up(size + _SLOT * len(saved) + frame.below, 16)
        sp, top = Register(STACK_POINTER), self.register("b64")
        for k, name in enumerate(saved):
            yield from self.moved(i.source, name, size + _SLOT * k, store=True)
        for p, block in zip(frame.function.params, arguments.elements, strict=True):
            yield from self.copied(
                i.source, _place(block, offsets), Address(sp, full + frame.arguments[p.name]), p.size_bytes
            )
        too_deep = self.register("pred")
        yield self.make(i.source, "add", "s64", top, sp, Immediate(full))
        yield self.make(i.source, "setp", "gt.u64", too_deep, top, Register(_LIMIT))
        yield Instruction("trap", (), (), Guard(too_deep.name), i.source, i.ptx_line, origin=InstructionOrigin.STACK)
        yield self.make(i.source, "mov", "b64", sp, top)
        yield from self.jumps(i, callee, names, back)
        yield back
        yield self.make(i.source, "add", "s64", sp, sp, Immediate(-full))
        for p, block in zip(frame.function.returns, results.elements, strict=True):
            yield from self.copied(
                i.source, Address(sp, full + frame.arguments[p.name]), _place(block, offsets), p.size_bytes
            )
        for k, name in enumerate(saved):
            yield from self.moved(i.source, name, size + _SLOT * k, store=False)

    def callees(self, i: Instruction, callee: Operand) -> list[str]:
        if isinstance(callee, Symbol):
            return [callee.name]
        return [name for name in self.frames if name in self.graph.targets and self.fits(i, name)]

    def fits(self, i: Instruction, name: str) -> bool:
        """Whether a call through a pointer hands over and expects what the function takes and gives."""
        lists = [list_.elements for list_ in i.operands[::2] if isinstance(list_, Vector)]
        sizes = [tuple(self.sizes[o.name] for o in blocks if isinstance(o, Symbol)) for blocks in lists]
        return (sizes[1], sizes[0]) == _signature(self.frames[name].function)

    def jumps(self, i: Instruction, callee: Operand, names: list[str], back: str) -> Iterator[Instruction | str]:
        """To the callee, with the number of the place to return to."""
        for k, name in enumerate(names):
            number = len(self.places[name])
            self.places[name].append(back)
            other = f"{back}.{k}"
            if not isinstance(callee, Symbol):
                differs = self.register("pred")
                wanted = Immediate(function_number(self.module, name))
                yield self.make(i.source, "setp", "ne.s64", differs, callee, wanted)
                around = Guard(differs.name)
                yield Instruction("bra", (), (), around, i.source, i.ptx_line, (other,), InstructionOrigin.ADDED)
            value = self.register("b32")
            # the label says to `cfg`, which orders blocks, where this call goes on
            yield replace(self.make(i.source, "mov", "b32", value, Immediate(number)), targets=(back,))
            yield self.make(i.source, "st", "local.b32", Address(Register(STACK_POINTER), -_SLOT), value)
            yield Instruction("bra", ("uni",), (), None, i.source, i.ptx_line, (_ENTRY.format(name),))
            if not isinstance(callee, Symbol):
                yield other
        if not isinstance(callee, Symbol):
            yield from self.nowhere(i, callee)

    def nowhere(self, i: Instruction, callee: Operand) -> Iterator[Instruction]:
        """The end of a thread whose pointer leads to no function that a call could mean."""
        for comparison, value, origin in (
            ("eq.s64", 0, InstructionOrigin.NULL_POINTER),
            ("gt.u64", len(self.module.functions), InstructionOrigin.HOST_POINTER),
        ):
            guard = self.register("pred")
            yield self.make(i.source, "setp", comparison, guard, callee, Immediate(value))
            yield Instruction("trap", (), (), Guard(guard.name), i.source, i.ptx_line, origin=origin)
        yield Instruction("trap", (), (), None, i.source, i.ptx_line, origin=InstructionOrigin.POINTER)

    # -- pieces -----------------------------------------------------------------------------------------------------
    def register(self, type_name: str) -> Register:
        self.count += 1
        name = f"%stack@{self.count}"
        self.registers[name] = type_name
        return Register(name)

    def make(self, source: SourceLine, opcode: str, modifiers: str, *operands: Operand) -> Instruction:
        return Instruction(opcode, tuple(modifiers.split(".")), operands, None, source, origin=InstructionOrigin.ADDED)

    def moved(self, source: SourceLine, name: str, offset: int, *, store: bool) -> Iterator[Instruction]:
        """A register to its slot on the stack, or back."""
        at, register = Address(Register(STACK_POINTER), offset), Register(name)
        bits = WIDTH_BITS[self.registers[name]]
        if bits > 1:
            operands = (at, register) if store else (register, at)
            yield self.make(source, "st" if store else "ld", f"local.b{bits}", *operands)
            return
        word = self.register("b32")
        if store:
            yield self.make(source, "selp", "b32", word, Immediate(1), Immediate(0), register)
            yield self.make(source, "st", "local.b32", at, word)
        else:
            yield self.make(source, "ld", "local.b32", word, at)
            yield self.make(source, "setp", "ne.u32", register, word, Immediate(0))

    def copied(self, source: SourceLine, origin: Address, target: Address, size: int) -> Iterator[Instruction]:
        """`size` bytes of local memory from one place to another."""
        done = 0
        while done < size:
            width = next(w for w in (8, 4, 2, 1) if w <= size - done)
            word = self.register(f"b{max(16, 8 * width)}")
            yield self.make(source, "ld", f"local.b{8 * width}", word, Address(origin.base, origin.offset + done))
            yield self.make(source, "st", f"local.b{8 * width}", Address(target.base, target.offset + done), word)
            done += width


def _place(block: Operand, offsets: dict[str, int]) -> Address:
    """Where a call's parameter block lies."""
    assert isinstance(block, Symbol)
    return Address(Register(STACK_POINTER), offsets[block.name]) if block.name in offsets else Address(block)


# ---------------------------------------------------------------- who calls whom


Signature = tuple[tuple[int, ...], tuple[int, ...]]
"""Sizes of a function's parameters and results."""


def _signature(function: Function) -> Signature:
    return tuple(p.size_bytes for p in function.params), tuple(p.size_bytes for p in function.returns)


class _CallGraph:
    """Calls between a module's functions; a pointer may lead to every function of its signature that has an address."""

    def __init__(self, module: PtxFile) -> None:
        self.module = module
        self.edges: dict[str, set[str]] = {}
        """callees of the functions looked at so far"""

    def called(self, name: str) -> set[str]:
        if name not in self.edges:
            self.edges[name] = set(self._called(self.module.functions[name]))
        return self.edges[name]

    @cached_property
    def targets(self) -> set[str]:
        """Functions whose address is taken."""
        functions = self.module.functions
        found = {symbol for v in self.module.globals.values() for _, symbol, _ in v.relocations}
        for f in functions.values():
            others = (i for i in f.body if isinstance(i, Instruction) and i.opcode != "call")
            found |= {o.name for i in others for o in i.operands if isinstance(o, Symbol)}
        return {name for name, f in functions.items() if name in found and not f.is_entry}

    def _called(self, function: Function) -> Iterator[str]:
        for i in _calls(function):
            name = _callee(i)
            if name is None:
                yield from self.candidates(function, i)
            elif name in self.module.functions:
                yield name

    def candidates(self, function: Function, i: Instruction) -> list[str]:
        """Functions that a call through a pointer may mean."""
        wanted = tuple(
            tuple(function.variables[o.name].size_bytes for o in list_.elements if isinstance(o, Symbol))
            for list_ in (i.operands[2], i.operands[0])
            if isinstance(list_, Vector)
        )
        functions = self.module.functions
        return [name for name in functions if name in self.targets and _signature(functions[name]) == wanted]

    def outlined(self, entry: Function) -> dict[str, Function]:
        """Functions that the entry reaches and that must not be inlined: recursive ones and targets of pointers."""
        functions = self.module.functions
        found = {*reached(self.called(entry.name), self.called)}
        callers = [functions[name] for name in (entry.name, *sorted(found))]
        through_pointers = {
            name for f in callers for i in _calls(f) if _callee(i) is None for name in self.candidates(f, i)
        }
        recursive = {name for name in found if name in reached(self.called(name), self.called)}
        return {name: f for name, f in functions.items() if name in through_pointers | recursive}
