"""Specimens: what the files may say, and what is said of one that says something else."""

from __future__ import annotations

import pytest

from warpschool.authoring import specimens
from warpschool.errors import CourseError
from warpschool.grading import Verdict

SOLUTION = "int n;\nfirst();\nbarrier();\nsecond();\nbarrier();\n"
EDIT = "\n[[edit]]\nreplace = '{}'\nby = '{}'\n"


@pytest.fixture
def write(tmp_path):
    """Writes a specimen of a step whose solution is SOLUTION, and returns what is read of it."""
    (tmp_path / "lab00_a").mkdir()
    (tmp_path / "lab00_a" / "01_b.cu").write_text(SOLUTION)
    (tmp_path / "lab00_a" / "00_before.cu").write_text(SOLUTION.replace("first", "before"))

    def made(text: str, name: str = "wrong.toml") -> specimens.Specimen:
        folder = tmp_path / "specimens" / "lab00_a" / "01_b"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        return specimens.read(folder / name)

    return made


def toml(*edits: tuple[str, str], more: str = "") -> str:
    return 'why = "because"\nverdict = "RACE"\n' + more + "".join(EDIT.format(*edit) for edit in edits)


def test_edits_apply_in_their_order(write, tmp_path):
    specimen = write(toml(("first();", "third();"), ("third", "fourth"), more="criterion = 'No race'\n"))
    assert specimen.source(tmp_path) == SOLUTION.replace("first", "fourth")
    assert (specimen.step, specimen.why, specimen.verdict) == ("lab00_a/01_b", "because", Verdict.RACE)
    assert (specimen.criterion, specimen.is_right) == ("No race", False)
    assert specimen.line(SOLUTION) == 0


@pytest.mark.parametrize(("at", "line"), [
    ("'second'", 4), ("'''\nsecond();\nbarrier();'''", 5), ("'''\nsecond();\nbarrier();\n'''", 5), ("'int'", 1),
])  # fmt: skip
def test_the_last_line_of_at_is_to_blame(write, tmp_path, at, line):
    specimen = write(toml(("first();", ""), more=f"at = {at}\n"))
    assert specimen.line(specimen.source(tmp_path)) == line


def test_another_step_can_be_handed_in(write, tmp_path):
    assert write(toml(more="from = 'lab00_a/00_before'\n")).source(tmp_path) == SOLUTION.replace("first", "before")


def test_a_whole_kernel_carries_its_verdict(write, tmp_path):
    text = "// right_other.cu: another way.\n// expect: AC\nkernel();\n"
    specimen = write(text, "right_other.cu")
    assert (specimen.source(tmp_path), specimen.line(text)) == (text, 0)
    assert (specimen.why, specimen.verdict, specimen.is_right) == ("another way.", Verdict.AC, True)
    text = "// wrong.cu: a race.\n\nkernel();  // expect: RACE\n"
    assert write(text, "wrong.cu").line(text) == 3


@pytest.mark.parametrize(("edits", "said"), [
    ([("third();", "")], "edit 1 replaces occurs 0 times"),
    ([("first();", ""), ("barrier();", "")], "edit 2 replaces occurs 2 times"),
    ([("first();", "second();"), ("second();", "")], "edit 2 replaces occurs 2 times"),
    ([("", "more")], "edit 1 replaces occurs 0 times"),
])  # fmt: skip
def test_an_edit_applies_exactly_once(write, tmp_path, edits, said):
    with pytest.raises(CourseError, match=rf"wrong\.toml.*{said}.*\n"):
        write(toml(*edits)).source(tmp_path)


@pytest.mark.parametrize("at", ["barrier();", "third();"])
def test_at_is_found_exactly_once(write, tmp_path, at):
    specimen = write(toml(("first();", ""), more=f"at = '{at}'\n"))
    with pytest.raises(CourseError, match=r"wrong\.toml: the text of `at` occurs [02] times"):
        specimen.line(specimen.source(tmp_path))


@pytest.mark.parametrize(("text", "said"), [
    ("why = ", "is no TOML"),
    ("why = 'x'\n" + EDIT.format("first", ""), "lacks verdict"),
    (toml(("first", ""), more="line = 'x'\n"), "has no key line"),
    (toml() + "\n[[edit]]\nreplace = 'first'\n", "edit 1 lacks by"),
    (toml() + "\n[edit]\nreplace = 'first'\n", "is no table"),
    (toml(("first", ""), more="at = 3\n"), "at must be text"),
    (toml(("first", "")).replace("RACE", "FINE"), "FINE is no verdict"),
    (toml(), "edits nothing"),
])  # fmt: skip
def test_what_cannot_be_understood_is_named(write, text, said):
    with pytest.raises(CourseError, match=said) as info:
        write(text)
    assert "wrong.toml" in str(info.value)


@pytest.mark.parametrize("text", ["kernel();\n", "a();  // expect: WA\nb();  // expect: WA\n"])
def test_a_whole_kernel_without_one_expectation_is_refused(write, text):
    with pytest.raises(CourseError, match=r"states [02] expectations"):
        write(text, "wrong.cu")


def test_a_step_that_does_not_exist_is_named(write, tmp_path):
    with pytest.raises(CourseError, match=r"wrong\.toml edits .*09_none\.cu, which does not exist"):
        write(toml(more="from = 'lab00_a/09_none'\n")).source(tmp_path)
