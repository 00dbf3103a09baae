"""`warpschool tour`."""

from __future__ import annotations

import importlib.metadata
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from warpschool.cli.failures import FAILED, INTERRUPTED, LACKING, guarded, report
from warpschool.cli.files import require_writable_target, try_write
from warpschool.cli.options import AsJson, DeviceChoice, ForGpu, OnDevice, Plain
from warpschool.cli.output import Cell, Output, Steps

if TYPE_CHECKING:
    from warpschool.model import GpuSpec
    from warpschool.tour import Mistake, Tour, TourPlan, TourStep

_NUMBERS = ("load\neff.", "bank\nconflicts", "data\nreuse", "FMA\nshare", "regs", "occu-\npancy", "time", "of\ncuBLAS")


@guarded
def tour(
    every_step: Annotated[bool, typer.Option("--all", help="Run every finished step, not one for each lab.")] = False,
    device: OnDevice = DeviceChoice.auto,
    gpu: ForGpu = "rtx2080ti",
    html: Annotated[Path, typer.Option("--html", metavar="FILE", help="Where the page goes.")] = Path("tour.html"),
    as_json: AsJson = False,
    plain: Plain = False,
) -> None:
    """Run the course's own kernels: answers, counters, a caught mistake, and a page with all of it.

    One step of each lab, the furthest of its ladder, at the case that it is graded on: on the simulator, and on a GPU
    too if there is one. Ctrl-C ends the tour early and keeps what is done.

    Example: warpschool tour --all --html report.html
    """
    from warpschool import model
    from warpschool.tour import Tour, plan_tour

    output = Output(as_json=as_json, plain=plain)
    require_writable_target(html)
    spec = model.find_gpu(gpu)
    start = time.perf_counter()
    plan = plan_tour(every_step=every_step, device=device)
    steps, mistake, interrupted = _walk(output, plan, gpu)
    result = Tour(
        steps=tuple(steps), planned=len(plan.steps), mistake=mistake, gpu=spec.name, interrupted=interrupted,
        roofline_gpu=_roofline_gpu(spec, plan.on_gpu),
        device=_device_name(plan.on_gpu), environment=_environment(), left_out=plan.left_out,
        seconds=time.perf_counter() - start,
    )  # fmt: skip
    _finish(output, result, html)


def _walk(output: Output, plan: TourPlan, gpu: str) -> tuple[list[TourStep], Mistake | None, bool]:
    """Run the plan with a progress display: (steps, mistake, whether Ctrl-C ended it)."""
    from warpschool.tour import TourStep, run_tour

    steps: list[TourStep] = []
    mistake: Mistake | None = None
    try:
        with output.progress(len(plan.steps)) as progress:
            progress.start(plan.steps[0].name)
            for found in run_tour(plan, gpu=gpu, say=progress.say):
                if isinstance(found, TourStep):
                    steps.append(found)
                    _announce(progress, found, [step.name for step in plan.steps])
                else:
                    mistake = found
    except KeyboardInterrupt:
        return steps, mistake, True
    return steps, mistake, False


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


def _announce(progress: Steps, step: TourStep, names: list[str]) -> None:
    seconds = f" ({step.report.seconds:.1f} s)" if step.report else ""
    progress.done(Text.assemble(step.step, ": ", _verdict(step), seconds))
    progress.start(names[progress.finished] if progress.finished < len(names) else "")


def _verdict(step: TourStep) -> Text:
    return Text("right", style="bold green") if step.right else Text(str(step.verdict), style="bold red")


def _show_table(output: Output, tour: Tour) -> None:
    heads = ["step", "right?", *(_NUMBERS if tour.on_gpu else _NUMBERS[:-2])]
    output.show()
    output.table(heads, [_row(step, on_gpu=tour.on_gpu) for step in tour.steps], numbers=_NUMBERS)
    times = f"times on {tour.device}" if tour.on_gpu else "time is measured on a GPU only, and none was used"
    output.show(f"Occupancy on a {tour.gpu}; {times}.", style="dim")


def _row(step: TourStep, *, on_gpu: bool) -> list[Cell]:
    from warpschool.show.columns import percent, short, times
    from warpschool.show.tour_page import gpu_share, gpu_time

    report = step.report
    if report is None:
        row: list[Cell] = [step.short_name, _verdict(step), *["-"] * 6]
    else:
        counters, occupancy = report.counters, report.occupancy
        conflicts = counters.shared_bank_conflicts
        row = [
            step.short_name, _verdict(step), percent(counters.global_load_efficiency),
            Text(short(conflicts), style="yellow" if conflicts else ""), times(counters.data_reuse),
            percent(counters.fma_share) if counters.fma_instructions else "-",
            str(report.registers) if report.registers is not None else "-",
            percent(occupancy.fraction) if occupancy else "-",
        ]  # fmt: skip
    return [*row, gpu_time(step), gpu_share(step)] if on_gpu else row


def _show_mistake(output: Output, mistake: Mistake) -> None:
    from warpschool.cli.draw import draw_finding

    output.heading(f"A mistake, caught: {mistake.name} without the barrier of line {mistake.removed_line}")
    if mistake.hazard is None:
        output.show(("nothing was reported: the race was missed", "bold red"))
        return
    draw_finding(output, mistake.source, mistake.hazard.line, f"{mistake.hazard.kind}: {mistake.hazard.message}")


def _roofline_gpu(asked: GpuSpec, on_gpu: bool) -> GpuSpec:
    """The GPU at hand, if its limits are known, so that measured times stand under their own roofs."""
    from warpschool.device import get_device
    from warpschool.errors import WarpschoolError

    try:
        return getattr(get_device("gpu"), "spec", asked) if on_gpu else asked
    except WarpschoolError:
        return asked


def _device_name(on_gpu: bool) -> str:
    from warpschool.device import get_device

    return get_device("gpu" if on_gpu else "sim").description


def _environment() -> dict[str, str]:
    """The versions that the figures depend on."""
    import warpschool
    from warpschool.compile import DEFAULT_ARCH, compiler_report

    return {
        "warpschool": warpschool.__version__, "NVRTC": str(compiler_report().get("nvrtc", "none")),
        "PTX for": DEFAULT_ARCH, "llvmlite": importlib.metadata.version("llvmlite"),
        "Python": platform.python_version(), "machine": platform.machine(),
    }  # fmt: skip
