"""What this machine can do: compile, simulate, use a GPU, open notebooks, grade; and how to get the rest."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ptxsim import available_threads, cache, simd
from warpschool.compile import compiler_report
from warpschool.course import Course
from warpschool.device import get_device, gpu_problem
from warpschool.errors import WarpschoolError
from warpschool.grading.confinement import confinement_problem, landlock_version
from warpschool.grading.sandbox import bubblewrap_problem
from warpschool.harness.launcher import run_kernel
from warpschool.harness.source import personal_copy
from warpschool.programs import tools_report
from warpschool.version import __version__
from warpschool.warm import client, place

_KERNEL = """// 01_doctor.cu: y = 2 * x.
// Entry:  twice(const float x[n] in, float y[n] out, int n)
// Launch: twice block=(32) grid=(cdiv(n, 32))
extern "C" __global__ void twice(const float* x, float* y, int n)
{
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""
_CACHE_ENTRY_BYTES = 1 << 18  # what a large kernel takes


@dataclass(frozen=True)
class Ability:
    """One thing that is asked of a machine.

    `state` is "ok", "no" (an extra is not here) or "broken" (nothing works without it).
    """

    what: str
    state: str
    text: str
    next_step: str = ""


def abilities() -> list[Ability]:
    """Look at everything, in the order of a report."""
    return [look() for look in _LOOKS]


def _python() -> Ability:
    system = f"{platform.system()} {platform.machine()}"
    return Ability("versions", "ok", f"warpschool {__version__}, Python {platform.python_version()}, {system}")


def _compiler() -> Ability:
    found = compiler_report()
    if not found["available"]:
        problem, _, advice = str(found["problem"]).rpartition("\n")
        return Ability("compiler", "broken", problem or advice, advice if problem else "")
    return Ability("compiler", "ok", f"{found['compiler']} ({found['origin']}), isolation: {found['isolation']}")


def _programs() -> Ability:
    """What builds whole programs."""
    found = tools_report()
    if not found["available"]:
        return Ability("programs", "no", str(found["problem"]), str(found["next_step"]))
    return Ability("programs", "ok", f"nvcc {found['nvcc']} and {found['host']}")


def _simulator() -> Ability:
    """Compile and run a kernel, as every command does."""
    start = time.perf_counter()
    x = np.arange(100, dtype=np.float32)
    try:
        run = run_kernel(_KERNEL, {}, {"x": x}, device="sim", name="01_doctor.cu")
    except WarpschoolError as error:
        return Ability("simulator", "broken", error.message, error.next_step)
    if not np.array_equal(run.outputs["y"], 2 * x):
        return Ability("simulator", "broken", "a test kernel gave wrong results", "Please report this processor.")
    took = f"a test kernel compiled and ran in {time.perf_counter() - start:.2f} s"
    return Ability("simulator", "ok", f"{took}; cores to use: {available_threads()}, vectors: {simd()}")


def _gpu() -> Ability:
    problem = gpu_problem()
    if problem is not None:
        return Ability("GPU", "no", problem.message.splitlines()[0], problem.next_step)
    return Ability("GPU", "ok", get_device("gpu").description)


def _course() -> Ability:
    try:
        course = Course.find()
    except WarpschoolError as error:
        return Ability("course", "broken", error.message, error.next_step)
    finished = sum(bool(step.solution and step.grader) for step in course.steps())
    own = personal_copy(Path.cwd())
    text = f"{finished} finished steps in {course.root}; your copy: {own or 'none here'}"
    return Ability("course", "ok", text, "" if own else "Your own copy: warpschool start")


def _cache() -> Ability:
    root = cache.cache_root()
    problem = _writing_problem(root)
    if not problem:
        return Ability("cache", "ok", str(root))
    fallback = Path(tempfile.gettempdir())
    if not _writing_problem(fallback):
        return Ability("cache", "ok", f"{root} cannot be written ({problem}); {fallback} is used instead")
    text = f"neither {root} nor {fallback} can be written ({problem}): every run compiles anew"
    return Ability("cache", "no", text, "Set WARPSCHOOL_CACHE to a folder that you may write to and that has room.")


def _writing_problem(folder: Path) -> str:
    """Why a small file cannot be written in a folder, or where that folder would be made; "" where it can."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.NamedTemporaryFile(prefix=".warpschool-", dir=folder) as file:
            file.write(bytes(_CACHE_ENTRY_BYTES))
            file.flush()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _sandbox() -> Ability:
    problem = bubblewrap_problem()
    if problem:
        advice = "Only for grading: without it a person grades the cells that need a student's Python."
        return Ability("sandbox", "no", problem, advice)
    return Ability("sandbox", "ok", "bubblewrap")


def _confinement() -> Ability:
    if problem := confinement_problem():
        return Ability("confinement", "no", problem, "Only for grading others' kernels: use a newer Linux for that.")
    return Ability("confinement", "ok", f"Landlock {landlock_version()} and a filter of system calls around each check")


def _warm() -> Ability:
    """The process that holds loaded what checks need."""
    if not place.is_wanted():
        return Ability("warm process", "no", f"switched off here (on Linux alone; not with CI, nor {place.SWITCH}=0)")
    waiting = next((one for one in client.reports() if one["fits"]), None)
    if waiting is None:
        return Ability("warm process", "no", "none waits; the next check starts one")
    text = f"process {waiting['pid']}, {waiting['memory_bytes'] >> 20} MB, {waiting['served']} forks"
    return Ability("warm process", "ok", f"{text}; ends after {waiting['waits_s'] / 60:.0f} idle minutes")


def _package(what: str, module: str, name: str, extra: str) -> Ability:
    if importlib.util.find_spec(module) is None:
        return Ability(what, "no", f"{name} is not installed", f"pip install 'warpschool[{extra}]'")
    return Ability(what, "ok", f"{name} {importlib.metadata.version(module)}")


def _terminal() -> Ability:
    kind = "colour and redraws" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else "linear text"
    return Ability("terminal", "ok", f"{kind}, {sys.stdout.encoding}")


_LOOKS: tuple[Callable[[], Ability], ...] = (
    _python, _compiler, _programs, _simulator, _gpu, _course, _cache, _warm,
    partial(_package, "notebooks", "jupyterlab", "JupyterLab", "lab"),
    partial(_package, "teaching", "nbgrader", "nbgrader", "teach"),
    partial(_package, "workers", "distributed", "Dask", "cluster"), _sandbox, _confinement, _terminal,
)  # fmt: skip
