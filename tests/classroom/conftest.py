"""Fixtures of a small class; without nbgrader nothing here runs."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("nbgrader", reason="the bridge needs the extra 'teach'")

from warpschool.course import Course

from .small import PARTLY, WRONG, SmallClass, mini_notebook


@pytest.fixture(scope="session")
def _released(tmp_path_factory):
    from warpschool.classroom.config import make_class

    root = tmp_path_factory.mktemp("class") / "course"
    make_class(root, Course.find())
    shutil.rmtree(root / "source")
    made = SmallClass(root)
    made.write_source(mini_notebook())
    made.app.convert("release", "mini")
    made.hand_in("warm")
    made.hand_in("warmer", kernel=PARTLY)
    made.hand_in("warmest", kernel=WRONG)
    made.grade()  # its results serve all tests
    for folder in ("submitted", "autograded"):
        shutil.rmtree(root / folder)
    (root / "grading" / "lock").unlink()
    return root


@pytest.fixture
def small_class(_released, tmp_path):
    """A class with a released lab and no hand-ins; some results are in its store already."""
    root = tmp_path / "course"
    shutil.copytree(_released, root)
    with SmallClass(root).app.gradebook() as gradebook:
        for student in [student.id for student in gradebook.students]:
            gradebook.remove_student(student)
    shutil.rmtree(root / "grading" / "records")
    return SmallClass(root)
