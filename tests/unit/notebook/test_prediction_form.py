"""Predict, then measure: the form, its plain stand-in, and that neither can earn points."""

from __future__ import annotations

import sys

import pytest

import warpschool as ws
from warpschool.errors import ArgumentError
from warpschool.notebook import predictions


def test_nothing_is_measured_before_there_is_a_prediction(capsys):
    calls = []

    def count() -> float:
        calls.append(1)
        return 32

    asked = ws.predict("sectors", count, name="sectors_of_b")
    assert "Predict first" in repr(asked) and not calls and asked.counted is None
    with pytest.raises(ArgumentError, match="no number"):
        asked.say("four")
    assert not calls
    asked.say(4)
    assert calls == [1] and not asked.is_right
    assert "✗ sectors: you said 4, counted 32, 8 times as many. Why?" in capsys.readouterr().out
    asked.say(" 32 ")
    assert (asked.said, calls) == (4.0, [1]), "the first answer stays"
    assert "write sectors_of_b = 32 into its cell" in repr(ws.predict("sectors", 32, name="sectors_of_b").say(" 32 "))


def test_a_wrong_prediction_is_told_why_and_not_the_number(capsys):
    assert ws.check_prediction(3, 8, what="sectors of B") == 0.0
    said = capsys.readouterr().out
    assert "you said 3; that is too few. 32 lanes want 32 neighbouring floats" in said and "counted" not in said
    assert ws.check_prediction(8, 8, what="sectors of B") == 1.0
    assert "you said 8, counted 8." in capsys.readouterr().out
    assert ws.check_prediction("x", 8, what="sectors of B") == 0.0
    assert "that is not it." in capsys.readouterr().out
    assert "too many. 32 lanes" in repr(ws.predict("sectors of B", 8).say(9))


@pytest.mark.parametrize(
    ("said", "counted", "right"), [(100, 100.5, True), (100, 102, False), (0, 0, True), (0, 4, False)]
)
def test_agreement(said, counted, right, capsys):
    assert ws.predict("x", counted).say(said).is_right is right


@pytest.mark.parametrize("said", ["", "nan", "inf", None, [1]])
def test_what_is_no_number_is_refused(said):
    with pytest.raises(ArgumentError, match="no number"):
        ws.predict("x", 1.0).say(said)


def test_the_form_measures_on_its_button():
    pytest.importorskip("ipywidgets")
    asked = ws.predict("<b>sectors</b>", lambda: 4)
    told = []
    asked._tell = told.append
    entry, button = asked.form().children
    button.click()
    assert "is no number" in told[-1] and asked.said is None
    entry.value = "8"
    button.click()
    assert (asked.said, asked.counted) == (8.0, 4.0)
    assert "you said 8, counted 4, 2 times as few" in told[-1] and "<b>sectors" not in told[-1]
    assert entry.disabled and button.disabled


def test_a_measurement_that_fails_is_told():
    pytest.importorskip("ipywidgets")
    asked = ws.predict("x", lambda: 1 / 0)
    told = []
    asked._tell = told.append
    entry, button = asked.form().children
    entry.value = "1"
    button.click()
    assert "division by zero" in told[-1] and asked.said is None


def test_without_widgets_there_is_a_plain_cell(monkeypatch, capsys):
    monkeypatch.setattr(predictions, "_FORM", "no_such_package")
    ws.predict("sectors", 4)._ipython_display_()
    assert "add .say(your number)" in capsys.readouterr().out
    assert "no_such_package" not in sys.modules


def test_a_form_earns_no_points(capsys):
    asked = ws.predict("x", 4).say(4)
    assert asked.is_right
    assert ws.check_prediction(asked, 4) == 0.0, "a graded prediction is a literal"
    assert ws.check_prediction(asked, asked.counted) == 0.0
