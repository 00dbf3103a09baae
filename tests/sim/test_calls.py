"""Calls: inlined, guarded, with structures, by reference, refused; runtime functions; recursion on a stack."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsim.kernel import inline
from ptxsim.kernel.calls import STACK_BYTES
from ptxsim.kernel.cfg import build_kernel
from ptxsim.syntax.parse import parse
from ptxsim.syntax.program import Register, Return, Sink, Switch, Symbol
from warpschool.compile import compile_cuda
from warpschool.errors import UnsupportedInstruction

from . import engine_launch
from .oracle_launch import entry, launch
from .test_cfg import REGISTERS, kernel

FUNCTIONS = """
.func (.param .b32 r) twice(.param .b32 a) {
  .reg .b32 %r<3>; .local .b32 slot[2]; .shared .b32 once;
  ld.param.b32 %r1, [a]; add.u32 %r2, %r1, %r1; st.local.u32 [slot], %r2; st.param.b32 [r], %r2; ret; }
.func (.param .align 8 .b8 r[16]) swap(.param .align 8 .b8 a[16]) {
  .reg .b32 %r<3>; .reg .b64 %rd<2>;
  ld.param.v2.b32 {%r1, %r2}, [a]; ld.param.b64 %rd1, [a+8];
  st.param.b64 [r], %rd1; st.param.v2.b32 [r+8], {%r1, %r2}; ret; }
.func (.param .b32 r) outer(.param .b32 a) {
  .reg .b32 %r<3>; .reg .pred %p;
  ld.param.b32 %r1, [a]; setp.gt.u32 %p, %r1, 100; mov.u32 %r2, 7; @%p bra done;
  { .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call.uni (y), twice, (x); ld.param.b32 %r2, [y]; }
  done: st.param.b32 [r], %r2; ret; }
"""


def call(name: str, argument: str, result: str) -> str:
    return f"""{{ .param .b32 x; .param .b32 y; st.param.b32 [x], {argument};
      call (y), {name}, (x); ld.param.b32 {result}, [y]; }}"""


def test_calls_are_inlined_and_computed():
    body = (
        """mov.u32 %r1, %tid.x; mul.lo.u32 %r1, %r1, 30;""" + call("outer", "%r1", "%r2") + call("twice", "%r2", "%r3")
    )
    body += "ld.param.u64 %rd1, [out]; mov.u32 %r4, %tid.x; mul.wide.u32 %rd2, %r4, 4; add.u64 %rd1, %rd1, %rd2;"
    body += "st.global.u32 [%rd1], %r3; ret;"
    text = entry(REGISTERS + body, declarations=FUNCTIONS)
    k = build_kernel(parse(text), "k")
    assert not any(i.opcode == "call" for b in k.blocks for i in b.instructions)
    assert sum(v.space == "local" for v in k.variables.values()) == 2, "one local array for each call"
    assert sum(v.space == "shared" for v in k.variables.values()) == 1, "shared variables are static"
    assert k.local_bytes == 16 and k.shared_bytes == 4
    found = launch(text, "k", (1,), (8,), np.zeros(8, np.uint32)).arrays[0]
    t = np.arange(8) * 30
    np.testing.assert_array_equal(found, np.where(t > 100, 14, 4 * t))


def test_guarded_call():
    body = "mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 3; mov.u32 %r2, 1;"
    body += "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; st.param.b32 [y], %r2; @%p1 call (y), twice, (x);"
    body += "ld.param.b32 %r2, [y]; } ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2;"
    text = entry(REGISTERS + body + "st.global.u32 [%rd1], %r2; ret;", declarations=FUNCTIONS)
    found = launch(text, "k", (1,), (8,), np.zeros(8, np.uint32)).arrays[0]
    np.testing.assert_array_equal(found, [1, 1, 1, 1, 8, 10, 12, 14])


def struct_call(load: str) -> str:
    """A kernel that passes (1, 2, 3, 4) through `swap` and stores what `load` leaves in %r1..%r4."""
    body = """mov.u32 %r1, 1; mov.u32 %r2, 2; mov.u32 %r3, 3; mov.u32 %r4, 4;
    { .param .align 8 .b8 x[16]; .param .align 8 .b8 y[16];
      st.param.v4.b32 [x], {%r1, %r2, %r3, %r4}; call (y), swap, (x); LOAD }
    ld.param.u64 %rd1, [out]; st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4}; ret;"""
    return entry(REGISTERS + body.replace("LOAD", load), declarations=FUNCTIONS)


@pytest.mark.parametrize(
    ("load", "in_registers"),
    [
        ("ld.param.v4.b32 {%r1, %r2, %r3, %r4}, [y];", True),
        ("ld.param.v2.b64 {%rd1, %rd2}, [y]; mov.b64 {%r1, %r2}, %rd1; mov.b64 {%r3, %r4}, %rd2;", True),
        ("ld.param.b32 %r1, [y]; ld.param.b32 %r2, [y+4]; ld.param.b32 %r3, [y+8]; ld.param.b32 %r4, [y+12];", True),
        ("ld.param.v4.b32 {%r1, %r2, %r3, %r4}, [y]; ld.param.b32 %r9, [y+6];", False),
        ("ld.param.v4.b32 {%r1, %r2, %r3, %r4}, [y]; ld.param.b16 %h1, [y+4]; ld.param.u32 %rd2, [y+4];", False),
        ("ld.param.v4.b32 {%r1, %r2, %r3, %r4}, [y]; ld.param.u8 %h1, [y+3];", False),
    ],
)
def test_struct_parameters(load, in_registers):
    text = struct_call(load)
    k = build_kernel(parse(text), "k")
    assert (k.local_bytes == 0) == in_registers
    found = launch(text, "k", (1,), (1,), np.zeros(4, np.uint32)).arrays[0]
    assert found.tolist() == [3, 4, 1, 2]


def test_narrow_parameters_are_extended():
    functions = """.func (.param .b32 r) f(.param .b32 a, .param .b8 b) {
      .reg .b16 %h<3>; .reg .b32 %r<5>;
      ld.param.s8 %h1, [b]; ld.param.u8 %h2, [b]; cvt.s32.s16 %r1, %h1; cvt.u32.u16 %r2, %h2;
      ld.param.s16 %r3, [a]; add.s32 %r4, %r1, %r2; add.s32 %r4, %r4, %r3; st.param.b32 [r], %r4; ret; }"""
    body = """mov.u32 %r1, 0xFFFFFFFE; cvt.u16.u32 %h1, %r1;
    { .param .b32 x; .param .b8 z; .param .b32 y; st.param.b16 [x], %r1; st.param.b8 [z], %h1;
      call (y), f, (x, z); ld.param.b32 %r2, [y]; } ld.param.u64 %rd1, [out]; st.global.u32 [%rd1], %r2; ret;"""
    text = entry(REGISTERS + body, declarations=functions)
    assert launch(text, "k", (1,), (1,), np.zeros(1, np.int32)).arrays[0][0] == -2 + 254 - 2


def test_parameter_by_address():
    functions = """.func (.param .b32 r) f(.param .align 4 .b8 a[16]) {
      .reg .b64 %rd<5>; .reg .b32 %r<5>; mov.b64 %rd1, a; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;
      add.u64 %rd3, %rd1, %rd2; ld.param.b32 %r2, [%rd3]; st.param.b32 [r], %r2; ret; }"""
    body = """mov.u32 %r1, %tid.x; mul.lo.u32 %r2, %r1, 10;
    { .param .align 4 .b8 x[16]; .param .b32 y; st.param.v4.b32 [x], {5, %r2, 7, %r1};
      call (y), f, (x); ld.param.b32 %r2, [y]; }
    ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r2; ret;"""
    text = entry(REGISTERS + body, declarations=functions)
    assert launch(text, "k", (1,), (4,), np.zeros(4, np.uint32)).arrays[0].tolist() == [5, 10, 7, 3]


def test_runtime_functions_stay_calls():
    declarations = """.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
    .extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);"""
    body = """{ .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %rd1; st.param.b64 [b], %rd2;
      call (r), vprintf, (a, b); ld.param.b32 %r1, [r]; }
    { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e; call __assertfail, (a, b, c, d, e); }
    mov.u32 %r2, 5; ret;"""
    (block,) = kernel(body, declarations=declarations).blocks
    first, second = (i for i in block.instructions if i.opcode == "call")
    assert (
        isinstance(first.operands[0], Register) and first.operands[1] == Symbol("vprintf") and len(first.operands) == 4
    )
    assert second.operands[:2] == (Sink(), Symbol("__assertfail")) and len(second.operands) == 7
    assert block.instructions[-1] is second and block.terminator == Return(None)
    assert first.written == (first.operands[0].name,)


@pytest.mark.parametrize(
    ("declarations", "body", "message"),
    [
        (".extern .func launch(.param .b64 a);", "{ .param .b64 x; call launch, (x); }", "no function 'launch'"),
        (".extern .func free(.param .b32 a);", "{ .param .b32 x; call free, (x); }", "has the wrong size"),
        (FUNCTIONS, "{ .param .b32 y; call (y), twice; }", "wrong number"),
        (FUNCTIONS, "{ .param .b32 y; call (y), twice, (%r1); }", r"\.param variables"),
    ],
)
def test_refused_calls(declarations, body, message):
    with pytest.raises(UnsupportedInstruction, match=message):
        kernel(f".loc 1 33 1\n{body} ret;", declarations=declarations)


@pytest.mark.parametrize(
    ("instruction", "gpu"),
    [
        ("wgmma.fence.sync.aligned;", "sm_90a"),
        ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;", "sm_100a"),
        ("cp.async.bulk.commit_group;", "sm_90"),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.tile.bulk_group [%r1], [%rd1, {%r1, %r2}];", "sm_90"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], 16;", "sm_90"),
        ("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r1], 0, %r2;", "sm_90"),
        ("setmaxnreg.inc.sync.aligned.u32 64;", "sm_90a"),
        ("clusterlaunchcontrol.try_cancel.async.shared::cta.b128 [%r1], [%r2];", "sm_100a"),
        ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r2];", "sm_90"),
        ("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1], %r2, [%r2];", "sm_90"),
        ("multimem.red.global.add.f32 [%rd1], %f1;", "sm_90"),
        ("getctarank.u64 %r1, %rd1;", "sm_90"),
        ("suld.p.2d.v4.b32.trap {%r1, %r2, %r3, %r4}, [s, {%r1, %r2}];", "any CUDA GPU"),
        ("sust.p.2d.v4.b32.trap [s, {%r1, %r2}], {%r1, %r2, %r3, %r4};", "any CUDA GPU"),
        ("sured.b.add.2d.u32.trap [s, {%r1, %r2}], %r1;", "any CUDA GPU"),
        ("tld4.r.cube.v4.f32.f32 {%f1, %f2, %f3, %f4}, [t, {%f1, %f2, %f3, %f3}];", "any CUDA GPU"),
        ("istypep.texref %p1, %rd1;", "any CUDA GPU"),
        ("barrier.cluster.arrive;", "sm_90"),
        ("mapa.u64 %rd1, %rd2, 1;", "sm_90"),
        ("ld.shared::cluster.u32 %r1, [%r2];", "sm_90"),
        ("tex.level.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [t, {%f1, %f2}], %f3;", "any CUDA GPU"),
        ("frobnicate.u32 %r1, %r2;", "on a GPU"),
    ],
)
def test_unsupported_instructions_name_line_and_gpu(instruction, gpu):
    with pytest.raises(UnsupportedInstruction) as caught:
        kernel(f".loc 1 41 1\n{instruction} ret;")
    assert caught.value.line == 41
    assert instruction.split()[0].rstrip(";")[:60] in str(caught.value) and gpu in str(caught.value)


def test_header_functions_carry_the_line_of_their_call():
    functions = """.func (.param .b32 r) twice(.param .b32 a) { .reg .b32 %r1;
    .loc 2 900 1
    ld.param.b32 %r1, [a]; st.param.b32 [r], %r1; ret; }"""
    k = kernel(".loc 1 12 1\n" + call("twice", "7", "%r1") + "\n.loc 1 13 1\n ret;", declarations=functions)
    assert {i.source.line for i in k.blocks[0].instructions} == {12}
    with pytest.raises(UnsupportedInstruction) as caught:
        kernel(".loc 1 12 1\n" + call("twice", "7", "%r1"), declarations=functions.replace("ret;", "wgmma.fence; ret;"))
    assert caught.value.line == 12


def test_exponential_calls_are_refused(monkeypatch):
    monkeypatch.setattr(inline, "MAX_INSTRUCTIONS", 3_000)
    functions = ".func f0() { ret; }"
    for k in range(1, 60):
        functions += f".func f{k}() {{ call f{k - 1}; call f{k - 1}; ret; }}"
    with pytest.raises(UnsupportedInstruction, match="3,000"):
        kernel("call f59; ret;", declarations=functions)


@pytest.mark.slow
def test_deep_call_chain():
    functions = ".func f0() { ret; }" + "".join(f".func f{k}() {{ call f{k - 1}; ret; }}" for k in range(1, 3000))
    assert len(kernel("call f2999; ret;", declarations=functions).blocks) == 1


COUNTDOWN = """.func f(.param .b32 a) {
 .reg .b32 %r; .reg .pred %p; ld.param.b32 %r, [a]; setp.eq.s32 %p, %r, 0; @%p bra done; add.s32 %r, %r, -1;
 { .param .b32 x; st.param.b32 [x], %r; call f, (x); }
done: ret; }"""


def test_recursion_is_called_on_a_stack():
    k = kernel("{ .param .b32 x; st.param.b32 [x], 3; call f, (x); } ret;", declarations=COUNTDOWN)
    assert k.local_bytes >= STACK_BYTES
    switches = [b.terminator for b in k.blocks if isinstance(b.terminator, Switch)]
    assert [len(s.targets) for s in switches] == [2]  # back to the kernel, and to the call in f


MEETING = """
__device__ __noinline__ unsigned descend(unsigned x, int n) { return n <= 0 ? x : descend(x * 3 + 1, n - 1) + 1; }
extern "C" __global__ void k(const unsigned* x, unsigned* out)
{
    const int t = threadIdx.x;
    unsigned v = x[t];
    for (int k = 0; k < t % 5; ++k) {
        if (v & 1) v = descend(v, t & 3);
        else v += k;
    }
    const unsigned w = __shfl_sync(~0u, v, t * 3);
    if (t & 4) v = descend(v, 2);
    out[t] = v ^ __shfl_xor_sync(~0u, w, 5);
}
"""


def test_lanes_meet_behind_calls_that_some_of_them_make():
    ptx = compile_cuda(MEETING).ptx
    x = np.arange(64, dtype=np.uint32) * 7 + 3
    expected = launch(ptx, "k", (1,), (64,), x, np.zeros_like(x)).arrays[1]

    def descend(v: int, n: int) -> int:
        return v if n <= 0 else (descend(v * 3 + 1, n - 1) + 1) % 2**32

    values = [int(v) for v in x]
    for t in range(64):
        for k in range(t % 5):
            values[t] = descend(values[t], t & 3) if values[t] & 1 else values[t] + k
    shuffled = [values[t // 32 * 32 + t * 3 % 32] for t in range(64)]
    values = [descend(v, 2) if t & 4 else v for t, v in enumerate(values)]
    assert expected.tolist() == [v % 2**32 ^ shuffled[t ^ 5] for t, v in enumerate(values)]
    for options in ({}, {"parted": True}):
        ours = engine_launch.launch(ptx, "k", (1,), (64,), x, np.zeros_like(x), **options)
        assert not ours.record.hazards
        assert (ours.arrays[1] == expected).all()


POINTER = """
__device__ __noinline__ unsigned twice(unsigned x, int n) { return n > 2 ? x * 2 : x + 3; }
__device__ __noinline__ unsigned halved(unsigned x, int n) { for (int k = 0; k < n; ++k) x = x / 2 + 7; return x; }
__device__ unsigned (*const functions[2])(unsigned, int) = {twice, halved};
extern "C" __global__ void k(const unsigned* x, unsigned* out)
{
    const int t = threadIdx.x;
    unsigned v = functions[x[t] / 2 % 2](x[t], t & 3);
    for (int k = 0; k < t % 5; ++k) {
        if (v & 1) v = v * 5 + k;
        else for (int n = 0; n < (v & 3); ++n) v += n + 1;
    }
    out[t] = __shfl_sync(~0u, v, t * 3);
}
"""


def test_lanes_meet_in_the_code_behind_the_only_call_of_a_function():
    ptx = compile_cuda(POINTER).ptx
    x = np.arange(64, dtype=np.uint32) * 7 + 3
    values = []
    for t, v in enumerate(map(int, x)):
        if v // 2 % 2:
            for _ in range(t & 3):
                v = v // 2 + 7
        else:
            v = v * 2 if (t & 3) > 2 else v + 3
        for k in range(t % 5):
            if v & 1:
                v = v * 5 + k
            else:
                n = 0
                while n < (v & 3):
                    v, n = v + n + 1, n + 1
        values.append(v)
    expected = [values[t // 32 * 32 + t * 3 % 32] for t in range(64)]
    assert launch(ptx, "k", (1,), (64,), x, np.zeros_like(x)).arrays[1].tolist() == expected
    for options in ({}, {"parted": True}):
        ours = engine_launch.launch(ptx, "k", (1,), (64,), x, np.zeros_like(x), **options)
        assert not ours.record.hazards and ours.arrays[1].tolist() == expected


def test_unknown_entry():
    module = parse(entry("ret;", declarations=FUNCTIONS))
    for name in ("nothing", "twice"):
        with pytest.raises(KeyError):
            build_kernel(module, name)
