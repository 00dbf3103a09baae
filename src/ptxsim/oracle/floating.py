"""Floating-point arithmetic (PTX ISA 9.7.3 to 9.7.5).

Arithmetic is correctly rounded in the instruction's mode. Results that are NaN are the canonical NaN of their type.
The `.approx` functions give the exact result rounded once, which is within the error that the PTX ISA states for them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxsim.oracle import exact
from ptxsim.oracle.lanes import PACKED, canonical, first_of, value
from ptxsim.syntax.program import FLOAT_TYPES, Instruction, Pair

_SMALLEST_NORMAL = {"f16": 2.0**-14, "bf16": 2.0**-126, "f32": 2.0**-126, "f64": 2.0**-1022}
_CARRIER = {"f16": np.float16, "bf16": np.float32, "f32": np.float32, "tf32": np.float32, "f64": np.float64}
_NATIVE = frozenset({"f16", "f32", "f64"})
"""Formats whose sums and products NumPy rounds correctly to nearest."""


def element(i: Instruction) -> str:
    """The type that an instruction computes in: for packed types, that of one half."""
    return PACKED.get(i.type, i.type)


def mode_of(i: Instruction) -> str:
    return first_of(i, "rn", "rz", "rm", "rp") or "rn"


def flush(x: np.ndarray, type_name: str) -> np.ndarray:
    """Subnormal numbers become zeros of the same sign."""
    tiny = np.abs(x) < _SMALLEST_NORMAL[type_name]
    return np.where(tiny, np.copysign(np.zeros_like(x), x), x)


def _sources(i: Instruction, *xs: np.ndarray) -> list[np.ndarray]:
    return [flush(x, element(i)) for x in xs] if i.has("ftz") else list(xs)


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


def add(i: Instruction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x, y = _sources(i, x, y)
    type_name, mode = element(i), mode_of(i)
    if mode == "rn" and type_name in _NATIVE:
        total = x + y
    elif type_name == "f64":
        total = exact.by_lane(lambda a, b: exact.add(a, b, "f64", mode), x, y)
    else:
        p, q = wide(x, y)
        total = narrow(exact.zero_sign(exact.sum_to_odd(p, q), p, q, mode), type_name, mode)
    return finish(i, total, type_name)


def multiply(i: Instruction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x, y = _sources(i, x, y)
    type_name, mode = element(i), mode_of(i)
    if mode == "rn" and type_name in _NATIVE:
        product = x * y
    elif type_name == "f64":
        product = exact.by_lane(lambda a, b: exact.multiply(a, b, "f64", mode), x, y)
    else:
        p, q = wide(x, y)
        product = narrow(p * q, type_name, mode)
    return finish(i, product, type_name)


@value("fma")
def fma(i: Instruction, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    x, y, z = _sources(i, x, y, z)
    type_name, mode = element(i), mode_of(i)
    if type_name == "f64":
        return finish(i, exact.by_lane(lambda a, b, c: exact.fma(a, b, c, "f64", mode), x, y, z), type_name)
    p, q, r = wide(x, y, z)
    total = exact.fma_to_odd(p, q, r)
    if mode == "rn" and type_name in _NATIVE:
        return finish(i, total.astype(_CARRIER[type_name]), type_name)
    return finish(i, narrow(exact.zero_sign(total, p * q, r, mode), type_name, mode), type_name)


def divide(i: Instruction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x, y = _sources(i, x, y)
    type_name, mode = element(i), mode_of(i)
    if mode == "rn":
        quotient = x / y
        if i.has("approx"):  # the reciprocal of such a divisor is taken as zero
            huge = (np.abs(y) > 2.0**126) & np.isfinite(y)
            quotient = np.where(huge, x * np.copysign(np.zeros_like(y), y), quotient)
    else:
        quotient = exact.by_lane(lambda a, b: exact.divide(a, b, type_name, mode), *wide(x, y))
    return finish(i, quotient.astype(_CARRIER[type_name]), type_name)


@value("rcp")
def _rcp(i: Instruction, x: np.ndarray) -> np.ndarray:
    if i.type == "f64" and i.has("approx"):
        return _upper_half(i, lambda v: 1 / v, x)
    x = _sources(i, x)[0]
    mode = mode_of(i)
    if mode == "rn":
        return finish(i, np.ones_like(x) / x, i.type)
    result = exact.by_lane(lambda a: exact.divide(1.0, a, i.type, mode), *wide(x))
    return finish(i, result.astype(x.dtype), i.type)


@value("sqrt")
def _sqrt(i: Instruction, x: np.ndarray) -> np.ndarray:
    x = _sources(i, x)[0]
    mode = mode_of(i)
    if mode == "rn":
        return finish(i, np.sqrt(x), i.type)
    return finish(i, exact.by_lane(lambda a: exact.square_root(a, i.type, mode), *wide(x)).astype(x.dtype), i.type)


@value("rsqrt")
def _rsqrt(i: Instruction, x: np.ndarray) -> np.ndarray:
    if i.type == "f64" and i.has("ftz"):
        return _upper_half(i, lambda v: 1 / np.sqrt(v), x)
    return _through_f64(i, lambda v: 1 / np.sqrt(v), x)


def _upper_half(i: Instruction, function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """rcp and rsqrt.approx.ftz.f64 read and write only the upper 32 bits of a double."""
    upper = np.uint64(0xFFFFFFFF00000000)
    x = flush((x.view(np.uint64) & upper).view(np.float64), "f64")
    return (flush(canonical(function(x), "f64"), "f64").view(np.uint64) & upper).view(np.float64)


def _through_f64(i: Instruction, function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    type_name = element(i)
    result = function(_sources(i, x)[0].astype(np.float64))
    return finish(i, result if type_name == "f64" else narrow(result, type_name, "rn"), type_name)


_FUNCTIONS = {"sin": np.sin, "cos": np.cos, "lg2": np.log2, "ex2": np.exp2, "tanh": np.tanh}


@value(*_FUNCTIONS)
def _function(i: Instruction, x: np.ndarray) -> np.ndarray:
    return _through_f64(i, _FUNCTIONS[i.opcode], x)


# ---------------------------------------------------------------- signs and order


def absolute(i: Instruction, x: np.ndarray) -> np.ndarray:
    return canonical(np.abs(_sources(i, x)[0]), i.type)


def negate(i: Instruction, x: np.ndarray) -> np.ndarray:
    return canonical(-_sources(i, x)[0], i.type)


def extreme(i: Instruction, beats: Callable[[np.ndarray, np.ndarray], np.ndarray], *xs: np.ndarray) -> np.ndarray:
    """Minimum (`beats` is np.less) or maximum: -0 < +0; a NaN loses against a number unless .NaN is given."""
    xs = tuple(_sources(i, *xs))
    signs = np.signbit(xs[0])
    if i.has("xorsign"):
        signs = np.logical_xor(signs, np.signbit(xs[1]))
    result = np.abs(xs[0]) if i.has("abs") else xs[0]
    for x in xs[1:]:
        x = np.abs(x) if i.has("abs") else x
        first_zero = np.signbit(result) if beats is np.less else ~np.signbit(result)
        chosen = np.where(beats(result, x) | ((result == x) & first_zero), result, x)
        if i.has("NaN"):
            chosen = np.where(np.isnan(result), result, chosen)
        else:
            chosen = np.where(np.isnan(result), x, np.where(np.isnan(x), result, chosen))
        result = chosen
    result = canonical(result, i.type)
    if i.has("xorsign"):
        result = np.where(np.isnan(result), result, np.copysign(result, np.where(signs, -1, 1).astype(result.dtype)))
    return relu(result) if i.has("relu") else result


@value("copysign")
def _copysign(i: Instruction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.copysign(y, x)


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


def _combined(i: Instruction, holds: np.ndarray, *other: np.ndarray) -> np.ndarray:
    if not other:
        return holds
    operation = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
    return operation[first_of(i, *operation) or ""](holds, other[0])


def _compared_types(i: Instruction) -> tuple[str, ...]:
    return (i.type, i.type, "pred")[: len(i.operands) - 1]


@value("setp", sources=_compared_types, result=lambda i: "pred")
def _setp(i: Instruction, x: np.ndarray, y: np.ndarray, *other: np.ndarray) -> np.ndarray | tuple[np.ndarray, ...]:
    holds = _compare(i, x, y)
    if i.type in PACKED:  # one predicate for each half
        return _combined(i, holds[..., 0], *other), _combined(i, holds[..., 1], *other)
    if isinstance(i.operands[0], Pair):
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


@value("selp", sources=lambda i: (i.type, i.type, "pred"))
def _selp(i: Instruction, x: np.ndarray, y: np.ndarray, predicate: np.ndarray) -> np.ndarray:
    return np.where(predicate, x, y)


@value("slct", sources=lambda i: (i.types[0], i.types[0], i.types[1]), result=lambda i: i.types[0])
def _slct(i: Instruction, x: np.ndarray, y: np.ndarray, sign: np.ndarray) -> np.ndarray:
    if i.types[1] == "f32" and i.has("ftz"):
        sign = flush(sign, "f32")
    return np.where(sign >= 0, x, y)
