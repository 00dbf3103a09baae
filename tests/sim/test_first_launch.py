"""Long kernels in both tiers: right by the host's arithmetic, counted the same, without hazards."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from ptxsim import parse
from ptxsim.codegen.translation import translate
from ptxsim.codegen.unit import Options
from ptxsim.codegen.usual import usual_stencils
from ptxsim.run import tiers
from warpschool.compile import compile_cuda

from .engine_launch import launch
from .long_kernels import FOLDER, LongKernel, long_kernels

DATA = Path(__file__).parent / "data"
KERNELS = sorted(long_kernels(), key=lambda kernel: len(kernel.source))


@functools.cache
def _ptx(source: str, name: str) -> str:
    return compile_cuda(source, name=name).ptx


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.slow
def test_long_kernels(kernel: LongKernel):
    ptx = _ptx(kernel.source, f"{kernel.name}.cu")
    found = [
        launch(ptx, kernel.name, kernel.grid, kernel.block, *kernel.arguments, tier=t)
        for t in (tiers.STENCILS, tiers.COMPILED)
    ]
    assert found[0].record == found[1].record
    assert not found[0].record.hazards
    assert all((a == b).all() for a, b in zip(found[0].arrays, found[1].arrays, strict=True))
    kernel.verify(found[0].arrays)


def test_no_kernel_is_left_out():
    assert {path.stem for path in FOLDER.glob("*.cu")} == {kernel.name for kernel in KERNELS}


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.thinned(3)
def test_the_first_tier_is_mostly_data(kernel: LongKernel):
    """Most of what a long kernel does is records; blocks of nothing else share one piece of code."""
    body = parse(_ptx(kernel.source, f"{kernel.name}.cu")).kernel(kernel.name).body
    made = translate(body, (*kernel.block, 1, 1)[:3], Options(parted=True, outlined=True))
    assert made.runs is not None and 3 * made.ir.count("call void @ws_run(") < made.instruction_count
    assert 4 * made.ir.count("label %records") > len(made.unit.kernel.blocks) == made.runs.whole.size


def test_usual_stencils_are_those_of_usual_kernels():
    """A product by tiles needs few others; each of them is found by the name that a kernel gives it."""
    usual = usual_stencils(wide_vectors=False)
    body = parse((DATA / "probes.compute_80.ptx").read_text()).kernel("gemm_tiled16").body
    made = translate(body, (16, 16, 1), Options(parted=True, outlined=True), wide_vectors=False)
    own = {name for name in made.runs.functions if name.startswith("ws_stencil_")}
    assert len(own - usual.keys()) < len(own) / 4
    assert all(made.unit.library[name] == usual[name] for name in own & usual.keys())
