"""What the outcome of a check may depend on, in words: versions, device, content."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform

import warpschool
from warpschool.compile import DEFAULT_ARCH, compiler_report
from warpschool.course import Step

ISOLATION = "child process with limits of memory, time and file size"


def content_hash(step: Step) -> str:
    """Return a hash of what judges the step: its grader file, starter and reference."""
    digest = hashlib.sha256()
    for path in (step.grader, step.starter, step.solution):
        digest.update(path.read_bytes() if path is not None else b"")
        digest.update(b"\0")
    return digest.hexdigest()[:16]


def provenance(step: Step, *, device: str, nvrtc: str = "", arch: str = "") -> dict[str, str]:
    """Return the versions and places that a result names; results that differ in them are not compared."""
    return {
        "warpschool": warpschool.__version__,
        "content": content_hash(step),
        "nvrtc": nvrtc or str(compiler_report().get("nvrtc", "none")),
        "arch": arch or DEFAULT_ARCH,
        "device": device,
        "isolation": ISOLATION,
        "machine": platform.machine(),
        "llvmlite": importlib.metadata.version("llvmlite"),
        "numpy": importlib.metadata.version("numpy"),
    }
