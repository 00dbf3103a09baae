"""Machine code from LLVM text: threads may compile side by side, and get what one of them alone would."""

from __future__ import annotations

import platform
import threading
from concurrent.futures import ThreadPoolExecutor

import llvmlite.binding as llvm
import numpy as np
import pytest

from ptxsim import parse
from ptxsim.codegen import host, jit
from ptxsim.codegen.emit import Helper, arg, module_text
from ptxsim.codegen.runtime import rare_modules, usual_modules
from ptxsim.errors import UnsupportedInstruction
from ptxsim.run import engine

from .engine_launch import launch
from .oracle_launch import entry
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


def test_code_that_calls_what_is_not_there_is_refused(monkeypatch, no_cache):
    """The linker leaves such a call, and all others of what it links at once, at address 0."""
    text = "define i128 @f(i128 %x, i128 %y) {\n%z = sdiv i128 %x, %y\nret i128 %z\n}\n"
    monkeypatch.setattr(jit.llvm, "address_of_symbol", lambda name: 4096 if name == "__divti3" else None)
    assert jit._object(text)
    monkeypatch.setattr(jit.llvm, "address_of_symbol", lambda name: None)
    with pytest.raises(UnsupportedInstruction, match="__divti3"):
        jit._object(text)


def test_helpers_are_the_same_text_whatever_was_written_before(monkeypatch):
    """Their machine code is found again in the cache by its text."""
    before = usual_modules(), rare_modules()
    monkeypatch.setitem(Helper.declarations, "ws_other", "declare void @ws_other()")
    for modules in (usual_modules, rare_modules):
        modules.cache_clear()
    assert (usual_modules(), rare_modules()) == before


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


@pytest.mark.skipif(host.has("avx512f"), reason="AVX-512 has masks of its own")
def test_looks_and_parted_registers_are_stored_whole():
    """Masked stores of AVX2 take about 20 cycles on some processors: none in the shadow's looks, none in `masked`."""
    kernel = parse((DATA / "probes.compute_80.ptx").read_text()).kernel("gemm_tiled16")
    whole = engine.translate(kernel.body, (16, 16, 1), engine.Options(), wide_vectors=False)
    parted = engine.translate(kernel.body, (16, 16, 1), engine.Options(parted=True), wide_vectors=False)
    texts = [jit.assembly(whole), jit._machine(1).emit_assembly(llvm.parse_assembly(parted.masked()[0]))]
    assert all("vpcmpeqd" in text or "cmeq" in text for text in texts)
    assert not any("vpmaskmov" in text or "vmaskmov" in text for text in texts)


def _x86_text(other: str, merge: str, monkeypatch, lanes: int = 32) -> str:
    """Machine code for AVX-512 of what a part of the lanes do: they merge the bits of two registers."""
    monkeypatch.setattr(host, "features", lambda: {"avx512f": True})
    b = Helper({})
    b.label("entry")
    mask, pointers = arg("i32", "mask"), {name: arg("ptr", name) for name in "ab"}
    of = {name: b.load("i32", pointer, lanes, align=4) for name, pointer in pointers.items()}
    if merge == "copysign":
        floats = [b.bitcast(of[name], "float") for name in "ba"]
        merged = b.bitcast(b.intrinsic("copysign", *floats), "i32")
    else:
        sign, rest = b.and_const(of["a"], -(1 << 31)), b.and_const(of["b"], (1 << 31) - 1)
        merged = b.or_(sign, rest)
    few = b.shuffle(b.bits_mask(mask), range(lanes))
    b.store(b.select(few, merged, of[other]), pointers["a"], align=4)
    b.ret()
    text = module_text([b.define("f", "void", mask, *pointers.values())], b.declared)
    jit._start()
    target = llvm.Target.from_default_triple().create_target_machine(cpu="sapphirerapids", opt=2, jit=True)
    return target.emit_assembly(llvm.parse_assembly(text))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="AVX-512 is of x86-64")
@pytest.mark.parametrize("merge", ["copysign", "bits"])
@pytest.mark.parametrize("other", ["a", "b"])
def test_merged_bits_are_no_masked_instruction(other, merge, monkeypatch):
    """LLVM 22 orders that instruction's operands wrongly: see `Builder._by_itself`."""
    lines = _x86_text(other, merge, monkeypatch).splitlines()
    assert any("vpternlog" in line for line in lines)
    assert not any("vpternlog" in line and "{%k" in line for line in lines)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="AVX-512 is of x86-64")
@pytest.mark.parametrize("lanes", [1, 2, 4, 7, 8, 16, 17])
def test_merged_bits_of_few_lanes_fit_a_register(lanes, monkeypatch):
    """LLVM has no register for a vector of one, two or seven words."""
    assert ("vpternlog" if lanes > 1 else "ret") in _x86_text("a", "bits", monkeypatch, lanes)


@pytest.mark.parametrize("tier", ["stencils", "compiled"])
@pytest.mark.parametrize("factor", [-1, -81985529216486896])
@pytest.mark.parametrize("bits", [16, 8])
def test_an_upper_half_is_cut_short(bits, factor, tier):
    """LLVM 22 cut a vector of i128 to 16 bits at the wrong places, where another block uses it: a vote makes one."""
    body = f"""
    .reg .pred %p<2>; .reg .b16 %h<2>; .reg .b32 %r<5>; .reg .b64 %d<5>;
    ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 64; add.u64 %d0, %d0, %d1;
    cvt.u64.u32 %d2, %r0; mov.u64 %d4, {factor}; mul.hi.s64 %d3, %d4, %d2; cvt.u{bits}.u64 %h1, %d3;
    activemask.b32 %r1; setp.eq.u32 %p1, %r0, 77; vote.sync.ballot.b32 %r2, %p1, %r1;
    cvt.u32.u16 %r3, %h1; st.global.u32 [%d0], %r3; ret;
    """
    [found] = launch(entry(body), "k", (1,), (32,), np.zeros((32, 16), np.uint32), tier=tier).arrays
    assert found[:, 0].tolist() == [(n * factor >> 64) % (1 << bits) for n in range(32)]
