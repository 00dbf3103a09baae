"""`nbgrader_config.py` of a class: which parts of nbgrader are replaced by ours.

    from warpschool.classroom.config import configure
    configure(get_config(), __file__)
"""

from __future__ import annotations

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
)  # fmt: skip

from warpschool.classroom.exporters import FeedbackExporter, HandInExporter
from warpschool.classroom.late import LatePenalty
from warpschool.classroom.preprocessors import (
    AddRubrics,
    CheckSource,
    GradeHandIn,
    KeepStarters,
    NamedHeaderFooter,
    SaveScores,
    ShowResults,
)

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
    config.Autograde.pre_convert_hook = "warpschool.classroom.quarantine.before_copying"
    config.Autograde.sanitize_preprocessors = [GradeHandIn, OverwriteKernelspec, OverwriteCells, CheckCellMetadata]
    config.Autograde.autograde_preprocessors = [ShowResults, SaveScores, AssignLatePenalties, CheckCellMetadata]
    config.AssignLatePenalties.plugin_class = LatePenalty
    config.GenerateFeedback.exporter_class = FeedbackExporter
    config.GenerateFeedback.preprocessors = []
