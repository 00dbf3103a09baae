"""The child process of a check: `python -m warpschool.grading.child`, a job on stdin, a result on stdout.

Everything else that is printed goes to stderr. The parent kills this process when its time is over.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from warpschool.grading.limits import Limits

_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Read the job, run the step's tests, write the result."""
    answer = os.dup(1)
    os.dup2(2, 1)  # whatever pytest or a library prints must not mix with the answer
    _die_with_parent()
    job = json.loads(sys.stdin.read())
    limits = Limits(**job["limits"])
    limits.apply(on_gpu=job["device"] == "gpu")
    text = _run(job)
    limits.require_memory()
    with os.fdopen(answer, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


def _die_with_parent() -> None:
    """A killed grader must not leave checks behind that nobody waits for."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent or parent == 1:
        os._exit(1)


def _run(job: dict[str, Any]) -> str:
    import pytest

    from warpschool.course import Course
    from warpschool.errors import GradingError
    from warpschool.grading import plugin
    from warpschool.grading.result import make_result
    from warpschool.grading.runner import provenance

    course = Course(Path(job["root"]))
    step = course.step(job["step"])
    if step.grader is None:
        raise GradingError(f"{step} has no grader")
    recorder = plugin.CriteriaRecorder(plugin.GradingSetup(
        base64.b64decode(job["source"]), job["name"], job["seed"], job["device"] == "gpu", job["secret"]
    ))  # fmt: skip
    options = [
        "--noconftest", "--rootdir", str(step.grader.parent), "-c", os.devnull, "--assert=plain",
        "--import-mode=importlib", "-p", "no:cacheprovider", "-p", "no:faulthandler", "--tb=short", "-q",
    ]  # fmt: skip
    with course.adopted():  # graders find the modules of this course's labs, and no other's
        code = pytest.main([str(step.grader), *options], plugins=[plugin, recorder])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise GradingError(f"pytest ended with {code} on {step.grader}")
    if not recorder.criteria:
        raise GradingError(f"{step.grader} has no criteria")
    about = provenance(step, device=job["device_text"], secret=job["secret"], **recorder.circumstances)
    return make_result(
        step.name, recorder.criteria, seed=job["seed"], source=job["about"], provenance=about, whole=recorder.whole,
        warnings=recorder.warnings,
    ).to_json()  # fmt: skip


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
