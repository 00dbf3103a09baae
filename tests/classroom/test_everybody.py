"""Nobody is lost: who is in a class, what was renamed, deleted or edited, and what a person has still to do."""

from __future__ import annotations

import csv
import io
import shutil

import nbformat
import pytest

from warpschool.classroom.export import CHANGED, NO_NOTEBOOK, NOT_GRADED, as_csv, grade_lines
from warpschool.classroom.roster import everybody, read_roster
from warpschool.errors import CourseError
from warpschool.grading.assignment import read_assignment
from warpschool.grading.handin import read_handin, share_of_cells

from .small import WRONG


def exported(small_class, *assignments):
    """student -> row of the CSV."""
    app = small_class.app
    with app.gradebook() as gradebook:
        text = as_csv(grade_lines(gradebook, app.folder, assignments))
    return {row["student_id"]: row for row in csv.DictReader(io.StringIO(text))}


def test_everybody_of_the_roster_and_everybody_who_handed_in_is_exported(small_class):
    roster = "id, first_name,last_name,email\nada, Ada,Lovelace,\nzoe,Zoe,Ö,z@x.org\n"
    (small_class.root / "roster.csv").write_text(roster)
    small_class.hand_in("ada")
    small_class.grade()
    small_class.hand_in("late")
    (small_class.root / "submitted" / "lost" / "mini").mkdir(parents=True)
    with small_class.app.gradebook() as gradebook:
        gradebook.update_or_create_student("ada", last_name="King")
        gradebook.update_or_create_student("cyd")
        people = {student.id: student for student in everybody(gradebook, small_class.app.folder)}
    assert (people["ada"].first_name, people["ada"].last_name) == ("Ada", "King"), "the gradebook knows better"
    rows = exported(small_class)
    assert sorted(rows) == ["ada", "cyd", "late", "lost", "zoe"]
    assert (rows["zoe"]["score"], rows["zoe"]["email"], rows["zoe"]["waiting"]) == ("0", "z@x.org", "")
    assert (rows["late"]["score"], rows["late"]["waiting"]) == ("", NOT_GRADED), "no zero for what nobody looked at"
    assert (rows["lost"]["score"], rows["lost"]["waiting"]) == ("", NO_NOTEBOOK)
    small_class.hand_in("ada", kernel=WRONG)
    assert (exported(small_class)["ada"]["score"], exported(small_class)["ada"]["waiting"]) == ("", CHANGED)


def test_an_assignment_that_was_only_collected_is_exported_too(small_class):
    small_class.hand_in("ada")
    assert exported(small_class)["ada"]["waiting"] == NOT_GRADED


@pytest.mark.parametrize(
    ("text", "words"),
    [("id\nada\nada\n", ":3: ada is there twice"), ("name\nada\n", ":2: there is no student id"),
     ("id\n../x\n", ":2: there is no student id")],
)  # fmt: skip
def test_a_wrong_roster_is_refused_by_its_line(tmp_path, text, words):
    (tmp_path / "roster.csv").write_text(text)
    with pytest.raises(CourseError, match=words):
        read_roster(tmp_path / "roster.csv")
    (tmp_path / "roster.csv").write_bytes(b"id\n\xff\n")
    with pytest.raises(CourseError, match="cannot read"):
        read_roster(tmp_path / "roster.csv")


def test_deleted_and_edited_cells_are_named_in_table_feedback_and_export(small_class):
    def edit(notebook):
        cells = {cell["id"]: cell for cell in notebook.cells}
        notebook.cells.remove(cells["m-correct"])
        cells["m-explain"].source += "\nYes."
        cells["m-title"].source += "  \n"  # spaces at an end are no edit

    small_class.hand_in("ada", answer="Because.", edit=edit)
    small_class.hand_in("bob", answer="Because.")
    done = small_class.grade()
    notes = ("deleted: m-correct; the instructor's are taken", "edited: m-explain; the instructor's are taken")
    assert done.graded["ada"].notes == notes and done.graded["bob"].notes == ()
    assert small_class.grades("ada")["m-correct"].auto == 4, "the instructor's cell is graded"
    rows = exported(small_class)
    assert rows["ada"]["notes"] == "; ".join(notes) and rows["bob"]["notes"] == ""


def test_many_deleted_cells_are_one_note(small_class, tmp_path):
    assignment = read_assignment(small_class.root / "source" / "mini" / "mini.ipynb")
    notebook = small_class.released()
    notebook.cells = notebook.cells[:0]
    nbformat.write(notebook, tmp_path / "mini.ipynb")
    assert read_handin(tmp_path / "mini.ipynb", assignment).notes[-1] == "none of the assignment's 5 cells is there"
    assert share_of_cells(tmp_path / "mini.ipynb", assignment) == 0


def test_a_renamed_notebook_is_offered_and_not_graded(small_class):
    path = small_class.hand_in("ada")
    shutil.move(path, path.with_name("mini (final) 2.ipynb"))
    (path.parent / "other.ipynb").write_text("{}")
    done = small_class.grade()
    assert done.without_notebook == ("ada",) and done.offered == {"ada": ("mini/mini (final) 2.ipynb",)}
    shutil.move(path.with_name("mini (final) 2.ipynb"), path)
    assert small_class.grade().graded["ada"].cell("m-correct").score == 4


def test_a_person_is_asked_only_for_what_is_not_done_also_after_a_regrade(small_class):
    small_class.hand_in("ada", answer="Because.")
    small_class.hand_in("bob", answer="So.")
    small_class.hand_in("eve")  # no answer
    assert small_class.grade().waits == {"ada": ("m-explain",), "bob": ("m-explain",)}
    small_class.mark("ada", "m-explain", 2)
    assert small_class.grade().waits == {"bob": ("m-explain",)}
    assert small_class.grade(regrade=True).waits == {"bob": ("m-explain",)}
    rows = exported(small_class)
    assert (rows["ada"]["waiting"], rows["bob"]["waiting"], rows["eve"]["waiting"]) == ("", "m-explain", "")
