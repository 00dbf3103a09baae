"""Split channels on a GPU against cuDNN: the 22 layers of Yolo and ResNet of a thesis, one image, float32.

    python benchmarks/split_channels.py [--out FILE] [--tune [N]] [--records FOLDER] [--carry FILE] [--only LAYER ...]

Filters of 1 x 1 take 07_one_by_one of lab 12, all others 08_strided, with the best tiles that are known for the layer
on this GPU (best_tiles.json). Each layer is compared with a float64 convolution, then timed in turns with cuDNN as
PyTorch calls it (benchmark mode on, TF32 off), and in turns with the fastest of cuDNN's algorithms, the L2 cache
flushed before each sample. `ratio` is our time as a multiple of the first's, `best.ratio` of the second's, the median
of the rounds' ratios: below 1 is faster. The thesis compares with cuDNN's GEMM algorithms: `best.times_ms` has all.
Filters are stored as [C,R,S,F] beforehand, as the thesis has them. Beside it, for layers where it was found faster, lab
09's kernels, the filters' transform included (`winograd`), and for each layer one product with as many multiply-adds,
operands gathered beforehand (`product`): see layer_ways.py.

`--tune` measures the N sets of tiles of each layer that the model ranks first (without N: every legal one, for hours)
and keeps what it measured in `--records`, a file for each GPU and layer: a search that was stopped goes on from there.
`--carry benchmarks/best_tiles.json` keeps the best of the records.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

os.environ["CUPY_TF32"] = "0"

try:
    import cupy
    import torch
except ImportError:
    raise SystemExit("this needs a GPU, CuPy and PyTorch: pip install 'warpschool[cuda13,torch]'") from None

from cudnn_algorithms import GEMM_ALGORITHMS, Best, Rival, against_best, fastest
from layer_ways import Plain, median_us, plain_product, transformed
from tile_search import SearchRecord, best_known, problem_key, search, step_for, tiles_key, with_tiles

import warpschool as ws
from warpcourse.lab12_split_channels.tiles import LAYERS, Tiles, ranked
from warpschool.contract import Contract, parse_contract
from warpschool.device import repeated
from warpschool.device.measurement import Rules
from warpschool.nn import Convolution
from warpschool.nn.pipelines import Convolved

ROOT = Path(__file__).parent.parent
QUICK = Rules(warmup_runs=2, warmup_ms=1.0, min_samples=7, max_samples=11, max_seconds=0.1)


@cache
def contract_of(step: str) -> Contract:
    path = ROOT / "solutions" / f"{step}.cu"
    return parse_contract(path.read_text("utf-8"), name=path.name)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One layer; `ratio` is our time as a multiple of cuDNN's as PyTorch calls it."""

    layer: str
    step: str
    sizes: dict[str, int]
    tiles: dict[str, int]
    blocks: int
    registers: int
    max_error: float
    """largest error, as a multiple of the rounding that is expected"""
    time_us: float
    cudnn_us: float
    ratio: float
    ratio_error: float
    stable: bool
    best: Best
    """cuDNN's fastest algorithm"""
    exact_error: float
    """our largest error, of the largest result"""
    tflop_per_s: float
    winograd: Other | None
    product: Plain


@dataclass(frozen=True, kw_only=True)
class Other:
    """The layer by Winograd's method, each ratio in turns."""

    method: str
    time_us: float
    ratio: float
    """to cuDNN as PyTorch calls it"""
    best_ratio: float
    """to cuDNN's fastest algorithm"""
    exact_error: float


class Case:
    """A layer's arrays on the GPU, and the exact result."""

    def __init__(self, name: str, problem: Convolution) -> None:
        self.name, self.problem = name, problem
        torch.manual_seed(1)
        self.x, self.w = (torch.rand(s, device="cuda") * 2 - 1 for s in (problem.image_shape, problem.filter_shape))
        convolved = torch.nn.functional.conv2d
        how = {"stride": problem.stride, "padding": problem.pad}
        self.library: Callable[[], Any] = lambda: convolved(self.x, self.w, **how)
        self.exact = convolved(self.x.double(), self.w.double(), **how)
        device = ws.get_device("gpu")
        self.images = device.asarray(cupy.from_dlpack(self.x), name="x")
        self.filters = device.asarray(cupy.from_dlpack(self.w.permute(1, 2, 3, 0).contiguous()), name="w")

    def done(self, tiles: Tiles) -> Convolved:
        """Compute the layer once; its launches can be repeated."""
        pipeline = with_tiles(contract_of(step_for(self.problem)), self.problem, tiles, device="gpu")
        return pipeline.on_turned(self.problem, self.images, self.filters)

    def check(self, done: Convolved) -> float:
        """Repeat the launches on a poisoned result and return its error. Raises ArithmeticError."""
        done.y.native.fill(math.nan)
        repeated(done.launches)()
        return self.error_of(done.y.native)

    def part(self, y: Any) -> float:
        """The largest error, of the largest result."""
        difference = (torch.as_tensor(y, device="cuda") - self.exact).abs().max()
        return float(difference / self.exact.abs().max())

    def error_of(self, y: Any) -> float:
        """The largest error as a multiple of what is expected: terms are at most 1, roundings a random walk."""
        error = float((torch.as_tensor(y, device="cuda") - self.exact).abs().max()) / (2.0**-24 * self.problem.terms)
        if not error <= 8.0:
            raise ArithmeticError(f"{self.name}: the result is wrong: {error:.1f} times the expected rounding error")
        return error


def tuned(case: Case, count: int | None, records: Path) -> Tiles:
    """The best tiles of those that the model ranks first, and of all that the record knows."""
    gpu = ws.get_device("gpu")
    source = contract_of(step_for(case.problem)).source
    record = SearchRecord.open(records, gpu=gpu.description, problem=case.problem, kernel=source)
    wanted = [found.tiles for found in ranked(case.problem, gpu.spec)[:count]]

    def measure(tiles: Tiles) -> float:
        done = case.done(tiles)
        case.check(done)
        return median_us(repeated(done.launches), QUICK)

    return search(wanted, measure, record, title=case.name)[0]


def measure(case: Case, tiles: Tiles, rules: Rules) -> Row:
    """Check a layer and time it in turns with cuDNN."""
    problem = case.problem
    pipeline = with_tiles(contract_of(step_for(problem)), problem, tiles, device="gpu")
    done = pipeline.on_turned(problem, case.images, case.filters)
    error = case.check(done)
    found = ws.benchmark_ratio(repeated(done.launches), case.library, device="gpu", rules=rules)
    mine, other = found.candidate.median_ms, found.reference.median_ms
    assert mine is not None and other is not None and found.speed is not None and found.error is not None
    first, rivals = done.launches[0], fastest(problem, case.x, case.w)
    row = Row(
        layer=case.name, step=step_for(problem), sizes=problem.sizes, tiles=asdict(tiles), blocks=first.blocks,
        registers=int(pipeline.program.kernel(first.kernel).attributes["num_regs"]), max_error=error,
        time_us=1e3 * mine, cudnn_us=1e3 * other, ratio=1 / found.speed, ratio_error=found.error, stable=found.stable,
        best=against_best(repeated(done.launches), rivals, rules),
        exact_error=case.part(done.y.native), tflop_per_s=problem.flop / mine * 1e-9,
        winograd=by_winograd(case, rivals, rules), product=plain_product(problem),
    )  # fmt: skip
    print(row_text(row), flush=True)
    return row


def by_winograd(case: Case, rivals: Sequence[Rival], rules: Rules) -> Other | None:
    """The layer by Winograd's method in turns with cuDNN; None where it was not found faster than split channels."""
    filters = ws.get_device("gpu").asarray(cupy.from_dlpack(case.w), name="w")
    way = transformed(case.name, case.problem, case.images, filters)
    if way is None:
        return None
    work, error = repeated(way.done.launches), case.part(way.done.y.native)
    if not error <= 1e-4:
        raise ArithmeticError(f"{case.name} by {way.method}: an error of {error:.2g} of the largest result")
    found = ws.benchmark_ratio(work, case.library, device="gpu", rules=rules)
    assert found.candidate.median_ms is not None and found.speed is not None
    return Other(
        method=way.method, time_us=1e3 * found.candidate.median_ms, ratio=1 / found.speed,
        best_ratio=against_best(work, rivals, rules).ratio, exact_error=error,
    )  # fmt: skip


def row_text(row: Row) -> str:
    doubt = "" if row.stable else ", not stable"
    return (
        f"{row.layer:4s} {row.time_us:7.1f} us, cuDNN {row.cudnn_us:7.1f}: {row.ratio:6.3f} (error "
        f"{row.ratio_error:.1%}{doubt}); its best {1e3 * row.best.time_ms:7.1f} ({row.best.name}): "
        f"{row.best.ratio:6.3f}  {row.tflop_per_s:5.1f} TFLOP/s  {row.blocks} blocks, {row.registers} registers  "
        f"{tiles_key(Tiles(**row.tiles))}  product {row.product.time_us:.1f} ({row.product.by})"
        + (f"  {row.winograd.method}: {row.winograd.time_us:.1f}, {row.winograd.ratio:.3f}" if row.winograd else "")
    )


def summary(rows: Sequence[Row]) -> dict[str, float | str]:
    """The figures that are asked for."""
    if not rows:
        return {}

    def mean(values: Sequence[float]) -> float:
        return math.exp(sum(map(math.log, values)) / len(values))

    worst = max(rows, key=lambda row: row.ratio)
    found: dict[str, float | str] = {
        "geometric_mean": mean([row.ratio for row in rows]), "worst": worst.ratio, "worst_layer": worst.layer,
    }  # fmt: skip
    found["geometric_mean_to_best"] = mean([row.best.ratio for row in rows])
    ways = [row.winograd for row in rows]
    found["fastest_mean"] = mean([min(r.ratio, w.ratio) if w else r.ratio for r, w in zip(rows, ways, strict=True)])
    found["fastest_mean_to_best"] = mean(
        [min(r.best.ratio, w.best_ratio) if w else r.best.ratio for r, w in zip(rows, ways, strict=True)]
    )
    found["product_mean"] = mean([row.product.time_us / row.cudnn_us for row in rows])
    found["product_mean_to_best"] = mean([row.product.time_us / (1e3 * row.best.time_ms) for row in rows])
    products = [[row.best.times_ms[name] for name in GEMM_ALGORITHMS if name in row.best.times_ms] for row in rows]
    against = [row.time_us / (1e3 * min(times)) for row, times in zip(rows, products, strict=True) if times]
    if against:
        found["geometric_mean_to_gemm"] = mean(against)
    return found


def carry(tiles: dict[str, Tiles], gpu: str, path: Path) -> None:
    """Add the best tiles to a file like best_tiles.json."""
    found = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    found.setdefault(gpu, {}).update({problem_key(LAYERS[name]): tiles_key(best) for name, best in tiles.items()})
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", "--json", type=Path, help="write the results to this JSON file")
    parser.add_argument("--tune", nargs="?", type=int, const=0, metavar="N", help="search tiles, the model's first N")
    parser.add_argument("--records", type=Path, default=Path("tile_records"), help="where searches keep their times")
    parser.add_argument("--carry", type=Path, help="add the best tiles to this file")
    parser.add_argument("--seconds", type=float, default=0.5, help="at most this long for one measurement")
    parser.add_argument("--only", nargs="+", choices=tuple(LAYERS), default=tuple(LAYERS), metavar="LAYER")
    return parser.parse_args()


def main() -> None:
    """Measure the layers, print a line for each, write them all as JSON."""
    chosen = options()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    gpu = ws.get_device("gpu")
    rules = Rules(max_seconds=chosen.seconds, target_error=0.005, min_samples=20)
    rows, best = [], {}
    for name in chosen.only:
        case = Case(name, LAYERS[name])
        known = best_known(case.problem, gpu=gpu.description)
        if chosen.tune is not None:
            best[name] = tuned(case, chosen.tune or None, chosen.records)
        else:
            best[name] = known or ranked(case.problem, gpu.spec)[0].tiles
        rows.append(measure(case, best[name], rules))
    print(json.dumps(summary(rows), indent=1))
    if chosen.carry:
        carry(best, gpu.description, chosen.carry)
    if chosen.out:
        result = {
            "what": "split channels against cuDNN, one image", "device": gpu.description, "cuda_driver": gpu.driver,
            "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
            "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())), "flush": "L2 flushed before each sample",
            "tf32": False, "summary": summary(rows), "rows": [asdict(row) for row in rows],
        }  # fmt: skip
        chosen.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
