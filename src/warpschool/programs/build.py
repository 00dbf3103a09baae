"""From a program's sources to something that runs: objects by nvcc, our runtime library, the link; all of it cached."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ptxsim import available_threads, cache
from warpschool.errors import ArgumentError, CompileError, OutputError
from warpschool.programs.tools import EARLIER, HEADERS, NAME, SHIM, STANDS_FOR, Tools, find_tools, shim_identity

WITH_VALUE = {
    "-I", "-D", "-U", "-L", "-l", "-include", "-Xcompiler", "-Xlinker", "-Xptxas", "-Xcudafe", "-std", "-O", "-x",
    "-maxrregcount", "--maxrregcount", "-isystem", "--compiler-options", "--linker-options", "--ptxas-options",
    "--default-stream", "-rdc", "--relocatable-device-code", "-Werror", "-diag-suppress",
}  # fmt: skip
"""Options of the compiler whose value may be the next word."""
SUFFIXES_OF_HOST = (".cpp", ".cc", ".cxx", ".c")
SUFFIXES = (".cu", *SUFFIXES_OF_HOST, ".o", ".a")
DEFAULT_ARCH = "compute_80"
_MOST_BUILDS = 256
_TEMPORARY = re.compile(r"\btmpxft_\S+|^# .*$", re.MULTILINE)


@dataclass(frozen=True)
class Built:
    """A program that is ready to run; `cached` if it was before."""

    path: Path
    sources: tuple[Path, ...]
    arch: str
    cached: bool
    log: str = ""
    """the compilers' warnings"""


def build(sources: Sequence[Path], options: Sequence[str] = (), *, arch: str = DEFAULT_ARCH) -> Built:
    """Builds a program of one or several files. `options` are nvcc's: -I, -D, -std, -O, -l and others.

    Raises ArgumentError, ToolMissing, and CompileError with what the compilers said.
    """
    for path in sources:
        if not path.is_file():
            raise ArgumentError(f"there is no file {path}")
        if path.suffix not in SUFFIXES:
            raise ArgumentError(f"{path} is no source of a program", next_step=f"Name one of: {', '.join(SUFFIXES)}")
    tools = find_tools()
    runtime = runtime_library(tools)
    folder = _folder("programs")
    key = cache.content_key(
        tools.identity, shim_identity(), arch, *options, os.getcwd(), *(f"{p.resolve()}" for p in sources)
    )
    program, record = folder / f"{key}.program", folder / f"{key}.json"
    log = _still_good(program, record)
    if log is not None:
        return Built(program, tuple(sources), arch, True, log)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as work:
        log, read = _make(tools, runtime, sources, options, arch, Path(work))
        stamps = {str(path): _stamp(path) for path in read}
        _write(record, json.dumps({"read": stamps, "log": log}).encode())
        os.replace(Path(work) / "program", program)
    _prune(folder)
    return Built(program, tuple(sources), arch, False, log)


def object_options(tools: Tools, arch: str) -> list[str]:
    """What each file of a program is compiled with."""
    return ["-ccbin", str(tools.host), "-gencode", f"arch={arch},code={arch}", "-lineinfo", "-g", "--no-compress",
            "-Wno-deprecated-gpu-targets", "-Xcompiler", f"-idirafter,{HEADERS}"]  # fmt: skip


def link_options(tools: Tools, runtime: Path) -> list[str]:
    """What the whole is linked with. The path is for dlopen("libcuda.so.1")."""
    return ["-ccbin", str(tools.host), "-cudart", "none", f"-L{runtime.parent}", "-lwarpcudart",
            f"-Xlinker=-rpath={runtime.parent}", "-Wno-deprecated-gpu-targets"]  # fmt: skip


def missing_calls(tools: Tools) -> list[str]:
    """Calls that the runtime's header declares and our library has not."""
    header = (tools.include / "cuda_runtime_api.h").read_text("utf-8", "replace")
    declared = re.findall(r"CUDARTAPI\s+(cuda\w+)\(", header)
    ours = {name for path in SHIM.glob("*.cpp") for name in _ENTRY.findall(path.read_text("utf-8"))}
    return sorted({*declared} - ours)


def missing_driver_calls(tools: Tools) -> list[str]:
    """The same of the driver's header, by the names that the linker sees."""
    header = (tools.include / "cuda.h").read_text("utf-8", "replace")
    newest, declared = _newest_names(header), _declared_by_driver(header)
    text = "".join(path.read_text("utf-8") for path in SHIM.glob("*.cpp"))
    ours = {newest.get(name, name) for name in re.findall(r"^API CUresult (cu\w+)\(", text, re.MULTILINE)}
    return sorted({newest.get(name, name) for name in declared} - ours)


def _other_errors(tools: Tools) -> str:
    """Names of the header's errors that errors.cpp has no sentence for."""
    header = (tools.include / "driver_types.h").read_text("utf-8", "replace")
    body = header.partition("enum __device_builtin__ cudaError\n")[2].partition("};")[0]
    told = set(re.findall(r"error\((\w+),", (SHIM / "errors.cpp").read_text("utf-8")))
    found = re.findall(r"^\s+(cudaError\w+)\s*=\s*(\d+)", body, re.MULTILINE)
    cases = "".join(f'case {number}: return "{name}";\n' for name, number in found if name not in told)
    function = f"const char* other_error(int error) {{ switch (error) {{ {cases} }} return nullptr; }}"
    return f"namespace warp {{ {function} }}\n"


def _from_headers(tools: Tools) -> str:
    """Source that the library needs and that CUDA's headers say: names of errors, the driver's functions."""
    return _other_errors(tools) + _driver_errors(tools) + _driver_entries(tools)


def _driver_errors(tools: Tools) -> str:
    """The names of the driver's errors, as its header has them."""
    header = (tools.include / "cuda.h").read_text("utf-8", "replace")
    body = header.partition("typedef enum cudaError_enum {")[2].partition("} CUresult;")[0]
    found = {number: name for name, number in re.findall(r"^\s+(CUDA_\w+)\s*=\s*(\d+)", body, re.MULTILINE)}
    cases = "".join(f'case {number}: return "{name}";\n' for number, name in found.items())
    function = f"const char* driver_error(int error) {{ switch (error) {{ {cases} }} return nullptr; }}"
    return f"namespace warp {{ {function} }}\n"


def _driver_entries(tools: Tools) -> str:
    """The driver's functions by their names without a version, for entry_points.cpp."""
    header = (tools.include / "cuda.h").read_text("utf-8", "replace")
    types = tools.include / "cudaTypedefs.h"
    pointers = types.read_text("utf-8", "replace") if types.is_file() else ""
    since: dict[str, int] = {}
    for name, version in re.findall(r"\bPFN_(cu\w+?)_v(\d+)\b", pointers):
        since[name] = min(since.get(name, int(version)), int(version))
    newest = _newest_names(header)
    names = sorted({n for n in _declared_by_driver(header) if not re.search(r"_v\d+$|_pt[ds][sz]$", n)})
    functions = "".join(f'extern "C" int {name}();\n' for name in sorted({newest.get(n, n) for n in names}))
    rows = "".join(
        f'{{"{name}", {since.get(name, 0)}, reinterpret_cast<void*>(&{newest.get(name, name)})}},\n' for name in names
    )
    return (f"{functions}namespace warp {{ struct DriverEntry {{ const char* name; int since; void* function; }};\n"
            f"extern const DriverEntry driver_entries[] = {{ {rows} }};\n"
            f"extern const int driver_entry_count = {len(names)}; }}\n")  # fmt: skip


def _newest_names(header: str) -> dict[str, str]:
    """The name that the linker sees for a function of the driver's: `cuMemAlloc` is `cuMemAlloc_v2` there."""
    return dict(re.findall(r"#define\s+(cu[A-Z]\w+)\s+(?:__CUDA_API_PT\w+\()?(cu[A-Z]\w+)", header))


def _declared_by_driver(header: str) -> set[str]:
    return set(re.findall(r"CUresult CUDAAPI (cu[A-Z]\w+)\(", header))


def _nvidias(tools: Tools, library: str) -> Path | str:
    """A library of NVIDIA's beside the headers; only its name where it lies with the system's."""
    root = tools.include.parent
    found = [*sorted((root / "lib").glob(f"{library}*")), *sorted((root / "lib64").glob(f"{library}*"))]
    return found[0] if found else library


def _per_thread_names(tools: Tools) -> list[str]:
    """What gives calls their second names, by which programs know them with --default-stream=per-thread."""
    header = (tools.include / "cuda_runtime_api.h").read_text("utf-8", "replace")
    found = re.findall(r"#define\s+(cuda\w+)\s+__CUDART_API_(PTDS|PTSZ)\(", header)
    return [f"-Wl,--defsym={name}_{kind.lower()}={name}" for name, kind in dict.fromkeys(found)]


def has_runtime_library(tools: Tools) -> bool:
    """Whether this machine has our runtime library already; else the first build compiles it, which takes its time."""
    return _runtime_place(tools).is_file()


def _runtime_place(tools: Tools) -> Path:
    """Where the library of these tools and of our sources as they are lies, once it is made."""
    fixed = _MISSING, _EARLIER_DRIVER, *_BROUGHT, *_SHARED, *STANDS_FOR, *_nvidias_two(tools)
    key = cache.content_key(tools.identity, shim_identity(), sys.executable, *fixed)
    return _folder("runtime") / key / NAME


def _nvidias_two(tools: Tools) -> tuple[str, str]:
    """NVIDIA's libraries that ours calls: NVRTC and cuRAND."""
    return str(_nvidias(tools, "libnvrtc.so")), str(_nvidias(tools, "libcurand.so"))


def runtime_library(tools: Tools) -> Path:
    """Our runtime library, compiled when a machine needs it for the first time."""
    made = _runtime_place(tools)
    if made.is_file():
        return made
    folder = made.parent
    nvrtc, curand = _nvidias_two(tools)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as work:
        target = Path(work) / NAME
        compile_ = [
            str(tools.host), *_CODE, f"-I{tools.include}", f"-I{HEADERS}", f'-DWARPSCHOOL_PYTHON="{sys.executable}"',
            f'-DWARPSCHOOL_NVRTC="{nvrtc}"', f'-DWARPSCHOOL_CURAND="{curand}"',
            f'-DWARPSCHOOL_CUDA_HEADERS="{tools.include}"',
        ]  # fmt: skip
        missing = Path(work) / "missing.cpp"  # a program that makes such a call is told which, and where
        entries = (f'API int {name}() {{ return warp::unsupported("{name}"); }}\n'
                   for name in (*missing_calls(tools), *missing_driver_calls(tools)))  # fmt: skip
        missing.write_text(_MISSING + "".join(entries) + _from_headers(tools), "utf-8")
        common = _precompiled(compile_, Path(work))
        objects = [[*compile_, "-c", str(missing), "-o", f"{work}/missing.o"]]  # whose entries no header may declare
        objects += [[*compile_, *common, "-c", str(p), "-o", f"{work}/{p.stem}.o"] for p in sorted(SHIM.glob("*.cpp"))]
        for done in _all(objects, Path(work)):
            _refuse(done, "warpschool's own runtime library does not compile with this g++")
        linked = [str(tools.host), *_SHARED, str(made), *map(str, sorted(Path(work).glob("*.o"))), "-o", str(target),
                  "-lpthread", "-ldl", *_per_thread_names(tools)]  # fmt: skip
        _refuse(_run(linked, Path(work)), "warpschool's own runtime library does not link")
        for name in STANDS_FOR:
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(NAME)
        os.replace(target, made)
    return made


def _precompiled(compile_: Sequence[str], work: Path) -> list[str]:
    """The options that take what our files include from one precompiled header: half of the processor time."""
    header = work / "shim.h"
    names = "".join(f"#include <{name}>\n" for name in ("algorithm", "string", "unordered_map"))
    header.write_text(f'{names}#include "{SHIM / "modules.h"}"\n', "utf-8")
    done = _run([*compile_, "-x", "c++-header", str(header), "-o", f"{header}.gch"], work)
    _refuse(done, "warpschool's own runtime library does not compile with this g++")
    return ["-include", str(header)]


_CODE = ("-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden")
_SHARED = (*_CODE, "-shared", "-Xlinker", "-soname", "-Xlinker")
"""What makes the library one. The last word's value is its whole path: programs ask for it by that, whoever links them,
for CMake links without nvcc and names no folder to search."""
_ENTRY = re.compile(r"^\s*API [\w* ]+?\b(cuda\w+)\(", re.MULTILINE)
_MISSING = """// written by warpschool: calls of CUDA's runtime that there is no simulation of
#define API extern "C" __attribute__((visibility("default")))
namespace warp { int unsupported(const char* call); }
"""
_RESERVED = re.compile(r"(struct __device_builtin__ cudaDeviceProp\b.*?\n\s*)int\s+reserved\[(\d+)\];", re.DOTALL)
_EARLIER = ("clockRate", "deviceOverlap", "kernelExecTimeoutEnabled", "computeMode", "memoryClockRate",
            "singleToDoublePrecisionPerfRatio", "cooperativeMultiDeviceLaunch")  # fmt: skip
"""Fields of cudaDeviceProp until CUDA 12."""
_EARLIER_DRIVER = """
#if defined(__cplusplus) && CUDA_VERSION >= 13000 && !defined(WARP_EARLIER_DRIVER)  // calls as they were until CUDA 12
#define WARP_EARLIER_DRIVER
static inline CUresult cuCtxCreate(CUcontext* context, unsigned flags, CUdevice device)
{
    return cuCtxCreate(context, (CUctxCreateParams*)0, flags, device);
}
#endif
"""
_REGISTERS = re.compile(r"(\b__cudaRegisterLinkedBinary)##X\b")
"""In crt/host_runtime.h: the function that a file compiled with -rdc=true registers itself by. It has the file's own
name, which nvlink would define; with one name for all, our library defines it."""


def header_options(tools: Tools, runtime: Path) -> list[str]:
    """What lets a .cu file of an earlier CUDA compile with this one, and files with -rdc=true find each other.

    CUDA's headers include each other by their own folder. So there is a folder of links to them, with some of its own.
    """
    folder = runtime.with_name("include")
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(prefix=".build-", dir=runtime.parent) as work:
            made = Path(work) / "include"
            _link_all(tools.include, made, but=("driver_types.h", "cuda.h", "cuda_runtime_api.h", "crt"))
            _link_all(tools.include / "crt", made / "crt", but=("host_runtime.h",))
            text = (tools.include / "driver_types.h").read_text("utf-8", "replace")
            (made / "driver_types.h").write_text(_with_earlier_fields(text), "utf-8")
            text = (tools.include / "cuda.h").read_text("utf-8", "replace")
            (made / "cuda.h").write_text(text + _EARLIER_DRIVER, "utf-8")
            text = (tools.include / "cuda_runtime_api.h").read_text("utf-8", "replace")
            (made / "cuda_runtime_api.h").write_text(text + "\n#include <warp_earlier_calls.h>\n", "utf-8")
            text = (tools.include / "crt" / "host_runtime.h").read_text("utf-8", "replace")
            (made / "crt" / "host_runtime.h").write_text(_REGISTERS.sub(r"\1", text), "utf-8")
            _wrap_thrust(tools.include, made)
            with contextlib.suppress(OSError):  # another process was quicker
                made.rename(folder)
    return [f"-I{EARLIER}", f"-I{folder}", "-include", str(HEADERS / "warp_earlier.h")]


def _link_all(source: Path, folder: Path, *, but: tuple[str, ...]) -> None:
    folder.mkdir()
    for header in source.iterdir():
        if header.name not in but:
            (folder / header.name).symlink_to(header.resolve())


_BROUGHT = ("functional.h", "pair.h", "tuple.h", "version.h")
"""What earlier/warp_earlier_thrust.h includes, and all that these need of Thrust's."""


def _wrap_thrust(include: Path, folder: Path) -> None:
    """Thrust's headers, each with what all of them brought along until CUDA 12."""
    root = next((at for at in (include / "cccl" / "thrust", include / "thrust") if at.is_dir()), None)
    if root is None:
        return
    for header in (*root.glob("*.h"), *root.glob("iterator/*.h")):
        name = header.relative_to(root.parent)
        if header.name not in _BROUGHT:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            text = f"#pragma once\n#include_next <{name}>\n#include <warp_earlier_thrust.h>\n"
            (folder / name).write_text(text, "utf-8")


def _with_earlier_fields(text: str) -> str:
    """driver_types.h with the fields that cudaDeviceProp had until CUDA 12, in the place of reserved ones."""
    if re.search(rf"\bint +{_EARLIER[0]};", text):
        return text
    fields = "int " + ", ".join(_EARLIER)
    return _RESERVED.sub(lambda m: f"{m[1]}{fields}; int reserved[{int(m[2]) - len(_EARLIER)}];", text)


def _make(
    tools: Tools, runtime: Path, sources: Sequence[Path], options: Sequence[str], arch: str, work: Path
) -> tuple[str, list[Path]]:
    """The program at `work/program`; the compilers' warnings, and the files that they read."""
    to_compile, to_link = _stages(options)
    commands, objects, lists = [], [], []
    for number, source in enumerate(sources):
        if source.suffix in (".o", ".a"):
            objects.append(str(source))
            continue
        target, dependencies = work / f"{number}.o", work / f"{number}.d"
        objects.append(str(target))
        lists.append(dependencies)
        headers = header_options(tools, runtime)
        headers = headers if source.suffix == ".cu" else headers[:2]
        command = [str(tools.nvcc), *object_options(tools, arch), *headers, *to_compile]
        commands.append([*command, "-c", str(source), "-o", str(target), "-MD", "-MF", str(dependencies)])
    log = ""
    for done in _all(commands, Path.cwd()):
        _refuse(done, f"{', '.join(str(p) for p in sources)} does not compile")
        log += _tidy(done.stderr)
    link = [str(tools.nvcc), *objects, "-o", str(work / "program"), *link_options(tools, runtime), *to_link]
    done = _run(link, Path.cwd())
    _refuse(done, f"{', '.join(str(p) for p in sources)} does not link", _COMPLETE)
    read = {Path(name) for path in lists for name in _dependencies(path.read_text("utf-8", "replace"))}
    known = ("/usr", tools.include, runtime.parent, SHIM)
    outside = [p for p in read if not any(p.is_relative_to(folder) for folder in known)]
    return log + _tidy(done.stderr), [*sorted(outside), *(p for p in sources if p.suffix in (".o", ".a"))]


def _stages(options: Sequence[str]) -> tuple[list[str], list[str]]:
    """What the compiler is to see, and what the linker; a value stays behind its option."""
    to_compile: list[str] = []
    to_link: list[str] = []
    words = iter(options)
    for word in words:
        pair = [word, *([next(words, "")] if word in WITH_VALUE else [])]
        links = bool(re.match(r"-l(?!ineinfo)|-L|-Xlinker|-Wl|--library", word))
        to_link += pair if links or word.startswith(("-Xcompiler", "--compiler-options")) else []
        to_compile += [] if links else pair  # -Xcompiler -fopenmp is for both: it brings a library
    return to_compile, to_link


def _dependencies(text: str) -> list[str]:
    """The files of a rule of make."""
    _, _, names = text.replace("\\\n", " ").partition(":")
    return [os.path.abspath(name.replace("\0", " ")) for name in names.replace("\\ ", "\0").split()]


def _all(commands: list[list[str]], where: Path) -> list[subprocess.CompletedProcess[str]]:
    """Several at a time, as many as this process may use cores. Where that is interrupted, none of them goes on."""
    with ThreadPoolExecutor(max_workers=available_threads()) as pool, _Compilers(where) as compilers:
        return list(pool.map(compilers.run, commands))


def _run(command: list[str], where: Path) -> subprocess.CompletedProcess[str]:
    return _all([command], where)[0]


class _Compilers:
    """What is being run: each in a process group of its own, with the processes that nvcc starts."""

    def __init__(self, where: Path) -> None:
        self._where = where
        self._running: set[int] = set()
        self._lock = threading.Lock()
        self._ended = False

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """To its end, which may be that of all."""
        with self._lock:
            if self._ended:
                return subprocess.CompletedProcess(command, -signal.SIGKILL, "", "")
            process = subprocess.Popen(
                command, cwd=self._where, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True, errors="replace", env={**os.environ, "LC_ALL": "C"}, process_group=0,
            )  # fmt: skip
            self._running.add(process.pid)
        stdout, stderr = process.communicate()
        with self._lock:
            self._running.discard(process.pid)
        return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)

    def __enter__(self) -> _Compilers:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        with self._lock:
            self._ended = True
            for pid in self._running:  # none, unless something was raised
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)


_MEND = "Mend the lines that are named, and run it again."
_EXPANDED = re.compile(r"__attribute__\(\((global|device|host|shared|constant|managed)\)\)")
_KNOWN = (
    (re.compile(r'namespace "thrust" has no member "(\w+)"'),
     r"Since CUDA 13 Thrust's headers bring each other no longer: include the one of thrust::\1."),
    (re.compile(r"error: texture is not a template"),
     "CUDA 12 dropped texture references: make a texture object (cudaCreateTextureObject), and hand it to the kernel."),
    (re.compile(r"kernel launch from __device__ or __global__ functions"),
     "Kernels that launch kernels (dynamic parallelism) are not simulated: launch from the host, or loop in one."),
)  # fmt: skip
"""What compilers say, and what to do about it."""
_ABSENT = re.compile(r"fatal error: (\S+): No such file|cannot find -l(\w+)")
_LIBRARIES = {
    "cufft": "cuFFT", "cusparse": "cuSPARSE", "cusolver": "cuSOLVER", "npp": "NPP", "nvjpeg": "nvJPEG",
    "cudnn": "cuDNN", "nccl": "NCCL", "nvshmem": "NVSHMEM", "mpi": "MPI", "GL/": "OpenGL", "GLFW/": "OpenGL",
    "cublasLt": "cuBLASLt",
    "cutensor": "cuTENSOR", "cupti": "CUPTI", "nvml": "NVML", "cudss": "cuDSS", "optix": "OptiX",
}  # fmt: skip
"""What the names of their headers and libraries begin with."""
_COMPLETE = "Name all files of the program, and the libraries that it needs (-l...)."


def _refuse(done: subprocess.CompletedProcess[str], what: str, next_step: str = _MEND) -> None:
    """Raises CompileError for a command that failed, with its messages."""
    if done.returncode == 0:
        return
    log = _tidy(done.stderr + done.stdout)
    absent = _ABSENT.search(log)
    step = _advice(absent[1] or absent[2]) if absent else next_step
    for pattern, advice in _KNOWN:
        if found := pattern.search(log):
            step = found.expand(advice)
    raise CompileError(f"{what}\n{log}".rstrip(), log=log, next_step=step)


def _advice(name: str) -> str:
    """What to do about a header or library that is not there."""
    library = next((title for start, title in _LIBRARIES.items() if name.startswith(start)), None)
    if library is not None:
        return f"The simulator has no {library}: of libraries there are cuBLAS, cuRAND, NVRTC, CUB and Thrust."
    if name.startswith("curand"):
        return 'cuRAND\'s device headers are a package: pip install "warpschool[curand]"'
    return f"If {name} lies elsewhere, name its folder: -I for a header, -L for a library."


def _tidy(text: str) -> str:
    """A compiler's messages without the names of temporary files and without empty lines, with CUDA's words as they
    were written: nvcc shows what its headers make of them."""
    kept: list[str] = []
    shorter: list[tuple[int, int]] = []  # in the line before: behind which column, by how much
    for line in _TEMPORARY.sub("", text).splitlines():
        if line.strip() == "^":
            at = line.index("^")
            line = " " * (at - sum(by for column, by in shorter if column <= at)) + "^"
        shorter = [(m.end(), len(m[0]) - len(m[1]) - 4) for m in _EXPANDED.finditer(line)]
        kept += [_EXPANDED.sub(r"__\1__", line)] if line.strip() else []
    return "\n".join(kept)


def _folder(kind: str) -> Path:
    found = cache.writable_folder(kind)
    if found is None:
        raise OutputError(
            "there is no folder to build programs in",
            next_step="Set WARPSCHOOL_CACHE to a folder that you may write to.",
        )
    return found


def _stamp(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _still_good(program: Path, record: Path) -> str | None:
    """The log of an earlier build, if every file that it read is as it was."""
    try:
        found = json.loads(record.read_text("utf-8"))
        if program.is_file() and all(_stamp(Path(name)) == stamp for name, stamp in found["read"].items()):
            os.utime(program)
            return str(found["log"])
    except (OSError, ValueError, KeyError):
        pass
    return None


def _write(path: Path, data: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".part-", delete=False) as file:
        file.write(data)
    os.replace(file.name, path)


def _prune(folder: Path) -> None:
    """Drops the builds that nobody has used for longest, once there are too many, and what broken ones left behind."""
    found = _by_age(folder.glob("*.program"))
    surplus = max(0, len(found) - _MOST_BUILDS)
    for _, path in found[:surplus]:
        path.unlink(missing_ok=True)
        path.with_suffix(".json").unlink(missing_ok=True)
    for age, left in _by_age(folder.glob(".build-*")):
        if age < found[surplus][0]:
            shutil.rmtree(left, ignore_errors=True)


def _by_age(paths: Iterable[Path]) -> list[tuple[float, Path]]:
    """When each was last used, the oldest first; those are left out that another process has just dropped."""
    ages = []
    for path in paths:
        with contextlib.suppress(OSError):
            ages.append((path.stat().st_mtime, path))
    return sorted(ages)
