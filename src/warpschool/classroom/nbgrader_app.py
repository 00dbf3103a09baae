"""nbgrader as a library: its converters, run in this process with a class's own configuration."""

from __future__ import annotations

import glob
import io
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.apps.baseapp import NbGrader
from nbgrader.converters import NbGraderException
from sqlalchemy.exc import SAWarning

from warpschool.classroom.converters import CONVERTERS
from warpschool.classroom.folder import ClassFolder, folder_of
from warpschool.classroom.gradebook import disk_problem, recompute, telling_disk_problems
from warpschool.errors import CourseError, GradingError, WarpschoolError

MOST_LINES = 12
"""of nbgrader's log, in an error"""


class ClassApp:
    """One class, configured as its nbgrader_config.py says."""

    def __init__(self, root: Path) -> None:
        """Load the configuration; raises CourseError where it does not name our preprocessors."""
        _put_tools_on_path()
        self.app = NbGrader()
        self.app.load_cwd_config = False
        self.app.log_level = logging.WARNING
        with _captured(self.app.log):  # it would say that it found no configuration in the working directory
            self.app.initialize([], root=str(root.resolve()))
        self.coursedir = self.app.coursedir
        # the options of the folder's file reach the CourseDirectory only now
        self.coursedir.update_config(self.app.config)
        if "exporter_class" not in self.app.config.Autograde:
            raise CourseError(
                f"{root}/nbgrader_config.py does not set up warpschool",
                next_step="Add to it: from warpschool.classroom.config import configure; configure(c, __file__)",
            )

    @property
    def folder(self) -> ClassFolder:
        return folder_of(self.coursedir)

    def gradebook(self) -> Gradebook:
        """Open the gradebook; to be used in a `with`."""
        return Gradebook(self.coursedir.db_url, self.coursedir.course_id)

    def convert(self, what: str, assignment: str, *, student: str = "*", force: bool = True) -> None:
        """Run one of nbgrader's converters.

        Raises OutputError where the disk takes no more, after which everybody's folder is whole, the old one or the new
        one; our own error where one ended it, else GradingError with the end of nbgrader's log.
        """
        self.coursedir.assignment_id = assignment
        self.coursedir.student_id = student
        with _captured(self.app.log) as log:
            converter = CONVERTERS[what](coursedir=self.coursedir, parent=self.app)
            converter.force = force
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SAWarning)  # nbgrader's own, about a session of its
                    converter.start()
            except NbGraderException as error:
                told = "\n".join(log.text.getvalue().strip().splitlines()[-MOST_LINES:])
                raise (converter.problem or log.ours or GradingError(told or str(error))) from None
            except Exception as error:
                raise disk_problem(error, self.folder.root) or error from None

    def recompute_penalties(self, assignments: Sequence[str] = ()) -> None:
        """Write the late penalties anew, of all assignments where none is named."""
        with telling_disk_problems(self.folder.root), self.gradebook() as gradebook:
            for name in assignments or [found.name for found in gradebook.assignments]:
                recompute(gradebook, name, self.folder.policy.late)

    def write_feedback(self, assignment: str, students: Sequence[str] = ()) -> list[Path]:
        """Write the feedback pages of everybody, or of some students; return their paths."""
        self.recompute_penalties([assignment])
        for one in [glob.escape(student) for student in students] or ["*"]:
            self.convert("feedback", assignment, student=one)
        pages = sorted(self.feedback_folder.glob(f"*/{assignment}/*.html"))
        return [path for path in pages if not students or path.parts[-3] in students]

    @property
    def feedback_folder(self) -> Path:
        return self.folder.root / str(self.coursedir.feedback_directory)


def _put_tools_on_path() -> None:
    """nbgrader starts `alembic` by name; it stands beside the interpreter, also where no environment is activated."""
    own = str(Path(sys.executable).parent)
    if own not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join(filter(None, (os.environ.get("PATH"), own)))


class _Log(logging.StreamHandler[io.StringIO]):
    """nbgrader's log as text; nbgrader writes what was raised into it and raises an error of its own."""

    def __init__(self) -> None:
        self.text = io.StringIO()
        super().__init__(self.text)
        self.ours: WarpschoolError | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line, and the first error of ours that is being handled meanwhile."""
        raised = sys.exc_info()[1]
        if self.ours is None and isinstance(raised, WarpschoolError):
            self.ours = raised
        super().emit(record)


@contextmanager
def _captured(log: logging.Logger) -> Iterator[_Log]:
    """nbgrader's log in place of the terminal."""
    own = _Log()
    handlers, propagate = log.handlers[:], log.propagate
    log.handlers, log.propagate = [own], False
    try:
        yield own
    finally:
        log.handlers, log.propagate = handlers, propagate
