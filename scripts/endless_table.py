"""The table of endless loops, made of results/endless.json, which `result_schema.py` puts into its page of verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warpschool.course import Course
from warpschool.recorded import recorded

ROOT = Path(__file__).parents[1]


def table() -> str:
    """By lab: loops, verdicts, and the most processor time of one."""
    found = recorded("endless.json", course=Course(ROOT))
    labs = by_lab(found["steps"])
    each = f"at most {found['each']} of each reference" if found["each"] else "all of each reference"
    loops = sum(row["loops"] for row in found["steps"].values())
    over = sum(row["over"] for row in found["steps"].values())
    lines = [
        f"Of {loops:,} loops of {len(found['steps'])} references, {each}, each made endless and checked by itself, "
        f"{_count(over)} took more than {found['most_s']:g} s of processor time, the compiler's included, "
        f"on an {found['processor']} at a load average of {found['load_average']:.0f}:",
        "",
        "| lab | references | loops | verdicts | over | the dearest | of it |",
        "|---|---:|---:|---|---:|---:|---|",
        *(_row(lab, rows) for lab, rows in labs.items()),
    ]
    return "\n".join(lines)


def by_lab(steps: Mapping[str, dict[str, Any]]) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Lab -> its steps, without the lab's name, and their rows."""
    labs: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for name, row in steps.items():
        lab, _, step = name.partition("/")
        labs.setdefault(lab, []).append((step, row))
    return labs


def _row(lab: str, rows: list[tuple[str, dict[str, Any]]]) -> str:
    verdicts = Counter[str]()
    for _, row in rows:
        verdicts.update(row["verdicts"])
    name, worst = max(rows, key=lambda one: one[1]["most_cpu_s"])
    said = ", ".join(f"{verdict} {count}" for verdict, count in verdicts.most_common())
    loops, over = (sum(row[key] for _, row in rows) for key in ("loops", "over"))
    which = f"`{name}`, {worst['dearest'].partition(':')[0]}"
    return f"| `{lab}` | {len(rows)} | {loops} | {said} | {over} | {worst['most_cpu_s']:.1f} s | {which} |"


def _count(number: int) -> str:
    return "none" if not number else f"{number:,}"


if __name__ == "__main__":
    print(table())
