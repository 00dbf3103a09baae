"""Runs every kernel of kernels/ on the simulator with checks, at its smaller size, against NumPy where it is told.

    python benchmarks/clock/kernels_check.py [NAME ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from cases import cases, inputs_of

from warpschool.harness.launcher import Program

Arrays = Mapping[str, np.ndarray]


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _blocks(x: np.ndarray, size: int, f: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    return np.concatenate([f(x[at : at + size]) for at in range(0, len(x), size)])


def _csr(a: Arrays) -> np.ndarray:
    rows = np.repeat(np.arange(len(a["start"]) - 1), np.diff(a["start"]))
    return np.bincount(rows, a["value"] * a["x"][a["column"]].astype(np.float64), len(a["start"]) - 1)


def _stencil(a: Arrays) -> np.ndarray:
    u, v = a["u"], a["u"].copy()
    near = u[1:-1, :-2] + u[1:-1, 2:] + u[:-2, 1:-1] + u[2:, 1:-1]
    v[1:-1, 1:-1] += 0.2 * (near - 4 * u[1:-1, 1:-1])
    return v


def _life(a: Arrays) -> np.ndarray:
    now = a["now"].astype(int)
    n = sum(np.roll(now, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - now
    return (n == 3) | ((n == 2) & (now == 1))


def _segments(a: Arrays) -> np.ndarray:
    """Sums that begin anew at each head, and at each block of 512."""
    x, at = a["x"], np.arange(len(a["x"]))
    first = np.maximum.accumulate(np.where((a["head"] == 0) | (at % 512 == 0), at, 0))
    total = np.concatenate([[0.0], np.cumsum(x)])
    return total[1:] - total[first]


def _kmeans(a: Arrays) -> tuple[np.ndarray, np.ndarray]:
    centre = a["centre"].reshape(-1, 2)
    away = (a["px"][:, None] - centre[:, 0]) ** 2 + (a["py"][:, None] - centre[:, 1]) ** 2
    nearest = away.argmin(1)
    return nearest, np.concatenate([np.bincount(nearest, w, len(centre)) for w in (a["px"], a["py"], None)])


def _separable(a: Arrays) -> np.ndarray:
    y = a["x"]
    for axis in (1, 0):
        wide = np.pad(y, [(6, 6) if axis == k else (0, 0) for k in (0, 1)])
        y = sum(w * np.take(wide, range(k, k + y.shape[axis]), axis) for k, w in enumerate(a["weight"]))
    return y


def _smith_waterman(a: Arrays) -> np.ndarray:
    """Of all pairs at a time, cell by cell."""
    one, other = a["a"], a["b"]
    score = np.zeros((one.shape[1] + 1, other.shape[1] + 1, len(one)))
    for i, j in np.ndindex(one.shape[1], other.shape[1]):
        diagonal = score[i, j] + np.where(one[:, i] == other[:, j], 3, -2)
        score[i + 1, j + 1] = np.maximum(0, np.maximum(diagonal, np.maximum(score[i, j + 1], score[i + 1, j]) - 1))
    return score.max((0, 1))


def _batch_norm(a: Arrays) -> np.ndarray:
    x = a["x"]
    mean, variance = x.mean((0, 2), keepdims=True), x.var((0, 2), keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * a["scale"][:, None] + a["shift"][:, None]


def _digits(key: np.ndarray, shift: int) -> np.ndarray:
    return np.stack([np.bincount(part >> shift & 15, minlength=16) for part in np.split(key, range(2048, len(key), 2048))], 1)


RIGHT: dict[str, Callable[[Arrays, Mapping[str, Any]], np.ndarray | tuple[np.ndarray, ...]]] = {
    "axpy_grid_stride": lambda a, s: s["a"] * a["x"] + a["y"], "half2_axpy": lambda a, s: s["a"] * a["x"] + a["y"],
    "gelu": lambda a, s: 0.5 * a["x"] * (1 + np.tanh(0.7978845608 * (a["x"] + 0.044715 * a["x"] ** 3))),
    "reduce_atomic": lambda a, s: a["x"].sum(keepdims=True), "gather": lambda a, s: a["x"][a["from"].astype(int)],
    "histogram_shared": lambda a, s: np.bincount(a["x"].astype(int), minlength=256),
    "scan_block": lambda a, s: _blocks(a["x"], 1024, np.cumsum), "scan_shuffle": lambda a, s: _blocks(a["x"], 256, np.cumsum),
    "softmax_block": lambda a, s: _softmax(a["x"]),
    "layer_norm_warp": lambda a, s: (a["x"] - a["x"].mean(1, keepdims=True)) * a["scale"]
    / np.sqrt(a["x"].var(1, keepdims=True) + 1e-5),
    "rms_norm": lambda a, s: a["x"] / np.sqrt((a["x"] ** 2).mean(1, keepdims=True) + 1e-6),
    "matvec_warp": lambda a, s: a["A"] @ a["x"], "matvec_thread": lambda a, s: a["A"] @ a["x"],
    "transpose_8_rows": lambda a, s: a["in"].T, "stencil_5_points": lambda a, s: _stencil(a),
    "stencil_shared_25": lambda a, s: np.convolve(a["x"], np.full(25, 1 / 25), "same"), "spmv_csr": lambda a, s: _csr(a),
    "sgemm_64": lambda a, s: a["A"] @ a["B"], "dgemm_tiled": lambda a, s: a["A"] @ a["B"],
    "conv_3x3": lambda a, s: sum(
        a["filter"][3 * i + j] * np.pad(a["x"], 1)[i : i + a["x"].shape[0], j : j + a["x"].shape[1]]
        for i in range(3) for j in range(3)
    ),
    "max_pool_2": lambda a, s: a["x"].reshape(s["P"], s["H"] // 2, 2, s["W"] // 2, 2).max((2, 4)),
    "argmax_rows": lambda a, s: a["x"].argmax(1), "bitonic_block": lambda a, s: _blocks(a["x"], 1024, np.sort),
    "copy_async_scale": lambda a, s: 2 * a["x"], "life": lambda a, s: _life(a),
    "floyd_step": lambda a, s: np.minimum(a["d"], a["d"][:, [s["via"]]] + a["d"][[s["via"]]]),
    "attention_naive": lambda a, s: _softmax(a["Q"] @ a["K"].T / 8) @ a["V"],
    "segmented_scan": lambda a, s: _segments(a), "spmv_csr_vector": lambda a, s: _csr(a),
    "kmeans_step": lambda a, s: _kmeans(a), "separable_filter": lambda a, s: _separable(a),
    "cholesky_batched": lambda a, s: np.linalg.cholesky(a["X"] @ a["X"].transpose(0, 2, 1) + 16 * np.eye(16)),
    "smith_waterman": lambda a, s: _smith_waterman(a), "batch_norm": lambda a, s: _batch_norm(a),
    "radix_histogram": lambda a, s: _digits(a["key"], s["shift"]),
}  # fmt: skip
"""What comes out, in float64, in the order of the outputs. The others (prices, orbits, random numbers, a transform's stage) are run for hazards alone."""


def _off(got: np.ndarray, right: np.ndarray) -> float:
    return float(np.abs(got.astype(np.float64).reshape(right.shape) - right).max() / max(np.abs(right).max(), 1e-30))


def main() -> None:
    """Run the kernels that are named, or all."""
    wrong = 0
    for case in cases(only="own/"):
        name, _, kind = case.name.removeprefix("own/").partition("@")
        if kind != "medium" or (sys.argv[1:] and name not in sys.argv[1:]):
            continue
        inputs = inputs_of(case)
        run = Program(case.contract, device="sim").run(case.plan.scalars, inputs)
        said = [f"{hazard.kind} in line {hazard.line}" for hazard in run.hazards[:3]]
        if name in RIGHT:
            wide = {key: value.astype(np.float64) for key, value in inputs.items() if value.dtype.kind == "f"}
            right = RIGHT[name]({**inputs, **wide}, case.plan.scalars)
            outputs = zip(right if isinstance(right, tuple) else (right,), run.outputs.values(), strict=False)
            error = max(_off(got, np.asarray(one, np.float64)) for one, got in outputs)
            said += [] if error <= (2e-3 if "half" in name else 2e-5) else [f"off by {error:.1e}"]
        wrong += bool(said)
        print(f"{name:24s} {', '.join(said) or 'right' if name in RIGHT else ', '.join(said) or 'no hazard'}", flush=True)
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
