"""Writes the table of what was tried into docs/teach/cheats.md from results/hostile.json."""

from __future__ import annotations

from pathlib import Path

from scripts.pages import between

from warpschool.course import Course
from warpschool.recorded import recorded

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "teach" / "cheats.md"


def table() -> str:
    """Kinds, how many were tried, how many held, the most processor time of one."""
    found = recorded("hostile.json", course=Course(ROOT))
    rows = found["kinds"]
    tried, held = (sum(row[key] for row in rows.values()) for key in ("tried", "held"))
    seeds = {1: "one seed", 2: "two seeds"}.get(found["seeds"], f"{found['seeds']} seeds")
    lines = [
        f"`make hostile` tried {tried:,} kernels and cells on {seeds}; {held:,} got what is due to them:",
        "",
        "| kind | tried | held | processor time of the dearest |",
        "|---|---:|---:|---:|",
        *(f"| {name} | {row['tried']} | {row['held']} | {row['most_cpu_s']:.1f} s |" for name, row in rows.items()),
    ]
    if found["failed"]:
        lines += ["", "These did not hold: " + ", ".join(found["failed"]) + "."]
    beside = f"{found['notebooks']} hostile notebooks, and what displays hand-ins, are tests beside it."
    return "\n".join([*lines, "", beside])


def files() -> dict[Path, str]:
    """The page with its table anew."""
    return {PAGE: between(PAGE.read_text("utf-8"), "tried", table())}
