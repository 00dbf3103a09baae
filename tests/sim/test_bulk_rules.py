"""What bulk copies may do to each other and what is said of them where they may not: alignment, reductions, sources."""

from __future__ import annotations

import numpy as np
import pytest

import warpschool as ws
from warpschool.errors import KernelDeadlock

HEAD = r"""
typedef unsigned long long u64;
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned far(const void* p, unsigned rank) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at(p)), "r"(rank));
    return there;
}
__device__ void meet() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }
__device__ void init(u64* b, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\nfence.mbarrier_init.release.cluster;"
                 :: "r"(at(b)), "r"(count) : "memory");
}
__device__ void expect(u64* b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at(b)), "r"(bytes) : "memory");
}
__device__ void wait(u64* b, int parity) {
    asm volatile("{.reg .pred p;\nL%=: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra L%=;}"
                 :: "r"(at(b)), "r"(parity) : "memory");
}
__device__ void load(void* to, const void* from, int bytes, u64* b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(at(to)), "l"(from), "r"(bytes), "r"(at(b)) : "memory");
}
__device__ void store(void* to, const void* from, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;\n"
                 "cp.async.bulk.wait_group 0;" :: "l"(to), "r"(at(from)), "r"(bytes) : "memory");
}
__device__ void proxy() { asm volatile("fence.proxy.async;" ::: "memory"); }
"""
KERNEL = """extern "C" __global__ void {dims} k(int* g, int* o) {{
    const int t = threadIdx.x, r = blockIdx.x;
    __shared__ alignas(128) int s[64];
    __shared__ alignas(128) int q[64];
    __shared__ u64 b;
    __shared__ int f;
    {body}
}}
"""


def launched(body: str, *, blocks: int = 1, threads: int = 32, cluster: bool = False):
    """(the launch, what o holds) of a kernel with an array g of numbers."""
    dims = "__cluster_dims__(2, 1, 1)" if cluster else ""
    module = ws.RawModule(code=HEAD + KERNEL.format(dims=dims, body=body), device="sim", arch="sm_90a")
    g, o = (module.device.asarray(x) for x in (np.arange(256, dtype=np.int32), np.zeros(256, np.int32)))
    launch = module.get_function("k")(blocks, threads, (g, o))
    return launch, o.get()


REDUCED = """
    s[t] = t + 1; q[t] = 0;
    if (t == 0) { init(&b, 1); expect(&b, 256); }
    proxy(); meet();
    if (t == 0) asm volatile("cp.HOW.shared::cluster.shared::cta.mbarrier::complete_tx::bytesTYPE"
                             " [%0], [%1], 128, [%2];"
                             :: "r"(far(q, 0)), "r"(at(s)), "r"(far(&b, 0)) : "memory");
    if (r == 0) { wait(&b, 0); o[t] = q[t]; }
    meet();
"""


def test_several_may_add_to_one_place():
    body = REDUCED.replace("HOW", "reduce.async.bulk").replace("TYPE", ".add.u32")
    launch, o = launched(body, blocks=2, cluster=True)
    assert not launch.hazards
    assert o[:32].tolist() == [2 * (k + 1) for k in range(32)]


def test_several_may_not_copy_there():
    launch, _ = launched(REDUCED.replace("HOW", "async.bulk").replace("TYPE", ""), blocks=2, cluster=True)
    assert {h.detail for h in launch.hazards} == {"early"}


SENT = """
    s[t] = t; if (t == 0) { init(&b, 1); expect(&b, 128); }
    proxy(); meet();
    if (t == 0) asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
                             " [%0], [%1], 128, [%2];"
                             :: "r"(far(q, r ^ 1)), "r"(at(s)), "r"(far(&b, r ^ 1)) : "memory");
    WAIT
    s[t] = -1;
    END o[r * 32 + t] = q[t] + s[t];
    meet();
"""


def test_what_was_sent_is_free_once_the_receiver_knows():
    launch, o = launched(SENT.replace("WAIT", "wait(&b, 0); meet();").replace("END", ""), blocks=2, cluster=True)
    assert not launch.hazards
    assert o[:64].tolist() == [t - 1 for _ in range(2) for t in range(32)]


def test_and_not_before():
    launch, _ = launched(SENT.replace("WAIT", "").replace("END", "wait(&b, 0);"), blocks=2, cluster=True)
    assert {h.detail for h in launch.hazards} == {"overwritten"}


def test_a_stage_may_be_handed_back_by_an_atomic():
    launch, o = launched(
        """
    if (t == 0) { init(&b, 1); f = 0; }
    __syncthreads();
    if (t == 32) for (int i = 0; i < 2; i++) {
        while (atomicAdd(&f, 0) < i) { }
        __threadfence_block(); expect(&b, 128); load(s, g + 32 * i, 128, &b);
    }
    if (t < 32) for (int i = 0; i < 2; i++) {
        wait(&b, i); o[32 * i + t] = s[31 - t]; __syncwarp();
        if (t == 0) { __threadfence_block(); atomicExch(&f, i + 1); }
    }
    """,
        threads=64,
    )
    assert not launch.hazards
    assert o[:64].tolist() == [32 * i + 31 - t for i in range(2) for t in range(32)]


@pytest.mark.parametrize(("to", "from_", "said"), [
    ("o + 1", "s", "writes o at byte 4 by a bulk copy"), ("o", "s + 1", "shared s at byte 4 by a bulk copy"),
])  # fmt: skip
def test_stores_that_are_not_aligned(to, from_, said):
    launch, _ = launched(f"s[t] = t; proxy(); __syncwarp(); if (t == 0) store({to}, {from_}, 64);")
    (hazard,) = launch.hazards
    assert hazard.kind == "misaligned" and said in hazard.message and "multiples of 16 bytes" in hazard.message


def test_a_load_that_is_not_aligned():
    body = "if (t == 0) { init(&b, 1); expect(&b, 64); load(s, g + 1, 64, &b); } wait(&b, 0); o[t] = s[t];"
    with pytest.raises(KernelDeadlock, match="reads g at byte 4 by a bulk copy"):
        launched(body)


def test_a_load_that_races_reads():
    body = """
    if (r == 0) g[t] = t;
    else { if (t == 0) { init(&b, 1); expect(&b, 128); load(s, g, 128, &b); } __syncwarp(); wait(&b, 0); o[t] = s[t]; }
    """
    launch, _ = launched(body, blocks=2)
    (hazard,) = launch.hazards
    assert (hazard.kind, hazard.access, hazard.space) == ("race", "read", "global")
    assert "reads g" in hazard.message and "no barrier orders blocks" in hazard.message


def test_products_that_no_group_holds_are_never_waited_for():
    body = """
    __shared__ alignas(128) unsigned short w[1024];
    for (int k = t; k < 1024; k += 128) w[k] = 0x3c00;
    proxy(); __syncthreads();
    float d[4] = {0, 0, 0, 0};
    const u64 a = (at(w) & 0x3ffff) >> 4 | (128ull >> 4) << 16 | (256ull >> 4) << 32;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(a));
    COMMIT
    asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) :: "memory");
    o[t] = d[0];
    """
    commit = 'asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");'
    launch, o = launched(body.replace("COMMIT", commit), threads=128)
    assert not launch.hazards and (o[:128] == 16).all()
    (hazard,) = launched(body.replace("COMMIT", ""), threads=128)[0].hazards
    assert hazard.detail == "sums"


ACCESSES = {"an atomic": "atomicAdd(&s[t], 1);", "a generic pointer": "int* p = g[0] == 7 ? o : s; p[t] = 4;"}


@pytest.mark.parametrize("access", ACCESSES.values(), ids=ACCESSES)
def test_accesses_of_every_kind_wait_for_the_copy(access):
    body = """
    if (t == 0) init(&b, 1);
    __syncthreads();
    if (t == 0) { expect(&b, 128); load(s, g, 128, &b); }
    __syncwarp();
    BEFORE wait(&b, 0); BEHIND
    o[t + 32] = s[t];
    """
    (early,) = launched(body.replace("BEFORE", access).replace("BEHIND", ""))[0].hazards
    assert (early.detail, early.space) == ("early", "shared")
    assert not launched(body.replace("BEFORE", "").replace("BEHIND", access))[0].hazards


@pytest.mark.parametrize("access", ACCESSES.values(), ids=ACCESSES)
def test_stores_of_every_kind_need_a_fence(access):
    body = "s[t] = 0; proxy(); __syncthreads(); STORE FENCE __syncthreads(); if (t == 0) store(o, s, 128);"
    body = body.replace("STORE", access)
    (lacking,) = launched(body.replace("FENCE", ""))[0].hazards
    assert lacking.detail == "fence"
    assert not launched(body.replace("FENCE", "proxy();"))[0].hazards


def test_more_arrivals_than_a_phase_is_for():
    arrive = 'asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(&b)) : "memory");'
    with pytest.raises(KernelDeadlock, match="more than the 1 arrivals of a phase have come"):
        launched(f"if (t == 0) {{ init(&b, 1); expect(&b, 16); {arrive} wait(&b, 0); }}")
