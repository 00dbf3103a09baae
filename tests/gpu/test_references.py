"""Every reference of the course gives on the GPU what it gives on the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from warpschool.contract import Contract, parse_contract
from warpschool.course import Course
from warpschool.errors import DeviceLacks, NeedsError
from warpschool.harness.launcher import run_kernel

pytestmark = pytest.mark.gpu
SIZES = ((70, 51, 45), (128, 64, 96), (128, 128, 128), (256, 256, 256))
"""values for a file's sizes, in turn; the first ones that its Needs lines allow are taken"""
GIVEN = {"PAD": 1, "CROP": 1, "first": 0, "shift": 4, "causal": 1, "centred": 1}
"""sizes that are no array's dimension and mean something of their own"""
CONVOLUTION = {
    "BATCH": 3, "C": 8, "H": 12, "W": 16, "F": 16, "R": 5, "S": 5, "STRIDE": 1, "PAD": 2, "F0": 0, "PART": 16,
}  # fmt: skip
"""sizes for files with filters of any size"""
SPLIT = tuple({**CONVOLUTION, "BATCH": 1, "F": 128, "R": r, "S": r, "STRIDE": s} for r, s in ((3, 1), (3, 2), (1, 2)))
"""and for those that take one image, filters in multiples of 32 and one size of windows"""
STEPS = [step for step in Course.find().kernels() if step.solution is not None]


def chosen_sizes(contract: Contract) -> dict[str, float]:
    """Sizes for every integer parameter, 1.5 for every other scalar."""
    scalars = {p.name: p for p in contract.parameters() if not p.is_array}
    if "STRIDE" in scalars or "R" in scalars:
        tried = [{name: sizes[name] for name in scalars if name in sizes} for sizes in (CONVOLUTION, *SPLIT)]
    else:
        tried = [
            {
                name: GIVEN.get(name, values[k % len(values)]) if parameter.is_size else 1.5
                for k, (name, parameter) in enumerate(scalars.items())
            }
            for values in SIZES
        ]
    for sizes in tried:
        try:
            contract.bind(sizes)
        except NeedsError:
            continue
        return sizes
    return pytest.fail(f"{contract.name} refuses all sizes tried")


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_both_devices_agree(step) -> None:
    contract = parse_contract(step.solution.read_text(encoding="utf-8"), name=step.file_name)
    if contract.target:
        pytest.skip(f"only {contract.target} runs it, no simulator: test_check.py grades it")
    sizes = chosen_sizes(contract)
    plan = contract.bind(sizes)
    if any(array.is_given and (array.dtype.kind != "f" or array.shape is None) for array in plan.arrays.values()):
        pytest.skip("random numbers are no input for it: test_check.py runs it with the grader's")
    rng = np.random.default_rng(1)
    arrays = {
        name: rng.uniform(-1, 1, array.shape).astype(array.dtype) if array.dtype.kind == "f"
        else rng.integers(-9, 9, array.shape).astype(array.dtype)
        for name, array in plan.arrays.items()
        if array.is_given
    }  # fmt: skip
    try:
        runs = {device: run_kernel(contract, sizes, arrays, device=device) for device in ("gpu", "sim")}
    except DeviceLacks as lack:
        pytest.skip(lack.message)
    assert not runs["sim"].hazards
    assert runs["gpu"].overwritten == runs["sim"].overwritten == ()
    assert runs["gpu"].outputs.keys() == runs["sim"].outputs.keys()
    for name, expected in runs["sim"].outputs.items():
        rtol = 2e-3 if expected.dtype == np.float16 else 1e-4
        np.testing.assert_allclose(runs["gpu"].outputs[name], expected, rtol=rtol, atol=1e-4, err_msg=name)
