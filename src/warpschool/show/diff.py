"""`diff`: what changes between two steps, and what that does to the counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ptxsim.counters import COUNTERS
from warpschool.counters import Counters
from warpschool.harness.source import Kind, resolve
from warpschool.inspect.difference import Difference, difference
from warpschool.show.columns import short
from warpschool.show.exhibit import Exhibit
from warpschool.show.page import escape
from warpschool.show.source import GAP, code_table, coloured_html
from warpschool.show.table import Table

_SIGNS = {"+": "added", "-": "removed"}
_TOLD = {
    "global_load_sectors", "global_store_sectors", "global_load_bytes", "shared_load_wavefronts", "warp_instructions",
    "shared_load_requests", "shared_bank_conflicts", "barriers", "global_load_requests",
}  # fmt: skip


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
    old, new = (resolve(which, kind, otherwise=otherwise) for which in (before, after))
    return difference_exhibit(difference(old, new, sizes, around=around), (before, after))


def difference_exhibit(found: Difference, names: tuple[str, str]) -> Exhibit:
    """A difference with its lines, its counters, and what moved most in a sentence; `names` are the short ones."""
    title = f"From {names[0]} to {names[1]}"
    label = f"Lines that change from {names[0]} to {names[1]}"
    if names[0] == names[1]:
        names = (f"{names[0]}, once", f"{names[1]}, again")
    added = f"{found.added} line{'s' * (found.added != 1)} added"
    said = f"{added}, {found.removed} removed" if found.lines else "The code is the same"
    note = ""
    sheets: tuple[Table, ...] = ()
    if found.counted is not None:
        old, new = found.counted
        if old.counters is None or new.counters is None:
            pairs = zip(names, found.counted, strict=True)
            note = " ".join(f"{name}: {one.case}" for name, one in pairs if one.counters is None)
        else:
            sheets = (_table(names, old.counters, new.counters),)
            moved = _moved(old.counters, new.counters)
            said += f"; {moved}" if moved else "; every counter is the same"
            note = f"Counted at {old.case}" + ("." if old.case == new.case else f", then {new.case}.")
    more = ""
    if found.lines:
        more = code_table(_rows(found.lines), f"{label}: - removed, + added", label=label, heads=("change", "line"))
    return Exhibit(title, f"{said}.", sheets=sheets, note=note, more=more, more_text="\n".join(found.lines),
                   open_table=True)  # fmt: skip


def _table(names: tuple[str, str], before: Counters, after: Counters) -> Table:
    """The counters that are not zero in both."""
    pairs = {c.name: (before[c.name], after[c.name]) for c in COUNTERS}
    rows = [
        [name.replace("_", " "), f"{old:,}", f"{new:,}", _change(old, new)]
        for name, (old, new) in pairs.items()
        if old or new
    ]
    return Table.of("Counters before and after", ["counter", *names, "change"], rows)


def _moved(before: Counters, after: Counters) -> str:
    """The largest changes in words."""
    pairs = [(name, before[name], after[name]) for name in (counter.name for counter in COUNTERS) if name in _TOLD]
    moved = [(name, old, new) for name, old, new in pairs if old and new and not 0.9 < new / old < 1.1]
    moved.sort(key=lambda pair: -max(pair[2] / pair[1], pair[1] / pair[2]))
    return ", ".join(f"{name.replace('_', ' ')} {_change(old, new)}" for name, old, new in moved[:3])


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


def _rows(lines: tuple[str, ...]) -> Iterator[str]:
    for line in lines:
        if line.startswith("@@"):
            yield GAP
            continue
        sign, text = line[:1], line[1:].expandtabs(4)
        kind = _SIGNS.get(sign, "")
        shade = f' class="{kind}"' if kind else ""
        spoken = f'<span class="hidden">{kind}</span>' if kind else ""
        yield (
            f'<tr{shade}><th scope="row">{spoken}{escape(sign)}</th>'
            f'<td class="src"><code>{coloured_html(text)}</code></td></tr>'
        )
