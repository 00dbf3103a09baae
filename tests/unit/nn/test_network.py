"""Networks: digits, one arena, graphs of calls, and layers whose kernels are passed in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import warpschool as ws
from ptxsim.run import engine
from warpschool.course import Course
from warpschool.errors import ArgumentError, CompileError, SimulationError
from warpschool.nn.digits import load, weights
from warpschool.nn.graph import ALIGN_BYTES, Arena, Graph, Lifetime, lifetimes, plan
from warpschool.nn.layers import (
    Argmax,
    AveragePool,
    BiasRelu,
    Convolve,
    ConvolvePool,
    FullyConnected,
    MaxPool,
    WinogradPool,
)
from warpschool.nn.network import Network, build, digits_layers, lenet5_layers
from warpschool.nn.references import convolve
from warpschool.nn.session import Kernels, Session
from warpschool.show.progress import progress


@pytest.fixture(scope="module")
def kernels():
    return Kernels(device="sim")


def parameters_of(layers, shape, seed=1):
    rng = np.random.default_rng(seed)
    return {
        name: rng.uniform(-1, 1, value.shape).astype(np.float32)
        for name, value in build(layers, 1, shape).parameters.items()
    }


def mean_pool(y):
    batch, channels, height, width = y.shape
    whole = y[:, :, : height // 2 * 2, : width // 2 * 2]
    return whole.reshape(batch, channels, height // 2, 2, width // 2, 2).mean(axis=(3, 5))


# ---------------------------------------------------------------- digits


def test_digits_are_split_evenly_and_fixed():
    digits = load()
    assert (len(digits.train), len(digits.test)) == (4000, 1000)
    assert set(np.bincount(digits.train.labels)) == {400} and set(np.bincount(digits.test.labels)) == {100}
    x = digits.test.pixels()
    assert x.shape == (1000, 1, 28, 28) and x.dtype == np.float32 and (x.min(), x.max()) == (0, 1)
    together = np.concatenate([digits.train.images, digits.test.images]).reshape(5000, -1)
    assert len(np.unique(together, axis=0)) == 5000
    with pytest.raises(ValueError, match="read-only"):
        digits.test.images[0] = 0


def test_weights_of_an_unknown_network_are_refused():
    with pytest.raises(ArgumentError, match="no trained weights"):
        weights("alexnet")


# ---------------------------------------------------------------- the arena


def test_arrays_that_meet_do_not_overlap_and_all_are_aligned():
    rng = np.random.default_rng(3)
    wanted = []
    for i in range(60):
        first = int(rng.integers(0, 20))
        wanted.append(Lifetime(str(i), int(rng.integers(1, 5000)), first, first + int(rng.integers(0, 6))))
    layout = plan(wanted)
    for a in wanted:
        assert layout.offsets[a.name] % ALIGN_BYTES == 0
        assert layout.offsets[a.name] + a.nbytes <= layout.nbytes
        for b in wanted:
            if a is not b and a.meets(b):
                start, other = layout.offsets[a.name], layout.offsets[b.name]
                assert start + a.nbytes <= other or other + b.nbytes <= start
    assert layout.least_bytes <= layout.nbytes < layout.separate_bytes


def test_a_chain_of_layers_needs_two_places():
    layout = plan([Lifetime(str(i), 1024, i, i + 1) for i in range(10)])
    assert layout.nbytes == layout.least_bytes == 2048 and layout.separate_bytes == 10240


def test_views_of_one_allocation():
    device = ws.get_device("sim")
    arena = Arena(device, plan([Lifetime("a", 12, 0, 1), Lifetime("b", 300, 1, 2)]))
    a, b = arena.array("a", (3,), np.float32), arena.array("b", (3, 50), np.float16)
    a.set(np.arange(3, dtype=np.float32))
    b.set(np.ones((3, 50), np.float16))
    assert a.get().tolist() == [0, 1, 2] and abs(a.address - b.address) % ALIGN_BYTES == 0
    with pytest.raises(ArgumentError, match="no array 'c'"):
        arena.array("c", (1,), np.float32)


# ---------------------------------------------------------------- graphs


def test_an_array_is_kept_until_its_last_call():
    graph = Graph()
    x = graph.input("x", (4,))
    y, z = graph.array("y", (4,)), graph.array("z", (4,))
    for source, target in ((x, y), (y, z)):
        graph.call("lab10_lenet/01_relu", {}, {"x": source, "y": target})
    found = {span.name: (span.first, span.last) for span in lifetimes(graph)}
    assert found == {"x": (0, 2), "y": (0, 1), "z": (1, 1)}
    graph.call("lab10_lenet/01_relu", {}, {"x": z, "bias": y, "y": graph.array("w", (4,))})
    assert {span.name: span.last for span in lifetimes(graph)}["y"] == 2


def test_what_does_not_belong_is_refused():
    graph = Graph()
    x = graph.input("x", (4, 3))
    with pytest.raises(ArgumentError, match="already"):
        graph.array("x", (4,))
    with pytest.raises(ArgumentError, match="no array of this graph"):
        graph.call("lab10_lenet/01_relu", {}, {"x": Graph().array("q", (1,))})
    with pytest.raises(ArgumentError, match="no array of this graph"):
        graph.call("lab10_lenet/01_relu", {}, {"x": replace(x, first=1)})


# ---------------------------------------------------------------- layers and networks

STAGE = (3, 12, 9)


@pytest.mark.parametrize(
    "layers",
    [
        (Convolve(name="c", filters=5, size=5, pad=2), BiasRelu(name="r", of="c"), AveragePool(name="p")),
        (Convolve(name="c", filters=5, size=5, pad=2), AveragePool(name="p", of="c")),
        (ConvolvePool(name="c", filters=5, size=5, pad=2),),
        (WinogradPool(name="c", filters=5, size=5, pad=2),),
    ],
    ids=["plain", "pooled", "fused", "winograd"],
)
@pytest.mark.thinned(2)
def test_every_form_of_a_stage_gives_the_same(kernels, layers):
    given = parameters_of(layers, STAGE)
    x = np.random.default_rng(2).uniform(-1, 1, (3, *STAGE)).astype(np.float32)
    expected = mean_pool(np.maximum(convolve(x, given["c.weight"], pad=2) + given["c.bias"][:, None, None], 0))
    network = Network(layers, kernels, parameters=given, image_shape=STAGE)
    for guarded in (True, False):
        session = Session(build(layers, 3, STAGE), kernels, guarded=guarded)
        session.load(given)
        for _ in range(2):  # the second run repeats launches
            session["x"].set(x)
            session.run()
            assert not np.abs(session[network.result].get() - expected).max() > 1e-4
            assert session.hazards == ()


def test_the_largest_of_windows_and_a_row_of_features(kernels):
    layers = (MaxPool(name="p"), FullyConnected(name="f", outputs=7), Argmax())
    given = parameters_of(layers, (2, 7, 6))
    x = np.random.default_rng(2).uniform(-1, 1, (5, 2, 7, 6)).astype(np.float32)
    pooled = x[:, :, :6].reshape(5, 2, 3, 2, 3, 2).max(axis=(3, 5)).reshape(5, -1)
    expected = (pooled.astype(np.float64) @ given["f.weight"] + given["f.bias"]).argmax(1)
    network = Network(layers, kernels, parameters=given, image_shape=(2, 7, 6))
    assert (network.classify(x, batch=2) == expected).all()  # 2, 2 and 1 images


def test_parameters_must_be_the_networks_own(kernels):
    layers = (FullyConnected(name="f", outputs=2),)
    with pytest.raises(ArgumentError, match=r"missing: f\.bias; unknown: g"):
        Network(layers, kernels, parameters={"f.weight": np.ones((4, 2)), "g": 1}, image_shape=(4,)).session(1)
    with pytest.raises(ArgumentError, match=r"f\.weight has shape \[2, 4\]"):
        given = {"f.weight": np.ones((2, 4)), "f.bias": np.ones(2)}
        Network(layers, kernels, parameters=given, image_shape=(4,)).session(1)


def test_ones_own_kernel_runs_and_is_named():
    step = Course.find().step("lab10_lenet/01_relu")
    own = step.solution.read_text().replace("fmaxf(x[i] + bias[c], 0.0f)", "7.0f")
    layers = (BiasRelu(name="r", of="c"),)
    network = Network(
        layers, Kernels({"lab10/01": own}, device="sim"), parameters={"c.bias": np.ones(2)}, image_shape=(2, 3, 3)
    )
    assert (network.classify(np.zeros((1, 2, 3, 3), np.float32)) == 7).all()
    assert [origin.whose for origin in network.table()] == ["yours"]


def test_a_kernel_that_runs_off_its_array_is_refused():
    own = Course.find().step("lab10_lenet/01_relu").solution.read_text().replace("if (i < BATCH * C * P) {", "{")
    layers = (BiasRelu(name="r", of="c"),)
    kernels = Kernels({"lab10_lenet/01_relu": own}, device="sim")
    network = Network(layers, kernels, parameters={"c.bias": np.ones(1)}, image_shape=(1, 3, 3))
    with pytest.raises(SimulationError, match="layer r"):
        network.classify(np.zeros((1, 1, 3, 3), np.float32))


def test_architectures():
    shapes = {name: value.shape for name, value in build(digits_layers("plain"), 1).parameters.items()}
    assert shapes == {
        "conv1.weight": (32, 1, 5, 5), "conv1.bias": (32,), "conv2.weight": (64, 32, 5, 5), "conv2.bias": (64,),
        "fc1.weight": (1024, 128), "fc1.bias": (128,), "fc2.weight": (128, 10), "fc2.bias": (10,),
    }  # fmt: skip
    sizes = [math_prod(value.shape) for value in build(lenet5_layers(), 1).parameters.values()]
    assert sum(sizes) == 61_706  # as the paper's network with whole connections
    with pytest.raises(ArgumentError, match="no form"):
        digits_layers("folded")


def math_prod(shape):
    return int(np.prod(shape))


# ---------------------------------------------------------------- preparation

SMALL = (Convolve(name="c", filters=3, size=3), BiasRelu(name="r", of="c"), AveragePool(name="p"))


@pytest.mark.slow
def test_kernels_are_translated_before_they_run_once_each(monkeypatch):
    made = []
    translate = engine.translate
    monkeypatch.setattr(engine, "translate", lambda *a, **k: made.append(a[2]) or translate(*a, **k))
    heard = []
    session = Session(build(SMALL, 2, (1, 9, 9)), Kernels(device="sim"))
    session.load(parameters_of(SMALL, (1, 9, 9)))
    session["x"].set(np.ones((2, 1, 9, 9), np.float32))
    session.prepare(relaxed=True, told=lambda done, total: heard.append((done, total)))
    session.run()
    session.relax()
    session.run()
    assert len(made) == 6 and [o.check for o in made].count(True) == 3  # three kernels: checked, then relaxed
    assert heard[-1] == (6, 6) and [done for done, _ in heard] == sorted(done for done, _ in heard)


def test_what_is_wrong_with_a_kernel_is_said_where_it_is_launched():
    broken = Course.find().step("lab10_lenet/01_relu").solution.read_text("utf-8").replace("fmaxf(", "fmaxg(")
    network = Network(
        SMALL, Kernels({"lab10_lenet/01_relu": broken}, device="sim"), parameters=parameters_of(SMALL, (1, 9, 9)),
        image_shape=(1, 9, 9),
    )  # fmt: skip
    with pytest.raises(CompileError, match="fmaxg"):
        network.classify(np.zeros((2, 1, 9, 9), np.float32))


def test_a_bar_tells_of_kernels_and_images(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, as far as rich is concerned
    with progress(200, "reading", unit="images", shown=True) as bar:
        bar.beside("compiling", 3, 9, unit="kernels")
        bar.advance(100)
    said = capsys.readouterr().out
    assert "compiling" in said and "3/9" in said and "100/200" in said
    with progress(200, "reading", unit="images", shown=False) as bar:
        bar.beside("compiling", 3, 9, unit="kernels")
        bar.advance(100)
    assert capsys.readouterr().out == ""
