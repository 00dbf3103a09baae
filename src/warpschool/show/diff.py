"""`diff`: what changes between two steps, and what that does to the counters."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

import numpy as np

from ptxsim.counters import COUNTERS
from warpcourse.ladder import code_of
from warpschool.contract import Contract
from warpschool.counters import Counters
from warpschool.errors import ArgumentError, WarpschoolError
from warpschool.harness.launcher import Program, given_sizes, random_inputs
from warpschool.harness.source import Kind, resolve
from warpschool.inspect.profile import case_text, usual_sizes
from warpschool.show.annotated import coloured_html
from warpschool.show.columns import short
from warpschool.show.exhibit import Exhibit
from warpschool.show.page import escape, scrolling
from warpschool.show.sheet import Sheet
from warpschool.suggest import did_you_mean

_SIGNS = {"+": "added", "-": "removed", " ": ""}


def diff(
    before: str, after: str, sizes: Mapping[str, float] | None = None, *, references: bool = False, around: int = 3
) -> Exhibit:
    """Show what changes between two steps or .cu files: the lines, and the counters of a run of each before and after.

    Of steps the student's own kernels are compared (the last `%%kernel` cell, else the personal copy's file, else the
    starter), with `references` the course's solutions. Both run on the simulator at `sizes`; what is not given is as
    in `warpschool profile`. A kernel that does not run says why, and its counters are left out.
    """
    kind: Kind = "reference" if references else "begun"
    otherwise = "Leave out references=True." if references else ""
    contracts = [resolve(step, kind, otherwise=otherwise).contract() for step in (before, after)]
    asked = given_sizes(sizes)
    there = {name for contract in contracts for name in usual_sizes(contract)}
    if unknown := asked.keys() - there:
        name = min(unknown)
        raise ArgumentError(f"neither kernel has a size {name}", next_step=did_you_mean(name, sorted(there)))
    names = (before, after) if before != after else (f"{before}, once", f"{before}, again")
    old, new = (code_of(contract.source).splitlines() for contract in contracts)
    lines = list(difflib.unified_diff(old, new, *names, lineterm="", n=around))[2:]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    counted = [_counted(contract, asked) for contract in contracts]
    problems = [f"{name}: {said}" for name, (counters, said) in zip(names, counted, strict=True) if counters is None]
    sheets: tuple[Sheet, ...] = ()
    note = " ".join(problems)
    first, second = counted[0][0], counted[1][0]
    said = f"{_lines(added)} added, {removed} removed" if lines else "The code is the same"
    if first is not None and second is not None:
        sheet, moved = _sheet(names, first, second)
        sheets = (sheet,)
        said += f"; {moved}" if moved else "; every counter is the same"
        note = f"Counted at {counted[0][1]}" + ("." if counted[0][1] == counted[1][1] else f", then {counted[1][1]}.")
    return Exhibit(
        f"From {before} to {after}", f"{said}.", sheets=sheets, note=note, more=_diff_html(lines, names),
        more_text="\n".join(lines), open_table=True,
    )  # fmt: skip


def _counted(contract: Contract, sizes: Mapping[str, float]) -> tuple[Counters | None, str]:
    """The counters of one run and its case in words; (None, why) where it cannot be run."""
    try:
        known = usual_sizes(contract)
        plan = contract.bind(known | {name: value for name, value in sizes.items() if name in known})
        inputs = random_inputs(plan, np.random.default_rng(0))
        run = Program(contract, device="sim").run(plan.scalars, inputs, check=False)
        return run.counters, case_text(plan)
    except WarpschoolError as error:
        return None, f"not counted: {str(error).splitlines()[0]}."


def _sheet(names: tuple[str, str], before: Counters, after: Counters) -> tuple[Sheet, str]:
    """The counters that are not zero in both, and the largest changes in words."""
    rows, moved = [], []
    for counter in COUNTERS:
        old, new = before[counter.name], after[counter.name]
        if not old and not new:
            continue
        rows.append([counter.name.replace("_", " "), f"{old:,}", f"{new:,}", _change(old, new)])
        if old and new and counter.name in _TOLD and not 0.9 < new / old < 1.1:
            moved.append((max(new / old, old / new), f"{counter.name.replace('_', ' ')} {_change(old, new)}"))
    moved.sort(key=lambda item: -item[0])
    said = ", ".join(text for _, text in moved[:3])
    return Sheet.of("Counters before and after", ["counter", names[0], names[1], "change"], rows), said


_TOLD = {
    "global_load_sectors", "global_store_sectors", "global_load_bytes", "shared_load_wavefronts", "warp_instructions",
    "shared_load_requests", "shared_bank_conflicts", "barriers", "global_load_requests",
}  # fmt: skip


def _change(old: int, new: int) -> str:
    """ "÷ 16", "x 2", "+3 %", "new", "gone", "same"."""
    if old == new:
        return "same"
    if not old or not new:
        return "new" if new else "gone"
    factor = new / old
    if 0.67 < factor < 1.5:
        return f"{100 * (factor - 1):+.0f} %" if abs(factor - 1) >= 0.005 else f"{short(new - old)}"
    return f"× {factor:.3g}" if factor > 1 else f"÷ {1 / factor:.3g}"


def _lines(count: int) -> str:
    return f"{count} line{'s' * (count != 1)}"


def _diff_html(lines: list[str], names: tuple[str, str]) -> str:
    if not lines:
        return ""
    label = f"Lines that change from {names[0]} to {names[1]}"
    head = '<thead class="hidden"><tr><th scope="col">change</th><th scope="col" class="src">line</th></tr></thead>'
    rows = "\n".join(_diff_rows(lines))
    caption = f"<caption>{escape(label)}: - removed, + added</caption>"
    return scrolling(label, f'<table class="code">{caption}{head}<tbody>\n{rows}\n</tbody></table>')


def _diff_rows(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith("@@"):
            yield '<tr class="gap"><td></td><td class="src">⋯</td></tr>'
            continue
        sign, text = line[:1], line[1:].expandtabs(4)
        kind = f' class="{_SIGNS[sign]}"' if _SIGNS.get(sign) else ""
        spoken = f'<span class="hidden">{_SIGNS[sign]}</span>' if _SIGNS.get(sign) else ""
        code = f'<td class="src"><code>{coloured_html(text)}</code></td>'
        yield f'<tr{kind}><th scope="row">{spoken}{escape(sign)}</th>{code}</tr>'
