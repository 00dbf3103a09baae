"""From a parsed function to a kernel: blocks, their order, liveness, inlined calls, layout."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpschool.errors import UnsupportedInstruction
from warpschool.ptx import order
from warpschool.ptx.calls import STACK_BYTES
from warpschool.ptx.cfg import build_kernel
from warpschool.ptx.parse import parse
from warpschool.ptx.program import (
    Barrier,
    Block,
    Branch,
    Guard,
    Jump,
    Kernel,
    Register,
    Return,
    Sink,
    Switch,
    Symbol,
    WarpBarrier,
    read,
    written,
)

from .oracle_launch import entry, launch

DATA = Path(__file__).parent / "data"
REGISTERS = ".reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .pred %p<9>; .reg .b16 %h<9>; .reg .f32 %f<9>;\n"


def kernel(body: str, **more) -> Kernel:
    return build_kernel(parse(entry(REGISTERS + body, **more)), "k")


def opcodes(block: Block) -> list[str]:
    return [str(i) for i in block.instructions]


# ---------------------------------------------------------------- blocks


def test_straight_code_is_one_block():
    k = kernel("mov.u32 %r1, 1; mov.u32 %r2, 2; ret;")
    (block,) = k.blocks
    assert opcodes(block) == ["mov.u32", "mov.u32"]
    assert block.terminator == Return(block.terminator.instruction)
    assert block.terminator.instruction.opcode == "ret"


def test_branch_and_join():
    k = kernel("@%p1 bra low; mov.u32 %r1, 1; bra.uni both; low: mov.u32 %r1, 2; both: mov.u32 %r2, %r1; exit;")
    assert [type(b.terminator) for b in k.blocks] == [Branch, Jump, Jump, Return]
    branch = k.blocks[0].terminator
    assert (branch.guard, branch.fallthrough, branch.taken) == (Guard("%p1"), 1, 2)
    assert k.blocks[1].terminator.target == k.blocks[2].terminator.target == 3
    assert k.back_edges == frozenset()


def test_missing_return_and_unreachable_code():
    k = kernel("mov.u32 %r1, 1; bra end; mov.u32 %r1, 2; dead: mov.u32 %r1, 3; bra dead; end:")
    assert [opcodes(b) for b in k.blocks] == [["mov.u32"]]
    assert k.blocks[0].terminator == Return(None)


def test_empty_blocks_vanish():
    k = kernel("@%p1 bra a; bra b; a: bra c; b: bra c; c: mov.u32 %r1, 1; ret;")
    assert len(k.blocks) == 1


def test_an_empty_endless_loop_stays_and_keeps_its_line():
    k = kernel(".loc 1 15 9\nL: bra.uni L;\n")
    assert k.blocks[0].terminator == Jump(0, k.blocks[0].terminator.source)
    assert k.blocks[0].terminator.source.line == 15
    assert k.back_edges == {(0, 0)}


def test_trap_ends_the_thread():
    k = kernel("@%p1 bra good; trap; mov.u32 %r1, 1; good: ret;")
    trapping = next(b for b in k.blocks if b.instructions)
    assert opcodes(trapping) == ["trap"] and trapping.terminator == Return(None)


def test_barriers_end_blocks():
    k = kernel(
        "bar.sync 0; barrier.cta.sync.aligned 1, 64; bar.warp.sync -1; bar.red.popc.u32 %r1, 0, %p1;"
        "mov.u32 %r2, %r1; ret;"
    )
    kinds = [type(b.terminator) for b in k.blocks]
    assert kinds == [Barrier, Barrier, WarpBarrier, Barrier, Return]
    assert [b.terminator.target for b in k.blocks[:4]] == [1, 2, 3, 4]
    assert k.blocks[3].live_in == {"%p1"} and k.blocks[4].live_in == {"%r1"}
    assert k.blocks[3].live_out == {"%r1"}


def test_switch():
    k = kernel("t: .branchtargets a, b, a; brx.idx %r1, t; a: mov.u32 %r2, 1; ret; b: mov.u32 %r2, 2; ret;")
    switch = k.blocks[0].terminator
    assert isinstance(switch, Switch) and switch.index == Register("%r1")
    assert switch.targets[0] == switch.targets[2] != switch.targets[1]
    assert k.blocks[0].live_in == {"%r1"}


# ---------------------------------------------------------------- predication


def test_guarded_instructions_become_skipped_blocks():
    k = kernel("@%p1 mov.u32 %r1, 1; @%p1 mov.u32 %r2, 2; @!%p1 mov.u32 %r3, 3; mov.u32 %r4, 4; ret;")
    first, second = k.blocks[0].terminator, k.blocks[2].terminator
    assert (first.guard, second.guard) == (Guard("%p1", True), Guard("%p1", False))
    assert first.instruction.full_name == "bra.skip"
    assert [len(b.instructions) for b in k.blocks] == [0, 2, 0, 1, 1]
    assert all(i.guard is None for b in k.blocks for i in b.instructions)


def test_a_guard_written_inside_is_asked_again():
    k = kernel("@%p1 setp.eq.u32 %p1, %r1, 0; @%p1 mov.u32 %r2, 2; ret;")
    assert [len(b.instructions) for b in k.blocks] == [0, 1, 0, 1, 0]


def test_guarded_barrier_and_return():
    k = kernel("@%p1 bar.sync 0; @!%p2 ret; mov.u32 %r1, 1; ret;")
    kinds = [type(b.terminator) for b in k.blocks]
    assert kinds.count(Barrier) == 1 and kinds.count(Return) == 2 and kinds.count(Branch) == 2


# ---------------------------------------------------------------- order


def reachable(successors, start, allowed):
    seen, pending = set(), [start]
    while pending:
        for s in successors[pending.pop()]:
            if s in allowed and s not in seen:
                seen.add(s)
                pending.append(s)
    return seen


def check_order(successors: list[list[int]], found: list[int]) -> None:
    """Every cycle's nodes are contiguous, and apart from cycles the order is topological; then the same inside."""
    place = {node: k for k, node in enumerate(found)}
    assert set(found) == {0} | reachable(successors, 0, set(range(len(successors))))
    pending = [(set(found), 0)]
    while pending:
        nodes, entry_node = pending.pop()
        # edges back to the region's first node do not count inside it
        inner = {n: [s for s in successors[n] if s in nodes and s != entry_node] for n in nodes}
        reach = {n: reachable(inner, n, nodes) for n in nodes}
        for n in nodes:
            cycle = {m for m in reach[n] if n in reach[m]} | {n}
            places = sorted(place[m] for m in cycle)
            assert places == list(range(places[0], places[0] + len(cycle))), "a loop is torn apart"
            for s in inner[n]:
                assert s in cycle or place[s] > place[n], "an edge outside of loops goes back"
            if len(cycle) > 1 and n == found[places[0]]:
                pending.append((cycle, n))


graphs = st.integers(1, 12).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=3, unique=True), min_size=n, max_size=n)
)


@settings(max_examples=500, deadline=None)
@given(graphs)
def test_order_of_any_graph(successors):
    check_order(successors, order.min_pc_order(successors))


def test_order_follows_the_text():
    assert order.min_pc_order([[1, 2], [3], [3], []]) == [0, 1, 2, 3]
    assert order.min_pc_order([[2, 1], [3], [3], []]) == [0, 1, 2, 3]
    assert order.min_pc_order([[1], [2, 3], [1], []]) == [0, 1, 2, 3]


def test_irreducible_loop():
    successors = [[1, 2], [2], [1, 3], []]
    check_order(successors, order.min_pc_order(successors))


def nest(depth: int) -> list[list[int]]:
    """Loops inside each other: heads 0..n-1, then tails that jump back to them, the innermost first, then the exit."""
    heads = [[k + 1] for k in range(depth)]
    return [*heads, *[[depth - 1 - k, depth + k + 1] for k in range(depth)], []]


def test_nested_loops_keep_their_order():
    check_order(nest(9), order.min_pc_order(nest(9)))
    assert order.min_pc_order(nest(9)) == list(range(19))


def test_deep_nests_end():
    start = time.perf_counter()
    with pytest.raises(order.TooTangled):
        order.min_pc_order(nest(3000))
    assert time.perf_counter() - start < 20


# ---------------------------------------------------------------- liveness


def live_by_definition(blocks: list[Block]) -> list[set[str]]:
    """live_in from the definition: a register is live where some path reads it before any write."""
    found = []
    for block in blocks:
        live, seen, pending = set(), set(), [(block.index, frozenset())]
        while pending:
            index, dead = pending.pop()
            if (index, dead) in seen:
                continue
            seen.add((index, dead))
            end = getattr(blocks[index].terminator, "instruction", None)
            for i in [*blocks[index].instructions, *([end] if end is not None else [])]:
                guard = (
                    blocks[index].terminator.guard.register
                    if i is end and isinstance(blocks[index].terminator, Branch)
                    else None
                )
                live |= set(read(i)) - dead
                if guard and guard not in dead:
                    live.add(guard)
                dead = dead | set(written(i))
            pending += [(s, dead) for s in blocks[index].successors]
        found.append(live)
    return found


statements = st.sampled_from(
    [
        "add.u32 %r1, %r1, 1;", "mov.u32 %r2, %r1;", "mov.u32 %r3, 5;", "mul.lo.u32 %r1, %r2, %r3;",
        "setp.lt.u32 %p1, %r1, %r3;",
        "@%p1 mov.u32 %r2, %r3;", "@%p1 bra A;", "@%p2 bra B;", "bra C;", "A:", "B:", "C:", "bar.sync 0;", "ret;",
        "bar.red.and.pred %p2, 0, %p1;", "mov.b64 {%r1, %r2}, %rd1;", "mov.b64 %rd1, {%r2, %r3};",
        "st.global.u32 [%rd1], %r2;",
        "selp.u32 %r3, %r1, %r2, %p2;", "setp.eq.u32 %p1|%p2, %r2, 0;",
    ]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(statements, max_size=14))
def test_liveness_of_random_programs(parts):
    seen: set[str] = set()
    body = [p for p in parts if p[-1] != ":" or not (p in seen or seen.add(p))]
    k = kernel("\n".join([*body, *[label for label in ("A:", "B:", "C:") if label not in body], "ret;"]))
    for block, expected in zip(k.blocks, live_by_definition(k.blocks), strict=True):
        assert block.live_in == expected
        assert block.live_out == frozenset().union(*[k.blocks[s].live_in for s in block.successors])


# ---------------------------------------------------------------- calls

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
    assert written(first) == (first.operands[0].name,)


@pytest.mark.parametrize(
    ("declarations", "body", "message"),
    [
        ("", "{ .param .b32 x; p: .callprototype _ (.param .b32 _); call %rd1, (x), p; }", "no function of"),
        (".extern .func malloc(.param .b64 a);", "{ .param .b64 x; call malloc, (x); }", "no function 'malloc'"),
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
        ("suld.b.2d.b32.trap {%r1}, [s, {%r1, %r2}];", "any CUDA GPU"),
        ("sust.b.2d.b32.trap [s, {%r1, %r2}], {%r1};", "any CUDA GPU"),
        ("sured.b.add.2d.u32.trap [s, {%r1, %r2}], %r1;", "any CUDA GPU"),
        ("tld4.r.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [t, {%f1, %f2}];", "any CUDA GPU"),
        ("txq.width.b32 %r1, [t];", "any CUDA GPU"),
        ("barrier.cluster.arrive;", "sm_90"),
        ("mapa.u64 %rd1, %rd2, 1;", "sm_90"),
        ("ld.shared::cluster.u32 %r1, [%r2];", "sm_90"),
        ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [t, {%f1, %f2}];", "any CUDA GPU"),
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


def test_unknown_entry():
    module = parse(entry("ret;", declarations=FUNCTIONS))
    for name in ("nothing", "twice"):
        with pytest.raises(KeyError):
            build_kernel(module, name)


# ---------------------------------------------------------------- layout


def test_layout():
    declarations = """.extern .shared .align 16 .b8 dyn[]; .extern .shared .align 128 .b8 wide[];
    .shared .align 8 .b8 used[10]; .shared .b32 unused[100]; .global .u32 g;"""
    body = """.shared .align 4 .b8 own[6]; .local .b8 a[3]; .local .align 8 .b64 b;
    mov.u32 %r1, used; mov.u32 %r2, dyn; mov.u32 %r3, wide; ret;"""
    k = kernel(body, declarations=declarations, params=".param .u32 n, .param .align 8 .b8 s[12], .param .u16 h")
    assert {name: v.offset for name, v in k.variables.items() if v.space != "global"} == {
        "used": 0, "own": 12, "dyn": 32, "wide": 128, "a": 0, "b": 8,
    }  # fmt: skip
    assert (k.shared_bytes, k.local_bytes, k.param_bytes) == (18, 16, 22)
    assert k.variables["g"].space == "global"


# ---------------------------------------------------------------- hostile programs


def timed(text: str) -> float:
    start = time.perf_counter()
    try:
        module = parse(text)
        for name in module.entries:
            build_kernel(module, name)
    except UnsupportedInstruction:
        pass
    return time.perf_counter() - start


def test_exponential_calls_are_refused():
    functions = ".func f0() { ret; }"
    for k in range(1, 60):
        functions += f".func f{k}() {{ call f{k - 1}; call f{k - 1}; ret; }}"
    with pytest.raises(UnsupportedInstruction, match="300,000"):
        kernel("call f59; ret;", declarations=functions)


def test_deep_call_chain():
    functions = ".func f0() { ret; }" + "".join(f".func f{k}() {{ call f{k - 1}; ret; }}" for k in range(1, 3000))
    assert len(kernel("call f2999; ret;", declarations=functions).blocks) == 1


def test_many_live_registers_and_blocks_end():
    n = 6000
    body = "".join(f"mov.u32 %x{k}, %tid.x; @%p1 bra L{k}; L{k}: " for k in range(n))
    body += "".join(f"@%p1 bra M{k}; st.global.u32 [%rd1], %x{k}; M{k}:" for k in range(n))
    assert timed(entry(REGISTERS + f".reg .b32 %x<{n}>;" + body)) < 30


def test_nested_loops_end():
    n = 2000
    body = "".join(f"L{k}: add.u32 %r1, %r1, 1;" for k in range(n)) + "".join(
        f"@%p1 bra L{n - 1 - k};" for k in range(n)
    )
    assert timed(entry(REGISTERS + body + "ret;")) < 30


def test_speed():
    """Parsing and building take under 60 ms per 3,000 instructions on a quiet machine; the bound leaves room."""
    text = (DATA / "kernels.compute_80.ptx").read_text()
    module = parse(text)
    count = sum(len(f.body) for f in module.functions.values())
    best = min(timed(text) for _ in range(3))
    assert best / count * 3000 < 0.2


COUNTDOWN = """.func f(.param .b32 a) {
 .reg .b32 %r; .reg .pred %p; ld.param.b32 %r, [a]; setp.eq.s32 %p, %r, 0; @%p bra done; add.s32 %r, %r, -1;
 { .param .b32 x; st.param.b32 [x], %r; call f, (x); }
done: ret; }"""


def test_recursion_is_called_on_a_stack():
    k = kernel("{ .param .b32 x; st.param.b32 [x], 3; call f, (x); } ret;", declarations=COUNTDOWN)
    assert k.local_bytes >= STACK_BYTES
    switches = [b.terminator for b in k.blocks if isinstance(b.terminator, Switch)]
    assert [len(s.targets) for s in switches] == [2]  # back to the kernel, and to the call in f
