"""What checks cost, in the counts that their budgets are in: the same on every machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from warpschool.grading.result import Result
from warpschool.grading.submission import LAUNCH_LIMIT, TRANSLATION_LIMIT, WORK_LIMIT

MOST_LISTED = 3


@dataclass(frozen=True)
class Cost:
    """Of one check on the simulator: instructions of warps executed, instructions translated, launches.

    `allowed`: executed ones at most, which grow with what the step's reference does.
    """

    executed: int
    translated: int
    launches: int
    allowed: int = WORK_LIMIT

    @property
    def share(self) -> float:
        """The largest part of any of the budgets."""
        return max(
            self.executed / self.allowed, self.translated / TRANSLATION_LIMIT, self.launches / LAUNCH_LIMIT
        )  # fmt: skip


def cost_of(result: Result) -> Cost | None:
    """What a result says of its check's cost; None where nothing was run."""
    usual = {"executed": "", "translated": "", "launches": "", "allowed": str(WORK_LIMIT)}
    found = [result.provenance.get(name, text) for name, text in usual.items()]
    return Cost(*map(int, found)) if all(text.isdigit() for text in found) else None


def most_expensive(results: Iterable[tuple[str, Result]]) -> list[tuple[str, Result, Cost]]:
    """The few results, each with whose it is, that cost the largest part of a budget, dearest first."""
    known = [(who, result, cost) for who, result in results if (cost := cost_of(result)) is not None]
    return sorted(known, key=lambda one: (-one[2].share, one[0], one[1].step))[:MOST_LISTED]
