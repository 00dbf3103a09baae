"""Products of register blocking as loops, in which a few sums of some lanes stay in registers while k runs.

Written out they are hundreds of instructions for 32 lanes each: more than the host's decoders keep at hand, and than
LLVM translates soon. The sums have their places side by side in the warp's context. Factors come from shared memory,
once for all lanes that share them, and are laid out by k. No sum is added up in another order, so no bit changes.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from ptxsim.analysis.effects import may_write_shared
from ptxsim.codegen import host
from ptxsim.codegen.access import MemoryAccess
from ptxsim.codegen.emit import CONTEXT, WARP, IRValue, constant
from ptxsim.codegen.grids import Factors, Offsets, OuterProduct
from ptxsim.codegen.translator import Translator
from ptxsim.syntax.program import Instruction, Register

_WORD, _MOST_TOGETHER = 4, 8
_WIDE, _NARROW, _PAIRS = (16, 32), (8, 16), (8, 8)
"""(lanes of a vector, vectors that the host has registers for): of 64 bytes, of 32, and of 32 in two registers"""


@dataclass(frozen=True)
class _View:
    """Where the loops find the factors of one side."""

    start: IRValue
    step_bytes: int
    entry_bytes: int
    """from one place to the next"""
    shifts: tuple[int, ...]
    """of each piece"""


@dataclass(frozen=True)
class _Load:
    """A load of factors that has been examined."""

    access: MemoryAccess
    names: tuple[str, ...]
    offsets: Offsets
    place: IRValue
    """the host's address that stands for the register's"""


class _Side:
    """The factors of one side, and their layout in memory: [step][place][piece], a piece for some lanes."""

    def __init__(self, factors: Factors, area: str, width: int) -> None:
        parts = [factors.lanes[g : g + width] for g in range(0, WARP, width)]
        pieces = [*dict.fromkeys(parts)]
        self.names, self.area, self.alike = factors.names, area, all(len(set(part)) == 1 for part in parts)
        self.pieces = [piece[:1] if self.alike else piece for piece in pieces]
        """the lanes that each piece is taken from: one, or as many as a vector has"""
        self.of_group = [pieces.index(part) for part in parts]
        """group of lanes -> its piece"""
        self.piece_bytes = _WORD * len(self.pieces[0])
        self.entry_bytes = self.piece_bytes * len(self.pieces)
        self.step_bytes = self.entry_bytes * len(self.names[0])
        self.loads: dict[str, tuple[_Load, int]] = {}
        """register -> what loads it, and from where counted from the load's register"""

    @property
    def places(self) -> int:
        return len(self.names[0])

    def keep(self, load: _Load) -> None:
        for k, name in enumerate(load.names):
            self.loads[name] = load, load.access.address.offset + _WORD * k

    def put(self, t: Translator, k: int, place: int, piece: int, value: IRValue) -> None:
        """Lays down a piece: a word, or one for each of its lanes."""
        at = k * self.step_bytes + place * self.entry_bytes + piece * self.piece_bytes
        lanes = len(self.pieces[piece])
        t.store(t.splat(value, lanes) if not value.lanes and lanes > 1 else value, t.offset(self._room(t), at))

    def _room(self, t: Translator) -> IRValue:
        return t.area(self.area, self.step_bytes * len(self.names))

    def view(self, t: Translator) -> _View:
        """Where the factors are: in shared memory, where they lie regularly, or laid out."""
        found = self._in_place(t)
        if found is not None:
            return found
        for k, names in enumerate(self.names):
            done = 0
            while done < len(names):
                done += self._lay_out(t, k, done) if names[done] in self.loads else 1
        shifts = tuple(n * self.piece_bytes for n in range(len(self.pieces)))
        return _View(self._room(t), self.step_bytes, self.entry_bytes, shifts)

    def _in_place(self, t: Translator) -> _View | None:
        if any(name not in self.loads for names in self.names for name in names):
            return None
        at = [[self.loads[name][1] for name in names] for names in self.names]
        load, first = self.loads[self.names[0][0]][0], at[0][0]
        step, entry = at[1][0] - first, at[0][1] - first
        regular = all(x == first + k * step + n * entry for k, row in enumerate(at) for n, x in enumerate(row))
        places = {found.place.text for found, _ in self.loads.values()}
        in_order = all(
            [load.offsets[lane] for lane in piece] == [load.offsets[piece[0]] + _WORD * n for n in range(len(piece))]
            for piece in self.pieces
        )
        if not regular or not in_order or len(places) > 1:
            return None
        start = t.pointer(t.add_const(load.place, first))
        return _View(start, step, entry, tuple(load.offsets[piece[0]] for piece in self.pieces))

    def _lay_out(self, t: Translator, k: int, place: int) -> int:
        """Lays out what was loaded from a place on; how many places that were."""
        load, at = self.loads[self.names[k][place]]
        following = [self.loads.get(name) for name in self.names[k][place : place + 4]]
        neighbours = [n for n, x in enumerate(following) if x and x[0].place == load.place and x[1] == at + _WORD * n]
        quads = len(neighbours) == 4 and len(self.pieces[0]) % 4 == 0
        for number, piece in enumerate(self.pieces):
            lanes = [t.pointer(t.add_const(load.place, at + load.offsets[lane])) for lane in piece]
            if quads:
                for n, value in enumerate(t.words_of([t.load("i32", lane, 4) for lane in lanes])):
                    self.put(t, k, place + n, number, value)
            elif len(lanes) == 1:
                self.put(t, k, place, number, t.load("i32", lanes[0]))
            else:
                self.put(t, k, place, number, _joined(t, [t.load("i32", lane) for lane in lanes]))
        return 4 if quads else 1


def _joined(t: Translator, words: list[IRValue]) -> IRValue:
    """Scalars as a vector."""
    value = IRValue(words[0].type, "poison", len(words))
    for n, word in enumerate(words):
        value = t.insert(value, word, n)
    return value


class ProductLoops:
    """A basic block's product: takes its factors as they are loaded, and adds it up when its turn comes."""

    def __init__(self, t: Translator, product: OuterProduct) -> None:
        self.t = t
        host_has = _WIDE if t.unit.wide_vectors else _NARROW if host.has("avx") or host.has("neon") else _PAIRS
        self.width, self.registers = host_has
        self.columns = _Side(product.columns, "columns", self.width)
        self.rows = _Side(product.rows, "rows", self.width)
        self.places = {
            name: (side, k, place)
            for side in (self.columns, self.rows)
            for k, names in enumerate(side.names)
            for place, name in enumerate(names)
        }
        self._quiet = _stay_as_they_are(t.block.instructions, product, self.places.keys())

    def load(self, a: MemoryAccess, offsets: Offsets, place: IRValue) -> bool:
        """Takes a load of factors, whose turn comes with the product; False where it is none, or must not wait."""
        names = tuple(r.name if isinstance(r, Register) else "" for r in a.registers)
        sides = {self.places[name][0] if name in self.places else None for name in names}
        side = sides.pop()
        if not self._quiet or sides or side is None:
            return False
        side.keep(_Load(a, names, offsets, place))
        return True

    def take(self, name: str, value: IRValue) -> None:
        """Takes a factor as a register's value."""
        side, k, place = self.places[name]
        for number, piece in enumerate(side.pieces):
            some = self.t.shuffle(value, piece) if value.lanes and len(piece) > 1 else value
            side.put(self.t, k, place, number, self.t.extract(some, piece[0]) if some.lanes == WARP else some)

    def add_up(self, first_sum: int) -> None:
        """Adds the product to the sums, whose places begin at `first_sum` in the warp's context."""
        t, across = self.t, self.rows.places
        high, wide = _tile(self.columns.places, across, self.registers)
        each = _WORD * WARP
        columns, rows = self.columns.view(t), self.rows.view(t)
        with t.loop(constant("i64", self.columns.places // high)) as i, t.loop(constant("i64", across // wide)) as j:
            sums = t.offset(t.offset(CONTEXT, first_sum), t.mul(i, constant("i64", each * across * high)))
            sums = t.offset(sums, t.mul(j, constant("i64", each * wide)))
            left, right = (
                replace(view, start=t.offset(view.start, t.mul(n, constant("i64", count * view.entry_bytes))))
                for view, n, count in ((columns, i, high), (rows, j, wide))
            )
            for group in range(WARP // self.width):
                lanes = _WORD * self.width * group
                places = [t.offset(sums, lanes + each * (y * across + x)) for y in range(high) for x in range(wide)]
                before = [t.load("float", at, self.width, align=_WORD) for at in places]
                for at, value in zip(places, self._run(before, left, right, (high, wide), group), strict=True):
                    t.store(value, at, align=_WORD)

    def _run(self, sums: list[IRValue], left: _View, right: _View, tile: tuple[int, int], group: int) -> list[IRValue]:
        """All steps for a tile of sums of one group of lanes."""
        t, steps = self.t, len(self.columns.names)
        together = max(n for n in range(1, _MOST_TOGETHER + 1) if steps % n == 0)
        with t.carrying(constant("i64", steps // together), sums) as (turn, sums):
            k = t.mul(turn, constant("i64", together))
            lines = [t.offset(view.start, t.mul(k, constant("i64", view.step_bytes))) for view in (left, right)]
            for n in range(together):
                xs = self._factors(t.offset(lines[0], n * left.step_bytes), self.columns, left, tile[0], group)
                ys = self._factors(t.offset(lines[1], n * right.step_bytes), self.rows, right, tile[1], group)
                pairs = ((x, y) for x in xs for y in ys)
                sums[:] = [t.intrinsic("fma", x, y, s) for (x, y), s in zip(pairs, sums, strict=True)]
        return sums

    def _factors(self, line: IRValue, side: _Side, view: _View, count: int, group: int) -> list[IRValue]:
        """What one step multiplies for a tile."""
        t, shift = self.t, view.shifts[side.of_group[group]]
        places = [t.offset(line, shift + place * view.entry_bytes) for place in range(count)]
        if side.alike:
            return [t.splat(t.load("float", place), self.width) for place in places]
        return [t.load("float", place, self.width, align=_WORD) for place in places]


def _stay_as_they_are(instructions: Sequence[Instruction], product: OuterProduct, names: Set[str]) -> bool:
    """Whether nobody changes shared memory between a block's first load of factors and its product."""
    first = next(k for k, i in enumerate(instructions) if not names.isdisjoint(i.written))
    last = next(k for k, i in enumerate(instructions) if i is product.last)
    return not any(may_write_shared(i) for i in instructions[first:last])


def _tile(high: int, wide: int, registers: int) -> tuple[int, int]:
    """Rows and columns of sums to keep in so many registers, with their factors: the most sums for the fewest loads."""
    fitting = [
        (y, x)
        for y in range(1, high + 1)
        for x in range(1, wide + 1)
        if high % y == wide % x == 0 and y * x + min(y, x) + 1 <= registers
    ]
    return max(fitting, key=lambda tile: (tile[0] * tile[1], -tile[0] - tile[1]), default=(1, 1))
