"""Threads that wait for what nobody does: told soon and alike by all that runs kernels, and never where some go on."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsim import Memory, oracle, parse
from ptxsim.errors import EndlessWait, KernelDeadlock, StepLimitExceeded
from warpschool.compile import compile_cuda
from warpschool.grading.verdicts import Verdict, judge

from .engine_launch import launch

FEW = 1 << 21
"""Loop iterations that a launch may take: a hundred times what deadlocks need, and far less than by default."""
MANNERS = [
    {"tier": "compiled"}, {"tier": "stencils"}, {"parted": True}, {"check": False, "count": False},
    {"tier": "compiled", "threads": 2}, {"order": 3},
]  # fmt: skip
DEADLOCKS = {
    "a global flag": ("while (*(volatile int*)flag == 0);", "reads flag at byte 0"),
    "a flag by its index": ("while (((volatile int*)flag)[5 + 2 * blockIdx.x] == 0);", "reads flag at byte 20"),
    "one thread of a block": (
        "if (threadIdx.x == 0) while (*(volatile int*)flag == 0);\n__syncthreads();", "reads flag at byte 0",
    ),
    "a shared flag": (
        "__shared__ int other[4];\n__shared__ volatile int s;\nif (threadIdx.x == 0) s = other[1] = 0;\n"
        "__syncthreads();\nwhile (s == 0);", "reads shared s at byte",
    ),
    "a flag in dynamic shared memory": (
        "extern __shared__ volatile int d[];\nd[threadIdx.x % 4] = 0;\n__syncthreads();\nwhile (d[3] == 0);",
        "at byte 12",
    ),
    "a lock taken twice": (
        "if (threadIdx.x == 0) {\nwhile (atomicCAS(flag, 0, 1) != 0);\nwhile (atomicCAS(flag, 0, 1) != 0);\n"
        "atomicExch(flag, 0);\n}", "updates flag at byte 0",
    ),
    "a lock that is not given back": ("while (atomicCAS(flag + 1, 0, 1) != 0);\nx[0] += 1;", "updates flag at byte 4"),
    "a lock that pauses longer and longer": (
        "unsigned ns = 8;\nwhile (atomicCAS(flag, 0, 1) != 0) {\n__nanosleep(ns);\nif (ns < 256) ns *= 2;\n}",
        "updates flag at byte 0",
    ),
    "two warps": (
        "__shared__ volatile int s[2];\nif (threadIdx.x < 2) s[threadIdx.x] = 0;\n__syncthreads();\n"
        "int w = threadIdx.x / 32 % 2;\nif (threadIdx.x % 32 == 0) {\nwhile (s[1 - w] == 0);\ns[w] = 1;\n}",
        "shared s at byte 4",
    ),
    "blocks that wait for each other": (
        "if (threadIdx.x == 0) {\nvolatile int* f = flag;\nint b = blockIdx.x;\nwhile (f[b ^ 1] == 0);\n"
        "__threadfence();\nf[b] = 1;\n}", "reads flag at byte 4",
    ),
    "barriers in the loop": ("while (*(volatile int*)flag == 0) __syncthreads();", "reads flag at byte 0"),
    "a store of what is there": ("while (*(volatile int*)flag == 0) x[threadIdx.x] = 7;", "reads flag at byte 0"),
    "it counts its turns": ("int n = 0;\nwhile (*(volatile int*)flag == 0) ++n;\nx[0] = n;", "reads flag at byte 0"),
    "it reads a clock that decides nothing": (
        "unsigned long long t = clock64();\nwhile (*(volatile int*)flag == 0)\n"
        "if (clock64() - t > 4000) __nanosleep(1000);\nelse __nanosleep((clock64() - t) / 4);", "reads flag at byte 0",
    ),
    "several turns inside each": (
        "int found = 0;\nwhile (!found) {\n#pragma unroll 1\nfor (int k = 0; k < 7; ++k) "
        "found |= ((volatile int*)flag)[k];\n}", "it reads flag, and",
    ),
}  # fmt: skip


def kernel(body: str) -> str:
    return compile_cuda(f'extern "C" __global__ void k(int* x, int* flag)\n{{\n{body}\n}}\n').ptx


def memory() -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(256, np.int32), np.zeros(64, np.int32)


def told(ptx: str, grid: int, block: int, **manner) -> EndlessWait:
    """How a launch ends."""
    place = parse(ptx).kernel("k"), Memory()
    x, flag = place[1].allocate(1024, "x"), place[1].allocate(256, "flag")
    x.view()[:], flag.view()[:] = 0, 0
    parameters = x.address.to_bytes(8, "little") + flag.address.to_bytes(8, "little")
    with pytest.raises(EndlessWait) as caught:
        if manner.pop("oracle", False):
            oracle.run(place[0], (grid,), (block,), parameters, place[1], **manner)
        else:
            place[0].launch((grid,), (block,), parameters, place[1], step_limit=FEW, **manner)
    return caught.value


@pytest.mark.parametrize("grid", [2, 6])
@pytest.mark.thinned(8)
@pytest.mark.parametrize("name", DEADLOCKS)
def test_a_deadlock_is_told_alike_by_all(name, grid):
    body, what = DEADLOCKS[name]
    ptx = kernel(body)
    found = [told(ptx, grid, 64, shared_bytes=64, **manner) for manner in MANNERS]
    message = found[0].message
    assert what in message and "deadlock: thread (" in message and "block (0, 0, 0)" in message
    assert found[0].line >= 3 and found[0].is_certain
    for one, manner in zip(found, MANNERS, strict=True):
        if "order" not in manner:  # there others are first
            assert one.message == message, manner
        assert judge(one).verdict is Verdict.TLE
    by_oracle = told(ptx, grid, 64, shared_bytes=64, oracle=True)
    assert by_oracle.line == found[0].line
    assert "deadlock: block (0, 0, 0), thread (" in by_oracle.message


def test_it_says_who_else_waits_where():
    ptx = kernel("if (threadIdx.x == 0) while (*(volatile int*)flag == 0);\n__syncthreads();\nx[0] = 1;")
    message = told(ptx, 1, 128).message
    assert "3 other warps wait at a barrier" in message and "look in a loop" not in message
    assert "1 other warp looks in a loop, too; 6 other warps wait at a barrier" in told(ptx, 2, 128).message


@pytest.mark.parametrize("blocks", [40, 300])
def test_many_blocks_take_few_turns(blocks):
    """As many as are resident are let in: a block that is not there cannot be waited for."""
    ptx = kernel("if (threadIdx.x == 0) while (((volatile int*)flag)[blockIdx.x < 299 ? 0 : 1] == 0);")
    error = told(ptx, blocks, 32, tier="compiled")
    assert error.counted["instructions"] < 40 * 264 * 4096


def test_a_barrier_of_the_grid_to_which_a_block_does_not_come():
    source = """#include <cooperative_groups.h>
extern "C" __global__ void k(int* x, int* flag)
{
    if (blockIdx.x != 1)
        cooperative_groups::this_grid().sync();
}
"""
    for manner in MANNERS:
        error = told(compile_cuda(source).ptx, 3, 64, cooperative=True, **manner)
        assert "at a barrier of the grid, grid.sync(), to which some block does not come" in error.message


GO_ON = {
    "it counts its turns": "int n = 0;\nwhile (*(volatile int*)flag == 0 && ++n < 100000);\nx[threadIdx.x] = n;",
    "it reads a clock": (
        "long long t = clock64();\nwhile (*(volatile int*)flag == 0 && clock64() - t < 3000000);\nx[0] = 1;"
    ),
    "it looks at the clock now and then": (
        "long long t = clock64();\nint n = 0;\nwhile (*(volatile int*)flag == 0)\n"
        "if (++n % 64 == 0 && clock64() - t > 300000) break;\nx[0] = 1;"
    ),
    "it counts in memory": "while (*(volatile int*)flag == 0 && atomicAdd(x, 1) < 50000);",
    "it counts in shared memory": (
        "__shared__ volatile int s[8];\nif (threadIdx.x < 8) s[threadIdx.x] = 0;\n__syncthreads();\n"
        "if (threadIdx.x == 0) while (s[0] == 0) if (++s[1] == 40000) s[0] = 1;\n__syncthreads();\nx[0] = s[1];"
    ),
    "it doubles its pauses": (
        "unsigned ns = 1;\nwhile (atomicCAS(flag, 0, 1) != 0) {\n__nanosleep(ns);\nns = ns * 3 + 1;\n"
        "if (ns == 0) break;\n"
        "if (atomicAdd(x, 1) > 9000) atomicExch(flag, 0);\n}"
    ),
    "another warp is slow": (
        "__shared__ volatile int s;\nif (threadIdx.x == 0) s = 0;\n__syncthreads();\n"
        "if (threadIdx.x < 32) while (s == 0);\nelse {\n#pragma unroll 1\n"
        "for (int k = 0; k < 60000; ++k) x[threadIdx.x] = x[threadIdx.x] * 3 + k;\n__threadfence();\ns = 1;\n}"
    ),
    "a block that comes later": (
        "volatile int* f = flag;\nif (threadIdx.x == 0) {\n"
        "if (blockIdx.x + 1 < gridDim.x) while (f[blockIdx.x + 1] == 0);\n"
        "__threadfence();\nf[blockIdx.x] = 1;\n}"
    ),
    "a block that comes later, with barriers in the loop": (
        "volatile int* f = flag;\nif (blockIdx.x == 0) while (f[1] == 0) __syncthreads();\n"
        "else if (threadIdx.x == 0) f[1] = 1;"
    ),
    "a lock that goes round": (
        "for (int k = 0; k < 20; ++k) {\nfor (bool done = false; !done;)\nif (atomicCAS(flag, 0, 1) == 0) {\n"
        "__threadfence();\n++*(volatile int*)x;\n__threadfence();\natomicExch(flag, 0);\ndone = true;\n}\n}"
    ),
    "a bit that turns": (
        "volatile int* f = flag;\nif (threadIdx.x == 0) {\n"
        "if (blockIdx.x == 0) for (int k = 0; k < 30000; ++k) f[0] = k & 1;\n"
        "if (blockIdx.x == 0) f[1] = 1;\nelse while (f[1] == 0);\n}"
    ),
}  # fmt: skip


@pytest.mark.parametrize("manner", MANNERS[:4], ids=str)
@pytest.mark.parametrize("name", GO_ON)
@pytest.mark.thinned(8)
def test_what_would_go_on_goes_on(name, manner):
    if name == "it counts in memory" and not manner.get("check", True):
        pytest.skip("the same as with checks")
    launch(kernel(GO_ON[name]), "k", (3,), (64,), *memory(), step_limit=1 << 24, **manner)


@pytest.mark.parametrize(
    "body",
    [
        "int n = 0;\nwhile (atomicCAS(flag, 1, 0) == 0) ++n;\nx[0] = n;",
        "long long t = clock64();\nwhile (*(volatile int*)flag == 0 && clock64() > t);",
    ],
)
def test_what_is_not_sure_still_spends_its_budget(body):
    with pytest.raises(StepLimitExceeded) as caught:
        launch(kernel(body), "k", (1,), (64,), *memory(), step_limit=1 << 16)
    assert not isinstance(caught.value, EndlessWait)


LIBRARY = {
    "cuda::atomic_ref::wait": (
        "#include <cuda/atomic>", "cuda::atomic_ref<int, cuda::thread_scope_device> a(*flag);\na.wait(0);",
    ),
    "cuda::binary_semaphore": (
        "#include <cuda/semaphore>",
        "(*reinterpret_cast<cuda::binary_semaphore<cuda::thread_scope_device>*>(flag)).acquire();",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LIBRARY)
@pytest.mark.thinned(2)
def test_libraries_wait_by_clocks(name):
    head, body = LIBRARY[name]
    source = f'{head}\nextern "C" __global__ void k(int* x, int* flag)\n{{\n{body}\n}}\n'
    ptx = compile_cuda(source, arch="compute_80").ptx
    found = [told(ptx, 2, 64, **manner).message for manner in MANNERS[:4]]
    assert "reads flag at byte 0" in found[0] and len({*found}) == 1
    assert "deadlock" in told(ptx, 1, 32, oracle=True).message


WITH_OBJECT = """#include <cuda/barrier>
extern "C" __global__ void k(int* x, int* flag)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (threadIdx.x == 0) init(&bar, 64);
    __syncthreads();
    if (threadIdx.x < 32) bar.arrive_and_wait();
    else WAIT
}
"""


def test_a_barrier_object_is_told_as_that_and_a_flag_before_it():
    with pytest.raises(KernelDeadlock, match="32 of 64 arrivals have come"):
        launch(compile_cuda(WITH_OBJECT.replace("WAIT", "x[0] = 1;")).ptx, "k", (1,), (64,), *memory())
    waits = 'asm volatile("{ .reg .pred p; L: mbarrier.test_wait.parity.shared.b64 p, [%0], 0; @!p bra L; }" '
    waits += ':: "r"((unsigned)__cvta_generic_to_shared(&bar)) : "memory");'
    source = WITH_OBJECT.replace("bar.arrive_and_wait();", waits)
    ptx = compile_cuda(source.replace("WAIT", "while (*(volatile int*)flag == 0);"), arch="compute_90").ptx
    assert "reads flag at byte 0" in told(ptx, 1, 64).message


def test_a_launch_after_a_deadlock_begins_anew():
    """A worker that is kept must not remember what another launch looked at."""
    source = kernel("if (threadIdx.x == 0) while (*(volatile int*)flag == 0);\nx[0] = 1;")
    place = parse(source).kernel("k"), Memory()
    x, flag = place[1].allocate(1024, "x"), place[1].allocate(256, "flag")
    parameters = x.address.to_bytes(8, "little") + flag.address.to_bytes(8, "little")
    for value in (0, 1, 0, 0, 1):
        flag.view()[:] = value
        if value:
            place[0].launch((2,), (32,), parameters, place[1], check=False)
        else:
            with pytest.raises(EndlessWait):
                place[0].launch((2,), (32,), parameters, place[1], check=False)
