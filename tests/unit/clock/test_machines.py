"""Machines that nobody measured here: their code is followed like the H200's, and what is told says what it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.unit.clock.streams import issued
from typer.testing import CliRunner

import warpschool as ws
from warpschool.cli.app import app
from warpschool.clock import core
from warpschool.clock.cubin import machine_code
from warpschool.clock.footprint import entries
from warpschool.clock.machine import find_machine, machines
from warpschool.clock.prediction import predict_time
from warpschool.clock.program import encode
from warpschool.clock.timing import instruction_table
from warpschool.clock.trace import KernelLaunch, Tracer
from warpschool.errors import CompileError

ROOT = Path(__file__).parents[3]
SMALL = {"M": 70, "N": 45, "K": 33}
OTHERS = sorted(key for key in machines() if not find_machine(key).is_validated)
ARCHS = ("sm_75", "sm_80", "sm_89", "sm_90")
CHAIN = """\
extern "C" __global__ void chain(float* p, int n) {
    float s = p[threadIdx.x];
#pragma unroll 128
    for (int k = 0; k < n; ++k) s = s * s + 1.0f;
    p[threadIdx.x] = s;
}
"""


@pytest.mark.parametrize("gpu", OTHERS)
def test_a_prediction_for_each_says_that_it_is_not_validated(gpu: str) -> None:
    found = predict_time("lab02/01", SMALL, gpu=gpu)
    machine = find_machine(gpu)
    assert found.us is not None and found.us > machine["clock"]["launch_us"]
    assert not found.is_validated and found.to_dict()["validated"] is False
    assert f"on {machine.name} (not validated here)" in str(found)
    assert "its constants are from specifications and literature" in found.explain()


@pytest.mark.parametrize("gpu", ["h100", "h200"])
def test_what_was_compared_with_times_says_nothing_of_the_kind(gpu: str) -> None:
    assert "not validated" not in predict_time("lab02/01", SMALL, gpu=gpu).explain()


@pytest.mark.parametrize("gpu", machines())
def test_sources_say_of_what_kind_they_are(gpu: str) -> None:
    machine = find_machine(gpu)
    kinds = ("measured:", "measured on an H100, the same chip:", "assumed", "maker:", "published:")
    if not machine.is_validated:
        kinds = kinds[2:]
    for name, source in machine["sources"].items():
        assert source.startswith(kinds), name
        section, _, constant = name.partition(".")
        assert section in machine.tables and (not constant or constant in machine[section]), f"no constant {name}"


@pytest.mark.parametrize("gpu", machines())
def test_constants_agree_with_the_specification(gpu: str) -> None:
    machine = find_machine(gpu)
    spec, memory = machine.spec, machine["memory"]
    assert (memory["sms"], machine["clock"]["mhz"], memory["l2_bytes"]) == (spec.sms, spec.clock_mhz, spec.l2_bytes)
    assert memory["shared_configurations"][-1] * 1024 == spec.sm.shared_bytes < memory["l1_bytes"]
    assert memory["dram_gb_per_s"] < spec.dram_gb_per_s
    assert 4 * 16 * machine.fp32_pipes == spec.sm.fp32_lanes


@pytest.mark.parametrize("gpu", ["a100", "rtx2080ti", "rtx4090", "t4"])
def test_tensor_cores_reach_the_makers_peak(gpu: str) -> None:
    """Half in, float sums; Hopper's is `wgmma`'s, which `mma` does not reach."""
    machine = find_machine(gpu)
    table = machine["tensor"]
    products, cycles = (2048, table["hmma_16816"]) if "hmma_16816" in table else (1024, table["hmma_1688"])
    tflops = machine.spec.sms * 4 * 2 * products / cycles * machine.spec.clock_mhz * 1e-6
    assert tflops == pytest.approx(machine.spec.fp16_tensor_tflops, rel=0.01)


def test_names_are_found_as_the_gpu_table_finds_them() -> None:
    assert find_machine("NVIDIA GeForce RTX 2080 Ti").key == "rtx2080ti"
    assert find_machine("GTX 1650 Mobile").key == "gtx1650laptop"


@pytest.mark.parametrize(("gpu", "cycles"), [("t4", 2), ("a100", 2), ("rtx4090", 1)])
def test_one_pipe_or_two_for_single_precision(gpu: str, cycles: int) -> None:
    """Eight warps a scheduler, each with a chain: what one step of all takes is the pipes' doing alone."""
    kernel = ws.RawModule(CHAIN, device="sim", name="chain.cu").get_function("chain")
    array = ws.get_device("sim").zeros((1024,), np.float32)
    short, long = (predict_time(kernel(1, 1024, (array, n)), gpu=gpu).launches[0].cycles for n in (1280, 2560))
    assert (long - short) / 1280 == pytest.approx(8 * cycles, rel=0.1)


def test_tensor_cores_by_shape_and_sums() -> None:
    """16 x 8 x 8 products with float sums: T4 at the full rate, RTX 2080 Ti at half of it, A100 at twice it."""
    text = """extern "C" __global__ void k(float* p) {
    unsigned a[2] = {1, threadIdx.x}, b = 2;
    float d[4] = {};
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(b));
    p[threadIdx.x] = d[0]; }"""
    found = {}
    for gpu in ("t4", "rtx2080ti", "a100"):
        machine = find_machine(gpu)
        program = encode(machine_code(text, name="k.cu", arch=machine.arch)["k"])
        table = instruction_table(program, machine)
        row = next(at for at, i in enumerate(program.function.code) if i.name == "HMMA")
        found[gpu] = table[row, core.T_BUSY] / core.BUSY_UNIT
    assert found == {"t4": 8, "rtx2080ti": 16, "a100": 4}


def test_a_line_takes_turing_two_cycles() -> None:
    """16 load/store units: 64 bytes of shared memory in a cycle."""
    text = """extern "C" __global__ void k(float* p, int n) {
    __shared__ float s[1024];
    s[threadIdx.x] = p[threadIdx.x];
    __syncthreads();
    float t = 0;
#pragma unroll 16
    for (int k = 0; k < n; ++k) t += s[threadIdx.x ^ k & 31];
    p[threadIdx.x] = t; }"""
    kernel = ws.RawModule(text, device="sim", name="k.cu").get_function("k")
    array = ws.get_device("sim").zeros((1024,), np.float32)
    cycles = {}
    for gpu in ("t4", "a100"):
        short, long = (predict_time(kernel(1, 1024, (array, n)), gpu=gpu).launches[0].cycles for n in (160, 640))
        cycles[gpu] = (long - short) / 480 / 32
    assert cycles["t4"] == pytest.approx(2, rel=0.15) and cycles["a100"] < 0.75 * cycles["t4"]


def test_what_an_architecture_cannot_do_is_told() -> None:
    wgmma = predict_time("lab07/06", gpu="a100")
    assert wgmma.us is None and wgmma.reason.startswith("not possible there: ") and "cluster" in wgmma.reason
    copies = predict_time("lab07/05", gpu="t4")
    assert copies.us is None and "cp.async" in copies.reason
    shared = predict_time("lab07/03", gpu="rtx2080ti")
    assert shared.us is None and "bytes of shared memory per block" in shared.reason


def test_what_never_compiles_is_an_error_as_ever(tmp_path: Path) -> None:
    file = tmp_path / "wrong.cu"
    file.write_text(
        "// Entry:   k(float p[n] out, int n)\n// Launch:  k block=(32) grid=(1)\n"
        'extern "C" __global__ void k(float* p, int n) { p[0] = nothing; }\n'
    )
    with pytest.raises(CompileError, match="nothing"):
        predict_time(str(file), gpu="t4")


# ---------------------------------------------------------------- machine code of other architectures


def _touched(text: str, arch: str, *arguments: np.generic, **more: object) -> list[int]:
    program = encode(machine_code(text, name="k.cu", arch=arch)["k"])
    launch = KernelLaunch((1, 1, 1), (64, 1, 1), arguments, **more)  # type: ignore[arg-type]
    return sorted(int(entry) for entry in entries(Tracer(program, launch).run((0, 0, 0))))


@pytest.mark.parametrize("arch", ARCHS[:3])
def test_jumps_calls_and_wide_addresses_lead_where_the_h200s_do(arch: str) -> None:
    """Parted lanes that shuffle (BRA.DIV, BRA.CONV), loops, addresses of 64 bits."""
    text = """extern "C" __global__ void k(float* p, const float* q, int n) {
    float s = 0;
    for (int k = 0; k < n; k += 32) {
        if (threadIdx.x & 1) s += q[k * 64 + threadIdx.x];
        s += __shfl_xor_sync(~0u, s, 1);
        if (k + threadIdx.x < n) s += q[(long long)k * 4096 + 8 * threadIdx.x];
        __syncwarp();
    }
    p[threadIdx.x + 7] = s; }"""
    arguments = (np.uint64(3 << 33), np.uint64(7 << 34), np.int32(150))
    assert _touched(text, arch, *arguments) == _touched(text, "sm_90", *arguments)


@pytest.mark.parametrize("arch", ARCHS[:3])
@pytest.mark.thinned(3)
def test_a_reference_issues_its_multiplications_on_every_architecture(arch: str) -> None:
    """lab05/02: on sm_80 and sm_89 its loop is left by a call under a guard, from which nobody returns."""
    source = next((ROOT / "solutions").glob("lab05*/02_*.cu")).read_text(encoding="utf-8")
    found = {}
    for one in (arch, "sm_90"):
        program = encode(machine_code(source, name="02.cu", arch=one)["matmul"])
        arguments = (*map(np.uint64, (1 << 33, 2 << 33, 3 << 33)), *map(np.int32, (64, 64, 64)))
        trace = Tracer(program, KernelLaunch((2, 2, 1), (32, 32, 1), arguments)).run((0, 0, 0))
        found[one] = issued(program, trace)["FFMA"]
    assert found[arch] == found["sm_90"] > 0


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_copy_that_fills_with_zeros_reads_nothing(arch: str) -> None:
    text = """#include <cuda_pipeline.h>
extern "C" __global__ void k(float* p, const float* q, int n) {
    __shared__ float s[64];
    __pipeline_memcpy_async(s + threadIdx.x, q + 64 * threadIdx.x, 4, threadIdx.x < n ? 0 : 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    p[threadIdx.x] = s[threadIdx.x]; }"""
    base = 7 << 34
    found = _touched(text, arch, np.uint64(3 << 33), np.uint64(base), np.int32(5))
    assert len([entry for entry in found if (entry >> 4) * 128 >= base]) == 5


def test_what_such_a_copy_leaves_decides_on_a_loop() -> None:
    """Zeros, not what lies at the address that was not read: how often a loop runs depends on them."""
    text = """#include <cuda_pipeline.h>
extern "C" __global__ void k(float* p, const int* q, int n) {
    __shared__ int s[64];
    __pipeline_memcpy_async(s + threadIdx.x, q + threadIdx.x, 4, threadIdx.x < n ? 0 : 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    float t = 1;
    #pragma unroll 1
    for (int k = 0; k < s[0]; ++k) t = t * t + 1.0f;
    p[threadIdx.x] = t; }"""
    program = encode(machine_code(text, name="k.cu", arch="sm_90")["k"])
    arrays = [(7 << 34, np.full(64, 10, np.int32))]
    counts = []
    for n in (0, 1):  # who copies a number, not zeros: nobody; the first
        launch = KernelLaunch(
            (1, 1, 1), (64, 1, 1), (np.uint64(3 << 33), np.uint64(7 << 34), np.int32(n)), arrays=arrays
        )
        counts.append(issued(program, Tracer(program, launch).run((0, 0, 0))).get("FFMA", 0))
    assert counts == [0, 2 * 10]


# ---------------------------------------------------------------- as a user


def test_help_names_every_machine() -> None:
    text = CliRunner().invoke(app, ["predict", "--help"], env={"COLUMNS": "300"}).stdout
    assert all(key in text for key in machines())


def test_the_command_says_that_a_machine_is_not_validated() -> None:
    arguments = ["predict", "lab02/01", "--gpu", "RTX 4090", "-s", "M=64", "-s", "N=64", "-s", "K=64"]
    run = CliRunner().invoke(app, [*arguments, "--plain"])
    assert run.exit_code == 0 and "on GeForce RTX 4090 (not validated here)" in run.output
    document = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert document["validated"] is False and document["us"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("lab", [f"lab{number:02d}" for number in (*range(14), 15)])
def test_every_reference_on_every_machine(lab: str) -> None:
    """A prediction, no shorter than the roofline bound, and the same sectors touched as on the H200."""
    script = ROOT / "benchmarks" / "clock" / "machines_check.py"
    run = subprocess.run([sys.executable, str(script), "--only", lab], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
