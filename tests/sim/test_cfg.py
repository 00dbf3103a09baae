"""From a parsed function to a kernel: blocks, their order, liveness, layout."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from ptxsim.kernel import cfg
from ptxsim.kernel.cfg import build_kernel
from ptxsim.syntax.parse import parse
from ptxsim.syntax.program import (
    Barrier,
    Block,
    Branch,
    Guard,
    InstructionOrigin,
    Jump,
    Kernel,
    Register,
    Return,
    Switch,
    WarpBarrier,
)
from warpschool.errors import UnsupportedInstruction

from .oracle_launch import entry

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
    k = kernel(
        "mov.u32 %r1, %tid.x; bar.sync 0; t: .branchtargets a, b, a; brx.idx %r1, t; "
        "a: mov.u32 %r2, 1; ret; b: mov.u32 %r2, 2; ret;"
    )
    switch = k.blocks[1].terminator
    assert isinstance(switch, Switch) and switch.index == Register("%r1")
    assert switch.targets[0] == switch.targets[2] != switch.targets[1]
    assert k.blocks[1].live_in == {"%r1"}


# ---------------------------------------------------------------- predication


def test_guarded_instructions_become_skipped_blocks():
    k = kernel("@%p1 mov.u32 %r1, 1; @%p1 mov.u32 %r2, 2; @!%p1 mov.u32 %r3, 3; mov.u32 %r4, 4; ret;")
    first, second = k.blocks[0].terminator, k.blocks[2].terminator
    assert (first.guard, second.guard) == (Guard("%p1", True), Guard("%p1", False))
    assert (first.instruction.full_name, first.instruction.origin) == ("bra", InstructionOrigin.ADDED)
    assert [len(b.instructions) for b in k.blocks] == [0, 2, 0, 1, 1]
    assert all(i.guard is None for b in k.blocks for i in b.instructions)


def test_a_guard_written_inside_is_asked_again():
    k = kernel("mov.u32 %r1, %tid.x; @%p1 setp.eq.u32 %p1, %r1, 0; @%p1 mov.u32 %r2, 2; ret;")
    assert [len(b.instructions) for b in k.blocks] == [1, 1, 0, 1, 0]


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
    check_order(successors, cfg.min_pc_order(successors))


def test_order_follows_the_text():
    assert cfg.min_pc_order([[1, 2], [3], [3], []]) == [0, 1, 2, 3]
    assert cfg.min_pc_order([[2, 1], [3], [3], []]) == [0, 1, 2, 3]
    assert cfg.min_pc_order([[1], [2, 3], [1], []]) == [0, 1, 2, 3]


def test_irreducible_loop():
    successors = [[1, 2], [2], [1, 3], []]
    check_order(successors, cfg.min_pc_order(successors))


def nest(depth: int) -> list[list[int]]:
    """Loops inside each other: heads 0..n-1, then tails that jump back to them, the innermost first, then the exit."""
    heads = [[k + 1] for k in range(depth)]
    return [*heads, *[[depth - 1 - k, depth + k + 1] for k in range(depth)], []]


def test_nested_loops_keep_their_order():
    check_order(nest(9), cfg.min_pc_order(nest(9)))
    assert cfg.min_pc_order(nest(9)) == list(range(19))


@pytest.mark.slow
def test_deep_nests_end():
    with pytest.raises(cfg.TooTangled):  # counted: `cfg.MAX_WORK`
        cfg.min_pc_order(nest(1500))


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
                live |= set(i.read) - dead
                if guard and guard not in dead:
                    live.add(guard)
                dead = dead | set(i.written)
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


def build(text: str) -> None:
    """Every kernel of a text, as far as it can be built."""
    with contextlib.suppress(UnsupportedInstruction):
        module = parse(text)
        for name in module.entries:
            build_kernel(module, name)


def test_many_live_registers_and_blocks_end(takes_little):
    n = 6000
    body = "".join(f"mov.u32 %x{k}, %tid.x; @%p1 bra L{k}; L{k}: " for k in range(n))
    body += "".join(f"@%p1 bra M{k}; st.global.u32 [%rd1], %x{k}; M{k}:" for k in range(n))
    with takes_little():
        build(entry(REGISTERS + f".reg .b32 %x<{n}>;" + body))


def test_nested_loops_end(takes_little):
    n = 600
    body = "".join(f"L{k}: add.u32 %r1, %r1, 1;" for k in range(n)) + "".join(
        f"@%p1 bra L{n - 1 - k};" for k in range(n)
    )
    with takes_little():
        build(entry(REGISTERS + body + "ret;"))


def test_speed(lines_run):
    """About 325 lines of Python for each instruction; benchmarks/simulator.py says how long that takes."""
    text = (DATA / "kernels.compute_80.ptx").read_text()
    count = sum(len(f.body) for f in parse(text).functions.values())
    assert lines_run(lambda: build(text)) < 460 * count
