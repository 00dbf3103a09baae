"""Samples of GPU times on a host that is busy now and then: a clock that is set by hand, and a GPU that only notes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from warpschool.device import gpu


@pytest.fixture
def host(monkeypatch):
    """A clock in seconds that stands still unless a work moves it on."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(gpu.time, "perf_counter", lambda: clock.now)
    return clock


def sampler() -> tuple[gpu.GpuSampler, list[int]]:
    """A sampler without a GPU, and the microseconds that it kept it waiting."""
    delays: list[int] = []
    found = object.__new__(gpu.GpuSampler)
    event = lambda: SimpleNamespace(record=lambda stream: None)  # noqa: E731
    found.cupy = SimpleNamespace(cuda=SimpleNamespace(Event=event))
    found.device = SimpleNamespace(spec=SimpleNamespace(clock_mhz=1), elapsed_ms=lambda start, end: 1.0)
    found.stream, found._junk, found._host_us = None, None, 10.0
    found._spin = lambda grid, block, arguments, stream: delays.append(arguments[0])
    return found, delays


def busy(host, *microseconds: float):
    """A work that the host takes so long to enqueue: the first time, the second, ...; then 10 us."""
    left = list(microseconds)

    def work() -> None:
        host.now += 1e-6 * (left.pop(0) if left else 10.0)

    return work


def test_a_sample_for_which_the_host_came_too_late_is_taken_anew(host):
    found, delays = sampler()
    assert found.sample([busy(host), busy(host, 200.0), busy(host)]) == [1.0] * 3
    assert delays == pytest.approx([20, 20, 300, 300], abs=1)


def test_a_host_that_is_always_late_ends(host):
    found, delays = sampler()
    found.sample([busy(host, *[5000.0] * 9)])
    assert delays == [20, 1000]
    found, delays = sampler()
    found.sample([busy(host, 100.0, 200.0, 400.0, 650.0, 900.0)])
    assert delays == pytest.approx([20, 150, 300, 600], abs=1)
