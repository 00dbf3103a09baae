"""The command line: `warpschool tour | check | profile | doctor | start | status | hint | diff | solution | ...`."""

from __future__ import annotations

import os
import sys

from warpschool.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Run a command; the console script's entry point."""
    try:
        app()
    except BrokenPipeError:  # the reader of a pipe has gone: there is nobody left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
