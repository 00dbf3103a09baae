"""A small class on the real nbgrader: one kernel, one prediction, one question."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from warpschool.course import Course

STEP = "lab00_first_kernels/01_saxpy"
RIGHT = Course.find().step(STEP).solution.read_text("utf-8")
PARTLY = RIGHT.replace("if (i < n)", "if (i <= n)")
"""reads and writes one element too many: some criteria still hold"""
WRONG = RIGHT.replace("if (i < n)", "if (i < m)")
"""does not compile"""
QUESTION = "Why?\n### BEGIN MARK SCHEME\nbecause SECRETMARK\n### END MARK SCHEME"


def marked(cell, name, **marks):
    """The cell with nbgrader's metadata and a stable id."""
    kinds = {"grade": False, "solution": False, "task": False, "locked": False, "schema_version": 3}
    cell["id"] = name
    cell.metadata["nbgrader"] = {**kinds, "grade_id": name, **marks}
    return cell


def prediction(notebook):
    """The same notebook with a prediction to make and the check of it, worth 2 points."""
    check = "# Yours.\nimport warpschool as ws\nws.check_prediction(said, 42, what='said', points=2)"
    notebook.cells[3:3] = [
        marked(new_code_cell("said = None"), "m-predict", solution=True),
        marked(new_code_cell(check), "m-predicted", grade=True, locked=True, points=2),
    ]
    return notebook


def mini_notebook(*, kernel_points=4, task_points=3):
    """The instructor's notebook."""
    starter = Course.find().step(STEP).starter.read_text("utf-8").rstrip("\n")
    calls = f'# It works.\nws.check_cell("{STEP}", points={kernel_points})'
    answer = new_markdown_cell("*Your answer:*")
    answer["id"] = "m-explain-answer"
    return new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        cells=[
            marked(new_markdown_cell("# A small lab"), "m-title", locked=True),
            marked(new_code_cell(f"%%kernel {STEP}\n{starter}"), "m-kernel", solution=True),
            marked(new_code_cell(calls), "m-correct", grade=True, locked=True, points=kernel_points),
            marked(new_markdown_cell(QUESTION), "m-explain", task=True, locked=True, points=task_points),
            answer,
        ],
    )  # fmt: skip


class SmallClass:
    """A class's folder, and what students and teachers do with it."""

    name = "mini"

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def app(self):
        from warpschool.classroom.nbgrader_app import ClassApp

        return ClassApp(self.root)

    def write_source(self, notebook) -> None:
        path = self.root / "source" / "mini" / "mini.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, path)

    def released(self):
        return nbformat.read(self.root / "release" / "mini" / "mini.ipynb", as_version=4)

    def hand_in(self, student, *, kernel=RIGHT, answer="", time="2026-01-10 12:00:00 UTC", edit=None) -> Path:
        """What a student uploads: the released notebook, with a kernel and an answer in it."""
        notebook = self.released()
        cells = {cell["id"]: cell for cell in notebook.cells}
        cells["m-kernel"].source = f"%%kernel {STEP}\n{kernel}"
        if answer:
            cells["m-explain-answer"].source = answer
        if edit is not None:
            edit(notebook)
        folder = self.root / "submitted" / student / "mini"
        folder.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, folder / "mini.ipynb")
        if time:
            (folder / "timestamp.txt").write_text(time)
        return folder / "mini.ipynb"

    def grade(self, **options):
        from warpschool.classroom.rounds import grade_class

        return grade_class(self.app, "mini", **options)

    def grades(self, student):
        """grade id -> what the gradebook has."""
        with self.app.gradebook() as gradebook:
            notebook = gradebook.find_submission_notebook("mini", "mini", student)
            comments = {comment.name: comment.comment for comment in notebook.comments}
            return {
                grade.name: SimpleNamespace(
                    auto=grade.auto_score, manual=grade.manual_score, waits=grade.needs_manual_grade,
                    score=grade.score, points=grade.max_score, comment=comments.get(grade.name),
                )
                for grade in notebook.grades
            }  # fmt: skip

    def mark(self, student, cell, score):
        """A teacher gives points in formgrader."""
        with self.app.gradebook() as gradebook:
            grade = gradebook.find_grade(cell, "mini", "mini", student)
            grade.manual_score, grade.needs_manual_grade = score, False
            gradebook.db.commit()
