"""Products of a block that are computed together: sums stay in the host's registers from one to the next.

A product may wait for a later one as long as nobody in between looks at its sum or changes what it reads. So two
products on the same sum become one function call (`deep`), and so do products that share an input, which is then read
once for all of them (`side`, `stacked`). The order of additions to a sum, and with it every rounding, stays the same.
A sum that only passes from one product of a chain to the next is never written to memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from ptxsim.codegen.frames import register_list
from ptxsim.codegen.tensor_forms import Form, accumulator_form, across
from ptxsim.codegen.tensor_products import ONE, Arrangement, Registers
from ptxsim.fragments import dimensions
from ptxsim.syntax.matrices import Product, product
from ptxsim.syntax.program import Block, Instruction, Operand

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
    block: Block, registers: Registers, resident: Callable[[Operand, Form], object | None]
) -> dict[int, Group]:
    """The groups of a block by the positions of their products; `resident` tells whether a sum is kept as a matrix."""
    members = [m for k, i in enumerate(block.instructions) if (m := _member(k, i, resident)) is not None]
    if len(members) < 2:
        return {}
    uses = _Uses(block, {name for m in members for names in (m.d, m.c, m.vectors, m.single) for name in names})
    found: dict[int, Group] = {}
    chains = _chains(members, uses)
    for group in _by_input(chains, registers, uses):
        found |= {m.position: group for m in group.members}
    return found


def _member(position: int, i: Instruction, resident: Callable[[Operand, Form], object | None]) -> Member | None:
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
