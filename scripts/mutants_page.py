"""Writes docs/teach/mutants.md from benchmarks/results/mutants.json."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from warpschool.course import Course
from warpschool.recorded import recorded

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "teach" / "mutants.md"

HEAD = """# What the grader rejects: mutants

*Written by `scripts/mutants_page.py` from `benchmarks/results/mutants.json`; `make mutants` measures anew.*

Is a wrong kernel ever accepted? A program makes small mistakes in every reference, one at a time: a `+` that becomes a
`-`, a guard that always holds, a barrier or a statement that is gone, an index one further, another name, another
constant, a narrower type. Each mutant that compiles then runs beside the reference at {shapes} random shapes that no
grader file knows. It is **wrong** where an output is off the answer, where it changes an input, does not come to its
end, or shows a race, an access outside an array or any other hazard; else it is called equal: the mistake makes no
difference, or none that these shapes show. Every wrong one is checked as a hand-in is, up to the first criterion that
is not met, and must not be accepted.

Answers are computed in float64 by a second program of their own; in steps marked * the reference's own results are the
answer. The size of a step's counter budgets is no subject here: a mutant that is right and slow counts as equal.
"""


PROGRAMS = """
Whole programs are left out: they read files and arguments that only their grader knows how to write, so a run beside
the reference would not be independent of it, and each mutant would have to be built as a program is, in seconds."""


def page() -> str:
    found = recorded("mutants.json", course=Course(ROOT))
    rows: dict[str, dict[str, Any]] = found["steps"]
    tried = {name: row for name, row in rows.items() if row["compiled"]}
    compiled, wrong, rejected = (sum(row[key] for row in tried.values()) for key in ("compiled", "wrong", "rejected"))
    lines = [
        HEAD.format(shapes=found["shapes"]),
        f"Of {compiled:,} mutants of {len(tried)} references {wrong:,} are wrong, "
        f"and the grader rejects {rejected:,} of those: {_percent(rejected, wrong)}.",
        "",
        "| step | mutants | equal | wrong | rejected |",
        "|---|---:|---:|---:|---:|",
        *(_row(name, row) for name, row in tried.items()),
        "",
        *_rules(tried),
        *_survivors(tried),
        *_left_out(rows),
        "",
        f"With seed {found['seed']}, NVRTC {found['versions']['nvrtc']} and llvmlite {found['versions']['llvmlite']}.",
    ]
    return "\n".join(lines) + "\n"


def _percent(part: int, whole: int) -> str:
    """Rounded down: 100 % is all of them."""
    return f"{1000 * part // whole / 10:.1f} %" if whole else "none is wrong"


def _row(name: str, row: dict[str, Any]) -> str:
    mark = "" if row["answers"] == "float64" else " *"
    return f"| `{name}`{mark} | {row['compiled']} | {row['equal']} | {row['wrong']} | {row['rejected']} |"


def _rules(tried: dict[str, dict[str, Any]]) -> list[str]:
    """How many wrong ones each rule made, and what the grader called them."""
    rules, verdicts = Counter[str](), Counter[str]()
    for row in tried.values():
        rules.update(row["rules"])
        verdicts.update(row["verdicts"])
    made = ", ".join(f"{rule} {count}" for rule, count in rules.most_common())
    called = ", ".join(f"{verdict} {count}" for verdict, count in verdicts.most_common())
    return [f"Wrong ones by what was changed: {made}. By verdict: {called}."]


def _survivors(tried: dict[str, dict[str, Any]]) -> list[str]:
    left = [(name, one) for name, row in tried.items() for one in row["survivors"]]
    if not left:
        return ["", "No wrong one was accepted."]
    return [
        "",
        "## Survivors",
        "",
        "Wrong at some shape, and accepted:",
        "",
        *(f"- `{name}`, {one['mutant']}: {one['wrong']} ({one['verdict']})" for name, one in left),
    ]


def _left_out(rows: dict[str, dict[str, Any]]) -> list[str]:
    """Steps that were not tried, and steps that nobody has run."""
    course = {s.name for s in Course(ROOT).kernels() if s.solution is not None and s.grader is not None}
    shapeless = [name for name, row in rows.items() if not row["compiled"]]
    missing = sorted(course - set(rows))
    lines = []
    if shapeless:
        why = "for want of random inputs that suit them, or because a launch takes minutes"
        lines.append(f"Not tried, {why}: {', '.join(f'`{n}`' for n in shapeless)}.")
    if missing:
        labs = Counter(name.partition("/")[0] for name in missing)
        told = ", ".join(f"`{lab}` ({count} {'step' if count == 1 else 'steps'})" for lab, count in labs.items())
        lines.append(f"Not run yet: {told}.")
    lines += [PROGRAMS] if any(s.is_program for s in Course(ROOT).steps()) else []
    return ["", *lines] if lines else []


def files() -> dict[Path, str]:
    """The page."""
    return {PAGE: page()}
