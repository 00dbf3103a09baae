"""What is made of the clock: cycles one by one, other machines, Nsight Compute's tables, tiles by prediction."""

from __future__ import annotations

import csv
import io
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import warpschool as ws
from warpschool.cli.app import app
from warpschool.clock import cubin
from warpschool.clock.machine import find_machine
from warpschool.clock.timeline import issue_timeline
from warpschool.clock.tune import rank_tiles
from warpschool.clock.whatif import KNOBS, what_if
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.errors import ArgumentError
from warpschool.show.issues import issue_exhibit

pytestmark = pytest.mark.skipif(not cubin.has_disassembler(), reason="no nvdisasm: pip install 'warpschool[clock]'")
SIZES = {"M": 512, "N": 512, "K": 256}
TILED = str(Course.find().step("lab02/01").solution)


def test_the_timeline_holds_each_issue_once_and_at_most_one_of_a_scheduler_in_a_cycle() -> None:
    found = issue_timeline(TILED, SIZES, start=2000, cycles=300)
    now = [issue for issue in found.issues if found.start <= issue.cycle < found.end]
    assert now and max(Counter((i.cycle, i.warp % 4) for i in now).values()) == 1
    for warp in range(found.warps):
        own = [issue for issue in found.issues if issue.warp == warp]
        assert all(before.cycle < after.cycle and before.cycle + 1 == after.since
                   for before, after in pairwise(own) if after.since > before.cycle)  # fmt: skip
        assert all(issue.since <= issue.cycle for issue in own)
    assert {issue.line for issue in now} <= set(range(len(Path(TILED).read_text().splitlines()) + 1))
    barriers = [issue for issue in found.issues if issue.state == "barrier"]
    assert barriers, "two barriers a tile: within 300 cycles some warp waited at one"


def test_without_a_start_the_timeline_shows_what_is_rich() -> None:
    found = issue_timeline(TILED, SIZES, cycles=200)
    assert 0 < found.start < found.cycles and found.end - found.start == 200
    assert len({issue.opcode.split(".")[0] for issue in found.issues}) >= 4


def test_the_picture_of_a_timeline_has_its_words_and_steps() -> None:
    found = issue_timeline(TILED, SIZES, start=2000, cycles=90)
    shown = ws.show_timeline(TILED, SIZES, start=2000, cycles=90, scheduler=1)
    assert len(shown.frames) == 4, "the whole, and three pieces of thirty cycles"
    assert "predicted" in shown.title and "no measurement" in shown.note
    assert "issued is" in shown.frames[1].alt and "<script>" in shown.html()
    with pytest.raises(ArgumentError, match="scheduler"):
        issue_exhibit(found, 4)
    for wrong in ({"start": 10**9}, {"cycles": 0}, {"number": 3}):
        with pytest.raises(ArgumentError):
            issue_timeline(TILED, SIZES, **wrong)


def test_a_longer_latency_costs_and_a_changed_clock_costs_in_proportion() -> None:
    alone = {"M": 128, "N": 128, "K": 512}  # a block on each multiprocessor: no other one fills the time
    found = what_if(TILED, alone, l2_latency=["x1", "x4"])
    same, slower = found.speedups()
    assert same == pytest.approx(1.0) and slower is not None and slower < 0.95
    base, halved = (what_if(TILED, SIZES, mhz=mhz).changed[0][1].launches[0] for mhz in ("x1", "x0.5"))
    assert halved.duration_us == pytest.approx(2 * base.duration_us, rel=0.15)


def test_fewer_blocks_at_a_time_show_in_the_table() -> None:
    shown = ws.whatif(TILED, {"M": 1024, "N": 1024, "K": 64}, registers=[32, 128])
    assert "registers 128" in shown.text() and "blocks at a time" in shown.text()
    few, many = (int(row[4]) for row in reversed(shown.sheets[0].rows[1:]))
    assert few < many
    for wrong in ({}, {"l2latency": 3}, {"l2_latency": -1}, {"l2_latency": "fast"}, {"warps": 1},
                  {"l1_latency": [1, 2], "l2_latency": [1, 2, 3]}):  # fmt: skip
        with pytest.raises(ArgumentError):
            ws.whatif(TILED, SIZES, **wrong)
    assert all(knob.meaning for knob in KNOBS.values())


def test_the_csv_is_read_as_that_of_nsight_compute_is() -> None:
    run = CliRunner().invoke(app, ["profile", TILED, "--gpu", "h200", "--csv", "--size", "M=64", "--size", "N=64"])
    assert run.exit_code == 0, run.output
    names, units, row = csv.reader(io.StringIO(run.stdout))
    found = dict(zip(names, row, strict=True))
    assert dict(zip(names, units, strict=True))["gpu__time_duration.sum"] == "ns"
    value = {name: float(text.replace(",", "")) for name, text in found.items() if name[:2] in ("l1", "sm", "gp")}
    assert found["Kernel Name"] == "matmul" and found["CC"] == "9.0" and found["ID"] == "0"
    assert value["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] > 0
    assert 0 < value["gpu__time_duration.sum"] < 1e6
    assert value["smsp__average_warps_issue_stalled_selected_per_issue_active.ratio"] == 1
    both = CliRunner().invoke(app, ["predict", TILED, "--csv", "--json"])
    assert both.exit_code == 2 and "exclude" in both.output


def test_tiles_are_ranked_and_those_that_cannot_be_had_come_last() -> None:
    contract = parse_contract(Path(TILED).read_text(), name="01_tiled.cu")
    done: list[int] = []
    sets = [{"TILE": 8}, {"TILE": 64}, {"TILE": 16}, {"TILE": 32}]
    found = rank_tiles(contract, sets, SIZES, find_machine("h200"), progress=done.append)
    assert done == [1, 2, 3, 4]
    assert [one.us for one in found] == sorted(one.us for one in found)
    assert found[-1].constants == {"TILE": 64} and np.isinf(found[-1].us) and found[-1].problem
    assert all(one.prediction and one.prediction.us for one in found[:3])
    with pytest.raises(ArgumentError):
        rank_tiles(contract, [], SIZES, find_machine("h200"))
