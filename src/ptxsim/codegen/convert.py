"""Comparison, selection, moves and conversions (PTX ISA 9.7.6, 9.7.9), also from and to numbers of 8 bits."""

from __future__ import annotations

from dataclasses import dataclass

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import WORKER, Builder, IRValue, mangled
from ptxsim.codegen.floating import (
    INFINITY,
    MAGNITUDE,
    canonical_nan,
    direction,
    flush,
    narrow,
    relu,
    round_directed,
    rounded,
    saturate,
    two_sum,
    widen,
)
from ptxsim.codegen.nans import with_wide_nan
from ptxsim.codegen.values import LLVM_TYPE, VALUES, ValueRow, bits_of, is_float, unsupported, value
from ptxsim.syntax.program import FLOAT8_TYPES, WIDTH_BITS, Instruction, ResultPair, Vector

_FLOAT_COMPARE = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "num": "ord", "nan": "uno",
    "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge",
}  # fmt: skip
_UNSIGNED_COMPARE = {"lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}
_COMPARISONS = frozenset(_FLOAT_COMPARE) | frozenset(_UNSIGNED_COMPARE)
_BOOLEANS = ("and", "or", "xor")


def _compare(b: Builder, i: Instruction, x: IRValue, y: IRValue) -> IRValue:
    name = next(m for m in i.modifiers if m in _COMPARISONS)
    if x.type in ("half", "bfloat", "float", "double"):
        if i.has("ftz"):
            x, y = flush(b, x), flush(b, y)
        return b.fcmp(_FLOAT_COMPARE[name], x, y)
    if name in ("eq", "ne"):
        return b.icmp(name, x, y)
    return b.icmp(_UNSIGNED_COMPARE.get(name) or ("s" if i.type[0] == "s" else "u") + name, x, y)


def _combine(b: Builder, i: Instruction, result: IRValue, other: IRValue | None) -> IRValue:
    return result if other is None else b.binary(next(m for m in i.modifiers if m in _BOOLEANS), result, other)


def _compare_types(i: Instruction) -> tuple[str, ...]:
    return (i.type, i.type, "pred")[: len(i.operands) - 1]


@value("setp", operands=_compare_types)
def _setp(
    b: Builder, i: Instruction, x: IRValue, y: IRValue, other: IRValue | None = None
) -> IRValue | tuple[IRValue, ...]:
    pair = isinstance(i.operands[0], ResultPair)
    if i.type in ("f16x2", "bf16x2"):
        halves = [_compare(b, i, *_half_of((x, y), b, i, shift)) for shift in (0, 16)]
        results = tuple(_combine(b, i, h, other) for h in halves)
        return results if pair else results[0]
    holds = _compare(b, i, x, y)
    result = _combine(b, i, holds, other)
    return (result, _combine(b, i, b.not_(holds), other)) if pair else result


def _half_of(xs: tuple[IRValue, ...], b: Builder, i: Instruction, shift: int) -> list[IRValue]:
    """One half of packed values."""
    element = "bfloat" if i.type == "bf16x2" else "half"
    return [b.bitcast(b.resize(b.lshr(x, shift), "i16"), element) for x in xs]


@value("set", operands=_compare_types)
def _set(b: Builder, i: Instruction, x: IRValue, y: IRValue, other: IRValue | None = None) -> IRValue:
    if i.type in ("f16x2", "bf16x2"):
        return _set_packed(b, i, x, y, other)
    result = _combine(b, i, _compare(b, i, x, y), other)
    to = i.types[0]
    if is_float(to):
        one = b.like(IRValue(LLVM_TYPE[to], "", x.lanes), 1.0)
        return b.select(result, one, b.like(one, 0.0))
    return b.convert("sext", result, LLVM_TYPE[to])


def _set_packed(b: Builder, i: Instruction, x: IRValue, y: IRValue, other: IRValue | None) -> IRValue:
    """Both halves compared; the result is 1.0 or all ones per half."""
    element = "bfloat" if i.type == "bf16x2" else "half"
    lanes = 2 * max(1, x.lanes)
    p, q = (b.bitcast(v, element, lanes) for v in (x, y))
    if other is not None:  # one for both halves
        other = b.shuffle(other, [k // 2 for k in range(lanes)]) if other.lanes else b.splat(other, 2)
    holds = _combine(b, i, _compare(b, i, p, q), other)
    is_number = i.types[0] in ("f16x2", "bf16x2")
    result = b.select(holds, b.like(p, 1.0), b.like(p, 0.0)) if is_number else b.convert("sext", holds, "i16")
    return b.bitcast(result, "i32", x.lanes)


VALUES["selp"] = ValueRow(lambda b, i, x, y, chosen_by: b.select(chosen_by, x, y), lambda i: (i.type, i.type, "pred"))


@value("slct", operands=lambda i: (i.types[0], i.types[0], i.types[1]))
def _slct(b: Builder, i: Instruction, x: IRValue, y: IRValue, sign: IRValue) -> IRValue:
    if sign.type == "float":
        sign = flush(b, sign) if i.has("ftz") else sign
        return b.select(b.fcmp("oge", sign, b.like(sign, 0.0)), x, y)
    return b.select(b.icmp("sge", sign, b.like(sign, 0)), x, y)


# ---------------------------------------------------------------- moves


def _pieces(i: Instruction, vector: Vector) -> int:
    return WIDTH_BITS[i.type] // len(vector.elements)


def _move_types(i: Instruction) -> tuple[str, ...]:
    source = i.operands[1]
    return (f"b{_pieces(i, source)}",) * len(source.elements) if isinstance(source, Vector) else (i.type,)


@value("mov", operands=_move_types)
def _mov(b: Builder, i: Instruction, *xs: IRValue) -> IRValue | tuple[IRValue, ...]:
    whole = LLVM_TYPE[i.type]
    if len(xs) > 1:  # pack
        bits = WIDTH_BITS[i.type] // len(xs)
        result = b.resize(xs[0], whole)
        for k, x in enumerate(xs[1:], 1):
            result = b.or_(result, b.shl(b.resize(x, whole), k * bits))
        return result
    target = i.operands[0]
    if isinstance(target, Vector):  # unpack
        bits = _pieces(i, target)
        return tuple(b.resize(b.lshr(xs[0], k * bits), f"i{bits}") for k in range(len(target.elements)))
    return xs[0]


_WINDOWS = {"shared": L.SHARED_WINDOW, "cluster": L.SHARED_WINDOW, "local": L.LOCAL_WINDOW}


@value("cvta")
def _cvta(b: Builder, i: Instruction, x: IRValue) -> IRValue:
    window = _WINDOWS.get(i.space)
    if window is None:
        return x
    return b.and_const(x, window - 1) if i.has("to") else b.or_(x, b.like(x, window))


@value("isspacep", operands=lambda i: ("u64",))
def _isspacep(b: Builder, i: Instruction, x: IRValue) -> IRValue:
    high, wanted = b.lshr(x, 56), _WINDOWS.get(i.space, 0) >> 56
    inside = b.icmp("eq", high, b.like(high, wanted))
    return b.and_(inside, in_own_block(b, b.resize(x, "i32"))) if i.space == "shared" else inside


def in_own_block(b: Builder, address: IRValue) -> IRValue:
    """Whether an address of a cluster's shared memory (i32) lies in the block that asks: it may name its own rank."""
    block = b.lshr(address, L.CLUSTER_WINDOW_SHIFT)
    rank = b.add_const(b.load("i32", b.offset(WORKER, L.field("rank"))), 1)
    own = b.splat(rank, block.lanes) if block.lanes else rank
    return b.or_(b.icmp("eq", block, b.like(block, 0)), b.icmp("eq", block, own))


# ---------------------------------------------------------------- cvt


def _cvt_types(i: Instruction) -> tuple[str, ...]:
    return ("s32", "s32", "b32")[: len(i.operands) - 1] if i.has("pack") else (i.type,) * (len(i.operands) - 1)


@value("cvt", operands=_cvt_types)
def _cvt(b: Builder, i: Instruction, x: IRValue, *more: IRValue) -> IRValue:
    if i.has("pack"):
        return _pack_integers(b, i, x, *more)
    to, of = i.types[0], i.type
    if not FLOAT8_TYPES.isdisjoint((to, of)):
        return _convert_float8(b, i, x, *more)
    if more or to in ("f16x2", "bf16x2"):
        return _pack_halves(b, i, to, x, *more)
    if to == "tf32" or not (to in LLVM_TYPE and of in LLVM_TYPE):
        return _to_tf32(b, i, x) if to == "tf32" else _refuse(i)
    if is_float(of) and i.has("ftz") and of == "f32":
        x = flush(b, x)
    if is_float(to) and is_float(of):
        return _float_to_float(b, i, x, to, of)
    if is_float(to):
        return _int_to_float(b, i, x, to, of)
    result = _float_to_int(b, i, x, to) if is_float(of) else _int_to_int(b, i, x, to, of)
    # a register is at least 16 bits wide: an 8-bit result fills it
    return b.resize(result, "i32", to[0] == "s") if WIDTH_BITS[to] == 8 else result


def _refuse(i: Instruction) -> IRValue:
    raise unsupported(i)


_INTEGRAL = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


def _rounded_integral(b: Builder, i: Instruction, x: IRValue) -> IRValue:
    name = next((name for modifier, name in _INTEGRAL.items() if i.has(modifier)), None)
    if name is None:
        return x
    if x.type == "bfloat":  # LLVM would round the result again, by a routine that is not there
        return narrow(b, b.intrinsic(name, widen(b, x, "float")), x.type)
    return b.intrinsic(name, x)


def _float_to_float(b: Builder, i: Instruction, x: IRValue, to: str, of: str) -> IRValue:
    target = LLVM_TYPE[to]
    if WIDTH_BITS[to] > WIDTH_BITS[of]:
        x = widen(b, x, target)
        x = with_wide_nan(b, x) if to == "f64" else x
    elif WIDTH_BITS[to] < WIDTH_BITS[of]:
        x = rounded(b, x, target, direction(i))
    elif to != of:
        x = narrow(b, widen(b, x, "float"), target)
    x = _rounded_integral(b, i, x)
    if i.has("ftz") and to == "f32":
        x = flush(b, x)
    if i.has("relu"):
        x = relu(b, x)
    if i.has("satfinite"):
        x = _finite(b, x)
    return saturate(b, x) if i.has("sat") else x


def _finite(b: Builder, x: IRValue) -> IRValue:
    """Infinities become the largest number of their sign (`.satfinite`)."""
    bits = bits_of(b, x)
    infinite = b.icmp("eq", b.and_const(bits, MAGNITUDE[x.type]), b.like(bits, INFINITY[x.type]))
    return b.bitcast(b.select(infinite, b.add_const(bits, -1), bits), x.type)


def _int_to_float(b: Builder, i: Instruction, x: IRValue, to: str, of: str) -> IRValue:
    kind = "si" if of[0] == "s" else "ui"
    target = LLVM_TYPE[to]
    mode = direction(i)
    if mode and WIDTH_BITS[of] > 32:  # both halves are exact in f64
        upper = b.convert(f"{kind}tofp", b.binary("ashr" if kind == "si" else "lshr", x, b.like(x, 32)), "double")
        high = b.binary("fmul", upper, b.like(upper, 2.0**32))
        low = b.convert("uitofp", b.and_const(x, 0xFFFFFFFF), "double")
        result = round_directed(b, *two_sum(b, high, low), mode, target)
    elif mode or to in ("f16", "bf16"):  # through f64, exact for 32 bits; larger numbers overflow a half anyway
        result = rounded(b, b.convert(f"{kind}tofp", x, "double"), target, mode)
    else:
        result = b.convert(f"{kind}tofp", x, target)
    return saturate(b, result) if i.has("sat") else result


def _float_to_int(b: Builder, i: Instruction, x: IRValue, to: str) -> IRValue:
    """Out-of-range numbers saturate. NaN gives 0, except for 64-bit results and f64 sources: the top bit alone."""
    from_double = x.type == "double"
    if x.type in ("half", "bfloat"):
        x = widen(b, x, "float")
    x = _rounded_integral(b, i, x)
    width = max(WIDTH_BITS[to], 8)
    target = f"i{width}"
    kind = "s" if to[0] == "s" else "u"
    name = f"llvm.fpto{kind}i.sat.{mangled(target, x.lanes)}.{mangled(x.type, x.lanes)}"
    result = b.call(name, target, x, lanes=x.lanes)
    if width == 64 or from_double:
        result = b.select(b.fcmp("uno", x, x), b.like(result, 1 << (width - 1)), result)
    return result


def _int_to_int(b: Builder, i: Instruction, x: IRValue, to: str, of: str) -> IRValue:
    if i.has("sat"):
        x = _clamped(b, x, to, of)
    return b.resize(x, LLVM_TYPE[to], of[0] == "s")


def _clamped(b: Builder, x: IRValue, to: str, of: str) -> IRValue:
    """x limited to the range of `to`."""
    width, have = WIDTH_BITS[to], WIDTH_BITS[of]
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if to[0] == "s" else (0, (1 << width) - 1)
    top = (1 << (have - 1)) - 1 if of[0] == "s" else (1 << have) - 1
    kind = "s" if of[0] == "s" else "u"
    if high < top:
        x = b.intrinsic(f"{kind}min", x, b.like(x, high))
    if of[0] == "s" and low > -(1 << (have - 1)):
        x = b.intrinsic("smax", x, b.like(x, low))
    return x


def _pack_halves(b: Builder, i: Instruction, to: str, x: IRValue, *more: IRValue) -> IRValue:
    """cvt.rn.f16x2.f32 d, a, b: a becomes the upper half."""
    if not more or to not in ("f16x2", "bf16x2") or not (i.has("rn") or i.has("rz")):
        raise unsupported(i)
    target = "half" if to == "f16x2" else "bfloat"
    parts = []
    for v in (more[0], x):
        half = rounded(b, v, target, direction(i))
        if i.has("relu"):
            half = relu(b, half)
        if i.has("satfinite"):
            half = _finite(b, half)
        parts.append(b.resize(b.bitcast(canonical_nan(b, half), "i16"), "i32"))
    return b.or_(parts[0], b.shl(parts[1], 16))


def _pack_integers(b: Builder, i: Instruction, x: IRValue, y: IRValue, rest: IRValue | None = None) -> IRValue:
    """cvt.pack: two clamped numbers side by side, the second one lowest; the third source moves up to make room."""
    to = next(m for m in i.modifiers if m not in ("pack", "sat"))
    width, kind = int(to[1:]), to[0]
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if kind == "s" else (0, (1 << width) - 1)
    p, q = (b.intrinsic("smin", b.intrinsic("smax", v, b.like(v, low)), b.like(v, high)) for v in (x, y))
    mask = (1 << width) - 1
    pair = b.or_(b.and_const(q, mask), b.shl(b.and_const(p, mask), width))
    return pair if rest is None else b.or_(pair, b.shl(rest, 2 * width))


def _to_tf32(b: Builder, i: Instruction, x: IRValue) -> IRValue:
    """The 13 low bits of an f32 rounded away: rn ties to even, rna ties away from zero, rz towards zero."""
    bits = b.bitcast(relu(b, x) if i.has("relu") else x, "i32")
    if i.has("rz"):
        rounded = bits
    elif i.has("rna"):
        rounded = b.add_const(bits, 0x1000)
    else:
        rounded = b.add(b.add_const(bits, 0xFFF), b.and_const(b.lshr(bits, 13), 1))
    cleared = b.and_const(rounded, ~0x1FFF)
    infinite = b.icmp("eq", b.and_const(bits, 0x7FFFFFFF), b.like(bits, 0x7F800000))
    nan = b.icmp("ugt", b.and_const(bits, 0x7FFFFFFF), b.like(bits, 0x7F800000))
    nans = b.and_const(bits, ~0x1FFF) if i.has("rna") else b.like(bits, 0x7FFFE000)
    result = b.select(nan, nans, b.select(infinite, bits, cleared))
    if not i.has("satfinite"):
        return result
    # infinity, and like an H200 what is no number, become what is one step below
    over = b.icmp("uge", b.and_const(result, 0x7FFFFFFF), b.like(bits, 0x7F800000))
    return b.select(over, b.add_const(result, -0x2000), result)


@dataclass(frozen=True)
class _Format:
    """`largest` is the largest finite number, `smallest` the smallest one above zero."""

    fraction_bits: int
    bias: int
    largest: float
    smallest: float


_FORMATS = {"e4m3x2": _Format(3, 7, 448.0, 2.0**-9), "e5m2x2": _Format(2, 15, 57344.0, 2.0**-16)}
_NAN = 0x7F


def _convert_float8(b: Builder, i: Instruction, x: IRValue, *more: IRValue) -> IRValue:
    """cvt from or to a pair of 8-bit numbers; the first of two sources becomes the upper half."""
    to, of = i.types
    if of in _FORMATS:
        halves = [_half(b, i, _FORMATS[of], b.lshr(x, shift)) for shift in (0, 8)]
        return _joined(b, halves, 16, "i32")
    sources = [*more, x] if more else [widen(b, _half_of((x,), b, i, shift)[0], "float") for shift in (0, 16)]
    if len(sources) != 2:
        raise unsupported(i)
    return _joined(b, [_byte(b, i, _FORMATS[to], s) for s in sources], 8, "i16")


def _joined(b: Builder, parts: list[IRValue], bits: int, kind: str) -> IRValue:
    low, high = (b.resize(p, kind) for p in parts)
    return b.or_(low, b.shl(high, bits))


def _byte(b: Builder, i: Instruction, f: _Format, x: IRValue) -> IRValue:
    """An f32 rounded to nearest even, as i32; numbers beyond the largest become the largest."""
    if i.has("relu"):
        x = relu(b, x)
    bits = b.bitcast(x, "i32")
    magnitude = b.and_const(bits, 0x7FFFFFFF)
    nan = b.icmp("ugt", magnitude, b.like(magnitude, 0x7F800000))
    size = b.bitcast(magnitude, "float")
    size = b.select(b.fcmp("ogt", size, b.like(size, f.largest)), b.like(size, f.largest), size)
    # normal numbers: round the fraction's bits off, then move the exponent's zero
    cut = 23 - f.fraction_bits
    raw = b.bitcast(size, "i32")
    odd = b.and_const(b.lshr(raw, cut), 1)
    normal = b.lshr(b.add(b.add_const(raw, (1 << (cut - 1)) - 1), odd), cut)
    normal = b.add_const(normal, -((127 - f.bias) << f.fraction_bits))
    # small ones: a sum with a number whose last place is the smallest step rounds them to whole steps
    anchor = b.like(size, f.smallest * 2.0**23)
    steps = b.sub(b.bitcast(b.binary("fadd", size, anchor), "i32"), b.bitcast(anchor, "i32"))
    is_small = b.fcmp("olt", size, b.like(size, f.smallest * 2.0**f.fraction_bits))
    code = b.or_(b.select(is_small, steps, normal), b.and_const(b.lshr(bits, 24), 0x80))
    return b.select(nan, b.like(code, _NAN), code)


def _half(b: Builder, i: Instruction, f: _Format, pair: IRValue) -> IRValue:
    """The number in the low 8 bits as an i16 with the bits of an f16, which holds all of them."""
    code = b.and_const(b.resize(pair, "i32"), 0xFF)
    magnitude = b.and_const(code, 0x7F)
    # as the bits of an f32 whose exponent is too small by the difference of the biases
    tiny = b.bitcast(b.shl(magnitude, 23 - f.fraction_bits), "float")
    size = b.binary("fmul", tiny, b.like(tiny, 2.0 ** (127 - f.bias)))
    bits = b.or_(b.bitcast(size, "i32"), b.shl(b.and_const(code, 0x80), 24))
    x = b.bitcast(bits, "float")
    if f.fraction_bits == 3:  # one code is no number; there is no infinity
        special = b.icmp("eq", magnitude, b.like(magnitude, _NAN))
        x = b.select(special, b.like(x, float("nan")), x)
    else:
        special = b.icmp("uge", magnitude, b.like(magnitude, 0x7C))
        infinite = b.bitcast(b.or_(b.and_const(bits, -0x80000000), b.like(bits, 0x7F800000)), "float")
        ends = b.select(b.icmp("eq", magnitude, b.like(magnitude, 0x7C)), infinite, b.like(x, float("nan")))
        x = b.select(special, ends, x)
    if i.has("relu"):
        x = relu(b, x)
    return b.bitcast(canonical_nan(b, narrow(b, x, "half")), "i16")
