"""Matrices in memory, and the functions that multiply them: what a tensor-core product becomes on the host.

The host computes on matrices, not on lanes: a `MatrixForm` says in which order a fragment's matrix lies in memory. A
product keeps one of its dimensions in vectors (`across`), the other is broadcast element by element. It adds, for
k = 0, 1, 2, ..., the outer product of a column of A and a row of B to D, which stays in vector registers: one fused
multiply-add per element and k, in the order that the oracle has too. Inputs are widened to f32 first (integers as
well: their sums stay below 2^24, where f32 is exact), 64-bit floats are taken as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from ptxsim.adders import HOPPER, ORDERED, adder
from ptxsim.codegen.emit import I64, WARP, Builder, Helper, IRValue, arg, constant, i64, module_text
from ptxsim.codegen.silicon_sums import silicon_sum
from ptxsim.fragments import Fragment, dimensions
from ptxsim.syntax.matrices import Product


@dataclass(frozen=True)
class MatrixForm:
    """A fragment's matrix in memory, without gaps; `inner` is what lies together, a "row" or a "col"umn."""

    held: Fragment
    inner: str

    @property
    def name(self) -> str:
        h = self.held
        return f"{h.instruction}_{h.shape}_{h.operand}_{h.type}_{h.rows}_{h.columns}_{self.inner}{h.layout}"

    @property
    def elements(self) -> int:
        return self.held.rows * self.held.columns

    @property
    def nbytes(self) -> int:
        return self.elements * self.held.bits // 8

    @property
    def line_elements(self) -> int:
        return self.held.columns if self.inner == "row" else self.held.rows

    def offsets(self) -> np.ndarray:
        """Byte offset of each element, or of each word of elements smaller than a byte: (registers, 32, units)."""
        return _offsets(self)

    @property
    def unit_bytes(self) -> int:
        """Bytes that move as one: an element, or a register of elements smaller than a byte."""
        return max(1, self.held.bits // 8) if self.held.bits >= 8 else self.held.register_bits // 8

    @property
    def lane_bytes(self) -> int:
        """Size of all registers of all lanes."""
        return self.held.registers * WARP * self.held.register_bits // 8


@cache
def _offsets(form: MatrixForm) -> np.ndarray:
    positions = form.held.positions if form.held.bits >= 8 else form.held.positions[:, :, :1]
    outer, inner = (positions[..., k] for k in ((0, 1) if form.inner == "row" else (1, 0)))
    return np.moveaxis((outer * form.line_elements + inner) * form.held.bits // 8, 0, 1)


def across(p: Product) -> str:
    """The dimension of a product that lies in vectors: "n", or "m" where that is the longer one."""
    m, n, _ = dimensions(p.shape)
    return "m" if m > n else "n"


def input_form(p: Product, operand: str) -> MatrixForm:
    """The form in which a product takes A or B."""
    held = p.fragment(operand)
    in_vectors = (operand == "a") == (across(p) == "m")
    along_k = not in_vectors or held.bits < 8
    return MatrixForm(held, "row" if (operand == "a") == along_k else "col")


def accumulator_form(p: Product, operand: str) -> MatrixForm:
    """The form of C or D."""
    return MatrixForm(p.fragment(operand), "col" if across(p) == "m" else "row")


def memory_form(held: Fragment) -> MatrixForm:
    """The form in which wmma.load leaves a fragment: that of the products which it can be part of."""
    if held.operand in ("a", "b"):
        accumulator = {"f64": "f64", "f16": "f32", "bf16": "f32", "tf32": "f32"}.get(held.type, "s32")
        p = Product("wmma", held.shape, accumulator, held.type, held.type, accumulator)
        return input_form(p, held.operand)
    p = Product("wmma", held.shape, held.type, "f16", "f16", held.type)
    return accumulator_form(p, held.operand)


# ---------------------------------------------------------------- between lanes and matrix


@cache
def pack(form: MatrixForm) -> tuple[str, str]:
    """(name, IR) of a function that makes a matrix of registers: (lanes, matrix), lanes as [register][lane]."""
    units = form.held.registers // form.held.copies
    places = form.offsets()[:units]
    sources = np.arange(places.size).reshape(places.shape) * form.unit_bytes
    return _mover(f"ws_pack_{form.name}", "lanes", sources, "matrix", places, form.unit_bytes)


@cache
def unpack(form: MatrixForm) -> tuple[str, str]:
    """(name, IR) of a function that spreads a matrix over registers: (matrix, lanes)."""
    places = form.offsets()
    targets = np.arange(places.size).reshape(places.shape) * form.unit_bytes
    return _mover(f"ws_unpack_{form.name}", "matrix", places, "lanes", targets, form.unit_bytes)


_MOST_RUNS = 96


def _mover(name: str, source: str, sources: np.ndarray, target: str, targets: np.ndarray, unit: int) -> tuple[str, str]:
    b = library_function()
    origin, to = arg("ptr", source), arg("ptr", target)
    runs = _runs(sources.reshape(-1).tolist(), targets.reshape(-1).tolist(), unit)
    constants = ""
    is_pack = source == "lanes"
    period = _period(targets if is_pack else sources)
    if len(runs) <= _MOST_RUNS:
        for at, place, size in runs:
            copy_bytes(b, b.offset(origin, at), b.offset(to, place), size)
    elif period is not None and unit == 4:
        lanes, matrix = (origin, to) if is_pack else (to, origin)
        _move_pairs(b, (targets if is_pack else sources), period, lanes, matrix, is_pack=is_pack)
    else:
        tables = [offset_table(f"{name}.{k}", t.reshape(-1)) for k, t in enumerate((sources, targets))]
        constants = "\n".join(text for _, text in tables)
        with b.loop(i64(sources.size)) as k:
            here, there = (table_entry(b, table, k) for table, _ in tables)
            b.store(b.load(f"i{8 * unit}", b.offset(origin, here)), b.offset(to, there))
    b.ret()
    return finished(b, name, origin, to, constants=constants)


_PAIR_LANES = 4
"""Lanes whose pairs of elements lie together in a row of an accumulator (PTX ISA 9.7.14.5 and 9.7.15.5)."""


def _period(places: np.ndarray) -> int | None:
    """After how many registers the places of 4-byte elements repeat at a fixed distance, if registers come in pairs of
    neighbours, and lanes in fours; else None. `places` has the shape (registers, 32, 1)."""
    if places.ndim != 3 or places.shape[2] != 1 or places.shape[0] % 2:
        return None
    at = places[..., 0]
    fours = at[::2].reshape(-1, WARP // _PAIR_LANES, _PAIR_LANES)
    if (at[1::2] != at[::2] + 4).any() or (np.diff(fours, axis=2) != 8).any():
        return None
    for period in (2, 4):
        steps = at[period:] - at[:-period]
        if len(steps) and (steps == steps.flat[0]).all():
            return period
    return None


def _move_pairs(
    b: Helper, places: np.ndarray, period: int, lanes: IRValue, matrix: IRValue, *, is_pack: bool
) -> None:
    """Registers of all lanes to a matrix or back, two registers and eight runs of eight elements at a time."""
    at = places[..., 0]
    step, count, run = int(at[period, 0] - at[0, 0]), 2 * WARP, 2 * _PAIR_LANES
    with b.loop(i64(len(at) // period)) as k:
        inner, outer = b.offset(lanes, b.mul(k, i64(4 * WARP * period))), b.offset(matrix, b.mul(k, i64(step)))
        for register in range(0, period, 2):
            starts = [b.offset(outer, int(at[register, lane])) for lane in range(0, WARP, _PAIR_LANES)]
            where = b.offset(inner, 4 * WARP * register)
            if is_pack:
                pairs = b.shuffle(b.load("i32", where, count), [n // 2 + n % 2 * WARP for n in range(count)])
                for n, start in enumerate(starts):
                    b.store(b.shuffle(pairs, range(n * run, (n + 1) * run)), start, align=4)
            else:
                pairs = b.concat([b.load("i32", start, run, align=4) for start in starts])
                b.store(b.shuffle(pairs, [*range(0, count, 2), *range(1, count, 2)]), where)


def library_function() -> Helper:
    """A function of the library, at its start."""
    b = Helper()
    b.declared = {}
    b.label("entry")
    return b


def finished(b: Helper, name: str, *parameters: IRValue, constants: str = "") -> tuple[str, str]:
    """(name, IR module) of a function of the library."""
    return name, constants + module_text([b.define(name, "void", *parameters)], b.declared)


def _runs(sources: Sequence[int], targets: Sequence[int], unit: int) -> list[tuple[int, int, int]]:
    """(source, target, bytes) of what lies together on both sides."""
    runs: list[list[int]] = []
    for at, place in sorted(zip(sources, targets, strict=True), key=lambda pair: pair[1]):
        if runs and (at, place) == (runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2]):
            runs[-1][2] += unit
        else:
            runs.append([at, place, unit])
    return [(at, place, size) for at, place, size in runs]


def copy_bytes(b: Helper, origin: IRValue, to: IRValue, size: int) -> None:
    """Copies a fixed number of bytes, in vectors of up to 64."""
    done = 0
    while done < size:
        step = min(64, 1 << (size - done).bit_length() - 1)
        b.store(b.load("i8", b.offset(origin, done), step), b.offset(to, done))
        done += step


def offset_table(name: str, values: Iterable[int]) -> tuple[str, str]:
    """(name, IR) of a constant array of byte offsets."""
    items = [int(v) for v in values]
    listed = ", ".join(f"i32 {v}" for v in items)
    return name, f"@{name} = private unnamed_addr constant [{len(items)} x i32] [{listed}]\n"


def table_entry(b: Helper, table: str, index: IRValue) -> IRValue:
    """An entry of an offset table as i64."""
    return b.resize(b.load("i32", b.let("ptr", 0, f"getelementptr i32, ptr @{table}, {index}"), invariant=True), I64)


@dataclass(frozen=True)
class MatrixFrame:
    """Registers that form a matrix at `offset` of the context's frames, or, widened, of the function's own."""

    registers: tuple[str, ...]
    form: MatrixForm
    offset: int
    wide: bool = False


_CANONICAL_NAN = {"float": 0x7FFFFFFF, "half": 0x7FFF, "double": 0xFFF8000000000000}


@dataclass(frozen=True)
class Registers:
    """The host's vector registers: elements of f32 per vector, and how many vectors of sums to keep in them.

    `side`: how many products side by side make use of them.
    """

    width: int
    sums: int
    side: int


WIDE, NARROW = Registers(16, 16, 4), Registers(8, 8, 1)
"""AVX-512 with 32 registers; AVX2 and NEON with 16 or 32 shorter ones."""


# ---------------------------------------------------------------- inputs


_BITS = {"s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "s4": 4, "u4": 4, "tf32": 32}
"""Bits of the inputs that have not 16."""


def widens_in_order(form: MatrixForm) -> bool:
    """Whether a product takes an input of this form widened element by element, in the order in which they lie."""
    return form.held.type in ("f16", "bf16", "tf32", "s8", "u8", "e4m3", "e5m2")


def widen(form: MatrixForm, p: Product, operand: str) -> tuple[str, str] | None:
    """(name, IR) of a function (matrix, wide) that makes an input ready for the product; None where it is already."""
    type_, bits = form.held.type, form.held.bits
    in_vectors = (operand == "a") == (across(p) == "m")
    if type_ == "f64" or (type_ == "b1" and not in_vectors):
        return None
    turned = in_vectors and bits < 8
    outer = form.elements // form.line_elements
    name = f"ws_widen_{type_}_{outer}_{form.line_elements}{'_turned' if turned else ''}"
    return _widen(name, type_, outer, form.line_elements, turned)


@cache
def _widen(name: str, type_: str, outer: int, inner: int, turned: bool) -> tuple[str, str]:
    b = library_function()
    matrix, wide = arg("ptr", "matrix"), arg("ptr", "wide")
    if type_ == "b1":
        inner //= 32
        with b.loop(i64(outer)) as k, b.loop(i64(inner)) as n:
            word = b.load("i32", b.offset(matrix, b.shl(b.add(b.mul(k, i64(inner)), n), 2)))
            b.store(word, b.offset(wide, b.shl(b.add(b.mul(n, i64(outer)), k), 2)))
    elif turned:
        with b.loop(i64(outer)) as k:
            for start in range(0, inner, 16):
                numbers = as_float(b, type_, b.offset(matrix, b.add_const(b.mul(k, i64(inner // 2)), start // 2)), 16)
                for column in range(16):
                    place = b.add_const(b.shl(k, 2), 4 * outer * (start + column))
                    b.store(b.extract(numbers, column), b.offset(wide, place))
    else:
        copy_widened(b, type_, matrix, wide, outer * inner)
    b.ret()
    return finished(b, name, matrix, wide)


def copy_widened(b: Builder, type_: str, origin: IRValue, to: IRValue, count: int) -> None:
    """Copies elements that lie together as f32."""
    bits = _BITS.get(type_, 16)
    for first in range(0, count, 16):
        lanes = min(16, count - first)
        b.store(as_float(b, type_, b.offset(origin, first * bits // 8), lanes), b.offset(to, 4 * first))


def as_float(b: Builder, type_: str, at: IRValue, count: int) -> IRValue:
    """`count` elements in memory as f32."""
    if type_ == "f16":
        return b.convert("fpext", b.load("half", at, count), "float")
    if type_ == "bf16":
        return b.bitcast(b.shl(b.resize(b.load("i16", at, count), "i32"), 16), "float")
    if type_ == "tf32":
        return b.bitcast(b.and_const(b.load("i32", at, count), 0xFFFFE000), "float")
    if type_ in ("s8", "u8"):
        return b.convert("sitofp", b.resize(b.load("i8", at, count), "i32", signed=type_ == "s8"), "float")
    if type_ in ("e4m3", "e5m2"):
        return eight_bit_floats(b, b.load("i8", at, count), type_)
    pairs = b.load("i8", at, count // 2)
    both = b.shuffle(b.shl(pairs, 4), [n for k in range(count // 2) for n in (k, count // 2 + k)], pairs)
    shift = "ashr" if type_ == "s4" else "lshr"  # each number is now in the high half of a byte
    return b.convert("sitofp", b.resize(b.binary(shift, both, b.like(both, 4)), "i32", type_ == "s4"), "float")


def eight_bit_floats(b: Builder, raw: IRValue, type_: str) -> IRValue:
    """Bytes as f32. e5m2 is the upper half of an f16; e4m3 is one with another exponent, and two NaNs, no infinity."""
    wide = b.resize(raw, "i16")
    if type_ == "e5m2":
        return b.convert("fpext", b.bitcast(b.shl(wide, 8), "half"), "float")
    magnitude = b.and_const(wide, 0x7F)
    half = b.or_(b.shl(b.and_const(wide, 0x80), 8), b.shl(magnitude, 7))
    value = b.convert("fpext", b.bitcast(half, "half"), "float")
    scaled = b.binary("fmul", value, b.like(value, 256.0))
    nan = b.bitcast(constant("i32", 0x7FC00000, value.lanes), "float")
    return b.select(b.icmp("eq", magnitude, b.like(magnitude, 0x7F)), nan, scaled)


# ---------------------------------------------------------------- the product


@dataclass(frozen=True)
class Arrangement:
    """Products that are computed together, so that sums stay longer in registers and inputs are read less often.

    `side` sums lie side by side and share the broadcast input, `stacked` ones lie one above the other and share the
    input in vectors; one of the two is 1. To each sum `deep` products are added one after the other.
    """

    side: int = 1
    stacked: int = 1
    deep: int = 1

    @property
    def sums(self) -> int:
        return self.side * self.stacked


ONE = Arrangement()


def product(
    p: Product, registers: Registers, arrangement: Arrangement = ONE, tensor_sums: str = ORDERED
) -> tuple[str, str]:
    """(name, IR) of a function (vectors, broadcast, c, d): inputs as `widen` leaves them, C and D in their forms.

    Of several products the function takes the vectors step by step (`deep` x `side`), then the broadcast inputs
    (`deep` x `stacked`), then all C, then all D. Of quarter products it takes one 8 x 8 x 4 product at a time.
    """
    m, n, k = dimensions(p.shape)
    wide, high = (m, n) if across(p) == "m" else (n, m)
    kind = p.operation or ("i" if p.d == "s32" else p.a if p.a == "f64" else "f")
    # how an H200 adds 8-bit floats in mma, which it has no pipe of its own for, is not on record
    silicon = p.a if tensor_sums == HOPPER and kind == "f" and p.a not in ("e4m3", "e5m2") else ""
    if silicon:
        registers = replace(registers, sums=arrangement.sums)  # one row at a time: its terms fill the registers
    return _product(_Product(kind, wide, high, k, p.d, p.c, p.saturates, silicon), registers, arrangement)


@dataclass(frozen=True)
class _Product:
    """What distinguishes the functions: `high` rows, `wide` elements each, `depth` steps."""

    kind: str
    wide: int
    high: int
    depth: int
    d: str
    c: str
    saturates: bool
    silicon: str = ""
    """the type of A and B where sums are those of a GPU"""

    @property
    def number(self) -> str:
        """The type of a sum."""
        return {"f64": "double", "xor": "i32", "and": "i32"}.get(self.kind, "float")

    @property
    def size(self) -> int:
        return 8 if self.number == "double" else 4

    def name(self, registers: Registers, a: Arrangement) -> str:
        tail = f"{'_sat' if self.saturates else ''}{self.silicon and '_silicon_' + self.silicon}_{registers.width}"
        several = "" if a == ONE else f"_{a.side}_{a.stacked}_{a.deep}"
        return f"ws_product_{self.kind}_{self.wide}_{self.high}_{self.depth}_{self.d}_{self.c}{tail}{several}"


@cache
def _product(p: _Product, registers: Registers, a: Arrangement) -> tuple[str, str]:
    b = library_function()
    vectors, single, starts, results = (
        [arg("ptr", f"{name}{k}") for k in range(count)]
        for name, count in (
            ("vectors", a.deep * a.side),
            ("single", a.deep * a.stacked),
            ("start", a.sums),
            ("result", a.sums),
        )
    )
    lanes = min(p.wide, registers.width * 4 // p.size)
    steps = p.depth // 32 if p.number == "i32" else p.depth
    per_row = p.wide // lanes
    rows = min(p.high, max(1, registers.sums // (per_row * a.sums)))
    assert p.high % rows == 0 and (a.deep == 1 or (p.kind in ("f", "f64") and p.d == p.c != "f16"))
    with b.loop(i64(p.high // rows)) if rows < p.high else nullcontext(i64(0)) as chunk:
        high = [b.offset(x, b.mul(chunk, i64(rows * steps * p.size))) for x in single]
        start = [b.offset(x, b.mul(chunk, i64(rows * p.wide * element_bytes(p.c)))) for x in starts]
        result = [b.offset(x, b.mul(chunk, i64(rows * p.wide * element_bytes(p.d)))) for x in results]
        places = _places(a, rows, per_row, lanes, p.wide)
        sums = [constant("float", 0.0, lanes) if p.kind == "i" else _started(b, start, x, lanes, p) for x in places]
        for step in range(a.deep):
            terms: list[list[tuple[IRValue, IRValue]]] = [[] for _ in places]
            for k in range(steps):
                factors: dict[tuple[int, int], IRValue] = {}
                pieces: dict[tuple[int, int], IRValue] = {}
                for n, x in enumerate(places):
                    piece, factor = (x.column, x.offset % p.wide), (x.line, x.row)
                    if piece not in pieces:
                        at = b.offset(vectors[step * a.side + x.column], p.size * (k * p.wide + piece[1]))
                        pieces[piece] = b.load(p.number, at, lanes)
                    if factor not in factors:
                        at = b.offset(high[step * a.stacked + x.line], p.size * (x.row * steps + k))
                        factors[factor] = b.splat(b.load(p.number, at), lanes)
                    if p.silicon:
                        terms[n].append((pieces[piece], factors[factor]))
                    else:
                        sums[n] = _step(b, p.kind, pieces[piece], factors[factor], sums[n])
            if p.silicon:
                how, types = adder("mma", p.silicon, p.d), (p.silicon, p.silicon, p.d)
                sums = [silicon_sum(b, how, types, pairs, x) for pairs, x in zip(terms, sums, strict=True)]
        _finish(b, p, [(start[x.sum], result[x.sum], x.offset) for x in places], sums)
    b.ret()
    return finished(b, p.name(registers, a), *vectors, *single, *starts, *results)


class _Place(NamedTuple):
    """A vector of a sum: the sum, where it stands, and the vector's row and first element."""

    sum: int
    line: int
    column: int
    row: int
    offset: int


def _places(a: Arrangement, rows: int, per_row: int, lanes: int, wide: int) -> list[_Place]:
    return [
        _Place(line * a.side + column, line, column, row, row * wide + v * lanes)
        for line in range(a.stacked)
        for row in range(rows)
        for column in range(a.side)
        for v in range(per_row)
    ]


def element_bytes(type_: str) -> int:
    """Size of an element of C or D."""
    return {"f16": 2, "f64": 8}.get(type_, 4)


def _started(b: Builder, start: list[IRValue], x: _Place, lanes: int, p: _Product) -> IRValue:
    at = b.offset(start[x.sum], element_bytes(p.c) * x.offset)
    return b.convert("fpext", b.load("half", at, lanes), "float") if p.c == "f16" else b.load(p.number, at, lanes)


def _step(b: Builder, kind: str, x: IRValue, y: IRValue, total: IRValue) -> IRValue:
    if kind in ("xor", "and"):
        return b.add(total, b.intrinsic("ctpop", b.binary(kind, x, y)))
    return b.intrinsic("fma", x, y, total)


def _finish(b: Builder, p: _Product, places: list[tuple[IRValue, IRValue, int]], sums: list[IRValue]) -> None:
    """Stores sums; `places` are where C begins, where D begins, and the element in both."""
    if p.number == "i32" or p.kind == "i":
        for (start, result, offset), x in zip(places, sums, strict=True):
            total = x
            if p.kind == "i":
                c, whole = b.load("i32", b.offset(start, 4 * offset), x.lanes), b.convert("fptosi", x, "i32")
                total = b.intrinsic("sadd.sat", c, whole) if p.saturates else b.add(c, whole)
            b.store(total, b.offset(result, 4 * offset))
    else:
        targets = [b.offset(result, element_bytes(p.d) * offset) for _, result, offset in places]
        _finish_floats(b, targets, sums, p.d)


def _finish_floats(b: Builder, targets: list[IRValue], sums: list[IRValue], d: str) -> None:
    """Stores sums; NaNs become the canonical one, which is rare and has a path of its own."""
    pairs = [b.fcmp("uno", x, sums[min(k + 1, len(sums) - 1)]) for k, x in list(enumerate(sums))[::2]]
    odd = pairs[0]
    for other in pairs[1:]:
        odd = b.or_(odd, other)
    none = b.icmp("eq", b.mask_bits(odd), constant(f"i{odd.lanes}", 0))
    plain, careful, end = b.new_label("plain"), b.new_label("careful"), b.new_label("stored")
    b.branch(none, plain, careful, likely=True)
    for label, check in ((plain, False), (careful, True)):
        b.label(label)
        for target, x in zip(targets, sums, strict=True):
            value = b.convert("fptrunc", x, "half") if d == "f16" else x
            if check:
                bits = constant(f"i{8 * element_bytes(d)}", _CANONICAL_NAN[value.type], x.lanes)
                value = b.select(b.fcmp("uno", value, value), b.bitcast(bits, value.type), value)
            b.store(value, target)
        b.br(end)
    b.label(end)
