"""What the course promises of lab 11: bytes, fixed orders, weights that read digits; the notebook's tools."""

from __future__ import annotations

import math
from unittest.mock import MagicMock

import numpy as np
import pytest

from warpcourse import curves
from warpcourse.lab11_training import lab
from warpcourse.lab11_training.lab import NETWORKS, RECIPE, training_network
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.harness.launcher import Program, RunResult, random_inputs
from warpschool.nn import digits
from warpschool.nn.session import Kernels
from warpschool.nn.training import Epoch, Trainer

COURSE = Course.find()
CONVOLUTION = {"BATCH": 12, "C": 1, "H": 28, "W": 28, "F": 6, "R": 5, "S": 5, "STRIDE": 1, "PAD": 2}


def run(idea: str, sizes: dict[str, float]) -> RunResult:
    found = COURSE.step(f"lab11_training/{idea}")
    contract = parse_contract(found.solution.read_text("utf-8"), name=found.file_name)
    result = Program(contract, device="sim").run(sizes, random_inputs(contract.bind(sizes)))
    assert result.hazards == () and result.overwritten == ()
    return result


@pytest.mark.parametrize(("idea", "floats"), [("06_sgd_momentum", 5), ("07_adam", 7)])
def test_bytes_of_a_step(idea, floats):
    counters = run(idea, lab.SCALARS[idea]).counters
    assert counters.global_load_bytes + counters.global_store_bytes == 4 * floats * 4096
    assert counters.excess_sectors == 0


def test_pooling_notes_half_a_byte_for_each_window():
    noted = run("08_bias_relu_pool", {"BATCH": 1, "C": 32, "H": 24, "W": 24}).outputs["saved"]
    assert noted.nbytes == 32 * 12 * 12 / 2


def test_long_sums_have_a_fixed_order_and_no_atomics():
    first, again = (run("05_conv_backward_filter", CONVOLUTION) for _ in range(2))
    assert first.outputs["dw"].tobytes() == again.outputs["dw"].tobytes()
    assert first.counters.global_atomic_requests == first.counters.global_reduction_requests == 0


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.thinned(2)
def test_shipped_weights_fit_the_network_and_read_digits(network):
    """A hundred test digits; lab 10 reads all thousand."""
    stored = digits.weights(network)
    trainer = Trainer(training_network(network, "sim"), Kernels(device="sim"), RECIPE, parameters=stored)
    test = digits.load().test
    few = digits.Split(test.images[:100], test.labels[:100])
    assert {name: v.shape for name, v in trainer.parameters.items()} == {name: v.shape for name, v in stored.items()}
    assert trainer.accuracy(few) >= 0.95


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.thinned(2)
def test_recorded_accuracy_is_that_of_the_shipped_weights(network):
    """All 1,000 test digits, in float64."""
    row = next(row for row in lab._recorded(COURSE)["weights"] if row["network"] == network)
    stored, test = digits.weights(network), digits.load().test
    layers = training_network(network, "sim")
    parts = (test.pixels()[first : first + 250] for first in range(0, 1000, 250))
    found = [lab.scores(layers, stored, part).argmax(1) for part in parts]
    assert (np.concatenate(found) == test.labels).mean() == row["accuracy"] >= 0.97
    assert sum(values.size for values in stored.values()) == row["parameters"]


def test_recorded_training():
    found = lab._recorded(COURSE)
    if not found:
        pytest.skip("no recorded times in benchmarks/results")
    assert {row["network"] for row in found["weights"]} == set(NETWORKS)
    for row in found["weights"]:
        assert row["accuracy"] >= 0.97 and row["settings"]["seed"] == RECIPE.seed
        assert len(row["history"]) == row["settings"]["epochs"] == RECIPE.epochs
    table = lab.recorded()
    assert len(table.rows) == 2 and "of PyTorch's time" in table.note


# ---------------------------------------------------------------- the notebook's tools


def test_pictures(tmp_path):
    losses = list(np.linspace(2.3, 0.5, 30))
    axes = curves.draw_losses(losses, lab.GUESSING, steps=60).axes[0]
    assert axes.get_xlim()[1] == 60 and len(axes.lines) == 3
    rows = [{"network": "a", "batch": b, "accuracy": 0.9, "images_per_second": 1e5 * b} for b in (16, 64)]
    left, right = lab.draw_batches(rows).axes
    assert list(left.lines[0].get_ydata()) == [90, 90] and list(right.lines[0].get_xdata()) == [16, 64]
    assert lab.draw_batches([]).axes[0].texts


def test_the_curve_grows_in_one_place(monkeypatch):
    shown = []

    class Handle:
        def update(self, figure):
            shown.append(len(figure.axes[0].lines[0].get_ydata()))

    def display(figure, *, display_id):
        assert display_id
        shown.append(-1)
        return Handle()

    monkeypatch.setattr("IPython.get_ipython", MagicMock)
    monkeypatch.setattr("IPython.display.display", display)
    curve = curves.LiveCurve(20, seconds=0)
    for step in range(1, 4):
        curve(step, 2.0 / step)
    assert shown == [-1, 2, 3] and curve.losses == [2.0, 1.0, 2.0 / 3]


def test_tables_say_what_was_seen():
    epoch = Epoch(epoch=1, loss=1.25, accuracy=0.875, rate=0.05, seconds=2.0)
    done = lab.TinyRun([2.0] * 10 + [0.5] * 10, [epoch], seconds=3.0)
    assert done.left == 0.25 and done.table().rows == ((1, "1.2500", "0.0500", "2.0"),)
    assert "0.25 of the first losses is left" in repr(done.table())
    stopped = lab.TinyRun([2.0], stopped="a race")
    idle = lab.TinyRun([2.3] * 20, seconds=3.0)
    assert "more than 0.50" in idle.table().note
    assert math.isnan(stopped.left) and stopped.table().note == "a race"
    empty = lab.recorded(course=Course(COURSE.root / "docs"))
    assert empty.rows == () and "Nothing recorded" in empty.note


@pytest.mark.slow
def test_a_tiny_run_learns_on_the_simulator(simulated):
    kernels = Kernels(device="sim")
    begun = lab.tiny_run(kernels, epochs=1, checked=True)
    assert len(begun.losses) == 20 and not begun.is_whole and "something is wrong" not in begun.table().note
    done = lab.go_on(begun)
    assert simulated.lines <= 120_000 and simulated.steps <= 4_000_000
    assert len(done.losses) == 60 and done.left <= lab.FALLS_TO
    assert [epoch.epoch for epoch in done.history] == [1, 2, 3]
    assert lab.go_on(done).losses == done.losses
    assert {row[-1] for row in lab.gradient_table(kernels).rows} == {"yes"}


@pytest.mark.slow
def test_a_tiny_run_says_which_kernel_fails():
    step = COURSE.step("lab11_training/01_cross_entropy_backward")
    done = lab.tiny_run(Kernels({step.name: step.starter}, device="sim"))
    assert "step 1" in done.stopped and len(done.losses) <= 1
