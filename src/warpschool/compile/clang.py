"""CUDA C++ to PTX with clang, where NVIDIA's compiler library does not run (macOS) or is not wanted.

The pip package `ziglang` carries clang with LLVM's NVPTX back end; CUDA's headers are our own (`clang_include`). Each
compilation is a process of its own with limits, which reads the source from its standard input. Its messages are
rewritten into the form of NVRTC's, so that one reader (`result.parse_log`) serves both.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ptxsim import system
from warpschool.compile.processes import TOO_MUCH, Answer, Request, bare_environment
from warpschool.compile.result import CompileLimits
from warpschool.compile.toolchain import STANDARD
from warpschool.errors import CompileError, CompileLimitError, CompilerMissing

INCLUDE = Path(__file__).with_name("clang_include")
"""Our own headers in CUDA's names."""
PRELUDE = "warpschool_cuda.h"
_CHILD = Path(__file__).with_name("clang_child.py")
_INSTALL = "Install it with: pip install 'warpschool[clang]' (ziglang, 97 MB)."
_STDIN = "<stdin>"

_FIXED = (
    *("-x", "cuda", "--cuda-device-only", "-S", "-o", "-", "-O3", "-gline-directives-only"),
    # One host for all: the sizes of `long` and of pointers, and so the PTX, are the same on every machine.
    "--target=x86_64-unknown-linux-gnu",
    *("-nostdinc", "-nocudainc", "-nocudalib", "-Wno-unknown-cuda-version"),
    "-fno-finite-loops",  # a loop without an end and without effects stays one
    *("-ffp-contract=fast", "-fno-exceptions", "-fno-rtti"),
    # NVRTC unrolls loops of a constant count that clang's own threshold leaves alone
    *("-mllvm", "-unroll-threshold=4000"),
    # and puts functions into their callers, however long they are; clang has a threshold of its own inside loops
    *("-mllvm", "-inline-threshold=20000", "-mllvm", "-locally-hot-callsite-threshold=20000"),
    # a load of two or four floats stays one
    *("-mllvm", "-disable-vector-combine"),
    *("-ferror-limit=20", "-fno-caret-diagnostics", "-fno-color-diagnostics", "-fno-diagnostics-show-option"),
    *("-Wuninitialized", "-Wunused-variable", "-Wno-nontrivial-memcall", "-Wno-pass-failed",
      "-Wno-unused-command-line-argument"),
)

_ARCHITECTURES = {
    **dict.fromkeys(("75", "80", "86", "87", "89", "90", "90a"), 80),
    "88": 90, "100": 86, "100a": 86, "103": 88, "103a": 88, "110": 90, "110a": 90,
    "120": 87, "120a": 87, "121": 88, "121a": 88,
}  # fmt: skip
"""Those of NVRTC that this clang makes PTX for, and the version of PTX times 10 that it takes. Clang knows GPUs before
compute 7.5 too, and 10.1: NVRTC 13 does not, and they have not what the course teaches."""

_OPTIONS = (
    (r"--?use_fast_math", ("-fgpu-flush-denormals-to-zero", "-DWARPSCHOOL_FAST_MATH", "-DWARPSCHOOL_FTZ",
                           "-mllvm", "-nvptx-prec-divf32=0", "-mllvm", "-nvptx-prec-sqrtf32=0")),
    (r"--?ftz=true", ("-fgpu-flush-denormals-to-zero", "-DWARPSCHOOL_FTZ")),
    (r"--?prec-div=false", ("-mllvm", "-nvptx-prec-divf32=1")),
    (r"--?prec-sqrt=false", ("-mllvm", "-nvptx-prec-sqrtf32=0")),
    (r"--?fmad=false", ("-ffp-contract=off",)),
    (r"--?std=(c\+\+\d\d)", (r"-std=\1",)),
    (r"--?define-macro=(.+)", (r"-D\1",)),
    (r"--?undefine-macro=(.+)", (r"-U\1",)),
    (r"-default-device", ("-DWARPSCHOOL_DEFAULT_DEVICE",)),
    (r"-D\s?(\w.*)", (r"-D\1",)),
    (r"-U\s?(\w+)", (r"-U\1",)),
    (r"--pre-include=(.+)", ("-include", r"\1")),
    (r"--?(?:disable-warnings|w)", ("-w",)),
    # DWARF of each variable, which stays in its place in local memory; no folder of this machine is in it
    (r"--?device-debug|-G", ("-O0", "-g", "-ffile-compilation-dir=.")),
)  # fmt: skip
"""NVRTC's options that `source.check_options` lets through, in clang's words; the others mean nothing to it, such as
`--maxrregcount`, which ptxas obeys."""


@dataclass(frozen=True)
class ClangToolchain:
    """One clang. `package` is the version of `ziglang`, `build` the program's size in bytes, for caches."""

    program: Path
    package: str
    build: int

    name = "clang"

    @property
    def identity(self) -> str:
        """What a cached result depends on, besides source, options and architecture."""
        flags = f"{_FIXED} {_OPTIONS} {_ARCHITECTURES}"
        return f"clang of ziglang {self.package} build {self.build} headers {_headers_version()} flags {flags}"

    @property
    def includes(self) -> tuple[Path, ...]:
        return (INCLUDE, STANDARD)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of all headers that a source may include."""
        return self.includes

    @property
    def allowed(self) -> str:
        """Which of CUDA's headers a source may include, in words."""
        own = ", ".join(sorted(f"<{path.name}>" for path in INCLUDE.glob("*.h") if path.name != PRELUDE))
        return f"For clang there are headers of warpschool's own: {own}. CUDA's others need NVRTC."

    @property
    def readable(self) -> tuple[Path, ...]:
        """The folders that a compilation has to read, and run programs of."""
        return (*dict.fromkeys(p.resolve() for p in (self.program.parent, *self.folders)),)

    @property
    def version(self) -> str:
        """The compiler's version, such as "22.1.8"; the program is asked, once. Raises CompilerMissing."""
        return _version_of(self.program)


@functools.cache
def find_clang() -> ClangToolchain:
    """The clang of the installed `ziglang` package. Raises CompilerMissing."""
    found = importlib.util.find_spec("ziglang")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        program = Path(folder) / ("zig.exe" if os.name == "nt" else "zig")
        if program.is_file():
            return ClangToolchain(program, importlib.metadata.version("ziglang"), program.stat().st_size)
    raise CompilerMissing("no clang found: the package ziglang is not installed", next_step=_INSTALL)


@functools.cache
def _version_of(program: Path) -> str:
    try:
        said = subprocess.run([program, "clang", "--version"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError) as problem:
        raise CompilerMissing(f"{program} does not run: {problem}", next_step="Run `warpschool doctor`.") from None
    match = re.search(r"clang version (\d+(?:\.\d+)*)", said)
    if match is None:
        raise CompilerMissing(f"{program} is no clang", next_step="Run `warpschool doctor`.")
    return match[1]


@functools.cache
def _headers_version() -> str:
    """A hash of our own headers, those of `STANDARD` included."""
    digest = hashlib.sha256()
    for folder in (INCLUDE, STANDARD):
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def compile_with_clang(toolchain: ClangToolchain, request: Request, arch: str, limits: CompileLimits) -> Answer:
    """Compile to PTX for a virtual architecture; the request's options are NVRTC's.

    Raises CompileError for an architecture that there is none of; CompileLimitError for processor time, memory, output
    past its limit and a compiler that crashed; CompilerMissing for one that hangs, was killed from outside or cannot
    be started.
    """
    if arch.removeprefix("compute_") not in _ARCHITECTURES:
        known = ", ".join(f"compute_{number}" for number in sorted(_ARCHITECTURES, key=_by_number))
        raise CompileError(f"this clang does not know {arch}; it knows {known}")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in request.headers.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        return _Compilation(toolchain, request, arch, limits, folder if request.headers else "").answer()


def _by_number(architecture: str) -> tuple[int, str]:
    return int(architecture.rstrip("a")), architecture


class _Compilation:
    """One request to clang. `folder` holds the headers that the request brings along, "" for none."""

    def __init__(
        self, toolchain: ClangToolchain, request: Request, arch: str, limits: CompileLimits, folder: str
    ) -> None:
        self.toolchain, self.request, self.arch, self.limits, self.folder = toolchain, request, arch, limits, folder
        self.source = request.source + _marks(request.expressions)

    def answer(self) -> Answer:
        """Raises as `compile_with_clang` does."""
        limits = self.limits
        status, ptx, said, size = self._run(most=limits.ptx_bytes + 1)
        if "out of memory" in said or "bad_alloc" in said:
            return Answer("NVRTC_ERROR_OUT_OF_MEMORY", said[-500:], "", 0)
        if status < 0 or status > 1:
            raise _end_of(status, said, self.request.name, limits)
        if self.folder:
            said = said.replace(f"{self.folder}/", "")
        translated = as_nvrtc_log(said, name=self.request.name, source=self.source)
        if status:
            is_source = any(line.startswith(f"{_STDIN}:") or ": error: " in line for line in said.splitlines())
            kind = "COMPILATION" if is_source else "INVALID_OPTION"
            return Answer(f"NVRTC_ERROR_{kind}", translated or said, "", 0)
        if "__cluster_dims__" in self.source:
            ptx = self._with_clusters(ptx)
        ptx = _named(ptx, self.request.name)
        symbols, ptx = _symbols(ptx, len(self.request.expressions))
        return Answer("NVRTC_SUCCESS", translated, ptx, size, symbols)

    def _run(self, *more: str, most: int = -1) -> tuple[int, str, str, int]:
        """The exit status, what clang wrote, its log, and the size of the first in bytes."""
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as text, tempfile.TemporaryFile() as log:
            source.write(self.source.encode())
            source.seek(0)
            status = _wait([*self._command(), *more], (source, text, log), self.request.name, self.limits)
            text.seek(0)
            log.seek(0)
            said = log.read(4 * self.limits.log_bytes).decode(errors="replace").replace("\0", "")
            return status, text.read(most).decode(errors="replace"), said, text.seek(0, os.SEEK_END)

    def _command(self) -> list[str]:
        """Clang's command line, behind that of the child which limits itself."""
        number = self.arch.removeprefix("compute_")
        wanted = [*_FIXED, f"--cuda-gpu-arch=sm_{number}", f"--cuda-feature=+ptx{_ARCHITECTURES[number]}"]
        for folder in self.toolchain.includes:
            wanted += ["-isystem", str(folder)]
        if self.folder:
            wanted += ["-I", self.folder]
        wanted += ["-include", PRELUDE, *_translated(self.request.options), "-"]
        limits = self.limits
        file_bytes = max(limits.ptx_bytes, 4 * limits.log_bytes) + 4096
        readable = [*self.toolchain.readable, *([self.folder] if self.folder else []), "/dev/null"]
        return [
            *(sys.executable, "-I", "-S", "-B", str(_CHILD)),
            *(str(math.ceil(limits.cpu_s)), str(limits.memory_bytes), str(file_bytes)),
            os.pathsep.join(str(folder) for folder in readable),
            *(str(self.toolchain.program.resolve()), "clang", *wanted),
        ]

    def _with_clusters(self, ptx: str) -> str:
        """The PTX with the shapes of clusters, which this clang writes for AMD's GPUs only.

        `__cluster_dims__` is an annotation in `clang_include`: LLVM's text shows it beside the kernel's name.
        """
        status, ir, _, _ = self._run("-emit-llvm", "-Xclang", "-disable-llvm-passes")
        if status:
            raise _end_of(status, "", self.request.name, self.limits)
        for found in _ANNOTATED.finditer(ir):
            rest = rf"^@{re.escape(found['args'])} = .* constant \{{[^}}]*\}} \{{([^}}]*)\}}"
            values = re.search(rest, ir, re.MULTILINE)
            dims = re.findall(r"i\d+ (\d+)", values[1]) if values else []
            shape = ", ".join([*dims, "1", "1"][:3])
            entry = re.compile(rf"(\.entry {re.escape(found['kernel'])}\([^)]*\))")
            ptx = entry.sub(rf"\1\n.explicitcluster\n.reqnctapercluster {shape}", ptx)
        return ptx


_ANNOTATED = re.compile(r"\{ ptr @(?P<kernel>[\w.$]+), ptr @[\w.$]+, ptr @[\w.$]+, i32 \d+, ptr @(?P<args>[\w.$]+) \}")


def _translated(options: Sequence[str]) -> list[str]:
    """The caller's options in clang's words, after the default language."""
    found = ["-std=c++17"]
    for option in options:
        for pattern, words in _OPTIONS:
            if match := re.fullmatch(pattern, option):
                found += [match.expand(word) for word in words]
    return found


def _wait(command: list[str], files: tuple[IO[bytes], IO[bytes], IO[bytes]], name: str, limits: CompileLimits) -> int:
    """Run the process to its end and give its exit status."""
    process = system.start(
        command, stdin=files[0], stdout=files[1], stderr=files[2], cwd=INCLUDE, env=bare_environment()
    )
    try:
        return process.wait(limits.wall_s)
    except subprocess.TimeoutExpired:
        raise CompilerMissing(
            f"{name}: the compiler took more than {limits.wall_s:g} s", next_step="Is this machine overloaded?"
        ) from None
    finally:
        if process.returncode is None:
            system.end(process)
            process.wait()


def _end_of(status: int, said: str, name: str, limits: CompileLimits) -> CompileLimitError | CompilerMissing:
    """What a process that did not come to an answer ended by."""
    if status == 126:
        return CompilerMissing("clang cannot be started", next_step="Run `warpschool doctor`.")
    ended = system.how_ended(status)
    if ended == "killed":
        return CompilerMissing(
            f"{name}: the compiler process was killed from outside", next_step="Is this machine out of memory?"
        )
    if ended == "time":
        what = f"the compiler used more than {limits.cpu_s:g} s of processor time"
    elif ended == "file":
        what = f"the compiler wrote more than {limits.ptx_bytes} bytes of PTX"
    else:
        how = ended or f"exit status {status}"
        what = f"the compiler ran out of its memory ({limits.memory_bytes / (1 << 30):g} GiB) or crashed ({how})"
    return CompileLimitError(f"{name}: {what}", log=said[-2000:], next_step=TOO_MUCH)


def _named(ptx: str, name: str) -> str:
    """PTX that calls the source by its name, without comments, which repeat what the directives say."""
    ptx = re.sub(r'"[^"\n]*<stdin>"', lambda _: f'"{name}"', ptx)
    return re.sub(r"[ \t]*//[^\n]*", "", ptx)


# ---------------------------------------------------------------- kernels of templates

_MARK = "warpschool_mark"
_MARKED = re.compile(rf"^.*\b_Z\d+{_MARK}ILi(?P<number>\d+)EXadL(?P<name>_Z\w+)EEE\b.*\n", re.MULTILINE)
_SUBSTITUTION = re.compile(r"S[0-9A-Z]*_")
_ENTRY = re.compile(r"\.entry (?P<name>[\w$]+)")


def _marks(expressions: Sequence[str]) -> str:
    """Text for the end of a source: a variable for each expression, which has the kernel in its name."""
    if not expressions:
        return ""
    marks = (f"template __device__ int {_MARK}<{k}, &{text}>;" for k, text in enumerate(expressions))
    return f"\ntemplate <int I, auto K> __attribute__((used)) __device__ int {_MARK} = 0;\n" + "\n".join(marks) + "\n"


def _symbols(ptx: str, count: int) -> tuple[tuple[str, ...], str]:
    """The names in the PTX of the kernels that were marked, and the PTX without the marks.

    A name inside another counts its repeated parts on from there (`S1_` is `S2_`), so these are not compared.
    """
    names = [found["name"] for found in _ENTRY.finditer(ptx)]
    kernels = {_SUBSTITUTION.sub("S_", name): name for name in names}
    kernels |= {f"_Z{len(name)}{name}": name for name in names if not name.startswith("_Z")}  # extern "C"
    marked = {int(m["number"]): kernels.get(_SUBSTITUTION.sub("S_", m["name"]), "") for m in _MARKED.finditer(ptx)}
    return tuple(marked.get(k, "") for k in range(count)), _MARKED.sub("", ptx)


# ---------------------------------------------------------------- messages

_MESSAGE = re.compile(r"^(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>fatal error|error|warning|note): "
                      r"(?P<message>.*)$")  # fmt: skip
_INSTANCE = re.compile(r"in instantiation of|while substituting|in evaluation of|requested here|in call to")
_CANDIDATE = re.compile(r"^candidate ")
_HOST = re.compile(r"call to __host__ function from __(?:device|global)__ function")
_KINDS = {"fatal error": "catastrophic error"}


@dataclass(frozen=True)
class _Message:
    """One line of clang's log: what, and where."""

    file: str
    line: int
    column: int
    kind: str
    message: str


def as_nvrtc_log(log: str, *, name: str, source: str) -> str:
    """Clang's messages in the form of NVRTC's: `name(line): error: message`, the line, a caret, notes.

    A message about one of our headers is told at the source's line that led there, where clang says which.
    """
    groups: list[list[_Message]] = []
    for row in log.splitlines():
        match = _MESSAGE.match(row)
        if match is None:
            continue
        file = name if match["file"] == _STDIN else match["file"]
        one = _Message(file, int(match["line"]), int(match["column"]), match["kind"], match["message"])
        if one.kind == "note" and groups:
            groups[-1].append(one)
        elif one.kind != "note":
            groups.append([one])
    lines = source.split("\n")
    return "".join(_told(head, notes, name, lines) for head, *notes in groups)


def _told(head: _Message, notes: list[_Message], name: str, lines: list[str]) -> str:
    """One message with what belongs to it."""
    place = head
    if head.file != name:
        place = next((note for note in notes if note.file == name), head)
    severity = _KINDS.get(head.kind, head.kind)
    message = head.message
    if called := next((found for note in notes if (found := _HOST.search(note.message))), None):
        message = called[0].replace("call to", "reference to").replace("function from", "function '' in")
    rows = [f"{place.file}({place.line}): {severity}: {message}"]
    if place.file == name and 0 < place.line <= len(lines):
        rows += [f"  {lines[place.line - 1]}", " " * (place.column + 1) + "^"]
    candidates = [note for note in notes if _CANDIDATE.match(note.message)]
    for note in notes:
        if note in candidates and len(candidates) > 1:
            continue  # one that does not fit says how; a list of them says nothing
        if note.file != name and "expanded from macro" in note.message:
            continue
        where = f" (line {note.line})" if note.file == name else ""
        how = "detected during " if _INSTANCE.search(note.message) else ""
        rows.append(f"          {how}{note.message.removeprefix('in ') if how else note.message}{where}")
    return "\n".join(rows) + "\n"
