"""Writes docs/reference/estimate.md from benchmarks/results/estimate_h200.json."""

from __future__ import annotations

from pathlib import Path

from warpschool.course import Course
from warpschool.recorded import recorded

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "estimate.md"

HEAD = """# What an estimate is worth

*Written by `scripts/estimate_page.py` from `benchmarks/results/estimate_h200.json`, which `benchmarks/estimate.py`
makes from recorded times; no GPU is needed for it.*

`warpschool profile FILE.cu --gpu h200` and `ws.benchmark(...)` without a GPU tell a bound: the time that the busiest
part of the chip needs for what the simulator counted (`ws.roofline(...)` draws it without DRAM's part). It is labelled
*estimate*. It knows nothing of latency, occupancy or clocks under load, so real launches take longer as a rule.

- FP32 arithmetic: one instruction per lane and clock.
- L1 and shared memory: one wavefront of shared memory or four sectors of global memory per multiprocessor and clock.
- DRAM: every array once, but no more than the sectors touched.

Tensor cores are not included, nor what bulk copies move: of a kernel that is little else, as `lab07/06_wgmma`, the
bound says next to nothing. Shared loads are counted as the compiler merges them.
"""


def page() -> str:
    found = recorded("estimate_h200.json", course=Course(ROOT))
    rows, products = found["rows"], found["products_of_4096"]
    faster = [row["step"] for row in rows if row["time_ms"] < row["bound_ms"]]
    lines = [
        HEAD,
        f"How well it ranks: over {len(rows)} reference kernels of the course, Spearman's rank correlation of bound",
        f"and time on an H200 is **{found['rank_correlation']:.2f}**. Sizes differ there, which makes ranking easier;",
        f"over the {products['kernels']} products of 4096 x 4096 matrices alone it is "
        f"**{products['rank_correlation']:.2f}**.",
        f"{len(faster)} were faster than their bound: {', '.join(faster)}." if faster else "None beat its bound.",
        "",
        "| reference | size | bound | limited by | measured | bound of measured |",
        "|---|---|---:|---|---:|---:|",
    ]
    for row in sorted(rows, key=lambda row: row["time_ms"]):
        size = ", ".join(f"{name} = {value}" for name, value in row["sizes"].items())
        size = "M = N = K = 4096" if size == "M = 4096, N = 4096, K = 4096" else size
        share = row["bound_ms"] / row["time_ms"]
        lines.append(
            f"| {row['step']} | {size} | {row['bound_ms']:.3g} ms | {row['limited_by']} | {row['time_ms']:.3g} ms "
            f"| {share:.2f} |"
        )
    lines += ["", *(f"Not in the table: {step} ({why})." for step, why in found["left_out"].items())]
    return "\n".join(lines).rstrip() + "\n"


def files() -> dict[Path, str]:
    """The page."""
    return {PAGE: page()}
