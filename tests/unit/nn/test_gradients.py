"""The float64 gradients against finite differences, and the bits of pooling against their definition."""

from __future__ import annotations

import numpy as np
import pytest

from warpschool.nn import Convolution, convolve, references


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def agree(loss, at, gradient, rng):
    direction = rng.standard_normal(np.shape(at))
    expected = references.finite_difference(loss, at, direction, step=1e-5)
    assert float((gradient * direction).sum()) == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_cross_entropy(rng):
    scores, labels = rng.uniform(-3, 3, (7, 5)), rng.integers(0, 5, 7)
    loss, slope = references.cross_entropy(scores, labels)
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(loss, -np.log(probabilities[np.arange(7), labels]))
    agree(lambda x: references.cross_entropy(x, labels)[0].mean(), scores, slope, rng)
    assert np.isfinite(references.cross_entropy(scores * 1e4, labels)[0]).all()


@pytest.mark.parametrize("relu", [False, True])
def test_fully_connected(rng, relu):
    before, w, dy = rng.uniform(-1, 1, (6, 9)), rng.uniform(-1, 1, (9, 4)), rng.uniform(-1, 1, (6, 4))

    def inputs(values):
        return np.maximum(values, 0) if relu else values

    dw, db, dx = references.fc_backward(inputs(before), w, dy, relu=relu)
    agree(lambda v: ((inputs(before) @ v) * dy).sum(), w, dw, rng)
    agree(lambda v: ((inputs(v) @ w) * dy).sum(), before, dx, rng)
    np.testing.assert_allclose(db, dy.sum(axis=0))


PROBLEMS = [
    Convolution(batch=2, channels=3, height=6, width=7, filters=4, rows=3, cols=2),
    Convolution(batch=1, channels=2, height=9, width=8, filters=3, rows=3, cols=5, stride=3, pad=2),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=["plain", "stride 3"])
def test_convolution(rng, problem):
    x, w = problem.arrays(rng, np.float64)
    dy = rng.uniform(-1, 1, problem.output_shape)
    window = {"stride": problem.stride, "pad": problem.pad}
    agree(lambda v: (convolve(v, w, **window) * dy).sum(), x, references.conv_backward_data(dy, w, problem), rng)
    dw, db = references.conv_backward_filter(x, dy, problem)
    agree(lambda v: (convolve(x, v, **window) * dy).sum(), w, dw, rng)
    np.testing.assert_allclose(db, dy.sum(axis=(0, 2, 3)))


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 6, 8), (1, 2, 5, 7)])
def test_pooling(rng, average, shape):
    z, bias = rng.uniform(-1, 1, shape), rng.uniform(-0.3, 0.3, shape[1])
    y, bits = references.bias_relu_pool(z, bias, average=average)
    dy = rng.uniform(-1, 1, y.shape)
    dz = references.pool_relu_backward(dy, bits, shape, average=average)
    agree(lambda v: (references.bias_relu_pool(v, bias, average=average)[0] * dy).sum(), z, dz, rng)
    assert not dz[:, :, shape[2] // 2 * 2 :].any() and not dz[:, :, :, shape[3] // 2 * 2 :].any()


def test_the_first_of_equal_results_passes_the_slope_on():
    z = np.array([[[[1.0, 1.0], [1.0, 0.5]]]])
    assert references.bias_relu_pool(z, [0.0], average=False)[1].item() == 0b0001
    assert references.bias_relu_pool(z, [-0.7], average=True)[1].item() == 0b0111
    assert references.bias_relu_pool(z, [-1.0], average=False)[1].item() == 0


def test_saved_words(rng):
    bits = rng.integers(0, 16, (1, 5, 3, 3)).astype(np.uint8)  # 45 windows
    flat = bits.reshape(-1)
    packed = references.saved_words(bits, packed=True)
    assert packed.size == 8 and packed.dtype == np.uint32
    for window, place in [(0, 0), (31, 3), (37, 2), (44, 1)]:
        word = int(packed[window // 32 * 4 + place])
        assert word >> (window % 32) & 1 == flat[window] >> place & 1
    assert references.saved_words(bits, packed=False).view(np.uint8)[:45].tolist() == flat.tolist()


def test_optimizers_go_where_their_definitions_say(rng):
    w, g = rng.uniform(-1, 1, 5), rng.uniform(-1, 1, 5)
    once, speed = references.sgd_momentum(w, g, np.zeros(5), rate=0.5, momentum=0.9, decay=0.1)
    np.testing.assert_allclose(speed, g + 0.1 * w)
    np.testing.assert_allclose(once, w - 0.5 * (g + 0.1 * w))
    first, mean, square = references.adam(w, g, np.zeros(5), np.zeros(5), step=1, rate=0.01)
    np.testing.assert_allclose(first, w - 0.01 * np.sign(g), rtol=1e-5)  # the first step has the length of the rate
    np.testing.assert_allclose(mean / 0.1, g)
    np.testing.assert_allclose(square / 0.001, g**2)
