"""Who calls whom in a module: which functions cannot be inlined, and where a pointer to a function may lead."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from ptxsim.syntax.program import Function, Instruction, Module, Symbol, Vector

Signature = tuple[tuple[int, ...], tuple[int, ...]]
"""Sizes of a function's parameters and results."""


def signature(function: Function) -> Signature:
    return tuple(p.size_bytes for p in function.params), tuple(p.size_bytes for p in function.returns)


class CallGraph:
    """Calls between a module's functions; a pointer may lead to every function of its signature that has an address."""

    def __init__(self, module: Module) -> None:
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
        found = {symbol for v in self.module.globals.values() for _, symbol, _ in v.relocations if symbol in functions}
        for f in functions.values():
            for i in f.body:
                if isinstance(i, Instruction) and i.opcode != "call":
                    found |= {o.name for o in i.operands if isinstance(o, Symbol) and o.name in functions}
        return {name for name in found if not functions[name].is_entry}

    def _called(self, function: Function) -> Iterator[str]:
        for i in function.body:
            if isinstance(i, Instruction) and i.opcode == "call":
                callee = i.operands[1]
                if not isinstance(callee, Symbol):
                    yield from self.candidates(function, i)
                elif callee.name in self.module.functions:
                    yield callee.name

    def candidates(self, function: Function, i: Instruction) -> list[str]:
        """Functions that a call through a pointer may mean."""
        wanted = tuple(
            tuple(function.variables[o.name].size_bytes for o in list_.elements if isinstance(o, Symbol))
            for list_ in (i.operands[2], i.operands[0])
            if isinstance(list_, Vector)
        )
        functions = self.module.functions
        return [name for name in functions if name in self.targets and signature(functions[name]) == wanted]

    def _reached(self, name: str) -> set[str]:
        found: set[str] = set()
        pending = [name]
        while pending:
            fresh = self.called(pending.pop()) - found
            found |= fresh
            pending += fresh
        return found

    def outlined(self, entry: Function) -> dict[str, Function]:
        """Functions that the entry reaches and that must not be inlined: recursive ones and targets of pointers."""
        reached = self._reached(entry.name)
        through_pointers: set[str] = set()
        for name in (entry.name, *sorted(reached)):
            function = self.module.functions[name]
            for i in function.body:
                if isinstance(i, Instruction) and i.opcode == "call" and not isinstance(i.operands[1], Symbol):
                    through_pointers |= set(self.candidates(function, i))
        return {
            name: self.module.functions[name]
            for name in self.module.functions
            if name in through_pointers or (name in reached and name in self._reached(name))
        }
