"""Writes docs/reference/supported-ptx.md from the simulator's table of instructions; --check compares only."""

from __future__ import annotations

import sys
from pathlib import Path

from ptxsim.isa import INSTRUCTIONS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "supported-ptx.md"
KINDS = {
    "value": "Lane by lane", "load": "Loads", "store": "Stores", "atomic": "Atomics", "warp": "Across the warp",
    "tensor": "Tensor cores", "texture": "Textures and surfaces", "control": "Control", "effect": "Fences and hints",
}  # fmt: skip


def page() -> str:
    lines = [
        "# Supported PTX", "",
        "Every instruction that the simulator executes; section numbers are the PTX ISA's (version 9.0).",
        "Any other raises an error that names it, its source line and, where one is needed, the GPU that has it.", "",
        "*Written by `scripts/supported_ptx.py` from `ptxsim.isa`.*", "",
    ]  # fmt: skip
    for kind, heading in KINDS.items():
        rows = [row for row in INSTRUCTIONS.values() if row.kind == kind]
        if not rows:
            continue
        lines += [f"## {heading}", "", "| instruction | section | what it does |", "|---|---|---|"]
        lines += [f"| `{row.opcode}` | {row.section} | {row.summary} |" for row in rows]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    if "--check" in sys.argv[1:]:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page():
            raise SystemExit(f"{PAGE} is out of date: run python scripts/supported_ptx.py")
        return
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
