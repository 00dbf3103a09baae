"""VGG16 of the course's kernels: its sizes and memory, and a small one against float64 on the simulator."""

from __future__ import annotations

import math

import numpy as np
import pytest

from warpschool.errors import ArgumentError
from warpschool.nn.graph import lifetimes, plan
from warpschool.nn.session import Kernels
from warpschool.nn.training import Sgd
from warpschool.nn.vgg16 import Inference, TrainingStep, VggForm, WinogradLayer, inference_graph, reference, step_graph

TINY = VggForm.small()


def batch_of(form: VggForm, batch: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (batch, form.channels, form.size, form.size)).astype(np.float32)
    return x, rng.integers(0, form.classes, batch).astype(np.int32)


def test_the_sizes_are_those_of_the_paper():
    shapes = VggForm().shapes()
    assert sum(math.prod(shape) for shape in shapes.values()) == 138_357_544
    assert shapes["fc1.weight"] == (25_088, 4096) and shapes["conv13.weight"] == (512, 512, 3, 3)
    assert [layer.name for layer in VggForm().layers() if getattr(layer, "pool", 1) == 2] == [
        "conv2", "conv4", "conv7", "conv10", "conv13",
    ]  # fmt: skip


def test_one_arena_holds_a_training_step_of_32_images():
    layout = plan(lifetimes(step_graph(VggForm(), 32)))
    assert layout.least_bytes <= layout.nbytes < 8e9 < layout.separate_bytes
    small = plan(lifetimes(inference_graph(VggForm(), 32)))
    assert small.nbytes < 4e9 < small.separate_bytes


def test_what_cannot_be_is_refused():
    with pytest.raises(ArgumentError, match="32 x 32 or more"):
        VggForm(size=31)
    graph = step_graph(TINY, 1)
    layer = WinogradLayer(name="conv2", filters=4)
    with pytest.raises(ArgumentError, match="training=True"):
        layer.backward(graph, graph.tape[1], graph.tape[1].y)


@pytest.mark.slow
def test_a_small_network_on_the_simulator():
    kernels, values = Kernels(device="sim"), TINY.first_parameters(1, bias=0.1)
    x, label = batch_of(TINY, 2)
    exact = reference(TINY, values, x, label)
    scores = Inference(TINY, kernels, values, batch=2).scores(x)
    assert np.abs(scores - exact.scores).max() < 1e-4 * np.abs(exact.scores).max()
    step = TrainingStep(TINY, kernels, values, batch=2, optimizer=Sgd(rate=0.05, momentum=0.9))
    loss = step(x, label)
    assert loss == pytest.approx(exact.loss.mean(), rel=1e-5)
    assert step.hazards == ()
    for name, found in step.gradients.items():
        wanted = exact.gradients[name]
        assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max(), name
    moved = values["fc3.bias"] - 0.05 * exact.gradients["fc3.bias"]
    assert np.allclose(step.parameters["fc3.bias"], moved, atol=1e-6)
    losses = [step(x, label) for _ in range(6)]
    assert losses[-1] < 0.8 * loss
    with pytest.raises(ArgumentError, match=r"x has shape \[1, 3, 32, 32\], this network takes \[2, 3, 32, 32\]"):
        step(x[:1], label)
