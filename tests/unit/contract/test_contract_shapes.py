"""The header grammar is frozen by seven shapes of kernel file: if one of these changes, every course file changes."""

from __future__ import annotations

import numpy as np

from warpschool.contract import parse_contract
from warpschool.contract.header import read_header

GEMM = """\
// 01_tiled.cu: C = A * B through tiles.
// Idea:    a block shares its loads
//          through shared memory.       From: lab01_naive_gemm/01_naive.cu      Limits: none to speak of.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] inout,
//                 int M, int N, int K, float alpha)
// Launch:  matmul block=(TILE, TILE) grid=(cdiv(N, TILE), cdiv(M, TILE))

constexpr int TILE = 16;

extern "C" __global__ void __launch_bounds__(TILE * TILE)
matmul(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K,
       float alpha)
{
}
"""

TWO_KERNELS = """\
// im2col.cu: unroll, then multiply.
// Entry:   im2col(const float x[C,H,W] in, float cols[C*R*S,OH*OW] out, int C, int H, int W,
//                  int R, int S, int OH, int OW)
// Entry:   product(const float w[F,C*R*S] in, const float cols[C*R*S,OH*OW] in, float y[F,OH*OW] out,
//                   int F, int P, int Q)
// Sizes:   OH = H - R + 1, OW = W - S + 1,
//          P = OH * OW, Q = C * R * S
// Needs:   H >= R, W >= S
// Launch:  im2col block=(256) grid=(cdiv(OH*OW, 256), C)
// Launch:  product block=(32, 8) grid=(cdiv(P, 32), cdiv(F, 8)) shared=0
extern "C" {
__global__ void im2col(const float* x, float* cols, int C, int H, int W, int R, int S, int OH, int OW) { }
__global__ void product(const float* w, const float* cols, float* y, int F, int P, int Q) { if (F) { } }
}
"""

BATCHED = """\
// Entry:  batched(const half A[BATCH,M,K] in, const half B[K,N] in, float C[BATCH,M,N] out,
//                 int BATCH, int M, int N, int K)
// Launch: batched block=(16, 16) grid=(cdiv(N, 16), cdiv(M, 16), BATCH)
#include <cuda_fp16.h>
extern "C" __global__ void batched(const __half *A, const half* B, float* C, int BATCH, int M, int N, int K) {}
"""

CONSTANT_MEMORY = """\
// Entry:    convolve(const float x[n] in, float y[n] out, int n)
// Constant: filters <- w
// Launch:   convolve block=(128) grid=(cdiv(n, 128))
constexpr int TAPS = 5;
__constant__ float filters[TAPS];
extern "C" __global__ void convolve(const float* x, float* y, int n) {}
"""

DYNAMIC_SHARED = """\
// Entry:  reverse(const int4 x[n] in, int4 y[n] out, int n)
// Needs:  n % 4 == 0
// Launch: reverse block=(min(n / 4, LIMIT)) grid=(cdiv(n / 4, LIMIT)) shared=LIMIT * 16
constexpr int WARP = 32, LIMIT = WARP * 4;
extern "C" __global__ void reverse(const int4* x, int4* y, int n) { extern __shared__ int4 tile[]; }
"""

ATOMICS = """\
// Entry:  histogram(const unsigned char x[n] in, unsigned counts[BINS] out, int n)
// Zeroed: counts
// Launch: histogram block=(256) grid=(max(1, n / 4096))
static constexpr int BINS{256};
extern "C" __global__ void histogram(const uint8_t* x, unsigned int* counts, int n) {}
"""

SCRATCH = """\
// Entry:   partial(const float x[n] in, float sums[BLOCKS] out, int n)
// Entry:   total(const float sums[BLOCKS] in, float y[1] out, int BLOCKS)
// Sizes:   BLOCKS = cdiv(n, 512)
// Scratch: sums
// Launch:  partial block=(256) grid=(BLOCKS); total block=(256) grid=(1)
extern "C" __global__ void partial(const float* x, float* sums, int n) {}
extern "C" __global__ void total(const float* sums, float* y, int BLOCKS) {}
"""


def test_gemm():
    contract = parse_contract(GEMM, name="01_tiled.cu")
    assert contract.title == "C = A * B through tiles."
    said = read_header(GEMM, file="01_tiled.cu").text_of
    assert said("Idea") == "a block shares its loads through shared memory."
    assert (said("From"), said("Limits")) == ("lab01_naive_gemm/01_naive.cu", "none to speak of.")
    plan = contract.bind({"M": 33, "N": 65, "K": 1, "alpha": 0.5})
    assert {name: (array.shape, array.direction) for name, array in plan.arrays.items()} == {
        "A": ((33, 1), "in"), "B": ((1, 65), "in"), "C": ((33, 65), "inout"),
    }  # fmt: skip
    (launch,) = plan.launches
    assert (launch.grid, launch.block, launch.shared_bytes) == ((5, 3, 1), (16, 16, 1), 0)
    assert [parameter.name for parameter in launch.arguments] == ["A", "B", "C", "M", "N", "K", "alpha"]
    assert plan.scalars == {"M": 33, "N": 65, "K": 1, "alpha": 0.5}
    assert contract.bind({"M": 33, "N": 65, "K": 1, "alpha": 1}, constants={"TILE": 8}).launches[0].grid == (9, 5, 1)
    assert contract.sizes_of({"A": (3, 4), "B": (4, 5)}) == {"M": 3, "K": 4, "N": 5}


def test_two_kernels():
    plan = parse_contract(TWO_KERNELS).bind({"C": 3, "H": 7, "W": 6, "R": 3, "S": 2, "F": 4})
    assert plan.sizes == {"C": 3, "H": 7, "W": 6, "R": 3, "S": 2, "F": 4, "OH": 5, "OW": 5, "P": 25, "Q": 18}
    assert [launch.entry for launch in plan.launches] == ["im2col", "product"]
    assert plan.arrays["cols"].direction == "out"
    assert plan.arrays["cols"].shape == (18, 25)
    assert (plan.scalars["P"], plan.scalars["OH"]) == (25, 5)


def test_batched():
    plan = parse_contract(BATCHED).bind({"BATCH": 7, "M": 17, "N": 16, "K": 5})
    assert plan.launches[0].grid == (1, 2, 7)
    assert plan.arrays["A"].dtype == np.float16
    assert plan.arrays["C"].shape == (7, 17, 16)


def test_constant_memory():
    contract = parse_contract(CONSTANT_MEMORY)
    assert [(fill.symbol, fill.array) for fill in contract.constants] == [("filters", "w")]
    array = contract.bind({"n": 9}).arrays["w"]
    assert (array.shape, array.direction, array.dtype) == (None, "in", np.float32)


def test_dynamic_shared_memory_and_vector_types():
    plan = parse_contract(DYNAMIC_SHARED).bind({"n": 64})
    assert plan.launches[0].shared_bytes == 2048
    assert plan.launches[0].block == (16, 1, 1)
    assert plan.arrays["x"].shape == (64,)
    assert plan.arrays["x"].dtype == np.int32


def test_zeroed_output_with_atomics():
    plan = parse_contract(ATOMICS).bind({"n": 10_000})
    assert plan.arrays["counts"].zeroed
    assert (plan.arrays["counts"].dtype, plan.arrays["x"].dtype) == (np.uint32, np.uint8)
    assert plan.launches[0].grid == (2, 1, 1)


def test_scratch():
    plan = parse_contract(SCRATCH).bind({"n": 1025})
    assert plan.arrays["sums"].direction == "scratch"
    assert not plan.arrays["sums"].is_given
    assert not plan.arrays["sums"].is_result
    assert [launch.grid for launch in plan.launches] == [(3, 1, 1), (1, 1, 1)]
    assert plan.scalars["BLOCKS"] == 3


def test_line_ends_and_byte_order_marks_change_nothing():
    for source in (GEMM.replace("\n", "\r\n"), GEMM.replace("\n", "\r"), "\ufeff" + GEMM):
        contract = parse_contract(source)
        assert contract.title == "C = A * B through tiles."
        assert contract.launches[0].line == 6
        assert contract.declarations.constexpr_values({}) == {"TILE": 16}
