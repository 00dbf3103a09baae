"""What works beside threads: bulk copies, wgmma, blocks of a cluster. Each kernel is right, and wrong in one way."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsim import Memory, parse
from ptxsim.errors import KernelDeadlock
from ptxsim.run import asynchronous, asynchronous_log
from ptxsim.tensormap import TensorMap
from warpschool.compile import compile_cuda

from .engine_launch import launch

HEAD = r"""
__device__ unsigned at(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
__device__ void init(void* bar, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at(bar)), "r"(count) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ void expect(void* bar, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at(bar)), "r"(bytes) : "memory");
}
__device__ void arrive(void* bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(bar)) : "memory");
}
__device__ void wait(void* bar, int parity)
{
    unsigned over = 0;
    while (!over) {
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(over) : "r"(at(bar)), "r"(parity) : "memory");
    }
}
__device__ void load(void* to, const void* from, int bytes, void* bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(at(to)), "l"(from), "r"(bytes), "r"(at(bar)) : "memory");
}
__device__ void store(void* to, const void* from, int bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(to), "r"(at(from)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ void fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
"""
LOAD = HEAD + r"""
extern "C" __global__ void k(const float* x, float* y)
{
    __shared__ alignas(128) float tile[1024];
    __shared__ alignas(8) unsigned long long full, empty;
    const int t = threadIdx.x;
    if (t == 0) {
        init(&full, 1);
        init(&empty, 128);
    }
    __syncthreads();
    for (int step = 0; step < 4; ++step) {
        if (t == 0) {
            if (step > 0) wait(&empty, (step - 1) % 2);
            expect(&full, 4096);
            load(tile, x + 1024 * step, 4096, &full);
        }
        wait(&full, step % 2);
        for (int i = t; i < 1024; i += 128) y[1024 * step + i] = 2 * tile[i];
        arrive(&empty);
    }
}
"""
STORE = HEAD + r"""
extern "C" __global__ void k(const float* x, float* y)
{
    __shared__ alignas(128) float tile[128];
    const int t = threadIdx.x;
    for (int step = 0; step < 32; ++step) {
        if (t == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        __syncthreads();
        tile[t] = 2 * x[128 * step + t];
        fence();
        __syncthreads();
        if (t == 0) store(y + 128 * step, tile, 512);
    }
}
"""
PRODUCT = HEAD + r"""
// y[i][j] = sum over k of x[i][k] x[j][k]: 64 x 8 x 16, operands as core matrices of 8 rows by 16 bytes
__device__ unsigned long long describe(const void* p)
{
    return (at(p) >> 4) | (128ull >> 4) << 16 | (256ull >> 4) << 32;
}
extern "C" __global__ void k(const float* x, float* y)
{
    __shared__ alignas(128) unsigned short tile[64 * 16];
    const int t = threadIdx.x;
    float d[4] = {};
    for (int step = 0; step < 2; ++step) {
        if (step > 0) __syncthreads();
        for (int i = t; i < 64 * 16; i += 128) {
            const int row = i / 16, col = i % 16;
            unsigned short half;
            asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x[i]));
            tile[row / 8 * 128 + col / 8 * 64 + row % 8 * 8 + col % 8] = half;
        }
        fence();
        __syncthreads();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(describe(tile)), "l"(describe(tile)));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) :: "memory");
    }
    for (int i = 0; i < 4; ++i) {
        const int row = t / 32 * 16 + t % 32 / 4 + i / 2 * 8, col = t % 4 * 2 + i % 2;
        y[row * 8 + col] = d[i];
    }
}
"""
PEERS = HEAD + r"""
__device__ void meet() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }
extern "C" __global__ void __cluster_dims__(4, 1, 1) k(const float* x, float* y)
{
    __shared__ float own[128];
    const int t = threadIdx.x;
    own[t] = x[128 * blockIdx.x + t];
    meet();  // all have stored
    unsigned far;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(at(&own[127 - t])), "r"((blockIdx.x + 1) % 4));
    float found;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(found) : "r"(far) : "memory");
    y[128 * blockIdx.x + t] = found;
    meet();  // nobody leaves before
}
"""
GIVEN = np.arange(4096, dtype=np.float32) / 64


def halves() -> np.ndarray:
    return (np.arange(4096) % 13 - 6).astype(np.float32)


def run(source: str, *, x: np.ndarray = GIVEN, blocks: int = 1, threads: int = 128):
    ptx = compile_cuda(source, arch="compute_90a").ptx
    return launch(ptx, "k", (blocks,), (threads,), x, np.zeros(4096, np.float32))


def findings(source: str, **options) -> set[tuple[str, str]]:
    return {(h.kind, h.detail) for h in run(source, **options).record.hazards}


RIGHT = {
    "load": (LOAD, 1, 2 * GIVEN),
    "store": (STORE, 1, 2 * GIVEN),
    "peers": (PEERS, 4, np.roll(GIVEN[:512].reshape(4, 128), -1, axis=0)[:, ::-1].ravel()),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_has_no_findings(name):
    source, blocks, expected = RIGHT[name]
    outcome = run(source, blocks=blocks)
    assert not outcome.record.hazards
    assert np.array_equal(outcome.arrays[1][: len(expected)], expected)


def test_a_right_product_has_no_findings():
    x = halves()
    outcome = run(PRODUCT, x=x)
    assert not outcome.record.hazards
    rows = x[:1024].reshape(64, 16)
    assert np.array_equal(outcome.arrays[1][:512].reshape(64, 8), 2 * rows @ rows[:8].T)


FENCE = "        fence();\n"
HASTY = LOAD.replace("if (step > 0) wait(&empty, (step - 1) % 2);", "")
ONCE, WAIT = LOAD.replace("step < 4", "step < 1"), "wait(&full, step % 2);"
WRONG = {
    "nobody waits for a copy": (ONCE, WAIT, "", "early"),
    "one warp waits": (ONCE, WAIT, f"if (t < 32) {WAIT}", "early"),
    "copies before others have read": (HASTY, WAIT, f"{WAIT}\n        __syncthreads();", "early"),
    "copies over what others read": (
        HASTY.replace("if (t == 0)", "if (t == 96)"), WAIT, f"{WAIT}\n        __syncthreads();", "overwritten"
    ),
    "no fence behind stores": (STORE, FENCE, "", "fence"),
    "fence before the stores": (STORE, "        tile[t] =", "        fence();\n        tile[t] =", None),
    "stores over what is still copied": (STORE, "if (t == 0) asm", "if (t < 0) asm", "overwritten"),
    "leaves one group open": (STORE, "wait_group.read 0", "wait_group.read 1", "overwritten"),
    "no fence before a product": (PRODUCT, FENCE, "", "fence"),
    "fence by one warp alone": (PRODUCT, FENCE, "        if (t < 32) fence();\n", "fence"),
    "no wait before sums are used": (PRODUCT, "wgmma.wait_group.sync.aligned 0", "// ", "sums"),
    "leaves its group open": (PRODUCT, "wait_group.sync.aligned 0", "wait_group.sync.aligned 1", "sums"),
    "leaves before others have looked": (PEERS, "    meet();  // nobody", "    // nobody", "peer"),
    "looks before others have begun": (PEERS, "    meet();  // all", "    __syncthreads();  // all", "peer"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name):
    source, old, new, detail = WRONG[name]
    assert source.count(old) >= 1
    x, blocks = halves() if source is PRODUCT else GIVEN, 4 if source is PEERS else 1
    found = findings(source.replace(old, new), x=x, blocks=blocks)
    if detail is None:
        assert not found
    else:
        assert ("async-order", detail) in found
        assert {kind for kind, _ in found} <= {"async-order", "race"}


def test_both_lines_are_named():
    (found, *_) = run(ONCE.replace(WAIT, "")).record.hazards
    lines = ONCE.replace(WAIT, "").splitlines()
    assert "2 * tile[i]" in lines[found.line - 1]
    # compilers differ in which line of the statement is its
    assert any(part in lines[found.other_line - 1] for part in ("cp.async.bulk", "asm volatile", '"r"(bytes)'))
    assert f"line {found.other_line}" in found.message and "wait for the phase" in found.message


def test_a_fence_of_the_thread_that_copies_is_enough():
    source = STORE.replace(FENCE, "").replace("if (t == 0) store(", "if (t == 0) fence();\n        if (t == 0) store(")
    assert not findings(source)


def test_bytes_that_never_come_are_told():
    with pytest.raises(KernelDeadlock, match="expects 8,192 bytes, 4,096 came"):
        run(LOAD.replace("expect(&full, 4096)", "expect(&full, 8192)"))


SWIZZLED = HEAD + r"""
struct alignas(64) Map { unsigned long long opaque[16]; };
extern "C" __global__ void k(const __grid_constant__ Map x, float* y)
{
    __shared__ alignas(1024) unsigned short tile[64 * 64];
    __shared__ alignas(8) unsigned long long full;
    const int t = threadIdx.x;
    if (t == 0) {
        init(&full, 1);
        expect(&full, 8192);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %2}], [%3];"
                     :: "r"(at(tile)), "l"(&x), "r"(0), "r"(at(&full)) : "memory");
    }
    __syncthreads();
    wait(&full, 0);
    const unsigned long long a = (at(tile) >> 4) | 1ull << 16 | (1024ull >> 4) << 32 | MODE << 62;
    float d[4] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %4, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) :: "memory");
    y[t] = d[0];
}
"""


@pytest.mark.parametrize(("mode", "swizzle", "wrong"), [
    (1, 128, False), (2, 64, True), (0, 0, True), (3, 32, True),
])  # fmt: skip
def test_a_tile_is_read_in_the_layout_in_which_it_was_stored(mode, swizzle, wrong):
    """The copy stores with a swizzle of 128 bytes; the descriptor says `mode`."""
    memory = Memory()
    x, y = memory.allocate(8192, "x"), memory.allocate(512, "y")
    x.view()[:] = 0
    tensor_map = TensorMap(x.address, "f16", (64, 64), (128,), (64, 64), (1, 1), swizzle=128)
    kernel = parse(compile_cuda(SWIZZLED.replace("MODE", f"{mode}ull"), arch="compute_90a").ptx).kernel("k")
    record = kernel.launch((1,), (128,), tensor_map.encode() + y.address.to_bytes(8, "little"), memory)
    found = {(h.kind, h.detail, h.size) for h in record.hazards}
    assert found == ({("async-order", "swizzle", swizzle)} if wrong else set())


@pytest.mark.parametrize("events", [0, 20])
def test_a_launch_with_too_many_events_is_believed(events, monkeypatch):
    monkeypatch.setattr(asynchronous, "MOST_EVENTS", events)
    for source, blocks, expected in RIGHT.values():
        outcome = run(source, blocks=blocks)
        assert not outcome.record.hazards
        assert np.array_equal(outcome.arrays[1][: len(expected)], expected)
    assert not findings(ONCE.replace(WAIT, "")) or events


def test_what_is_found_too_often_is_followed_no_further(monkeypatch):
    for most, blocks in ((1, 1), (1 << 10, 5)):
        monkeypatch.setattr(asynchronous, "MOST_FOUND", most)
        begun, found = judged(monkeypatch, ONCE.replace(WAIT, ""), 5)
        assert {*begun} == {*range(blocks)} and found == {("async-order", "early")}


def test_a_deadlock_after_that_is_told_without_bytes(monkeypatch):
    monkeypatch.setattr(asynchronous, "MOST_FOUND", 1)
    never = LOAD.replace("expect(&full, 4096)", "expect(&full, 8192)")
    with pytest.raises(KernelDeadlock, match="expects 8,192 bytes, 4,096 came"):
        run(never)
    with pytest.raises(KernelDeadlock, match="arrivals have come"):
        run(never.replace(WAIT, f"y[t] = tile[t]; {WAIT}"))


# ---------------------------------------------------------------- clusters that do the same


def judged(monkeypatch, source: str, blocks: int) -> tuple[list[int], set[tuple[str, str]]]:
    """The blocks whose beginnings were judged by one host thread, and what was found."""
    begun: list[int] = []
    begin = asynchronous.Follower._block
    monkeypatch.setattr(asynchronous.Follower, "_block", lambda f, *a: begun.append(f.told.block) or begin(f, *a))
    ptx = compile_cuda(source, arch="compute_90a").ptx
    outcome = launch(ptx, "k", (blocks,), (128,), GIVEN, np.zeros(4096, np.float32), threads=1)
    return begun, {(h.kind, h.detail) for h in outcome.record.hazards}


def test_what_did_the_same_is_judged_once(monkeypatch):
    source = LOAD.replace("step < 4", "step < 2").replace("1024 * step", "0")
    assert judged(monkeypatch, source, 12) == ([0], set())


def test_a_block_that_does_something_else_is_judged(monkeypatch):
    wrong = ONCE.replace(WAIT, f"if (blockIdx.x != 7) {WAIT}")
    begun, found = judged(monkeypatch, wrong, 12)
    assert {*begun} == {0, 7} and found == {("async-order", "early")}


def test_what_is_found_in_many_blocks_is_told_once(monkeypatch):
    begun, found = judged(monkeypatch, ONCE.replace(WAIT, ""), 5)
    assert {*begun} == {*range(5)} and found == {("async-order", "early")}


def test_what_was_found_is_found_again():
    kernel = parse(compile_cuda(ONCE.replace(WAIT, ""), arch="compute_90a").ptx).kernel("k")
    memory = Memory()
    x, y = memory.allocate(4096, "x"), memory.allocate(4096, "y")
    x.view()[:] = 0
    for _ in range(3):
        record = kernel.launch((4,), (128,), (x, y), memory)
        assert {h.detail for h in record.hazards} == {"early"}


def test_handing_over_is_told_of_every_block():
    ptx = compile_cuda(ONCE, arch="compute_90a").ptx
    outcome = launch(ptx, "k", (3,), (128,), GIVEN, np.zeros(4096, np.float32), handoffs=True)
    assert {h.block for h in outcome.record.handoffs} == {0, 1, 2}


def test_a_long_block_is_judged_in_parts(monkeypatch):
    monkeypatch.setattr(asynchronous_log, "_MOST_WAITING", 8)
    parts = []
    judge = asynchronous.Sequence.events
    monkeypatch.setattr(asynchronous.Sequence, "events", lambda s: parts.append(s.is_whole) or judge(s))
    long = LOAD.replace("1024 * step", "0").replace("step < 4", "step < 200")
    kernel = parse(compile_cuda(long, arch="compute_90a").ptx).kernel("k")
    memory = Memory()
    x, y = memory.allocate(4096, "x"), memory.allocate(4096, "y")
    x.view()[:] = 0
    for _ in range(2):  # a part of what was in order before is no reason to leave it out
        parts.clear()
        assert not kernel.launch((1,), (128,), (x, y), memory).hazards
        assert len(parts) > 1 and not any(parts)
    late = f"if (step != 180 || t >= 32) {WAIT}"
    assert {kind for kind, _ in findings(long.replace(WAIT, late))} == {"async-order"}
