"""How nbgrader's converters read hand-ins and write feedback: without trust, and without what students must not see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbconvert.exporters.exporter import Exporter
from nbformat.v4 import new_notebook

from warpschool.classroom.late import coursedir_of

HANDIN = "warpschool_handin"


class HandInExporter(NotebookExporter):
    """Hands the path of a submitted notebook to `GradeHandIn`, which reads it as data; nbformat never sees it."""

    def from_filename(self, filename: str, resources: Any = None, **options: Any) -> Any:
        """Convert one notebook; the second round of an autograding reads what the first has written."""
        if not getattr(self.parent, "_sanitizing", False):
            return super().from_filename(filename, resources=resources, **options)
        found = self._init_resources(resources)
        found[HANDIN] = str(filename)
        return self.from_notebook_node(new_notebook(), resources=found, **options)


class FeedbackExporter(Exporter):
    """Writes a student's feedback page from the record and the gradebook instead of the notebook."""

    file_extension = ".html"

    def from_filename(self, filename: str, resources: Any = None, **_: Any) -> Any:
        """Return the page; `filename` is the autograded notebook."""
        from warpschool.classroom.feedback import feedback_page
        from warpschool.classroom.folder import folder_of

        found = self._init_resources(resources)
        found["output_extension"] = self.file_extension
        about = found["nbgrader"]
        folder = folder_of(coursedir_of(self))
        text = feedback_page(
            folder, about["db_url"], assignment=about["assignment"], student=about["student"], notebook=Path(filename)
        )
        return text, found
