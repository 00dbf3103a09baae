"""Builds a hand-in that is a whole program, before its check begins: the compilers run confined.

`#include` and assembly's `.incbin` read files, so compilers of a stranger's source see the system's headers, CUDA's and
this source, and write into one folder. What they make is read, and executed, by the confined process that checks.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ptxsim import cache, system
from warpschool.errors import GradingError
from warpschool.grading.confinement import confinement_problem
from warpschool.grading.sandbox import module_path
from warpschool.grading.verdicts import Verdict, readable
from warpschool.harness.source import MAX_SOURCE_BYTES, Source
from warpschool.programs.build import DEFAULT_ARCH, header_options, link_options, object_options, runtime_library
from warpschool.programs.tools import EARLIER, HEADERS, Tools, find_tools, shim_identity

LAUNCHER = "warpschool.grading.program_child"
FILE_BYTES = 64 << 20
DEVICE_BYTES = 1 << 30
"""Memory of a program's device: more is cudaErrorMemoryAllocation."""
_CPU_S, _MEMORY_BYTES, _WALL_S = 120, 8 << 30, 1800.0
_KEPT, _MOST_KEPT = "check-programs", 64
_PLACE = re.compile(r"^(?P<file>[\w.-]+)(?:\((?P<cudafe>\d+)\)|:(?P<gcc>\d+):\d+): (?:fatal |catastrophic )?error")
_WARNING = re.compile(
    r"^(?P<file>[\w.-]+)(?:\((?P<cudafe>\d+)\)|:(?P<gcc>\d+):\d+): warning(?: #(?P<number>\d+)-D)?: (?P<message>.*)"
)
_UNUSED, _MOST_WARNINGS = ("177", "550"), 8
_TEMPORARY = re.compile(r"/\S*/tmpxft_\S+|^# .*$|\S*tmpxft_\S+", re.MULTILINE)
_KILLED = re.compile(r"died due to signal|Killed|CPU time limit|out of memory|cannot allocate memory", re.IGNORECASE)


@dataclass(frozen=True)
class ProgramFile:
    """A built program, or why there is none: then `verdict` is not "", and `said` and `line` tell.

    `libraries`: the files that the system's loader reads for it, its own runtime library among them.
    """

    path: str = ""
    compiler: str = ""
    libraries: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    verdict: str = ""
    said: str = ""
    line: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data, of which `from_dict` makes the same again."""
        return asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> ProgramFile:
        lists = {name: tuple(data[name]) for name in ("libraries", "warnings")}
        return ProgramFile(**{**data, **lists})


def confined_command(
    command: Sequence[str], folder: Path, *, readable: Sequence[str], executable: Sequence[str] | None,
    processes: bool, must: bool, cpu_s: int, memory_bytes: int, environment: Mapping[str, str],
) -> list[str]:  # fmt: skip
    """The command line that confines itself and becomes `command`, which writes into `folder` alone.

    `must`: it ends instead where the kernel does not offer the whole confinement.
    """
    job = {
        "command": list(command), "folder": str(folder), "readable": list(readable), "processes": processes,
        "executable": None if executable is None else list(executable), "must": must,
        "cpu_s": round(cpu_s * system.slowness()), "memory_bytes": memory_bytes, "file_bytes": FILE_BYTES,
        "environment": dict(environment),
    }  # fmt: skip
    return [sys.executable, "-P", "-B", "-m", LAUNCHER, json.dumps(job)]


def launcher_environment() -> dict[str, str]:
    """What the launching interpreter needs of the environment; the command itself gets another one."""
    return module_path() | {"PATH": os.environ.get("PATH", os.defpath), "PYTHONDONTWRITEBYTECODE": "1"}


def require_confinement() -> None:
    """Raise GradingError where this machine cannot confine what others have handed in."""
    if problem := confinement_problem():
        raise GradingError(
            f"programs of other people are not run on this machine: {problem}",
            next_step="Grade them on Linux 5.13 or newer with Landlock; `warpschool doctor` says whether it is on.",
        )


def build_program(source: Source, folder: Path, *, must: bool, may_cache: bool) -> ProgramFile:
    """Build a hand-in in an empty folder; what is wrong with it is in the result.

    Raises ToolMissing without nvcc or g++, GradingError where `must` is asked and the machine cannot confine.
    """
    if must:
        require_confinement()
    tools = find_tools()
    runtime = runtime_library(tools)
    earlier = header_options(tools, runtime)
    if problem := _unfit(source):
        return problem
    base = ProgramFile(compiler=f"nvcc {tools.cuda}, {tools.host_version}", libraries=libraries_of(runtime))
    target = _kept(source, tools) if may_cache else None
    if target is not None and target.is_file():
        os.utime(target)
        return replace(base, path=str(target))
    (folder / source.name).write_bytes(source.data)
    compile_ = [str(tools.nvcc), *object_options(tools, DEFAULT_ARCH), *earlier, "-c", source.name, "-o", "program.o"]
    link = [str(tools.nvcc), "program.o", "-o", "program", *link_options(tools, runtime)]
    log = ""
    for command in (compile_, link):
        done = _run(command, folder, tools, runtime, must=must)
        text = _tidy(f"{done.stdout}\n{done.stderr}")
        if done.returncode:
            return _failed(text, source.name, base, is_link=command is link)
        log += text
    warnings = _warnings(log, source.name)
    made = folder / "program"
    if target is not None and not warnings:  # what warns is built again, so that it warns again
        with suppress(OSError):
            os.replace(made, target)
            made = target
    return replace(base, path=str(made), warnings=warnings)


def _unfit(source: Source) -> ProgramFile | None:
    """What no compiler is asked about."""
    if len(source.data) > MAX_SOURCE_BYTES:
        return ProgramFile(verdict=Verdict.CLE, said=f"the source is larger than {MAX_SOURCE_BYTES:,} bytes")
    try:
        text = source.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = source.data[: error.start].count(b"\n") + 1
        return ProgramFile(verdict=Verdict.BAD, said="this is not UTF-8; save the file as UTF-8 text", line=line)
    if not text.strip():
        return ProgramFile(verdict=Verdict.BAD, said="the file is empty; start from the step's starter")
    return None


def _run(
    command: list[str], folder: Path, tools: Tools, runtime: Path, *, must: bool
) -> subprocess.CompletedProcess[str]:
    places = [*_system(), *_toolchain(tools), str(runtime.parent), str(HEADERS), str(EARLIER), str(folder)]
    path = os.pathsep.join(dict.fromkeys([str(tools.host.parent), "/usr/bin", "/bin"]))
    environment = {"PATH": path, "LC_ALL": "C", "TMPDIR": str(folder), "SOURCE_DATE_EPOCH": "0"}
    confined = confined_command(
        command, folder, readable=places, executable=None, processes=True, must=must, cpu_s=_CPU_S,
        memory_bytes=_MEMORY_BYTES, environment=environment,
    )
    try:
        return subprocess.run(
            confined, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=_WALL_S,
            env=launcher_environment(), cwd="/", check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise GradingError("the compilers did not come to an end: is this machine overloaded?") from None


@functools.cache
def _system() -> tuple[str, ...]:
    """What compilers read of the system: not Python's packages, for a course may be installed among them."""
    files = ("/etc/ld.so.cache", "/etc/alternatives", "/proc/self", "/proc/meminfo", "/proc/cpuinfo")
    return (*files, *without_packages(Path("/usr")))


def without_packages(prefix: Path) -> Iterator[str]:
    """The folders of an installation that compilers and the loader read, Python's own left out."""
    for name in ("bin", "include", "libexec", f"{os.uname().machine}-linux-gnu"):
        yield str(prefix / name)
    for folder in (prefix / "lib", prefix / "lib64"):
        with suppress(OSError):
            yield from (str(path) for path in folder.iterdir() if not path.name.startswith("python"))


def _toolchain(tools: Tools) -> list[str]:
    """The folders of nvcc, and of g++ where it is not the system's."""
    host = tools.host.resolve().parents[1]
    own = [] if host == Path("/usr") else [*without_packages(host), str(tools.host)]
    return [str(tools.nvcc.parents[1].resolve()), str(tools.nvcc.parents[1]), *own]


@functools.cache
def libraries_of(runtime: Path) -> tuple[str, ...]:
    """The runtime library, and the files of the system that the loader reads with it: a program needs no others."""
    said = subprocess.run(["ldd", str(runtime)], capture_output=True, text=True, check=False).stdout
    found = re.findall(r"(/\S+) \(0x", said)
    return (str(runtime), str(runtime.parent), *dict.fromkeys(found))


def _kept(source: Source, tools: Tools) -> Path | None:
    """Where the program of one's own source is kept, for the next check of it."""
    place = cache.writable_folder(_KEPT)
    if place is None:
        return None
    with suppress(OSError):
        for old in sorted(place.iterdir(), key=lambda path: path.stat().st_mtime)[:-_MOST_KEPT]:
            old.unlink(missing_ok=True)
    return place / cache.content_key(tools.identity, shim_identity(), source.name, source.sha256)


def _tidy(log: str) -> str:
    return "\n".join(line for line in _TEMPORARY.sub("", log).splitlines() if line.strip())


def _warnings(log: str, name: str) -> tuple[str, ...]:
    """What the compilers warn of, with lines; not of what is never used, for a starter is full of it."""
    found = (match for line in log.splitlines() if (match := _WARNING.match(line)) and match["file"] == name)
    return tuple(dict.fromkeys(
        f"line {m['cudafe'] or m['gcc']}: {readable(m['message'])}" for m in found if m["number"] not in _UNUSED
    ))[:_MOST_WARNINGS]  # fmt: skip


def _failed(log: str, name: str, base: ProgramFile, *, is_link: bool) -> ProgramFile:
    """What the compilers said, with the first line of the student's that they name."""
    places = (match for line in log.splitlines() if (match := _PLACE.match(line)) and match["file"] == name)
    first = next(places, None)
    line = int(first["cudafe"] or first["gcc"]) if first is not None else 0
    verdict = Verdict.CLE if _KILLED.search(log) and not line else Verdict.CE
    said = readable(log) or "the compiler gave no reason"
    return replace(base, verdict=verdict, said=f"it does not link:\n{said}" if is_link else said, line=line)
