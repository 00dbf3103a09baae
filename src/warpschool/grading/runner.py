"""`check`: runs a step's grader tests on a source in a child process, and always comes back with a result.

A result names what it may depend on: versions, device, content (`provenance`). The last one of each source is kept
beside the compile cache, and tells how far a student is.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ptxsim
from ptxsim import cache, system
from ptxsim.counters import VERSION as COUNTERS_VERSION
from warpschool.compile import DEFAULT_ARCH, compiler_name, find_compiler
from warpschool.course import Course, Step
from warpschool.device import get_device
from warpschool.errors import CompilerMissing, CourseError, GradingError, ToolMissing, WarpschoolError
from warpschool.grading.criteria import criteria_of
from warpschool.grading.limits import FAULT, Limits
from warpschool.grading.result import Criterion, Result, make_result
from warpschool.grading.sandbox import MOST_ANSWER_BYTES, Finished, module_path, python_folders, run_isolated
from warpschool.grading.secret import fingerprint, secret_of
from warpschool.grading.verdicts import Verdict, readable
from warpschool.harness.source import Source, find_source
from warpschool.version import __version__
from warpschool.warm import client as warm

PACKAGES = ("ptxsim", "warpschool", "warpcourse")
ISOLATION = "child process with limits of memory, time and file size"
PUBLIC_CASES = "public"


def cases_of(secret: str) -> str:
    """Return what results say of their cases."""
    return f"secret, {fingerprint(secret)}" if secret else PUBLIC_CASES


def content_hash(step: Step) -> str:
    """Return a hash of what judges the step: its grader file, starter and reference, and its course's own modules."""
    digest = hashlib.sha256()
    for path in (step.grader, step.starter, step.solution):
        digest.update(path.read_bytes() if path is not None else b"")
        digest.update(b"\0")
    if step.grader is not None:
        digest.update(modules_hash(Course(step.grader.parents[2])).encode())
    return digest.hexdigest()[:16]


def modules_hash(course: Course) -> str:
    """Return a hash of the modules of a course's own labs, and of the files beside them; "" where there are none."""
    paths = [p for p in course.modules.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    return _hash_of(course.modules, paths) if paths else ""


@functools.cache
def code_hash() -> str:
    """Return a hash of the three packages' modules: a changed checkout is another version, whatever its number says."""
    root = Path(__file__).resolve().parents[2]
    kinds = ("*.py", "*.cpp", "*.h")  # the runtime library of programs is C++
    paths = (path for package in PACKAGES for kind in kinds for path in (root / package).rglob(kind))
    return _hash_of(root, (path for path in paths if "_content" not in path.parts))


def _hash_of(root: Path, paths: Iterable[Path]) -> str:
    """A hash of files, and of their names below a folder."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def provenance(
    step: Step,
    *,
    device: str,
    compiler: str = "",
    arch: str = "",
    cases: str = PUBLIC_CASES,
    not_on_gpu: str = "",
    **spent: str,
) -> dict[str, str]:
    """Return the versions and places that a result names; results that differ in them are not compared.

    `spent`: what the check cost, in counts.
    """
    lacking = {"not_on_gpu": not_on_gpu} if not_on_gpu else {}
    return (
        lacking
        | spent
        | library_versions(compiler)
        | {
            "content": content_hash(step),
            "cases": cases,
            "arch": arch or DEFAULT_ARCH,
            "device": device,
            "isolation": ISOLATION,
        }
    )


def program_versions(step: Step) -> dict[str, str]:
    """Return what else the outcome of a whole program depends on; {} for a kernel."""
    if not step.is_program:
        return {}
    from warpschool.programs import tools_report

    report = tools_report()
    found = report["available"]
    return {"programs": f"nvcc {report['nvcc']}, {report['host']}" if found else "none"}


def library_versions(compiler: str = "") -> dict[str, str]:
    """Return the versions that every outcome depends on; `nvrtc` is "none" where another compiler made the PTX."""
    compiler = compiler or compiler_name()
    name, _, version = compiler.partition(" ")
    return {
        "warpschool": __version__,
        "code": code_hash(),
        "counters": str(COUNTERS_VERSION),
        "compiler": compiler,
        "nvrtc": version if name == "NVRTC" else "none",
        "machine": platform.machine(),
        "llvmlite": importlib.metadata.version("llvmlite"),
        "numpy": importlib.metadata.version("numpy"),
    }


CHILD = "warpschool.grading.child"
DEFAULT_SEED = 0
_OWN, _MOST_OWN = "checks", 64
_PREPARED = "prepared"
_CONTENT = ("grader", "kernels", "solutions", "labs", "benchmarks/results", "tests/specimens")
"""Folders of a course that graders read; a class may stand beside them in the same folder."""
_USUAL_LIMITS = Limits()
_SHOWN_BYTES = 2000
_OUT_OF_MEMORY = ("MemoryError", "out of memory", "bad_alloc", "Cannot allocate memory")


def check(
    step: str, source_or_path: str | bytes | Path | None = None, *, device: str = "auto", seed: int | None = None,
    limits: Limits = _USUAL_LIMITS, course: Course | None = None, secret: str = "",
) -> Result:  # fmt: skip
    """Grade a kernel file of one's own for a step.

    Without a source, the step's last-run notebook cell is taken, else its file in the nearest personal copy, else, in a
    checkout, its file in kernels/. Raises CourseError for an unknown step or a missing file, DeviceUnavailable for a
    GPU that is not there. Whatever the kernel does ends in a verdict. `secret` is an instructor's secret seed: see
    `warpschool.grading.secret`.
    """
    found = (course or Course.find()).step(step)
    source = find_source(found, source_or_path, otherwise=f'Name a file: ws.check("{found}", "FILE.cu")')
    is_own = limits == _USUAL_LIMITS and not secret
    return check_source(found, source, device=device, seed=seed, limits=limits, secret=secret, is_own=is_own)


def check_source(
    step: Step, source: Source, *, device: str = "auto", seed: int | None = None, limits: Limits = _USUAL_LIMITS,
    secret: str = "", is_own: bool = False, until_wrong: bool = False,
) -> Result:  # fmt: skip
    """Grade a source that has been found already; see `check`.

    `is_own`: of whoever asks, so that a warm process may do it; what others hand in gets a new interpreter.
    `until_wrong`: stop at the first criterion that is not met; the result has none behind it, and is nobody's grade.

    A crash is run again. One that comes back, and does not with the step's own reference, is the submission's.
    """
    try:
        first = _attempt(step, source, device, seed, limits, secret, is_own=is_own, until_wrong=until_wrong)
    except (ToolMissing, GradingError) as lacking:
        if is_own or not step.is_program:
            raise
        return _not_here(step, source, lacking, seed, secret)
    if not first.crash:
        return first.result
    again = _attempt(step, source, device, seed, limits, secret, is_own=is_own)
    if not again.crash or again.crash != first.crash:
        return again.result
    return _crashed(again, step, source) if _control_is_fine(step, device, seed, limits, secret) else again.result


def prepare(step: Step, limits: Limits) -> None:
    """Let the step's reference run, once for each version of it on a machine, and keep what is compiled for it.

    Checks of a class read the user's cache and write nothing there. What kernels of a step share (stencils, above all
    those of `wgmma`) each would compile anew, and the reference with it, where it is asked how long it takes. Nothing
    of a submission is in this child. Where there is no reference, or nowhere to keep it, checks take longer.
    """
    versions = json.dumps(library_versions() | program_versions(step), sort_keys=True)
    key = cache.content_key("prepared", step.name, content_hash(step), versions)
    place = cache.writable_folder(_PREPARED)
    if step.solution is None or place is None or cache.load(_PREPARED, key) is not None:
        return
    with contextlib.suppress(WarpschoolError):
        reference = Source(step.solution.read_bytes(), step.solution.name, "reference")
        done = _attempt(step, reference, "sim", None, limits, "", kept_in=str(place.parent))
        if done.result.is_grade:
            cache.store(_PREPARED, key, {"step": step.name})


@dataclass(frozen=True)
class _Attempt:
    """One child's result; `crash` is how it ended where it should not have, `in_compiler` whether code was made."""

    result: Result
    crash: str = ""
    in_compiler: bool = False


def _attempt(
    step: Step, source: Source, device: str, seed: int | None, limits: Limits, secret: str, *, is_own: bool = False,
    until_wrong: bool = False, kept_in: str = "",
) -> _Attempt:  # fmt: skip
    if step.grader is None:
        raise CourseError(f"{step} has no grader", next_step="Choose a step that has a file in grader/.")
    chosen = get_device("sim" if step.is_program else device)
    job: dict[str, Any] = {
        "root": str(step.grader.parents[2]), "step": step.name, "name": source.name, "device": chosen.name,
        "device_text": chosen.description, "seed": DEFAULT_SEED if seed is None else int(seed),
        "secret": secret_of(secret, step.name), "cases": cases_of(secret),
        "about": {"name": source.name, "sha256": source.sha256, "origin": source.origin},
        "limits": asdict(limits), "source": base64.b64encode(source.data).decode(), "until_wrong": until_wrong,
    }  # fmt: skip
    with contextlib.ExitStack() as opened:
        if step.is_program:
            from warpschool.grading.program_build import DEVICE_BYTES, build_program

            folder = opened.enter_context(
                tempfile.TemporaryDirectory(prefix="warpschool-program-", ignore_cleanup_errors=True)
            )
            own = dataclasses.replace(source, name=step.file_name)
            job["program"] = build_program(own, Path(folder), must=not is_own, may_cache=limits.may_cache).to_dict()
            job["limits"]["file_bytes"] = max(limits.file_bytes, 2 * DEVICE_BYTES)  # its memory file
        kept_in = kept_in or (_own_cache(source) if limits.may_cache else "")
        child = _run_child(job, step, limits, chosen.name, kept_in, is_own=is_own)
    if child.code in (0, FAULT):
        with contextlib.suppress(GradingError):
            result = Result.from_json(child.answer.decode("utf-8", "replace"))
            return _Attempt(result, "an exception" if child.code == FAULT else "")
    verdict, seen, is_crash = _verdict_of_end(child)
    made = provenance(step, device=chosen.description, cases=cases_of(secret))
    result = no_result(step, source, verdict, seen, seed=int(seed or DEFAULT_SEED), provenance=made)
    return _Attempt(result, _end_of(child) if is_crash else "", "llvmlite" in child.log)


def _not_here(step: Step, source: Source, why: WarpschoolError, seed: int | None, secret: str) -> Result:
    """The result of a program that this machine cannot grade: no grade, and nobody's fault but the machine's."""
    made = provenance(step, device=get_device("sim").description, cases=cases_of(secret))
    return no_result(step, source, Verdict.SE, str(why), seed=int(seed or DEFAULT_SEED), provenance=made)


def _control_is_fine(step: Step, device: str, seed: int | None, limits: Limits, secret: str) -> bool:
    """Whether the same check judges the step's reference, or where there is none its starter."""
    path = step.solution or step.starter
    if path is None:
        return False
    control = _attempt(step, Source(path.read_bytes(), path.name, "control"), device, seed, limits, secret)
    return not control.crash and control.result.is_grade


def _crashed(attempt: _Attempt, step: Step, source: Source) -> Result:
    """The result of a submission that crashes what runs it: a verdict, and a note that somebody should look."""
    verdict = Verdict.CLE if attempt.in_compiler else Verdict.RTE
    seen = f"the process that runs the kernel ended with {attempt.crash}, twice; the step's own kernel runs in it"
    about = {**attempt.result.provenance, "crash": attempt.crash}
    return no_result(step, source, verdict, seen, seed=attempt.result.seed, provenance=about)


def _run_child(
    job: dict[str, Any], step: Step, limits: Limits, device: str, kept_in: str, *, is_own: bool
) -> Finished:
    """Run the job in a child that may write into a folder of its own, and into that which keeps what it compiles."""
    root = Course(step.grader.parents[2]) if step.grader is not None else Course.find()
    program = job.get("program")
    built = [program["path"], *program["libraries"], "/etc/ld.so.cache"] if program else []
    with tempfile.TemporaryDirectory(prefix="warpschool-check-", ignore_cleanup_errors=True) as scratch:
        places = {
            "readable": [*readable_of(root), *built],
            "writable": [scratch, kept_in] if kept_in else [scratch], "cache": kept_in,
        }  # fmt: skip
        environment = _environment(limits.threads, scratch, on_gpu=device == "gpu")
        return _finished(json.dumps(job | places), environment, limits.wall_s, is_own=is_own)


def readable_of(course: Course) -> list[str]:
    """What a process reads that runs a submission: Python, the compiler, the course's files, what is compiled."""
    content = (course.root / name for name in _CONTENT)
    return [*map(str, (*python_folders(), *_toolchain(), *content, course.modules, *cache.folders()))]


def _finished(job: str, environment: Mapping[str, str], wall_s: float, *, is_own: bool) -> Finished:
    """How the child ended that was given this job."""
    child = _in_warm_process(job, environment, wall_s) if is_own else None
    if child is None:
        if is_own:
            keep_helpers()
        child = run_isolated(CHILD, job, wall_s=wall_s, in_bubblewrap=False, environment=environment)
        if is_own:
            warm.start()  # for the next one
    return child


def keep_helpers() -> None:
    """Compile what kernels share, once on a machine, here where no submission has been.

    Children read the user's cache and write nothing there: each would compile it anew for each source. A process that
    waits for work has all of it in memory, and only says so.
    """
    key = cache.content_key("helpers", json.dumps(library_versions(), sort_keys=True))
    if cache.writable_folder(_PREPARED) is None or cache.load(_PREPARED, key) is not None:
        return
    ptxsim.prepare()
    cache.store(_PREPARED, key, {"what": "helpers"})


def _in_warm_process(job: str, environment: Mapping[str, str], wall_s: float) -> Finished | None:
    """How a fork of the warm process ended; None where there is none, or it failed."""
    with contextlib.ExitStack() as opened:
        question, answer, log = [opened.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        question.write(job.encode())
        question.seek(0)
        numbers = question.fileno(), answer.fileno(), log.fileno()
        timed_out = False
        try:
            code = warm.run(warm.GRADER, files=numbers, folder="/", environment=environment, timeout_s=wall_s)
        except TimeoutError:
            timed_out, code = True, -int(signal.SIGKILL)
        if code is None:
            return None
        answer.seek(0)
        log.seek(0)
        return Finished(answer.read(MOST_ANSWER_BYTES), code, log.read().decode("utf-8", "replace"), timed_out)


def _toolchain() -> tuple[Path, ...]:
    """What a compilation reads; without a compiler the child says what is missing."""
    with contextlib.suppress(CompilerMissing):
        return find_compiler().readable
    return ()


def _own_cache(source: Source) -> str:
    """A folder for what is compiled of this source; "" where none can be made. Only the newest of them are kept.

    It is read for this source alone: whatever a source could do to what its child leaves behind, it does to itself.
    """
    place = cache.writable_folder(_OWN)
    if place is None:
        return ""
    with contextlib.suppress(OSError):
        old = sorted(place.iterdir(), key=lambda path: path.stat().st_mtime)[:-_MOST_OWN]
        for folder in old:
            shutil.rmtree(folder, ignore_errors=True)
        own = place / source.sha256[:32]
        own.mkdir(exist_ok=True)
        os.utime(own)
        return str(own)
    return ""


def _environment(threads: int, scratch: str, *, on_gpu: bool) -> dict[str, str]:
    """What of the caller's environment a check needs: a driver may need anything, the simulator little."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH",
            "XDG_CACHE_HOME", "CUDA_PATH", "CUDA_HOME", *system.NEEDED_VARIABLES)  # fmt: skip
    environment = {
        key: value for key, value in os.environ.items()
        if key in kept or key.startswith("WARPSCHOOL_") or (on_gpu and not key.startswith("PYTEST_"))
    }  # fmt: skip
    environment["OPENBLAS_NUM_THREADS"] = "1"  # products to compare with are small, and its threads spin while idle
    if threads:
        environment["WARPSCHOOL_THREADS"] = str(threads)
    own = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1", "TMPDIR": scratch}
    return environment | module_path() | own


def no_result(
    step: Step, source: Source, verdict: Verdict, seen: str, *, seed: int, provenance: Mapping[str, str]
) -> Result:
    """Return the result of a check that came to no result of its own."""
    whole = Criterion("", "", 0, 0, verdict, said=readable(seen))
    criteria = [
        Criterion(info.id, info.title, info.weight, 0.0, verdict, said="not run", counts=info.counts, hint=info.hint)
        for info in criteria_of(step)
    ]
    about = {"name": source.name, "sha256": source.sha256, "origin": source.origin}
    return make_result(step.name, criteria, seed=seed, source=about, provenance=provenance, whole=whole)


def _end_of(child: Finished) -> str:
    return system.how_ended(child.code) or f"exit code {child.code}"


def _verdict_of_end(child: Finished) -> tuple[Verdict, str, bool]:
    """What a child without a result stands for, and whether that is a crash."""
    log, code = child.log[-_SHOWN_BYTES:], _end_of(child)
    overloaded = "the check ran out of time and was stopped: does it hang, or is this machine overloaded?"
    ends = {
        # kernels end by their budgets; elapsed time says how busy the machine is
        (Verdict.SE, overloaded, False): child.timed_out,
        (Verdict.TLE, "the check used up its processor time and was stopped", False): code == "time",
        # none of the limits does that
        (Verdict.SE, "the check was killed from outside: is this machine out of memory?", False): code == "killed",
        (Verdict.MLE, "the check needed more memory than it may use and was stopped", False): any(
            words in log for words in _OUT_OF_MEMORY
        ),
        (Verdict.SE, f"the grading process ended with {code}\n{log}".rstrip(), True): True,
    }
    return next(end for end, is_so in ends.items() if is_so)


# ---------------------------------------------------------------- the last result of each source


_KIND = "results"
_POLL_S = 0.3


@dataclass(frozen=True)
class StepState:
    """How far a step is, in words; `points` is "" before a check."""

    step: str
    state: str
    points: str = ""


def check_and_remember(step: Step, source: Source, *, device: str = "auto", seed: int | None = None) -> Result:
    """Check a source and keep its result; a disk that does not take it is no failure."""
    result = check_source(step, source, device=device, seed=seed, is_own=True)
    if result.is_grade:
        cache.store(_KIND, _key(result.step, source.sha256), result.to_dict())
    return result


def last_result(step: str, source: Source) -> Result | None:
    """The result of this very source, or None if it was not checked since it was changed."""
    with contextlib.suppress(GradingError):  # for there is none, or one of another version
        return Result.from_json(json.dumps(cache.load(_KIND, _key(step, source.sha256))))
    return None


def state_of(step: Step, folder: Path | None = None) -> StepState:
    """How far the student's own file of a step is; `folder` is the copy, or lies in it (default: here)."""
    try:
        source = find_source(step, folder=folder)
    except WarpschoolError:
        return StepState(step.name, "no file")
    if _is_untouched(step, source):
        return StepState(step.name, "not started")
    result = last_result(step.name, source)
    if result is None:
        return StepState(step.name, "changed, not checked")
    state = "accepted" if result.ok else f"{result.verdict}: {result.verdict.meaning}"
    return StepState(step.name, state, f"{result.score:g}/{result.max_score:g}")


def _is_untouched(step: Step, source: Source) -> bool:
    return step.starter is not None and source.data == step.starter.read_bytes()


def hints_for(step: Step) -> tuple[dict[str, tuple[str, ...]], bool]:
    """(criterion -> its hints, whether they are for what the last check found wrong); before a check for everything.

    A criterion that waits for others to be right has none of its own. Of a starter as it was given a check says that
    variables have no value yet, which helps nobody: its hints are those of before a check.
    """
    try:
        source = find_source(step)
        result = None if _is_untouched(step, source) else last_result(step.name, source)
    except WarpschoolError:  # nobody has started
        result = None
    if result is None:
        return {info.title: tuple(info.hint) for info in criteria_of(step)}, False
    wrong = {c.title: tuple(c.hint) for c in result.criteria if not c.ok and c.is_judged}
    return {title: hints for title, hints in wrong.items() if hints} or wrong, True


def saved_sources(find: Callable[[], Source]) -> Iterator[Source | WarpschoolError]:
    """The source whenever it has changed, without end, and what is wrong with it, once.

    A file that is gone while an editor saves it is waited for.
    """
    last, complaint = "", ""
    while True:
        try:
            source = find()
            if source.sha256 != last:
                last, complaint = source.sha256, ""
                yield source
        except WarpschoolError as error:
            if str(error) != complaint:
                complaint, last = str(error), ""
                yield error
        time.sleep(_POLL_S)


def _key(step: str, sha256: str) -> str:
    return cache.content_key("result", step, sha256)
