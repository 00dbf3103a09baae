"""CUDA C++ to PTX and to resources: the ordinary ways."""

from __future__ import annotations

import ast
import concurrent.futures
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from warpschool.compile import (
    DEFAULT_ARCH,
    Compiled,
    Resources,
    compile_cuda,
    compiler,
    compiler_name,
    compiler_report,
    find_toolchain,
    parse_resources,
    resource_usage,
)
from warpschool.compile.toolchain import _toolchain_in
from warpschool.errors import CompileError, CompilerMissing

TILED = """\
constexpr int TILE = 16;

extern "C" __global__ void matmul(const float* A, const float* B, float* C, int N) {
    __shared__ float a[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y;
    int col = blockIdx.x * TILE + threadIdx.x;
    a[threadIdx.y][threadIdx.x] = A[row * N + col];
    __syncthreads();
    C[row * N + col] = a[threadIdx.x][threadIdx.y] * B[col];
}
"""
TINY = 'extern "C" __global__ void tiny(int* x) { x[threadIdx.x] = 7; }\n'


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(tmp_path / "cache"))


def test_ptx_has_the_entry_the_target_and_the_students_lines():
    compiled = compile_cuda(TILED, name="some/folder/01_tiled.cu")
    assert ".visible .entry matmul(" in compiled.ptx
    assert f".target {DEFAULT_ARCH.replace('compute', 'sm')}" in compiled.ptx
    assert re.findall(r"\.file\s+(\d+) (\S+)", compiled.ptx) == [("1", '"01_tiled.cu"')]
    lines = {int(line) for line in re.findall(r"\.loc\s+1 (\d+) ", compiled.ptx)}
    assert {3, 5, 7, 8, 9} <= lines <= set(range(11))
    assert re.fullmatch(r"\d+\.\d+", compiled.nvrtc)
    assert (compiled.arch, compiled.name, compiled.source) == (DEFAULT_ARCH, "01_tiled.cu", TILED)


def test_constants_change_the_ptx_and_nothing_but_the_initialiser():
    small = compile_cuda(TILED, constants={"TILE": 8})
    assert small.source == TILED.replace("TILE = 16", "TILE = 8")
    assert "[256]" in small.ptx and "[1024]" in compile_cuda(TILED).ptx


def test_the_key_follows_everything_that_matters():
    def key(source=TINY, **changes):
        return compile_cuda(source, **changes).key

    keys = [key(), key(TINY + "\n"), key(options=["-DX=1"]), key(arch="compute_90"), key(name="other.cu")]
    assert len(set(keys)) == len(keys)
    assert key() == keys[0]


def test_line_ends_and_byte_order_marks_do_not_change_the_ptx():
    assert compile_cuda(TILED.replace("\n", "\r\n")).ptx == compile_cuda(TILED).ptx
    assert compile_cuda("\ufeff" + TILED).ptx == compile_cuda(TILED).ptx


@pytest.mark.parametrize("header", ["cuda_fp16.h", "mma.h", "cuda_bf16.h", "cuda/std/cstdint", "cuda_pipeline.h"])
def test_cudas_own_headers_are_found(header):
    assert "tiny" in compile_cuda(f"#include <{header}>\n#include \"{header}\"\n{TINY}").ptx


@pytest.mark.slow
def test_cooperative_groups_and_cub_compile():
    source = f"#include <cooperative_groups.h>\n#include <cub/block/block_reduce.cuh>\n{TINY}"
    assert "tiny" in compile_cuda(source).ptx


def test_header_files_have_names_that_do_not_depend_on_the_machine():
    source = """\
#include <cuda_fp16.h>
#include <mma.h>
extern "C" __global__ void f(half* a, float* c) {
    using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
    wmma::fill_fragment(z, 0.0f);
    wmma::load_matrix_sync(x, a, 16);
    wmma::load_matrix_sync(y, a, 16);
    wmma::mma_sync(z, x, y, z);
    wmma::store_matrix_sync(c, z, 16, wmma::mem_row_major);
}
"""
    files = re.findall(r"\.file\s+\d+ (\S+)", compile_cuda(source, name="w.cu").ptx)
    assert '"w.cu"' in files
    assert all(re.fullmatch(r'"w\.cu"|"<[\w./]+>"', file) for file in files), files


def test_unknown_architectures_are_refused_with_those_that_exist():
    with pytest.raises(CompileError, match=r"not know compute_20; it knows (compute_\d+, )*compute_75, compute_80"):
        compile_cuda(TINY, arch="compute_20")
    with pytest.raises(CompileError, match=r"arch"):
        compile_cuda(TINY, arch="compute_80; rm")


def test_machine_code_of_unknown_gpus_is_refused_with_those_that_exist():
    with pytest.raises(CompileError, match=r"does not know sm_33; it knows (sm_\d+, )*sm_75"):
        resource_usage(TINY, arch="sm_33")
    with pytest.raises(CompileError, match=r"arch"):
        resource_usage(TINY, arch="compute_80")


def test_a_real_architecture_gives_a_cubin():
    found = compile_cuda(TINY, arch="sm_90")
    assert found.cubin.startswith(b"\x7fELF") and found.ptx == ""
    assert compile_cuda(TINY, arch="sm_90").cubin == found.cubin, "and so does the cache"


def test_warnings_come_with_the_result():
    (warning,) = compile_cuda("__global__ void f() {\n    int unused;\n}\n").warnings
    assert (warning.line, warning.column, warning.width) == (2, 9, 6)
    assert '"unused" was declared but never referenced' in warning.message


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_resources_of_every_kernel(arch):
    source = TILED + '\nextern "C" __global__ void spill(float* x) {\n    float kept[64];\n' + (
        "    for (int i = 0; i < 64; i++) kept[(int)x[i] & 63] = x[i];\n    x[0] = kept[(int)x[1] & 63];\n}\n"
    )
    found = resource_usage(source, arch=arch)
    assert set(found) == {"matmul", "spill"}
    tiled, spill = found["matmul"], found["spill"]
    assert (tiled.arch, tiled.shared_bytes, tiled.local_bytes, tiled.barriers) == (arch, 1024, 0, 1)
    assert 8 <= tiled.registers <= 40 and tiled.spill_load_bytes == tiled.spill_store_bytes == 0
    if arch != "sm_90":  # from there on ptxas is silent about the bank that holds the parameters
        assert tiled.constant_bytes >= 28  # three pointers and an int, at least
    assert spill.local_bytes == 256 and spill.shared_bytes == 0


def test_fewer_registers_spill():
    body = "".join(f"    float v{i} = x[{i} * n];\n" for i in range(64))
    total = "".join(f"    x[n + {i}] = v{i} * v{(i + 7) % 64};\n" for i in range(64))
    source = f'extern "C" __global__ void wide(float* x, int n) {{\n{body}    __syncthreads();\n{total}}}\n'
    free, tight = resource_usage(source)["wide"], resource_usage(source, options=["--maxrregcount=24"])["wide"]
    assert free.spill_store_bytes == 0 and free.registers > 24
    assert tight.registers <= 24 and tight.spill_store_bytes > 0 and tight.spill_load_bytes > 0


def test_resources_are_parsed_from_a_log_without_optional_parts():
    log = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'f' for 'sm_80'
ptxas info    : Function properties for f
ptxas         .     16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 10 registers, 360 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compiling entry function 'g' for 'sm_80'
ptxas info    : Function properties for g
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 255 registers, used 2 barriers, 99 bytes smem, 352 bytes cmem[0]
"""
    common = {"arch": "sm_80"}
    assert parse_resources(log) == {
        "f": Resources(registers=10, shared_bytes=0, local_bytes=16, constant_bytes=368, spill_load_bytes=8,
                       spill_store_bytes=4, barriers=0, **common),
        "g": Resources(registers=255, shared_bytes=99, local_bytes=0, constant_bytes=352, spill_load_bytes=0,
                       spill_store_bytes=0, barriers=2, **common),
    }  # fmt: skip


def test_many_threads_compile_at_once():
    def compiled(index: int) -> Compiled:
        return compile_cuda(TINY.replace("7", str(1000 + index)))

    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        results = list(threads.map(compiled, range(12)))
    assert all(f"{1000 + index};" in result.ptx for index, result in enumerate(results))


FIRST = """\
import subprocess, sys
started, real = [], subprocess.Popen
class Popen(real):
    def __init__(self, command, **options):
        started.append(command)
        super().__init__(command, **options)
subprocess.Popen = Popen
before = set(sys.modules)
from warpschool.compile import compile_cuda
compile_cuda(sys.argv[1])
print(len(started), "-S" in started[0], len(set(sys.modules) - before), *{name.split(".")[0] for name in sys.modules})
"""


def test_first_compilation_of_a_fresh_process_does_only_what_it_must(tmp_path):
    """One process more, which loads no site; few modules, and none of those that take long to import."""
    environment = {**os.environ, "WARPSCHOOL_CACHE": str(tmp_path / "fresh")}
    run = subprocess.run(
        [sys.executable, "-c", FIRST, TINY], env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    count, without_site, modules, *names = run.stdout.split()
    assert (count, without_site) == ("1", "True")
    heavy = {"numpy", "llvmlite", "cuda", "rich", "typer", "matplotlib", "pytest", "cupy", "IPython", "asyncio"}
    assert not heavy & set(names)
    assert int(modules) <= 90, "66 on Python 3.11, and every one is waited for"


def _imports(path: Path) -> tuple[set[str], set[str]]:
    """Modules of `import x`, and of `from x import y`."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain, {node.module for node in nodes if isinstance(node, ast.ImportFrom) if node.module}


def test_the_compiler_process_imports_little():
    """Every module that it imports is waited for; `cuda.bindings` is what it is there for, `socket` is for forking."""
    child = Path(find_spec("warpschool.compile").origin).with_name("child.py")
    plain, parts = _imports(child)
    begin = ast.parse(child.read_text()).body
    at_once = {alias.name for node in begin if isinstance(node, ast.Import) for alias in node.names}
    assert (at_once, plain) == ({"ctypes", "os", "sys"}, {"ctypes", "os", "socket", "sys"})
    assert parts == {"__future__", "typing", "cuda.bindings", "ptxsim"}
    plain, parts = _imports(Path(find_spec("ptxsim.system").origin).with_name("posix.py"))
    unused = {"subprocess", "threading"}  # for type checkers, or in functions that the child does not call
    light = {"_thread", "ctypes", "mmap", "os", "resource", "select", "signal", "struct", "sys", "time"}
    assert light <= plain <= light | unused | {"fcntl", "stat"}
    assert parts <= {"__future__", "contextlib", "typing", "collections.abc"}


def test_repeated_compilations_come_from_the_cache_and_ask_no_compiler(monkeypatch):
    first = compile_cuda(TINY)
    monkeypatch.setattr(compiler.pool, "compile", None)
    again = compile_cuda(TINY)
    assert again.cached and again.ptx == first.ptx
    assert again == compile_cuda(TINY)


def test_a_compiler_that_is_killed_while_it_starts_is_asked_again(monkeypatch):
    """Else a result would say that there was none."""
    from warpschool.compile import compiler

    real, asked = compiler.pool.warm_up, []

    def once_killed(toolchain):
        asked.append(toolchain)
        if len(asked) == 1:
            raise CompileError("the compiler ended before it answered")
        return real(toolchain)

    monkeypatch.setattr(compiler.pool, "warm_up", once_killed)
    assert compiler_report()["available"] is True and len(asked) == 2


def test_the_report_says_what_is_here():
    report = compiler_report()
    assert report["available"] and report["nvrtc"] == find_toolchain().nvrtc
    assert report["compiler"] == compiler_name() == f"NVRTC {report['nvrtc']}"
    assert {75, 80, 90} <= set(report["archs"])


def test_a_missing_compiler_is_explained(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_CUDA", str(tmp_path))
    find_toolchain.cache_clear()
    try:
        with pytest.raises(CompilerMissing, match=r"no libnvrtc\.so(.|\n)*pip install nvidia-cuda-nvrtc"):
            compile_cuda(TINY)
        assert compiler_report()["available"] is False
    finally:
        monkeypatch.delenv("WARPSCHOOL_CUDA")
        find_toolchain.cache_clear()


def test_on_a_mac_one_is_told_what_to_do(monkeypatch):
    find_toolchain.cache_clear()
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(CompilerMissing, match=r"does not run on macOS(.|\n)*warpschool\[clang\](.|\n)*container"):
        find_toolchain()


LAYOUTS = {
    "cuda 13 packages": ("lib/libnvrtc.so.13", "include", "include/cccl", "include"),
    "cuda 12 packages": (
        "cuda_nvrtc/lib/libnvrtc.so.12", "cuda_runtime/include", "cuda_cccl/include", "cuda_nvcc/include"),
    "toolkit": ("lib64/libnvrtc.so.13", "include", "include/cccl", "include"),
    "conda": ("lib/libnvrtc.so.12", "targets/x86_64-linux/include", "targets/x86_64-linux/include",
              "targets/x86_64-linux/include"),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_of_folders_is_understood(layout, tmp_path):
    library, runtime, cccl, crt = LAYOUTS[layout]
    files = {
        library: "elf",
        library.replace("libnvrtc.so.1", "libnvrtc-builtins.so.1") + ".4": "elf",
        f"{runtime}/cuda_fp16.h": "",
        f"{runtime}/cuda.h": "#define CUDA_VERSION 13040\n",
        f"{crt}/crt/mma.h": "",
        f"{cccl}/cuda/std/cstdint": "",
        f"{cccl}/cuda/std/__cccl/version.h": "#define CCCL_VERSION 3004000\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = _toolchain_in(tmp_path, "test")
    assert not isinstance(found, str), found
    assert found.library == tmp_path / library and found.headers == "13040/3004000"
    assert found.nvrtc == library[-2:] + ".4"
    for header in ("cuda_fp16.h", "crt/mma.h", "cuda/std/cstdint"):
        assert any((folder / header).is_file() for folder in found.includes)
    (tmp_path / crt / "crt/mma.h").unlink()
    assert "nvidia-cuda-crt" in str(_toolchain_in(tmp_path, "test"))
