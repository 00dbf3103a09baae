"""Triton's kernels, where Triton is installed; what needs only its PTX is tested everywhere, on PTX of our own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import warpschool as ws
from warpschool.errors import ArgumentError, CompilerLacks, EntryError, ToolMissing

ROOT = Path(__file__).parents[3]
PTX = """
.version 8.8
.target sm_80
.address_size 64

.visible .entry twice(.param .u64 .ptr .global .align 1 p0, .param .u64 .ptr .global .align 1 p1, .param .u32 p2)
.reqntid 32
{
	.reg .pred %p<2>;
	.reg .b32 %r<7>;
	.reg .b64 %rd<6>;
	ld.param.b64 %rd1, [p0];
	ld.param.b64 %rd2, [p1];
	ld.param.b32 %r1, [p2];
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %tid.x;
	shl.b32 %r4, %r2, 5;
	or.b32 %r5, %r4, %r3;
	setp.lt.s32 %p1, %r5, %r1;
	mul.wide.s32 %rd3, %r5, 4;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd5, %rd2, %rd3;
	.loc 1 7 14
	mov.u32 %r6, 0x0;
	@%p1 ld.global.b32 { %r6 }, [ %rd4 + 0 ];
	add.f32 %r6, %r6, %r6;
	.loc 1 8 4
	@%p1 st.global.b32 [ %rd5 + 0 ], { %r6 };
	ret;
}
.file 1 "/tmp/twice.py"
"""
"""As Triton writes it: its loads and stores have their one register in braces."""


def twice(n, *, said=None):
    module = ws.PtxModule(PTX, name="twice.py", device="sim", compiler="by hand")
    x = np.arange(n, dtype=np.float32)
    given, out = module.device.asarray(x), module.device.asarray(np.zeros(n, np.float32))
    launch = module.get_function("twice")(-(-n // 32), 32, (given, out, np.int32(said or n)))
    return x, out.get(), launch


def test_ptx_that_something_else_made_is_run_counted_and_checked():
    x, out, launch = twice(100)
    assert (out == 2 * x).all() and not launch.hazards
    assert launch.counters.global_load_requests == launch.counters.global_store_requests == 4


def test_a_fault_in_it_has_its_files_name_and_line():
    *_, launch = twice(100, said=101)
    assert [(h.kind, h.file, h.line) for h in launch.hazards] == [
        ("out-of-bounds", "twice.py", 7), ("out-of-bounds", "twice.py", 8),
    ]  # fmt: skip


def test_what_is_not_known_of_it_is_said():
    module = ws.PtxModule(PTX, name="twice.py", device="sim")
    with pytest.raises(CompilerLacks, match=r"twice\.py came as PTX"):
        _ = module.get_function("twice").resources
    assert "came as PTX" in str(ws.predict_time(twice(100)[2], gpu="h200").explain())
    with pytest.raises(EntryError, match="there is no kernel 'thrice'"):
        module.get_function("thrice")


def test_the_record_is_of_the_kernels_that_there_are():
    text = (ROOT / "benchmarks" / "kernels_triton.py").read_text("utf-8")
    rows = json.loads((ROOT / "benchmarks" / "results" / "triton.json").read_text("utf-8"))["rows"]
    assert {row["kernel"] for row in rows} == set(re.findall(r"^@triton\.jit\ndef (\w+)", text, re.MULTILINE))
    assert len({row["kernel"] for row in rows}) >= 20
    assert all(row["error"] <= row["tolerance"] for row in rows)


def test_without_triton_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "triton", None)
    with pytest.raises(ToolMissing) as caught:
        ws.TritonKernel(print, device="sim")
    assert "pip install 'warpschool[triton]'" in caught.value.next_step


@pytest.fixture
def kernels(monkeypatch):
    """benchmarks/kernels_triton.py."""
    pytest.importorskip("triton", reason="Triton is not installed")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import triton_kernels

    return triton_kernels


def test_every_kernel_is_right_and_free_of_hazards(kernels):
    assert len([kernels.run(example) for example in kernels.examples()]) >= 20


def test_what_is_wrong_with_a_launch_is_said(kernels):
    device = ws.get_device("sim")
    x = device.asarray(np.ones(1000, np.float32))
    kernel = ws.TritonKernel(kernels.product, device=device)
    with pytest.raises(ArgumentError, match=r"product: missing a required argument: 'HOW'"):
        kernel[1, 1](x, x, x, 8, 8, 8, BM=16, BN=16, BK=16)
    with pytest.raises(ArgumentError, match=r"a is list"):
        kernel[1, 1]([1], x, x, 8, 8, 8, BM=16, BN=16, BK=16, HOW="ieee")
    with pytest.raises(ArgumentError, match="is no kernel of Triton"):
        ws.TritonKernel(print, device=device)


def test_it_is_compiled_anew_for_what_16_divides_and_once_for_each(kernels):
    device = ws.get_device("sim")
    kernel = ws.TritonKernel(kernels.product, device=device)
    tiles = {"BM": 32, "BN": 32, "BK": 32, "HOW": "ieee"}
    x = device.asarray(np.ones((64, 64), np.float16))
    c = device.asarray(np.ones((64, 64), np.float32))
    even = kernel.compile(x, x, c, 64, 64, 64, **tiles)
    assert kernel.compile(x, x, c, 32, 48, 64, **tiles) is even
    odd = kernel.compile(x, x, c, 33, 35, 37, **tiles)
    assert "cp.async" in even.kernel.module.ptx and "cp.async" not in odd.kernel.module.ptx
