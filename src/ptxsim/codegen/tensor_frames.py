"""What makes products fast: fragments that stay in memory as matrices, and products that are computed together.

Registers that only ever appear together, as one operand of matrix instructions, need not be spread over lanes. `full`
keeps such a list as a matrix in the warp's context, where products, loads and stores of fragments work on it in place,
also across barriers. A register of it that another instruction reads is taken out, one that another instruction writes
is put in, before the next use of the matrix. `masked` keeps all registers in their slots: the matrices are spread
before the first of its blocks that mentions one of their registers, and gathered if the warp then comes back to `full`.

An input that comes from memory and goes into products of the same basic block, and nowhere else, is kept as products
take it: widened to f32 when it is loaded.

A product may wait for a later one as long as nobody in between looks at its sum or changes what it reads. So two
products on the same sum become one function call (`deep`), and so do products that share an input, which is then read
once for all of them (`side`, `stacked`). The order of additions to a sum, and with it every rounding, stays the same.
A sum that only passes from one product of a chain to the next is never written to memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import CONTEXT, WARP, Helper, IRValue, constant, i32
from ptxsim.codegen.tensor_products import (
    ONE,
    Arrangement,
    MatrixForm,
    MatrixFrame,
    Registers,
    accumulator_form,
    across,
    input_form,
    memory_form,
    pack,
    unpack,
    widens_in_order,
)
from ptxsim.codegen.translator import Translator
from ptxsim.fragments import Fragment, dimensions, fragment
from ptxsim.syntax.matrices import Product, product, tile
from ptxsim.syntax.program import Block, Instruction, Kernel, Operand, Register, Vector
from ptxsim.syntax.warpgroup import warpgroup_product


def same_form(form: MatrixForm) -> MatrixForm:
    """A form by which the accumulators C and D of the same kind are one."""
    held: Fragment = form.held
    if held.operand != "d" or held.layout or (held.instruction, held.shape, held.rows) == ("mma", "m8n8k4", 32):
        return form
    return replace(form, held=fragment(held.instruction, held.shape, held.type, "c"))


def operand_forms(i: Instruction) -> Iterator[tuple[Operand, MatrixForm]]:
    """The fragments that an instruction names, as it takes them."""
    if i.opcode == "mma" or (i.opcode == "wmma" and i.has("mma")):
        p = product(i)
        for operand, name in zip(i.operands, "dabc", strict=True):
            yield operand, same_form(accumulator_form(p, name) if name in "cd" else input_form(p, name))
    elif i.opcode == "wgmma":
        if i.has("mma_async"):
            yield i.operands[0], same_form(MatrixForm(warpgroup_product(i).fragment("d"), "row"))
    elif i.opcode == "wmma":
        yield i.operands[0 if i.has("load") else 1], same_form(memory_form(tile(i).fragment))


def register_list(operand: Operand) -> tuple[str, ...] | None:
    """Names of a list of different registers."""
    if not isinstance(operand, Vector) or not all(isinstance(e, Register) for e in operand.elements):
        return None
    names = tuple(e.name for e in operand.elements if isinstance(e, Register))
    return names if len(set(names)) == len(names) else None


def find_frames(kernel: Kernel, varies: Callable[[str], bool]) -> tuple[MatrixFrame, ...]:
    """The lists of registers that `full` keeps as matrices; of two that overlap, the first."""
    found: dict[tuple[str, ...], MatrixForm] = {}
    taken: set[str] = set()
    for block in kernel.blocks:
        for i in block.instructions:
            for operand, form in operand_forms(i):
                names = register_list(operand)
                if names is None or names in found or not taken.isdisjoint(names) or not all(map(varies, names)):
                    continue
                found[names] = form
                taken.update(names)
    passing = _passing(kernel, found) if found else set()
    frames: list[MatrixFrame] = []
    ends = {True: 0, False: 0}
    for names, form in found.items():
        frame = MatrixFrame(names, form, ends[names in passing], names in passing)
        frames.append(frame)
        ends[frame.wide] += room(frame)
    return tuple(frames)


def _passing(kernel: Kernel, found: dict[tuple[str, ...], MatrixForm]) -> set[tuple[str, ...]]:
    """The inputs that are loaded and multiplied within a block and used in no other way."""
    lists = {names for names, form in found.items() if form.held.operand in ("a", "b") and widens_in_order(form)}
    of = {name: names for names in lists for name in names}
    for block in kernel.blocks:
        lists -= {of[name] for name in block.live_in & of.keys()}
        for i in block.instructions:
            used = {of[name] for name in (*i.read, *i.written) if name in of}
            if used:
                lists -= used - _passes(i, found)
    return lists


def _passes(i: Instruction, found: dict[tuple[str, ...], MatrixForm]) -> set[tuple[str, ...]]:
    """The lists that an instruction loads or multiplies, always in the form in which they are kept."""
    if i.opcode == "wmma" and i.has("store"):
        return set()
    named = [(register_list(operand), form) for operand, form in operand_forms(i)]
    loaded = frozenset(i.read) if i.has("load") else frozenset()
    return {
        names for names, _ in named
        if names is not None
        and all(found.get(names) == form for others, form in named if others == names)
        and loaded.isdisjoint(names)
    }  # fmt: skip


def room(frame: MatrixFrame) -> int:
    """Bytes that a frame takes."""
    return -(-(frame.form.elements * 4 if frame.wide else frame.form.nbytes) // 64) * 64


def frames_bytes(frames: Iterable[MatrixFrame], *, wide: bool = False) -> int:
    """Room for those that are wide, or for the others."""
    return max((f.offset + room(f) for f in frames if f.wide == wide), default=0)


@dataclass
class ResidentFrames:
    """The frames of one function of `full`, while its code is written."""

    t: Translator
    frames: tuple[MatrixFrame, ...]
    dirty: set[str] = field(default_factory=set)
    """registers whose value in this block is not in their matrix yet"""

    def __post_init__(self) -> None:
        self.of = {name: f for f in self.frames for name in f.registers}
        self.lists = {f.registers: f for f in self.frames}

    def find(self, operand: Operand, form: MatrixForm) -> MatrixFrame | None:
        """The frame that holds an operand in this form."""
        names = register_list(operand)
        frame = self.lists.get(names) if names is not None else None
        return frame if frame is not None and frame.form == same_form(form) else None

    def at(self, frame: MatrixFrame) -> IRValue:
        if frame.wide:
            return self.t.offset(self.t.area("wide frames", frames_bytes(self.frames, wide=True)), frame.offset)
        return self.t.offset(CONTEXT, self.t.unit.context.frames + frame.offset)

    def current(self, frame: MatrixFrame) -> IRValue:
        """The matrix with all that was written to its registers."""
        self.flush(frame)
        return self.at(frame)

    def written(self, frame: MatrixFrame) -> None:
        """The matrix has been written: what was known of its registers is old."""
        for name in frame.registers:
            self.t.known.pop((name, WARP), None)
            self.dirty.discard(name)
            self.t.versions[name] = self.t.versions.get(name, 0) + 1

    def read(self, frame: MatrixFrame) -> None:
        """Takes all registers out of the matrix, except those that are known already."""
        t, form = self.t, frame.form
        lanes = t.area("lanes", form.lane_bytes)
        t.call_library(unpack(form), self.at(frame), lanes)
        for k, name in enumerate(frame.registers):
            if (name, WARP) not in t.known:
                bits = form.held.register_bits
                t.known[name, WARP] = t.load(f"i{bits}", t.offset(lanes, k * WARP * bits // 8), WARP, align=64)

    def flush(self, frame: MatrixFrame) -> None:
        """Puts registers that were written one by one into the matrix."""
        if self.dirty.isdisjoint(frame.registers):
            return
        t = self.t
        if not all((name, WARP) in t.known for name in frame.registers):
            self.read(frame)
        values = [t.known[name, WARP] for name in frame.registers]
        self.dirty.difference_update(frame.registers)
        if len({v.text for v in values}) == 1 and values[0].text.startswith("splat") and values[0].type == "i32":
            for start in range(0, frame.form.nbytes, 64):
                t.store(IRValue("i32", values[0].text, 16), t.offset(self.at(frame), start), align=64)
            return
        self._gather(frame, values)

    def _gather(self, frame: MatrixFrame, values: list[IRValue]) -> None:
        t, form = self.t, frame.form
        lanes = t.area("lanes", form.lane_bytes)
        for k, value in enumerate(values):
            t.store(value, t.offset(lanes, k * WARP * form.held.register_bits // 8), align=64)
        t.call_library(pack(form), lanes, self.at(frame))

    def flush_live(self, live: frozenset[str]) -> None:
        for frame in self.frames:
            if not live.isdisjoint(self.dirty.intersection(frame.registers)):
                self.flush(frame)

    # -- the seam to `masked` -------------------------------------------------------------------------------------
    def enter(self, live: frozenset[str]) -> None:
        """At the function's entry: if `masked` has spread the matrices, gathers them from the registers' slots."""
        t = self.t
        if not self.frames:
            return
        at = t.offset(CONTEXT, L.ContextLayout.STALE)
        frames = [f for f in self.frames if not live.isdisjoint(f.registers)]
        if frames:
            with t.if_(t.icmp("ne", t.load("i32", at), constant("i32", 0)), likely=False):
                for frame in frames:
                    zero, slots = constant(f"i{frame.form.held.register_bits}", 0, WARP), t.unit.context.slots
                    self._gather(frame, [t.restore(n, WARP) if n in slots else zero for n in frame.registers])
        t.store(constant("i32", 0), at)


def spread(t: Translator, frames: Iterable[MatrixFrame], mentioned: Set[str]) -> None:
    """In `masked`, before a block that mentions these registers: matrices that `full` has left go to their slots."""
    kept = [f for f in frames if not f.wide]
    if mentioned.isdisjoint(name for f in kept for name in f.registers):
        return
    stale = t.offset(CONTEXT, L.ContextLayout.STALE)

    def body(b: Helper) -> None:
        context = t.unit.context
        for frame in kept:
            name, text = unpack(frame.form)
            t.unit.library[name] = text
            bits = frame.form.held.register_bits
            lanes = b.let("ptr", 0, f"alloca [{frame.form.lane_bytes} x i8], align 64")
            b.call(name, "void", b.offset(CONTEXT, context.frames + frame.offset), lanes)
            for k, register in enumerate(frame.registers):
                if register in context.slots:
                    value = b.load(f"i{bits}", b.offset(lanes, k * WARP * bits // 8), WARP, align=64)
                    b.store(value, b.offset(CONTEXT, context.slots[register]), align=64)
        b.store(i32(1), b.offset(CONTEXT, L.ContextLayout.STALE))
        b.ret()

    with t.if_(t.icmp("eq", t.load("i32", stale), i32(0)), likely=False):
        t.call(t.helper("spread_matrices", "void", (CONTEXT,), body), "void", CONTEXT)


_MOST_DEEP = 2
"""Products on one sum: more of them need more inputs at once than the host's nearest cache holds."""
Names = tuple[str, ...]


@dataclass(frozen=True)
class Member:
    """A product of a block: where it stands and the registers of its operands."""

    position: int
    product: Product
    d: Names
    c: Names
    vectors: Names
    single: Names


Chain = tuple[Member, ...]


@dataclass(frozen=True)
class Group:
    """Products that are computed when the last of them is reached."""

    chains: tuple[Chain, ...]
    arrangement: Arrangement

    @property
    def members(self) -> Iterator[Member]:
        return (m for chain in self.chains for m in chain)

    @property
    def last(self) -> int:
        return max(m.position for m in self.members)


def product_groups(
    block: Block, registers: Registers, resident: Callable[[Operand, MatrixForm], object | None]
) -> dict[int, Group]:
    """The groups of a block by the positions of their products; `resident` tells whether a sum is kept as a matrix."""
    members = [m for k, i in enumerate(block.instructions) if (m := _member(k, i, resident)) is not None]
    if len(members) < 2:
        return {}
    uses = _Uses(block, {name for m in members for names in (m.d, m.c, m.vectors, m.single) for name in names})
    found: dict[int, Group] = {}
    for group in _by_input(_chains(members, uses), registers, uses):
        found |= {m.position: group for m in group.members}
    return found


def _member(position: int, i: Instruction, resident: Callable[[Operand, MatrixForm], object | None]) -> Member | None:
    if not (i.opcode == "mma" or (i.opcode == "wmma" and i.has("mma"))):
        return None
    p = product(i)
    lists = [register_list(o) for o in i.operands]
    kept = all(resident(i.operands[k], accumulator_form(p, name)) for k, name in ((0, "d"), (3, "c")))
    if p.quarters or not kept or not all(lists):
        return None
    d, a, b, c = (names or () for names in lists)
    vectors, single = (a, b) if across(p) == "m" else (b, a)
    return Member(position, p, d, c, vectors, single)


# ---------------------------------------------------------------- what may wait


class _Uses:
    """Where a block reads and writes the registers of its products."""

    def __init__(self, block: Block, names: set[str]) -> None:
        self.reads: dict[str, list[int]] = defaultdict(list)
        self.writes: dict[str, list[int]] = defaultdict(list)
        self.live_out = block.live_out
        for k, i in enumerate(block.instructions):
            for uses, mentioned in ((self.reads, i.read), (self.writes, i.written)):
                for name in names.intersection(mentioned):
                    uses[name].append(k)

    def may_wait(self, group: Group) -> bool:
        """Whether all products of a group may be computed at its last one."""
        for chain in group.chains:
            own = {m.position for m in chain}
            for m in chain:
                inputs = {*m.vectors, *m.single}
                if (
                    self._within(self.reads, m.d, m.position, group.last) - own
                    or self._within(self.writes, (*m.d, *m.c), m.position, group.last) - own
                    or self._within(self.writes, inputs, m.position, group.last)
                ):
                    return False
        sums = [({*c[-1].d}, {name for m in c for name in (*m.d, *m.c)}) for c in group.chains]
        return not any(d & other for k, (d, _) in enumerate(sums) for n, (_, other) in enumerate(sums) if n != k)

    def passes_on(self, m: Member, to: Member, last: Member) -> bool:
        """Whether the sum of `m` is for the product `to` alone, so that it need not be kept."""
        if m.d == last.d:
            return True
        later = self._within(self.reads, m.d, m.position, None) - {to.position}
        return not later and self.live_out.isdisjoint(m.d)

    def _within(self, uses: dict[str, list[int]], names: Iterable[str], after: int, last: int | None) -> set[int]:
        """Positions behind `after`, up to `last`, where registers are used."""
        found: set[int] = set()
        for name in names:
            at = uses[name]
            end = len(at) if last is None else bisect_right(at, last)
            found.update(at[bisect_right(at, after) : end])
        return found


# ---------------------------------------------------------------- what belongs together


def _chains(members: list[Member], uses: _Uses) -> list[Chain]:
    """Products on the same sum, one after the other."""
    by_start: dict[Names, list[Member]] = defaultdict(list)
    for m in members:
        by_start[m.c].append(m)
    chains: list[Chain] = []
    taken: set[int] = set()
    for m in members:
        if m.position in taken:
            continue
        chain: Chain = (m,)
        while len(chain) < _MOST_DEEP and _chains_up(m.product):
            following = next((n for n in by_start[chain[-1].d] if n.position > chain[-1].position), None)
            if following is None or following.product != m.product or following.position in taken:
                break
            longer = (*chain, following)
            passing = all(uses.passes_on(x, y, following) for x, y in pairwise(longer))
            if not passing or not uses.may_wait(Group((longer,), ONE)):
                break
            chain = longer
        taken.update(x.position for x in chain)
        chains.append(chain)
    return chains


def _chains_up(p: Product) -> bool:
    """Whether a sum may stay as it is from one product to the next: not where each rounds it to f16."""
    return p.c == p.d and p.d in ("f32", "f64")


def _by_input(chains: list[Chain], registers: Registers, uses: _Uses) -> Iterator[Group]:
    """Chains that share an input, as many as registers allow, and the longer ones of those that do not."""
    for shared in ("single", "vectors"):
        alike: dict[tuple[object, ...], list[Chain]] = defaultdict(list)
        for chain in chains:
            alike[chain[0].product, *(getattr(m, shared) for m in chain)].append(chain)
        chains = []
        for together in alike.values():
            while together:
                group = _first_group(together, registers, shared)
                if len(group.chains) > 1 and uses.may_wait(group):
                    yield group
                    del together[: len(group.chains)]
                else:
                    chains.append(together.pop(0))
    for chain in chains:
        if len(chain) > 1:
            yield Group((chain,), Arrangement(deep=len(chain)))


def _first_group(chains: list[Chain], registers: Registers, shared: str) -> Group:
    """As many of these chains, from the first on, as one function computes: a power of two."""
    count = min(len(chains), _most(chains[0][0].product, registers, shared))
    count = 1 << count.bit_length() - 1
    deep = len(chains[0])
    arrangement = Arrangement(count, 1, deep) if shared == "single" else Arrangement(1, count, deep)
    return Group(tuple(chains[:count]), arrangement)


def _most(p: Product, registers: Registers, shared: str) -> int:
    """How many products that share an input one function computes at once."""
    if shared == "single":
        return registers.side
    m, n, _ = dimensions(p.shape)
    per_row = max(1, max(m, n) * (2 if p.d == "f64" else 1) // registers.width)
    return max(1, registers.sums // (min(m, n) * per_row))
