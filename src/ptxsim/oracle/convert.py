"""Moves and conversions (PTX ISA 9.7.9); numbers of 8 bits by tables of all their values (5.2.3, 9.7.9.21)."""

from __future__ import annotations

import numpy as np

from ptxsim.oracle import exact
from ptxsim.oracle.floating import finish, flush, narrow, relu
from ptxsim.oracle.integer import wrapped
from ptxsim.oracle.lanes import PACKED, WINDOWS, ActiveLanes, canonical, first_of, handler, unsupported, value
from ptxsim.syntax.program import FLOAT8_TYPES, FLOAT_TYPES, WIDTH_BITS, Instruction, Vector, elements_of

# ---------------------------------------------------------------- moves


@handler("mov")
def _mov(lanes: ActiveLanes, i: Instruction) -> None:
    destination, source = i.operands
    width = WIDTH_BITS[i.type]
    if not isinstance(destination, Vector) and not isinstance(source, Vector):
        type_name = "pred" if i.type == "pred" else f"b{width}"
        lanes.write(destination, lanes.read(source, type_name), type_name)
        return
    number = object if width == 128 else np.uint64
    whole, part = np.zeros((), number), width // len(elements_of(source))
    for k, element in enumerate(elements_of(source)):  # side by side, the first in the lowest bits
        whole = whole | lanes.read(element, f"b{part}").astype(number) << np.array(k * part, number)
    part = width // len(elements_of(destination))
    for k, element in enumerate(elements_of(destination)):
        lanes.write(element, whole >> np.array(k * part, number) & np.array((1 << part) - 1, number), f"b{part}")


@value("cvta")
def _cvta(i: Instruction, x: np.ndarray) -> np.ndarray:
    window = WINDOWS.get("shared" if i.space == "cluster" else i.space, 0)
    wide = x.astype(np.uint64)
    return wide & np.uint64(window - 1) if i.has("to") and window else wide | np.uint64(window)


@handler("isspacep")
def _isspacep(lanes: ActiveLanes, i: Instruction) -> None:
    x = lanes.read(i.operands[1], "u64")
    found = x >> np.uint64(56) == WINDOWS.get("shared" if i.space == "cluster" else i.space, 0) >> 56
    if i.space == "shared":  # the own block's
        block = (x & np.uint64(0xFFFFFFFF)) >> np.uint64(24)
        found = found & ((block == 0) | (block == lanes.special("cluster_ctarank") + 1))
    lanes.write(i.operands[0], found, "pred")


# ---------------------------------------------------------------- cvt


@handler("cvt")
def _cvt(lanes: ActiveLanes, i: Instruction) -> None:
    if i.has("pack"):
        _pack(lanes, i)
        return
    to, source = i.types
    xs = [lanes.read(o, "u16" if source in FLOAT8_TYPES else source) for o in i.operands[1:]]
    x = np.stack(np.broadcast_arrays(*xs[::-1]), axis=-1) if len(xs) == 2 else xs[0]  # cvt.f16x2.f32 d, upper, lower
    if source in FLOAT8_TYPES:
        result = _from_8_bits(i, x, source)
    elif to in FLOAT8_TYPES:
        result = _to_8_bits(i, x, to)
    elif len(xs) == 1:
        result = _converted(i, x, to, source)
    elif to in PACKED:
        result = _float_to_float(i, x, PACKED[to], source)
    else:
        raise unsupported(i)
    lanes.write(i.operands[0], result, "u16" if to in FLOAT8_TYPES else to)


def _pack(lanes: ActiveLanes, i: Instruction) -> None:
    """cvt.pack d, a, b, c: c's bits, then a's clamped number, then b's (9.7.9.22)."""
    to = next(m for m in i.modifiers if m not in ("pack", "sat"))
    width = int(to[1:])
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if to[0] == "s" else (0, (1 << width) - 1)
    numbers = (np.clip(lanes.read(o, "s32").astype(np.int64), low, high) for o in i.operands[1:3])
    upper, lower = (x & (1 << width) - 1 for x in numbers)
    rest = lanes.read(i.operands[3], "u32").astype(np.int64) if len(i.operands) == 4 else 0
    lanes.write(i.operands[0], wrapped(rest << 2 * width | upper << width | lower, "b32"), "b32")


def _converted(i: Instruction, x: np.ndarray, to: str, source: str) -> np.ndarray:
    if source == "f32" and i.has("ftz"):
        x = flush(x, "f32")
    if source in FLOAT_TYPES:
        return _float_to_float(i, x, to, source) if to in FLOAT_TYPES else _float_to_int(i, x, to, source)
    return _int_to_float(i, x, to) if to in FLOAT_TYPES else _int_to_int(i, x, to)


def _integral(i: Instruction, x: np.ndarray) -> np.ndarray:
    mode = first_of(i, *exact.INTEGER_MODES)
    return exact.INTEGER_MODES[mode](x) if mode else x


def _float_to_float(i: Instruction, x: np.ndarray, to: str, source: str) -> np.ndarray:
    mode = first_of(i, "rn", "rna", "rz", "rm", "rp") or "rn"
    if to == "tf32":
        result = _to_tf32(x, mode)
        if i.has("satfinite"):  # of what is no number an H200 takes one step away, too
            bits = result.view(np.uint32)
            result = np.where(np.isfinite(result), bits, bits - np.uint32(0x2000)).astype(np.uint32).view(np.float32)
        return relu(result) if i.has("relu") else result
    if to == source and not first_of(i, *exact.INTEGER_MODES) and not i.has("sat") and not i.has("ftz"):
        return x
    wide = _integral(i, x.astype(np.float64))
    result = finish_conversion(i, wide if to == "f64" else narrow(wide, to, mode), to)
    return _with_wide_nan(result, source) if to == "f64" else _finite(i, result, to)


WIDE_NAN = 0x7FFFFFFFE0000000
"""0x7FFFFFFF of f32 as an f64."""


def _with_wide_nan(x: np.ndarray, source: str) -> np.ndarray:
    """Numbers of a narrower format as f64; a GPU widens every NaN as the one that its f32 arithmetic gives."""
    nan = np.uint64(WIDE_NAN).view(np.float64)
    return x if source == "f64" else np.where(np.isnan(x), nan, x)


def _finite(i: Instruction, x: np.ndarray, to: str) -> np.ndarray:
    """`.satfinite`: the largest number in place of infinity; what is no number stays so."""
    if not i.has("satfinite"):
        return x
    f = exact.FORMATS[to]
    largest = x.dtype.type(np.ldexp(1 - 2.0**-f.precision, f.largest))
    return np.where(np.isinf(x), np.copysign(largest, x), x)


def _to_tf32(x: np.ndarray, mode: str) -> np.ndarray:
    """rna does not look at NaNs: like an H200, it just drops their low bits."""
    cut = (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    rounded = narrow(x.astype(np.float64), "tf32", mode)
    return np.where(np.isnan(x), cut, rounded) if mode == "rna" else canonical(rounded, "tf32")


def finish_conversion(i: Instruction, x: np.ndarray, to: str) -> np.ndarray:
    """.ftz acts where one side is f32, and flushes results of type f32 only."""
    if i.has("ftz") and to != "f32":
        i = i.with_(modifiers=tuple(m for m in i.modifiers if m != "ftz"))
    return finish(i, x, to)


_AS_INTEGERS = np.frompyfunc(int, 1, 1)


def _float_to_int(i: Instruction, x: np.ndarray, to: str, source: str) -> np.ndarray:
    """Beyond the range of the result: its nearest end. NaN: 0, or the top bit alone if either side has 64 bits."""
    wide = _integral(i, x.astype(np.float64))
    width, is_signed = WIDTH_BITS[to], to[0] == "s"
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if is_signed else (0, (1 << width) - 1)
    nan = 1 << width - 1 if source == "f64" or width == 64 else 0

    wide = np.where(np.isnan(wide), 0.0, np.clip(wide, float(low), float(high)))
    # 2**63 and 2**64, which f64 rounds the ends of the 64-bit ranges to, come back as those ends.
    numbers = np.minimum(_AS_INTEGERS(wide), high) if width == 64 else np.trunc(wide).astype(np.int64)
    return wrapped(np.where(np.isnan(x), nan, numbers), to)


def _int_to_float(i: Instruction, x: np.ndarray, to: str) -> np.ndarray:
    mode = first_of(i, "rn", "rz", "rm", "rp") or "rn"
    if x.dtype.itemsize < 8:
        wide = x.astype(np.float64)
    else:
        wide = np.vectorize(lambda v: exact.from_integer(v, to, mode), otypes=[np.float64])(x.astype(object))
    return finish_conversion(i, wide if to == "f64" else narrow(wide, to, mode), to)


def _int_to_int(i: Instruction, x: np.ndarray, to: str) -> np.ndarray:
    width = WIDTH_BITS[to]
    if i.has("sat"):
        low, high = (-(1 << width - 1), (1 << width - 1) - 1) if to[0] == "s" else (0, (1 << width) - 1)
        return wrapped(np.minimum(np.maximum(x.astype(object), low), high), to)
    return x.astype(f"{'i' if to[0] == 's' else 'u'}{width // 8}")


# ---------------------------------------------------------------- e4m3 and e5m2, two in a register


_NAN = 0x7F


def _values_of(fraction_bits: int, bias: int, finite: int) -> np.ndarray:
    """The numbers of the codes 0 .. finite - 1."""
    code = np.arange(finite)
    exponent, fraction = code >> fraction_bits, (code & (1 << fraction_bits) - 1) / (1 << fraction_bits)
    return np.where(exponent == 0, np.ldexp(fraction, 1 - bias), np.ldexp(1 + fraction, exponent - bias))


FLOAT8_VALUES = {"e4m3x2": _values_of(3, 7, 0x7F), "e5m2x2": _values_of(2, 15, 0x7C)}
"""Finite numbers above or equal to zero by code. Above them: infinity (e5m2 alone), and what is no number."""


def from_8_bits(code: np.ndarray, of: str) -> np.ndarray:
    """The numbers that codes of 8 bits stand for, as f64."""
    table = np.concatenate([FLOAT8_VALUES[of], [np.inf] if of == "e5m2x2" else [], np.full(4, np.nan)])
    code = code.astype(np.int64)
    return np.where(code >> 7, -1.0, 1.0) * table[code & 0x7F]


def _to_8_bits(i: Instruction, x: np.ndarray, to: str) -> np.ndarray:
    """Pairs of numbers, shape (..., 2), rounded to nearest, ties to the even code; infinity becomes the largest."""
    x = relu(x) if i.has("relu") else x
    table = FLOAT8_VALUES[to]
    size = np.minimum(np.abs(x.astype(np.float64)), table[-1])
    above = np.clip(np.searchsorted(table, size), 1, len(table) - 1)
    down, up = size - table[above - 1], table[above] - size
    code = np.where((down < up) | ((down == up) & (above % 2 == 1)), above - 1, above)
    code = np.where(np.isnan(x), _NAN, code | np.where(np.signbit(x), 0x80, 0)).astype(np.uint16)
    return code[..., 0] | code[..., 1] << np.uint16(8)


def _from_8_bits(i: Instruction, pair: np.ndarray, of: str) -> np.ndarray:
    """Pairs of 8-bit numbers as f16, shape (..., 2)."""
    x = from_8_bits(np.stack([pair & 0xFF, pair >> 8], axis=-1), of)
    return canonical((relu(x) if i.has("relu") else x).astype(np.float16), "f16")
