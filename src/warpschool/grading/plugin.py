"""The pytest plugin: fixtures for grader tests, and a recorder that turns their outcomes into criteria.

`python -m pytest grader` runs every grader file against the references in solutions/. `--submission=kernels` takes the
starters, `--submission=FILE` one file, `--submission=DIR` a student's folder of kernels or notebooks,
`--submission-device=gpu` the GPU; points end the report. `warpschool.grading.check` runs the same tests in a child
process, with a CriteriaRecorder.
"""

from __future__ import annotations

import atexit
import functools
import json
import re
import shutil
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from warpschool.atomic import write_file
from warpschool.contract import Contract, parse_contract
from warpschool.course import Course, Step
from warpschool.errors import CourseError, GradingError, ToolMissing, WarpschoolError
from warpschool.grading.criteria import CriterionInfo, info_of
from warpschool.grading.hints import Hints, fault_hints
from warpschool.grading.result import Criterion
from warpschool.grading.secret import in_secret_case, secret_words, use_secret
from warpschool.grading.submission import Submission, load_submission
from warpschool.grading.verdicts import Judgement, Observed, Verdict, judge, readable
from warpschool.harness.source import Source

if TYPE_CHECKING:  # most steps are kernels, and a check is of one file: what takes long is imported where it is used
    from warpschool.grading.folders import Submitted
    from warpschool.grading.program import ProgramSubmission
    from warpschool.grading.program_build import ProgramFile

    Tested = Submission | ProgramSubmission

_SESSION = pytest.StashKey["_GradingSession"]()


@dataclass(frozen=True)
class GradingSetup:
    """What is graded: a source (None: what --submission says), the seed, the device, an instructor's secret seed."""

    source: bytes | None = None
    name: str = ""
    seed: int = 0
    on_gpu: bool = False
    secret: str = ""
    program: ProgramFile | None = None
    """what was built of the source, where the step is a program"""
    until_wrong: bool = False
    """whether the check ends with the first criterion that is not met"""


@dataclass
class _GradingSession:
    """One session's setup and the submissions that it has loaded; one that failed to load fails again, at no cost."""

    setup: GradingSetup
    choice: str
    _loaded: dict[str, Tested | Judgement] = field(default_factory=dict)
    _references: dict[str, Submission] = field(default_factory=dict)
    _folder: dict[str, Submitted] = field(default_factory=dict)

    def submission(self, step: Step) -> Tested:
        """Return the step's submission; raises Judgement where it cannot be run at all."""
        if step.name not in self._loaded:
            try:
                source, name = self._source(step)
                self._loaded[step.name] = self._program(step, source) if step.is_program else self._kernel(
                    step, source, name
                )
            except Judgement as judgement:
                self._loaded[step.name] = judgement
        found = self._loaded[step.name]
        if isinstance(found, Judgement):
            raise found.with_traceback(None)
        return found

    def _kernel(self, step: Step, source: bytes, name: str) -> Submission:
        loaded = load_submission(
            source, name=name, step=_contract_of(step), on_gpu=self.setup.on_gpu, may_use_atomics=_uses_atomics(step)
        )
        if step.solution is not None:
            loaded.reference = partial(self.reference, step)
        return loaded

    def _program(self, step: Step, source: bytes) -> ProgramSubmission:
        """A program that was built before this process began, or in a plain run of pytest is built now."""
        from warpschool.grading.program import load_program
        from warpschool.grading.program_build import build_program

        file = self.setup.program
        if file is None:
            folder = Path(tempfile.mkdtemp(prefix="warpschool-program-"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            file = build_program(Source(source, step.file_name, "pytest"), folder, must=False, may_cache=True)
        return load_program(source, step.file_name, file)

    def reference(self, step: Step) -> Submission:
        """Return the step's reference; raises GradingError where there is none or it is broken."""
        if step.name not in self._references:
            source, name = _read(step, step.solution)
            try:
                self._references[step.name] = load_submission(
                    source, name=name, on_gpu=self.setup.on_gpu, may_use_atomics=_uses_atomics(step)
                )
                self._references[step.name].is_reference = True
            except Judgement as judgement:
                raise GradingError(f"the reference of {step} is broken: {judgement.seen}") from judgement
        return self._references[step.name]

    def measured(self) -> list[str]:
        """What the submissions under test have measured since this was asked last."""
        found: list[str] = []
        for loaded in self._loaded.values():
            if not isinstance(loaded, Judgement):
                found += loaded.measured
                loaded.measured = []
        return found

    def _source(self, step: Step) -> tuple[bytes, str]:
        if self.setup.source is not None:
            return self.setup.source, self.setup.name or step.file_name
        if self.choice == "solutions":
            return _read(step, step.solution)
        if self.choice == "kernels":
            return _read(step, step.starter)
        path = Path(self.choice)
        if path.is_dir():
            return self._handed_in(step, path)
        return path.read_bytes(), path.name

    def _handed_in(self, step: Step, folder: Path) -> tuple[bytes, str]:
        """The step's source in a folder of kernels or notebooks; raises Judgement where there is none."""
        from warpschool.grading.folders import find_submissions

        if not self._folder:
            course = Course(step.grader.parents[2]) if step.grader is not None else Course.find()
            self._folder = {item.step.name: item for item in find_submissions(folder, course)[0]}
        found = self._folder.get(step.name)
        if found is None:
            raise Judgement(Verdict.BAD, f"{step.file_name}: nothing was handed in for this step")
        if found.problem:
            raise Judgement(Verdict.BAD, found.problem)
        return found.data, step.file_name


def _read(step: Step, path: Path | None) -> tuple[bytes, str]:
    if path is None:
        raise GradingError(f"{step} has no such file in this course")
    return path.read_bytes(), path.name


def _uses_atomics(step: Step) -> bool:
    """Whether the step's reference has atomic operations; a step without a reference may have them."""
    if step.solution is None:
        return True
    code = re.sub(r"//[^\n]*|/\*.*?\*/", "", step.solution.read_text("utf-8"), flags=re.DOTALL)
    return re.search(r"\batomic[A-Z]\w*\s*\(|\b(?:atom|red)\.", code) is not None


def _contract_of(step: Step) -> Contract:
    """The contract of the step's own file: what a submission must keep."""
    data, name = _read(step, step.starter or step.solution)
    return parse_contract(data.decode("utf-8"), name=name)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("warpschool")
    what = "'solutions', 'kernels', a .cu file, or a folder of kernels or notebooks: what is graded"
    group.addoption("--submission", default="solutions", help=what)
    group.addoption("--submission-device", default="sim", choices=("sim", "gpu"), help="where the kernels run")
    group.addoption("--gradescope", metavar="FILE", help="write the points as Gradescope's results.json")
    group.addoption("--grading-seed", type=int, default=0, help="seed of all random inputs")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "criterion(title, weight, hint, counts): one graded criterion")
    recorder = next((p for p in config.pluginmanager.get_plugins() if isinstance(p, CriteriaRecorder)), None)
    options = config.option
    setup = GradingSetup(seed=options.grading_seed, on_gpu=options.submission_device == "gpu")
    if recorder is None:
        config.pluginmanager.register(PointsReport(options.gradescope))
    else:
        setup = recorder.setup
    config.stash[_SESSION] = _GradingSession(setup, options.submission)
    use_secret(setup.secret)


@functools.lru_cache(maxsize=1024)
def step_of(path: Path) -> Step | None:
    """Return the step that a grader file belongs to, or None for any other file."""
    if not path.name.startswith("test_") or path.parents[1].name != "grader":
        return None
    try:
        return Course(path.parents[2]).step(f"{path.parent.name}/{path.stem.removeprefix('test_')}")
    except CourseError:
        return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test in a grader file that is no criterion would be run and count for nothing."""
    for item in items:
        if step_of(item.path) is not None and item.get_closest_marker("criterion") is None:
            raise pytest.UsageError(f"{item.nodeid} has no @criterion")


@pytest.fixture
def kernel(request: pytest.FixtureRequest) -> Submission:
    """The submission under test; without a CriteriaRecorder a step for another machine is skipped as pytest skips."""
    session = request.config.stash[_SESSION]
    try:
        found = session.submission(_step(request.path))
    except Judgement as judgement:
        if judgement.verdict is Verdict.SKIP and session.setup.source is None:
            pytest.skip(judgement.seen)
        raise
    if not isinstance(found, Submission):
        raise GradingError(f"{request.path.name}: this step is a program: its tests ask for `program`")
    return found


@pytest.fixture
def program(request: pytest.FixtureRequest) -> ProgramSubmission:
    """The program under test, of a step with a `main`; a plain run of pytest skips it where nothing can build it."""
    session = request.config.stash[_SESSION]
    try:
        found = session.submission(_step(request.path))
    except ToolMissing as missing:
        pytest.skip(str(missing))
    if isinstance(found, Submission):
        raise GradingError(f"{request.path.name}: this step is a kernel: its tests ask for `kernel`")
    return found


@pytest.fixture
def reference(request: pytest.FixtureRequest) -> Submission:
    """The step's reference; a budget is better a number, so that a faster reference moves no grade."""
    return request.config.stash[_SESSION].reference(_step(request.path))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this check."""
    return request.config.stash[_SESSION].setup.seed


@pytest.fixture
def rng(request: pytest.FixtureRequest, seed: int) -> np.random.Generator:
    """Random numbers that depend on the seed and the test's name, not on the order of tests."""
    secret = request.config.stash[_SESSION].setup.secret
    return np.random.default_rng([seed, zlib.crc32(request.node.name.encode()), *secret_words(secret)])


def _step(path: Path) -> Step:
    step = step_of(path)
    if step is None:
        raise GradingError(f"{path} is no grader file of a step: grader/labNN_topic/test_NN_idea.py")
    return step


def judged(item: pytest.Item, info: pytest.ExceptionInfo[BaseException]) -> Judgement:
    """Return the judgement that the failure of a test stands for."""
    if isinstance(info.value, pytest.skip.Exception):
        return Judgement(Verdict.SKIP, info.value.msg or "")
    judgement = judge(info.value)
    judgement.secret = in_secret_case()
    if judgement.verdict is Verdict.SE:
        place = next((e for e in reversed(info.traceback) if Path(e.path) == item.path), info.traceback[-1])
        return Judgement(Verdict.SE, f"{Path(place.path).name}:{place.lineno + 1}: {judgement.seen}")
    return judgement


class _Outcomes:
    """A plugin object that collects the criteria of a session, each by its grader file and test function."""

    def __init__(self) -> None:
        self._infos: dict[tuple[Path, str], CriterionInfo] = {}
        self._outcomes: defaultdict[tuple[Path, str], list[Judgement]] = defaultdict(list)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            mark = item.get_closest_marker("criterion")
            if mark is not None and step_of(item.path) is not None:
                path, name = _key(item)
                self._infos.setdefault((path, name), info_of(name, mark))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
        report = yield
        if call.excinfo is not None:
            self._outcomes[_key(item)].append(judged(item, call.excinfo))
        elif call.when == "call":
            self._outcomes[_key(item)].append(Judgement(Verdict.AC, "", fraction=1.0))
        return report

    def _gravest(self, key: tuple[Path, str]) -> Judgement | None:
        """The judgement of all a criterion's cases: the gravest one speaks, the first of equals."""
        return min(self._outcomes[key], key=lambda outcome: outcome.verdict.rank, default=None)


def _is_unforeseen(error: BaseException, told: Judgement) -> bool:
    """Whether a fault of the grader is of none of the project's own kinds."""
    return told.verdict is Verdict.SE and not isinstance(error, WarpschoolError | Judgement)


def _key(item: pytest.Item) -> tuple[Path, str]:
    return item.path, item.name.split("[")[0]


def _criterion(info: CriterionInfo, told: Judgement, **more: Any) -> Criterion:
    return Criterion(
        info.id, info.title, info.weight, told.fraction, told.verdict, counts=info.counts, secret=told.secret,
        **{"hint": info.hint, **told.observed, **more},
    )  # fmt: skip


_UNTIL = {
    Verdict.OOB: "no access leaves its array", Verdict.RACE: "no race is left",
    Verdict.SYNC: "all threads reach the barriers", Verdict.UNINIT: "everything is written before it is read",
    Verdict.TLE: "the kernel comes to its end", Verdict.WA: "the answers are right",
}  # fmt: skip
_COUNTED = (Verdict.PERF, Verdict.PC)
_NO_FAULT = (Verdict.AC, Verdict.SKIP, Verdict.SE)


def without_false_budgets(criteria: Sequence[Criterion]) -> tuple[Criterion, ...]:
    """The criteria, those that count in words of their own while the kernel is wrong: what a wrong kernel takes says
    nothing, neither that it is too much nor that it is within the budget's reach."""
    wrong = [c for c in criteria if not c.counts and c.verdict not in (*_COUNTED, *_NO_FAULT)]
    if not wrong:
        return tuple(criteria)
    first = min(wrong, key=lambda c: c.verdict.rank)
    return tuple(_unjudged(c, first) if c.counts and c.verdict not in _NO_FAULT else c for c in criteria)


def _unjudged(criterion: Criterion, wrong: Criterion) -> Criterion:
    """A criterion that nothing can be said about yet; a graver verdict of its own stays."""
    verdict = min(criterion.verdict, wrong.verdict, key=lambda v: v.rank)
    if verdict is not wrong.verdict:
        return criterion
    said = f"not judged until {_UNTIL.get(verdict, 'the kernel runs')}"
    nothing = Observed(said=said).observed
    return replace(criterion, verdict=verdict, fraction=0.0, hint=(), measured=(), wrong=None, **nothing)


class CriteriaRecorder(_Outcomes):
    """Collects one Criterion for each criterion of the step that `check` asks about."""

    def __init__(self, setup: GradingSetup) -> None:
        super().__init__()
        self.setup = setup
        self.whole: Criterion | None = None
        self.has_failed = False
        """whether something raised what nobody foresaw"""
        self._submission: Tested | None = None
        self._measured: defaultdict[tuple[Path, str], list[str]] = defaultdict(list)
        self._lines = (setup.source or b"").decode("utf-8", errors="replace").split("\n")

    @property
    def circumstances(self) -> dict[str, str]:
        """What the submission adds to its result's provenance; nothing where it could not be loaded."""
        loaded = self._submission
        if loaded is None:
            return {}
        return {"compiler": loaded.compiler, "arch": loaded.arch, "not_on_gpu": loaded.not_on_gpu, **loaded.spent}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the compiler warns of, where the submission could be loaded."""
        return self._submission.warnings if self._submission is not None else ()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Load the submission before the first test: what fails here is said once, about the whole file."""
        super().pytest_collection_finish(session)
        if not session.items:
            return
        try:
            self._submission = session.config.stash[_SESSION].submission(_step(session.items[0].path))
        except Exception as error:  # whatever it is, it must become a verdict
            told = judge(error)
            self.has_failed |= _is_unforeseen(error, told)
            self.whole = Criterion("", "", 0, 0, told.verdict, **told.observed | {"code": self._code(told.line)})
            session.items.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
        report = yield from super().pytest_runtest_makereport(item, call)
        if call.excinfo is not None:
            self.has_failed |= _is_unforeseen(call.excinfo.value, self._outcomes[_key(item)][-1])
        self._measured[_key(item)] += item.config.stash[_SESSION].measured()
        return report

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """The criteria in their order, whether they were run or not: of a check that stops early, those that it ran."""
        stopped = self.setup.until_wrong and self.whole is None
        asked = ((key, info) for key, info in self._infos.items() if not stopped or self._outcomes[key])
        return without_false_budgets([self._told(key, info) for key, info in asked])

    def _told(self, key: tuple[Path, str], info: CriterionInfo) -> Criterion:
        if self.whole is not None:
            told = Judgement(self.whole.verdict, "not run")
        else:
            told = self._gravest(key) or Judgement(Verdict.SE, "this criterion was not run")
        of_step = {one.about: one.hint for one in self._infos.values() if one.about is not None and one.hint}
        return _criterion(
            info, told, measured=tuple(self._measured[key]), wrong=told.wrong, code=self._code(told.line),
            hint=info.hint if told.secret else fault_hints(told, of_step=of_step) or self._own_hint(info, told),
        )  # fmt: skip

    def _own_hint(self, info: CriterionInfo, told: Judgement) -> Hints:
        """The criterion's hints; of wrong results in one about races and the like, those of the first about answers."""
        if told.verdict is not Verdict.WA or info.about in (None, Verdict.WA):
            return info.hint
        return next((one.hint for one in self._infos.values() if one.about is None and one.hint), info.hint)

    def _code(self, line: int) -> str:
        return readable(self._lines[line - 1].rstrip()[:200]) if 1 <= line <= len(self._lines) else ""


# ---------------------------------------------------------------- points in a plain run of pytest


class PointsReport(_Outcomes):
    """Adds up points over all grader files of a session."""

    def __init__(self, gradescope: str | None) -> None:
        super().__init__()
        self._gradescope = gradescope

    def criteria(self) -> list[tuple[str, Criterion]]:
        """The criteria that were run, with their steps, in order."""
        found = ((key, info, self._gravest(key)) for key, info in self._infos.items())
        return [(_step(key[0]).name, _criterion(info, told)) for key, info, told in found if told is not None]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Points by step, and their sum."""
        counted: dict[str, list[Criterion]] = {}
        for step, criterion in self.criteria():
            if criterion.verdict is not Verdict.SKIP:
                counted.setdefault(step, []).append(criterion)
        if not counted:
            return
        terminalreporter.section("points")
        for name, of in {**counted, "all": [one for found in counted.values() for one in found]}.items():
            points, most = sum(one.points for one in of), sum(one.weight for one in of)
            terminalreporter.write_line(f"{name}: {points:g} of {most:g}")

    def pytest_sessionfinish(self) -> None:
        if self._gradescope:
            text = json.dumps(gradescope_results(self.criteria()), indent=2, ensure_ascii=False) + "\n"
            write_file(Path(self._gradescope), text)


def gradescope_results(criteria: list[tuple[str, Criterion]]) -> dict[str, Any]:
    """Return Gradescope's results.json: a test for each criterion; a fault of the grader is no score at all."""
    tests: list[dict[str, Any]] = []
    for step, criterion in criteria:
        if criterion.verdict is Verdict.SKIP:
            continue
        lines = [f"{criterion.verdict}: {criterion.verdict.meaning}"] if not criterion.ok else []
        lines += [criterion.shown] if criterion.shown else []
        lines += [f"hint: {hint}" for hint in criterion.hint[:1] if not criterion.ok]
        tests.append({
            "name": f"{step}: {criterion.title}", "score": round(criterion.points, 6), "max_score": criterion.weight,
            "status": "passed" if criterion.ok else "failed", "output": "\n".join(lines), "visibility": "visible",
        })  # fmt: skip
    if any(criterion.verdict is Verdict.SE for _, criterion in criteria):
        return {"output": "The grader failed; this is no grade. Please tell your teacher.", "tests": []}
    return {"score": round(sum(test["score"] for test in tests), 6), "tests": tests, "output": ""}
