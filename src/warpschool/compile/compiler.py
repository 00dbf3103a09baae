"""CUDA C++ to PTX, or to a cubin of a real architecture, and to the resources that ptxas needs for it.

Two compilers do the first, NVRTC and clang; what ptxas makes of PTX, NVRTC's library alone knows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from ptxsim import cache
from warpschool.compile.beside import headers_within
from warpschool.compile.host_code import device_part, has_host_code, shifts
from warpschool.compile.macros import MOST_TOKENS, added_tokens
from warpschool.compile.pool import pool
from warpschool.compile.processes import TOO_MUCH, Answer, Request
from warpschool.compile.result import DEFAULT_ARCH, Compiled, CompileLimits, Resources, at_include, parse_log, render
from warpschool.compile.source import (
    advice_on_headers,
    check_options,
    cleared_source,
    first_folders,
    foreign_file,
    normalise,
    override_constants,
    own_options,
    splice,
)
from warpschool.compile.toolchain import STANDARD, Toolchain, find_toolchain
from warpschool.errors import (
    ArgumentError,
    CompileError,
    CompileLimitError,
    CompilerLacks,
    CompilerMissing,
    PolicyError,
    WarpschoolError,
)

if TYPE_CHECKING:  # imported where it is wanted: most compilations want NVRTC
    from warpschool.compile.clang import ClangToolchain

_STATE = "lined up"
"""The state in which NVRTC begins (`child`), of which its PTX is a function, too."""
_ARCH = re.compile(r"(?:compute|sm)_\d{2,3}[af]?")
_ENTRY = re.compile(r"^ptxas info\s*: Compiling entry function '([^']+)' for '(\w+)'", re.MULTILINE)
_EXPRESSION = re.compile(r"[\w:&*<>,()\s+-]+", re.ASCII)
_limits = [CompileLimits()]
CHOICE = "WARPSCHOOL_COMPILER"
"""The variable that says which compiler "auto" is."""
COMPILERS = ("auto", "nvrtc", "clang")


def find_compiler(which: str = "auto") -> Toolchain | ClangToolchain:
    """The compiler "nvrtc" or "clang"; "auto" is what $WARPSCHOOL_COMPILER says, else NVRTC, and clang where that is
    missing.

    Raises CompilerMissing for one that is not here, ArgumentError for a name that is none.
    """
    chosen = which if which != "auto" else os.environ.get(CHOICE, "") or "auto"
    match chosen.strip().lower():
        case "nvrtc":
            return find_toolchain()
        case "clang":
            return _clang()
        case "auto":
            try:
                return find_toolchain()
            except CompilerMissing as missing:
                if os.environ.get("WARPSCHOOL_CUDA"):
                    raise  # somebody has said where NVRTC is
                try:
                    return _clang()
                except CompilerMissing as other:
                    raise CompilerMissing(f"{missing.message}\n{other.message}", next_step=missing.next_step) from None
    raise ArgumentError(f"there is no compiler {chosen!r}", next_step=f"Compilers are called {', '.join(COMPILERS)}.")


def limit_compilations(limits: CompileLimits) -> None:
    """What a compilation of this process may use where nothing else is said."""
    _limits[0] = limits


def _clang() -> ClangToolchain:
    from warpschool.compile.clang import find_clang

    return find_clang()


def compile_cuda(
    source: str,
    *,
    name: str = "kernel.cu",
    options: Sequence[str] = (),
    constants: Mapping[str, int] | None = None,
    arch: str = DEFAULT_ARCH,
    limits: CompileLimits | None = None,
    compiler: str = "auto",
    expressions: Sequence[str] = (),
) -> Compiled:
    """Compile CUDA C++17 to PTX with line information, in a process of its own, or take it from the cache.

    For a real architecture ("sm_90") the result holds the cubin instead of PTX. `name` is what messages call the
    source; `constants` gives top-level `constexpr int`s other values. CUDA's include
    folders are always there. Host code in the source is left out; headers that the text brings along (`with_headers`)
    may be included. `expressions` name kernels of templates that are to be made ("k<float, 8>"). `compiler`: see
    `find_compiler`. Raises CompileError with diagnostics on the source's own lines, PolicyError for a source that
    includes a file which is not CUDA's, CompileLimitError, CompilerMissing; CompilerLacks for a real architecture
    where clang compiles.
    """
    return _Job(source, name, options, constants, arch, limits, compiler, expressions).run()


def resource_usage(
    source: str,
    *,
    name: str = "kernel.cu",
    options: Sequence[str] = (),
    constants: Mapping[str, int] | None = None,
    arch: str = "sm_80",
    limits: CompileLimits | None = None,
    compiler: str = "auto",
    expressions: Sequence[str] = (),
) -> dict[str, Resources]:
    """Registers, shared and local memory and spills of every kernel in the source, as ptxas assigns them on `arch`.

    No GPU is needed; `arch` is a real architecture, sm_75 or newer. Raises as `compile_cuda` does.
    """
    if not arch.startswith("sm_"):
        raise CompileError(f"arch must be a real architecture such as sm_80, not {arch!r}")
    return parse_resources(_Job(source, name, options, constants, arch, limits, compiler, expressions).run().log)


def parse_resources(log: str) -> dict[str, Resources]:
    """Read what `ptxas -v` says of each entry function."""
    found = {}
    _, *parts = _ENTRY.split(log)
    for kernel, arch, block in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        found[kernel] = Resources(
            arch=arch,
            registers=_number(r"Used (\d+) registers", block),
            shared_bytes=_number(r"(\d+) bytes smem", block),
            local_bytes=_number(r"(\d+) bytes stack frame", block),
            constant_bytes=sum(map(int, re.findall(r"(\d+) bytes cmem\[\d+\]", block))),
            spill_load_bytes=_number(r"(\d+) bytes spill loads", block),
            spill_store_bytes=_number(r"(\d+) bytes spill stores", block),
            barriers=_number(r"used (\d+) barriers", block),
        )
    return found


def compiler_name() -> str:
    """What compiles here, with its version, as results name it; "none" where nothing does. Starts no process."""
    try:
        chosen = find_compiler()
    except WarpschoolError:
        return "none"
    return f"NVRTC {chosen.nvrtc}" if isinstance(chosen, Toolchain) else f"clang {chosen.version}"


def compiler_report() -> dict[str, object]:
    """What this machine compiles with, for `doctor`: versions, places, architectures, isolation. Never raises."""
    try:
        chosen = find_compiler()
        try:
            about = _about(chosen)
        except WarpschoolError:  # its process was killed from outside: a new one answers, unless something is wrong
            about = _about(chosen)
    except WarpschoolError as problem:
        return {"available": False, "problem": str(problem)}
    return about | {
        "available": True,
        "includes": [str(folder) for folder in chosen.includes],
        "cache": str(cache.cache_root()),
    }


def _about(chosen: Toolchain | ClangToolchain) -> dict[str, object]:
    return _about_nvrtc(chosen) if isinstance(chosen, Toolchain) else _about_clang(chosen)


def _about_nvrtc(toolchain: Toolchain) -> dict[str, object]:
    worker = pool.warm_up(toolchain)
    return {
        "compiler": f"NVRTC {worker.version}",
        "nvrtc": worker.version,
        "headers": toolchain.headers,
        "origin": toolchain.origin,
        "library": str(toolchain.library),
        "archs": list(worker.archs),
        "isolation": "landlock" if worker.isolated else "include rules only",
    }


def _about_clang(toolchain: ClangToolchain) -> dict[str, object]:
    return {
        "compiler": f"clang {toolchain.version}",
        "headers": "warpschool's own",
        "origin": f"ziglang {toolchain.package}",
        "library": str(toolchain.program),
        "isolation": "a process with limits for each compilation, include rules",
    }


class _Job:
    """One compilation, from the text as given to the checked result."""

    def __init__(
        self,
        source: str,
        name: str,
        options: Sequence[str],
        constants: Mapping[str, int] | None,
        arch: str,
        limits: CompileLimits | None,
        compiler: str = "auto",
        expressions: Sequence[str] = (),
    ) -> None:
        self.name = PurePath(name).name or "kernel.cu"
        if not re.fullmatch(r"[\w.+ -]+", self.name, re.ASCII):
            self.name = "kernel.cu"
        if not _ARCH.fullmatch(arch):
            raise CompileError(f"{arch!r} is not an architecture; write compute_80 or sm_80, for example")
        self.arch, self.limits = arch, (limits or _limits[0]).here()
        try:
            size = len(source.encode())
        except UnicodeEncodeError:
            raise CompileError(f"{self.name}: the source is not valid Unicode text") from None
        if size > self.limits.source_bytes:
            raise CompileLimitError(f"{self.name}: {size} bytes of source; the limit is {self.limits.source_bytes}")
        self.options = check_options(options)
        self.source = override_constants(normalise(source), constants, name=self.name)
        self.toolchain = find_compiler(compiler)
        if not isinstance(self.toolchain, Toolchain) and arch.startswith("sm_"):
            raise CompilerLacks(
                f"machine code for {arch}, and with it registers and spills, is not known with clang",
                next_step="NVIDIA's assembler makes it: it comes with NVRTC, which runs on Linux and Windows.",
            )
        self.expressions = _checked_expressions(expressions, self.name)
        self.headers = {key: device_part(text, header=True) for key, text in headers_within(self.source).items()}
        texts = (device_part(self.source), self.source, *self.headers.values())
        identity = self.toolchain.identity
        self.key = cache.content_key(_STATE, *texts, self.name, arch, identity, *self.options, *self.expressions)

    def run(self) -> Compiled:
        code = self._cleared(device_part(self.source), self.name)
        found = cache.load("compile", self.key) or {}
        cached = {self._code, "compiler", "log"} <= found.keys()
        if not cached:
            found = self._compile(code)
            cache.store("compile", self.key, found)
        return Compiled(
            ptx=found.get("ptx", ""),
            cubin=bytes.fromhex(found.get("cubin digits", "")),
            arch=self.arch,
            compiler=found["compiler"],
            name=self.name,
            source=self.source,
            log=found["log"],
            key=self.key,
            cached=cached,
            symbols=dict(zip(self.expressions, found.get("symbols", "").split("\n"), strict=True))
            if self.expressions
            else {},
        )

    def _cleared(self, text: str, name: str) -> str:
        toolchain = self.toolchain
        return cleared_source(
            text, name=name, folders=toolchain.folders, headers=self.headers, allowed=toolchain.allowed
        )

    def _compile(self, code: str) -> dict[str, str]:
        headers = {name: self._cleared(text, name) for name, text in self.headers.items()}
        self._require_short([*headers.values(), code])
        request = Request(code, self.name, self._all_options([code, *headers.values()]), headers, self.expressions)
        answer, compiler, archs = self._answer(request)
        if foreign_file(answer.log, names=(self.name, *headers), folders=self.toolchain.folders):
            raise PolicyError(f"{self.name} made the compiler read a file that is not one of CUDA's headers")
        log = self._tidy(answer.log)
        if answer.result == "NVRTC_ERROR_OUT_OF_MEMORY":
            raise CompileLimitError(
                f"{self.name}: the compiler ran out of its memory ({self.limits.memory_bytes / (1 << 30):g} GiB)",
                log=log,
                next_step=TOO_MUCH,
            )
        if answer.result != "NVRTC_SUCCESS":
            raise self._error(answer, log, archs)
        if answer.ptx_bytes > self.limits.ptx_bytes:
            raise CompileLimitError(
                f"{self.name}: {answer.ptx_bytes} bytes of PTX; the limit is {self.limits.ptx_bytes}",
                next_step=TOO_MUCH,
            )
        code = answer.ptx if self._code != "ptx" else self._tidy(answer.ptx)
        return {self._code: code, "compiler": compiler, "log": log, "symbols": "\n".join(answer.symbols)}

    def _require_short(self, texts: Sequence[str]) -> None:
        """Raises CompileLimitError where macros make much of the texts."""
        if not any("define" in text for text in texts):
            return
        if added_tokens(line for text in texts for line in splice(text).text.split("\n")) > MOST_TOKENS:
            raise CompileLimitError(
                f"{self.name}: its macros make more than {MOST_TOKENS:,} tokens of it", next_step=TOO_MUCH
            )

    def _answer(self, request: Request) -> tuple[Answer, str, tuple[int, ...]]:
        """What the compiler says, its name with the version, and the architectures that it knows (() if all)."""
        if isinstance(self.toolchain, Toolchain):
            answer, worker = pool.compile(self.toolchain, request, self.limits)
            return answer, f"NVRTC {worker.version}", worker.archs
        from warpschool.compile.clang import compile_with_clang

        answer = compile_with_clang(self.toolchain, request, self.arch, self.limits)
        return answer, f"clang {self.toolchain.version}", ()

    @property
    def _code(self) -> str:
        """What the compiler makes: PTX for a virtual architecture, a cubin for a real one."""
        return "cubin digits" if self.arch.startswith("sm_") else "ptx"

    def _all_options(self, texts: Sequence[str]) -> list[str]:
        """NVRTC's options for these texts; clang takes of them what means something to it."""
        standard = [] if any("std=" in option for option in self.options) else ["-std=c++17"]
        verbose = ["--ptxas-options=-v"] if self.arch.startswith("sm_") else []
        code = "\n".join(texts)
        includes = [*first_folders(code, folder=STANDARD), *(f"-I{folder}" for folder in self.toolchain.includes)]
        ours = own_options(code, folder=STANDARD)
        both = ["-default-device"] if has_host_code(self.source) else []  # functions that nvcc takes for both sides
        return [f"-arch={self.arch}", *standard, "-lineinfo", *verbose, *both, *includes, *ours, *self.options]

    def _tidy(self, text: str) -> str:
        """Names that do not depend on the machine: the source's own, and `<mma.h>` for a header of CUDA's."""
        text = text.replace("\0", "").replace(f'"/{self.name}"', f'"{self.name}"')
        for folder in sorted(self.toolchain.folders, key=lambda f: -len(str(f))):
            text = re.sub(rf"{re.escape(str(folder))}/([^\s\"(),]+)", r"<\1>", text)
        return text

    def _error(self, answer: Answer, log: str, archs: tuple[int, ...]) -> CompileError:
        if "invalid value for --gpu-architecture" in log:
            prefix = self.arch.split("_")[0]
            known = ", ".join(f"{prefix}_{arch}" for arch in archs)
            return CompileError(f"this NVRTC does not know {self.arch}; it knows {known}", log=log)
        cut = len(log) > self.limits.log_bytes
        log = log[: self.limits.log_bytes]
        found = parse_log(log, name=self.name, source=self.source, shifts=shifts(self.source))
        found = at_include(found, name=self.name, source=self.source)
        if answer.result == "NVRTC_ERROR_COMPILATION" and found:
            text = render(found) + ("\n(the compiler's log was cut here)" if cut else "")
            return CompileError(text, diagnostics=found, log=log, next_step=advice_on_headers(self.source))
        if answer.result == "NVRTC_ERROR_INVALID_OPTION":
            return CompileError(f"{self.name}: the compiler refused an option: {log.strip()}", log=log)
        if answer.result in ("NVRTC_ERROR_COMPILATION", "NVRTC_ERROR_INTERNAL_ERROR"):
            return CompileError(f"{self.name}: the compiler failed ({answer.result}) {log.strip()}".strip(), log=log)
        raise CompilerMissing(f"NVRTC failed: {answer.result} {log.strip()}", next_step="Run `warpschool doctor`.")


def _checked_expressions(expressions: Sequence[str], name: str) -> tuple[str, ...]:
    if isinstance(expressions, str):
        expressions = (expressions,)
    for one in expressions:
        if not _EXPRESSION.fullmatch(one):
            raise CompileError(f"{name}: {one!r} names no kernel; write a name such as k<float, 8>")
    return tuple(dict.fromkeys(expressions))


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match[1]) if match else 0
