"""Kernels and findings drawn for a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from rich.text import Text

from warpschool.cli.output import Cell, Output
from warpschool.inspect.profile import KernelReport
from warpschool.model import agreement
from warpschool.show.columns import percent, shares, used_columns
from warpschool.show.frame import Frame, frame, places_in, split_case
from warpschool.show.highlight import coloured_lines
from warpschool.show.kernel_page import SHOWN_HAZARDS, kernel_facts

_STYLES = {
    "comment": "dim italic", "keyword": "magenta", "directive": "magenta", "type": "cyan", "number": "yellow",
    "string": "green", "cuda": "bold green", "plain": "",
}  # fmt: skip
_GLUE = "\N{NO-BREAK SPACE}"
_HOT, _HOTTER = 0.05, 0.25
_CODE_WIDTH = 90


def code(line: str) -> Text:
    """A line of CUDA C++ in colour."""
    text = Text()
    for kind, piece in coloured_lines(line)[0] if line else ():
        text.append(piece, style=_STYLES[kind])
    return text


def draw_frame(output: Output, drawn: Frame) -> None:
    """A few lines of source, a mark under the words in question, and the message with its threads made bold."""
    for line in drawn.lines:
        arrow = (">", "bold red") if line.is_hit else " "
        output.show("  ", arrow, (f" {line.number:4} | ", "dim"), code(line.text))
        if line.is_hit:
            output.show(("         | ", "dim"), " " * drawn.start, ("^" * drawn.width, "bold red"))
            indent = len(line.text) - len(line.text.lstrip())
            for row in _wrapped(drawn.message, output.console.width - indent - 12):
                output.show(("         | ", "dim"), " " * indent, emphasised(row))


def emphasised(message: str) -> Text:
    """A hazard's message: threads and blocks stand out."""
    text = Text(message, style="red")
    for start, end in places_in(message):
        text.stylize("bold", start, end)
    return text


def draw_finding(output: Output, source: str, line: int, message: str) -> None:
    """A message on its source line; alone where it has no line, or quotes the source itself, as a compiler's does."""
    case, message = split_case(message)
    if case:
        output.show("    at ", case, style="dim")
    drawn = frame(source, line, message) if line and "\n" not in message else None
    if drawn is not None:
        draw_frame(output, drawn)
        return
    for row in message.splitlines():
        output.show("    ", row)


def _wrapped(message: str, width: int) -> list[str]:
    """Lines of at most `width`; "thread (0, 1, 0)" stays in one piece."""
    glued = re.sub(r"\b(thread|block) \([^)]*\)", lambda match: match.group().replace(" ", _GLUE), message)
    rows = [part for row in glued.splitlines() for part in textwrap.wrap(row, max(40, min(width, 96)))]
    return [row.replace(_GLUE, " ") for row in rows]


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
    rows: list[Sequence[Cell]] = []
    for number, line in enumerate(report.source.split("\n"), start=1):
        counters = report.lines.get(number)
        if counters is None:
            continue
        part = share.get(number, 0.0)
        style = "bold reverse yellow" if part >= _HOTTER else "bold yellow" if part >= _HOT else ""
        short_line = line.expandtabs(4) if len(line) <= _CODE_WIDTH else line.expandtabs(4)[: _CODE_WIDTH - 3] + "..."
        said = Text(percent(part) if part >= 0.005 else "", style=style)
        rows.append([str(number), said, *(column.text(counters) for column in columns), code(short_line)])
    heads = ["line", "share", *(column.head for column in columns)]
    output.table([*heads, "source"], rows, numbers=heads)
