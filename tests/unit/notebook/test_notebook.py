"""The notebook side: kernel cells, one's own runs, predictions, experiments."""

from __future__ import annotations

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import warpschool as ws
from warpcourse import experiments
from warpschool.course import Course
from warpschool.device import get_device
from warpschool.harness.launcher import run_kernel
from warpschool.inspect.timing import benchmark_host
from warpschool.notebook import cells, runs
from warpschool.show.page import Shown
from warpschool.show.table import small_table

SAXPY = "lab00_first_kernels/01_saxpy"
TILED = "lab02_tiling/01_tiled"


def solution(step: str) -> str:
    return Course.find().step(step).solution.read_text("utf-8")


@pytest.fixture(autouse=True)
def _no_cells_left():
    cells.forget_all()
    yield
    cells.forget_all()


@pytest.fixture
def shell():
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "warpschool")
    yield shell
    InteractiveShell.clear_instance()


def shown(capsys) -> str:
    captured = capsys.readouterr()
    assert captured.err == "", "nbgrader takes any stderr for a failure"
    return captured.out


# ---------------------------------------------------------------- the magic


def test_kernel_cell_is_remembered_and_compiled(shell, capsys):
    shell.run_cell_magic("kernel", SAXPY, solution(SAXPY))
    assert cells.last_cell(SAXPY) == solution(SAXPY)
    assert "lab00_first_kernels/01_saxpy compiles.\nsaxpy: " in shown(capsys)


def test_kernel_cell_takes_short_names_and_checks(shell, capsys):
    shell.run_cell_magic("kernel", "lab00/01 --check --device sim", solution(SAXPY))
    assert cells.last_cell(SAXPY) == solution(SAXPY)
    assert "AC (accepted)" in shown(capsys)


def test_kernel_cell_shows_errors_under_their_line(shell, capsys):
    broken = solution(SAXPY).replace("if (i < n) {", "if (i < m) {")
    shell.run_cell_magic("kernel", SAXPY, broken)
    said = shown(capsys)
    line = 1 + broken[: broken.index("i < m")].count("\n")
    assert f"01_saxpy.cu:{line}: error" in said and "if (i < m) {" in said and "^" in said
    assert cells.last_cell(SAXPY) == broken, "what is checked must be the cell that was run, not the one before it"


def test_kernel_cell_names_an_unknown_step_and_header_errors(shell, capsys):
    shell.run_cell_magic("kernel", "lab77/01_none", "x")
    assert "there is no step 'lab77/01_none'" in shown(capsys)
    shell.run_cell_magic("kernel", SAXPY, solution(SAXPY).replace("// Launch:", "// Lunch:"))
    assert "Launch" in shown(capsys)


# ---------------------------------------------------------------- running one's own kernel


def test_run_takes_the_last_cell(shell):
    cells.remember(SAXPY, solution(SAXPY))
    x, y = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    run = ws.run(SAXPY, {"n": 5, "a": 2.0}, {"x": x, "y": y}, device="sim")
    assert run.outputs["z"].tolist() == [1, 3, 5, 7, 9]
    cells.remember(SAXPY, solution(SAXPY).replace("a * x[i] + y[i]", "a"))
    assert ws.run(SAXPY, {"n": 5, "a": 2.0}, device="sim").outputs["z"].tolist() == [2] * 5


def test_run_replaces_constants_and_repeats_its_inputs():
    cells.remember(TILED, solution(TILED))
    sizes = {"M": 9, "N": 9, "K": 9}
    first, second = (ws.run(TILED, sizes, constants={"TILE": tile}, device="sim") for tile in (4, 8))
    assert [r.launches[0].threads_per_block for r in (first, second)] == [16, 64]
    np.testing.assert_allclose(first.outputs["C"], second.outputs["C"], rtol=1e-5)


def test_random_inputs_differ_between_arrays_and_seeds():
    plan = runs.program(TILED, device="sim").contract.bind({"M": 4, "N": 4, "K": 4})
    first, again, other = runs.random_inputs(plan), runs.random_inputs(plan), runs.random_inputs(plan, seed=1)
    assert list(first) == ["A", "B"] and first["A"].dtype == np.float32
    assert (first["A"] == again["A"]).all() and (first["A"] != other["A"]).any() and (first["A"] != first["B"]).any()


# ---------------------------------------------------------------- predictions


@pytest.mark.parametrize(
    ("said", "counted", "earned"),
    [(4, 4, 1.0), (4.0, 4, 1.0), (100, 100.5, 1.0), (100, 102, 0.0), (None, None, 0.0), ("a", "a", 1.0), ("4", 4, 0.0)],
)
def test_prediction(said, counted, earned, capsys):
    value = ws.check_prediction(said, counted, what="loads")
    assert type(value) is float and value == earned
    assert shown(capsys).startswith("loads: ")


def test_a_list_of_nothing_is_no_prediction(capsys):
    assert ws.check_prediction([None, None], [2, 4], what="results") == 0.0
    assert "write your prediction first" in shown(capsys)
    assert ws.check_prediction([2, None], [2, 4], what="results") == 0.0
    assert "you said [2, None]" in shown(capsys)


def test_prediction_never_earns_points_for_nothing_counted(capsys):
    assert ws.check_prediction(float("nan"), float("nan")) == 0.0
    assert ws.check_prediction(16, float("nan"), points=3) == 0.0
    assert ws.check_prediction(16, 16, points=3) == 3.0
    assert "counted nan" in shown(capsys)


# ---------------------------------------------------------------- experiments


def test_parts_say_what_the_simulator_cannot_measure():
    cells.remember(SAXPY, solution(SAXPY))
    found = experiments.parts(SAXPY, {"n": 1000, "a": 2.0}, on_cpu=lambda x, y: 2 * x + y, device="sim", repeats=3)
    assert found["copy in, pinned"] == experiments.TimedPart("copy in, pinned", 8000, None)
    assert found["kernel"].nbytes == 12000 and found["copy out"].nbytes == 4000
    assert all(part.time_ms is None for part in found.parts[:-1])
    assert found["the same on the CPU"].time_ms > 0
    assert repr(found).count("not measured") == 7 and "estimate: roofline bound" in repr(found)
    assert '<th scope="row">3 times, copied each time</th>' in found._repr_html_()


def test_the_timed_works_do_what_they_say():
    x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    result = run_kernel(solution(SAXPY), {"n": 4, "a": 2.0}, {"x": x, "y": y}, device="sim")
    bench = experiments._Bench(result, {"x": x, "y": y})
    assert list(bench.works(2)) == [
        part.what for part in experiments.parts(SAXPY, {"n": 4, "a": 2.0}, repeats=2, device="sim").parts
    ]
    for _, work in bench.works(2).values():
        work()
    assert bench.on_device["x"].get().tolist() == x.tolist()
    assert bench.pinned["y"].tolist() == y.tolist()


def test_host_time_waits_for_the_device():
    log = []
    summary = benchmark_host(lambda: log.append("work"), wait=lambda: log.append("wait"))
    assert summary.n >= 5 and summary.min_ms >= 0
    timed = log[2:]  # the first two are the warm-up
    assert timed[:3] == ["wait", "work", "wait"]


def test_gb_per_s_needs_both_numbers():
    assert experiments.TimedPart("x", 2_000_000, 1.0).gb_per_s == pytest.approx(2.0)
    assert experiments.TimedPart("x", None, 1.0).gb_per_s is None
    assert experiments.TimedPart("x", 2, None).gb_per_s is None


def test_sweep_replaces_the_constant(monkeypatch):
    monkeypatch.setattr(experiments, "get_device", lambda which: get_device("sim"))
    cells.remember(TILED, solution(TILED))
    variants = experiments.sweep(TILED, "TILE", [2, 16], {"M": 32, "N": 32, "K": 32}, gpu="rtx2080ti")
    assert [v.value for v in variants] == [2, 16]
    assert [v.counters.global_load_bytes for v in variants] == [8 * 32**3 // 2, 8 * 32**3 // 16]
    assert [round(v.lanes) for v in variants] == [4, 32]
    assert [v.occupancy.fraction for v in variants] == [0.5, 1.0]
    assert all(v.time_ms is None and v.estimate_ms > 0 for v in variants)


# ---------------------------------------------------------------- showing


def test_tables():
    table = small_table(["what", "n"], [["a<b", 5], ["c", 12345]])
    assert table.text() == "what      n\na<b       5\nc     12345"
    assert '<th scope="row">a&lt;b</th><td>5</td>' in table.markup()


def test_shown_text_is_escaped(shell, capsys):
    assert Shown("a < b", "<pre>a &lt; b</pre>")._repr_html_() == "<pre>a &lt; b</pre>"
    ws.check_prediction(1, 2, what="<b>")
    assert "<b>: you said 1" in shown(capsys)
