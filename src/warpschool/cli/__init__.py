"""The command line: `warpschool tour | check | profile | doctor | start | status | hint | diff | solution | ...`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

try:
    import typer

    from warpschool.cli.app import app
    from warpschool.cli.output import INTERRUPTED, Output, report_usage
except KeyboardInterrupt:  # Ctrl-C while the commands are loaded: no traceback
    sys.exit(130)

__all__ = ["app", "main"]


def main() -> None:
    """Run a command; the console script's entry point."""
    words = sys.argv[1:] or ["--help"]
    _spare_matplotlibs_complaint()
    try:
        sys.exit(app(words, standalone_mode=False))
    except BrokenPipeError:  # the reader of a pipe has gone: there is nobody left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except typer.Abort:  # Ctrl-C or Ctrl-D where a question was asked
        sys.exit(INTERRUPTED)
    except Exception as error:
        if not hasattr(error, "format_message"):  # the parser's errors have it, whichever Click typer brings
            raise
        sys.exit(report_usage(error, Output(as_json="--json" in words, plain="--plain" in words)))


def _spare_matplotlibs_complaint() -> None:
    """Where home is read-only Matplotlib keeps its fonts in a new temporary folder each time, and says so at length."""
    home = Path(os.path.expanduser("~"))
    settings = home / ".config"
    if "MPLCONFIGDIR" in os.environ or os.access(settings if settings.exists() else home, os.W_OK):
        return
    from ptxsim.cache import writable_folder

    if folder := writable_folder("matplotlib"):
        os.environ["MPLCONFIGDIR"] = str(folder)
