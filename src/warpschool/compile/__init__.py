"""CUDA C++ to PTX with NVIDIA's own compiler, or with clang, no GPU needed.

    source -> constants put in -> includes checked -> cache, or a compiler in a killable child -> PTX, or diagnostics

`compile_cuda` gives PTX for the simulator, `resource_usage` what ptxas assigns on a real chip.
"""

from warpschool.compile.compiler import (
    COMPILERS,
    compile_cuda,
    compiler_name,
    compiler_report,
    find_compiler,
    limit_compilations,
    parse_resources,
    resource_usage,
)
from warpschool.compile.result import DEFAULT_ARCH, Compiled, CompileLimits, Diagnostic, Resources
from warpschool.compile.source import find_constants, override_constants
from warpschool.compile.toolchain import Toolchain, find_toolchain

__all__ = [
    "COMPILERS",
    "DEFAULT_ARCH",
    "CompileLimits",
    "Compiled",
    "Diagnostic",
    "Resources",
    "Toolchain",
    "compile_cuda",
    "compiler_name",
    "compiler_report",
    "find_compiler",
    "find_constants",
    "find_toolchain",
    "limit_compilations",
    "override_constants",
    "parse_resources",
    "resource_usage",
]
