"""What a notebook shows for the result of a check: criteria, findings on their lines, hints to be opened."""

from __future__ import annotations

from collections.abc import Sequence

from warpschool.grading.result import Criterion, Result
from warpschool.show.annotated import frame_table, marked_source
from warpschool.show.frame import Frame, FrameLine, frame, split_case
from warpschool.show.mismatch_picture import mismatch_exhibit
from warpschool.show.notes import hazard_notes
from warpschool.show.page import cell, escape, notebook_box, scrolling

_LEVELS = ("Hint 1 of 3: a nudge", "Hint 2 of 3: where to look", "Hint 3 of 3: pseudocode")


def result_html(result: Result, *, source: str = "") -> str:
    """Verdict, points, and for each failed criterion what was seen, where, and hints that the student opens one by one.

    With the `source` that was checked, both lines of a race are shown, and the lines around.
    """
    kind = "good" if result.ok else "bad"
    sign = "✓" if result.ok else "✗"
    head = (
        f'<p><b>{escape(result.step)}</b>: <span class="{kind}">{sign} {escape(result.verdict)}, '
        f"{escape(result.verdict.meaning)}</span>, {result.score:g} of {result.max_score:g} points</p>"
    )
    if result.not_on_gpu:
        head += f"<p>On the simulator alone, as this GPU cannot run it: {escape(result.not_on_gpu)}</p>"
    if result.seen:
        return notebook_box(head + _finding(result.line, result.code, result.seen, source))
    rows = "".join(
        f'<tr><th scope="row">{escape(c.title)}{_counted(c)}</th>{_met(c)}{cell(f"{c.points:g} of {c.weight:g}")}</tr>'
        for c in result.criteria
    )
    columns = "".join(f'<th scope="col">{name}</th>' for name in ("criterion", "met?", "points"))
    table = f'<table class="criteria"><thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table>'
    return notebook_box(head + scrolling("criteria", table) + _failures(result.criteria, source))


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


def _met(criterion: Criterion) -> str:
    return cell("✓ met", "good") if criterion.ok else cell(f"✗ {criterion.verdict}", "bad")


def _counted(criterion: Criterion) -> str:
    """What was held against a limit; of a failure its finding says it."""
    told = "; ".join(criterion.measured) if criterion.ok else ""
    return f'<span class="title">{escape(told)}</span>' if told else ""


def _failures(criteria: Sequence[Criterion], source: str) -> str:
    """What was seen for each failed criterion; those that failed alike, at the same line, are told once."""
    alike: dict[tuple[str, int], list[Criterion]] = {}
    for criterion in criteria:
        if not criterion.ok:
            alike.setdefault((str(criterion.verdict), criterion.line), []).append(criterion)
    return "".join(_failed(group, source) for group in alike.values())


def _failed(group: list[Criterion], source: str) -> str:
    first = group[0]
    titles = ", ".join(criterion.title for criterion in group)
    counted = ""
    if first.verdict == "PERF" and first.counts:
        counted = f'<p class="soft">Counted: {escape(first.counts)}.</p>'
    picture = mismatch_exhibit(first.wrong).html() if first.wrong else ""
    hints = "".join(hints_html(c.hint, about=c.title if len(group) > 1 else "") for c in group)
    # hints before the map: it is tall, and who looks for help must not have to scroll
    return (
        f'<p class="failed"><b>{escape(titles)}</b></p>{_finding(first.line, first.code, first.seen, source)}'
        f"{counted}{hints}{picture}"
    )


def _finding(line: int, code: str, seen: str, source: str) -> str:
    """What was seen, on its line where one is to blame, and on the other thread's line where there is one."""
    case, message = split_case(seen)
    label = f"line {line}, at {case}" if case else f"line {line}"
    if "\n" in message or not line:
        return f'<pre class="seen">{escape(seen)}</pre>'
    notes = hazard_notes(source, line, message) if source else []
    if notes:
        return marked_source(source, notes, name=label, around=1)
    drawn = frame(code, 1, message, around=0)
    if drawn is None:
        return f'<pre class="seen">{escape(seen)}</pre>'
    return frame_table(Frame((FrameLine(line, code, True),), drawn.start, drawn.width, message), label=label)
