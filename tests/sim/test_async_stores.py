"""st.async and red.async: values and sums that blocks of a cluster send each other, by machine code and the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsim import Memory, oracle, parse
from ptxsim.errors import PtxSyntaxError, UnsupportedInstruction

OWN = np.arange(64, dtype=np.uint32) * 2654435761
"""What every thread of the two blocks sends: to the thread with its number in the other block."""
SEND = "mbarrier::complete_tx::bytes"


def kernel(send: str, nbytes: int, *, wait: bool = True, start: str = "mov.u32 %v, 7;", size: int = 4) -> str:
    """Two blocks of 32 threads; each thread sends to `%to` of the other block, whose object is `%by`; then all look."""
    waits = "again: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %done, [%bar], 0; @!%done bra again;"
    return f"""
.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) .reqnctapercluster 2, 1, 1
{{
  .shared .align 16 .b8 slots[512];
  .shared .align 8 .b64 object;
  .reg .pred %first, %done; .reg .b32 %t, %rank, %other, %n, %at, %bar, %to, %by, %v, %a, %b, %c, %d;
  .reg .b64 %in, %out, %wide, %x;
  ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
  mov.u32 %t, %tid.x; mov.u32 %rank, %cluster_ctarank; xor.b32 %other, %rank, 1;
  mad.lo.u32 %n, %rank, 32, %t;
  mov.u32 %bar, object; mov.u32 %at, slots; mad.lo.u32 %at, %t, {size}, %at;
  setp.eq.u32 %first, %t, 0;
  @%first mbarrier.init.shared.b64 [%bar], 1;
  @%first fence.mbarrier_init.release.cluster;
  {start}
  st.shared.u32 [%at], %v;
  barrier.cluster.arrive; barrier.cluster.wait;
  @%first mbarrier.arrive.expect_tx.shared.b64 _, [%bar], {nbytes};
  mapa.shared::cluster.u32 %to, %at, %other;
  mapa.shared::cluster.u32 %by, %bar, %other;
  mul.wide.u32 %wide, %n, 4; add.u64 %in, %in, %wide; add.u64 %out, %out, %wide;
  ld.global.u32 %v, [%in];
  {send}
  {waits if wait else ""}
  ld.shared.u32 %v, [%at];
  st.global.u32 [%out], %v;
  barrier.cluster.arrive; barrier.cluster.wait;
  ret;
}}"""


def run(text: str, how: str):
    made, memory = parse(text).kernel("k"), Memory()
    given, out = memory.allocate(OWN.nbytes), memory.allocate(OWN.nbytes)
    given.view()[:] = OWN.view(np.uint8)
    if how == "oracle":
        oracle.run(made, 2, 32, [given, out], memory)
        return out.view().view(np.uint32).copy(), ()
    record = made.launch(2, 32, [given, out], memory, parted=how == "parted")
    return out.view().view(np.uint32).copy(), record.hazards


HOW = pytest.mark.parametrize("how", ["whole", "parted", "oracle"])


@HOW
def test_values_arrive_with_their_bytes(how):
    found, hazards = run(kernel(f"st.async.weak.shared::cluster.{SEND}.u32 [%to], %v, [%by];", 128), how)
    assert not hazards
    assert (found == np.roll(OWN, 32)).all()


@HOW
def test_vectors_arrive(how):
    """Every thread sends four words to a place of its own, of which the other looks at the first."""
    send = "not.b32 %b, %v; mov.u32 %c, 1; mov.u32 %d, 2;"
    send += f"st.async.shared::cluster.{SEND}.v4.b32 [%to], {{%b, %v, %c, %d}}, [%by];"
    found, hazards = run(kernel(send, 512, size=16), how)
    assert not hazards
    assert (found == ~np.roll(OWN, 32)).all()


@HOW
@pytest.mark.parametrize(
    "operation, expected",
    [
        ("add.u32", lambda sent: (7 + int(sent.sum())) % (1 << 32)), ("min.u32", lambda sent: min(7, *sent.tolist())),
        ("max.s32", lambda sent: max(7, *sent.view(np.int32).tolist()) % (1 << 32)),
        ("and.b32", lambda sent: 7 & int(np.bitwise_and.reduce(sent))), ("inc.u32", lambda sent: None),
        ("xor.b32", lambda sent: 7 ^ int(np.bitwise_xor.reduce(sent))),
    ],
)  # fmt: skip
def test_reductions_of_many_threads_on_one_word(how, operation, expected):
    """All threads of a block send to the first slot of the other: the parts of a sum come in any order."""
    send = "mov.u32 %to, slots; mapa.shared::cluster.u32 %to, %to, %other;"
    send += f"red.async.relaxed.cluster.shared::cluster.{SEND}.{operation} [%to], %v, [%by];"
    found, hazards = run(kernel(send, 128), how)
    assert not hazards
    for block in (0, 1):
        wanted = expected(OWN[32 * (1 - block) :][:32])
        if wanted is None:  # up to the limit that each thread brings, then from 0
            wanted = 7
            for limit in OWN[32 * (1 - block) :][:32].tolist():
                wanted = 0 if wanted >= limit else wanted + 1
        assert found[32 * block] == wanted
        assert (found[32 * block + 1 :][:31] == 7).all()


@pytest.mark.parametrize(("form", "size"), [
    ("v4.b32 [%to], {%v, %v, %v, %v}", 16), ("v2.b32 [%to], {%v, %v}", 8), ("u32 [%to], %v", 4),
])  # fmt: skip
def test_who_looks_before_the_object_is_done_is_told(form, size):
    send = f"st.async.shared::cluster.{SEND}.{form}, [%by];"
    _, hazards = run(kernel(send, 32 * size, size=size, wait=False), "whole")
    assert ("async-order", "early") in {(h.kind, h.detail) for h in hazards}
    assert not run(kernel(send, 32 * size, size=size), "whole")[1]


def test_what_lies_beside_a_small_value_may_be_used_meanwhile():
    """Every other word is sent to; the thread looks at the one behind its own."""
    send = f"st.async.shared::cluster.{SEND}.u32 [%to], %v, [%by]; add.u32 %at, %at, 4; st.shared.u32 [%at], %t;"
    found, hazards = run(kernel(send, 128, size=8, wait=False), "whole")
    assert {h.detail for h in hazards} == {"peer"}  # nobody waits before the end either
    assert (found == np.tile(np.arange(32), 2)).all()


def test_a_value_beside_the_memory_is_told():
    send = f"add.u32 %to, %to, 4096; st.async.shared::cluster.{SEND}.u32 [%to], %v, [%by];"
    _, hazards = run(kernel(send, 128, wait=False), "whole")
    assert {h.kind for h in hazards} == {"out-of-bounds"}


@pytest.mark.parametrize(
    "send",
    [
        f"st.async.shared::cluster.{SEND}.u16 [%to], %v, [%by];", f"st.async.{SEND}.u32 [%in], %v, [%in];",
        "st.async.shared::cluster.u32 [%to], %v, [%by];",
        f"red.async.relaxed.cluster.shared::cluster.{SEND}.inc.s32 [%to], %v, [%by];",
        f"red.async.shared::cluster.{SEND}.add.u32 [%to], %v, [%by];",
    ],
)  # fmt: skip
def test_forms_that_no_gpu_has_are_refused(send):
    with pytest.raises((PtxSyntaxError, UnsupportedInstruction)):
        parse(kernel(send, 128)).kernel("k")
