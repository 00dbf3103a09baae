"""nvcc as makefiles and CMake call it, for programs that are to run on the simulator.

Architectures and CUDA's own runtime library are replaced by what the simulator needs; all else goes to nvcc as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpschool.programs.build import (
    DEFAULT_ARCH,
    SUFFIXES_OF_HOST,
    header_options,
    link_options,
    object_options,
    runtime_library,
)
from warpschool.programs.tools import find_tools

REPLACED = ("-gencode", "--generate-code", "-arch", "--gpu-architecture", "-code", "--gpu-code", "-cudart", "--cudart",
           "-ccbin", "--compiler-bindir")  # fmt: skip
"""Options that choose what is chosen here, each with a value."""
_DROPPED = ("-lcudart", "-lcudart_static", "--no-compress", "-lineinfo", "--generate-line-info", "-compress-mode")
_NO_LINK = ("-c", "--compile", "-dc", "--device-c", "-dw", "-E", "--preprocess", "-ptx", "--ptx", "-cubin", "--cubin",
            "-fatbin", "--fatbin", "-cuda", "--cuda", "-M", "-MM", "--generate-dependencies", "-lib",
            "--lib")  # fmt: skip
_LINKS_DEVICE = ("-dlink", "--device-link")
_ASKING = ("--version", "-V", "--help", "-h", "--list-gpu-arch", "-arch-ls", "--list-gpu-code", "-code-ls")


def nvcc_command(words: Sequence[str], *, arch: str = DEFAULT_ARCH) -> list[str]:
    """The command that stands for `nvcc WORDS`. Raises ToolMissing, CompileError."""
    tools = find_tools()
    if not words or any(word in _ASKING for word in words):
        return [str(tools.nvcc), *words]
    kept = list(_kept(words))
    runtime = runtime_library(tools)
    headers = header_options(tools, runtime)
    if not any(word.endswith(".cu") or word in ("cu", "-dc", "--device-c") for word in words):
        headers = headers[:2] if any(word.endswith(SUFFIXES_OF_HOST) for word in words) else []
    command = [str(tools.nvcc), *object_options(tools, arch), *headers, *kept]
    if any(word in _LINKS_DEVICE for word in words):  # else nvcc takes in NVIDIA's device runtime, which nobody links
        return [*command, "-cudadevrt", "none"]
    if any(word in _NO_LINK for word in words):
        return command
    without_compiler = link_options(tools, runtime)[2:]
    return [*command, *(word for word in without_compiler if word not in command)]


def _kept(words: Sequence[str]) -> list[str]:
    """The words that nvcc is to see."""
    found: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in REPLACED:
            skip = True
        elif not word.startswith(tuple(f"{name}=" for name in REPLACED)) and not word.startswith(_DROPPED):
            found.append(word)
    return found
