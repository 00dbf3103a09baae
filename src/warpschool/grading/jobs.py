"""What a class's grading consists of: jobs, each with a content address, for any machine that has the course.

A job's key is a hash of all that its result depends on (source, step, seed, versions), so equal keys mean equal bytes.
A `Store` keeps one file for each, whole or not there at all: after a kill the same command does the rest.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import platform
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from warpschool.atomic import replace_file
from warpschool.course import Course, Step
from warpschool.device import get_device
from warpschool.errors import GradingError, OutputError
from warpschool.grading.limits import COMPILER_BYTES, Limits
from warpschool.grading.result import CellOutcome, Drawing, Result
from warpschool.grading.runner import (
    cases_of,
    check_source,
    library_versions,
    modules_hash,
    no_result,
    prepare,
    program_versions,
    provenance,
)
from warpschool.grading.verdicts import Verdict, worst
from warpschool.harness.source import Source

FORMAT = 2
ATTEMPTS = 3
"""How often a job is tried whose outcome is a fault of the grader."""
ORIGIN = "submission"
BATCH_LIMITS = Limits(
    memory_bytes=8 << 30, threads=1, resident_bytes=800 << 20, compiler_bytes=COMPILER_BYTES, may_cache=False
)


@dataclass(frozen=True)
class KernelJob:
    """A kernel source to be checked for a step; `name`, for people, does not change the result.

    `secret` is the text of an instructor's secret seed, `root` the course's root folder ("": the package's own course).
    """

    step: str
    source: bytes = field(repr=False)
    name: str = field(default="", compare=False)
    seed: int = 0
    device: str = "sim"
    secret: str = field(default="", repr=False)
    root: str = ""

    @cached_property
    def key(self) -> str:
        """The content address of this job's result."""
        return content_key(
            "kernel", step=self.step, source=hashlib.sha256(self.source).hexdigest(), seed=self.seed,
            **_versions(self.root, self.step, self.device, self.secret),
        )  # fmt: skip

    def prepare(self) -> None:
        """Make ready what the step's kernels share; worthwhile where several of them are checked."""
        prepare(_step(self.root, self.step), BATCH_LIMITS)

    def run(self) -> Result:
        """Check the kernel, in a child process; a fault of the grader is a result too, with verdict SE."""
        step = _step(self.root, self.step)
        source = Source(self.source, step.file_name, ORIGIN)
        return check_source(step, source, device=self.device, seed=self.seed, limits=BATCH_LIMITS, secret=self.secret)

    def failed(self, why: str, verdict: Verdict = Verdict.SE) -> Result:
        """Return the result that says that no result could be had; BAD is that of a file that cannot be read."""
        step = _step(self.root, self.step)
        return no_result(
            step, Source(self.source, step.file_name, ORIGIN), verdict, why, seed=self.seed,
            provenance=_versions(self.root, self.step, self.device, self.secret),
        )  # fmt: skip

    def decode(self, text: str) -> Result:
        """Read a stored result of this job; raises GradingError for any other."""
        result = Result.from_json(text)
        if (result.step, result.source.get("sha256")) != (self.step, hashlib.sha256(self.source).hexdigest()):
            raise GradingError("this is the result of another job")
        return result


@dataclass(frozen=True)
class Policy:
    """What an instructor decides about grading; `python` is "sandbox", "manual" or "trusted"."""

    seed: int = 0
    secret: str = field(default="", repr=False)
    python: str = "sandbox"


@dataclass(frozen=True)
class PythonOutcome:
    """What a notebook's Python check cells gave, and what cells that people grade drew."""

    cells: Mapping[str, CellOutcome]
    provenance: Mapping[str, str] = field(default_factory=dict)
    drawings: Mapping[str, Drawing] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """The gravest of the cells'; SKIP where there is nothing but drawings."""
        return worst(cell.verdict for cell in self.cells.values()) if self.cells else Verdict.SKIP

    def to_json(self) -> str:
        """Return JSON with sorted keys: equal outcomes are equal bytes."""
        return json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class PythonJob:
    """A notebook whose check cells in Python are to be run; `points`: grade id -> what the cell is worth.

    `drawn`: ids of code cells that people grade, to be run for their pictures; `checked`: steps that the check cells
    check as well, with the instructor's secret.
    """

    notebook: str = field(repr=False)
    points: Mapping[str, float]
    seed: int = 0
    secret: str = field(default="", repr=False)
    root: str = ""
    policy: str = "sandbox"
    drawn: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """The content address of this job's outcome."""
        return content_key(
            "python", notebook=hashlib.sha256(self.notebook.encode()).hexdigest(), points=dict(self.points),
            drawn=list(self.drawn),
            content={step: _versions(self.root, step, "sim", self.secret)["content"] for step in self.checked},
            seed=self.seed, secret=self.secret, policy=self.policy, **_python_versions(self.policy),
        )  # fmt: skip

    def run(self) -> PythonOutcome:
        """Run the check cells; see `python_cells` for what of the student's Python runs, and where."""
        from warpschool.grading import python_cells

        notebook = json.loads(self.notebook)
        cells = {
            name: python_cells.check(notebook, name, points=points, policy=self.policy, secret=self.secret)
            for name, points in self.points.items()
        }
        drawings = {name: python_cells.draw(notebook, name, policy=self.policy) for name in self.drawn}
        return PythonOutcome(cells, _python_versions(self.policy), drawings)

    def failed(self, why: str) -> PythonOutcome:
        """Return the outcome that says that none could be had."""
        return PythonOutcome({name: CellOutcome(Verdict.SE, 0.0, why, grade_id=name) for name in self.points})

    def decode(self, text: str) -> PythonOutcome:
        """Read a stored outcome of this job; raises GradingError for anything else."""
        try:
            data = json.loads(text)
            cells = {
                name: CellOutcome(**{**cell, "verdict": Verdict(cell["verdict"])})
                for name, cell in data["cells"].items()
            }
            drawings = {
                name: Drawing(**{**drawing, "images": tuple(drawing["images"])})
                for name, drawing in data["drawings"].items()
            }
            if data["format"] != FORMAT or (set(cells), set(drawings)) != (set(self.points), set(self.drawn)):
                raise ValueError("another format, or other cells")
            return PythonOutcome(cells, data["provenance"], drawings)
        except (ValueError, KeyError, TypeError) as error:
            raise GradingError(f"this is no outcome of a notebook: {error}") from None


Job = KernelJob | PythonJob
Outcome = Result | PythonOutcome


def content_key(kind: str, **parts: Any) -> str:
    """Return a hash of a kind of job and everything that its result depends on."""
    text = json.dumps({"kind": kind, "format": FORMAT, **parts}, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def run_job(job: Job) -> Outcome:
    """Run a job, and run it again where the grader failed; the last outcome counts."""
    for _ in range(ATTEMPTS - 1):
        outcome = job.run()
        if outcome.verdict is not Verdict.SE:
            return outcome
    return job.run()


def to_wire(job: Job) -> dict[str, Any]:
    """Return a job as plain data that another process can make it from again."""
    return {"kind": "kernel" if isinstance(job, KernelJob) else "python", **asdict(job)}


def from_wire(data: Mapping[str, Any]) -> Job:
    """Return the job that `to_wire` described."""
    made = dict(data)
    if made.pop("kind") == "kernel":
        return KernelJob(**made)
    return PythonJob(**made | {name: tuple(made[name]) for name in ("drawn", "checked")})


@functools.lru_cache(maxsize=4096)
def _versions(root: str, step: str, device: str, secret: str) -> dict[str, str]:
    """Everything but source and seed that the outcome depends on; looked at once in each process."""
    found = _step(root, step)
    made = provenance(found, device=get_device(device).description, cases=cases_of(secret))
    return made | program_versions(found)


@functools.cache
def _python_versions(policy: str) -> dict[str, str]:
    """Everything but the notebook that a Python cell's outcome depends on."""
    from warpschool.grading.sandbox import bubblewrap_problem

    own = modules_hash(Course.find())
    return {
        **library_versions(), **({"modules": own} if own else {}), "python": platform.python_version(),
        "matplotlib": importlib.metadata.version("matplotlib"),
        "isolation": (bubblewrap_problem() or "bubblewrap") if policy == "sandbox" else policy,
    }  # fmt: skip


@functools.lru_cache(maxsize=1024)
def _step(root: str, name: str) -> Step:
    return (Course(Path(root)) if root else Course.find()).step(name)


# ---------------------------------------------------------------- results on disk


_STALE_S = 3600.0
_IDENTITY = "store.id"
_PART, _MODE = ".part-", 0o644


class Store:
    """A folder of results; processes of any number, and machines that share the folder, may use it at once."""

    def __init__(self, folder: Path) -> None:
        """Make the folder where it is missing. Raises OutputError where that cannot be."""
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._clear_parts()
            self.identity = self._identify()
        except OSError as error:
            raise OutputError(
                f"cannot keep results in {folder}: {error.strerror or error}", next_step="Name another: --store DIR"
            ) from None

    def path(self, job: Job) -> Path:
        """Where the job's result is, or will be."""
        return self.folder / job.key[:2] / f"{job.key}.json"

    def get(self, job: Job) -> Outcome | None:
        """Return the job's result; None where there is none, or none that can be trusted."""
        try:
            return job.decode(self.path(job).read_text("utf-8"))
        except (OSError, ValueError, GradingError):
            return None

    def put(self, job: Job, outcome: Outcome) -> None:
        """Keep a result; a fault of the grader is not kept. Raises OutputError when it cannot be written."""
        if outcome.verdict is Verdict.SE:
            return
        path = self.path(job)
        try:
            path.parent.mkdir(exist_ok=True)
            replace_file(path, outcome.to_json().encode(), prefix=_PART, mode=_MODE)
        except OSError as error:
            raise OutputError(
                f"cannot write {path}: {error.strerror or error}",
                next_step="Make room, or let it be written, and run the same command again: finished results are kept.",
            ) from None

    def _identify(self) -> str:
        """A random name, written once: another machine's folder of the same path is not the same store."""
        path = self.folder / _IDENTITY
        if not path.exists():
            replace_file(path, uuid.uuid4().hex.encode(), prefix=_PART, mode=_MODE)
        return path.read_text("ascii")

    def _clear_parts(self) -> None:
        """Remove what killed writers left behind long ago."""
        for part in self.folder.glob(f"*/{_PART}*"):
            with contextlib.suppress(OSError):
                if part.stat().st_mtime < time.time() - _STALE_S:
                    part.unlink()
