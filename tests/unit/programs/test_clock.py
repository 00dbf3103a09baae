"""The virtual GPU's clock: what runs beside what, by streams, events and engines."""

from __future__ import annotations

import pytest

from warpschool.model import find_gpu
from warpschool.programs.clock import CALL_NS, LAUNCH_NS, LINK_GB_PER_S, Clock

MB = 1 << 20
COPY_NS = MB / LINK_GB_PER_S


@pytest.fixture
def clock():
    return Clock(find_gpu("a100"))


def test_copies_both_ways_run_beside_each_other_and_one_way_after_each_other(clock):
    for direction, stream in (("HtoD", 1), ("DtoH", 2), ("HtoD", 3)):
        clock.copy(direction, stream, MB, blocking=False)
    clock.join()
    clock.record(0, 1)
    first, back, second = (clock.uses(), clock.spans)[1]
    assert back.start_ns < first.end_ns and second.start_ns == first.end_ns
    assert second.end_ns == pytest.approx(CALL_NS + 2 * COPY_NS)


def test_a_stream_waits_for_an_event_and_the_default_stream_for_all(clock):
    clock.copy("HtoD", 1, MB, blocking=False)
    clock.record(7, 1)
    clock.wait(2, 7)
    clock.copy("DtoH", 2, MB, blocking=False)
    clock.copy("DtoD", 0, 1000, blocking=False)
    copied, waited, last = (clock.uses(), clock.spans)[1]
    assert waited.start_ns == copied.end_ns and last.start_ns == waited.end_ns


def test_a_blocking_copy_holds_the_host_up(clock):
    clock.copy("HtoD", 0, MB, blocking=True)
    clock.kernel("k", 1, {"fma_instructions": 1000}, 1, 0)
    copy, kernel = (clock.uses(), clock.spans)[1]
    assert kernel.start_ns == pytest.approx(copy.end_ns + LAUNCH_NS)


def test_elapsed_time_and_sums_by_kernel(clock):
    clock.record(0, 0)
    for name in ("short", "long", "long"):
        clock.kernel(name, 0, {"fma_instructions": 10**6 if name == "long" else 1000}, 1000, 4 * MB)
    clock.record(1, 0)
    kernels, copies = clock.uses()
    assert [(use.kernel, use.launches, use.counters["fma_instructions"]) for use in kernels] == [
        ("long", 2, 2 * 10**6), ("short", 1, 1000),
    ]  # fmt: skip
    assert copies == () and clock.elapsed_ns(0, 1) >= sum(use.time_ns for use in kernels)
