"""Lab 10: networks on real digits, what each layer moves, streams by the model, and what was recorded on a GPU."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

from warpcourse.lab10_lenet import lab
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.errors import ArgumentError
from warpschool.harness.launcher import Program
from warpschool.nn import convolve, references
from warpschool.nn.digits import load, weights
from warpschool.nn.layers import half_digits_layers, half_parameters
from warpschool.nn.network import FORMS, Network, build, digits_layers, lenet5_layers
from warpschool.nn.session import Kernels, Session
from warpschool.nn.streams import ENGINES, StreamTimeline, TimedWork, Work, classify_in_parts, schedule

COURSE = Course.find()


def program(idea, **constants):
    step = COURSE.step(f"lab10_lenet/{idea}")
    contract = parse_contract(step.solution.read_text("utf-8"), name=step.file_name)
    return Program(contract, device="sim", constants=constants)


@cache
def kernels():
    return Kernels(device="sim")


def network(form, **options):
    layers = lenet5_layers() if form == "lenet5" else digits_layers(form)
    parameters = weights("lenet5" if form == "lenet5" else "digits")
    return Network(layers, kernels(), parameters=parameters, **options)


# ---------------------------------------------------------------- networks


@pytest.mark.slow
def test_a_thousand_digits():
    digits = load().test
    assert (network("winograd").classify(digits.pixels()) == digits.labels).mean() >= 0.97


def test_labels_by_heart_read_nothing(monkeypatch):
    class ByHeart:
        def classify(self, pixels, *, progress):
            return load().test.labels[: len(pixels)]

    monkeypatch.setattr(lab, "network", lambda form, kernels: ByHeart())
    assert lab.read_digits("fused", device="sim").accuracy < 0.2


MOST_SIMULATED = {"fused": (330_000, 1_150_000), "winograd": (420_000, 250_000), "lenet5": (250_000, 550_000)}
"""Lines of LLVM text and steps that a thousand digits may take in each form; they take a tenth to a quarter less."""


@pytest.mark.slow
@pytest.mark.parametrize("form", MOST_SIMULATED)
def test_a_thousand_digits_take_little_of_the_simulator(form, simulated):
    """Ten seconds of two cores: benchmarks/simulator_networks.py measures them."""
    layers = lenet5_layers() if form == "lenet5" else digits_layers(form)
    fresh = Network(layers, Kernels(device="sim"), parameters=weights("lenet5" if form == "lenet5" else "digits"))
    fresh.classify(load().test.pixels())
    lines, steps = MOST_SIMULATED[form]
    assert simulated.lines <= lines and simulated.steps <= steps, "kernels translated and checked, 1,000 digits read"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["plain", "pooled", "fused", "lenet5"])
def test_every_form_reads_digits(form):
    digits = load().test
    found = network(form).classify(digits.pixels())
    assert (found == digits.labels).mean() >= 0.97
    if form != "lenet5":
        assert (found == network("winograd").classify(digits.pixels())).mean() >= 0.999


@pytest.mark.slow
def test_half_precision_reads_the_same_digits():
    x = load().test.pixels()[:200]
    half = Network(
        half_digits_layers(), Kernels(device="sim"), parameters=half_parameters(weights("digits")),
        image_shape=(28, 28), dtype=np.float16,
    )  # fmt: skip
    assert (half.classify(x[:, 0]) == network("winograd").classify(x)).mean() >= 0.99


def test_shipped_weights_are_small_and_the_networks_own():
    for name, layers in (("digits", digits_layers("plain")), ("lenet5", lenet5_layers())):
        assert sum(array.nbytes for array in weights(name).values()) < 2 << 20
        Network(layers, kernels(), parameters=weights(name)).session(1)


# ---------------------------------------------------------------- kernels


@pytest.mark.parametrize(
    "constants", [{"FILTER": 3, "IMAGES": 3, "SETS": 2}, {"FILTER": 2, "FPT": 4, "GROUPS": 2}, {"FILTER": 4, "SETS": 3}]
)
def test_fused_stage_for_other_filters_and_shapes(constants):
    rng = np.random.default_rng(1)
    edge = constants["FILTER"]
    x = rng.uniform(-1, 1, (7, 3, 13, 12)).astype(np.float32)
    w, bias = rng.uniform(-1, 1, (9, 3, edge, edge)).astype(np.float32), rng.uniform(-1, 1, 9).astype(np.float32)
    run = program("09_conv_relu_pool", **constants).run({"PAD": 1}, {"x": x, "w": w, "bias": bias})
    expected = references.mean_pool(references.bias_relu(convolve(x, w, pad=1), bias))
    assert run.hazards == () and not np.abs(run.outputs["y"] - expected).max() > 1e-5


def test_a_fused_stage_moves_a_fraction_of_the_bytes():
    moved = {}
    for form, layers in (("plain", digits_layers("plain")[1:3]), ("pooled", digits_layers("pooled")[1:2])):
        graph = build(layers, 4, (32, 24, 24))
        session = Session(graph, kernels())
        session["x"].fill(1)
        session.load({name: np.ones(value.shape) for name, value in graph.parameters.items()})
        session.run()
        moved[form] = (session.counters.global_load_bytes + session.counters.global_store_bytes) / 4
    results = 4 * 32 * 24 * 24  # bytes that the fused stage keeps in registers
    assert len(digits_layers("fused")) == len(digits_layers("pooled")) - 2
    assert results < moved["pooled"] < 1.6 * results < 3.2 * results < moved["plain"]


# ---------------------------------------------------------------- streams


def in_turns(parts, streams):
    return [(engine, part, part % streams) for part in range(parts) for engine in ENGINES]


def test_engines_overlap_only_across_streams():
    ms = dict.fromkeys(ENGINES, 1.0)
    assert schedule(in_turns(8, 1), ms).total_ms == 24 and schedule(in_turns(8, 1), ms).overlapped_ms == 0
    assert schedule(in_turns(8, 3), ms).total_ms == 10 and schedule(in_turns(8, 3), ms).overlapped_ms == 8
    engine_by_engine = [(engine, part, part % 2) for engine in ENGINES for part in range(8)]
    assert schedule(engine_by_engine, ms).total_ms > schedule(in_turns(8, 2), ms).total_ms
    assert schedule(in_turns(6, 2), {"copy in": 1, "kernels": 3, "copy out": 1}).total_ms == 20


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ([], "nothing"),
        ([("copy", 0, 0)], "no engine 'copy'"),
        ([("copy in", 0, 0), ("copy out", 0, 0), ("kernels", 0, 0)], "part 0 was enqueued as"),
        ([("copy in", 0, 0), ("kernels", 0, 1), ("copy out", 0, 0)], "several streams"),
    ],
)
def test_impossible_orders_are_refused(order, said):
    with pytest.raises(ArgumentError, match=said):
        schedule(order, dict.fromkeys(ENGINES, 1.0))


def test_exercise_scores_nothing_for_what_cannot_be_done():
    assert lab.total_of(in_turns, 8, 3) == 10
    for wrong in (lambda p, s: [], lambda p, s: None, lambda p, s: in_turns(p - 1, s), lambda p, s: in_turns(p, s + 1)):
        assert np.isnan(lab.total_of(wrong, 8, 3))


@pytest.mark.slow
def test_parts_in_streams_give_the_same_classes_and_no_invented_times():
    x = load().test.pixels()[:60]
    net = network("winograd", check=False, count=False)
    done = classify_in_parts(net, x, parts=3, streams=2)
    assert (done.labels == net.classify(x)).all() and done.timeline is None
    with pytest.raises(ArgumentError, match="60 images in 7 parts"):
        classify_in_parts(net, x, parts=7, streams=2)


def test_pictures_say_what_was_not_recorded():
    times = {"copy in": (0, 2), "kernels": (1, 4), "copy out": (3, 5)}
    done = tuple(TimedWork(Work(engine, 0, 0), *times[engine]) for engine in ENGINES)
    timeline = StreamTimeline(done, recorded=True)
    assert timeline.overlapped_ms == 2 and timeline.total_ms == 5
    figure = lab.draw_timeline({"none": None, "some": timeline})
    assert "SKIP" in figure.axes[0].texts[0].get_text() and "5 in all" in figure.axes[1].get_title()
    pictures = lab.draw_digits(load().test.images[:2], [3, 4], [3, 9])
    assert [axes.get_title() for axes in pictures.axes] == ["3", "4 (9)"]


# ---------------------------------------------------------------- recorded on a GPU


def test_the_notebook_shows_what_was_recorded():
    forms, layouts, streams = lab.tables()
    assert {row[0] for row in forms.rows} == set(FORMS) and "H200" in forms.note
    assert len(layouts.rows) == 3 and {row[0] for row in streams.rows} == {"pageable", "pinned"}
    lines = lab.fastest()
    assert len(lines) == 3 and all(line.recorded for line in lines.values())
    assert lines[next(title for title in lines if "1 part," in title)].overlapped_ms == 0
    assert sum(line.overlapped_ms > 0 for line in lines.values()) == 2
    assert len(lab.draw_timeline(lines).axes) == 3
    table = lab.layers_table("plain", kernels=kernels(), images=2)
    report = [name for name in lab.REPORT_MS if name in {row[0] for row in table.rows}]
    assert report == list(lab.REPORT_MS) and "ms, NVIDIA H200" in table.head
    nothing = Course(COURSE.root / "docs")
    assert [table.rows for table in lab.tables(course=nothing)] == [(), (), ()]
    assert lab.fastest(course=nothing) == {}


def test_recorded_networks_are_fast():
    found = json.loads((COURSE.root / "benchmarks" / "results" / "networks_h200.json").read_text("utf-8"))["digits"]
    best = {(row["precision"], row["reference"]): row for row in found["rows"] if row["form"] in ("winograd", "fused")}
    single, half = best["float32", "PyTorch eager"], best["float16", "PyTorch eager"]
    assert single["ratio"] <= 0.55 and half["ratio"] <= 0.30
    assert best["float32", "torch.compile"]["ratio"] < 1 and best["float16", "torch.compile"]["ratio"] < 1
    trained = json.loads((COURSE.root / "benchmarks" / "results" / "training_h200.json").read_text("utf-8"))["weights"]
    (accuracy,) = (row["accuracy"] for row in trained if row["network"] == "digits")
    assert {row["accuracy"] for row in found["rows"] if row["precision"] == "float32"} == {accuracy}
    assert min(row["accuracy"] for row in found["rows"]) >= 0.97
