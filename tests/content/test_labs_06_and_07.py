"""What the course promises of labs 06 and 07: the counts of the references, and what a wrong sum is told."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import warpschool as ws
from warpcourse import lab06_half_precision as lab
from warpschool.authoring import specimens
from warpschool.contract import Contract, parse_contract
from warpschool.course import Course
from warpschool.harness.launcher import Program, RunResult, random_inputs
from warpschool.notebook import cells

pytestmark = pytest.mark.usefixtures("forked_checks")

COURSE = Course.find()
LAB06 = "lab06_half_precision/"
CUBE = {"M": 256, "N": 256, "K": 256}
PRODUCTS = 256**3


def reference(step: str) -> Contract:
    found = COURSE.step(step)
    return parse_contract(found.solution.read_text("utf-8"), name=found.file_name)


def run(step: str, sizes: dict[str, int], constants: dict[str, int] | None = None) -> RunResult:
    contract = reference(step)
    inputs = random_inputs(contract.bind(sizes, constants=constants))
    return Program(contract, device="sim", constants=constants).run(sizes, inputs)


@cache
def counted(step: str):
    return run(step, CUBE).counters


def test_halves_and_bytes_ask_for_fewer_bytes():
    steps = ("lab05/05_vectorized", f"{LAB06}01_half_storage", f"{LAB06}04_gemm_int8")
    loaded = [counted(step).global_load_bytes for step in steps]
    assert loaded == [loaded[0], loaded[0] // 2, loaded[0] // 4]


def test_an_instruction_multiplies_one_two_or_four_numbers():
    assert counted(f"{LAB06}01_half_storage").fma_instructions == PRODUCTS
    assert counted(f"{LAB06}02_half2").packed_fma_instructions == PRODUCTS // 2
    assert counted(f"{LAB06}04_gemm_int8").dot_instructions == PRODUCTS // 4


@pytest.mark.parametrize("step", ["01_half_storage", "02_half2", "04_gemm_int8"])
def test_no_excess_and_no_local_memory(step):
    counters = counted(LAB06 + step)
    assert counters.excess_sectors == counters.shared_bank_conflicts == 0
    assert counters.local_load_requests == counters.local_store_requests == 0


def test_a_sum_that_is_never_promoted_is_told_what_is_allowed():
    path = COURSE.root / "tests" / "specimens" / "lab06_half_precision" / "02_half2" / "never_promoted.toml"
    source = specimens.read(path).source(COURSE.root / "solutions")
    result = ws.check(f"{LAB06}02_half2", source, device="sim")
    failed = [criterion for criterion in result.criteria if not criterion.ok]
    assert [criterion.title for criterion in failed] == ["At most 16 products are summed as half"]
    assert "expected 2111, got 2048" in failed[0].seen
    assert "n = 17 roundings in float16 (k = 16 products and their sum)" in failed[0].seen


def test_the_layer_is_quantised_best_by_rows():
    for step in ("03_quantize_int8", "04_gemm_int8"):
        cells.remember(LAB06 + step, COURSE.step(LAB06 + step).solution.read_text("utf-8"))
    try:
        table = lab.own_layer({"one": (False, np.inf), "rows": (True, np.inf)}, lab.layer(64))
    finally:
        cells.forget_all()
    one, rows, half = (float(row[-1]) for row in table.rows)
    assert half < rows < one < 1e-2
