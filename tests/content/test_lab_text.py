"""Labs' texts: notebooks are built of them to the byte and lead back to them; what is wrong in one is told by line."""

from __future__ import annotations

import os
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell
from typer.testing import CliRunner

from warpschool.authoring.__main__ import main
from warpschool.authoring.lab_text import built, read_text, stale_notebooks, stale_texts, text_of
from warpschool.authoring.notebooks import is_answer, kernel_step, read_notebook
from warpschool.classroom.config import make_class
from warpschool.cli.app import app
from warpschool.course import Course
from warpschool.errors import CourseError
from warpschool.notebook.personal import course_files

COURSE = Course.find()
LABS = [lab for lab in COURSE.labs() if lab.notebook is not None]
each_lab = pytest.mark.parametrize("lab", LABS, ids=str)
GOOD = """\
<!-- #region text="lab00-00-objective" -->
# A lab
<!-- #endregion -->

```python fill="lab00-01-kernel"
%%kernel lab00_x/01_a
```

```python check="lab00-01-correct" points=2
# It works.
ws.check_cell("lab00_x/01_a", points=2)
```

<!-- #region task="lab00-01-explain" points=1 -->
Why?
<!-- #endregion -->
"""


@pytest.fixture
def root(tmp_path):
    """A checkout of one lab, as its author has it after a build; the text is the older file."""
    for folder in ("labs", "solutions"):
        (tmp_path / folder / "lab00_x").mkdir(parents=True)
    (tmp_path / "solutions/lab00_x/01_a.cu").write_text("// BEGIN SOLUTION: x (about 1 line)\na;\n// END SOLUTION\n")
    (tmp_path / "labs/lab00_x/lab00_x.md").write_text(GOOD)
    assert main(["notebooks", "--root", str(tmp_path)]) == 0
    edited_at(tmp_path, text=100, notebook=200)
    return tmp_path


def edited_at(root, **times):
    for kind, time in times.items():
        os.utime(files(root)[kind], (time, time))


def files(root):
    return {"text": root / "labs/lab00_x/lab00_x.md", "notebook": root / "labs/lab00_x/lab00_x.ipynb"}


def edit_notebook(root, change, *, time=300):
    notebook = nbformat.read(files(root)["notebook"], as_version=4)
    change(notebook)
    nbformat.write(notebook, files(root)["notebook"])
    edited_at(root, notebook=time)


def read(text, tmp_path):
    (tmp_path / "lab00_x").mkdir(exist_ok=True)
    (tmp_path / "lab00_x/01_a.cu").touch()
    path = tmp_path / "lab00_x.md"
    path.write_text(text)
    return read_text(path, tmp_path)


@each_lab
def test_a_notebook_and_its_text_give_each_other(lab):
    text = lab.notebook.with_suffix(".md")
    assert built(text, COURSE.root / "solutions") == lab.notebook.read_text("utf-8")
    assert text_of(lab.notebook) == text.read_text("utf-8")


@each_lab
def test_a_text_names_its_kernels_and_holds_no_starter(lab):
    lines = lab.notebook.with_suffix(".md").read_text("utf-8").splitlines()
    assert [line.split()[1] for line in lines if line.startswith("%%kernel")] == [step.name for step in lab.steps]
    for cell in read_notebook(lab.notebook).cells:
        if kernel_step(cell):
            assert not [line for line in cell.source.splitlines()[1:] if len(line) > 20 and line in lines]
        assert not (is_answer(cell) and cell.source in lines)


def test_every_kind_of_cell_becomes_nbgraders(root):
    title, kernel, check, task, answer = read_notebook(files(root)["notebook"]).cells
    assert (title.cell_type, title.source, title.id) == ("markdown", "# A lab", "lab00-00-objective")
    assert title.metadata.nbgrader.locked and not title.metadata.nbgrader.solution
    assert kernel.source.endswith("(about 1 line)\n// END SOLUTION") and kernel.metadata.magics_language == "cuda"
    assert kernel.metadata.nbgrader.solution and not kernel.metadata.nbgrader.locked
    assert (check.metadata.nbgrader.grade, check.metadata.nbgrader.points) == (True, 2)
    assert (task.metadata.nbgrader.task, task.metadata.nbgrader.points) == (True, 1)
    assert is_answer(answer) and answer.id == "lab00-01-explain-answer"


def test_layout_is_the_authors(tmp_path):
    loose = GOOD.replace("\n\n", "\n\n\n").replace("```\n\n", "```\n") + "\n\n"
    loose = loose.replace("-->\n\n\n", "-->\n").replace("#region", "#md").replace("#endregion", "#endmd")
    assert [cell.source for cell in read(loose, tmp_path).cells] == [cell.source for cell in read(GOOD, tmp_path).cells]


def test_text_may_show_code_and_code_may_show_text(tmp_path):
    fence = "Write\n\n```cuda\na;\n```\n\nand\n\n```python\nb\n```"
    text = GOOD.replace("# A lab", fence) + '\n````python code="lab00-02-code"\nx = """\n```\n"""\n````\n'
    cells = read(text, tmp_path).cells
    assert cells[0].source == fence and cells[-1].source == 'x = """\n```\n"""'


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("# A lab", "# A lab\n<!-- #endregion -->\nstray", 4, "this is in no cell"),
        ("-->\n\n```python fill", "-->\n\nStray.\n\n```python fill", 5, "this is in no cell.*\n.*between <!-- #region"),
        ('python fill="lab00-01-kernel"', "python", 5, "this is in no cell"),
        ('python fill="lab00-01-kernel"', "cuda", 5, "this is in no cell"),
        ("<!-- #region text", "---\ntitle: x\n---\n\n<!-- #region text", 1, "this is in no cell"),
        ("python fill", "python   fill", 5, "is read as ```python fill="),
        ("# A lab\n<!-- #endregion -->", "# A lab\n<!-- #endregion", 1, "not closed before <!-- #endregion"),
        ("# A lab\n<!-- #endregion -->", "# A lab", 1, "not closed before ```python fill"),
        ("01_a\n```\n", "01_a\n", 5, "not closed before ```python check"),
        ("Why?\n<!-- #endregion -->\n", "Why?\n", 14, "not closed before the end"),
        ("points=2)\n```\n", "points=2)\n", 9, "not closed before the end"),
        ("<!-- #region text", "<!-- #region txt", 1, "says txt='lab00-00-objective'\nDid you mean text?"),
        ("points=1 -->", 'pionts=1 points=1 -->', 14, "pionts=1\nDid you mean points?"),
        ('"lab00-00-objective"', "lab00-00-objective", 1, "the cell says 'text=lab00-00-objective'\n.*in quotes"),
        ('text="lab00-00-objective"', 'text="lab00-00-a" task="lab00-00-b"', 1, "says text='lab00-00-a', task="),
        ("lab00-00-objective", "objective", 1, "'objective' is no grade id"),
        ('"lab00-00-objective"', "7", 1, "7 is no grade id"),
        ("lab00-01-correct", "lab00-00-objective", 9, "the grade id lab00-00-objective is taken"),
        ("region text=", "region code=", 1, "a code cell is code"),
        ("python fill=", "python text=", 5, "a text cell is markdown"),
        (" points=2\n", "\n", 9, "a check cell needs its points\ncheck=.lab00-01-correct. points=2"),
        (" points=2\n", " points=0\n", 9, "a check cell needs its points"),
        (" points=2\n", " points=true\n", 9, "a check cell needs its points"),
        ("points=1 -->", 'points="1" -->', 14, "a task cell needs its points"),
        ('kernel"\n', 'kernel" points=2\n', 5, "a fill cell has no points"),
        ("python fill=", "python code=", 5, "a kernel is the student's to write"),
        ("%%kernel lab00_x/01_a", "%%kernel lab00_x/02_b", 5, r"no solution .*02_b\.cu"),
        ("%%kernel lab00_x/01_a", "%%kernel", 5, "names no step"),
        ("01_a\n", "01_a\nint x;\n", 5, "its first line alone\n.*solutions/lab00_x/01_a.cu"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_text_is_told_by_line(tmp_path, old, new, line, said):
    assert old in GOOD
    with pytest.raises(CourseError, match=rf"^.*lab00_x\.md:{line}: (?s:.*)({said})") as error:
        read(GOOD.replace(old, new, 1), tmp_path)
    assert error.value.next_step


def test_a_notebook_that_was_edited_in_jupyter_becomes_its_text(root, capsys):
    def edit(notebook):
        notebook.cells[0].source = "# A better lab\n\nwith a sentence.\n"
        notebook.cells[0].metadata["jp-MarkdownHeadingCollapsed"] = True
        notebook.cells[1].source += "\nmy own try"
        notebook.cells[2].outputs = [nbformat.v4.new_output("stream", text="1.0")]
        notebook.cells[4].source = "my answer"
        notebook.metadata.kernelspec.display_name = "Python 3 (ipykernel)"

    edit_notebook(root, edit)
    assert main(["notebooks", "--root", str(root)]) == 2, "what was edited would be lost"
    assert "was edited after lab00_x.md" in capsys.readouterr().err
    assert main(["text", "--check", "--root", str(root)]) == 1
    assert "Run: python -m warpschool.authoring text" in capsys.readouterr().out
    assert main(["text", "--root", str(root)]) == 0
    assert files(root)["text"].read_text() == GOOD.replace("# A lab", "# A better lab\n\nwith a sentence.")
    assert main(["text", "--check", "--root", str(root)]) == 0
    assert main(["--root", str(root)]) == 0
    cells = read_notebook(files(root)["notebook"]).cells
    assert cells[0].source.startswith("# A better") and "my own" not in cells[1].source and not cells[2].outputs


def test_an_edited_text_is_not_replaced_by_its_older_notebook(root, capsys):
    files(root)["text"].write_text(GOOD.replace("# A lab", "# Another"))
    assert main(["text", "--root", str(root)]) == 2
    assert "lab00_x.md was edited after lab00_x.ipynb\nBuild the notebook" in capsys.readouterr().err
    assert main(["text", "--force", "--root", str(root)]) == 0
    assert files(root)["text"].read_text() == GOOD


def test_edits_are_dropped_when_that_is_wanted(root):
    edit_notebook(root, lambda notebook: notebook.cells.append(new_markdown_cell("new")))
    assert main(["notebooks", "--root", str(root)]) == 2
    assert main(["notebooks", "--force", "--root", str(root)]) == 0
    assert stale_texts(root / "labs", root / "solutions") == {}


def test_generated_parts_and_damage_are_no_edits(root):
    """A changed solution, a notebook that was run, the marks of a merge: the notebook is built anew."""
    (root / "solutions/lab00_x/01_a.cu").write_text("new\n// BEGIN SOLUTION: x (about 1 line)\na;\n// END SOLUTION\n")
    edit_notebook(root, lambda notebook: notebook.cells[2].update(execution_count=3))
    assert main(["notebooks", "--root", str(root)]) == 0
    cells = read_notebook(files(root)["notebook"]).cells
    assert "\nnew\n" in cells[1].source and cells[2].execution_count is None
    files(root)["notebook"].write_text("<<<<<<< HEAD\n{}\n")
    assert main(["notebooks", "--root", str(root)]) == 0
    assert stale_notebooks(root / "labs", root / "solutions") == {}


def test_a_notebook_without_a_text_says_how_to_make_one(root):
    files(root)["text"].unlink()
    with pytest.raises(CourseError, match=r"has no text lab00_x\.md(?s:.*)authoring text"):
        stale_notebooks(root / "labs", root / "solutions")
    assert main(["text", "--root", str(root)]) == 0
    assert files(root)["text"].read_text() == GOOD


def attached():
    return new_markdown_cell("![x](attachment:x.png)", attachments={"x.png": {"image/png": "AA=="}})


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (new_markdown_cell("**Look**\nhere"), r"cell 6 \('\*\*Look\*\*'\): it has no nbgrader metadata"),
        (new_code_cell("x", metadata={"nbgrader": {"grade": True, "grade_id": "lab00-09-x"}}), "of no kind"),
        (new_raw_cell("x"), "no nbgrader metadata"),
        (attached(), "an attached picture"),
    ],
)
def test_cells_that_no_text_can_hold_are_named(root, cell, said):
    def edit(notebook):
        if "attachments" in cell:
            cell.metadata["nbgrader"] = notebook.cells[0].metadata.nbgrader | {"grade_id": "lab00-09-x"}
        notebook.cells.append(cell)

    edit_notebook(root, edit)
    with pytest.raises(CourseError, match=rf"lab00_x\.ipynb: (?s:.*){said}") as error:
        text_of(files(root)["notebook"])
    assert error.value.next_step


def test_students_get_notebooks_alone(tmp_path):
    given = [path for path in course_files(COURSE) if path.startswith("labs/")]
    assert given == [f"labs/{lab.name}/{lab.name}.ipynb" for lab in LABS]
    added, _ = make_class(tmp_path / "class", COURSE)
    assert [path for path in added if path.startswith("source/")] == [f"source/{lab}/{lab}.ipynb" for lab in LABS]


def test_only_authors_need_jupytext(monkeypatch, capsys, root):
    monkeypatch.setitem(sys.modules, "jupytext", None)
    monkeypatch.delitem(sys.modules, "warpschool.authoring.lab_text")
    monkeypatch.delitem(sys.modules, "warpschool.authoring.new_lab", raising=False)
    assert main(["starters", "--root", str(root)]) == 0
    assert main(["--root", str(root)]) == 2
    assert "jupytext is not installed\nInstall it with: pip install 'warpschool[teach]'" in capsys.readouterr().err
    asked = CliRunner().invoke(app, ["new-lab", "reduction", "--root", str(root)])
    assert asked.exit_code != 0 and "jupytext is not installed" in asked.stderr
    assert not list(root.glob("solutions/*reduction"))
