"""Runs a Hopper case on the simulator: by machine code or by the oracle."""

from __future__ import annotations

import numpy as np

from ptxsim import Finding, Memory, oracle, parse

from .hopper_cases import HopperCase, MapOf


def launch(case: HopperCase, how: str = "full") -> tuple[list[np.ndarray], list[Finding]]:
    """The arrays that the case's kernel wrote, and what was found; `how` is "full", "masked" or "oracle"."""
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
    if how == "oracle":
        oracle.run(kernel, case.grid, case.block, params, memory, shared_bytes=case.shared_bytes)
    else:
        record = kernel.launch(
            case.grid, case.block, params, memory, shared_bytes=case.shared_bytes, parted=how == "masked"
        )
        found = list(record.hazards)
    return [arrays[k].view().view(case.arguments[k].dtype).copy() for k in case.written], found  # type: ignore[union-attr]


def unlike(case: HopperCase, found: np.ndarray, wanted: np.ndarray) -> list[str]:
    """What of an array is not as it should be: nothing, or a line that says how much and where first."""
    if not case.tolerance:
        wrong = found.reshape(-1) != wanted.reshape(-1)
    else:
        dtype = np.float16 if case.element == "f16" else np.float32
        x, y = (v.reshape(-1).view(dtype).astype(np.float64) for v in (found, wanted))
        off = np.abs(x - y)
        wrong = ~((off <= case.tolerance * np.nanmax(np.abs(y))) | (np.isnan(x) & np.isnan(y)))
    if not wrong.any():
        return []
    first = int(np.argmax(wrong))
    flat, other = (v.reshape(-1).view(f"u{v.itemsize}") for v in (found, wanted))
    if case.tolerance and case.element == "f16":
        flat, other = flat.view(np.uint16), other.view(np.uint16)
    return [
        f"{int(wrong.sum())} of {wrong.size}; first at {first}: {flat[first]:#x}, and it should be {other[first]:#x}"
    ]
