"""The matrix products of labs 01 to 05 on a GPU, against cuBLAS in the same run.

    python benchmarks/gemm.py [--out FILE] [--tune] [--seconds 0.5] [--only PART ...]

Every step is first checked against a float64 product of some of its rows. Then it is timed in turns with cuBLAS (CuPy's
`matmul`, TF32 off), the L2 cache flushed before each sample; the ratio is the median of the rounds' ratios. `--tune`
searches the tile constants of 07_warp_tiled for each size; without it the constants found on an H200 (TUNED) are used.
Two parts run only where they are named: "sweep" times every tile set at many shapes, to which a rule for tiles is
fitted, and "limit" times 07_warp_tiled without what it loads, and on zeros: what could be gained at best.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import harness
import numpy as np
from harness import CHECKED_ROWS, Row, Step, cupy, geometric_mean
from tile_rule import SWEPT_SPLITS, blocks, choose, divisions, is_ragged, key
from tile_sets import PRODUCT_TILES, TILE_NAMES

import warpschool as ws
from warpschool.device.measurement import Rules

LAB05 = "lab05_work_per_thread"
LADDER = (
    "lab01_naive_gemm/01_naive",
    "lab02_tiling/01_tiled",
    f"{LAB05}/01_coarsened",
    f"{LAB05}/02_wide_loads",
    f"{LAB05}/04_register_blocked",
    f"{LAB05}/05_vectorized",
    f"{LAB05}/06_double_buffered",
    f"{LAB05}/07_warp_tiled",
)
BRANCHES = (
    "lab03_coalescing/01_row_per_thread",
    "lab03_coalescing/04_gemm_bt",
    "lab04_bank_conflicts/03_gemm_padded",
    f"{LAB05}/03_rectangular",
)
TRANSPOSES = (
    "lab03_coalescing/02_transpose_naive",
    "lab03_coalescing/03_transpose_tiled",
    "lab04_bank_conflicts/01_transpose_padded",
    "lab04_bank_conflicts/02_transpose_swizzled",
)
LAST = f"{LAB05}/07_warp_tiled"
DIVIDED = "split_k"
LADDER_SIZE = (4096, 4096, 4096)
SIZES = (
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (1000, 3001, 777),
    (2047, 2049, 2045),
    (4100, 1300, 2500),
)
SWEPT = (
    (64, 64, 64), (128, 128, 128), (256, 256, 256), (64, 4096, 512), (4096, 64, 512), (128, 1024, 8192),
    (192, 192, 4096), (300, 300, 300), (384, 2048, 256), (500, 700, 900), (768, 768, 768), (1024, 256, 1024),
    (1280, 1280, 1280), (1536, 512, 3072), (1600, 2400, 64), (2000, 2000, 100), (2048, 768, 768), (2304, 2304, 2304),
    (2800, 900, 4100), (3072, 3072, 3072), (4096, 4096, 64), (4096, 4096, 4096), (5120, 1024, 5120), (6000, 6000, 600),
    (8192, 128, 1024), (8192, 2048, 2048), (101, 1699, 3003), (125, 110, 5001), (187, 3001, 1501), (603, 305, 3047),
    (997, 1003, 1009), (1618, 437, 71), (2049, 95, 2501), (4001, 703, 1985), (89, 2651, 701), (70, 150, 1109),
)  # fmt: skip
"""Shapes of part "sweep": small, deep, skinny, ragged."""
UNSEEN_SEED = 0x2B779498
"""Set when the rule was there: the first digits of the hash of the commit that brought it."""
DENSITIES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1)
TUNED: dict[tuple[int, int, int], tuple[int, ...]] = {
    (512, 512, 512): (32, 64, 32, 16, 32, 4, 4),
    (1024, 1024, 1024): (64, 64, 16, 32, 32, 8, 4),
    (1000, 3001, 777): (64, 128, 8, 32, 64, 8, 8),
    (2047, 2049, 2045): (64, 64, 16, 32, 32, 8, 4),
    (4100, 1300, 2500): (128, 64, 8, 64, 32, 8, 8),
}
"""What `--tune` found best on an H200; sizes that are not here use the file's own constants."""


class Bench(harness.Bench):
    """Checks each step before timing it against cuBLAS."""

    def check(
        self, part: str, step: Step, sizes: Mapping[str, int], arrays: Mapping[str, Any],
        reference: Callable[[], Any], *, amount: float, reference_amount: float | None = None,
        against: str = "cuBLAS", unit: str = "TFLOP/s", note: str = "",
    ) -> Row:  # fmt: skip
        """Check a step, time it in turns with the reference, and print the row; `amount`: operations or bytes."""
        work = step.work(sizes, arrays)
        return self.add(
            part, step.name, sizes, work, reference, error=_max_error(work, arrays), amount=amount,
            reference_amount=reference_amount, against=against, unit=unit, registers=step.registers,
            constants=step.constants, note=note,
        )  # fmt: skip


def _max_error(work: Callable[[], Any], arrays: Mapping[str, Any]) -> float:
    """Largest error of some rows of C, as a multiple of the products' rounding; raises ArithmeticError if too large."""
    result = arrays["C"]
    result.fill(np.nan)
    work()
    expected, rows, terms = arrays["expected"]
    actual = result.reshape(-1, result.shape[-1])
    if bool(cupy.isnan(actual).any()):
        raise ArithmeticError("an element of C was not written, or is NaN")
    # standard normal inputs: partial sums grow to sqrt(terms), and `terms` roundings add up like a random walk
    scale = float(np.finfo(np.float32).eps) * terms
    error = float(cupy.abs(actual[rows] - expected).max()) / scale
    if not error <= 4.0:
        raise ArithmeticError(f"the result is wrong: {error:.1f} times the expected rounding error")
    return error


def expected_rows(a: Any, b: Any) -> tuple[Any, Any, int]:
    """Float64 product of some rows of a with b, the rows' numbers, and the number of terms of each sum."""
    rows = cupy.sort(cupy.random.permutation(a.shape[0])[:CHECKED_ROWS])
    return a[rows].astype(cupy.float64) @ b.astype(cupy.float64), rows, a.shape[1]


def _normal(*shape: int) -> Any:
    return cupy.random.standard_normal(shape, dtype=cupy.float32)


def _matmul(a: Any, b: Any, out: Any) -> Callable[[], Any]:
    """A call of cuBLAS."""
    return lambda: cupy.matmul(a, b, out=out)


def _product(m: int, n: int, k: int) -> tuple[dict[str, int], dict[str, Any], Callable[[], Any], float]:
    """Sizes, arrays, reference and operations of one plain product."""
    a, b, out = _normal(m, k), _normal(k, n), cupy.empty((m, n), cupy.float32)
    arrays = {"A": a, "B": b, "Bt": cupy.ascontiguousarray(b.T), "C": cupy.empty_like(out)}
    arrays["expected"] = expected_rows(a, b)
    return {"M": m, "N": n, "K": k}, arrays, _matmul(a, b, out), 2.0 * m * n * k


def run_ladder(bench: Bench) -> None:
    """Every step at one size."""
    sizes, arrays, reference, flop = _product(*LADDER_SIZE)
    for name in (*LADDER, *BRANCHES):
        bench.check("ladder" if name in LADDER else "branches", Step(name), sizes, arrays, reference, amount=flop)


def run_sizes(bench: Bench, *, tune: bool) -> None:
    """The last step at many sizes, with the tiles that suit each."""
    for size in SIZES:
        sizes, arrays, reference, flop = _product(*size)
        tiles = _best_tiles(sizes, arrays) if tune else TUNED.get(size)
        constants = dict(zip(TILE_NAMES, tiles, strict=True)) if tiles else {}
        note = "tuned" if tiles else ""
        bench.check("sizes", Step(LAST, constants), sizes, arrays, reference, amount=flop, note=note)
        if tiles:
            bench.check("defaults", Step(LAST), sizes, arrays, reference, amount=flop)


def run_copies(bench: Bench) -> None:
    """The transposes of labs 03 and 04 against a plain copy of the same matrix."""
    rows, cols = 8192, 8192
    a, out = _normal(rows, cols), cupy.empty((cols, rows), cupy.float32)
    picked = cupy.arange(0, cols, cols // CHECKED_ROWS)
    copy = cupy.empty_like(a)
    for name in TRANSPOSES:
        arrays = {"A": a, "At": out, "C": out, "expected": (a.T[picked].astype(cupy.float64), picked, 1)}
        bench.check(
            "copies", Step(name), {"M": rows, "N": cols}, arrays, lambda: cupy.copyto(copy, a),
            amount=2.0 * a.nbytes, against="a copy", unit="TB/s",
        )  # fmt: skip


def _best_tiles(sizes: Mapping[str, int], arrays: Mapping[str, Any]) -> tuple[int, ...]:
    """The fastest tile set for these sizes."""
    times = {}
    for tiles in PRODUCT_TILES:
        work = _cached_step(tiles).work(sizes, arrays)
        _max_error(work, arrays)
        rules = Rules(warmup_ms=5.0, min_samples=10, max_samples=20, max_seconds=0.3)
        times[tiles] = ws.benchmark(work, device="gpu", rules=rules).median_ms
    best = min(times, key=lambda tiles: times[tiles] or math.inf)
    print(f"  {tuple(sizes.values())}: {best}")
    return best


_steps: dict[tuple[tuple[int, ...], bool, bool], Step] = {}


def _cached_step(tiles: tuple[int, ...], *, divided: bool = False, ragged: bool = False) -> Step:
    """The last step with these tiles, or the same product for a divided K and for rows of any length."""
    divided |= ragged  # one kernel for both
    found = _steps.get((tiles, divided, ragged))
    if found is None:
        constants = dict(zip(TILE_NAMES, tiles, strict=True)) | ({"RAGGED": 1} if ragged else {})
        found = Step(DIVIDED if divided else LAST, constants)
        _steps[tiles, divided, ragged] = found
    return found


def divided_way(sizes: Mapping[str, int], arrays: Mapping[str, Any], tiles: tuple[int, ...], splits: int) -> tuple:
    """Step, sizes and arrays of a product by these tiles whose K is divided over `splits` blocks."""
    shape = (sizes["M"], sizes["N"], sizes["K"])
    step = _cached_step(tiles, divided=splits > 1, ragged=is_ragged(shape))
    if step.name == LAST:
        return step, sizes, arrays
    count = blocks(tiles, shape)
    more = {
        "part": cupy.empty(splits * count * tiles[0] * tiles[1] if splits > 1 else 1, cupy.float32),
        "arrived": cupy.zeros(count, cupy.int32),
    }
    return step, {**sizes, "splits": splits}, {**arrays, **more}


def unseen(count: int = 30) -> list[tuple[int, int, int]]:
    """Shapes that the rule was not fitted to: of 64 to 8192, a third each whole, ragged, and skinny."""
    rng = np.random.default_rng(UNSEEN_SEED)
    shapes = []
    for number in range(count):
        sizes = np.exp(rng.uniform(np.log(64), np.log(8192), 3)).astype(int)
        if number % 3 == 0:
            sizes = np.maximum(64, sizes // 64 * 64)
        if number % 3 == 2:
            sizes[rng.integers(2)] = rng.integers(64, 129)
        shapes.append((int(sizes[0]), int(sizes[1]), int(sizes[2])))
    return shapes


def run_unseen(bench: Bench) -> None:
    """The last step with the tiles that the rule chooses, at shapes that were drawn after it was made."""
    sms = ws.get_device("gpu").spec.sms
    chosen = {size: choose(size, sms=sms) for size in unseen()}
    _compile((tiles, splits > 1, is_ragged(size)) for size, (tiles, splits) in chosen.items())
    for size, (tiles, splits) in chosen.items():
        sizes, arrays, reference, flop = _product(*size)
        step, sizes, arrays = divided_way(sizes, arrays, tiles, splits)
        bench.check("unseen", step, sizes, arrays, reference, amount=flop, note="tiles by rule")


def _compile(steps: Iterable[tuple[tuple[int, ...], bool, bool]]) -> None:
    """Compile steps of these tiles, K divided or not, rows ragged or not, side by side."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda step: _cached_step(step[0], divided=step[1], ragged=step[2]), dict.fromkeys(steps)))


def run_sweep() -> list[dict[str, Any]]:
    """Milliseconds of every tile set and division of K, and of cuBLAS, at each of `SWEPT`."""
    forms = ((False, False), (True, False), (True, True))
    _compile((tiles, divided, ragged) for tiles in PRODUCT_TILES for divided, ragged in forms)
    sms = ws.get_device("gpu").spec.sms
    rules = Rules(warmup_ms=2.0, min_samples=7, max_samples=11, max_seconds=0.1)
    rows = []
    for size in SWEPT:
        whole, operands, reference, _flop = _product(*size)
        times = {}
        for tiles in PRODUCT_TILES:
            for splits in (1, *(n for n in SWEPT_SPLITS if n in divisions(tiles, size, sms=sms))):
                step, sizes, arrays = divided_way(whole, operands, tiles, splits)
                work = step.work(sizes, arrays)
                _max_error(work, arrays)
                times[key(tiles, splits)] = ws.benchmark(work, device="gpu", rules=rules).median_ms
        cublas = ws.benchmark(reference, device="gpu", rules=rules).median_ms
        rows.append({"sizes": whole, "times_ms": times, "cublas_ms": cublas})
        best = min(times, key=lambda way: times[way] or math.inf)
        assert cublas is not None
        print(f"sweep {size}: {best} {times[best]:.4f} ms, cuBLAS {cublas:.4f}", flush=True)
    return rows


def run_batched(bench: Bench) -> None:
    """36 x 32 products of 256 x 256: the filters of each of 36 positions shared by 32 images, and not shared."""
    batch, share, n = 36 * 32, 32, 256
    flop = 2.0 * batch * n**3
    step = Step(f"{LAB05}/08_batched")
    for each in (share, 1):
        a, b = _normal(batch, n, n), _normal(batch // each, n, n)
        rows = cupy.sort(cupy.random.permutation(batch * n)[:CHECKED_ROWS])
        picked = a.reshape(-1, 1, n)[rows].astype(cupy.float64)
        expected = (picked @ b[rows // n // each].astype(cupy.float64))[:, 0]
        arrays = {"A": a, "B": b, "C": cupy.empty((batch, n, n), cupy.float32), "expected": (expected, rows, n)}
        # cuBLAS has no batch of batches: images that share filters are rows of one taller product
        tall, out = a.reshape(batch // each, each * n, n), cupy.empty((batch // each, each * n, n), cupy.float32)
        sizes = {"BATCH": batch, "SHARE": each, "M": n, "N": n, "K": n}
        note = "U shared by 32 images" if each > 1 else "U not shared"
        bench.check("batched", step, sizes, arrays, _matmul(tall, b, out), amount=flop, note=note)


def run_transposes(bench: Bench) -> None:
    """NN, NT, TN and TT at one size."""
    m, n, k = LADDER_SIZE
    for ta, tb in ((0, 0), (0, 1), (1, 0), (1, 1)):
        sizes, arrays, _, flop = _product(m, n, k)
        a = cupy.ascontiguousarray(arrays["A"].T) if ta else arrays["A"]
        b = arrays["Bt"] if tb else arrays["B"]
        op_a, op_b, out = a.T if ta else a, b.T if tb else b, cupy.empty((m, n), cupy.float32)
        step = Step(f"{LAB05}/09_transposes", {"TRANSPOSE_A": ta, "TRANSPOSE_B": tb})
        bench.check(
            "transposes", step, sizes, arrays | {"A": a, "B": b}, _matmul(op_a, op_b, out), amount=flop,
            note="NT"[ta] + "NT"[tb],
        )  # fmt: skip


def run_sparse(bench: Bench) -> None:
    """CSR against the dense product of cuBLAS, over the density of A."""
    sizes, arrays, reference, flop = _product(*LADDER_SIZE)
    step = Step(f"{LAB05}/10_sparse")
    for density in DENSITIES:
        kept = cupy.where(cupy.random.random(arrays["A"].shape, dtype=cupy.float32) < density, arrays["A"], 0)
        rows, column = cupy.nonzero(kept)
        row_start = cupy.zeros(sizes["M"] + 1, cupy.int32)
        row_start[1:] = cupy.cumsum(cupy.bincount(rows, minlength=sizes["M"]))
        given = {
            "row_start": row_start, "column": column.astype(cupy.int32), "value": kept[rows, column],
            "B": arrays["B"], "C": arrays["C"], "expected": expected_rows(kept, arrays["B"]),
        }  # fmt: skip
        bench.check(
            "sparse", step, sizes | {"NNZ": len(column)}, given, reference,
            amount=2.0 * len(column) * sizes["N"], reference_amount=flop, note=f"density {density}",
        )  # fmt: skip


def without_loads(source: str) -> str:
    """07_warp_tiled with the same loop over tiles, of which none is loaded or stored: only the first ever comes.

    Raises ValueError where the text has no such calls.
    """
    for call in ("load(k0 + (buffer + 1) * TSK);", "store(1 - buffer);"):
        if source.count(call) != 1:
            raise ValueError(f"{LAST} has no single {call!r}")
        source = source.replace(call, "")
    return source


def run_limit(bench: Bench) -> None:
    """The last step as it is, on zeros, and without loads; at 4096 and where its blocks are four whole waves."""
    whole, alone = Step(LAST), Step(LAST, edit=without_loads)
    for shape in (LADDER_SIZE, (44 * 128, 12 * 256, 4096)):  # 528 blocks of 128 x 256, for 132 multiprocessors
        sizes, arrays, reference, flop = _product(*shape)
        bench.check("limit", whole, sizes, arrays, reference, amount=flop, note="as it is")
        unchecked = partial(
            bench.add, "limit", LAST, sizes, reference=reference, error=0.0, amount=flop, against="cuBLAS",
            unit="TFLOP/s",
        )  # fmt: skip
        unchecked(alone.work(sizes, arrays), registers=alone.registers, note="nothing loaded")  # no product results
        for name in ("A", "B"):
            arrays[name][...] = 0
        unchecked(whole.work(sizes, arrays), registers=whole.registers, note="zeros")


def _summary(rows: list[Row]) -> dict[str, float]:
    """The figures that are asked for."""
    found: dict[str, float] = {}
    for row in rows:
        if row.part == "ladder" and row.step == LAST:
            found["last_step_4096"] = row.ratio
    if any(row.part == "sizes" for row in rows):
        found["geometric_mean_over_sizes"] = geometric_mean(row.ratio for row in rows if row.part == "sizes")
    if any(row.part == "unseen" for row in rows):
        found["geometric_mean_unseen"] = geometric_mean(row.ratio for row in rows if row.part == "unseen")
    found |= {row.note: row.ratio for row in rows if row.part == "batched"}
    return found


def main() -> None:
    """Run the parts, print a line for each measurement, write them all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    parser.add_argument("--tune", action="store_true", help="search the tiles of 07_warp_tiled for each size")
    parser.add_argument("--seconds", type=float, default=0.5, help="at most this long for one measurement")
    parts = ("ladder", "copies", "sizes", "batched", "transposes", "sparse", "unseen")
    parser.add_argument("--only", nargs="+", choices=(*parts, "limit", "sweep"), default=parts)
    options = parser.parse_args()
    cupy.random.seed(1)
    device = ws.get_device("gpu")
    bench = Bench(Rules(max_seconds=options.seconds, target_error=0.003, min_samples=20))
    for part, run in (
        ("ladder", run_ladder),
        ("copies", run_copies),
        ("sizes", lambda b: run_sizes(b, tune=options.tune)),
        ("batched", run_batched),
        ("transposes", run_transposes),
        ("sparse", run_sparse),
        ("unseen", run_unseen),
        ("limit", run_limit),
    ):
        if part in options.only:
            run(bench)
    swept = run_sweep() if "sweep" in options.only else []
    summary = _summary(bench.rows)
    print(json.dumps(summary, indent=1))
    if options.out:
        result = {
            "device": device.description,
            "cuda_driver": device.driver,
            "cupy": cupy.__version__,
            "cublas": cupy.cuda.cublas.getVersion(cupy.cuda.device.get_cublas_handle()),
            "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
            "python": platform.python_version(),
            "flush": "L2 flushed before each sample",
            "tf32": False,
            "summary": summary,
            "rows": [asdict(row) for row in bench.rows],
            "sweep": swept,
        }
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
