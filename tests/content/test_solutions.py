"""References: accepted by their own graders, free of spills, chained into ladders."""

from __future__ import annotations

import numpy as np
import pytest

import warpschool as ws
from warpschool.compile import resource_usage
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.errors import CompilerLacks
from warpschool.harness.launcher import Program
from warpschool.programs import tools_report

pytestmark = pytest.mark.usefixtures("forked_checks")

COURSE = Course.find()
STEPS = [step for step in COURSE.steps() if step.solution is not None]
LADDER = ["lab01_naive_gemm/01_naive", "lab02_tiling/01_tiled"]
HEAVY = (
    "lab05_work_per_thread/09", "lab07_tensor_cores/02", "lab07_tensor_cores/03", "lab07_tensor_cores/04",
    "lab07_tensor_cores/06", "lab07_tensor_cores/07", "lab08_convolution/13", "lab08_convolution/14",
    "lab10_lenet/09", "lab13_vgg16/01", "lab13_vgg16/02", "lab13_vgg16/03", "lab13_vgg16/04", "lab13_vgg16/05",
    "lab10_lenet/11", "lab14_programs/03", "lab14_programs/04", "lab15_patterns/04", "lab16_attention/07",
    "lab16_attention/09",
)  # fmt: skip
"""Steps whose kernels take long to translate, or run under many orders of blocks: in full runs only."""


def skip_without_tools(step):
    report = tools_report()
    if step.is_program and not report["available"]:
        pytest.skip(f"whole programs cannot be built here: {report['problem']}")


GRADED = [
    pytest.param(step, marks=pytest.mark.slow if step.name.startswith(HEAVY) else ())
    for step in STEPS if step.grader is not None
]  # fmt: skip


@pytest.mark.parametrize("step", GRADED, ids=str)
@pytest.mark.thinned(6)
def test_reference_is_accepted(step):
    skip_without_tools(step)
    result = ws.check(step.name, step.solution, device="sim")
    assert result.ok and result.score == result.max_score > 0, result.to_json()


@pytest.mark.parametrize("step", [step for step in STEPS if not step.is_program], ids=str)
@pytest.mark.thinned(8)
def test_reference_keeps_its_variables_in_registers(step):
    source = step.solution.read_text("utf-8")
    arch = parse_contract(source, name=step.file_name).target or "sm_80"
    try:
        found = resource_usage(source, name=step.file_name, arch=arch)
    except CompilerLacks as lack:
        pytest.skip(lack.message)
    for entry, used in found.items():
        assert used.local_bytes == used.spill_load_bytes == used.spill_store_bytes == 0, (entry, used)


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_from_line_leads_to_a_step(step):
    assert COURSE.ladder(step.name)[-1].name == step.name


@pytest.mark.parametrize("step", LADDER)
def test_gemm_ladder_keeps_entry_and_parameters(step):
    entries = parse_contract(COURSE.step(step).solution.read_text("utf-8"), name=step).entries
    assert [str(entry) for entry in entries] == [
        "matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)"
    ]
    assert COURSE.ladder(step)[0].name == LADDER[0]


@pytest.mark.parametrize("tile", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("step", LADDER)
def test_every_tile_size_is_right_and_free_of_hazards(step, tile):
    contract = parse_contract(COURSE.step(step).solution.read_text("utf-8"), name=step)
    program = Program(contract, device="sim", constants={"TILE": tile})
    rng = np.random.default_rng(tile)
    for m, n, k in [(1, 1, 1), (31, 33, 17), (1, 40, 7)]:
        a, b = rng.uniform(-1, 1, (m, k)).astype(np.float32), rng.uniform(-1, 1, (k, n)).astype(np.float32)
        run = program.run({"M": m, "N": n, "K": k}, {"A": a, "B": b})
        assert run.hazards == ()
        assert not np.abs(run.outputs["C"] - a.astype(np.float64) @ b).max() > 1e-5
        assert not np.isnan(run.outputs["C"]).any()


@pytest.mark.parametrize("tile", [2, 8, 32])
def test_tiling_divides_the_loads_by_the_tile(tile):
    contract = parse_contract(COURSE.step(LADDER[1]).solution.read_text("utf-8"), name=LADDER[1])
    ones = np.ones((64, 64), np.float32)
    run = Program(contract, device="sim", constants={"TILE": tile}).run({}, {"A": ones, "B": ones})
    assert run.counters.global_load_bytes == 8 * 64**3 // tile
    assert run.counters.shared_bank_conflicts == 0
