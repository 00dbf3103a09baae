"""Kernels in Triton, each with inputs, an answer in NumPy, and a bound of its error; `triton_kernels.py` runs them.

Shapes are ragged on purpose: no size is a multiple of a block.
"""

# mypy: ignore-errors
# Triton's functions are not Python's: their arguments are pointers and tiles.
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import triton
import triton.language as tl

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Example:
    """One launch: `arguments` in the function's order, names of `arrays` or numbers; `answer` is what is compared."""

    function: Any
    grid: tuple[int, ...]
    arrays: Arrays
    arguments: tuple[Any, ...]
    answer: Arrays
    constants: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-5

    @property
    def name(self) -> str:
        return str(self.function.__name__)


@triton.jit
def axpy(x, y, a, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(y + at, a * tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def gelu(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(out + at, 0.5 * v * (1 + tl.erf(v * 0.7071067811865476)), mask=at < n)


@triton.jit
def row_sums(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    tl.store(out + row, tl.sum(total, axis=0))


@triton.jit
def argmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    tl.store(out + row, tl.argmax(v, axis=0))


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * columns + at, e / tl.sum(e, axis=0), mask=at < columns)


@triton.jit
def online_softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    largest = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
        found = tl.maximum(largest, tl.max(v, axis=0))
        total = total * tl.exp(largest - found) + tl.sum(tl.exp(v - found), axis=0)
        largest = found
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * columns + at, mask=at < columns)
        tl.store(out + row * columns + at, tl.exp(v - largest) / total, mask=at < columns)


@triton.jit
def cross_entropy(logits, labels, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(logits + row * columns + at, mask=at < columns, other=-float("inf"))
    largest = tl.max(v, axis=0)
    sums = tl.log(tl.sum(tl.exp(v - largest), axis=0)) + largest
    tl.store(out + row, sums - tl.load(logits + row * columns + tl.load(labels + row)))


@triton.jit
def layer_norm(x, weight, bias, out, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    v = tl.load(x + row * columns + at, mask=inside, other=0.0)
    mean = tl.sum(v, axis=0) / columns
    d = tl.where(inside, v - mean, 0.0)
    scale = tl.rsqrt(tl.sum(d * d, axis=0) / columns + epsilon)
    w = tl.load(weight + at, mask=inside)
    tl.store(out + row * columns + at, d * scale * w + tl.load(bias + at, mask=inside), mask=inside)


@triton.jit
def rms_norm(x, weight, out, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    scale = tl.rsqrt(tl.sum(v * v, axis=0) / columns + epsilon)
    tl.store(out + row * columns + at, v * scale * tl.load(weight + at, mask=at < columns), mask=at < columns)


@triton.jit
def transpose(x, out, M, N, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tile = tl.load(x + rows[:, None] * N + columns[None, :], mask=inside)
    tl.store(out + columns[:, None] * M + rows[None, :], tile.T, mask=inside.T)


@triton.jit
def matvec(a, x, y, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = (rows[:, None] < M) & (at[None, :] < N)
        tile = tl.load(a + rows[:, None] * N + at[None, :], mask=inside, other=0.0)
        total += tile * tl.load(x + at, mask=at < N, other=0.0)[None, :]
    tl.store(y + rows, tl.sum(total, axis=1), mask=rows < M)


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        at = start + tl.arange(0, BK)
        tile_a = tl.load(a + rows[:, None] * K + at[None, :], mask=(rows[:, None] < M) & (at[None, :] < K), other=0.0)
        tile_b = tl.load(
            b + at[:, None] * N + columns[None, :], mask=(at[:, None] < K) & (columns[None, :] < N), other=0.0
        )
        sums = tl.dot(tile_a, tile_b, sums, input_precision=HOW)
    tl.store(c + rows[:, None] * N + columns[None, :], sums, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def whole_product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), dtype=tl.int32)
    for start in range(0, K, BK):
        at = start + tl.arange(0, BK)
        tile_a = tl.load(a + rows[:, None] * K + at[None, :], mask=(rows[:, None] < M) & (at[None, :] < K), other=0)
        tile_b = tl.load(
            b + at[:, None] * N + columns[None, :], mask=(at[:, None] < K) & (columns[None, :] < N), other=0
        )
        sums += tl.dot(tile_a, tile_b)
    tl.store(c + rows[:, None] * N + columns[None, :], sums, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def attention(q, k, v, out, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1) * length * D
    d = tl.arange(0, D)
    tile_q = tl.load(q + head + rows[:, None] * D + d[None, :], mask=rows[:, None] < length, other=0.0)
    largest = tl.full((BM,), -1.0e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, D), tl.float32)
    end = tl.minimum((tl.program_id(0) + 1) * BM, length) if CAUSAL else length
    for start in range(0, end, BN):
        at = start + tl.arange(0, BN)
        tile_k = tl.load(k + head + at[None, :] * D + d[:, None], mask=at[None, :] < length, other=0.0)
        tile_v = tl.load(v + head + at[:, None] * D + d[None, :], mask=at[:, None] < length, other=0.0)
        seen = at[None, :] < length
        if CAUSAL:
            seen = seen & (at[None, :] <= rows[:, None])
        s = tl.where(seen, tl.dot(tile_q, tile_k) * scale, -1.0e30)
        found = tl.maximum(largest, tl.max(s, axis=1))
        p = tl.exp(s - found[:, None])
        less = tl.exp(largest - found)
        total = total * less + tl.sum(p, axis=1)
        sums = sums * less[:, None] + tl.dot(p.to(tl.float16), tile_v)
        largest = found
    tl.store(out + head + rows[:, None] * D + d[None, :], sums / total[:, None], mask=rows[:, None] < length)


@triton.jit
def running_sums(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    tl.store(out + row * columns + at, tl.cumsum(v, axis=0), mask=at < columns)


@triton.jit
def sort_rows(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.sort(tl.load(x + at)))


@triton.jit
def histogram(keys, counts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts + tl.load(keys + at, mask=at < n, other=0), 1, mask=at < n)


@triton.jit
def gather_rows(table, places, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(table + tl.load(places + row) * columns + at, mask=at < columns)
    tl.store(out + row * columns + at, v, mask=at < columns)


@triton.jit
def split_sums(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + at, mask=at < n, other=0.0), axis=0))


@triton.jit
def convolution(x, taps, out, n, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(TAPS):
        total += tl.load(taps + k) * tl.load(
            x + at + k - TAPS // 2, mask=(at + k >= TAPS // 2) & (at + k < n + TAPS // 2), other=0.0
        )
    tl.store(out + at, total, mask=at < n)


@triton.jit
def adam(w, g, m, v, rate, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    slope = tl.load(g + at, mask=inside)
    first = 0.9 * tl.load(m + at, mask=inside) + 0.1 * slope
    second = 0.999 * tl.load(v + at, mask=inside) + 0.001 * slope * slope
    tl.store(m + at, first, mask=inside)
    tl.store(v + at, second, mask=inside)
    tl.store(w + at, tl.load(w + at, mask=inside) - rate * first / (tl.sqrt(second) + 1e-8), mask=inside)


def _blocks(n: int, size: int) -> int:
    return -(-n // size)


def _rows(function: Any, answer: Callable[[np.ndarray], np.ndarray], **more: Any) -> Example:
    """A kernel with one program for each row of 13 by 1000."""
    x = np.random.default_rng(1).normal(size=(13, 1000)).astype(np.float32)
    found = answer(x.astype(np.float64))
    arrays = {"x": x, "out": np.zeros(found.shape, np.int32 if found.dtype == np.int64 else np.float32)}
    return Example(
        function, (13,), arrays, ("x", "out", 1000), {"out": found}, **{"constants": {"BLOCK": 1024}, **more}
    )


def softmax_of(x: np.ndarray) -> np.ndarray:
    """The softmax of rows."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def examples() -> Iterator[Example]:
    """All of them; NumPy's answers are in float64."""
    rng = np.random.default_rng(0)
    n = 5_000
    x, y = (rng.normal(size=n).astype(np.float32) for _ in range(2))
    line = {"BLOCK": 1024}
    yield Example(
        axpy, (_blocks(n, 1024),), {"x": x, "y": y}, ("x", "y", 2.5, n), {"y": 2.5 * x.astype(float) + y}, line
    )
    erf = np.vectorize(__import__("math").erf)
    wide = x.astype(float)
    yield Example(
        gelu,
        (_blocks(n, 1024),),
        {"x": x, "out": np.zeros_like(x)},
        ("x", "out", n),
        {"out": 0.5 * wide * (1 + erf(wide / np.sqrt(2)))},
        line,
    )
    yield _rows(row_sums, lambda a: a.sum(axis=1), constants={"BLOCK": 256}, tolerance=1e-4)
    yield _rows(argmax, lambda a: a.argmax(axis=1))
    yield _rows(softmax, softmax_of)
    yield _rows(online_softmax, softmax_of, constants={"BLOCK": 128})
    yield _rows(running_sums, lambda a: a.cumsum(axis=1), tolerance=1e-4)
    yield from _of_networks(rng)
    yield from _of_matrices(rng)
    yield from _of_places(rng, x)


def _of_networks(rng: np.random.Generator) -> Iterator[Example]:
    rows, columns = 11, 700
    x, w, b = (rng.normal(size=shape).astype(np.float32) for shape in ((rows, columns), columns, columns))
    labels = rng.integers(0, columns, rows).astype(np.int32)
    wide, line = x.astype(float), {"BLOCK": 1024}
    chosen = softmax_of(wide)[np.arange(rows), labels]
    yield Example(
        cross_entropy,
        (rows,),
        {"x": x, "labels": labels, "out": np.zeros(rows, np.float32)},
        ("x", "labels", "out", columns),
        {"out": -np.log(chosen)},
        line,
    )
    norm = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    yield Example(
        layer_norm,
        (rows,),
        {"x": x, "w": w, "b": b, "out": np.zeros_like(x)},
        ("x", "w", "b", "out", columns, 1e-5),
        {"out": norm * w + b},
        line,
    )
    rms = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5)
    yield Example(
        rms_norm,
        (rows,),
        {"x": x, "w": w, "out": np.zeros_like(x)},
        ("x", "w", "out", columns, 1e-5),
        {"out": rms * w},
        line,
    )
    n = 3_000
    weights, slope, first = (rng.normal(size=n).astype(np.float32) for _ in range(3))
    second = np.abs(rng.normal(size=n)).astype(np.float32)
    m, v = 0.9 * first.astype(float) + 0.1 * slope, 0.999 * second.astype(float) + 0.001 * slope.astype(float) ** 2
    yield Example(
        adam,
        (_blocks(n, 1024),),
        {"w": weights, "g": slope, "m": first, "v": second},
        ("w", "g", "m", "v", 0.01, n),
        {"m": m, "v": v, "w": weights - 0.01 * m / (np.sqrt(v) + 1e-8)},
        line,
    )


def _of_matrices(rng: np.random.Generator) -> Iterator[Example]:
    m, n, k = 100, 136, 72
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((m, k), (k, n)))
    yield Example(
        transpose,
        (_blocks(m, 64), _blocks(k, 64)),
        {"x": a, "out": np.zeros((k, m), np.float32)},
        ("x", "out", m, k),
        {"out": a.T},
        {"BLOCK": 64},
        tolerance=0,
    )
    v = rng.normal(size=k).astype(np.float32)
    yield Example(
        matvec,
        (_blocks(m, 16),),
        {"a": a, "x": v, "y": np.zeros(m, np.float32)},
        ("a", "x", "y", m, k),
        {"y": a.astype(float) @ v},
        {"ROWS": 16, "BLOCK": 64},
    )
    tiles = {"BM": 64, "BN": 64, "BK": 32}
    grid = (_blocks(m, 64), _blocks(n, 64))
    for dtype, how, tolerance in ((np.float16, "ieee", 1e-4), (np.float32, "ieee", 1e-4), (np.float32, "tf32", 0.1)):
        ours = {"a": a.astype(dtype), "b": b.astype(dtype), "c": np.zeros((m, n), np.float32)}
        yield Example(
            product,
            grid,
            ours,
            ("a", "b", "c", m, n, k),
            {"c": ours["a"].astype(float) @ ours["b"].astype(float)},
            {**tiles, "HOW": how},
            tolerance,
        )
    whole = {"a": rng.integers(-9, 9, (m, k), np.int8), "b": rng.integers(-9, 9, (k, n), np.int8)}
    yield Example(
        whole_product,
        grid,
        {**whole, "c": np.zeros((m, n), np.int32)},
        ("a", "b", "c", m, n, k),
        {"c": whole["a"].astype(int) @ whole["b"]},
        tiles,
        tolerance=0,
    )
    length, heads, d = 150, 2, 64
    q, keys, values = (rng.normal(size=(heads, length, d)).astype(np.float16) for _ in range(3))
    for causal in (False, True):
        s = q.astype(float) @ keys.astype(float).transpose(0, 2, 1) / 8
        s = np.where(np.tri(length, dtype=bool), s, -np.inf) if causal else s
        arrays = {"q": q, "k": keys, "v": values, "out": np.zeros((heads, length, d), np.float32)}
        yield Example(
            attention,
            (_blocks(length, 64), heads),
            arrays,
            ("q", "k", "v", "out", length, 0.125),
            {"out": softmax_of(s) @ values.astype(float)},
            {"D": d, "BM": 64, "BN": 32, "CAUSAL": causal},
            2e-3,
        )


def _of_places(rng: np.random.Generator, x: np.ndarray) -> Iterator[Example]:
    n, line = x.size, {"BLOCK": 1024}
    block = rng.normal(size=(3, 256)).astype(np.float32)
    yield Example(
        sort_rows,
        (3,),
        {"x": block, "out": np.zeros_like(block)},
        ("x", "out"),
        {"out": np.sort(block)},
        {"BLOCK": 256},
        tolerance=0,
    )
    keys = rng.integers(0, 100, n).astype(np.int32)
    yield Example(
        histogram,
        (_blocks(n, 1024),),
        {"keys": keys, "counts": np.zeros(100, np.int32)},
        ("keys", "counts", n),
        {"counts": np.bincount(keys, minlength=100)},
        line,
        tolerance=0,
    )
    table, places = rng.normal(size=(50, 300)).astype(np.float32), rng.integers(0, 50, 17).astype(np.int32)
    yield Example(
        gather_rows,
        (17,),
        {"table": table, "places": places, "out": np.zeros((17, 300), np.float32)},
        ("table", "places", "out", 300),
        {"out": table[places]},
        {"BLOCK": 512},
        tolerance=0,
    )
    yield Example(
        split_sums,
        (_blocks(n, 1024),),
        {"x": x, "out": np.zeros(1, np.float32)},
        ("x", "out", n),
        {"out": np.array([x.astype(float).sum()])},
        line,
        tolerance=1e-3,
    )
    taps = rng.normal(size=5).astype(np.float32)
    padded = np.pad(x.astype(float), 2)
    out = sum(taps[k] * padded[k : k + n] for k in range(5))
    yield Example(
        convolution,
        (_blocks(n, 1024),),
        {"x": x, "taps": taps, "out": np.zeros_like(x)},
        ("x", "taps", "out", n),
        {"out": np.asarray(out)},
        {"TAPS": 5, **line},
    )
