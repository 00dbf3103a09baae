"""Lab 16: what its notebook computes and draws: pairs that grow, bytes by length, masks, errors, a cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from warpcourse.lab16_attention.cases import attend
from warpcourse.lessons import BLUE, GREEN, ORANGE
from warpschool.counters import SECTOR_BYTES, Counters
from warpschool.errors import WarpschoolError
from warpschool.harness.launcher import RunResult
from warpschool.notebook.runs import run
from warpschool.show.table import Table, small_table

LAB = "lab16_attention/"
D = 64
FLOAT_BYTES = 4

# ---------------------------------------------------------------- the pair


@dataclass(frozen=True, eq=False)
class Running:
    """A row of scores taken tile by tile: what is known after each tile, and what would be without subtracting."""

    scores: npt.NDArray[np.float32]
    tile: int

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """(largest, sum of exp(score - largest)) after each tile, as step 01 joins them."""
        found: list[tuple[float, float]] = []
        largest, total = -np.inf, 0.0
        for part in np.split(self.scores.astype(np.float64), range(self.tile, self.scores.size, self.tile)):
            larger = max(largest, float(part.max()))
            total = total * float(np.exp(largest - larger)) + float(np.exp(part - larger).sum())
            largest = larger
            found.append((largest, total))
        return found

    @property
    def plain(self) -> list[float]:
        """The sum of exp(score) in single precision after each tile."""
        with np.errstate(over="ignore"):
            powers = np.exp(self.scores).cumsum(dtype=np.float32)
        ends = range(self.tile, powers.size + self.tile, self.tile)
        return [float(powers[min(end, powers.size) - 1]) for end in ends]

    @property
    def table(self) -> Table:
        """A row for each tile."""
        rows = [
            [f"{number}", f"{largest:.4g}", f"{total:.4g}", f"{plain:.4g}"]
            for number, ((largest, total), plain) in enumerate(zip(self.pairs, self.plain, strict=True))
        ]
        return small_table(["tile", "largest", "sum of exp(score - largest)", "sum of exp(score), float32"], rows)


def growing_scores(n: int = 64, *, tile: int = 16, seed: int = 16) -> Running:
    """Scores of one query that grow along the text, up to about 100."""
    rng = np.random.default_rng(seed)
    return Running((np.linspace(0, 90, n) + 8 * rng.uniform(-1, 1, n)).astype(np.float32), tile)


def draw_running(running: Running) -> Figure:
    """Scores, and the largest so far; below them what a number of the sum counts for when the next tile has come."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(7, 3.6), sharex=True, layout="constrained")
    places = np.arange(running.scores.size)
    steps = np.repeat([largest for largest, _ in running.pairs], running.tile)[: places.size]
    above.plot(places, running.scores, ".", color=BLUE, label="score")
    above.step(places, steps, color=ORANGE, where="mid", label="largest so far")
    above.legend(fontsize=8)
    largest = [pair[0] for pair in running.pairs]
    shrinks = [float(np.exp(old - new)) for old, new in pairwise(largest)]
    middles = running.tile * np.arange(1, len(largest))
    bars = below.bar(middles, shrinks, width=running.tile / 3, color=GREEN)
    below.bar_label(bars, [f"{shrink:.1e}" for shrink in shrinks], fontsize=8)
    below.set(yscale="log", xlabel="key", ylabel="shrinks to")
    below.margins(y=0.3)
    return figure


# ---------------------------------------------------------------- memory


def run_own(step: str, n: int, *, causal: int = 0, heads: int = 1, d: int = D, **constants: int) -> RunResult:
    """The student's own forward step on the simulator."""
    sizes = {"causal": causal, "HEADS": heads, "N": n}
    return run(LAB + step, sizes, constants={**constants, "D": d}, device="sim")


def moved(step: str, lengths: Sequence[int], *, causal: int = 0) -> list[float | None]:
    """KiB of global memory that the student's own step loads and stores, by length; None where it does not run."""
    found: list[float | None] = []
    for n in lengths:
        try:
            counters = run_own(step, n, causal=causal).counters
        except WarpschoolError:
            found.append(None)
            continue
        found.append((counters.global_load_bytes + counters.global_store_bytes) / 1024 or None)
    return found


def kept(lengths: Sequence[int]) -> dict[str, list[float | None]]:
    """KiB that have to lie in memory for one head, by length: Q, K, V and O, with S and P and without."""
    fused: list[float | None] = [4 * n * D * FLOAT_BYTES / 1024 for n in lengths]
    with_scores = [(4 * n * D + 2 * n * n) * FLOAT_BYTES / 1024 for n in lengths]
    return {"with S and P": list(with_scores), "fused": fused}


# ---------------------------------------------------------------- masks


def draw_masks(n: int = 192, *, tile: int = 64) -> Figure:
    """Which tiles of scores a causal text needs: whole ones, those that the diagonal crosses, and none."""
    figure, axes = plt.subplots(figsize=(3.4, 3.4), layout="constrained")
    tiles = -(-n // tile)
    for row in range(tiles):
        for col in range(tiles):
            colour, label = (BLUE, "whole") if col < row else (ORANGE, "masked") if col == row else ("none", "left out")
            axes.add_patch(plt.Rectangle((col, row), 1, 1, facecolor=colour, edgecolor="grey", alpha=0.6))
            axes.text(col + 0.5, row + 0.5, label, ha="center", va="center", fontsize=9)
    axes.set(xlim=(0, tiles), ylim=(tiles, 0), xticks=range(tiles + 1), yticks=range(tiles + 1))
    axes.set(xlabel=f"tiles of {tile} keys", ylabel=f"tiles of {tile} queries", aspect="equal")
    return figure


# ---------------------------------------------------------------- accuracy


def errors(spreads: Sequence[int], *, n: int = 96, seed: int = 6) -> dict[str, list[float | None]]:
    """Largest error of O, in units of the largest value, of the student's own 05 and 06 as scores spread wider."""
    steps = {"05, float32": ("05_fused", np.float32), "06, halves": ("06_tensor_cores", np.float16)}
    return {name: [_error(step, dtype, n, spread, seed) for spread in spreads] for name, (step, dtype) in steps.items()}


def _error(step: str, dtype: npt.DTypeLike, n: int, spread: int, seed: int) -> float | None:
    rng = np.random.default_rng(seed)
    q, k, v = (rng.uniform(-1, 1, (1, n, D)) for _ in range(3))
    arrays: Mapping[str, np.ndarray] = {
        "Q": (spread * q).astype(dtype), "K": k.astype(dtype), "V": v.astype(dtype)
    }  # fmt: skip
    try:
        got = run(LAB + step, {"causal": 0, "HEADS": 1, "N": n}, arrays, device="sim").outputs["O"]
    except WarpschoolError:
        return None
    right = attend(arrays["Q"], arrays["K"], arrays["V"], causal=False).out
    error = float(abs(got - right).max() / abs(arrays["V"]).max())
    return error if np.isfinite(error) else None


# ---------------------------------------------------------------- decoding


def cache_bytes(groups: Sequence[int], *, length: int = 4096, heads: int = 32, layers: int = 32, d: int = 128) -> Table:
    """What a text's keys and values take in a network of many layers, by how many heads share them."""
    rows = []
    for group in groups:
        kept_bytes = 2 * 2 * length * (heads // group) * d * layers
        read_ms = kept_bytes / 4.8e12 * 1e3
        rows.append([f"{group}", f"{heads // group}", f"{kept_bytes / 2**20:,.0f} MiB", f"{read_ms:.2f} ms"])
    return small_table(["heads that share", "groups", "keys and values", "to read them once at 4.8 TB/s"], rows)


# ---------------------------------------------------------------- what was predicted


def key_loads(done: RunResult) -> float:
    """How often a run of step 05 loads each key, on average."""
    q_bytes = done.outputs["O"].nbytes
    return (done.counters.global_load_bytes - q_bytes) / (2 * q_bytes)


def tiles_of(done: RunResult, *, tile: int = 64) -> int:
    """Tiles of scores that a run of step 05 looks at: for each it loads `tile` keys and as many values."""
    loaded = done.counters.global_load_bytes - done.outputs["O"].nbytes  # without the queries
    return int(loaded // (2 * tile * D * FLOAT_BYTES))


def bytes_of_a_key(counters: Counters, n: int) -> int:
    """Bytes of keys that a run of step 08 loads for each of n keys, in whole sectors.

    That is half of what it loads; queries, and what joins the parts, add less than a sector for each key.
    """
    return int(counters.global_load_bytes // (2 * n) // SECTOR_BYTES * SECTOR_BYTES)
