"""`warpschool new-lab`: the skeleton is a lab that passes every content test at once."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from warpschool.authoring.lab_text import stale_notebooks, stale_texts
from warpschool.authoring.new_lab import new_lab
from warpschool.authoring.notebooks import problems
from warpschool.authoring.starters import stale_starters
from warpschool.cli.app import app
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.errors import ArgumentError, CourseError

ROOT = Path(__file__).parents[2]
PARTS = (
    "src", "benchmarks", "docs", "labs", "kernels", "solutions", "grader", "scripts", "tests/content",
    "tests/specimens",
)  # fmt: skip


@pytest.fixture
def root(tmp_path):
    for folder in ("labs", "kernels", "solutions", "grader", "tests/specimens"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "kernels/lab03_old").mkdir()
    return tmp_path


def test_a_new_lab_keeps_the_rules(root):
    made = new_lab("my_reduction", title="Lab 04: sums", root=root)
    assert made.name == "lab04_my_reduction"
    assert all((root / file).is_file() for file in made.files)
    assert stale_notebooks(root / "labs", root / "solutions") == {}
    assert stale_texts(root / "labs", root / "solutions") == {}
    assert stale_starters(root / "solutions", root / "kernels") == {}
    lab = Course(root).lab("lab04")
    notebook = nbformat.read(lab.notebook, as_version=4)
    assert problems(notebook) == []
    assert notebook.cells[0].source.startswith("# Lab 04: sums")
    assert [step.name for step in lab.steps] == [made.step]
    parse_contract(lab.steps[0].solution.read_text(), name="01_first.cu")
    assert not [file for file in made.files if re.search("@[A-Z]+@", (root / file).read_text())]


@pytest.mark.parametrize(("name", "said"), [
    ("lab03_again", "lab03_old already"), ("Big", "no name"), ("../x", "no name"), ("lab7_x", "no name"),
    ("x_", "no name"),
])  # fmt: skip
def test_bad_names_are_refused(root, name, said):
    with pytest.raises(ArgumentError, match=said):
        new_lab(name, root=root)


def test_only_a_checkout_gets_a_lab(tmp_path):
    with pytest.raises(CourseError, match="not a checkout"):
        new_lab("reduction", root=tmp_path)


def test_the_command_tells_what_it_made(root):
    result = CliRunner().invoke(app, ["new-lab", "lab12_scan", "--root", str(root), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["step"] == "lab12_scan/01_first"
    assert "tests/specimens/lab12_scan/01_first/no_guard.toml" in found["files"]


@pytest.mark.slow
def test_a_new_lab_passes_the_content_tests_at_once(tmp_path):
    """In a copy of the checkout, with the copy's own package, as its author would run them."""
    for part in PARTS:
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, tmp_path / file)
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src")}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        command = (sys.executable, "-m", *command)
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    made = run("warpschool", "new-lab", "brand_new", "--json")
    assert made.returncode == 0, made.stderr
    lab = json.loads(made.stdout)["lab"]
    assert f"`{lab}`" in (tmp_path / "README.md").read_text()
    tests = run("pytest", "-q", "-p", "no:cacheprovider", "tests/content", "tests/specimens", "-k", lab)
    assert tests.returncode == 0, tests.stdout[-4000:]
    assert int(tests.stdout.rsplit(" passed", 1)[0].split()[-1]) >= 15, tests.stdout[-1000:]
