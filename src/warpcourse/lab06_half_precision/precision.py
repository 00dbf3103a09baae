"""Lab 06's experiments: errors of a student's own products, and a layer of a network in 8-bit integers.

The layer's input is real: a photograph after one convolution and a ReLU. Its filters are random, as before training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from matplotlib import cbook, image

from warpcourse import numerics
from warpcourse.numerics import Errors
from warpschool.harness.launcher import Program
from warpschool.notebook.runs import own_contract
from warpschool.show.table import Table, small_table

LAB = "lab06_half_precision/"
PHOTOGRAPH = "grace_hopper.jpg"
"""It comes with matplotlib (a portrait in the public domain, 600 x 512 pixels)."""
_CHANNELS, _FILTERS, _WINDOW = 32, 64, 3


@dataclass(frozen=True)
class Layer:
    """A convolution as a matrix product: activations (positions, K), weights (filters, K), and their exact product."""

    activations: npt.NDArray[np.float32]
    weights: npt.NDArray[np.float32]
    exact: npt.NDArray[np.float64]


@cache
def layer(positions: int = 512) -> Layer:
    """Return the second layer of a network that looks at the photograph, at some of its positions."""
    rng = np.random.default_rng(7)
    pixels = image.imread(cbook.get_sample_data(PHOTOGRAPH, asfileobj=False)).astype(np.float32) / 255
    pixels = (pixels - pixels.mean((0, 1))) / pixels.std((0, 1))
    first = _filters(rng, _CHANNELS, 3 * _WINDOW**2)
    maps = np.maximum(_windows(pixels, 2) @ first.T, 0)
    rows = _windows(maps, 1)
    rows = rows.reshape(-1, rows.shape[-1])
    picked = rows[np.sort(rng.permutation(len(rows))[:positions])]
    weights = _filters(rng, _FILTERS, rows.shape[1])
    weights *= 2.0 ** rng.uniform(-2, 2, (_FILTERS, 1)).astype(np.float32)  # trained filters differ in size, too
    return Layer(picked, weights, picked.astype(np.float64) @ weights.T.astype(np.float64))


def _filters(rng: np.random.Generator, count: int, terms: int) -> npt.NDArray[np.float32]:
    return (rng.standard_normal((count, terms)) * np.sqrt(2 / terms)).astype(np.float32)


def _windows(maps: npt.NDArray[np.float32], stride: int) -> npt.NDArray[np.float32]:
    """All windows of an image (rows, columns, channels), each as one row of numbers: (rows, columns, K)."""
    view = np.lib.stride_tricks.sliding_window_view(maps, (_WINDOW, _WINDOW), axis=(0, 1))[::stride, ::stride]
    return np.ascontiguousarray(view).reshape(*view.shape[:2], -1)


def own_errors(
    steps: Sequence[str], kind: str, ks: Sequence[int] = (16, 64, 256, 1024, 4096), *, m: int = 32, n: int = 32
) -> tuple[Errors, ...]:
    """Run the student's own half products on the inputs of `numerics.errors` and compare them with float64."""
    found = []
    for step in steps:
        own = Program(own_contract(step), device="sim")

        def compute(a: numerics.Matrix, b: numerics.Matrix, own: Program = own) -> npt.NDArray[np.float64]:
            arrays = {"A": a.astype(np.float16), "B": b.astype(np.float16)}
            run = own.run({"M": len(a), "N": b.shape[1], "K": a.shape[1]}, arrays)
            return run.outputs["C"].astype(np.float64)

        found.append(numerics.Precision(step.split("/")[-1], compute))
    return numerics.errors(kind, ks, m=m, n=n, precisions=found)


def own_layer(choices: Mapping[str, tuple[bool, float]], work: Layer | None = None) -> Table:
    """Compute a layer by the student's own quantisation and integer product.

    `choices`: label -> whether each row has its own scale, and the limit of the activations. The table has, for each,
    the share of activations beyond the limit, and the mean squared errors of activations, weights and results.
    """
    work = work or layer()
    quantise = {
        per_row: Program(own_contract(LAB + "03_quantize_int8"), device="sim", constants={"PER_ROW": int(per_row)})
        for per_row in {per_row for per_row, _ in choices.values()}
    }
    multiply = Program(own_contract(LAB + "04_gemm_int8"), device="sim")
    rows = []
    for label, (per_row, clip) in choices.items():
        x, x_scale = _quantised(quantise[per_row], work.activations, clip)
        w, w_scale = _quantised(quantise[per_row], work.weights, np.inf)
        sizes = {"M": len(x), "N": len(w), "K": x.shape[1]}
        sums = multiply.run(sizes, {"A": x, "Bt": w}).outputs["C"]
        with np.errstate(invalid="ignore", over="ignore"):
            parts = (
                numerics.mean_squared_error(x * x_scale, work.activations),
                numerics.mean_squared_error(w * w_scale, work.weights),
                numerics.mean_squared_error(sums * x_scale * w_scale.T, work.exact),
            )
        beyond = float((work.activations > clip).mean())
        rows.append([label, f"{clip:.3g}", f"{beyond:.2%}", *(f"{mse:.2g}" for mse in parts)])
    half = work.activations.astype(np.float16).astype(np.float64) @ work.weights.astype(np.float16).T.astype(np.float64)
    rows.append(["(half, summed exactly)", "", "", "", "", f"{numerics.mean_squared_error(half, work.exact):.2g}"])
    head = ["scales", "limit", "beyond it", "MSE of activations", "of weights", "of results"]
    return small_table(head, rows, "Mean squared errors relative to the mean squares.")


def _quantised(
    own: Program, x: npt.NDArray[np.float32], clip: float
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float64]]:
    """The student's own integers, and the scale of each row as a column."""
    run = own.run({"M": x.shape[0], "K": x.shape[1], "clip": min(clip, 1e30)}, {"X": x})
    return run.outputs["Q"], run.outputs["scale"].astype(np.float64)[:, None]
