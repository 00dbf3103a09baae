"""Limits of processor time where a processor is emulated."""

import json
from pathlib import Path

import pytest

import warpschool.compile.compiler as compiler
from ptxsim.system import pace
from warpschool.compile import CompileLimits, compile_cuda
from warpschool.errors import CompileLimitError
from warpschool.grading.limits import Limits
from warpschool.grading.program_build import confined_command


@pytest.fixture
def machine(monkeypatch):
    """Pretends that the work took so many seconds of processor time, each time that it was measured."""

    def is_slow(*seconds):
        left = iter(seconds)
        monkeypatch.setattr(pace, "_slowness", [])
        monkeypatch.setattr(pace, "_work_s", lambda: next(left))

    return is_slow


def test_a_machine_is_slow_only_where_all_measurements_say_so(machine):
    machine(0.9, 0.004, 0.5, 0.0039, 0.2)
    assert pace.slowness() == 1.0
    machine(0.9, 0.014, 0.5, 0.012, 0.2)
    assert pace.slowness() == pytest.approx(12)
    assert pace.slowness() == pytest.approx(12), "measured once: there are no more measurements"


def test_a_clock_that_hardly_ticks_makes_no_machine_slow(machine):
    machine(0.0, 0.0156, 0.0, 0.0, 0.0156)
    assert pace.slowness() == 1.0


def test_the_work_is_done():
    assert 0 < pace._work_s() < 60


def test_every_limit_of_processor_time_is_longer_and_no_other(machine, monkeypatch):
    machine(*[0.012] * 5)
    usual, here = CompileLimits(), CompileLimits().here()
    assert (here.cpu_s, here.wall_s) == pytest.approx((12 * usual.cpu_s, 12 * usual.wall_s))
    assert here == CompileLimits(cpu_s=here.cpu_s, wall_s=here.wall_s)
    set_to = {}
    monkeypatch.setattr("ptxsim.system.limit", lambda **limits: set_to.update(limits))
    monkeypatch.setattr("warpschool.grading.limits.limit_compilations", lambda limits: None)
    Limits(cpu_s=10).apply(on_gpu=True)
    assert set_to["cpu_s"] == 120
    command = confined_command(
        ["true"], Path("/"), readable=[], executable=None, processes=False, must=False, cpu_s=5, memory_bytes=1 << 20,
        environment={},
    )  # fmt: skip
    assert json.loads(command[-1])["cpu_s"] == 60


def test_a_compilation_gets_the_longer_limit_and_its_message_names_it(machine, monkeypatch):
    machine(*[0.012] * 5)

    def compile_(toolchain, request, limits):
        raise CompileLimitError(f"more than {limits.cpu_s:g} s")

    monkeypatch.setattr(compiler.pool, "compile", compile_)
    with pytest.raises(CompileLimitError, match="more than 216 s"):
        compile_cuda('extern "C" __global__ void not_in_any_cache() {}', compiler="nvrtc")
