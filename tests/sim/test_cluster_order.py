"""What the barrier of a cluster orders, and addresses of its shared memory that name the block's own rank."""

from __future__ import annotations

import numpy as np
import pytest

from . import engine_launch, oracle_launch

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
SYNC = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"


def kernel(body: str, *, cluster: bool = True) -> str:
    dims = ".explicitcluster .reqnctapercluster 2, 1, 1" if cluster else ""
    return f"""{HEAD}.visible .entry k(.param .u64 data, .param .u64 out) {dims} {{
    .reg .pred %p<5>; .reg .b32 %r<20>; .reg .b64 %rd<16>;
    .shared .align 16 .b8 s[128];
    .shared .align 8 .b8 done[8];
    ld.param.u64 %rd1, [data];
    ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    shl.b32 %r3, %r1, 2;
    shl.b32 %r4, %r2, 7;
    add.u32 %r5, %r3, %r4;
    cvt.u64.u32 %rd3, %r5;
    add.s64 %rd4, %rd1, %rd3;                       // its own word of data and of out
    add.s64 %rd5, %rd2, %rd3;
    xor.b32 %r6, %r5, 252;
    cvt.u64.u32 %rd6, %r6;
    add.s64 %rd6, %rd1, %rd6;                       // another thread's, of the other block
    mov.u32 %r7, s;
    add.u32 %r8, %r7, %r3;
    {body}
    ret;
}}
"""


def launch(ptx: str, **how):
    return engine_launch.launch(ptx, "k", 2, 32, np.zeros(64, np.uint32), np.zeros(64, np.uint32), **how)


@pytest.mark.parametrize("how", [{}, {"order": 1}, {"order": 2}], ids=str)
def test_the_barrier_orders_global_memory_between_blocks(how):
    body = f"st.global.u32 [%rd4], %r5; {SYNC} ld.global.u32 %r9, [%rd6]; st.global.u32 [%rd5], %r9;"
    outcome = launch(kernel(body), **how)
    assert not outcome.record.hazards
    assert outcome.arrays[1].tolist() == [4 * k ^ 252 for k in range(64)]


@pytest.mark.parametrize(
    "between",
    ["", SYNC.replace("arrive.", "arrive.relaxed."), "bar.sync 0;", "barrier.cluster.arrive.aligned;"],
    ids=["nothing", "a relaxed arrival", "a barrier of the block", "an arrival alone"],
)
def test_nothing_less_does(between):
    end = "barrier.cluster.wait.aligned;" if between.endswith("arrive.aligned;") else ""
    outcome = launch(
        kernel(f"st.global.u32 [%rd4], %r5; {between} ld.global.u32 %r9, [%rd6]; st.global.u32 [%rd5], %r9; {end}")
    )
    assert {h.kind for h in outcome.record.hazards} == {"race"}


def test_what_is_stored_behind_the_arrival_is_not_ordered():
    body = f"""
    barrier.cluster.arrive.aligned;
    st.global.u32 [%rd4], %r5;
    barrier.cluster.wait.aligned;
    ld.global.u32 %r9, [%rd6];
    st.global.u32 [%rd5], %r9;
    {SYNC}
    """
    assert {h.kind for h in launch(kernel(body)).record.hazards} == {"race"}


OWN = """
    mapa.shared::cluster.u32 %r9, %r8, %r2;
    st.shared::cluster.u32 [%r9], %r5;
    bar.sync 0;
    xor.b32 %r10, %r3, 124;
    add.u32 %r10, %r7, %r10;
    ld.shared.u32 %r11, [%r10];
    st.global.u32 [%rd5], %r11;
"""


@pytest.mark.parametrize("cluster", [True, False])
def test_the_own_rank_is_the_own_memory(cluster):
    body = OWN if cluster else OWN.replace("%r8, %r2", "%r8, 0")
    outcome = launch(kernel(body, cluster=cluster))
    assert not outcome.record.hazards
    assert outcome.arrays[1].tolist() == [(4 * k ^ 124) + 128 * block for block in (0, 1) for k in range(32)]


def test_a_race_there_is_found():
    hazards = launch(kernel(OWN.replace("bar.sync 0;", ""))).record.hazards
    assert {(h.kind, h.space) for h in hazards} <= {("race", "shared"), ("uninitialized", "shared")} and hazards


def test_whose_memory_an_address_is_of():
    """isspacep.shared::cta: of the own block, also by its rank; .shared::cluster: of any."""
    body = f"""
    cvt.u64.u32 %rd8, %r7;
    cvta.shared.u64 %rd8, %rd8;
    xor.b32 %r9, %r2, 1;
    mapa.u64 %rd9, %rd8, %r9;
    mapa.u64 %rd10, %rd8, %r2;
    mov.u32 %r12, 0;
    isspacep.shared::cta %p1, %rd8;    @%p1 add.u32 %r12, %r12, 1;
    isspacep.shared::cta %p1, %rd9;    @%p1 add.u32 %r12, %r12, 2;
    isspacep.shared %p1, %rd10;        @%p1 add.u32 %r12, %r12, 4;
    isspacep.shared::cluster %p1, %rd9; @%p1 add.u32 %r12, %r12, 8;
    isspacep.shared::cluster %p1, %rd1; @%p1 add.u32 %r12, %r12, 16;
    st.global.u32 [%rd5], %r12;
    {SYNC}
    """
    ours = launch(kernel(body))
    theirs = oracle_launch.launch(kernel(body), "k", 2, 32, np.zeros(64, np.uint32), np.zeros(64, np.uint32))
    assert set(ours.arrays[1].tolist()) == set(theirs.arrays[1].tolist()) == {13}


@pytest.mark.parametrize("how", [{}, {"check": False, "count": False}, {"parted": True}], ids=str)
def test_a_bulk_copy_into_the_own_memory_without_clusters(how):
    body = """
    mov.u32 %r9, done;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r9], 1;
    bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], 128;
    @%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r7], [%rd1], 128, [%r9];
AGAIN:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r9], 0;
    @!%p2 bra AGAIN;
    ld.shared.u32 %r11, [%r8];
    st.global.u32 [%rd5], %r11;
    """
    data = np.arange(64, dtype=np.uint32)
    outcome = engine_launch.launch(kernel(body, cluster=False), "k", 2, 32, data, np.zeros(64, np.uint32), **how)
    assert not outcome.record.hazards
    assert outcome.arrays[1].tolist() == [*range(32)] * 2
