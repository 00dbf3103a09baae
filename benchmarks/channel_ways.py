"""Three ways to split channels against none, and a layer whose filters no warp divides: section 6.3 of a thesis.

    python benchmarks/channel_ways.py [--out FILE] [--seconds 0.2] [--only LAYER ...]

Lab 12's steps 04 (between the lanes of a warp), 05 (between the warps of a block) and 06 (across the grid), one image,
float32, each layer of Yolo and ResNet with filters of 3 x 3 and stride 1. A thread's and a block's tiles are those that
the search found for the layer; only the way and the number of parts vary, and no split stands beside them. Every kernel
is compared with a float64 convolution, then timed, L2 flushed. Last comes Yolo's final layer, 28,269 filters of 1 x 1,
which the thesis leaves out: step 09 of lab 12, in turns with cuDNN's fastest algorithm.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cudnn_algorithms import against_best, fastest
from split_channels import Case, contract_of, median_us
from tile_search import SplitChannels, best_known

import warpschool as ws
from warpcourse.lab12_split_channels.tiles import LAYERS, Tiles, ranked
from warpschool.device import repeated
from warpschool.device.measurement import Rules
from warpschool.errors import WarpschoolError
from warpschool.harness.launcher import Program
from warpschool.nn import Convolution

LAB = "lab12_split_channels"
WAYS: Mapping[str, tuple[str, str, tuple[int, ...]]] = {
    "none": (f"{LAB}/06_split_c_grid", "SPLITS", (1,)),
    "warp": (f"{LAB}/04_split_c_warp", "WC", (2, 4, 8)),
    "block": (f"{LAB}/05_split_c_block", "BC", (2, 4, 8)),
    "grid": (f"{LAB}/06_split_c_grid", "SPLITS", (2, 4, 8, 16, 32)),
}
"""way -> step, the constant that says into how many parts, and how many are tried"""
RAGGED = f"{LAB}/09_batched_ragged"
LAST_OF_YOLO = Convolution(batch=1, channels=1024, height=17, width=17, filters=28_269, rows=1, cols=1)
RAGGED_TILES = ((2, 4, 4, 2, 2), (4, 4, 4, 2, 2), (4, 4, 4, 1, 2), (4, 3, 3, 3, 2), (2, 3, 6, 3, 1), (4, 2, 6, 3, 3))
"""TK, TH, TW, BH, BW that are tried for it: all of 17 x 17 places by one or by few blocks"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One layer split in one way into so many parts."""

    layer: str
    way: str
    parts: int
    blocks: int
    registers: int
    max_error: float
    """largest error, as a multiple of the rounding that is expected"""
    time_us: float


def layers() -> dict[str, Convolution]:
    return {
        name: problem for name, problem in LAYERS.items()
        if problem.stride == 1 and (problem.rows, problem.cols) == (3, 3)
    }  # fmt: skip


def constants(tiles: Tiles, way: str, parts: int) -> dict[str, int]:
    """The layer's own tiles, split in one way only; as many channels in a stage as can be dealt out."""
    step = max(4, parts if way in ("warp", "block") else 0)
    shape = {"TK": tiles.filters, "TH": tiles.rows, "TW": tiles.cols, "BH": tiles.warp_rows, "BW": tiles.warp_cols}
    if way == "warp":
        shape["TK"] = min(4, parts)  # a warp covers 32 filters at most
    split = {"BC": 1} if way in ("none", "grid") else {}
    return shape | split | {WAYS[way][1]: parts, "STEP": step}


def candidates(tiles: Tiles) -> Iterator[tuple[str, int, dict[str, int]]]:
    for way, (_, _, counts) in WAYS.items():
        for parts in counts:
            yield way, parts, constants(tiles, way, parts)


def compiled(step: str, values: Mapping[str, int]) -> SplitChannels | str:
    """The pipeline, compiled; or why it cannot be."""
    try:
        made = SplitChannels(Program(contract_of(step), device="gpu", constants=values))
        made.program.module.compile()
        return made
    except WarpschoolError as error:
        return str(error).splitlines()[0]


def measured(name: str, problem: Convolution, rules: Rules) -> list[Row]:
    """Every way at a layer; ways that its tiles do not allow are told and left out."""
    case = Case(name, problem)
    gpu = ws.get_device("gpu")
    tiles = best_known(problem, gpu=gpu.description) or ranked(problem, gpu.spec)[0].tiles
    tried = list(candidates(tiles))
    with ThreadPoolExecutor() as pool:
        pipelines = list(pool.map(lambda one: compiled(WAYS[one[0]][0], one[2]), tried))
    rows = []
    for (way, parts, values), pipeline in zip(tried, pipelines, strict=True):
        try:
            if isinstance(pipeline, str):
                raise WarpschoolError(pipeline)
            done = pipeline.on_turned(problem, case.images, case.filters)
        except WarpschoolError as why:
            print(f"{name} {way} {parts} {values}: {str(why).splitlines()[0][:100]}", flush=True)
            continue
        error = case.check(done)
        first = done.launches[0]
        rows.append(
            Row(
                layer=name, way=way, parts=parts, blocks=first.blocks, max_error=error,
                registers=int(pipeline.program.kernel(first.kernel).attributes["num_regs"]),
                time_us=median_us(repeated(done.launches), rules),
            )
        )  # fmt: skip
        print(f"{name:4s} {way:5s} {parts:2d} parts: {rows[-1].time_us:7.1f} us, {first.blocks} blocks", flush=True)
    return rows


def last_layer(rules: Rules) -> dict[str, Any]:
    """Yolo's last layer by step 09, with the fastest of a few tiles, in turns with cuDNN's best."""
    problem = LAST_OF_YOLO
    case = Case("last", problem)
    window = {"FILTER_R": 1, "FILTER_S": 1, "FILTER_STRIDE": 1, "SPLITS": 1, "STEP": 8}
    sets = [dict(zip(("TK", "TH", "TW", "BH", "BW"), t, strict=True)) | window for t in RAGGED_TILES]
    with ThreadPoolExecutor() as pool:
        made = list(pool.map(lambda values: compiled(RAGGED, values), sets))
    times = []
    for values, pipeline in zip(sets, made, strict=True):
        if isinstance(pipeline, str):
            print(f"last layer {values}: {pipeline[:100]}", flush=True)
            continue
        done = pipeline.on_turned(problem, case.images, case.filters)
        error = case.check(done)
        times.append((median_us(repeated(done.launches), rules), values, done, error))
    time_us, values, done, error = min(times, key=lambda one: one[0])
    best = against_best(repeated(done.launches), fastest(problem, case.x, case.w), rules)
    print(f"28,269 filters: {time_us:.1f} us, {best.name} {1e3 * best.time_ms:.1f} us: {best.ratio:.3f}", flush=True)
    return {
        "sizes": problem.sizes, "step": RAGGED, "constants": values, "max_error": error, "time_us": time_us,
        "best": asdict(best),
    }  # fmt: skip


def main() -> None:
    """Measure the layers, print a line for each way, write them all as JSON."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    parser.add_argument("--seconds", type=float, default=0.2, help="at most this long for one measurement")
    parser.add_argument("--only", nargs="+", choices=tuple(layers()), default=tuple(layers()), metavar="LAYER")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    rules = Rules(max_seconds=options.seconds, target_error=0.01, min_samples=9)
    last = last_layer(rules)
    rows = [row for name in options.only for row in measured(name, layers()[name], rules)]
    if options.out:
        device = ws.get_device("gpu")
        result = {
            "what": "ways to split channels, one image", "device": device.description, "cuda_driver": device.driver,
            "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "last_layer": last,
            "flush": "L2 flushed before each sample", "rows": [asdict(row) for row in rows],
        }  # fmt: skip
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
