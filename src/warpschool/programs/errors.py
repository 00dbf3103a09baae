"""The runtime's error numbers (driver_types.h) that the simulator itself gives."""

from __future__ import annotations

import re
from functools import cache

from warpschool.errors import WarpschoolError
from warpschool.programs.tools import find_tools

INVALID_VALUE, MEMORY_ALLOCATION = 1, 2
INVALID_CONFIGURATION = 9
INVALID_SYMBOL = 13
NO_KERNEL_IMAGE = 209
INVALID_HANDLE = 400
SYMBOL_NOT_FOUND = 500
ILLEGAL_ADDRESS = 700
LAUNCH_OUT_OF_RESOURCES, LAUNCH_TIMEOUT = 701, 702
ASSERT = 710
MISALIGNED_ADDRESS = 716
LAUNCH_FAILURE = 719
NOT_SUPPORTED = 801


def name(error: int) -> str:
    """What CUDA calls it."""
    return _names().get(error, f"cudaError {error}")


@cache
def _names() -> dict[int, str]:
    """All of them, off CUDA's header; none where that is not installed."""
    try:
        header = (find_tools().include / "driver_types.h").read_text("utf-8", "replace")
    except (WarpschoolError, OSError):
        return {}
    return {int(number): name for name, number in re.findall(r"^\s+(cudaError\w+)\s*=\s*(\d+)", header, re.MULTILINE)}
