"""Machine code from LLVM text: threads may compile side by side, and get what one of them alone would."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import llvmlite.binding as llvm
import numpy as np
import pytest

from ptxsim import parse
from ptxsim.codegen import jit
from ptxsim.run import engine

from .test_oracle_kernels import DATA

TEXTS = [
    f"define <32 x i32> @f{k}(<32 x i32> %x) {{\n"
    + "\n".join(f"%v{n + 1} = mul <32 x i32> {f'%v{n}' if n else '%x'}, splat (i32 {k + n})" for n in range(40))
    + "\nret <32 x i32> %v40\n}\n"
    for k in range(1, 9)
]


@pytest.fixture
def no_cache(monkeypatch):
    monkeypatch.setattr(jit.cache, "load", lambda *key: None)
    monkeypatch.setattr(jit.cache, "store", lambda *entry: False)


@pytest.mark.parametrize("level", [0, 1])
def test_threads_compile_what_one_alone_does(level, no_cache):
    alone = [jit._machine(level).emit_object(llvm.parse_assembly(text)) for text in TEXTS]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda text: jit._object(text, level), TEXTS)) == alone


def test_a_kernel_is_built_once_whoever_asks(monkeypatch):
    kernel = parse((DATA / "probes.compute_80.ptx").read_text()).kernel("guarded")
    together, made = threading.Barrier(4), []
    translate = engine.translate
    monkeypatch.setattr(engine, "translate", lambda *a, **k: made.append(a) or translate(*a, **k))

    def build(_: int) -> object:
        together.wait()
        return kernel.engine.build((64, 1, 1))

    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(build, range(4)))
    assert len(made) == 1 and len({id(code) for code in codes}) == 1


def test_preparing_compiles_for_parted_lanes_where_they_have_parted():
    kernel = parse((DATA / "probes.compute_80.ptx").read_text()).kernel("guarded")
    checked, plain = engine.Options(), engine.Options(check=False, count=False)
    build = kernel.engine.build
    kernel.prepare(1, 64)
    kernel.prepare(1, 64, check=False, count=False)
    assert build((64, 1, 1), plain).masked_plan is None
    build((64, 1, 1), checked).compile_masked()
    kernel.prepare(1, 64, check=False, count=False)
    assert build((64, 1, 1), plain).masked_plan is not None
    assert np.uint64(build((64, 1, 1), plain).masked_address) > 0


def test_looks_and_parted_registers_are_stored_whole():
    """Masked stores of AVX2 take about 20 cycles on some processors: none in the shadow's looks, none in `masked`."""
    kernel = parse((DATA / "probes.compute_80.ptx").read_text()).kernel("gemm_tiled16")
    whole = engine.translate(kernel.body, (16, 16, 1), engine.Options(), wide_vectors=False)
    parted = engine.translate(kernel.body, (16, 16, 1), engine.Options(parted=True), wide_vectors=False)
    texts = [jit.assembly(whole), jit._machine(1).emit_assembly(llvm.parse_assembly(parted.masked()[0]))]
    assert all("vpcmpeqd" in text or "cmeq" in text for text in texts)
    assert not any("vpmaskmov" in text or "vmaskmov" in text for text in texts)
