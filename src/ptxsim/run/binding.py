"""What a launch's code finds in memory: its parameter block, and the allocations that it may read and write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from ptxsim.analysis.effects import BY_MAPS, BY_OBJECTS
from ptxsim.codegen.jit import Code
from ptxsim.errors import LaunchError
from ptxsim.memory import Allocation, Memory
from ptxsim.record import Terms
from ptxsim.tensormap import maps_in
from ptxsim.texture import bound


@dataclass(frozen=True, eq=False)
class Binding:
    """What follows from a launch's code and terms and from what lies in memory. Launches that are alike share it."""

    code: Code
    terms: Terms
    variables: Mapping[str, Allocation]
    """the module's, in this memory"""
    allocations: tuple[Allocation, ...]
    """all that were live"""
    params: np.ndarray
    """the parameters, and behind them the addresses of the variables that the kernel names"""
    read: list[Allocation]
    written: list[Allocation]

    @classmethod
    def of(cls, code: Code, terms: Terms, memory: Memory, variables: Mapping[str, Allocation]) -> Binding:
        """Raises LaunchError for a variable that is not there."""
        params = _parameter_block(code, terms.params, variables)
        read, written = (
            _reached(roots, params, memory, variables)
            for roots in (code.translation.read_roots, code.translation.written_roots)
        )
        return cls(code, terms, variables, memory.allocations, params, read, written)

    def serves(self, code: Code, terms: Terms, memory: Memory, variables: Mapping[str, Allocation]) -> bool:
        """Whether it is that of another launch as well, once this one is over. Textures and surfaces decide what is
        reached, and what these are bound to, nothing here says."""
        alike = self.code is code and self.terms is terms and self.variables is variables
        return alike and self.allocations is memory.allocations and not self._by_objects

    def begin(self) -> None:
        """Makes its parameters those of a launch that begins: a kernel that has pointers to them may change them."""
        if self.code.translation.unit.own_parameters:
            self.params[: len(self.terms.params)] = np.frombuffer(self.terms.params, np.uint8)

    @cached_property
    def _by_objects(self) -> bool:
        made = self.code.translation
        return BY_OBJECTS in made.read_roots or BY_OBJECTS in made.written_roots

    @cached_property
    def stretches(self) -> list[tuple[int, int]]:
        """(begin, end) of all memory that global and generic accesses may go to, by address."""
        found = [(a.address, a.end) for a in self.allocations]
        if self.code.translation.unit.own_parameters:
            found.append((self.params_at, self.params_at + len(self.terms.params)))
        return sorted(found)

    @cached_property
    def params_at(self) -> int:
        """Address of the parameters."""
        return int(self.params.ctypes.data)

    @cached_property
    def changed(self) -> list[Allocation]:
        """What may be read and written; what is only written is written alike when blocks run again."""
        return [a for a in self.written if a in self.read]

    @cached_property
    def constants(self) -> list[Allocation]:
        """The variables in constant memory, by address."""
        declared = self.code.translation.unit.kernel.module.globals
        found = (a for name, a in self.variables.items() if declared[name].space == "const")
        return sorted(found, key=lambda a: a.address)


def _parameter_block(code: Code, params: bytes, variables: Mapping[str, Allocation]) -> np.ndarray:
    slots = code.translation.unit.symbol_slots
    padded = params + bytes(-len(params) % 8) + bytes(8 * len(slots) + 8)
    array = np.frombuffer(bytearray(padded), np.uint8)
    start = -(-len(params) // 8) * 8
    for name, slot in slots.items():
        allocation = variables.get(name)
        if allocation is None:
            raise LaunchError(f"{code.translation.unit.kernel.name} uses {name}, which this module does not define")
        array[start + 8 * slot : start + 8 * slot + 8].view(np.uint64)[0] = allocation.address
    return array


def _reached(
    roots: frozenset[str], params: np.ndarray, memory: Memory, variables: Mapping[str, Allocation]
) -> list[Allocation]:
    """Allocations that some block may reach by pointers that come from these roots."""
    found: dict[int, Allocation] = {}
    for root in roots:
        if root == "?":
            return [*memory.allocations, *([memory.heap_memory] if memory.heap_memory is not None else ())]
        if root == BY_OBJECTS:
            found |= {o.image.allocation.address: o.image.allocation for o in bound(memory) if o is not None}
            continue
        if root.startswith(BY_MAPS):
            first, nbytes = map(int, root.split()[1:])
            maps = maps_in(params[first : first + nbytes].tobytes())
            mapped = (memory.containing(m.address) for m in maps)
            found |= {a.address: a for a in mapped if a is not None}
            continue
        offset, name = _root(root)
        if offset is not None:
            pointer = int.from_bytes(params[offset : offset + 8].tobytes(), "little")
            allocation = memory.containing(pointer) or memory.nearest(pointer)
        else:
            allocation = variables.get(name)
        if allocation is not None:
            found[allocation.address] = allocation
    return list(found.values())


@cache
def _root(root: str) -> tuple[int | None, str]:
    """Where a pointer comes from: its offset in the parameter block, or the name of a variable."""
    kind, _, rest = root.partition("+" if root.startswith("param") else " ")
    return (int(rest), "") if kind == "param" else (None, rest)
