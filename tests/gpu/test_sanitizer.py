"""NVIDIA's compute-sanitizer finds nothing in kernels for tensor cores and networks, at small, ragged sizes, nor in
those of the benchmarks.
"""

from __future__ import annotations

import json
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
BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "kernels"
BENCHMARK_CASES = [
    ("look_back_lines", {}, {"n": 100_003, "first": 0}),
    ("radix_sweep", {"VALUES": 1}, {"n": 100_003, "first": 0, "pass": 0}),
    ("segmented_fours", {}, {"n": 100_003, "S": 5}),
    ("split_k", {}, {"splits": 3, "M": 139, "N": 264, "K": 72}),
    ("split_k", {"RAGGED": 1}, {"splits": 3, "M": 139, "N": 261, "K": 45}),
    ("pad_rows", {}, {"rows": 5, "cols": 1111, "width": 1112}),
    ("pad_rows", {}, {"rows": 5, "cols": 1112, "width": 1111}),
]
BENCHMARK_CHILD = """
import json
import sys
from pathlib import Path
import cupy
import numpy as np
from warpschool.contract import parse_contract
from warpschool.harness.launcher import Program
cupy.cuda.set_allocator(None)  # no pool: each array ends where its allocation ends
rng = np.random.default_rng(1)
for name, constants, sizes in json.loads(sys.argv[1]):
    contract = parse_contract(Path(sys.argv[2], name + ".cu").read_text(encoding="utf-8"), name=name + ".cu")
    given = [a for a in contract.bind(sizes, constants=constants).arrays.values() if a.is_given]
    arrays = {
        a.name: np.sort(rng.integers(0, sizes.get("S", 1000), a.shape)).astype(a.dtype) if a.dtype.kind == "u"
        else rng.uniform(-1, 1, a.shape).astype(a.dtype)
        for a in given
    }
    Program(contract, device="gpu", constants=constants).run(sizes, arrays)
    print("ran", name, flush=True)
"""


def run_under(tool: str, *command: str) -> tuple[int, str]:
    """What a Python child under one of the sanitizer's tools returned and said."""
    options = ["--tool", tool]
    if tool == "memcheck":
        options += ["--report-api-errors", "no"]  # the bindings ask the driver for functions that it need not have
    whole = [str(SANITIZER), *options, sys.executable, "-c", *command]
    found = subprocess.run(whole, capture_output=True, text=True, timeout=600)
    told = found.stdout + found.stderr
    print(told[-3000:])
    return found.returncode, told


def is_clean(told: str) -> bool:
    return "ERROR SUMMARY: 0 errors" in told or "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)" in told


@pytest.mark.skipif(SANITIZER is None, reason="compute-sanitizer is not installed")
@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck", "initcheck"])
def test_kernels_of_the_benchmarks_are_clean(tool):
    code, told = run_under(tool, BENCHMARK_CHILD, json.dumps(BENCHMARK_CASES), str(BENCHMARKS))
    assert code == 0 and told.count("ran ") == len(BENCHMARK_CASES), told[-3000:]
    assert is_clean(told)


@pytest.mark.skipif(SANITIZER is None, reason="compute-sanitizer is not installed")
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
@pytest.mark.parametrize("lab", LABS)
def test_references_are_clean(lab, tool):
    code, told = run_under(tool, CHILD, lab, str(Path(__file__).parent))
    assert code == 0 and told.count("ran ") >= 5, told[-3000:]
    assert is_clean(told)
