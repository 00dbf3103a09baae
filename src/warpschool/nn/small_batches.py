"""Tiles for small batches: values for a reference's constants that give every SM of a GPU something to do.

A reference's own tiles suit large batches: a thread computes many results, which saves loads. With 64 images that
leaves most of a GPU without a warp. So a few tile sets of some steps stand here, and a rule that picks one by counting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from warpschool.contract import Contract
from warpschool.errors import NeedsError
from warpschool.nn.graph import KernelCall

Constants = Mapping[str, int]

_LANES_WANTED = 96
"""threads for each SM that are needed to hide how long a multiply-add and a load from shared memory take"""


@dataclass(frozen=True)
class _Choices:
    """A step's tile sets; {} is the file's own. `work` names the constants whose product a thread computes."""

    own: Constants
    others: Sequence[Constants]
    work: tuple[str, ...]

    def results_of_a_thread(self, chosen: Constants) -> int:
        return math.prod({**self.own, **chosen}[name] for name in self.work)


_CHOICES = {
    "lab08_convolution/12_register_tiles": _Choices(
        {"FPT": 8, "QUADS": 2, "GROUPS": 1, "IMAGES": 4},
        [
            {"FPT": fpt, "QUADS": quads, "GROUPS": groups, "IMAGES": images}
            for fpt, quads, groups, images in (
                (8, 2, 1, 2), (8, 1, 1, 2), (8, 1, 1, 1), (4, 1, 4, 2), (4, 1, 2, 2), (4, 1, 4, 1), (4, 1, 2, 1),
            )
        ],
        ("FPT", "QUADS"),
    ),
    "lab10_lenet/06_fully_connected": _Choices(
        {"TSM": 64, "TSN": 64, "TSK": 8, "WPTM": 8, "WPTN": 4},
        [{"TSM": 32, "TSN": 32, "TSK": 16, "WPTM": 4, "WPTN": 4}],
        ("WPTM", "WPTN"),
    ),
}  # fmt: skip


def tiles(call: KernelCall, contract: Contract, sms: int) -> dict[str, int]:
    """Constants for a call on a GPU with so many SMs: the call's own, and tiles where it says nothing of them.

    Best is a set with as many busy threads as are wanted, then one with a block for every second SM, then the one with
    the fewest threads, whose tiles are largest.
    """
    own = dict(call.constants)
    choices = _CHOICES.get(call.kernel) if isinstance(call.kernel, str) else None
    if choices is None or choices.own.keys() & own.keys():
        return own
    results = call.arrays["y"].size
    if choices is _CHOICES["lab08_convolution/12_register_tiles"]:
        results = -(-results // 4)  # four places in a row are one piece of work

    def merit(chosen: Constants) -> tuple[float, float, int]:
        launch = contract.bind(call.sizes, constants={**own, **chosen}).launches[-1]
        busy = results / choices.results_of_a_thread(chosen)
        blocks = math.prod(launch.grid)
        return min(1.0, busy / (_LANES_WANTED * sms)), min(1.0, 2 * blocks / sms), -blocks * math.prod(launch.block)

    found: list[tuple[tuple[float, float, int], Constants]] = []
    for chosen in ({}, *choices.others):
        try:
            found.append((merit(chosen), chosen))
        except NeedsError:
            continue
    return {**own, **max(found, key=lambda pair: pair[0])[1]} if found else own
