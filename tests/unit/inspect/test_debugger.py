"""The debugger: what a warp did, line by line, and the commands that look at it."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import warpschool as ws
from warpschool.cli.app import app
from warpschool.errors import ArgumentError, CompileError
from warpschool.inspect.debugger import recording as recording_module
from warpschool.inspect.debugger.pages import evaluate
from warpschool.inspect.debugger.shell import COMMANDS, Debugger

SPLIT = """// split.cu: even lanes go one way, odd ones the other; a neighbour's value comes through shared memory.
// Entry:   split(const float x[n] in, float y[n] out, int n)
// Launch:  split block=(64) grid=(cdiv(n, 64))
constexpr int WIDTH = 64;
__device__ float twice(float value)
{
    const float doubled = value + value;
    return doubled;
}
extern "C" __global__ void split(const float* __restrict__ x, float* __restrict__ y, int n)
{
    __shared__ float tile[2][WIDTH / 2];
    const int i = blockIdx.x * WIDTH + threadIdx.x;
    if (i >= n) {
        return;
    }
    float sum = 0.0f;
    if (i % 2 == 0) {
        sum = twice(x[i]);
    } else {
        sum = -x[i];
    }
    tile[threadIdx.x / 32][threadIdx.x % 32] = sum;
    for (int k = 0; k < 3; ++k) {
        sum += k;
    }
    y[i] = sum;
}
"""
OVERRUN = SPLIT.replace("if (i >= n) {\n        return;\n    }\n    ", "")
FLAT = """// flat.cu: a loop on one line.
// Entry:   flat(int y[32] out, int n)
// Launch:  flat block=(32) grid=(1)
extern "C" __global__ void flat(int* y, int n)
{
    int sum = 0;
    for (int k = 0; k < n; ++k) sum += k * n;
    y[threadIdx.x] = sum;
}
"""
TWO = """// two.cu: the second kernel reads what the first wrote.
// Entry:   first(const float x[n] in, float t[n] out, int n)
// Entry:   second(const float t[n] in, float y[n] out, int n)
// Launch:  first block=(64) grid=(cdiv(n, 64))
// Launch:  second block=(64) grid=(cdiv(n, 64))
extern "C" __global__ void first(const float* x, float* t, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) {
        t[n - 1 - i] = x[i];
    }
}
extern "C" __global__ void second(const float* t, float* y, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    const float seen = i < n ? t[i] : 0.0f;
    y[i] = seen;
}
"""
X = np.arange(100, dtype=np.float32)


@pytest.fixture(scope="module")
def split():
    return ws.trace(SPLIT, {"n": 100}, {"x": X}, block=1, warp=0)


def at_line(recording, line, nth=0):
    return recording.at([n for n, step in enumerate(recording.steps) if step.line == line][nth])


def test_a_warp_that_splits_takes_both_ways(split):
    """Warp 0 of block 1 holds elements 64 to 95: even lanes double, odd ones negate."""
    even, odd = at_line(split, 19), at_line(split, 21)
    assert np.flatnonzero(even.active).tolist() == list(range(0, 32, 2))
    assert np.flatnonzero(odd.active).tolist() == list(range(1, 32, 2))
    after = at_line(split, 23)["sum"]
    numbers = np.arange(64, 96)
    assert after.array.tolist() == np.where(numbers % 2 == 0, 2.0 * numbers, -1.0 * numbers).tolist()
    assert after.defined.all()


def test_waiting_lanes_keep_their_values(split):
    inside = at_line(split, 19)
    assert inside["i"].array.tolist() == list(range(64, 96))
    debugger = Debugger(split)
    debugger.execute(f"goto {inside.number}")
    assert "64  (65)  66  (67)" in " ".join(debugger.execute("print i").text.split()).replace(" ", "  ")


def test_lanes_that_returned_have_no_values(split):
    last = ws.trace(SPLIT, {"n": 100}, {"x": X}, block=1, warp=1)
    moment = at_line(last, 23)
    assert moment.exited.tolist() == [False] * 4 + [True] * 28
    debugger = Debugger(last)
    debugger.execute(f"goto {moment.number}")
    assert debugger.execute("print sum").data["values"][4:] == [None] * 28
    assert "x returned: 4-31" in debugger.execute("lanes").text


def test_a_loop_counts_and_time_runs_backwards(split):
    debugger = Debugger(split)
    assert debugger.execute("break 25 if k == 2").data["times"] == 3
    there = debugger.execute("continue").data
    assert there["line"] == 25
    assert debugger.execute("print k @ 7").text == "k in lane 7 = 2"
    sums = debugger.execute("print sum").data["values"]
    debugger.execute("back")
    assert debugger.execute("step").data == there
    assert debugger.execute("print sum").data["values"] == sums
    assert debugger.execute("reverse").data["step"] == 0
    assert debugger.execute("continue").data == there
    assert "the recording ends" in debugger.execute("continue").text


def test_next_steps_over_functions_and_out_leaves_them(split):
    debugger = Debugger(split)
    debugger.execute("break 19")
    debugger.execute("continue")
    assert debugger.execute("step").data["line"] in (5, 6, 7), "its name is NVRTC's first line, its brace clang's"
    assert "in twice" in debugger.execute("where").text
    debugger.execute("step")
    assert "value" in debugger.execute("locals").text
    assert "there is no 'sum'" in debugger.execute("print sum").text
    back = debugger.execute("out").data["line"]
    assert back in (19, 21)
    debugger.execute("reverse")
    assert debugger.execute("next").data["line"] not in (5, 6, 7, 8)


def test_shared_memory_has_its_declared_shape(split):
    moment = split.at(len(split))
    tile = moment.shared("tile")
    assert tile.shape == (2, 32)
    even = np.arange(0, 32, 2)
    assert tile[0, even].tolist() == (2.0 * (64 + even)).tolist()
    assert np.isnan(at_line(split, 13).shared("tile")).all(), "nothing is written yet"


def test_expressions_over_lanes(split):
    moment = at_line(split, 25)
    numbers = np.arange(64, 96)
    assert evaluate("i * 2 + WIDTH", moment).array.tolist() == (numbers * 2 + 64).tolist()
    assert evaluate("threadIdx.x % 4 == 0 && i < 80", moment).array.sum() == 4
    assert evaluate("tile[0][threadIdx.x]", moment).array.tolist() == evaluate("sum", moment).array.tolist()
    assert evaluate("x[i]", moment).array.tolist() == numbers.tolist()
    assert not evaluate("tile[0][threadIdx.x + 16]", moment).defined[16:].any()
    assert evaluate("blockIdx.x", moment).is_uniform


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("summ", "there is no 'summ'"),
        ("__import__('os')", "only variables"),
        ("tile", "whole array"),
        ("y[i]", "not an input"),
        ("sum +", "no expression"),
        ("i.x", "no member"),
        ("[1, 2]", "only variables"),
    ],
)
def test_what_is_no_expression_says_so(split, text, said):
    with pytest.raises(ArgumentError, match=said.replace("(", r"\(")):
        evaluate(text, at_line(split, 25))


def test_a_loop_on_one_line_is_a_step_an_iteration():
    recording = ws.trace(FLAT, {"n": 5})
    visits = [n for n, step in enumerate(recording.steps) if step.line == 7]
    assert len(visits) == 6  # five times round, and the test that ends it
    sums = [int(recording.at(n + 1)["sum"].array[0]) for n in visits]
    assert sums[-1] == 50
    assert sorted(sums) == sums


def test_the_first_hazard_chooses_block_and_warp():
    recording = ws.trace(OVERRUN, {"n": 100}, {"x": X})
    assert (recording.block, recording.warp) == ((1, 0, 0), 1)
    assert {hazard.kind for hazard in recording.findings} == {"out-of-bounds"}
    assert "! out-of-bounds" in "".join(Debugger(recording).execute(f"goto {n}").text for n in range(len(recording)))


def test_later_launches_see_what_earlier_ones_wrote():
    recording = ws.trace(TWO, {"n": 100}, {"x": X}, launch=1)
    assert recording.kernel == "second"
    assert recording.at(len(recording) - 1)["seen"].array.tolist() == X[::-1][:32].tolist()


def test_without_names_there_are_registers(monkeypatch):
    monkeypatch.setattr(recording_module, "FOR_DEBUGGING", ("--no-such-option",))
    recording = ws.trace(FLAT, {"n": 5})
    assert "PTX registers" in recording.note
    assert any(name.startswith("%r") for name in recording.at(len(recording) - 1).variables)


def test_a_wrong_kernel_fails_as_it_does_elsewhere():
    with pytest.raises(CompileError, match="nonsense"):
        ws.trace(FLAT.replace("k * n", "nonsense"), {"n": 5})


@pytest.mark.parametrize(
    ("options", "said"),
    [({"block": 9}, "no block 9"), ({"warp": 2}, "no warp 2"), ({"launch": 3}, "no launch 3"),
     ({"block": (0, 1)}, "no block"), ({"block": -1}, "no block"), ({"warp": -1}, "no warp")],
)  # fmt: skip
def test_places_that_do_not_exist(options, said):
    with pytest.raises(ArgumentError, match=said):
        ws.trace(SPLIT, {"n": 100}, **options)


def test_every_command_answers(split):
    debugger = Debugger(split)
    for command in COMMANDS:
        for name in command.names:
            assert not debugger.execute(f"help {name}").failed
        for text in (command.names[0], f"{command.names[0]} 3", f"{command.names[0]} nonsense"):
            reply = debugger.execute(text)
            assert reply.text or reply.leave
    assert debugger.execute("stpe").failed
    assert "step" in debugger.execute("stpe").text


def test_an_empty_line_repeats(split):
    debugger = Debugger(split)
    debugger.execute("step 2")
    debugger.execute("")
    assert debugger.number == 4


def test_the_command_line_as_json(tmp_path):
    file = tmp_path / "split.cu"
    file.write_text(SPLIT)
    options = ["debug", str(file), "--size", "n=100", "--block", "1", "--warp", "0", "--json"]
    commands = "break 23; continue; print i; warp 1; goto 3; print i; quit; step"
    result = CliRunner().invoke(app, [*options, "--commands", commands])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    replies = document["replies"]
    assert [reply["command"] for reply in replies] == commands.split("; ")[:-1]
    assert replies[1]["data"]["line"] == 23
    assert replies[2]["data"]["values"] == [str(n) for n in range(64, 96)]
    failing = CliRunner().invoke(app, [*options[:-1], "--commands", "print nothing"])
    assert failing.exit_code == 1
    assert "there is no 'nothing'" in failing.stdout


def test_commands_from_standard_input(tmp_path):
    file = tmp_path / "flat.cu"
    file.write_text(FLAT)
    result = CliRunner().invoke(app, ["debug", str(file), "--size", "n=2"], input="# a comment\nnext\nlanes\nquit\n")
    assert result.exit_code == 0, result.output
    assert "mask 0xffffffff" in result.stdout


def test_the_notebook_display_tells_every_step(split):
    """The script's data put together again is what the recording says; the table needs no script."""
    page = split._repr_html_()
    document = re.search(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    assert document is not None
    steps = json.loads(document[1])["steps"]
    assert [step["line"] for step in steps] == [step.line for step in split.steps]
    state: dict = {}
    for number, step in enumerate(steps):
        state = {name: entry for name, entry in (state | step["set"]).items() if name not in step["gone"]}
        assert set(state) == set(split.at(number).variables)
    assert state["sum"][1][2] == str(2 * 66 + 3)
    table = page[page.index("<details>") :]
    assert "sum += k;" in table
    assert "<button" not in table
    assert page.count("<button") >= 6
