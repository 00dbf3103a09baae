"""`ws.quiz`: a lab's questions in a notebook, as widgets where there are any, else as text with folds.

A widget keeps what was answered where `warpschool quiz` and `warpschool status` find it. Below the widgets stand the
same questions with their answers behind folds: what stays in an export.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from warpschool.course import Course
from warpschool.errors import ArgumentError, CourseError
from warpschool.questions import Question, answer, progress, questions
from warpschool.show.page import details, escape, notebook_box
from warpschool.show.questions import LETTERS, asked_html, check_yourself, explained_html, plain, question_text

_WIDGETS = "ipywidgets"


class Quiz:
    """The questions of one lab, as a notebook shows them."""

    def __init__(self, lab: str, found: tuple[Question, ...]) -> None:
        self.lab = lab
        self.questions = found

    def __repr__(self) -> str:
        asked = "\n\n".join(question_text(q, place) for place, q in enumerate(self.questions, start=1))
        return f"{asked}\n\nAnswer in a terminal: warpschool quiz {self.lab[:5]}"

    def _repr_html_(self) -> str:
        return notebook_box(f"<p><b>Check yourself: {escape(self.lab)}</b></p>{check_yourself(self.questions)}")

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, display

        if importlib.util.find_spec(_WIDGETS) is None:
            display(HTML(self._repr_html_()))
            return
        display(self.form())
        folded = details("The same questions as text, answers behind folds", check_yourself(self.questions))
        display(HTML(notebook_box(folded)))

    def form(self) -> Any:
        """The widgets: for each question its text, a place for the answer, a button, and what is said of the answer."""
        import ipywidgets

        return ipywidgets.VBox([_form(question, place) for place, question in enumerate(self.questions, start=1)])


def quiz(lab: str) -> Quiz:
    """Show a lab's questions: `ws.quiz("lab05")`. Raises CourseError for a lab without any."""
    course = Course.find()
    found = questions(course.lab(lab), course)
    if not found:
        raise CourseError(f"{lab} has no questions", next_step="labs/LAB/quiz.toml has none.")
    return Quiz(course.lab(lab).name, found)


def _form(question: Question, place: int) -> Any:
    import ipywidgets

    said = ipywidgets.HTML(notebook_box(_state(question)))
    entry, read = _entry(question)
    button = ipywidgets.Button(description="Check", tooltip=f"Check the answer to question {place}")

    def judge(_: Any) -> None:
        try:
            found = answer(question, read())
        except ArgumentError as error:
            said.value = notebook_box(f'<p role="alert">{escape(error.message)}. {escape(error.next_step)}</p>')
            return
        kind, sign = ("good", "✓ Right.") if found.right else ("bad", "✗ Not yet.")
        told = explained_html(question) if found.right else f"<p>{escape(plain(found.told))}</p>"
        said.value = notebook_box(f'<div role="status"><p class="{kind}">{sign}</p>{told}</div>')

    button.on_click(judge)
    asked = ipywidgets.HTML(notebook_box(asked_html(question, place)))
    return ipywidgets.VBox([asked, ipywidgets.HBox([entry, button]), said])


def _entry(question: Question) -> tuple[Any, Callable[[], str]]:
    """The widget that takes the answer, and what reads it."""
    import ipywidgets

    if question.kind == "choice":
        letters = list(LETTERS[: len(question.options)])
        choice = ipywidgets.RadioButtons(options=letters, value=None, description=f"Answer {question.id}")
        return choice, lambda: choice.value or ""
    text = ipywidgets.Text(placeholder=question.how, description="Answer", continuous_update=False)
    return text, lambda: text.value


def _state(question: Question) -> str:
    return '<p class="good">✓ answered right before</p>' if progress(question).right else ""
