"""Kernels and findings drawn for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from ptxsim import Finding
from warpschool.cli.output import Output
from warpschool.grading.verdicts import Observed, case_words
from warpschool.inspect.profile import KernelReport
from warpschool.model import agreement
from warpschool.show.columns import percent, shares, used_columns
from warpschool.show.kernels import SHOWN_HAZARDS, kernel_facts
from warpschool.show.notes import call_notes, note_below
from warpschool.show.source import coloured_text, excerpt
from warpschool.show.table import Table

if TYPE_CHECKING:  # of use to those who ask for times
    from warpschool.clock.prediction import Prediction

_HOT, _HOTTER = 0.05, 0.25
_CODE_WIDTH = 90


def draw_observed(output: Output, source: str, about: Observed) -> None:
    """What was seen, on its source line; alone where it has none, or quotes the source itself, as a compiler's does."""
    if about.case:
        output.show("    at ", case_words(about.case), style="dim")
    array = about.finding.variable if about.finding is not None else ""
    _draw(output, source, about.line, about.message, array, about.finding)


def draw_hazard(output: Output, source: str, found: Finding) -> None:
    """A hazard of a run on its source line."""
    _draw(output, source, found.line, f"{found.kind}: {found.message}", found.variable, found)


def draw_place(output: Output, source: str, line: int, message: str, file: str) -> None:
    """A sentence at a line of a file."""
    output.show(f"  {file}:{line}", style="dim")
    _draw(output, source, line, message, "", None)


def _draw(output: Output, source: str, line: int, message: str, array: str, found: Finding | None) -> None:
    note = note_below(source, line, message, array=array)
    calls = call_notes(source, found.calls) if found is not None else []
    drawn = excerpt(source, [note, *calls], around=2) if note is not None else None
    for row in drawn.terminal(output.console.width) if drawn is not None else message.splitlines():
        output.show(row if isinstance(row, Text) else f"    {row}")


def draw_report(output: Output, report: KernelReport) -> None:
    """The report of one kernel: facts, source with counters, hazards, printed text."""
    output.show((report.name, "bold"), f": {report.title}" if report.title else "")
    output.show(", ".join(f"{name} {value}" for name, value in kernel_facts(report).items()))
    for note in dict.fromkeys(launch.note for launch in report.launches if launch.note):
        output.show((note, "yellow"))
    output.show(f"{report.estimate}; {agreement()}", style="dim")
    output.heading("Line by line")
    draw_lines(output, report)
    if report.hazards:
        output.heading(f"Hazards: {len(report.findings)}")
        for hazard in report.findings[:SHOWN_HAZARDS]:
            draw_hazard(output, report.source, hazard)
    for note in report.notes:
        output.show((f"Line {note.line}: {note.message}", "yellow"))
    if report.printed:
        output.heading("printf wrote")
        output.show(report.printed.rstrip("\n"))


def draw_prediction(output: Output, found: Prediction, source: str) -> None:
    """What the clock predicts: in sentences, then in Nsight Compute's sections."""
    from warpschool.show.prediction import prediction_tables

    output.show(found.explain())
    for table in prediction_tables(found, source):
        output.table(table)


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
