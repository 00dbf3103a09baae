"""The programming interface from end to end, on the simulator."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import warpschool as ws
from warpschool.device import Launch, SimDevice, module as find_module
from warpschool.errors import (
    ArgumentError,
    CompileError,
    ContractError,
    DeviceUnavailable,
    LaunchError,
    NotMeasured,
    SimulationError,
    StepLimitExceeded,
)

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
M, N, K = 33, 50, 70
RNG = np.random.default_rng(11)
A, B = RNG.normal(size=(M, K)).astype(np.float32), RNG.normal(size=(K, N)).astype(np.float32)


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def run(tile: int = 16, **options) -> tuple[ws.RawModule, Launch, np.ndarray]:
    module = ws.RawModule(code=MATMUL, constants={"TILE": tile}, device="sim", name="matmul.cu")
    module.get_global("scale", np.float32).set(np.float32([2, 1]))
    a, b = module.device.asarray(A, name="A"), module.device.asarray(B, name="B")
    c = module.device.empty((M, N), np.float32, name="C")
    kernel = module.get_function("matmul")
    launch = kernel((cdiv(N, tile), cdiv(M, tile)), (tile, tile), (a, b, c, M, N, np.int32(K), 0.5), **options)
    return module, launch, module.device.asnumpy(c)


@pytest.mark.parametrize("tile", [8, 16])
def test_a_matrix_product(tile: int) -> None:
    module, launch, c = run(tile)
    np.testing.assert_allclose(c, A.astype(np.float64) @ B + 1, rtol=1e-4, atol=1e-4)
    steps, threads = cdiv(K, tile), cdiv(N, tile) * cdiv(M, tile) * tile * tile
    assert launch.counters.fma_instructions >= threads * steps * tile
    assert launch.counters.barriers == threads // 32 * steps * 2
    assert (
        launch.counters["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == launch.counters.global_load_requests > 0
    )
    assert launch.counters.blocks == launch.blocks == cdiv(N, tile) * cdiv(M, tile)
    assert launch.threads_per_block == tile * tile
    assert list(launch.hazards) == []
    assert module.get_global("calls", np.int32).get() == [1]


def test_lines_add_up_to_the_totals() -> None:
    _, launch, _ = run()
    for name in ("global_load_sectors", "shared_load_requests", "fma_instructions", "barriers", "thread_instructions"):
        assert sum(line[name] for line in launch.lines.values()) == launch.counters[name], name
    assert launch.lines[13].barriers + launch.lines[15].barriers == launch.counters.barriers
    assert launch.lines[11].global_load_bytes > 0
    assert launch.lines[14].global_load_bytes == 0
    assert all(1 <= line <= MATMUL.count("\n") for line in launch.lines)


def test_the_report_reads_well() -> None:
    _, launch, _ = run()
    text = str(launch)
    assert "matmul of matmul.cu: grid 4x3x1, block 16x16x1 on the simulator" in text
    assert "hazards: none" in text
    assert "fma_instructions" in text


def test_resources_attributes_and_occupancy() -> None:
    module, launch, _ = run()
    kernel = module.get_function("matmul")
    assert kernel.resources.registers > 8
    assert kernel.resources.shared_bytes == 2 * 16 * 16 * 4 == kernel.attributes["shared_size_bytes"]
    assert launch.resources == kernel.resources
    assert kernel.occupancy((16, 16), gpu="rtx2080ti").fraction == 1
    old = kernel.occupancy(256, gpu="gtx1080")
    assert "sm_75" in old.note
    assert "sm_75" in str(old)
    assert kernel.occupancy((16, 16), gpu="a100", shared_mem=100 << 10).limited_by == ("shared memory",)


def test_the_memory_of_a_launch_is_free_as_soon_as_nobody_has_it() -> None:
    device = SimDevice()
    kernel = ws.RawModule(code='extern "C" __global__ void k(int* p) { *p = 1; }', device=device).get_function("k")
    gc.disable()  # collecting garbage would hide that a launch refers to itself, and addresses would depend on when
    try:
        launch = kernel(1, 1, (device.empty(1, np.int32),))
        address = launch.call.arguments[0].address
        del launch
        assert device.empty(1, np.int32).address == address
    finally:
        gc.enable()


PAIR = """struct Pair { int a, b; };
extern "C" __global__ void k(int* p, Pair pair, int n) { *p = pair.a + 10 * pair.b + 100 * n; }"""


def test_launches_with_arguments_that_have_changed_see_that() -> None:
    device = SimDevice()
    kernel = ws.RawModule(code=PAIR, device=device).get_function("k")
    pair = np.zeros(1, np.dtype([("a", "i4"), ("b", "i4")]))[0]
    array = device.zeros(1, np.int32)
    arguments = (array, pair, np.int32(1))
    found = []
    for a in (1, 2):
        pair["a"] = a
        kernel(1, 1, arguments)
        found.append(array.get().tolist())
    assert found == [[101], [102]]
    packed = bytes(np.array([3, 4], "i4"))
    for n in (1, 1, 2):
        kernel(1, 1, (array, packed, n))
        assert array.get().tolist() == [43 + 100 * n]
    for _ in range(3):  # each of these arrays may lie where the one before did, or be known by its number
        other = device.zeros(1, np.int32)
        kernel(1, 1, (other, packed, 1))
        assert other.get().tolist() == [143]
        del other
    for wrong in (7, array, (array, packed)):
        with pytest.raises(ArgumentError):
            kernel(1, 1, wrong)


def test_a_launch_can_be_repeated_and_benchmarked() -> None:
    module, launch, _ = run()
    again = launch.again()
    assert again.counters == launch.counters
    timing = ws.benchmark(launch, gpu="rtx2080ti")
    assert timing.counters == launch.counters
    assert timing.median_ms is None
    assert timing.estimate is not None
    assert timing.estimate.time_ms > 0
    assert module.get_global("calls", np.int32).get() == [3]
    assert launch.array_bytes == 4 * (M * K + K * N + M * N)


def test_counting_and_checking_can_be_switched_off() -> None:
    _, launch, c = run(check=False, count=False)
    np.testing.assert_allclose(c, A.astype(np.float64) @ B + 1, rtol=1e-4, atol=1e-4)
    for read in (lambda: launch.counters.barriers, lambda: launch.lines[1], lambda: list(launch.hazards)):
        with pytest.raises(NotMeasured, match="switched off"):
            read()
    assert "switched off" in str(launch)
    with pytest.raises(ArgumentError, match="chekc"):
        run(chekc=False)


def test_streams_and_events() -> None:
    module = ws.RawModule(code=MATMUL, device="sim")
    device = module.device
    stream, event = device.Stream(), device.Event()
    a = device.zeros((16, 16), np.float32)
    with stream:
        module.get_function("matmul")(
            1, (16, 16), (a, a, device.empty((16, 16), np.float32), 16, 16, 16, 1.0), stream=stream
        )
        event.record(stream)
    event.synchronize()
    with pytest.raises(ArgumentError, match="does not belong"):
        module.get_function("matmul")(
            1, 1, (a, a, a, 0, 0, 0, 0.0), stream=SimDevice(memory_limit_bytes=1 << 20).Stream()
        )


# ---------------------------------------------------------------- small kernels


def simple(body: str, parameters: str = "float* x, int n", before: str = "", **more) -> ws.RawModule:
    return ws.RawModule(
        code=f'{before}\nextern "C" __global__ void k({parameters}) {{ {body} }}\n', device="sim", **more
    )


def test_structures_by_value() -> None:
    module = simple("x[0] = s.a + s.b; x[1] = v.w;", "float* x, S s, float4 v", "struct S { float a; int b; };")
    x = module.device.zeros(2, np.float32)
    value = np.array([(1.5, 2)], np.dtype([("a", "f4"), ("b", "i4")]))[0]
    module.get_function("k")(1, 1, (x, value, np.float32([1, 2, 3, 4]).tobytes()))
    assert x.get().tolist() == [3.5, 4]


def test_every_scalar_type() -> None:
    module = simple(
        "x[0]=c; x[1]=uc; x[2]=s; x[3]=b; x[4]=l; x[5]=d; x[6]=__half2float(h); x[7]=u;",
        "double* x, signed char c, unsigned char uc, short s, bool b, long long l, double d, __half h, unsigned u",
        "#include <cuda_fp16.h>",
    )
    x = module.device.zeros(8, np.float64)
    module.get_function("k")(1, 1, (x, -3, 200, -300, True, -(2**40), 0.1, np.float16(1.5), 2**32 - 1))
    assert x.get().tolist() == [-3, 200, -300, 1, -(2**40), 0.1, 1.5, 2**32 - 1]


def test_dynamic_shared_memory_must_be_asked_for() -> None:
    module = simple(
        "extern __shared__ float s[]; s[threadIdx.x] = n; __syncthreads(); x[threadIdx.x] = s[threadIdx.x];"
    )
    kernel, x = module.get_function("k"), module.device.zeros(32, np.float32)
    kernel(1, 32, (x, 7), shared_mem=128)
    assert (x.get() == 7).all()
    with pytest.raises(LaunchError, match="max_dynamic_shared_size_bytes = 65536"):
        kernel(1, 32, (x, 7), shared_mem=1 << 16)
    kernel.max_dynamic_shared_size_bytes = 1 << 16
    kernel(1, 32, (x, 8), shared_mem=1 << 16)
    assert (x.get() == 8).all()
    with pytest.raises(LaunchError, match="1,048,576"):
        kernel.max_dynamic_shared_size_bytes = 1 << 20
    with pytest.raises(LaunchError, match="negative"):
        kernel(1, 32, (x, 7), shared_mem=-1)


def test_a_hazard_names_the_array_and_the_line() -> None:
    module = simple("x[n] = 1.0f;", name="bad.cu")
    x = module.device.zeros(4, np.float32, name="weights")
    launch = module.get_function("k")(1, 1, (x, 4))
    (hazard,) = launch.hazards
    assert (hazard.kind, hazard.file, hazard.line, hazard.array) == ("out-of-bounds", "bad.cu", 2, "weights")
    assert "bad.cu:2: out-of-bounds" in str(launch)
    assert (x.get() == 0).all()


def test_an_array_without_a_name_is_called_like_its_parameter() -> None:
    module = simple("x[n] = 1.0f;")
    kernel, device = module.get_function("k"), module.device
    assert kernel(1, 1, (device.zeros(4, np.float32), 4)).hazards[0].array == "x"
    assert kernel(1, 1, (device.zeros(4, np.float32, name="mine"), 4)).hazards[0].array == "mine"


def test_printf_is_captured() -> None:
    launch = simple('printf("n = %d\\n", n);').get_function("k")(1, 1, (ws.get_device("sim").zeros(1, np.float32), 5))
    assert launch.printed == "n = 5\n"
    assert "n = 5" in str(launch)


def test_an_endless_loop_ends() -> None:
    module = simple("while (x[0] == 0.0f) { x[1] += 1.0f; }", "volatile float* x")
    with pytest.raises(StepLimitExceeded):
        module.get_function("k")(1, 1, (module.device.zeros(2, np.float32),), step_limit=1000)


# ---------------------------------------------------------------- what goes wrong before a launch


def test_a_barrier_of_the_whole_grid_is_refused() -> None:
    module = simple("cooperative_groups::this_grid().sync();", "float* x", "#include <cooperative_groups.h>")
    with pytest.raises(LaunchError, match=r"(?s)barrier of a whole grid.*second one"):
        module.get_function("k")(1, 32, (module.device.zeros(1, np.float32),))


def test_blocks_of_a_cooperative_launch_meet() -> None:
    body = "x[threadIdx.x] = n; cooperative_groups::this_grid().sync(); x[threadIdx.x + 32] = x[threadIdx.x];"
    module = simple(body, "float* x, int n", "#include <cooperative_groups.h>")
    x = module.device.zeros(64, np.float32)
    module.get_function("k")(2, 32, (x, 3), cooperative=True)
    assert (x.get() == 3).all()


def test_how_tensor_cores_add_can_be_chosen() -> None:
    module = simple("x[0] = 1.0f;")
    x = module.device.zeros(2, np.float32)
    module.get_function("k")(1, 1, (x, 1), tensor_sums="hopper")
    with pytest.raises(ArgumentError, match="'ordered', 'hopper'"):
        module.get_function("k")(1, 1, (x, 1), tensor_sums="exact")


def test_kernels_that_are_not_there() -> None:
    module = ws.RawModule(code=MATMUL, device="sim", name="m.cu")
    with pytest.raises(ContractError, match=r"m.cu: there is no kernel 'matmull'\nDid you mean matmul\?"):
        module.get_function("matmull")
    with pytest.raises(ContractError, match="Did you mean k"):
        ws.RawModule(code="namespace a { __global__ void k(int n) {} }", device="sim").get_function("kk")
    with pytest.raises(ContractError, match="scale"):
        module.get_global("scal")
    with pytest.raises(CompileError, match=r"kernel\.cu:1"):
        ws.RawModule(code="this is no CUDA", device="sim").get_function("k")
    with pytest.raises(CompileError, match="TILLE"):
        ws.RawModule(code=MATMUL, device="sim", constants={"TILLE": 3}).compile()
    with pytest.raises(ArgumentError, match="either"):
        ws.RawModule()


def test_source_from_a_file(tmp_path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(MATMUL, encoding="utf-8")
    module = ws.RawModule(path=path, device="sim")
    assert (module.name, module.entries) == ("mine.cu", ("matmul",))
    assert ".visible .entry matmul" in module.ptx


def test_wrong_calls_name_the_parameter() -> None:
    module, _, _ = run()
    kernel, x = module.get_function("matmul"), module.device.zeros((16, 16), np.float32)
    with pytest.raises(ArgumentError, match=r"matmul, argument 4 \(M\)"):
        kernel(1, 16, (x, x, x, 1.5, 1, 1, 1.0))
    with pytest.raises(ArgumentError, match=r"matmul, argument 2 \(B\).*float64"):
        kernel(1, 16, (x, module.device.zeros(3, np.float64), x, 1, 1, 1, 1.0))
    with pytest.raises(ArgumentError, match="7 arguments"):
        kernel(1, 16, (x, x, x))
    with pytest.raises(LaunchError, match=r"matmul: block\.x"):
        kernel(1, 2000, (x, x, x, 1, 1, 1, 1.0))


# ---------------------------------------------------------------- devices


class TestGetDevice:
    @pytest.fixture(autouse=True)
    def no_gpu(self, monkeypatch) -> None:
        problem = DeviceUnavailable("no GPU can be used: CuPy is not installed", next_step="Install CuPy")
        monkeypatch.setattr(find_module, "gpu_problem", lambda: problem)

    def test_auto_falls_back_to_the_simulator(self) -> None:
        assert ws.get_device("auto").name == "sim"
        assert ws.get_device() is ws.get_device("sim")

    def test_a_missing_gpu_is_an_error_with_its_reason(self) -> None:
        with pytest.raises(DeviceUnavailable, match="CuPy is not installed\nInstall CuPy"):
            ws.get_device("gpu")
        with pytest.raises(DeviceUnavailable):
            ws.RawModule(code=MATMUL, device="gpu")

    def test_devices_pass_through_and_nonsense_is_refused(self) -> None:
        device = SimDevice(memory_limit_bytes=1 << 20)
        assert ws.get_device(device) is device
        assert ws.RawModule(code=MATMUL, device=device).device is device
        with pytest.raises(ArgumentError, match="'tpu'"):
            ws.get_device("tpu")


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = """
        import sys
        before = set(sys.modules)
        import warpschool as ws
        heavy = {"numpy", "llvmlite", "cuda", "rich", "typer", "matplotlib", "pytest", "cupy"}
        new = {m.split(".")[0] for m in set(sys.modules) - before}
        assert not heavy & new, heavy & new
        assert "RawModule" in dir(ws)
        ws.Counters
        assert "warpschool.counters" in sys.modules and "llvmlite" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=240)


def test_unknown_names_are_attribute_errors() -> None:
    assert not hasattr(ws, "no_such_name")
    assert {"RawModule", "check", "load_ipython_extension", "__version__"} <= set(ws.__all__) <= set(dir(ws))
    assert all(hasattr(ws, name) for name in ws.__all__)
    for name in ("RawModule", "benchmark", "occupancy", "Counters", "compile_cuda"):
        assert getattr(ws, name).__name__ == name


@pytest.mark.parametrize("arch", ["sm_90a", "compute_90a"])
def test_a_module_takes_a_gpus_name_too(arch):
    module = ws.RawModule(code='extern "C" __global__ void k(int* x) { *x = 1; }', device="sim", arch=arch)
    assert ".target sm_90a" in module.ptx and module.get_function("k").name == "k"


def test_an_assertion_is_told_with_its_text_and_its_thread() -> None:
    code = '#include <cassert>\nextern "C" __global__ void k(int n) {\n    assert(int(threadIdx.x) < n);\n}'
    kernel = ws.RawModule(code=code, device="sim").get_function("k")
    kernel(2, 64, (64,))
    with pytest.raises(SimulationError, match=r"thread \(40, 0, 0\) of block .*`int\(threadIdx.x\) < n`") as caught:
        kernel(2, 64, (40,))
    assert caught.value.line == 3
