"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from warpschool.errors import ArgumentError


class DeviceChoice(StrEnum):
    """Where kernels run."""

    auto = "auto"
    sim = "sim"
    gpu = "gpu"


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Plain = Annotated[bool, typer.Option("--plain", help="Linear text: no colour, no redraws (as with NO_COLOR).")]
OnDevice = Annotated[
    DeviceChoice, typer.Option("--device", help="The simulator, the GPU, or the GPU where there is one.")
]
ForGpu = Annotated[str, typer.Option("--gpu", help="GPU for occupancy and bounds: rtx2080ti, t4, a100, h200 ...")]
StepName = Annotated[
    str, typer.Argument(metavar="STEP", help="lab02_tiling/01_tiled, or only lab02/01; warpschool status lists all.")
]


def read_numbers(given: Sequence[str], *, option: str, integers: bool = False) -> dict[str, int | float]:
    """Return NAME=NUMBER texts as a dict. Raises ArgumentError for anything else."""
    found: dict[str, int | float] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (equals and name.strip().isidentifier()):
            raise ArgumentError(f"{option} {text}: expected NAME=NUMBER", next_step=f"For example: {option} M=128")
        found[name.strip()] = _number(value.strip(), f"{option} {text}", integers)
    return found


def _number(text: str, where: str, only_integers: bool) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        raise ArgumentError(f"{where}: '{text}' is no number") from None
    if only_integers:
        raise ArgumentError(f"{where}: '{text}' is no whole number")
    return number
