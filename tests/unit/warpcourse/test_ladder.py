"""The ladder: differences, instruction mixes, what a kernel uses on a GPU, and recorded times."""

from __future__ import annotations

import json

import pytest

from warpcourse import lab05_work_per_thread as lab, ladder
from warpschool.contract import parse_contract
from warpschool.counters import Counters
from warpschool.course import Course
from warpschool.errors import CourseError
from warpschool.inspect.difference import code_of

NAIVE = """// 01_a.cu: C = A * B.
// Idea:    one thread for each element.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(16, 16) grid=(cdiv(N, 16), cdiv(M, 16))

constexpr int UNROLL = 4;
extern "C" __global__ void matmul(const float* __restrict__ A, const float* __restrict__ B,
                                  float* __restrict__ C, int M, int N, int K)
{
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    // BEGIN SOLUTION: the sum (about 4 lines)
    #pragma unroll UNROLL
    for (int k = 0; k < K; ++k) {
        sum += A[row * K + k] * B[k * N + col];
    }
    // END SOLUTION
    // BEGIN STARTER
    //| sum = 1.0f;
    // END STARTER
    C[row * N + col] = sum;
}
"""
SMALL = {"M": 64, "N": 64, "K": 64}


@pytest.fixture
def course(tmp_path):
    for name, text in {
        "lab01_x/01_a": NAIVE,
        "lab01_x/02_b": NAIVE.replace("float sum = 0.0f;", "float sum = 0.0f;  // in a register"),
    }.items():
        path = tmp_path / "solutions" / f"{name}.cu"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Course(tmp_path)


def test_a_change_leaves_headers_and_markers_out(course):
    found = ladder.change("lab01/01", "lab01/02", course=course)
    assert (found.before, found.after, found.added, found.removed) == ("lab01_x/01_a", "lab01_x/02_b", 1, 1)
    assert "+    float sum = 0.0f;  // in a register" in found.text
    for hidden in ("Idea", "SOLUTION", "STARTER", "//|"):
        assert hidden not in code_of(NAIVE)
    assert ladder.change("lab01/01", "lab01/01", course=course).text == ""


def test_a_step_without_reference_cannot_be_compared(course):
    starter = course.root / "kernels" / "lab01_x" / "03_c.cu"
    starter.parent.mkdir(parents=True)
    starter.write_text(NAIVE)
    with pytest.raises(CourseError, match="no reference"):
        ladder.change("lab01/01", "lab01/03", course=course)


def test_cost_of_a_kernel(course):
    cost = ladder.measure("lab01/01", SMALL, course=course)
    assert (cost.case, cost.products) == ("M = 64, N = 64, K = 64", 64**3)
    assert cost.counters.fma_instructions == cost.products
    assert cost.barriers_per_block == 0
    assert sum(cost.mix.values()) == pytest.approx(1)
    assert cost.mix["global memory"] == pytest.approx(2 * cost.mix["FMA"]), "two loads for each FMA"
    assert cost.mix["shared memory"] == 0


def test_old_gpus_borrow_the_registers_of_the_oldest_that_is_compiled_for(course):
    uses = {use.gpu: use for use in ladder.measure("lab01/01", SMALL, course=course).uses}
    assert [use.is_borrowed for use in uses.values()] == [True, True, False, False, False]
    assert uses["GeForce GTX 1080"].resources == uses["GeForce RTX 2080 Ti"].resources
    assert {use.arch for use in uses.values()} == {"sm_75", "sm_80", "sm_90"}
    assert all(use.occupancy and 0 < use.occupancy.fraction <= 1 for use in uses.values())


def test_mix_of_nothing_is_zero():
    assert set(ladder.mix_of(Counters()).values()) == {0.0}


def test_the_main_loop_does_not_depend_on_what_stands_around_it():
    plain = ladder.cost_of(parse_contract(NAIVE, name="a.cu"), SMALL)
    longer = NAIVE.replace("    C[row", "    for (int i = 0; i < M; ++i) { sum = sum / 1.5f; }\n    C[row")
    assert ladder.cost_of(parse_contract(longer, name="a.cu"), SMALL).mix == pytest.approx(plain.mix)


def test_inner_loop_is_ptx_of_the_kernel(course):
    lines = ladder.inner_loop("lab01/01", count=6, course=course).splitlines()
    assert len(lines) == 6 and any(line.startswith("fma.rn.f32") for line in lines)
    assert any(line.startswith("ld.global") for line in lines)


def test_code_grows_with_unrolling():
    sources = [NAIVE.replace("UNROLL = 4", f"UNROLL = {n}") for n in (1, 8)]
    sizes = [ladder.code_size(parse_contract(source, name="a.cu")) for source in sources]
    assert sizes[0] < sizes[1]


def row(**changes: object) -> dict[str, object]:
    return {
        "part": "batched", "step": lab.BATCHED, "sizes": {"BATCH": 1152, "SHARE": 1, "M": 256, "N": 256, "K": 256},
        "time_ms": 2.0, "reference_ms": 1.0, "ratio": 0.5, "reference": "cuBLAS", "rate": 20.0, "reference_rate": 40.0,
        "unit": "TFLOP/s", "note": "U not shared", "stable": True, **changes,
    }  # fmt: skip


def test_measured_rows_are_read_where_there_are_any(course):
    assert ladder.measured(course=course) == ()
    folder = course.root / "benchmarks" / "results"
    folder.mkdir(parents=True)
    (folder / "gemm_x.json").write_text(json.dumps({"device": "NVIDIA X", "rows": [row()]}))
    (found,) = ladder.measured(course=course)
    assert (found.device, found.time_ms, found.ratio) == ("NVIDIA X", 2.0, 0.5)


def test_thesis_table_has_a_value_for_every_column():
    assert {len(values) for values in lab.GTX1080.values()} == {len(lab.COLUMNS)}


def nsight_record(course, device: str, *, whole: bool = True) -> None:
    folder = course.root / "benchmarks" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"who": who, "note": note, "time_ms": time_ms, "values": {"instructions per clock": 3.5, "occupancy": None}}
        for note in lab.NOTES for who, time_ms in (("08_batched", 2.0), ("cuBLAS", 1.0))
    ][: None if whole else 2]  # fmt: skip
    record = {"device": device, "batch": 1000, "size": 1000, "rows": rows}
    (folder / f"table6_{device.split()[-1]}.json").write_text(json.dumps(record))


def test_thesis_table_takes_ours_from_one_record(course):
    assert lab.our_columns(course=course) == ()
    nsight_record(course, "NVIDIA H200")
    nsight_record(course, "NVIDIA other", whole=False)
    columns = lab.our_columns(course=course)
    titles = [f"{who}, {note}" for note in lab.NOTES for who in ("08_batched", "cuBLAS")]
    assert [column.title for column in columns] == titles
    ours, theirs = columns[:2]
    assert ours.values["time in ms"] == 2.0 and theirs.values["time in ms"] == 1.0
    assert ours.values["share of the peak"] == pytest.approx(1000 / 66.9, rel=0.01)
    assert ours.values["instructions per clock"] == 3.5 and ours.values["L2 hits of reads"] is None
    assert all(set(column.values) == set(lab.GTX1080) for column in columns)


def test_unknown_devices_have_no_peak(course):
    nsight_record(course, "NVIDIA X")
    assert {column.values["share of the peak"] for column in lab.our_columns(course=course)} == {None}


def test_the_recorded_table_has_every_stage_by_one_definition():
    columns = lab.our_columns()
    stages = [column.title.split(",")[0] for column in columns]
    assert stages == ["stage 1", "stage 2", "stage 3", "08_batched", "cuBLAS"] * 2
    times = [column.values["time in ms"] for column in columns[:4]]
    assert times == sorted(times, reverse=True) and "by Nsight Compute" in repr(lab.table_six())
    assert all(column.values["shared memory read in GB/s"] is not None for column in columns)


def test_crossover_lies_between_two_densities():
    found = lab.Crossover("a GPU", (0.1, 0.2, 0.4), (1.0, 2.0, 4.0), 3.0)
    assert found.density == pytest.approx(0.3)
    assert lab.Crossover("a GPU", (0.1, 0.2), (1.0, 2.0), 3.0).density is None
    assert lab.Crossover("a GPU", (0.1, 0.2), (4.0, 5.0), 3.0).density is None
