"""Where no machine code is made, predictions say so, and those of references are carried."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import warpschool as ws
from warpcourse import experiments
from warpschool.cli import app
from warpschool.clock import subject
from warpschool.clock.shipped import digest
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.errors import CompilerLacks
from warpschool.inspect.profile import usual_sizes
from warpschool.recorded import recorded


@pytest.fixture
def without_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(*_: object, **__: object) -> None:
        raise CompilerLacks("machine code for sm_90 is not known with clang")

    monkeypatch.setattr(subject, "encoded", lacks)


@pytest.mark.usefixtures("without_machine_code")
def test_ones_own_kernel_has_no_time_but_the_reason() -> None:
    kernel = ws.RawModule(
        'extern "C" __global__ void k(float* p) { p[threadIdx.x] = 1.0f; }', device="sim", name="k.cu"
    ).get_function("k")
    launch = kernel(1, 32, (ws.get_device("sim").zeros((32,), np.float32),))
    found = ws.predict_time(launch)
    assert found.us is None
    assert "not known with this compiler" in str(found)


@pytest.mark.usefixtures("without_machine_code")
def test_a_references_time_is_carried() -> None:
    step = next(step for step in Course.find().kernels() if step.name.endswith("01_saxpy"))
    assert step.solution is not None
    contract = parse_contract(step.solution.read_text(encoding="utf-8"), name=step.solution.name)
    row = next(row for row in recorded("clock_cost.json")["rows"] if row["source"] == digest(contract.source))
    sizes = usual_sizes(contract)
    assert experiments.predicted_ms(contract, sizes) == pytest.approx(row["us"] / 1000)
    assert f"{row['us']:.3g} us" in experiments.foretold(contract, sizes)
    other = {**sizes, "n": 12345}
    assert experiments.predicted_ms(contract, other) is None
    assert "not known with this compiler" in experiments.foretold(contract, other)


def test_nearly_every_reference_is_carried_as_it_is() -> None:
    """Who changes some measures again: python benchmarks/clock/cost.py."""
    sources = {digest(s.solution.read_text(encoding="utf-8")) for s in Course.find().kernels() if s.solution}
    carried = {row["source"] for row in recorded("clock_cost.json")["rows"]}
    assert len(sources & carried) >= 0.9 * len(sources)


@pytest.mark.usefixtures("without_machine_code")
def test_the_command_tells_a_references_time_and_of_ones_own_kernel_why_there_is_none(tmp_path) -> None:
    step = next(step for step in Course.find().kernels() if step.name.endswith("01_saxpy"))
    text = step.solution.read_text(encoding="utf-8")
    row = next(row for row in recorded("clock_cost.json")["rows"] if row["source"] == digest(text))
    found = CliRunner().invoke(app, ["predict", str(step.solution), "--plain"])
    assert found.exit_code == 0 and f"{row['us']:.3g} us" in found.output, found.output
    mine = tmp_path / "mine.cu"
    mine.write_text(text.replace("{", "{ // mine\n", 1), encoding="utf-8")
    found = CliRunner().invoke(app, ["predict", str(mine), "--plain"])
    assert found.exit_code != 0 and "not known with this compiler" in found.output
