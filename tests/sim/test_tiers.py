"""Stencils and compiled code say the same; a launch that takes long changes from one to the other."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from ptxsim import Memory, parse
from ptxsim.codegen import translation
from ptxsim.codegen.outlined import Outlined
from ptxsim.codegen.translation import translate
from ptxsim.codegen.unit import Options
from ptxsim.errors import LaunchError, StepLimitExceeded
from ptxsim.run import tiers
from ptxsim.syntax.program import Barrier
from warpschool.compile import compile_cuda

from . import test_async_order
from .engine_launch import launch
from .test_engine_kernels import golden
from .test_oracle_counters import PROBES, SLOW, arguments
from .test_oracle_kernels import DATA

SOLUTIONS = Path(__file__).parents[2] / "solutions" / "lab07_tensor_cores"


def same(stencils, compiled) -> None:
    assert stencils.record == compiled.record
    assert all((a == b).all() for a, b in zip(stencils.arrays, compiled.arrays, strict=True))


@pytest.mark.parametrize("options", [{}, {"check": False, "count": False}], ids=lambda o: "-".join(o) or "default")
@pytest.mark.parametrize(
    "name", ["divergence", "reduction", "barriers", "atomics", "halves", "integers", "wide", "warps", "collectives"]
)
@pytest.mark.thinned(3)
def test_stencils_compute_and_count_the_same(name, options):
    same(*(golden(name, "compute_80", tier=tier, **options) for tier in ("stencils", "compiled")))


@pytest.mark.parametrize("name", ["divergence", "warps", "atomics", "barriers"])
@pytest.mark.thinned(2)
def test_parted_lanes_of_a_heavy_kernel_run_stencils(name, monkeypatch):
    """Compiled code goes over to them where lanes part, and back where they meet."""
    light = golden(name, "compute_80", tier="compiled")
    monkeypatch.setattr(translation, "_HEAVY", 0)
    made = []

    class Recorded(Outlined):
        def translate(self) -> str:
            made.append(self)
            return super().translate()

    monkeypatch.setattr(translation, "Outlined", Recorded)
    same(golden(name, "compute_80", tier="compiled"), light)
    assert made or name == "barriers"


def test_products_of_matrices_weigh_more_than_one_instruction():
    source = (SOLUTIONS / "06_wgmma.cu").read_text()
    ptx = compile_cuda(source, name="06_wgmma.cu", arch="compute_90a").ptx
    kernel = parse(ptx).kernel("matmul").body
    assert kernel.weight > 2 * kernel.instruction_count


@pytest.mark.parametrize("name", [n for n in PROBES["kernels"] if n not in SLOW])
@pytest.mark.thinned(3)
def test_probes_count_the_same(name):
    probe = PROBES["kernels"][name]
    ptx = (DATA / "probes.compute_80.ptx").read_text()
    same(*(
        launch(ptx, name, probe["grid"], probe["block"], *arguments(name), tier=tier)
        for tier in ("stencils", "compiled")
    ))  # fmt: skip


# ---------------------------------------------------------------- hazards and faults


WRONG = {
    "race": "__shared__ int s[64]; s[t] = p[t]; p[t] = s[63 - t];",
    "race-global": "p[t / 2] = t;",
    "out-of-bounds": "p[t + 4] = t;",
    "out-of-bounds-shared": "__shared__ int s[64]; s[t] = t; __syncthreads(); p[t] = s[t + p[0] + 1];",
    "uninitialized": "__shared__ int s[64]; if (t < 60) s[t] = t; __syncthreads(); p[t] = s[t];",
    "misaligned": "reinterpret_cast<int2*>(p + 1)[t / 8] = make_int2(t, t);",
    "divergent": "if (t < 32) __syncthreads(); else p[t] = 1; ",
    "constant": "p[t] = table[t + 4];",
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_hazards_are_the_same(name):
    body = f"{{ const int t = threadIdx.x; {WRONG[name]} }}"
    ptx = compile_cuda(f'__constant__ int table[64]; extern "C" __global__ void k(int* p) {body}', name="wrong.cu").ptx
    found = [launch(ptx, "k", (2,), (64,), np.zeros(64, np.int32), tier=t).record for t in ("stencils", "compiled")]
    assert found[0].hazards
    assert found[0] == found[1]


@pytest.mark.parametrize("name", test_async_order.WRONG)
@pytest.mark.thinned(3)
def test_hazards_of_engines_beside_the_threads_are_the_same(name):
    source, old, new, _ = test_async_order.WRONG[name]
    ptx = compile_cuda(source.replace(old, new), arch="compute_90a").ptx
    x, blocks = test_async_order.halves(), 4 if source is test_async_order.PEERS else 1
    same(*(
        launch(ptx, "k", (blocks,), (128,), x, np.zeros(4096, np.float32), tier=t) for t in ("stencils", "compiled")
    ))  # fmt: skip


def test_a_loop_without_end_is_told_the_same():
    text = 'extern "C" __global__ void k(volatile int* p)\n{\n    while (p[0] == 0)\n        p[1] = 2;\n}'
    ptx = compile_cuda(text).ptx
    said = []
    for tier in ("stencils", "compiled"):
        with pytest.raises(StepLimitExceeded) as end:
            launch(ptx, "k", (1,), (64,), np.zeros(4, np.int32), tier=tier, step_limit=100_000)
        said.append((str(end.value), end.value.line))
    assert said[0] == said[1]
    assert said[0][1] == 3


def test_an_unknown_tier_is_refused():
    ptx = compile_cuda('extern "C" __global__ void k() {}').ptx
    with pytest.raises(LaunchError, match="auto, frugal, brief, stencils, compiled"):
        parse(ptx).kernel("k").launch(1, 1, b"", Memory(), tier="quick")


# ---------------------------------------------------------------- from one to the other


LONG = """extern "C" __global__ void k(unsigned* p, int n)
{
    unsigned x = p[threadIdx.x + blockIdx.x * blockDim.x];
    for (int i = 0; i < n; ++i) {
#pragma unroll
        for (int k = 0; k < 64; ++k)
            x = x * 5 + (x >> 7) + k;
    }
    p[threadIdx.x + blockIdx.x * blockDim.x] += x;
}
"""


@pytest.fixture
def kernel():
    return parse(compile_cuda(LONG, name="long.cu").ptx).kernel("k")


def launched(kernel, n: int, **options):
    memory = Memory()
    p = memory.allocate(4 * 256, "p")
    p.view().view(np.uint32)[:] = np.arange(256)
    record = kernel.launch(2, 128, [p, np.int32(n)], memory, **options)
    return p.view().view(np.uint32).copy(), record


def test_a_short_launch_compiles_nothing(kernel):
    assert tiers.is_long(kernel.body)
    launched(kernel, 3)
    assert {options.outlined for _, options, _ in kernel.engine._built} == {True}


def test_a_launch_that_is_to_be_brief_compiles_nothing_however_long_it_takes(kernel, monkeypatch):
    monkeypatch.setattr(tiers, "_PATIENCE", 0.0)
    values, _ = launched(kernel, 3000, tier="brief")
    assert {options.outlined for _, options, _ in kernel.engine._built} == {True}
    assert (values == launched(kernel, 3000, tier="compiled")[0]).all()


def test_a_frugal_launch_compiles_a_kernel_of_middle_length_only_when_it_takes_as_long():
    ptx = compile_cuda((SOLUTIONS.parent / "lab02_tiling" / "01_tiled.cu").read_text(), name="01_tiled.cu").ptx
    inputs = [np.ones((32, 32), np.float32) for _ in range(2)]

    def built(tier: str) -> set[bool]:
        kernel = parse(ptx).kernel("matmul")
        assert not tiers.is_long(kernel.body)
        memory = Memory()
        arrays = [memory.allocate(4096, name) for name in "abc"]
        for array, given in zip(arrays, inputs, strict=False):
            array.view().view(np.float32)[:] = given.reshape(-1)
        kernel.launch((2, 2), (16, 16), [*arrays, *map(np.int32, (32, 32, 32))], memory, tier=tier)
        assert (arrays[2].view().view(np.float32) == 32).all()
        return {options.outlined for _, options, _ in kernel.engine._built}

    assert built("auto") == {False}
    assert built("frugal") == {True}


def test_making_stencils_does_not_count_as_running_them(kernel, monkeypatch):
    before = []
    launch = tiers.Promotion.launch

    def noted(promotion, tier):
        before.append({options.outlined for _, options, _ in kernel.engine._built})
        return launch(promotion, tier)

    monkeypatch.setattr(tiers.Promotion, "launch", noted)
    launched(kernel, 3)
    assert before == [{True}]


@pytest.mark.parametrize("name", ["05_mma_ptx", "06_wgmma"])
def test_what_moves_fragments_is_made_once(name):
    source = (SOLUTIONS / f"{name}.cu").read_text()
    ptx = compile_cuda(source, name=f"{name}.cu", arch="compute_90a" if "wgmma" in name else "compute_80").ptx
    body = parse(ptx).kernel("matmul").body
    made = translate(body, (128 if "mma_ptx" in name else 384, 1, 1), Options(outlined=True, parted=True))
    assert made.runs is not None and any(name.startswith("ws_stencil_") for name in made.runs.functions)
    assert not [call for call in ("@ws_product_", "@ws_warpgroup_", "@ws_pack_", "@ws_permute") if call in made.ir]


def test_warps_come_back_to_whole_warp_code_with_their_sums():
    ptx = compile_cuda((SOLUTIONS / "06_wgmma.cu").read_text(), name="06_wgmma.cu", arch="compute_90a").ptx
    unit = translate(parse(ptx).kernel("matmul").body, (384, 1, 1), Options()).unit
    sums = {name for frame in unit.frames for name in frame.registers}
    behind_barriers = {b.terminator.target for b in unit.kernel.blocks if isinstance(b.terminator, Barrier)}
    first = min(b.index for b in unit.kernel.blocks if any(i.opcode == "wgmma" for i in b.instructions))
    meetings = [k for k in unit.entries - behind_barriers if k > first]
    assert any(sums <= unit.kernel.blocks[k].live_in for k in meetings)


@pytest.mark.parametrize(("threads", "tier"), [(1, "auto"), (2, "auto"), (2, "frugal")])
def test_a_long_launch_starts_again_as_compiled_code(kernel, monkeypatch, threads, tier):
    monkeypatch.setattr(tiers, "_COMPILING", 0.0)
    values, record = launched(kernel, 40_000, threads=threads, tier=tier)
    assert {options.outlined for _, options, _ in kernel.engine._built} == {False, True}
    expected, counted = launched(kernel, 40_000, tier="compiled")
    assert (values == expected).all()  # p is added to: what the first start left was taken back
    assert record == counted


ON_THE_HEAP = LONG.replace("p[threadIdx.x + blockIdx.x * blockDim.x] += x;", """
    unsigned* const q = new unsigned(x);
    p[threadIdx.x + blockIdx.x * blockDim.x] += *q + static_cast<unsigned>(reinterpret_cast<size_t>(q));
    if (threadIdx.x % 2) delete q;""")


def test_a_launch_that_starts_again_finds_the_heap_as_it_was(monkeypatch):
    left = []
    for patience, tier in ((0.0, "auto"), (1.0, "compiled")):
        monkeypatch.setattr(tiers, "_PATIENCE", patience)
        module, memory = parse(compile_cuda(ON_THE_HEAP, name="heap.cu").ptx), Memory()
        p = memory.allocate(4 * 256, "p")
        p.view().view(np.uint32)[:] = np.arange(256)
        for n in (3, 20_000):
            record = module.kernel("k").launch(2, 128, [p, np.int32(n)], memory, tier=tier)
        left.append((p.view().tobytes(), record, memory.device_heap().used_bytes))
    assert left[0] == left[1]


def test_launches_that_take_long_together_are_compiled(kernel, monkeypatch):
    monkeypatch.setattr(tiers, "_PATIENCE", 1e-6)
    deadline = time.monotonic() + 120
    while not any(not options.outlined for _, options, _ in kernel.engine._built):
        launched(kernel, 2000)
        assert time.monotonic() < deadline
