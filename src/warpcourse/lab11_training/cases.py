"""Cases that the grader files of the training lab share: each kernel against its float64 reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from warpcourse.cases import Case, run_case
from warpschool.grading.submission import Submission
from warpschool.nn import Convolution, references


def check_loss(
    kernel: Submission, rng: np.random.Generator, batch: int, classes: int, *, scale: float = 4.0, shift: float = 0.0
) -> Case:
    """Loss and slope of scores in [shift - scale, shift + scale). Raises Judgement."""
    scores = (rng.uniform(-scale, scale, (batch, classes)) + shift).astype(np.float32)
    labels = rng.integers(0, classes, batch).astype(np.int32)
    case = run_case(kernel, rng, {"BATCH": batch, "CLASSES": classes}, x=scores, label=labels)
    loss, slope = references.cross_entropy(scores, labels)
    largest = np.abs(scores).max(axis=1).astype(np.float64)
    case.check({"loss": loss}, k=classes + 8, scale=largest + np.log(classes) + 1)
    # exp multiplies an error in its argument by the argument: as many roundings as the scores are wide.
    return case.check({"dx": slope}, k=classes + 8, scale=np.full(slope.shape, (1 + 2 * scale) / batch))


def check_fc(
    kernel: Submission, rng: np.random.Generator, batch: int, inputs: int, outputs: int, *, relu: bool = False
) -> Case:
    """dw, db and dx of a fully connected layer; with `relu` about half of its inputs are zero. Raises Judgement."""
    x = rng.uniform(-1, 1, (batch, inputs)).astype(np.float32)
    x = np.maximum(x, 0) if relu else x
    case = run_case(kernel, rng, {"BATCH": batch, "IN": inputs, "OUT": outputs, "RELU": int(relu)}, x=x)
    w, dy = case.arrays["w"], case.arrays["dy"]
    results = zip(("dw", "db", "dx"), references.fc_backward(x, w, dy, relu=relu), (batch, batch, outputs), strict=True)
    scales = references.fc_backward(np.abs(x), np.abs(w), np.abs(dy))
    for (name, expected, terms), scale in zip(results, scales, strict=True):
        case.check({name: expected}, k=terms, scale=scale)
    return case


def check_pool_backward(
    kernel: Submission, rng: np.random.Generator, *shape: int, average: bool = False, packed: bool = True
) -> Case:
    """dz [BATCH,C,H,W] from bits that the float64 reference noted. Raises Judgement."""
    z, bias = rng.uniform(-1, 1, shape), rng.uniform(-0.2, 0.2, shape[1])
    y, bits = references.bias_relu_pool(z, bias, average=average)
    dy = rng.uniform(-1, 1, y.shape).astype(np.float32)
    saved = references.saved_words(bits, packed=packed)
    case = run_case(kernel, rng, _images(shape), _pooling(average, packed), dy=dy, saved=saved)
    return case.check({"dz": references.pool_relu_backward(dy, bits, shape, average=average)})


def check_pool(
    kernel: Submission, rng: np.random.Generator, *shape: int, average: bool = False, packed: bool = True,
    ties: bool = False,
) -> Case:  # fmt: skip
    """y and the bits of images [BATCH,C,H,W]; with `ties`, of small whole numbers. Raises Judgement."""
    z = (rng.integers(-2, 3, shape) if ties else rng.uniform(-1, 1, shape)).astype(np.float32)
    bias = (rng.integers(-1, 2, shape[1]) if ties else rng.uniform(-0.2, 0.2, shape[1])).astype(np.float32)
    case = run_case(kernel, rng, _images(shape), _pooling(average, packed), z=z, bias=bias)
    exact = (z + bias[:, None, None]).astype(np.float32)  # the sum is rounded before it is compared with zero
    y, bits = references.bias_relu_pool(exact, np.zeros(shape[1]), average=average)
    case.check({"y": y}, k=4, scale=np.full(y.shape, 2.0))
    return case.check({"saved": references.saved_words(bits, packed=packed)})


def check_conv_data(kernel: Submission, rng: np.random.Generator, problem: Convolution) -> Case:
    """dx of a convolution. Raises Judgement."""
    _, w = problem.arrays(rng)
    dy = rng.uniform(-1, 1, problem.output_shape).astype(np.float32)
    case = run_case(kernel, rng, problem.sizes, w=w, dy=dy)
    expected, scale = (references.conv_backward_data(a, b, problem) for a, b in ((dy, w), (np.abs(dy), np.abs(w))))
    terms = problem.filters * problem.rows * problem.cols
    return case.check({"dx": expected}, k=terms, scale=scale)


def check_conv_filter(kernel: Submission, rng: np.random.Generator, problem: Convolution) -> Case:
    """dw and db of a convolution. Raises Judgement."""
    x, _ = problem.arrays(rng)
    dy = rng.uniform(-1, 1, problem.output_shape).astype(np.float32)
    case = run_case(kernel, rng, problem.sizes, x=x, dy=dy)
    expected, scale = (references.conv_backward_filter(a, b, problem) for a, b in ((x, dy), (np.abs(x), np.abs(dy))))
    terms = problem.batch * problem.out_height * problem.out_width
    for name, right, size in zip(("dw", "db"), expected, scale, strict=True):
        case.check({name: right}, k=terms, scale=size)
    return case


def check_sgd(
    kernel: Submission, rng: np.random.Generator, n: int, *, momentum: float | None = None, decay: float | None = None
) -> Case:
    """w and v after one step; settings that are not given are random. Raises Judgement."""
    given = {
        "rate": rng.uniform(0.05, 0.5),
        "momentum": rng.uniform(0.5, 0.95) if momentum is None else momentum,
        "decay": rng.uniform(0.005, 0.1) if decay is None else decay,
    }
    settings = {name: float(np.float32(value)) for name, value in given.items()}
    case = run_case(kernel, rng, {"N": n, **settings})
    w, g, v = (case.arrays[name] for name in "wgv")
    weights, speeds = references.sgd_momentum(w, g, v, **settings)
    return case.check({"w": weights, "v": speeds}, k=4, scale=np.full(n, 2.0))


def check_adam(kernel: Submission, rng: np.random.Generator, n: int) -> Case:
    """w, m and v after one of the first steps, whose corrections are far from 1; random settings. Raises Judgement."""
    step = int(rng.integers(2, 6))
    betas = {"beta1": int(rng.integers(32, 57)) / 64, "beta2": int(rng.integers(48, 63)) / 64}  # exact in float32
    settings = {"rate": int(rng.integers(4, 17)) / 64, "epsilon": 2.0 ** -int(rng.integers(8, 21))}
    corrections = {f"correction{i}": 1 / (1 - betas[f"beta{i}"] ** step) for i in (1, 2)}
    sizes = {"N": n, **betas, **settings, **corrections}
    squares = rng.uniform(0.1, 1, n).astype(np.float32)
    case = run_case(kernel, rng, sizes, v=squares)
    w, g, m = (case.arrays[name] for name in "wgm")
    weights, means, new = references.adam(w, g, m, squares, step=step, **settings, **betas)
    return case.check({"w": weights, "m": means, "v": new}, k=8, scale=np.full(n, 4.0))


def check_slope(
    kernel: Submission, rng: np.random.Generator, case: Case, name: str, loss: Callable[[np.ndarray], float],
    at: np.ndarray,
) -> None:  # fmt: skip
    """The gradient `name` agrees with finite differences of a loss along a random direction. Raises Judgement."""
    direction = rng.choice([-1.0, 1.0], at.shape)
    gradient = case.run.outputs[name].astype(np.float64)
    told = f"{name} along a direction"
    run = replace(case.run, outputs={told: np.array([(gradient * direction).sum()], np.float32)})
    expected = references.finite_difference(loss, at, direction)
    scale = np.array([np.abs(gradient).sum() + 1.0])
    kernel.check_against(run, {told: [expected]}, k=at.size, scale=scale)


def atomics(case: Case) -> int:
    """Warp-wide atomic operations on global memory."""
    return case.counters.global_atomic_requests + case.counters.global_reduction_requests


def blocks_with_atomics(case: Case) -> int:
    """Blocks of the launches that have such operations: others thin nothing out."""
    return sum(
        launch.blocks
        for launch in case.run.launches
        if launch.counters.global_atomic_requests + launch.counters.global_reduction_requests
    )


def moved_bytes(case: Case) -> int:
    """What all threads load from and store to global memory."""
    return case.counters.global_load_bytes + case.counters.global_store_bytes


def _images(shape: tuple[int, ...]) -> dict[str, int]:
    return dict(zip(("BATCH", "C", "H", "W"), shape, strict=True))


def _pooling(average: bool, packed: bool) -> dict[str, int]:
    return {"AVERAGE": int(average), "PACKED": int(packed)}
