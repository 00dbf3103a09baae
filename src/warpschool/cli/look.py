"""Commands that look at kernels and machines: `tour`, `profile`, `predict`, `debug`, `doctor`, `bench`."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from warpschool.cli.options import (
    CompilerChoice,
    Constants,
    DeviceChoice,
    ForGpu,
    OnDevice,
    Seed,
    Sizes,
    WithCompiler,
    read_constants,
    read_sizes,
    require_writable_target,
)
from warpschool.cli.output import FAILED, INTERRUPTED, LACKING, OK, Output, guarded, report, save, try_write
from warpschool.errors import ArgumentError, ToolMissing
from warpschool.show.table import Cell, Table
from warpschool.suggest import did_you_mean

if TYPE_CHECKING:
    from warpschool.clock.prediction import Prediction
    from warpschool.contract import Contract
    from warpschool.inspect.debugger import Recording
    from warpschool.inspect.debugger.shell import Debugger, Reply
    from warpschool.inspect.profile import LaunchReport
    from warpschool.tour import Mistake, Tour, TourStep

_NUMBERS = ("load\neff.", "bank\nconflicts", "data\nreuse", "FMA\nshare", "regs", "occu-\npancy")
_MEASURED, _PREDICTED = ("time", "of\ncuBLAS"), ("pre-\ndicted",)

# ---------------------------------------------------------------- tour


@guarded
def tour(
    output: Output,
    every_step: Annotated[bool, typer.Option("--all", help="Run every finished step, not one for each lab.")] = False,
    device: OnDevice = DeviceChoice.auto,
    compiler: WithCompiler = CompilerChoice.auto,
    gpu: ForGpu = "rtx2080ti",
    html: Annotated[Path, typer.Option("--html", metavar="FILE", help="Where the page goes.")] = Path("tour.html"),
) -> None:
    """Run the course's own kernels: answers, counters, a caught mistake, and a page with all of it.

    One step of each lab, the furthest of its ladder, at the case that it is graded on: on the simulator, and on a GPU
    too if there is one. Ctrl-C ends the tour early and keeps what is done.

    Example: warpschool tour --all --html report.html
    """
    from warpschool.model import find_gpu
    from warpschool.tour import plan_tour, take_tour

    require_writable_target(html)
    find_gpu(gpu)  # an unknown one is told before any work is done
    plan = plan_tour(every_step=every_step, device=device)
    names = [step.name for step in plan.steps]
    with output.progress(len(names), names[0]) as bar:

        def done(step: TourStep) -> None:
            verdict = ("right", "bold green") if step.right else (str(step.verdict), "bold red")
            seconds = f" ({step.report.seconds:.1f} s)" if step.report else ""
            bar.done(Text.assemble(step.step, ": ", verdict, seconds))
            bar.say("".join(names[bar.finished : bar.finished + 1]))

        def say(what: str) -> None:
            bar.say(": ".join([*names[bar.finished : bar.finished + 1], what]))

        found = take_tour(plan, gpu=gpu, say=say, done=done)
    _finish(output, found, html)


def _finish(output: Output, tour: Tour, html: Path) -> None:
    """Table, mistake, page; then the exit code."""
    from warpschool.show.tour import tour_page

    _show_table(output, tour)
    for step in tour.steps:
        if not step.right:
            output.heading(f"{step.step}: {step.verdict}")
            output.show(step.seen)
    if tour.mistake is not None:
        _show_mistake(output, tour.mistake)
    output.show()
    if tour.interrupted:
        output.errors.print(
            Text(f"interrupted: {len(tour.steps)} of {tour.planned} steps are done and kept", style="bold")
        )
    problem = try_write(html, tour_page(tour))
    output.data({**tour.to_dict(), "page": None if problem else str(html)})
    if problem:
        report(problem, output, with_document=False)
        raise typer.Exit(LACKING)
    output.show("The whole story, line by line: ", (str(html), "bold"), f" ({tour.seconds:.1f} s)")
    if tour.interrupted:
        raise typer.Exit(INTERRUPTED)
    if not tour.ok:
        raise typer.Exit(FAILED)


def _show_table(output: Output, tour: Tour) -> None:
    from warpschool.clock.cubin import has_disassembler
    from warpschool.show.tour import step_cells

    heads = ("step", "right?", *_NUMBERS, *(_MEASURED if tour.on_gpu else _PREDICTED))
    rows = tuple((step.short_name, *step_cells(step, on_gpu=tour.on_gpu)) for step in tour.steps)
    output.show()
    output.table(Table("", heads, rows, frozenset(heads[2:])))
    times = f"times on {tour.device}" if tour.on_gpu else "no GPU was used: times are predicted for an H200"
    if not tour.on_gpu and not has_disassembler():
        times += ", more of them with pip install 'warpschool[clock]'"
    output.show(f"Occupancy on a {tour.gpu}; {times}.", style="dim")


def _show_mistake(output: Output, mistake: Mistake) -> None:
    from warpschool.cli.draw import draw_hazard

    output.heading(f"A mistake, caught: {mistake.name} without the barrier of line {mistake.removed_line}")
    if mistake.hazard is None:
        output.show(("nothing was reported: the race was missed", "bold red"))
        return
    draw_hazard(output, mistake.source, mistake.hazard)


# ---------------------------------------------------------------- profile


Csv = Annotated[bool, typer.Option("--csv", help="As `ncu --page raw --csv` prints it, a row for each launch.")]
Emit = StrEnum("Emit", ["ptx", "lanes", "ir", "asm", "counters"])
"""What `--emit` prints instead of the report."""


@guarded
def profile(
    output: Output,
    file: Annotated[
        Path, typer.Argument(metavar="FILE.cu", help="A kernel file with a header (Entry and Launch lines).")
    ],
    size: Sizes = None,
    constant: Constants = None,
    gpu: ForGpu | None = None,
    compiler: WithCompiler = CompilerChoice.auto,
    seed: Seed = 0,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write the report as a page.")] = None,
    emit: Annotated[
        Emit | None,
        typer.Option(help="Print one stage: PTX, lane patterns, LLVM IR, host assembly; or the counters."),
    ] = None,
    as_csv: Csv = False,
) -> None:
    """Run any kernel file once on the simulator and show what each of its lines costs.

    Inputs are random. Sizes that are not given are 4096 for a kernel with one size, 128 for others. With --gpu
    follows what the clock predicts for that GPU, in Nsight Compute's sections. Occupancy without it: RTX 2080 Ti.

    Example: warpschool profile kernels/lab02_tiling/01_tiled.cu --size M=64 --size K=256 --constant TILE=8
    """
    from warpschool.harness.source import read_source
    from warpschool.inspect.profile import profile_source

    _require_one_form(output, as_csv=as_csv, emit=emit)
    if html is not None:
        require_writable_target(html)
    source = read_source(file)
    sizes, constants = read_sizes(size), read_constants(constant)
    if emit is not None and emit is not Emit.counters:
        _emit_code(emit, source, file.name, sizes, constants)
        return
    found = profile_source(source, sizes, name=file.name, constants=constants, gpu=gpu or "rtx2080ti", seed=seed)
    predicted = _predicted(file, sizes, constants, gpu) if gpu else None
    output.data(found.to_dict() | ({"prediction": predicted.to_dict()} if predicted else {}))
    if as_csv:
        _print_csv(gpu or "rtx2080ti", predicted, found.launches)
    elif emit is Emit.counters:
        output.show(str(found.counters))
    else:
        from warpschool.cli.draw import draw_prediction, draw_report

        draw_report(output, found)
        if predicted:
            draw_prediction(output, predicted, source)
    if html is not None:
        from warpschool.show.kernels import kernel_page

        save(output, html, kernel_page(found), "Page")
    if found.hazards:
        raise typer.Exit(FAILED)


def _require_one_form(output: Output, *, as_csv: bool, emit: Emit | None = None) -> None:
    """Raise ArgumentError where two forms of output are asked for."""
    asked = [name for name, wanted in (("--json", output.as_json), ("--csv", as_csv), ("--emit", emit)) if wanted]
    if len(asked) > 1:
        hint = "The counters are part of both --json and --csv."
        raise ArgumentError(f"{asked[0]} and {asked[1]} exclude each other", next_step=hint)


def _print_csv(gpu: str, predicted: Prediction | None, launches: Sequence[LaunchReport] = ()) -> None:
    from warpschool.model import find_gpu
    from warpschool.show.nsight_csv import raw_csv

    typer.echo(raw_csv(counted=launches, predicted=predicted, capability=find_gpu(gpu).capability), nl=False)


def _predicted(
    file: Path, sizes: dict[str, int | float], constants: dict[str, int], gpu: str
) -> Prediction | None:  # fmt: skip
    """The clock's prediction, where it knows the GPU and has what it needs."""
    from warpschool.clock.cubin import has_disassembler
    from warpschool.clock.machine import machines
    from warpschool.clock.prediction import predict_time
    from warpschool.model import find_gpu

    if find_gpu(gpu).key not in machines() or not has_disassembler():
        return None
    return predict_time(str(file), sizes, gpu=gpu, constants=constants)


def _emit_code(emit: Emit, source: str, name: str, sizes: dict[str, int | float], constants: dict[str, int]) -> None:
    from warpschool.inspect.profile import generated_code

    for title, text in generated_code(source, emit.value, sizes, name=name, constants=constants):
        comment = "//" if emit in (Emit.ptx, Emit.lanes) else ";" if emit is Emit.ir else "#"
        typer.echo(f"{comment} {title}\n{text.rstrip()}")


# ---------------------------------------------------------------- predict


@guarded
def predict(
    output: Output,
    file: Annotated[
        str, typer.Argument(metavar="FILE.cu", help="A kernel file, or a step: your file for it is taken.")
    ],
    size: Sizes = None,
    constant: Constants = None,
    gpu: Annotated[
        str,
        typer.Option(
            "--gpu",
            help="The machine: h200, h100; not validated here: a100, gtx1650laptop, rtx2080ti, rtx4090, t4.",
        ),
    ] = "h200",
    is_warm: Annotated[
        bool, typer.Option("--warm", help="L2 keeps what fits from a run before; without it nothing.")
    ] = False,
    as_csv: Csv = False,
) -> None:
    """Predict how long a kernel would take on a GPU, and what its warps would wait for, without a GPU.

    The kernel's machine code is followed on a model of one multiprocessor. Nothing needs to run first, so large sizes
    cost little. A prediction is no measurement; docs/reference/clock.md says how far it may be off. Machine code is
    NVIDIA's compiler's: with another one only the references have times, which the course carries, for an H200.

    Example: warpschool predict lab05/07 --size M=2048 --size N=2048 --size K=2048
    """
    from warpschool.cli.draw import draw_prediction
    from warpschool.clock.prediction import predict_time
    from warpschool.harness.source import resolve

    _require_one_form(output, as_csv=as_csv)
    contract = resolve(file, otherwise="Name a file: warpschool predict FILE.cu").contract()
    sizes, constants = read_sizes(size), read_constants(constant)
    found = predict_time(file, sizes, gpu=gpu, constants=constants, warm=is_warm)
    carried_us = None if found.us is not None or is_warm else _carried_us(contract, sizes, constants, gpu)
    output.data(found.to_dict() | ({} if carried_us is None else {"carried_us": carried_us}))
    if as_csv:
        _print_csv(gpu, found)
    else:
        output.show((found.case, "bold"))
        draw_prediction(output, found, contract.source)
        if carried_us is not None:
            output.show(f"This is a reference, whose time the course carries: {carried_us:.3g} us.")
    if found.us is None and carried_us is None:
        raise typer.Exit(FAILED)


def _carried_us(
    contract: Contract, sizes: Mapping[str, int | float], constants: Mapping[str, int], gpu: str
) -> float | None:
    """The time that the course carries of a reference at these sizes; None for any other kernel or machine."""
    from warpschool.clock.prediction import DEFAULT
    from warpschool.clock.shipped import shipped_us
    from warpschool.inspect.profile import usual_sizes
    from warpschool.model import find_gpu

    if find_gpu(gpu).key != DEFAULT:
        return None
    wanted = {**usual_sizes(contract, constants=constants), **sizes}
    return shipped_us(contract, contract.bind(wanted, constants=constants))


# ---------------------------------------------------------------- debug


@guarded
def debug(
    output: Output,
    file: Annotated[
        str, typer.Argument(metavar="FILE.cu", help="A kernel file, or a step: your file for it is taken.")
    ],
    size: Sizes = None,
    constant: Constants = None,
    block: Annotated[
        str | None, typer.Option(metavar="N|X,Y,Z", help="Which block; without it, that of the first hazard.")
    ] = None,
    warp: Annotated[int | None, typer.Option(metavar="N", help="Which warp of the block.")] = None,
    launch: Annotated[int | None, typer.Option(metavar="N", help="Which launch of the file, counted from 0.")] = None,
    commands: Annotated[
        str | None, typer.Option(metavar="'A; B'", help="Commands to run, then leave; without it they are read.")
    ] = None,
    seed: Seed = 0,
) -> None:
    """Step one warp through a kernel, line by line, forwards and backwards, and look at its variables lane by lane.

    The kernel is compiled for debugging and one block of it runs in the interpreter; every step is recorded. Commands
    come from the terminal, from --commands, or from standard input; `help` inside lists them.

    Example: warpschool debug kernels/lab02_tiling/01_tiled.cu --commands "break 19; continue; print row; lanes"
    """
    from warpschool.harness.source import resolve
    from warpschool.inspect.debugger.shell import Debugger

    sizes, constants = read_sizes(size), read_constants(constant)
    kernel = resolve(file, otherwise="Name a file: warpschool debug FILE.cu").contract()
    record = functools.partial(_record, output, kernel, sizes, constants, launch, seed)
    _step(output, Debugger(record(_block(block), warp), record), commands)


def debug_line(output: Output, file: str, line: int) -> None:
    """Steps through the first of a file's launches whose kernel has code in a line, from there on.

    Raises ArgumentError where no launch has.
    """
    from warpschool.harness.source import resolve
    from warpschool.inspect.debugger.shell import Debugger

    kernel = resolve(file, otherwise="Name a file.").contract()
    for number in range(len(kernel.launches)):
        record = functools.partial(_record, output, kernel, {}, {}, number, 0)
        debugger = Debugger(record(None, None), record)
        if not debugger.execute(f"break {line}").failed:
            debugger.execute("continue")
            _step(output, debugger, None)
            return
    raise ArgumentError(f"no kernel of {file} that was launched has code in line {line}")


def _step(output: Output, debugger: Debugger, commands: str | None) -> None:
    """Shows where a debugger is, and does what it is told."""
    recording = debugger.recording
    asks = commands is None and not output.as_json and sys.stdin.isatty()
    output.show(str(recording), style="bold")
    if recording.note:
        output.show(recording.note)
    if recording.findings:
        output.show(f"The simulator found {len(recording.findings)} hazards: `hazards` lists them.")
    if asks:
        output.show("`help` lists the commands.", style="dim")
    output.show(debugger.execute("where").text)
    replies = _talk(output, debugger, commands.split(";") if commands is not None else _lines(debugger, asks=asks))
    output.data(_document(recording, replies))
    if commands is not None and any(reply.failed for _, reply in replies):
        raise typer.Exit(FAILED)


def _talk(output: Output, debugger: Debugger, commands: Iterable[str]) -> list[tuple[str, Reply]]:
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
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - importing it gives input() history and editing
    while True:
        try:
            yield input(debugger.prompt)
        except EOFError:
            return


def _record(
    output: Output, kernel: Any, sizes: dict[str, int | float], constants: dict[str, int], launch: int | None,
    seed: int, block: Any, warp: int | None,
) -> Recording:  # fmt: skip
    from warpschool.inspect.debugger import trace

    with output.progress(1, "recording") as bar:
        return trace(
            kernel, sizes, block=block, warp=warp, launch=launch, constants=constants, seed=seed,
            progress=lambda count: bar.say(f"recording: {count:,} steps"),
        )  # fmt: skip


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


# ---------------------------------------------------------------- doctor


@guarded
def doctor(output: Output) -> None:
    """Say what this machine can do: compile, simulate, use a GPU, open notebooks, grade; and how to get the rest.

    Example: warpschool doctor
    """
    from warpschool.inspect.machine import abilities

    findings = abilities()
    broken = any(finding.state == "broken" for finding in findings)
    output.data({"ok": not broken, "findings": [asdict(finding) for finding in findings]})
    kinds = {"ok": "good", "no": "warn", "broken": "bad"}
    rows = tuple((f.what, Cell(f.state, kinds[f.state]), f.text) for f in findings)
    output.table(Table("", ("what", "state", "found"), rows))
    for finding in findings:
        if finding.next_step:
            output.show((f"{finding.what}: ", "bold"), finding.next_step)
    if broken:
        raise typer.Exit(LACKING)
    output.show("This machine can run the course.", style="bold")


# ---------------------------------------------------------------- warm


@guarded
def warm(
    output: Output,
    stop: Annotated[bool, typer.Option("--stop", help="Let them end, when the checks that run have.")] = False,
) -> None:
    """Say which warm processes wait: they hold loaded what your checks need, and end by themselves.

    The first check starts one. WARPSCHOOL_WARM=0 keeps checks from it.

    Example: warpschool warm --stop
    """
    from warpschool.warm import client

    found = client.stop() if stop else client.reports()
    output.data({"stopped": stop, "processes": found})
    rows = [
        (str(one["pid"]), f"{one['memory_bytes'] >> 20} MB", str(one["served"]), f"{one['waits_s'] / 60:.0f} min")
        for one in found
    ]
    if rows:
        output.table(Table("", ("process", "memory", "forks", "ends after"), tuple(rows)))
    output.show(f"{len(rows)} asked to end." if stop else f"{len(rows)} wait.", style="dim")


# ---------------------------------------------------------------- bench


@guarded
def bench(
    output: Output,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A benchmark; without it, a list.")] = None,
    options: Annotated[list[str] | None, typer.Argument(metavar="[-- OPTIONS]", help="The benchmark's own.")] = None,
    tune: Annotated[bool, typer.Option("--tune", help="Search the last GEMM step's tiles for this GPU.")] = False,
    by_prediction: Annotated[
        bool, typer.Option("--predict", help="With --tune: by predicted times, without a GPU.")
    ] = False,
) -> None:
    """Run one of the repository's benchmarks: the simulator's speed, or the GPU against NVIDIA's libraries.

    Example: warpschool bench simulator -- --size 256, or: warpschool bench --tune --predict 2048 2048 2048
    """
    found = benchmarks()
    if by_prediction:
        if not tune:
            raise ArgumentError("--predict goes with --tune", next_step="So: warpschool bench --tune --predict")
        sizes = [*filter(None, [name]), *(options or ())]
        name, options = "tune", sizes or ["2048", "2048", "2048"]
    elif tune:
        name, options = name or "gemm", ["--tune", *(options or ())]
    if name is None:
        output.data({"benchmarks": sorted(found)})
        for known, path in sorted(found.items()):
            output.show(f"{known:14} {_purpose(path)}")
        return
    if name not in found:
        raise ArgumentError(f"there is no benchmark '{name}'", next_step=did_you_mean(name, found))
    command = [sys.executable, str(found[name]), *(options or ())]
    if not output.as_json:
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
    scripts = sorted(root.glob("benchmarks/[a-z]*.py")) if root else []
    # a helper of theirs has no command line of its own
    found = {path.stem: path for path in scripts if "argparse" in path.read_text(encoding="utf-8")}
    if not found:
        raise ToolMissing("no benchmarks are here", next_step="Clone the repository and run: make bench")
    return found


def _purpose(path: Path) -> str:
    """The first line of a script's docstring."""
    return path.read_text(encoding="utf-8").lstrip("#! \n").split('"""')[1].strip().splitlines()[0]
