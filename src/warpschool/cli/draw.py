"""Kernels and findings drawn for a terminal."""

from __future__ import annotations

from rich.text import Text

from warpschool.cli.output import Output
from warpschool.inspect.profile import KernelReport
from warpschool.model import agreement
from warpschool.show.columns import percent, shares, used_columns
from warpschool.show.kernels import SHOWN_HAZARDS, kernel_facts
from warpschool.show.notes import frame, split_case
from warpschool.show.source import coloured_text
from warpschool.show.table import Table

_HOT, _HOTTER = 0.05, 0.25
_CODE_WIDTH = 90


def draw_finding(output: Output, source: str, line: int, message: str) -> None:
    """A message on its source line; alone where it has no line, or quotes the source itself, as a compiler's does."""
    case, message = split_case(message)
    if case:
        output.show("    at ", case, style="dim")
    drawn = frame(source, line, message) if line and "\n" not in message else None
    for row in drawn.terminal(output.console.width) if drawn is not None else message.splitlines():
        output.show(row if isinstance(row, Text) else f"    {row}")


def draw_report(output: Output, report: KernelReport) -> None:
    """The report of one kernel: facts, source with counters, hazards, printed text."""
    output.show((report.name, "bold"), ": ", report.title)
    output.show(", ".join(f"{name} {value}" for name, value in kernel_facts(report).items()))
    for note in dict.fromkeys(launch.note for launch in report.launches if launch.note):
        output.show((note, "yellow"))
    output.show(f"{report.estimate}; {agreement()}", style="dim")
    output.heading("Line by line")
    draw_lines(output, report)
    if report.hazards:
        output.heading(f"Hazards: {len(report.findings)}")
        for hazard in report.findings[:SHOWN_HAZARDS]:
            draw_finding(output, report.source, hazard.line, f"{hazard.kind}: {hazard.message}")
    if report.printed:
        output.heading("printf wrote")
        output.show(report.printed.rstrip("\n"))


def draw_lines(output: Output, report: KernelReport) -> None:
    """The executed lines with their counters; lines that execute nothing are left out."""
    share, columns = shares(report.lines), used_columns(report.lines.values())
    rows = []
    for number, line in enumerate(report.source.split("\n"), start=1):
        counters = report.lines.get(number)
        if counters is None:
            continue
        part = share.get(number, 0.0)
        style = "bold reverse yellow" if part >= _HOTTER else "bold yellow" if part >= _HOT else ""
        short_line = line.expandtabs(4) if len(line) <= _CODE_WIDTH else line.expandtabs(4)[: _CODE_WIDTH - 3] + "..."
        said = Text(percent(part) if part >= 0.005 else "", style=style)
        cells = (column.text(counters) for column in columns)
        rows.append((str(number), said, *cells, coloured_text(short_line)))
    heads = ("line", "share", *(column.head for column in columns))
    output.table(Table("", (*heads, "source"), tuple(rows), frozenset(heads)))
