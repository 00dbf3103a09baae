"""How well bounds rank kernels: the correlation, and that what is told is what was recorded."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path

import pytest

from warpschool.model import Agreement, agreement

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
_SPEC = importlib.util.spec_from_file_location("estimate_script", BENCHMARKS / "estimate.py")
SCRIPT = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = SCRIPT  # dataclasses look their module up
_SPEC.loader.exec_module(SCRIPT)
RECORDED = json.loads((BENCHMARKS / "results" / "estimate_h200.json").read_text("utf-8"))


def test_rank_correlation_of_known_orders():
    assert SCRIPT.spearman([1, 2, 3, 4], [10, 20, 300, 4000]) == pytest.approx(1)
    assert SCRIPT.spearman([1, 2, 3, 4], [9, 7, 2, 1]) == pytest.approx(-1)
    assert SCRIPT.spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]) == pytest.approx(1 - 6 * 4 / (5 * 24))
    assert SCRIPT.spearman([1, 1, 2], [1, 2, 3]) == pytest.approx(math.sqrt(3) / 2), "equal values share a rank"


@pytest.mark.parametrize(("first", "second"), [([1], [1]), ([1, 2], [1, 2, 3]), ([1, 1], [1, 2])])
def test_what_has_no_order_is_refused(first, second):
    with pytest.raises(ValueError, match=r"order|pairs"):
        SCRIPT.spearman(first, second)


def test_what_is_told_is_what_was_recorded():
    rows = RECORDED["rows"]
    found = SCRIPT.spearman([row["bound_ms"] for row in rows], [row["time_ms"] for row in rows])
    told = agreement()
    assert told.rank_correlation == pytest.approx(found, abs=1e-4)
    assert told.kernels == len(rows) == len({row["step"] for row in rows}) >= 25
    assert f"{told.rank_correlation:.2f}" in str(told) and "NVIDIA H200" in str(told)


def test_a_poor_agreement_says_so():
    assert str(Agreement("a GPU", 9, 0.89)).startswith("do not rank kernels by it")
    assert str(Agreement("a GPU", 9, 0.90)).startswith("rank correlation")


@pytest.mark.parametrize("step", ["lab01_naive_gemm/01_naive", "lab04_bank_conflicts/01_transpose_padded"])
def test_recorded_bounds_are_what_the_simulator_counts_today(step):
    [case] = [case for case in SCRIPT.measured() if case.step == step]
    [row] = [row for row in RECORDED["rows"] if row["step"] == step]
    bound, limit = SCRIPT.bound_ms(case)
    assert bound == pytest.approx(row["bound_ms"], rel=0.01) and limit == row["limited_by"]
