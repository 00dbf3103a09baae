"""What lab 14's notebook looks at: one's own programs, run confined, what they asked for, and what nvcc does."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy.typing as npt

from warpschool.course import Course
from warpschool.errors import WarpschoolError
from warpschool.grading.program import ProgramRun, ProgramSubmission, built_program
from warpschool.grading.verdicts import Judgement
from warpschool.harness.source import find_source
from warpschool.inspect.timeline import Span, Timeline
from warpschool.programs import find_tools
from warpschool.show.exhibit import Exhibit
from warpschool.show.programs import sentence
from warpschool.show.table import Table
from warpschool.show.timeline import show_timeline

LAB = "lab14_programs/"
_KINDS = {"HtoD": "copy in", "kernel": "kernel", "DtoH": "copy out"}
_PREPROCESSES = ("preprocesses the host's half", "preprocesses the device's half: __CUDA_ARCH__ is defined")
_DOES = {
    "gcc": "compiles the host's half, with the block of device code in it",
    "g++": "compiles the host's half, with the block of device code in it",
    "cudafe++": "takes the halves apart; each <<<...>>> becomes calls of the runtime",
    "cicc": "device half -> PTX, an assembly language for GPUs of any make",
    "ptxas": "PTX -> machine code of one architecture (-arch=sm_80)",
    "fatbinary": "packs machine code and PTX into one block of data",
    "nvlink": "links device code of several files",
}
"""The programs that nvcc starts, and what each does."""


def program(step: str) -> ProgramSubmission:
    """One's own program of a step, built. Raises WarpschoolError with what is wrong with it."""
    found = Course.find().step(LAB + step)
    source = find_source(found)
    try:
        return built_program(source.data, found.file_name)
    except Judgement as judgement:
        raise WarpschoolError(judgement.seen) from None


def run(step: str, arguments: Sequence[object], files: Mapping[str, npt.ArrayLike], gpu: str = "a100") -> ProgramRun:
    """Run one's own program of a step once, and print what it wrote and what was found in it."""
    done = program(step).run(arguments, files, gpu=gpu, judged=False)
    for text in (done.output, done.errors):
        if text.strip():
            print(text.strip())
    for note in done.report.notes:
        print(f"found: {sentence(note)}")
    print(f"exit status {done.status}; files: {', '.join(done.files) or 'none'}")
    return done


def timeline(done: ProgramRun) -> Timeline:
    """What ran when on the virtual GPU, by its data sheet: for `ws.show_timeline`."""
    spans = done.report.spans
    start = min((span.start_ns for span in spans), default=0.0)
    return Timeline(
        f"{done.report.gpu}, predicted",
        tuple(
            Span(
                span.name.split("(")[0], f"stream {span.stream}" if span.stream else "default",
                (span.start_ns - start) / 1e6, (span.end_ns - start) / 1e6, _KINDS.get(span.kind, "other"),
            )
            for span in spans
        ),
    )  # fmt: skip


def calls(done: ProgramRun) -> Table:
    """What the program asked the runtime for, by its lines."""
    rows: dict[tuple[int, str, str], list[int]] = {}
    for call in done.report.calls:
        line = call.hosts[0].line if call.hosts else 0
        entry = rows.setdefault((line, call.kind, call.name), [0, 0])
        entry[0], entry[1] = entry[0] + 1, entry[1] + call.nbytes
    heads = ("line", "asks for", "of", "times", "bytes")
    found = tuple(
        (str(line or ""), kind, name.split("(")[0], f"{times:,}", f"{nbytes:,}" if nbytes else "")
        for (line, kind, name), (times, nbytes) in rows.items()
    )
    return Table("Calls", heads, found, frozenset(("line", "times", "bytes")))


def stages(step: str, arch: str = "sm_80") -> Table:
    """The programs that nvcc starts for a step's file, in order, as it lists them itself (--dryrun)."""
    tools = find_tools()
    path = Course.find().step(LAB + step).starter
    command = [str(tools.nvcc), "--dryrun", f"-arch={arch}", "-lineinfo", "-c", str(path), "-o", "program.o"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    rows = []
    for line in said.splitlines():
        found = re.match(r'#\$ "?(?:[\w./+$-]*/)?(\w+(?:\+\+)?)"? +[-"]', line)
        name = found[1] if found is not None else ""
        if name in ("gcc", "g++") and "-E" in line.split():
            rows.append((name, _PREPROCESSES["__CUDA_ARCH__" in line]))
        elif name in _DOES:
            rows.append((name, _DOES[name]))
    return Table("What nvcc starts", ("", "program", "what it does"), tuple(
        (str(number), *row) for number, row in enumerate(rows, start=1)
    ), frozenset(("",)))  # fmt: skip


def ptx(step: str, *, most: int = 24) -> str:
    """The first instructions of the step's kernel in PTX, as nvcc makes it of the starter, with its source lines."""
    tools = find_tools()
    path = Course.find().step(LAB + step).starter
    assert path is not None
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "program.ptx"
        command = [str(tools.nvcc), "-arch=compute_80", "-lineinfo", "-ptx", path.name, "-o", str(target)]
        subprocess.run(command, capture_output=True, check=True, cwd=path.parent)
        lines = target.read_text("utf-8").splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith(".visible .entry"))
    kept = [line for line in lines[first:] if line.strip() and not line.strip().startswith(("//", "$L", ".reg"))]
    return "\n".join(kept[:most])


def show(done: ProgramRun) -> Exhibit | None:
    """The timeline of a run, where there is anything in it, and how long it is predicted to take."""
    found = timeline(done)
    if not found.spans:
        print("nothing ran on the device yet")
        return None
    last_ms = max(span.end_ms for span in found.spans)
    print(
        f"predicted for the {done.report.gpu}: {last_ms:.3g} ms from the first byte to the last; copies by the link's "
        "data sheet, kernels by their roofline's bound, nothing measured"
    )
    return show_timeline(found)
