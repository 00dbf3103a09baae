"""The timing helper's statistics and stop rule, with a clock and samples made up here: nothing is timed."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from warpschool.counters import Counters
from warpschool.device import Launch, SimDevice
from warpschool.device.measurement import Rules, figures, is_stable, measure, median_error, quantile, summarize
from warpschool.device.module import Invocation
from warpschool.device.protocol import Outcome
from warpschool.errors import ArgumentError, NotMeasured
from warpschool.inspect.timing import Timing, benchmark, benchmark_ratio


class FakeClock:
    """Seconds that pass only when someone says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class FakeSampler:
    """Takes each work's return value as its time in milliseconds and lets the clock run on by as much."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.runs = 0
        self.order: list[Any] = []

    def run(self, work: Callable[[], float]) -> None:
        self.runs += 1
        self.clock.now += work() * 1e-3

    def sample(self, works: Sequence[Callable[[], float]]) -> list[float]:
        times = [work() for work in works]
        self.order += works
        self.clock.now += sum(times) * 1e-3
        return times


def measured(works: list, **rules: Any) -> tuple[list, FakeSampler]:
    clock = FakeClock()
    sampler = FakeSampler(clock)

    def sleep(seconds: float) -> None:
        clock.now += seconds
        if seconds:
            sampler.order.append(("rest", seconds))

    return measure(works, sampler, Rules(**rules), clock=clock, sleep=sleep), sampler


class TestStatistics:
    def test_summary(self) -> None:
        found = summarize([float(x) for x in range(1, 102)])
        assert (found.n, found.median_ms, found.p10_ms, found.p90_ms, found.min_ms) == (101, 51, 11, 91, 1)

    def test_quantiles_interpolate(self) -> None:
        assert quantile([1, 2], 0.25) == 1.25
        assert quantile([5], 0.9) == 5
        assert quantile([3, 1, 2], 0) == 1
        assert quantile([3, 1, 2], 1) == 3

    def test_constant_samples_have_no_error(self) -> None:
        assert median_error([2.0] * 10) == 0

    def test_too_few_samples_say_nothing(self) -> None:
        assert median_error([1.0] * 5) == math.inf
        assert median_error([1.0] * 6) == 0

    def test_one_outlier_does_not_matter(self) -> None:
        assert median_error([1.0] * 30 + [1000.0]) == 0

    def test_the_interval_covers_the_median_as_often_as_it_says(self) -> None:
        rng = random.Random(7)
        hits = 0
        for _ in range(1000):
            values = [rng.lognormvariate(0, 0.5) for _ in range(41)]
            ordered, reach = sorted(values), 0.98 * math.sqrt(41)
            low, high = ordered[math.floor(20.5 - reach)], ordered[math.ceil(20.5 + reach) - 1]
            assert median_error(values) == pytest.approx((high - low) / 2 / statistics.median(values))
            hits += low <= 1.0 <= high  # exp(0) is the true median
        assert 930 <= hits <= 985

    def test_error_shrinks_with_more_samples(self) -> None:
        rng = random.Random(1)
        values = [rng.gauss(10, 1) for _ in range(1000)]
        assert median_error(values) < median_error(values[:100]) < median_error(values[:10])

    def test_a_drifting_run_is_not_stable(self) -> None:
        steady = [1.0] * 40
        drifting = [1.0] * 20 + [1.1] * 20
        assert is_stable(steady, 0.01)
        assert not is_stable(drifting, 0.01)
        assert is_stable([1.0] * 20 + [1.001] * 20, 0.01)
        assert not is_stable([1.0] * 5, 0.01)


class TestStopRule:
    def test_quiet_samples_stop_at_the_minimum(self) -> None:
        rounds, _ = measured([lambda: 1.0], min_samples=10, batch=10)
        assert len(rounds) == 10

    def test_noisy_samples_go_on_until_the_error_is_under_target(self) -> None:
        rng = random.Random(3)
        rounds, _ = measured([lambda: rng.gauss(1, 0.05)], target_error=0.01, max_seconds=1e9, max_samples=10**6)
        assert 10 < len(rounds) < 2000
        assert median_error([r[0] for r in rounds]) <= 0.01

    def test_the_number_of_samples_is_bounded(self) -> None:
        rng = random.Random(3)
        rounds, _ = measured([lambda: rng.uniform(1, 9)], target_error=1e-6, max_samples=57, max_seconds=1e9)
        assert len(rounds) == 57

    def test_the_time_is_bounded(self) -> None:
        rng = random.Random(3)
        rounds, _ = measured([lambda: rng.uniform(90, 110)], target_error=1e-6, max_seconds=5.0, batch=10)
        assert len(rounds) == 50  # each batch takes about a second

    def test_warm_up_lasts_for_both_runs_and_time(self) -> None:
        assert measured([lambda: 100.0], warmup_runs=3, warmup_ms=50)[1].runs == 3
        assert measured([lambda: 1.0], warmup_runs=3, warmup_ms=50)[1].runs in (50, 51)  # rounding of the sum

    def test_every_batch_follows_a_rest_and_a_warm_up_neither_of_which_is_measured_time(self) -> None:
        def work() -> float:
            return 10.0

        rounds, sampler = measured(
            [work], rest_seconds=9.0, min_samples=15, batch=5, warmup_runs=2, warmup_ms=0, max_seconds=1.0
        )
        assert len(rounds) == 15
        assert sampler.order == [("rest", 9.0), *[work] * 5] * 3
        assert sampler.runs == 3 * 2

    def test_without_rests_works_are_warmed_up_once(self) -> None:
        assert measured([lambda: 1.0], min_samples=15, batch=5, warmup_runs=2, warmup_ms=0)[1].runs == 2

    def test_warm_up_is_not_among_the_samples(self) -> None:
        times = iter([500.0] * 3 + [1.0] * 100)
        rounds, _ = measured([lambda: next(times)], warmup_runs=3, warmup_ms=0)
        assert set(rounds) == {(1.0,)}


class TestInterleaving:
    def test_works_take_turns_in_alternating_order(self) -> None:
        a, b = (lambda: 1.0), (lambda: 2.0)
        rounds, sampler = measured([a, b], min_samples=10, batch=10)
        assert sampler.order[:8] == [a, b, b, a, a, b, b, a]
        assert rounds == [(1.0, 2.0)] * 10

    def test_the_ratio_is_stable_though_the_clock_drifts(self) -> None:
        state = {"speed": 1.0}

        def work(base: float) -> Callable[[], float]:
            def run() -> float:
                state["speed"] *= 1.002
                return base * state["speed"]

            return run

        rounds, _ = measured([work(2.0), work(1.0)], min_samples=40, batch=10)
        assert statistics.median(figures(rounds)) == pytest.approx(0.5, rel=0.005)
        assert not is_stable([r[0] for r in rounds], 0.01)


# ---------------------------------------------------------------- on the simulator


def a_launch(device: SimDevice, counters: Counters, runs: list[int]) -> Launch:
    """A launch whose repetition only counts."""

    def again() -> Launch:
        runs.append(1)
        return launch

    launch = Launch(
        kernel="k",
        grid=(1, 1, 1),
        block=(32, 1, 1),
        shared_mem=0,
        device=device,
        source_name="k.cu",
        outcome=Outcome(counters=counters, lines={}, hazards=(), printed=""),
        again=again,
        call=Invocation(None, (), ()),
    )
    return launch


class TestOnTheSimulator:
    device = SimDevice()
    counters = Counters(fma_instructions=10**6, blocks=500)

    def test_counters_and_an_estimate_but_no_time(self) -> None:
        runs: list[int] = []
        timing = benchmark(a_launch(self.device, self.counters, runs), gpu="h200")
        assert len(runs) == 1
        assert timing.counters == self.counters
        assert timing.estimate is not None
        assert timing.estimate.gpu == "H200 SXM"
        assert (timing.median_ms, timing.samples_ms, timing.measured) == (None, (), False)
        assert "estimate" in str(timing)
        assert "not measured" in str(timing)

    def test_a_rate_cannot_be_computed(self) -> None:
        with pytest.raises(NotMeasured):
            benchmark(a_launch(self.device, self.counters, [])).per_second(1.0)

    def test_a_function_may_return_several_launches(self) -> None:
        one = a_launch(self.device, self.counters, [])
        timing = benchmark(lambda: [one, one])
        assert timing.counters == self.counters + self.counters
        assert timing.estimate is not None
        assert timing.estimate.time_ms == pytest.approx(2 * benchmark(one).estimate.time_ms)  # type: ignore[union-attr]

    def test_a_function_that_returns_nothing_is_refused(self) -> None:
        with pytest.raises(ArgumentError, match="must return its Launch"):
            benchmark(lambda: None, device=self.device)
        with pytest.raises(ArgumentError, match="Launch or a function"):
            benchmark(3)  # type: ignore[arg-type]

    def test_flush_is_checked(self) -> None:
        with pytest.raises(ArgumentError, match="warm"):
            benchmark(lambda: None, flush="cold")

    def test_a_ratio_has_no_number(self) -> None:
        one = a_launch(self.device, self.counters, [])
        ratio = benchmark_ratio(one, one)
        assert (ratio.speed, ratio.error, ratio.stable) == (None, None, False)
        assert ratio.candidate.counters == self.counters
        assert "estimate" in str(ratio)


def test_timing_as_text_and_as_data() -> None:
    timing = Timing(
        device="gpu", device_name="NVIDIA H200", driver="13.0", flush="l2", stable=True, samples_ms=(1.0,) * 10,
        **vars(summarize([1.0] * 10)),
    )  # fmt: skip
    assert timing.per_second(2e9) == pytest.approx(2e12)
    assert "NVIDIA H200" in str(timing)
    assert "L2 flushed" in str(timing)
    assert "NOT STABLE" in str(replace(timing, stable=False))
    data = timing.to_dict()
    assert data["median_ms"] == 1.0
    assert data["samples_ms"] == [1.0] * 10
    assert data["counters"] is None
