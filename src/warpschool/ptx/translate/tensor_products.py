"""Functions that multiply matrices in memory: what a tensor-core product becomes on the host.

A product adds, for k = 0, 1, 2, ..., the outer product of a column of A and a row of B to D, which stays in vector
registers: one fused multiply-add per element and k, in the order that the oracle has too. Inputs are widened to f32
first (integers as well: their sums stay below 2^24, where f32 is exact), 64-bit floats are taken as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ..emit import Builder, Value, constant
from ..fragments import dimensions
from ..matrices import Product
from .runtime.helper import arg, i64
from .tensor_forms import Form, across, finished, library_function

_CANONICAL_NAN = {"float": 0x7FFFFFFF, "half": 0x7FFF, "double": 0xFFF8000000000000}


@dataclass(frozen=True)
class Registers:
    """The host's vector registers: elements of f32 per vector, and how many sums to keep in them."""

    width: int
    sums: int


WIDE, NARROW = Registers(16, 16), Registers(8, 8)
"""AVX-512 with 32 registers; AVX2 and NEON with 16 or 32 shorter ones."""


# ---------------------------------------------------------------- inputs


def widened_bytes(form: Form) -> int:
    return form.elements * 4


def widen(form: Form, p: Product, operand: str) -> tuple[str, str] | None:
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
                at = b.offset(matrix, b.add_const(b.mul(k, i64(inner // 2)), start // 2))
                numbers = _as_float(b, type_, at, 16)
                for column in range(16):
                    place = b.add_const(b.shl(k, 2), 4 * outer * (start + column))
                    b.store(b.extract(numbers, column), b.offset(wide, place))
    else:
        bits = {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "tf32": 32}.get(type_, 16)
        for first in range(0, outer * inner, 16):
            numbers = _as_float(b, type_, b.offset(matrix, first * bits // 8), 16)
            b.store(numbers, b.offset(wide, 4 * first))
    b.ret()
    return finished(b, name, matrix, wide)


def _as_float(b: Builder, type_: str, at: Value, count: int) -> Value:
    """`count` elements in memory as f32."""
    if type_ == "f16":
        return b.convert("fpext", b.load("half", at, count), "float")
    if type_ == "bf16":
        return b.bitcast(b.shl(b.resize(b.load("i16", at, count), "i32"), 16), "float")
    if type_ == "tf32":
        return b.bitcast(b.and_const(b.load("i32", at, count), 0xFFFFE000), "float")
    if type_ in ("s8", "u8"):
        whole = b.resize(b.load("i8", at, count), "i32", signed=type_ == "s8")
        return b.convert("sitofp", whole, "float")
    pairs = b.load("i8", at, count // 2)
    both = b.shuffle(b.shl(pairs, 4), [n for k in range(count // 2) for n in (k, count // 2 + k)], pairs)
    shift = "ashr" if type_ == "s4" else "lshr"  # each number is now in the high half of a byte
    return b.convert("sitofp", b.resize(b.binary(shift, both, b.like(both, 4)), "i32", type_ == "s4"), "float")


# ---------------------------------------------------------------- the product


def product(p: Product, registers: Registers) -> tuple[str, str]:
    """(name, IR) of a function (vectors, broadcast, c, d): inputs as `widen` leaves them, C and D in their forms.

    For quarter products the caller passes one 8 x 8 x 4 product at a time.
    """
    m, n, k = dimensions(p.shape)
    wide, high = (m, n) if across(p) == "m" else (n, m)
    kind = p.operation or ("i" if p.d == "s32" else p.a if p.a == "f64" else "f")
    tail = "_sat" if p.saturates else ""
    name = f"ws_product_{kind}_{wide}_{high}_{k}_{p.d}_{p.c}{tail}_{registers.width}"
    return _product(name, kind, wide, high, k, p.d, p.c, p.saturates, registers)


@cache
def _product(
    name: str, kind: str, wide: int, high: int, depth: int, d: str, c: str, saturates: bool, registers: Registers
) -> tuple[str, str]:
    b = library_function()
    vectors, single, start, result = (arg("ptr", x) for x in ("vectors", "single", "start", "result"))
    number = {"f64": "double", "xor": "i32", "and": "i32"}.get(kind, "float")
    size = 8 if number == "double" else 4
    lanes = min(wide, registers.width * 4 // size)
    if kind in ("xor", "and"):
        depth //= 32
    per_row = wide // lanes
    rows = max(1, registers.sums // per_row)
    for first in range(0, high, rows):
        places = [(row, v) for row in range(first, min(first + rows, high)) for v in range(per_row)]
        if kind == "i":
            sums = [constant("float", 0.0, lanes) for _ in places]
        else:
            sums = [_started(b, start, (row * wide + v * lanes), lanes, number, c) for row, v in places]
        for k in range(depth):
            pieces = [b.load(number, b.offset(vectors, size * (k * wide + v * lanes)), lanes) for v in range(per_row)]
            factors: dict[int, Value] = {}
            for n, (row, v) in enumerate(places):
                if row not in factors:
                    factors[row] = b.splat(b.load(number, b.offset(single, size * (row * depth + k))), lanes)
                sums[n] = _step(b, kind, pieces[v], factors[row], sums[n])
        offsets = [row * wide + v * lanes for row, v in places]
        if kind == "i":
            _finish_integers(b, start, result, offsets, sums, saturates)
        elif number == "i32":
            for offset, x in zip(offsets, sums, strict=True):
                b.store(x, b.offset(result, 4 * offset))
        else:
            _finish_floats(b, result, offsets, sums, d)
    b.ret()
    return finished(b, name, vectors, single, start, result)


def _started(b: Builder, start: Value, offset: int, lanes: int, number: str, c: str) -> Value:
    if c == "f16":
        return b.convert("fpext", b.load("half", b.offset(start, 2 * offset), lanes), "float")
    return b.load(number, b.offset(start, offset * (8 if number == "double" else 4)), lanes)


def _step(b: Builder, kind: str, x: Value, y: Value, total: Value) -> Value:
    if kind in ("xor", "and"):
        return b.add(total, b.intrinsic("ctpop", b.binary(kind, x, y)))
    return b.intrinsic("fma", x, y, total)


def _finish_integers(
    b: Builder, start: Value, result: Value, offsets: list[int], sums: list[Value], saturates: bool
) -> None:
    for offset, x in zip(offsets, sums, strict=True):
        whole = b.convert("fptosi", x, "i32")
        c = b.load("i32", b.offset(start, 4 * offset), x.lanes)
        b.store(b.intrinsic("sadd.sat", c, whole) if saturates else b.add(c, whole), b.offset(result, 4 * offset))


def _finish_floats(b: Builder, result: Value, offsets: list[int], sums: list[Value], d: str) -> None:
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
        for offset, x in zip(offsets, sums, strict=True):
            value = b.convert("fptrunc", x, "half") if d == "f16" else x
            size = {"half": 2, "float": 4, "double": 8}[value.type]
            if check:
                bits = constant(f"i{8 * size}", _CANONICAL_NAN[value.type], x.lanes)
                value = b.select(b.fcmp("uno", value, value), b.bitcast(bits, value.type), value)
            b.store(value, b.offset(result, size * offset))
        b.br(end)
    b.label(end)
