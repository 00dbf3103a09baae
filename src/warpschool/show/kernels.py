"""What is shown of a kernel that ran: of a launch and of a run in a notebook, of a report on a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ptxsim import Finding
from ptxsim.counters import COUNTERS
from warpschool.counters import Counters
from warpschool.device import Launch
from warpschool.harness.launcher import RunResult
from warpschool.inspect.profile import KernelReport, distinct
from warpschool.model import agreement
from warpschool.show.columns import percent, short, times
from warpschool.show.notes import hazard_notes
from warpschool.show.page import details, escape, facts, notebook_box, page
from warpschool.show.source import annotated_source, marked_source
from warpschool.show.table import Cell, Table

SHOWN_HAZARDS = 5
_DRAWN_HAZARDS = 3


def launch_html(launch: Launch) -> str:
    """A launch: its shape, its counters, the source with the counters of each line and hazards on their lines."""
    grid, block = ("x".join(map(str, dims)) for dims in (launch.grid, launch.block))
    head = f"<p><b>{escape(launch.kernel)}</b> on {escape(launch.device.description)}: grid {grid}, block {block}</p>"
    whole = _ran(head, launch.counters, launch.source, launch.lines, launch.source_name, launch.hazards)
    return notebook_box(whole + (_counter_table(launch.counters) if launch.counters.measured else ""))


def run_html(run: RunResult) -> str:
    """A run of a kernel file: the source with the counters of each line, and hazards below their lines."""
    contract, outputs = run.plan.contract, ", ".join(f"{name} {array.shape}" for name, array in run.outputs.items())
    head = f"<p><b>{escape(contract.name)}</b> on {escape(run.device.description)}: {escape(outputs)}</p>"
    return notebook_box(_ran(head, run.counters, contract.source, run.lines, contract.name, run.hazards))


def _ran(
    head: str, counters: Counters, source: str, lines: Mapping[int, Counters], name: str, hazards: Sequence[Any]
) -> str:
    """What was counted; with a source, on its lines, and hazards below theirs."""
    if not counters.measured:
        return f"{head}<p>counters: {escape(counters)}</p>"
    told = head + facts(counter_facts(counters, exactly=True))
    if not source:
        return told + _hazard_list(hazards)
    notes = hazard_notes(source, _found(hazards)[:_DRAWN_HAZARDS])
    return told + _verdict(hazards) + annotated_source(source, lines, name=name, notes=notes)


def _found(hazards: Sequence[Any]) -> tuple[Any, ...]:
    """One hazard for each kind, line and array; none where nobody looked."""
    return distinct(hazards) if getattr(hazards, "measured", True) else ()


def _verdict(hazards: Sequence[Any]) -> str:
    """How many hazards there are, and where; the source below shows them."""
    found = _found(hazards)
    lines = sorted({hazard.line for hazard in found if hazard.line})
    if not lines:
        return _hazard_list(hazards)
    where = f"in line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"
    drawn = f"; the first {_DRAWN_HAZARDS} are drawn below" if len(found) > _DRAWN_HAZARDS else "; drawn below"
    return f'<p class="bad">✗ {len(found)} hazard{"s" * (len(found) != 1)}, {where}{drawn}.</p>'


def _hazard_list(hazards: Sequence[Any]) -> str:
    if not getattr(hazards, "measured", True):
        return f"<p>Hazards: {escape(hazards)}.</p>"
    if not hazards:
        return '<p class="good">✓ No hazards.</p>'
    found = distinct(hazards)
    shown = [f"✗ {h.file}:{h.line}: {h.kind}: {h.message}" for h in found[:_DRAWN_HAZARDS]]
    items = "".join(f"<li>{escape(text)}</li>" for text in shown)
    more = f"<p>and {len(found) - _DRAWN_HAZARDS} more</p>" if len(found) > _DRAWN_HAZARDS else ""
    return f'<ul class="bad">{items}</ul>{more}'


def _counter_table(counters: Counters) -> str:
    values = counters.plain()
    rows = [[Cell(c.name, hint=c.meaning), f"{values[c.name]:,}", c.unit] for c in COUNTERS if values[c.name]]
    return details("all counters", Table.of("", ["counter", "count", "unit"], rows).html(label="all counters"))


# ---------------------------------------------------------------- reports


def counter_facts(counters: Counters, *, exactly: bool = False) -> dict[str, object]:
    """The ratios that sum a run's counters up: name -> text; none for what the kernel does not do."""
    conflicts = counters.shared_bank_conflicts
    found = {
        "load efficiency": percent(counters.global_load_efficiency),
        "store efficiency": percent(counters.global_store_efficiency),
        "bank conflicts": f"{conflicts:,}" if exactly else short(conflicts),
        "data reuse": times(counters.data_reuse),
        "FMA share": percent(counters.fma_share) if counters.fma_instructions else "-",
    }
    return {name: text for name, text in found.items() if text != "-"}


def kernel_facts(report: KernelReport) -> dict[str, object]:
    """The numbers that sum a kernel up: name -> text."""
    found: dict[str, object] = {"case": report.case or "no sizes", **counter_facts(report.counters)}
    if report.registers is not None:
        found["registers"] = report.registers
    if report.occupancy:
        found[f"occupancy ({report.gpu})"] = percent(report.occupancy.fraction)
    return found


def kernel_section(report: KernelReport, *, level: int = 3) -> str:
    """Facts, notes, hazards and annotated source of one run, without a heading of its own."""
    notes = dict.fromkeys(launch.note for launch in report.launches if launch.note)
    parts = [facts(kernel_facts(report)), *(f'<p class="soft">{escape(note)}</p>' for note in notes), _launches(report)]
    if report.hazards:
        number = len(report.findings)
        more = f" (the first {SHOWN_HAZARDS} shown)" if number > SHOWN_HAZARDS else ""
        parts.append(f"<h{level}>Hazards: {number}{more}</h{level}>")
        parts += [_hazard(report, hazard) for hazard in report.findings[:SHOWN_HAZARDS]]
    parts += [f'<p class="soft">Line {n.line}: {escape(n.message)}.</p>' for n in report.notes]
    if report.printed:
        parts.append(f"<h{level}>printf wrote</h{level}><pre>{escape(report.printed)}</pre>")
    parts.append(annotated_source(report.source, report.lines, name=report.name))
    return "\n".join(parts)


def kernel_page(report: KernelReport) -> str:
    """A page about one kernel file."""
    body = (
        f"<main><h1>{escape(report.name)}</h1>\n"
        f'<p class="lead">{escape(report.title)} One run on the simulator with random inputs.</p>\n'
        f"{kernel_section(report, level=2)}\n<h2>All counters</h2>\n{_all_counters(report)}\n"
        f'<footer><p>{escape(report.estimate)}. A bound from counters, not a measurement: {escape(agreement())}.</p>'
        "</footer></main>"
    )  # fmt: skip
    return page(f"{report.name}: warpschool profile", body)


def _launches(report: KernelReport) -> str:
    said = [
        f"<code>{escape(launch.kernel)}</code>, {_dims(launch.grid)} blocks of {_dims(launch.block)} threads"
        + (f" and {launch.shared_bytes:,} bytes of dynamic shared memory" if launch.shared_bytes else "")
        for launch in report.launches
    ]
    limits = f"; limited by {escape(' and '.join(report.occupancy.limited_by))}" if report.occupancy else ""
    return f'<p class="soft">Launch: {"; then ".join(said)}{limits}.</p>'


def _dims(dims: tuple[int, int, int]) -> str:
    last = max((axis for axis in range(3) if dims[axis] > 1), default=0)
    return " x ".join(str(n) for n in dims[: last + 1])


def _hazard(report: KernelReport, found: Finding) -> str:
    notes = hazard_notes(report.source, [found])
    if not notes:
        return f'<p class="notice bad">{escape(found.kind)}: {escape(found.message)}</p>'
    return marked_source(report.source, notes, name=f"{found.kind} in line {found.line} of {report.name}", around=2)


def _all_counters(report: KernelReport) -> str:
    values = report.counters.plain()
    rows = [[c.name, f"{values[c.name]:,}", c.meaning] for c in COUNTERS if values[c.name]]
    caption = "Counters that are not zero, all launches together"
    return Table.of(caption, ["counter", "count", "meaning"], rows, wide=["meaning"]).html(label="all counters")
