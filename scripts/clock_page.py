"""Writes docs/reference/clock.md from what benchmarks/clock recorded and compared; --check compares only."""

from __future__ import annotations

import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from warpschool.clock.machine import FOLDER
from warpschool.recorded import recorded

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "clock.md"
WORST = 10
TEXT = """\
# The clock

`warpschool predict FILE` and `ws.predict_time` say how long a kernel would take on a GPU, and what its warps would wait
for, without a GPU. [How it works](../design/clock.md). No point of any grade depends on it.

This page is written by `python scripts/clock_page.py` from `benchmarks/results/clock_validation_h200.json`. That is
made by `python benchmarks/clock/validate.py` from times and counters that `benchmarks/clock/record.py` took on an
{device}, for the very cubins that the clock reads. Constants come from microbenchmarks (`benchmarks/clock/driver.py`,
`benchmarks/results/clock_h200.json`) and the data sheet; none is fitted to these kernels. The kernels in other styles
(`benchmarks/clock/kernels`) were written when the model's structure stood, and changed nothing in it but for one
instruction that it did not know.

## How far it is off

{figures}

Times are event to event, with L2 flushed before a file's first launch. A launch's error is how far predicted over
measured is from one. Four fifths of the references' times lie between {low:.2f} and {high:.2f} of the prediction; that
is the range that each prediction carries.{coverage}

## By lab

{labs}

## By size

{sizes}

## The {worst} that are furthest off

{furthest}

## What has no prediction

{missing}

## Constants of the H200

{constants}
"""


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    return "\n".join(lines + [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows])


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _figures(sets: dict[str, dict[str, Any]]) -> str:
    names = {"references": "references of the course, three sizes each", "outside": "kernels in other styles"}
    rows = [
        (label, *(f(one) for one in sets.values()))
        for label, f in (
            ("launches", lambda one: one["launches"]), ("median error of the time", lambda one:
            _percent(one["median"])),
            ("90th percentile", lambda one: _percent(one["p90"])),
            ("Spearman's rank correlation", lambda one: f"{one['rank_correlation']:.4f}"),
            ("median error of `sm__cycles_elapsed.max`", lambda one: _percent(one["cycles_median"])),
            ("`smsp__inst_executed.sum` within 2 %", lambda one: _percent(one["instructions_within_2_percent"])),
            ("commonest warp state right", lambda one: _percent(one["state_right"])),
            ("median difference of a state's share", lambda one: _percent(one["state_difference_median"])),
            ("processor time in all", lambda one: f"{one['cpu_s']:.0f} s"),
            ("of the dearest prediction", lambda one: f"{one['cpu_most_s']:.1f} s"),
        )
    ]  # fmt: skip
    return _table(("", *(names[name] for name in sets)), rows)


def _grouped(rows: list[dict[str, Any]], key: Any) -> list[tuple[Any, ...]]:
    groups: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row["predicted_us"] / row["measured_us"])
    return [
        (name, len(ratios), _percent(float(np.median(np.abs(np.array(ratios) - 1)))), f"{np.median(ratios):.2f}")
        for name, ratios in groups.items()
    ]


def page() -> str:
    """The page's text."""
    found = recorded("clock_validation_h200.json")
    told = [row for row in found["rows"] if row["predicted_us"] is not None]
    missing = sorted(
        {(row["case"].split("@")[0], row["reason"]) for row in found["rows"] if row["predicted_us"] is None}
    )
    worst = sorted(told, key=lambda row: -abs(np.log(row["predicted_us"] / row["measured_us"])))[:WORST]
    heads = ("", "launches", "median error", "median of predicted / measured")
    coverage = found["coverage_outside"]
    return TEXT.format(
        device=found["device"], figures=_figures(found["figures"]), low=found["interval"][0], high=found["interval"][1],
        coverage="" if coverage is None else f" Of the kernels in other styles {_percent(coverage)} lie in it.",
        labs=_table(heads, _grouped(told, lambda row: row["case"].split("/")[0])),
        sizes=_table(heads, _grouped(told, lambda row: row["case"].split("@")[1])), worst=WORST,
        furthest=_table(
            ("case", "kernel", "predicted", "measured", "ratio"),
            [
                (row["case"], f"`{row['kernel']}`", f"{row['predicted_us']:.1f} us", f"{row['measured_us']:.1f} us",
                 f"{row['predicted_us'] / row['measured_us']:.2f}") for row in worst
            ],
        ),
        missing="\n".join(f"- {case}: {reason}." for case, reason in missing) or "Nothing.",
        constants=_constants(),
    )  # fmt: skip


def _constants() -> str:
    data = tomllib.loads((FOLDER / "h200.toml").read_text(encoding="utf-8"))
    sources = data.pop("sources")
    rows = [
        (f"{section}.{name}", value, sources.get(f"{section}.{name}", sources.get(section, "")))
        for section, values in data.items()
        if isinstance(values, dict)
        for name, value in values.items()
    ]
    return _table(("constant", "value", "source"), rows)


def main() -> None:
    """Write the page, or compare."""
    text = page()
    if "--check" in sys.argv:
        raise SystemExit(0 if PAGE.read_text(encoding="utf-8") == text else f"{PAGE} is out of date")
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
