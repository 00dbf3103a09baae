"""Debugging exercises: each symptom is told in its notebook, its own answer exposes it, and lazier tests do not."""

from __future__ import annotations

import pytest

from warpschool.authoring.notebooks import read_answers
from warpschool.course import Course
from warpschool.errors import ArgumentError, CourseError
from warpschool.grading.python_cells import values_of
from warpschool.notebook import cases
from warpschool.notebook.cases import check_case, find_case, names, told, tried, written

COURSE = Course.find()
NAMES = [name for path in cases.case_files(COURSE.root) for name in names(COURSE, path.parent.name)]
QUICK = {"lab10/scores", "lab11/rest"}


def answered(name):
    """The test, and the line, with which the solved notebook answers a case."""
    lab = COURSE.lab(name.split("/")[0]).name
    source = read_answers(COURSE.root / "solutions" / lab)[f"{lab[:5]}-90-predict"]
    values, prefix = values_of([source]), name.split("/")[1]
    assert values is not None, "the grader reads the answer as data"
    found = {key.removeprefix(f"{prefix}_"): value for key, value in values.items() if key.startswith(f"{prefix}_")}
    return found.pop("line"), found


def test_each_lab_from_02_on_has_one_or_two():
    counted = {lab.name: len(names(COURSE, lab.name)) for lab in COURSE.labs()}
    without = {"lab00_first_kernels", "lab01_naive_gemm"}
    assert {name for name, count in counted.items() if not count} == without
    assert max(counted.values()) == 2


@pytest.mark.parametrize("name", NAMES)
def test_the_symptom_stands_in_the_notebook_and_the_specimens_exist(name):
    case = find_case(name)
    lab = COURSE.lab(name.split("/")[0]).name
    text = (COURSE.root / "labs" / lab / f"{lab}.md").read_text("utf-8")
    assert case.symptom in text and f'ws.check_case("{name}"' in text
    assert case.wrong and len({kernel.source for kernel in (*case.wrong, *case.right)}) == len(case.wrong + case.right)


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in NAMES])
def test_the_answer_tells_wrong_from_right_and_names_the_line(name):
    line, test = answered(name)
    case = find_case(name)
    outcome = tried(case, written(case, **test), line)
    assert outcome.exposes and outcome.fraction == 1, (outcome.caught, outcome.accused)


def test_a_test_that_misses_gets_nothing_and_one_without_the_line_two_thirds():
    case = find_case("lab11/rest")
    _, test = answered("lab11/rest")
    lazy = tried(case, written(case, test["sizes"] | {"N": 128}, "answers"))
    assert not lazy.caught and lazy.fraction == 0 and "0 of 1 wrong" in told(lazy)
    accusing = tried(case, written(case, test["sizes"], {"global_load_bytes": 1}))
    assert accusing.accused and accusing.fraction == 0 and "A right kernel fails it" in told(accusing)
    unnamed = tried(case, written(case, **test))
    assert unnamed.exposes and round(unnamed.fraction, 3) == 0.667
    assert "when your own kernel of lab11_training/06_sgd_momentum is accepted" in told(unnamed)
    assert tried(case, written(case, **test), 1).line is False


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sizes": {"N": 10**6}}, "sizes of this case go up to 1000"),
        ({"sizes": {"M": 4}}, "these sizes do not fit the step"),
        ({"watch": "rases"}, "nothing to watch"),
        ({"watch": {"global_lod_bytes": 4}}, "no counter"),
        ({"values": "many"}, "values='many'"),
    ],
)
def test_what_is_no_test_is_told_with_what_next(change, said):
    _, test = answered("lab11/rest")
    with pytest.raises(ArgumentError, match=said) as caught:
        written(find_case("lab11/rest"), **(test | change))
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("sizes", "watch", "said"),
    [
        ({"rows": 8, "cols": 8}, "leak", "the sizes are rows, cols"),
        ({"rows": 8, "cols": 8.5, "sweeps": 1, "every": 1}, "leak", "cols = 8.5"),
        ({"rows": 0, "cols": 8, "sweeps": 1, "every": 1}, "leak", "rows = 0"),
        ({"rows": 900, "cols": 8, "sweeps": 1, "every": 1}, "leak", "up to 200"),
        ({"rows": 8, "cols": 8, "sweeps": 1, "every": 1}, "race-condition", "nothing to watch"),
        ({"rows": 8, "cols": 8, "sweeps": 1, "every": 1}, {"barriers ": 4}, "no counter"),
    ],
)
def test_a_test_of_a_program_takes_its_arguments_and_what_is_known_of_programs(sizes, watch, said):
    with pytest.raises(ArgumentError, match=said) as caught:
        written(find_case("lab14/patience"), sizes, watch)
    assert caught.value.next_step


@pytest.mark.slow
def test_a_program_is_counted_and_compared_as_it_was_asked():
    case = find_case("lab14/patience")
    _, test = answered("lab14/patience")
    same = tried(case, written(case, test["sizes"], "answers"))
    assert not same.caught and not same.accused, "right answers expose no wait"
    counted = tried(case, written(case, test["sizes"], {"launch": 11}))
    assert counted.accused["the reference"] == "launch is 12" and "A right program fails it" in told(counted)
    moved = tried(case, written(case, test["sizes"], {"HtoD_bytes": 20 * 30 * 4 - 1}))
    assert moved.caught == {"waits_each_sweep": "HtoD_bytes is 2,400"}
    tight = tried(case, written(case, test["sizes"], {"synchronize": 0}))
    assert set(tight.accused) == {"right_managed"}, "a right program may wait, too, by another call"
    unnamed = tried(case, written(case, **test))
    assert unnamed.exposes and "when your own program of lab14_programs/04_solver is accepted" in told(unnamed)


def test_an_untouched_cell_earns_nothing_and_says_what_to_do(capsys):
    assert check_case("lab11/rest", sizes=None, watch=None, points=3) == 0.0
    assert "write sizes" in capsys.readouterr().out
    assert check_case("lab11/rest", sizes={"N": 129}, watch="answers", points=3) == 0.0
    assert "do not fit" in capsys.readouterr().out


def test_unknown_cases_are_named():
    with pytest.raises(CourseError, match="no case 'rst'"):
        find_case("lab11/rst")
    with pytest.raises(CourseError, match="has no cases"):
        find_case("lab00/any")


@pytest.mark.parametrize("k", [68, 47, 53])  # sums that cancel: kernels that add up in another order differ there
@pytest.mark.thinned(3)
def test_no_right_kernel_is_accused_where_the_only_result_is_near_zero(k):
    case = find_case("lab02/ragged")
    assert not tried(case, written(case, {"M": 1, "N": 1, "K": k}, "answers")).accused
