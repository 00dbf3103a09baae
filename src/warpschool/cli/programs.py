"""Commands for whole programs: `run`, `nvcc`."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.text import Text
from typer.core import TyperCommand

from warpschool.atomic import write_file
from warpschool.cli.options import ForGpu, require_writable_target
from warpschool.cli.output import INTERRUPTED, Output, guarded
from warpschool.errors import ArgumentError

if TYPE_CHECKING:
    from warpschool.programs import Note, ProgramReport

PARSER = "parser"
"""The attribute of a command that reads its words in a way of its own."""
_SHOWN = 20
_COMPILER = re.compile(
    r"-[IDULl].*|-O[0-9sfg]?|--?std(=.*)?|-X\w+=?.*|-W.*|-rdc(=.*)?|-dc|-m\w+|--?maxrregcount(=.*)?|--?use_fast_math|-ftz=.*|"
    r"-G|-g|-w|-x|-prec-\w+=.*|-fmad=.*|--?extended-lambda|-expt-.*|--expt-.*|-include=?.*|-isystem|--?default-stream(=.*)?|"
    r"-f\w.*|--(compiler|linker|ptxas)-options(=.*)?|--relocatable-device-code(=.*)?|-diag-suppress.*|--?threads=.*|"
    r"--?(gencode|arch|gpu-architecture|code|gpu-code|cudart|ccbin|generate-code|compiler-bindir)(=.*)?|-c"
)


class ProgramCommand(TyperCommand):
    """Takes the compiler's options as the compiler does, and all that follows `--` for the program."""

    def parse_args(self, context: Any, words: list[str]) -> list[str]:
        ours, program = words, []
        if "--" in words:
            cut = words.index("--")
            ours, program = words[:cut], words[cut + 1 :]
        return super().parse_args(context, [*compiler_words(ours), *(f"--argument={word}" for word in program)])


class CompilerCommand(TyperCommand):
    """Takes every word as it is."""

    def parse_args(self, context: Any, words: list[str]) -> list[str]:
        return super().parse_args(context, words if words in (["--help"], ["-h"]) else ["--", *words])


def compiler_words(words: list[str]) -> list[str]:
    """Options of the compiler as values of --compiler; architectures and such are chosen here, and left out."""
    from warpschool.programs.build import WITH_VALUE
    from warpschool.programs.wrapper import REPLACED

    found, rest = [], iter(words)
    for word in rest:
        name = word.partition("=")[0]
        if word.startswith("--arch=compute_") or word == "--arch" or not _COMPILER.fullmatch(word):
            found.append(word)  # --arch is ours
            continue
        pair = [word]
        if (word in WITH_VALUE or word in REPLACED) and (value := next(rest, None)) is not None:
            pair.append(value)
        if name not in REPLACED and word not in ("-c", "-dc"):
            found += [f"--compiler={part}" for part in pair]
        elif word == "-dc":
            found.append("--compiler=-rdc=true")
    return found


@guarded
def run(
    output: Output,
    files: Annotated[
        list[Path], typer.Argument(metavar="PROGRAM.cu...", help="The program's files: .cu, .cpp, .c, .o.")
    ],
    gpu: ForGpu = "a100",
    arch: Annotated[str, typer.Option(metavar="compute_NN", help="Compile for this architecture.")] = "",
    profile: Annotated[
        bool, typer.Option("--profile", help="Tables of kernels and copies with predicted times.")
    ] = False,
    counters: Annotated[bool, typer.Option("--counters", help="What each kernel counted.")] = False,
    record: Annotated[
        bool,
        typer.Option("--record", help="Keep what each kernel was launched with, for profile, predict and debug."),
    ] = False,
    debug: Annotated[
        int | None,
        typer.Option("--debug", metavar="LINE", help="Then step through the kernel that has this line, from there on."),
    ] = None,
    leaks: Annotated[bool, typer.Option(help="Memory that is never freed is a finding.")] = True,
    compiler: Annotated[
        list[str] | None, typer.Option("--compiler", metavar="OPTION", help="An option of nvcc; -O2 alone does, too.")
    ] = None,
    argument: Annotated[list[str] | None, typer.Option("--argument", hidden=True)] = None,
) -> None:
    """Build and run a whole CUDA program, host code included, without a GPU; say what is wrong in it.

    Options of nvcc (-I, -D, -std=, -O, -l ...) are given as to nvcc, the program's own arguments behind `--`. The
    program runs as you, with all that you may do. Its exit code is the command's; 1 where it ended well and something
    was found. With --debug the first kernel that has the line runs again with random inputs of the launch's sizes, and
    is stepped through as by `warpschool debug`.

    Example: warpschool run vector_add.cu -O2 -- 1000
    """
    from warpschool.cli.look import debug_line
    from warpschool.programs import build, run_program

    if any(path.suffix == ".py" for path in files):
        raise ArgumentError(f"{files[0]} is no CUDA program")
    try:
        built = build(files, compiler or (), arch=arch or _arch_of(gpu))
    except KeyboardInterrupt:
        output.errors.print(Text("interrupted"))
        _leave()
    if built.log and not built.cached:
        output.errors.print(Text(built.log), soft_wrap=True)
    record = record or debug is not None
    report = run_program(built.path, argument or (), gpu=gpu, capture=output.as_json, leaks=leaks, record=record)
    if debug is None:
        output.data(report.to_dict())
    if not output.as_json:
        draw_report(output, report, profile=profile, counters=counters)
    if record:
        for path in files:
            _keep_launches(output, path, report)
    if report.interrupted:
        _leave()
    if debug is not None:
        debug_line(output, str(files[0]), debug)
        return
    raise typer.Exit(report.exit_code)


setattr(run, PARSER, ProgramCommand)


def _leave() -> NoReturn:
    """After Ctrl-C: nobody waits for a kernel that goes on in its thread, or for Python to tidy up."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def _keep_launches(output: Output, path: Path, report: ProgramReport) -> None:
    from warpschool.harness.source import recorded_launches

    header = _header(output, path, report)
    if header:
        place = recorded_launches(path)
        write_file(place, header)
        output.show("launches kept: ", (str(place), "bold"), f"; look at them with: warpschool profile {path}")


def _header(output: Output, path: Path, report: ProgramReport) -> str:
    """The header for the kernels of a file, "" where it has none; says which are left out, and why."""
    from warpschool.harness.source import read_text
    from warpschool.programs.adopt import header_of

    if path.suffix not in (".cu", ".cuh"):
        return ""
    found = header_of(read_text(path), report.records, name=path.name)
    for kernel, reason in found.left_out.items():
        output.show(f"{path}: {kernel} is left out: {reason}", style="yellow")
    return "".join(f"{line}\n" for line in found.lines)


@guarded
def adopt(
    output: Output,
    file: Annotated[Path, typer.Argument(metavar="PROGRAM.cu", help="A program with its main.")],
    to: Annotated[Path | None, typer.Option("--to", metavar="FILE.cu", help="Where the kernel file goes.")] = None,
    compiler: Annotated[
        list[str] | None, typer.Option("--compiler", metavar="OPTION", help="An option of nvcc; -O2 alone does, too.")
    ] = None,
    argument: Annotated[list[str] | None, typer.Option("--argument", hidden=True)] = None,
) -> None:
    """Make a kernel file of a program: it runs once, and its launches become Entry, Launch and Usual lines.

    The new file is the program with a header in front, PROGRAM_kernels.cu beside it; the program stays as it is. What
    profile, predict, debug and the notebooks can do with a kernel file they can do with that one.

    Example: warpschool adopt vector_add.cu -- 1000
    """
    from warpschool.harness.source import read_text
    from warpschool.programs import build, run_program

    target = to or file.with_name(f"{file.stem}_kernels.cu")
    require_writable_target(target)
    if target.exists():
        raise ArgumentError(f"{target} exists", next_step="Name another file with --to, or remove that one.")
    text = read_text(file)
    built = build([file], compiler or ())
    report = run_program(built.path, argument or (), capture=output.as_json, leaks=False, record=True)
    header = _header(output, file, report)
    output.data({"file": str(target) if header else None, "header": header, "run": report.to_dict()})
    if not header:
        raise ArgumentError(f"{file}: no kernel of this file was launched", next_step="What a kernel got is not known.")
    title = f"// {target.name}: the kernels of {file.name}, with what it launched them with.\n"
    write_file(target, title + header + "\n" + text)
    output.show("written: ", (str(target), "bold"), f"; look at it with: warpschool profile {target}")


setattr(adopt, PARSER, ProgramCommand)


@guarded
def nvcc(
    output: Output,
    words: Annotated[list[str] | None, typer.Argument(metavar="OPTIONS FILES", help="As for nvcc.")] = None,
) -> None:
    """Compile and link as nvcc does, for the simulator: `make NVCC="warpschool nvcc"`, then run the program as it is.

    Architectures and the CUDA runtime library are replaced. The program starts its simulator by itself and tells at its
    end what was wrong; `warpschool run` is not needed. WARPSCHOOL_GPU names the GPU. For CMake there is the single word
    warpschool-nvcc: cmake -DCMAKE_CUDA_COMPILER=$(which warpschool-nvcc) -DCMAKE_CUDA_ARCHITECTURES=80 ...

    Example: warpschool nvcc -O2 -o prog main.cu kernels.cu
    """
    import subprocess

    from warpschool.programs.wrapper import nvcc_command

    raise typer.Exit(subprocess.run(nvcc_command(words or ())).returncode)


setattr(nvcc, PARSER, CompilerCommand)


def is_program(text: str) -> bool:
    """Whether a file has a main of its own."""
    return bool(re.search(r"^\s*(?:int|auto|void)\s+main\s*\(", text, re.MULTILINE))


def compare(output: Output, first: Path, second: Path) -> None:
    """Runs two programs and shows what their kernels count and take, side by side."""
    from warpschool.programs import build, run_program
    from warpschool.show import programs as words

    reports = [run_program(build([path]).path, capture=True) for path in (first, second)]
    a, b = reports
    output.data({"a": {"file": str(first), **a.to_dict()}, "b": {"file": str(second), **b.to_dict()}})
    for table in words.compared(a, b, (str(first), str(second))):
        output.show()
        output.table(table)
    output.show("They print the same." if a.output == b.output else "They print different things.", style="bold")
    for path, report in zip((first, second), reports, strict=True):
        if report.notes:
            output.show(f"{path}: {words.footer(report)}; warpschool run {path} tells them", style="yellow")
    output.show(words.PREDICTED, style="dim")


def _arch_of(gpu: str) -> str:
    """What to compile for: the GPU's own architecture from 8.0 on, so that clusters are there where it has them."""
    from warpschool.model import find_gpu

    major, minor = find_gpu(gpu).capability
    return f"compute_{major}{minor}" if (major, minor) in ((8, 6), (8, 9), (9, 0)) else "compute_80"


def draw_report(output: Output, report: ProgramReport, *, profile: bool = False, counters: bool = False) -> None:
    """The account, on stderr: what the program writes stays alone on stdout."""
    from warpschool.show import programs as words

    output.console = output.errors
    output.plain = not output.is_live
    for note in report.notes[:_SHOWN]:
        _draw_note(output, note)
    if len(report.notes) > _SHOWN:
        output.show(f"... and {len(report.notes) - _SHOWN} more findings: --json lists all")
    if profile:
        output.show()
        output.table(words.kernel_table(report))
        output.table(words.copy_table(report))
    if counters:
        for table in words.counter_tables(report):
            output.show()
            output.table(table)
    output.show(words.footer(report), style="dim")
    if profile or report.timed:
        output.show(words.PREDICTED, style="dim")


def _draw_note(output: Output, note: Note) -> None:
    from warpschool.cli.draw import draw_hazard, draw_place
    from warpschool.show import programs as words

    in_kernel = f" in {note.kernel}" if note.kernel else ""
    output.show()
    output.show((f"{note.kind}{in_kernel}", "bold red"))
    file, line = words.source_place(note)
    source = words.read_source(file) if file else ""
    if note.finding is not None and note.kind == note.finding.kind and source:
        draw_hazard(output, source, note.finding)
    elif source:
        draw_place(output, source, line, words.sentence(note), file)
    else:
        output.show(f"    {words.sentence(note)}")
    for text in words.places(note):
        output.show(f"    {text}")
    if advice := words.advice(note):
        output.show("    ", ("next: ", "bold cyan"), advice)
