"""From a program's sources to something that runs: objects by nvcc, our runtime library, the link; all of it cached."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ptxsim import available_threads, cache
from warpschool.errors import ArgumentError, CompileError, OutputError
from warpschool.programs.tools import HEADERS, NAME, SHIM, STANDS_FOR, Tools, find_tools, shim_identity

SUFFIXES = (".cu", ".cpp", ".cc", ".cxx", ".c", ".o", ".a")
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
    """What the whole is linked with."""
    return ["-ccbin", str(tools.host), "-cudart", "none", f"-L{runtime.parent}", "-lwarpcudart", "-Xlinker",
            f"-rpath={runtime.parent}", "-Wno-deprecated-gpu-targets"]  # fmt: skip


def missing_calls(tools: Tools) -> list[str]:
    """Calls that the runtime's header declares and our library has not."""
    header = (tools.include / "cuda_runtime_api.h").read_text("utf-8", "replace")
    declared = re.findall(r"CUDARTAPI\s+(cuda\w+)\(", header)
    ours = {name for path in SHIM.glob("*.cpp") for name in _ENTRY.findall(path.read_text("utf-8"))}
    return sorted({*declared} - ours)


def runtime_library(tools: Tools) -> Path:
    """Our runtime library, compiled when a machine needs it for the first time."""
    key = cache.content_key(tools.identity, shim_identity(), sys.executable, _MISSING)
    folder = _folder("runtime") / key
    made = folder / NAME
    if made.is_file():
        return made
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as work:
        target = Path(work) / NAME
        compile_ = [
            str(tools.host), "-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{tools.include}",
            f"-I{HEADERS}", f'-DWARPSCHOOL_PYTHON="{sys.executable}"', f"-Wl,-soname,{NAME}",
        ]  # fmt: skip
        missing = Path(work) / "missing.cpp"  # a program that makes such a call is told which, and where
        entries = (f'API int {name}() {{ return warp::unsupported("{name}"); }}\n' for name in missing_calls(tools))
        missing.write_text(_MISSING + "".join(entries), "utf-8")
        sources = [*sorted(SHIM.glob("*.cpp")), missing]
        objects = [[*compile_, "-c", str(path), "-o", f"{work}/{path.stem}.o"] for path in sources]
        for done in _all(objects, Path(work)):
            _refuse(done, "warpschool's own runtime library does not compile with this g++")
        linked = [*compile_, *map(str, sorted(Path(work).glob("*.o"))), "-o", str(target), "-lpthread"]
        _refuse(_run(linked, Path(work)), "warpschool's own runtime library does not link")
        for name in STANDS_FOR:
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(NAME)
        os.replace(target, made)
    return made


_ENTRY = re.compile(r"^\s*API [\w* ]+?\b(cuda\w+)\(", re.MULTILINE)
_MISSING = """// written by warpschool: calls of CUDA's runtime that there is no simulation of
#define API extern "C" __attribute__((visibility("default")))
namespace warp { int unsupported(const char* call); }
"""
_RESERVED = re.compile(r"(struct __device_builtin__ cudaDeviceProp\b.*?\n\s*)int\s+reserved\[(\d+)\];", re.DOTALL)
_EARLIER = ("clockRate", "deviceOverlap", "kernelExecTimeoutEnabled", "computeMode", "memoryClockRate",
            "singleToDoublePrecisionPerfRatio", "cooperativeMultiDeviceLaunch")  # fmt: skip
"""Fields of cudaDeviceProp until CUDA 12."""


def earlier_options(tools: Tools, runtime: Path) -> list[str]:
    """What lets a .cu file of an earlier CUDA compile with this one; nothing where its own headers are earlier.

    CUDA's headers include each other by their own folder. So there is a folder of links to them, with one of its own.
    """
    folder = runtime.with_name("include")
    if not folder.is_dir():
        text = (tools.include / "driver_types.h").read_text("utf-8", "replace")
        if re.search(rf"\bint +{_EARLIER[0]};", text):
            return []
        fields = "int " + ", ".join(_EARLIER)
        text = _RESERVED.sub(lambda m: f"{m[1]}{fields}; int reserved[{int(m[2]) - len(_EARLIER)}];", text)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=runtime.parent) as work:
            made = Path(work) / "include"
            made.mkdir()
            for header in tools.include.iterdir():
                if header.name != "driver_types.h":
                    (made / header.name).symlink_to(header.resolve())
            (made / "driver_types.h").write_text(text, "utf-8")
            with contextlib.suppress(OSError):  # another process was quicker
                made.rename(folder)
    return [f"-I{folder}", "-include", str(HEADERS / "warp_earlier.h")]


def _make(
    tools: Tools, runtime: Path, sources: Sequence[Path], options: Sequence[str], arch: str, work: Path
) -> tuple[str, list[Path]]:
    """The program at `work/program`; the compilers' warnings, and the files that they read."""
    to_link = [o for o in options if o.startswith(("-l", "-L", "-Xlinker", "-Wl"))]
    to_compile = [o for o in options if o not in to_link]
    commands, objects, lists = [], [], []
    for number, source in enumerate(sources):
        if source.suffix in (".o", ".a"):
            objects.append(str(source))
            continue
        target, dependencies = work / f"{number}.o", work / f"{number}.d"
        objects.append(str(target))
        lists.append(dependencies)
        earlier = earlier_options(tools, runtime) if source.suffix == ".cu" else []
        command = [str(tools.nvcc), *object_options(tools, arch), *earlier, *to_compile]
        commands.append([*command, "-c", str(source), "-o", str(target), "-MD", "-MF", str(dependencies)])
    log = ""
    for done in _all(commands, Path.cwd()):
        _refuse(done, f"{', '.join(str(p) for p in sources)} does not compile")
        log += _tidy(done.stderr)
    link = [str(tools.nvcc), *objects, "-o", str(work / "program"), *link_options(tools, runtime), *to_link]
    done = _run(link, Path.cwd())
    _refuse(done, f"{', '.join(str(p) for p in sources)} does not link", _COMPLETE)
    read = {Path(name) for path in lists for name in _dependencies(path.read_text("utf-8", "replace"))}
    known = ("/usr", tools.include, runtime.parent, HEADERS)
    outside = [p for p in read if not any(p.is_relative_to(folder) for folder in known)]
    return log + _tidy(done.stderr), [*sorted(outside), *(p for p in sources if p.suffix in (".o", ".a"))]


def _dependencies(text: str) -> list[str]:
    """The files of a rule of make."""
    _, _, names = text.replace("\\\n", " ").partition(":")
    return [os.path.abspath(name.replace("\0", " ")) for name in names.replace("\\ ", "\0").split()]


def _all(commands: list[list[str]], where: Path) -> list[subprocess.CompletedProcess[str]]:
    """Several at a time, as many as this process may use cores."""
    with ThreadPoolExecutor(max_workers=available_threads()) as pool:
        return list(pool.map(lambda command: _run(command, where), commands))


def _run(command: list[str], where: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, cwd=where, capture_output=True, text=True, errors="replace", env=environment)


_MEND = "Mend the lines that are named, and run it again."
_COMPLETE = "Name all files of the program, and the libraries that it needs (-l...)."


def _refuse(done: subprocess.CompletedProcess[str], what: str, next_step: str = _MEND) -> None:
    """Raises CompileError for a command that failed, with its messages."""
    if done.returncode == 0:
        return
    log = _tidy(done.stderr + done.stdout)
    raise CompileError(f"{what}\n{log}".rstrip(), log=log, next_step=next_step)


def _tidy(text: str) -> str:
    """A compiler's messages without the names of temporary files and without empty lines."""
    return "\n".join(line for line in _TEMPORARY.sub("", text).splitlines() if line.strip())


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
    """Drops the builds that nobody has used for longest, once there are too many."""
    found = sorted(folder.glob("*.program"), key=lambda path: path.stat().st_mtime)
    for path in found[: max(0, len(found) - _MOST_BUILDS)]:
        path.unlink(missing_ok=True)
        path.with_suffix(".json").unlink(missing_ok=True)
    for left in folder.glob(".build-*"):
        if left.stat().st_mtime < found[0].stat().st_mtime:
            shutil.rmtree(left, ignore_errors=True)
