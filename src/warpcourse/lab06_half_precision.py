"""Lab 06: what a precision costs: matrix products as kernels of labs 05 to 07 round them, a student's own beside them,
a layer of a network in 8-bit integers, and pictures of their errors.

Every product of `product` is summed in order, one rounding for each multiply-add, as a thread's registers do it. Tensor
cores round their sums in another order and not always to nearest; they stay within the same bounds. The layer's input
is real: a photograph after one convolution and a ReLU. Its filters are random, as before training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib import cbook, image
from matplotlib.axes import Axes

from warpcourse.lessons import BLUE, GREEN, GREY, ORANGE, RED
from warpschool.contract import parse_contract
from warpschool.errors import ArgumentError
from warpschool.harness.compare import tolerance_for
from warpschool.harness.launcher import Program
from warpschool.notebook.runs import is_accepted, own_contract
from warpschool.show.bar import watched
from warpschool.show.figures import Picture
from warpschool.show.table import Table, small_table

Matrix = npt.NDArray[np.float32] | npt.NDArray[np.float64]
MOST = 127
"""The largest 8-bit integer that is used: signs are treated alike."""


def rounded(values: npt.ArrayLike, bits: int, *, smallest_exponent: int = -126) -> npt.NDArray[np.float64]:
    """Round to numbers with `bits` significant bits, ties to even; below 2^smallest_exponent steps get no finer."""
    exact = np.asarray(values, np.float64)
    _, exponent = np.frexp(exact)
    step = np.ldexp(1.0, np.maximum(exponent, smallest_exponent + 1) - bits)
    return np.rint(exact / step) * step


def to_half(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The nearest halves; infinite from 65520 on."""
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float16).astype(np.float64)


def to_float(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The nearest floats."""
    return np.asarray(values).astype(np.float32).astype(np.float64)


to_tf32 = partial(rounded, bits=11)
"""The nearest TF32 numbers: a float's range, 11 significant bits."""
to_bfloat16 = partial(rounded, bits=8)
"""The nearest bfloat16 numbers: a float's range, 8 significant bits."""
Rounding = Callable[[npt.ArrayLike], npt.NDArray[np.float64]]


def product(
    a: Matrix, b: Matrix, *, stored: Rounding = to_float, summed: Rounding = to_float, promoted_every: int = 0
) -> npt.NDArray[np.float64]:
    """Return a @ b with rounded operands and a rounding after each multiply-add; shapes (M, K) and (K, N).

    With `promoted_every`, sums of so many products are then added up as floats.
    """
    left, right = stored(a), stored(b)
    total = np.zeros((len(left), right.shape[1]))
    part = total.copy()
    for k in range(left.shape[1]):
        part = summed(part + left[:, k : k + 1] * right[k])  # the product of two 24-bit numbers is exact in 53 bits
        if promoted_every and ((k + 1) % promoted_every == 0 or k + 1 == left.shape[1]):
            total = to_float(total + part)
            part = np.zeros_like(part)
    return total if promoted_every else part


# ---------------------------------------------------------------- 8-bit integers


@dataclass(frozen=True)
class Quantised:
    """x ~ scale * q: `scale` has an element for each row, or one for all; `saturated` is the share beyond the range."""

    q: npt.NDArray[np.int8]
    scale: npt.NDArray[np.float64]
    saturated: float

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """The numbers that the integers stand for."""
        return self.q * self.scale


def quantise(x: Matrix, *, per_row: bool = True, clip: float = np.inf) -> Quantised:
    """Return 8-bit integers for a matrix, as 03_quantize_int8 makes them; what lies beyond `clip` saturates."""
    magnitude = np.abs(np.asarray(x, np.float64))
    largest = magnitude.max(axis=1, keepdims=True) if per_row else magnitude.max(keepdims=True)
    limit = np.minimum(largest, clip)
    scale = limit / MOST
    steps = np.divide(x, scale, out=np.zeros(np.shape(x)), where=scale > 0)
    q = np.clip(np.rint(steps), -MOST, MOST).astype(np.int8)
    return Quantised(q, scale, float((magnitude > limit).mean()))


def int8_product(a: Matrix, b: Matrix, *, per_row: bool = True) -> npt.NDArray[np.float64]:
    """Return a @ b by exact integers: scales for each row of a and each column of b, or one for each matrix."""
    left, right = quantise(a, per_row=per_row), quantise(b.T, per_row=per_row)
    exact = left.q.astype(np.float64) @ right.q.T.astype(np.float64)  # below 2^53
    return exact * left.scale * right.scale.T


def calibrations(x: Matrix, *, candidates: int = 64) -> dict[str, float]:
    """Return limits for one scale that calibration would choose: rule -> clip.

    The largest magnitude; the one that 99.99 % or 99.9 % do not exceed; and, of `candidates` fractions of the largest,
    the one with the smallest mean squared error of the quantised values.
    """
    magnitude = np.abs(np.asarray(x, np.float64))
    largest = float(magnitude.max())
    if not largest > 0:
        raise ArgumentError("all values are zero: there is nothing to calibrate")
    tried = largest * np.arange(1, candidates + 1) / candidates
    errors = [float(((quantise(x, per_row=False, clip=clip).values - x) ** 2).mean()) for clip in tried]
    return {
        "largest": largest,
        "99.99 %": float(np.quantile(magnitude, 0.9999)),
        "99.9 %": float(np.quantile(magnitude, 0.999)),
        "smallest error": float(tried[int(np.argmin(errors))]),
    }


# ---------------------------------------------------------------- inputs


def inputs(kind: str, m: int, n: int, k: int, *, seed: int = 0) -> tuple[Matrix, Matrix]:
    """Return float32 matrices (m, k) and (k, n) for sums that are "well" or "ill" conditioned.

    "well": all terms are positive, nothing cancels. "ill": the second half of the terms takes away what the first half
    brought, but for a thousandth: the sum of magnitudes is a thousand times the sum, or more.
    """
    rng = np.random.default_rng([seed, k])
    if kind == "well":
        return rng.uniform(0, 1, (m, k)).astype(np.float32), rng.uniform(0, 1, (k, n)).astype(np.float32)
    if kind != "ill":
        raise ArgumentError(f"'{kind}' is no kind of input", next_step='There are "well" and "ill".')
    half = (k + 1) // 2
    a, b = rng.uniform(0.5, 1, (m, half)), rng.uniform(0.5, 1, (half, n))
    back = b * (1 + rng.uniform(-2e-3, 4e-3, b.shape))
    return np.hstack([a, a])[:, :k].astype(np.float32), np.vstack([b, -back])[:k].astype(np.float32)


# ---------------------------------------------------------------- errors


@dataclass(frozen=True)
class Precision:
    """How a product is computed; `bound` gives the tolerance's share of the terms' magnitudes for K, None: no bound."""

    name: str
    compute: Callable[[Matrix, Matrix], npt.NDArray[np.float64]]
    bound: Callable[[int], float] | None = None


def _bound(accumulator: str, stored_bits: int, promoted_every: int = 0) -> Callable[[int], float]:
    """What the tolerance allows, and twice the rounding of the operands."""

    def share(k: int) -> float:
        summed = tolerance_for("float32", k, accumulator, promoted_every=promoted_every).accumulated
        return summed + (2 * 2.0**-stored_bits if stored_bits < 24 else 0.0)

    return share


PRECISIONS: tuple[Precision, ...] = (
    Precision("float", product, _bound("float32", 24)),
    Precision("TF32, summed as float", lambda a, b: product(a, b, stored=to_tf32), _bound("float32", 11)),
    Precision("half, summed as float", lambda a, b: product(a, b, stored=to_half), _bound("float32", 11)),
    Precision("bfloat16, summed as float", lambda a, b: product(a, b, stored=to_bfloat16), _bound("float32", 8)),
    Precision(
        "half2, promoted every 16", lambda a, b: product(a, b, stored=to_half, summed=to_half, promoted_every=16),
        _bound("float16", 11, 16),
    ),
    Precision(
        "half, summed as half", lambda a, b: product(a, b, stored=to_half, summed=to_half), _bound("float16", 11)
    ),
    Precision("int8, a scale for each row", int8_product),
    Precision("int8, one scale", lambda a, b: int8_product(a, b, per_row=False)),
)  # fmt: skip


@dataclass(frozen=True)
class Errors:
    """Errors of one precision over K, relative to the root mean square of the exact elements.

    `mse` is the mean squared error relative to the mean square; `allowed` is the bound of `worst`, None without one.
    """

    name: str
    ks: tuple[int, ...]
    mse: tuple[float, ...]
    worst: tuple[float, ...]
    allowed: tuple[float, ...] | None


def errors(
    kind: str, ks: Sequence[int] = (16, 64, 256, 1024, 4096), *, m: int = 16, n: int = 16, seed: int = 0,
    precisions: Sequence[Precision] = PRECISIONS,
) -> tuple[Errors, ...]:  # fmt: skip
    """Compute m x n sums of each length in each precision; `kind` as in `inputs`."""
    cases = [_Sums(*inputs(kind, m, n, k, seed=seed)) for k in ks]
    return tuple(_errors(precision, cases) for precision in watched(precisions, f"precisions, {kind} conditioned"))


@dataclass(frozen=True)
class _Sums:
    a: Matrix
    b: Matrix

    @cached_property
    def exact(self) -> npt.NDArray[np.float64]:
        return self.a.astype(np.float64) @ self.b.astype(np.float64)

    @property
    def magnitude(self) -> float:
        """The largest sum of the terms' magnitudes, relative to the root mean square of the sums."""
        return float((abs(self.a.astype(np.float64)) @ abs(self.b.astype(np.float64))).max() / _rms(self.exact))


def _errors(precision: Precision, cases: Sequence[_Sums]) -> Errors:
    with np.errstate(over="ignore", invalid="ignore"):
        differences = [(precision.compute(case.a, case.b) - case.exact) / _rms(case.exact) for case in cases]
        mse = tuple(float((difference**2).mean()) for difference in differences)
    worst = tuple(float(abs(difference).max()) for difference in differences)
    ks = tuple(case.a.shape[1] for case in cases)
    bound = precision.bound
    allowed = tuple(bound(k) * case.magnitude for k, case in zip(ks, cases, strict=True)) if bound else None
    return Errors(precision.name, ks, mse, worst, allowed)


def _rms(values: npt.NDArray[np.float64]) -> float:
    return float(np.sqrt((values**2).mean()))


def mean_squared_error(actual: npt.ArrayLike, exact: npt.ArrayLike) -> float:
    """Mean squared error, relative to the mean square of the exact values."""
    reference = np.asarray(exact, np.float64)
    return float(((np.asarray(actual, np.float64) - reference) ** 2).mean() / (reference**2).mean())


# ---------------------------------------------------------------- a student's own kernels, and a real layer


LAB = "lab06_half_precision/"
PHOTOGRAPH = "grace_hopper.jpg"
"""It comes with matplotlib (a portrait in the public domain, 600 x 512 pixels)."""
_CHANNELS, _FILTERS, _WINDOW = 32, 64, 3


@dataclass(frozen=True)
class LayerProduct:
    """A convolution as a matrix product: activations (positions, K), weights (filters, K), and their exact product."""

    activations: npt.NDArray[np.float32]
    weights: npt.NDArray[np.float32]
    exact: npt.NDArray[np.float64]


@cache
def layer(positions: int = 512) -> LayerProduct:
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
    return LayerProduct(picked, weights, picked.astype(np.float64) @ weights.T.astype(np.float64))


def _filters(rng: np.random.Generator, count: int, terms: int) -> npt.NDArray[np.float32]:
    return (rng.standard_normal((count, terms)) * np.sqrt(2 / terms)).astype(np.float32)


def _windows(maps: npt.NDArray[np.float32], stride: int) -> npt.NDArray[np.float32]:
    """All windows of an image (rows, columns, channels), each as one row of numbers: (rows, columns, K)."""
    view = np.lib.stride_tricks.sliding_window_view(maps, (_WINDOW, _WINDOW), axis=(0, 1))[::stride, ::stride]
    return np.ascontiguousarray(view).reshape(*view.shape[:2], -1)


def own_errors(
    steps: Sequence[str], kind: str, ks: Sequence[int] = (16, 64, 256, 1024, 4096), *, m: int = 32, n: int = 32
) -> tuple[Errors, ...]:
    """Run the student's own half products on the inputs of `errors` and compare them with float64."""
    precisions = []
    for step in steps:
        contract = own_contract(step)
        own = _program(contract.source, contract.name)
        precisions.append(Precision(step.split("/")[-1], partial(_own_product, own, not is_accepted(step))))
    return errors(kind, ks, m=m, n=n, precisions=precisions)


@cache
def _program(source: str, name: str) -> Program:
    """A kernel of the student's, compiled once for both kinds of inputs."""
    return Program(parse_contract(source, name=name), device="sim")


def _own_product(own: Program, check: bool, a: Matrix, b: Matrix) -> npt.NDArray[np.float64]:
    """The student's own product of halves."""
    sizes = {"M": len(a), "N": b.shape[1], "K": a.shape[1]}
    run = own.run(sizes, {"A": a.astype(np.float16), "B": b.astype(np.float16)}, check=check)
    return run.outputs["C"].astype(np.float64)


def own_layer(choices: Mapping[str, tuple[bool, float]], work: LayerProduct | None = None) -> Table:
    """Compute a layer by the student's own quantisation and integer product.

    `choices`: label -> whether each row has its own scale, and the limit of the activations. The table has, for each,
    the share of activations beyond the limit, and the mean squared errors of activations, weights and results.
    """
    work = work or layer()
    quantisers = {
        per_row: Program(own_contract(LAB + "03_quantize_int8"), device="sim", constants={"PER_ROW": int(per_row)})
        for per_row in {per_row for per_row, _ in choices.values()}
    }
    multiply = Program(own_contract(LAB + "04_gemm_int8"), device="sim")
    check = not is_accepted(LAB + "04_gemm_int8")
    rows = []
    for label, (per_row, clip) in choices.items():
        x, x_scale = _own_quantised(quantisers[per_row], work.activations, clip)
        w, w_scale = _own_quantised(quantisers[per_row], work.weights, np.inf)
        sizes = {"M": len(x), "N": len(w), "K": x.shape[1]}
        sums = multiply.run(sizes, {"A": x, "Bt": w}, check=check).outputs["C"]
        with np.errstate(invalid="ignore", over="ignore"):
            parts = (
                mean_squared_error(x * x_scale, work.activations),
                mean_squared_error(w * w_scale, work.weights),
                mean_squared_error(sums * x_scale * w_scale.T, work.exact),
            )
        beyond = float((work.activations > clip).mean())
        rows.append([label, f"{clip:.3g}", f"{beyond:.2%}", *map(_told, parts)])
    half = work.activations.astype(np.float16).astype(np.float64) @ work.weights.astype(np.float16).T.astype(np.float64)
    rows.append(["(half, summed exactly)", "", "", "", "", f"{mean_squared_error(half, work.exact):.2g}"])
    head = ["scales", "limit", "beyond it", "MSE of activations", "of weights", "of results"]
    return small_table(head, rows, "Mean squared errors relative to the mean squares.")


def _told(error: float) -> str:
    """An error for a table; a kernel that has not written its results has none."""
    return f"{error:.2g}" if np.isfinite(error) else "no result"


def _own_quantised(
    own: Program, x: npt.NDArray[np.float32], clip: float
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float64]]:
    """The student's own integers, and the scale of each row as a column."""
    sizes = {"M": x.shape[0], "K": x.shape[1], "clip": min(clip, 1e30)}
    run = own.run(sizes, {"X": x}, check=not is_accepted(LAB + "03_quantize_int8"))
    return run.outputs["Q"], run.outputs["scale"].astype(np.float64)[:, None]


# ---------------------------------------------------------------- pictures


_COLOURS = (BLUE, "#56B4E9", GREEN, "#CC79A7", ORANGE, RED, "black", GREY)
_MARKS = "os^vD*PX"


def draw_errors(panels: Mapping[str, Sequence[Errors]]) -> Picture:
    """Mean squared error above, worst error below, over K: a column for each kind of input, title -> precisions.

    Dotted lines are what the tolerance allows of the worst error.
    """
    figure, axes = plt.subplots(
        2, len(panels), figsize=(4.6 * len(panels) + 1, 7), sharex=True, squeeze=False, layout="constrained"
    )
    for column, (title, series) in enumerate(panels.items()):
        above, below = axes[:, column]
        above.set_title(title, fontsize=10)
        for errors, colour, mark in zip(series, _COLOURS, _MARKS, strict=False):
            if not np.isfinite(errors.worst).all():  # a kernel that has not written everything: nothing to draw of it
                continue
            style = {"color": colour, "marker": mark, "markersize": 5, "linewidth": 1.2}
            above.plot(errors.ks, errors.mse, label=errors.name, **style)
            below.plot(errors.ks, errors.worst, **style)
            if errors.allowed is not None:
                below.plot(errors.ks, errors.allowed, ":", color=colour, linewidth=1)
        for panel in (above, below):
            _log_log(panel, series)
        below.set_xlabel("K, products in a sum")
    axes[0, 0].set_ylabel("mean squared error / mean square")
    axes[1, 0].set_ylabel("worst error / root mean square\n(dotted: what is allowed)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    return Picture(figure, _said(panels))


def _log_log(axes: Axes, series: Sequence[Errors]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ks = series[0].ks
    axes.set_xticks(ks, [f"{k:,}" for k in ks])
    axes.minorticks_off()
    axes.grid(True, linewidth=0.3)


def _span(errors: Errors) -> str:
    if not np.isfinite(errors.worst).all():
        return f"{errors.name}: no results"
    return f"{errors.name} from {errors.worst[0]:.1g} to {errors.worst[-1]:.1g}"


def _said(panels: Mapping[str, Sequence[Errors]]) -> str:
    parts = []
    for title, series in panels.items():
        ks = series[0].ks
        told = "; ".join(_span(errors) for errors in series)
        parts.append(f"{title}, K from {ks[0]} to {ks[-1]}, worst error relative to the root mean square: {told}.")
    return "Errors of precisions against float64, over the number of products in a sum. " + " ".join(parts)


def draw_calibration(values: npt.ArrayLike, clips: Mapping[str, float], errors: Mapping[str, float]) -> Picture:
    """How often which magnitude occurs, and the limits that calibration would choose; `errors`: rule -> MSE."""
    magnitude = np.abs(np.asarray(values, np.float64)).ravel()
    figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
    axes.hist(magnitude, bins=100, color=GREY, log=True)
    looks = ((BLUE, "-"), (ORANGE, "--"), (RED, "-."), (GREEN, ":"))
    for (rule, clip), (colour, style) in zip(clips.items(), looks, strict=False):
        axes.axvline(clip, color=colour, linestyle=style, label=f"{rule}: {clip:.3g}, MSE {errors[rule]:.2g}")
    axes.set(xlabel="magnitude", ylabel="elements")
    axes.legend(fontsize=8, title="limit: what becomes 127", title_fontsize=8)
    told = "; ".join(f"{rule} {clip:.3g} with an MSE of {errors[rule]:.2g}" for rule, clip in clips.items())
    alt = (
        f"Histogram of {magnitude.size:,} magnitudes: half of them are below {np.median(magnitude):.2g}, "
        f"the largest is {magnitude.max():.3g}. Limits: {told}."
    )
    return Picture(figure, alt)
