"""Barrier objects (mbarrier, cuda::barrier): waits that never end, and what only a cluster has."""

from __future__ import annotations

import numpy as np
import pytest

from warpschool.compile import compile_cuda
from warpschool.errors import KernelDeadlock, UnsupportedInstruction

from . import engine_launch, oracle_launch

KERNEL = """#include <cuda/barrier>
extern "C" __global__ void k(int* y) {
    __shared__ cuda::barrier<cuda::thread_scope_block> gate[2];
    const int t = threadIdx.x;
    if (t == 0) { init(&gate[0], 64); init(&gate[1], 64); }
    __syncthreads();
    BODY
    y[t] = t;
}
"""
OUT = np.zeros(64, np.int32)


def ptx(body: str) -> str:
    return compile_cuda(KERNEL.replace("BODY", body), name="kernel.cu").ptx


def deadlock(body: str, **options) -> KernelDeadlock:
    with pytest.raises(KernelDeadlock) as found:
        engine_launch.launch(ptx(body), "k", (2,), (64,), OUT, **options)
    return found.value


@pytest.mark.parametrize(
    ("body", "arrived"),
    [
        ("if (t < 40) gate[1].arrive_and_wait();", "40 of 64"),
        ("gate[0].arrive_and_wait(); if (t != 5) gate[1].arrive_and_wait();", "63 of 64"),
        ("(void)gate[1].arrive(); gate[1].wait_parity(true);", "0 of 64"),
        ("if (t < 32) gate[1].arrive_and_wait(); __syncthreads();", "32 of 64"),
    ],
    ids=["half", "all but one", "parity", "others at a barrier"],
)
@pytest.mark.thinned(2)
def test_a_wait_without_end_names_the_object_and_what_is_missing(body, arrived):
    said = {str(deadlock(body, **way)) for way in ({}, {"threads": 1}, {"check": False}, {"parted": True})}
    assert len(said) == 1
    (message,) = said
    assert message.startswith("kernel.cu:7: ") and "block (0, 0, 0)" in message
    assert f"shared gate for ever: {arrived} arrivals have come" in message


@pytest.mark.slow
def test_the_oracle_names_a_deadlock_too():
    with pytest.raises(KernelDeadlock, match="waits at a barrier object for ever"):
        oracle_launch.launch(ptx("if (t < 40) gate[1].arrive_and_wait();"), "k", (1,), (64,), OUT)


def test_a_thread_that_only_looks_goes_on():
    look = ".reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%0], 0;"
    address = "(unsigned)__cvta_generic_to_shared(&gate[0])"
    body = f'for (int n = 0; n < 500 && t < 32; ++n) asm volatile("{{ {look} }}" :: "r"({address}) : "memory");'
    body += " gate[1].arrive_and_wait(); (void)gate[0].arrive();"
    ours = engine_launch.launch(ptx(body), "k", (1,), (64,), OUT)
    assert np.array_equal(ours.arrays[0], np.arange(64)) and not ours.record.hazards


def test_transactions_of_bulk_copies_need_a_cluster():
    body = 'asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 16;" :: "r"(t));'
    with pytest.raises(UnsupportedInstruction, match=r"(?s)mbarrier\.expect_tx.*bulk copy.*sm_90"):
        engine_launch.launch(ptx(body), "k", (1,), (64,), OUT)


OBJECT = r"""
typedef unsigned long long u64;
extern "C" __global__ void k(int* y) {
    __shared__ u64 gate;
    __shared__ int s[64];
    const int t = threadIdx.x;
    const unsigned at = __cvta_generic_to_shared(&gate);
    if (t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" :: "r"(at) : "memory");
    __syncthreads();
    s[t] = t;
    BEFORE
    asm volatile("{.reg .b64 state; .reg .pred p;\n"
                 "mbarrier.arrive.ARRIVES.cta.shared::cta.b64 state, [%0];\n"
                 "L%=: mbarrier.try_wait.WAITS.cta.shared::cta.b64 p, [%0], state;\n@!p bra L%=;}"
                 :: "r"(at) : "memory");
    BEHIND
    y[t] = s[63 - t];
    __syncthreads();
    END
}
"""
FENCE = "__threadfence_block();"


def found(arrives: str = "release", waits: str = "acquire", before: str = "", behind: str = "", end: str = "", **how):
    source = OBJECT
    for name, part in {
        "ARRIVES": arrives, "WAITS": waits, "BEFORE": before, "BEHIND": behind, "END": end,
    }.items():  # fmt: skip
        source = source.replace(name, part)
    hazards = engine_launch.launch(compile_cuda(source, arch="compute_90a").ptx, "k", 1, 64, OUT, **how).record.hazards
    return {(h.kind, h.access) for h in hazards}


@pytest.mark.parametrize(("arrives", "waits"), [("relaxed", "acquire"), ("release", "relaxed"), ("relaxed", "relaxed")])
def test_relaxed_arrivals_and_waits_order_nothing(arrives, waits):
    assert not found()
    assert {kind for kind, _ in found(arrives, waits)} == {"race"}
    assert not found(arrives, waits, before=FENCE, behind=FENCE)


LOOK = 'if (t == 0) asm volatile("{.reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0];}" :: "r"(at) : "memory");'
ENDS = 'if (t == 32) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(at) : "memory"); __syncthreads();'
AGAIN = 'if (t == 32) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at) : "memory"); __syncthreads();'


@pytest.mark.parametrize("how", [{}, {"parted": True}], ids=str)
@pytest.mark.thinned(2)
def test_an_object_that_has_ended_is_none(how):
    assert found(end=ENDS + LOOK, **how) == {("uninitialized", "atomic")}
    for end in (LOOK, ENDS, ENDS + AGAIN + LOOK, ENDS + "if (t == 3) gate = 7; __syncthreads(); y[t] = gate;"):
        assert not found(end=end, **how)
