"""The one timing helper: notebooks, the grader and the benchmarks use it and no other (a test sees to it).

On a GPU, `benchmark` warms up, flushes the L2 cache before each sample, times with CUDA events, and stops when the
median is known well enough. `benchmark_ratio` interleaves two candidates, so that a drifting clock hits both. On the
simulator there is no time to measure: counters and a labelled estimate are reported instead. `benchmark_host` times
what the host does itself, NumPy and copies among it, by the same rules.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from warpschool import model
from warpschool.counters import Counters
from warpschool.device import Device, Launch, get_device
from warpschool.device.measurement import Rules, Summary, figures, is_stable, measure, median_error, summarize
from warpschool.errors import ArgumentError, NotMeasured

Work = Launch | Callable[[], Any]
"""A launch to repeat, or a function without arguments; on the simulator the function returns its launch or launches."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Result of `benchmark`. Times are GPU time in milliseconds; on the simulator they are None."""

    device: str
    device_name: str
    driver: str
    flush: str
    """what was done to the caches before each sample: "l2" flushed, "warm" nothing"""
    n: int = 0
    median_ms: float | None = None
    p10_ms: float | None = None
    p90_ms: float | None = None
    min_ms: float | None = None
    error: float | None = None
    """relative half width of the median's 95 % confidence interval"""
    stable: bool = False
    """the target error was reached, and the first half of the samples agrees with the second"""
    samples_ms: tuple[float, ...] = field(default=(), repr=False)
    counters: Counters | None = field(default=None, repr=False)
    """simulator only"""
    estimate: model.Estimate | None = None
    """simulator only: a lower bound from the counters, no measurement"""

    @property
    def measured(self) -> bool:
        """Whether there are times at all."""
        return self.median_ms is not None

    def per_second(self, amount: float) -> float:
        """`amount` (operations, bytes) per second at the median time. Raises NotMeasured on the simulator."""
        if self.median_ms is None:
            raise NotMeasured(f"time is not measured on {self.device_name}", next_step="See .counters and .estimate.")
        return amount / (self.median_ms * 1e-3)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self) | {
            "error": self.error if self.error is not None and math.isfinite(self.error) else None,
            "samples_ms": list(self.samples_ms),
            "counters": self.counters.plain() if self.counters is not None else None,
        }

    def __str__(self) -> str:
        if self.median_ms is None:
            return f"time is not measured on {self.device_name}; {self.estimate}"
        doubt = "" if self.stable else ", NOT STABLE"
        return (
            f"{self.median_ms:.4g} ms (median of {self.n}, 10-90 %: {self.p10_ms:.4g}-{self.p90_ms:.4g}, "
            f"error {self.error:.1%}, {_FLUSH_TEXT[self.flush]}{doubt}) on {self.device_name}"
        )


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Result of `benchmark_ratio`. `speed` 1.1 means that the candidate is 10 % faster; None on the simulator."""

    candidate: Timing
    reference: Timing
    speed: float | None
    error: float | None
    stable: bool

    def __str__(self) -> str:
        if self.speed is None:
            return f"candidate: {self.candidate}\nreference: {self.reference}"
        doubt = "" if self.stable else ", NOT STABLE"
        return f"{self.speed:.3f} of the reference's speed (error {self.error:.1%}{doubt})"


_FLUSH_TEXT = {"l2": "L2 flushed", "warm": "caches warm"}


def benchmark(
    work: Work,
    *,
    device: str | Device | None = None,
    flush: str = "l2",
    gpu: str | model.GpuSpec = model.DEFAULT_GPU,
    stream: Any = None,
    rules: Rules | None = None,
) -> Timing:
    """Times `work` on a GPU; on the simulator, reports counters and an estimate for `gpu` instead.

    `work` is a Launch, or a function without arguments that launches and does not wait. `device` is needed only for a
    function on a GPU that returns no Launch (a library call). `flush` is "l2" or "warm". `stream` is where the work
    goes, if not to the current stream. Raises ArgumentError.
    """
    timings, _ = _timings([work], device, flush, gpu, stream, rules or Rules())
    return timings[0]


def benchmark_ratio(
    candidate: Work,
    reference: Work,
    *,
    device: str | Device | None = None,
    flush: str = "l2",
    gpu: str | model.GpuSpec = model.DEFAULT_GPU,
    stream: Any = None,
    rules: Rules | None = None,
) -> Ratio:
    """The candidate's speed as a multiple of the reference's: both are sampled in turns. Parameters as `benchmark`."""
    rules = rules or Rules()
    (first, second), rounds = _timings([candidate, reference], device, flush, gpu, stream, rules)
    if not rounds:
        return Ratio(candidate=first, reference=second, speed=None, error=None, stable=False)
    speeds = figures(rounds)
    return Ratio(
        candidate=first,
        reference=second,
        speed=statistics.median(speeds),
        error=median_error(speeds),
        stable=is_stable(speeds, rules.target_error),
    )


HOST_RULES = Rules(
    warmup_runs=1, warmup_ms=0.0, target_error=0.05, min_samples=5, max_samples=50, max_seconds=1.0, batch=5
)


class HostSampler:
    """Times functions by the host's clock. `wait` blocks until a device is idle."""

    def __init__(self, wait: Callable[[], None] = lambda: None) -> None:
        self.wait = wait

    def run(self, work: Callable[[], Any]) -> None:
        work()
        self.wait()

    def sample(self, works: Sequence[Callable[[], Any]]) -> list[float]:
        times = []
        for work in works:
            self.wait()
            start = time.perf_counter()
            self.run(work)
            times.append((time.perf_counter() - start) * 1e3)
        return times


def benchmark_host(
    work: Callable[[], Any], *, wait: Callable[[], None] = lambda: None, rules: Rules = HOST_RULES
) -> Summary:
    """Times a function by the host's clock: work of the CPU, and copies, behind which `wait` waits."""
    return summarize([times[0] for times in measure([work], HostSampler(wait), rules)])


def _timings(
    works: Sequence[Work], device: str | Device | None, flush: str, gpu: str | model.GpuSpec, stream: Any, rules: Rules
) -> tuple[list[Timing], list[tuple[float, ...]]]:
    """A timing of each work, and the rounds in which they were sampled in turns: none on the simulator."""
    if flush not in _FLUSH_TEXT:
        raise ArgumentError(f'flush is "l2" or "warm", not {flush!r}')
    action, where = _resolve(works[0], device)
    actions = [action, *(_resolve(other, device or where)[0] for other in works[1:])]
    if not where.measures_time:
        return [_simulated(action, where, flush, gpu) for action in actions], []
    rounds = measure(actions, where.sampler(flush=flush, stream=stream), rules)
    return [_timing(samples, where, flush, rules) for samples in zip(*rounds, strict=True)], rounds


def _timing(samples_ms: Sequence[float], device: Device, flush: str, rules: Rules) -> Timing:
    return Timing(
        device=device.name,
        device_name=device.description,
        driver=device.driver,
        flush=flush,
        stable=is_stable(samples_ms, rules.target_error),
        samples_ms=tuple(samples_ms),
        **asdict(summarize(samples_ms)),
    )


def _simulated(action: Callable[[], Any], device: Device, flush: str, gpu: str | model.GpuSpec) -> Timing:
    """One run on the simulator: its counters and an estimate for `gpu`."""
    launches = _launches(action())
    if not launches:
        raise ArgumentError(
            "on the simulator there is no time to measure: the function must return its Launch (or a list of them)",
            next_step="For example: benchmark(lambda: kernel(grid, block, arguments)).",
        )
    bounds = [model.estimate(launch.counters, gpu=gpu, array_bytes=launch.array_bytes) for launch in launches]
    return Timing(
        device=device.name,
        device_name=device.description,
        driver=device.driver,
        flush=flush,
        counters=sum((launch.counters for launch in launches[1:]), launches[0].counters),
        estimate=model.in_sequence(bounds),
    )


def _launches(result: Any) -> list[Launch]:
    """The launches that a function returned: one, or several in a list or tuple."""
    found = list(result) if isinstance(result, Iterable) else [result]
    return found if all(isinstance(launch, Launch) for launch in found) else []


def _resolve(work: Work, device: str | Device | None) -> tuple[Callable[[], Any], Device]:
    """What to call, and the device on which it runs."""
    if isinstance(work, Launch):
        return work.again, work.device
    if not callable(work):
        raise ArgumentError(f"benchmark takes a Launch or a function, not {work!r}")
    if device is not None:
        return work, get_device(device)
    launches = _launches(work())
    return work, launches[0].device if launches else get_device("auto")
