"""What changes between two steps or kernel files: lines of code, and what that does to the counters."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpschool.counters import Counters
from warpschool.errors import ArgumentError, ContractError, WarpschoolError
from warpschool.harness.launcher import Program, given_sizes, random_inputs
from warpschool.harness.source import Source
from warpschool.inspect.profile import case_text, usual_sizes
from warpschool.suggest import did_you_mean

_LEFT_OUT = re.compile(
    r"^[^\n]*// BEGIN STARTER.*?// END STARTER[^\n]*\n|^[ \t]*// (?:BEGIN|END) SOLUTION[^\n]*\n",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class CountedRun:
    """One run: its counters and its case in words; without counters `case` says why there are none."""

    counters: Counters | None
    case: str


@dataclass(frozen=True)
class Difference:
    """Two kernel files, headers, hole markers and starter parts left out; `lines` is a unified diff without its head.

    `before` and `after` say what was compared. `counted` are a run of each, None where nobody asked.
    """

    before: str
    after: str
    lines: tuple[str, ...]
    counted: tuple[CountedRun, CountedRun] | None = None

    @property
    def added(self) -> int:
        return sum(line.startswith("+") for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.startswith("-") for line in self.lines)

    @property
    def text(self) -> str:
        """The whole unified diff; "" where the code is the same."""
        return self.unified(self.before, self.after)

    def unified(self, before: str, after: str) -> str:
        """The same with other names in its head."""
        return "\n".join([f"--- {before}", f"+++ {after}", *self.lines]) if self.lines else ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `counters` are those of before and after, with the case that was run."""
        counted = [
            {"case": one.case, "counters": one.counters.plain() if one.counters is not None else None}
            for one in self.counted or ()
        ]
        return {"added": self.added, "removed": self.removed, "counted": counted}


def difference(
    before: Source, after: Source, sizes: Mapping[str, float] | None = None, *, around: int = 3, count: bool = True
) -> Difference:
    """Compare two kernel files, and with `count` run each once on the simulator at `sizes`.

    What is not given is as in `warpschool profile`. A kernel that does not run says why.
    """
    asked = given_sizes(sizes)
    lines = changed_lines(before.text, after.text, around=around)
    if not count:
        return Difference(before.label, after.label, lines)
    _refuse_unknown(asked, (before, after))
    return Difference(before.label, after.label, lines, (_counted(before, asked), _counted(after, asked)))


def changed_lines(before: str, after: str, *, around: int = 3) -> tuple[str, ...]:
    """The unified diff of two kernel files' code, without the two lines that name the files."""
    old, new = (code_of(source).splitlines() for source in (before, after))
    return tuple(difflib.unified_diff(old, new, lineterm="", n=around))[2:]


def code_of(source: str) -> str:
    """Return a kernel file without its header block, hole markers and starter parts."""
    code = itertools.dropwhile(lambda line: line.startswith("//"), source.splitlines())
    return _LEFT_OUT.sub("", "\n".join([*code, ""])).strip("\n") + "\n"


def _refuse_unknown(sizes: Mapping[str, float], files: tuple[Source, Source]) -> None:
    """Raise ArgumentError for a size that neither kernel has."""
    there: set[str] = set()
    for file in files:
        try:
            there |= usual_sizes(file.contract()).keys()
        except ContractError:
            return
    if unknown := sizes.keys() - there:
        name = min(unknown)
        raise ArgumentError(f"neither kernel has a size {name}", next_step=did_you_mean(name, sorted(there)))


def _counted(file: Source, sizes: Mapping[str, float]) -> CountedRun:
    try:
        contract = file.contract()
        known = usual_sizes(contract)
        plan = contract.bind(known | {name: value for name, value in sizes.items() if name in known})
        inputs = random_inputs(plan, np.random.default_rng(0))
        run = Program(contract, device="sim").run(plan.scalars, inputs, check=False)
        return CountedRun(run.counters, case_text(plan))
    except WarpschoolError as error:
        return CountedRun(None, f"not counted: {str(error).splitlines()[0]}.")
