"""The command table. Commands import what they need when they run, so that `--help` is quick."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated

import typer

from warpschool.cli import learn, look, programs, quiz, teach
from warpschool.cli.output import EXIT_CODES
from warpschool.version import __version__

app = typer.Typer(
    name="warpschool",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A lab course on GPU kernels that runs real CUDA C++ without a GPU.\n\n"
    "Begin with: warpschool tour, then warpschool start, then warpschool check lab00/01. In notebooks: warpschool lab.",
    epilog=EXIT_CODES,
)

LEARN, LOOK, TEACH = "Work on the labs", "Look at kernels and machines", "Teach"
PROGRAMS = "Run whole programs"


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"warpschool {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options before the command."""


def _help(command: Callable[..., None]) -> str:
    """The docstring with each paragraph on one line: the terminal's width breaks it, not the source's."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


for command, panel in (
    (look.tour, LOOK), (look.profile, LOOK), (look.predict, LOOK), (look.debug, LOOK), (look.doctor, LOOK),
    (look.bench, LOOK), (look.warm, LOOK), (programs.run, PROGRAMS), (programs.adopt, PROGRAMS),
    (programs.nvcc, PROGRAMS),
    (learn.start, LEARN), (learn.status, LEARN), (learn.check, LEARN), (learn.hint, LEARN), (learn.diff, LEARN),
    (learn.solution, LEARN), (learn.lab, LEARN), (quiz.quiz, LEARN),
    (teach.quickstart, TEACH), (teach.release, TEACH), (teach.import_, TEACH), (teach.grade, TEACH),
    (teach.alike, TEACH), (teach.rubric, TEACH), (teach.feedback, TEACH), (teach.export, TEACH),
    (teach.new_lab, TEACH),
):  # fmt: skip
    name = command.__name__.rstrip("_").replace("_", "-")
    text = _help(command)
    summary = text.partition("\n\n")[0]
    parser = getattr(command, programs.PARSER, None)
    app.command(name, cls=parser, help=text, short_help=summary, rich_help_panel=panel, epilog=EXIT_CODES)(command)
