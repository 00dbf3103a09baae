"""What right submissions cost: a table of results/right_jobs.json that `result_schema.py` puts into its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scripts.endless_table import by_lab

from warpschool.course import Course
from warpschool.recorded import recorded

ROOT = Path(__file__).parents[1]


def table() -> str:
    """By lab: references, how many were accepted, and the processor time of half of them and of the dearest."""
    found = recorded("right_jobs.json", course=Course(ROOT))
    labs, rows = by_lab(found["steps"]), found["steps"].values()
    over = sum(row["cpu_s"] > found["most_s"] for row in rows)
    lines = [
        f"The check of a right submission, secret cases with it: of {len(rows)} references "
        f"{sum(row['verdict'] == 'AC' for row in rows)} were accepted, and {over or 'none'} took more than "
        f"{found['most_s']:g} s of processor time, on an {found['processor']} at a load average of "
        f"{found['load_average']:.0f}:",
        "",
        "| lab | references | half of them at most | the dearest | which |",
        "|---|---:|---:|---:|---|",
        *(_row(lab, some) for lab, some in labs.items()),
    ]
    return "\n".join(lines)


def _row(lab: str, found: list[tuple[str, dict[str, Any]]]) -> str:
    times = sorted(row["cpu_s"] for _, row in found)
    name, dearest = max(found, key=lambda one: one[1]["cpu_s"])
    half = times[(len(times) - 1) // 2]
    return f"| `{lab}` | {len(found)} | {half:.1f} s | {dearest['cpu_s']:.1f} s | `{name}` |"


if __name__ == "__main__":
    print(table())
