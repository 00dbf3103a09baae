"""Loads and stores of 16-byte registers, as moves of two halves (PTX ISA 9.7.9.8)."""

from __future__ import annotations

from ptxsim.syntax.program import Instruction, Register, Vector

_HALVES = ("v2", "b64")


def in_halves(code: list[Instruction | str], registers: dict[str, str]) -> list[Instruction | str]:
    """The code with `ld.b128` as a load of two halves and a move, `st.b128` likewise; `registers` gains the halves."""
    if not any(isinstance(i, Instruction) and _is_wide(i) for i in code):
        return code
    found: list[Instruction | str] = []
    for i in code:
        if isinstance(i, str) or not _is_wide(i):
            found.append(i)
            continue
        loads = i.opcode == "ld"
        whole, where = (i.operands[0], i.operands[1]) if loads else (i.operands[1], i.operands[0])
        names = tuple(f"%half{k}@{len(found)}" for k in (0, 1))
        registers.update(dict.fromkeys(names, "b64"))
        halves = Vector(tuple(Register(name) for name in names))
        modifiers = (*(m for m in i.modifiers if m != "b128"), *_HALVES)
        access = i.with_(modifiers=modifiers, operands=(halves, where) if loads else (where, halves))
        move = i.with_(opcode="mov", modifiers=("skip", "b128"), operands=(whole, halves) if loads else (halves, whole))
        found += [access, move] if loads else [move, access]
    return found


def _is_wide(i: Instruction) -> bool:
    return i.opcode in ("ld", "st") and "b128" in i.modifiers
