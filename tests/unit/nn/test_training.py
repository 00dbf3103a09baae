"""Training by our kernels on the simulator: gradients of whole networks, steps, runs that are killed and go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace

import numpy as np
import pytest

from warpschool.errors import ArgumentError, SimulationError
from warpschool.nn import convolve, references
from warpschool.nn.digits import Split, load, shifted
from warpschool.nn.layers import AveragePool, BiasRelu, BiasReluPool, Convolve, FullyConnected, MaxPool
from warpschool.nn.network import build_training, digits_layers, training_layers
from warpschool.nn.session import Kernels
from warpschool.nn.training import (
    Adam,
    Checkpoint,
    Settings,
    Sgd,
    Trainer,
    first_parameters,
    load_checkpoint,
    save_checkpoint,
)

DIRECT = "lab08_convolution/01_direct"
BATCH = 6
IMAGE = (1, 12, 12)


def small(average: bool = True):
    """Two convolutions and two fully connected layers, everything that the course's networks have."""
    pool = AveragePool if average else MaxPool
    return (
        Convolve(name="conv1", filters=3, size=3, pad=1, step=DIRECT), BiasRelu(name="relu1", of="conv1"),
        pool(name="pool1"), Convolve(name="conv2", filters=5, size=3, step=DIRECT), BiasRelu(name="relu2", of="conv2"),
        pool(name="pool2"), FullyConnected(name="fc1", outputs=8, relu=True), FullyConnected(name="fc2", outputs=10),
    )  # fmt: skip


@pytest.fixture(scope="module")
def kernels():
    return Kernels(device="sim")


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(3)
    return rng.uniform(0, 1, (BATCH, *IMAGE)).astype(np.float32), rng.integers(0, 10, BATCH).astype(np.int32)


def exact_loss(parameters, images, labels, average):
    """The same network in float64, one line a layer."""
    p = {name: np.asarray(values, np.float64) for name, values in parameters.items()}
    x = np.asarray(images, np.float64)
    for name, pad in (("conv1", 1), ("conv2", 0)):
        z = convolve(x, p[f"{name}.weight"], pad=pad)
        x = references.bias_relu_pool(z, p[f"{name}.bias"], average=average)[0]
    hidden = np.maximum(x.reshape(len(x), -1) @ p["fc1.weight"] + p["fc1.bias"], 0)
    return float(references.cross_entropy(hidden @ p["fc2.weight"] + p["fc2.bias"], labels)[0].mean())


@pytest.mark.parametrize(
    "average", [pytest.param(True, marks=pytest.mark.slow, id="mean"), pytest.param(False, id="largest")]
)
def test_gradients_of_a_network_agree_with_finite_differences(kernels, batch, average):
    trainer = Trainer(small(average), kernels, Settings(batch=BATCH, seed=5), image_shape=IMAGE, always_check=True)
    rng = np.random.default_rng(9)
    before = {name: v + rng.normal(0, 0.05, v.shape).astype(np.float32) for name, v in trainer.parameters.items()}
    trainer.session["parameters"].set(trainer.graph.flat(before))
    loss = trainer.step(*batch, rate=0.0)
    assert loss == pytest.approx(exact_loss(before, *batch, average), rel=1e-5)
    found = trainer.gradients
    assert set(found) == set(before) and all(gradient.any() for gradient in found.values())
    for name, gradient in found.items():
        direction = rng.choice([-1.0, 1.0], gradient.shape)

        def along(values, name=name):
            return exact_loss(before | {name: values}, *batch, average)

        expected = references.finite_difference(along, before[name], direction, step=1e-7)
        tolerance = 1e-4 * float(np.abs(gradient).sum())
        assert float((gradient * direction).sum()) == pytest.approx(expected, abs=tolerance), name


@pytest.mark.parametrize("pad", [0, 1])
def test_filters_turned_round_give_the_slopes_of_images(kernels, batch, pad):
    found = {}
    for step in (Convolve.backward_step, DIRECT):
        layers = [
            replace(layer, pad=pad, backward_step=step) if layer.name == "conv2" else layer for layer in small(False)
        ]
        trainer = Trainer(layers, kernels, Settings(batch=BATCH, seed=5), image_shape=IMAGE, always_check=True)
        trainer.step(*batch, rate=0.0)
        found[step] = trainer.gradients
    for name, gradient in found[DIRECT].items():
        assert gradient.any()
        np.testing.assert_allclose(gradient, found[Convolve.backward_step][name], rtol=2e-5, atol=1e-6, err_msg=name)


def test_a_stride_is_no_convolution_backwards(kernels):
    layers = [replace(layer, stride=2, backward_step=DIRECT) if layer.name == "conv2" else layer for layer in small()]
    with pytest.raises(ArgumentError, match="no convolution backwards"):
        Trainer(layers, kernels, Settings(batch=BATCH), image_shape=IMAGE)


@pytest.mark.parametrize("optimizer", [Sgd(rate=0.1, momentum=0.5, decay=0.01), Adam(rate=0.01)], ids=["sgd", "adam"])
def test_a_step_is_what_the_optimizer_makes_of_the_gradients(kernels, batch, optimizer):
    settings = Settings(batch=BATCH, optimizer=optimizer)
    trainer = Trainer(small(), kernels, settings, image_shape=IMAGE, always_check=True)
    w, state = trainer.graph.flat(trainer.parameters).astype(np.float64), [np.zeros(trainer.graph.size)] * 2
    for number in (1, 2, 3):
        trainer.step(*batch)
        g = trainer.graph.flat(trainer.gradients)
        if isinstance(optimizer, Sgd):
            w, *state = references.sgd_momentum(w, g, state[0], rate=0.1, momentum=0.5, decay=0.01)
        else:
            w, *state = references.adam(w, g, *state, step=number, rate=0.01)
        np.testing.assert_allclose(trainer.graph.flat(trainer.parameters), w, atol=2e-6)


def test_the_same_step_gives_the_same_bits(kernels, batch):
    runs = []
    for _ in range(2):
        trainer = Trainer(small(), kernels, Settings(batch=BATCH), image_shape=IMAGE, always_check=True)
        losses = [trainer.step(*batch) for _ in range(3)]
        runs.append((losses, trainer.session["parameters"].get().tobytes()))
    assert runs[0] == runs[1] and runs[0][0][2] < runs[0][0][0]


def test_gradients_agree_with_pytorch(kernels, batch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: gradients are not compared with its")
    nn = torch.nn
    trainer = Trainer(small(False), kernels, Settings(batch=BATCH, seed=5), image_shape=IMAGE, always_check=True)
    network = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 5, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(20, 8), nn.ReLU(), nn.Linear(8, 10),
    )  # fmt: skip
    layers = dict(zip(("conv1", "conv2", "fc1", "fc2"), (m for m in network if hasattr(m, "weight")), strict=True))
    for name, layer in layers.items():
        weight = trainer.parameters[f"{name}.weight"]
        layer.weight.data = torch.from_numpy(weight.T.copy() if name.startswith("fc") else weight)
        layer.bias.data = torch.from_numpy(trainer.parameters[f"{name}.bias"])
    images, labels = (torch.from_numpy(array) for array in batch)
    loss = nn.functional.cross_entropy(network(images), labels.long())
    loss.backward()
    assert trainer.step(*batch) == pytest.approx(loss.item(), rel=1e-5)
    for name, layer in layers.items():
        ours = trainer.gradients
        weight = layer.weight.grad.numpy()
        weight = weight.T if name.startswith("fc") else weight
        np.testing.assert_allclose(ours[f"{name}.weight"], weight, atol=1e-5 * np.abs(weight).max() + 1e-8)
        np.testing.assert_allclose(ours[f"{name}.bias"], layer.bias.grad.numpy(), atol=1e-6)


# ---------------------------------------------------------------- what cannot be trained


def test_layers_without_a_way_back_are_named():
    with pytest.raises(ArgumentError, match=r"conv1 .ConvolvePool. has no backward pass"):
        training_layers(digits_layers(labels=False))
    with pytest.raises(ArgumentError, match="fc1 after relu1: only pooling"):
        training_layers((BiasRelu(name="relu1", of="conv1"), FullyConnected(name="fc1", outputs=3)))
    with pytest.raises(ArgumentError, match="not with scores"):
        build_training((Convolve(name="conv1", filters=2, size=3),), 2, IMAGE)
    fused = training_layers(digits_layers("plain", labels=False))
    assert [layer.name for layer in fused] == ["conv1", "pool1", "conv2", "pool2", "fc1", "fc2"]
    assert fused[1] == BiasReluPool(name="pool1", of="conv1", average=True)


def test_a_kernel_with_a_race_stops_training_at_once(batch):
    step = "lab11_training/06_sgd_momentum"
    source = Kernels(device="sim").contract(step).source
    racing = source.replace("const int i = (blockIdx.x * THREADS + threadIdx.x) * 4;", "const int i = blockIdx.x * 4;")
    layers = (FullyConnected(name="fc1", outputs=10),)
    trainer = Trainer(layers, Kernels({step: racing}, device="sim"), Settings(batch=BATCH), image_shape=IMAGE)
    with pytest.raises(SimulationError, match="hazards"):
        trainer.step(*batch)


def test_settings():
    assert Settings(epochs=4).rate(0) == 0.05 > Settings(epochs=4).rate(3) > 0
    assert Settings(epochs=4, anneal=False).rate(3) == 0.05
    with pytest.raises(ArgumentError, match="batch = 0"):
        Settings(batch=0)


def test_shifts_move_images_and_lose_nothing_inside():
    images = np.zeros((50, 9, 9), np.uint8)
    images[:, 4, 4] = 7
    moved = shifted(images, 2, np.random.default_rng(0))
    rows, cols = np.nonzero(moved)[1:]
    assert moved.sum() == images.sum() and set(rows) == set(cols) == {2, 3, 4, 5, 6}
    assert shifted(images, 0, np.random.default_rng(0)) is images


def test_first_weights_follow_from_the_seed():
    shapes = {"conv.weight": (8, 4, 3, 3), "conv.bias": (8,), "fc.weight": (200, 50)}
    first, again, other = (first_parameters(shapes, seed) for seed in (1, 1, 2))
    assert all((first[name] == again[name]).all() for name in shapes)
    assert (first["fc.weight"] != other["fc.weight"]).any() and not first["conv.bias"].any()
    assert first["fc.weight"].std() == pytest.approx(0.1, rel=0.05)


# ---------------------------------------------------------------- runs and checkpoints

RUN = Settings(epochs=2, batch=BATCH, seed=4, shift=1)


def images_of(count):
    rng = np.random.default_rng(8)
    return Split(rng.integers(0, 256, (count, 12, 12)).astype(np.uint8), rng.integers(0, 10, count).astype(np.uint8))


def run_to_the_end(kernels, checkpoint=None, **options):
    trainer = Trainer(small(), kernels, RUN, image_shape=IMAGE, always_check=True)
    history = trainer.fit(images_of(40), test=images_of(13), checkpoint=checkpoint, **options)
    told = [{key: value for key, value in asdict(epoch).items() if key != "seconds"} for epoch in history]
    state = [trainer.session["parameters"].get().tobytes(), trainer.updater.state["v"].get().tobytes()]
    return told, state


def test_ctrl_c_loses_nothing(kernels, tmp_path):
    path = tmp_path / "run.npz"
    whole = run_to_the_end(kernels)
    assert [epoch["epoch"] for epoch in whole[0]] == [1, 2]

    def stop(step, loss):
        if step == 9:  # in the second epoch of six steps
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_to_the_end(kernels, path, on_step=stop)
    state = load_checkpoint(path, _run_of(path))
    assert (state.epoch, state.step, len(state.losses)) == (1, 3, 3 * BATCH)
    assert run_to_the_end(kernels, path) == whole
    assert run_to_the_end(kernels, path) == whole  # nothing is left to do


def _run_of(path):
    with np.load(path) as file:
        return json.loads(file["about"].tobytes())["run"]


CHILD = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_training import run_to_the_end
from warpschool.nn.session import Kernels
run_to_the_end(Kernels(device="sim"), Path(sys.argv[1]), every=1, on_step=lambda step, loss: time.sleep(0.3))
"""


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_to_the_same_numbers(kernels, tmp_path):
    path = tmp_path / "run.npz"
    here = os.path.dirname(__file__)
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(path), here], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 900
    steps = 0
    while steps < 3 and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
        if path.exists():
            state = load_checkpoint(path, _run_of(path))  # whole at every moment
            steps = state.epoch * 6 + state.step
    assert steps >= 3, child.stderr.read() if child.poll() is not None else "no checkpoint after a quarter of an hour"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stderr.close()
    assert child.returncode == -signal.SIGKILL, "the child was through before it was killed"
    assert run_to_the_end(kernels, path) == run_to_the_end(kernels)
    assert [file.name for file in tmp_path.iterdir() if not file.name.startswith(".")] == ["run.npz"]


def test_checkpoints_of_other_runs_and_other_files_are_refused(kernels, tmp_path):
    path = tmp_path / "run.npz"
    state = Checkpoint(1, 2, np.ones(3, np.float32), {"v": np.ones(3)}, np.ones(4), [{"epoch": 1}])
    save_checkpoint(path, state, {"seed": 4, "batch": 6})
    again = load_checkpoint(path, {"seed": 4, "batch": 6})
    assert (again.epoch, again.step, again.history) == (1, 2, [{"epoch": 1}])
    assert again.optimizer["v"].tolist() == [1, 1, 1]
    with pytest.raises(ArgumentError, match="seed: 4 there, 5 here"):
        load_checkpoint(path, {"seed": 5, "batch": 6})
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ArgumentError, match="no checkpoint"):
        load_checkpoint(path, {})
    with pytest.raises(ArgumentError, match="13 examples fill no batch of 40"):
        Trainer(small(), kernels, Settings(batch=40), image_shape=IMAGE, always_check=True).fit(images_of(13))


def test_digits_are_learnt_from(kernels):
    """LeNet-5's smaller sister on real digits: the loss falls to half of it from one short epoch to the next."""
    layers = (
        Convolve(name="conv1", filters=6, size=5, step=DIRECT), BiasRelu(name="relu1", of="conv1"),
        MaxPool(name="pool1"), FullyConnected(name="fc1", outputs=10),
    )  # fmt: skip
    train = load().train
    trainer = Trainer(layers, kernels, Settings(batch=32, epochs=2, optimizer=Sgd(rate=0.1)), always_check=True)
    history = trainer.fit(Split(train.images[:480], train.labels[:480]))
    assert history[1].loss < history[0].loss / 2
