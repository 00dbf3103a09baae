"""CUDA C++ to PTX with NVIDIA's own compiler, no GPU needed.

    source -> constants put in -> includes checked -> cache, or NVRTC in a killable child -> PTX, or diagnostics

`compile_cuda` gives PTX for the simulator, `resource_usage` what ptxas assigns on a real chip.
"""

from warpschool.compile.compiler import compile_cuda, compiler_report, parse_resources, resource_usage
from warpschool.compile.result import DEFAULT_ARCH, Compiled, CompileLimits, Diagnostic, Resources
from warpschool.compile.source import find_constants, override_constants
from warpschool.compile.toolchain import Toolchain, find_toolchain

__all__ = [
    "DEFAULT_ARCH",
    "CompileLimits",
    "Compiled",
    "Diagnostic",
    "Resources",
    "Toolchain",
    "compile_cuda",
    "compiler_report",
    "find_constants",
    "find_toolchain",
    "override_constants",
    "parse_resources",
    "resource_usage",
]
