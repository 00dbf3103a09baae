"""Scores on their way into nbgrader's gradebook, and what people entered there."""

from __future__ import annotations

import threading
import time

import pytest
from nbformat.v4 import new_code_cell, new_output

from warpschool.errors import CourseError, GradingError
from warpschool.grading import cluster
from warpschool.grading.records import CellState
from warpschool.grading.verdicts import Verdict

from .small import PARTLY, RIGHT, WRONG, mini_notebook


def test_scores_comments_and_what_waits_for_people(small_class):
    small_class.hand_in("ada", answer="Because of memory.")
    small_class.hand_in("bob", kernel=PARTLY)
    done = small_class.grade()
    assert not done.failed and set(done.graded) == {"ada", "bob"}
    ada, bob = small_class.grades("ada"), small_class.grades("bob")
    assert (ada["m-correct"].auto, ada["m-correct"].waits) == (4, False)
    assert (ada["m-explain"].auto, ada["m-explain"].waits) == (None, True)
    assert (bob["m-correct"].auto, bob["m-correct"].waits) == (pytest.approx(4 * 2 / 3, abs=1e-6), False)
    assert (bob["m-explain"].auto, bob["m-explain"].waits) == (0, False), "no answer needs nobody"
    assert bob["m-explain"].comment == "No response."
    with small_class.app.gradebook() as gradebook:
        said = gradebook.find_comment("m-kernel", "mini", "mini", "bob").auto_comment
    assert said.startswith("OOB: an access outside an array.") and "01_saxpy.cu:" in said


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_nbgraders_own_autograde_gives_the_same(small_class):
    from nbgrader.apps.api import NbGraderAPI

    small_class.hand_in("ada", answer="Because.")
    small_class.hand_in("bob", kernel=WRONG)
    (small_class.root / "submitted" / "cyd" / "mini").mkdir(parents=True)
    (small_class.root / "submitted" / "cyd" / "mini" / "mini.ipynb").write_text("{")
    app = small_class.app
    api = NbGraderAPI(app.coursedir, parent=app.app)
    for student in ("ada", "bob", "cyd"):
        assert api.autograde("mini", student, create=True)["success"]
    first = {student: small_class.grades(student) for student in ("ada", "bob", "cyd")}
    assert first["ada"]["m-correct"].auto == 4 and first["cyd"]["m-correct"].auto == 0
    small_class.grade(regrade=True)
    assert {student: small_class.grades(student) for student in first} == first


def test_no_python_of_students_runs(small_class, tmp_path):
    proof = tmp_path / "ran"

    def edit(notebook):
        for place in (0, 3, len(notebook.cells)):
            notebook.cells.insert(place, new_code_cell(f"open({str(proof)!r}, 'w')\nimport os; os._exit(1)"))
        notebook.metadata.kernelspec = {"name": "evil", "display_name": "evil"}

    small_class.hand_in("eve", edit=edit)
    small_class.grade()
    assert small_class.grades("eve")["m-correct"].auto == 4
    assert not proof.exists()


def test_forged_cells_count_for_nothing(small_class):
    def edit(notebook):
        for cell in notebook.cells:
            if cell["id"] == "m-correct":
                cell.source = "99999.0"
                cell.metadata.nbgrader["points"] = 10_000
                cell.outputs = [new_output("execute_result", {"text/plain": "4.0"}, execution_count=1)]
            if cell["id"] == "m-title":
                cell.metadata.nbgrader |= {"grade": True, "points": 50}

    small_class.hand_in("eve", kernel=WRONG, edit=edit)
    small_class.grade()
    found = small_class.grades("eve")
    assert set(found) == {"m-correct", "m-explain"}
    assert (found["m-correct"].score, found["m-correct"].points) == (0, 4)


def test_a_missing_result_is_no_zero(small_class, monkeypatch):
    real = cluster.run

    small_class.hand_in("ada", answer="Because.")
    monkeypatch.setattr(cluster, "run", lambda jobs, **options: ((job, job.failed("a disk died")) for job in jobs))
    done = small_class.grade()
    assert done.graded["ada"].cell("m-correct").state is CellState.FAILED
    assert not done.graded["ada"].is_complete
    found = small_class.grades("ada")["m-correct"]
    assert (found.auto, found.waits) == (None, True)
    monkeypatch.setattr(cluster, "run", real)
    again = small_class.grade()  # what failed is graded again without being asked for
    assert again.graded["ada"].cell("m-correct").verdict is Verdict.AC
    assert small_class.grades("ada")["m-correct"].waits is False


def test_a_gradebook_that_knows_other_points_blocks_the_grade(small_class):
    small_class.hand_in("ada")
    small_class.write_source(mini_notebook(kernel_points=8))
    done = small_class.grade()
    assert "the gradebook has 4 points, the instructor's notebook 8 points" in done.failed["ada"]
    assert "warpschool release mini" in done.failed["ada"]
    assert small_class.app.folder.records.get("mini", "ada") is None
    small_class.app.convert("release", "mini")
    assert not small_class.grade().failed
    assert small_class.grades("ada")["m-correct"].auto == 8


# ---------------------------------------------------------------- changing one's mind


def test_peoples_points_survive_where_the_answer_is_unchanged(small_class):
    small_class.hand_in("ada", answer="Because of memory.")
    small_class.hand_in("bob", answer="No idea.")
    small_class.grade()
    for student, points in (("ada", 2.5), ("bob", 1)):
        small_class.mark(student, "m-explain", points)
    small_class.hand_in("ada", answer="Because of memory.", kernel=WRONG, time="2026-01-11 12:00:00 UTC")
    small_class.hand_in("bob", answer="Because of shared memory!", time="2026-01-11 12:00:00 UTC")
    done = small_class.grade()
    ada, bob = small_class.grades("ada"), small_class.grades("bob")
    assert (ada["m-explain"].score, ada["m-explain"].waits) == (2.5, False)
    assert (bob["m-explain"].score, bob["m-explain"].waits) == (1, True), "another answer is to be read again"
    assert [(c.student, c.grade_id, c.before, c.after) for c in done.changes] == [("ada", "m-correct", 4, 0)]
    small_class.grade(regrade=True)
    assert small_class.grades("ada")["m-explain"].waits is False


def test_an_appeal_stands_until_what_it_was_about_changes(small_class):
    small_class.hand_in("bob", kernel=WRONG)
    small_class.grade()
    small_class.mark("bob", "m-correct", 3)  # a person decided
    small_class.grade(regrade=True)
    found = small_class.grades("bob")["m-correct"]
    assert (found.score, found.auto, found.waits) == (3, 0, False)
    small_class.hand_in("bob", kernel=RIGHT)
    small_class.grade()
    found = small_class.grades("bob")["m-correct"]
    assert (found.score, found.auto, found.waits) == (3, 4, True)


def test_changed_points_mean_grading_everybody_anew(small_class):
    small_class.hand_in("ada", answer="Because.")
    small_class.hand_in("bob", kernel=WRONG)
    small_class.grade()
    small_class.mark("ada", "m-explain", 3)
    small_class.write_source(mini_notebook(kernel_points=6, task_points=5))
    small_class.app.convert("release", "mini")
    small_class.hand_in("cyd")
    with pytest.raises(CourseError, match="2 of 2 submissions of mini were graded otherwise") as refused:
        small_class.grade()
    assert "--regrade" in str(refused.value)
    with pytest.raises(CourseError, match="1 of 1 submissions"):
        small_class.grade(regrade=True, students=["ada"])
    done = small_class.grade(regrade=True)
    assert [(c.student, c.grade_id, c.before, c.after, c.points) for c in done.changes] == [
        ("ada", "m-correct", 4, 6, 6)
    ]
    found = small_class.grades("ada")
    assert (found["m-correct"].score, found["m-explain"].score) == (6, 3)
    assert found["m-explain"].waits, "the points of the question have changed"


def test_a_class_is_never_graded_with_two_versions(small_class, monkeypatch):
    from warpschool.grading import records

    small_class.hand_in("ada")
    small_class.grade()
    real = records.provenance
    monkeypatch.setattr(records, "provenance", lambda *a, **k: real(*a, **k) | {"nvrtc": "99.9"})
    small_class.hand_in("bob")
    with pytest.raises(CourseError, match=r"nvrtc: then 1[\d.]+, now 99\.9"):
        small_class.grade()
    with pytest.raises(CourseError, match=r"1 of 1 submissions of mini were graded otherwise"):
        small_class.app.convert("grade", "mini", student="bob")  # nbgrader's own command and button


def test_what_was_never_released_is_said(small_class):
    import shutil

    shutil.copytree(small_class.root / "source" / "mini", small_class.root / "source" / "other")
    (small_class.root / "source" / "other" / "mini.ipynb").rename(small_class.root / "source" / "other" / "other.ipynb")
    from warpschool.classroom.rounds import grade_class

    with pytest.raises(CourseError, match="other is not in the gradebook yet"):
        grade_class(small_class.app, "other")


def test_nothing_is_graded_twice(small_class):
    small_class.hand_in("ada")
    small_class.grade()
    again = small_class.grade()
    assert (dict(again.graded), again.unchanged) == ({}, ("ada",))
    with pytest.raises(CourseError, match="zoe handed in nothing"):
        small_class.grade(students=["zoe"])


def test_a_kill_between_record_and_gradebook_loses_nothing(small_class, monkeypatch):
    from warpschool.classroom import preprocessors

    small_class.hand_in("ada", answer="Because.")
    small_class.grade()
    small_class.mark("ada", "m-explain", 2)
    small_class.hand_in("ada", answer="Because.", kernel=WRONG)

    def killed(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(preprocessors, "apply", killed)
        with pytest.raises(KeyboardInterrupt):
            small_class.grade()
    assert small_class.grades("ada")["m-correct"].auto == 4
    done = small_class.grade()
    assert [(c.before, c.after) for c in done.changes] == [(4, 0)]
    found = small_class.grades("ada")
    assert (found["m-correct"].auto, found["m-explain"].score, found["m-explain"].waits) == (0, 2, False)


def test_formgrader_may_be_used_meanwhile(small_class):
    """A writer that holds the database for a second delays the batch; what it enters is kept."""
    small_class.hand_in("ada", answer="Because.")
    small_class.grade()
    started = threading.Event()

    def teacher():
        with small_class.app.gradebook() as gradebook:
            grade = gradebook.find_grade("m-explain", "mini", "mini", "ada")
            grade.manual_score, grade.needs_manual_grade = 2, False
            gradebook.db.flush()  # the write lock is held from here
            started.set()
            time.sleep(1.0)
            gradebook.db.commit()

    thread = threading.Thread(target=teacher)
    thread.start()
    started.wait()
    done = small_class.grade(regrade=True)
    thread.join()
    assert not done.failed
    found = small_class.grades("ada")["m-explain"]
    assert (found.manual, found.waits) == (2, False)


def test_one_run_at_a_time(small_class):
    import fcntl

    small_class.hand_in("ada")
    (small_class.root / "grading").mkdir(exist_ok=True)
    with (small_class.root / "grading" / "lock").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(GradingError, match="another run grades this class"):
            small_class.grade()


def test_links_and_pipes_are_moved_aside(small_class):
    import os

    path = small_class.hand_in("eve")
    gradebook = small_class.root / "gradebook.db"
    path.unlink()
    path.symlink_to(gradebook)
    (path.parent / "data.csv").symlink_to(gradebook)
    os.mkfifo(path.parent / "pipe")
    done = small_class.grade()
    assert len(done.moved) == 3
    assert done.graded["eve"].problem == "the file is empty"
    copied = {file.name for file in (small_class.root / "autograded" / "eve" / "mini").iterdir()}
    assert copied == {"mini.ipynb", "timestamp.txt"}
