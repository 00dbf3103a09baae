"""`nbgrader_config.py` of a class: which parts of nbgrader are replaced by ours; and a new class's folder.

from warpschool.classroom.config import configure
configure(get_config(), __file__)
"""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Any

from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    ClearHiddenTests,
    ClearMarkScheme,
    ClearOutput,
    ComputeChecksums,
    LockCells,
    OverwriteCells,
    OverwriteKernelspec,
    SaveCells,
)

from warpschool.atomic import write_file
from warpschool.classroom.feedback import FeedbackExporter
from warpschool.classroom.folder import CONFIG, POLICY, POLICY_TEMPLATE
from warpschool.classroom.gradebook import LatePenalty
from warpschool.classroom.preprocessors import (
    AddRubrics,
    CheckSource,
    GradeHandIn,
    HandInExporter,
    KeepStarters,
    NamedHeaderFooter,
    SaveScores,
    ShowResults,
)
from warpschool.course import Course
from warpschool.errors import CourseError

DATABASE_WAIT_S = 60
"""How long a writer waits for another; formgrader and a batch may write at the same time."""
TEMPLATE = '''\
"""nbgrader's configuration of this class. Kernels are graded by warpschool; what you decide stands in grading.toml."""

from warpschool.classroom.config import configure

c = get_config()  # noqa: F821 (nbgrader provides it)
configure(c, __file__, source="{source}")
c.CourseDirectory.course_id = "{course}"
'''


def configure(config: Any, file: str | Path, *, source: str = "source") -> None:
    """Set up nbgrader for the folder of the configuration `file`; `source` holds the instructor's notebooks."""
    root = Path(file).resolve().parent
    config.CourseDirectory.root = str(root)
    config.CourseDirectory.source_directory = source
    # nbgrader hands out what lies beside a notebook: not the text of which a checkout builds it
    texts = (path.name for path in (root / source).glob("*/*.md") if path.stem == path.parent.name)
    config.CourseDirectory.ignore.extend(sorted(texts))
    config.CourseDirectory.db_url = f"sqlite:///{root / 'gradebook.db'}?timeout={DATABASE_WAIT_S}"
    config.GenerateAssignment.preprocessors = [
        CheckSource, AddRubrics, NamedHeaderFooter, LockCells, KeepStarters, ClearOutput, CheckCellMetadata,
        ComputeChecksums, SaveCells, ClearHiddenTests, ClearMarkScheme, ComputeChecksums, CheckCellMetadata,
    ]  # fmt: skip
    config.Autograde.exporter_class = HandInExporter
    config.Autograde.pre_convert_hook = "warpschool.classroom.imports.before_copying"
    config.Autograde.sanitize_preprocessors = [GradeHandIn, OverwriteKernelspec, OverwriteCells, CheckCellMetadata]
    config.Autograde.autograde_preprocessors = [ShowResults, SaveScores, AssignLatePenalties, CheckCellMetadata]
    config.AssignLatePenalties.plugin_class = LatePenalty
    config.GenerateFeedback.exporter_class = FeedbackExporter
    config.GenerateFeedback.preprocessors = []
    if "nbgrader.server_extensions.formgrader" in sys.modules:  # a Jupyter server reads this file
        from warpschool.classroom import formgrader

        formgrader.protect()


# ---------------------------------------------------------------- a new class


SECRET_BYTES = 32
SECRET = "secret_seed.txt"
IGNORED = """\
# marks, hand-ins and the secret seed are nobody else's business
/secret_seed.txt
/gradebook.db*
/submitted/
/autograded/
/feedback/
/grading/
/quarantine/
"""


def make_class(folder: Path, course: Course, *, name: str = "") -> tuple[list[str], list[str]]:
    """Make a class's folder, or add what is missing in one; return what was added and what was left as it is."""
    plan: dict[Path, bytes] = {
        Path(CONFIG): TEMPLATE.format(source="source", course=name or folder.resolve().name).encode(),
        Path(POLICY): POLICY_TEMPLATE.format(secret_file=SECRET).encode(),
        Path(SECRET): f"{secrets.token_hex(SECRET_BYTES)}\n".encode(),
        Path(".gitignore"): IGNORED.encode(),
    }
    for lab in course.labs():
        if lab.notebook is not None:
            plan[Path("source") / lab.name / lab.notebook.name] = lab.notebook.read_bytes()
    if not any(path.suffix == ".ipynb" for path in plan):
        raise CourseError("the course has no notebooks", next_step="Reinstall warpschool.")
    added, kept = [], []
    for target, content in plan.items():
        path = folder / target
        if path.exists():
            kept.append(str(target))
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)
        added.append(str(target))
    if SECRET in added:
        (folder / SECRET).chmod(0o600)
    return added, kept
