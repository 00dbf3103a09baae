"""What the course promises of labs 03 to 05: the faults of the given kernels, the counts of the references."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from warpcourse import experiments, ladder
from warpschool.compile import resource_usage
from warpschool.contract import Contract, parse_contract
from warpschool.course import Course
from warpschool.harness.launcher import Program, RunResult, random_inputs

COURSE = Course.find()
LADDER = [step.name for step in COURSE.ladder("lab05/07")]
ROW, TILED = "lab03_coalescing/01_row_per_thread", "lab03_coalescing/03_transpose_tiled"
PADDED, SWIZZLED = "lab04_bank_conflicts/01_transpose_padded", "lab04_bank_conflicts/02_transpose_swizzled"
LAB05 = "lab05_work_per_thread/"
CUBE = {"M": 256, "N": 256, "K": 256}


def reference(step: str) -> Contract:
    found = COURSE.step(step)
    return parse_contract(found.solution.read_text("utf-8"), name=found.file_name)


def run(step: str, sizes: dict[str, int], constants: dict[str, int] | None = None) -> RunResult:
    contract = reference(step)
    inputs = random_inputs(contract.bind(sizes, constants=constants))
    return Program(contract, device="sim", constants=constants).run(sizes, inputs)


@cache
def counted(step: str):
    return run(step, {name: CUBE[name] for name in ("M", "N", "K") if name in str(reference(step).entries[0])}).counters


# ---------------------------------------------------------------- the given kernels


def test_the_given_row_per_thread_touches_32_sectors_for_each_load_of_a():
    given = experiments.given_trace(ROW, {"M": 64, "N": 64, "K": 8})
    assert {len(access.sectors) for access in given.select("global", "load", "A")} == {32}
    assert {len(access.sectors) for access in given.select("global", "load", "B")} == {1}
    assert {len(access.sectors) for access in given.select("global", "store", "C")} == {32}


def test_the_given_transpose_has_31_extra_passes_for_each_column_on_its_line():
    given = experiments.given_trace(PADDED, {"M": 32, "N": 32})
    columns = given.select("shared", "load")
    assert {access.excess for access in columns} == {31}
    (line,) = {access.line for access in columns}
    text = COURSE.step(PADDED).starter.read_text("utf-8").splitlines()[line - 1]
    assert "At[" in text and "tile[x][y]" in text


@pytest.mark.parametrize(("pad", "passes"), [(0, 32), (1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (16, 16)])
def test_passes_of_a_column_are_the_common_divisor_of_padding_and_banks(pad, passes):
    seen = experiments.given_trace(PADDED, {"M": 32, "N": 32}, constants={"PAD": pad})
    assert seen.worst("shared", "load").wavefronts == passes == np.gcd(32, pad)


# ---------------------------------------------------------------- the references


@pytest.mark.parametrize("step", [ROW, TILED, "lab03_coalescing/04_gemm_bt", PADDED, SWIZZLED, f"{LAB05}08_batched"])
def test_no_excess_sectors(step):
    sizes = CUBE if step != f"{LAB05}08_batched" else {"BATCH": 4, "SHARE": 2, "M": 128, "N": 128, "K": 128}
    counters = run(step, sizes).counters if step.endswith("batched") else counted(step)
    assert counters.excess_sectors == 0


@pytest.mark.parametrize("step", [PADDED, SWIZZLED, "lab04_bank_conflicts/03_gemm_padded", f"{LAB05}03_rectangular"])
def test_no_bank_conflicts(step):
    assert counted(step).shared_load_requests > 0
    assert counted(step).shared_bank_conflicts == 0


def test_the_swizzle_needs_exactly_the_tile():
    source = COURSE.step(SWIZZLED).solution.read_text("utf-8")
    assert resource_usage(source, name="k.cu")["transpose"].shared_bytes == 32 * 32 * 4


@pytest.mark.parametrize(
    ("step", "limit"),
    [
        ("01_coarsened", 4 * 9 / 8),
        ("03_rectangular", 4 * 9 / 8),
        ("04_register_blocked", 4 * (1 / 8 + 1 / 8)),
        ("05_vectorized", 4 * (1 / 8 + 1 / 8)),
    ],
)
def test_bytes_of_shared_memory_for_each_fma(step, limit):
    assert counted(LAB05 + step).shared_bytes_per_fma <= limit


def test_the_double_buffer_needs_one_barrier_a_tile():
    result = run(f"{LAB05}06_double_buffered", CUBE)
    tile = result.plan.contract.declarations.constexpr_values({})["TSK"]
    launch = result.launches[0]
    barriers = result.counters.barriers / (launch.blocks * launch.threads_per_block // 32)
    assert barriers <= -(-CUBE["K"] // tile) + 2


@pytest.mark.parametrize("step", [name for name in LADDER if name.startswith("lab05")])
def test_no_local_memory(step):
    assert counted(step).local_load_requests == counted(step).local_store_requests == 0


# ---------------------------------------------------------------- the ladder


def test_the_ladder_leads_from_the_naive_kernel_to_the_last():
    assert [name.split("/")[1] for name in LADDER] == [
        "01_naive", "01_tiled", "01_coarsened", "02_wide_loads", "04_register_blocked", "05_vectorized",
        "06_double_buffered", "07_warp_tiled",
    ]  # fmt: skip


def test_every_rung_keeps_entry_and_parameters():
    entries = {str(reference(name).entries[0]) for name in LADDER}
    assert entries == {"matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)"}


def test_every_rung_asks_for_no_more_bytes_than_the_one_before():
    costs = [counted(name) for name in LADDER]
    loaded = [c.global_load_bytes for c in costs]
    shared = [c.shared_load_wavefronts for c in costs[1:]]
    assert loaded == sorted(loaded, reverse=True)
    assert all(later <= 1.01 * earlier for earlier, later in pairwise(shared))


@pytest.mark.parametrize("step", LADDER)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (33, 31, 5), (130, 257, 36)])
@pytest.mark.thinned(3)
def test_rungs_are_right_and_free_of_hazards_at_odd_sizes(step, sizes):
    result = run(step, dict(zip("MNK", sizes, strict=True)))
    inputs = random_inputs(result.plan)
    assert result.hazards == () and result.overwritten == ()
    expected = inputs["A"].astype(np.float64) @ inputs["B"]
    assert not np.abs(result.outputs["C"] - expected).max() > 1e-5
    assert not np.isnan(result.outputs["C"]).any()


def test_each_rung_was_measured_to_be_faster_than_the_one_before():
    rows = {row.step: row.time_ms for row in ladder.measured() if row.part == "ladder"}
    if not rows:
        pytest.skip("no recorded times in benchmarks/results")
    times = [rows[name] for name in LADDER]
    assert times == sorted(times, reverse=True)
