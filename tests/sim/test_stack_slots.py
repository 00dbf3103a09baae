"""Stack slots of generated functions stand at their entry, wherever code asks for one."""

from __future__ import annotations

from ptxsim.codegen.emit import Helper, arg, i32


def test_a_slot_that_is_asked_for_in_a_loop_is_taken_once():
    b = Helper()
    b.label("entry")
    first = b.variable("i32", i32(1))
    with b.loop(arg("i32", "n")):
        inner = b.variable("i32", i32(2))
        b.increment(inner, b.load("i32", first))
    b.ret()
    lines = b.function("void @f(i32 %n)").splitlines()
    slots = [place for place, line in enumerate(lines) if " = alloca " in line]
    labels = [place for place, line in enumerate(lines) if line.endswith(":")]
    assert len(slots) == 2 and max(slots) < labels[1], "no slot behind the entry's end"
    store = lines.index(f"store i32 2, {inner}, align 4")
    assert labels[1] < store, "what it holds at first is still written at each turn"
