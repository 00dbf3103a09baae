"""`warpschool doctor`: what this machine can do, and what to do about the rest."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import typer
from rich.text import Text

from warpschool.cli.failures import LACKING, guarded
from warpschool.cli.options import AsJson, Plain
from warpschool.cli.output import Cell, Output
from warpschool.errors import WarpschoolError

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
class Finding:
    """One line of the report; `state` is "ok", "no" (an extra is not here) or "broken" (nothing works without it)."""

    what: str
    state: str
    text: str
    next_step: str = ""


@guarded
def doctor(as_json: AsJson = False, plain: Plain = False) -> None:
    """Say what this machine can do: compile, simulate, use a GPU, open notebooks, grade; and how to get the rest.

    Example: warpschool doctor
    """
    output = Output(as_json=as_json, plain=plain)
    findings = [look() for look in _LOOKS]
    broken = [finding for finding in findings if finding.state == "broken"]
    output.data({"ok": not broken, "findings": [asdict(finding) for finding in findings]})
    styles = {"ok": "bold green", "no": "yellow", "broken": "bold red"}
    rows: list[list[Cell]] = [[f.what, Text(f.state, style=styles[f.state]), f.text] for f in findings]
    output.table(["what", "state", "found"], rows)
    for finding in findings:
        if finding.next_step:
            output.show((f"{finding.what}: ", "bold"), finding.next_step)
    if broken:
        raise typer.Exit(LACKING)
    output.show("This machine can run the course.", style="bold")


def _python() -> Finding:
    import warpschool

    system = f"{platform.system()} {platform.machine()}"
    return Finding(
        "versions", "ok", f"warpschool {warpschool.__version__}, Python {platform.python_version()}, {system}"
    )


def _compiler() -> Finding:
    from warpschool.compile import compiler_report

    found = compiler_report()
    if not found["available"]:
        problem, _, advice = str(found["problem"]).rpartition("\n")
        return Finding("compiler", "broken", problem or advice, advice if problem else "")
    return Finding("compiler", "ok", f"NVRTC {found['nvrtc']} ({found['origin']}), isolation: {found['isolation']}")


def _simulator() -> Finding:
    """Compile and run a kernel, as every command does."""
    import numpy as np

    import ptxsim
    from warpschool.harness.launcher import run_kernel

    start = time.perf_counter()
    x = np.arange(100, dtype=np.float32)
    try:
        run = run_kernel(_KERNEL, {}, {"x": x}, device="sim", name="01_doctor.cu")
    except WarpschoolError as error:
        return Finding("simulator", "broken", error.message, error.next_step)
    if not np.array_equal(run.outputs["y"], 2 * x):
        return Finding("simulator", "broken", "a test kernel gave wrong results", "Please report this processor.")
    took = f"a test kernel compiled and ran in {time.perf_counter() - start:.2f} s"
    return Finding("simulator", "ok", f"{took}; cores to use: {ptxsim.available_threads()}, vectors: {ptxsim.simd()}")


def _gpu() -> Finding:
    from warpschool.device import get_device, gpu_problem

    problem = gpu_problem()
    if problem is not None:
        return Finding("GPU", "no", problem.message.splitlines()[0], problem.next_step)
    return Finding("GPU", "ok", get_device("gpu").description)


def _course() -> Finding:
    from warpschool.course import Course
    from warpschool.grading import personal_copy

    try:
        course = Course.find()
    except WarpschoolError as error:
        return Finding("course", "broken", error.message, error.next_step)
    finished = sum(bool(step.solution and step.grader) for step in course.steps())
    own = personal_copy(Path.cwd())
    text = f"{finished} finished steps in {course.root}; your copy: {own or 'none here'}"
    return Finding("course", "ok", text, "" if own else "Your own copy: warpschool start")


def _cache() -> Finding:
    from ptxsim import cache

    root = cache.cache_root()
    problem = _writing_problem(root)
    if not problem:
        return Finding("cache", "ok", str(root))
    fallback = Path(tempfile.gettempdir())
    if not _writing_problem(fallback):
        return Finding("cache", "ok", f"{root} cannot be written ({problem}); {fallback} is used instead")
    text = f"neither {root} nor {fallback} can be written ({problem}): every run compiles anew"
    return Finding("cache", "no", text, "Set WARPSCHOOL_CACHE to a folder that you may write to and that has room.")


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


def _notebooks() -> Finding:
    return _package("notebooks", "jupyterlab", "JupyterLab", "lab")


def _grading() -> Finding:
    return _package("teaching", "nbgrader", "nbgrader", "teach")


def _workers() -> Finding:
    return _package("workers", "distributed", "Dask", "cluster")


def _sandbox() -> Finding:
    from warpschool.grading.sandbox import bubblewrap_problem

    problem = bubblewrap_problem()
    if problem:
        advice = "Only for grading: without it a person grades the cells that need a student's Python."
        return Finding("sandbox", "no", problem, advice)
    return Finding("sandbox", "ok", "bubblewrap")


def _package(what: str, module: str, name: str, extra: str) -> Finding:
    if importlib.util.find_spec(module) is None:
        return Finding(what, "no", f"{name} is not installed", f"pip install 'warpschool[{extra}]'")
    return Finding(what, "ok", f"{name} {importlib.metadata.version(module)}")


def _terminal() -> Finding:
    kind = "colour and redraws" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else "linear text"
    return Finding("terminal", "ok", f"{kind}, {sys.stdout.encoding}")


_LOOKS: tuple[Callable[[], Finding], ...] = (
    _python, _compiler, _simulator, _gpu, _course, _cache, _notebooks, _grading, _workers, _sandbox, _terminal,
)  # fmt: skip
