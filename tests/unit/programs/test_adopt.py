"""Headers made of a program's launches, and what profile, predict and debug do with them."""

from __future__ import annotations

import json
import struct

import pytest
from tests.unit.programs.test_run import needs_tools
from typer.testing import CliRunner

from warpschool.cli.app import app
from warpschool.contract import parse_contract
from warpschool.inspect.profile import usual_sizes
from warpschool.programs.adopt import Argument, LaunchRecord, header_of, plain_name

SOURCE = """#include <vector>
template <typename T> __global__ void fill(T* x, T v) { x[threadIdx.x] = v; }
__global__ void scale(float* x, float by, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
__global__ void times(const float* A, const float4* x, float* y, int M, long long n)
{
    if (threadIdx.x == 0 && blockIdx.x < M) y[blockIdx.x] = A[blockIdx.x * n] * x[0].x;
}
__global__ void never(int* x) { x[0] = 1; }
struct Pair { int a, b; };
__global__ void packed(Pair p) {}
int main() { return 0; }
"""


def pointer(nbytes: int) -> Argument:
    return Argument(bytes(8), nbytes)


def integer(value: int) -> Argument:
    return Argument(struct.pack("<i", value))


def records() -> list[LaunchRecord]:
    found = [
        LaunchRecord("scale(float*, float, int)", (-(-n // 128), 1, 1), (128, 1, 1), 0,
                     (pointer(4 * n), Argument(struct.pack("<f", 0.5)), integer(n)))
        for n in (1000, 300)
    ]  # fmt: skip
    found.append(LaunchRecord(
        "times(float const*, float4 const*, float*, int, long long)", (20, 1, 1), (32, 2, 1), 64,
        (pointer(4 * 20 * 7), pointer(16 * 5), pointer(80), integer(20), Argument(struct.pack("<q", 7))),
    ))  # fmt: skip
    found.append(LaunchRecord("void fill<float>(float*, float)", (1, 1, 1), (32, 1, 1), 0, (pointer(4), integer(0))))
    found.append(LaunchRecord("packed(Pair)", (1, 1, 1), (32, 1, 1), 0, (Argument(bytes(8)),)))
    return found


def test_a_header_says_what_every_launch_had():
    found = header_of(SOURCE, records(), name="k.cu")
    assert found.lines == [
        "// Entry:   scale(float x[n] inout, float by, int n)",
        "// Entry:   times(const float A[M,n_times] in, const float4 x_times[5*4] in, float y[M] inout, "
        "int M, long long n_times)",
        "// Launch:  scale block=(128) grid=(cdiv(n, 128))",
        "// Launch:  times block=(32, 2) grid=(M) shared=64",
        "// Usual:   by = 0.5, n = 1000, M = 20, n_times = 7",
    ]
    why = {"fill": "a template", "never": "never launched", "packed": "'Pair p'"}
    assert found.left_out.keys() == why.keys()
    assert all(text in found.left_out[kernel] for kernel, text in why.items())
    contract = parse_contract("\n".join([*found.lines, "", SOURCE]), name="k.cu")
    plan = contract.bind(usual_sizes(contract))
    assert [launch.grid for launch in plan.launches] == [(8, 1, 1), (20, 1, 1)]
    assert plan.arrays["A"].shape == (20, 7) and plan.arrays["x_times"].shape == (20,)


def test_names_of_kernels():
    assert plain_name("void a::b::fill<float, 8>(float*, std::pair<int, int>)") == "fill"
    assert plain_name("scale") == plain_name("scale(float*)") == "scale"


@pytest.mark.parametrize(("line", "words"), [
    ("Usual: n = many", "cannot read 'n = many'"), ("Usual: m = 3", "'m' is no scalar"),
    ("Usual: n = 2.5", "needs an integer"),
])  # fmt: skip
def test_a_usual_line_that_says_nonsense(line, words):
    text = (
        "// Entry: k(float x[n] out, int n)\n// Launch: k block=(32) grid=(1)\n"
        f"// {line}\n__global__ void k(float* x, int n) {{}}\n"
    )
    with pytest.raises(Exception, match=words):
        parse_contract(text)


@needs_tools
def test_a_programs_kernels_are_profiled_with_what_it_launched_them_with(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more.h").write_text("#define MORE 2.0f\n")
    (tmp_path / "p.cu").write_text(
        '#include <cstdio>\n#include "more.h"\n'
        "__global__ void scale(float* x, float by, int n)\n"
        "{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) x[i] *= by * MORE;\n}\n"
        "int main()\n{\n    float* x;\n    cudaMalloc(&x, 4000);\n    cudaMemset(x, 0, 4000);\n"
        "    scale<<<4, 256>>>(x, 3.0f, 1000);\n    cudaDeviceSynchronize();\n    cudaFree(x);\n}\n"
    )
    runner = CliRunner()
    before = runner.invoke(app, ["profile", "p.cu"])
    assert before.exit_code == 2 and "warpschool run --record p.cu" in before.output
    assert runner.invoke(app, ["run", "--record", "p.cu", "--json"]).exit_code == 0
    told = json.loads(runner.invoke(app, ["profile", "p.cu", "--json"]).stdout)
    assert told["case"].startswith("by = 3.0, n = 1000") or "n = 1000" in told["case"]
    assert told["launches"][0]["grid"] == [4, 1, 1] and told["lines"]["6"]["global_load_requests"] == 32
    adopted = runner.invoke(app, ["adopt", "p.cu"])
    assert adopted.exit_code == 0, adopted.output
    assert (tmp_path / "p_kernels.cu").read_text().endswith((tmp_path / "p.cu").read_text())
    again = runner.invoke(app, ["adopt", "p.cu"])
    assert again.exit_code == 2 and "exists" in again.output
    assert runner.invoke(app, ["profile", "p_kernels.cu"]).exit_code == 0
