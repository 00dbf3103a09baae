"""Rich displays: launches, runs and results show themselves as HTML in a notebook, as text elsewhere."""

from __future__ import annotations

from typing import Any

from warpschool.course import Course
from warpschool.device import Launch
from warpschool.errors import WarpschoolError
from warpschool.grading import Result, find_source
from warpschool.harness.compare import Comparison
from warpschool.harness.launcher import RunResult
from warpschool.show.kernels import launch_html, run_html
from warpschool.show.page import escape, notebook_box
from warpschool.show.results import mismatch_exhibit, result_html


def _result(result: Result) -> str:
    """A result with the student's source where it is still the one that was checked."""
    try:
        source = find_source(Course.find().step(result.step))
    except WarpschoolError:
        return result_html(result)
    same = source.sha256 == result.source.get("sha256")
    return result_html(result, source=source.data.decode("utf-8", "replace") if same else "")


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
