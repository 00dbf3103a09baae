"""What is said of the clock's agreement is what was recorded, and other people's kernels are as right as ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from warpschool.clock.machine import FOLDER, find_machine, machines
from warpschool.clock.prediction import agreement
from warpschool.recorded import recorded

ROOT = Path(__file__).parents[3]
CLOCK = ROOT / "benchmarks" / "clock"


def test_what_predictions_say_of_themselves_was_recorded() -> None:
    found = recorded("clock_validation_h200.json")
    outside = found["figures"]["outside"]
    told = agreement()
    assert told.launches == outside["launches"]
    assert told.median == pytest.approx(outside["median"], abs=1e-4)
    assert (told.low, told.high) == pytest.approx(found["interval"], abs=1e-3)


def test_the_goals_that_the_record_reaches() -> None:
    """Of launches on an H200: references, and kernels that no constant and no rule was made for."""
    figures = recorded("clock_validation_h200.json")["figures"]
    assert figures["references"]["median"] <= 0.08 and figures["references"]["p90"] <= 0.25
    assert figures["outside"]["median"] <= 0.10 and figures["outside"]["p90"] <= 0.30
    assert all(figures[name]["instructions_within_2_percent"] >= 0.90 for name in figures)


@pytest.mark.parametrize("key", machines())
def test_every_constant_of_a_machine_has_a_source(key: str) -> None:
    machine = find_machine(key)
    assert machine.spec.arch == machine.arch
    sources = machine["sources"]
    without = [
        f"{section}.{name}"
        for section, values in machine.tables.items()
        if section != "sources"
        for name in values
        if section not in sources and f"{section}.{name}" not in sources
    ]
    assert not without, f"{FOLDER / key}.toml"


def test_kernels_in_other_styles_are_right() -> None:
    """Three of them; `python benchmarks/clock/kernels_check.py` runs all."""
    names = ("scan_shuffle", "reduce_atomic", "max_pool_2")
    assert all(name in json.loads((CLOCK / "kernels" / "cases.json").read_text()) for name in names)
    run = subprocess.run(
        [sys.executable, str(CLOCK / "kernels_check.py"), *names], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("right") == len(names)
