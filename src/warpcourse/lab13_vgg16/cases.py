"""Cases that the grader files of the VGG16 lab share: gradients on random inputs, against their float64 references.

Tolerances follow from sums of magnitudes, as in `warpcourse.lab09_winograd.cases`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpcourse.cases import Case, product_of, run_case
from warpschool.grading.submission import Submission
from warpschool.nn import winograd
from warpschool.nn.references import choose, unpool
from warpschool.nn.winograd import matrices

EXACT = matrices(4, 3)


def check_data(
    kernel: Submission, rng: np.random.Generator, *, pool: int = 1, only_dm: bool = False, **sizes: int
) -> Case:
    """dM, and unless told otherwise dV and dx, from dy, the choices, and U. Raises Judgement."""
    windows = (sizes["BATCH"], sizes["F"], sizes["H"] // pool, sizes["W"] // pool)
    choice = rng.integers(0, pool * pool + 1, windows).astype(np.uint8)
    filters = rng.uniform(-1, 1, (sizes["F"], sizes["C"], 3, 3)).astype(np.float32)
    U = winograd.transform_filters(filters, EXACT).astype(np.float32)
    case = run_case(kernel, rng, sizes, {"POOL": pool}, choice=choice, U=U)
    found = [_data(case, used, pool, change) for used, change in ((EXACT, np.asarray), (EXACT.absolute, np.abs))]
    (dM, dV, dx), (scale_M, scale_V, scale_x) = found
    case.check({"dM": dM}, k=8, scale=scale_M)
    if not only_dm:
        case.check({"dV": dV}, k=sizes["F"] + 8, scale=scale_V)
        case.check({"dx": dx}, k=sizes["F"] + 32, scale=scale_x)
    return case


def _data(case: Case, used: Any, pool: int, change: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sizes, dy, U = case.sizes, change(case.arrays["dy"]), change(case.arrays["U"]).astype(np.float64)
    z = unpool(dy, case.arrays["choice"], height=sizes["H"], width=sizes["W"], pool=pool)
    dM = winograd.transform_gradients(z, used)
    dV = U @ dM
    place = {"batch": sizes["BATCH"], "height": sizes["H"], "width": sizes["W"]}
    return dM, dV, winograd.gradient_of_images(dV, used, **place)


def check_filters(kernel: Submission, rng: np.random.Generator, **sizes: int) -> Case:
    """dw and db from V and dM. Raises Judgement."""
    case = run_case(kernel, rng, sizes)
    V, dM = (case.arrays[name].astype(np.float64) for name in ("V", "dM"))
    dw = winograd.gradient_of_filters(V @ dM.transpose(0, 2, 1), EXACT)
    scale = winograd.gradient_of_filters(np.abs(V) @ np.abs(dM).transpose(0, 2, 1), EXACT.absolute)
    case.check({"dw": dw}, k=sizes["P"] + 16, scale=scale)
    ones = dM[EXACT.side + 1]
    return case.check({"db": ones.sum(axis=1)}, k=sizes["P"], scale=np.abs(ones).sum(axis=1))


def check_first(kernel: Submission, rng: np.random.Generator, *, channels: int = 3, **sizes: int) -> Case:
    """dw and db from x, dy and y, which a ReLU left. Raises Judgement."""
    images = (sizes["BATCH"], channels, sizes["H"], sizes["W"])
    results = (sizes["BATCH"], sizes["F"], sizes["H"], sizes["W"])
    given = {"x": rng.uniform(-1, 1, images), "y": np.maximum(rng.uniform(-1, 1, results), 0)}
    case = run_case(kernel, rng, sizes, {"CHANNELS": channels}, **given)
    x, z = case.arrays["x"], np.where(case.arrays["y"] > 0, case.arrays["dy"], 0).astype(np.float64)
    terms = sizes["BATCH"] * sizes["H"] * sizes["W"]
    case.check({"dw": _direct(x, z)}, k=terms, scale=_direct(np.abs(x), np.abs(z)))
    return case.check({"db": z.sum(axis=(0, 2, 3))}, k=terms, scale=np.abs(z).sum(axis=(0, 2, 3)))


def _direct(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """dw [F,C,3,3] by its definition, one pixel of padding."""
    height, width = x.shape[2:]
    padded = np.pad(np.asarray(x, np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    shifted = [padded[:, :, r : r + height, s : s + width] for r in range(3) for s in range(3)]
    sums = [np.einsum("nfhw,nchw->fc", z, part, optimize=True) for part in shifted]
    return np.stack(sums, axis=-1).reshape(z.shape[1], x.shape[1], 3, 3)


def check_dense(kernel: Submission, rng: np.random.Generator, *, relu: int = 1, **sizes: int) -> Case:
    """y = x w + bias, at least 0 where `relu`. Raises Judgement."""
    case = run_case(kernel, rng, sizes | {"RELU": relu})
    products, scale = product_of(case.arrays["x"], case.arrays["w"])
    bias = case.arrays["bias"].astype(np.float64)
    sums = products + bias
    y = np.maximum(sums, 0) if relu else sums
    return case.check({"y": y}, k=sizes["IN"] + 1, scale=scale + np.abs(bias))


def check_dense_backward(kernel: Submission, rng: np.random.Generator, *, mask: int = 1, **sizes: int) -> Case:
    """dx, dw and db of y = x w + bias. Raises Judgement."""
    x = np.maximum(rng.uniform(-1, 1, (sizes["BATCH"], sizes["IN"])), 0).astype(np.float32)
    case = run_case(kernel, rng, sizes | {"MASK": mask}, x=x)
    w, dy = (case.arrays[name].astype(np.float64) for name in ("w", "dy"))
    passed = (x > 0) | (not mask)
    dx, scale = product_of(dy, w.T)
    case.check({"dx": dx * passed}, k=sizes["OUT"], scale=scale)
    dw, scale = product_of(x.T, dy)
    case.check({"dw": dw}, k=sizes["BATCH"], scale=scale)
    return case.check({"db": dy.sum(axis=0)}, k=sizes["BATCH"], scale=np.abs(dy).sum(axis=0))


def check_choices(
    kernel: Submission, rng: np.random.Generator, *, pool: int = 2, ties: bool = False, **sizes: int
) -> Case:
    """y and choices from M and the bias; `ties`: all results of an image are equal. Raises Judgement.

    Choices are exact for whole numbers: M of multiples of 1/8 makes sums without rounding.
    """
    tiles = sizes["BATCH"] * -(-sizes["OH"] // 4) * -(-sizes["OW"] // 4)
    M = rng.integers(-16, 17, (EXACT.positions, sizes["F"], tiles)) / 8.0
    bias = rng.integers(-16, 17, sizes["F"]) / 8.0
    case = run_case(kernel, rng, sizes, {"POOL": pool}, M=np.zeros_like(M) if ties else M, bias=bias)
    place = {"batch": sizes["BATCH"], "height": sizes["OH"], "width": sizes["OW"]}
    results = winograd.transform_results(case.arrays["M"].astype(np.float64), EXACT, **place)
    kept, chosen = choose(results + bias[:, None, None], pool)
    case.check({"y": kept}, k=1)
    return case.check({"choice": chosen})
