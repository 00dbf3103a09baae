"""`warpschool profile`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpschool.cli.failures import FAILED, LACKING, guarded, report
from warpschool.cli.files import read_source, require_writable_target, try_write
from warpschool.cli.options import AsJson, ForGpu, Plain, read_numbers
from warpschool.cli.output import Output
from warpschool.errors import ArgumentError

if TYPE_CHECKING:
    from warpschool.inspect.profile import KernelReport


class Emit(StrEnum):
    """What `--emit` prints instead of the report."""

    ptx = "ptx"
    lanes = "lanes"
    ir = "ir"
    asm = "asm"
    counters = "counters"


@guarded
def profile(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.cu", help="A kernel file with a header (Entry and Launch lines).")
    ],
    size: Annotated[
        list[str] | None, typer.Option("--size", "-s", metavar="NAME=N", help="A size or scalar; repeat it.")
    ] = None,
    constant: Annotated[
        list[str] | None, typer.Option("--constant", "-c", metavar="NAME=N", help="Another value for a constexpr int.")
    ] = None,
    gpu: ForGpu = "rtx2080ti",
    seed: Annotated[int, typer.Option(help="Seed of the random inputs.")] = 0,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write the report as a page.")] = None,
    emit: Annotated[
        Emit | None,
        typer.Option(help="Print one stage: PTX, lane patterns, LLVM IR, host assembly; or the counters."),
    ] = None,
    as_json: AsJson = False,
    plain: Plain = False,
) -> None:
    """Run any kernel file once on the simulator and show what each of its lines costs.

    Inputs are random. Sizes that are not given are 4096 for a kernel with one size, 128 for others.

    Example: warpschool profile kernels/lab02_tiling/01_tiled.cu --size M=64 --size K=256 --constant TILE=8
    """
    from warpschool.inspect.profile import profile_source

    output = Output(as_json=as_json, plain=plain)
    if as_json and emit:
        raise ArgumentError("--json and --emit exclude each other", next_step="The counters are part of --json.")
    if html is not None:
        require_writable_target(html)
    source = read_source(file)
    sizes = read_numbers(size or (), option="--size")
    constants = {name: int(n) for name, n in read_numbers(constant or (), option="--constant", integers=True).items()}
    if emit is not None and emit is not Emit.counters:
        _emit_code(emit, source, file.name, sizes, constants)
        return
    found = profile_source(source, sizes, name=file.name, constants=constants, gpu=gpu, seed=seed)
    output.data(found.to_dict())
    if emit is Emit.counters:
        output.show(str(found.counters))
    else:
        _show(output, found)
    if html is not None:
        from warpschool.show.kernels import kernel_page

        problem = try_write(html, kernel_page(found))
        if problem:
            report(problem, output, with_document=False)
            raise typer.Exit(LACKING)
        output.show("Page: ", (str(html), "bold"))
    if found.hazards:
        raise typer.Exit(FAILED)


def _show(output: Output, report: KernelReport) -> None:
    from warpschool.cli.draw import draw_report

    draw_report(output, report)


def _emit_code(emit: Emit, source: str, name: str, sizes: dict[str, int | float], constants: dict[str, int]) -> None:
    from warpschool.inspect.profile import generated_code

    for title, text in generated_code(source, emit.value, sizes, name=name, constants=constants):
        comment = "//" if emit in (Emit.ptx, Emit.lanes) else ";" if emit is Emit.ir else "#"
        typer.echo(f"{comment} {title}\n{text.rstrip()}")
