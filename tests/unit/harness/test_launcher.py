"""Running kernel files as their headers say, on the simulator: the seven shapes of the grammar, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from warpschool.contract import parse_contract
from warpschool.errors import ArgumentError, LaunchError, MemoryLimitExceeded, NeedsError, StepLimitExceeded
from warpschool.harness.compare import is_poison
from warpschool.harness.launcher import Program, run_kernel

RNG = np.random.default_rng(11)

GEMM = """\
// Entry:  gemm(const half A[M,K] in, const float B[K,N] in, float C[M,N] inout, int M, int N, int K, float alpha)
// Launch: gemm block=(TILE, TILE) grid=(cdiv(N, TILE), cdiv(M, TILE))
#include <cuda_fp16.h>
constexpr int TILE = 8;
extern "C" __global__ void gemm(const __half* A, const float* B, float* C, int M, int N, int K, float alpha) {
    const int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += __half2float(A[row * K + k]) * B[k * N + col];
    C[row * N + col] += alpha * sum;
}
"""

TWO_KERNELS = """\
// Entry:   twice(const float x[n] in, float t[n] out, int n)
// Entry:   plus(const float t[n] in, float y[n] out, int n, int OFFSET)
// Sizes:   OFFSET = 3 * n
// Launch:  twice block=(64) grid=(cdiv(n, 64)); plus block=(32) grid=(cdiv(n, 32))
extern "C" __global__ void twice(const float* x, float* t, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x; if (i < n) t[i] = 2 * x[i];
}
extern "C" __global__ void plus(const float* t, float* y, int n, int OFFSET) {
    const int i = blockIdx.x * 32 + threadIdx.x; if (i < n) y[i] = t[i] + OFFSET;
}
"""

BATCHED = """\
// Entry:  scale(const double x[BATCH,n] in, double y[BATCH,n] out, int BATCH, int n, double a)
// Launch: scale block=(32) grid=(cdiv(n, 32), 1, BATCH)
extern "C" __global__ void scale(const double* x, double* y, int BATCH, int n, double a) {
    const int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n) y[blockIdx.z * n + i] = a * x[blockIdx.z * n + i];
}
"""

CONSTANT_MEMORY = """\
// Entry:    blur(const float x[n] in, float y[n] out, int n, int taps)
// Constant: filters <- w
// Launch:   blur block=(64) grid=(cdiv(n, 64))
__constant__ float filters[16];
extern "C" __global__ void blur(const float* x, float* y, int n, int taps) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = 0; k < taps; ++k) if (i + k < n) sum += filters[k] * x[i + k];
    y[i] = sum;
}
"""

DYNAMIC_SHARED = """\
// Entry:  reverse(const float4 x[n] in, float4 y[n] out, int n)
// Needs:  n % 4 == 0
// Launch: reverse block=(n / 4) grid=(1) shared=n * 4 + EXTRA
constexpr int EXTRA = 60 * 1024;
extern "C" __global__ void reverse(const float4* x, float4* y, int n) {
    extern __shared__ float4 tile[];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
"""

ATOMICS = """\
// Entry:  histogram(const unsigned char x[n] in, unsigned counts[8] out, int n)
// Zeroed: counts
// Launch: histogram block=(64) grid=(cdiv(n, 64))
__device__ int calls = 40;
extern "C" __global__ void histogram(const unsigned char* x, unsigned* counts, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) atomicAdd(&counts[x[i]], 1u);
    if (i == 0) { atomicAdd(&calls, 1); printf("call %d\\n", calls); }
}
"""

SCRATCH = """\
// Entry:   partial(const int x[n] in, int sums[BLOCKS] out, int n)
// Entry:   total(const int sums[BLOCKS] in, int y[1] out, int BLOCKS)
// Sizes:   BLOCKS = cdiv(n, 32)
// Scratch: sums
// Launch:  partial block=(1) grid=(BLOCKS)
// Launch:  total block=(1) grid=(1)
extern "C" __global__ void partial(const int* x, int* sums, int n) {
    int sum = 0;
    for (int i = blockIdx.x * 32; i < min(n, (int)blockIdx.x * 32 + 32); ++i) sum += x[i];
    sums[blockIdx.x] = sum;
}
extern "C" __global__ void total(const int* sums, int* y, int BLOCKS) {
    int sum = 0;
    for (int i = 0; i < BLOCKS; ++i) sum += sums[i];
    y[0] = sum;
}
"""


def uniform(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(dtype)


def test_gemm():
    a, b, c = uniform(17, 5, dtype="float16"), uniform(5, 9), uniform(17, 9)
    run = run_kernel(GEMM, {"alpha": 0.5}, {"A": a, "B": b, "C": c}, device="sim")
    np.testing.assert_allclose(run.outputs["C"], c + 0.5 * (a.astype(float) @ b), rtol=1e-5, atol=1e-6)
    assert run.overwritten == ()
    assert run.hazards == ()
    assert run.launches[0].grid == (2, 3, 1)
    assert run.counters.fma_instructions >= 17 * 9 * 5
    assert sum(counters.global_store_requests for counters in run.lines.values()) == run.counters.global_store_requests


def test_constants_change_launch_and_code_together():
    a, b, c = uniform(17, 5, dtype="float16"), uniform(5, 9), uniform(17, 9)
    run = run_kernel(GEMM, {"alpha": 1}, {"A": a, "B": b, "C": c}, device="sim", constants={"TILE": 4})
    np.testing.assert_allclose(run.outputs["C"], c + a.astype(float) @ b, rtol=1e-5, atol=1e-6)
    assert run.launches[0].grid == (3, 5, 1)


def test_two_kernels():
    x = uniform(100)
    run = run_kernel(TWO_KERNELS, {}, {"x": x}, device="sim")
    np.testing.assert_allclose(run.outputs["y"], 2 * x + 300, rtol=1e-6)
    np.testing.assert_array_equal(run.outputs["t"], 2 * x)
    assert [launch.kernel for launch in run.launches] == ["twice", "plus"]
    both = run.launches[0].counters.global_load_bytes + run.launches[1].counters.global_load_bytes
    assert run.counters.global_load_bytes == both == 800


def test_batched():
    x = uniform(3, 40, dtype="float64")
    run = run_kernel(BATCHED, {"a": 3.5}, {"x": x}, device="sim")
    np.testing.assert_array_equal(run.outputs["y"], 3.5 * x)


def test_constant_memory():
    x, w = uniform(70), uniform(2, 3)
    run = run_kernel(CONSTANT_MEMORY, {"taps": 6}, {"x": x, "w": w}, device="sim")
    padded = np.concatenate([x, np.zeros(5)])
    expected = sum(w.ravel()[k] * padded[k : k + 70] for k in range(6))
    np.testing.assert_allclose(run.outputs["y"], expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(LaunchError, match=r"'w' has 17 elements, __constant__ filters holds 16"):
        run_kernel(CONSTANT_MEMORY, {"taps": 6}, {"x": x, "w": uniform(17)}, device="sim")


def test_dynamic_shared_memory():
    x = uniform(128)
    run = run_kernel(DYNAMIC_SHARED, {}, {"x": x}, device="sim")
    np.testing.assert_array_equal(run.outputs["y"], x.reshape(-1, 4)[::-1].ravel())
    assert run.launches[0].shared_mem == 128 * 4 + 60 * 1024
    with pytest.raises(NeedsError, match="needs n % 4 == 0, and here n = 127"):
        run_kernel(DYNAMIC_SHARED, {}, {"x": x[1:]}, device="sim")


def test_zeroed_output_with_atomics_and_fresh_variables():
    x = RNG.integers(0, 8, 300).astype(np.uint8)
    program = Program(parse_contract(ATOMICS), device="sim")
    for _ in range(2):
        run = program.run({}, {"x": x})
        np.testing.assert_array_equal(run.outputs["counts"], np.bincount(x, minlength=8))
        assert run.printed == "call 41\n"


def test_scratch():
    x = RNG.integers(-9, 9, 100).astype(np.int32)
    run = run_kernel(SCRATCH, {"n": 100}, {"x": x}, device="sim")
    assert list(run.outputs) == ["y"]
    assert run.outputs["y"][0] == x.sum()


def test_outputs_are_poisoned():
    source = GEMM.replace("inout", "out")
    source = source.replace("C[row * N + col] += alpha * sum;", "if (col > 3) C[row * N + col] = 1;")
    run = run_kernel(source, {"alpha": 1}, {"A": uniform(4, 5, dtype="float16"), "B": uniform(5, 6)}, device="sim")
    np.testing.assert_array_equal(is_poison(run.outputs["C"]), np.tile(np.arange(6) < 4, (4, 1)))
    source = SCRATCH.replace("y[0] = sum", "(void)0")
    run = run_kernel(source, {"n": 9}, {"x": np.zeros(9, np.int32)}, device="sim")
    assert run.outputs["y"][0] == 0x7F7F7F7F


def test_overwritten_inputs_are_named():
    source = TWO_KERNELS.replace("t[i] = 2 * x[i]", "t[i] = 2 * x[i]; if (i == 3) ((float*)x)[i] = -0.0f")
    x = uniform(100)
    before = x.copy()
    run = run_kernel(source, {}, {"x": x}, device="sim")
    assert run.overwritten == ("x",)
    np.testing.assert_array_equal(x, before)


def test_an_input_that_was_stored_to_and_restored_is_named():
    store = "{ volatile float* v = (float*)x; const float was = v[i]; v[i] = -1.0f; v[i] = was; t[i] = 2 * was; }"
    x = uniform(100)
    run = run_kernel(TWO_KERNELS.replace("t[i] = 2 * x[i]", store), {}, {"x": x}, device="sim")
    assert run.overwritten == ("x",) and not run.hazards


@pytest.mark.parametrize(
    ("sizes", "arrays", "words"),
    [
        ({"n": 4}, {}, "input array 'x' is missing"),
        ({"n": 4}, {"x": np.zeros(5, np.float32)}, r"'x' has shape \[5\], not float32\[4\]"),
        ({}, {"x": np.zeros(4)}, "'x' holds float64, the Entry line says float"),
        ({}, {"x": np.zeros(4, np.float32), "y": np.zeros(4, np.float32)}, "'y' is no input array"),
    ],
)
def test_wrong_arrays(sizes, arrays, words):
    with pytest.raises(ArgumentError, match=words):
        run_kernel(TWO_KERNELS, sizes, arrays, device="sim")


def test_an_impossible_launch_is_refused_with_its_line():
    source = BATCHED.replace("block=(32)", "block=(n)")
    with pytest.raises(LaunchError, match=r"kernel.cu:2: the launch of 'scale' asks for block x = 2000"):
        run_kernel(source, {"a": 1}, {"x": uniform(1, 2000, dtype="float64")}, device="sim")


HUGE = """\
// Entry:  count(int y[m,m] out, int n, int m)
// Launch: count block=(1024) grid=(n)
extern "C" __global__ void count(int* y, int n, int m) { if (threadIdx.x + blockIdx.x < m) y[threadIdx.x] = n; }
"""


def test_limits_of_the_simulation_name_the_line_that_goes_over():
    """Too many threads: the Launch line; too large an array: its Entry line."""
    with pytest.raises(StepLimitExceeded, match=r"^huge\.cu:2: count: a launch of 1,073,741,824 blocks") as launch:
        run_kernel(HUGE, {"n": 1 << 30, "m": 1}, {}, name="huge.cu")
    with pytest.raises(MemoryLimitExceeded, match=r"^huge\.cu:1: y of 68,719,476,736 bytes does not fit") as entry:
        run_kernel(HUGE, {"n": 1, "m": 1 << 17}, {}, name="huge.cu")
    assert (launch.value.line, entry.value.line) == (2, 1)


def test_enqueue_works_on_device_arrays_and_zeroes_what_the_header_says():
    program = Program(
        parse_contract(TWO_KERNELS.replace("// Sizes", "// Scratch: t\n// Zeroed: y\n// Sizes")), device="sim"
    )
    device = program.module.device
    x, y = RNG.uniform(-1, 1, 100).astype(np.float32), device.asarray(np.ones(100, np.float32))
    launches = program.enqueue({"n": 100}, {"x": device.asarray(x), "y": y})
    assert [launch.kernel for launch in launches] == ["twice", "plus"]
    np.testing.assert_array_equal(y.get(), 2 * x + np.float32(300))
    with pytest.raises(ArgumentError, match="'y' is missing"):
        program.enqueue({"n": 100}, {"x": device.asarray(x)})
    with pytest.raises(ArgumentError, match=r"float32\[7\], not float32\[100\]"):
        program.enqueue({"n": 100}, {"x": device.asarray(x), "y": y[:7]})


def test_enqueue_fills_constants_from_device_arrays():
    program = Program(parse_contract(CONSTANT_MEMORY), device="sim")
    device = program.module.device
    x, w = (RNG.uniform(-1, 1, n).astype(np.float32) for n in (70, 3))
    y = device.empty((70,), np.float32)
    program.enqueue({"n": 70, "taps": 3}, {"x": device.asarray(x), "y": y, "w": device.asarray(w)})
    padded = np.concatenate([x, np.zeros(2, np.float32)])
    np.testing.assert_allclose(y.get(), sum(w[k] * padded[k : k + 70] for k in range(3)), atol=1e-6)
    with pytest.raises(LaunchError, match="holds 16"):
        program.enqueue({"n": 70, "taps": 3}, {"x": device.asarray(x), "y": y, "w": device.zeros((17,), np.float32)})
