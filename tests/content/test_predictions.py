"""Every number that a notebook predicts has words for who got it wrong, and no words are left over."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from warpschool.course import Course

ROOT = Path(__file__).parents[2]
CALL = re.compile(r"ws\.check_prediction\((?P<said>\w+),(?:[^\n]|\n {8,})*?what=\"(?P<what>[^\"]+)\"")
OF_CODE = {"said", "right", "same"}
"""variables of the check cells themselves, which hold what a student's code returned: nothing was predicted"""


def test_what_is_predicted_is_explained_once():
    asked = Counter(
        found["what"]
        for path in ROOT.glob("labs/lab*/lab*.md")
        for found in CALL.finditer(path.read_text("utf-8"))
        if found["said"] not in OF_CODE
    )
    explained = Course(ROOT).explanations
    files = [path.read_text("utf-8") for path in ROOT.glob("grader/lab*/predictions.toml")]
    assert sum(text.count('\n"') for text in files) == len(explained), "one name in two labs"
    assert asked.keys() == explained.keys() and len(explained) > 30
    assert set(asked.values()) == {1}
    assert all(text.endswith((".", "?")) for text in explained.values())


def test_one_explanation_is_the_one_among_all():
    course = Course(ROOT)
    explained = course.explanations
    what = next(iter(explained))
    assert course.explanation(what) == explained[what] != ""
    assert course.explanation(what[: len(what) // 2]) == course.explanation("what nobody predicts") == ""
