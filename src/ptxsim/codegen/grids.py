"""Register blocking as what it is: a grid of sums, to which each step along k adds a column times a row.

PTX writes such a product out, multiply-add by multiply-add. Here a block's product is found again in its multiply-adds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ptxsim.codegen.chains import sum_chains
from ptxsim.syntax.program import TWICE, Block, Instruction, Kernel, Register

Names = tuple[str, ...]
Offsets = tuple[int, ...]
_LEAST_SUMS, _LEAST_STEPS = 8, 2


@dataclass(frozen=True)
class Factors:
    """One side of a product: [step][place] -> register; and for each lane the first one that loads the same words."""

    names: tuple[Names, ...]
    lanes: tuple[int, ...]


@dataclass(frozen=True)
class OuterProduct:
    """sums[i][j] += columns[k][i] * rows[k][j] for each k in turn, and the instructions that say so."""

    sums: tuple[Names, ...]
    columns: Factors
    rows: Factors
    instructions: frozenset[int]
    """identities of the multiply-adds"""
    last: Instruction
    """that of them which a block has last"""

    def at_once(self, block: Block) -> list[Instruction]:
        """The instructions of its block, with the multiply-adds where the last of them stands."""
        end = next(k for k, i in enumerate(block.instructions) if i is self.last)
        first = [i for i in block.instructions[:end] if id(i) not in self.instructions]
        own = [i for i in block.instructions if id(i) in self.instructions]
        return [*first, *own, *block.instructions[end + 1 :]]


def find_products(
    kernel: Kernel, offsets: Callable[[Instruction], Offsets | None], varies: Callable[[str], bool]
) -> dict[int, OuterProduct]:
    """Products by the numbers of their basic blocks. Those that share sums have all of them in common, in one order.

    `offsets`: what lanes add to the address of a load, where it is of words in shared memory and that is known.
    `varies`: whether a register has no pattern of lanes.
    """
    found: dict[int, OuterProduct] = {}
    for block in kernel.blocks:
        product = find_product(block, offsets)
        if product is not None and all(varies(name) for row in product.sums for name in row):
            mine = {name for row in product.sums for name in row}
            others = (p.sums for p in found.values() if p.sums != product.sums)
            if all(mine.isdisjoint(row) for sums in others for row in sums):
                found[block.index] = product
    return found


def sums_in_order(products: Iterable[OuterProduct]) -> list[str]:
    """The sums of products, each grid row by row."""
    return [*dict.fromkeys(name for product in products for row in product.sums for name in row)]


def find_product(block: Block, offsets: Callable[[Instruction], Offsets | None]) -> OuterProduct | None:
    """The product that a block's multiply-adds are, if all its chains of sums are one."""
    if sum(i.opcode == "fma" for i in block.instructions) < _LEAST_SUMS * _LEAST_STEPS:
        return None
    chains = [[block.instructions[k] for k in chain] for chain in sum_chains(block.instructions)[0]]
    depths = {len(chain) for chain in chains}
    if len(chains) < _LEAST_SUMS or len(depths) != 1 or min(depths) < _LEAST_STEPS:
        return None
    grid = _grid([_pair(chain[0]) for chain in chains]) if all(_stays(block, chain) for chain in chains) else None
    if grid is None:
        return None
    steps = [_step([[_pair(chains[c][k]) for c in row] for row in grid]) for k in range(min(depths))]
    own = frozenset(id(i) for chain in chains for i in chain)
    columns, rows = (_factors(block, own, [step[side] for step in steps if step], offsets) for side in (0, 1))
    if None in steps or columns is None or rows is None:
        return None
    sums = tuple(tuple(chains[c][-1].written[0] for c in row) for row in grid)
    return OuterProduct(sums, columns, rows, own, [i for i in block.instructions if id(i) in own][-1])


def _pair(i: Instruction) -> frozenset[str]:
    """The factors of a multiply-add."""
    return frozenset(o.name for o in i.operands[1:3] if isinstance(o, Register))


def _stays(block: Block, chain: list[Instruction]) -> bool:
    """Whether a chain of plain multiply-adds begins and ends with one register, and nobody else sees the others."""
    first, inner = chain[0].operands[3], {i.written[0] for i in chain[:-1]}
    plain = all(i.type == "f32" and i.has("rn") and not {"ftz", "sat", TWICE} & {*i.modifiers} for i in chain)
    same = isinstance(first, Register) and first.name == chain[-1].written[0]
    return plain and same and inner.isdisjoint(block.live_out)


def _grid(pairs: Sequence[frozenset[str]]) -> list[list[int]] | None:
    """Chains by row and column, such that those of a row share one factor and those of a column the other."""
    if any(len(pair) != 2 for pair in pairs):
        return None
    users: dict[str, list[int]] = defaultdict(list)
    for c, pair in enumerate(pairs):
        for name in pair:
            users[name].append(c)
    corner, beside = sorted(pairs[0])
    heads = [_other(pairs[c], beside) for c in users[beside]]
    rows = [{_other(pairs[c], head): c for c in users[head]} for head in heads]
    order = [_other(pairs[c], corner) for c in users[corner]]
    complete = len(heads) * len(order) == len(pairs) and all(row.keys() == set(order) for row in rows)
    return [[row[name] for name in order] for row in rows] if complete and min(len(heads), len(order)) > 1 else None


def _other(pair: frozenset[str], name: str) -> str:
    (other,) = pair - {name}
    return other


def _step(pairs: list[list[frozenset[str]]]) -> tuple[Names, Names] | None:
    """(factor of each row, factor of each column) of one step."""
    sides = [[frozenset.intersection(*line) for line in lines] for lines in (pairs, [*zip(*pairs, strict=True)])]
    if any(len(common) != 1 for side in sides for common in side):
        return None
    left, right = (tuple(name for common in side for name in common) for side in sides)
    whole = all(pairs[i][j] == {x, y} for i, x in enumerate(left) for j, y in enumerate(right))
    return (left, right) if whole else None


def _factors(
    block: Block, own: frozenset[int], names: Iterable[Names], offsets: Callable[[Instruction], Offsets | None]
) -> Factors | None:
    """One side, if its registers are loaded alike in this block and serve nothing else."""
    steps = tuple(names)
    used = Counter(name for step in steps for name in step)
    loads = {name: i for i in block.instructions for name in i.written if name in used}
    read = {name for i in block.executed if id(i) not in own for name in i.read} | block.live_out
    if max(used.values(), default=2) > 1 or loads.keys() != used.keys() or not read.isdisjoint(used):
        return None
    alike = {None if found is None else tuple(found.index(o) for o in found) for found in map(offsets, loads.values())}
    lanes = alike.pop()
    return Factors(steps, lanes) if not alike and lanes is not None else None
