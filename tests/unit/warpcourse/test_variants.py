"""Variants of a student's kernel: the text that is replaced may be spaced in any way."""

from __future__ import annotations

import pytest

from warpcourse import experiments
from warpcourse.experiments import _replaced
from warpschool.course import Course
from warpschool.grading.runner import StepState
from warpschool.notebook import cells, runs

VECTORIZED = "lab05_work_per_thread/05_vectorized"


def solution() -> str:
    return Course.find().step(VECTORIZED).solution.read_text("utf-8")



@pytest.mark.parametrize(
    ("source", "old", "made"),
    [
        ("for(int k=0;k<TILE;++k)", "for (int k = 0; k < TILE; ++k)", "new"),
        ("#pragma unroll\n\n  for (;;)", "#pragma unroll\n        for", "new (;;)"),
        ("int BLOCKS   =2;", "BLOCKS = 2", "int new;"),
        ("i += THREADS; j+=THREADS", "+= THREADS", "i new; jnew"),
    ],
)
def test_spaces_do_not_matter(source, old, made):
    assert _replaced(source, old, "new") == (made, True)


@pytest.mark.parametrize("source", ["int BLOCKS = 20;", "int MOST_BLOCKS = 2;", "intBLOCKS = 2", ""])
def test_parts_of_words_are_other_words(source):
    assert _replaced(source, "BLOCKS = 2", "new") == (source, False)


def test_a_text_that_is_not_there_costs_nothing_and_says_so(monkeypatch):
    def never(*_):
        raise AssertionError("nothing is counted for it")

    monkeypatch.setattr(experiments, "_stage", never)
    cells.remember(VECTORIZED, solution())
    table = experiments.variants(VECTORIZED, {"odd": {"while (true)": "for (;;)"}})
    assert not table.stages and "no 'while (true)' in your kernel" in table.rows[0][0]
    assert set(table.rows[0][1:]) == {"-"}


@pytest.mark.parametrize("old", ["#pragma unroll\n        for", "+= THREADS"])
def test_what_the_notebook_of_lab_05_varies_stands_in_the_reference_however_it_is_spaced(old):
    assert _replaced(solution(), old, "new")[1]
    respaced = solution().replace("    ", "\t").replace("+=", "  +=\n").replace("#pragma unroll", "#pragma   unroll")
    assert respaced != solution() and _replaced(respaced, old, "new")[1]


def test_a_kernel_that_nobody_has_accepted_is_looked_at_while_it_is_counted(monkeypatch):
    asked = []
    monkeypatch.setattr(experiments, "_counted", lambda *given: asked.append(given[-1]) or (None, 0, None))
    monkeypatch.setattr(experiments, "own_gpu_ms", lambda *_: None)
    monkeypatch.setattr(experiments.Stages, "on", lambda gpu, stages: stages)
    cells.remember(VECTORIZED, solution())
    for state in ("changed, not checked", "accepted"):
        monkeypatch.setattr(runs, "state_of", lambda step, said=state: StepState(step.name, said))
        experiments.compare([VECTORIZED])
    assert asked == [True, False]
