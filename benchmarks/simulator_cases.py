"""What benchmarks/simulator.py measures beside matrix products: parted lanes, a long first launch, another host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
BLOCK = 256
_SAMPLED_BLOCKS = 8
"""Blocks that the oracle runs: it takes as long for each."""


def divergent_loop(threads: int, repeat: int) -> dict[str, float]:
    """Collatz in `threads` threads on one host thread, against the NumPy oracle on a sample of the blocks.

    The sample is spread over the launch. Results are compared bit by bit.
    """
    import ptxsim
    import warpschool as ws
    from warpschool.compile import compile_cuda

    source = (HERE / "kernels" / "collatz.cu").read_text()
    first, blocks = np.uint32(1), -(-threads // BLOCK)
    kernel = ws.RawModule(code=source, device="sim").get_function("collatz")
    device = ws.get_device("sim")
    steps = device.empty((threads,), np.uint32, name="steps")

    def launch() -> None:
        kernel((blocks,), (BLOCK,), (steps, first, np.uint32(threads)), check=False, count=False, threads=1)

    launch()
    engine_s = min(_seconds(launch) for _ in range(repeat))
    memory = ptxsim.Memory()
    allocation = memory.allocate(4 * threads, "steps")
    sample = sorted({int(k) for k in np.linspace(0, blocks - 1, _SAMPLED_BLOCKS)})
    parameters = (allocation, first, np.uint32(threads))
    parsed = ptxsim.parse(compile_cuda(source, name="collatz.cu").ptx).kernel("collatz")
    oracle_s = _seconds(lambda: ptxsim.oracle.run(parsed, blocks, BLOCK, parameters, memory, blocks=sample))
    ours, theirs = device.asnumpy(steps), allocation.view().view(np.uint32)
    for k in sample:
        part = slice(k * BLOCK, (k + 1) * BLOCK)
        if not np.array_equal(ours[part], theirs[part]):
            raise SystemExit(f"collatz: block {k} differs from the oracle's")
    oracle_s *= blocks / len(sample)
    return {"threads": threads, "ms": 1e3 * engine_s, "oracle_s": oracle_s, "times_the_oracle": oracle_s / engine_s}


WGMMA = HERE.parent / "solutions" / "lab07_tensor_cores" / "06_wgmma.cu"


def by_wgmma(
    size: int, ways: Mapping[str, Mapping[str, bool]], *, depth: int | None = None
) -> tuple[dict[str, Callable[[], object]], Callable[[], object]]:
    """Launches of the reference of lab07/06 (TMA, clusters, wgmma) on one thread, by how they are made, and NumPy's
    product in f32 of the same halves. Matrices are square, or A has `depth` columns.

    Each has been launched until its compiled code was there, and the result compared.
    """
    from warpschool.contract import parse_contract
    from warpschool.harness.launcher import Program

    program = Program(parse_contract(WGMMA.read_text(encoding="utf-8"), name=WGMMA.name), device="sim")
    rng, device = np.random.default_rng(0), program.module.device
    k = size if depth is None else depth
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((size, k), (k, size)))
    arrays = {"A": device.asarray(a), "B": device.asarray(b), "C": device.empty((size, size), np.float16)}
    wide = a.astype(np.float32), b.astype(np.float32)
    sizes = {"M": size, "N": size, "K": k}
    runs = {way: partial(program.enqueue, sizes, arrays, threads=1, **options) for way, options in ways.items()}
    for run in runs.values():
        spent = 0.0
        while spent < _COMPILED_S:  # of stencils until then
            spent += _seconds(run)
    error = float(np.abs(device.asnumpy(arrays["C"]).astype(np.float64) - wide[0] @ wide[1]).max())
    if not error < size / 8192:  # rounded to f16 once, of sums of some tens
        raise SystemExit(f"wgmma: wrong result (error {error})")
    return {**runs}, lambda: wide[0] @ wide[1]


def wgmma(size: int, repeat: int) -> dict[str, float]:
    """That product against NumPy's, one thread."""
    ways: dict[str, dict[str, bool]] = {
        "plain": {"check": False, "count": False}, "counted": {"check": False}, "checked": {},
    }  # fmt: skip
    runs, numpy_product = by_wgmma(size, ways)
    best = dict.fromkeys(("numpy", *runs), float("inf"))
    for _ in range(repeat):
        best["numpy"] = min(best["numpy"], _seconds(numpy_product))
        best["plain"] = min(best["plain"], _seconds(runs["plain"]))
    for way in ("counted", "checked"):
        best[way] = min(_seconds(runs[way]) for _ in range(max(3, repeat // 10)))
    return {
        "numpy_ms": 1e3 * best["numpy"], "plain_ms": 1e3 * best["plain"],
        "ratio_to_numpy": best["numpy"] / best["plain"], "counted_over_plain": best["counted"] / best["plain"],
        "checked_over_plain": best["checked"] / best["plain"],
    }  # fmt: skip


_COMPILED_S = 15.0
"""Seconds of launches after which compiled code has taken the place of stencils."""


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


_UNROLLED = """
import sys, time
import numpy as np
import warpschool as ws
ws.RawModule(code='extern "C" __global__ void warm() {}', device="sim").get_function("warm")((1,), (1,), ())
y = ws.get_device("sim").empty((256,), np.float32)
source, steps, check = open(sys.argv[1]).read(), int(sys.argv[2]), sys.argv[3] == "True"
start = time.perf_counter()
kernel = ws.RawModule(code=source, constants={"STEPS": steps}, device="sim").get_function("unrolled")
kernel((1,), (256,), (y, np.float32(0.5)), check=check, count=check, threads=1)
print(time.perf_counter() - start)
"""


def unrolled(steps: int) -> dict[str, float]:
    """Seconds from source text to the end of the first launch of a kernel of `steps` multiply-adds, nothing cached."""
    found: dict[str, float] = {"multiply_adds": steps}
    for name, check in (("plain", False), ("checked", True)):
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, "-c", _UNROLLED, str(HERE / "kernels" / "unrolled.cu"), str(steps), str(check)]
            environment = os.environ | {"WARPSCHOOL_CACHE": cache}
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        found[f"first_launch_{name}_s"] = float(done.stdout)
    return found


def without_avx512(size: int, repeat: int) -> dict[str, float]:
    """Milliseconds of each kernel where AVX-512 is left out, by this benchmark in another process."""
    command = [sys.executable, str(HERE / "simulator.py"), "--only-plain", "--size", str(size), "--repeat", str(repeat)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | {"WARPSCHOOL_SIMD": "avx2"}
    )
    return json.loads(done.stdout)


_PRODUCT = """
import sys, time
import numpy as np
size, repeat = map(int, sys.argv[1:])
a, best = np.ones((size, size), np.float32), float("inf")
for _ in range(repeat):
    start = time.perf_counter()
    a @ a
    best = min(best, time.perf_counter() - start)
print(best)
"""


def numpy_two_threads(size: int, repeat: int) -> float:
    """How many times as fast NumPy's product is on two threads as on one: what two threads can bring on this host."""
    best = {1: float("inf"), 2: float("inf")}
    for _ in range(3):
        for threads in best:
            names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
            environment = os.environ | dict.fromkeys(names, str(threads))
            command = [sys.executable, "-c", _PRODUCT, str(size), str(repeat)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            best[threads] = min(best[threads], float(done.stdout))
    return best[1] / best[2]
