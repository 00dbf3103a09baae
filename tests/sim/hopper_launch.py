"""Runs a Hopper case on the simulator: by machine code or by the oracle."""

from __future__ import annotations

import numpy as np

from ptxsim import Finding, Memory, oracle, parse

from .hopper_cases import HopperCase, MapOf


def launch(
    case: HopperCase, how: str = "full", tensor_sums: str = "ordered"
) -> tuple[list[np.ndarray], list[Finding], dict[str, int]]:
    """The arrays that the case's kernel wrote, what was found and counted.

    `how` is "full", "masked", "stencils" or "oracle".
    """
    kernel, memory = parse(case.ptx).kernel("k"), Memory()
    arrays = {}
    for k, x in enumerate(case.arguments):
        if isinstance(x, np.ndarray):
            arrays[k] = memory.allocate(x.nbytes, f"argument {k}")
            arrays[k].view()[:] = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    params = [
        x.at(arrays[x.array].address).encode() if isinstance(x, MapOf) else arrays.get(k, x)
        for k, x in enumerate(case.arguments)
    ]
    found: list[Finding] = []
    counters: dict[str, int] = {}
    if how == "oracle":
        oracle.run(kernel, case.grid, case.block, params, memory, shared_bytes=case.shared_bytes)
    else:
        record = kernel.launch(
            case.grid, case.block, params, memory, shared_bytes=case.shared_bytes, parted=how == "masked",
            tensor_sums=tensor_sums, tier="stencils" if how == "stencils" else "compiled",
        )
        found, counters = list(record.hazards), record.counters
    return [arrays[k].view().view(case.arguments[k].dtype).copy() for k in case.written], found, counters  # type: ignore[union-attr]


def unlike(found: np.ndarray, wanted: np.ndarray) -> list[str]:
    """What of an array is not as it should be: nothing, or a line that says how much and where first."""
    flat, other = (x.reshape(-1) for x in (found, wanted))
    wrong = flat != other
    if not wrong.any():
        return []
    first = int(np.argmax(wrong))
    return [
        f"{int(wrong.sum())} of {wrong.size}; first at {first}: {flat[first]:#x}, and it should be {other[first]:#x}"
    ]
