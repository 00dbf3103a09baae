"""Commands that make one's own copy of the course and open it: `start` and `lab`."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpschool.cli.failures import INTERRUPTED, guarded
from warpschool.cli.options import AsJson, Plain
from warpschool.cli.output import Output
from warpschool.errors import ToolMissing

if TYPE_CHECKING:
    from warpschool.notebook.personal import CopyReport

DEFAULT_FOLDER = Path("my-warpschool")


@guarded
def start(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where your copy goes.")] = DEFAULT_FOLDER,
    as_json: AsJson = False,
    plain: Plain = False,
) -> None:
    """Make your own copy of the starters and notebooks; what you have edited is never overwritten.

    Run it again after an update: files that you have not touched are brought up to date; notebooks that you have edited
    get what the course has changed in other cells; otherwise the new version is put beside yours.

    Example: warpschool start ~/gpu-course
    """
    from warpschool.course import Course

    output = Output(as_json=as_json, plain=plain)
    report = _updated(output, folder)
    output.data(report.to_dict())
    _show(output, report)
    first = Course.find().steps()[0]
    output.show(
        f"Next: cd {folder}, open kernels/{first.lab}/{first.file_name}, and: warpschool check lab00/01 --watch"
    )


@guarded
def lab(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Your copy; by default the one around here, or a new one.")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open a browser.")] = True,
    port: Annotated[int | None, typer.Option(metavar="N", help="Port of the server, or the next free one.")] = None,
    ip: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 in a container that publishes the port.")] = "",
    update: Annotated[bool, typer.Option("--update/--no-update", help="Whether to bring your copy up to date.")] = True,
    as_json: AsJson = False,
    plain: Plain = False,
) -> None:
    """Open JupyterLab on your own copy of the course; makes the copy if there is none.

    An update never touches what you have edited: see warpschool start --help. With --json it says what it would run.

    Example: warpschool lab ~/gpu-course
    """
    output = Output(as_json=as_json, plain=plain)
    own = _own_copy(folder)
    if importlib.util.find_spec("jupyterlab") is None:
        raise ToolMissing("JupyterLab is not installed", next_step="Install it with: pip install 'warpschool[lab]'")
    command = [sys.executable, "-m", "jupyterlab", str(own.resolve())]
    command += [] if browser else ["--no-browser"]
    command += [] if port is None else [f"--port={port}"]
    command += [f"--ip={ip}"] if ip else []
    command += ["--allow-root"] if os.geteuid() == 0 else []  # in a container one is root as a rule
    report = _updated(output, own) if update or not own.exists() else None
    output.data({"copy": str(own.resolve()), "command": command, "update": report.to_dict() if report else None})
    if as_json:
        return
    if report is not None:
        _show(output, report)
    output.show(f"JupyterLab on {own}; Ctrl-C ends it. Begin with labs/lab00_first_kernels.")
    raise typer.Exit(_serve(command, own))


def _updated(output: Output, folder: Path) -> CopyReport:
    """Make the copy or bring it up to date; an interrupted one says how it is finished."""
    from warpschool.notebook.personal import update_copy

    try:
        return update_copy(folder)
    except KeyboardInterrupt:
        output.errors.print(f"interrupted: what is written stays, and this does the rest: warpschool start {folder}")
        raise typer.Exit(INTERRUPTED) from None


def _own_copy(folder: Path | None) -> Path:
    """The copy that is meant: the named folder, else the one around the working directory, else a new one there."""
    from warpschool.grading import personal_copy

    if folder is not None:
        return personal_copy(folder.resolve()) or folder
    return personal_copy(Path.cwd()) or DEFAULT_FOLDER


def _serve(command: list[str], own: Path) -> int:
    """Run JupyterLab until it ends; Ctrl-C goes to it, and it asks or ends itself."""
    from warpschool.notebook.jupyter import jupyter_path

    own_settings = {"WARPSCHOOL_COPY": str(own.resolve()), "JUPYTER_PATH": jupyter_path()}
    with subprocess.Popen(command, env=os.environ | own_settings) as server:
        while True:
            try:
                return server.wait()
            except KeyboardInterrupt:  # the server has got it too
                continue


def _show(output: Output, report: CopyReport) -> None:
    """What an update did, as a table of the files that it did something about."""
    from warpschool.notebook.personal import Fate

    if report.is_new:
        output.show(f"{report.folder}: your copy of the course, {len(report.files)} files.")
        return
    current = report.of(Fate.current)
    rows = [(file.path, file.fate.value, file.beside) for file in report.files if file.fate is not Fate.current]
    if rows:
        output.table(["file", "what happened", "new version"], rows)
        output.show(f"{report.folder}: {len(rows)} files in the table, {len(current)} as they were delivered.")
        return
    output.show(f"{report.folder}: up to date, {len(current)} files as they were delivered.")
