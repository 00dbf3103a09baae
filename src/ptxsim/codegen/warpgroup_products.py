"""The functions that multiply for a warp of a warpgroup: operands in shared memory, sums in a matrix of 16 rows.

B is made ready once for the four warps of a warpgroup: `widened` copies it as what products are made of (f32, or words
of single bits), and they keep it for each other (`warpgroup`). It lies in strips as wide as a piece of D, k by k: whole
rows would be a power of two apart, and push each other out of the host's nearest cache. A warp's own 16 rows of A are
made ready row by row where they are multiplied. A function takes a chain of products on the same sum and goes through D
in pieces that stay in vector registers over all of them: a few rows, and a few vectors of columns. Sums run along k in
order, as everywhere (`tensor_products`).

An operand in shared memory is found by its descriptor: rows of 32 bytes (all k of one product), or, where it lies along
M or N, pieces of 16 bytes of one k. Every piece is looked up on its own, for a swizzle may move it; where B lies along
N in whole atoms of the widest swizzle, as most kernels store it, the order within a line is known beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

from ptxsim.adders import adder
from ptxsim.codegen.emit import I32, I64, Builder, IRValue, arg, constant, i64
from ptxsim.codegen.silicon_sums import silicon_sum
from ptxsim.codegen.tensor_moves import transposed
from ptxsim.codegen.tensor_products import eight_bit_floats, element_bytes, finished, library_function
from ptxsim.syntax.warpgroup import ROWS, WarpgroupProduct

HIGH = 16
"""Rows of D in a warp."""
_ROW = 32
"""Bytes of all k of a product, in a row of A or a column of B."""
_PIECE = 16
"""Bytes that a swizzle moves as one."""
_LINE, _ATOM, _ROWS = 128, 1024, 8
"""Bytes of a line that the widest swizzle turns, and of the eight lines in which it comes round."""
_UNROLLED = 4
"""Steps of k in one turn of the innermost loop."""


@dataclass(frozen=True)
class Place:
    """Where A or B comes from, and its sign."""

    in_registers: bool = False
    turned: bool = False
    """whether it lies along M or N in shared memory"""
    sign: int = 1

    @property
    def name(self) -> str:
        return ("r" if self.in_registers else "t" if self.turned else "s") + ("n" if self.sign < 0 else "")


def chains_up(p: WarpgroupProduct) -> bool:
    """Whether a sum may stay as it is from one product to the next: not where each rounds or wraps it."""
    return p.d == "f32"


def wide_bytes(p: WarpgroupProduct) -> int:
    """Bytes of B, made ready."""
    return p.columns * _numbers(p) * 4


@dataclass(frozen=True)
class _Strip:
    """Columns of B and D that are worked on together: so many vectors of so many lanes."""

    lanes: int
    vectors: int
    depth: int

    @classmethod
    def of(cls, p: WarpgroupProduct, wide_registers: bool) -> _Strip:
        lanes = 16 if wide_registers and p.columns % 16 == 0 else 8
        all_vectors = p.columns // lanes
        most = (4, 3, 2, 1) if wide_registers else (2, 1)
        return cls(lanes, next(v for v in most if all_vectors % v == 0), _numbers(p))

    @property
    def columns(self) -> int:
        return self.lanes * self.vectors

    def start(self, b: Builder, first: IRValue) -> IRValue:
        """Bytes to the number of step 0 in a column; the next step's is `columns` numbers further."""
        width = i64(self.columns)
        strip, within = b.binary("udiv", first, width), b.binary("urem", first, width)
        return b.shl(b.add(b.mul(strip, i64(self.depth * self.columns)), within), 2)


def _numbers(p: WarpgroupProduct) -> int:
    """Numbers along k: elements, or words of single bits."""
    return p.depth // 32 if p.a == "b1" else p.depth


@cache
def widened(p: WarpgroupProduct, place: Place, wide_registers: bool) -> tuple[str, str]:
    """(name, IR) of a function (shared, limit, descriptor, wide, outside) that makes B ready.

    `shared` is where the block's shared memory begins and `limit` its bytes. The i32 at `outside` becomes 1 where the
    operand leaves shared memory; what is read there is not said.
    """
    w = _Writer(p)
    b, count, strip = w.b, p.columns, _Strip.of(p, wide_registers)
    to, step = arg("ptr", "wide"), 4 * strip.columns
    operand = _Operand(w, arg(I64, "descriptor"))
    operand.check(count, turned=place.turned)
    if place.turned:
        regular = operand.is_regular()
        for holds, piece in ((regular, operand.regular_piece), (b.not_(regular), operand.neighbouring)):
            with b.if_(holds), b.loop(i64(count // 8)) as eight:
                first = b.shl(eight, 3)
                start = b.offset(to, strip.start(b, first))
                for k in range(w.depth):
                    numbers = w.signed(w.numbers(piece(first, k), p.b), place.sign)
                    b.store(numbers, b.offset(start, k * step))
    else:
        with b.loop(i64(count // 8)) as eight:
            first = b.shl(eight, 3)
            lines = [w.signed(w.numbers(operand.line(first, r), p.b), place.sign) for r in range(8)]
            start = b.offset(to, strip.start(b, first))
            for steps in range(0, w.depth, 8):
                block = [b.shuffle(x, range(steps, steps + 8)) for x in lines]
                for k, column in enumerate(transposed(b, block), steps):
                    b.store(column, b.offset(start, k * step))
    b.ret()
    name = f"ws_warpgroup_widen_{p.shape}_{p.b}_{place.name}_{strip.columns}"
    return finished(b, name, w.shared, w.limit, arg(I64, "descriptor"), to, w.outside)


@cache
def multiplied(
    p: WarpgroupProduct, place: Place, steps: int, wide_registers: bool, silicon: bool = False
) -> tuple[str, str]:
    """(name, IR) of a function (shared, limit, row, result, outside, adds0, a0, wide0, adds1, ...).

    `row` is the warp's first row, `result` its D as a matrix, row by row. For each step: whether D is added (i1), A as
    a descriptor or, in registers, as a matrix row by row, and B as `widened` left it. With `silicon` sums are those of
    a GPU.
    """
    return _Multiplier(p, place, steps, wide_registers, silicon).function()


class _Writer:
    """Writes such a function."""

    def __init__(self, p: WarpgroupProduct) -> None:
        self.p = p
        self.b = library_function()
        self.number = "i32" if p.a == "b1" else "float"
        self.depth = _numbers(p)
        self.shared, self.limit, self.outside = arg("ptr", "shared"), arg(I64, "limit"), arg("ptr", "outside")

    # -- numbers --------------------------------------------------------------------------------------------------
    def numbers(self, raw: IRValue, type_: str) -> IRValue:
        """Bytes as they lie in memory, as what products are made of: f32, or words of single bits."""
        b, count = self.b, raw.lanes
        if type_ == "b1":
            return b.bitcast(raw, "i32", count // 4)
        if type_ == "tf32":
            return b.bitcast(b.and_const(b.bitcast(raw, "i32", count // 4), 0xFFFFE000), "float")
        if type_ == "f16":
            return b.convert("fpext", b.bitcast(raw, "half", count // 2), "float")
        if type_ == "bf16":
            return b.bitcast(b.shl(b.resize(b.bitcast(raw, "i16", count // 2), "i32"), 16), "float")
        if type_ in ("s8", "u8"):
            return b.convert("sitofp", b.resize(raw, "i32", signed=type_ == "s8"), "float")
        return eight_bit_floats(b, raw, type_)

    def signed(self, x: IRValue, sign: int) -> IRValue:
        return x if sign > 0 else self.b.let(x.type, x.lanes, f"fneg {x}")


class _Multiplier(_Writer):
    """Writes the product."""

    def __init__(self, p: WarpgroupProduct, place: Place, steps: int, wide_registers: bool, silicon: bool) -> None:
        super().__init__(p)
        self.place, self.steps, self.silicon = place, steps, silicon
        self.strip = _Strip.of(p, wide_registers)
        self.lanes, self.across = self.strip.lanes, self.strip.vectors
        at_once = (16 if wide_registers else 8) // self.across  # none waits for the one before, and rows divide evenly
        if silicon:  # a sum at a time: its terms fill the registers
            self.across = at_once = 1
        self.high = min(at_once, HIGH)
        self.row, self.result = arg(I64, "row"), arg("ptr", "result")
        self.inputs = [
            (arg("i1", f"adds{k}"), arg("ptr" if place.in_registers else I64, f"a{k}"), arg("ptr", f"wide{k}"))
            for k in range(steps)
        ]

    def function(self) -> tuple[str, str]:
        b, p = self.b, self.p
        rows = [b.let("ptr", 0, f"alloca [{HIGH * self.depth * 4} x i8], align 64") for _ in self.inputs]
        for (_, a, _), to in zip(self.inputs, rows, strict=True):
            self._prepare_a(a, to)
        wide = self.lanes * self.across
        with b.loop(i64(p.columns // wide)) as column:
            first = b.mul(column, i64(wide))
            with b.loop(i64(HIGH // self.high)) as row:
                self._piece(b.mul(row, i64(self.high)), self.high, first, rows)
            if rest := HIGH % self.high:
                self._piece(i64(HIGH - rest), rest, first, rows)
        b.ret()
        name = f"ws_warpgroup_{p.shape}_{p.d}_{p.a}_{p.b}_{self.place.name}{self.steps}_{self.lanes}_{self.across}"
        name += "_silicon" * self.silicon
        flat = [x for triple in self.inputs for x in triple]
        parameters = (self.shared, self.limit, self.row, self.result, self.outside, *flat)
        return finished(b, name + "_sat" * p.saturates, *parameters)

    def _piece(self, row: IRValue, high: int, column: IRValue, rows: list[IRValue]) -> None:
        """So many rows of D, and a few vectors of columns, from these on, through all steps."""
        b, p = self.b, self.p
        size = element_bytes(p.d)
        lines = b.offset(self.result, b.mul(b.add(b.mul(row, i64(p.columns)), column), i64(size)))
        places = [
            b.offset(lines, size * (r * p.columns + v * self.lanes))
            for r in range(high)
            for v in range(self.across)
        ]
        sums = [self._started(at) for at in places]
        for (adds, _, whole), prepared in zip(self.inputs, rows, strict=True):
            sums = [b.select(adds, x, b.like(x, 0)) for x in sums]
            factors = b.offset(prepared, b.mul(row, i64(4 * self.depth)))
            sums = self._added(sums, factors, b.offset(whole, self.strip.start(b, column)))
        for at, x in zip(places, sums, strict=True):
            self._stored(x, at)

    def _prepare_a(self, a: IRValue, to: IRValue) -> None:
        """The warp's 16 rows, each as its k in order. In loops: written out, it would be fetched anew at each call."""
        b, place = self.b, self.place
        operand = None if place.in_registers else _Operand(self, a)
        if operand is not None:
            operand.check(ROWS, turned=place.turned)
        if operand is not None and place.turned:
            lines = [self._numbers_of_a(operand.neighbours(self.row, HIGH, k)) for k in range(self.depth)]
            for r, line in enumerate(transposed(b, lines)):
                b.store(line, b.offset(to, 4 * r * self.depth))
            return
        if operand is None:
            with b.loop(i64(HIGH)) as row:
                raw = b.load("i8", b.offset(a, b.mul(row, i64(_ROW))), _ROW)
                b.store(self._numbers_of_a(raw), b.offset(to, b.mul(row, i64(4 * self.depth))))
            return
        regular = operand.has_regular_rows()
        with b.if_(regular, likely=True), b.loop(i64(HIGH // _ROWS)) as eight:
            first = b.add(self.row, b.shl(eight, 3))
            rows = b.offset(to, b.mul(eight, i64(4 * _ROWS * self.depth)))
            for r, raw in enumerate(operand.regular_rows(first)):
                b.store(self._numbers_of_a(raw), b.offset(rows, 4 * r * self.depth))
        with b.if_(b.not_(regular), likely=False), b.loop(i64(HIGH)) as row:
            raw = operand.line(b.add(self.row, row), 0)
            b.store(self._numbers_of_a(raw), b.offset(to, b.mul(row, i64(4 * self.depth))))

    def _numbers_of_a(self, raw: IRValue) -> IRValue:
        return self.signed(self.numbers(raw, self.p.a), self.place.sign)

    def _started(self, at: IRValue) -> IRValue:
        b, p = self.b, self.p
        if p.d == "f16":
            return b.convert("fpext", b.load("half", at, self.lanes), "float")
        return b.load("i32" if p.d == "s32" else "float", at, self.lanes)

    def _added(self, sums: list[IRValue], factors: IRValue, whole: IRValue) -> list[IRValue]:
        """Adds one product: k by k, each number of A times the vectors of B."""
        b, p = self.b, self.p
        if self.silicon:
            return [self._silicon(sums[0], factors, whole)]
        exact = p.d == "s32" and p.a != "b1"  # in f32: sums of one product stay below 2^24
        totals = [constant("float", 0.0, self.lanes) for _ in sums] if exact else sums
        with b.carrying(i64(self.depth // _UNROLLED), totals) as (turn, totals):
            number, line = (
                b.offset(start, b.mul(turn, i64(4 * _UNROLLED * apart)))
                for start, apart in ((factors, 1), (whole, self.strip.columns))
            )
            for k in range(_UNROLLED):
                vectors = [
                    b.load(self.number, b.offset(line, 4 * (k * self.strip.columns + v * self.lanes)), self.lanes)
                    for v in range(self.across)
                ]
                for r in range(len(totals) // self.across):
                    factor = b.splat(b.load(self.number, b.offset(number, 4 * (r * self.depth + k))), self.lanes)
                    for n, vector in enumerate(vectors, r * self.across):
                        totals[n] = self._with_product(totals[n], vector, factor)
        if not exact:
            return totals
        add = partial(b.intrinsic, "sadd.sat") if p.saturates else b.add
        return [add(x, b.convert("fptosi", y, "i32")) for x, y in zip(sums, totals, strict=True)]

    def _with_product(self, total: IRValue, vector: IRValue, factor: IRValue) -> IRValue:
        b = self.b
        if self.p.a == "b1":
            return b.add(total, b.intrinsic("ctpop", b.and_(vector, factor)))
        return b.intrinsic("fma", vector, factor, total)

    def _silicon(self, start: IRValue, factors: IRValue, whole: IRValue) -> IRValue:
        """Adds one product to one vector of D as a GPU does."""
        b, p = self.b, self.p
        pairs = [
            (b.splat(b.load("float", b.offset(factors, 4 * k)), self.lanes),
             b.load("float", b.offset(whole, 4 * k * self.strip.columns), self.lanes))
            for k in range(self.depth)
        ]  # fmt: skip
        return silicon_sum(b, adder("wgmma", p.a, p.d), (p.a, p.b, p.d), pairs, start)

    def _stored(self, x: IRValue, at: IRValue) -> None:
        b, p = self.b, self.p
        if p.d != "s32":
            value = b.convert("fptrunc", x, "half") if p.d == "f16" else x
            kind, bits = ("i16", 0x7FFF) if p.d == "f16" else ("i32", 0x7FFFFFFF)
            nan = b.bitcast(constant(kind, bits, value.lanes), value.type)
            x = b.select(b.fcmp("uno", value, value), nan, value)
        b.store(x, at)


class _Operand:
    """An operand in shared memory, by its descriptor."""

    def __init__(self, owner: _Writer, descriptor: IRValue) -> None:
        self.owner, b = owner, owner.b
        self.b, self.p = b, owner.p
        self.start, self.leading, self.stride = (
            b.shl(b.and_const(b.lshr(descriptor, shift), 0x3FFF), 4) for shift in (0, 16, 32)
        )
        self.base = b.and_const(b.lshr(descriptor, 49), 7)
        mode = b.lshr(descriptor, 62)
        self.plain = b.icmp("eq", mode, i64(0))
        bits = b.and_const(b.sub(i64(4), mode), 3)  # 128, 64, 32 bytes: 3, 2, 1
        self.rows_mask = b.sub(b.binary("shl", i64(1), bits), i64(1))
        self.width = b.binary("shl", i64(_PIECE), bits)
        self.last = b.sub(b.intrinsic("smax", owner.limit, i64(_PIECE)), i64(_PIECE))

    # -- places ---------------------------------------------------------------------------------------------------
    def _put(self, address: IRValue) -> IRValue:
        """Where a piece lies: moved by the swizzle (PTX ISA 5.5.5), or at 0 where there is no such memory."""
        b = self.b
        row = b.and_(b.sub(b.lshr(address, 7), self.base), self.rows_mask)
        moved = b.xor(address, b.shl(row, 4))
        return b.select(b.icmp("ule", moved, self.last), moved, i64(0))

    def _piece(self, address: IRValue) -> IRValue:
        b = self.b
        return b.load("i8", b.offset(self.owner.shared, self._put(b.add(self.start, address))), _PIECE, align=1)

    def _row_at(self, r: IRValue) -> IRValue:
        """A row of an operand that lies along K: eight rows side by side, `stride` to the next eight."""
        b = self.b
        return b.add(b.mul(b.and_const(r, 7), self.width), b.mul(b.lshr(r, 3), self.stride))

    def line(self, first: IRValue, r: int) -> IRValue:
        """All k of row (or column) `first + r`: 32 bytes."""
        b = self.b
        at = self._row_at(b.add_const(first, r))
        further = b.select(self.plain, self.leading, i64(_PIECE))
        return b.concat([self._piece(at), self._piece(b.add(at, further))])

    def has_regular_rows(self) -> IRValue:
        """Whether it lies along K in whole atoms of the widest swizzle, all of them in shared memory; it may begin with
        any pair of pieces of a line."""
        return self._in_atoms(self.b.sub(self.start, self._pair()))

    def _pair(self) -> IRValue:
        return self.b.and_const(self.start, _LINE - _ROW)

    def regular_rows(self, first: IRValue) -> list[IRValue]:
        """All k of eight rows of such an operand: each line turns its pieces as its number in the atom says."""
        b, pair = self.b, self._pair()
        atom = b.add(b.sub(self.start, pair), b.mul(b.lshr(first, 3), self.stride))
        found = []
        for r in range(_ROWS):
            line = b.offset(self.owner.shared, b.add_const(atom, r * _LINE))
            pieces = [b.offset(line, b.xor(pair, i64(at ^ r * _PIECE))) for at in (0, _PIECE)]
            found.append(b.concat([b.load("i8", piece, _PIECE, align=1) for piece in pieces]))
        return found

    def _eight_at(self, r: IRValue, k: int) -> IRValue:
        """Eight neighbours from r on, of one k, of an operand that lies along M or N."""
        b = self.b
        tiles = b.binary("udiv", b.shl(r, 1), self.width)
        within = b.sub(b.shl(r, 1), b.mul(tiles, self.width))
        swizzled = b.add(within, b.mul(tiles, self.leading))
        swizzled = b.add(swizzled, b.add(b.mul(i64(k % 8), self.width), b.mul(i64(k // 8), self.stride)))
        apart = b.add(b.mul(b.lshr(r, 3), self.stride), b.mul(i64(k // 8), self.leading))
        return b.select(self.plain, b.add_const(apart, 16 * (k % 8)), swizzled)

    def neighbouring(self, first: IRValue, k: int) -> IRValue:
        """Eight neighbours of one k as they lie in memory."""
        return self._piece(self._eight_at(first, k))

    def neighbours(self, first: IRValue, count: int, k: int) -> IRValue:
        """`count` neighbours of one k as they lie in memory."""
        return self.b.concat([self.neighbouring(self.b.add_const(first, n), k) for n in range(0, count, 8)])

    def is_regular(self) -> IRValue:
        """Whether it lies along M or N in whole atoms of the widest swizzle, all of them in shared memory."""
        return self._in_atoms(self.b.or_(self.start, self.leading))

    def _in_atoms(self, places: IRValue) -> IRValue:
        """Whether atoms of the widest swizzle begin at these places and the other ones, and none lies outside."""
        b = self.b
        aligned = b.or_(places, b.or_(self.base, self.stride))
        aligned = b.and_(b.icmp("eq", b.and_const(aligned, _ATOM - 1), i64(0)), b.icmp("eq", self.width, i64(_LINE)))
        return b.and_(aligned, b.icmp("eq", b.load(I32, self.owner.outside), constant("i32", 0)))

    def regular_piece(self, first: IRValue, k: int) -> IRValue:
        """The same of such an operand: a line of an atom has all eight pieces, in an order that k gives."""
        b = self.b
        line = b.add(self.start, b.mul(b.lshr(first, 6), self.leading))
        line = b.add_const(b.add(line, b.mul(i64(k // 8), self.stride)), k % 8 * _LINE)
        within = b.xor(b.and_const(b.shl(first, 1), _LINE - 1), i64(k % 8 * _PIECE))
        return b.load("i8", b.offset(self.owner.shared, b.add(line, within)), _PIECE, align=1)

    def check(self, rows: int, *, turned: bool) -> None:
        """Notes whether some piece lies outside of shared memory."""
        b = self.b
        last = i64(rows - 1)
        if turned:
            ends = [self._eight_at(i64(rows - 8), self.p.depth - 1)]
        else:
            at = self._row_at(last)
            ends = [at, b.add(at, b.select(self.plain, self.leading, i64(_PIECE)))]
        for end in ends:
            highest = b.or_(b.add(self.start, end), b.shl(self.rows_mask, 4))
            beyond = b.icmp("sgt", highest, self.last)
            outside = self.owner.outside
            b.store(b.or_(b.load(I32, outside), b.resize(beyond, I32)), outside)
