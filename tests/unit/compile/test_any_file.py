"""Kernels in files as people bring them: with a main, host headers, headers of their own, without extern "C"."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from typer.testing import CliRunner

import warpschool as ws
from warpschool.cli.app import app
from warpschool.compile import compile_cuda
from warpschool.compile.beside import headers_within, with_headers
from warpschool.compile.host_code import device_part
from warpschool.course import Course
from warpschool.errors import CompileError, EntryError
from warpschool.harness.source import resolve

PROGRAM = r"""
#include <cstdio>
#include <iostream>
#include <vector>
#include <cuda_runtime.h>
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { \
    std::cerr << cudaGetErrorString(e) << std::endl; exit(1); } } while (0)
#define HD __host__ __device__
#define SQUARE_OF HD inline
using namespace std;
const int BLOCK = 64;
float* d_x;
vector<float> host(3);
struct Timer { cudaEvent_t a, b; Timer() { cudaEventCreate(&a); } void stop() { cudaEventRecord(b); } };
struct Job { cudaTextureObject_t texture; float* x; int n; };
template <typename T> T reference(const T* x, int n) { T s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }
SQUARE_OF float square(float x) { return x * x; }
constexpr int twice(int n) { return 2 * n; }
static __global__ void __launch_bounds__(BLOCK) squares(const float* x, float* y, int n)
{
    __shared__ float tile[twice(BLOCK)];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0.0f;
    if (i < n) y[i] = square(tile[threadIdx.x]);
    if (n < 0) printf("never");
}
__global__ void work(Job job) { if (threadIdx.x < job.n) job.x[threadIdx.x] = INFINITY; }
namespace inner { __global__ void hidden(float* x) { x[threadIdx.x] = 3.0f; } }
template <typename T, int N> __global__ void fill(T* x) { if (threadIdx.x < N) x[threadIdx.x] = T(N); }
static bool check(const vector<float>& a) { for (auto v : a) if (v != 1) return false; return true; }
int main(int argc, char** argv)
{
    CHECK(cudaMalloc(&d_x, 12));
    squares<<<1, BLOCK>>>(d_x, d_x, 3);
    fill<float, 8><<<1, 32>>>(d_x);
    cout << (check(host) ? "} right {" : "wrong") << endl;
}
"""


def test_what_belongs_to_the_host_is_blank_and_every_line_stays():
    part = device_part(PROGRAM)
    assert part.count("\n") == PROGRAM.count("\n")
    kept = part[PROGRAM.index("using") :]
    for word in ("std", "vector", "cudaMalloc", "main", "<<<", "Timer", "d_x", "reference", "check"):
        assert word not in kept, word
    for word in ("square(float x)", "twice(int n)", "const int BLOCK", "struct Job", "inner", "fill"):
        assert word in kept


def test_a_file_without_host_code_stays_what_it_is():
    for step in Course.find().kernels():
        if step.solution is not None:
            text = step.solution.read_text("utf-8")
            assert device_part(text) is text or device_part(text) == text, step


def test_kernels_run_by_the_names_that_they_have_in_the_source():
    module = ws.RawModule(PROGRAM, device="sim", name_expressions=["fill<float, 8>"])
    x = module.device.asarray(np.arange(100, dtype=np.float32))
    y = module.device.zeros(100, np.float32)
    module.get_function("squares")(2, 64, (x, y, 100))
    assert np.array_equal(y.get(), np.arange(100, dtype=np.float32) ** 2)
    module.get_function("fill<float,8>")(1, 32, (y,))
    assert y.get()[:9].tolist() == [8.0] * 8 + [64.0]
    for name in ("hidden", "inner::hidden"):
        module.get_function(name)(1, 32, (y,))
    assert y.get()[31] == 3 and y.get()[32] == 32**2


def test_a_template_that_was_not_asked_for_is_explained():
    module = ws.RawModule(PROGRAM, device="sim")
    with pytest.raises(EntryError, match=r"name_expressions=\['fill<float, 8>'\]"):
        module.get_function("fill")
    with pytest.raises(EntryError, match="Did you mean squares"):
        module.get_function("square")
    with pytest.raises(CompileError, match="names no kernel"):
        ws.RawModule(PROGRAM, device="sim", name_expressions=["fill;"]).compile()
    broken = "template <int N> __global__ void k(int* x, Nobody y) {}\n"
    with pytest.raises(CompileError, match='identifier "Nobody" is undefined'):
        ws.RawModule(broken, device="sim", name_expressions=["k<3>"]).compile()
    overloaded = "__global__ void k(int* x) {}\n__global__ void k(float* x) {}\n"
    with pytest.raises(EntryError, match="there are 2 kernels 'k'"):
        ws.RawModule(overloaded, device="sim").get_function("k")


def test_messages_point_into_the_file_as_it_was_written():
    text = '#include <iostream>\n__global__ void k(float* x) { x[0] = nope; }\nint main() { std::cout << 1; }\n'
    with pytest.raises(CompileError) as caught:
        compile_cuda(text)
    (found,) = caught.value.diagnostics
    assert (found.line, found.text[found.column - 1 :][: found.width]) == (2, "nope")


@pytest.fixture
def project(tmp_path):
    """A kernel file with two headers, one of which includes the other from its own folder."""
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "scale.h").write_text(textwrap.dedent("""\
        #pragma once
        #include <vector>
        #include "factor.h"  // beside this one
        std::vector<float> make();
        __device__ inline float scaled(float x)
        {
            return FACTOR * x;
        }
        """))
    (tmp_path / "inc" / "factor.h").write_text("#define FACTOR 3.0f\n")
    (tmp_path / "k.cu").write_text(textwrap.dedent("""\
        // k.cu: three times x.
        // Entry: triple(const float x[n] in, float y[n] out, int n)
        // Launch: triple block=(64) grid=(cdiv(n, 64))
        #include <stdio.h>
        #include "inc/scale.h"
        __global__ void triple(const float* x, float* y, int n)
        {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = scaled(x[i]);
        }
        int main() { triple<<<1, 64>>>(nullptr, nullptr, 0); }
        """))
    return tmp_path


def test_headers_beside_a_file_come_along(project):
    module = ws.RawModule(path=project / "k.cu", device="sim")
    x, y = module.device.asarray(np.ones(5, np.float32)), module.device.zeros(5, np.float32)
    module.get_function("triple")(1, 64, (x, y, 5))
    assert y.get().tolist() == [3.0] * 5
    assert set(headers_within(module.code)) == {"inc/scale.h", "factor.h"}
    text = (project / "k.cu").read_text()
    assert module.code.startswith(text) and with_headers("int x;\n", project) == "int x;\n"


def test_an_error_in_a_header_is_told_at_its_own_line(project):
    (project / "inc" / "factor.h").write_text("\n\n__device__ float broken() { return nope; }\n")
    with pytest.raises(CompileError) as caught:
        resolve(project / "k.cu").contract() and ws.RawModule(path=project / "k.cu", device="sim").compile()
    assert ("factor.h", 3) in {(found.file, found.line) for found in caught.value.diagnostics}
    (project / "factor.h").write_text("#define FACTOR 1.0f\n")
    (project / "k.cu").write_text((project / "k.cu").read_text().replace("<stdio.h>", '"factor.h"'))
    with pytest.raises(CompileError, match="is two files"):
        resolve(project / "k.cu")


def test_headers_elsewhere_stay_where_they_are(project):
    (project.parent / "outside.h").write_text("#define SECRET 1\n")
    for asked in ("../outside.h", "/etc/passwd"):
        (project / "k.cu").write_text(f'#include "{asked}"\n__global__ void k(int* x) {{}}\n')
        with pytest.raises(CompileError):
            ws.RawModule(path=project / "k.cu", device="sim").compile()
    assert not headers_within(with_headers('#include "../outside.h"\n', project))


def test_commands_take_such_a_file(project):
    path = str(project / "k.cu")
    runner = CliRunner()
    told = runner.invoke(app, ["profile", path, "--size", "n=100", "--json"])
    assert told.exit_code == 0, told.output
    stepped = runner.invoke(app, ["debug", path, "--size", "n=100", "--commands", "break 9; continue; print i"])
    assert stepped.exit_code == 0 and "k.cu" in stepped.output


def test_a_pragma_before_a_kernel_is_not_its_name():
    text = device_part('_Pragma("nv_diag_suppress 177")\n__global__ void fill(float* x) { *x = 1; }\nint main() {}\n')
    assert '_Pragma("nv_diag_suppress 177")\nextern "C" __global__ void fill' in text
