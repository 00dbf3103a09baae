"""`warpschool tour` and `warpschool profile`."""

from __future__ import annotations

import platform
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from warpschool.cli.failures import EXIT_CODES, FAILED, INTERRUPTED, guarded
from warpschool.cli.files import read_source, require_writable_target, write_file
from warpschool.cli.options import AsJson, DeviceChoice, ForGpu, OnDevice, Plain, read_numbers
from warpschool.cli.output import Cell, Output, Steps
from warpschool.errors import OutputError


class Emit(StrEnum):
    """What `profile --emit` prints instead of the report."""

    ptx = "ptx"
    ir = "ir"
    asm = "asm"
    counters = "counters"


@guarded
def tour(
    every_step: Annotated[bool, typer.Option("--all", help="Run every finished step, not one for each lab.")] = False,
    device: OnDevice = DeviceChoice.auto,
    gpu: ForGpu = "rtx2080ti",
    html: Annotated[Path, typer.Option("--html", help="Where the page goes.")] = Path("tour.html"),
    as_json: AsJson = False,
    plain: Plain = False,
) -> None:
    """Run the course's own kernels on this machine: answers, counters, one caught mistake, and a page with all of it.

    One step of each lab, the furthest of its ladder, at the case it is graded on; on the simulator, and on a GPU if there
    is one. Ctrl-C ends the tour early and keeps what is done.

    Example: warpschool tour --all --html report.html
    """
    from warpschool import model
    from warpschool.tour import Mistake, Tour, TourStep, plan_tour, run_tour

    output = Output(as_json=as_json, plain=plain)
    require_writable_target(html)
    spec = model.find_gpu(gpu)
    start = time.perf_counter()
    plan = plan_tour(every_step=every_step, device=device)
    steps: list[TourStep] = []
    mistake: Mistake | None = None
    interrupted = False
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
        interrupted = True
    result = Tour(
        steps=tuple(steps), planned=len(plan.steps), mistake=mistake, gpu=spec.name, device=_device_name(plan.on_gpu),
        environment=_environment(), left_out=plan.left_out, interrupted=interrupted, seconds=time.perf_counter() - start,
    )  # fmt: skip
    _finish(output, result, html)


def _announce(progress: Steps, step, names: list[str]) -> None:  # noqa: ANN001 - TourStep, imported late
    seconds = f" ({step.report.seconds:.1f} s)" if step.report else ""
    progress.done(Text.assemble(step.step, ": ", _verdict(step), seconds))
    if progress.finished < len(names):
        progress.start(names[progress.finished])


def _verdict(step) -> Text:  # noqa: ANN001
    return Text("right", style="bold green") if step.right else Text(str(step.verdict), style="bold red")
