"""What the simulator says about wrong kernels, and that it says nothing about right ones."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from ptxsim import Finding
from ptxsim.codegen.layout import HAZARD_KINDS
from ptxsim.limits import MAX_LOCAL_BYTES
from ptxsim.run.hazards import KINDS
from warpschool.compile import compile_cuda
from warpschool.errors import KernelDeadlock, KernelTrap, LaunchError, PrintLimitExceeded, StepLimitExceeded
from warpschool.grading.records import result_schema
from warpschool.grading.verdicts import verdict_of_hazard

from .engine_launch import Outcome, launch
from .oracle_launch import launch as by_oracle
from .parsed import module

RACE, OUTSIDE, UNINITIALIZED = "race", "out-of-bounds", "uninitialized"
DIVERGENT, MISALIGNED = "divergent-barrier", "misaligned"


def run(body: str, block: int, *arguments, grid: int = 1, **options) -> Outcome:
    """A kernel k(float* x, float* y, int n) whose body starts on line 3; x and y have 64 elements."""
    source = f'extern "C" __global__ void k(float* x, float* y, int n)\n{{\n{body}\n}}\n'
    x = np.arange(64, dtype=np.float32)
    return launch(compile_cuda(source).ptx, "k", (grid,), (block,), x, np.zeros(64, np.float32), np.int32(64), **options)


TILE = "__shared__ float s[64]; int t = threadIdx.x;\n"
WRONG = {
    "read behind the array": ("y[threadIdx.x] = x[threadIdx.x + 1];", 64, 1, {(OUTSIDE, 3)}),
    "write behind the array": ("y[blockIdx.x * 64 + threadIdx.x] = 1;", 64, 2, {(OUTSIDE, 3)}),
    "read before the array": ("y[threadIdx.x] = x[(int)threadIdx.x - 1];", 64, 1, {(OUTSIDE, 3)}),
    "guard off by one": ("int i = threadIdx.x; if (i <= n) y[i] = 1;", 96, 1, {(OUTSIDE, 3)}),
    "behind shared memory": (TILE + "s[t + 1] = 1; __syncthreads(); y[t] = s[t + 1];", 64, 1, {(OUTSIDE, 4)}),
    "missing barrier": (TILE + "s[t] = x[t];\ny[t] = s[t ^ 32];", 64, 1, {(RACE, 4), (RACE, 5), (UNINITIALIZED, 5)}),
    "missing barrier in a warp": (TILE + "s[t] = x[t];\ny[t] = s[31 - t];", 32, 1, {(RACE, 5)}),
    "write after read": (
        TILE + "s[t] = x[t]; __syncthreads();\nfloat v = s[(t + 1) % 64];\ns[t] = v;", 64, 1, {(RACE, 5), (RACE, 6)},
    ),
    "two threads write one word": (TILE + "s[t / 2] = t; __syncthreads(); y[t] = s[t / 2];", 64, 1, {(RACE, 4)}),
    "atomics against a plain read": (
        "__shared__ int c; if (threadIdx.x == 0) c = 0; __syncthreads();\natomicAdd(&c, 1);\ny[threadIdx.x] = c;",
        64, 1, {(RACE, 4), (RACE, 5)},
    ),
    "blocks write the same": ("y[threadIdx.x] = blockIdx.x;", 64, 2, {(RACE, 3)}),
    "a block reads what another writes": (
        "int i = blockIdx.x * 32 + threadIdx.x;\ny[i] = y[(i + 32) % 64] + 1;", 32, 2, {(RACE, 4)},
    ),
    "uninitialised tile": (TILE + "if (t < 60) s[t] = x[t]; __syncthreads();\ny[t] = s[63 - t];", 64, 1, {(UNINITIALIZED, 5)}),
    "barrier in half a warp": (TILE + "s[t] = x[t];\nif (t < 16) __syncthreads();\ny[t] = s[t];", 64, 1, {(DIVERGENT, 5)}),
    "barrier after an early return": (TILE + "if (t >= 32) return;\ns[t] = 1; __syncthreads();\ny[t] = s[t];", 64, 1, {(DIVERGENT, 5)}),
    "misaligned vector": ("((float2*)(y + 1))[threadIdx.x] = make_float2(1, 2);", 8, 1, {(MISALIGNED, 3)}),
}  # fmt: skip

RIGHT = {
    "barrier between": (TILE + "s[t] = x[t]; __syncthreads(); y[t] = s[63 - t];", 64),
    "warp-synchronous": (
        TILE + "s[t] = x[t]; __syncwarp(); y[t] = s[t ^ 31]; __syncwarp(); s[t ^ 31] = 2; __syncwarp(); y[t] += s[t];", 64,
    ),
    "double buffering": (
        "__shared__ float s[2][64]; int t = threadIdx.x; float v = 0;\n"
        "s[0][t] = x[t]; __syncthreads();\n"
        "for (int k = 0; k < 9; ++k) { s[~k & 1][t] = v; v += s[k & 1][63 - t]; __syncthreads(); }\ny[t] = v;", 64,
    ),
    "tree": (
        TILE + "s[t] = x[t]; __syncthreads();\n"
        "for (int o = 32; o; o /= 2) { if (t < o) s[t] += s[t + o]; __syncthreads(); }\nif (t == 0) y[0] = s[0];", 64,
    ),
    "histogram": (
        "__shared__ int c[8]; int t = threadIdx.x; if (t < 8) c[t] = 0; __syncthreads();\n"
        "atomicAdd(&c[t % 8], 1); __syncthreads(); if (t < 8) y[t] = c[t];", 64,
    ),
    "in place": ("y[threadIdx.x] += 1;", 64),
    "global memory, a barrier between": ("y[threadIdx.x] = threadIdx.x; __syncthreads(); x[threadIdx.x] = y[63 - threadIdx.x];", 64),
    "a thread reads its own": (TILE + "s[t] = x[t]; s[t] *= 2; y[t] = s[t];", 64),
    "bytes of one word": (
        "__shared__ unsigned char s[64]; int t = threadIdx.x; s[t] = t; __syncthreads(); y[t] = s[63 - t];", 64,
    ),
    "odd block": (TILE + "if (t < 50) s[t] = x[t]; __syncthreads(); y[t] = s[49 - t];", 50),
}  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"threads": 1}, {"parted": True}], ids=lambda o: "-".join(o) or "default")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_kernel_is_named_with_its_line(name, options):
    body, block, grid, expected = WRONG[name]
    hazards = run(body, block, grid=grid, **options).record.hazards
    assert {(h.kind, h.line) for h in hazards} <= expected
    assert {h.kind for h in hazards} & {kind for kind, _ in expected}
    assert all(str(h.thread) in h.message for h in hazards)


@pytest.mark.parametrize("options", [{}, {"parted": True}], ids=lambda o: "-".join(o) or "default")
@pytest.mark.parametrize("name", RIGHT)
def test_right_kernel_is_left_alone(name, options):
    body, block = RIGHT[name]
    assert not run(body, block, **options).record.hazards


def finding(kind: str) -> Finding:
    """One of which nothing but the kind is special."""
    thread = (0, 0, 0)
    return Finding(kind, 3, "k.cu", thread, thread, "read", "shared", "shared s", other_thread=thread, other_did="read")


def test_every_kind_has_a_name_a_sentence_a_verdict_and_a_line_in_the_schema():
    assert sorted(KINDS) == list(range(HAZARD_KINDS))
    kinds = set(KINDS.values())
    assert len({finding(kind).message for kind in kinds}) == len(kinds)
    kinds.remove("same-value")  # a note: no verdict
    assert all(verdict_of_hazard(kind) for kind in kinds)
    schema = result_schema()["properties"]["finding"]["anyOf"][0]
    told = schema["properties"]["kind"]["description"]
    assert set(told.replace(" or ", ", ").split(", ")) == kinds


def test_an_unknown_kind_is_not_told_in_the_words_of_another():
    with pytest.raises(ValueError, match="no sentence is known for the hazard 'rase'"):
        _ = finding("rase").message


def test_report_does_not_depend_on_the_number_of_threads():
    body = "y[(blockIdx.x * 7 + threadIdx.x) % 64] = blockIdx.x;"
    reports = [run(body, 64, grid=40, threads=n).record.hazards for n in (1, 2, 5)]
    assert reports[0] and reports[0] == reports[1] == reports[2]


def test_endless_loop_meets_its_budget_on_its_line():
    with pytest.raises(StepLimitExceeded, match="budget") as error:
        run("int k = 0;\nwhile (n > 0) {\n    k += n; n += k & 1; n -= k & 1;\n}\ny[0] = k;", 32, step_limit=1)
    assert error.value.line in (4, 5)


def test_endless_loop_over_a_barrier_meets_its_budget():
    with pytest.raises(StepLimitExceeded):
        run(TILE + "for (int k = 0; k < n; k += 0) { s[t] = k; __syncthreads(); y[t] = s[63 - t]; __syncthreads(); }", 64, step_limit=1)


def test_trap_and_print_limit():
    with pytest.raises(KernelTrap):
        run("if (threadIdx.x == 40) __trap();", 64)
    with pytest.raises(PrintLimitExceeded):
        run('for (int k = 0; k < 1000; ++k) printf("%d\\n", k);', 64, print_limit=4096)


DEEP = """__device__ __noinline__ int deep(int n, volatile float* p)
{
    return n == 0 ? (int)p[0] : deep(n - 1, p) + 1;
}
extern "C" __global__ void k(float* x, float* y, int n) { y[threadIdx.x] = deep(n + threadIdx.x, x); }
"""


@pytest.mark.parametrize("parted", [False, True])
def test_call_stack_has_an_end(parted):
    ptx, x, y = compile_cuda(DEEP).ptx, np.zeros(1, np.float32), np.zeros(40, np.float32)
    done = launch(ptx, "k", (1,), (40,), x, y, np.int32(30), parted=parted)
    assert np.array_equal(done.arrays[1], 30 + np.arange(40))
    with pytest.raises(KernelTrap, match="recursion is too deep") as error:
        launch(ptx, "k", (1,), (40,), x, y, np.int32(1 << 20), parted=parted)
    assert error.value.line == 3
    assert "16,384 bytes" in error.value.message and "cudaLimitStackSize" in error.value.next_step


def test_a_launch_may_ask_for_a_larger_call_stack():
    ptx, depth = compile_cuda(DEEP).ptx, np.int32(800)
    arguments = ptx, "k", (1,), (2,), np.zeros(1, np.float32), np.zeros(2, np.float32), depth
    for stack_bytes in (0, 16 << 10):
        with pytest.raises(KernelTrap, match="16,384 bytes"):
            launch(*arguments, stack_bytes=stack_bytes)
    for tier in ("compiled", "stencils"):
        done = launch(*arguments, stack_bytes=128 << 10, tier=tier)
        assert np.array_equal(done.arrays[1], 800 + np.arange(2)) and not done.record.hazards
    kernel = module(ptx).kernel("k")
    deep = kernel.with_stack(128 << 10)
    assert by_oracle(*arguments, kernel=deep).arrays[1].tolist() == [800, 801]
    assert kernel.with_stack(16 << 10) is kernel and kernel.with_stack(128 << 10) is deep
    assert kernel.with_stack(1 << 30).body.local_bytes == MAX_LOCAL_BYTES


def test_call_through_a_wild_pointer():
    source = """typedef float (*F)(float);
__device__ __noinline__ float twice(float v) { return 2 * v; }
__device__ F table[2] = {twice, 0};
extern "C" __global__ void k(float* y, int n) {
    y[threadIdx.x] = table[n](threadIdx.x);
}
"""
    ptx, y = compile_cuda(source).ptx, np.zeros(32, np.float32)
    assert np.array_equal(launch(ptx, "k", (1,), (32,), y, np.int32(0)).arrays[0], 2 * np.arange(32))
    with pytest.raises(KernelTrap, match="through a null pointer") as error:
        launch(ptx, "k", (1,), (32,), y, np.int32(1))
    assert error.value.line == 5


CALLBACK = """typedef void (*Callback)(int*);
OTHERS
extern "C" __global__ void k(Callback f, int* y) {
    if (f)
        f(y + threadIdx.x);
    else y[threadIdx.x] = 1;
}
"""
OF_ANOTHER_SIGNATURE = "__device__ __noinline__ int zero(int v) { return v; }  __device__ int (*kept)(int) = zero;"
OF_THIS_SIGNATURE = "__device__ __noinline__ void two(int* v) { *v = 2; }  __device__ Callback kept = two;"


@pytest.mark.parametrize(
    ("others", "pointer", "told"),
    [
        ("", 0, ""),
        (OF_ANOTHER_SIGNATURE, 0, ""),
        (OF_THIS_SIGNATURE, 0, ""),
        ("", 0x5555_0000_1234, "function of the host"),
        (OF_THIS_SIGNATURE, 0x5555_0000_1234, "function of the host"),
        (OF_ANOTHER_SIGNATURE, 1, "pointer that is no function"),
    ],
)
def test_a_call_through_a_pointer_is_a_fault_only_where_a_thread_reaches_it(others, pointer, told):
    """A callback is optional: that no function of the module fits it is no reason to refuse the kernel."""
    ptx, y = compile_cuda(CALLBACK.replace("OTHERS", others)).ptx, np.zeros(8, np.int32)
    for run in (launch, partial(launch, parted=True), partial(launch, tier="stencils"), by_oracle):
        arguments = ptx, "k", (1,), (8,), np.uint64(pointer), y
        if told:
            with pytest.raises(KernelTrap, match=told) as error:
                run(*arguments)
            assert error.value.line == 5
        else:
            assert (run(*arguments).arrays[0] == 1).all()


@pytest.mark.parametrize(("target", "kib"), [("75", 64), ("80", 163), ("86", 99), ("90", 227), ("120", 99)])
def test_shared_memory_is_that_of_the_gpu_compiled_for(target, kib):
    ptx = compile_cuda('extern "C" __global__ void k() { extern __shared__ int s[]; s[0] = 1; }', arch=f"compute_{target}").ptx
    launch(ptx, "k", (1,), (1,), shared_bytes=kib << 10)
    with pytest.raises(LaunchError, match=f"on sm_{target} the limits"):
        launch(ptx, "k", (1,), (1,), shared_bytes=(kib << 10) + 4)


LAST_BYTES = """
extern "C" __global__ void k(const int* from, int* to)
{
    extern __shared__ __align__(128) int ring[];
    __shared__ __align__(8) unsigned long long arrived;  // ends 120 bytes before the ring begins
    const unsigned barrier = __cvta_generic_to_shared(&arrived), place = __cvta_generic_to_shared(ring + FIRST);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" :: "r"(barrier) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"
                     :: "r"(place), "l"(from), "r"(barrier) : "memory");
    }
    __syncthreads();
    unsigned done = 0;
    while (!done) {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(barrier) : "memory");
    }
    to[threadIdx.x] = ring[FIRST + threadIdx.x];
}
"""


@pytest.mark.parametrize("by", [launch, by_oracle])
def test_dynamic_shared_memory_begins_where_its_alignment_wants_it_and_is_as_long_as_asked(by):
    """Behind 8 static bytes: all 256 bytes from byte 128 on are there, to stores and to bulk copies."""
    numbers, to = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    ptx = compile_cuda(LAST_BYTES.replace("FIRST", "32"), arch="compute_90a").ptx
    assert np.array_equal(by(ptx, "k", (1,), (32,), numbers, to, shared_bytes=256).arrays[1], numbers)
    source = """extern "C" __global__ void k(int* to) {
        __shared__ int one;
        extern __shared__ __align__(128) int ring[];
        ring[32 + threadIdx.x] = threadIdx.x;
        if (threadIdx.x == 0) one = 7;
        __syncthreads();
        to[threadIdx.x] = ring[32 + threadIdx.x] + one;
    }"""
    found = by(compile_cuda(source).ptx, "k", (1,), (32,), to, shared_bytes=256)
    assert np.array_equal(found.arrays[0], numbers + 7)


def test_a_copy_that_was_out_of_bounds_is_why_its_barrier_object_waits():
    numbers, to = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    ptx = compile_cuda(LAST_BYTES.replace("FIRST", "64"), arch="compute_90a").ptx
    with pytest.raises(KernelDeadlock, match="expects 128 bytes, 0 came") as error:
        launch(ptx, "k", (1,), (32,), numbers, to, shared_bytes=256)
    assert "Before that, in line 11" in error.value.next_step and "outside shared memory" in error.value.next_step


@pytest.mark.parametrize(("grid", "block"), [(0, 32), (1, 0), (1, 2048), (1 << 31, 32)])
def test_impossible_launch(grid, block):
    with pytest.raises(LaunchError):
        run("y[0] = 1;", block, grid=grid)
