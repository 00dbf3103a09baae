"""Wavefronts and bank conflicts of shared accesses, lane patterns of every width, as Nsight Compute counted them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ptxsim.codegen.shared_memory import bank_conflicts
from ptxsim.oracle.counters import Counts

from .engine_launch import launch

ROWS = json.loads((Path(__file__).parent / "data" / "shared_h200.json").read_text())
"""On an H200, by benchmarks/fidelity.py; only loads have their wavefronts to themselves in those kernels."""
LOADS = [row for row in ROWS if row["access"] == "load"]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r['access']} {r['bytes']} B, {r['pattern']}")
def test_a_known_pattern_counts_what_the_gpu_counted(row):
    offsets = [i * row["bytes"] for i in row["index"]]
    wavefronts, conflicts = bank_conflicts(offsets, row["bytes"])
    assert conflicts == row["conflicts"]
    counts = Counts()
    counts.shared_access(row["access"], 1, np.array([offsets]), np.ones((1, 32), bool), row["bytes"])
    totals = counts.lines[1]
    assert totals.get(f"shared_{row['access']}_bank_conflicts", 0) == conflicts
    assert totals[f"shared_{row['access']}_wavefronts"] == wavefronts
    if row["wavefronts"] is not None:
        assert wavefronts == row["wavefronts"]


@pytest.mark.parametrize("bytes_", [4, 8, 16])
def test_addresses_of_run_time_count_the_same(bytes_):
    """All patterns of a width in one kernel: a block for each."""
    rows = [row for row in LOADS if row["bytes"] == bytes_]
    vector, kind = {4: ("%v0", "u32"), 8: ("{%v0, %v1}", "v2.u32"), 16: ("{%v0, %v1, %v2, %v3}", "v4.u32")}[bytes_]
    ptx = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_param_0) {{
    .shared .align 16 .b8 s[32768];
    .reg .b32 %r<6>;
    .reg .b32 %v<4>;
    .reg .b64 %d<4>;
    ld.param.u64 %d0, [k_param_0];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mad.lo.u32 %r2, %r1, 32, %r0;
    mul.wide.u32 %d1, %r2, 4;
    add.u64 %d2, %d0, %d1;
    ld.global.u32 %r3, [%d2];
    mov.u32 %r4, s;
    mad.lo.u32 %r5, %r3, {bytes_}, %r4;
    ld.shared.{kind} {vector}, [%r5];
    ret;
}}"""
    index = np.array([row["index"] for row in rows], np.uint32)
    for parted in (False, True):
        counters = launch(ptx, "k", (len(rows),), (32,), index, check=False, parted=parted).counters
        assert counters["shared_load_wavefronts"] == sum(row["wavefronts"] for row in rows)
        assert counters.get("shared_load_bank_conflicts", 0) == sum(row["conflicts"] for row in rows)
