"""Exit codes, and what a command says when it fails: what, where, what next, on one screen and without a traceback."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from warpschool import errors
from warpschool.atomic import write_file
from warpschool.cli.output import Output

OK, FAILED, BAD_INPUT, LACKING = 0, 1, 2, 3
INTERRUPTED, BUG = 130, 70
EXIT_CODES = "Exit codes: 0 fine, 1 the kernel failed, 2 bad input, 3 this machine lacks something."
_MAX_LINES = 40

_KERNEL_FAILED = (errors.CompileError, errors.SimulationError, errors.DeviceFault, errors.LaunchError)
_MACHINE_LACKS = (
    errors.CompilerMissing, errors.DeviceUnavailable, errors.ToolMissing, errors.OutputError, errors.GradingError,
    errors.NotMeasured,
)  # fmt: skip


def exit_code(error: BaseException) -> int:
    """The exit code that an error stands for."""
    if isinstance(error, _KERNEL_FAILED):
        return FAILED
    if isinstance(error, _MACHINE_LACKS):
        return LACKING
    if isinstance(error, errors.WarpschoolError):
        return BAD_INPUT
    return LACKING if isinstance(error, OSError) or _is_installation(error) else BUG


def guarded(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn every exception of a command into a message and an exit code."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        output = Output(as_json=bool(options.get("as_json")), plain=bool(options.get("plain")))
        try:
            command(*args, **options)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            output.errors.print(Text("interrupted"))
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            report(error, output, command=command.__name__.rstrip("_").replace("_", "-"))
            raise typer.Exit(exit_code(error)) from None

    return run


def report(error: Exception, output: Output, *, command: str = "", with_document: bool = True) -> None:
    """Print an error on stderr, with --json as a document on stdout too, unless one is there already."""
    message, next_step = _words(error)
    _tell(output, type(error).__name__, message, next_step or _general_advice(error, command), with_document)


def save(output: Output, path: Path, content: str | bytes, what: str) -> None:
    """Write a file of a command that has printed its results already, and say where it is, or why it is not there."""
    problem = try_write(path, content)
    if problem:
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
    code = exit_code(error)
    if code == FAILED:
        return "Mend the kernel, and run the same command again."
    if code == LACKING:
        return "warpschool doctor says what this machine can do."
    return f"{f'warpschool {command}'.strip()} --help tells how it is meant."


def _is_installation(error: BaseException) -> bool:
    """Whether a package that warpschool depends on is missing, or does not load."""
    return isinstance(error, ImportError) and not (error.name or "warpschool").startswith("warpschool")


def _words(error: Exception) -> tuple[str, str]:
    """(what happened, what to do next)."""
    if isinstance(error, errors.WarpschoolError):
        return error.message, error.next_step
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}", "Free some space, or use another folder."
    if _is_installation(error):
        again = "Install it anew: pip install --upgrade --force-reinstall warpschool"
        return f"the installation is damaged: {error}", f"{again} (in a checkout: make clean, and remove .venv)"
    if os.environ.get("WARPSCHOOL_TRACEBACK"):
        traceback.print_exception(error, file=sys.stderr)
    what = f"warpschool itself failed: {type(error).__name__}: {error}"
    return what, "Please report it, with the output of the same command after: export WARPSCHOOL_TRACEBACK=1"
