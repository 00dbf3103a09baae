"""`warpschool quiz`: a lab's questions in the terminal, with or without somebody there to type."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warpschool.cli.options import course
from warpschool.cli.output import FAILED, OK, Output, guarded
from warpschool.errors import ArgumentError, CourseError

if TYPE_CHECKING:
    from warpschool.questions import Judged, Question


@guarded
def quiz(
    output: Output,
    lab: Annotated[str, typer.Argument(metavar="LAB", help="A lab, or one question of it: lab02/tile-bytes.")],
    answers: Annotated[
        list[str] | None,
        typer.Option("--answer", "-a", metavar="ID=ANSWER", help="An answer; may be given several times."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Ask what was answered right before, too.")] = False,
) -> None:
    """Ask a lab's questions; each answer is explained at once, a wrong one without giving the right one away.

    In a terminal it asks one after the other. Elsewhere it prints them, and takes answers by --answer: a letter,
    letters in order, a number, or the number of a line. What was answered is kept: warpschool status tells.

    Example: warpschool quiz lab05, or without a terminal: warpschool quiz lab05 --answer tile=b --answer reuse=16
    """
    asked = _asked(lab)
    given = _given(answers or [], asked)
    if given:
        raise typer.Exit(_judge_all(output, given))
    open_ones = [question for question in asked if again or not _is_done(question)]
    is_live = not output.as_json and not output.plain and sys.stdin.isatty() and sys.stdout.isatty()
    if is_live and open_ones:
        _ask_all(output, asked, open_ones)
    else:
        _print_all(output, lab, asked)


def _asked(name: str) -> tuple[Question, ...]:
    """The questions that are meant: a lab's, or one."""
    from warpschool.questions import find_question, questions

    if "/" in name:
        return (find_question(name, course()),)
    lab = course().lab(name)
    found = questions(lab, course())
    if not found:
        raise CourseError(f"{lab.name} has no questions", next_step="Another lab has: warpschool quiz lab00")
    return found


def _given(pairs: list[str], asked: tuple[Question, ...]) -> list[tuple[Question, str]]:
    """The answers of the command line with their questions. Raises ArgumentError for what names none."""
    from warpschool.suggest import did_you_mean

    by_name = {name: q for place, q in enumerate(asked, start=1) for name in (q.id, str(place))}
    found = []
    for pair in pairs:
        name, sign, said = pair.partition("=")
        if not sign and len(asked) == 1:
            name, said = asked[0].id, pair
        if name not in by_name:
            meant = did_you_mean(name, [q.id for q in asked])
            raise ArgumentError(f"--answer {pair} names no question", next_step=f"Give ID=ANSWER. {meant}")
        found.append((by_name[name], said))
    return found


def _is_done(question: Question) -> bool:
    from warpschool.questions import progress

    return progress(question).right


def _judge_all(output: Output, given: list[tuple[Question, str]]) -> int:
    """Judge answers of the command line; the exit code says whether all are right."""
    from warpschool.questions import answer

    for question, said in given:
        question.judge(said)  # nothing is kept where one of them is no answer
    judged = [(question, said, answer(question, said)) for question, said in given]
    output.data({
        "answers": [
            {"question": q.name, "answer": said, "right": found.right, "explanation": found.told}
            for q, said, found in judged
        ]
    })  # fmt: skip
    for question, _, found in judged:
        _tell(output, question, found)
    return OK if all(found.right for _, _, found in judged) else FAILED


def _tell(output: Output, question: Question, found: Judged) -> None:
    from warpschool.show.questions import plain

    sign = ("right", "bold green") if found.right else ("not yet", "bold red")
    output.show(f"{question.id}: ", sign, f". {plain(found.told)}")
    if found.right and question.mended:
        output.show(f"mended:\n{question.mended}")


def _ask_all(output: Output, asked: tuple[Question, ...], open_ones: list[Question]) -> None:
    from warpschool.questions import answer
    from warpschool.show.questions import question_text

    for question in open_ones:
        output.show()
        output.show(question_text(question, asked.index(question) + 1))
        while True:
            said = typer.prompt(f"{question.how}; empty for the next question", default="", show_default=False)
            if not said.strip():
                break
            try:
                found = answer(question, said)
            except ArgumentError as error:
                output.show((f"{error.message}. {error.next_step}", "yellow"))
                continue
            _tell(output, question, found)
            if found.right:
                break
    done = sum(map(_is_done, asked))
    output.show(f"{done} of {len(asked)} answered right.", style="dim")


def _print_all(output: Output, lab: str, asked: tuple[Question, ...]) -> None:
    """All questions with what was answered so far, for who is not there to type."""
    from warpschool.show.questions import question_text

    output.data({"lab": asked[0].lab, "questions": [_document(question) for question in asked]})
    for place, question in enumerate(asked, start=1):
        output.show(question_text(question, place))
        output.show("   answered right" if _is_done(question) else f"   answer with {question.how}", style="dim")
        output.show()
    done = sum(map(_is_done, asked))
    output.show(f"{done} of {len(asked)} answered right. Answer: warpschool quiz {lab} --answer {asked[0].id}=…")


def _document(question: Question) -> dict[str, Any]:
    from warpschool.questions import progress
    from warpschool.show.questions import LETTERS

    kept = progress(question)
    return {
        "id": question.id, "kind": question.kind, "ask": question.ask, "code": question.code,
        "options": dict(zip(LETTERS, question.options, strict=False)), "how": question.how,
        "answers": list(kept.answers), "right": kept.right,
    }  # fmt: skip
