"""Tiles chosen without a GPU: a kernel's constants, ranked by the time that the clock predicts for each set of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from warpschool.clock.machine import Machine
from warpschool.clock.prediction import Prediction, predict_subject
from warpschool.clock.subject import planned
from warpschool.contract import Contract
from warpschool.errors import ArgumentError, WarpschoolError


@dataclass(frozen=True)
class RankedTiles:
    """One set of constants and its prediction; None, with the reason, where the kernel cannot have them."""

    constants: Mapping[str, int]
    prediction: Prediction | None
    problem: str = ""

    @property
    def us(self) -> float:
        """The predicted time; infinite where there is none."""
        found = self.prediction.us if self.prediction else None
        return math.inf if found is None else found


def rank_tiles(
    contract: Contract, candidates: Sequence[Mapping[str, int]], sizes: Mapping[str, float], machine: Machine, *,
    warm: bool = False, progress: Callable[[int], None] = lambda done: None,
) -> list[RankedTiles]:  # fmt: skip
    """Predict a kernel file with each set of constants at these sizes: the fastest first, those without a time last.

    `progress` is told how many are done. Raises ArgumentError where there is nothing to compare.
    """
    if not candidates:
        raise ArgumentError("no tiles are given to compare")
    found = []
    for number, constants in enumerate(candidates):
        found.append(_one(contract, constants, sizes, machine, warm))
        progress(number + 1)
    return sorted(found, key=lambda one: one.us)


def _one(
    contract: Contract, constants: Mapping[str, int], sizes: Mapping[str, float], machine: Machine, warm: bool
) -> RankedTiles:
    try:
        plan = contract.bind(dict(sizes), constants=constants)
        found = predict_subject(planned(contract, plan, machine, constants=constants), machine, warm=warm)
    except WarpschoolError as error:
        return RankedTiles(constants, None, error.message)
    return RankedTiles(constants, found, found.reason)
