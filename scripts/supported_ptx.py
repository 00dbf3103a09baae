"""Writes docs/reference/supported-ptx.md from the simulator's table of instructions."""

from __future__ import annotations

from pathlib import Path

from ptxsim.isa import INSTRUCTIONS, REFUSED

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "supported-ptx.md"
KINDS = {
    "value": "Lane by lane", "load": "Loads", "store": "Stores", "atomic": "Atomics", "warp": "Across the warp",
    "tensor": "Tensor cores", "texture": "Textures and surfaces", "control": "Control", "effect": "Fences and hints",
}  # fmt: skip


def page() -> str:
    lines = [
        "# Supported PTX", "",
        "Every instruction of the PTX ISA (version 9.0, up to sm_90a): those that the simulator executes, with the",
        "ISA's section numbers, and [those that it refuses](#refused). A refused one raises an error that names it,",
        "its source line, the reason, and the GPU that has it.", "",
        "*Written by `scripts/supported_ptx.py` from `ptxsim.isa`.*", "",
    ]  # fmt: skip
    for kind, heading in KINDS.items():
        rows = [row for row in INSTRUCTIONS.values() if row.kind == kind]
        if not rows:
            continue
        lines += [f"## {heading}", "", "| instruction | section | what it does |", "|---|---|---|"]
        lines += [f"| `{row.opcode}` | {row.section} | {row.summary} |" for row in rows]
        lines.append("")
    return "\n".join([*lines, *_refused()])


def _refused() -> list[str]:
    """What is refused: instructions, and instructions with one modifier, those for one reason in one row."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for name, row in REFUSED.items():
        reasons.setdefault((row.what, row.why, row.gpu), []).append(f"`{name}`")
    return [
        "## Refused", "",
        "With a dot, an instruction with this modifier. Scalar video instructions follow the PTX ISA; what ptxas makes",
        "of some of them for sm_90 (words that saturate, merges into `.h1`, scaled products) gives other numbers.", "",
        "| instruction | what it is | why | GPUs that have it |", "|---|---|---|---|",
        *(f"| {', '.join(names)} | {what} | {why} | {gpu or 'any'} |" for (what, why, gpu), names in reasons.items()),
        "",
    ]  # fmt: skip


def files() -> dict[Path, str]:
    """The page."""
    return {PAGE: page()}
