"""Which loads from shared memory the machine code makes together.

A GPU does not run PTX. ptxas takes neighbouring shared loads of one thread together into 8- or 16-byte ones (LDS.64,
LDS.128), and leaves out a load of what a register already holds. Requests, wavefronts and bank conflicts are then those
of the wide load. The rules were read off the machine code that ptxas 13 writes for sm_80 and sm_90, which agree, and an
H200 counts what they predict (benchmarks/fidelity.py):

- The loads stand in one stretch of a basic block: no shared store, barrier, fence or shared atomic between them.
- Their addresses are one register plus constants, and address arithmetic shows its alignment (`_alignments`).
- Of four units side by side, aligned, at least three are wanted: one load gets all four. Or else of two, both.
- A unit is 4 bytes; 8 bytes in 64-bit registers; 2 bytes in 16-bit registers that are loaded one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ptxsim.analysis.lanes import EXACT, trailing_zeros, wrap
from ptxsim.isa import Order
from ptxsim.syntax.program import (
    WIDTH_BITS,
    Address,
    Block,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Register,
    Symbol,
    bytes_of,
    elements_of,
    reached,
    registers_in,
)

Definitions = defaultdict[str, list[Instruction]]
"""register -> the instructions that write it"""
WIDEST_BYTES = 16
LONGEST_CHAIN = 64
"""Sums with constants that are followed to where an address comes from."""
Root = tuple[str, int]
"""A register, and where in the block it was written (0: before); ("", 0) for the start of shared memory."""
Place = tuple[Root, int]
"""A root, and a byte offset from its value."""
_REORDERED = frozenset({"global", "local", "param", "const"})


@dataclass(frozen=True, slots=True)
class SharedRequest:
    """What the machine code asks for where a PTX load stands.

    `shift` leads from the load's own address to the first byte, `nbytes` is the width per lane.
    """

    shift: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class _Load:
    instruction: Instruction
    root: Root
    offset: int
    """bytes from the root's value"""
    nbytes: int
    unit: int

    @property
    def units(self) -> range:
        return range(self.offset, self.offset + self.nbytes, self.unit)


def shared_requests(kernel: Kernel) -> dict[int, tuple[SharedRequest, ...]]:
    """id(instruction) -> the requests in place of a shared load, for loads that are not simply one of their own width.

    Loads whose bytes another load gets have none.
    """
    blocks = [block for block in kernel.blocks if any(_may_merge(i) for i in block.instructions)]
    if not blocks:
        return {}
    definitions: Definitions = defaultdict(list)
    for block in kernel.blocks:
        for i in block.executed:
            for name in i.written:
                definitions[name].append(i)
    groups = [group for block in blocks for group in _groups(kernel, block, definitions)]
    aligned = _alignments(kernel, {loads[0].root[0] for loads in groups}, definitions)
    aligned[""] = EXACT
    used = frozenset(name for block in kernel.blocks for i in block.executed for name in i.read)
    found: dict[int, tuple[SharedRequest, ...]] = {}
    for loads in groups:
        found |= _merged(loads, min(4 * loads[0].unit, WIDEST_BYTES, 1 << aligned[loads[0].root[0]]), used)
    return found


# ---------------------------------------------------------------- what is loaded from where


def _may_merge(i: Instruction) -> bool:
    return i.opcode == "ld" and i.space == "shared" and not i.has("volatile")


def _unit_of(kernel: Kernel, i: Instruction) -> int:
    """Bytes in which ptxas counts what a load gets; 0 for a load that it leaves alone."""
    size, target = bytes_of(i.type), i.operands[0]
    count = len(elements_of(target))
    if size == 8:
        return 8
    if size * count % 4 == 0:
        return 4 if size < 4 or count > 1 or _width(kernel, target) == 32 else 0
    return 2 if (size, count) == (2, 1) and _width(kernel, target) == 16 else 0


def _width(kernel: Kernel, target: Operand) -> int:
    return WIDTH_BITS[kernel.registers[target.name]] if isinstance(target, Register) else 0


def _groups(kernel: Kernel, block: Block, definitions: Definitions) -> Iterator[list[_Load]]:
    """The mergeable loads of a block by root and unit, cut where ptxas keeps the order."""
    places: dict[str, Place] = {}
    groups: dict[tuple[Root, int], list[_Load]] = {}
    for position, i in enumerate(block.instructions):
        if _may_merge(i):
            load = _load(kernel, i, places, definitions)
            if load is not None:
                groups.setdefault((load.root, load.unit), []).append(load)
        elif _keeps_order(i):
            yield from groups.values()
            groups = {}
        copied = _copied(kernel, i, places, definitions)
        for name in i.written:
            places[name] = copied or ((name, position + 1), 0)
    yield from groups.values()


def _load(kernel: Kernel, i: Instruction, places: dict[str, Place], definitions: Definitions) -> _Load | None:
    where, unit = i.operands[1], _unit_of(kernel, i)
    place = _place(kernel, where.base, places, definitions) if unit and isinstance(where, Address) else None
    if place is None or not isinstance(where, Address):
        return None
    return _Load(i, place[0], place[1] + where.offset, bytes_of(i.type) * len(elements_of(i.operands[0])), unit)


def _keeps_order(i: Instruction) -> bool:
    """Whether shared loads stay on their side of an instruction."""
    return Order.PINS in i.row.order and not (i.spaces and _REORDERED.issuperset(i.spaces))


def _moved(i: Instruction) -> tuple[Operand, int] | None:
    """The source of a copy or of a sum with a constant, and the constant."""
    found: tuple[Operand, int] | None = None
    if i.opcode == "mov":
        found = i.operands[1], 0
    elif i.opcode in ("add", "sub") and i.types and i.type[0] in "usb" and not i.has("cc") and not i.has("sat"):
        a, b = i.operands[1:3]
        if isinstance(b, Immediate):
            found = a, b.bits if i.opcode == "add" else -b.bits
        elif isinstance(a, Immediate) and i.opcode == "add":
            found = b, a.bits
    return found if found and isinstance(found[0], Register | Symbol | Immediate) else None


def _copied(kernel: Kernel, i: Instruction, places: dict[str, Place], definitions: Definitions) -> Place | None:
    """The place that an instruction copies or moves by a constant."""
    moved = _moved(i)
    source = _place(kernel, moved[0], places, definitions) if moved else None
    return (source[0], wrap(source[1] + moved[1], 32)) if moved and source else None


def _place(kernel: Kernel, base: Operand, places: dict[str, Place], definitions: Definitions) -> Place | None:
    """Where an address comes from: past sums with constants, through registers that are written once."""
    offset = 0
    for _ in range(LONGEST_CHAIN):
        if not isinstance(base, Register):
            break
        if base.name in places:
            root, more = places[base.name]
            return root, wrap(more + offset, 32)
        writers = definitions[base.name]
        moved = _moved(writers[0]) if len(writers) == 1 else None
        if moved is None or (isinstance(moved[0], Register) and len(definitions[moved[0].name]) != 1):
            return (base.name, 0), wrap(offset, 32)
        base, offset = moved[0], offset + moved[1]
    match base:
        case Immediate(bits):
            return ("", 0), wrap(bits + offset, 32)
        case Symbol(name, more):
            variable = kernel.variables.get(name)
            return (("", 0), variable.offset + more + offset) if variable and variable.space == "shared" else None
    return None


# ---------------------------------------------------------------- what becomes of it


Asked = tuple[int, range]
"""The number of the load in whose place a request stands, and the units that it gets, as offsets from the root."""


def _merged(loads: list[_Load], window: int, used: frozenset[str]) -> dict[int, tuple[SharedRequest, ...]]:
    """The requests of loads of one stretch, root and unit; `window` is the widest load that their alignment allows."""
    unit = loads[0].unit
    alone: list[Asked] = []
    narrowed: set[int] = set()
    held: set[int] = set()
    sharing: list[tuple[int, list[int]]] = []
    for number, load in enumerate(loads):
        wanted = _wanted(load, used)
        pieces = list(_pieces(wanted, unit, load.nbytes, load.offset))
        if len(pieces) == 1 and len(wanted) < len(load.units):  # not taken apart for others
            alone += [(number, pieces[0])] if not narrowed.issuperset(wanted) else []
            narrowed.update(wanted)
        elif len(pieces) > 1 or (load.nbytes < window and load.offset % load.nbytes == 0):
            sharing.append((number, wanted))
        elif not held.issuperset(wanted):
            alone.append((number, load.units))
            held.update(wanted)
    first: dict[int, int] = {}
    for number, wanted in sharing:
        for at in wanted:
            if at not in held:
                first.setdefault(at, number)
    together = [(min(first[at] for at in piece if at in first), piece) for piece in _pieces(first, unit, window)]
    asked = _joined(sorted(alone + together, key=lambda a: (a[1].start, a[0])), unit, window)
    found: dict[int, tuple[SharedRequest, ...]] = {}
    for number, load in enumerate(loads):
        own = [piece for k, piece in asked if k == number]
        if own != [load.units]:
            found[id(load.instruction)] = tuple(SharedRequest(p.start - load.offset, len(p) * unit) for p in own)
    return found


def _wanted(load: _Load, used: frozenset[str]) -> list[int]:
    """The units of a load that some instruction reads; of a load in vain, all."""
    elements = elements_of(load.instruction.operands[0])
    size = load.nbytes // len(elements)
    read_at = [k * size for k, e in enumerate(elements) if isinstance(e, Register) and e.name in used]
    return sorted({load.offset + at // load.unit * load.unit for at in read_at}) or list(load.units)


def _pieces(wanted: Iterable[int], unit: int, window: int, origin: int = 0) -> Iterator[range]:
    """The machine's loads for the wanted units, in windows that count from `origin`."""
    windows: dict[int, list[int]] = {}
    for at in wanted:
        windows.setdefault((at - origin) // window, []).append(at)
    for number, inside in windows.items():
        start = origin + number * window
        if len(inside) > 2:
            yield range(start, start + window, unit)
        elif len({(at - start) // (2 * unit) for at in inside}) < len(inside):
            yield range(min(inside), min(inside) + 2 * unit, unit)
        else:
            yield from (range(at, at + unit, unit) for at in inside)


def _joined(asked: list[Asked], unit: int, window: int) -> list[Asked]:
    """Requests in the order of their offsets, of which two equal halves of an aligned whole become one."""
    joined: list[Asked] = []
    for one in asked:
        joined.append(one)
        while len(joined) > 1:
            (first, a), (second, b) = joined[-2:]
            size = 2 * unit * len(a)
            if len(a) != len(b) or a.stop != b.start or a.start % size or size > window:
                break
            joined[-2:] = [(min(first, second), range(a.start, b.stop, unit))]
    return joined


# ---------------------------------------------------------------- how addresses are aligned


def _alignments(kernel: Kernel, registers: Iterable[str], definitions: Definitions) -> dict[str, int]:
    """register -> exponent of the largest power of two known to divide it, for `registers` and what they come from.

    Control flow is ignored: a register has the least alignment of its definitions. The block's shape is not known
    either, as ptxas does not know it. Addresses of shared variables count from the start of the block's shared memory.
    """

    def sources(name: str) -> list[str]:
        return [n for i in definitions[name] for o in i.operands[1:] for n in registers_in(o)] if computed(name) else []

    def computed(name: str) -> bool:
        return bool(definitions[name]) and all(map(_rule, definitions[name]))

    known = {name: EXACT if computed(name) else 0 for name in reached(registers, sources)}
    arithmetic = [(name, i) for name in known if known[name] for i in definitions[name]]
    changed = True
    while changed:
        changed = False
        for name, i in arithmetic:
            rule = _rule(i)
            assert rule is not None
            found = rule([_operand(kernel, o, known) for o in i.operands[1:]], i)
            if found < known[name]:
                known[name], changed = found, True
    return known


def _operand(kernel: Kernel, operand: Operand, known: dict[str, int]) -> int:
    match operand:
        case Register(name):
            return known.get(name, 0)
        case Immediate(bits):
            return trailing_zeros(bits)
        case Symbol(name, offset) if name in kernel.variables and kernel.variables[name].space == "shared":
            return trailing_zeros(kernel.variables[name].offset + offset)
    return 0


_Rule = Callable[[list[int], Instruction], int]


def _sum_of(s: list[int], i: Instruction) -> int:
    return min(EXACT, s[0] + s[1])


def _shifted(s: list[int], i: Instruction) -> int:
    """shl and shr by a constant; shl by a register can only add zeros."""
    by = i.operands[2].bits if isinstance(i.operands[2], Immediate) else None
    if i.opcode == "shl":
        return min(EXACT, s[0] + max(0, by or 0))
    return 0 if by is None or by < 0 else s[0] if s[0] == EXACT else max(0, s[0] - by)


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("add", "sub", "or", "xor", "selp"), lambda s, i: min(s[:2])),
    "and": lambda s, i: max(s),
    "mul": _sum_of, "mul24": _sum_of, "mad": lambda s, i: min(_sum_of(s, i), s[2]),
    "shl": _shifted, "shr": _shifted,
    **dict.fromkeys(("mov", "cvt", "cvta", "neg"), lambda s, i: s[0]),
}  # fmt: skip


def _rule(i: Instruction) -> _Rule | None:
    """The rule of an integer instruction with one register as its result."""
    integers = bool(i.types) and all(t[0] in "usb" and t[1:].isdigit() and t != "b128" for t in i.types)
    if not integers or not isinstance(i.operands[0], Register) or not {"hi", "sat", "cc"}.isdisjoint(i.modifiers):
        return None
    return _RULES.get(i.opcode)
