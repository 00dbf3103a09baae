"""Accesses through the wrong state space, and outside their own: told, and the same bits from engine and oracle.

PTX ISA 5.1 and 9.7.9.8: an address that does not lie in the state space of the instruction is undefined behaviour. Here
such a load gives 0, such a store does nothing, and neither touches the host's memory.
"""

from __future__ import annotations

import numpy as np
import pytest

from ptxsim import parse
from ptxsim.errors import KernelTooLarge
from warpschool.compile import compile_cuda

from . import engine_launch, oracle_launch
from .oracle_launch import entry

DECLARED = """.const .align 4 .b8 table[64] = {1, 0, 0, 0, 2, 0, 0, 0};
.global .align 16 .b8 other[64];
"""
BEFORE = """
.reg .pred %p; .reg .b64 %rd<9>; .reg .b32 %r<9>;
.shared .align 16 .b8 s[64]; .local .align 16 .b8 l[64];
ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd2, %rd1;
mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd2, %rd2, %rd3;
mov.u32 %r2, 7; mov.u32 %r3, 9; setp.ne.u32 %p, %r1, 0;
@%p bra filled;
st.shared.v4.u32 [s], {%r2, %r2, %r2, %r2};
filled:
st.local.v4.u32 [l], {%r2, %r2, %r2, %r2};
bar.sync 0;
"""
BEHIND = "\nst.global.u32 [%rd2], %r3; ret;"
GENERIC = {space: f"mov.u64 %rd4, {space[0]}; cvta.{space}.u64 %rd4, %rd4; " for space in ("shared", "local")}
CONST = "outside constant memory, at an address of another state space"
SHARED, LOCAL, GLOBAL = (CONST.replace("constant", space) for space in ("shared", "local", "global"))
ROWS = "mov.u64 %rd4, table; mul.wide.u32 %rd5, %r1, 8; add.u64 %rd4, %rd4, %rd5; "

WRONG = {
    "const, of an array": ("ld.const.u32 %r3, [%rd1];", CONST),
    "const, of a global variable": ("ld.const.u32 %r3, [other];", CONST),
    "const, behind a variable": ("ld.const.u32 %r3, [table+64];", "table: 0 bytes behind its 64"),
    "const, half behind it": ("ld.const.v2.u32 {%r4, %r3}, [table+60];", "table: from byte 60 of its 64"),
    "const, before it": ("ld.const.u32 %r3, [table+-4];", "table: 4 bytes before its start"),
    "const, behind it in some lanes": (ROWS + "ld.const.u32 %r3, [%rd4];", "table: 0 bytes behind its 64"),
    "const, nowhere": ("mov.u64 %rd4, 0x123456780; ld.const.u32 %r3, [%rd4];", "belongs to nothing"),
    "shared, of a generic address": (GENERIC["shared"] + "ld.shared.u32 %r3, [%rd4];", SHARED),
    "shared, of an array": ("ld.shared.u32 %r3, [%rd1];", SHARED),
    "shared, of a long number": ("ld.shared.u32 %r3, [0x100000000];", SHARED),
    "shared, of a long register": ("mov.u64 %rd4, 0x100000000; ld.shared.v2.u32 {%r3, %r4}, [%rd4];", SHARED),
    "shared, behind it": ("ld.shared.v2.u32 {%r3, %r4}, [s+64];", "shared memory: byte 64"),
    "shared store, of a generic address": (GENERIC["shared"] + "st.shared.u32 [%rd4], %r1;", SHARED),
    "shared store, of an array": ("st.shared.v4.u32 [%rd1], {%r1, %r1, %r1, %r1};", SHARED),
    "shared atomic, of a generic address": (GENERIC["shared"] + "atom.shared.add.u32 %r3, [%rd4], 1;", SHARED),
    "shared, copied to a generic address": (
        GENERIC["shared"] + "cp.async.ca.shared.global [%rd4], [other], 4;", SHARED,
    ),
    "shared, rows of a generic address": (
        GENERIC["shared"] + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%rd4];", SHARED,
    ),
    "generic, of an address in shared memory": ("mov.u64 %rd4, s; ld.u32 %r3, [%rd4];", SHARED),
    "local, of a generic address": (GENERIC["local"] + "ld.local.u32 %r3, [%rd4];", LOCAL),
    "local, of an array": ("ld.local.u32 %r3, [%rd1];", LOCAL),
    "local store, of an array": ("st.local.u32 [%rd1], %r3;", LOCAL),
    "local, behind it": ("ld.local.u64 %rd4, [l+64]; cvt.u32.u64 %r3, %rd4;", "local memory: byte 64"),
    "global, of a generic address of shared memory": (GENERIC["shared"] + "ld.global.u32 %r3, [%rd4];", GLOBAL),
    "param, behind it": ("ld.param.u32 %r3, [out+8];", "the kernel's parameters: 0 bytes behind its 8"),
    "param, half behind it": ("ld.param.v2.u32 {%r4, %r3}, [out+4];", "the kernel's parameters: from byte 4 of its 8"),
    "param, far behind it": ("ld.param.u8 %r3, [out+2147483000];", "the kernel's parameters"),
    "param, before it": ("ld.param.u32 %r3, [out+-4];", "the kernel's parameters: 4 bytes before"),
}  # fmt: skip
RIGHT = {
    "const": "ld.const.u32 %r3, [table+4];",
    "const by a register": "mov.u64 %rd4, table; ld.const.v2.u32 {%r4, %r3}, [%rd4];",
    "shared by a long register": "mov.u64 %rd4, s; ld.shared.u32 %r3, [%rd4+4];",
    "shared by a register that wraps around": "mov.u32 %r4, s; sub.u32 %r4, %r4, 8; ld.shared.u32 %r3, [%r4+8];",
    "generic, shared": GENERIC["shared"] + "ld.u32 %r3, [%rd4];",
    "generic atomic, shared": GENERIC["shared"] + "red.add.u32 [%rd4], 1;",
    "generic rows": GENERIC["shared"] + "@!%p bra done; done: ldmatrix.sync.aligned.m8n8.x1.b16 {%r3}, [%rd4];",
    "generic, local": GENERIC["local"] + "ld.u32 %r3, [%rd4];",
    "local by a register": "mov.u64 %rd4, l; ld.local.u32 %r3, [%rd4+4];",
    "param in parts": "ld.param.v2.u32 {%r4, %r3}, [out];",
}


def both(body: str, **options):
    ptx = entry(BEFORE + body + BEHIND, declarations=DECLARED)
    call = ("k", (1,), (32,), np.zeros(32, np.uint32))
    return engine_launch.launch(ptx, *call, **options), oracle_launch.launch(ptx, *call)


@pytest.mark.parametrize("parted", [False, True])
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.thinned(3)
def test_access_outside_its_space_is_told(name, parted):
    body, said = WRONG[name]
    ours, oracle = both(body, parted=parted)
    outside = [h for h in ours.record.hazards if h.kind == "out-of-bounds"]
    assert [said in h.message for h in outside] == [True], ours.record.hazards
    assert {h.kind for h in ours.record.hazards} <= {"out-of-bounds", "misaligned"}
    assert np.array_equal(ours.arrays[0], oracle.arrays[0])


@pytest.mark.parametrize("parted", [False, True])
@pytest.mark.parametrize("name", RIGHT)
def test_access_in_its_space_is_left_alone(name, parted):
    ours, oracle = both(RIGHT[name], parted=parted)
    assert not ours.record.hazards
    if name != "param in parts":  # half of a pointer: another one in another memory
        assert np.array_equal(ours.arrays[0], oracle.arrays[0])


@pytest.mark.parametrize("name", [name for name in WRONG if name.startswith(("const", "param"))])
def test_no_check_is_needed_to_keep_out_of_the_host(name):
    ours, oracle = both(WRONG[name][0], check=False)
    assert np.array_equal(ours.arrays[0], oracle.arrays[0])


def test_constants_of_a_whole_warp_and_of_a_lane():
    source = """__constant__ float table[16];
extern "C" __global__ void k(float* y, int n) { y[threadIdx.x] = table[threadIdx.x + n]; }
"""
    ptx, y = compile_cuda(source).ptx, np.ones(16, np.float32)
    assert not engine_launch.launch(ptx, "k", (1,), (16,), y, np.int32(0)).record.hazards
    (found,) = engine_launch.launch(ptx, "k", (1,), (16,), y, np.int32(1)).record.hazards
    assert (found.kind, found.line, found.array, found.thread) == ("out-of-bounds", 2, "table", (15, 0, 0))


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_constant_memory_has_an_end(more, fits):
    source = f"""__constant__ char text[{65536 - 256 + more}], rest[256];
extern "C" __global__ void k(char* y) {{ y[threadIdx.x] = text[threadIdx.x] + rest[threadIdx.x]; }}
"""
    module = parse(compile_cuda(source).ptx)
    if fits:
        assert module.kernel("k").name == "k"
        return
    with pytest.raises(KernelTooLarge, match="65,537 bytes; there are 65,536") as error:
        module.kernel("k")
    assert "global memory" in error.value.next_step
