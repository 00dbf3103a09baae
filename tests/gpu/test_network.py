"""Whole networks on the GPU: the simulator's classes, one allocation, and copies that overlap with kernels."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from warpschool.nn.digits import load, weights
from warpschool.nn.layers import half_digits_layers, half_parameters
from warpschool.nn.network import Network, digits_layers, lenet5_layers
from warpschool.nn.session import Kernels
from warpschool.nn.streams import classify_in_parts

pytestmark = pytest.mark.gpu


@cache
def kernels(device):
    return Kernels(device=device)


@pytest.mark.parametrize("form", ["plain", "pooled", "fused", "winograd", "lenet5"])
def test_both_devices_find_the_same_digits(form):
    name = "lenet5" if form == "lenet5" else "digits"
    layers = lenet5_layers() if form == "lenet5" else digits_layers(form)
    images = load().test.pixels()
    found = {}
    for device in ("sim", "gpu"):
        network = Network(layers, kernels(device), parameters=weights(name))
        found[device] = network.classify(images)
    assert (found["sim"] == found["gpu"]).all()
    assert (found["gpu"] == load().test.labels).mean() >= 0.97
    session = network.session(1000)
    assert session.layout.nbytes < session.layout.separate_bytes
    first = min(session[name].address for name in session)
    for name in session:  # one allocation, and every array aligned in it
        assert session[name].address % 256 == 0
        assert session[name].address + session[name].nbytes <= first + session.layout.nbytes


def test_half_precision_finds_the_same_digits():
    images = load().test.pixels()
    single = Network(digits_layers(), kernels("gpu"), parameters=weights("digits")).classify(images)
    half = Network(
        half_digits_layers(), kernels("gpu"), parameters=half_parameters(weights("digits")), image_shape=(28, 28),
        dtype=np.float16,
    ).classify(images[:, 0])  # fmt: skip
    assert (half == single).mean() >= 0.995


def test_copies_overlap_with_kernels_only_in_several_streams():
    images = np.tile(load().test.pixels(), (10, 1, 1, 1))
    network = Network(digits_layers("winograd"), kernels("gpu"), parameters=weights("digits"))
    one, two = (classify_in_parts(network, images, parts=5, streams=count) for count in (1, 2))
    assert (one.labels == two.labels).all() and (one.labels[:1000] == load().test.labels).mean() >= 0.97
    assert one.timeline.recorded and len(one.timeline.spans) == 15
    assert one.timeline.overlapped_ms < 0.05 * one.timeline.total_ms
    assert two.timeline.overlapped_ms > 0
