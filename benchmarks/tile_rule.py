"""Tiles of lab 05's 07_warp_tiled for a shape that nobody has measured: a rule, fitted once to other shapes.

    python benchmarks/tile_rule.py fit benchmarks/results/tiles_sweep_h100.json    # of `gemm.py --only sweep`
    best = choose((1000, 3001, 777), sms=132)              # the tile set, in the order of TILE_NAMES

A set's time is taken as that of the SM with the most blocks, n of them. It is the longer of two: all multiply-adds of n
blocks at the pace of an SM that is full, and the rounds of n blocks, so many of them side by side as fit, each as long
as a block needs that waits for nobody: both grow with K. Three constants for each set, and the launch's own time, are
all that is fitted: cycles that no other shape has are not in them.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
from tile_sets import PRODUCT_TILES, TILE_NAMES

RULE = Path(__file__).with_name("tile_rule.json")
LAUNCH_US = 4.0
"""what a kernel takes that does nothing"""
Tiles = tuple[int, ...]
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Pace:
    """How fast one tile set is: nanoseconds a step of k, of a block among as many as fit, and of one alone."""

    full_ns: float
    alone_ns: float
    fixed_us: float
    """before the first step and behind the last"""
    together: int
    """blocks that share an SM"""


def blocks(tiles: Tiles, shape: Shape) -> int:
    return -(-shape[0] // tiles[0]) * -(-shape[1] // tiles[1])


def time_us(tiles: Tiles, pace: Pace, shape: Shape, *, sms: int) -> float:
    """What the rule expects."""
    most = -(-blocks(tiles, shape) // sms)
    steps = -(-shape[2] // tiles[2]) * tiles[2]
    rounds = -(-most // pace.together)
    return LAUNCH_US + max(most * steps * pace.full_ns, rounds * steps * pace.alone_ns) * 1e-3 + rounds * pace.fixed_us


@cache
def paces() -> Mapping[Tiles, Pace]:
    """The fitted constants. Raises FileNotFoundError where nothing was fitted."""
    found = json.loads(RULE.read_text("utf-8"))["paces"]
    return {tuple(int(n) for n in key.split(",")): Pace(**values) for key, values in found.items()}


def choose(shape: Shape, *, sms: int) -> Tiles:
    """The set that the rule expects to be fastest at M x N x K."""
    known = paces()
    return min(known, key=lambda tiles: time_us(tiles, known[tiles], shape, sms=sms))


def together(tiles: Tiles) -> int:
    """Blocks on an SM: sums and operands are registers, 65,536 of them; 2,048 threads, 32 blocks."""
    threads = tiles[0] // tiles[3] * (tiles[1] // tiles[4]) * 32
    registers = min(255, tiles[5] * tiles[6] + 2 * (tiles[5] + tiles[6]) + 40)
    return max(1, min(65_536 // (registers * threads), 2048 // threads, 32))


def fitted(tiles: Tiles, rows: Sequence[tuple[Shape, float]], *, sms: int) -> Pace:
    """The constants with the least error of the times' logarithms, by a search that halves its steps."""
    many = together(tiles)
    start = 2 * tiles[0] * tiles[1] / (50e12 / sms) * 1e9
    best = np.array([start, start * min(2, many), 1.0])

    def pace_of(values: np.ndarray) -> Pace:
        return Pace(float(values[0]), float(values[1]), float(values[2]), many)

    def loss(values: np.ndarray) -> float:
        pace = pace_of(values)
        return sum(abs(math.log(time_us(tiles, pace, shape, sms=sms) / us)) for shape, us in rows)

    step, least = 0.3, loss(best)
    while step > 0.002:
        tried = [best * (1 + sign * step * np.eye(3)[k]) for k in range(3) for sign in (1, -1)]
        losses = [loss(values) for values in tried]
        if min(losses) < least:
            least, best = min(losses), tried[int(np.argmin(losses))]
        else:
            step /= 2
    return pace_of(best.round(4))


def fit(sweep: Mapping, *, sms: int) -> dict[Tiles, Pace]:
    """The constants of every set."""
    rows: list[tuple[Shape, Mapping[str, float]]] = [
        ((row["sizes"]["M"], row["sizes"]["N"], row["sizes"]["K"]), row["times_ms"]) for row in sweep["sweep"]
    ]
    return {
        tiles: fitted(tiles, [(shape, 1e3 * times[",".join(map(str, tiles))]) for shape, times in rows], sms=sms)
        for tiles in PRODUCT_TILES
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("fit",))
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--sms", type=int, default=132)
    options = parser.parse_args()
    sweep = json.loads(options.sweep.read_text("utf-8"))
    found = fit(sweep, sms=options.sms)
    document = {
        "device": sweep["device"], "constants": TILE_NAMES,
        "paces": {",".join(map(str, tiles)): asdict(pace) for tiles, pace in found.items()},
    }  # fmt: skip
    RULE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    paces.cache_clear()
    ratios = []
    for row in sweep["sweep"]:
        shape = tuple(row["sizes"].values())
        times = row["times_ms"]
        chosen = times[",".join(map(str, choose(shape, sms=options.sms)))]
        ratios.append((row["cublas_ms"] / chosen, min(times.values()) / chosen))
        print(shape, f"{ratios[-1][0]:.2f} of cuBLAS's speed, {ratios[-1][1]:.2f} of the best set's")
    means = [math.exp(sum(math.log(one[k]) for one in ratios) / len(ratios)) for k in (0, 1)]
    print(f"geometric means: {means[0]:.3f} of cuBLAS's speed, {means[1]:.3f} of the best set's")


if __name__ == "__main__":
    main()
