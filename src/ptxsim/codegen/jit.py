"""LLVM text to machine code, through llvmlite."""

from __future__ import annotations

import base64
import ctypes
import functools
import threading

import llvmlite.binding as llvm

from ptxsim import cache, system
from ptxsim.codegen import host
from ptxsim.codegen.runtime import rare_modules, runtime_module
from ptxsim.codegen.translation import Translation
from ptxsim.codegen.unit import CounterPlan
from ptxsim.errors import UnsupportedInstruction

_LARGE, _LARGE_CHECKED = 3_500, 1_200
"""PTX instructions above which code generation favours its own speed over the code's: without and with checks. With
checks most of the time goes to the helpers, and so it does where lanes have parted."""
_lock = threading.RLock()


def _take() -> None:
    _lock.acquire()
    llvm.ffi.lib._lock.__enter__()


def _give() -> None:
    llvm.ffi.lib._lock.__exit__(None, None, None)
    _lock.release()


system.around_fork(_take, _give)  # what is compiled beside a launch holds these locks, and a fork could never take them


@functools.cache
def _start() -> None:
    llvm.set_option("ptxsim", "-enable-misched=false")  # it undoes the order of `chains`, and gains nothing elsewhere
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def wide_vectors() -> bool:
    """Whether the host has 32 registers of 64 bytes: AVX-512."""
    return host.has("avx512f")


def _machine(level: int) -> llvm.TargetMachine:
    _start()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=host.model(), features=host.flags(), opt=level, jit=True
    )


_own = threading.local()


def _emitter(level: int) -> llvm.TargetMachine:
    """A machine of this thread's own that generates code: to make one takes as long as a stencil does."""
    machines: dict[int, llvm.TargetMachine] = _own.__dict__.setdefault("machines", {})
    if level not in machines:
        machines[level] = _machine(level)
    return machines[level]


@functools.cache
def _engine_of(text: str, names: tuple[str, ...]) -> llvm.ExecutionEngine:
    """Compiles helpers, once per process, and makes their names known to what is compiled after them."""
    engine = _linked(_machine(2), _object(text, 2))
    for name in names:
        llvm.add_symbol(name, engine.get_function_address(name))
    return engine


def _load_helpers(ir: str) -> None:
    """Compiles the helpers that most kernels call, and the groups of rare ones that this one does."""
    _engine_of(*runtime_module())
    for text, names in rare_modules().values():
        if any(f"@{name}(" in ir for name in names):
            _engine_of(text, names)


def prepare() -> None:
    """Makes ready what every first launch needs: LLVM, and the helpers that most kernels call."""
    with _lock:
        _load_helpers("")


def exact_function(name: str) -> int:
    """Address of a function of the exact race shadow."""
    with _lock:
        return _engine_of(*rare_modules()["exact"]).get_function_address(name)


MASKED = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Code:
    """Machine code of a translation. `run(worker, contexts, first, last)` runs a range of blocks without the GIL."""

    def __init__(self, translation: Translation) -> None:
        self.translation = translation
        self._parting = threading.Lock()
        self.clean_clusters: set[int] = set()
        """digests of what clusters did in which their asynchronous work was found in order"""
        count = translation.instruction_count
        self._masked_level = 0 if max(count, translation.weight) > _LARGE_CHECKED else 1
        large = translation.outlined or count > (_LARGE_CHECKED if translation.unit.options.check else _LARGE)
        level = 0 if large else 1
        _add_library(translation.unit.library)
        self._engines = [_compiled(translation.ir, level, promote=translation.full_names)]
        self.run = _RUN(self._engines[0].get_function_address("run_blocks"))
        self.masked_plan: CounterPlan | None = None
        self.masked_address = 0
        if translation.outlined:
            self.masked_plan = translation.unit.plan
            self.masked_address = self._engines[0].get_function_address("masked")

    def compile_masked(self) -> None:
        """Compiles the function for parted lanes, once."""
        with self._parting:
            if self.masked_plan is None:
                ir, plan = self.translation.masked()
                _add_library(self.translation.unit.library)
                self._engines.append(_compiled(ir, self._masked_level))
                self.masked_address = self._engines[1].get_function_address("masked")
                self.masked_plan = plan


_library_lock = threading.Lock()
_library: set[str] = set()
"""Names of the functions for tensor cores and of the stencils that this process has compiled or loaded."""


def _add_library(functions: dict[str, str]) -> None:
    """Compiles those functions that are not there yet, each apart, and makes their names known to kernels."""
    with _library_lock:
        fresh = {name: text for name, text in functions.items() if name not in _library}
        if not fresh:
            return
        codes = [_object(text, 2) for text in fresh.values()]
        with _lock:
            for text in fresh.values():
                _load_helpers(text)
            engine = _linked(_machine(2), *codes)
            for name in fresh:
                llvm.add_symbol(name, engine.get_function_address(name))
            _library.update(fresh)
            _kept.append(engine)


_kept: list[llvm.ExecutionEngine] = []
"""What the library's code lies in."""


def _promoted(module: llvm.ModuleRef, machine: llvm.TargetMachine, function: str) -> None:
    """Registers from stack slots to SSA values: the one optimisation that generated code needs."""
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    passes.run(module.get_function(function), builder)


def _compiled(ir: str, level: int, promote: tuple[str, ...] = ()) -> llvm.ExecutionEngine:
    """An engine with the module's code, which several threads may make at once."""
    code = _object(ir, level, promote)
    with _lock:
        _load_helpers(ir)
        return _linked(_machine(level), code)


def _object(ir: str, level: int, promote: tuple[str, ...] = ()) -> bytes:
    """A module as an object file, from the disk cache where it was compiled before."""
    key = cache.content_key(ir, host.model(), host.flags(), str(level), ".".join(map(str, llvm.llvm_version_info)))
    entry = cache.load("object", key)
    if entry is not None:
        return base64.b64decode(entry["object"])
    machine, context = _emitter(level), llvm.create_context()
    module = _parsed(ir, context)
    for name in promote:
        _promoted(module, machine, name)
    code = _emitted(machine, module)
    module.close()
    context.close()
    cache.store("object", key, {"object": base64.b64encode(code).decode()})
    return code


def _emitted(machine: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    """`machine.emit_object(module)` without llvmlite's lock, which lets one thread at a time into LLVM.

    LLVM lets threads generate code side by side where each has a context of its own, as here. That takes nearly all
    the time of a first launch.
    """
    library = llvm.ffi.lib
    emit = library.LLVMPY_TargetMachineEmitToMemory
    with llvm.ffi.OutputString() as error:
        buffer = getattr(emit, "_cfn", emit)(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        return ctypes.string_at(library.LLVMPY_GetBufferStart(buffer), library.LLVMPY_GetBufferSize(buffer))
    finally:
        library.LLVMPY_DisposeMemoryBuffer(buffer)


def _linked(machine: llvm.TargetMachine, *codes: bytes) -> llvm.ExecutionEngine:
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    for code in codes:
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def _parsed(ir: str, context: llvm.ContextRef) -> llvm.ModuleRef:
    """The module of an IR text. An error there is the translator's, for a form of PTX that nobody foresaw."""
    try:
        return llvm.parse_assembly(ir, context)
    except RuntimeError as error:
        said = str(error).splitlines()[1:2] or [str(error)]
        raise UnsupportedInstruction(
            f"the simulator's translation of this kernel is not valid ({said[0][:120]})",
            next_step="Please report the kernel; on a GPU it runs with --device gpu.",
        ) from error


def assembly(translation: Translation) -> str:
    """Host assembly of a translation, for looking at."""
    with _lock:
        machine = _machine(1)
        module = llvm.parse_assembly(translation.ir)
        for name in translation.full_names:
            _promoted(module, machine, name)
        return machine.emit_assembly(module)
