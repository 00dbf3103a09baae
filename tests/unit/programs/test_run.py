"""`warpschool run` as a user meets it: bad input on one screen, Ctrl-C, what is cached, what comes as JSON."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from warpschool.errors import ArgumentError, ToolMissing, WarpschoolError
from warpschool.programs import build, find_tools, run_program, tools as tools_module, tools_report

_SCREEN = 45
_HERE_S = 120


def missing() -> str:
    try:
        find_tools()
    except WarpschoolError as problem:
        return problem.message
    return ""


needs_tools = pytest.mark.skipif(bool(missing()), reason=f"whole programs cannot be built here: {missing()}")


def command(*words, **more):
    return subprocess.run(
        [sys.executable, "-m", "warpschool", *map(str, words)], capture_output=True, text=True, timeout=_HERE_S, **more
    )


@pytest.fixture
def program(tmp_path):
    """Writes a program whose main is given; returns its path."""

    def write(body: str, *, before: str = "", name: str = "prog.cu") -> Path:
        path = tmp_path / name
        path.write_text(f"#include <cstdio>\n{before}\nint main(int argc, char** argv)\n{{\n{body}\n}}\n")
        return path

    return write


@pytest.fixture
def fresh_tools():
    find_tools.cache_clear()
    yield
    find_tools.cache_clear()


@pytest.mark.parametrize("missing_one", ["nvcc", "g++"])
def test_a_missing_compiler_is_told_with_what_to_install(missing_one, monkeypatch, fresh_tools, tmp_path):
    if missing_one == "nvcc":
        monkeypatch.setenv("WARPSCHOOL_NVCC", str(tmp_path / "none"))
    else:
        nvcc = tmp_path / "bin" / "nvcc"
        nvcc.parent.mkdir()
        nvcc.write_text("#!/bin/sh\n")
        (tmp_path / "include").mkdir()
        (tmp_path / "include" / "cuda_runtime.h").touch()
        monkeypatch.setenv("WARPSCHOOL_NVCC", str(nvcc))
        monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ToolMissing) as told:
        find_tools()
    assert missing_one in told.value.message and "nstall" in told.value.next_step
    report = tools_report()
    assert report["available"] is False and missing_one in str(report["problem"])


def test_what_is_no_program_is_refused_before_anything_is_built(tmp_path):
    with pytest.raises(ArgumentError, match="no file"):
        build([tmp_path / "none.cu"])
    text = tmp_path / "text.txt"
    text.touch()
    with pytest.raises(ArgumentError, match="no source"):
        build([text])


@needs_tools
@pytest.mark.parametrize("where", ["host", "device"])
def test_what_does_not_compile_names_its_line(where, program):
    path = program("return undefined_here;" if where == "host" else "return 0;",
                   before="" if where == "host" else "__global__ void k() { undefined_there(); }")  # fmt: skip
    run = command("run", path)
    assert run.returncode == 1 and f"prog.cu({5 if where == 'host' else 2})" in run.stderr
    assert "undefined_" in run.stderr and len(run.stderr.splitlines()) < _SCREEN
    assert "Traceback" not in run.stderr and "tmpxft" not in run.stderr


@needs_tools
@pytest.mark.parametrize(("before", "step"), [
    ("texture<float, 1> t;", "make a texture object"),
    ("__global__ void a() {} __global__ void b() { a<<<1, 1>>>(); }", "launch from the host"),
], ids=["texture reference", "dynamic parallelism"])  # fmt: skip
@pytest.mark.thinned(2)
def test_what_no_program_here_can_have_is_told_with_what_to_do(before, step, program):
    run = command("run", program("return 0;", before=before))
    assert run.returncode == 1
    assert step in " ".join(run.stderr.split())


@needs_tools
def test_a_deadlock_names_memory_as_the_program_does(program):
    body = "int* flag; cudaMalloc(&flag, 4); cudaMemset(flag, 0, 4); k<<<1, 1>>>(flag); cudaDeviceSynchronize();"
    path = program(body, before="__global__ void k(int* f) { while (atomicAdd(f, 0) == 0); }")
    run = command("run", path)
    assert "it updates flag at byte 0" in " ".join(run.stderr.replace("|", " ").split()), run.stderr
    assert "next: Who is to do it?" in run.stderr


@needs_tools
@pytest.mark.slow
def test_a_build_is_kept_until_a_file_that_it_read_changes(program, tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "my.h").write_text("#define ANSWER 1\n")
    path = program('printf("%d\\n", ANSWER);', before='#include "my.h"')
    assert not build([path]).cached and build([path]).cached
    (tmp_path / "my.h").write_text("#define ANSWER 2\n")
    again = build([path])
    assert not again.cached and run_program(again.path, capture=True).output == "2\n"


@needs_tools
def test_ctrl_c_ends_a_kernel_that_does_not(program):
    path = program(
        'spin<<<1, 32>>>(); printf("launched\\n"); fflush(stdout); cudaDeviceSynchronize(); return 0;',
        before="__device__ volatile int stop, turns;\n__global__ void spin() { while (!stop) ++turns; }",
    )
    build([path])
    run = subprocess.Popen([sys.executable, "-m", "warpschool", "run", path], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, start_new_session=True)  # fmt: skip
    assert run.stdout.readline() == "launched\n"
    time.sleep(1)
    os.killpg(run.pid, signal.SIGINT)
    _, errors = run.communicate(timeout=_HERE_S)
    assert run.returncode == 130 and "Traceback" not in errors, errors
    assert "interrupted in spin()" in errors and re.search(rf"launch 1, at \S*{path.name}:6", errors), errors


@needs_tools
@pytest.mark.parametrize(("flag", "write", "status"), [
    ("cudaMallocHost(&f, 4)", "*(volatile int*)f = 1; cudaDeviceSynchronize(); cudaFreeHost(f);", 0),
    ("cudaMalloc(&f, 4)", "", 1),
])  # fmt: skip
def test_a_kernel_may_wait_for_the_host_where_both_see_the_flag(program, flag, write, status):
    path = program(
        f"int* f; {flag}; cudaMemset(f, 0, 4); spin<<<1, 32>>>(f); sleep(2); {write}\n"
        'cudaDeviceSynchronize(); printf("over\\n"); return 0;',
        before="#include <unistd.h>\n__global__ void spin(volatile int* f) { while (!*f) {} }",
    )
    run = command("run", path)
    assert run.returncode == status, run.stderr
    assert ("deadlock" in run.stderr) == bool(status), run.stderr


@needs_tools
def test_registers_are_told_of_code_for_one_architecture_alone(program):
    source = program(
        "int n = 0; cudaError_t e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, k, 128, 0);"
        'printf("%s, %d\\n", cudaGetErrorString(e), n);', before="__global__ void k(int* a) { a[threadIdx.x] = 1; }",
    )  # fmt: skip
    done = command("run", source, "--plain", "--gpu", "h200", "--arch", "compute_90a")
    assert "no error, 16\n" in done.stdout, done.stdout + done.stderr


@needs_tools
def test_json_has_output_findings_and_counts(program):
    path = program(
        'int* x; cudaMalloc(&x, 400); fill<<<1, 128>>>(x); cudaDeviceSynchronize(); printf("done\\n"); return 0;',
        before="__global__ void fill(int* x) { x[threadIdx.x] = 1; }",
    )
    run = command("run", path, "--json")
    found = json.loads(run.stdout)
    assert run.returncode == found["exit_code"] == 1 and found["output"] == "done\n"
    assert [note["kind"] for note in found["findings"]] == ["out-of-bounds", "leak"]
    first = found["findings"][0]
    assert first["finding"]["line"] == 2 and first["finding"]["array"] == "x" and first["launch"] == 1
    assert first["hosts"][0]["line"] == 5 and first["hosts"][0]["function"] == "main"
    assert found["kernels"][0]["kernel"] == "fill(int*)" and found["kernels"][0]["counters"]["blocks"] == 1


@needs_tools
def test_words_stand_at_their_lines_and_tables_are_asked_for(program):
    path = program(
        "int* x; cudaMalloc(&x, 400); fill<<<1, 128>>>(x); cudaFree(x); return 0;",
        before="__global__ void fill(int* x) { x[threadIdx.x] = 1; }",
    )
    run = command("run", path, "--profile", "--counters", "-O2", "--", "ignored")
    said = re.sub(r"\s+", " ", run.stderr)
    assert "writes outside x: 0 bytes behind its 400 | bytes" in said and "launch 1, at" in said
    assert "was allocated at" in said and "1 launch on a simulated A100" in said and "predictions" in said
    assert "global_store_requests" in said and "Kernels" in said
    assert run.stdout == ""


@needs_tools
def test_thousands_of_launches_of_one_kernel(program):
    path = program(
        "float* x; cudaMalloc(&x, 1024); cudaMemset(x, 0, 1024);"
        "for (int k = 0; k < atoi(argv[1]); k++) scale<<<1, 256>>>(x, 2, 256);"
        'printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize())); cudaFree(x); return 0;',
        before=textwrap.dedent("""\
            #include <cstdlib>
            __global__ void scale(float* x, float by, int n)
            {
                int i = blockIdx.x * blockDim.x + threadIdx.x;
                if (i < n) x[i] *= by;
            }"""),
    )
    built = build([path])
    report = run_program(built.path, ["3000"], capture=True)
    assert report.output == "cudaSuccess\n" and report.launches == 3000 and not report.notes


@needs_tools
def test_a_built_program_runs_by_itself(program):
    path = program(
        "int* x; cudaMalloc(&x, 400); fill<<<1, 128>>>(x); cudaFree(x); return 0;",
        before="__global__ void fill(int* x) { x[threadIdx.x] = 1; }",
    )
    run = subprocess.run([build([path]).path], capture_output=True, text=True, timeout=_HERE_S)
    assert run.returncode == 1 and "outside x" in run.stderr and run.stdout == ""


def test_the_tools_know_where_nvcc_may_be(monkeypatch, tmp_path):
    monkeypatch.setenv("WARPSCHOOL_NVCC", str(tmp_path / "nvcc"))
    assert list(tools_module._compilers()) == [tmp_path / "nvcc"]


@needs_tools
def test_two_programs_are_compared_kernel_by_kernel(program):
    main = "float* x; cudaMallocManaged(&x, 8192); walk<<<1, 32>>>(x); cudaFree(x); return 0;"
    near = program(main, before="__global__ void walk(float* x) { x[threadIdx.x] = 1; }", name="near.cu")
    far = program(main, before="__global__ void walk(float* x) { x[threadIdx.x * 32] = 1; }", name="far.cu")
    run = command("diff", near, far, "--plain")
    assert run.returncode == 0, run.stderr
    row = next(line for line in run.stdout.splitlines() if line.startswith("global_store_sectors "))
    assert row.split() == ["global_store_sectors", "4", "32", "8"]
    assert "They print the same." in run.stdout and "predictions" in run.stdout


PIECES = """float* h; float* d; cudaStream_t s[2];
    {allocation}
    cudaMalloc(&d, 8 << 20);
    for (auto& one : s) cudaStreamCreate(&one);
    for (int k = 0; k < 2; ++k) {{
        cudaMemcpyAsync(d + k * 1000000, h + k * 1000000, 4000000, cudaMemcpyHostToDevice, s[k]);
        cudaMemcpyAsync(h + k * 1000000, d + k * 1000000, 4000000, cudaMemcpyDeviceToHost, s[k]);
    }}
    return cudaDeviceSynchronize();"""


@needs_tools
@pytest.mark.parametrize(
    ("allocation", "overlaps"),
    [
        ("cudaMallocHost(&h, 8 << 20);", True),
        ("h = new float[2 << 20](); cudaHostRegister(h, 8 << 20, cudaHostRegisterDefault);", True),
        ("h = new float[2 << 20]();", False),
    ],
    ids=["pinned", "registered", "pageable"],
)
def test_copies_overlap_from_memory_that_the_system_may_not_swap_out(allocation, overlaps, program):
    report = run_program(build([program(PIECES.format(allocation=allocation))]).path, leaks=False)
    assert report.status == 0 and not report.notes
    spans = [(span.kind, span.start_ns, span.end_ns) for span in report.spans]
    assert [kind for kind, *_ in spans] == ["HtoD", "DtoH"] * 2
    assert (spans[2][1] < spans[1][2]) == overlaps
