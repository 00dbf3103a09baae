"""What graders allow for rounding: a share of what was added up, not of what the terms have left of each other."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from warpcourse.cases import product_of, scale_of
from warpschool.course import Course
from warpschool.harness.compare import compare, tolerance_for
from warpschool.nn import convolve

ROOT = Course.find().root
FILES = sorted([*ROOT.glob("grader/lab*/test_*.py"), *(ROOT / "src" / "warpcourse").glob("**/cases.py")])


def test_every_sum_says_what_its_terms_come_to():
    """With k terms and no `scale` the largest result stands for them: nothing, where the only result is near zero."""
    without = [
        f"{path.name}:{call.lineno}"
        for path in FILES
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("check", "check_against")
        if (named := {word.arg: word.value for word in call.keywords}).keys() & {"k"}
        if "scale" not in named and not (isinstance(named["k"], ast.Constant) and named["k"].value == 1)
    ]  # fmt: skip
    assert not without


@pytest.mark.parametrize("seed", range(20))
def test_right_sums_that_cancel_are_right(seed):
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((1, 25), (25, 1)))
    a[0, -1] = -(a[0, :-1].astype(np.float64) @ b[:-1, 0]) / b[-1, 0]  # what is left is about one rounding
    got = np.zeros((1, 1), np.float32)
    for k in range(25):
        got += a[:, k : k + 1] * b[k]
    expected, scale = product_of(a, b)
    assert compare(got, expected, tolerance=tolerance_for(np.float32, 25, scale=scale), name="C").ok
    wrong = expected + 1e-4 * scale
    assert not compare(
        wrong.astype(np.float32), expected, tolerance=tolerance_for(np.float32, 25, scale=scale), name="C"
    ).ok


def test_the_scale_of_a_convolution_is_no_less_than_what_it_adds_up():
    rng = np.random.default_rng(0)
    x, w = rng.uniform(-1, 1, (2, 3, 9, 8)), rng.uniform(-1, 1, (4, 3, 5, 5))
    added = convolve(np.abs(x), np.abs(w), pad=2)
    assert (added <= scale_of(x, w)).all() and scale_of(x, w).max() < 4 * added.max()
