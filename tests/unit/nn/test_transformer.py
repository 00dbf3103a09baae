"""A transformer by our kernels on the simulator: its own small kernels, gradients, and runs that go on."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest

from warpschool.errors import ArgumentError
from warpschool.harness.launcher import Program
from warpschool.nn.network import build, training_graph
from warpschool.nn.references import cross_entropy, finite_difference
from warpschool.nn.session import Kernels, Session
from warpschool.nn.text import Alphabet, Reader, Windows
from warpschool.nn.training import Adam, Settings, Trainer
from warpschool.nn.transformer import CausalAttention, Embedding, Linear, Transformer, _own

FORM = Transformer(vocabulary=11, length=37, cols=64, heads=1, blocks=1)
RUN = Settings(epochs=2, batch=2, seed=4, optimizer=Adam(rate=3e-3))
RNG = np.random.default_rng(1)
WINDOWS = Windows(np.random.default_rng(2).integers(0, FORM.vocabulary, (9, FORM.length + 1)).astype(np.int32))


def single(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def run_kernel(kernel, sizes, arrays, **constants):
    found = Program(_own(kernel), device="sim", constants=constants).run(sizes, arrays)
    assert found.hazards == ()
    return found.outputs


# ---------------------------------------------------------------- its own kernels


def test_embeddings_and_their_gradients():
    batch, length, vocabulary, cols = 3, 43, 7, 70
    sizes = {"BATCH": batch, "LENGTH": length, "VOCAB": vocabulary, "COLS": cols}
    x = RNG.integers(0, vocabulary - 1, (batch, length)).astype(np.int32)  # the last character occurs nowhere
    table, places, dy = single(vocabulary, cols), single(length, cols), single(batch * length, cols)
    y = run_kernel("embedding", sizes, {"x": x, "table": table, "places": places})["y"]
    assert np.array_equal(y.reshape(batch, length, cols), table[x] + places)
    found = run_kernel("embedding_backward", sizes, {"x": x, "dy": dy})
    right = np.zeros((vocabulary, cols))
    np.add.at(right, x.reshape(-1), dy.astype(float))
    np.testing.assert_allclose(found["dtable"], right, atol=1e-5)
    np.testing.assert_allclose(found["dplaces"], dy.astype(float).reshape(batch, length, cols).sum(0), atol=1e-5)


@pytest.mark.parametrize("shares", [1, 3])
def test_heads_are_taken_apart_and_put_together(shares):
    batch, length, heads, d = 2, 5, 3, 64
    sizes = {"BATCH": batch, "LENGTH": length, "SHARES": shares, "HEADS": heads}
    x = single(batch, length, shares, heads, d)
    apart = run_kernel("heads", sizes | {"back": 0}, {"x": x.reshape(-1)})["y"]
    assert np.array_equal(apart.reshape(shares, batch, heads, length, d), x.transpose(2, 0, 3, 1, 4))
    assert np.array_equal(run_kernel("heads", sizes | {"back": 1}, {"x": apart})["y"], x.reshape(-1))


def test_gelu_its_slope_and_sums():
    x, dy = np.concatenate([3 * single(300), [0, -20, 20]]).astype(np.float32), single(303)
    exact = x.astype(float)
    below = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in exact])
    density = np.exp(-(exact**2) / 2) / math.sqrt(2 * math.pi)
    sizes = {"N": x.size}
    np.testing.assert_allclose(run_kernel("gelu", sizes, {"x": x})["y"], exact * below, atol=1e-6)
    found = run_kernel("gelu_backward", sizes, {"x": x, "dy": dy})["dx"]
    np.testing.assert_allclose(found, dy * (below + exact * density), atol=1e-6)
    assert np.array_equal(run_kernel("add", sizes, {"a": x, "b": dy})["y"], x + dy)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("rows", [256, 130])
def test_gradients_of_a_linear_layer_of_many_rows(rows):
    """256 rows make four shares of 64 rows, 130 make two of 65."""
    layer, inputs = Linear(name="l", outputs=70), 33
    assert layer.shares(rows, inputs) == (4 if rows == 256 else 2)
    graph = training_graph((layer,), rows, (inputs,), loss=False)
    session = Session(graph, Kernels(device="sim"))
    x, w, dy = single(rows, inputs), single(inputs, 70), single(rows, 70)
    session["parameters"].set(graph.flat({"l.weight": w, "l.bias": single(70)}))
    session["gradients"].set(np.zeros(graph.size, np.float32))
    session["x"].set(x)
    session["l.slope"].set(dy)
    session.run()
    found, exact = graph.named(session["gradients"].get()), dy.astype(float)
    np.testing.assert_allclose(found["l.weight"], x.T.astype(float) @ exact, atol=1e-4)
    np.testing.assert_allclose(found["l.bias"], exact.sum(0), atol=1e-4)
    np.testing.assert_allclose(session["x.slope"].get(), exact @ w.T, atol=1e-4)
    assert session.hazards == ()


def test_shares_fill_a_gpu():
    assert Linear(name="l", outputs=1024).shares(8192, 256) == 16
    assert Linear(name="l", outputs=4096).shares(8192, 4096) == 1


# ---------------------------------------------------------------- the network


def test_parameters_are_those_of_the_layers():
    form = Transformer(vocabulary=11, length=37, cols=128, heads=2, blocks=2)
    graph = build(form.layers(), 3, (form.length,), dtype=np.int32)
    assert {name: value.shape for name, value in graph.parameters.items()} == form.shapes
    first, other = form.first_parameters(1), form.first_parameters(2)
    assert sum(values.size for values in first.values()) == form.size
    assert np.all(first["block2.norm1.weight"] == 1) and not first["block2.norm1.bias"].any()
    assert first["block1.qkv.weight"].std() == pytest.approx(0.02, rel=0.05)
    assert first["block1.joined.weight"].std() == pytest.approx(0.01, rel=0.05), "of four sums each is half as wide"
    assert (first["scores.weight"] != other["scores.weight"]).any()


def test_what_does_not_fit_is_refused():
    layers = (Embedding(name="e", vocabulary=3, cols=3 * 96), CausalAttention(name="a", heads=2, length=37))
    with pytest.raises(ArgumentError, match="rows of 96 numbers for 2 heads"):
        build(layers, 2, (37,), dtype=np.int32)
    with pytest.raises(ArgumentError, match=r"needs texts \[BATCH,LENGTH\] of int32"):
        build((Embedding(name="e", vocabulary=3, cols=64),), 2, (37,))


@pytest.fixture(scope="module")
def kernels():
    return Kernels(device="sim")


def trainer_of(kernels, settings=RUN, **options):
    first = options.pop("parameters", None) or FORM.first_parameters(1)
    return Trainer(
        FORM.layers(), kernels, settings, parameters=first, image_shape=(FORM.length,), dtype=np.int32, **options
    )


@pytest.mark.slow
def test_all_gradients_agree_with_finite_differences(kernels):
    rng = np.random.default_rng(5)
    first = {n: (v + rng.normal(0, 0.1, v.shape)).astype(np.float32) for n, v in FORM.first_parameters(1).items()}
    codes = WINDOWS.codes[:2]
    trainer = trainer_of(kernels, parameters=first)

    def exact_loss(parameters):
        scores, looks = FORM.exact(parameters, codes[:, :-1])
        assert looks[0].shape == (2, 1, FORM.length, FORM.length)
        return float(cross_entropy(scores.reshape(-1, FORM.vocabulary), codes[:, 1:].reshape(-1))[0].mean())

    assert trainer.step(codes[:, :-1], codes[:, 1:], rate=0.0) == pytest.approx(exact_loss(first), rel=1e-5)
    for name, gradient in trainer.gradients.items():
        direction = rng.choice([-1.0, 1.0], gradient.shape)
        other = finite_difference(lambda v, name=name: exact_loss(first | {name: v}), first[name], direction)
        mine = float((gradient.astype(float) * direction).sum())
        assert abs(mine - other) <= 1e-5 * np.abs(gradient).sum(), name


@pytest.mark.slow
def test_ctrl_c_loses_nothing(kernels, tmp_path):
    def run(path=None, windows=WINDOWS, **options):
        trainer = trainer_of(kernels)
        history = trainer.fit(windows, checkpoint=path, **options)
        told = [{key: value for key, value in asdict(epoch).items() if key != "seconds"} for epoch in history]
        return told, trainer.session["parameters"].get().tobytes(), trainer.updater.state["m"].get().tobytes()

    def stop(step, loss):
        if step == 6:  # in the second epoch of four steps
            raise KeyboardInterrupt

    path, whole = tmp_path / "run.npz", run()
    with pytest.raises(KeyboardInterrupt):
        run(path, on_step=stop)
    assert run(path) == whole and [epoch["epoch"] for epoch in whole[0]] == [1, 2]
    with pytest.raises(ArgumentError, match=r"belongs to another run .*text: "):
        run(path, windows=Windows(WINDOWS.codes[::-1].copy()))
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ArgumentError, match="is no checkpoint of this version"):
        run(path)


@pytest.mark.slow
def test_a_reader_reads_and_writes(kernels):
    parameters = FORM.first_parameters(3)
    parameters["scores.bias"][5] = 50.0  # whatever it reads, 5 comes next
    reader = Reader(FORM, kernels, batch=2)
    reader.load(parameters)
    exact = FORM.exact(parameters, WINDOWS.codes[:, :-1])[0]
    right = cross_entropy(exact.reshape(-1, FORM.vocabulary), WINDOWS.codes[:, 1:].reshape(-1))[0]
    np.testing.assert_allclose(reader.losses(WINDOWS).reshape(-1), right, atol=1e-4)
    written = reader.write([1, 2], count=2, seed=1)
    assert np.array_equal(written[:, :2], [[1, 2]] * 2) and np.all(written[:, 2:] == 5)
    with pytest.raises(ArgumentError, match="3 texts that begin with 1 characters do not fit"):
        reader.write([1], count=3, seed=1)


# ---------------------------------------------------------------- texts


def test_windows_of_a_text():
    text = "the cat sat on the mat"
    alphabet = Alphabet.of(text)
    assert alphabet.text(alphabet.codes(text)) == text and len(alphabet) == len(set(text))
    windows = Windows.of(text, alphabet, 6)
    assert [alphabet.text(row) for row in windows.codes[:3]] == ["the cat", " cat sa", "t sat o"]
    x, label = windows.drawn(np.array([2, 0]), 0, np.random.default_rng(0))
    assert (alphabet.text(x[0]), alphabet.text(label[0])) == ("t sat ", " sat o") and x.dtype == np.int32
    assert len(Windows.of(text, alphabet, 6, starts=(0, 8, 21))) == 2
    assert windows.about != Windows(windows.codes[::-1].copy()).about
    with pytest.raises(ArgumentError, match="the alphabet has no 'z'"):
        alphabet.codes("zoo")
    with pytest.raises(ArgumentError, match="has no window of 30"):
        Windows.of(text, alphabet, 30)
