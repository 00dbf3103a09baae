"""LLVM text to machine code, through llvmlite."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import functools
import re
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import llvmlite.binding as llvm
import numpy as np

from ptxsim import cache, system
from ptxsim.codegen import host
from ptxsim.codegen.runtime import rare_modules, usual_modules
from ptxsim.codegen.translation import Translation
from ptxsim.codegen.unit import CounterPlan, Runs
from ptxsim.codegen.usual import usual_stencils
from ptxsim.cores import available_threads
from ptxsim.errors import UnsupportedInstruction

_LARGE, _LARGE_CHECKED = 3_500, 1_200
"""PTX instructions above which code generation favours its own speed over the code's: without and with checks. With
checks most of the time goes to the helpers, and so it does where lanes have parted."""
_REPORT = "Please report the kernel; on a GPU it runs with --device gpu."
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


_idle: dict[int, list[llvm.TargetMachine]] = {}


@contextlib.contextmanager
def _emitter(level: int) -> Iterator[llvm.TargetMachine]:
    """A machine that generates code for nobody else now: to make one takes as long as a stencil does."""
    idle = _idle.setdefault(level, [])
    try:
        machine = idle.pop()
    except IndexError:
        machine = _machine(level)
    yield machine
    idle.append(machine)


def _compilers() -> ThreadPoolExecutor:
    """Threads that make machine code beside each other. They end with what they do: a fork has none of them."""
    return ThreadPoolExecutor(available_threads())


_helpers: dict[str, llvm.ExecutionEngine] = {}
"""The groups of helpers that this process has compiled or loaded."""


def _load_helpers(ir: str) -> None:
    """Compiles the helpers that most kernels call, and the groups of rare ones that this one does."""
    _load_groups(group for group, (_, names) in rare_modules().items() if any(f"@{name}(" in ir for name in names))


def _load_groups(rare: Iterable[str]) -> None:
    """Compiles the usual helpers and some rare ones, once per process, and makes their names known to later code."""
    modules = usual_modules() | {group: rare_modules()[group] for group in rare}
    fresh = {group: module for group, module in modules.items() if group not in _helpers}
    if not fresh:
        return
    with _compilers() as compilers:
        codes = compilers.map(_object, (text for text, _ in fresh.values()))
        engine = _linked(_machine(2), *codes)  # together: they call each other
    for group, (_, names) in fresh.items():
        for name in names:
            llvm.add_symbol(name, engine.get_function_address(name))
        _helpers[group] = engine


def prepare() -> None:
    """Makes ready what first launches need: LLVM, all helpers, and the stencils that most kernels use."""
    with _lock:
        _load_groups(rare_modules())
    with _compilers() as compilers:
        _add_library(usual_stencils(wide_vectors=wide_vectors()), compilers)


def exact_function(name: str) -> int:
    """Address of a function of the exact race shadow."""
    with _lock:
        _load_groups(["exact"])
        return _helpers["exact"].get_function_address(name)


MASKED = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Code:
    """Machine code of a translation. `run(worker, contexts, first, last)` runs a range of blocks without the GIL."""

    def __init__(self, translation: Translation, translated_s: float = 0.0) -> None:
        """`translated_s`: processor time that the translation took."""
        self.translation, self.translated_s = translation, translated_s
        self._parting = threading.Lock()
        self.clean_clusters: set[int] = set()
        """digests of what clusters did in which their asynchronous work was found in order"""
        count = translation.instruction_count
        self._masked_level = 0 if max(count, translation.weight) > _LARGE_CHECKED else 1
        large = translation.outlined or count > (_LARGE_CHECKED if translation.unit.options.check else _LARGE)
        level = 0 if large else 1
        self._engines = [_compiled(translation.ir, level, translation.unit.library, promote=translation.full_names)]
        self.run = _RUN(self._engines[0].get_function_address("run_blocks"))
        self.masked_plan: CounterPlan | None = None
        self.masked_address = 0
        self.runs: tuple[np.ndarray, ...] | None = None
        """what `masked` reads where it is outlined: addresses of functions, `Runs.words`, `Runs.whole`"""
        if translation.outlined:
            self.masked_plan = translation.unit.plan
            self.masked_address = self._engines[0].get_function_address("masked")
            self.runs = _in_memory(translation.runs)

    @functools.cached_property
    def runs_at(self) -> tuple[int, ...]:
        """Addresses of `runs`."""
        assert self.runs is not None
        return tuple(part.ctypes.data for part in self.runs)

    def compile_masked(self) -> None:
        """Compiles the function for parted lanes, once."""
        with self._parting:
            if self.masked_plan is None:
                ir, plan, runs = self.translation.masked()
                self._engines.append(_compiled(ir, self._masked_level, self.translation.unit.library))
                self.masked_address = self._engines[1].get_function_address("masked")
                self.runs = _in_memory(runs)
                self.masked_plan = plan


def _in_memory(runs: Runs | None) -> tuple[np.ndarray, ...] | None:
    """The data of outlined code, once all that it calls is there."""
    if runs is None:
        return None
    addresses = [llvm.address_of_symbol(name) for name in runs.functions]
    if None in addresses:
        raise RuntimeError(f"{runs.functions[addresses.index(None)]} has no machine code")
    return np.array(addresses, np.uint64), runs.words, runs.whole


_library_lock = threading.Lock()
_library: set[str] = set()
"""Names of the functions for tensor cores and of the stencils that this process has compiled or loaded."""


def _add_library(functions: dict[str, str], compilers: ThreadPoolExecutor) -> None:
    """Compiles those functions that are not there yet, each apart, and makes their names known to kernels."""
    with _library_lock:
        fresh = {name: text for name, text in functions.items() if name not in _library}
        if not fresh:
            return
        codes = [*compilers.map(_object, fresh.values())]
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


def _compiled(
    ir: str, level: int, library: dict[str, str], promote: tuple[str, ...] = ()
) -> llvm.ExecutionEngine:
    """An engine with the module's code, which several threads may make at once, and what it calls of the library."""
    with _compilers() as compilers:
        code = compilers.submit(_object, ir, level, promote)
        _add_library(library, compilers)
    with _lock:
        _load_helpers(ir)
        return _linked(_machine(level), code.result())


def _object(ir: str, level: int = 2, promote: tuple[str, ...] = ()) -> bytes:
    """A module as an object file, from the disk cache where it was compiled before."""
    key = cache.content_key(ir, host.model(), host.flags(), str(level), ".".join(map(str, llvm.llvm_version_info)))
    entry = cache.load("object", key)
    if entry is not None:
        return base64.b64decode(entry["object"])
    context = llvm.create_context()
    module = _parsed(ir, context)
    with _emitter(level) as machine:
        for name in promote:
            _promoted(module, machine, name)
        code = _emitted(machine, module)
    module.close()
    context.close()
    _require_routines(code)
    cache.store("object", key, {"object": base64.b64encode(code).decode()})
    return code


_ROUTINE = re.compile(rb"\0_?(__[a-z]+(?:[hbsdxt]f|[sdt]i)[a-z]*[0-9]?)\0")


def _require_routines(code: bytes) -> None:
    """Refuses code that calls a routine of the compiler's own that is not in this process: its calls would go to 0."""
    for name in _ROUTINE.findall(code):
        if not llvm.address_of_symbol(name.decode()):
            raise UnsupportedInstruction(
                f"the simulator's code for this kernel needs {name.decode()}, which this machine does not have",
                next_step=_REPORT,
            )


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
            next_step=_REPORT,
        ) from error


def assembly(translation: Translation) -> str:
    """Host assembly of a translation, for looking at."""
    with _lock:
        machine = _machine(1)
        module = llvm.parse_assembly(translation.ir)
        for name in translation.full_names:
            _promoted(module, machine, name)
        return machine.emit_assembly(module)
