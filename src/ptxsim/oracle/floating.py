"""Floating-point arithmetic (PTX ISA 9.7.3 to 9.7.5).

Arithmetic is correctly rounded in the instruction's mode. Results that are NaN are the canonical NaN of their type.
The `.approx` functions give the exact result rounded once, which is within the error that the PTX ISA states for them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxsim.oracle import exact
from ptxsim.oracle.lanes import PACKED, canonical, first_of, operations, value
from ptxsim.syntax.program import FLOAT_TYPES, TWICE, Instruction, ResultPair

_SMALLEST_NORMAL = {"f16": 2.0**-14, "bf16": 2.0**-126, "f32": 2.0**-126, "f64": 2.0**-1022}
_CARRIER = {"f16": np.float16, "bf16": np.float32, "f32": np.float32, "tf32": np.float32, "f64": np.float64}
_NATIVE = frozenset({"f16", "f32", "f64"})
"""Formats whose sums and products NumPy rounds correctly to nearest."""


def element(i: Instruction) -> str:
    """The type that an instruction computes in: for packed types, that of one half."""
    return PACKED.get(i.type, i.type)


def flush(x: np.ndarray, type_name: str) -> np.ndarray:
    """Subnormal numbers become zeros of the same sign."""
    tiny = np.abs(x) < _SMALLEST_NORMAL[type_name]
    return np.where(tiny, np.copysign(np.zeros_like(x), x), x)


def _sources(i: Instruction, *xs: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(flush(x, element(i)) for x in xs) if i.has("ftz") else xs


def finish(i: Instruction, x: np.ndarray, type_name: str) -> np.ndarray:
    """The modifiers that act on a result: .ftz, .relu, .sat."""
    x = canonical(x, type_name)
    if i.has("ftz"):
        x = flush(x, type_name)
    if i.has("relu"):
        x = relu(x)
    if i.has("sat"):
        x = np.where(x > 0, np.minimum(x, np.ones_like(x)), np.zeros_like(x))  # NaN becomes +0
    return x


def relu(x: np.ndarray) -> np.ndarray:
    """Negative numbers and -0 become +0, NaN stays."""
    return np.where(x <= 0, np.zeros_like(x), x)


def narrow(x: np.ndarray, type_name: str, mode: str) -> np.ndarray:
    """f64 numbers (exact or rounded to odd) rounded to a format, in the NumPy type that carries it."""
    return exact.round_to(x, type_name, mode).astype(_CARRIER[type_name])


def wide(*xs: np.ndarray) -> list[np.ndarray]:
    return [x.astype(np.float64) for x in xs]


# ---------------------------------------------------------------- arithmetic


def _fma_to_nearest(*xs: np.ndarray) -> np.ndarray:
    if xs[0].dtype == np.float64:
        return exact.by_lane(lambda x, y, z: exact.fma(x, y, z, "f64", "rn"), *xs)
    return exact.fma_to_odd(*wide(*xs)).astype(xs[0].dtype)


_FMA = _fma_to_nearest, exact.fma, exact.fma_to_odd
_ROUNDED: dict[str, tuple[Callable[..., np.ndarray], Callable[..., float], Callable[..., np.ndarray] | None]] = {
    "add": (np.add, exact.add, exact.sum_to_odd),
    "sub": (
        np.subtract,
        lambda x, y, *how: exact.add(x, -y, *how),
        lambda x, y, mode: exact.sum_to_odd(x, -y, mode=mode),
    ),
    "mul": (np.multiply, exact.multiply, lambda x, y, mode: x * y),
    "mad": _FMA,
    "fma": _FMA,
    "div": (np.divide, exact.divide, None),
    "rcp": (np.reciprocal, lambda x, *how: exact.divide(1.0, x, *how), None),
    "sqrt": (np.sqrt, exact.square_root, None),
}
"""Opcode -> the operation rounded to nearest in a format that NumPy has; on one lane's numbers in any format and mode;
and, where f64 can do it, on arrays of f64, exact or rounded to odd."""


@value("add.float", "sub.float", "mul.float", "mad.float", "fma", "sqrt")
def _rounded(i: Instruction, *xs: np.ndarray) -> np.ndarray:
    to_nearest, of_lane, to_odd = _ROUNDED[i.opcode]
    type_name, mode = element(i), first_of(i, "rn", "rz", "rm", "rp") or "rn"
    xs = _sources(i, *xs)
    if i.has(TWICE):
        xs = xs[0] + xs[0], *xs[1:]
    if mode == "rn" and type_name in _NATIVE:
        result = to_nearest(*xs)
    elif to_odd and type_name != "f64":
        result = narrow(to_odd(*wide(*xs), mode=mode), type_name, mode)
    else:
        result = exact.by_lane(lambda *lane: of_lane(*lane, type_name, mode), *xs).astype(_CARRIER[type_name])
    return finish(i, result, type_name)


@value("div.float")
def _div(i: Instruction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if i.has("approx"):  # the reciprocal of such a divisor is taken as zero
        y = np.where(np.abs(y) > 2.0**126, np.copysign(y.dtype.type(np.inf), y), y)
    return _rounded(i, x, y)


@value("rcp")
def _rcp(i: Instruction, x: np.ndarray) -> np.ndarray:
    return _upper_half(np.reciprocal, x) if i.type == "f64" and i.has("approx") else _rounded(i, x)


@value("rsqrt")
def _rsqrt(i: Instruction, x: np.ndarray) -> np.ndarray:
    return _upper_half(_FUNCTIONS["rsqrt"], x) if i.type == "f64" and i.has("ftz") else _function(i, x)


def _upper_half(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """rcp and rsqrt.approx.ftz.f64 read and write only the upper 32 bits of a double."""
    upper = np.uint64(0xFFFFFFFF00000000)
    x = flush((x.view(np.uint64) & upper).view(np.float64), "f64")
    return (flush(canonical(function(x), "f64"), "f64").view(np.uint64) & upper).view(np.float64)


_FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sin": np.sin, "cos": np.cos, "lg2": np.log2, "ex2": np.exp2, "tanh": np.tanh, "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip


def _angle(x: np.ndarray) -> np.ndarray:
    """Beyond 100 pi PTX states no error (9.7.3.18): an H200 cuts the number of turns to f32, and so it is here."""
    turns = exact.round_to(x * np.float64(np.float32(1 / (2 * np.pi))), "f32", "rz")
    return np.where(np.abs(x) > 100 * np.pi, 2 * np.pi * np.copysign(np.fmod(turns, 1), x), x)


@value("sin", "cos", "lg2", "ex2", "tanh")
def _function(i: Instruction, x: np.ndarray) -> np.ndarray:
    """Computed in f64 and rounded once; the sine of a subnormal number is a zero of its sign."""
    (wide_x,) = wide(*_sources(i, x))
    if i.opcode in ("sin", "cos"):
        wide_x = _angle(flush(wide_x, "f32"))
    result = _FUNCTIONS[i.opcode](wide_x)
    return finish(i, narrow(result, element(i), "rn"), element(i))


# ---------------------------------------------------------------- signs and order


@value("abs.float", "neg.float")
def _sign(i: Instruction, x: np.ndarray) -> np.ndarray:
    change = {"abs": np.abs, "neg": np.negative}[i.opcode]
    return canonical(change(_sources(i, x)[0]), i.type)


def extreme(is_least: bool, x: np.ndarray, y: np.ndarray, type_name: str) -> np.ndarray:
    """The smaller or larger of two: -0 < +0, and a NaN loses against a number."""
    wins = (np.less if is_least else np.greater)(x, y) | ((x == y) & (np.signbit(x) == is_least))
    return canonical(np.where((wins & ~np.isnan(x)) | np.isnan(y), x, y), type_name)


@value("min.float", "max.float")
def _extreme(i: Instruction, *xs: np.ndarray) -> np.ndarray:
    """-0 < +0; a NaN loses against a number unless .NaN is given."""
    is_least = i.opcode == "min"
    beats = np.less if is_least else np.greater
    xs = _sources(i, *xs)
    negative = np.signbit(xs[0]) ^ np.signbit(xs[1])
    result, *others = (np.abs(x) for x in xs) if i.has("abs") else xs
    for x in others:
        wins = beats(result, x) | ((result == x) & (np.signbit(result) == is_least))
        instead, of_other = (result, x) if i.has("NaN") else (x, result)
        number = np.where(wins, result, x)
        result = np.where(np.isnan(result), instead, np.where(np.isnan(x), of_other, number))
    result = canonical(result, i.type)
    if i.has("xorsign"):
        result = np.where(np.isnan(result), result, np.copysign(result, np.where(negative, -1, 1).astype(result.dtype)))
    return relu(result) if i.has("relu") else result


@value("testp", result=lambda i: "pred")
def _testp(i: Instruction, x: np.ndarray) -> np.ndarray:
    subnormal = (x != 0) & (np.abs(x) < _SMALLEST_NORMAL[i.type])  # zeros count as normal
    tests = {
        "finite": np.isfinite(x),
        "infinite": np.isinf(x),
        "number": ~np.isnan(x),
        "notanumber": np.isnan(x),
        "normal": np.isfinite(x) & ~subnormal,
        "subnormal": subnormal,
    }
    return next(result for name, result in tests.items() if i.has(name))


# ---------------------------------------------------------------- comparison

_ORDERED = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_COMPARISONS = (*_ORDERED, *_UNSIGNED, *(name + "u" for name in _ORDERED), "num", "nan")


def _compare(i: Instruction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The comparison of setp and set. With NaN the plain ones are false, those ending in u true."""
    name = next(m for m in i.modifiers if m in _COMPARISONS)
    name = _UNSIGNED.get(name, name)
    if i.type not in FLOAT_TYPES:
        return _ORDERED[name](x, y)
    x, y = _sources(i, x, y)
    unordered = np.isnan(x) | np.isnan(y)
    if name in ("num", "nan"):
        return unordered if name == "nan" else ~unordered
    if name in _ORDERED:
        return _ORDERED[name](x, y) & ~unordered
    return _ORDERED[name[:-1]](x, y) | unordered


_BOOLEANS: dict[str | None, Callable[..., np.ndarray]] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, None: lambda holds: holds,
}  # fmt: skip


def _combined(i: Instruction, holds: np.ndarray, *other: np.ndarray) -> np.ndarray:
    return _BOOLEANS[first_of(i, "and", "or", "xor")](holds, *other)


def _compared_types(i: Instruction) -> tuple[str, ...]:
    return (i.type, i.type, "pred")[: len(i.operands) - 1]


@value("setp", sources=_compared_types, result=lambda i: "pred")
def _setp(i: Instruction, x: np.ndarray, y: np.ndarray, *other: np.ndarray) -> np.ndarray | tuple[np.ndarray, ...]:
    holds = _compare(i, x, y)
    if i.type in PACKED:  # one predicate for each half
        return _combined(i, holds[..., 0], *other), _combined(i, holds[..., 1], *other)
    if isinstance(i.operands[0], ResultPair):
        return _combined(i, holds, *other), _combined(i, ~holds, *other)
    return _combined(i, holds, *other)


@value("set", sources=_compared_types, result=lambda i: i.types[0])
def _set(i: Instruction, x: np.ndarray, y: np.ndarray, *other: np.ndarray) -> np.ndarray:
    other = tuple(o[..., None] for o in other) if i.type in PACKED else other
    holds = _combined(i, _compare(i, x, y), *other)
    if i.types[0] in FLOAT_TYPES:
        return holds.astype(_CARRIER[PACKED.get(i.types[0], i.types[0])])
    ones = np.where(holds, -1, 0).astype(np.int64)
    if i.type in PACKED and i.types[0] not in PACKED:  # set.u32.f16x2: a half-word of ones for each half
        return (ones[..., 0] & 0xFFFF) | (ones[..., 1] & 0xFFFF) << 16
    return ones


operations({"copysign": lambda x, y: np.copysign(y, x)})
operations({"selp": lambda x, y, predicate: np.where(predicate, x, y)}, sources=lambda i: (i.type, i.type, "pred"))


@value("slct", sources=lambda i: (i.types[0], i.types[0], i.types[1]), result=lambda i: i.types[0])
def _slct(i: Instruction, x: np.ndarray, y: np.ndarray, sign: np.ndarray) -> np.ndarray:
    if i.types[1] == "f32" and i.has("ftz"):
        sign = flush(sign, "f32")
    return np.where(sign >= 0, x, y)
