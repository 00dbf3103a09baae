"""Every reference of the course can be profiled without naming a size."""

from __future__ import annotations

import pytest

from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.inspect.profile import usual_sizes

STEPS = [step for step in Course.find().kernels() if step.solution is not None]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_usual_sizes_suit_the_file(step) -> None:
    contract = parse_contract(step.solution.read_text(encoding="utf-8"), name=step.file_name)
    assert contract.bind(usual_sizes(contract)).launches
