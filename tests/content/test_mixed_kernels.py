"""The kernels of benchmarks/kernels/mixed and fused_winograd.cu on the simulator, against float64, without hazards."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpschool.contract import parse_contract
from warpschool.harness.launcher import Program
from warpschool.nn.vgg16 import VggForm

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SMALL = VggForm(widths=(64, 64, 64, 64, 64), hidden=64, classes=10, size=32)
FIRST = {"TSF": 64, "TSK": 32, "STAGES": 6, "CLUSTER_F": 1, "BLOCKS": 2}
NARROW = {"TSF": 64, "STAGES": 4, "CLUSTER_F": 1, "BLOCKS": 2}
slow = pytest.mark.slow


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module mixed_step, one of the benchmarks."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "mixed_step", raising=False)
    import mixed_step

    return mixed_step


def outputs(
    name: str, sizes: Mapping[str, float], arrays: Mapping[str, np.ndarray], **constants: int
) -> dict[str, np.ndarray]:
    contract = parse_contract((BENCHMARKS / "kernels" / f"{name}.cu").read_text("utf-8"), name="k.cu")
    run = Program(contract, device="sim", constants=constants).run(sizes, arrays)
    assert run.hazards == ()
    return run.outputs


def half(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float16)


def convolved(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Images in NHWC, filters F x R x S x C; images keep their size."""
    pad, (height, width) = w.shape[1] // 2, x.shape[1:3]
    padded = np.pad(x.astype(np.float64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    return sum(
        padded[:, r : r + height, s : s + width] @ w[:, r, s].astype(np.float64).T
        for r in range(w.shape[1]) for s in range(w.shape[2])
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "filters", "side", "constants"),
    [
        ((1, 9, 9, 64), 64, 3, {"TURNED": 1, "END": 2, **NARROW}),
        pytest.param((2, 7, 6, 64), 128, 3, {"END": 1, "CLUSTER_F": 1, "BLOCKS": 4}, marks=slow),
        pytest.param((1, 9, 9, 128), 256, 3, {"TURNED": 1, "END": 2, "BLOCKS": 4}, marks=slow),
        pytest.param((1, 9, 9, 64), 128, 3, {"TURNED": 1, "END": 0, "CLUSTER_F": 1, "BLOCKS": 4}, marks=slow),
        pytest.param((1, 9, 9, 32), 64, 1, {"END": 1, **FIRST}, marks=slow),
    ],
)
def test_convolution(shape: tuple[int, ...], filters: int, side: int, constants: dict[str, int]) -> None:
    """Forward with bias and ReLU; back with filters turned round, what ReLU passes, and the sums of it."""
    rng = np.random.default_rng(1)
    x, turned, end = half(rng, *shape), constants.get("TURNED", 0), constants["END"]
    stored = (shape[3], side, side, filters) if turned else (filters, side, side, shape[3])
    w = (rng.standard_normal(stored) / np.sqrt(side**2 * shape[3])).astype(np.float16)
    kept, bias = half(rng, *shape[:3], filters), rng.standard_normal(filters).astype(np.float32)
    arrays = {"x": x, "w": w, "kept": kept, "bias": bias, "sums": np.ones(filters, np.float32)}
    found = outputs("mixed/convolution", {"F": filters, "R": side, "S": side}, arrays, **constants)
    right = convolved(x, w[:, ::-1, ::-1].transpose(3, 1, 2, 0) if turned else w)
    right = np.maximum(right + bias, 0) if end == 1 else right * (kept > 0) if end == 2 else right
    assert np.abs(found["y"] - right).max() < 3e-3
    sums = 1 + (right.sum(axis=(0, 1, 2)) if end == 2 else 0)
    assert np.abs(found["sums"] - sums).max() < 1e-2


@pytest.mark.parametrize(
    ("shape", "filters", "side", "constants"),
    [
        ((1, 9, 9, 128), 128, 3, {"BOXES": 3, "CLUSTER_F": 1, "BLOCKS": 4}),
        pytest.param((1, 9, 9, 256), 256, 3, {"BLOCKS": 6}, marks=slow),
        pytest.param((2, 9, 9, 64), 64, 3, {"TSF": 64, "BOXES": 9, "CONSUMERS": 3, "KEPT": 152, "STAGES": 2,
                                            "CLUSTER": 1, "CLUSTER_F": 1, "BLOCKS": 2}, marks=slow),
        ((3, 9, 9, 32), 64, 1, {"TSF": 64, "BOXES": 1, "BOX": 32, "PLACES": 128, "CONSUMERS": 1, "CLUSTER": 1,
                                "CLUSTER_F": 1, "BLOCKS": 1}),
    ],
)  # fmt: skip
def test_gradient_of_filters(shape: tuple[int, ...], filters: int, side: int, constants: dict[str, int]) -> None:
    """A ragged number of places, tiles that several clusters share, and what was there before."""
    rng = np.random.default_rng(2)
    x, dy = half(rng, *shape), half(rng, *shape[:3], filters)
    before = rng.standard_normal((filters, side, side, shape[3])).astype(np.float32)
    found = outputs("mixed/filter_gradient", {"R": side, "S": side}, {"x": x, "dy": dy, "dw": before}, **constants)
    pad, (height, width) = side // 2, shape[1:3]
    padded = np.pad(x.astype(np.float64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    flat = dy.reshape(-1, filters).astype(np.float64)
    for r in range(side):
        for s in range(side):
            right = flat.T @ padded[:, r : r + height, s : s + width].reshape(-1, shape[3])
            assert np.abs(found["dw"][:, r, s] - before[:, r, s] - right).max() < 1e-4


def test_windows_and_pooling() -> None:
    """Windows written out; the largest of four, and slopes back to the first of equals, none to a ReLU that is shut."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 6, 5, 3)).astype(np.float32)
    found = outputs("mixed/first_windows", {}, {"x": x})["cols"]
    padded = np.pad(x.astype(np.float16), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = [padded[:, r : r + 6, s : s + 5] for r in range(3) for s in range(3)]
    assert np.array_equal(found, np.concatenate([*windows, np.zeros((2, 6, 5, 5), np.float16)], axis=3))

    y, dp = np.maximum(half(rng, 2, 6, 8, 64), 0), half(rng, 2, 3, 4, 64)
    y[0, :2, :2, :8] = 1
    sizes = {"BATCH": 2, "H": 6, "W": 8, "C": 64}
    four = y.reshape(2, 3, 2, 4, 2, 64).transpose(0, 1, 3, 5, 2, 4).reshape(2, 3, 4, 64, 4)
    assert np.array_equal(outputs("mixed/pool", sizes, {"y": y})["p"], four.max(axis=-1))
    found = outputs("mixed/pool_backward", sizes, {"dp": dp, "y": y, "sums": np.zeros(64, np.float32)})
    slopes = np.zeros(four.shape)
    np.put_along_axis(slopes, four.argmax(axis=-1)[..., None], (dp * (four.max(axis=-1) > 0))[..., None], axis=-1)
    right = slopes.reshape(2, 3, 4, 64, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(y.shape)
    assert np.array_equal(found["dy"], right)
    assert np.abs(found["sums"] - right.sum(axis=(0, 1, 2))).max() < 1e-4


def test_dense_layers() -> None:
    """Forward, last or not; back; outputs that fill no tile."""
    rng = np.random.default_rng(4)
    x, w, dy, kept = half(rng, 32, 192), half(rng, 44, 192) / np.float16(8), half(rng, 32, 44), half(rng, 32, 192)
    bias = rng.standard_normal(44).astype(np.float32)
    right = x.astype(np.float64) @ w.T.astype(np.float64) + bias
    assert np.abs(outputs("mixed/dense", {}, {"x": x, "w": w, "bias": bias}, LAST=1)["scores"] - right).max() < 1e-5
    found = outputs("mixed/dense", {}, {"x": x, "w": w, "bias": bias})["y"]
    assert np.abs(found - np.maximum(right, 0)).max() < 5e-3
    arrays = {"dy": dy, "w": w, "kept": kept, "sums": np.zeros(192, np.float32)}
    for passes in (0, 1):
        found = outputs("mixed/dense_backward", {}, arrays, PASSES=passes)
        right = dy.astype(np.float64) @ w.astype(np.float64) * (passes or kept > 0)
        assert np.abs(found["dx"] - right).max() < 5e-3
        assert np.abs(found["sums"] - (0 if passes else right.sum(axis=0))).max() < 2e-2


@pytest.mark.parametrize("found", [0, 1])
def test_updates(found: int) -> None:
    """Momentum, weights and their copies; nothing but the scale changes where a slope was not finite."""
    rng = np.random.default_rng(5)
    dy, x = half(rng, 32, 40), half(rng, 32, 96)
    w, velocity = (rng.standard_normal((40, 96)).astype(np.float32) for _ in range(2))
    state = np.array([4, found, 0, 0, 0, 0, 0, 0], np.float32)
    how = {"rate": 0.1, "momentum": 0.9}
    arrays = {"w": w, "velocity": velocity, "copy": w.astype(np.float16), "state": state}
    gradient = dy.T.astype(np.float64) @ x.astype(np.float64)
    speed = velocity if found else 0.9 * velocity + gradient / 4
    right = w if found else w - 0.1 * speed
    one = outputs("mixed/dense_update", how, {**arrays, "dy": dy, "x": x})
    flat = {name: array.ravel() if array.ndim == 2 else array for name, array in arrays.items()}
    flat["gradients"] = gradient.astype(np.float32).ravel()
    other = outputs("mixed/update", {**how, "patience": 1}, flat)
    for got in (one, other):
        assert np.abs(got["velocity"].reshape(40, 96) - speed).max() < 1e-5
        assert np.abs(got["w"].reshape(40, 96) - right).max() < 1e-5
        assert np.array_equal(got["copy"], got["w"].astype(np.float16))
    assert list(other["state"][:4]) == ([2, 0, 0, 0] if found else [8, 0, 0, 1])


def test_loss_and_what_is_finite() -> None:
    rng = np.random.default_rng(6)
    scores, label = (3 * rng.standard_normal((5, 301))).astype(np.float32), np.arange(5, dtype=np.int32) * 50
    state = np.array([8, 0, 0, 0, 0, 0, 0, 0], np.float32)
    arrays = {"scores": scores, "label": label, "state": state}
    arrays |= {"sums": np.zeros(301, np.float32), "mean": np.zeros(1, np.float32)}
    found = outputs("mixed/loss", {}, arrays)
    powers = np.exp(scores.astype(np.float64))
    powers /= powers.sum(axis=1, keepdims=True)
    assert abs(found["mean"][0] + np.log(powers[range(5), label]).mean()) < 1e-5
    powers[range(5), label] -= 1
    assert np.abs(found["slopes"] - powers / 5 * 8).max() < 1e-3
    assert np.abs(found["sums"] - found["slopes"].astype(np.float64).sum(axis=0)).max() < 1e-5

    gradients, activations = rng.standard_normal(1004).astype(np.float32), half(rng, 808)
    for where, bad in ((None, 0.0), (gradients, np.inf), (activations, np.nan)):
        held = None if where is None else where[-1]
        if where is not None:
            where[-1] = bad
        seen = outputs("mixed/finite", {}, {"gradients": gradients, "activations": activations, "state": state})
        assert seen["state"][1] == (where is not None)
        if where is not None:
            where[-1] = held


@pytest.mark.parametrize(
    ("shape", "filters", "tile", "pad"),
    [((5, 12, 11, 9), 64, 4, 2), ((2, 4, 13, 15), 32, 6, 1), pytest.param((5, 32, 12, 12), 64, 4, 0, marks=slow)],
)
def test_fused_winograd(shape: tuple[int, ...], filters: int, tile: int, pad: int) -> None:
    """Filters of 5 x 5 and 3 x 3; tiles that stick out, and fewer than a block has."""
    rng = np.random.default_rng(7)
    side = 9 - tile
    x, w = (rng.uniform(-1, 1, s).astype(np.float32) for s in (shape, (filters, shape[1], side, side)))
    found = outputs("fused_winograd", {"PAD": pad}, {"x": x, "w": w}, TILE=tile, CHANNELS=shape[1])["y"]
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    height, width = (n + 2 * pad - side + 1 for n in shape[2:])
    right = sum(
        np.einsum("nchw,fc->nfhw", padded[:, :, r : r + height, s : s + width], w[:, :, r, s])
        for r in range(side) for s in range(side)
    )  # fmt: skip
    assert np.abs(found - right).max() < 1e-5 * np.abs(right).max()


def test_a_step_has_all_parts(step: Any) -> None:
    """Parameters go to the kernels' order and back, and lie side by side without gaps that matter."""
    found, length = step.layers(SMALL)
    rng = np.random.default_rng(8)
    channels = SMALL.channels
    for layer in found:
        if layer.side:
            shape = (layer.filters, channels, 3, 3)
            channels = layer.filters
        else:
            shape = (layer.channels, layer.filters)
        weight = rng.standard_normal(shape).astype(np.float32)
        ours = step.to_ours(SMALL, layer, weight, SMALL.channels)
        assert ours.size == layer.weights
        assert np.array_equal(step.to_theirs(SMALL, layer, ours, SMALL.channels), weight)
    spans = sorted([(one.first, one.first + one.weights) for one in found if one.side]
                   + [(one.bias, one.bias + one.filters) for one in found])  # fmt: skip
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
    assert length % 8 == 0 and spans[-1][1] <= length
