"""What a notebook shows for a launch, a run, and the result of a check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpschool.counters import COUNTERS, Counters
from warpschool.device import Launch
from warpschool.grading import Criterion, Result
from warpschool.launcher import RunResult
from warpschool.profile import distinct
from warpschool.viz.annotated import annotated_source, frame_table
from warpschool.viz.columns import percent, times
from warpschool.viz.frame import Frame, FrameLine, frame, split_case
from warpschool.viz.page import cell, escape, facts, notebook_box, scrolling

_SHOWN_HAZARDS = 3


def launch_html(launch: Launch) -> str:
    """A launch: its shape, its counters, its hazards."""
    grid, block = ("x".join(map(str, dims)) for dims in (launch.grid, launch.block))
    head = f"<p><b>{escape(launch.kernel)}</b> on {escape(launch.device.description)}: grid {grid}, block {block}</p>"
    if not launch.counters.measured:
        return notebook_box(f"{head}<p>counters: {escape(launch.counters)}</p>")
    return notebook_box(
        head + _summary(launch.counters) + _hazard_list(launch.hazards) + _counter_table(launch.counters)
    )


def run_html(run: RunResult) -> str:
    """A run of a kernel file: the source with the counters of each line, and hazards below their lines."""
    contract, outputs = run.plan.contract, ", ".join(f"{name} {array.shape}" for name, array in run.outputs.items())
    head = f"<p><b>{escape(contract.name)}</b> on {escape(run.device.description)}: {escape(outputs)}</p>"
    if not run.counters.measured:
        return notebook_box(f"{head}<p>counters: {escape(run.counters)}</p>")
    hits = {hazard.line: f"{hazard.kind}: {hazard.message}" for hazard in reversed(run.hazards) if hazard.line}
    body = annotated_source(contract.source, run.lines, name=contract.name, hits=hits)
    return notebook_box(head + _summary(run.counters) + body)


def result_html(result: Result) -> str:
    """The result of a check: verdict, points, and for each failed criterion what was seen, where, and the hint."""
    kind = "good" if result.ok else "bad"
    head = (
        f'<p><b>{escape(result.step)}</b>: <span class="{kind}">{escape(result.verdict)}, '
        f"{escape(result.verdict.meaning)}</span>, {result.score:g} of {result.max_score:g} points</p>"
    )
    if result.seen:
        return notebook_box(head + _finding(result.line, result.code, result.seen))
    rows = "".join(
        f'<tr><th scope="row">{escape(c.title)}</th>{_met(c)}{cell(f"{c.points:g} of {c.weight:g}")}</tr>'
        for c in result.criteria
    )
    columns = "".join(f'<th scope="col">{name}</th>' for name in ("criterion", "met?", "points"))
    table = f"<table><thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table>"
    return notebook_box(head + scrolling("criteria", table) + _failures(result.criteria))


def _met(criterion: Criterion) -> str:
    return cell("✓ met", "good") if criterion.ok else cell(f"✗ {criterion.verdict}", "bad")


def _failures(criteria: Sequence[Criterion]) -> str:
    """What was seen for each failed criterion; those that failed alike, at the same line, are told once."""
    alike: dict[tuple[str, int], list[Criterion]] = {}
    for criterion in criteria:
        if not criterion.ok:
            alike.setdefault((str(criterion.verdict), criterion.line), []).append(criterion)
    return "".join(_failed(group) for group in alike.values())


def _failed(group: list[Criterion]) -> str:
    first = group[0]
    hint = f"<p>Hint: {escape(first.hint[0])}</p>" if first.hint else ""
    titles = ", ".join(criterion.title for criterion in group)
    return f"<p><b>{escape(titles)}</b></p>{_finding(first.line, first.code, first.seen)}{hint}"


def _finding(line: int, code: str, seen: str) -> str:
    """What was seen, on its line where one is to blame."""
    case, message = split_case(seen)
    label = f"line {line}, at {case}" if case else f"line {line}"
    drawn = frame(code, 1, message, around=0) if line and code and "\n" not in message else None
    if drawn is None:
        return f"<pre>{escape(seen)}</pre>"
    return frame_table(Frame((FrameLine(line, code, True),), drawn.start, drawn.width, message), label=label)


def _summary(counters: Counters) -> str:
    found = {
        "load efficiency": percent(counters.global_load_efficiency),
        "store efficiency": percent(counters.global_store_efficiency),
        "bank conflicts": f"{counters.shared_bank_conflicts:,}",
        "data reuse": times(counters.data_reuse),
        "FMA share": percent(counters.fma_share) if counters.fma_instructions else "-",
    }
    return facts({name: text for name, text in found.items() if text != "-"})


def _hazard_list(hazards: Sequence[Any]) -> str:
    if not hazards:
        return "<p>No hazards.</p>"
    found = distinct(hazards)
    shown = [f"{h.file}:{h.line}: {h.kind}: {h.message}" for h in found[:_SHOWN_HAZARDS]]
    items = "".join(f"<li>{escape(text)}</li>" for text in shown)
    more = f"<p>and {len(found) - _SHOWN_HAZARDS} more</p>" if len(found) > _SHOWN_HAZARDS else ""
    return f'<ul class="bad">{items}</ul>{more}'


def _counter_table(counters: Counters) -> str:
    values = counters.plain()
    rows = "".join(
        f'<tr><th scope="row" title="{escape(c.meaning)}">{escape(c.name)}</th>'
        f"{cell(f'{values[c.name]:,}')}{cell(c.unit)}</tr>"
        for c in COUNTERS
        if values[c.name]
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("counter", "count", "unit"))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f"<details><summary>all counters</summary>{scrolling('all counters', table)}</details>"
