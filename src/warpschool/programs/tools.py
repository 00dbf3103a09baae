"""What builds programs: nvcc of the extra `programs` (or of a toolkit) and the system's g++."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from warpschool.errors import ToolMissing, WarpschoolError

NVCC_HOW = 'Install it with: pip install "warpschool[programs]" (about 75 MB; no GPU and no driver are needed).'
HOST_HOW = "Install it with your system's packages: apt-get install g++, dnf install gcc-c++, or pacman -S gcc."


@dataclass(frozen=True)
class Tools:
    """nvcc with its version as "13.5", and a C++ compiler with the first line of what it says of itself."""

    nvcc: Path
    cuda: str
    host: Path
    host_version: str

    @property
    def include(self) -> Path:
        """CUDA's headers."""
        return self.nvcc.parents[1] / "include"

    @property
    def ptxas(self) -> Path:
        return self.nvcc.with_name("ptxas")

    @property
    def identity(self) -> str:
        """What a build depends on beside its sources."""
        return f"{self.nvcc} {self.cuda} {self.host} {self.host_version}"


@functools.cache
def find_tools() -> Tools:
    """nvcc and g++ of this machine. Raises ToolMissing, which says how to get what is not there."""
    if sys.platform != "linux":
        raise ToolMissing(
            f"whole programs cannot be built on {sys.platform}: nvcc is for Linux",
            next_step="Use a Linux container on macOS, and WSL2 on Windows.",
        )
    nvcc = next((path for path in _compilers() if _is_whole(path)), None)
    if nvcc is None:
        raise ToolMissing("no nvcc on this machine: it splits a program into host and device code", next_step=NVCC_HOW)
    host = os.environ.get("CXX") or next(filter(None, map(shutil.which, ("g++", "c++"))), None)
    path = shutil.which(host) if host else None
    if path is None:
        raise ToolMissing("no g++ on this machine: it compiles the program's host code", next_step=HOST_HOW)
    return Tools(nvcc, _version(nvcc, r"release (\d+\.\d+)"), Path(path), _version(Path(path), r"^(.*)$"))


def tools_report() -> dict[str, object]:
    """What this machine builds programs with, for `doctor`. Never raises."""
    try:
        found = find_tools()
    except WarpschoolError as problem:
        return {"available": False, "problem": problem.message, "next_step": problem.next_step}
    return {"available": True, "nvcc": found.cuda, "host": found.host_version, "path": str(found.nvcc)}


def _compilers() -> Iterator[Path]:
    if os.environ.get("WARPSCHOOL_NVCC"):
        yield Path(os.environ["WARPSCHOOL_NVCC"])
        return
    for entry in sys.path:
        if entry:
            yield from sorted(Path(entry).glob("nvidia/cu[0-9][0-9]/bin/nvcc"), reverse=True)
    for variable in ("CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "bin" / "nvcc"
    if on_path := shutil.which("nvcc"):
        yield Path(on_path).resolve()
    yield Path("/usr/local/cuda/bin/nvcc")


def _is_whole(nvcc: Path) -> bool:
    """Whether the headers are there too."""
    return nvcc.is_file() and (nvcc.parents[1] / "include" / "cuda_runtime.h").is_file()


@functools.cache
def _version(program: Path, pattern: str) -> str:
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "?"
    found = re.search(pattern, said, re.MULTILINE)
    return found[1] if found else "?"


# ---------------------------------------------------------------- the library in the place of CUDA's

SHIM = Path(__file__).with_name("shim")
HEADERS = SHIM / "include"
"""Headers of libraries whose first calls are ours, for machines without NVIDIA's."""
EARLIER = SHIM / "earlier"
"""Headers that come before NVIDIA's of the same names and bring what those no longer do."""
NAME = "libwarpcudart.so"
STANDS_FOR = (*(f"lib{name}.so" for name in (
    "cudart", "cudart_static", "cublas", "cublas_static", "cublasLt_static", "culibos", "cuda", "cudadevrt", "curand",
    "curand_static", "nvrtc",
)), "libcuda.so.1")  # fmt: skip
"""What a program may ask the linker for, and the last one dlopen: as libcu++ does. What static libraries need of each
other is asked for with them."""


def shim_identity() -> str:
    """A hash of the library's sources."""
    texts = (path.name.encode() + path.read_bytes() for path in sorted(SHIM.rglob("*")) if path.is_file())
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]
