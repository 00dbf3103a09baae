"""LLVM text to machine code, through llvmlite."""

from __future__ import annotations

import ctypes
import os
import threading
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm

from .translate import Translation
from .translate.runtime import runtime_module

_LARGE = 2_500
"""PTX instructions above which code generation favours its own speed over the code's."""
_lock = threading.Lock()


@cache
def _start() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def _features() -> str:
    """Host features; WARPSCHOOL_SIMD=avx2 leaves AVX-512 out (for comparing results across machines)."""
    features = llvm.get_host_cpu_features()
    if os.environ.get("WARPSCHOOL_SIMD") == "avx2":
        for name in features:
            if name.startswith(("avx512", "amx", "avx10")):
                features[name] = False
    return features.flatten()


def _machine(level: int) -> llvm.TargetMachine:
    _start()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=_features(), opt=level, jit=True
    )


@cache
def _runtime_engine() -> llvm.ExecutionEngine:
    """Compiles the helpers once per process and makes their names known to the kernels."""
    text, names = runtime_module()
    module = llvm.parse_assembly(text)
    engine = llvm.create_mcjit_compiler(module, _machine(2))
    engine.finalize_object()
    for name in names:
        llvm.add_symbol(name, engine.get_function_address(name))
    return engine


@dataclass(frozen=True)
class Code:
    """Machine code of a translation. `run(worker, contexts, first, last)` runs a range of blocks without the GIL."""

    run: ctypes._CFuncPtr  # type: ignore[name-defined]
    engine: llvm.ExecutionEngine


def _promoted(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Registers from stack slots to SSA values: the one optimisation that generated code needs."""
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    passes.run(module.get_function("full"), builder)


def compile_translation(translation: Translation) -> Code:
    """Compiles the IR of a translation."""
    with _lock:  # LLVM's global context is not thread-safe
        _runtime_engine()
        machine = _machine(0 if translation.instruction_count > _LARGE else 1)
        module = llvm.parse_assembly(translation.ir)
        _promoted(module, machine)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        address = engine.get_function_address("run_blocks")
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return Code(prototype(address), engine)


def assembly(translation: Translation) -> str:
    """Host assembly of a translation, for looking at."""
    with _lock:
        machine = _machine(1)
        module = llvm.parse_assembly(translation.ir)
        _promoted(module, machine)
        return machine.emit_assembly(module)
