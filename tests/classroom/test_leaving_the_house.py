"""What students and other systems get: feedback pages, grades, late penalties; and zips on their way in."""

from __future__ import annotations

import csv
import io
import stat
import zipfile
from datetime import datetime

import pytest

from warpschool.classroom.export import as_canvas, as_csv, as_moodle, grade_lines
from warpschool.classroom.folder import LatePolicy, read_policy
from warpschool.classroom.imports import import_zip, read_students
from warpschool.errors import ArgumentError, CourseError

from .small import PARTLY, WRONG

DUE = datetime(2026, 1, 10, 12, 0)


def feedback(small_class, student):
    small_class.app.convert("feedback", "mini", student=student)
    return (small_class.root / "feedback" / student / "mini" / "mini.html").read_text("utf-8")


def test_feedback_says_what_where_and_why(small_class):
    small_class.hand_in("bob", kernel=PARTLY, answer="I think so.")
    small_class.grade()
    small_class.mark("bob", "m-explain", 1.5)
    with small_class.app.gradebook() as gradebook:
        gradebook.find_comment("m-explain", "mini", "mini", "bob").manual_comment = "Nearly <there>."
        gradebook.db.commit()
    page = feedback(small_class, "bob")
    assert "4.17 of 7 points" in page
    assert "OOB: an access outside an array" in page
    assert '<tr class="hit"><th scope="row">▸ 18</th>' in page, "the line is marked in the source"
    assert "Hints:" in page
    assert "Nearly &lt;there&gt;." in page
    assert "1.5 of 3" in page
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")


def test_feedback_escapes_students_and_keeps_graders_secrets(small_class):
    attack = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    small_class.hand_in("eve", kernel=f"// {attack}\n{WRONG}", answer=attack)
    small_class.grade()
    page = feedback(small_class, "eve")
    assert "<script" not in page and "<img" not in page
    assert page.count("&lt;script&gt;") >= 2
    assert "SECRETMARK" not in page, "the mark scheme is for graders"
    secret = (small_class.root / "secret_seed.txt").read_text().strip()
    assert secret not in page and small_class.app.folder.policy.grading.secret not in page


def test_an_unreadable_hand_in_gets_feedback_too(small_class):
    path = small_class.hand_in("dan")
    path.write_text("{")
    small_class.grade()
    page = feedback(small_class, "dan")
    assert "Your notebook could not be read: the file is no JSON" in page
    assert "0 of 7 points" in page


# ---------------------------------------------------------------- late


@pytest.mark.parametrize(
    ("hours", "penalty"), [(-5, 0), (0, 0), (0.25, 0), (0.26, 1), (24, 1), (24.1, 2), (100, 4), (1000, 4)]
)
def test_late_policy(hours, penalty):
    policy = LatePolicy(grace_minutes=15, percent_per_day=10, cap_percent=40)
    assert policy.penalty(10, hours * 3600) == penalty
    assert policy.penalty(0, hours * 3600) == 0


def test_the_penalty_counts_peoples_points_and_todays_policy(small_class):
    small_class.hand_in("ada", answer="Because.", time="2026-01-11 13:00:00 UTC")
    with small_class.app.gradebook() as gradebook:
        gradebook.update_or_create_assignment("mini", duedate=DUE)
    small_class.grade()
    small_class.mark("ada", "m-explain", 3)

    def exported():
        app = small_class.app
        with app.gradebook() as gradebook:
            return grade_lines(gradebook, app.folder, ["mini"])[0]

    line = exported()
    assert (line.raw, line.penalty, line.score, line.seconds_late) == (7, 1.4, 5.6, 25 * 3600)
    policy = small_class.root / "grading.toml"
    policy.write_text(policy.read_text().replace("percent_per_day = 10", "percent_per_day = 30"))
    assert exported().score == 3.5, "capped at half"
    with small_class.app.gradebook() as gradebook:
        gradebook.grant_extension("mini", "ada", days=2)
    assert exported().score == 7


def test_grading_toml_is_checked(small_class):
    path = small_class.root / "grading.toml"
    good = path.read_text()
    for wrong, words in {
        "lat": "there is no setting lat",
        "python_cells = 'yes'": "python_cells is 'yes'",
        "[late]\ngrace_minutes = 'x'": "late.grace_minutes = 'x' is of the wrong kind",
        "[late]\ncap_percent = 120": "beyond 100 percent",
    }.items():
        path.write_text(wrong if "=" in wrong else f"{wrong} = 1")
        with pytest.raises(CourseError, match=words):
            read_policy(small_class.root)
    path.write_text(good)
    assert read_policy(small_class.root).late.grace_minutes == 15


# ---------------------------------------------------------------- exports


@pytest.fixture
def lines(small_class):
    small_class.hand_in("ada", answer="Because.")
    small_class.hand_in("bob", kernel=WRONG)
    small_class.grade()
    with small_class.app.gradebook() as gradebook:
        gradebook.update_or_create_student("ada", first_name="Ada", last_name="=HYPERLINK()", email="ada@x.org")
        gradebook.update_or_create_student("cyd")
        return grade_lines(gradebook, small_class.app.folder, ["mini"])


def test_csv(lines):
    rows = {row["student_id"]: row for row in csv.DictReader(io.StringIO(as_csv(lines)))}
    assert (rows["ada"]["raw_score"], rows["ada"]["score"], rows["ada"]["waiting"]) == ("4", "", "m-explain")
    assert (rows["bob"]["score"], rows["bob"]["max_score"]) == ("0", "7")
    assert (rows["cyd"]["score"], rows["cyd"]["handed_in"]) == ("0", "")
    assert rows["ada"]["last_name"] == "'=HYPERLINK()", "no spreadsheet takes a name for a formula"


def test_canvas_fills_in_its_own_export(lines):
    template = (
        "Student,ID,SIS Login ID,Section,mini (4711)\n"
        '"    Points Possible",,,,10\n"Lovelace, Ada",1,ada,A,\n"Builder, Bob",2,bob,A,3\n"Nobody, No",3,no,A,9\n'
    )
    rows = list(csv.reader(io.StringIO(as_canvas(lines, template))))
    assert rows[0][-1] == "mini (4711)", "Canvas knows the column by its id"
    assert [row[-1] for row in rows[1:]] == ["7", "", "0", "9"]
    added = as_canvas(lines, template.replace(",mini (4711)", "").replace(",10\n", "\n").replace(",3\n", "\n"))
    assert added.splitlines()[0].endswith(",mini")
    with pytest.raises(ArgumentError, match="no student of the gradebook"):
        as_canvas(lines, "Student,ID,SIS Login ID,Section\nX,9,nobody,A\n")
    with pytest.raises(ArgumentError, match="no gradebook exported from Canvas"):
        as_canvas(lines, "a,b\n")


def test_moodle(lines):
    rows = list(csv.reader(io.StringIO(as_moodle(lines))))
    assert rows[0] == ["ID number", "Email address", "First name", "Last name", "mini"]
    assert rows[1][:2] == ["ada", "ada@x.org"] and rows[1][-1] == ""
    assert rows[2] == ["bob", "", "", "", "0"]


# ---------------------------------------------------------------- imports


def zipped(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, (2026, 1, 10, 11, 0, 0)) if isinstance(name, str) else name
            packed.writestr(info, data, zipfile.ZIP_DEFLATED)
    return path


def test_a_zip_of_canvas(tmp_path):
    archive = zipped(tmp_path / "s.zip", {
        "lovelaceada_11_901_lab02_tiling.ipynb": b"old", "builderbob_LATE_12_903_lab02_tiling-1.ipynb": b"bob",
        "builderbob_LATE_12_904_my report.pdf": b"%PDF", "builderbob_12_905_virus.exe": b"x",
    })  # fmt: skip
    done = import_zip(archive, tmp_path / "in", "lab02_tiling", students={"lovelaceada": "ada"})
    assert dict(done.taken) == {"ada": ("lab02_tiling.ipynb",), "builderbob": ("lab02_tiling.ipynb", "report.pdf")}
    assert done.left == {"builderbob_12_905_virus.exe": "it is neither a notebook nor a PDF"}
    folder = tmp_path / "in" / "builderbob" / "lab02_tiling"
    assert (folder / "lab02_tiling.ipynb").read_bytes() == b"bob"
    assert (folder / "timestamp.txt").read_text().startswith("2026-01-10 ")


def test_a_zip_of_moodle(tmp_path):
    archive = zipped(tmp_path / "s.zip", {
        "Ada Lovelace_77_assignsubmission_file_/lab02.ipynb": b"ada",
        "zoe_78_assignsubmission_file/lab02.ipynb": b"zoe",
    })  # fmt: skip
    (tmp_path / "who.csv").write_text("Ada Lovelace,ada\n")
    done = import_zip(archive, tmp_path / "in", "lab02", students=read_students(tmp_path / "who.csv"))
    assert sorted(done.taken) == ["ada", "zoe"]
    assert sorted(import_zip(archive, tmp_path / "other", "lab02").taken) == ["ada-lovelace", "zoe"]


def test_names_of_moodle_without_a_list(tmp_path):
    names = ["José  García-López", "Ø. Åsa", "Ann Lee", "ann lee", "李小龙", "Zoë"]
    archive = zipped(tmp_path / "s.zip", {
        f"{name}_{number}_assignsubmission_file/lab02.ipynb": name.encode() for number, name in enumerate(names, 70)
    } | {" _9_assignsubmission_file/lab02.ipynb": b"nobody"})  # fmt: skip
    done = import_zip(archive, tmp_path / "in", "lab02")
    assert sorted(done.taken) == ["ann-lee-72", "ann-lee-73", "asa", "jose-garcia-lopez", "user-74", "zoe"]
    ids = ["jose-garcia-lopez", "asa", "ann-lee-72", "ann-lee-73", "user-74", "zoe"]
    for student, name in zip(ids, names, strict=True):
        assert (tmp_path / "in" / student / "lab02" / "lab02.ipynb").read_text() == name
    assert list(done.left) == [" _9_assignsubmission_file/lab02.ipynb"]


def test_a_hostile_zip_writes_nothing_elsewhere(tmp_path):
    link = zipfile.ZipInfo("x_1_assignsubmission_file_/a.ipynb")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive = zipped(tmp_path / "s.zip", {
        "../../evil_1_2_a.ipynb": b"x", "/etc/evil_1_2_a.ipynb": b"x", "..\\evil_1_2_b.ipynb": b"x",
        "y_1_assignsubmission_file_/bomb.ipynb": b"0" * (4 << 20), link: b"/etc/passwd",
    })  # fmt: skip
    done = import_zip(archive, tmp_path / "in", "lab02")
    assert not done.taken and len(done.left) == 5
    assert not (tmp_path / "in").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"s.zip"}
    (tmp_path / "no.zip").write_text("no zip")
    with pytest.raises(ArgumentError, match="cannot read"):
        import_zip(tmp_path / "no.zip", tmp_path / "in", "lab02")


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_a_feedback_page_has_no_serious_accessibility_issue(small_class, look, issues, dark):
    for student, kernel in (("bob", PARTLY), ("eve", WRONG)):
        small_class.hand_in(student, kernel=kernel, answer="I think so.")
    small_class.grade()
    for student in ("bob", "eve"):
        look(feedback(small_class, student), f"feedback-{student}", dark=dark)
        assert issues() == []
