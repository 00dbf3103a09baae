"""Writes the table of endless loops into docs/reference/verdicts.md from results/endless.json; --check compares."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from warpschool.course import Course
from warpschool.recorded import recorded

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "verdicts.md"
BEGIN = "<!-- begin endless: written by scripts/endless_table.py -->"
END = "<!-- end endless -->"


def table() -> str:
    """By lab: loops, verdicts, and the most processor time of one."""
    found = recorded("endless.json", course=Course(ROOT))
    labs: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for name, row in found["steps"].items():
        labs.setdefault(name.partition("/")[0], []).append((name, row))
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


def _row(lab: str, rows: list[tuple[str, dict[str, Any]]]) -> str:
    verdicts = Counter[str]()
    for _, row in rows:
        verdicts.update(row["verdicts"])
    name, worst = max(rows, key=lambda one: one[1]["most_cpu_s"])
    said = ", ".join(f"{verdict} {count}" for verdict, count in verdicts.most_common())
    loops, over = (sum(row[key] for _, row in rows) for key in ("loops", "over"))
    which = f"`{name.partition('/')[2]}`, {worst['dearest'].partition(':')[0]}"
    return f"| `{lab}` | {len(rows)} | {loops} | {said} | {over} | {worst['most_cpu_s']:.1f} s | {which} |"


def _count(number: int) -> str:
    return "none" if not number else f"{number:,}"


def page() -> str:
    before, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{PAGE} has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def main() -> None:
    if "--check" in sys.argv[1:]:
        if PAGE.read_text("utf-8") != page():
            raise SystemExit(f"{PAGE} is out of date: run python scripts/endless_table.py")
        return
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
