"""Pictures of lab 07: every recorded mapping."""

from __future__ import annotations

import json
from dataclasses import asdict

import matplotlib

matplotlib.use("Agg")

import pytest

from warpcourse import lab07_tensor_cores as lab
from warpcourse.ladder import Measured
from warpschool.course import Course


@pytest.fixture
def recorded(tmp_path):
    """A course that carries two recorded runs."""
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)

    def row(part, step, rate, reference, size=4096):
        sizes = {"M": size, "N": size, "K": size}
        made = asdict(Measured("", step, part, sizes, 1.0, rate, "TFLOP/s", 0.5, reference, 2 * rate))
        return {name: value for name, value in made.items() if name != "device"}

    half = [row("half", "lab06_half_precision/02_half2", 40.0, "cuBLAS, tensor cores")]
    tensor = [
        row("large", "lab07_tensor_cores/04_wmma_int8", 900.0, "torch._int_mm"),
        row("large", "lab07_tensor_cores/05_mma_ptx", 500.0, "cuBLAS, float out"),
        row("large", "lab07_tensor_cores/05_mma_ptx", 501.0, "cuBLAS, float out", 8192),
    ]
    host = {"host_matmul_ms": 100.0, "host_matmul_size": 4096, "host": "x86_64"}
    for name, rows, more in (("half_precision_x.json", half, host), ("tensor_cores_x.json", tensor, {})):
        (folder / name).write_text(json.dumps({"device": "GPU X", "rows": rows, **more}))
    return Course(tmp_path)


def test_mappings_are_those_recorded_at_one_size(recorded):
    found = {speed.label: speed for speed in lab.mappings(course=recorded)}
    assert {label: (s.kind, s.rate, s.is_library) for label, s in found.items()} == {
        "lab06/02_half2": ("half", 40.0, False),
        "cuBLAS": ("half, tensor cores", 80.0, True),
        "lab07/04_wmma_int8": ("8 bits, tensor cores", 900.0, False),
        "torch._int_mm": ("8 bits, tensor cores", 1800.0, True),
        "lab07/05_mma_ptx": ("half, tensor cores", 500.0, False),
        "cuBLAS, float out": ("half, tensor cores", 1000.0, True),
        "NumPy": ("CPU, float", pytest.approx(2e-9 * 4096**3 / 100), True),
    }
    picture = lab.draw_mappings(tuple(found.values()))
    names = [label.get_text() for label in picture.figure.axes[0].get_yticklabels()]
    assert names[0] == "NumPy" and names[-1] == "torch._int_mm"
    assert "lab07/05_mma_ptx (half, tensor cores) 500" in picture.alt


def test_without_recorded_runs_the_picture_says_so(tmp_path):
    assert "no recorded times" in lab.draw_mappings(lab.mappings(course=Course(tmp_path))).alt
