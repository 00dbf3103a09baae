"""`warpschool debug`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warpschool.cli.failures import FAILED, guarded
from warpschool.cli.files import read_source
from warpschool.cli.options import AsJson, Plain, read_numbers
from warpschool.cli.output import Output
from warpschool.errors import ArgumentError

if TYPE_CHECKING:
    from warpschool.inspect.debugger import Recording
    from warpschool.inspect.debugger.shell import Debugger, Reply


@guarded
def debug(
    file: Annotated[
        str, typer.Argument(metavar="FILE.cu", help="A kernel file, or a step: your file for it is taken.")
    ],
    size: Annotated[
        list[str] | None, typer.Option("--size", "-s", metavar="NAME=N", help="A size or scalar; repeat it.")
    ] = None,
    constant: Annotated[
        list[str] | None, typer.Option("--constant", "-c", metavar="NAME=N", help="Another value for a constexpr int.")
    ] = None,
    block: Annotated[
        str | None, typer.Option(metavar="N|X,Y,Z", help="Which block; without it, that of the first hazard.")
    ] = None,
    warp: Annotated[int | None, typer.Option(metavar="N", help="Which warp of the block.")] = None,
    launch: Annotated[int | None, typer.Option(metavar="N", help="Which launch of the file, counted from 0.")] = None,
    commands: Annotated[
        str | None, typer.Option(metavar="'A; B'", help="Commands to run, then leave; without it they are read.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random inputs.")] = 0,
    as_json: AsJson = False,
    plain: Plain = False,
) -> None:
    """Step one warp through a kernel, line by line, forwards and backwards, and look at its variables lane by lane.

    The kernel is compiled for debugging and one block of it runs in the interpreter; every step is recorded. Commands
    come from the terminal, from --commands, or from standard input; `help` inside lists them.

    Example: warpschool debug kernels/lab02_tiling/01_tiled.cu --commands "break 19; continue; print row; lanes"
    """
    output = Output(as_json=as_json, plain=plain)
    sizes = read_numbers(size or (), option="--size")
    constants = {name: int(n) for name, n in read_numbers(constant or (), option="--constant", integers=True).items()}
    record = _recorder(output, _kernel(file), sizes, constants, launch, seed)
    recording = record(_block(block), warp)
    from warpschool.inspect.debugger.shell import Debugger

    debugger = Debugger(recording, record)
    asks = commands is None and not as_json and sys.stdin.isatty()
    output.show(str(recording), style="bold")
    if recording.note:
        output.show(recording.note)
    if recording.findings:
        output.show(f"The simulator found {len(recording.findings)} hazards: `hazards` lists them.")
    if asks:
        output.show("`help` lists the commands.", style="dim")
    output.show(debugger.where().text)
    replies = _talk(output, debugger, commands.split(";") if commands is not None else _lines(debugger, asks=asks))
    output.data(_document(recording, replies))
    if commands is not None and any(reply.failed for _, reply in replies):
        raise typer.Exit(FAILED)


def _talk(output: Output, debugger: Debugger, commands: Any) -> list[tuple[str, Reply]]:
    replies = []
    for text in commands:
        reply = debugger.execute(text)
        replies.append((text.strip(), reply))
        if reply.leave:
            break
        if reply.text:
            output.show(reply.text, style="red" if reply.failed else "")
    return replies


def _lines(debugger: Debugger, *, asks: bool) -> Iterator[str]:
    """Commands as they come: asked for in a terminal, else the lines of standard input."""
    if not asks:
        for line in sys.stdin:
            if line.strip() and not line.startswith("#"):
                yield line
        return
    import contextlib

    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - importing it gives input() history and editing
    while True:
        try:
            yield input(debugger.prompt)
        except EOFError:
            return


def _recorder(
    output: Output, kernel: Any, sizes: dict[str, int | float], constants: dict[str, int], launch: int | None, seed: int
) -> Callable[[Any, int | None], Recording]:
    from warpschool.inspect.debugger import trace

    def record(block: Any, warp: int | None) -> Recording:
        with output.progress(1) as steps:
            steps.start("recording")
            return trace(
                kernel, sizes, block=block, warp=warp, launch=launch, constants=constants, seed=seed,
                progress=lambda count: steps.say(f"{count:,} steps"),
            )  # fmt: skip

    return record


def _kernel(file: str) -> Any:
    """The contract of the named file, or of one's own file for the named step."""
    from warpschool.harness.source import resolve

    return resolve(file, otherwise="Name a file: warpschool debug FILE.cu", read=read_source).contract()


def _block(text: str | None) -> int | tuple[int, ...] | None:
    if text is None:
        return None
    numbers = text.strip("()").replace(",", " ").split()
    if not numbers or len(numbers) > 3 or not all(number.isdigit() for number in numbers):
        raise ArgumentError(f"--block {text}: expected a number, or x,y,z", next_step="For example: --block 1,2")
    return int(numbers[0]) if len(numbers) == 1 else tuple(map(int, numbers))


def _document(recording: Recording, replies: list[tuple[str, Reply]]) -> dict[str, Any]:
    return {
        "kernel": recording.kernel, "file": recording.contract.name, "block": recording.block, "warp": recording.warp,
        "steps": len(recording), "ended": recording.ended, "note": recording.note,
        "hazards": [{"kind": h.kind, "line": h.line, "message": h.message} for h in recording.findings],
        "replies": [{"command": c, "failed": r.failed, "text": r.text, "data": r.data} for c, r in replies],
    }  # fmt: skip
