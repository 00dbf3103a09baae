"""Tiles of lab 05's 07_warp_tiled, and over how many blocks K is divided, for a shape that nobody has measured: a rule.

    python benchmarks/tile_rule.py fit benchmarks/results/tiles_sweep_h200.json    # of `gemm.py --only sweep`
    best = choose((1000, 3001, 777), sms=132)              # tiles in the order of TILE_NAMES, and splits

A set's time is taken as that of the SM with the most blocks, n of them. It is the longer of two: all multiply-adds of n
blocks at the pace of an SM that is full, and the rounds of n blocks, so many of them side by side as fit, each as long
as a block needs that waits for nobody: both grow with a block's part of K. Where K is divided (kernels/split_k.cu) the
last block of each tile adds what the others left. Three constants for each set, three more where rows are ragged and
elements are loaded one by one, two for adding, and the launch's own time, are all that is fitted: cycles that no other
shape has are not in them.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
from tile_sets import PRODUCT_TILES, TILE_NAMES

RULE = Path(__file__).with_name("tile_rule.json")
LAUNCH_US = 4.0
"""what a kernel takes that does nothing"""
MOST_SPLITS = 64
SWEPT_SPLITS = (2, 4, 8, 16, 32)
"""in how many parts a sweep divides K, where that is allowed"""
Tiles = tuple[int, ...]
Shape = tuple[int, int, int]
Kind = tuple[Tiles, bool]
"""A set, and whether rows are ragged."""


@dataclass(frozen=True)
class Pace:
    """How fast one tile set is: nanoseconds a step of k, of a block among as many as fit, and of one alone."""

    full_ns: float
    alone_ns: float
    fixed_us: float
    """before the first step and behind the last"""
    together: int
    """blocks that share an SM"""


@dataclass(frozen=True)
class Join:
    """What adding the parts of a tile takes behind the last block's products."""

    fixed_us: float
    float_ns: float
    """for each element of a tile and each of its parts"""


FREE = Join(0.0, 0.0)


def blocks(tiles: Tiles, shape: Shape) -> int:
    return -(-shape[0] // tiles[0]) * -(-shape[1] // tiles[1])


def is_ragged(shape: Shape) -> bool:
    """Whether rows of A or B do not begin at multiples of four elements."""
    return bool(shape[1] % 4 or shape[2] % 4)


def part_of_k(tiles: Tiles, inner: int, splits: int) -> int:
    """Steps of k of one block: whole tiles, and two of them a turn where K is divided."""
    turn = tiles[2] if splits == 1 else 2 * tiles[2]
    return -(-inner // (splits * turn)) * turn


def time_us(tiles: Tiles, pace: Pace, shape: Shape, *, sms: int, splits: int = 1, join: Join = FREE) -> float:
    """What the rule expects."""
    most = -(-blocks(tiles, shape) * splits // sms)
    steps = part_of_k(tiles, shape[2], splits)
    rounds = -(-most // pace.together)
    adding = join.fixed_us + splits * tiles[0] * tiles[1] * join.float_ns * 1e-3 if splits > 1 else 0.0
    products = max(most * steps * pace.full_ns, rounds * steps * pace.alone_ns) * 1e-3
    return LAUNCH_US + products + rounds * pace.fixed_us + adding


def divisions(tiles: Tiles, shape: Shape, *, sms: int) -> list[int]:
    """In how many parts K may be divided: none empty, and no more than a GPU takes in one round."""
    room = sms * together(tiles) // blocks(tiles, shape)
    many = range(2, min(MOST_SPLITS, room) + 1)
    return [1, *(n for n in many if -(-shape[2] // part_of_k(tiles, shape[2], n)) == n)]


@cache
def fitted_rule() -> tuple[Mapping[Kind, Pace], Join]:
    """The fitted constants. Raises FileNotFoundError where nothing was fitted."""
    found = json.loads(RULE.read_text("utf-8"))
    paces = {
        (tuple(int(n) for n in name.split(",")), ragged): Pace(**values)
        for ragged, kind in ((False, "paces"), (True, "ragged_paces")) for name, values in found[kind].items()
    }  # fmt: skip
    return paces, Join(**found["join"])


def choose(shape: Shape, *, sms: int) -> tuple[Tiles, int]:
    """The set, and the parts of K, that the rule expects to be fastest at M x N x K."""
    paces, join = fitted_rule()
    ragged = is_ragged(shape)
    ways = [(tiles, n) for tiles, kind in paces if kind == ragged for n in divisions(tiles, shape, sms=sms)]
    return min(ways, key=lambda way: time_us(way[0], paces[way[0], ragged], shape, sms=sms, splits=way[1], join=join))


def together(tiles: Tiles) -> int:
    """Blocks on an SM: sums and operands are registers, 65,536 of them; 2,048 threads, 32 blocks."""
    threads = tiles[0] // tiles[3] * (tiles[1] // tiles[4]) * 32
    registers = min(255, tiles[5] * tiles[6] + 2 * (tiles[5] + tiles[6]) + 40)
    return max(1, min(65_536 // (registers * threads), 2048 // threads, 32))


Timed = tuple[Shape, int, float]
"""A shape, the parts of K, and microseconds."""


def descended(start: np.ndarray, loss: Callable[[np.ndarray], float]) -> np.ndarray:
    """Values near which no other has a smaller loss: one changes, or two against each other, by steps that are halved.

    Two, since times hardly change where one constant grows as another shrinks.
    """
    best, least, step = start, loss(start), 0.3
    axes = np.eye(start.size)
    ways = [*axes, *(one - other for one, other in combinations(axes, 2))]
    while step > 0.002:
        tried = [best * np.exp(sign * step * way) for way in ways for sign in (1, -1)]
        losses = [loss(values) for values in tried]
        if min(losses) < least:
            least, best = min(losses), tried[int(np.argmin(losses))]
        else:
            step /= 2
    return best.round(5)


def fitted(tiles: Tiles, rows: Sequence[Timed], *, sms: int, join: Join = FREE) -> Pace:
    """The constants with the least squared errors of the times' logarithms."""
    many = together(tiles)
    start = 2 * tiles[0] * tiles[1] / (50e12 / sms) * 1e9

    def pace_of(values: np.ndarray) -> Pace:
        return Pace(float(values[0]), float(values[1]), float(values[2]), many)

    def loss(values: np.ndarray) -> float:
        pace = pace_of(values)
        return sum(
            math.log(time_us(tiles, pace, shape, sms=sms, splits=splits, join=join) / us) ** 2
            for shape, splits, us in rows
        )

    return pace_of(descended(np.array([start, start * min(2, many), 1.0]), loss))


def joined(rows: Mapping[Kind, Sequence[Timed]], paces: Mapping[Kind, Pace], *, sms: int) -> Join:
    """What adding takes, where the sets' paces are known."""
    divided = [(kind, *row) for kind, found in rows.items() for row in found if row[1] > 1]

    def loss(values: np.ndarray) -> float:
        join = Join(float(values[0]), float(values[1]))
        return sum(
            math.log(time_us(kind[0], paces[kind], shape, sms=sms, splits=splits, join=join) / us) ** 2
            for kind, shape, splits, us in divided
        )

    found = descended(np.array([2.0, 0.02]), loss)
    return Join(float(found[0]), float(found[1]))


def key(tiles: Tiles, splits: int) -> str:
    """How a sweep names a way."""
    return ",".join(map(str, tiles)) + (f" / {splits}" if splits > 1 else "")


def timed(sweep: Mapping) -> dict[Kind, list[Timed]]:
    """A sweep's times by sets."""
    found: dict[Kind, list[Timed]] = {(tiles, ragged): [] for ragged in (False, True) for tiles in PRODUCT_TILES}
    for row in sweep["sweep"]:
        shape = (row["sizes"]["M"], row["sizes"]["N"], row["sizes"]["K"])
        for name, ms in row["times_ms"].items():
            values, _, splits = name.partition(" / ")
            kind = tuple(map(int, values.split(","))), is_ragged(shape)
            found[kind].append((shape, int(splits or 1), 1e3 * ms))
    return found


def fit(sweep: Mapping, *, sms: int) -> tuple[dict[Kind, Pace], Join]:
    """All constants: paces of whole K first, then what adding takes, then paces once more with all rows."""
    rows = timed(sweep)
    whole = {kind: [row for row in found if row[1] == 1] for kind, found in rows.items()}
    paces = {kind: fitted(kind[0], found, sms=sms) for kind, found in whole.items()}
    join = joined(rows, paces, sms=sms)
    paces = {kind: fitted(kind[0], found, sms=sms, join=join) for kind, found in rows.items()}
    return paces, joined(rows, paces, sms=sms)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("fit",))
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--sms", type=int, default=132)
    options = parser.parse_args()
    sweep = json.loads(options.sweep.read_text("utf-8"))
    paces, join = fit(sweep, sms=options.sms)
    document = {
        "device": sweep["device"], "constants": TILE_NAMES, "join": asdict(join),
        "paces": {key(kind[0], 1): asdict(pace) for kind, pace in paces.items() if not kind[1]},
        "ragged_paces": {key(kind[0], 1): asdict(pace) for kind, pace in paces.items() if kind[1]},
    }  # fmt: skip
    RULE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    fitted_rule.cache_clear()
    ratios = []
    for row in sweep["sweep"]:
        shape, times = tuple(row["sizes"].values()), row["times_ms"]
        expected = {
            key(tiles, n): time_us(tiles, pace, shape, sms=options.sms, splits=n, join=join)
            for (tiles, ragged), pace in paces.items() for n in (1, *SWEPT_SPLITS)
            if ragged == is_ragged(shape) and key(tiles, n) in times
        }  # fmt: skip
        chosen = times[min(expected, key=expected.__getitem__)]
        ratios.append((row["cublas_ms"] / chosen, min(times.values()) / chosen))
        print(shape, f"{ratios[-1][0]:.2f} of cuBLAS's speed, {ratios[-1][1]:.2f} of the best way's")
    means = [math.exp(sum(math.log(one[k]) for one in ratios) / len(ratios)) for k in (0, 1)]
    print(f"geometric means: {means[0]:.3f} of cuBLAS's speed, {means[1]:.3f} of the best way's")


if __name__ == "__main__":
    main()
