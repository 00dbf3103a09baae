"""Which memory each pointer register can come from, ignoring control flow.

Roots are "param+OFFSET" (a kernel parameter that holds a pointer), "global NAME", "shared", "local", and "?" for a
pointer that was loaded from memory or assembled from pieces. Three uses: a generic access whose pointer can only be
shared or local is treated as such; only arrays that some store may reach need race tracking of their reads; and only
arrays that are read and written must be put back before a launch runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptxsim.syntax.program import WIDTH_BITS, Address, Immediate, Instruction, Kernel, Operand, Register, Symbol, Vector

Roots = frozenset[str]
UNKNOWN: Roots = frozenset({"?"})
NONE: Roots = frozenset()

_CARRIES = frozenset({"mov", "add", "sub", "and", "or", "xor", "selp", "cvta", "min", "max", "slct", "shfl", "mad"})


def pointer_roots(kernel: Kernel) -> dict[str, Roots]:
    """register -> roots, for every 64-bit register and for 32-bit shared-memory addresses."""
    roots: dict[str, Roots] = {}
    changed = True
    while changed:
        changed = False
        for block in kernel.blocks:
            for i in block.instructions:
                for name in i.written:
                    found = roots.get(name, NONE) | _result(kernel, i, name, roots)
                    if found != roots.get(name, NONE):
                        roots[name] = found
                        changed = True
    return roots


def _result(kernel: Kernel, i: Instruction, name: str, roots: dict[str, Roots]) -> Roots:
    wide = WIDTH_BITS[kernel.registers[name]] == 64
    if i.opcode in ("ld", "ldu"):
        if i.space != "param":
            return UNKNOWN if wide else NONE
        address = i.operands[1]
        if wide and isinstance(address, Address) and isinstance(address.base, Symbol):
            symbol = address.base
            start = next((p.offset for p in kernel.params if p.name == symbol.name), 0)
            return frozenset({f"param+{start + symbol.offset + address.offset}"})
        return NONE
    if i.opcode in ("atom", "shfl") and wide and i.opcode == "atom":
        return UNKNOWN
    if i.opcode == "mov" and isinstance(i.operands[1], Vector):
        return UNKNOWN if wide else NONE
    if i.opcode == "cvt":
        return _operand(kernel, i.operands[1], roots)
    if i.opcode not in _CARRIES:
        return NONE
    sources = i.operands[3:] if i.opcode == "mad" else i.operands[1:]
    found: Roots = NONE
    for operand in sources:
        found |= _operand(kernel, operand, roots)
    return found


def _operand(kernel: Kernel, operand: Operand, roots: dict[str, Roots]) -> Roots:
    match operand:
        case Register(name):
            return roots.get(name, NONE)
        case Symbol(name):
            variable = kernel.variables.get(name)
            if variable is None:
                return UNKNOWN
            return frozenset({variable.space if variable.space in ("shared", "local") else f"global {name}"})
        case Immediate():
            return NONE
        case _:
            return NONE


def written_roots(kernel: Kernel, roots: dict[str, Roots]) -> Roots:
    """Roots of all global memory that the kernel may write."""
    return _reached(kernel, roots, _targets)


def read_roots(kernel: Kernel, roots: dict[str, Roots]) -> Roots:
    """Roots of all global memory that the kernel may read: whatever an instruction names and does not only store to."""
    return _reached(kernel, roots, lambda i: () if _only_stores(i) else i.operands)


def _targets(i: Instruction) -> Sequence[Operand]:
    if i.opcode == "atom":
        return i.operands[1:2]
    return i.operands[:1] if i.opcode == "red" or _only_stores(i) else ()


def _only_stores(i: Instruction) -> bool:
    return i.opcode == "st" or (i.opcode == "wmma" and i.has("store"))


def _reached(kernel: Kernel, roots: dict[str, Roots], operands: Callable[[Instruction], Sequence[Operand]]) -> Roots:
    found: Roots = NONE
    for block in kernel.blocks:
        for i in block.instructions:
            if i.space in ("shared", "local", "param") and not i.has("global"):  # cp.async has both
                continue
            for address in operands(i):
                if isinstance(address, Address):
                    found |= _operand(kernel, address.base, roots) or UNKNOWN
    return frozenset(r for r in found if r not in ("shared", "local"))
