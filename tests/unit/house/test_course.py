"""Finding labs and steps."""

from __future__ import annotations

import pytest

from warpschool.course import Course, checkout_root
from warpschool.errors import CourseError


@pytest.fixture
def course(tmp_path):
    files = {
        "kernels/lab00_start/01_one.cu": "// 01_one.cu: the first.\n",
        "solutions/lab00_start/01_one.cu": "// 01_one.cu: the first.\n",
        "grader/lab00_start/test_01_one.py": "",
        "solutions/lab00_start/02_two.cu": "// 02_two.cu: more.\n// From: 01_one.cu\n",
        "solutions/lab01_next/01_three.cu": "// Idea: x.   From: lab00_start/02_two.cu     Limits: none\n",
        "kernels/lab01_next/01_lonely.cu": "// From: 09_nowhere.cu\n",
        "kernels/lab02_loop/01_a.cu": "// From: 02_b.cu\n",
        "kernels/lab02_loop/02_b.cu": "// From: 01_a.cu\n",
        "kernels/lab02_loop/notes.cu": "",
        "labs/lab00_start/lab00_start.ipynb": "{}",
        "grader/conftest.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return Course(tmp_path)


def test_labs_and_steps(course):
    assert [lab.name for lab in course.labs()] == ["lab00_start", "lab01_next", "lab02_loop"]
    assert [step.name for step in course.lab("lab02").steps] == ["lab02_loop/01_a", "lab02_loop/02_b"]
    assert course.lab("lab00_start").notebook.name == "lab00_start.ipynb"
    assert course.lab("lab01_next").notebook is None
    step = course.step("lab00_start/01_one")
    assert (step.lab, step.idea, step.file_name, step.title) == ("lab00_start", "01_one", "01_one.cu", "the first.")
    assert step.grader.name == "test_01_one.py"
    assert course.step("lab00_start/02_two").starter is None


@pytest.mark.parametrize("name", ["lab00/01", "lab00_start/01_one.cu", " lab00_start/01_one/ "])
def test_short_names(course, name):
    assert course.step(name).name == "lab00_start/01_one"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("lab00_start/01_oen", "Did you mean lab00_start/01_one?"),
        ("nothing like it", "There is: lab00_start/01_one"),
        ("lab/01", "could be any of"),
        ("lab0/0", "there is no step"),
        ("lab00_start", "there is no step 'lab00_start'"),
        ("lab00/77", "lab00_start has: 01_one, 02_two."),
        ("lab09/two", "Did you mean lab00_start/02_two?"),
        ("", "there is no step"),
    ],
)
def test_unknown_names(course, name, words):
    with pytest.raises(CourseError) as caught:
        course.step(name)
    assert words in str(caught.value)


def test_ladders(course):
    names = ["lab00_start/01_one", "lab00_start/02_two", "lab01_next/01_three"]
    assert [step.name for step in course.ladder("lab01_next/01_three")] == names
    assert [step.name for step in course.successors("lab00_start/01_one")] == ["lab00_start/02_two"]
    with pytest.raises(CourseError, match="leads nowhere"):
        course.ladder("lab01_next/01_lonely")
    with pytest.raises(CourseError, match="circle"):
        course.ladder("lab02_loop/01_a")


def test_a_checkout_is_its_own_course():
    assert Course.find().root == checkout_root()
    assert Course.find().step("lab02_tiling/01_tiled").solution is not None
