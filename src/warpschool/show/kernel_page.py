"""HTML of one kernel's report: the facts, the hazards, and the source with counters beside each line."""

from __future__ import annotations

from ptxsim.counters import COUNTERS
from warpschool.inspect.profile import KernelReport
from warpschool.model import agreement
from warpschool.show.annotated import annotated_source, marked_source
from warpschool.show.columns import percent, short, times
from warpschool.show.notes import hazard_notes
from warpschool.show.page import cell, escape, facts, page, scrolling

SHOWN_HAZARDS = 5


def kernel_facts(report: KernelReport) -> dict[str, object]:
    """The numbers that sum a kernel up: name -> text."""
    counters, occupancy = report.counters, report.occupancy
    found: dict[str, object] = {
        "case": report.case or "no sizes",
        "load efficiency": percent(counters.global_load_efficiency),
        "store efficiency": percent(counters.global_store_efficiency),
        "bank conflicts": short(counters.shared_bank_conflicts),
        "data reuse": times(counters.data_reuse),
        "FMA share": percent(counters.fma_share) if counters.fma_instructions else "-",
        "registers": report.registers if report.registers is not None else "-",
        f"occupancy ({report.gpu})": percent(occupancy.fraction) if occupancy else "-",
    }
    return {name: text for name, text in found.items() if text != "-"}


def kernel_section(report: KernelReport, *, level: int = 3) -> str:
    """Facts, notes, hazards and annotated source of one run, without a heading of its own."""
    notes = dict.fromkeys(launch.note for launch in report.launches if launch.note)
    parts = [facts(kernel_facts(report)), *(f'<p class="soft">{escape(note)}</p>' for note in notes), _launches(report)]
    if report.hazards:
        parts.append(f"<h{level}>{_count(report)}</h{level}>")
        parts += [_hazard(report, hazard) for hazard in report.findings[:SHOWN_HAZARDS]]
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


def _count(report: KernelReport) -> str:
    number, shown = len(report.findings), min(len(report.findings), SHOWN_HAZARDS)
    return f"Hazards: {number}" + (f" (the first {shown} shown)" if number > shown else "")


def _hazard(report: KernelReport, hazard: object) -> str:
    kind, line, message = getattr(hazard, "kind", ""), getattr(hazard, "line", 0), getattr(hazard, "message", "")
    other = getattr(hazard, "other_thread", None)
    notes = hazard_notes(report.source, line, f"{kind}: {message}", other=other)
    if not notes:
        return f'<p class="notice bad">{escape(kind)}: {escape(message)}</p>'
    return marked_source(report.source, notes, name=f"{kind} in line {line} of {report.name}", around=2)


def _all_counters(report: KernelReport) -> str:
    values = report.counters.plain()
    rows = "\n".join(
        f'<tr><th scope="row">{escape(c.name)}</th>{cell(f"{values[c.name]:,}")}'
        f'<td style="text-align: left; white-space: normal">{escape(c.meaning)}</td></tr>'
        for c in COUNTERS
        if values[c.name]
    )
    heads = {"counter": "left", "count": "right", "meaning": "left"}
    head = "".join(f'<th scope="col" style="text-align: {side}">{name}</th>' for name, side in heads.items())
    caption = "<caption>Counters that are not zero, all launches together</caption>"
    table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return scrolling("all counters", table)
