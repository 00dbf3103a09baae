"""What NVRTC writes does not depend on where things are: folders, and what its process has in memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from warpschool.compile import CompileLimits, compile_cuda, find_toolchain
from warpschool.compile.processes import CompilerForks, CompilerProcess, Request
from warpschool.compile.toolchain import STANDARD, Toolchain, _toolchain_in
from warpschool.errors import CompilerMissing

SOLUTIONS = Path(__file__).parents[3] / "solutions"
TOUCHY = [
    "lab10_lenet/09_conv_relu_pool", "lab12_split_channels/03_staged_store", "lab12_split_channels/06_split_c_grid",
    "lab12_split_channels/09_batched_ragged", "lab16_attention/07_backward",
]  # fmt: skip
"""Sources that had other PTX where NVRTC found its memory at other addresses."""
ASSERTS = """#include <cuda/std/array>
extern "C" __global__ void k(int* x, int n) { cuda::std::array<int, 3> a{}; a[n] = 1; x[0] = a[0] + a[1]; }
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(tmp_path / "cache"))


def nvrtc():
    try:
        return find_toolchain()
    except CompilerMissing as problem:
        pytest.skip(str(problem))


def seen_from(folder: Path) -> Toolchain:
    """This machine's CUDA, reached through a link."""
    root = nvrtc().library.parents[1]
    folder.parent.mkdir(parents=True)
    folder.symlink_to(root)
    found = _toolchain_in(folder, "a link")
    if not isinstance(found, Toolchain):
        pytest.skip(f"CUDA here is not below one folder: {found}")
    return found


def ptx_of(toolchain: Toolchain, source: str) -> str:
    worker = CompilerProcess(toolchain)
    options = ["-arch=compute_80", "-std=c++17", "-lineinfo", *(f"-I{folder}" for folder in toolchain.includes)]
    answer = worker.compile(Request((SOLUTIONS / f"{source}.cu").read_text(), "k.cu", options), CompileLimits())
    worker.kill()
    assert answer.result == "NVRTC_SUCCESS", answer.log
    return answer.ptx


@pytest.mark.skipif(sys.platform != "linux", reason="folders have other names on Linux only")
@pytest.mark.parametrize("source", TOUCHY)
@pytest.mark.thinned(3)
def test_where_cuda_is_changes_the_names_of_its_headers_alone(source, tmp_path):
    found = set()
    for place in ("a/b", "c" * 60 + "/" + "d" * 97, "e/f/g/h/i"):
        toolchain = seen_from(tmp_path / f"x{len(found)}" / place)
        ptx = ptx_of(toolchain, source)
        headers = re.findall(r'^\t?\.file\s+\d+ "(.+)"', ptx, re.MULTILINE)
        assert headers[0] == "/k.cu" and "/proc/" not in ptx
        assert {str(Path(name).parent) for name in headers[1:]} <= {str(toolchain.includes[0])}
        found.add(ptx.replace(str(toolchain.includes[0]), "<>"))
        assert len(found) == 1, place
    assert headers[1:] or "lab16" in source


def test_messages_name_the_real_headers_and_folders_of_a_source_stay_its_own(tmp_path):
    toolchain = nvrtc()
    source = "#include <cuda/std/array>\n#include <math.h>\ncuda::std::array<void, 2> a;\n"
    options = [f"-I{folder}" for folder in toolchain.folders] + [f'-DWHERE="{toolchain.includes[0]}/"']
    worker = CompilerProcess(toolchain)
    asked = worker._names.within(Request(source, "k.cu", options)).options
    log = worker.compile(Request(source, "k.cu", options), CompileLimits()).log
    worker.kill()
    assert asked[-1] == options[-1]
    assert any(f"{folder}/cuda/std/" in log for folder in toolchain.includes) and "/proc/" not in log
    if sys.platform == "linux":
        assert asked[:-1] == [f"-I/proc/self/fd/{number}" for number in (102, 103, 101)][-len(asked[:-1]):]


def test_an_assertion_of_a_header_names_it_as_messages_do():
    ptx = compile_cuda(ASSERTS, options=["-DCCCL_ENABLE_ASSERTIONS"]).ptx
    data = [bytes(map(int, found.split(", "))) for found in re.findall(r"\.b8 \S+ = \{([\d, ]+)\}", ptx)]
    if sys.platform == "linux":
        assert b"<cuda/std/array>" in data
    assert '"<cuda/std/array>"' in ptx and "/proc/" not in ptx


def test_what_we_include_ourselves_has_no_folder_of_this_machine_in_it():
    compiled = compile_cuda('extern "C" __global__ void k(float* x) { x[0] = INFINITY; assert(x[1] > 0); }\n')
    assert str(STANDARD) not in compiled.ptx and "/proc/" not in compiled.ptx


def test_a_folder_that_a_toolkit_has_by_two_names_is_one(tmp_path):
    toolchain = seen_from(tmp_path / "x" / "toolkit")
    root = tmp_path / "root"
    (root / "targets/x86_64-linux").mkdir(parents=True)
    (root / "lib64").symlink_to(toolchain.library.parent)
    (root / "targets/x86_64-linux/include").symlink_to(toolchain.includes[0])
    (root / "include").symlink_to("targets/x86_64-linux/include")
    found = _toolchain_in(root, "a toolkit")
    assert [str(folder.relative_to(root)) for folder in found.includes] == ["include", "include/cccl"]


FIVE = """
import hashlib, sys
from pathlib import Path
from warpschool.compile import compile_cuda
for path in sys.argv[1:]:
    print(hashlib.sha256(compile_cuda(Path(path).read_text(), name="k.cu").ptx.encode()).hexdigest())
"""


def without_limit_of_the_stack() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_STACK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.mark.skipif(sys.platform != "linux", reason="addresses are the system's choice elsewhere")
def test_a_limit_under_which_a_system_lays_out_memory_otherwise_does_not_change_the_ptx(tmp_path):
    import resource

    if resource.getrlimit(resource.RLIMIT_STACK)[1] != resource.RLIM_INFINITY:
        pytest.skip("no stack may be so large here")
    found = []
    for k, before in enumerate((None, without_limit_of_the_stack)):
        environment = os.environ | {"WARPSCHOOL_CACHE": str(tmp_path / f"cache {k}")}
        command = [sys.executable, "-c", FIVE, *(str(SOLUTIONS / f"{source}.cu") for source in TOUCHY)]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, preexec_fn=before)
        found.append(run.stdout.split())
    assert found[0] == found[1]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks compilers")
def test_a_forked_compiler_finds_the_same_addresses():
    from warpschool.compile.processes import CompilerFork

    toolchain = nvrtc()
    forks = CompilerForks(toolchain)
    options = ["-arch=compute_80", "-std=c++17", "-lineinfo", *(f"-I{folder}" for folder in toolchain.includes)]
    own, fork = CompilerProcess(toolchain), CompilerFork(*forks.fork())
    for source in TOUCHY:
        request = Request((SOLUTIONS / f"{source}.cu").read_text(), "k.cu", options)
        assert own.compile(request, CompileLimits()) == fork.compile(request, CompileLimits())
    own.kill()
    fork.kill()
    forks.close()
