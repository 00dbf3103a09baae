"""Lab 15: sorts by the student's own passes, histograms in three ways, and pictures of what they counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from warpcourse.lab15_patterns.cases import atomic_lanes, segments
from warpcourse.lessons import BLUE, GREEN, ORANGE
from warpschool.contract import parse_contract
from warpschool.harness.launcher import Program, RunResult
from warpschool.notebook.runs import program, run
from warpschool.show.table import Table, small_table

LAB = "lab15_patterns/"
WARP = 32
BITS = 4
"""Bits that one pass of step 07 sorts by."""
_HISTOGRAM = """
// Entry:   histogram(const unsigned char x[n] in, int count[256] out, int n)
// Zeroed:  count
// Launch:  histogram block=(256) grid=(min(cdiv(n, 8192), 264))
extern "C" __global__ void histogram(const unsigned char* x, int* count, int n)
{
    __shared__ int own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&WHERE[x[i]], 1);
    __syncthreads();
    if (own[threadIdx.x]) atomicAdd(&count[threadIdx.x], own[threadIdx.x]);
}
"""
"""A histogram of the plainest kind; WHERE is `count` in global memory, or `own` in shared memory."""


def cut(n: int, count: int, *, seed: int = 0) -> dict[str, npt.NDArray[np.uint32]]:
    """Input of step 01: numbers of `count` segments of very different lengths for n elements."""
    return {"segment": segments(np.random.default_rng(seed), n, count)}


# ---------------------------------------------------------------- scans


def additions(step: str, spans: Sequence[int]) -> list[float | None]:
    """Additions for each element by the student's own scan, for several lengths; None where it does not run."""
    found: list[float | None] = []
    for span in spans:
        counters = run(LAB + step, {"n": 4 * span}, constants={"SPAN": span}, device="sim").counters
        found.append(counters.operations / (4 * span) or None)
    return found


# ---------------------------------------------------------------- histograms


def bytes_to_count(n: int = 65536, *, seed: int = 0) -> dict[str, npt.NDArray[np.uint8]]:
    """Inputs of a histogram: noise, stretches of one value as in a drawing, and a single value."""
    rng = np.random.default_rng(seed)
    stretches = np.repeat(rng.integers(0, 256, n // 60 + 1), rng.integers(60, 120, n // 60 + 1))[:n]
    return {
        "noise": rng.integers(0, 256, n).astype(np.uint8), "a drawing": stretches.astype(np.uint8),
        "one value": np.full(n, 200, np.uint8),
    }  # fmt: skip


def additions_by_atomics(n: int = 65536) -> dict[str, dict[str, tuple[int, int]]]:
    """way -> input -> lanes that add to (global, shared) memory: in global memory, in shared, and the student's own."""
    plain = {
        "in global memory": parse_contract(_HISTOGRAM.replace("WHERE", "count"), name="histogram.cu"),
        "in shared memory": parse_contract(_HISTOGRAM.replace("WHERE", "own"), name="histogram.cu"),
    }
    ways = {name: Program(contract, device="sim") for name, contract in plain.items()}
    ways["your step 05"] = program(LAB + "05_histogram", device="sim")
    inputs = bytes_to_count(n)
    return {
        name: {kind: _lanes(way.run({"n": n}, {"x": x})) for kind, x in inputs.items()} for name, way in ways.items()
    }


def _lanes(counted: RunResult) -> tuple[int, int]:
    return atomic_lanes(counted, "global"), atomic_lanes(counted, "shared")


def draw_atomics(found: Mapping[str, Mapping[str, tuple[int, int]]]) -> Figure:
    """Lanes that add by atomics, a panel for each input: to global memory in orange, to shared memory in blue."""
    inputs = list(next(iter(found.values())))
    figure, panels = plt.subplots(1, len(inputs), figsize=(9, 2.2), sharex=True, sharey=True, layout="constrained")
    for axes, kind in zip(panels, inputs, strict=True):
        ways = list(found)
        for offset, colour, part in ((-0.2, ORANGE, 0), (0.2, BLUE, 1)):
            counts = [found[way][kind][part] for way in ways]
            bars = axes.barh(np.arange(len(ways)) + offset, counts, height=0.38, color=colour)
            axes.bar_label(bars, [f"{count:,}" if count else "" for count in counts], fontsize=8, padding=2)
        axes.set_yticks(range(len(ways)), ways)
        axes.set_title(kind, fontsize=10)
        axes.margins(x=0.35)
    panels[0].invert_yaxis()
    figure.supxlabel("lanes that add by atomics: orange to global memory, blue to shared memory", fontsize=9)
    return figure


# ---------------------------------------------------------------- sorting


@dataclass(frozen=True, eq=False)
class Sort:
    """Keys before the first pass and after each, the values after the last, and what each pass counted."""

    keys: tuple[np.ndarray, ...]
    values: np.ndarray
    runs: tuple[RunResult, ...]

    @property
    def passes(self) -> int:
        return len(self.runs)

    @property
    def is_sorted(self) -> bool:
        """Whether keys ascend and each value is still that of its key, and equal keys' values are in their order."""
        order = np.argsort(self.keys[0], kind="stable")
        return bool(np.array_equal(self.keys[-1], self.keys[0][order]) and np.array_equal(self.values, order))

    @property
    def table(self) -> Table:
        """What each pass moves, in sectors for 32 keys."""
        rows = []
        for number, one in enumerate(self.runs):
            share = WARP / self.values.size
            loads, stores = one.counters.sectors_read * share, one.counters.global_store_sectors * share
            rows.append([f"bits {BITS * number} to {BITS * number + BITS - 1}", f"{loads:.1f}", f"{stores:.1f}"])
        return small_table(["pass", "sectors loaded for 32 keys", "sectors stored for 32 keys"], rows)


def radix_sort(keys: npt.ArrayLike, *, bits: int = 32) -> Sort:
    """Sort by the student's own pass of step 07, again and again; the value of a key is its place at the start."""
    own = program(LAB + "07_radix_pass", device="sim")
    now = np.asarray(keys, np.uint32)
    values = np.arange(now.size, dtype=np.int32)
    seen, runs = [now], []
    for shift in range(0, bits, BITS):
        done = own.run({"n": now.size, "shift": shift}, {"keys": now, "values": values})
        now, values = done.outputs["sorted_keys"], done.outputs["sorted_values"]
        seen.append(now)
        runs.append(done)
    return Sort(tuple(seen), values, tuple(runs))


def draw_sort(sort: Sort, *, last: int = 3) -> Figure:
    """Keys by their place: before, and after each of the last passes."""
    shown = sorted({0, *range(max(1, sort.passes - last + 1), sort.passes + 1)})
    figure, panels = plt.subplots(1, len(shown), figsize=(9, 2.2), sharey=True, squeeze=False, layout="constrained")
    for axes, k in zip(panels[0], shown, strict=True):
        axes.plot(sort.keys[k], ".", markersize=1.5, color=BLUE if k < sort.passes else GREEN)
        axes.set_title("at the start" if k == 0 else f"after pass {k}", fontsize=10)
        axes.set(xticks=[], xlabel="place")
    panels[0][0].set(ylabel="key", yticks=[])
    return figure
