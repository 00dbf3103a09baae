"""Records what a GPU computes: `python record_silicon.py FOLDER` (needs CuPy) writes opcodes.npz and kernels.npz.

The first holds every case of `opcode_cases`, the second every golden kernel (the PTX of `data/kernels.compute_80.ptx`,
so that both sides execute the same instructions).
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import cupy
import golden_kernels
import numpy as np
from opcode_cases import CASES, THREADS, WIDTHS, Case, inputs, module

GOLDEN = Path(__file__).parent / "data" / "kernels.compute_80.ptx"


def main(folder: str) -> None:
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    chip = np.array(f"{properties['name'].decode()}, CUDA driver API {cupy.cuda.runtime.driverGetVersion()}")
    np.savez_compressed(Path(folder, "opcodes.npz"), chip=chip, **opcodes())
    np.savez_compressed(Path(folder, "kernels.npz"), chip=chip, **golden())


def opcodes() -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder, "cases.ptx")
        ptx.write_text(module())
        kernels = cupy.RawModule(path=str(ptx))
        results = {}
        for k, case in enumerate(CASES):
            for j, bits in enumerate(one(kernels.get_function(f"case_{k}"), case)):
                results[f"{case.name}/{j}"] = bits
    return results


def one(kernel: cupy.RawKernel, case: Case) -> list[np.ndarray]:
    """The case's results, each in the narrowest unsigned type."""
    sources = cupy.asarray(np.concatenate(inputs(case)))
    out = cupy.zeros((2, THREADS), cupy.uint64)
    scratch = cupy.zeros(THREADS, cupy.uint64)
    kernel((1,), (THREADS,), (sources, out, scratch))
    found = cupy.asnumpy(out)
    return [bits.astype(f"u{max(1, WIDTHS[kind] // 8)}") for bits, kind in zip(found, case.results, strict=False)]


def golden() -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder, "kernels.ptx")
        # A driver reads only the PTX versions of its time; these kernels need nothing newer.
        ptx.write_text(re.sub(r"\.version \d+\.\d+", ".version 8.2", GOLDEN.read_text()))
        kernels = cupy.RawModule(path=str(ptx))
        functions = {name: kernels.get_function(name) for name in golden_kernels.LAUNCHES}
        functions["calls"].kernel  # noqa: B018 - CuPy reads the file only now
    results = {}
    for name, launch in golden_kernels.LAUNCHES.items():
        x, y = (cupy.asarray(words) for words in golden_kernels.inputs(name))
        out = cupy.zeros(golden_kernels.out_words(name), cupy.uint32)
        arguments = [x, y, out, np.int32(launch.n)]
        if launch.extra:
            arguments.append(np.frombuffer(launch.extra, f"V{len(launch.extra)}")[0])
        functions[name]((launch.grid,), (launch.block,), tuple(arguments), shared_mem=launch.shared_bytes)
        results[name] = cupy.asnumpy(out)
    return results


if __name__ == "__main__":
    main(sys.argv[1])
