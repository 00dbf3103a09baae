"""Concept checks: every lab has its six, no answer is wrong, and every wrong one is explained."""

from __future__ import annotations

import math
import re

import pytest

from warpschool.authoring.recipes import value, why_not
from warpschool.course import Course
from warpschool.errors import ArgumentError
from warpschool.questions import KINDS, questions

COURSE = Course.find()
ASKED = {lab.name: questions(lab, COURSE) for lab in COURSE.labs()}
OURS = [name for name in ASKED if name < "lab16" or ASKED[name]]
"""Whoever adds a lab of their own need not write questions."""
ALL = [question for asked in ASKED.values() for question in asked]
LEAST = 6
RUNS = re.compile(r"\b(run|sectors|passes)\(")


def cases(wanted):
    """Questions by name; what needs the simulator is quick for the first labs only."""
    return [
        pytest.param(q, id=q.name, marks=pytest.mark.slow if needs_simulator(q) and q.lab >= "lab03" else ())
        for q in ALL
        if wanted(q)
    ]


def needs_simulator(question):
    return question.kind == "bug" or RUNS.search(question.recipe)


@pytest.mark.parametrize("lab", OURS)
def test_a_lab_has_its_questions_of_every_kind(lab):
    asked = ASKED[lab]
    assert len(asked) >= LEAST
    assert {question.kind for question in asked} == set(KINDS)


@pytest.mark.parametrize("question", cases(lambda q: q.recipe))
def test_a_number_is_what_its_recipe_gives(question):
    assert math.isclose(value(question), question.number, rel_tol=max(question.tolerance, 1e-9))


@pytest.mark.parametrize("question", cases(lambda q: q.kind == "bug"))
def test_a_bug_is_seen_where_the_question_says_and_its_mending_mends(question):
    assert why_not(question) == ""


def test_nearly_every_number_is_computed():
    assert [q.name for q in ALL if q.kind == "number" and not q.recipe] == ["lab15/histogram-atomics"]


@pytest.mark.parametrize("question", ALL, ids=lambda q: q.name)
def test_the_right_answer_is_right_and_every_other_is_explained(question):
    assert question.judge(question.right_answer).right
    assert question.why.endswith((".", ")"))
    for said, why in question.reasons.items():
        assert len(why) > 10 and why.endswith((".", "?", ")")), (question.name, said)
    if question.kind == "choice":
        for letter in "abcdefghij"[: len(question.options)]:
            judged = question.judge(letter)
            assert judged.right == (letter == question.right_answer) and judged.told
    if question.kind == "order":
        turned = question.right_answer[::-1]
        judged = question.judge(turned)
        assert not judged.right and "Place 1" in judged.told
    with pytest.raises(ArgumentError, match=question.id):
        question.judge("?")


def test_the_right_choice_stands_at_every_place():
    places = [q.right_answer for q in ALL if q.kind == "choice"]
    assert {letter: places.count(letter) >= 8 for letter in "abcd"} == dict.fromkeys("abcd", True)
