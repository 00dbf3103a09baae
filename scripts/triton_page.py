"""Writes the tables of docs/learn/triton.md from benchmarks/results/triton.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scripts.pages import between

from warpschool.course import Course
from warpschool.recorded import recorded

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "learn" / "triton.md"
COUNTERS = {
    "tensor_instructions": "`mma.sync`", "warp_instructions": "instructions of warps",
    "global_load_requests": "global load requests", "async_copy_requests": "asynchronous copies",
    "shared_load_wavefronts": "wavefronts of shared loads", "shared_store_requests": "shared store requests",
    "shared_bank_conflicts": "bank conflicts", "barriers": "barriers, once for each warp",
}  # fmt: skip


def products(rows: list[dict[str, Any]]) -> str:
    """Counters down, kernels across."""
    names = [f"{row['name'].replace('lab07_tensor_cores/', 'lab 07, ')}, {row['side']}" for row in rows]
    lines = [f"| | {' | '.join(names)} |", f"|---|{'---:|' * len(rows)}"]
    lines += [f"| {said} | {' | '.join(f'{row[key]:,}' for row in rows)} |" for key, said in COUNTERS.items()]
    return "\n".join(lines)


def kernels(rows: list[dict[str, Any]], version: str) -> str:
    """A row for each launch."""
    lines = [
        f"| kernel (Triton {version}) | off by | allowed | threads | shared bytes | barriers | bank conflicts |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        options = [f"{key}={value}" for key, value in row["constants"].items() if key in ("HOW", "CAUSAL")]
        name = f"`{row['kernel']}`{', ' + options[0] if options else ''}"
        counts = " | ".join(f"{row[key]:,}" for key in ("threads", "shared_bytes", "barriers", "shared_bank_conflicts"))
        lines.append(f"| {name} | {row['error']:.1g} | {row['tolerance']:g} | {counts} |")
    return "\n".join(lines)


def files() -> dict[Path, str]:
    """The page with its tables anew."""
    found = recorded("triton.json", course=Course(ROOT))
    text = PAGE.read_text(encoding="utf-8")
    tables = {"products": products(found["products"]), "kernels": kernels(found["rows"], found["triton"])}
    for name, table in tables.items():
        text = between(text, name, table)
    return {PAGE: text}
