"""A lab's questions as text and as HTML: with the answers behind folds, for pages and for notebooks without widgets."""

from __future__ import annotations

import re
from collections.abc import Iterable

from warpschool.questions import Question
from warpschool.show.page import details, escape

_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*")
LETTERS = "abcdefghij"


def marked(text: str) -> str:
    """Text as HTML: what stands between backticks is code, between double asterisks bold."""
    found = _INLINE.sub(_mark, escape(text))
    return "".join(f"<p>{paragraph}</p>" for paragraph in found.split("\n\n"))


def _mark(match: re.Match[str]) -> str:
    return f"<code>{match[1]}</code>" if match[1] else f"<strong>{match[2]}</strong>"


def plain(text: str) -> str:
    """The same for a terminal: without the marks."""
    return _INLINE.sub(lambda match: match[1] or match[2], text)


def numbered(code: str) -> str:
    """Code with its lines numbered from 1; "" for none."""
    return "\n".join(f"{number:2}  {line}" for number, line in enumerate(code.splitlines(), start=1))


def question_text(question: Question, place: int) -> str:
    """A question as a terminal shows it, without its answer."""
    lines = [f"{place}. [{question.id}] {plain(question.ask)}"]
    if question.code:
        lines += ["", numbered(question.code), ""]
    lines += [f"   {letter}) {plain(said)}" for letter, said in zip(LETTERS, question.options, strict=False)]
    return "\n".join(lines)


def asked_html(question: Question, place: int) -> str:
    """A question without its answer."""
    code = f"<pre><code>{escape(numbered(question.code))}</code></pre>" if question.code else ""
    options = "".join(f"<li>{marked(said)}</li>" for said in question.options)
    listed = f'<ol type="a">{options}</ol>' if options else ""
    return f"<div><p><strong>{place}.</strong></p>{marked(question.ask)}{code}{listed}</div>"


def explained_html(question: Question) -> str:
    """The answer, why it is right, and why others are not."""
    why = {"order": "Why each stands where it does", "number": "Answers that come often, and what they forget"}
    head = why.get(question.kind, "Why not the others")
    reasons = question.reasons.items()
    rows = "".join(f"<dt>{_named(question, said)}</dt><dd>{marked(reason)}</dd>" for said, reason in reasons)
    others = f"<p><em>{head}</em></p><dl>{rows}</dl>" if rows else ""
    mended = f"<p>Mended:</p><pre><code>{escape(question.mended)}</code></pre>" if question.mended else ""
    answer = _INLINE.sub(_mark, escape(question.right_text))
    return f"<p><strong>{answer}</strong></p>{marked(question.why)}{mended}{others}"


def _named(question: Question, said: str) -> str:
    """A wrong answer with its letter, its unit, or as a line."""
    if said in question.options:
        return f"{LETTERS[question.options.index(said)]}) {_INLINE.sub(_mark, escape(said))}"
    return f"line {escape(said)}" if question.kind == "bug" else f"{escape(said)} {escape(question.unit)}".rstrip()


def check_yourself(found: Iterable[Question]) -> str:
    """All questions of a lab for a page, each with its answer behind a fold."""
    return "\n".join(
        f'<section class="question" id="check-{question.id}">{asked_html(question, place)}'
        f"{details('Answer', explained_html(question))}</section>"
        for place, question in enumerate(found, start=1)
    )
