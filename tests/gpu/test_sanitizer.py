"""NVIDIA's compute-sanitizer finds nothing in kernels for tensor cores and networks, at small, ragged sizes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.slow]
SANITIZER = shutil.which("compute-sanitizer", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin"]))
LABS = (
    "lab07_tensor_cores", "lab10_lenet", "lab11_training", "lab12_split_channels", "lab13_vgg16", "lab15_patterns",
    "lab16_attention",
)  # fmt: skip
CHILD = """
import sys
import cupy
import numpy as np
sys.path.insert(0, sys.argv[2])
from test_references import STEPS, chosen_sizes
from warpschool.contract import parse_contract
from warpschool.harness.launcher import run_kernel
cupy.cuda.set_allocator(None)  # no pool: each array ends where its allocation ends
rng = np.random.default_rng(1)
for step in (step for step in STEPS if step.name.startswith(sys.argv[1])):
    contract = parse_contract(step.solution.read_text(encoding="utf-8"), name=step.file_name)
    sizes = chosen_sizes(contract)
    given = [array for array in contract.bind(sizes).arrays.values() if array.is_given]
    run_kernel(contract, sizes, {
        array.name: rng.uniform(-1, 1, array.shape).astype(array.dtype) if array.dtype.kind == "f"
        else rng.integers(0, 5, array.shape).astype(array.dtype)  # a class, a choice of four, or bits
        for array in given
    }, device="gpu")
    print("ran", step.name, flush=True)
"""


@pytest.mark.skipif(SANITIZER is None, reason="compute-sanitizer is not installed")
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
@pytest.mark.parametrize("lab", LABS)
def test_references_are_clean(lab, tool):
    options = ["--tool", tool]
    if tool == "memcheck":
        options += ["--report-api-errors", "no"]  # the bindings ask the driver for functions that it need not have
    command = [SANITIZER, *options, sys.executable, "-c", CHILD, lab, str(Path(__file__).parent)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=600)
    told = found.stdout + found.stderr
    print(told[-3000:])
    assert found.returncode == 0 and told.count("ran ") >= 5, told[-3000:]
    assert "ERROR SUMMARY: 0 errors" in told or "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)" in told
