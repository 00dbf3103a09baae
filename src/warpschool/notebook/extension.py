"""What `%load_ext warpschool` brings: the `%%kernel` magic, and displays of launches, runs, results and figures."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from warpschool.compile import Resources, compile_cuda, resource_usage
from warpschool.contract import parse_contract
from warpschool.course import Course, Step
from warpschool.device import Launch
from warpschool.errors import CompilerLacks, OutputError, WarpschoolError
from warpschool.grading.result import Result
from warpschool.harness.compare import Comparison
from warpschool.harness.launcher import RunResult
from warpschool.harness.source import Source, find_source, own_file_of, personal_copy
from warpschool.notebook.cells import keep, normalised, remember
from warpschool.show.bar import working
from warpschool.show.kernels import launch_html, run_html
from warpschool.show.page import escape, notebook_box, show, show_text
from warpschool.show.results import compiled_html, failed_html, mismatch_exhibit, result_html


@magics_class
class KernelMagics(Magics):
    """`%%kernel STEP`: this cell is my kernel for that step."""

    @magic_arguments()
    @argument("step", help="the step, such as lab02_tiling/01_tiled")
    @argument("--check", action="store_true", help="check the kernel at once")
    @argument("--device", default="auto", choices=("auto", "sim", "gpu"), help="where --check runs it")
    @cell_magic
    def kernel(self, line: str, cell: str) -> None:
        """Take the cell as the step's kernel: remember it, compile it, show errors under their lines."""
        options = parse_argstring(self.kernel, line)
        try:
            step = Course.find().step(options.step)
        except WarpschoolError as error:
            show_text(str(error), failed=True)
            return
        cell = normalised(cell)
        remember(step.name, cell)
        _keep(step)
        if _compiles(step.name, step.file_name, cell) and options.check:
            from warpschool.grading import check_cell

            check_cell(step.name, device=options.device)


def _keep(step: Step) -> None:
    """See to it that the terminal finds in the copy what was run here; a disk that does not take it is no failure."""
    own = own_file_of(step, personal_copy(Path.cwd()))
    try:
        if own is not None:
            keep(step, own)
    except OutputError as error:
        show_text(f"{error}\nThe cell itself is taken.", failed=True)


def _compiles(step: str, name: str, source: str) -> bool:
    """Compile, and show the errors or what the kernels use."""
    if Course.find().step(step).is_program:
        return _builds(step, name, source)
    try:
        contract = parse_contract(source, name=name)
        compile_cuda(source, name=name)
        resources = _resources(source, name)
    except WarpschoolError as error:
        show(str(error), failed_html(step, name, error, source))
        return False
    uses = [
        f"{entry.name}: {used.registers} registers, {used.shared_bytes:,} bytes of shared memory"
        for entry in contract.entries
        if (used := resources.get(entry.name)) is not None
    ]
    show("\n".join([f"{step} compiles.", *uses]), compiled_html(step, name, uses, source))
    return True


def _builds(step: str, name: str, source: str) -> bool:
    """Build a whole program, and show what the compilers say."""
    from warpschool.grading.program_build import build_program

    with tempfile.TemporaryDirectory(prefix="warpschool-program-") as folder:
        try:
            cell = Source(source.encode(), name, "notebook cell")
            with working(_work_of(step)):
                built = build_program(cell, Path(folder), must=False, may_cache=True)
        except WarpschoolError as error:
            show_text(str(error), failed=True)
            return False
    if built.verdict:
        show_text(built.said, failed=True)
        return False
    show_text("\n".join([f"{step} builds, with {built.compiler}.", *built.warnings]))
    return True


def _work_of(step: str) -> str:
    """What a build has to do, for its bar: our runtime library is compiled once for a machine."""
    from warpschool.programs.build import has_runtime_library
    from warpschool.programs.tools import find_tools

    first = "" if has_runtime_library(find_tools()) else ", and the runtime library of programs, once for this machine"
    return f"building {step}{first}"


def _resources(source: str, name: str) -> dict[str, Resources]:
    """What ptxas says of each kernel; nothing where another compiler stands in for NVIDIA's."""
    try:
        return resource_usage(source, name=name)
    except CompilerLacks:
        return {}


# ---------------------------------------------------------------- displays


def _result(result: Result) -> str:
    """A result with the student's source where it is still the one that was checked."""
    try:
        source = find_source(Course.find().step(result.step))
    except WarpschoolError:
        return result_html(result)
    same = source.sha256 == result.source.get("sha256")
    return result_html(result, source=source.text if same else "")


def _run_text(run: RunResult) -> str:
    outputs = ", ".join(f"{name} {array.shape}" for name, array in run.outputs.items())
    hazards = run.hazards if run.counters.measured else ()
    found = "\n".join(f"{hazard.file}:{hazard.line}: {hazard.kind}: {hazard.message}" for hazard in hazards)
    head = f"{run.plan.contract.name} on {run.device.description}: {outputs}"
    return "\n".join(part for part in (head, str(run.counters), found) if part)


def _figure(figure: Any) -> str:
    """A figure of Matplotlib with a text for those who do not see it; Matplotlib is loaded only where it is used."""
    from warpschool.show.figures import figure_html

    return figure_html(figure)


def _comparison(comparison: Comparison) -> str:
    said = f"<pre>{escape(comparison)}</pre>"
    return notebook_box(said + (mismatch_exhibit(comparison.map).html() if comparison.map else ""))


_BUILDERS = {Launch: launch_html, RunResult: run_html, Result: _result, Comparison: _comparison}


def register_displays(shell: Any) -> None:
    """Tell IPython how to show warpschool's objects; `%load_ext warpschool` calls this."""
    formatters = shell.display_formatter.formatters
    for kind, build in _BUILDERS.items():
        formatters["text/html"].for_type(kind, build)
    formatters["text/html"].for_type_by_name("matplotlib.figure", "Figure", _figure)
    formatters["text/plain"].for_type(RunResult, lambda run, printer, _cycle: printer.text(_run_text(run)))
    for kind in (Launch, Result, Comparison):
        formatters["text/plain"].for_type(kind, lambda thing, printer, _cycle: printer.text(str(thing)))
