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
PLACES = {"BATCH": 3, "H": 7, "W": 5}
BENCHMARK_CASES = [
    ("look_back_lines", {}, {"n": 100_003, "first": 0}),
    ("radix_sweep", {"VALUES": 1}, {"n": 100_003, "first": 0, "pass": 0}),
    ("segmented_fours", {}, {"n": 100_003, "S": 5}),
    ("split_k", {}, {"splits": 3, "M": 139, "N": 264, "K": 72}),
    ("split_k", {"RAGGED": 1}, {"splits": 3, "M": 139, "N": 261, "K": 45}),
    ("pad_rows", {}, {"rows": 5, "cols": 1111, "width": 1112}),
    ("pad_rows", {}, {"rows": 5, "cols": 1112, "width": 1111}),
    ("sums_in_parts", {"PART": 32}, {"POSITIONS": 2, "C": 75, "F": 139, "P": 261}),
    ("fused_winograd", {"TILE": 4, "CHANNELS": 8}, {"BATCH": 5, "C": 8, "H": 11, "W": 9, "F": 64, "PAD": 2}),
    ("fused_winograd", {"TILE": 6, "CHANNELS": 12}, {"BATCH": 3, "C": 12, "H": 13, "W": 15, "F": 32, "PAD": 1}),
    ("mixed/convolution", {"END": 1, "BLOCKS": 4, "CLUSTER_F": 1}, {**PLACES, "C": 64, "F": 128, "R": 3, "S": 3}),
    ("mixed/convolution", {"END": 2, "TURNED": 1, "BLOCKS": 4}, {**PLACES, "C": 128, "F": 256, "R": 3, "S": 3}),
    ("mixed/convolution", {"END": 0, "TURNED": 1, "BLOCKS": 2, "TSF": 64, "STAGES": 4, "CLUSTER_F": 1},
     {**PLACES, "C": 64, "F": 64, "R": 3, "S": 3}),
    ("mixed/convolution", {"TSF": 64, "TSK": 32, "STAGES": 6, "CLUSTER_F": 1, "BLOCKS": 2},
     {**PLACES, "C": 32, "F": 64, "R": 1, "S": 1}),
    ("mixed/filter_gradient", {"BLOCKS": 6}, {**PLACES, "C": 256, "F": 256, "R": 3, "S": 3}),
    ("mixed/filter_gradient", {"BOXES": 3, "STAGES": 5, "CLUSTER_F": 1, "BLOCKS": 4},
     {**PLACES, "C": 128, "F": 128, "R": 3, "S": 3}),
    ("mixed/filter_gradient", {"TSF": 64, "BOXES": 9, "CONSUMERS": 3, "KEPT": 152, "STAGES": 2, "CLUSTER": 1,
                               "CLUSTER_F": 1, "BLOCKS": 2}, {**PLACES, "C": 64, "F": 64, "R": 3, "S": 3}),
    ("mixed/filter_gradient", {"TSF": 64, "BOXES": 1, "BOX": 32, "PLACES": 128, "CONSUMERS": 1, "STAGES": 8,
                               "CLUSTER": 1, "CLUSTER_F": 1, "BLOCKS": 1},
     {**PLACES, "C": 32, "F": 64, "R": 1, "S": 1}),
    ("mixed/first_windows", {}, PLACES),
    ("mixed/pool", {}, {"BATCH": 3, "H": 6, "W": 10, "C": 64}),
    ("mixed/pool_backward", {}, {"BATCH": 3, "H": 6, "W": 10, "C": 64}),
    ("mixed/dense", {}, {"IN": 96, "OUT": 41}),
    ("mixed/dense", {"LAST": 1}, {"IN": 96, "OUT": 41}),
    ("mixed/dense_backward", {}, {"IN": 192, "OUT": 44}),
    ("mixed/dense_update", {}, {"IN": 96, "OUT": 40, "rate": 0.1, "momentum": 0.9}),
    ("mixed/loss", {}, {"BATCH": 5, "N": 301}),
    ("mixed/finite", {}, {"N": 1004, "M": 808}),
    ("mixed/update", {}, {"N": 1004, "rate": 0.1, "momentum": 0.9, "patience": 3}),
    ("../../src/warpschool/nn/kernels/linear_sums", {}, {"ROWS": 301, "SHARES": 3, "IN": 65, "OUT": 77}),
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
        a.name: np.zeros(a.shape, a.dtype) if a.name == "state"  # of a training: nothing was infinite
        else np.sort(rng.integers(0, sizes.get("S", 1000), a.shape)).astype(a.dtype) if a.dtype.kind == "u"
        else rng.uniform(-1, 1, a.shape).astype(a.dtype)
        for a in given
    }
    Program(contract, device="gpu", constants=constants).run(sizes, arrays)
    print("ran", name, flush=True)
"""

WRITER_CHILD = """
from dataclasses import replace
import cupy
from warpcourse.lab16_attention import writer
from warpschool.nn.session import Kernels
cupy.cuda.set_allocator(None)
settings = replace(writer.RECIPE, batch=2)
codes = writer.windows(200, writer.SEED, writer.FORM.length)[0].codes[:2]
trainer = writer.training(writer.FORM, Kernels(device="gpu"), settings)
print("a loss of", trainer.step(codes[:, :-1], codes[:, 1:], rate=1e-4))
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
@pytest.mark.parametrize("tool", ["memcheck", "initcheck"])
def test_a_step_of_the_writer_is_clean(tool):
    """The network that writes, whole: its sizes take other tiles than the tiny one's."""
    code, told = run_under(tool, WRITER_CHILD)
    assert code == 0 and "a loss of" in told, told[-3000:]
    assert is_clean(told)


@pytest.mark.skipif(SANITIZER is None, reason="compute-sanitizer is not installed")
@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
@pytest.mark.parametrize("lab", LABS)
def test_references_are_clean(lab, tool):
    code, told = run_under(tool, CHILD, lab, str(Path(__file__).parent))
    assert code == 0 and told.count("ran ") >= 5, told[-3000:]
    assert is_clean(told)
