"""The roofline model: the best that memory and arithmetic units allow, a lower bound of a kernel's run time, its worth.

How well the bound ranks kernels is recorded: its order of the course's references against times measured on a GPU.
`benchmarks/estimate.py` computes the figures and writes them beside this module.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ptxsim.limits import SECTOR_BYTES
from warpschool.counters import Counters, ratio
from warpschool.model.specs import DEFAULT_GPU, GpuSpec, find_gpu


@dataclass(frozen=True)
class Roof:
    """One memory level: the slanted line of the plot."""

    level: str
    gb_per_s: float


@dataclass(frozen=True)
class Roofline:
    """The roofs of one GPU. The L2 roof is missing where its bandwidth is not known."""

    gpu: str
    peak_gflops: float
    roofs: tuple[Roof, ...]

    @classmethod
    def of(cls, which: str | GpuSpec = DEFAULT_GPU) -> Roofline:
        """The roofline of a GPU by name or specification."""
        spec = find_gpu(which)
        levels = {"DRAM": spec.dram_gb_per_s, "L2": spec.l2_gb_per_s, "L1": spec.l1_gb_per_s}
        return cls(spec.name, spec.fp32_tflops * 1e3, tuple(Roof(k, v) for k, v in levels.items() if v))

    def roof(self, level: str) -> Roof:
        """The roof of "DRAM", "L2" or "L1"; raises KeyError where there is none."""
        return {roof.level: roof for roof in self.roofs}[level]

    def attainable_gflops(self, intensity: float, level: str = "DRAM") -> float:
        """The most GFLOP/s at `intensity` FLOP per byte of that level's traffic."""
        return min(self.peak_gflops, intensity * self.roof(level).gb_per_s)

    def ridge(self, level: str = "DRAM") -> float:
        """The intensity in FLOP/byte from which on arithmetic, not memory, is the limit."""
        return self.peak_gflops / self.roof(level).gb_per_s

    @staticmethod
    def intensities(counters: Counters, *, array_bytes: int | None = None) -> dict[str, float]:
        """FLOP/byte of a launch at each level.

        L1 serves the bytes that threads ask for; L2 at most the sectors that they touch (a hit in L1 saves some); DRAM
        at least each array once, if `array_bytes` says how large they are together.
        """
        found = {
            "L1": ratio(counters.flops, counters.global_bytes),
            "L2": ratio(counters.flops, counters.global_sector_bytes),
        }
        if array_bytes:
            found["DRAM"] = ratio(counters.flops, min(array_bytes, counters.global_sector_bytes))
        return found


@dataclass(frozen=True)
class Estimate:
    """A lower bound of a launch's time on a GPU, from counters alone. Not a measurement: real launches take longer."""

    gpu: str
    time_ms: float
    limited_by: str
    parts_ms: dict[str, float]
    """unit -> the time that it alone would need"""
    note: str = ""

    def __str__(self) -> str:
        text = f"estimate: roofline bound of {_duration(self.time_ms)} on {self.gpu}, set by {self.limited_by}"
        return f"{text} ({self.note})" if self.note else text


def _duration(ms: float) -> str:
    unit, of_ms = next(((u, size) for u, size in (("ms", 1.0), ("us", 1e-3)) if ms >= size), ("ns", 1e-6))
    return f"{ms / of_ms:.3g} {unit}"


def estimate(counters: Counters, *, gpu: str | GpuSpec = DEFAULT_GPU, array_bytes: int | None = None) -> Estimate:
    """The roofline bound of one launch, or of several added up.

    Arithmetic: one single-precision instruction per lane and clock. L1 and shared memory: one wavefront, or four
    sectors of global memory, per SM and clock. DRAM (only with `array_bytes`): every array moves once, but no more than
    the sectors touched. Fewer blocks than SMs leave SMs idle. Raises NotMeasured for counters that were not taken.
    """
    spec = find_gpu(gpu)
    busy_sms = max(1, min(spec.sms, counters.blocks or spec.sms))
    clocks_per_ms = busy_sms * spec.clock_mhz * 1e3
    arithmetic = counters.fma_instructions + counters.fadd_instructions + counters.fmul_instructions
    sectors = counters.sectors_read + counters.global_store_sectors
    wavefronts = counters.shared_load_wavefronts + counters.shared_store_wavefronts
    parts = {
        "FP32 arithmetic": arithmetic / (spec.sm.fp32_lanes * clocks_per_ms),
        "L1 and shared memory": (wavefronts + sectors / 4) / clocks_per_ms,
    }
    if array_bytes is not None:
        parts["DRAM"] = min(array_bytes, sectors * SECTOR_BYTES) / (spec.dram_gb_per_s * 1e6)
    limited_by = max(parts, key=lambda name: parts[name])
    note = "tensor cores not included" if counters.tensor_instructions else ""
    return Estimate(spec.name, parts[limited_by], limited_by, parts, note)


def in_sequence(estimates: Sequence[Estimate]) -> Estimate:
    """The bound of several launches, one after the other, on one GPU."""
    if len(estimates) == 1:
        return estimates[0]
    units = dict.fromkeys(unit for one in estimates for unit in one.parts_ms)
    parts = {unit: sum(one.parts_ms.get(unit, 0.0) for one in estimates) for unit in units}
    longest = max(estimates, key=lambda e: e.time_ms)
    notes = dict.fromkeys(e.note for e in estimates if e.note)
    note = "; ".join((f"{len(estimates)} launches", *notes))
    return Estimate(longest.gpu, sum(e.time_ms for e in estimates), longest.limited_by, parts, note)


# ---------------------------------------------------------------- how well the bound ranks kernels

RECORD = Path(__file__).parent / "agreement.json"
TRUSTED = 0.9
"""From this rank correlation on kernels may be ranked by their bounds."""


@dataclass(frozen=True)
class Agreement:
    """Spearman's rank correlation of bounds with measured times, over so many kernels on one GPU."""

    gpu: str
    kernels: int
    rank_correlation: float

    def __str__(self) -> str:
        told = f"rank correlation {self.rank_correlation:.2f} with times measured on {self.gpu}"
        told += f", over {self.kernels} reference kernels"
        return told if self.rank_correlation >= TRUSTED else f"do not rank kernels by it: only {told}"


@functools.cache
def agreement() -> Agreement:
    """Return the recorded agreement."""
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    return Agreement(found["gpu"], found["kernels"], found["rank_correlation"])
