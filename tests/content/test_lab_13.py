"""What the course promises of lab 13: saved transforms, one pass over weights, tables, recorded speed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from warpcourse.lab13_vgg16 import lab
from warpcourse.lab13_vgg16.lab import TIMES_MS
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.harness.launcher import Program, RunResult, random_inputs
from warpschool.nn.session import Kernels

COURSE = Course.find()
RECORDED = COURSE.root / "benchmarks" / "results" / "networks_vgg_h200.json"
SMALL = {"TSC": 16, "TSF": 32, "WSC": 16, "WSF": 32, "WPTC": 4, "WPTF": 4}


def run(idea: str, sizes: dict[str, int], **constants: int) -> RunResult:
    found = COURSE.step(f"lab13_vgg16/{idea}")
    contract = parse_contract(found.solution.read_text("utf-8"), name=found.file_name)
    inputs = random_inputs(contract.bind(sizes, constants=constants))
    result = Program(contract, device="sim", constants=constants).run(sizes, inputs)
    assert result.hazards == () and result.overwritten == ()
    return result


def test_parts_change_last_bits_only_and_are_the_same_in_every_run():
    sizes = {"C": 16, "F": 32, "P": 64}
    whole, parts, again = (run("02_winograd_backward_filter", sizes, SHORTEST=n, **SMALL) for n in (512, 16, 16))
    assert parts.outputs["dw"].tobytes() == again.outputs["dw"].tobytes() != whole.outputs["dw"].tobytes()
    assert np.allclose(parts.outputs["dw"], whole.outputs["dw"], atol=1e-4)
    assert parts.counters.shared_bank_conflicts == 0


def test_a_choice_costs_a_byte_for_each_window():
    sizes = {"BATCH": 1, "F": 4, "OH": 16, "OW": 32}
    assert run("06_saved_choices", sizes).counters.global_store_bytes == 5 * 4 * 8 * 16


@pytest.mark.slow
def test_the_notebooks_network_has_right_gradients_and_learns():
    step, x, label = lab.small_step(Kernels(device="sim"))
    scores = lab.score_table(step, x, label)
    assert len(scores.rows) == 2 and max(float(row[-1]) for row in scores.rows) < 1e-4
    table = lab.gradient_table(step, x, label)
    assert len(table.rows) == 16 and max(float(error) for row in table.rows for error in row[2:]) < 1e-3
    assert "Hazards: 0" in table.note
    losses = lab.train(step, x, label)
    assert losses[-1] < 0.9 * losses[0]


def test_recorded_speed():
    if not RECORDED.exists():
        pytest.skip("no recorded times in benchmarks/results")
    result = json.loads(RECORDED.read_text("utf-8"))
    assert result["summary"]["inference"] <= 0.50 and result["summary"]["training step"] <= 0.65
    assert result["errors"]["loss"] < 1e-4 and not result["tf32"]


def test_tables_of_the_thesis():
    if not RECORDED.exists():
        pytest.skip("no recorded times in benchmarks/results")
    tables = lab.tables()
    assert [len(table.rows) for table in tables][:2] == [14, 4]
    assert len(tables[3].rows) == 17 and tables[3].rows[-1][0] == "total"
    assert "Table 11" in tables[4].note and len(tables[4].rows[0]) == 8
    assert tables[0].rows[1][-2:] == ("16.65", "-8 %") and tables[3].rows[0][-1] == "-66 %"
    forward = list(TIMES_MS[7].values())
    assert sum(own for _, own in forward[:-1]) == pytest.approx(forward[-1][1], abs=0.01)  # copied without a slip
    with pytest.raises(KeyError):
        lab.recorded(12)
