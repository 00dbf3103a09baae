"""Predictions: a number that the student writes down before the counters are read, graded or for practice.

A graded prediction is a literal in a solution cell, which the grader reads as data; what was typed into a form never
gets there.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from warpschool.course import Course
from warpschool.errors import ArgumentError, CourseError
from warpschool.show.page import escape, notebook_box, show, show_text

_FORM = "ipywidgets"


def check_prediction(
    said: object, counted: object, *, what: str = "", points: float = 1.0, tolerance: float = 0.01
) -> float:
    """Compare a prediction with what was counted, display how it went, and return the points earned: all or none.

    Numbers agree within the relative `tolerance`; anything else must be equal. None, as in the starter, says nothing.
    A wrong one is told why, from `grader/LAB/predictions.toml`, and not the number, which would only be copied.
    """
    name = f"{what}: " if what else ""
    if said is None or (isinstance(said, list | tuple) and said and all(part is None for part in said)):
        show_text(f"{name}write your prediction first, then run this cell again.", failed=True)
        return 0.0
    right = _agree(said, counted, tolerance)
    why = "" if right else _why(what)
    told = f"that is {_how_wrong(said, counted)}. {why}" if why else f"counted {_text(counted)}."
    show_text(f"{name}you said {_text(said)}{';' if why else ','} {told}", failed=not right)
    return float(points) if right else 0.0


def _why(what: str) -> str:
    """What leads to the number, in words; "" for what the course has none of, such as what is not predicted."""
    with suppress(CourseError):
        return Course.find().explanation(what)
    return ""


def _how_wrong(said: object, counted: object) -> str:
    if isinstance(said, Real) and isinstance(counted, Real):
        return "too few" if float(said) < float(counted) else "too many"
    return "not it"


def _agree(said: object, counted: object, tolerance: float) -> bool:
    if isinstance(said, Real) and isinstance(counted, Real):
        return math.isclose(float(said), float(counted), rel_tol=tolerance)
    return type(said) is type(counted) and said == counted


def _text(value: object) -> str:
    return f"{value:,.6g}" if isinstance(value, Real) and not isinstance(value, bool) else str(value)


# ---------------------------------------------------------------- practice


@dataclass(eq=False, repr=False)
class Prediction:
    """A question with its answer still hidden; a notebook shows it as a form, `say` answers it in plain code, once.

    `said` and `counted` are None until the student has answered.
    """

    what: str
    measure: Callable[[], float] | float
    name: str = ""
    tolerance: float = 0.01
    said: float | None = None
    counted: float | None = None
    _place: Any = field(default=None, repr=False)

    def say(self, number: float) -> Prediction:
        """Answer, measure, and display both; returns itself. The first answer stays.

        Raises ArgumentError for what is no number.
        """
        self._take(number)
        show(self.text, self.html)
        return self

    def _take(self, answer: object) -> None:
        if self.said is not None:
            return
        said = _number(answer)
        self.counted = _number(self.measure() if callable(self.measure) else self.measure)
        self.said = said

    @property
    def is_right(self) -> bool:
        """Whether the answer agrees with what was counted; False before there is one."""
        if self.said is None or self.counted is None:
            return False
        return math.isclose(self.said, self.counted, rel_tol=self.tolerance)

    @property
    def text(self) -> str:
        """The state of the question in words."""
        if self.said is None or self.counted is None:
            return f"{self.what}? Predict first: add .say(your number) to this call, and run it again."
        said, counted = f"{self.said:,.6g}", f"{self.counted:,.6g}"
        if self.is_right:
            kept = f" For your grade, write {self.name} = {said} into its cell." if self.name else ""
            return f"✓ {self.what}: you said {said}, counted {counted}.{kept}"
        if why := _why(self.what):
            return f"✗ {self.what}: you said {said}; that is {_how_wrong(self.said, self.counted)}. {why}"
        return f"✗ {self.what}: you said {said}, counted {counted}{self._off()}. Why?"

    @property
    def html(self) -> str:
        """The same for a notebook."""
        if self.said is None:
            return notebook_box(f"<p>{escape(self.what)}? Enter your prediction, then measure.</p>")
        return notebook_box(
            f'<p role="status"><b class="{"good" if self.is_right else "bad"}">{escape(self.text)}</b></p>'
        )

    def __repr__(self) -> str:
        return self.text

    def _off(self) -> str:
        """How far off an answer is, where that says something."""
        if not self.said or not self.counted or self.said * self.counted < 0:
            return ""
        factor = self.said / self.counted
        return f", {max(factor, 1 / factor):.3g} times as {'few' if factor > 1 else 'many'}"

    # ---------------------------------------------------------------- the form

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, display

        if importlib.util.find_spec(_FORM) is None or self.said is not None:
            show(self.text, self.html if self.said is not None else notebook_box(f"<p>{escape(self.text)}</p>"))
            return
        display(self.form())
        self._place = display(HTML(self.html), display_id=True)

    def form(self) -> Any:
        """The form: a field, a button. What it says stands below in the cell's output, and stays in exports."""
        import ipywidgets

        entry = ipywidgets.Text(description="Prediction", placeholder="a number", continuous_update=False)
        button = ipywidgets.Button(description="Measure", tooltip=f"Measure: {self.what}")

        def answer(_: Any) -> None:
            try:
                self._take(entry.value)
                entry.disabled = button.disabled = True  # the first answer stays
                markup = self.html
            except Exception as error:  # whatever the measurement raises is told where the student looks
                markup = notebook_box(f'<p role="alert" class="bad">✗ {escape(error)}</p>')
            self._tell(markup)

        entry.observe(lambda change: answer(change) if change["new"].strip() else None, "value")  # Enter, or leaving it
        button.on_click(answer)
        return ipywidgets.HBox([entry, button])

    def _tell(self, markup: str) -> None:
        from IPython.display import HTML

        if self._place is not None:
            self._place.update(HTML(markup))


def predict(what: str, measure: Callable[[], float] | float, *, name: str = "", tolerance: float = 0.01) -> Prediction:
    """Ask for a number before it is measured: `ws.predict("sectors of a load", lambda: ...)`.

    `measure` is the number, or a function that counts it and is called only after the student has answered. With
    ipywidgets a notebook shows a form; without, `.say(4)` answers. `name` is the variable of the graded cell that wants
    the same number. Nothing here earns points: graded predictions go through `ws.check_prediction`.
    """
    return Prediction(what, measure, name, tolerance)


def _number(value: object) -> float:
    try:
        number = float(str(value).strip().replace(",", "").replace("_", ""))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ArgumentError(f"{value!r} is no number", next_step="Enter digits, such as 32 or 0.25.")
    return number
