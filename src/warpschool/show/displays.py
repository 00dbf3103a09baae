"""What a notebook shows for a launch and for a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ptxsim.counters import COUNTERS
from warpschool.counters import Counters
from warpschool.device import Launch
from warpschool.harness.launcher import RunResult
from warpschool.inspect.profile import distinct
from warpschool.show.annotated import annotated_source
from warpschool.show.columns import percent, times
from warpschool.show.notes import Note, hazard_notes
from warpschool.show.page import cell, escape, facts, notebook_box, scrolling

_SHOWN_HAZARDS = 3


def launch_html(launch: Launch) -> str:
    """A launch: its shape, its counters, the source with the counters of each line and hazards on their lines."""
    grid, block = ("x".join(map(str, dims)) for dims in (launch.grid, launch.block))
    head = f"<p><b>{escape(launch.kernel)}</b> on {escape(launch.device.description)}: grid {grid}, block {block}</p>"
    if not launch.counters.measured:
        return notebook_box(f"{head}<p>counters: {escape(launch.counters)}</p>")
    hazards = launch.hazards if getattr(launch.hazards, "measured", True) else ()
    body = _hazard_list(launch.hazards)
    if launch.source:
        body = _verdict(launch.hazards)
        body += _source(launch.source, launch.lines, launch.source_name, hazards)
    return notebook_box(head + _summary(launch.counters) + body + _counter_table(launch.counters))


def run_html(run: RunResult) -> str:
    """A run of a kernel file: the source with the counters of each line, and hazards below their lines."""
    contract, outputs = run.plan.contract, ", ".join(f"{name} {array.shape}" for name, array in run.outputs.items())
    head = f"<p><b>{escape(contract.name)}</b> on {escape(run.device.description)}: {escape(outputs)}</p>"
    if not run.counters.measured:
        return notebook_box(f"{head}<p>counters: {escape(run.counters)}</p>")
    body = _verdict(run.hazards) + _source(contract.source, run.lines, contract.name, run.hazards)
    return notebook_box(head + _summary(run.counters) + body)


def _verdict(hazards: Sequence[Any]) -> str:
    """How many hazards there are, and where; the source below shows them."""
    if not getattr(hazards, "measured", True) or not hazards:
        return _hazard_list(hazards)
    found = distinct(hazards)
    lines = ", ".join(str(line) for line in sorted({hazard.line for hazard in found if hazard.line}))
    where = f", in line{'s' * (',' in lines)} {lines}" if lines else ""
    drawn = f"; the first {_SHOWN_HAZARDS} are drawn below" if len(found) > _SHOWN_HAZARDS else "; drawn below"
    if not any(hazard.line for hazard in found):
        return _hazard_list(hazards)
    return f'<p class="bad">✗ {len(found)} hazard{"s" * (len(found) != 1)}{where}{drawn}.</p>'


def _source(source: str, lines: Mapping[int, Counters], name: str, hazards: Iterable[Any]) -> str:
    notes: list[Note] = []
    for number, hazard in enumerate(distinct(list(hazards))[:_SHOWN_HAZARDS]):
        message = f"{hazard.kind}: {hazard.message}"
        notes += hazard_notes(source, hazard.line, message, number=number, other=hazard.other_thread)
    return annotated_source(source, lines, name=name, notes=notes)


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
    if not getattr(hazards, "measured", True):
        return f"<p>Hazards: {escape(hazards)}.</p>"
    if not hazards:
        return '<p class="good">✓ No hazards.</p>'
    found = distinct(hazards)
    shown = [f"✗ {h.file}:{h.line}: {h.kind}: {h.message}" for h in found[:_SHOWN_HAZARDS]]
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
