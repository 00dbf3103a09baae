"""Rich displays: launches, runs and results show themselves as HTML in a notebook, as text elsewhere."""

from __future__ import annotations

from typing import Any

from warpschool.device import Launch
from warpschool.grading import Result
from warpschool.launcher import RunResult
from warpschool.viz.displays import launch_html, result_html, run_html

_BUILDERS = {Launch: launch_html, RunResult: run_html, Result: result_html}


def register_displays(shell: Any) -> None:
    """Tell IPython how to show warpschool's objects; `%load_ext warpschool` calls this."""
    formatters = shell.display_formatter.formatters
    for kind, build in _BUILDERS.items():
        formatters["text/html"].for_type(kind, build)
    for kind in (Launch, Result):
        formatters["text/plain"].for_type(kind, lambda thing, printer, _cycle: printer.text(str(thing)))
