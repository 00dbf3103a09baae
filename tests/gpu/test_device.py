"""The programming interface on a real GPU, side by side with the simulator."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import warpschool as ws
from warpschool import model
from warpschool.device import SimDevice
from warpschool.device.measurement import Rules
from warpschool.errors import ArgumentError, CompileError, ContractError, LaunchError, NotMeasured

pytestmark = pytest.mark.gpu
RNG = np.random.default_rng(3)
MATMUL = """\
constexpr int TILE = 16;
__constant__ float scale[2];
__device__ int calls = 0;
extern "C" __global__ void matmul(const float* __restrict__ A, const float* __restrict__ B, float* C,
                                  int M, int N, int K, float alpha) {
    __shared__ float a[TILE][TILE], b[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        a[threadIdx.y][threadIdx.x] = row < M && k0 + threadIdx.x < K ? A[row * K + k0 + threadIdx.x] : 0.0f;
        b[threadIdx.y][threadIdx.x] = col < N && k0 + threadIdx.y < K ? B[(k0 + threadIdx.y) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = alpha * scale[0] * sum + scale[1];
    if (row == 0 && col == 0) atomicAdd(&calls, 1);
}
"""
WMMA = """\
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void product(const half* A, const half* B, float* C) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    wmma::load_matrix_sync(a, A, 16);
    wmma::load_matrix_sync(b, B, 16);
    wmma::mma_sync(c, a, b, c);
    wmma::store_matrix_sync(C, c, 16, wmma::mem_row_major);
}
"""

GRID_SYNC = """\
#include <cooperative_groups.h>
extern "C" __global__ void turned(float* x, float* y) {
    const unsigned last = gridDim.x * blockDim.x - 1, me = blockIdx.x * blockDim.x + threadIdx.x;
    x[me] = me * 2.0f;
    cooperative_groups::this_grid().sync();
    y[me] = x[last - me];
}
"""


@pytest.fixture(scope="module")
def device():
    return ws.get_device("gpu")


def matmul(device, m: int, n: int, k: int, tile: int = 16):
    """Operands, kernel and a function that launches it."""
    module = ws.RawModule(code=MATMUL, constants={"TILE": tile}, device=device)
    module.get_global("scale", np.float32).set(np.float32([2, 1]))
    host_a, host_b = RNG.normal(size=(m, k)).astype(np.float32), RNG.normal(size=(k, n)).astype(np.float32)
    a, b, c = device.asarray(host_a), device.asarray(host_b), device.empty((m, n), np.float32)
    grid = (-(-n // tile), -(-m // tile))
    kernel = module.get_function("matmul")
    return module, lambda: kernel(grid, (tile, tile), (a, b, c, m, n, np.int32(k), 0.5)), host_a, host_b, c


@pytest.mark.parametrize("tile", [8, 16, 32])
def test_a_matrix_product(device, tile: int) -> None:
    module, launch, a, b, c = matmul(device, 65, 50, 70, tile)
    launch()
    np.testing.assert_allclose(device.asnumpy(c), a.astype(np.float64) @ b + 1, rtol=1e-4, atol=1e-4)
    assert module.get_global("calls", np.int32).get() == [1]


def test_nothing_is_counted_and_it_says_so(device) -> None:
    _, launch, *_ = matmul(device, 16, 16, 16)
    done = launch()
    for read in (
        lambda: done.counters.barriers,
        lambda: done.lines[1],
        lambda: list(done.hazards),
        lambda: len(done.hazards),
    ):
        with pytest.raises(NotMeasured, match="not measured on this device"):
            read()
    assert "not measured on this device" in str(done)
    assert str(done.printed) == "not measured on this device"


def test_arrays_behave_as_on_the_simulator(device) -> None:
    host = RNG.normal(size=(6, 4)).astype(np.float32)
    array = device.asarray(host)
    np.testing.assert_array_equal(array[1:3].get(), host[1:3])
    np.testing.assert_array_equal(array[4].get(), host[4])
    np.testing.assert_array_equal(array.reshape(3, -1).get(), host.reshape(3, -1))
    np.testing.assert_array_equal(array.view(np.int32).get(), host.view(np.int32))
    array[2:].fill(7)
    host[2:] = 7
    np.testing.assert_array_equal(array.get(), host)
    assert (device.zeros((3, 5), np.float64).get() == 0).all()
    assert device.zeros((), np.int32).get() == 0
    assert device.empty((0, 3), np.float32).get().shape == (0, 3)
    pinned = device.pinned((4, 4), np.float32)
    pinned[...] = 3
    assert device.asarray(pinned).get().sum() == 48
    with pytest.raises(ArgumentError, match="asnumpy"):
        np.asarray(array)
    with pytest.raises(ArgumentError):
        array.set(np.zeros(3, np.float32))


def test_cupy_arrays_work_in_both_directions(device) -> None:
    cupy = device.cupy
    module = ws.RawModule(
        code='extern "C" __global__ void inc(float* x, int n) { x[threadIdx.x] += n; }', device=device
    )
    x = cupy.arange(32, dtype=cupy.float32)
    module.get_function("inc")(1, 32, (x, 5))
    assert x.get().tolist() == list(range(5, 37))
    y = device.zeros(32, np.float32)
    cupy.asarray(y)[...] = 2
    assert (y.get() == 2).all()
    with pytest.raises(ArgumentError, match="contiguous"):
        module.get_function("inc")(1, 32, (cupy.zeros((32, 2), cupy.float32)[:, 0], 5))


def test_arguments_are_checked_as_on_the_simulator(device) -> None:
    module, *_ = matmul(device, 16, 16, 16)
    kernel, x = module.get_function("matmul"), device.zeros((16, 16), np.float32)
    for arguments, message in (
        ((x, x, x, 1.5, 1, 1, 1.0), r"argument 4 \(M\)"),
        ((x, x, x, 1, 1, np.int64(1), 1.0), r"argument 6 \(K\)"),
        ((x, device.zeros(3, np.float64), x, 1, 1, 1, 1.0), r"argument 2 \(B\).*float64"),
        ((x, SimDevice().zeros(3, np.float32), x, 1, 1, 1, 1.0), r"argument 2 \(B\): the array is on the simulator"),
        ((x, np.zeros(3, np.float32), x, 1, 1, 1, 1.0), r"argument 2 \(B\): a NumPy array"),
    ):
        with pytest.raises(ArgumentError, match=message):
            kernel(1, 16, arguments)


def test_structures_and_every_scalar_type(device) -> None:
    module = ws.RawModule(
        code="""#include <cuda_fp16.h>
        struct S { float a; int b; };
        extern "C" __global__ void k(double* x, S s, signed char c, bool b, long long l, double d,
                                     __half h, float f, float4 v) {
            x[0] = s.a + s.b; x[1] = c; x[2] = b; x[3] = l; x[4] = d; x[5] = __half2float(h); x[6] = f; x[7] = v.w;
        }""",
        device=device,
    )
    x = device.zeros(8, np.float64)
    record = np.array([(1.5, 2)], np.dtype([("a", "f4"), ("b", "i4")]))[0]
    vector = np.float32([1, 2, 3, 4]).tobytes()
    module.get_function("k")(1, 1, (x, record, -3, True, -(2**40), 0.1, np.float16(1.5), 0.5, vector))
    assert x.get().tolist() == [3.5, -3, 1, -(2**40), 0.1, 1.5, 0.5, 4]


def test_tensor_core_headers_are_found(device) -> None:
    a, b = RNG.normal(size=(2, 16, 16)).astype(np.float16)
    c = device.empty((16, 16), np.float32)
    module = ws.RawModule(code=WMMA, device=device)
    module.get_function("product")(1, 32, (device.asarray(a), device.asarray(b), c))
    np.testing.assert_allclose(c.get(), a.astype(np.float64) @ b.astype(np.float64), rtol=1e-3, atol=1e-3)


def test_names_of_standard_headers_are_there(device) -> None:
    source = """\
extern "C" __global__ void limits(float* y, uint32_t n) {
    if (threadIdx.x < n) y[threadIdx.x] = threadIdx.x == 0 ? -INFINITY : FLT_MAX;
}
"""
    y = device.empty(2, np.float32)
    ws.RawModule(code=source, device=device).get_function("limits")((1,), (2,), (y, np.uint32(2)))
    assert device.asnumpy(y).tolist() == [-np.inf, float(np.finfo(np.float32).max)]


def test_dynamic_shared_memory(device) -> None:
    source = (
        'extern "C" __global__ void k(float* x, int n) { extern __shared__ float s[]; '
        "s[threadIdx.x] = n; __syncthreads(); x[threadIdx.x] = s[31 - threadIdx.x]; }"
    )
    kernel, x = ws.RawModule(code=source, device=device).get_function("k"), device.zeros(32, np.float32)
    with pytest.raises(LaunchError, match="max_dynamic_shared_size_bytes"):
        kernel(1, 32, (x, 7), shared_mem=60 << 10)
    kernel.max_dynamic_shared_size_bytes = 60 << 10
    kernel(1, 32, (x, 7), shared_mem=60 << 10)
    assert (x.get() == 7).all()
    with pytest.raises(LaunchError, match="of dynamic shared memory"):
        kernel.max_dynamic_shared_size_bytes = 1 << 20


def test_wrong_sources(device) -> None:
    with pytest.raises(CompileError, match=r"kernel\.cu:1"):
        ws.RawModule(code="this is no CUDA", device=device).get_function("k")
    with pytest.raises(ContractError, match="Did you mean matmul"):
        ws.RawModule(code=MATMUL, device=device).get_function("matmull")
    with pytest.raises(ContractError, match="nothing_such"):
        ws.RawModule(code=MATMUL, device=device).get_global("nothing_such")
    with pytest.raises(LaunchError, match=r"grid\.y"):
        ws.RawModule(code=MATMUL, device=device).get_function("matmul")((1, 70000), 1, ())


def test_streams_and_events(device) -> None:
    _, launch, a, b, c = matmul(device, 64, 64, 64)
    stream, start, end = device.Stream(non_blocking=True), device.Event(), device.Event()
    device.synchronize()
    with stream:
        start.record(stream)
        launch()
        end.record(stream)
    assert device.elapsed_ms(start, end) > 0
    assert end.done
    out = device.pinned((64, 64), np.float32)
    c.get(stream=stream, out=out)
    stream.synchronize()
    np.testing.assert_allclose(out, a.astype(np.float64) @ b + 1, rtol=1e-4, atol=1e-4)


def test_the_driver_agrees_with_the_specifications(device) -> None:
    spec = device.spec
    attributes = device._device.attributes
    assert spec.sm.warps * 32 == attributes["MaxThreadsPerMultiProcessor"]
    assert spec.sm.blocks == attributes["MaxBlocksPerMultiprocessor"]
    assert spec.sm.shared_bytes == attributes["MaxSharedMemoryPerMultiprocessor"]
    assert spec.sm.shared_bytes_per_block == attributes["MaxSharedMemoryPerBlockOptin"]
    assert spec.sm.registers == attributes["MaxRegistersPerMultiprocessor"]
    assert spec.sm.reserved_shared_bytes == attributes["ReservedSharedMemoryPerBlock"]
    if "H200" in device.description:
        table = model.find_gpu("h200")
        assert (spec.sms, spec.l2_bytes, spec.clock_mhz) == (table.sms, table.l2_bytes, table.clock_mhz)
        assert spec.dram_gb_per_s == pytest.approx(table.dram_gb_per_s, rel=0.05)


@pytest.mark.parametrize("registers", [16, 40, 65, 128, 255])
def test_occupancy_agrees_with_the_driver(device, registers: int) -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    body = "\n".join(f"v[{i}] = x[{i} * 97 + threadIdx.x];" for i in range(registers))
    source = f"""extern "C" __global__ void __launch_bounds__(256) k(float* x, int n) {{
        __shared__ float s[256]; float v[{registers}];
        {body}
        for (int r = 0; r < n; ++r) {{
            #pragma unroll
            for (int i = 0; i < {registers}; ++i) v[i] = v[i] * v[(i + 7) % {registers}] + r;
        }}
        float sum = 0;
        #pragma unroll
        for (int i = 0; i < {registers}; ++i) sum += v[i];
        s[threadIdx.x] = sum; __syncthreads(); x[threadIdx.x] = s[255 - threadIdx.x]; }}"""
    kernel = ws.RawModule(code=source, device=device).get_function("k")
    found = kernel.attributes
    for threads in (32, 64, 96, 128, 192, 256):
        for shared in (0, 10_000, 40_000):
            handle = driver.CUfunction(kernel._loaded.function.kernel.ptr)
            error, blocks = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(handle, threads, shared)
            assert error == driver.CUresult.CUDA_SUCCESS
            ours = model.occupancy(
                threads, registers=found["num_regs"], shared_bytes=found["shared_size_bytes"] + shared, gpu=device.spec
            )
            assert ours.blocks == blocks, (threads, shared, found["num_regs"])


class TestBenchmark:
    RULES = Rules(max_seconds=2.0)

    def test_a_launch(self, device) -> None:
        _, launch, *_ = matmul(device, 1024, 1024, 1024)
        timing = ws.benchmark(launch(), rules=self.RULES)
        print(timing)
        assert timing.n >= 10
        assert 0.01 < timing.median_ms < 100
        assert timing.min_ms <= timing.p10_ms <= timing.median_ms <= timing.p90_ms
        assert timing.device_name == device.description
        assert 2 * 1024**3 < timing.per_second(2 * 1024**3) < 2e14
        assert timing.counters is None
        assert timing.estimate is None

    def test_host_overhead_is_not_counted(self, device) -> None:
        module = ws.RawModule(code='extern "C" __global__ void nothing() {}', device=device)
        timing = ws.benchmark(module.get_function("nothing")(1, 32), rules=self.RULES)
        print(timing)
        assert timing.median_ms < 0.01

    def test_cold_caches_are_slower_than_warm_ones(self, device) -> None:
        source = """extern "C" __global__ void total(const float* x, float* y, int n) {
            float s = 0;
            for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
            if (s == 12345.0f) y[0] = s; }"""
        n = 4 << 20  # 16 MiB: fits in L2
        x, y = device.zeros(n, np.float32), device.zeros(1, np.float32)
        kernel = ws.RawModule(code=source, device=device).get_function("total")
        launch = kernel(1024, 256, (x, y, n))
        cold, warm = (ws.benchmark(launch, flush=flush, rules=self.RULES) for flush in ("l2", "warm"))
        print(cold, warm, sep="\n")
        assert cold.median_ms > 1.2 * warm.median_ms

    def test_a_ratio_to_itself_is_one(self, device) -> None:
        _, launch, *_ = matmul(device, 512, 512, 512)
        ratio = ws.benchmark_ratio(launch, launch, rules=self.RULES)
        print(ratio)
        assert ratio.speed == pytest.approx(1, abs=0.03)

    def test_a_library_call(self, device) -> None:
        cupy = device.cupy
        a = cupy.ones((1024, 1024), cupy.float32)
        _, launch, *_ = matmul(device, 1024, 1024, 1024)
        ratio = ws.benchmark_ratio(launch, lambda: cupy.matmul(a, a), device=device, rules=self.RULES)
        print(ratio)
        assert 0.01 < ratio.speed < 1


def test_a_fault_is_reported_with_what_to_do(device) -> None:
    code = """
        import numpy as np
        import warpschool as ws
        from warpschool.errors import DeviceFault
        device = ws.get_device("gpu")
        source = 'extern "C" __global__ void k(float* x, long long n) { x[n] = 1.0f; }'
        ws.RawModule(code=source, device=device).get_function("k")(1, 1, (device.zeros(4, np.float32), 1 << 40))
        try:
            device.synchronize()
        except DeviceFault as fault:
            print(fault)
    """
    # A process of its own: a GPU that has faulted serves it no more.
    found = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert "IllegalAddress" in found.stdout, found.stdout + found.stderr
    assert 'device="sim"' in found.stdout


@pytest.mark.parametrize("which", ["sim", "gpu"])
def test_blocks_meet_in_a_cooperative_launch(which):
    on = ws.get_device(which)
    x, y = on.zeros(1024, np.float32), on.zeros(1024, np.float32)
    ws.RawModule(code=GRID_SYNC, device=on).get_function("turned")(8, 128, (x, y), cooperative=True)
    np.testing.assert_array_equal(y.get(), 2.0 * np.arange(1024)[::-1])


def test_the_simulator_adds_as_the_gpu_does():
    """Tensor cores of Hopper, to the last bit."""
    sim = ws.get_device("sim")
    gpu = ws.get_device("gpu")
    if gpu.arch != "sm_90":
        pytest.skip("only Hopper's adders are known")
    a, b = (RNG.standard_normal((16, 16)).astype(np.float16) for _ in "ab")
    found = {}
    for on, options in ((gpu, {}), (sim, {"tensor_sums": "hopper"})):
        c = on.zeros((16, 16), np.float32)
        product = ws.RawModule(code=WMMA, device=on).get_function("product")
        product(1, 32, (on.asarray(a), on.asarray(b), c), **options)
        found[on.name] = c.get().view(np.uint32)
    np.testing.assert_array_equal(found["sim"], found["gpu"])
