"""`warpschool grade`: a folder of kernels here; an assignment of a class in `warpschool.cli.classroom`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from warpschool.cli.batch_options import (
    Scheduler,
    SecretFile,
    Slurm,
    StoreFolder,
    Workers,
    batch_progress,
    require_one_place,
)
from warpschool.cli.classroom import HERE, ClassOption, Students, grade_lab
from warpschool.cli.failures import INTERRUPTED, LACKING, guarded, report
from warpschool.cli.files import require_writable_target, try_write
from warpschool.cli.options import AsJson, DeviceChoice, OnDevice, Plain
from warpschool.cli.output import Cell, Output

if TYPE_CHECKING:
    from warpschool.grading import Result
    from warpschool.grading.folders import Submitted

FORMAT = 1


@dataclass(frozen=True)
class Batch:
    """How a batch is graded."""

    device: str
    seed: int
    secret_file: Path | None
    store: Path | None
    workers: int
    scheduler: str | None
    slurm: bool


@guarded
def grade(
    target: Annotated[
        str,
        typer.Argument(
            metavar="LAB|DIR",
            help="An assignment of the class around here, or a folder of STUDENT/labNN_topic/NN_idea.cu or .ipynb.",
        ),
    ],
    student: Students = None,
    regrade: Annotated[
        bool, typer.Option("--regrade", help="Grade what is graded already, too, and name every changed score.")
    ] = False,
    class_folder: ClassOption = HERE,
    step: Annotated[str | None, typer.Option("--step", metavar="STEP", help="All files are for this step.")] = None,
    device: OnDevice = DeviceChoice.sim,
    seed: Annotated[int | None, typer.Option(help="Seed of the random inputs; the same for everybody.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write all results as JSON.")] = None,
    workers: Workers = 1,
    scheduler: Scheduler = None,
    slurm: Slurm = False,
    store: StoreFolder = None,
    secret_seed_file: SecretFile = None,
    as_json: AsJson = False,
    plain: Plain = False,
) -> None:
    """Grade a class's assignment into nbgrader's gradebook, or a folder of kernels and notebooks.

    Of an assignment: what is new or changed since it was graded; no student's Python is run for a kernel's points.
    Of a folder: one result for each file (--step, --device, --seed, --out, --store and --secret-seed-file are for
    this). A wrong kernel is a result, not a failure of this command. Equal kernels are checked once. Finished results
    are kept: after Ctrl-C, a crash or a kill the same command does the rest.

    Example: warpschool grade lab02 --workers 2; or: warpschool grade submissions/ --out results.json
    """
    from warpschool.course import Course
    from warpschool.grading.folders import find_submissions

    output = Output(as_json=as_json, plain=plain)
    require_one_place(scheduler=scheduler, slurm=slurm)
    if not Path(target).is_dir():
        from warpschool.classroom.rounds import Where

        where = Where(workers, scheduler, slurm)
        grade_lab(target, folder=class_folder, students=student or [], regrade=regrade, where=where, output=output)
        return
    folder = Path(target)
    if out is not None:
        require_writable_target(out)
    found, foreign = find_submissions(folder, Course.find(), step)
    batch = Batch(str(device), seed or 0, secret_seed_file, store, workers, scheduler, slurm)
    done, interrupted = _graded(found, batch, output)
    graded = [(item, done[item]) for item in found if item in done]
    document = _document(graded, foreign, planned=len(found))
    output.data(document)
    _show(output, graded, foreign)
    if out is not None:
        problem = try_write(out, json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        if problem:
            report(problem, output, with_document=False)
            raise typer.Exit(LACKING)
        output.show("Results: ", (str(out), "bold"))
    if interrupted:
        output.errors.print(Text(f"interrupted: {len(graded)} of {len(found)} files are graded", style="bold"))
        raise typer.Exit(INTERRUPTED)
    if any(not result.is_grade for _, result in graded):
        output.errors.print(Text("some checks failed themselves (SE): these are no grades; run the same command again"))
        raise typer.Exit(LACKING)


def _graded(
    found: list[Submitted], batch: Batch, output: Output
) -> tuple[dict[Submitted, Result], bool]:
    """The results so far, and whether Ctrl-C ended it."""
    from ptxsim.cache import cache_root
    from warpschool.grading.batch import run
    from warpschool.grading.jobs import KernelJob, unreadable
    from warpschool.grading.result import Result
    from warpschool.grading.secret import read_secret
    from warpschool.grading.store import Store

    secret = read_secret(batch.secret_file) if batch.secret_file else ""
    done: dict[Submitted, Result] = {}
    waiting: dict[KernelJob, list[Submitted]] = {}
    for item in found:
        job = KernelJob(item.step.name, item.data, seed=batch.seed, device=batch.device, secret=secret)
        if item.problem:
            done[item] = unreadable(job, item.problem)
        else:
            waiting.setdefault(job, []).append(item)
    with batch_progress(output, len(found)) as progress:
        for result in done.values():
            progress.done(result.verdict)
        try:
            store = Store(batch.store or cache_root() / "results")
            outcomes = run(
                waiting, store=store, workers=batch.workers, scheduler=batch.scheduler, slurm=batch.slurm
            )
            for finished, outcome in outcomes:
                if isinstance(finished, KernelJob) and isinstance(outcome, Result):  # there are no other jobs here
                    for item in waiting[finished]:
                        done[item] = outcome
                        progress.done(outcome.verdict)
        except KeyboardInterrupt:
            return done, True
    return done, False


def _score(result: Result) -> str:
    """The points; a fault of the grader is no 0."""
    return f"{result.score:g}" if result.is_grade else "?"


def _verdict(result: Result) -> Text:
    return Text(str(result.verdict), style="bold green" if result.ok else "bold red")


def _show(output: Output, graded: list[tuple[Submitted, Result]], foreign: list[str]) -> None:
    rows: list[list[Cell]] = [
        [item.student, item.step.name, _verdict(result), _score(result), f"{result.max_score:g}"]
        for item, result in graded
    ]
    output.table(["student", "step", "verdict", "points", "of"], rows, numbers=("points", "of"))
    if foreign:
        output.show(f"Left alone, for they belong to no graded step: {', '.join(foreign)}", style="yellow")


def _document(graded: list[tuple[Submitted, Result]], foreign: list[str], *, planned: int) -> dict[str, Any]:
    results = [{"student": item.student, "file": str(item.path), "result": result.to_dict()} for item, result in graded]
    return {"format": FORMAT, "planned": planned, "results": results, "foreign": foreign}
