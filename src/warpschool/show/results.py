"""What a notebook shows for a kernel cell, a check and wrong results: findings on their lines, hints, a map."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import itemgetter

from warpschool.errors import CompileError, ContractError, WarpschoolError
from warpschool.grading.result import Criterion, Result
from warpschool.grading.verdicts import Observed, case_words
from warpschool.harness.compare import WrongMap
from warpschool.show.exhibit import Exhibit, View
from warpschool.show.notes import briefly, diagnostic_notes, note_on, observed_notes
from warpschool.show.page import details, escape, notebook_box
from warpschool.show.source import Excerpt, ExcerptLine, Note, coloured_lines, marked_source
from warpschool.show.svg import Svg
from warpschool.show.table import Cell, Table

_LEVELS = ("Hint 1 of 3: a nudge", "Hint 2 of 3: where to look", "Hint 3 of 3: pseudocode")
_LEFT, _TOP = 56, 34
_WIDEST = 640.0
_LARGEST, _SMALLEST = 14.0, 7.0


# ---------------------------------------------------------------- a cell


def compiled_html(step: str, name: str, uses: Sequence[str], source: str) -> str:
    """A kernel that compiles: what it uses, and its source in colour, to be opened."""
    items = "".join(f"<li>{escape(text)}</li>" for text in uses)
    shown = details("The kernel in colour", marked_source(source, (), name=name))
    return notebook_box(
        f'<p><b>{escape(step)}</b> <span class="good">✓ compiles</span></p><ul class="facts">{items}</ul>{shown}'
    )


def failed_html(step: str, name: str, error: WarpschoolError, source: str) -> str:
    """A kernel that does not compile, or whose header is wrong: each message below its line."""
    what, notes = _trouble(error)
    head = f'<p><b>{escape(step)}</b> <span class="bad">✗ {escape(what)}</span></p>'
    next_step = f"<p>{escape(error.next_step)}</p>" if error.next_step else ""
    if not notes or any(note.line > source.count("\n") + 1 for note in notes):
        return notebook_box(f'{head}<pre class="seen">{escape(error)}</pre>')
    return notebook_box(head + marked_source(source, notes, name=name, around=2) + next_step)


def _trouble(error: WarpschoolError) -> tuple[str, list[Note]]:
    """What is wrong, and the notes that say where."""
    if isinstance(error, CompileError):
        notes = diagnostic_notes(error.diagnostics)
        count = sum(not note.text.startswith("warning") for note in notes)
        return "does not compile" + (f": {count} error{'s' * (count != 1)}" if count else ""), notes
    if isinstance(error, ContractError):
        return "the header cannot be used", [Note(error.line, error.message)] if error.line else []
    return "cannot be used", []


# ---------------------------------------------------------------- a check


def result_html(result: Result, *, source: str = "") -> str:
    """Verdict, points, and for each failed criterion what was seen, where, and hints that the student opens one by one.

    With the `source` that was checked, both lines of a race are shown, and the lines around.
    """
    kind, sign = ("good", "✓") if result.ok else ("bad", "✗")
    head = (
        f'<p><b>{escape(result.step)}</b>: <span class="{kind}">{sign} {escape(result.verdict)}, '
        f"{escape(result.verdict.meaning)}</span>, {result.score:.4g} of {result.max_score:.4g} points</p>"
    )
    if result.not_on_gpu:
        head += f"<p>On the simulator alone, as this GPU cannot run it: {escape(result.not_on_gpu)}</p>"
    head += "".join(f"<p>The compiler warns: {escape(warning)}</p>" for warning in result.warnings)
    if result.seen:
        return notebook_box(head + _observed(result, source))
    rows = [
        [_title(c), met_cell(c), f"{c.points:.3g} of {c.weight:.3g}" if c.is_judged else ""] for c in result.criteria
    ]
    table = Table.of("", ["criterion", "met?", "points"], rows).html(label="criteria", kind="criteria")
    return notebook_box(head + table + _failures(result.criteria, source))


def hints_html(hints: Sequence[str], *, about: str = "") -> str:
    """The hints of a criterion, each behind a button inside the one before it; the last level is code."""
    markup = ""
    for level in reversed(range(len(hints))):
        said = f"<pre>{escape(hints[level])}</pre>" if level == 2 else f"<p>{escape(hints[level])}</p>"
        title = (
            f"{escape(about)}: {_LEVELS[level][0].lower()}{_LEVELS[level][1:]}"
            if about and not level
            else _LEVELS[level]
        )
        markup = f'<details class="hint"><summary>{title}</summary>{said}{markup}</details>'
    return markup


def _title(criterion: Criterion) -> Cell:
    """A criterion, and what was held against a limit; of a failure its finding says it."""
    told = "; ".join(criterion.measured) if criterion.ok else "" if criterion.is_judged else criterion.seen
    return Cell(criterion.title, below=(told,) if told else ())


def met_cell(criterion: Criterion) -> Cell:
    """Whether a criterion is met, or else its verdict; of one that is not judged neither."""
    if not criterion.is_judged:
        return Cell("not judged here", "soft")
    return Cell("✓ met", "good") if criterion.ok else Cell(f"✗ {criterion.verdict}", "bad")


def alike(criteria: Iterable[Criterion]) -> list[list[Criterion]]:
    """The failed criteria in groups that can be told together: one verdict at one line. What was counted is told for
    each criterion by itself."""
    groups: dict[tuple[str, int, str], list[Criterion]] = {}
    for criterion in criteria:
        if not criterion.ok and criterion.is_judged:
            own = criterion.seen if criterion.verdict == "PERF" or criterion.counts else ""
            groups.setdefault((str(criterion.verdict), criterion.line, own), []).append(criterion)
    return list(groups.values())


def _failures(criteria: Sequence[Criterion], source: str) -> str:
    return "".join(_failed(group, source) for group in alike(criteria))


def _failed(group: list[Criterion], source: str) -> str:
    first = group[0]
    titles = ", ".join(criterion.title for criterion in group)
    counted = ""
    if first.verdict == "PERF" and first.counts:
        counted = f'<p class="soft">Counted: {escape(first.counts)}.</p>'
    picture = mismatch_exhibit(first.wrong).html() if first.wrong else ""
    once = {c.hint: c for c in reversed(group)}
    hints = "".join(hints_html(c.hint, about=c.title if len(once) > 1 else "") for c in group if once[c.hint] is c)
    unlike = (c for c in group[1:] if c.seen != first.seen)
    others = "".join(f'<p class="soft">{escape(c.title)}: {escape(briefly(c))}</p>' for c in unlike)
    # hints before the map: it is tall, and who looks for help must not have to scroll
    return f'<p class="failed"><b>{escape(titles)}</b></p>{_observed(first, source)}{others}{counted}{hints}{picture}'


def _observed(about: Observed, source: str) -> str:
    """What was seen, on its line where one is to blame, and on the other thread's line where there is one."""
    label = f"line {about.line}, at {case_words(about.case)}" if about.case else f"line {about.line}"
    notes = observed_notes(source, about) if source else []
    if notes:
        return marked_source(source, notes, name=label, around=1)
    if about.line and "\n" not in about.message and about.code:
        array = about.finding.variable if about.finding is not None else ""
        note = note_on(about.code, 1, about.message, array=array)
        if note is not None:
            line = ExcerptLine(about.line, coloured_lines(about.code)[0], (replace(note, line=about.line),))
            return Excerpt((line,)).html(name=label)
    return f'<pre class="seen">{escape(about.seen)}</pre>'


# ---------------------------------------------------------------- wrong results


def mismatch_exhibit(found: WrongMap) -> Exhibit:
    """The map with its text and the wrong boxes in a table."""
    said = f"{found.wrong:,} of {found.count:,} elements are wrong" + (f": {found.pattern}" if found.pattern else "")
    label = f"Wrong elements of {found.name}. " + _scale(found)
    alt = f"Map of {found.name}, {_size(found)}: {said}. Wrong are {'; '.join(_places(found, 4))}."
    picture = View(mismatch_svg(found), label, alt)
    return Exhibit(f"{found.name}, {_size(found)}", f"{said}.", (picture,), (_sheet(found),))


def mismatch_svg(found: WrongMap) -> Svg:
    """Boxes that hold wrong elements are crossed and filled, the fuller the more of them are wrong."""
    down, across = len(found.rows), len(found.rows[0])
    side = max(_SMALLEST, min(_LARGEST, _WIDEST / across))
    svg = Svg(max(_LEFT + across * side + 20, 300), _TOP + down * side + 40)
    near, far = f"{side * 0.28:.1f}", f"{side * 0.72:.1f}"
    svg.define(
        f'<pattern id="cross" x="{_LEFT}" y="{_TOP}" width="{side:g}" height="{side:g}" patternUnits="userSpaceOnUse">'
        f'<path d="M{near} {near}L{far} {far}M{far} {near}L{near} {far}" style="stroke:var(--panel);stroke-width:1.6"/>'
        "</pattern>"
    )
    svg.rect(_LEFT, _TOP, across * side, down * side, "f")
    for row, marks in enumerate(found.rows):
        for run in re.finditer(r"([1-9#])\1*", marks):
            x, y, width = _LEFT + run.start() * side, _TOP + row * side, len(run[0]) * side
            share = 1.0 if run[1] == "#" else int(run[1]) / 10
            svg.rect(x, y, width, side, "", style=f"fill:var(--bad);fill-opacity:{0.35 + 0.65 * share:.2f}")
            svg.rect(x, y, width, side, "", style="fill:url(#cross)")
    for row in range(down + 1):
        svg.line(_LEFT, _TOP + row * side, _LEFT + across * side, _TOP + row * side, "g", style="stroke-width:.6")
    for column in range(across + 1):
        svg.line(_LEFT + column * side, _TOP, _LEFT + column * side, _TOP + down * side, "g", style="stroke-width:.6")
    _axes(svg, found, side)
    return svg


def _axes(svg: Svg, found: WrongMap, side: float) -> None:
    down, across = len(found.rows), len(found.rows[0])
    for column in range(0, across, _power_of_two(36 / side)):
        svg.text(_LEFT + (column + 0.5) * side, _TOP - 6, column * found.box_columns, "s m k")
    for row in range(0, down, _power_of_two(18 / side)):
        svg.text(_LEFT - 6, _TOP + (row + 0.5) * side + 4, row * found.box_rows, "s e k")
    svg.text(_LEFT, 14, "column →" if len(found.shape) > 1 else "element →", "s k")
    y = _TOP + down * side + 24
    svg.rect(_LEFT, y - 11, 14, 14, "", style="fill:var(--bad)")
    svg.path(f"M{_LEFT + 4} {y - 7}l6 6m0 -6l-6 6", style="stroke:var(--panel);stroke-width:1.6")
    svg.text(_LEFT + 20, y, "wrong", "s")
    svg.rect(_LEFT + 70, y - 11, 14, 14, "f", style="stroke:var(--edge)")
    svg.text(_LEFT + 90, y, "right", "s")


def _power_of_two(least: float) -> int:
    return 1 << max(0, math.ceil(math.log2(least)))


def _size(found: WrongMap) -> str:
    size = " x ".join(f"{n:,}" for n in found.shape)
    return size if len(found.shape) > 1 else f"{size} elements"


def _scale(found: WrongMap) -> str:
    if found.box_rows == found.box_columns == 1:
        scale = "A box is an element."
    else:
        scale = f"A box is {found.box_rows} x {found.box_columns} elements; the fuller, the more of them are wrong."
    if len(found.shape) == 1 and len(found.rows) > 1:
        return f"{scale} The array is drawn in rows of {found.columns} elements."
    return f"{scale} All dimensions but the last are drawn below each other." if len(found.shape) > 2 else scale


def _places(found: WrongMap, most: int) -> list[str]:
    """Ranges of rows and columns of boxes with wrong elements, equal neighbours together."""
    told = []
    for marks, run in itertools.groupby(enumerate(found.rows), key=itemgetter(1)):
        rows = [number for number, _ in run]
        if marks.strip("."):
            end = min((rows[-1] + 1) * found.box_rows, found.height)
            told.append(f"{_range('row', rows[0] * found.box_rows, end)}, {_columns(found, marks)}")
    return told if len(told) <= most else [*told[:most], f"and {len(told) - most} more groups of rows"]


def _columns(found: WrongMap, marks: str) -> str:
    runs = [
        _range("", r.start() * found.box_columns, min(r.end() * found.box_columns, found.columns))
        for r in re.finditer(r"[1-9#]+", marks)
    ]
    more = f" and {len(runs) - 6} more ranges" if len(runs) > 6 else ""
    return f"columns {', '.join(runs[:6])}{more}"


def _range(what: str, start: int, end: int) -> str:
    if end - start == 1:
        return f"{what} {start}".strip()
    return f"{what}{'s' if what else ''} {start} to {end - 1}".strip()


def _sheet(found: WrongMap) -> Table:
    rows = [place.split(", ", 1) for place in _places(found, 64)]
    return Table.of(
        f"Where {found.name} is wrong", ["rows", "columns with wrong elements"],
        [[first, rest[0] if rest else ""] for first, *rest in rows], wide=["columns with wrong elements"],
    )  # fmt: skip
