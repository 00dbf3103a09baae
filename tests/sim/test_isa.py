"""The table of instructions: complete on all sides, safe where a row says nothing; no PTX passes for what is added."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import numpy as np
import pytest

from ptxsim import counters, isa
from ptxsim.analysis import effects
from ptxsim.analysis.lanes import UNIFORM, VARYING, LaneAnalysis
from ptxsim.analysis.merging import shared_requests
from ptxsim.codegen import translation, values
from ptxsim.errors import PtxSyntaxError, UnsupportedInstruction
from ptxsim.isa import BY_SPACE, BY_TYPE, INSTRUCTIONS, VALUE, Flow, Likeness, Order, Row
from ptxsim.oracle import HANDLERS as ORACLE, depends_on_order
from ptxsim.syntax import forms, program
from ptxsim.syntax.program import STACK, STACK_POINTER, Instruction, InstructionOrigin

from . import engine_launch, oracle_launch
from .oracle_launch import entry
from .test_calls import FUNCTIONS
from .test_cfg import REGISTERS, kernel

FLOWS = {name for name, row in INSTRUCTIONS.items() if row.flow not in (Flow.NEXT, Flow.TRAP)}

# ---------------------------------------------------------------- complete


def test_every_row_has_a_form_and_every_form_a_row():
    assert forms.FORMS.keys() == INSTRUCTIONS.keys()


def test_every_row_is_translated_and_has_its_oracle():
    assert translation  # registers the handlers
    assert INSTRUCTIONS.keys() - values.VALUES.keys() - values.HANDLERS.keys() <= FLOWS | isa.LOWERED
    assert INSTRUCTIONS.keys() - ORACLE.keys() <= FLOWS | isa.LOWERED


def test_every_row_is_counted_under_a_class_of_the_table_of_counters():
    named = {counter.name for counter in counters.COUNTERS}
    for row in INSTRUCTIONS.values():
        for modifiers in ((), *((m,) for m in row.variants)):
            found = row.of(modifiers)
            assert found.counted in (BY_TYPE, BY_SPACE) or f"instructions_{found.counted}" in named, row.opcode
            assert set(found.tally.values()) <= named, row.opcode


def test_rows_know_their_variants_by_modifiers_of_their_form():
    for row in INSTRUCTIONS.values():
        assert set(row.variants) <= forms.FORMS[row.opcode].modifiers, row.opcode


def test_the_oracle_keeps_order_wherever_the_simulator_does():
    """The two rules are written apart; this holds the oracle's to be at least as strict."""
    for opcode, row in INSTRUCTIONS.items():
        known = forms.FORMS[opcode].modifiers
        told = [m for m in (*isa.STRONG, "global", "shared", *row.variants) if m in known]
        for modifiers in (*product(told, repeat=2), *((m,) for m in told), ()):
            made = kernel("ret;")
            made.blocks[0].instructions.append(Instruction(opcode, modifiers, ()))
            assert depends_on_order(made) or not effects.blocks_in_order(made), (opcode, modifiers)


def test_kernels_whose_blocks_are_in_order():
    for text, blocks, warps in (
        ("red.global.add.u32 [%rd1], 1;", True, True), ("red.shared.add.u32 [%r1], 1;", False, True),
        ("membar.cta;", True, True), ("ld.volatile.global.u32 %r1, [%rd1];", True, True),
        ("ld.volatile.shared.u32 %r1, [%r2];", False, True), ("mbarrier.inval.shared.b64 [%r1];", False, True),
        ("bar.sync 0;", False, False), ("st.global.u32 [%rd1], %r1;", False, False),
    ):  # fmt: skip
        made = kernel(text + "ret;")
        assert (effects.blocks_in_order(made), depends_on_order(made)) == (blocks, warps), text


# ---------------------------------------------------------------- safe


@pytest.fixture
def madeup(monkeypatch):
    """An instruction whose row says no more than its name and place."""
    monkeypatch.setitem(INSTRUCTIONS, "madeup", Row("madeup", VALUE, "9.9", "made up for a test"))
    form = forms.Form(forms.widths(None, None), frozenset({"b32", "b64"}), frozenset({"shared"}))
    monkeypatch.setitem(forms.FORMS, "madeup", form)

    def made(text, **more):
        program.row_of.cache_clear()  # the test may have changed the row
        return kernel(text, **more)

    yield made
    program.row_of.cache_clear()


def test_a_row_that_says_nothing_varies(madeup):
    found = LaneAnalysis(madeup("mov.u32 %r1, 7; madeup.b32 %r2, %r1; not.b32 %r3, %r1; ret;"), (32, 1, 1))
    assert found.of("%r2") == VARYING
    assert found.of("%r3").uniform


def test_a_row_that_says_that_it_follows_from_its_sources_is_uniform_where_they_are(madeup, monkeypatch):
    row = Row("madeup", VALUE, "9.9", "", result=Likeness.FROM_SOURCES)
    monkeypatch.setitem(INSTRUCTIONS, "madeup", row)
    assert LaneAnalysis(madeup("mov.u32 %r1, 7; madeup.b32 %r2, %r1; ret;"), (32, 1, 1)).of("%r2") == UNIFORM


def test_a_row_that_says_nothing_is_counted_as_other(madeup):
    *_, made = madeup("madeup.b32 %r2, %r1; ret;").blocks[0].instructions
    assert made.counted == "other"


def test_a_row_that_says_nothing_points_anywhere_and_touches_everything(madeup):
    made = madeup("ld.param.u64 %rd1, [out]; madeup.b64 %rd2, %rd1; st.global.u32 [%rd1], %r1; ret;")
    roots = effects.pointer_roots(made)
    assert roots["%rd1"] == {"param+0"}
    assert roots["%rd2"] == {"?"}
    assert effects.written_roots(made, roots) == {"?", "param+0"}
    assert effects.read_roots(made, roots) == {"?"}
    assert effects.granule_log2(made, frozenset({"global"})) == 0
    assert effects.may_write_shared(next(i for i in made.blocks[0].instructions if i.opcode == "madeup"))


def test_a_row_that_says_nothing_orders_blocks_and_threads_and_may_wait(madeup):
    for text in ("madeup.b32 %r2, %r1;", "madeup.shared.b32 %r2, %r1;"):
        made = madeup(f"again: {text} setp.ne.u32 %p1, %r2, 0; @%p1 bra again; ret;")
        assert effects.blocks_in_order(made)
        assert effects.has_fences(made)
        assert effects.spin_heads(made)


def test_a_row_that_says_nothing_keeps_shared_loads_apart(madeup):
    loads = ["ld.shared.u32 %r1, [s];", "ld.shared.u32 %r2, [s+4];", "add.u32 %r3, %r1, %r2; ret;"]
    shared = {"declarations": ".shared .align 16 .b8 s[64];"}
    assert shared_requests(madeup("".join(loads), **shared))
    assert not shared_requests(madeup("madeup.b32 %r4, %r5;".join(loads[:2]) + loads[2], **shared))


def test_a_row_without_a_handler_is_refused_by_name(madeup):
    body = REGISTERS + "madeup.b32 %r2, %r1; ret;"
    out = np.zeros(1, np.uint32)
    with pytest.raises(UnsupportedInstruction, match=r"does not execute 'madeup\.b32'"):
        engine_launch.launch(entry(body), "k", (1,), (32,), out)
    with pytest.raises(UnsupportedInstruction, match=r"the oracle does not execute 'madeup\.b32'"):
        oracle_launch.launch(entry(body), "k", (1,), (32,), out)


def test_an_unknown_modifier_or_opcode_says_nothing_either():
    assert Instruction("nonsense", (), ()).row.order == Order.EVERYBODY
    assert Instruction("nonsense", ("f32",), ()).counted == "other"
    assert Instruction("nonsense", (), ()).written == ()


# ---------------------------------------------------------------- what the simulator adds


@pytest.mark.parametrize(
    "text",
    [
        "bra.skip L;", "@%p1 bra.skip L;", "trap.stack;", "trap.pointer;", "mov.skip.b32 %r1, %r2;",
        "add.skip.s64 %rd1, %rd2, 1;", "ld.skip.local.b32 %r1, [x];", "call.stack f, ();", "call.skip f, ();",
        "@%p1 trap.stack;", "ret.skip;",
    ],
)  # fmt: skip
def test_ptx_cannot_spell_what_the_simulator_adds(text):
    function = ".func f() { ret; }"
    with pytest.raises((PtxSyntaxError, UnsupportedInstruction), match=r"stack|skip|pointer"):
        kernel(f".local .b32 x; {text} L: ret;", declarations=function)


def test_ptx_cannot_name_the_call_stack():
    """A kernel with registers of these names has no call stack for it: a PTX name holds no `@`."""
    made = kernel(".reg .b64 %sp; .local .b8 %stack[16]; mov.u64 %sp, 5; ret;")
    assert made.stack_pointer is None
    for name in (STACK, STACK_POINTER):
        with pytest.raises(PtxSyntaxError):
            kernel(f".reg .b64 {name}; ret;")


def test_what_is_added_is_not_counted():
    """A predicated instruction: its branch is nobody's instruction, on both sides. A branch of the text is one."""
    out = np.zeros(32, np.uint32)
    start = "mov.u32 %r1, %laneid; setp.gt.u32 %p1, %r1, 7; mov.u32 %r2, 0;"
    for body, branches in (("@%p1 mov.u32 %r2, 1;", 0), ("@!%p1 bra L; mov.u32 %r2, 1; L:", 1)):
        text = entry(REGISTERS + start + body + "ret;")
        for run in (engine_launch, oracle_launch):
            counted = run.launch(text, "k", (1,), (32,), out).counters
            assert counted["warp_instructions"] == 5 + branches
            assert counted["instructions_control"] == 1 + branches
            assert counted.get("divergent_branches", 0) == branches


def test_the_call_stack_is_added_and_the_call_is_not():
    k = kernel(
        "{ .param .b32 x; .param .b32 y; st.param.b32 [x], 5; call (y), down, (x); ld.param.b32 %r1, [y]; } ret;",
        declarations=FUNCTIONS + """.func (.param .b32 r) down(.param .b32 a) {
          .reg .b32 %r<3>; .reg .pred %p; ld.param.b32 %r1, [a]; setp.eq.u32 %p, %r1, 0; @%p bra done;
          { .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call (y), down, (x); ld.param.b32 %r1, [y]; }
          done: st.param.b32 [r], %r1; ret; }""",
    )  # fmt: skip
    instructions = [i for block in k.blocks for i in block.executed]
    assert {i.origin for i in instructions} == {
        InstructionOrigin.TEXT,
        InstructionOrigin.ADDED,
        InstructionOrigin.STACK,
    }
    assert [i.opcode for i in instructions if i.origin is InstructionOrigin.STACK] == ["trap", "trap"]
    assert all(i.modifiers != ("stack",) and not i.has("skip") for i in instructions)


# ---------------------------------------------------------------- needs NumPy alone


def test_parsing_and_building_need_no_llvmlite():
    code = (
        "import sys; sys.modules['llvmlite'] = None; from ptxsim.syntax.parse import parse;"
        "from ptxsim.kernel.cfg import build_kernel; from ptxsim.analysis import effects, lanes, merging;"
        "print(len(build_kernel(parse(sys.stdin.read()), 'k').blocks))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=entry("ret;"), text=True, capture_output=True, check=True)
    assert done.stdout == "1\n"
