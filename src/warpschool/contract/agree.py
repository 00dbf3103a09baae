"""Does a submission still promise what its step asks for?"""

from __future__ import annotations

from warpschool.contract.model import Contract, Entry
from warpschool.errors import EntryError
from warpschool.suggest import did_you_mean


def require_same_entries(submission: Contract, step: Contract) -> None:
    """Raise EntryError unless the submission has every entry of the step, unchanged.

    Compared are names, types, order, shapes and directions of the parameters, and which of their arrays start at zero.
    Further kernels, scratch arrays, constexprs and every Launch line are free.
    """
    if submission.target != step.target:
        raise EntryError(
            f"this step is written for {step.target or 'any GPU'}, this file for {submission.target or 'any GPU'}",
            file=submission.name, line=submission.entries[0].line,
            next_step=f"Restore the line: // Target: {step.target}" if step.target else "Remove the Target line.",
        )  # fmt: skip
    own = {entry.name: entry for entry in submission.entries}
    for entry in step.entries:
        if entry.name not in own:
            raise EntryError(
                f"this step asks for a kernel '{entry.name}', which has no Entry line here", file=submission.name,
                line=submission.entries[0].line,
                next_step=f"{did_you_mean(entry.name, own)} The step's line is: // Entry: {entry}".strip(),
            )  # fmt: skip
        if own[entry.name].parameters != entry.parameters:
            raise EntryError(
                _difference(own[entry.name], entry), file=submission.name, line=own[entry.name].line,
                next_step=f"Restore the step's line: // Entry: {entry}",
            )  # fmt: skip
        _require_same_zeros(submission, step, entry)
    _require_same_parts(submission, step)


def _require_same_parts(submission: Contract, step: Contract) -> None:
    """Raise EntryError where a Scratch line or a further kernel makes of the step's inputs or outputs something else.

    An input that a kernel of the file's own writes first would be one that nobody brings, and nobody checks.
    """
    own = submission.array_directions()
    for name, part in step.array_directions().items():
        if own.get(name, part) != part:
            line = next((e.line for e in submission.entries if any(p.name == name for p in e.parameters)), 0)
            raise EntryError(
                f"'{name}' is '{part}' in this step, and '{own[name]}' in the order of kernels here",
                file=submission.name, line=line,
                next_step=f"Give the array of your own kernel another name than '{name}'.",
            )  # fmt: skip


def _difference(own: Entry, wanted: Entry) -> str:
    if len(own.parameters) != len(wanted.parameters):
        return f"'{own.name}' has {len(own.parameters)} parameters; this step asks for {len(wanted.parameters)}"
    pairs = enumerate(zip(own.parameters, wanted.parameters, strict=True), start=1)
    number, mine, theirs = next((number, *pair) for number, pair in pairs if pair[0] != pair[1])
    return f"parameter {number} of '{own.name}' is '{mine}'; this step asks for '{theirs}'"


def _require_same_zeros(submission: Contract, step: Contract, entry: Entry) -> None:
    for parameter in entry.parameters:
        here, there = parameter.name in submission.zeroed, parameter.name in step.zeroed
        if here == there:
            continue
        what = "starts at zero here, but not in this step" if here else "starts at zero in this step, but not here"
        word = "Remove it from" if here else "Add it to"
        raise EntryError(
            f"'{parameter.name}' {what}", file=submission.name, line=submission.entry(entry.name).line,
            next_step=f"{word} the line: // Zeroed: {parameter.name}",
        )  # fmt: skip
