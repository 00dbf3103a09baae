"""Debugging exercises on whole programs: how a student's test runs one, and what it sees of it.

A case of a step with `main` says two things more than one of a kernel (`warpschool.notebook.cases`):

    arguments = ["rows", "cols", "sweeps", "every"]   # the sizes of a test, in the order of the command line
    inputs = { "u.bin" = ["rows", "cols"] }           # files of floats, and the sizes whose product is their length
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ptxsim.counters import COUNTERS
from warpschool.errors import ArgumentError, GradingError
from warpschool.grading.program import VERDICTS, ProgramRun, ProgramSubmission, built_program
from warpschool.grading.verdicts import Judgement
from warpschool.show.programs import sentence

UNWAITED = "unwaited-copy"
"""What a test may watch besides findings: a copy to the host that the host never waits for."""
KEYS = frozenset(("arguments", "inputs"))
FINDINGS = (UNWAITED, *VERDICTS)
_COPIES = ("HtoD", "DtoH", "DtoD")
_CALLS = ("allocate", "free", "launch", "set", "synchronize", *_COPIES)
COUNTED = frozenset((*_CALLS, *(f"{kind}_bytes" for kind in _COPIES), *(counter.name for counter in COUNTERS)))
"""What may be counted: calls by kind, bytes of copies, and what the simulator counts, summed over all launches."""

See = Callable[[str], str]
"""What a test sees of a source that fails it; "" for one that passes."""


@dataclass(frozen=True)
class Asked:
    """How a case's program is called."""

    arguments: tuple[str, ...]
    inputs: Mapping[str, tuple[str, ...]]

    def check(self, sizes: Mapping[str, float]) -> None:
        """Raise ArgumentError where these are not the program's arguments, each a whole number from 1 on."""
        if set(sizes) != set(self.arguments):
            given, wanted = (", ".join(names) or "none" for names in (sizes, self.arguments))
            raise ArgumentError(f"the sizes are {given}", next_step=f"The program takes {wanted}.")
        for name, size in sizes.items():
            if not isinstance(size, int) or size < 1:
                raise ArgumentError(f"{name} = {size!r}", next_step="Sizes of a program are whole numbers from 1 on.")

    def files(self, sizes: Mapping[str, float], values: str | float) -> dict[str, np.ndarray]:
        """The inputs of a test."""
        rng = np.random.default_rng(0)
        counts = {name: math.prod(int(sizes[key]) for key in keys) for name, keys in self.inputs.items()}
        return {
            name: (rng.uniform(-1, 1, count) if values == "random" else np.full(count, values)).astype(np.float32)
            for name, count in counts.items()
        }


def watch_program(
    reference: str, name: str, asked: Asked, sizes: Mapping[str, float], values: str | float,
    watch: str | Mapping[str, float], differs: Callable[[Mapping[str, np.ndarray], Mapping[str, np.ndarray]], str],
) -> See:  # fmt: skip
    """How a test looks at programs; `differs` compares files, as arrays of floats, with those of the reference."""
    arguments, files = [sizes[key] for key in asked.arguments], asked.files(sizes, values)

    def done(source: str) -> tuple[ProgramSubmission, ProgramRun]:
        program = built_program(source.encode(), name)
        run = program.run(arguments, files, judged=False)
        if run.status and not run.report.calls:
            why = (run.errors.strip() or f"it ended with status {run.status}").splitlines()[-1]
            raise GradingError(f"a program of the course cannot be run here: {why}")
        return program, run

    expected = _floats(done(reference)[1]) if watch == "answers" else {}

    def seen(source: str) -> str:
        try:
            program, run = done(source)
        except Judgement as judgement:
            return f"it does not come to an end: {judgement.seen.splitlines()[0]}"
        if watch == "answers":
            return f"it ends with status {run.status}" if run.status else differs(_floats(run), expected)
        if isinstance(watch, str):
            return _found(program, run, watch)
        ((counter, most),) = watch.items()
        counted = _counted(run, counter)
        return f"{counter} is {counted:,}" if counted > most else ""

    return seen


def _floats(run: ProgramRun) -> dict[str, np.ndarray]:
    whole = {name: data[: len(data) // 4 * 4] for name, data in run.files.items()}
    return {name: np.frombuffer(data, np.float32) for name, data in whole.items()}


def _found(program: ProgramSubmission, run: ProgramRun, kind: str) -> str:
    if kind == UNWAITED:
        try:
            program.waits_for_copies(run)
        except Judgement as judgement:
            return f"{kind} in line {judgement.line}"
        return ""
    return next((f"{kind}: {sentence(note)}" for note in run.report.notes if note.kind == kind), "")


def _counted(run: ProgramRun, counter: str) -> int:
    if counter in _CALLS:
        return len(run.calls(counter))
    kind = counter.removesuffix("_bytes")
    return sum(call.nbytes for call in run.calls(kind)) if kind in _COPIES else run.count(counter)


def read(row: Mapping[str, Sequence[str] | Mapping[str, Sequence[str]]]) -> Asked:
    """The two keys of a case, as they stand in its file."""
    inputs = row["inputs"]
    assert isinstance(inputs, Mapping)
    return Asked(tuple(row["arguments"]), {name: tuple(keys) for name, keys in inputs.items()})
