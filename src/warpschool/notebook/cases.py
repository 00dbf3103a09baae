"""Debugging as an exercise: a kernel of which only a symptom is told, and the student's test that exposes it.

`grader/labNN_topic/cases.toml` holds a lab's cases, by name:

    [ragged]
    step = "lab02_tiling/01_tiled"
    symptom = "Right at 64 x 64 x 64, wrong at 65 x 65 x 65."
    wrong = ["last_tile_forgotten"]        # specimens of the step: the test must fail for each
    right = ["right_backwards"]            # and pass for each of these, and for the reference
    lines = ["k0 + TILE <= K"]             # text of the lines to blame in the first wrong one
    most = 200                             # the largest size that a test may use, for it runs all of them

A test is sizes, values, and what to watch: "answers", a finding such as "race", or a counter with the most that it may
be, `{"shared_load_bank_conflicts": 0}`. A case of a whole program has two keys more, told in `program_cases`. The first
wrong kernel's source is shown when the test exposes it and the student's own kernel of the step is accepted: before, it
would give the step away.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ptxsim.counters import COUNTERS
from warpschool.authoring import specimens
from warpschool.contract import Plan, parse_contract
from warpschool.course import Course, Step
from warpschool.errors import ArgumentError, ContractError, CourseError, LaunchError, SimulationError
from warpschool.grading.runner import state_of
from warpschool.harness.compare import compare, tolerance_for
from warpschool.harness.launcher import given_sizes, random_inputs, run_kernel
from warpschool.notebook import program_cases
from warpschool.notebook.program_cases import See
from warpschool.show.bar import watched
from warpschool.show.page import show_text
from warpschool.show.questions import numbered
from warpschool.suggest import did_you_mean

FILE = "cases.toml"
ANSWERS = "answers"
FINDINGS: tuple[str, ...] = (
    "race", "out-of-bounds", "uninitialized", "divergent-barrier", "misaligned", "warp-sync", "async-order",
)  # fmt: skip
_KEYS = {"step", "symptom", "wrong", "right", "lines", "most"}
_COUNTED = frozenset(counter.name for counter in COUNTERS)
_FOR_THE_LINE = 1 / 3
_FEW = 16
"""Results of which all may be near zero by chance."""

Watch = str | Mapping[str, float]
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Kernel:
    """A kernel that a test is tried on."""

    name: str
    source: str


@dataclass(frozen=True)
class Case:
    """One exercise; `kernels` below the solutions and specimens of the course are read when they are needed."""

    name: str
    step: Step
    symptom: str
    wrong: tuple[Kernel, ...]
    right: tuple[Kernel, ...]
    lines: tuple[int, ...]
    most: int
    asked: program_cases.Asked | None = None
    """how it is called, of a whole program"""

    @property
    def shown(self) -> Kernel:
        """The kernel whose line is asked for."""
        return self.wrong[0]


@dataclass(frozen=True)
class Test:
    """What a student wrote: sizes, what inputs hold ("random" or one number), what to watch."""

    __test__ = False  # pytest takes it for one of its own
    sizes: Mapping[str, float]
    values: str | float
    watch: Watch


@dataclass(frozen=True)
class Outcome:
    """Which kernels failed a test, each with what was seen; and whether the line is right (None: none was named)."""

    case: Case
    caught: Mapping[str, str]
    """wrong kernels that failed"""
    accused: Mapping[str, str]
    """right kernels that failed, which none should"""
    line: bool | None = None

    @property
    def exposes(self) -> bool:
        """Whether the test tells wrong from right."""
        return len(self.caught) == len(self.case.wrong) and not self.accused

    @property
    def fraction(self) -> float:
        """Of the points: two thirds for the test, the rest for the line, which counts only with a test."""
        return (1 - _FOR_THE_LINE * (not self.line)) if self.exposes else 0.0


# ---------------------------------------------------------------- reading


def find_case(name: str, course: Course | None = None) -> Case:
    """The case that is called lab02/ragged. Raises CourseError, with the file, for what is none or does not fit."""
    course = course or Course.find()
    lab, _, wanted = name.partition("/")
    path = course.root / "grader" / course.lab(lab).name / FILE
    try:
        rows = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise CourseError(f"{course.lab(lab).name} has no cases", next_step=f"They would stand in {path}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{path} is no TOML: {error}", next_step="Mend that line.") from None
    if wanted not in rows:
        raise CourseError(f"{lab} has no case '{wanted}'", next_step=did_you_mean(wanted, list(rows)))
    row = rows[wanted]
    keys = _KEYS | program_cases.KEYS if "step" in row and course.step(row["step"]).is_program else _KEYS
    if set(row) != keys:
        odd = sorted(set(row) ^ keys)
        raise CourseError(f"{path}: {wanted}: {', '.join(odd)}", next_step=f"A case has {', '.join(sorted(keys))}.")
    return _case(course, name, row)


def _case(course: Course, name: str, row: Mapping[str, Any]) -> Case:
    step = course.step(row["step"])
    if step.solution is None:
        raise CourseError(f"{name}: {step} has no reference", next_step="Cases need the course's solutions.")
    wrong = tuple(_specimen(course, step, one) for one in row["wrong"])
    right = tuple(_specimen(course, step, one) for one in row["right"])
    reference = Kernel("the reference", step.solution.read_text("utf-8"))
    lines = tuple(
        number
        for number, line in enumerate(wrong[0].source.splitlines(), start=1)
        if any(text in line for text in row["lines"])
    )
    if not lines:
        raise CourseError(f"{name}: no line of {wrong[0].name} has the text of `lines`", next_step="Correct it.")
    asked = program_cases.read(row) if step.is_program else None
    return Case(name, step, row["symptom"], wrong, (reference, *right), lines, int(row["most"]), asked)


def _specimen(course: Course, step: Step, name: str) -> Kernel:
    folder = course.root / "tests" / "specimens" / step.name
    path = next((p for p in (folder / f"{name}.toml", folder / f"{name}.cu") if p.is_file()), None)
    if path is None:
        raise CourseError(f"there is no specimen {folder / name}", next_step="Reinstall warpschool, or mend the case.")
    return Kernel(name, specimens.read(path).source(course.root / "solutions"))


def names(course: Course, lab: str) -> tuple[str, ...]:
    """The cases of a lab, as one types them."""
    path = course.root / "grader" / course.lab(lab).name / FILE
    rows = tomllib.loads(path.read_text("utf-8")) if path.is_file() else {}
    return tuple(f"{course.lab(lab).name[:5]}/{name}" for name in rows)


# ---------------------------------------------------------------- a test


def written(case: Case, sizes: object, watch: object, values: object = "random") -> Test:
    """A student's test. Raises ArgumentError for what is none: sizes too large, nothing to watch."""
    given = given_sizes(sizes)
    for name, size in given.items():
        if not isinstance(size, int | float) or isinstance(size, bool) or not -case.most <= size <= case.most:
            raise ArgumentError(
                f"{name} = {size!r}: sizes of this case go up to {case.most}", next_step="A smaller one shows it, too."
            )
    if not (values == "random" or (isinstance(values, int | float) and math.isfinite(values))):
        raise ArgumentError(f"values={values!r}", next_step='Say "random", or a number that every element gets.')
    try:
        if case.asked is not None:
            case.asked.check(given)
        else:
            parse_contract(case.right[0].source, name=case.step.file_name).bind(given)
    except (ArgumentError, LaunchError, ContractError) as error:
        raise ArgumentError(f"these sizes do not fit the step: {error.message}", next_step=error.next_step) from None
    return Test(given, values, _watched(case, watch))


def _watched(case: Case, watch: object) -> Watch:
    findings, counted = FINDINGS, _COUNTED
    example = '{"barriers": 64}'
    if case.asked is not None:
        findings, counted, example = program_cases.FINDINGS, program_cases.COUNTED, '{"launch": 4}'
    if isinstance(watch, str) and watch in (ANSWERS, *findings):
        return watch
    if isinstance(watch, Mapping) and len(watch) == 1:
        ((name, most),) = watch.items()
        if name in counted and isinstance(most, int | float) and not isinstance(most, bool):
            return {name: most}
        if name not in counted:
            raise ArgumentError(f"there is no counter {name!r}", next_step=did_you_mean(str(name), sorted(counted)))
    known = f'"{ANSWERS}", a finding ({", ".join(findings)}), or a counter with its most, such as {example}'
    raise ArgumentError(f"{watch!r} is nothing to watch", next_step=f"Watch {known}.")


def tried(case: Case, test: Test, line: object = None) -> Outcome:
    """Try a test on every kernel of a case."""
    see = _see_kernel(case, test) if case.asked is None else _see_program(case, case.asked, test)
    what = "kernels tried" if case.asked is None else "programs built and run"
    seen = {kernel.name: see(kernel.source) for kernel in watched((*case.wrong, *case.right), what)}

    def failed(kernels: Sequence[Kernel]) -> dict[str, str]:
        return {kernel.name: seen[kernel.name] for kernel in kernels if seen[kernel.name]}

    named = None if line is None else line in case.lines
    return Outcome(case, failed(case.wrong), failed(case.right), named)


def _see_program(case: Case, asked: program_cases.Asked, test: Test) -> See:
    def differs(got: Arrays, wanted: Arrays) -> str:
        return _differs(got, wanted, test)

    return program_cases.watch_program(
        case.right[0].source, case.step.file_name, asked, test.sizes, test.values, test.watch, differs
    )


def _see_kernel(case: Case, test: Test) -> See:
    reference = parse_contract(case.right[0].source, name=case.step.file_name)
    arrays = _inputs(reference.bind(test.sizes), test.values)
    expected = run_kernel(reference, test.sizes, arrays, device="sim").outputs

    def seen(source: str) -> str:
        try:
            run = run_kernel(parse_contract(source, name="kernel.cu"), test.sizes, arrays, device="sim")
        except (SimulationError, LaunchError) as error:
            return f"it does not come to an end: {error.message.splitlines()[0]}"
        if test.watch == ANSWERS:
            return _differs(run.outputs, expected, test)
        if isinstance(test.watch, str):
            found = [hazard for hazard in run.hazards if hazard.kind == test.watch]
            return f"{test.watch} in line {found[0].line}" if found else ""
        ((name, most),) = test.watch.items()
        counted = getattr(run.counters, name)
        return f"{name} is {counted:,}" if counted > most else ""

    return seen


def _inputs(plan: Plan, values: str | float) -> dict[str, np.ndarray]:
    found = random_inputs(plan)
    return found if values == "random" else {name: np.full_like(array, values) for name, array in found.items()}


def _differs(outputs: Arrays, expected: Arrays, test: Test) -> str:
    terms = max(1, *(int(size) for size in test.sizes.values()))
    for name, wanted in expected.items():
        tolerance = tolerance_for(wanted.dtype, terms, scale=_scale(wanted, terms))
        if name not in outputs or outputs[name].shape != wanted.shape:
            return f"{name} is missing, or has another size"
        free = np.isnan(wanted) if wanted.dtype.kind == "f" else np.zeros(wanted.shape, bool)  # what nobody stores
        got = np.where(free, 0, outputs[name]).astype(wanted.dtype)
        found = compare(got, np.where(free, 0, wanted).astype(wanted.dtype), tolerance=tolerance, name=name)
        if not found.ok:
            return f"{found.wrong:,} of {found.count:,} elements of {name} differ"
    return ""


def _scale(wanted: np.ndarray, terms: int) -> float:
    """What rounding errors are a part of: the largest result; where there are few, all may be near zero by chance, and
    then what sums of so many random terms up to 1 come to."""
    sizes = np.abs(wanted.astype(np.float64))
    largest = float(sizes[np.isfinite(sizes)].max(initial=0.0))
    return max(largest, math.sqrt(terms) / 4) if wanted.size < _FEW else largest


# ---------------------------------------------------------------- in a notebook


def check_case(
    name: str, *, sizes: object, watch: object, line: object = None, values: object = "random", points: float = 1.0
) -> float:
    """Try a student's test on a case's kernels, display how it went, and return the points earned.

    `sizes` are numbers by name, `watch` is "answers", a finding, or `{counter: most}`, `line` the line to blame in the
    kernel that is shown once the test exposes it. Two thirds of the points are for the test, the rest for the line.
    """
    case = find_case(name)
    if sizes is None or watch is None:
        show_text(f"{name}: write sizes and what to watch first, then run this cell again.", failed=True)
        return 0.0
    try:
        test = written(case, sizes, watch, values)
    except ArgumentError as error:
        show_text(f"{name}: {error.message}. {error.next_step}", failed=True)
        return 0.0
    outcome = tried(case, test, line)
    show_text(told(outcome), failed=outcome.fraction < 1)
    return float(round(outcome.fraction * points, 4))


def told(outcome: Outcome) -> str:
    """How a test did, in words; with the kernel's source where it may be seen."""
    case = outcome.case
    kind = "kernel" if case.asked is None else "program"
    said = [
        f"{case.name}: {len(outcome.caught)} of {len(case.wrong)} wrong {kind}s fail your test, "
        f"{len(case.right) - len(outcome.accused)} of {len(case.right)} right ones pass it."
    ]
    said += [f"A right {kind} fails it: {why}." for why in list(outcome.accused.values())[:1]]
    if not outcome.exposes:
        return "\n".join(said)
    said.append(f"The {kind} of the symptom: {outcome.caught[case.shown.name]}.")
    if outcome.line:
        said.append("And that is the line.")
    elif state_of(case.step).state != "accepted":
        said.append(f"Its source is shown here when your own {kind} of {case.step} is accepted.")
    else:
        head = "Which line is to blame?" if outcome.line is None else "That line is not the one. Look again:"
        said += [head, numbered(case.shown.source)]
    return "\n".join(said)


def case_files(root: Path) -> list[Path]:
    """The files of all labs' cases."""
    return sorted((root / "grader").glob(f"lab*/{FILE}"))
