"""A kernel as the translator sees it: basic blocks in order, and what is known of each register across 32 lanes."""

from __future__ import annotations

from ptxsim.analysis.lanes import LaneAnalysis, Lanes
from ptxsim.codegen.emit import WARP
from ptxsim.syntax.program import (
    Address,
    Barrier,
    Block,
    Branch,
    Immediate,
    Instruction,
    Jump,
    Kernel,
    Operand,
    Register,
    ResultPair,
    Sink,
    Special,
    Switch,
    Symbol,
    Vector,
    WarpBarrier,
)

_COLUMN = 64


def lane_listing(kernel: Kernel, analysis: LaneAnalysis) -> str:
    """One line per instruction, with the lane pattern of what it writes."""
    lines = []
    for block in kernel.blocks:
        lines.append(f"block {block.index}:")
        for i in block.instructions:
            patterns = "; ".join(f"{name} {pattern_text(analysis.of(name))}" for name in i.written)
            place = f"{i.source.line:>4}  " if i.source.line else " " * 6
            lines.append(f"{place}{_instruction_text(i):<{_COLUMN}}{patterns}".rstrip())
        lines.append(f"      -> {_end_text(block, analysis)}")
    return "\n".join(lines)


def pattern_text(pattern: Lanes) -> str:
    """A lane pattern in words: "uniform", "lane 0 + 4 * lane", "2 groups", "varying"."""
    if not pattern.known:
        return "varying"
    if pattern.value is not None:
        return f"= {pattern.value}"
    known = f", {pattern.bounds[0]} to {pattern.bounds[1]}" if pattern.bounds else ""
    steps = {b - a for a, b in zip(pattern.offsets, pattern.offsets[1:], strict=False)}
    if pattern.groups > 1:
        return f"{pattern.groups} groups of {WARP // pattern.groups} lanes{known}"
    if pattern.uniform:
        return f"uniform{known}"
    return f"lane 0 + {f'{steps.pop()} * lane' if len(steps) == 1 else 'constants per lane'}{known}"


def _instruction_text(i: Instruction) -> str:
    guard = f"@{'!' if i.guard.negated else ''}{i.guard.register} " if i.guard else ""
    return f"{guard}{i.full_name} {', '.join(map(_operand_text, i.operands))}".rstrip()


def _operand_text(operand: Operand) -> str:
    match operand:
        case Register(name):
            return name
        case Immediate(bits):
            return str(bits) if abs(bits) < 1 << 20 else f"{bits:#x}"
        case Special(name):
            return f"%{name}"
        case Symbol(name, offset):
            return f"{name}+{offset}" if offset else name
        case Address(base, offset, coordinates):
            text = f"{_operand_text(base)}+{offset}" if offset else _operand_text(base)
            return f"[{text}, {_operand_text(Vector(coordinates))}]" if coordinates else f"[{text}]"
        case Vector(elements):
            return "{" + ", ".join(map(_operand_text, elements)) + "}"
        case ResultPair(first, second):
            return f"{_operand_text(first)}|{_operand_text(second)}"
        case Sink():
            return "_"
    return str(operand)


def _end_text(block: Block, analysis: LaneAnalysis) -> str:
    match block.terminator:
        case Jump(target):
            return f"block {target}"
        case Branch(guard, taken, fallthrough):
            sign = "not " if guard.negated else ""
            together = "all lanes together" if analysis.of(guard.register).uniform else "lanes may part"
            return f"block {taken} where {sign}{guard.register}, else block {fallthrough} ({together})"
        case Switch(_, targets):
            return f"blocks {', '.join(map(str, targets))} by index"
        case Barrier(target):
            return f"barrier of the block, then block {target}"
        case WarpBarrier(target):
            return f"barrier of the warp, then block {target}"
    return "end of the thread"
