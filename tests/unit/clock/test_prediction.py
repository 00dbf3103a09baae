"""Predicted times: what a user sees, and that the model answers to what it should."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import warpschool as ws
from warpschool.cli.app import app
from warpschool.clock import cubin
from warpschool.clock.prediction import STATES, agreement, predict_time
from warpschool.course import Course
from warpschool.errors import CompilerMissing, WarpschoolError

CHAIN = """\
extern "C" __global__ void chain(float* p, int n) {
    float s = p[threadIdx.x];
#pragma unroll 128
    for (int k = 0; k < n; ++k) s = s * s + 1.0f;
    p[threadIdx.x] = s;
}
"""
COPY = """\
extern "C" __global__ void copy(const float* from, float* to, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i];
}
"""


def _chain(n: int, *, blocks: int = 1, threads: int = 32) -> ws.Launch:
    kernel = ws.RawModule(CHAIN, device="sim", name="chain.cu").get_function("chain")
    array = ws.get_device("sim").zeros((1024,), np.float32)
    return kernel(blocks, threads, (array, n))


def test_a_chain_of_dependent_multiply_adds_takes_their_latency() -> None:
    """Four cycles each on an H200, as its microbenchmark says: the difference of two lengths has nothing else in it."""
    short, long = (predict_time(_chain(n)).launches[0] for n in (4096, 8192))
    assert (long.cycles - short.cycles) / 4096 == pytest.approx(4.0, rel=0.1)
    assert long.states["wait"] > 0.5


def test_more_warps_hide_the_latency_until_the_pipe_is_full() -> None:
    few, some, many = (predict_time(_chain(8192, threads=threads)).launches[0].cycles for threads in (128, 256, 1024))
    assert some == pytest.approx(few, rel=0.1)
    assert 1.6 < many / few < 2.6


def test_a_copy_takes_its_bytes_over_the_bandwidth() -> None:
    n = 1 << 24
    device = ws.get_device("sim")
    arrays = [device.zeros((n,), np.float32) for _ in range(2)]
    kernel = ws.RawModule(COPY, device="sim", name="copy.cu").get_function("copy")
    launch = kernel(-(-n // 256), 256, (*arrays, n), check=False)
    cold, warm = (predict_time(launch, warm=is_warm) for is_warm in (False, True))
    assert cold.us is not None and warm.us is not None
    assert 2 * 4 * n / 4.8e6 <= cold.us <= 2 * 2 * 4 * n / 4.8e6, "between DRAM's peak and half of it"
    assert warm.us <= cold.us
    assert cold.launches[0].states["long scoreboard"] > 0.3


def test_instructions_are_those_that_warps_issue() -> None:
    launch = predict_time(_chain(12_800, blocks=3, threads=64)).launches[0]
    assert launch.instructions == pytest.approx(3 * 2 * 12_800, rel=0.1)


def test_shares_add_up_and_lie_on_lines() -> None:
    found = predict_time(_chain(1280)).launches[0]
    assert sum(found.states.values()) == pytest.approx(1.0)
    assert found.states.keys() <= set(STATES.values())
    assert sum(sum(states.values()) for states in found.lines.values()) == pytest.approx(1.0)
    assert max(found.lines, key=lambda line: sum(found.lines[line].values())) == 4


def test_the_same_every_time() -> None:
    assert predict_time(_chain(1280, blocks=7)) == predict_time(_chain(1280, blocks=7))


def test_what_is_told_has_a_range_and_says_what_it_is() -> None:
    found = predict_time(_chain(100))
    assert found.us is not None and found.low_us is not None and found.high_us is not None
    assert found.low_us < found.us < found.high_us
    assert str(found).startswith("predicted: ") and "H200" in str(found)
    assert "no measurement and never graded" in found.explain()
    assert agreement().launches >= 60


def test_a_gpu_that_nobody_described() -> None:
    with pytest.raises(WarpschoolError, match="no machine called 'h2000'"):
        predict_time(_chain(1), gpu="h2000")


def test_without_the_disassembler_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    cubin.disassembler.cache_clear()
    monkeypatch.setattr(cubin, "_PACKAGE", "no-such-package")
    try:
        with pytest.raises(CompilerMissing, match="disassembler") as caught:
            cubin.disassembler()
    finally:
        cubin.disassembler.cache_clear()
    assert "warpschool[clock]" in caught.value.next_step


def test_the_command_prints_the_sections_of_nsight_compute() -> None:
    run = CliRunner().invoke(app, ["predict", "lab02/01", "-s", "M=256", "-s", "N=256", "-s", "K=256", "--plain"])
    assert run.exit_code == 0, run.output
    for heading in ("GPU Speed Of Light", "Warp State", "Source", "predicted: "):
        assert heading in run.output


def test_profile_for_a_known_machine_has_the_prediction_too() -> None:
    solution = next(Course.find().root.glob("solutions/lab02_tiling/01_*.cu"))
    run = CliRunner().invoke(app, ["profile", str(solution), "--gpu", "h200", "--json"])
    assert run.exit_code == 0, run.output
    document = json.loads(run.stdout)
    assert document["prediction"]["us"] > 0 and document["counters"]["barriers"] > 0


def test_the_command_as_json() -> None:
    run = CliRunner().invoke(app, ["predict", "lab02/01", "--json"])
    assert run.exit_code == 0, run.output
    document = json.loads(run.stdout)
    assert document["us"] > 0 and document["launches"][0]["states"]
