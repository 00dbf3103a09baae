"""The oracle's counters against those that Nsight Compute read on a GPU (`data/probes_h200.json` names it)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from .oracle_launch import launch
from .test_oracle_kernels import word_kernel

DATA = Path(__file__).parent / "data"
PROBES = json.loads((DATA / "probes_h200.json").read_text())
DIALECTS = ("compute_80", "compute_100")
EXPLAINED = {
    # ptxas predicates the branch's body: warps without an active lane issue these too
    ("reduce_interleaved", "shared_load_requests"): (6_080, 8_256),
    ("reduce_interleaved", "shared_store_requests"): (3_520, 4_608),
}
"""Where PTX and machine code differ: (counted here, counted on the GPU)."""


def arguments(name: str) -> list:
    x = np.random.default_rng(0).standard_normal(1 << 20).astype(np.float32)
    values = {"x": x, "h": x.astype(np.float16), "y": np.zeros(1 << 20, np.float32), "N": np.int32(256)}
    values["n"] = np.int32(8000 if name == "guarded" else 3)
    return [values[key] for key in PROBES["kernels"][name]["arguments"]]


SLOW = {"gemm_tiled16", "wmma_global"}
RUNS = [
    pytest.param(name, dialect, marks=pytest.mark.slow if name in SLOW else ())
    for name in PROBES["kernels"]
    for dialect in (DIALECTS[:1] if name in SLOW else DIALECTS)
]


@pytest.mark.parametrize(("name", "dialect"), RUNS)
@pytest.mark.thinned(3)
def test_probe_counts_what_the_gpu_counted(name, dialect):
    probe = PROBES["kernels"][name]
    ptx = (DATA / f"probes.{dialect}.ptx").read_text()
    outcome = launch(ptx, name, probe["grid"], probe["block"], *arguments(name))
    for counter, measured in probe["counters"].items():
        ours = outcome.counters.get(counter, 0)
        if (name, counter) in EXPLAINED:
            assert (ours, measured) == EXPLAINED[name, counter]
        else:
            assert ours == measured, counter


def test_gemm_computes_the_product():
    ptx = (DATA / "probes.compute_80.ptx").read_text()
    rng = np.random.default_rng(3)
    x = rng.standard_normal(2 * 32 * 32).astype(np.float32)
    y = launch(ptx, "gemm_tiled16", (2, 2), (16, 16), x, np.zeros((32, 32), np.float32), np.int32(32)).arrays[1]
    a, b = x.astype(np.float64).reshape(2, 32, 32)
    np.testing.assert_allclose(y, a @ b, atol=1e-5)


# ---------------------------------------------------------------- by hand


def counted(body: str, threads: int = 32) -> dict[str, int]:
    return launch(word_kernel(body), "k", (1,), (threads,), np.zeros(4096, np.uint32)).counters


@pytest.mark.parametrize(
    ("stride", "width", "wavefronts", "conflicts"),
    [
        (4, "u32", 1, 0), (8, "u32", 2, 1), (12, "u32", 1, 0), (128, "u32", 32, 31), (132, "u32", 1, 0),
        (0, "u32", 1, 0),
        (8, "v2.u32", 2, 0), (16, "v2.u32", 4, 2), (128, "v2.u32", 32, 30), (0, "v2.u32", 1, 0),
        (16, "v4.u32", 4, 0), (80, "v4.u32", 4, 0), (32, "v4.u32", 8, 4), (2, "u16", 1, 0), (1, "u8", 1, 0),
    ],
)  # fmt: skip
def test_shared_wavefronts(stride, width, wavefronts, conflicts):
    vector = {"u32": "%r", "u16": "%h", "u8": "%h", "v2.u32": "{%r, %r}", "v4.u32": "{%r, %r, %r, %r}"}[width]
    body = f""".shared .align 16 .b8 s[5000]; .reg .b16 %h; mov.u16 %h, 1;
        mov.u32 %a, s; mad.lo.u32 %a, %i, {stride}, %a; st.shared.{width} [%a], {vector};"""
    counters = counted(body)
    assert counters["shared_store_requests"] == 1
    assert counters["shared_store_wavefronts"] == wavefronts
    assert counters.get("shared_store_bank_conflicts", 0) == conflicts


@pytest.mark.parametrize(
    ("stride", "offset", "width", "sectors", "ideal"),
    [
        (4, 0, "u32", 4, 4), (4, 4, "u32", 5, 4), (8, 0, "u32", 8, 4), (32, 0, "u32", 32, 4), (0, 0, "u32", 1, 1),
        (16, 0, "v4.u32", 16, 16), (2, 0, "u16", 2, 2), (1, 0, "u8", 1, 1), (64, 24, "v2.u32", 32, 8),
    ],
)  # fmt: skip
def test_global_sectors(stride, offset, width, sectors, ideal):
    vector = {"u32": "%r", "u16": "%h", "u8": "%h", "v2.u32": "{%r, %a}", "v4.u32": "{%r, %a, %b, %d}"}[width]
    body = f""".reg .b16 %h; .reg .b32 %d; mul.wide.u32 %p, %i, {stride}; add.u64 %p, %p, %out;
        ld.global.{width} {vector}, [%p+{offset}];"""
    counters = counted(body)
    size = {"u32": 4, "u16": 2, "u8": 1, "v2.u32": 8, "v4.u32": 16}[width]
    assert counters["global_load_requests"] == 1
    assert (counters["global_load_sectors"], counters["global_load_sectors_ideal"]) == (sectors, ideal)
    assert counters["global_load_bytes"] == 32 * size


def test_instructions_divergence_and_predication():
    body = "setp.lt.u32 %c, %i, 10; @%c add.u32 %r, %r, 1; @%c bra low; add.u32 %r, %r, 2; low: bar.sync 0;"
    counters = counted(body, 64)
    before = 5  # ld.param, mov, mul.wide, add, mov
    # per warp: setp, bra, bar.sync, st, ret; the first warp also runs both adds, the second warp the second add only
    assert counters["warp_instructions"] == 2 * (before + 5) + 2 + 1
    assert counters["thread_instructions"] == 64 * (before + 5) + 10 + 22 + 32
    assert counters["divergent_branches"] == 1
    assert counters["barriers"] == 2
    assert counters["blocks"] == 1


def test_lines_add_up():
    name = "transpose_padded"
    probe = PROBES["kernels"][name]
    result = launch((DATA / "probes.compute_80.ptx").read_text(), name, (2, 2), probe["block"], *arguments(name)).result
    for counter, total in result.counters.items():
        if counter != "blocks":
            assert sum(line.get(counter, 0) for line in result.lines.values()) == total
