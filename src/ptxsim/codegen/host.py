"""What the host's processor can do, as far as generated code depends on it.

WARPSCHOOL_SIMD=avx2 leaves AVX-512 out: for comparing results, and speed, across machines. Results never depend on it.
"""

from __future__ import annotations

import os

import llvmlite.binding as llvm


def features() -> dict[str, bool]:
    """The processor's features, by LLVM's names."""
    hidden = ("avx512", "amx", "avx10") if os.environ.get("WARPSCHOOL_SIMD") == "avx2" else ()
    return {name: on and not name.startswith(hidden) for name, on in llvm.get_host_cpu_features().items()}


def model() -> str:
    """The processor that code is scheduled for: without AVX-512, one that never had it."""
    name = llvm.get_host_cpu_name()
    hidden = llvm.get_host_cpu_features().get("avx512f") and not has("avx512f")
    return "broadwell" if hidden else name


def has(feature: str) -> bool:
    """Whether generated code may use a feature, `avx512fp16`."""
    return features().get(feature, False)


def flags() -> str:
    """All features as LLVM's code generator takes them."""
    return ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(features().items()))


def simd() -> str:
    """The vectors that generated code uses, for people."""
    found = features()
    return next((name for key, name in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if found.get(key)), "baseline")
