"""What came with Hopper, in small kernels: machine code and oracle agree, and both with what a GPU computed.

The record is made by `benchmarks/hopper.py` on a GPU.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from .hopper_cases import HopperCase, cases, faults
from .hopper_launch import launch, unlike

RECORD = Path(__file__).parent / "data" / "silicon_hopper.npz"
ABOUT = json.loads(RECORD.with_suffix(".json").read_text())
CASES = cases()
BY_NAME = {c.name: c for c in CASES}


def for_oracle(c: HopperCase) -> bool:
    """The oracle is slow: of products the small ones."""
    return not c.name.startswith("wgmma") or c.name.startswith(("wgmma_n8_", "wgmma_n16_"))


@pytest.fixture(scope="module")
def recorded():
    with np.load(RECORD) as archive:
        return {name: archive[name] for name in archive.files}


@pytest.mark.parametrize("name", [c.name for c in CASES if for_oracle(c)])
@pytest.mark.thinned(32)
def test_machine_code_and_oracle_agree(name):
    case = BY_NAME[name]
    found, findings, counters = launch(case)
    assert not findings
    for how in ("masked", "stencils", "oracle"):
        others, _, counted = launch(case, how)
        assert how != "stencils" or counted == counters
        for x, y in zip(found, others, strict=True):
            np.testing.assert_array_equal(x.view(np.uint8), y.view(np.uint8), err_msg=how)


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.thinned(24)
def test_simulator_and_silicon_agree(name, recorded):
    case = BY_NAME[name]
    found, _, counters = launch(case, tensor_sums="hopper")
    for x, k in zip(found, case.written, strict=True):
        assert unlike(x, recorded[f"{name}/{k}"]) == []
    theirs = ABOUT["counters"][name]
    assert {k: counters.get(k, 0) for k in theirs} == theirs


@pytest.mark.parametrize("case", faults(), ids=lambda c: c.name)
@pytest.mark.thinned(5)
def test_where_a_gpu_stops_there_is_a_finding(case):
    _, findings, counters = launch(case)
    assert launch(case, "stencils")[1:] == (findings, counters)
    unaligned = "unaligned" in case.name
    assert [(f.kind, f.detail) for f in findings] == [("misaligned" if unaligned else "out-of-bounds", "box")]
    assert "ILLEGAL_INSTRUCTION" in ABOUT["failed"][case.name]


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas here")
@pytest.mark.parametrize("name", [c.name for c in CASES if not c.name.startswith("wgmma")][::8])
def test_ptxas_takes_the_cases(name, tmp_path):
    (tmp_path / "k.ptx").write_text(BY_NAME[name].ptx)
    command = ["ptxas", "-arch=sm_90a", str(tmp_path / "k.ptx"), "-o", str(tmp_path / "k.cubin")]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""
