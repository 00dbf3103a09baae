"""Every reference passes its own grader on the GPU: outputs from there, counters and hazards from the simulator."""

from __future__ import annotations

import pytest

import warpschool as ws
from warpschool.course import Course

pytestmark = pytest.mark.gpu
STEPS = [step for step in Course.find().kernels() if step.solution is not None and step.grader is not None]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_reference_is_accepted(step) -> None:
    result = ws.check(step.name, step.solution, device="gpu")
    assert result.ok, str(result)
    assert result.provenance["device"] != "the simulator"
    if result.not_on_gpu:
        pytest.skip(f"right on the simulator; here: {result.not_on_gpu}")
