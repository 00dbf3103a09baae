"""What the outcome of a check may depend on, in words: versions, device, content."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import platform
from pathlib import Path

from ptxsim.counters import VERSION as COUNTERS_VERSION
from warpschool.compile import DEFAULT_ARCH, compiler_report
from warpschool.course import Course, Step
from warpschool.grading.secret import fingerprint
from warpschool.version import __version__

PACKAGES = ("ptxsim", "warpschool", "warpcourse")
ISOLATION = "child process with limits of memory, time and file size"


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
    paths = sorted(p for p in course.modules.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.relative_to(course.modules).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16] if paths else ""


@functools.cache
def code_hash() -> str:
    """Return a hash of the three packages' modules: a changed checkout is another version, whatever its number says."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py")):
        if "_content" not in path.parts:
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def provenance(
    step: Step, *, device: str, nvrtc: str = "", arch: str = "", secret: str = "", not_on_gpu: str = ""
) -> dict[str, str]:
    """Return the versions and places that a result names; results that differ in them are not compared."""
    lacking = {"not_on_gpu": not_on_gpu} if not_on_gpu else {}
    return lacking | library_versions(nvrtc) | {
        "content": content_hash(step),
        "cases": f"secret, {fingerprint(secret)}" if secret else "public",
        "arch": arch or DEFAULT_ARCH,
        "device": device,
        "isolation": ISOLATION,
    }


def library_versions(nvrtc: str = "") -> dict[str, str]:
    """Return the versions that every outcome depends on."""
    return {
        "warpschool": __version__,
        "code": code_hash(),
        "counters": str(COUNTERS_VERSION),
        "nvrtc": nvrtc or str(compiler_report().get("nvrtc", "none")),
        "machine": platform.machine(),
        "llvmlite": importlib.metadata.version("llvmlite"),
        "numpy": importlib.metadata.version("numpy"),
    }
