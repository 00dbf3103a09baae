"""When to stop measuring, and what a sample of times says: rules, error of the median, stability.

Nothing here knows of GPUs or clocks: samples come from a `Sampler`, time from a function.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

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
    rest_seconds: float = 0.0
    """idle before every batch, after which works are warmed up anew: a short burst, before a power limit acts"""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What is known of a sample of times; `error` is relative to the median."""

    n: int
    median_ms: float
    p10_ms: float
    p90_ms: float
    min_ms: float
    error: float


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
    return float(np.quantile(values, fraction))


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
    works: Sequence[Callable[[], Any]], sampler: Sampler, rules: Rules, *,
    clock: Clock = time.perf_counter, sleep: Callable[[float], None] = time.sleep,
) -> list[tuple[float, ...]]:  # fmt: skip
    """Rounds of one sample of each of `works`, interleaved and in alternating order, until the rules are met.

    With two works their ratio, with one its time, must reach the target error. Rests and warm-ups are no measured time.
    """
    rounds: list[tuple[float, ...]] = []
    seconds = 0.0
    while True:
        if not rounds or rules.rest_seconds > 0:
            sleep(rules.rest_seconds)
            _warm_up(works, sampler, rules, clock)
        started = clock()
        count = min(rules.batch, rules.max_samples - len(rounds))
        orders = [works if (len(rounds) + k) % 2 == 0 else works[::-1] for k in range(count)]
        times = sampler.sample([work for order in orders for work in order])
        for k in range(count):
            chunk = tuple(times[k * len(works) : (k + 1) * len(works)])
            rounds.append(chunk if orders[k] is works else chunk[::-1])
        seconds += clock() - started
        if len(rounds) >= rules.max_samples or seconds >= rules.max_seconds:
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
