"""The child process of a check: `python -m warpschool.grading.child`, a job on stdin, a result on stdout.

Everything else that is printed goes to stderr. The parent kills this process when its time is over. It is confined: it
reads what Python, the compiler and the course's files need, and writes into folders that only this check uses.
"""

from __future__ import annotations

import base64
import faulthandler
import json
import os
import sys
from pathlib import Path
from typing import Any

from ptxsim import system
from warpschool.grading.confinement import SYSTEM, confine
from warpschool.grading.limits import FAULT, Limits


def main() -> int:
    """Read the job, run the step's tests, write the result."""
    answer = os.dup(1)
    faulthandler.enable(os.dup(2))  # where it crashed tells what did; pytest puts a file in the place of stderr
    os.dup2(2, 1)  # whatever pytest or a library prints must not mix with the answer
    system.die_with_parent(os.getppid())  # a killed grader leaves no checks behind that nobody waits for
    job = json.loads(sys.stdin.read())
    on_gpu = job["device"] == "gpu"
    if not on_gpu:  # a GPU's driver needs more than this leaves; before there are threads
        confine(readable=[*SYSTEM, *job["readable"]], writable=job["writable"])
    limits = Limits(**job["limits"])
    limits.apply(on_gpu=on_gpu)
    text, has_failed = _run(job)
    limits.require_memory()
    with os.fdopen(answer, "w", encoding="utf-8") as file:
        file.write(text)
    return FAULT if has_failed else 0


def _run(job: dict[str, Any]) -> tuple[str, bool]:
    """The result, and whether an exception of the grader's own is in it, that no submission should bring about."""
    import pytest

    from ptxsim import cache
    from warpschool.course import Course
    from warpschool.errors import GradingError
    from warpschool.grading import plugin
    from warpschool.grading.result import make_result
    from warpschool.grading.runner import provenance

    cache.write_only_to(Path(job["cache"]) if job["cache"] else None)
    course = Course(Path(job["root"]))
    step = course.step(job["step"])
    if step.grader is None:
        raise GradingError(f"{step} has no grader")
    built = None
    if job.get("program"):
        from warpschool.grading.program_build import ProgramFile

        built = ProgramFile.from_dict(job["program"])
    recorder = plugin.CriteriaRecorder(plugin.GradingSetup(
        base64.b64decode(job["source"]), job["name"], job["seed"], job["device"] == "gpu", job["secret"], built,
        until_wrong=job.get("until_wrong", False),
    ))  # fmt: skip
    folder = str(step.grader.parent)
    options = [
        "--noconftest", "--rootdir", folder, "--confcutdir", folder, "-c", os.devnull, "--assert=plain",
        "--import-mode=importlib", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "no:unraisableexception",
        "-p", "no:threadexception", "--tb=native", "-q",
    ]  # fmt: skip
    # Those two collect all garbage at the end, and other tracebacks read the grader's source: nobody looks at either.
    options += ["--maxfail=1"] if job.get("until_wrong") else []
    with course.adopted():  # graders find the modules of this course's labs, and no other's
        code = pytest.main([str(step.grader), *options], plugins=[plugin, recorder])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise GradingError(f"pytest ended with {code} on {step.grader}")
    if not recorder.criteria:
        raise GradingError(f"{step.grader} has no criteria")
    about = provenance(step, device=job["device_text"], cases=job["cases"], **recorder.circumstances)
    result = make_result(
        step.name, recorder.criteria, seed=job["seed"], source=job["about"], provenance=about, whole=recorder.whole,
        warnings=recorder.warnings,
    )  # fmt: skip
    return result.to_json(), recorder.has_failed


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    status = main()
    sys.stderr.flush()
    os._exit(status)  # the answer is written: what is being compiled for later launches is not waited for
