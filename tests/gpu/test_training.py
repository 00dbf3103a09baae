"""Training on the GPU: the simulator's numbers, runs that go on to the same bits, VGG16 with and without PyTorch."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from warpcourse.lab11_training.lab import NETWORKS, RECIPE, training_network
from warpcourse.lab16_attention import writer
from warpschool.course import Course
from warpschool.nn.digits import Split, load, weights
from warpschool.nn.session import Kernels
from warpschool.nn.text import Windows
from warpschool.nn.training import Trainer
from warpschool.nn.vgg16 import TrainingStep, VggForm, reference

pytestmark = pytest.mark.gpu
RECORDED = Course.find().root / "benchmarks" / "results" / "training_h200.json"


def few(count):
    train = load().train
    return Split(train.images[:count], train.labels[:count])


def test_three_steps_are_those_of_the_simulator():
    images, labels = few(16).pixels(), few(16).labels.astype(np.int32)
    found = {}
    for device in ("sim", "gpu"):
        layers = training_network("lenet5", device)
        trainer = Trainer(layers, Kernels(device=device), replace(RECIPE, batch=16))
        losses = [trainer.step(images, labels) for _ in range(3)]
        found[device] = np.array(losses), trainer.graph.flat(trainer.parameters)
    np.testing.assert_allclose(found["gpu"][0], found["sim"][0], rtol=1e-4)
    np.testing.assert_allclose(found["gpu"][1], found["sim"][1], atol=1e-5)


@pytest.mark.parametrize("network", NETWORKS)
def test_an_interrupted_run_goes_on_to_the_same_bits(network, tmp_path):
    kernels, settings = Kernels(device="gpu"), replace(RECIPE, epochs=2)

    def run(**options):
        trainer = Trainer(training_network(network, "gpu"), kernels, settings)
        trainer.fit(few(640), **options)
        return trainer.session["parameters"].get().tobytes()

    def stop(step, loss):
        if step == 13:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=tmp_path / "run.npz", on_step=stop)
    assert run(checkpoint=tmp_path / "run.npz") == run()


@pytest.mark.parametrize("network", NETWORKS)
def test_shipped_weights_are_as_good_as_recorded(network):
    row = next(row for row in json.loads(RECORDED.read_text("utf-8"))["weights"] if row["network"] == network)
    trainer = Trainer(training_network(network, "gpu"), Kernels(device="gpu"), RECIPE, parameters=weights(network))
    assert trainer.accuracy(load().test) == pytest.approx(row["accuracy"], abs=0.001)  # one digit on the fence


def small_batch():
    rng = np.random.default_rng(2)
    return rng.uniform(-1, 1, (2, 3, 32, 32)).astype(np.float32), np.array([3, 7], np.int32)


def test_gradients_of_a_small_vgg16():
    form, (x, label) = VggForm.small(), small_batch()
    step = TrainingStep(form, Kernels(device="gpu"), form.first_parameters(1, bias=0.1), batch=2)
    before = step.parameters
    loss, exact = step(x, label), reference(form, before, x, label)
    assert loss == pytest.approx(exact.loss.mean(), rel=1e-5)
    for name, wanted in exact.gradients.items():
        assert np.abs(step.gradients[name] - wanted).max() <= 1e-4 * np.abs(wanted).max(), name


def test_vgg16_is_a_function_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from warpschool.nn.torch_vgg16 import Vgg16

    form, (x, label) = VggForm.small(), small_batch()
    network = Vgg16(form, batch=2, kernels=Kernels(device="gpu"), parameters=form.first_parameters(1, bias=0.1))
    values = {name: part.cpu().numpy().copy() for name, part in network.named().items()}
    exact = reference(network.form, values, x, label)
    loss = torch.nn.functional.cross_entropy(network(torch.from_numpy(x).cuda()), torch.from_numpy(label).long().cuda())
    loss.backward()
    assert float(loss.detach()) == pytest.approx(exact.loss.mean(), rel=1e-5)
    gradients = network.step.graph.named(network.weights.grad.cpu().numpy())
    for name, wanted in exact.gradients.items():
        assert np.abs(gradients[name] - wanted).max() <= 1e-4 * np.abs(wanted).max(), name


def test_an_interrupted_writer_goes_on_to_the_same_bits(tmp_path):
    kernels, settings = Kernels(device="gpu"), replace(writer.RECIPE, epochs=2)
    windows = Windows(writer.windows(200, writer.SEED, writer.FORM.length)[0].codes[:160])

    def run(**options):
        trainer = writer.training(writer.FORM, kernels, settings)
        trainer.fit(windows, **options)
        return trainer.session["parameters"].get().tobytes()

    def stop(step, loss):
        if step == 7:  # in the second epoch of five steps
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=tmp_path / "run.npz", on_step=stop)
    assert run(checkpoint=tmp_path / "run.npz") == run()


def test_steps_of_a_writer_are_those_of_the_simulator():
    codes = writer.windows(writer.TINY_STORIES, writer.SEED, writer.TINY_FORM.length)[0].codes[: writer.TINY.batch]
    found = {}
    for device in ("sim", "gpu"):
        trainer = writer.training(writer.TINY_FORM, Kernels(device=device), writer.TINY)
        found[device] = [trainer.step(codes[:, :-1], codes[:, 1:]) for _ in range(3)]
    np.testing.assert_allclose(found["gpu"], found["sim"], rtol=1e-4)
