"""How fast the simulator runs CUDA kernels on this CPU, as ratios to NumPy's one-thread SGEMM in the same run.

    python benchmarks/simulator.py [--size 512] [--json FILE] [--repeat 30]

For each kernel: time with checks and counters off (one thread), the same with everything on, the first launch (NVRTC
and code generation, caches empty), two threads, and without AVX-512 where the host has it. Then a loop that every lane
leaves at another time against the NumPy oracle, the first launch of a long straight kernel, and a product by `wgmma`.
With Numba installed, its CUDA simulator runs the naive kernel at 16^3 and the ratio of multiply-adds per second is
stated.
"""

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[_variable] = "1"  # before NumPy is imported: the reference is one thread

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import processor
from simulator_cases import divergent_loop, numpy_two_threads, unrolled, wgmma, without_avx512

HERE = Path(__file__).parent
ROOT = HERE.parent


def _kernels(size: int) -> dict[str, tuple[Path, dict[str, int], tuple, tuple]]:
    """name -> (source, constants, grid, block)"""
    tiles = -(-size // 16)
    naive, tiled = (ROOT / "solutions" / p for p in ("lab01_naive_gemm/01_naive.cu", "lab02_tiling/01_tiled.cu"))
    return {
        "naive": (naive, {"TILE": 16}, (tiles, tiles), (16, 16)),
        "tiled 16": (tiled, {"TILE": 16}, (tiles, tiles), (16, 16)),
        "tiled 32": (tiled, {"TILE": 32}, (-(-size // 32),) * 2, (32, 32)),
        "register blocked 64x64": (HERE / "kernels" / "register_blocked.cu", {}, (size // 64, size // 64), (64,)),
        "WMMA 64x64": (HERE / "kernels" / "wmma_registers.cu", {}, (size // 64, size // 64), (32,)),
        "WMMA, shared": (HERE / "kernels" / "wmma.cu", {}, (-(-size // 128),) * 2, (128,)),
    }


_LARGEST_TILE = 128
"""Rows and columns of C that a block of the WMMA and wgmma kernels takes."""
_TRIES = 3
"""Runs one after the other, of which the best counts: for NumPy's product and for each kernel."""


def _best_ms(run: Callable[[], object], repeat: int) -> float:
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return 1e3 * best


_FIRST = """
import sys, time
import numpy as np
import warpschool as ws
from warpschool.compile import compile_cuda
source, constants, grid, block, size, check = open(sys.argv[1]).read(), *map(eval, sys.argv[2:])
kind = np.float16 if "half *A" in source else np.float32
ws.RawModule(code='extern "C" __global__ void warm() {}', device="sim").get_function("warm")((1,), (1,), ())
device = ws.get_device("sim")
a, b = (device.asarray(np.ones((size, size), kind)) for _ in range(2))
c = device.asarray(np.ones((size, size), np.float32))
start = time.perf_counter()
kernel = ws.RawModule(code=source, constants=constants, device="sim").get_function("matmul")
kernel(grid, block, (a, b, c, *[np.int32(size)] * 3), check=check, count=check, threads=1)
print(time.perf_counter() - start)
"""


def first_launch_s(entry: tuple, size: int, check: bool) -> float:
    """Seconds from source text to the end of the first launch, in a new process with an empty cache."""
    source, constants, grid, block = entry
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-c", _FIRST, str(source), *map(repr, (constants, grid, block, size, check))]
        environment = os.environ | {"WARPSCHOOL_CACHE": cache}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


def _prepared(size: int) -> tuple[list[np.ndarray], dict[str, dict[str, Callable[[], object]]]]:
    """The host's matrices, and for each kernel its ways to run; results have been compared once."""
    import warpschool as ws

    rng = np.random.default_rng(0)
    host = [rng.standard_normal((size, size)).astype(np.float32) for _ in range(2)]
    device = ws.get_device("sim")
    inputs = {
        kind: [device.asarray(h.astype(kind), name=n) for h, n in zip(host, "AB", strict=True)]
        for kind in (np.float32, np.float16)
    }
    c = device.empty((size, size), np.float32, name="C")
    runs: dict[str, dict[str, Callable[[], object]]] = {}
    for name, (source, constants, grid, block) in _kernels(size).items():
        kernel = ws.RawModule(code=source.read_text(), constants=constants, device="sim").get_function("matmul")
        kind = np.float16 if name.startswith("WMMA") else np.float32
        run = partial(kernel, grid, block, (*inputs[kind], c, *[np.int32(size)] * 3))
        launch = run()
        expected = host[0].astype(kind).astype(np.float64) @ host[1].astype(kind)
        error = float(np.abs(device.asnumpy(c) - expected).max())
        if not error < 1e-3 or launch.hazards:
            raise SystemExit(f"{name}: wrong result (error {error}) or hazards {launch.hazards}")
        runs[name] = {
            "plain": partial(run, threads=1, check=False, count=False),
            "counted": partial(run, threads=1, check=False),
            "checked": partial(run, threads=1),
            "two threads": partial(run, threads=2, check=False, count=False),
        }
    return host, runs


def plain_ms(size: int, repeat: int) -> dict[str, float]:
    """Milliseconds of each kernel on one thread without checks and counters."""
    _, runs = _prepared(size)
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeat):
        best = {name: min(best[name], _best_ms(variants["plain"], _TRIES)) for name, variants in runs.items()}
    return best


def measure(size: int, repeat: int, threads: int, steps: int) -> dict:
    """All figures of one run; `threads` of the divergent loop, `steps` of the straight kernel."""
    import ptxsim
    import warpschool as ws

    host, runs = _prepared(size)
    best: dict[tuple[str, str], float] = {}
    reference = float("inf")
    for _ in range(repeat):  # interleaved, so that all see the same machine
        reference = min(reference, _best_ms(lambda: host[0] @ host[1], _TRIES))
        for name, variants in runs.items():
            for variant, go in variants.items():
                best[name, variant] = min(best.get((name, variant), float("inf")), _best_ms(go, _TRIES))
    narrow = without_avx512(size, repeat) if ptxsim.simd() == "AVX-512" else {}
    rows: dict[str, dict[str, float]] = {}
    for name, entry in _kernels(size).items():
        plain = best[name, "plain"]
        rows[name] = {
            "plain_ms": plain,
            "ratio_to_numpy": reference / plain,
            "counted_over_plain": best[name, "counted"] / plain,
            "checked_over_plain": best[name, "checked"] / plain,
            "two_threads_speedup": plain / best[name, "two threads"],
            "gflops": 2 * size**3 / plain / 1e6,
            "first_launch_plain_s": first_launch_s(entry, size, False),
            "first_launch_checked_s": first_launch_s(entry, size, True),
        }
        if name in narrow:
            rows[name]["avx2_of_avx512"] = plain / narrow[name]
    return {
        "what": "simulator", "size": size, "cpu": processor.name(), "threads": 1, "numpy_ms": reference,
        "numpy_gflops": 2 * size**3 / reference / 1e6, "numpy_two_threads_speedup": numpy_two_threads(size, repeat),
        "kernels": rows, "numba": numba_ratio(rows["naive"]["gflops"]),
        "divergent_loop": divergent_loop(threads, max(3, repeat // 10)), "straight_line": unrolled(steps),
        "wgmma": wgmma(size, repeat),
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "warpschool": ws.__version__},
    }  # fmt: skip


_NUMBA = """
import sys, time
import numpy as np
from numba import cuda

@cuda.jit
def matmul(a, b, c):
    row = cuda.threadIdx.y + cuda.blockIdx.y * cuda.blockDim.y
    col = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    if row < c.shape[0] and col < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, col]
        c[row, col] = total

size = int(sys.argv[1])
a, b, c = (np.ones((size, size), np.float32) for _ in range(3))
best = float("inf")
for _ in range(5):
    start = time.perf_counter()
    matmul[(1, 1), (size, size)](a, b, c)
    best = min(best, time.perf_counter() - start)
print(best)
"""


def numba_ratio(naive_gflops: float, size: int = 16) -> dict | None:
    """Multiply-adds per second of the naive kernel here against Numba's CUDA simulator; None without Numba."""
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, "-c", _NUMBA, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        return None
    ms = 1e3 * float(done.stdout)
    return {"size": size, "ms": ms, "ratio": naive_gflops / (2 * size**3 / ms / 1e6)}


def table(result: dict) -> str:
    """The result as a Markdown table."""
    head = "| kernel | time | x NumPy | counters | all checks | 2 threads | AVX2 alone | first launch | with checks |"
    lines = [
        f"{result['size']}^3 on one thread of {result['cpu']}; NumPy's SGEMM: {result['numpy_ms']:.2f} ms "
        f"({result['numpy_gflops']:.0f} GFLOP/s), on two threads {result['numpy_two_threads_speedup']:.2f} x as fast.",
        "", head, "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for name, r in result["kernels"].items():
        lines.append(
            f"| {name} | {r['plain_ms']:.2f} ms | {r['ratio_to_numpy']:.2f} | {r['counted_over_plain']:.1f} x "
            f"| {r['checked_over_plain']:.1f} x | {r['two_threads_speedup']:.2f} x "
            f"| {r.get('avx2_of_avx512', 1):.2f} "
            f"| {r['first_launch_plain_s']:.2f} s | {r['first_launch_checked_s']:.2f} s |"
        )
    loop, line, four = result["divergent_loop"], result["straight_line"], result["wgmma"]
    lines += [
        "",
        f"wgmma (lab07/06) takes {four['plain_ms']:.1f} ms, {four['ratio_to_numpy']:.2f} of NumPy's speed in f32; "
        f"{four['counted_over_plain']:.1f} x that with counters, {four['checked_over_plain']:.1f} x with all checks.",
        "",
        f"A divergent loop in {loop['threads']:,} threads: {loop['ms']:.0f} ms, {loop['times_the_oracle']:.0f} times "
        "as fast as the NumPy oracle.",
        f"The first launch of {line['multiply_adds']:,} multiply-adds in a row: {line['first_launch_plain_s']:.2f} s, "
        f"with checks {line['first_launch_checked_s']:.2f} s.",
    ]
    if result["numba"]:
        ratio = result["numba"]["ratio"]
        lines += ["", f"The naive kernel runs {ratio:,.0f} times as fast as on Numba's CUDA simulator."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", type=int, default=512, help=f"M = N = K, a multiple of {_LARGEST_TILE}")
    parser.add_argument("--repeat", type=int, default=30, help="rounds of interleaved timings; the best counts")
    parser.add_argument("--threads", type=int, default=1 << 20, help="threads of the divergent loop")
    parser.add_argument("--steps", type=int, default=5000, help="multiply-adds of the straight kernel")
    parser.add_argument("--only-plain", action="store_true", help="print the kernels' times as JSON and write nothing")
    parser.add_argument("--json", type=Path, default=HERE / "results" / "simulator.json", help="where the figures go")
    arguments = parser.parse_args()
    if arguments.size < _LARGEST_TILE or arguments.size % _LARGEST_TILE:
        parser.error(f"--size {arguments.size}: blocks take whole tiles; give a multiple of {_LARGEST_TILE}")
    if arguments.only_plain:
        print(json.dumps(plain_ms(arguments.size, arguments.repeat)))
        return
    result = measure(arguments.size, arguments.repeat, arguments.threads, arguments.steps)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result))


if __name__ == "__main__":
    main()
