"""The figures of docs/learn/lab14.md: chunks in streams, and a solver's data, as the virtual GPU has them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from scripts import book_runs as runs
from scripts.book_pictures import BLUE, GREEN, ORANGE, PAPER, svg

from warpschool.authoring import specimens
from warpschool.grading.program import ProgramRun, load_program
from warpschool.grading.program_build import build_program
from warpschool.harness.source import Source

LAB = "lab14_programs"
NUMBERS = 1 << 20
CHUNKS = (1, 2, 4, 8, 16, 64)
ROWS, COLS, SWEEPS, EVERY = 256, 256, 50, 10
MISTAKES = tuple(
    f"{LAB}/{name}"
    for name in (
        "01_whole_program/host_follows_device_pointer",
        "01_whole_program/elements_for_bytes",
        "01_whole_program/freed_too_early",
        "01_whole_program/launch_refused",
        "01_whole_program/never_freed",
        "02_errors/peeks",
    )
)


def run_program(text: str, name: str, arguments: Sequence[object], files: Mapping[str, npt.ArrayLike]) -> ProgramRun:
    """A whole program, built and run once on a virtual A100."""
    source = Source(text.encode(), name, "book")
    with tempfile.TemporaryDirectory() as folder:
        built = build_program(source, Path(folder), must=False, may_cache=True)
        return load_program(source.data, name, built).run(arguments, files, gpu="a100", judged=False)


def _solution(step: str) -> str:
    return (runs.ROOT / "solutions" / LAB / f"{step}.cu").read_text("utf-8")


@cache
def in_chunks(chunks: int) -> ProgramRun:
    x = np.random.default_rng(1).random(NUMBERS, np.float32)
    return run_program(_solution("03_streams"), "03_streams.cu", [NUMBERS, chunks], {"x.bin": x})


def _total_ns(done: ProgramRun) -> float:
    spans = done.report.spans
    return max(span.end_ns for span in spans) - min(span.start_ns for span in spans)


def chunks_table() -> str:
    """The same numbers in more and more chunks."""
    rows = []
    for chunks in CHUNKS:
        total = _total_ns(in_chunks(chunks))
        rows.append((chunks, f"{NUMBERS // chunks:,}", runs.us(total * 1e-3), f"{_total_ns(in_chunks(1)) / total:.2f}"))
    head = (">chunks", ">numbers in each", ">predicted, from the first copy to the last", ">times as fast as one")
    return runs.table(head, rows)


def streams_picture() -> str:
    """What the engines do, in one chunk and in eight."""
    figure = Figure(figsize=(8.4, 2.8), layout="constrained", facecolor=PAPER)
    rows = {
        "HtoD": ("copy in", ORANGE),
        "launch": ("kernel", BLUE),
        "kernel": ("kernel", BLUE),
        "DtoH": ("copy out", GREEN),
    }
    names = ["copy in", "kernel", "copy out"]
    panels = figure.subplots(2, 1, sharex=True)
    for axes, chunks in zip(panels, (1, 8), strict=True):
        spans = in_chunks(chunks).report.spans
        start, seen = min(span.start_ns for span in spans), dict.fromkeys(names, 0)
        for span in sorted(spans, key=lambda span: span.start_ns):
            if span.kind not in rows:
                continue
            name, colour = rows[span.kind]
            y, left, width = names.index(name), (span.start_ns - start) * 1e-3, (span.end_ns - span.start_ns) * 1e-3
            edge = colour if name == "kernel" else PAPER  # kernels are so short that an edge would hide them
            axes.broken_barh([(left, width)], (y - 0.35, 0.7), facecolor=colour, edgecolor=edge)
            if name != "kernel":
                axes.text(left + width / 2, y, seen[name], ha="center", va="center", color="white", fontsize=7)
            seen[name] += 1
        axes.set_yticks(range(3), names, fontsize=8)
        axes.invert_yaxis()
        axes.set_facecolor(PAPER)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(f"{chunks} chunk{'s' if chunks > 1 else ''}", fontsize=8)
    panels[-1].set_xlabel("us, predicted for an A100")
    return svg(figure, "lab14-streams")


def solver_table() -> str:
    """The solver as it should be, and specimens that are right and slow."""
    grid = np.random.default_rng(1).random((ROWS, COLS), np.float32)
    rows = []
    kernels = {"the reference": _solution("04_solver")}
    for name in ("copies_grids", "waits_each_sweep", "allocates_each_sweep", "round_trip"):
        found = specimens.read(runs.ROOT / "tests" / "specimens" / LAB / "04_solver" / f"{name}.toml")
        kernels[found.why.rstrip(".")] = found.source(runs.ROOT / "solutions")
    for told, text in kernels.items():
        done = run_program(text, "04_solver.cu", [ROWS, COLS, SWEEPS, EVERY], {"u.bin": grid})
        calls = done.report.calls
        link = sum(call.nbytes for call in calls if call.kind in ("HtoD", "DtoH"))
        inside = sum(call.nbytes for call in calls if call.kind == "DtoD")
        waits = sum(call.kind == "synchronize" for call in calls)
        rows.append(
            (
                told,
                f"{link / 1e6:.2f} MB",
                f"{inside / 1e6:.2f} MB",
                waits,
                sum(call.kind == "allocate" for call in calls),
                runs.us(_total_ns(done) * 1e-3),
            )
        )
    head = ("program", ">over the link", ">copied on the device", ">times the host waits between sweeps",
            ">allocations", ">predicted, first to last")  # fmt: skip
    return runs.table(head, rows)


TABLES = {"chunks": chunks_table, "solver": solver_table}
IMAGES = {"lab14-streams.svg": streams_picture}
