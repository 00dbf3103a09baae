"""Records what a GPU computes for every case of `opcode_cases`: `python record_silicon.py OUTPUT.npz` (needs CuPy)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import cupy
import numpy as np
from opcode_cases import CASES, THREADS, WIDTHS, Case, inputs, module


def main(path: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder, "cases.ptx")
        ptx.write_text(module())
        kernels = cupy.RawModule(path=str(ptx))
        results = {}
        for k, case in enumerate(CASES):
            for j, bits in enumerate(run(kernels.get_function(f"case_{k}"), case)):
                results[f"{case.name}/{j}"] = bits
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    chip = f"{properties['name'].decode()}, driver API {cupy.cuda.runtime.driverGetVersion()}"
    np.savez_compressed(path, chip=np.array(chip), **results)
    print(chip, len(results), Path(path).stat().st_size)


def run(kernel: cupy.RawKernel, case: Case) -> list[np.ndarray]:
    """The case's results, each in the narrowest unsigned type."""
    sources = cupy.asarray(np.concatenate(inputs(case)))
    out = cupy.zeros((2, THREADS), cupy.uint64)
    scratch = cupy.zeros(THREADS, cupy.uint64)
    kernel((1,), (THREADS,), (sources, out, scratch))
    found = cupy.asnumpy(out)
    return [bits.astype(f"u{max(1, WIDTHS[kind] // 8)}") for bits, kind in zip(found, case.results, strict=False)]


if __name__ == "__main__":
    main(sys.argv[1])
