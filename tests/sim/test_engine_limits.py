"""Limits end a launch the same way everywhere: steps, printing, threads, memory; and Ctrl-C at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from ptxsim import Memory
from warpschool.compile import compile_cuda
from warpschool.errors import MemoryLimitExceeded, PrintLimitExceeded, StepLimitExceeded

from .engine_launch import launch

THREADS = (1, 2, 16)


def ptx(source: str) -> str:
    return compile_cuda(source, name="kernel.cu").ptx


def outcome(text: str, error: type[Exception], grid: int, *arguments, **options) -> set[str]:
    """What the launch says on any number of host threads."""
    said = set()
    for threads in THREADS:
        with pytest.raises(error) as found:
            launch(text, "k", (grid,), (64,), *arguments, threads=threads, **options)
        said.add(f"{found.value.line}: {found.value}")
    return said


LOOP = """extern "C" __global__ void k(int* y, int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i)
        sum = sum * 3 + (sum >> 5) + i;
    y[blockIdx.x * 64 + threadIdx.x] = sum;
}
"""


def test_an_endless_loop_ends_at_its_block_and_line():
    text = ptx(LOOP.replace("++i", "i += 0"))
    (said,) = outcome(text, StepLimitExceeded, 8, np.zeros(512, np.int32), np.int32(5), step_limit=1000)
    assert "block (0, 0, 0)" in said and "its budget of 1,000 iterations" in said
    assert said.startswith(("3:", "4:")), said


NEST = """extern "C" __global__ void k(int* y, int n) {
    int sum = 0;
    for (int i = 0; i < n; i = 1) {
        #pragma unroll 1
        for (int j = 0; j < n; j = j + 1)
            y[j] = sum = sum * 3 + (sum >> 5) + i;
        #pragma unroll 1
        for (int j = threadIdx.x; j < n; j = j + 1)
            y[j] = sum = sum * 5 + (sum >> 3) + i;
    }
    y[blockIdx.x * 64 + threadIdx.x] = sum;
}
"""


@pytest.mark.parametrize(
    ("was", "now", "line"),
    [("i = 1", "i = 1", 3), ("j = j + 1", "j = n - 1 - n / 9", 5), ("threadIdx.x; j < n; j = j + 1", "0; j < n; j = n - 1", 8)],
)
def test_of_loops_inside_each_other_the_one_that_never_ends_is_blamed(was, now, line):
    right_outer = NEST if line == 3 else NEST.replace("i = 1", "i = i + 1")
    text = ptx(right_outer.replace(was, now, 1))
    with pytest.raises(StepLimitExceeded) as found:
        launch(text, "k", (8,), (64,), np.zeros(512, np.int32), np.int32(50), step_limit=20_000)
    assert found.value.line in (line, line + 1), found.value
    assert found.value.counted["warp_instructions"] > 20_000


STRAY = """extern "C" __global__ void k(float* y, const float* x, int n) {
    for (int i = 0; n > 0; i += 64, n -= ROUND)
        y[(size_t)i * APART + threadIdx.x] = x[(size_t)i + 3 * threadIdx.x];
}
"""


@pytest.mark.parametrize("apart", ["1", "threadIdx.x * 977", "0 + 4096", "((size_t)1 << 40)"])
@pytest.mark.parametrize("tier", ["compiled", "stencils"])
def test_a_loop_that_walks_out_of_its_arrays_ends_there(apart, tier):
    """It is told as what it is, the same for any number of threads, and takes no budget of iterations to end."""
    told, counts = [], set()
    for threads in THREADS:
        text = ptx(STRAY.replace("ROUND", "0").replace("APART", apart))
        arrays = np.zeros(4096, np.float32), np.zeros(4096, np.float32)
        record = launch(text, "k", (8,), (64,), *arrays, np.int32(1), threads=threads, tier=tier).record
        assert not record.complete
        told.append(record.hazards)
        counts.add(record.counters["warp_instructions"])
    assert told[0] == told[1] == told[2] and len(counts) == 1
    assert {h.access for h in told[0] if h.kind == "out-of-bounds"} >= {"read"}


def test_a_kernel_that_strays_less_comes_to_its_end():
    text = ptx(STRAY.replace("ROUND", "1").replace("APART", "((size_t)1 << 40)"))
    arrays = np.zeros(64, np.float32), np.ones(4096, np.float32)
    done = launch(text, "k", (1,), (64,), *arrays, np.int32(5_000))
    assert done.record.complete and np.all(done.arrays[0] == 1)
    assert {h.access for h in done.record.hazards} == {"read", "write"}


MIXED = """extern "C" __global__ void k(float* y, const float* a, const float* b, const int* at) {
    const int t = threadIdx.x, kind = at[t];
    const char* p = kind == 0 ? (const char*)(a + t) : kind == 1 ? (const char*)(b + t) : kind == 2 ? (const char*)(a + 64 + t)
        : kind == 3 ? (const char*)(b - 1 - t) : kind == 4 ? (const char*)(a + t) + 2 : (const char*)~0ull - 3;
    y[t] = *(const float*)p;
}
"""


@pytest.mark.parametrize("seed", range(4))
def test_lanes_between_several_arrays_are_judged_one_by_one(seed):
    """What is inside is read, what is not gives 0; of each kind of hazard the first lane is told."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 6, 32).astype(np.int32)
    a, b = rng.random(64, np.float32), rng.random(64, np.float32)
    done = launch(ptx(MIXED), "k", (1,), (32,), np.full(32, np.nan, np.float32), a, b, kinds)
    lanes = np.arange(32)
    assert np.array_equal(done.arrays[0], np.where(kinds == 0, a[:32], np.where(kinds == 1, b[:32], 0)))
    first = {h.kind: h.thread[0] for h in done.record.hazards}
    outside, odd = lanes[(kinds == 2) | (kinds == 3) | (kinds == 5)], lanes[kinds == 4]
    assert first == {"out-of-bounds": outside[0], "misaligned": odd[0]}


def test_many_blocks_share_the_budget_of_a_launch():
    """No block exceeds its own share, all together exceed 16 times the limit, at the same block for any threads."""
    text, arguments = ptx(LOOP), (np.zeros(64 * 64, np.int32), np.int32(4000))
    per_block = launch_steps(text, arguments)
    limit = per_block + 10
    (said,) = outcome(text, StepLimitExceeded, 64, *arguments, step_limit=limit)
    assert f"budget of {16 * limit:,} loop iterations in block (16, 0, 0)" in said
    launch(text, "k", (16,), (64,), *arguments, step_limit=limit, threads=2)


def launch_steps(text: str, arguments) -> int:
    """Loop iterations of one block: the smallest limit under which it ends."""
    low, high = 1, 1 << 20
    while low < high:
        middle = (low + high) // 2
        try:
            launch(text, "k", (1,), (64,), *arguments, step_limit=middle)
            high = middle
        except StepLimitExceeded:
            low = middle + 1
    return low


def test_printing_ends_at_the_same_block_for_any_threads():
    text = ptx('extern "C" __global__ void k() {\n\n    if (threadIdx.x < 4)\n        printf("%d\\n", blockIdx.x);\n}\n')
    (said,) = outcome(text, PrintLimitExceeded, 64, print_limit=4000)
    assert "kernel.cu:4" in said and "4,000 bytes" in said


def test_too_many_threads_and_too_much_memory_are_refused():
    text = ptx('extern "C" __global__ void k() { }')
    with pytest.raises(StepLimitExceeded, match="268,435,456 warps"):
        launch(text, "k", (1 << 30,), (1024,))
    with pytest.raises(MemoryLimitExceeded, match="big"):
        text = ptx('__device__ float big[1 << 30];\nextern "C" __global__ void k() { big[threadIdx.x] = 1; }')
        launch(text, "k", (1,), (1,))
    with pytest.raises(MemoryLimitExceeded, match="simulated memory are in use"):
        Memory(limit_bytes=1 << 20).allocate((1 << 20) + 1, "a")


KERNELS = {
    "loop": ("for (unsigned i = 0; i < n; i += 0) sum = sum * 3 + i;", 1, 1),
    "parted loop": ("if (threadIdx.x & 1) for (unsigned i = 0; i < n; i += 0) sum = sum * 3 + i;", 1, 1),
    "barriers": ("__shared__ unsigned s[64]; for (unsigned i = 0; i < n; i += 0) { s[threadIdx.x] = i + sum; __syncthreads(); sum += s[63 - threadIdx.x]; __syncthreads(); }", 1, 1),
    "short blocks": ("for (unsigned i = 0; i < 100; ++i) sum = sum * 3 + i * n;", 1 << 22, 2),
}  # fmt: skip

INTERRUPTED = """
import sys, threading
import warpschool as ws
import numpy as np
body, grid, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
source = 'extern "C" __global__ void k(unsigned* y, unsigned n) { unsigned sum = threadIdx.x; ' + body + ' if (sum == 12345) y[0] = sum; }'
module = ws.RawModule(code=source, device="sim")
kernel, y = module.get_function("k"), module.device.zeros((1,), np.uint32)
kernel((1,), (64,), (y, np.uint32(0)))
try:
    threading.Timer(0.3, lambda: print("running", flush=True)).start()
    kernel((grid,), (64,), (y, np.uint32(5)), threads=threads, step_limit=1 << 50)
except KeyboardInterrupt:
    print("interrupted", flush=True)
kernel((1,), (64,), (y, np.uint32(0)))
print("usable", flush=True)
"""


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.thinned(2)
def test_ctrl_c_stops_a_launch_at_once(name):
    """The launch has steps for years: it ends because it was stopped, or not at all."""
    body, grid, threads = KERNELS[name]
    command = [sys.executable, "-c", INTERRUPTED, body, str(grid), str(threads)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        watch = threading.Timer(240, process.kill)  # a launch that does not stop must not hold the tests
        watch.start()
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.stdout.readline() == "usable\n"
        watch.cancel()
