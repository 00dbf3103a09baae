"""Whole kernels on the translated simulator: golden ones against silicon, probes against Nsight Compute's counts."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsim.isa import INSTRUCTIONS

from . import golden_kernels
from .engine_launch import launch
from .test_oracle_counters import EXPLAINED, PROBES, arguments
from .test_oracle_kernels import DATA, DIALECTS


@pytest.fixture(scope="module")
def recorded():
    with np.load(DATA / "silicon_kernels.npz") as archive:
        return {name: archive[name] for name in archive.files}


def golden(name: str, dialect: str, **options):
    case = golden_kernels.LAUNCHES[name]
    x, y = golden_kernels.inputs(name)
    out = np.zeros(golden_kernels.out_words(name), np.uint32)
    parameters = [x, y, out, np.int32(case.n), *([case.extra] if case.extra else [])]
    ptx = (DATA / f"kernels.{dialect}.ptx").read_text()
    return launch(ptx, name, (case.grid,), (case.block,), *parameters, shared_bytes=case.shared_bytes, **options)


@pytest.mark.parametrize("options", [{}, {"parted": True}, {"check": False, "count": False}], ids=lambda o: "-".join(o))
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", golden_kernels.LAUNCHES)
@pytest.mark.thinned(10)
def test_golden_kernel_equals_silicon(name, dialect, options, recorded):
    case = golden_kernels.LAUNCHES[name]
    if name == "trigonometry" and "madc" not in INSTRUCTIONS:
        pytest.skip("reduces its argument with madc, which is not in the table of instructions")
    outcome = golden(name, dialect, **options)
    ours, theirs = outcome.arrays[2], recorded[name]
    if not case.tolerance:
        wrong = np.flatnonzero(ours != theirs)
        assert not len(wrong), (wrong[:5], ours[wrong[:5]], theirs[wrong[:5]])
    else:
        ours, theirs = ours.view(case.result), theirs.view(case.result)
        np.testing.assert_allclose(ours, theirs, rtol=case.tolerance, atol=1e-6 if case.result == "f4" else 0)
    kinds = {h.kind for h in outcome.record.hazards}  # four threads of "barriers" return before its last barrier
    assert kinds == ({"divergent-barrier"} if name == "barriers" and options.get("check", True) else set())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_printf(dialect):
    ptx = (DATA / f"kernels.{dialect}.ptx").read_text()
    x, y = np.arange(100, dtype=np.uint32) * 1000, np.linspace(-3, 4, 100).astype(np.float32)
    printed = launch(ptx, "printing", (2,), (64,), x, y, np.zeros(1, np.uint32), np.int32(100)).record.printed
    expected = [
        f"i={i} x={x[i % 100]:08x} {y[i % 100]:5.2f}|{'odd' if i % 2 else 'even':<6}|{chr(65 + i % 26)}% {i << 33}\n"
        for i in range(0, 128, 37)
    ]
    assert printed == expected[0] + "plain\n" + "".join(expected[1:])


@pytest.mark.parametrize("options", [{}, {"threads": 1}, {"parted": True}], ids=lambda o: "-".join(o) or "default")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", PROBES["kernels"])
@pytest.mark.thinned(6)
def test_probe_counts_what_the_gpu_counted(name, dialect, options):
    probe = PROBES["kernels"][name]
    ptx = (DATA / f"probes.{dialect}.ptx").read_text()
    outcome = launch(ptx, name, probe["grid"], probe["block"], *arguments(name), **options)
    for counter, measured in probe["counters"].items():
        ours = outcome.counters.get(counter, 0)
        assert (ours, measured) == EXPLAINED.get((name, counter), (measured, measured)), counter
    assert not outcome.record.hazards


def test_results_do_not_depend_on_the_number_of_threads():
    name = "gemm_tiled16"
    probe = PROBES["kernels"][name]
    ptx = (DATA / "probes.compute_80.ptx").read_text()
    outcomes = [launch(ptx, name, probe["grid"], probe["block"], *arguments(name), threads=n) for n in (1, 2, 7)]
    for other in outcomes[1:]:
        assert other.record == outcomes[0].record
        for ours, first in zip(other.arrays, outcomes[0].arrays, strict=True):
            assert (ours.view(np.uint8) == first.view(np.uint8)).all()
