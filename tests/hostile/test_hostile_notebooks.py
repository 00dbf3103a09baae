"""Every hostile notebook gets its verdict; nothing of it runs, and the gradebook stays what it was."""

from __future__ import annotations

import json
import os

import pytest

from warpschool.course import Course
from warpschool.grading.assignment import read_assignment
from warpschool.grading.folders import find_submissions
from warpschool.grading.handin import read_handin, reassembled
from warpschool.grading.jobs import KernelJob
from warpschool.grading.verdicts import Verdict

from . import hostile_kernels, hostile_notebooks as corpus

pytestmark = pytest.mark.usefixtures("forked_checks")

ATTACKS = {attack.name: attack for attack in corpus.ATTACKS}
RIGHT = f"%%kernel {corpus.STEP}\n{hostile_kernels.RIGHT}"
WRONG = RIGHT.replace("a * x[i] + y[i]", "a * x[i] - y[i]")
_verdicts: dict[bytes, str] = {}


@pytest.fixture(scope="module")
def assignment():
    return read_assignment(Course.find().lab(corpus.LAB).notebook)


def file_of(attack, canaries) -> bytes:
    notebook = json.loads(Course.find().lab(corpus.LAB).notebook.read_text())
    corpus.kernel_cell(notebook)["source"] = {"right": RIGHT, "wrong": WRONG}[attack.kernel]
    made = attack.build(notebook)
    for name, text in {"{RIGHT}": RIGHT, "{WRONG}": WRONG, "{GRADEBOOK}": str(canaries.gradebook)}.items():
        made = made.replace(name.encode(), json.dumps(text)[1:-1].encode())
    return made


def verdict_of(source: bytes) -> str:
    """Equal sources are checked once."""
    if source not in _verdicts:
        _verdicts[source] = str(KernelJob(corpus.STEP, source).run().verdict)
    return _verdicts[source]


@pytest.mark.parametrize("name", ATTACKS)
def test_verdict_of_the_kernel(name, assignment, canaries, tmp_path, takes_little):
    path = tmp_path / f"{corpus.LAB}.ipynb"
    path.write_bytes(file_of(ATTACKS[name], canaries))
    with takes_little():
        handin = read_handin(path, assignment)
    if handin.problem:
        found = "BAD"
        assert len(handin.problem) < 400 and "\x1b" not in handin.problem
    else:
        found = verdict_of(handin.kernels[corpus.STEP].data)
        again = reassembled(handin, assignment)
        assert [c.source for c in corpus.checks(again)] == [c.source for c in corpus.checks(assignment.notebook)]
        points = [c.metadata.nbgrader.points for c in corpus.checks(again)]
        assert points == [c.metadata.nbgrader.points for c in corpus.checks(assignment.notebook)]
    assert found == ATTACKS[name].verdict, (handin.problem, handin.notes)
    assert canaries.are_intact()
    assert not canaries.found_in(f"{handin.problem} {handin.notes}")


def test_the_corpus_is_large():
    assert len(ATTACKS) == len(corpus.ATTACKS) >= 60
    assert {attack.verdict for attack in ATTACKS.values()} == {"AC", "WA", "BAD", "CE"}


@pytest.mark.parametrize("kind", ["link", "linked folder", "pipe", "device"])
def test_a_notebook_that_is_no_file_is_not_read(kind, canaries, tmp_path):
    folder = tmp_path / "submissions"
    target = folder / "eve" / f"{corpus.LAB}.ipynb"
    target.parent.parent.mkdir()
    if kind == "linked folder":
        (tmp_path / "real").mkdir()
        (tmp_path / "real" / target.name).write_bytes(file_of(ATTACKS["as it is"], canaries))
        target.parent.symlink_to(tmp_path / "real")
        (folder / "bob").mkdir()
        (folder / "bob" / target.name).symlink_to(tmp_path / "real" / target.name)
    else:
        target.parent.mkdir()
        if kind == "pipe":
            os.mkfifo(target)
        else:
            target.symlink_to(canaries.gradebook if kind == "link" else "/dev/zero")
    found, _ = find_submissions(folder, Course.find())
    assert found and all(item.problem and not item.data for item in found)
    result = KernelJob(corpus.STEP, b"").failed(found[0].problem, Verdict.BAD)
    assert not canaries.found_in(result.to_json()) and str(result.verdict) == "BAD"
