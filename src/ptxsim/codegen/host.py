"""What the host's processor can do, as far as generated code depends on it.

WARPSCHOOL_SIMD=avx2 leaves AVX-512 out: for comparing results, and speed, across machines. Results never depend on it.
"""

from __future__ import annotations

import functools
import os
import platform

import llvmlite.binding as llvm


def features() -> dict[str, bool]:
    """The processor's features, by LLVM's names."""
    hidden = ("avx512", "amx", "avx10") if os.environ.get("WARPSCHOOL_SIMD") == "avx2" else ()
    return _features(hidden)


@functools.cache
def _features(hidden: tuple[str, ...]) -> dict[str, bool]:
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


def has_halves() -> bool:
    """Whether the processor multiplies, adds and rounds an f64 to halves itself: AVX-512 FP16, or ARM's FP16."""
    return has("avx512fp16") or (platform.machine() in ("aarch64", "arm64") and _arm_has_halves(model(), flags()))


_FMA = """declare half @llvm.fma.f16(half, half, half)
define half @f(half %x, half %y, half %z) {
  %r = call half @llvm.fma.f16(half %x, half %y, half %z)
  ret half %r
}
"""


@functools.cache
def _arm_has_halves(cpu: str, flags: str, triple: str = "") -> bool:
    """LLVM knows it by the processor's name, though not every system lists it among the features."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(triple) if triple else llvm.Target.from_default_triple()
    machine = target.create_target_machine(cpu=cpu, features=flags)
    module = llvm.parse_assembly(_FMA)
    module.triple = machine.triple
    return "fmadd\th" in machine.emit_assembly(module)
