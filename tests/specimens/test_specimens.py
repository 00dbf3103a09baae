"""Kernels with a known verdict, below this folder: labNN_topic/NN_idea/what_is_wrong.toml.

Each is an edit of the step's solution, or a whole kernel where no small edit makes it; `warpschool.authoring.specimens`
says how they are written. Those called right_* solve the step in another way than the reference and must be accepted:
budgets are fair to correct designs.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import warpschool as ws
from warpschool.authoring import specimens
from warpschool.compile import find_compiler
from warpschool.course import Course
from warpschool.errors import CourseError
from warpschool.grading import Verdict
from warpschool.programs import tools_report

pytestmark = pytest.mark.usefixtures("forked_checks")

HERE = Path(__file__).parent
SOLUTIONS = HERE.parents[1] / "solutions"
SPECIMENS = specimens.paths(HERE)


LINE_OF_CLANG = {
    "lab00_first_kernels/01_saxpy/missing_semicolon": "const int i = blockIdx.x * blockDim.x",
    "lab07_tensor_cores/06_wgmma/missing_semicolon": "int parity = 1",
    "lab08_convolution/13_wgmma_implicit_gemm/missing_semicolon": "int c = 0",
    "lab08_convolution/14_sliding_windows/missing_semicolon": "int c = 0",
}
"""Specimens of which clang blames another line than NVRTC: here the one before, where the semicolon belongs."""
JUDGED_WITH_NVRTC = {
    "lab05_work_per_thread/06_double_buffered/too_few_registers": "Enough registers",
    "lab06_half_precision/02_half2/too_few_registers": "Enough registers",
}
"""Specimens whose only failing criterion is not judged with clang: all the others pass."""


def reported_line(result) -> int:
    """The line that the student sees first: the file's, else that of the first criterion with the result's verdict."""
    return result.line or next(c.line for c in result.criteria if c.verdict is result.verdict)


def line_of(source: str, text: str) -> int:
    """The number of the first line that has a text."""
    return next(number for number, line in enumerate(source.split("\n"), 1) if text in line)


def is_slow(path: Path) -> bool:
    """Unrolled kernels take seconds to translate: of labs 05 and up one wrong kernel runs always, the shortest.

    Of the labs before them all wrong ones do, and of each step's right ones the two shortest.
    """
    lab = path.parts[-3]
    if int(lab[3:5]) >= 5:
        return path != shortest_wrong(lab)
    return path in longer_right(path.parent)


@cache
def shortest_wrong(lab: str) -> Path:
    """Of a lab's wrong kernels the shortest."""
    return min((p for p in SPECIMENS if p.parts[-3] == lab and not p.name.startswith("right_")), key=size)


@cache
def longer_right(step: Path) -> list[Path]:
    """Of a step's right kernels all but the two shortest."""
    return sorted(step.glob("right_*"), key=size)[2:]


def size(path: Path) -> tuple[int, int]:
    """Bytes of the kernel before it is edited, and of the edits: nothing is read while pytest collects."""
    solution = SOLUTIONS / path.parts[-3] / f"{path.parts[-2]}.cu"
    return (solution if path.suffix == ".toml" else path).stat().st_size, path.stat().st_size


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=pytest.mark.slow if is_slow(p) else ()) for p in SPECIMENS],
    ids=lambda p: "-".join(p.relative_to(HERE).with_suffix("").parts),
)
@pytest.mark.thinned(20)
def test_specimen_gets_its_verdict_and_line(path):
    specimen = specimens.read(path)
    source = specimen.source(SOLUTIONS)
    report = tools_report()
    if Course.find().step(specimen.step).is_program and not report["available"]:
        pytest.skip(f"whole programs cannot be built here: {report['problem']}")
    result = ws.check(specimen.step, source, device="sim")
    said = "\n".join([result.seen, *(f"{c.verdict} {c.title}, line {c.line}: {c.seen}" for c in result.criteria)])
    name = str(path.relative_to(HERE).with_suffix("")) if find_compiler().name == "clang" else ""
    if name in JUDGED_WITH_NVRTC:
        assert result.ok and [c.title for c in result.criteria if not c.is_judged] == [JUDGED_WITH_NVRTC[name]], said
        return
    line = line_of(source, LINE_OF_CLANG[name]) if name in LINE_OF_CLANG else specimen.line(source)
    assert (result.verdict, reported_line(result)) == (specimen.verdict, line), said
    assert result.ok == specimen.is_right
    if not result.ok:
        waiting = [c for c in result.criteria if c.counts and c.seen.startswith("not judged until ")]
        told = [c for c in result.criteria if not c.ok and c not in waiting]
        assert result.seen or (told and all(c.seen and c.hint for c in told)), "no word about what was seen"
        assert result.score < result.max_score
    if specimen.criterion:
        assert specimen.criterion in [c.title for c in result.criteria if not c.ok], said


def test_every_specimen_says_what_must_be_said_of_it():
    """Their edits fit the solutions of today, and no two make the same kernel: quick, so it runs for slow ones too."""
    problems, made = [], {}
    for path in SPECIMENS:
        try:
            specimen = specimens.read(path)
            source = specimen.source(SOLUTIONS)
            specimen.line(source)
        except CourseError as error:
            problems.append(str(error))
            continue
        other = made.setdefault((specimen.step, source), path)
        problems += [f"{path} makes the kernel of {other}"] if other != path else []
        problems += [] if specimen.why else [f"{path} says no why"]
        right = specimen.verdict is Verdict.AC
        problems += [] if right == specimen.is_right else [f"{path} is {specimen.verdict}"]
    assert not problems, "\n".join(problems)


def test_every_kind_of_fault_has_a_specimen():
    wanted = {"CE", "RJ", "NE", "LE", "OOB", "RACE", "SYNC", "UNINIT", "TLE", "WA", "PERF", "AC"}
    verdicts = Counter(specimens.read(path).verdict.value for path in SPECIMENS)
    assert wanted <= set(verdicts)
    assert sum(count for verdict, count in verdicts.items() if verdict != "AC") >= 12
