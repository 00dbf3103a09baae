"""`warpschool bench`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from warpschool.cli.failures import FAILED, OK, guarded
from warpschool.cli.options import AsJson, Plain
from warpschool.cli.output import Output
from warpschool.errors import ArgumentError, ToolMissing
from warpschool.suggest import did_you_mean


@guarded
def bench(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A benchmark; without it, a list.")] = None,
    options: Annotated[list[str] | None, typer.Argument(metavar="[-- OPTIONS]", help="The benchmark's own.")] = None,
    tune: Annotated[bool, typer.Option("--tune", help="Search the last GEMM step's tiles for this GPU.")] = False,
    as_json: AsJson = False,
    plain: Plain = False,
) -> None:
    """Run one of the repository's benchmarks: the simulator's speed, or the GPU against NVIDIA's libraries.

    Example: warpschool bench simulator -- --size 256, or: warpschool bench --tune
    """
    output = Output(as_json=as_json, plain=plain)
    found = benchmarks()
    if tune:
        name, options = name or "gemm", ["--tune", *(options or ())]
    if name is None:
        output.data({"benchmarks": sorted(found)})
        for known, path in sorted(found.items()):
            output.show(f"{known:14} {_purpose(path)}")
        return
    if name not in found:
        raise ArgumentError(f"there is no benchmark '{name}'", next_step=did_you_mean(name, found))
    command = [sys.executable, str(found[name]), *(options or ())]
    if not as_json:
        raise typer.Exit(FAILED if subprocess.run(command, check=False).returncode else OK)
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures.json"
        done = subprocess.run([*command, "--json", str(figures)], check=False, stdout=sys.stderr)
        if done.returncode or not figures.is_file():
            raise typer.Exit(FAILED)
        output.data(figures.read_text(encoding="utf-8"))


def benchmarks() -> dict[str, Path]:
    """The checkout's benchmarks by name. Raises ToolMissing where there are none."""
    from warpschool.course import checkout_root

    root = checkout_root()
    folder = root / "benchmarks" if root else None
    # a helper of theirs has no command line of its own
    scripts = sorted(folder.glob("[a-z]*.py")) if folder else []
    found = {path.stem: path for path in scripts if "argparse" in path.read_text(encoding="utf-8")}
    if not found:
        raise ToolMissing("no benchmarks are here", next_step="Clone the repository and run: make bench")
    return found


def _purpose(path: Path) -> str:
    """The first line of a script's docstring."""
    return path.read_text(encoding="utf-8").lstrip("#! \n").split('"""')[1].strip().splitlines()[0]
