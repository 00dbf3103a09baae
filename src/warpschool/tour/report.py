"""What a tour found, as frozen dataclasses that turn into JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from warpschool.grading.verdicts import Verdict
from warpschool.inspect.profile import KernelReport
from warpschool.inspect.timing import Timing
from warpschool.model import GpuSpec

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class GpuFigures:
    """A step timed on the GPU at a case that fills it; `cublas` is the speed as a share of cuBLAS's, for products."""

    case: str
    timing: Timing
    gflops: float | None = None
    cublas: float | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**{k: v for k, v in vars(self).items() if k != "timing"}, "timing": self.timing.to_dict()}


@dataclass(frozen=True, kw_only=True)
class TourStep:
    """One step: the verdict of its counted criterion at the stated case, and the report of that run.

    `counts` says in the grader's words what was counted. `report` is None where the kernel could not be run.
    """

    step: str
    title: str
    verdict: Verdict
    seen: str = ""
    line: int = 0
    counts: str = ""
    report: KernelReport | None = None
    gpu: GpuFigures | None = None
    gpu_note: str = ""
    """why there are no figures although there is a GPU"""
    predicted_us: float | None = None
    """of an H200, by the clock, where no GPU was used and machine code can be read"""

    @property
    def right(self) -> bool:
        return self.verdict is Verdict.AC

    @property
    def short_name(self) -> str:
        """ "lab02/01_tiled": enough for every command that takes a step."""
        lab, idea = self.step.split("/")
        return f"{lab[:5]}/{idea}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "step": self.step, "title": self.title, "right": self.right, "verdict": str(self.verdict),
            "seen": self.seen, "line": self.line, "counts": self.counts,
            "report": self.report.to_dict() if self.report else None,
            "gpu": self.gpu.to_dict() if self.gpu else None, "gpu_note": self.gpu_note,
            "predicted_us": self.predicted_us,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A reference with one barrier taken out, and what the simulator says about it."""

    step: str
    name: str
    source: str
    removed_line: int
    removed_text: str
    hazard: Any
    """None if nothing was found, which would be the simulator's fault"""
    places: int
    """how many source lines were reported"""

    def to_dict(self) -> dict[str, Any]:
        return {
            "step": self.step, "removed_line": self.removed_line, "removed_text": self.removed_text,
            "hazard": self.hazard.to_dict() if self.hazard else None, "places": self.places,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Tour:
    """A finished or interrupted tour; `left_out` says which steps were not run, and why."""

    steps: tuple[TourStep, ...]
    planned: int
    mistake: Mistake | None
    gpu: str
    """the GPU that occupancy is computed for"""
    roofline_gpu: GpuSpec
    """the GPU whose roofs are drawn: the one at hand where there is one"""
    device: str
    environment: Mapping[str, str]
    left_out: tuple[str, ...] = ()
    interrupted: bool = False
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Everything that was planned ran and is right, and the mistake was found out."""
        done = len(self.steps) == self.planned and all(step.right for step in self.steps)
        return done and not self.interrupted and (self.mistake is None or self.mistake.hazard is not None)

    @property
    def on_gpu(self) -> bool:
        return any(step.gpu for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT, "ok": self.ok, "interrupted": self.interrupted, "planned": self.planned,
            "occupancy_gpu": self.gpu, "roofline_gpu": self.roofline_gpu.name, "device": self.device,
            "environment": dict(self.environment), "seconds": round(self.seconds, 3), "left_out": list(self.left_out),
            "steps": [step.to_dict() for step in self.steps],
            "mistake": self.mistake.to_dict() if self.mistake else None,
        }  # fmt: skip
