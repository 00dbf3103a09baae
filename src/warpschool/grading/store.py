"""Results on disk: one file for each job, named by its content address, whole or not there at all.

A run that was killed leaves nothing but finished results, so the same command finishes the rest.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
import uuid
from pathlib import Path

from warpschool.errors import GradingError, OutputError
from warpschool.grading.jobs import Job, Outcome
from warpschool.grading.verdicts import Verdict

_STALE_S = 3600.0
_IDENTITY = "store.id"


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
            _write(path, outcome.to_json().encode())
        except OSError as error:
            raise OutputError(
                f"cannot write {path}: {error.strerror or error}",
                next_step="Make room, or let it be written, and run the same command again: finished results are kept.",
            ) from None

    def is_here(self, identity: str) -> bool:
        """Whether this folder is the store of that identity, as seen from this machine."""
        return self.identity == identity

    def _identify(self) -> str:
        """A random name, written once: another machine's folder of the same path is not the same store."""
        path = self.folder / _IDENTITY
        if not path.exists():
            _write(path, uuid.uuid4().hex.encode())
        return path.read_text("ascii")

    def _clear_parts(self) -> None:
        """Remove what killed writers left behind long ago."""
        for part in self.folder.glob("*/.part-*"):
            with contextlib.suppress(OSError):
                if part.stat().st_mtime < time.time() - _STALE_S:
                    part.unlink()


def _write(path: Path, data: bytes) -> None:
    """Write through a temporary file, so that no reader ever sees a part; flushed, so that a crash leaves no hole."""
    handle, temporary = tempfile.mkstemp(prefix=".part-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
