"""Requests and sectors of cp.async, patterns of sources and targets, as Nsight Compute counted them among the loads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from . import engine_launch, oracle_launch

ROWS = json.loads((Path(__file__).parent / "data" / "copies_h200.json").read_text())
"""On an H200: where each lane of a warp reads, where it writes in shared memory, and how many bytes it reads."""
TABLE_REQUESTS, TABLE_SECTORS = 3, 12
"""What the kernel's loads of the three tables add: four sectors each."""


def kernel(bytes_: int, past_l1: bool) -> str:
    return f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1) {{
    .shared .align 1024 .b8 s[40000];
    .reg .b32 %r<8>;
    .reg .b64 %d<8>;
    ld.param.u64 %d0, [k_param_0];
    ld.param.u64 %d1, [k_param_1];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %d2, %r0, 4;
    add.u64 %d3, %d1, %d2;
    ld.global.u32 %r1, [%d3];
    ld.global.u32 %r2, [%d3+128];
    ld.global.u32 %r3, [%d3+256];
    cvt.u64.u32 %d4, %r1;
    add.u64 %d5, %d0, %d4;
    mov.u32 %r4, s;
    add.u32 %r5, %r4, %r2;
    cp.async.{"cg" if past_l1 else "ca"}.shared.global [%r5], [%d5], {bytes_}, %r3;
    cp.async.wait_all;
    ret;
}}"""


@pytest.mark.parametrize("launch", [engine_launch.launch, oracle_launch.launch], ids=["engine", "oracle"])
@pytest.mark.parametrize(("bytes_", "past_l1"), sorted({(row["bytes"], row["past_l1"]) for row in ROWS}))
def test_a_copy_counts_what_the_gpu_counted(launch, bytes_, past_l1):
    ptx, source = kernel(bytes_, past_l1), np.zeros(8192, np.uint8)
    for row in ROWS:
        if (row["bytes"], row["past_l1"]) != (bytes_, past_l1):
            continue
        table = np.array([row["from"], row["to"], row["read"]], np.uint32)
        counters = launch(ptx, "k", (1,), (32,), source, table).counters
        found = {name: counters.get(f"global_load_{name}", 0) for name in ("requests", "sectors", "bytes")}
        assert found == {
            "requests": row["requests"] + TABLE_REQUESTS,
            "sectors": row["sectors"] + TABLE_SECTORS,
            "bytes": bytes_ * np.count_nonzero(row["read"]) + table.nbytes,
        }, row["pattern"]
        assert counters["async_copy_requests"] == 1
