"""How commands talk: results to stdout, progress and errors to stderr, and an exit code.

A terminal gets colour and redraws, everything else linear text; `--json` gets one JSON document. A command that fails
says what, where, what next, on one screen and without a traceback.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TextIO

import typer
from rich.console import Console
from rich.text import Text

from warpschool import errors
from warpschool.atomic import advice_on, write_file
from warpschool.cli.options import AsJson, Plain
from warpschool.show.progress import Bar, progress
from warpschool.show.table import Table, printable

PLAIN_WIDTH = 120
Part = str | Text | tuple[str, str]
"""text, or text and its style"""


class Output:
    """Where one command writes. `plain` is also chosen by NO_COLOR, TERM=dumb, and an output that is no terminal."""

    def __init__(self, *, as_json: bool = False, plain: bool = False) -> None:
        self.as_json = as_json
        self.plain = plain or must_be_plain(sys.stdout)
        self.console = make_console(sys.stdout, plain=self.plain)
        self.is_live = not plain and not must_be_plain(sys.stderr)
        self.errors = make_console(sys.stderr, plain=not self.is_live)

    def show(self, *parts: Part, style: str = "") -> None:
        """Print one line or block of text; nothing with --json."""
        if not self.as_json:
            self.console.print(Text.assemble(*map(_printable, parts), style=style), soft_wrap=self.plain)

    def heading(self, text: str) -> None:
        """Print a heading with an empty line above."""
        self.show()
        self.show(text, style="bold")

    def table(self, table: Table) -> None:
        """Print a table."""
        if not self.as_json and self.plain:
            self.console.print(table.text(), soft_wrap=True, markup=False)
        elif not self.as_json:
            self.console.print(table.rich(gap=2 if self.console.width >= 100 else 1))

    def data(self, value: Any) -> None:
        """Print the JSON document of a command, if it was asked for; text is printed as it is."""
        if self.as_json:
            text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
            sys.stdout.write(text if text.endswith("\n") else text + "\n")
            sys.stdout.flush()

    def progress(self, total: int, what: str = "", *, transient: bool = True) -> AbstractContextManager[Bar]:
        """Show how far a long command is, on stderr."""
        return progress(
            total, what, shown=not self.as_json, live=self.is_live, console=self.errors, transient=transient
        )


def _printable(part: Part) -> Part:
    """The part as a terminal may get it: names of files and students are anybody's text."""
    if isinstance(part, Text):
        return part
    return printable(part) if isinstance(part, str) else (printable(part[0]), part[1])


def make_console(stream: TextIO, *, plain: bool) -> Console:
    """A console for a stream; a plain one neither colours nor redraws nor guesses what numbers mean."""
    if plain:
        return Console(
            file=stream, force_terminal=False, color_system=None, no_color=True, highlight=False, width=PLAIN_WIDTH
        )
    return Console(file=stream, highlight=False)


def must_be_plain(stream: TextIO) -> bool:
    """Whether a stream takes no colour and no redraws."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb" or not stream.isatty()


# ---------------------------------------------------------------- failures

OK, FAILED, BAD_INPUT, LACKING = 0, 1, 2, 3
INTERRUPTED, BUG = 130, 70
EXIT_CODES = "Exit codes: 0 fine, 1 the kernel failed, 2 bad input, 3 this machine lacks something."
_MAX_LINES = 40

_CODES: tuple[tuple[tuple[type[BaseException], ...], int], ...] = (
    ((errors.CompileError, errors.SimulationError, errors.DeviceFault, errors.LaunchError), FAILED),
    ((errors.CompilerMissing, errors.DeviceUnavailable, errors.ToolMissing, errors.OutputError, errors.GradingError,
      errors.NotMeasured), LACKING),
    ((errors.WarpschoolError,), BAD_INPUT),
    ((OSError,), LACKING),
)  # fmt: skip
"""Errors and the exit code that each stands for; the first row that fits counts."""


def exit_code(error: BaseException) -> int:
    """The exit code that an error stands for."""
    other = LACKING if _is_installation(error) else BUG
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), other)


def guarded(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command its `output`, by the options --json and --plain; make exceptions messages and exit codes."""

    @functools.wraps(command)
    def run(*args: Any, as_json: bool = False, plain: bool = False, **options: Any) -> None:
        output = Output(as_json=as_json, plain=plain)
        try:
            command(output, *args, **options)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            output.errors.print(Text("interrupted"))
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            report(error, output, command=command.__name__.rstrip("_").replace("_", "-"))
            raise typer.Exit(exit_code(error)) from None

    signature = inspect.signature(command, eval_str=True)
    given = [parameter for parameter in signature.parameters.values() if parameter.name != "output"]
    for name, annotation in (("as_json", AsJson), ("plain", Plain)):
        given.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation))
    run.__signature__ = signature.replace(parameters=given)  # type: ignore[attr-defined] # what typer reads
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in given}
    return run


def report(error: Exception, output: Output, *, command: str = "", with_document: bool = True) -> None:
    """Print an error on stderr, with --json as a document on stdout too, unless one is there already."""
    message, next_step = _words(error)
    _tell(output, type(error).__name__, message, next_step or _general_advice(error, command), with_document)


def save(output: Output, path: Path, content: str | bytes, what: str) -> None:
    """Write a file of a command that has printed its results already, and say where it is, or why it is not there."""
    if problem := try_write(path, content):
        report(problem, output, with_document=False)
        raise typer.Exit(LACKING)
    output.show(f"{what}: ", (str(path), "bold"))


def try_write(path: Path, content: str | bytes) -> errors.OutputError | None:
    """Write a file and return what went wrong."""
    try:
        write_file(path, content)
    except errors.OutputError as error:
        return error
    return None


def report_usage(error: Any, output: Output) -> int:
    """Print what the command line's parser found wrong, with an example of the command; return the exit code."""
    context = getattr(error, "ctx", None)
    asked = [part for part in (context.command_path if context else "").split() if part != "-m"][1:]
    name = " ".join(["warpschool", *[part for part in asked if part != "warpschool"]])
    help_text = (getattr(context.command, "help", "") if context else "") or ""
    _, _, example = help_text.partition("Example: ")
    more = f"{name} --help tells what there is."
    advice = f"For example: {' '.join(example.split())}   ({more})" if example else more
    _tell(output, type(error).__name__, error.format_message(), advice, True)
    return int(error.exit_code)


def _tell(output: Output, kind: str, message: str, next_step: str, with_document: bool) -> None:
    if with_document:
        output.data({"error": {"kind": kind, "message": message, "next_step": next_step}})
    lines = message.splitlines() or [kind]
    shown = lines[:_MAX_LINES]
    output.errors.print(Text.assemble(("error: ", "bold red"), (shown[0], "bold")), soft_wrap=True)
    for line in shown[1:]:
        output.errors.print(Text(line), soft_wrap=True)
    if len(lines) > _MAX_LINES:
        output.errors.print(Text(f"... and {len(lines) - _MAX_LINES} more lines"))
    if next_step:
        output.errors.print(Text.assemble(("next: ", "bold cyan"), next_step), soft_wrap=True)


def _general_advice(error: Exception, command: str) -> str:
    """What to do about an error that says nothing more special."""
    if isinstance(error, errors.GradingError):
        return "Please report it: the grader is at fault, not the kernel."
    advice = {
        FAILED: "Mend the kernel, and run the same command again.",
        LACKING: "warpschool doctor says what this machine can do.",
    }
    return advice.get(exit_code(error), f"{f'warpschool {command}'.strip()} --help tells how it is meant.")


def _is_installation(error: BaseException) -> bool:
    """Whether a package that warpschool depends on is missing, or does not load."""
    return isinstance(error, ImportError) and not (error.name or "warpschool").startswith("warpschool")


def _words(error: Exception) -> tuple[str, str]:
    """(what happened, what to do next)."""
    if isinstance(error, errors.WarpschoolError):
        return error.message, error.next_step
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}", advice_on(error)
    if _is_installation(error):
        again = "Install it anew: pip install --upgrade --force-reinstall warpschool"
        return f"the installation is damaged: {error}", f"{again} (in a checkout: make clean, and remove .venv)"
    if os.environ.get("WARPSCHOOL_TRACEBACK"):
        traceback.print_exception(error, file=sys.stderr)
    what = f"warpschool itself failed: {type(error).__name__}: {error}"
    return what, "Please report it, with the output of the same command after: export WARPSCHOOL_TRACEBACK=1"
