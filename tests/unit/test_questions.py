"""Reading concept checks, judging answers, keeping progress; and what is said of a file that is wrong."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from warpschool.cli import app
from warpschool.course import Course
from warpschool.errors import CourseError
from warpschool.notebook.quiz import quiz
from warpschool.questions import FILE, answer, find_question, progress, questions
from warpschool.show.questions import check_yourself, marked

CHOICE = """
[[question]]
id = "bytes"
kind = "choice"
ask = "How many `bytes`?"
right = "four"
wrong = [["two", "Those are halves."], ["eight", "Those are doubles."]]
why = "A float has four."
"""
NUMBER = """
[[question]]
id = "lanes"
kind = "number"
ask = "How many lanes?"
answer = 32
tolerance = 0.01
unit = "lanes"
wrong = [[16, "That is half a warp."]]
why = "A warp has 32."
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def course(tmp_path):
    (tmp_path / "labs" / "lab00_tiny").mkdir(parents=True)
    made = Course(tmp_path)

    def write(text):
        (tmp_path / "labs" / "lab00_tiny" / FILE).write_text(text, "utf-8")
        return made

    return write


def asked(course):
    return questions(course.lab("lab00"), course)


def test_answers_are_judged_and_explained(course):
    one, two = asked(course(CHOICE + NUMBER))
    wrong = one.options.index("two")
    assert one.judge("ABC"[wrong]).told == "Those are halves."
    assert one.judge(one.right_answer).told == "A float has four."
    assert two.judge("32").right and two.judge("32.1").right and two.judge(" 32 ").right
    assert two.judge("16").told == "That is half a warp."
    assert two.judge("33").told.startswith("Too many") and two.judge("1").told.startswith("Too few")


def test_progress_is_kept_until_the_question_changes(course):
    (one,) = asked(course(NUMBER))
    assert progress(one).answers == ()
    assert not answer(one, "16").right and not progress(one).right
    assert answer(one, "32").right
    assert not answer(one, "1").right
    assert progress(one).answers == ("16", "32", "1") and progress(one).right
    (other,) = asked(course(NUMBER.replace("How many lanes?", "How many lanes has a warp?")))
    assert progress(other).answers == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CHOICE.replace('right = "four"', ""), r"question 1 \(bytes\): it lacks right"),
        (CHOICE.replace('"choice"', '"guess"'), r"its kind is 'guess'"),
        (CHOICE.replace("right =", "rigth = 1\nright ="), r"a choice has no key rigth"),
        (CHOICE.replace(', ["eight", "Those are doubles."]', ""), r"2 to choose from"),
        (CHOICE.replace('"eight"', '"two"'), r"2 to choose from"),
        (CHOICE + CHOICE, r"two questions are called bytes"),
        (NUMBER.replace("[16,", "[32,"), r"right answer is among the wrong"),
        ("question = 1", "holds more than questions"),
        ("[[question", "is no TOML"),
        (NUMBER.replace("answer = 32", 'answer = "many"'), r"question 1 \(lanes\): ValueError"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_told_with_the_question_and_what_next(course, text, said):
    with pytest.raises(CourseError, match=said) as caught:
        asked(course(text))
    assert FILE in caught.value.message and caught.value.next_step


def test_html_shows_code_and_hides_answers(course):
    found = asked(course(CHOICE + NUMBER))
    page = check_yourself(found)
    assert page.count("<details><summary>Answer</summary>") == 2
    shown, _, hidden = page.partition("<details>")
    assert "How many <code>bytes</code>?" in shown and "A float has four." not in shown
    assert "Those are doubles." in hidden
    assert marked("<b>") == "<p>&lt;b&gt;</p>"


def test_a_question_is_found_by_name_or_number():
    assert find_question("lab02/two-barriers").id == "two-barriers"
    assert find_question("lab02/1").id == "tile-bytes"
    with pytest.raises(CourseError, match="no question 'two-bariers'") as caught:
        find_question("lab02/two-bariers")
    assert "two-barriers" in caught.value.next_step


def test_a_notebook_gets_text_folds_and_widgets():
    shown = quiz("lab02")
    assert "warpschool quiz lab02" in repr(shown) and "<details>" in shown._repr_html_()
    box = shown.form()
    assert len(box.children) == len(shown.questions)
    question, said = shown.questions[0], box.children[0].children[2]
    entry, button = box.children[0].children[1].children
    entry.value = "no number"
    button.click()
    assert "is no answer" in said.value
    entry.value = "1"
    button.click()
    assert "Not yet" in said.value
    entry.value = question.right_answer
    button.click()
    assert "Right" in said.value and progress(question).right


# ---------------------------------------------------------------- the command


def run(*arguments):
    return CliRunner().invoke(app, ["quiz", *arguments])


def test_the_command_prints_questions_takes_answers_and_keeps_them():
    printed = run("lab02")
    assert printed.exit_code == 0 and "tile-bytes" in printed.output and "0 of 7" in printed.output
    assert "131" not in printed.output
    wrong = run("lab02", "-a", "tile-bytes=32768", "-a", "barriers=14")
    assert wrong.exit_code == 1 and "not yet" in wrong.output and "rounds" in wrong.output
    document = json.loads(run("lab02", "--json").output)
    done = {row["id"]: row["right"] for row in document["questions"]}
    assert done["barriers"] and not done["tile-bytes"]
    assert run("lab02/tile-bytes", "-a", "131072").exit_code == 0
    status = json.loads(CliRunner().invoke(app, ["status", "--json"]).output)
    assert status["questions"]["lab02_tiling"] == [2, 7]


def test_the_command_refuses_what_is_no_question_and_keeps_nothing_then():
    assert "names no question" in run("lab02", "-a", "tile-byte=1").output
    assert run("lab02", "-a", "barriers=14", "-a", "tile-bytes=many").exit_code == 2
    assert not progress(find_question("lab02/barriers")).right
