"""The late policy in nbgrader: what formgrader shows, and the penalties as they are when grades leave the house."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from nbgrader.plugins import LateSubmissionPlugin

from warpschool.classroom.policy import LatePolicy, read_policy
from warpschool.classroom.transaction import transaction


class LatePenalty(LateSubmissionPlugin):
    """nbgrader asks this while it grades; people's points come later, so `recompute` has the last word."""

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float:
        """Return the points to take off one notebook's score."""
        coursedir = coursedir_of(self)
        return read_policy(Path(coursedir.root)).late.penalty(score, total_seconds_late)


def recompute(gradebook: Gradebook, assignment: str, policy: LatePolicy) -> None:
    """Write the penalty of every submission anew, from the points that it has now, people's included."""
    with transaction(gradebook):
        for submission in gradebook.assignment_submissions(assignment):
            for notebook in submission.notebooks:
                late = policy.penalty(notebook.score, submission.total_seconds_late)
                if (notebook.late_submission_penalty or 0.0) != late:
                    notebook.late_submission_penalty = late or None


def coursedir_of(part: Any) -> Any:
    """nbgrader's CourseDirectory, from any part of a converter."""
    while part is not None and getattr(part, "coursedir", None) is None:
        part = part.parent
    return part.coursedir
