"""What hostile submissions try to reach: canaries that no result may show, and files that must not change."""

from __future__ import annotations

import base64
import hashlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from warpschool.course import Course

from . import hostile_texts as corpus

SECRET_TEXT = "canary-in-a-file-7f3a"
ENVIRONMENT_TEXT = "canary-in-the-environment-91bc"
GRADEBOOK_TEXT = "canary-in-the-gradebook-c05d"


@dataclass(frozen=True)
class Canaries:
    """A secret file and a gradebook, and the texts that stand in them."""

    secret: Path
    gradebook: Path
    digest: str

    def found_in(self, text: str, *, step: str = "") -> list[str]:
        """The canaries that a text holds; with a step, lines of its reference and grader too."""
        planted = [SECRET_TEXT, ENVIRONMENT_TEXT, GRADEBOOK_TEXT]
        if step:
            found = Course.find().step(step)
            lines = [*found.solution.read_text().splitlines(), *found.grader.read_text().splitlines()]
            given = found.starter.read_text()
            own = (line.strip() for line in lines if "//" in line and line not in given)
            planted += [line for line in own if len(line) > 60]
        return [canary for canary in planted if canary in text]

    def are_intact(self) -> bool:
        """Whether the gradebook is, byte for byte, what it was."""
        return hashlib.sha256(self.gradebook.read_bytes()).hexdigest() == self.digest


@pytest.fixture(scope="module")
def canaries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("course")
    secret, gradebook = folder / "secret.txt", folder / "gradebook.db"
    secret.write_text(f"{SECRET_TEXT} stands in the first line\n")
    with sqlite3.connect(gradebook) as database:
        database.execute("create table score (student text, points real)")
        database.execute("insert into score values (?, 1.0)", [GRADEBOOK_TEXT])
    database.close()
    planted = Canaries(secret, gradebook, hashlib.sha256(gradebook.read_bytes()).hexdigest())
    yield planted
    assert planted.are_intact(), "the gradebook was changed"
    assert secret.read_text().startswith(SECRET_TEXT)


@pytest.fixture(autouse=True)
def planted_environment(monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_CANARY", ENVIRONMENT_TEXT)


# ---------------------------------------------------------------- a class that looks at what it got


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
STEP = "lab00_first_kernels/01_saxpy"


@dataclass(frozen=True)
class HostileClass:
    """Its folder, the id under which formgrader shows the hand-in, and the student's feedback page."""

    root: Path
    submission: str
    feedback: Path


def marked(cell, name, **marks):
    kinds = {"grade": False, "solution": False, "task": False, "locked": False, "schema_version": 3}
    cell["id"] = name
    cell.metadata["nbgrader"] = {**kinds, "grade_id": name, **marks}
    return cell


@pytest.fixture(scope="session")
def hostile_class(tmp_path_factory):
    """A class with one hand-in, graded: each attack in a cell of its own below the question."""
    pytest.importorskip("nbgrader", reason="a class needs the extra 'teach'")
    from warpschool.classroom.config import make_class
    from warpschool.classroom.nbgrader_app import ClassApp
    from warpschool.classroom.rounds import grade_class

    root = tmp_path_factory.mktemp("hostile") / "course"
    make_class(root, Course.find())
    answer = new_markdown_cell("*Your answer:*")
    answer["id"] = "m-explain-answer"
    question = marked(new_markdown_cell("Why $x<y$?"), "m-explain", task=True, locked=True, points=3)
    notebook = new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "3", "language": "python"}})
    starter = Course.find().step(STEP).starter.read_text("utf-8")
    calls = f'# It works.\nws.check_cell("{STEP}", points=4)'
    notebook.cells = [
        marked(new_markdown_cell("# A lab"), "m-title", locked=True),
        marked(new_code_cell(f"%%kernel {STEP}\n{starter}"), "m-kernel", solution=True),
        marked(new_code_cell(calls), "m-check", grade=True, locked=True, points=4),
        question, answer,
    ]  # fmt: skip
    folder = root / "source" / "mini"
    folder.mkdir()
    nbformat.write(notebook, folder / "mini.ipynb")
    app = ClassApp(root)
    app.convert("release", "mini")
    own = nbformat.read(root / "release" / "mini" / "mini.ipynb", as_version=4)
    own.cells[1].source = f"%%kernel {STEP}\n#error {' '.join(corpus.MARKUP.values())}".replace("\n\t", " ")
    own.cells[-1].source = corpus.LEGITIMATE.replace("PICTURE", PNG)
    own.cells += [new_markdown_cell(text) for text in corpus.TEXTS.values()]
    place = root / "submitted" / "eve" / "mini"
    place.mkdir(parents=True)
    nbformat.write(own, place / "mini.ipynb")
    (place / "evil.js").write_text(corpus.RUN.format("script of a file"))
    (place / "evil.html").write_text("<script>document.title = 'ran'</script><p>a page of the student's</p>")
    (place / "plot.png").write_bytes(base64.b64decode(PNG))
    grade_class(app, "mini")
    with app.gradebook() as gradebook:
        comment = gradebook.find_comment("m-explain", "mini", "mini", "eve")
        comment.manual_comment = "well <b>said</b>"
        gradebook.db.commit()
        submission = gradebook.find_submission_notebook("mini", "mini", "eve").id
    return HostileClass(root, submission, app.write_feedback("mini")[0])
