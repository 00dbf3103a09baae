"""Options and arguments that several commands share, and how their values are read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpschool.atomic import output_error
from warpschool.errors import ArgumentError

if TYPE_CHECKING:
    from warpschool.course import Course


DeviceChoice = StrEnum("DeviceChoice", ["auto", "sim", "gpu"])
"""Where kernels run."""

CompilerChoice = StrEnum("CompilerChoice", ["auto", "nvrtc", "clang"])
"""What makes PTX of a source."""


def _choose_compiler(choice: CompilerChoice) -> CompilerChoice:
    """Choose for this process and for all that it starts."""
    if choice != CompilerChoice.auto:
        os.environ["WARPSCHOOL_COMPILER"] = choice
    return choice


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Plain = Annotated[bool, typer.Option("--plain", help="Linear text: no colour, no redraws (as with NO_COLOR).")]
OnDevice = Annotated[
    DeviceChoice, typer.Option("--device", help="The simulator, the GPU, or the GPU where there is one.")
]
WithCompiler = Annotated[
    CompilerChoice,
    typer.Option(
        "--compiler", callback=_choose_compiler,
        help="NVRTC, clang (pip install 'warpschool[clang]'), or NVRTC where there is one.",
    ),
]  # fmt: skip
ForGpu = Annotated[str, typer.Option("--gpu", help="GPU for occupancy and bounds: rtx2080ti, t4, a100, h200 ...")]
StepName = Annotated[
    str, typer.Argument(metavar="STEP", help="lab02_tiling/01_tiled, or only lab02/01; warpschool status lists all.")
]
Sizes = Annotated[
    list[str] | None, typer.Option("--size", "-s", metavar="NAME=N", help="A size or scalar; repeat it.")
]
Constants = Annotated[
    list[str] | None, typer.Option("--constant", "-c", metavar="NAME=N", help="Another value for a constexpr int.")
]
Seed = Annotated[int, typer.Option(help="Seed of the random inputs.")]
CLUSTER = "Many submissions"
Workers = Annotated[
    int,
    typer.Option(
        "--workers", min=1, metavar="N", rich_help_panel=CLUSTER,
        help="Check so many kernels at once: processes of this machine, or with --slurm Slurm jobs.",
    ),
]  # fmt: skip
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler", metavar="ADDRESS", rich_help_panel=CLUSTER,
        help="Use the workers of a Dask scheduler that runs already, such as tcp://head:8786.",
    ),
]  # fmt: skip
Slurm = Annotated[
    bool,
    typer.Option("--slurm", rich_help_panel=CLUSTER, help="Start the workers as Slurm jobs: docs/teach/cluster.md."),
]
StoreFolder = Annotated[
    Path | None,
    typer.Option(
        "--store", metavar="DIR", rich_help_panel=CLUSTER,
        help="Keep finished results here; the same command takes them up again after any interruption.",
    ),
]  # fmt: skip
SecretFile = Annotated[
    Path | None,
    typer.Option(
        "--secret-seed-file", metavar="FILE", rich_help_panel=CLUSTER,
        help="Draw further sizes, and all data, from this file's text; keep it from students.",
    ),
]  # fmt: skip


Timing = Annotated[
    bool | None,
    typer.Option(
        "--time/--no-time",
        help="Time it beside the reference, for no points; without a GPU as predicted. Usual with --device gpu.",
    ),
]  # fmt: skip


def course() -> Course:
    """The course at hand; what reads it is imported only when a command needs it.

    Raises CourseError where the working directory lies in another one.
    """
    from warpschool.course import Course, require_no_other

    found = Course.find()
    require_no_other(found, Path.cwd())
    return found


def read_sizes(given: Sequence[str] | None) -> dict[str, int | float]:
    """The values of --size."""
    return _read_numbers(given or (), option="--size")


def read_constants(given: Sequence[str] | None) -> dict[str, int]:
    """The values of --constant, which are whole."""
    return {name: int(n) for name, n in _read_numbers(given or (), option="--constant", integers=True).items()}


def _read_numbers(given: Sequence[str], *, option: str, integers: bool = False) -> dict[str, int | float]:
    """Return NAME=NUMBER texts as a dict. Raises ArgumentError for anything else."""
    found: dict[str, int | float] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (equals and name.strip().isidentifier()):
            raise ArgumentError(f"{option} {text}: expected NAME=NUMBER", next_step=f"For example: {option} M=128")
        found[name.strip()] = _number(value.strip(), f"{option} {text}", integers)
    return found


def _number(text: str, where: str, only_integers: bool) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        raise ArgumentError(f"{where}: '{text}' is no number") from None
    if only_integers:
        raise ArgumentError(f"{where}: '{text}' is no whole number")
    return number


def require_writable_target(path: Path) -> None:
    """Raise ArgumentError or OutputError for a file that cannot be written, before any work is done for it."""
    if path.is_dir():
        raise ArgumentError(f"{path} is a folder", next_step="Name a file.")
    if path.exists() and not path.is_file():  # a file is replaced as a whole: /dev/null would be gone
        raise ArgumentError(f"{path} is no ordinary file", next_step="Name a file.")
    if not path.parent.is_dir():
        raise ArgumentError(f"there is no folder {path.parent}", next_step="Make it first, or name another file.")
    try:  # permission bits alone do not tell: root may write anywhere but into /proc, nobody on a read-only disk
        with tempfile.NamedTemporaryFile(prefix=f".{path.name}.", dir=path.parent):
            pass
    except OSError as error:
        raise output_error(f"cannot write {path}", error) from None
