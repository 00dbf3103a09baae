"""The notebooks' experiments, where there is something to time."""

from __future__ import annotations

import pytest

from warpcourse import experiments
from warpschool.course import Course
from warpschool.notebook import cells

pytestmark = pytest.mark.gpu
SAXPY, TILED = "lab00_first_kernels/01_saxpy", "lab02_tiling/01_tiled"


@pytest.fixture(autouse=True)
def _own_kernels():
    for step in (SAXPY, TILED):
        cells.remember(step, Course.find().step(step).solution.read_text("utf-8"))
    yield
    cells.forget_all()


def test_copies_cost_more_than_the_kernel() -> None:
    found = experiments.parts(SAXPY, {"n": 1 << 24, "a": 2.0}, on_cpu=lambda x, y: 2 * x + y)
    assert all(part.time_ms is not None and part.time_ms > 0 for part in found.parts), repr(found)
    assert found.note == ""
    assert found["copy in, pageable"].time_ms > found["kernel"].time_ms
    assert found["10 times, copied each time"].time_ms > found["10 times, data stay there"].time_ms


def test_sweep_times_the_large_size() -> None:
    small, large = ({"M": n, "N": n, "K": n} for n in (32, 512))
    variants = experiments.sweep(TILED, "TILE", [2, 16], small, timed_sizes=large)
    assert variants[0].time_ms > variants[1].time_ms > 0
