"""Starters: generated from the solutions, one gap away from them, and wrong in a clear way."""

from __future__ import annotations

import pytest

import warpschool as ws
from warpschool.authoring.__main__ import main
from warpschool.authoring.starters import find_holes, make_starter, stale_starters, write_starters
from warpschool.compile import compile_cuda
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.errors import CourseError
from warpschool.grading import Verdict
from warpschool.programs import tools_report

pytestmark = pytest.mark.usefixtures("forked_checks")

COURSE = Course.find()
STEPS = [step for step in COURSE.steps() if step.solution is not None]
each_step = pytest.mark.parametrize("step", STEPS, ids=str)


def is_slow(step) -> bool:
    """Unrolled kernels take seconds to translate: of labs 05 and up one starter is checked always, the shortest."""
    lab = step.name.split("/")[0]
    shortest = min((s for s in STEPS if s.name.startswith(lab)), key=lambda s: s.solution.stat().st_size)
    return lab >= "lab05" and step != shortest


def solution_text(step) -> str:
    return step.solution.read_text("utf-8")


def is_subsequence(short: list[str], long: list[str]) -> bool:
    rest = iter(long)
    return all(line in rest for line in short)


def test_kernels_folder_is_what_the_solutions_give():
    stale = stale_starters(COURSE.root / "solutions", COURSE.root / "kernels")
    assert not stale, f"run: python -m warpschool.authoring; out of date: {sorted(map(str, stale))}"


@each_step
def test_solving_only_adds_lines(step):
    holes = find_holes(solution_text(step))
    if any(hole.given for hole in holes):
        pytest.skip("this step starts from a given kernel, which the solution replaces")
    starter, solution = make_starter(solution_text(step)).splitlines(), solution_text(step).splitlines()
    assert is_subsequence(starter, solution)
    assert len(solution) - len(starter) == sum(len(hole.solution) for hole in holes)


@each_step
def test_hole_tells_its_size(step):
    for hole in find_holes(solution_text(step)):
        assert abs(hole.announced_lines - hole.solution_lines) <= max(1, hole.solution_lines // 5), hole.task


@pytest.mark.parametrize(
    "step", [pytest.param(s, marks=pytest.mark.slow if is_slow(s) else ()) for s in STEPS], ids=str
)
@pytest.mark.thinned(3)
def test_starter_compiles_runs_and_fails_clearly(step):
    source = make_starter(solution_text(step))
    if step.is_program:
        report = tools_report()
        if not report["available"]:
            pytest.skip(f"whole programs cannot be built here: {report['problem']}")
    else:
        contract = parse_contract(source, name=step.file_name)
        compile_cuda(source, name=step.file_name, arch=contract.arch)
    if step.grader is None:
        pytest.skip("no grader yet")
    result = ws.check(step.name, source, device="sim")
    clear = (Verdict.WA, Verdict.PERF, Verdict.OOB, Verdict.RACE, Verdict.UNINIT)
    assert result.verdict in clear, result.to_json()
    failed = [criterion for criterion in result.criteria if not criterion.ok]
    assert all(criterion.seen for criterion in failed)
    assert all(criterion.hint or criterion.said.startswith("not judged until") for criterion in failed)
    assert any(criterion.hint for criterion in failed)
    if not any(hole.given for hole in find_holes(solution_text(step))):
        assert result.score == 0, "an empty starter earned points"


def test_given_code_stands_in_the_hole():
    begin, end = "  // BEGIN SOLUTION: fix it (about 1 line)", "  // END SOLUTION"
    given = ["  // BEGIN STARTER", "  //| wrong", "  //|", "  // END STARTER"]
    starter = make_starter("\n".join(["a", begin, "  right", end, *given, "b"]))
    assert starter.splitlines() == ["a", begin, "  wrong", "", end, "b"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("int a;\n", "no '// BEGIN SOLUTION"),
        ("// BEGIN SOLUTION\n// END SOLUTION\n", "k.cu:1: write '// BEGIN SOLUTION: what to do"),
        ("// BEGIN SOLUTION: x (about 1 line)\nint a;\n", "k.cu:1: .* has no '// END SOLUTION'"),
        ("// END SOLUTION\n", "k.cu:1: .* has no BEGIN SOLUTION before it"),
        ("// BEGIN STARTER\n", "k.cu:1: .* has no BEGIN SOLUTION before it"),
        (
            "// BEGIN SOLUTION: x (about 1 line)\n// BEGIN SOLUTION: y (about 1 line)\n// END SOLUTION\n",
            "k.cu:1: .* has no '// END SOLUTION'",
        ),
        (
            "// BEGIN SOLUTION: x (about 1 line)\n// END SOLUTION\n// BEGIN STARTER\nint a;\n// END STARTER\n",
            "k.cu:4: a line between the STARTER markers starts with",
        ),
    ],
)
def test_malformed_markers_are_refused(source, said):
    with pytest.raises(CourseError, match=said):
        make_starter(source, name="k.cu")


def test_write_brings_a_folder_up_to_date(tmp_path):
    solutions, kernels = tmp_path / "solutions", tmp_path / "kernels"
    (solutions / "lab00_x").mkdir(parents=True)
    (kernels / "lab00_x").mkdir(parents=True)
    (solutions / "lab00_x" / "01_a.cu").write_text("// BEGIN SOLUTION: x (about 1 line)\na;\n// END SOLUTION\n")
    (kernels / "lab00_x" / "02_gone.cu").write_text("left over\n")
    assert len(write_starters(solutions, kernels)) == 2
    assert (kernels / "lab00_x" / "01_a.cu").read_text() == "// BEGIN SOLUTION: x (about 1 line)\n// END SOLUTION\n"
    assert not (kernels / "lab00_x" / "02_gone.cu").exists()
    assert write_starters(solutions, kernels) == []


def test_command_reports_and_repairs(tmp_path, capsys):
    solutions = tmp_path / "solutions" / "lab00_x"
    solutions.mkdir(parents=True)
    (solutions / "01_a.cu").write_text("// BEGIN SOLUTION: x (about 1 line)\na;\n// END SOLUTION\n")
    root = ["--root", str(tmp_path)]
    assert main(["--check", *root]) == 1
    assert "out of date: kernels/lab00_x/01_a.cu" in capsys.readouterr().out
    assert not (tmp_path / "kernels").exists(), "--check changed something"
    assert main(root) == 0
    assert main(["starters", "--check", *root]) == 0
    (solutions / "01_a.cu").write_text("no markers\n")
    assert main(root) == 2
    assert "no '// BEGIN SOLUTION" in capsys.readouterr().err
