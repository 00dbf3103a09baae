"""The one timing helper: notebooks, the grader and the benchmarks use it and no other.

On a GPU, `benchmark` warms up, flushes the L2 cache before each sample, times with CUDA events, and stops when the
median is known well enough. `benchmark_ratio` interleaves two candidates, so that a drifting clock hits both. On the
simulator there is no time to measure: counters and a labelled estimate are reported instead.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from . import model
from .counters import Counters
from .device import Device, Launch, get_device
from .errors import ArgumentError, NotMeasured

Work = Launch | Callable[[], Any]
"""A launch to repeat, or a function without arguments; on the simulator the function returns its launch or launches."""
Clock = Callable[[], float]

_CONFIDENCE = 0.98
"""Half of the normal distribution's 1.96: ranks n/2 -+ 0.98 sqrt(n) enclose the median with 95 % confidence."""
_DRIFT = 3
"""A run is stable only if its two halves' medians differ by no more than this many target errors."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """When to start and when to stop measuring."""

    warmup_runs: int = 3
    warmup_ms: float = 50.0
    target_error: float = 0.01
    """relative half width of the median's 95 % confidence interval"""
    min_samples: int = 10
    max_samples: int = 1000
    max_seconds: float = 5.0
    batch: int = 10
    """samples between two looks at the error"""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What is known of a sample of times; `error` is relative to the median."""

    n: int
    median_ms: float
    p10_ms: float
    p90_ms: float
    min_ms: float
    error: float


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
        found = {k: v for k, v in self.__dict__.items() if k not in ("counters", "estimate", "samples_ms")}
        found["samples_ms"] = list(self.samples_ms)
        found["counters"] = self.counters.plain() if self.counters is not None else None
        found["estimate"] = asdict(self.estimate) if self.estimate else None
        return found

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


# ---------------------------------------------------------------- statistics


def median_error(values: Sequence[float]) -> float:
    """Relative half width of the median's 95 % confidence interval, from ranks: no distribution is assumed.

    Infinite for fewer than 6 values, which cannot enclose the median with that confidence.
    """
    n = len(values)
    if n < 6:
        return math.inf
    ordered = sorted(values)
    reach = _CONFIDENCE * math.sqrt(n)
    low, high = max(0, math.floor(n / 2 - reach)), min(n - 1, math.ceil(n / 2 + reach) - 1)
    return (ordered[high] - ordered[low]) / 2 / statistics.median(ordered)


def quantile(values: Sequence[float], fraction: float) -> float:
    """Linear interpolation between the two nearest ranks."""
    ordered = sorted(values)
    place = fraction * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def summarize(samples_ms: Sequence[float]) -> Summary:
    """Median, spread and error of a sample."""
    return Summary(
        n=len(samples_ms),
        median_ms=statistics.median(samples_ms),
        p10_ms=quantile(samples_ms, 0.1),
        p90_ms=quantile(samples_ms, 0.9),
        min_ms=min(samples_ms),
        error=median_error(samples_ms),
    )


def is_stable(values: Sequence[float], target_error: float) -> bool:
    """The error is under target, and the first half of the values agrees with the second."""
    if median_error(values) > target_error:
        return False
    half = len(values) // 2
    first, second = statistics.median(values[:half]), statistics.median(values[half:])
    return abs(first - second) <= _DRIFT * target_error * statistics.median(values)


class Sampler(Protocol):
    """Something that can take timed samples; the GPU's is `GpuSampler`."""

    def run(self, work: Callable[[], Any]) -> None:
        """Runs `work` once and waits for it."""

    def sample(self, works: Sequence[Callable[[], Any]]) -> list[float]:
        """Times each of `works`, in order, in milliseconds."""


def measure(
    works: Sequence[Callable[[], Any]], sampler: Sampler, rules: Rules, *, clock: Clock = time.perf_counter
) -> list[tuple[float, ...]]:
    """Rounds of one sample of each of `works`, interleaved and in alternating order, until the rules are met.

    With two works their ratio, with one its time, must reach the target error.
    """
    _warm_up(works, sampler, rules, clock)
    started = clock()
    rounds: list[tuple[float, ...]] = []
    while True:
        count = min(rules.batch, rules.max_samples - len(rounds))
        orders = [works if (len(rounds) + k) % 2 == 0 else works[::-1] for k in range(count)]
        times = sampler.sample([work for order in orders for work in order])
        for k in range(count):
            chunk = tuple(times[k * len(works) : (k + 1) * len(works)])
            rounds.append(chunk if orders[k] is works else chunk[::-1])
        if len(rounds) >= rules.max_samples or clock() - started >= rules.max_seconds:
            return rounds
        if len(rounds) >= rules.min_samples and median_error(figures(rounds)) <= rules.target_error:
            return rounds


def figures(rounds: Sequence[tuple[float, ...]]) -> list[float]:
    """What is judged in each round: the time of one work, or the reference's time over the candidate's."""
    return [r[0] if len(r) == 1 else r[1] / r[0] for r in rounds]


def _warm_up(works: Sequence[Callable[[], Any]], sampler: Sampler, rules: Rules, clock: Clock) -> None:
    """At least `warmup_runs` runs and `warmup_ms` of each work: compilation, allocation, rising clocks."""
    for work in works:
        started, runs = clock(), 0
        while runs < rules.warmup_runs or (clock() - started) * 1e3 < rules.warmup_ms:
            sampler.run(work)
            runs += 1


# ---------------------------------------------------------------- the two functions


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
    _check_flush(flush)
    action, where = _resolve(work, device)
    if not where.measures_time:
        return _simulated(action, where, flush, gpu)
    from .device.sampling import GpuSampler

    rules = rules or Rules()
    rounds = measure([action], GpuSampler(where, flush=flush, stream=stream), rules)
    return _timing([r[0] for r in rounds], where, flush, rules)


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
    _check_flush(flush)
    action, where = _resolve(candidate, device)
    other, _ = _resolve(reference, device or where)
    if not where.measures_time:
        timings = [_simulated(a, where, flush, gpu) for a in (action, other)]
        return Ratio(candidate=timings[0], reference=timings[1], speed=None, error=None, stable=False)
    from .device.sampling import GpuSampler

    rules = rules or Rules()
    rounds = measure([action, other], GpuSampler(where, flush=flush, stream=stream), rules)
    speeds = figures(rounds)
    return Ratio(
        candidate=_timing([r[0] for r in rounds], where, flush, rules),
        reference=_timing([r[1] for r in rounds], where, flush, rules),
        speed=statistics.median(speeds),
        error=median_error(speeds),
        stable=is_stable(speeds, rules.target_error),
    )


def _timing(samples_ms: Sequence[float], device: Any, flush: str, rules: Rules) -> Timing:
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
        driver="",
        flush=flush,
        counters=sum((launch.counters for launch in launches[1:]), launches[0].counters),
        estimate=model.in_sequence(bounds),
    )


def _launches(result: Any) -> list[Launch]:
    """The launches that a function returned: one, or several in a list or tuple."""
    if isinstance(result, Launch):
        return [result]
    if isinstance(result, Iterable) and not isinstance(result, (str, bytes)):
        found = list(result)
        if found and all(isinstance(launch, Launch) for launch in found):
            return found
    return []


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


def _check_flush(flush: str) -> None:
    if flush not in _FLUSH_TEXT:
        raise ArgumentError(f'flush is "l2" or "warm", not {flush!r}')
