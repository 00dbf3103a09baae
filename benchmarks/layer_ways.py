"""What stands beside split channels at a layer of lab 12: Winograd's method by our kernels, and one plain product.

    way = transformed("Y8", problem, images, filters)     # None where it was slower wherever it was tried
    plain = plain_product(problem, x, w)

The plain product has the layer's multiply-adds, filters x (channels x window) times (channels x window) x places, its
operands in memory as if somebody had gathered them: what no direct method can be expected to undercut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cupy
from gemm import divided_way
from tile_rule import choose
from winograd import TALL, Form, Layer, fused, prepared

import warpschool as ws
from warpschool.device import DeviceArray
from warpschool.device.measurement import Rules
from warpschool.nn import Convolution
from warpschool.nn.pipelines import Convolved

SMALL = (64, 64, 16, 32, 32, 8, 4, 6)
FEW_PLACES = (64, 64, 32, 32, 32, 8, 4, 4)
WINOGRAD: dict[str, tuple[int, tuple[int, ...]] | None] = {
    "Y2": None, "Y4": (4, SMALL), "Y8": (6, TALL), "Y12": (6, FEW_PLACES),
}  # fmt: skip
"""Results along an axis of a tile, and the product's tiles, of the layers where Winograd's method was faster; None: all
of it in one kernel."""
PRODUCT_RULES = Rules(warmup_runs=3, warmup_ms=2.0, min_samples=15, max_samples=40, max_seconds=0.15)


@dataclass(frozen=True)
class Transformed:
    """A layer by Winograd's method, its filters' transform included."""

    method: str
    done: Convolved


def transformed(name: str, problem: Convolution, x: DeviceArray, w: DeviceArray) -> Transformed | None:
    """Compute the layer once by the way that was the fastest; its launches can be repeated."""
    if name not in WINOGRAD:
        return None
    chosen = WINOGRAD[name]
    if chosen is None:
        done, exact = fused(problem, x, w)
        return Transformed(f"{exact}, one kernel", done)
    m, tiles = chosen
    done, exact = prepared(Layer(name=name, problem=problem, tiles=tiles), tiles, x, w, Form(m))
    return Transformed(str(exact), done)


@dataclass(frozen=True, kw_only=True)
class Plain:
    """One product of the layer's multiply-adds, by the faster of cuBLAS and lab 05's last step."""

    by: str
    time_us: float


def plain_product(problem: Convolution) -> Plain:
    """Time the product of random operands; `by` names who was faster."""
    rows, inner = problem.filters, problem.channels * problem.rows * problem.cols
    cols = problem.out_height * problem.out_width
    a, b = (cupy.random.standard_normal(shape, dtype=cupy.float32) for shape in ((rows, inner), (inner, cols)))
    out, own = cupy.empty((rows, cols), cupy.float32), cupy.empty((rows, cols), cupy.float32)
    sizes, arrays = {"M": rows, "N": cols, "K": inner}, {"A": a, "B": b, "C": own}
    tiles, splits = choose((rows, cols, inner), sms=ws.get_device("gpu").spec.sms)
    step, sizes, arrays = divided_way(sizes, arrays, tiles, splits)
    ways: dict[str, Callable[[], Any]] = {
        "cuBLAS": lambda: cupy.matmul(a, b, out=out), "lab 05": step.work(sizes, arrays),
    }  # fmt: skip
    times = {name: median_us(work, PRODUCT_RULES) for name, work in ways.items()}
    if not float(abs(own - out).max()) <= 1e-5 * inner:
        raise ArithmeticError(f"{rows} x {cols} x {inner}: cuBLAS and lab 05 differ")
    by = min(times, key=lambda name: times[name])
    return Plain(by=by, time_us=times[by])


def median_us(work: Callable[[], Any], rules: Rules) -> float:
    median_ms = ws.benchmark(work, device="gpu", rules=rules).median_ms
    assert median_ms is not None
    return 1e3 * median_ms
