"""Blocks that wait for each other, and clusters: they run in turns, and the oracle agrees."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsim import Memory, oracle, parse
from ptxsim.errors import KernelDeadlock, LaunchError, StepLimitExceeded
from ptxsim.run.ordering import HappensBefore
from warpschool.compile import compile_cuda

from .engine_launch import launch

CHAIN = r"""
// Each block waits for the one that DIRECTION names, then adds itself to what that one has passed on.
extern "C" __global__ void k(volatile int* flags, int* sums)
{
    const int me = DIRECTION > 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
    if (threadIdx.x == 0) {
        if (me > 0) {
            while (flags[me - 1] == 0) {}
            __threadfence();
        }
        sums[me] = (me > 0 ? sums[me - 1] : 0) + me;
        __threadfence();
        flags[me] = 1;
    }
}
"""
GRID = r"""
// A barrier of the whole grid between steps; each block reads what its neighbours have stored.
__device__ void meet(unsigned* count, unsigned blocks)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        const unsigned mine = atomicAdd(count, 1) / blocks;
        while (*reinterpret_cast<volatile unsigned*>(count) < (mine + 1) * blocks) {}
        __threadfence();
    }
    __syncthreads();
}
extern "C" __global__ void k(unsigned* count, int* x)
{
    const int n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int step = 0; step < 3; ++step) {
        const int next = x[(i + 33) % n];
        meet(count, gridDim.x);
        x[i] = next + 1;
        meet(count, gridDim.x);
    }
}
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("blocks", [2, 5])
@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.thinned(3)
def test_a_chain_of_blocks_in_either_direction(direction, blocks, threads):
    ptx = compile_cuda(CHAIN.replace("DIRECTION", str(direction))).ptx
    flags, sums = np.zeros(64, np.int32), np.zeros(64, np.int32)
    outcome = launch(ptx, "k", (blocks,), (32,), flags, sums, threads=threads)
    assert not outcome.record.hazards
    assert np.array_equal(outcome.arrays[1][:blocks], np.cumsum(np.arange(blocks)))


ACQUIRED = r"""
// The same by loads that acquire and stores that release: no atomic, no fence, nothing volatile.
extern "C" __global__ void k(int* flags, int* sums)
{
    const int me = gridDim.x - 1 - blockIdx.x;
    if (threadIdx.x == 0) {
        int found = me == 0;
        while (!found)
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(flags + me - 1) : "memory");
        sums[me] = (me > 0 ? sums[me - 1] : 0) + me;
        asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(flags + me), "r"(1) : "memory");
    }
}
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_wait_by_loads_that_acquire(threads):
    flags, sums = np.zeros(64, np.int32), np.zeros(64, np.int32)
    outcome = launch(compile_cuda(ACQUIRED).ptx, "k", (5,), (32,), flags, sums, threads=threads)
    assert not outcome.record.hazards
    assert np.array_equal(outcome.arrays[1][:5], np.cumsum(np.arange(5)))


@pytest.mark.parametrize("cooperative", [True, False])
@pytest.mark.parametrize("blocks", [3, 5])
@pytest.mark.thinned(2)
def test_a_barrier_of_the_whole_grid(blocks, cooperative):
    ptx = compile_cuda(GRID).ptx
    x = np.arange(blocks * 64, dtype=np.int32)
    outcome = launch(ptx, "k", (blocks,), (64,), np.zeros(1, np.uint32), x, cooperative=cooperative)
    assert not outcome.record.hazards
    assert np.array_equal(outcome.arrays[1], np.roll(x, -99) + 3)


GROUPS = r"""
#include <cooperative_groups.h>
extern "C" __global__ void k(int* x)
{
    auto grid = cooperative_groups::this_grid();
    const int n = grid.size(), i = grid.thread_rank();
    for (int step = 0; step < 3; ++step) {
        const int next = x[(i + 33) % n];
        grid.sync();
        x[i] = next + 1;
        grid.sync();
    }
}
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.thinned(4)
def test_grid_sync_of_a_cooperative_launch(blocks, threads):
    x = np.arange(blocks * 64, dtype=np.int32)
    ptx = compile_cuda(GROUPS).ptx
    outcome = launch(ptx, "k", (blocks,), (64,), x, cooperative=True, threads=threads)
    assert not outcome.record.hazards, [h.message for h in outcome.record.hazards]
    assert np.array_equal(outcome.arrays[0], np.roll(x, -99) + 3)
    left_out = GROUPS.replace("x[i] = next + 1;\n        grid.sync();", "x[i] = next + 1;")
    if blocks > 1:
        raced = launch(compile_cuda(left_out).ptx, "k", (blocks,), (64,), x, cooperative=True)
        assert {h.kind for h in raced.record.hazards} == {"race"}


ONCE_TOO_FEW = r"""
#include <cooperative_groups.h>
extern "C" __global__ void k(int* x, int* y, int left_out)
{
    auto grid = cooperative_groups::this_grid();
    const int n = grid.size(), i = grid.thread_rank();
    for (int step = 0; step < 4; ++step) {
        y[i] = x[(i + 97) % n] + 1;
        grid.sync();
        x[i] = y[(i + 95) % n];
        if (step != left_out) grid.sync();
    }
}
"""


@pytest.mark.parametrize("left_out", [-1, 2])
def test_a_later_arrival_orders_nothing_that_was_before_it(left_out):
    """A block that waits for one barrier sees the counter move on for the next: that passes nothing on."""
    x = np.zeros(6 * 64, np.int32)
    outcome = launch(compile_cuda(ONCE_TOO_FEW).ptx, "k", (6,), (64,), x, x, np.int32(left_out), cooperative=True)
    assert {h.kind for h in outcome.record.hazards} == (set() if left_out < 0 else {"race"})


def test_a_barrier_of_the_grid_costs_a_few_looks_for_each_block():
    blocks = 24
    x = np.zeros(blocks * 64, np.int32)
    record = launch(compile_cuda(GROUPS).ptx, "k", (blocks,), (64,), x, cooperative=True).record
    assert record.counters["warp_instructions"] < 6 * blocks * 1000


def test_blocks_that_wait_are_looked_into_in_few_steps(monkeypatch):
    heard, longest, real = [0], [0], HappensBefore.event

    def event(self, *given):
        heard[0] += 1
        real(self, *given)
        longest[0] = max(longest[0], *map(len, self.known))

    monkeypatch.setattr(HappensBefore, "event", event)
    blocks, barriers = 24, 6
    x = np.arange(blocks * 32, dtype=np.int32)
    assert not launch(compile_cuda(GROUPS).ptx, "k", (blocks,), (32,), x, cooperative=True).record.hazards
    assert 0 < heard[0] < 200 * blocks * barriers
    assert longest[0] < 8, "what a barrier of the grid orders is one stretch, however many blocks there are"


def test_what_the_second_look_has_not_seen_is_not_told(monkeypatch):
    monkeypatch.setattr("ptxsim.run.engine._SHADOW_LIMIT", 0)
    x = np.arange(96, dtype=np.int32)
    assert not launch(compile_cuda(GROUPS).ptx, "k", (3,), (32,), x, cooperative=True).record.hazards


def test_grid_sync_needs_a_cooperative_launch():
    with pytest.raises(LaunchError, match="not cooperative"):
        launch(compile_cuda(GROUPS).ptx, "k", (2,), (64,), np.zeros(128, np.int32))


COUNTED = r"""
// The last warp counts to n, the others look at a flag until it says so.
extern "C" __global__ void k(int* out, int n)
{
    __shared__ volatile int flag, value;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x >= 96) {
        int sum = 0;
        for (int i = 0; i < n; ++i) sum += __shfl_xor_sync(~0u, sum + i, 1);
        if (threadIdx.x == 96) {
            value = sum;
            __threadfence_block();
            flag = 1;
        }
    } else {
        while (flag == 0) {}
        __threadfence_block();
    }
    __syncwarp();
    out[threadIdx.x] = threadIdx.x < 96 ? value : 0;
}
"""


def test_who_looks_in_vain_looks_again_after_the_others():
    outcome = launch(compile_cuda(COUNTED).ptx, "k", (1,), (128,), np.zeros(128, np.int32), np.int32(4000))
    left = outcome.arrays[0]
    assert not outcome.record.hazards and left[0] and (left[:96] == left[0]).all()
    assert outcome.counters["shared_load_requests"] <= 3 * 4, "some looks of each warp, and the value"


def test_a_flag_that_nobody_sets():
    ptx = compile_cuda(CHAIN.replace("DIRECTION", "1").replace("flags[me] = 1;", "")).ptx
    arrays = np.zeros(64, np.int32), np.zeros(64, np.int32)
    with pytest.raises((KernelDeadlock, StepLimitExceeded)):
        launch(ptx, "k", (3,), (32,), *arrays, step_limit=1 << 16)


# ---------------------------------------------------------------- clusters


RANKS = r"""
__device__ unsigned at(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
#define READ(name, value) asm volatile("mov.u32 %0, %" name ";" : "=r"(value))
extern "C" __global__ void CLUSTER k(unsigned* y)
{
    __shared__ unsigned own[32];
    __shared__ unsigned counter;
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned rank, count, x, yy, z, cx, cy, cz;
    READ("%cluster_ctarank", rank);
    READ("%cluster_nctarank", count);
    READ("%cluster_ctaid.x", x);
    READ("%cluster_ctaid.y", yy);
    READ("%cluster_ctaid.z", z);
    READ("%clusterid.x", cx);
    READ("%clusterid.y", cy);
    READ("%clusterid.z", cz);
    if (threadIdx.x == 0) counter = 0;
    own[threadIdx.x] = 100 * block + threadIdx.x;
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    unsigned far, found, back;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(at(&own[threadIdx.x])), "r"((rank + 1) % count));
    asm("getctarank.shared::cluster.u32 %0, %1;" : "=r"(back) : "r"(far));
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(found) : "r"(far) : "memory");
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(at(&counter)), "r"(0));
    asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;" :: "r"(far), "r"(rank + 1) : "memory");
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    unsigned* const mine = y + 8 * (32 * block + threadIdx.x);
    mine[0] = rank;
    mine[1] = x + 100 * yy + 10000 * z;
    mine[2] = cx + 100 * cy + 10000 * cz;
    mine[3] = found;
    mine[4] = back;
    mine[5] = rank == 0 ? counter : 0;
}
"""


def ranks(grid, cluster) -> np.ndarray:
    """What RANKS leaves, from the definitions: [block, thread, field]."""
    sides = np.array([*cluster, *[1] * (3 - len(cluster))])
    shape = np.array([*grid, *[1] * (3 - len(grid))])
    count = int(np.prod(sides))
    blocks = int(np.prod(shape))
    places = [(b % shape[0], b // shape[0] % shape[1], b // (shape[0] * shape[1])) for b in range(blocks)]
    result = np.zeros((blocks, 32, 8), np.uint32)
    weights = np.array([1, 100, 10000])
    number = {place: b for b, place in enumerate(map(tuple, (np.array(p).tolist() for p in places)))}
    for b, place in enumerate(places):
        within, outer = np.array(place) % sides, np.array(place) // sides
        rank = int(within[0] + sides[0] * (within[1] + sides[1] * within[2]))
        following = (rank + 1) % count
        other = (following % sides[0], following // sides[0] % sides[1], following // (sides[0] * sides[1]))
        neighbour = number[tuple((outer * sides + np.array(other)).tolist())]
        result[b, :, 0], result[b, :, 1], result[b, :, 2] = rank, within @ weights, outer @ weights
        result[b, :, 3] = 100 * neighbour + np.arange(32)
        result[b, :, 4] = following
        result[b, :, 5] = 32 * count * (count + 1) // 2 if rank == 0 else 0
    return result


@pytest.mark.parametrize(("grid", "cluster"), [
    ((4,), (2,)), ((8,), (8,)), ((4, 6), (2, 3)), ((2, 2, 4), (1, 2, 2)), ((3,), (1,)),
])  # fmt: skip
@pytest.mark.parametrize("given", ["by the kernel", "by the launch"])
def test_who_is_who_in_a_cluster(grid, cluster, given):
    sides = ", ".join(map(str, cluster))
    by_kernel = given == "by the kernel"
    source = RANKS.replace("CLUSTER", f"__cluster_dims__({sides})" if by_kernel else "")
    ptx = compile_cuda(source, arch="compute_90a").ptx
    expected = ranks(grid, cluster)
    outcome = launch(ptx, "k", grid, (32,), np.zeros(expected.size, np.uint32), cluster=None if by_kernel else cluster)
    assert not outcome.record.hazards, [h.message for h in outcome.record.hazards]
    assert np.array_equal(outcome.arrays[0].reshape(expected.shape), expected)
    if by_kernel:
        memory = Memory()
        y = memory.allocate(expected.nbytes, "y")
        y.view()[:] = 0
        oracle.run(parse(ptx).kernel("k"), grid, (32,), y.address.to_bytes(8, "little"), memory)
        assert np.array_equal(y.view().view(np.uint32).reshape(expected.shape), expected)


@pytest.mark.parametrize(("grid", "cluster", "says"), [
    ((5,), (2,), "multiple"), ((4,), (2, 2), "multiple"), ((32,), (32,), "between 1 and 8"), ((4,), (0,), "cluster"),
])  # fmt: skip
def test_clusters_that_no_gpu_launches(grid, cluster, says):
    ptx = compile_cuda(RANKS.replace("CLUSTER", ""), arch="compute_90a").ptx
    with pytest.raises(LaunchError, match=says):
        launch(ptx, "k", grid, (32,), np.zeros(8192, np.uint32), cluster=cluster)


def test_a_rank_that_the_cluster_has_not():
    source = RANKS.replace("CLUSTER", "__cluster_dims__(2, 1, 1)").replace("(rank + 1) % count", "7")
    outcome = launch(compile_cuda(source, arch="compute_90a").ptx, "k", (2,), (32,), np.zeros(1024, np.uint32))
    assert "out-of-bounds" in {h.kind for h in outcome.record.hazards}


MULTICAST = r"""
__device__ unsigned at(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
extern "C" __global__ void __cluster_dims__(4, 1, 1) k(const float* x, float* y, int mask)
{
    __shared__ alignas(128) float tile[64];
    __shared__ alignas(8) unsigned long long full;
    const int t = threadIdx.x, rank = blockIdx.x % 4;
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(&full)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(at(&full)), "r"(mask >> rank & 1 ? 256 : 0) : "memory");
    }
    tile[t] = tile[t + 32] = -1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    if (rank == 1 && t == 0) {
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                     "[%0], [%1], 256, [%2], %3;"
                     :: "r"(at(tile)), "l"(x + 64 * (blockIdx.x / 4)), "r"(at(&full)), "h"(static_cast<short>(mask))
                     : "memory");
    }
    unsigned over = 0;
    while (!over) {
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(over) : "r"(at(&full)) : "memory");
    }
    y[64 * blockIdx.x + t] = tile[t];
    y[64 * blockIdx.x + t + 32] = tile[t + 32];
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
"""


@pytest.mark.parametrize("mask", [0b0001, 0b0110, 0b1111])
def test_a_copy_for_several_blocks(mask):
    x = np.arange(128, dtype=np.float32)
    ptx = compile_cuda(MULTICAST, arch="compute_90a").ptx
    outcome = launch(ptx, "k", (8,), (32,), x, np.zeros(512, np.float32), np.int32(mask))
    assert not outcome.record.hazards, [h.message for h in outcome.record.hazards]
    got = outcome.arrays[1].reshape(2, 4, 64)
    for rank in range(4):
        assert np.array_equal(got[:, rank], x.reshape(2, 64) if mask >> rank & 1 else np.full((2, 64), -1))


def test_a_copy_for_blocks_that_are_not_there():
    ptx = compile_cuda(MULTICAST, arch="compute_90a").ptx
    arrays = np.zeros(128, np.float32), np.zeros(512, np.float32)
    with pytest.raises(KernelDeadlock):  # told as out of bounds, not done, and so nobody gets what he waits for
        launch(ptx, "k", (8,), (32,), *arrays, np.int32(0b10001))


def test_what_blocks_hand_to_each_other_is_kept_where_it_is_asked_for():
    ptx = compile_cuda(MULTICAST, arch="compute_90a").ptx
    arguments = np.arange(128, dtype=np.float32), np.zeros(512, np.float32), np.int32(0b0110)
    handed = launch(ptx, "k", (8,), (32,), *arguments, handoffs=True).record.handoffs
    copies = [h for h in handed if h.kind == "copy"]
    assert {h.place[0] for h in copies} == {1, 2, 5, 6}, "the blocks of the mask, in both clusters"
    assert all(h.block in (1, 5) and h.phase == 1 and h.line for h in copies)
    assert {(h.block, h.place[0]) for h in handed if h.kind == "wait" and h.phase == 1} == {(k, k) for k in range(8)}
    assert launch(ptx, "k", (8,), (32,), *arguments).record.handoffs == ()


DRAWN = {
    "by one thread, for the block": """__shared__ int i;
for (;;) { __syncthreads(); if (threadIdx.x == 0) i = atomicAdd(count, 1); __syncthreads(); if (i >= n) return;
if (threadIdx.x == 0) WORK }""",
    "for a warp": """for (;;) { int i = 0; if (threadIdx.x % 32 == 0) i = atomicAdd(count, 1);
i = __shfl_sync(~0u, i, 0); if (i >= n) break; if (threadIdx.x % 32 == 0) WORK }""",
    "by one thread": "if (threadIdx.x == 0) for (int i; (i = atomicAdd(count, 1)) < n;) WORK",
    "with inc": "if (threadIdx.x == 0) for (unsigned i; (i = atomicInc((unsigned*)count, 1u << 30)) < n;) WORK",
}


WORK = [("sums[i % 8] += i;", {"race"}), ("atomicAdd(sums + i % 8, i);", set())]


@pytest.mark.parametrize("parted", [False, True])
@pytest.mark.parametrize(("work", "found"), WORK)
@pytest.mark.parametrize("drawn", DRAWN)
@pytest.mark.thinned(2)
def test_blocks_that_draw_their_work_from_a_counter_all_get_some(drawn, work, found, parted):
    _all_get_some("", drawn, work, found, parted=parted)


@pytest.mark.parametrize(("work", "found"), WORK)
def test_so_do_the_blocks_of_clusters(work, found):
    _all_get_some("__cluster_dims__(2, 1, 1)", "by one thread, for the block", work, found)


def _all_get_some(attribute, drawn, work, found, *, parted=False):
    body = DRAWN[drawn].replace("WORK", "{ " + work + " who[i] = blockIdx.x; }")
    source = f'extern "C" __global__ void {attribute} k(int* sums, int* count, int* who, int n) {{ {body} }}'
    memory = Memory()
    kernel = parse(compile_cuda(source, arch="compute_90" if attribute else "compute_80").ptx).kernel("k")
    sums, count, who = (memory.allocate(4 * n) for n in (8, 1, 64))
    for array in (sums, count):
        array.view()[:] = 0
    record = kernel.launch((6,), (64,), (sums, count, who, np.int32(64)), memory, parted=parted)
    assert {hazard.kind for hazard in record.hazards} == found
    shares = np.unique(who.view().view(np.int32), return_counts=True)[1]
    assert len(shares) > 2
    assert min(shares) > 8
    assert sums.view().view(np.int32).sum() == 63 * 32
