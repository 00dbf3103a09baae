"""Where the simulator's time goes once code is compiled: processor time of launches on one thread, and of their parts.

    python benchmarks/steady.py [--size 512] [--repeat 20] [--json FILE]

All runs are interleaved in one process, and the least time of each counts, so that a busy machine does little harm. The
parts of a tiled product follow from three launches: of the whole kernel; of one whose tiles are multiplied along half
of the steps of k; and of one with K = 0, whose blocks do nothing but start, store and end. `by_hand.py` has the same
products with nothing of the simulator in them. Loads of an irregular float4 are compared with regular ones, and
products of subnormal numbers with products of others. A launch of one block that has next to nothing to do tells what
every launch takes.
"""

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[_variable] = "1"  # before NumPy is imported: the reference is one thread

import argparse
import json
import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import by_hand
import numpy as np
import processor
from simulator import HERE, ROOT
from simulator_cases import by_wgmma

import warpschool as ws

TILED, BLOCKED = ROOT / "solutions" / "lab02_tiling" / "01_tiled.cu", HERE / "kernels" / "register_blocked.cu"
NAIVE = ROOT / "solutions" / "lab01_naive_gemm" / "01_naive.cu"
KERNELS = {
    "naive": (NAIVE, 16, (16, 16), None),
    "tiled 16": (TILED, 16, (16, 16), ("k < TILE; ++k", "k < TILE / 2; ++k")),
    "tiled 32": (TILED, 32, (32, 32), ("k < TILE; ++k", "k < TILE / 2; ++k")),
    "register blocked 64x64": (BLOCKED, 64, (64,), ("k < BK; k++", "k < BK / 2; k++")),
}
"""name -> (source, elements of C along a block's side, block, (steps of k in a tile, half of them))"""
WAYS = {"bare": {"check": False, "count": False}, "counted": {"check": False}, "checked": {}}

LOADS = """constexpr int SPREAD = 0;
extern "C" __global__ void k(const float4* in, float* out, int turns) {
    __shared__ float4 s[512];
    const int t = threadIdx.x;
    s[t] = in[t];
    s[t + 256] = in[t];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < turns; ++k) {
        const float4 v = s[SPREAD ? (t * 37 + k) & 255 : t + (k & 255)];
        sum += v.x - v.y + v.z - v.w;
    }
    out[blockIdx.x * blockDim.x + t] = sum;
}
"""
NEXT_TO_NOTHING = """extern "C" __global__ void k(float* out, float x) { out[threadIdx.x] += x; }"""
SCALED = """extern "C" __global__ void k(const float* in, float* out, int turns) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[t], sum = 0;
    for (int k = 0; k < turns; ++k) sum = fmaf(x, 0.5f, sum * 0.5f);
    out[t] = sum;
}
"""


def _kernel(text: str, name: str, tile: int) -> ws.Kernel:
    constants = {"TILE": tile} if "constexpr int TILE" in text else {}
    return ws.RawModule(code=text, constants=constants, device="sim").get_function(name)


def _shortened(source: Path, loop: str, short: str) -> str:
    text = source.read_text(encoding="utf-8")
    if text.count(loop) != 1:
        raise SystemExit(f"{source.name} has no such loop, or several: {loop}")
    return text.replace(loop, short)


def products(size: int) -> tuple[dict[tuple[str, str, str], Callable[[], object]], Callable[[], object]]:
    """(name, way, part) -> launch; and NumPy's product. Results have been compared once."""
    rng, device = np.random.default_rng(0), ws.get_device("sim")
    host = [rng.standard_normal((size, size)).astype(np.float32) for _ in range(2)]
    a, b, c = *(device.asarray(x) for x in host), device.empty((size, size), np.float32)
    runs: dict[tuple[str, str, str], Callable[[], object]] = {}
    options: dict[str, bool]
    for name, (source, side, block, loop) in KERNELS.items():
        whole = _kernel(source.read_text(encoding="utf-8"), "matmul", side)
        grid, sizes = (-(-size // side),) * 2, [np.int32(size)] * 3
        whole(grid, block, (a, b, c, *sizes))
        error = float(np.abs(device.asnumpy(c) - host[0].astype(np.float64) @ host[1]).max())
        if not error < 1e-3:
            raise SystemExit(f"{name}: wrong result (error {error})")
        short = _kernel(_shortened(source, *loop), "matmul", side) if loop else None
        for way, options in WAYS.items():
            runs[name, way, "whole"] = partial(whole, grid, block, (a, b, c, *sizes), threads=1, **options)
            if short is not None:
                runs[name, way, "half"] = partial(short, grid, block, (a, b, c, *sizes), threads=1, **options)
                runs[name, way, "no tiles"] = partial(
                    whole, grid, block, (a, b, c, *sizes[:2], np.int32(0)), threads=1, **options
                )
        if name in by_hand.PRODUCTS:
            runs[name, "by hand", "whole"] = _by_hand(name, *host)
    return runs, lambda: host[0] @ host[1]


def _by_hand(name: str, a: np.ndarray, b: np.ndarray) -> Callable[[], object]:
    c = np.full_like(a, np.nan)
    multiply = by_hand.product(name, len(a))
    multiply(a, b, c)
    if not np.allclose(c, a.astype(np.float64) @ b, rtol=0, atol=1e-3):
        raise SystemExit(f"{name}, by hand: wrong result")
    return partial(multiply, a, b, c)


def others() -> dict[tuple[str, str, str], Callable[[], object]]:
    """Irregular loads of float4 and subnormal numbers, each beside what it is compared with."""
    rng, device = np.random.default_rng(1), ws.get_device("sim")
    scaled = ws.RawModule(code=SCALED, device="sim").get_function("k")
    quads = device.asarray(rng.standard_normal((256, 4)).astype(np.float32))
    numbers = rng.uniform(1, 2, 4096).astype(np.float32)
    out = device.empty((4096,), np.float32)
    runs: dict[tuple[str, str, str], Callable[[], object]] = {}
    for way, options in WAYS.items():
        for kind, spread in (("regular", 0), ("irregular", 1)):
            loads = ws.RawModule(code=LOADS, constants={"SPREAD": spread}, device="sim").get_function("k")
            arguments = (quads, out, np.int32(400))
            runs["float4 loads", way, kind] = partial(loads, (16,), (256,), arguments, threads=1, **options)
        for kind, scale in (("normal", 1), ("subnormal", 1e-39)):
            given = device.asarray((numbers * scale).astype(np.float32))
            runs["subnormal numbers", way, kind] = partial(
                scaled, (16,), (256,), (given, out, np.int32(2000)), threads=1, **options
            )
    return runs


def alone() -> dict[tuple[str, str, str], Callable[[], object]]:
    """Launches of one block that has next to nothing to do: what every launch takes, whatever its kernel does."""
    device = ws.get_device("sim")
    arguments = device.zeros((32,), np.float32), np.float32(1)
    kernel = ws.RawModule(code=NEXT_TO_NOTHING, device="sim").get_function("k")
    return {
        ("alone", way, ""): partial(kernel, (1,), (32,), arguments, threads=1, **options)
        for way, options in WAYS.items()
    }


def least_ms(runs: dict[tuple[str, str, str], Callable[[], object]], repeat: int) -> dict[tuple[str, str, str], float]:
    """Least processor time of each run, all taken in turn."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeat):
        for key, run in runs.items():
            start = time.process_time()
            run()
            best[key] = min(best[key], 1e3 * (time.process_time() - start))
    return best


def parts(best: dict[tuple[str, str, str], float], name: str, way: str) -> dict[str, float]:
    """What moving tiles, multiplying them, and blocks without tiles take of a launch."""
    whole, half, none = (best[name, way, part] for part in ("whole", "half", "no tiles"))
    multiplied = 2 * (whole - half)
    if not 0 < multiplied < whole - none:  # half the steps have become other code, which tells nothing
        return {"blocks_ms": none}
    return {"products_ms": multiplied, "blocks_ms": none, "tiles_ms": whole - multiplied - none}


def measure(size: int, repeat: int) -> dict:
    """All figures of one run."""
    load = os.getloadavg()[0]
    runs, numpy_product = products(size)
    reference = ("NumPy", "", "")
    four = {("wgmma", way, "whole"): run for way, run in by_wgmma(size, WAYS)[0].items()}
    four["wgmma", "bare", "half"] = by_wgmma(size, {"bare": WAYS["bare"]}, depth=size // 2)[0]["bare"]
    best = least_ms({reference: numpy_product, **runs, **others(), **alone(), **four}, repeat)
    rows = {}
    for name, (_, _, _, loop) in KERNELS.items():
        rows[name] = {
            way: {"ms": best[name, way, "whole"]} | (parts(best, name, way) if loop else {}) for way in WAYS
        }
        if name in by_hand.PRODUCTS:
            rows[name]["by hand"] = {"ms": best[name, "by hand", "whole"]}
    rows["wgmma"] = {way: {"ms": best["wgmma", way, "whole"]} for way in WAYS}
    steps = 2 * (best["wgmma", "bare", "whole"] - best["wgmma", "bare", "half"])
    rows["wgmma"]["bare"] |= {"steps_ms": steps, "blocks_ms": best["wgmma", "bare", "whole"] - steps}
    compared: dict[str, dict[str, dict[str, float]]] = {}
    for name, kinds in {"float4 loads": ("regular", "irregular"), "subnormal numbers": ("normal", "subnormal")}.items():
        compared[name] = {way: {kind: best[name, way, kind] for kind in kinds} for way in WAYS}
    return {
        "what": "steady", "size": size, "repeat": repeat, "cpu": processor.name(), "cores": os.cpu_count(),
        "load_before": load, "numpy_ms": best[reference], "kernels": rows, "compared": compared,
        "alone_ms": {way: best["alone", way, ""] for way in WAYS},
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "warpschool": ws.__version__},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measure(options.size, options.repeat)
    text = json.dumps(found, indent=1)
    if options.json:
        options.json.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
