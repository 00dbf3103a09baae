"""Gradients through Winograd's stages in float64: the definition's, for every tile, and those of finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from warpschool.nn import convolve
from warpschool.nn.references import choose, unpool
from warpschool.nn.winograd import (
    gradient_of_filters,
    gradient_of_images,
    matrices,
    transform_filters,
    transform_gradients,
    transform_images,
)


def problem(seed: int, shape: tuple[int, int, int, int, int], r: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    batch, channels, filters, height, width = shape
    rng = np.random.default_rng(seed)
    x, w = rng.uniform(-1, 1, (batch, channels, height, width)), rng.uniform(-1, 1, (filters, channels, r, r))
    return x, w, rng.uniform(-1, 1, (batch, filters, height, width))


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("shape", [(2, 3, 4, 8, 12), (1, 1, 1, 1, 1), (2, 3, 2, 13, 9)])
def test_gradients_are_those_of_the_definition(tile, shape):
    x, w, z = problem(1, shape)
    exact = matrices(tile, 3)
    dM = transform_gradients(z, exact)
    dx = gradient_of_images(transform_filters(w, exact) @ dM, exact, batch=shape[0], height=shape[3], width=shape[4])
    flipped = w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    assert np.allclose(dx, convolve(z, flipped, pad=1), rtol=0, atol=1e-11)
    dw = gradient_of_filters(transform_images(x, exact, pad=1) @ dM.transpose(0, 2, 1), exact)
    step = np.zeros_like(w)
    for place in [(0, 0, 0, 0), (-1, -1, 2, 1), (0, -1, 1, 2)]:
        step[place] = 1.0  # the loss is linear in w: its difference over any step is its slope
        assert np.isclose(dw[place], (convolve(x, step, pad=1) * z).sum())
        step[place] = 0.0


def test_the_bias_is_a_sum_at_one_position():
    _, _, z = problem(2, (2, 1, 3, 13, 9))
    assert np.allclose(transform_gradients(z, matrices(4, 3))[7].sum(axis=1), z.sum(axis=(0, 2, 3)))


@pytest.mark.parametrize(("pool", "shape"), [(2, (6, 5)), (1, (3, 2)), (2, (2, 2))])
def test_choices_say_what_passed(pool, shape):
    rng = np.random.default_rng(3)
    z = rng.uniform(-1, 1, (2, 3, *shape))
    kept, chosen = choose(z, pool)
    assert kept.shape == chosen.shape == (2, 3, shape[0] // pool, shape[1] // pool)
    assert ((kept > 0) == (chosen > 0)).all()
    back = unpool(kept, chosen, height=shape[0], width=shape[1], pool=pool)
    assert ((back == 0) | (back == z)).all() and np.isclose(back.sum(), kept.sum())


def test_of_equal_results_the_first_passes_and_zero_does_not():
    kept, chosen = choose(np.ones((1, 1, 2, 2)), 2)
    assert chosen.item() == 1 == kept.item()
    assert choose(np.zeros((1, 1, 2, 2)), 2)[1].item() == 0
