"""The simulator still counts what the page "The simulator against silicon" says: no GPU needed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
@pytest.mark.timeout(6000)
def test_the_recorded_launches_still_count_the_same(monkeypatch, capsys):
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.delitem(sys.modules, "fidelity", raising=False)
    import fidelity

    record = json.loads((BENCHMARKS / "results" / "fidelity_h200.json").read_text("utf-8"))
    anew = fidelity.again(record)
    assert len(anew["launches"]) == len(record["launches"]), "a launch has changed: it needs a GPU, and a new record"
    assert "not in the record" not in capsys.readouterr().out, "a new launch needs a GPU: see fidelity.py's --record"
    for launch, recorded in zip(anew["launches"], record["launches"], strict=True):
        assert launch["counters"] == recorded["counters"], f"{launch['case']}, {launch['entry']}"
