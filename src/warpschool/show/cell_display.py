"""What a `%%kernel` cell shows: the kernel in colour, or the compiler's messages under their lines."""

from __future__ import annotations

from collections.abc import Sequence

from warpschool.errors import CompileError, ContractError, WarpschoolError
from warpschool.show.annotated import marked_source
from warpschool.show.notes import Note, diagnostic_notes
from warpschool.show.page import escape, notebook_box


def compiled_html(step: str, name: str, uses: Sequence[str], source: str) -> str:
    """A kernel that compiles: what it uses, and its source in colour, to be opened."""
    items = "".join(f"<li>{escape(text)}</li>" for text in uses)
    shown = marked_source(source, (), name=name)
    return notebook_box(
        f'<p><b>{escape(step)}</b> <span class="good">✓ compiles</span></p><ul class="facts">{items}</ul>'
        f"<details><summary>The kernel in colour</summary>{shown}</details>"
    )


def failed_html(step: str, name: str, error: WarpschoolError, source: str) -> str:
    """A kernel that does not compile, or whose header is wrong: each message below its line."""
    notes = _notes(error)
    head = f'<p><b>{escape(step)}</b> <span class="bad">✗ {escape(_what(error, notes))}</span></p>'
    next_step = f"<p>{escape(error.next_step)}</p>" if error.next_step else ""
    rows = source.count("\n") + 1
    if not notes or any(note.line > rows for note in notes):
        return notebook_box(f'{head}<pre class="seen">{escape(error)}</pre>')
    return notebook_box(head + marked_source(source, notes, name=name, around=2) + next_step)


def _notes(error: WarpschoolError) -> list[Note]:
    if isinstance(error, CompileError):
        return diagnostic_notes(error.diagnostics)
    if isinstance(error, ContractError) and error.line:
        return [Note(error.line, error.message)]
    return []


def _what(error: WarpschoolError, notes: Sequence[Note]) -> str:
    if not isinstance(error, CompileError):
        return "the header cannot be used" if isinstance(error, ContractError) else "cannot be used"
    count = sum(not note.text.startswith("warning") for note in notes)
    return f"does not compile: {count} error{'s' * (count != 1)}" if count else "does not compile"
