"""Python modules of a course's own labs: found where they should be, and nowhere else."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import warpschool as ws
from warpschool.course import Course
from warpschool.grading.runner import content_hash, modules_hash
from warpschool.grading.sandbox import bubblewrap_problem

ROOT = Path(__file__).resolve().parents[3]
STEP = "lab20_mine/01_scale"
KERNEL = """\
// 01_scale.cu: y = 2 * x.
// Entry:  scale(const float x[n] in, float y[n] out, int n)
// Launch: scale block=(64) grid=(cdiv(n, 64))
extern "C" __global__ void scale(const float* x, float* y, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""
GRADER = """\
from warpcourse.lab20_mine.cases import check_scale
from warpschool.grading import criterion

@criterion("Right answers", weight=2, hint=["nudge", "where", "code"])
def test_right(kernel, rng):
    check_scale(kernel, rng, 100)
"""
CASES = """\
import numpy as np
from warpcourse.cases import Given

FACTOR = 2

def check_scale(kernel, rng, n) -> Given:
    arrays = kernel.inputs({"n": n}, rng)
    kernel.check_against(kernel.run({"n": n}, arrays), {"y": FACTOR * arrays["x"].astype(np.float64)})
    return {"n": n}, arrays
"""


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def write_course(root: Path) -> Course:
    texts = {
        "kernels/lab20_mine/01_scale.cu": KERNEL, "solutions/lab20_mine/01_scale.cu": KERNEL,
        "grader/lab20_mine/test_01_scale.py": GRADER,
    }  # fmt: skip
    write(root, texts)
    return Course(root)


def write_module(root: Path, text: str = CASES) -> None:
    write(root, {"warpcourse/lab20_mine/cases.py": text})


def check(course: Course, source: str = KERNEL):
    return ws.check(STEP, source, device="sim", course=course)


@pytest.fixture(autouse=True)
def nothing_is_imported_yet():
    """Each test's course brings its own module of one name."""
    yield
    for name in [name for name in sys.modules if name.startswith("warpcourse.lab20")]:
        del sys.modules[name]
    importlib.invalidate_caches()


def test_graders_find_the_modules_of_their_course_and_no_others(tmp_path, monkeypatch):
    course = write_course(tmp_path / "course")
    student = tmp_path / "student"
    write_module(student)
    monkeypatch.chdir(student)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
    with pytest.raises(ModuleNotFoundError, match=r"warpcourse\.lab20_mine"):
        check(course)
    write_module(course.root)
    assert check(course).verdict.value == "AC"
    broken = check(course, KERNEL.replace("x[i]", "z[i]"))  # now this process lists the criteria
    assert (broken.verdict.value, [one.title for one in broken.criteria]) == ("CE", ["Right answers"])


def test_no_module_takes_the_place_of_the_packages(tmp_path):
    course = write_course(tmp_path)
    write_module(course.root)
    write(course.root, {"warpcourse/cases.py": "raise RuntimeError('not this one')"})
    assert check(course).verdict.value == "AC"


def test_a_changed_module_is_another_version_of_what_judges(tmp_path):
    course = write_course(tmp_path)
    assert modules_hash(course) == ""
    seen = [content_hash(course.step(STEP))]
    for factor in (2, 3):
        write_module(course.root, CASES.replace("FACTOR = 2", f"FACTOR = {factor}"))
        seen.append(content_hash(course.step(STEP)))
    write(course.root, {"warpcourse/lab20_mine/__pycache__/cases.pyc": "x"})
    assert len(set(seen)) == 3 and content_hash(course.step(STEP)) == seen[-1]
    assert check(course).verdict.value == "WA"


def test_the_wheel_carries_them(tmp_path):
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    course = write_course(tmp_path)
    write_module(course.root)
    inside = build.content_files(course.root)
    assert "warpschool/_content/warpcourse/lab20_mine/cases.py" in inside.values()


# ---------------------------------------------------------------- a checkout with a lab of its own


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A checkout of the course that somebody has added a lab to."""
    root = tmp_path_factory.mktemp("checkout")
    for package in ("ptxsim", "warpschool", "warpcourse"):
        shutil.copytree(ROOT / "src" / package, root / "src" / package, ignore=shutil.ignore_patterns("__pycache__"))
    write_course(root)
    write_module(root)
    return root


def run_in(checkout: Path, folder: Path, program: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


IMPORT = "from warpcourse.lab20_mine import cases; print(cases.FACTOR, cases.__file__)"


def test_a_personal_copys_notebook_finds_them_in_the_course(checkout, tmp_path):
    copy = tmp_path / "copy"
    program = "from pathlib import Path; from warpschool.notebook.personal import update_copy as make\n"
    run_in(checkout, tmp_path, program + f"make(Path({str(copy)!r}))")
    assert (copy / "kernels" / "lab20_mine" / "01_scale.cu").is_file()
    write_module(copy, "FACTOR = 5")
    said = run_in(checkout, copy, IMPORT)
    assert said.split() == ["2", str(checkout / "warpcourse" / "lab20_mine" / "cases.py")]


CELLS = """
from warpschool.grading import python_cells
def cell(source, **marks):
    return {"cell_type": "code", "source": source, "metadata": {"nbgrader": marks}}
found = python_cells.check({"cells": [
    cell("from warpcourse.lab20_mine import cases\\nanswer = 21 * cases.FACTOR", grade_id="own", locked=False,
         grade=False, solution=True),
    cell("from warpcourse.lab20_mine.cases import FACTOR\\nfloat(answer == 21 * FACTOR) * 2", grade_id="check",
         locked=True, grade=True, solution=False, points=2),
]}, "check", points=2.0, policy="sandbox")
print(found.verdict, found.fraction, found.isolation, found.text)
"""


@pytest.mark.slow
@pytest.mark.skipif(bool(bubblewrap_problem()), reason=bubblewrap_problem() or "bubblewrap is here")
def test_python_cells_find_them_in_the_sandbox_and_outside(checkout):
    said = run_in(checkout, checkout, CELLS)
    assert said.startswith("AC 1.0 bubblewrap"), said


def test_what_graders_share_loads_no_matplotlib():
    """Each check is a process of its own, which would wait for it."""
    cases = sorted((ROOT / "src" / "warpcourse").rglob("cases.py"))
    names = [".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in cases]
    program = f"import sys, {', '.join(names)}; print('matplotlib' in sys.modules)"
    assert len(names) >= 6 and run_in(ROOT, ROOT, program).strip() == "False"
