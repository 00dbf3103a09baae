"""Predict, then measure: a form where the student enters a number and only then sees what is counted.

It is for practice. A graded prediction is a literal in a solution cell, which the grader reads as data; what was typed
into a form never gets there.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from warpschool.errors import ArgumentError
from warpschool.show.page import escape, notebook_box, show

_FORM = "ipywidgets"


@dataclass(eq=False, repr=False)
class Prediction:
    """A question with its answer still hidden; a notebook shows it as a form, `say` answers it in plain code.

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
        """Answer, measure, and display both; returns itself. Raises ArgumentError for what is no number."""
        said = _number(number)
        self.counted = _number(self.measure() if callable(self.measure) else self.measure)
        self.said = said
        show(self.text, self.html)
        return self

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
            return f"{self.what}? Predict first: {self._call()}"
        said, counted = f"{self.said:,.6g}", f"{self.counted:,.6g}"
        if self.is_right:
            kept = f" For your grade, write {self.name} = {said} into its cell." if self.name else ""
            return f"✓ {self.what}: you said {said}, counted {counted}.{kept}"
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

    def _call(self) -> str:
        return "add .say(your number) to this call, and run it again."

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
                said = _number(entry.value)
                self.counted = _number(self.measure() if callable(self.measure) else self.measure)
                self.said = said
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
        raise ArgumentError(f"{value!r} is no number", next_step="Enter digits, such as 32 or 0.25.") from None
    if not math.isfinite(number):
        raise ArgumentError(f"{value!r} is no number", next_step="Enter digits, such as 32 or 0.25.")
    return number
