"""Long kernels keep their registers in memory between blocks: nothing that a launch says may show it."""

from __future__ import annotations

import pytest

from ptxsim.codegen import translation as translate

from .engine_launch import launch
from .test_engine_kernels import golden
from .test_oracle_counters import PROBES, arguments
from .test_oracle_kernels import DATA


@pytest.fixture
def long(monkeypatch):
    """Every kernel counts as long from here on."""

    def switch() -> None:
        monkeypatch.setattr(translate, "_LONG", 0)
        monkeypatch.setattr(translate, "_LONG_CHECKED", 0)

    return switch


def same(ours, theirs) -> None:
    assert ours.record == theirs.record
    assert all((a == b).all() for a, b in zip(ours.arrays, theirs.arrays, strict=True))


@pytest.mark.parametrize("options", [{}, {"check": False, "threads": 1}], ids=lambda o: "-".join(o) or "default")
@pytest.mark.parametrize("name", ["divergence", "reduction", "barriers", "atomics", "halves"])
@pytest.mark.thinned(3)
def test_a_long_kernel_computes_and_counts_the_same(name, options, long):
    usual = golden(name, "compute_80", **options)
    long()
    same(golden(name, "compute_80", **options), usual)


@pytest.mark.parametrize("name", ["gemm_tiled16", "wmma_global"])
def test_a_long_product_computes_and_counts_the_same(name, long):
    probe = PROBES["kernels"][name]
    ptx = (DATA / "probes.compute_80.ptx").read_text()
    usual = launch(ptx, name, probe["grid"], probe["block"], *arguments(name))
    long()
    same(launch(ptx, name, probe["grid"], probe["block"], *arguments(name)), usual)
