"""Lab 05's tables of a student's own kernels."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from warpcourse import experiments, lab05_work_per_thread, lessons
from warpschool.harness.launcher import Program
from warpschool.notebook import cells

STEP, SPARSE = "lab05_work_per_thread/07_warp_tiled", "lab05_work_per_thread/10_sparse"
NAIVE = """// 07_warp_tiled.cu: a student's first try.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(SIDE, SIDE) grid=(cdiv(N, SIDE), cdiv(M, SIDE))
constexpr int SIDE = 16;
extern "C" __global__ void matmul(const float* __restrict__ A, const float* __restrict__ B,
                                  float* __restrict__ C, int M, int N, int K)
{
    const int row = blockIdx.y * SIDE + threadIdx.y, col = blockIdx.x * SIDE + threadIdx.x;
    float sum = 0.0f;
    if (row < M && col < N) {
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
}
"""
ROWS = """// 10_sparse.cu: a thread for each element of C.
// Entry:   spmm(const int row_start[M+1] in, const int column[NNZ] in, const float value[NNZ] in,
//               const float B[K,N] in, float C[M,N] out, int M, int N, int K, int NNZ)
// Launch:  spmm block=(32) grid=(cdiv(N, 32), M)
extern "C" __global__ void spmm(const int* __restrict__ row_start, const int* __restrict__ column,
                                const float* __restrict__ value, const float* __restrict__ B,
                                float* __restrict__ C, int M, int N, int K, int NNZ)
{
    const int col = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    for (int e = row_start[blockIdx.y]; e < row_start[blockIdx.y + 1]; ++e) sum += value[e] * B[column[e] * N + col];
    if (col < N) C[blockIdx.y * N + col] = sum;
}
"""
SMALL = {"M": 32, "N": 32, "K": 32}


@pytest.fixture(autouse=True)
def own_kernels():
    cells.remember(STEP, NAIVE)
    cells.remember(SPARSE, ROWS)
    yield
    cells.forget_all()


def test_own_kernels_stand_side_by_side():
    table = experiments.compare([STEP], SMALL)
    (stage,) = table.stages
    assert (stage.name, stage.time_ms) == ("07_warp_tiled", None)
    assert stage.cost.counters.fma_instructions == 32**3
    assert "not measured" in repr(table) and "<table>" in table._repr_html_()
    assert len(lessons.draw_mix(table.mixes).axes) == 1


def test_variants_change_the_text_and_say_where_there_is_nothing_to_change():
    table = experiments.variants(STEP, {"16": {}, "8": {"SIDE = 16": "SIDE = 8"}, "none": {"TILE": "X"}}, SMALL)
    sixteen, eight = table.stages
    assert (sixteen.cost.counters.blocks, eight.cost.counters.blocks) == (4, 16)
    label, *figures = table.rows[-1]
    assert label == "none (no 'TILE' in your kernel)"
    assert set(figures) == {"-"}


def test_times_are_taken_where_the_device_measures_them(monkeypatch):
    launched = []

    def timed(work, device):
        work()
        return SimpleNamespace(median_ms=1.5 if launched else None)

    monkeypatch.setattr(experiments, "get_device", lambda which: SimpleNamespace(measures_time=True))
    monkeypatch.setattr(experiments, "Program", lambda contract, device, constants: Program(contract, device="sim"))
    monkeypatch.setattr(experiments, "benchmark", timed)
    monkeypatch.setattr(experiments, "repeated", lambda launches: lambda: launched.extend(launches))
    assert "1.5" in repr(experiments.compare([STEP], SMALL, timed_sizes=SMALL))


def test_sparse_bounds_grow_with_density():
    found = lab05_work_per_thread.crossover(SPARSE, STEP, [0.1, 0.5, 1.0], n=64)
    assert np.all(np.diff(found.sparse_ms) > 0) and found.dense_ms > 0
