"""What is made of results: the published schema, points in pytest, folders of notebooks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from warpschool.course import Course
from warpschool.errors import ArgumentError
from warpschool.grading.folders import find_submissions, offers
from warpschool.grading.jobs import KernelJob
from warpschool.grading.plugin import gradescope_results
from warpschool.grading.records import result_schema
from warpschool.grading.result import Criterion
from warpschool.grading.verdicts import Verdict

ROOT = Path(__file__).parents[3]
STEP = "lab05_work_per_thread/01_coarsened"


def solution(step: str) -> str:
    return Course.find().step(step).solution.read_text()


def disguised(source: str) -> str:
    """The same kernel with other names, other layout, other comments and another tile size."""
    own = ("row", "col", "k0", "sum", "tileA", "tileB", "TILE", "WPT")
    names = {name: f"my_{place}" for place, name in enumerate(own)}
    text = re.sub("|".join(rf"\b{name}\b" for name in names), lambda match: names[match[0]], source)
    text = re.sub(r"//.*", "", text).replace("    ", "\t").replace("{\n", "\n{\n")
    return "// my own work\n" + re.sub(r"\b32\b", "16", text)


def test_results_follow_the_published_schema():
    published = json.loads((ROOT / "docs" / "reference" / "result.schema.json").read_text())
    assert published == result_schema()
    job = KernelJob("lab00_first_kernels/01_saxpy", b"")
    for result in (job.run(), job.failed("x", Verdict.BAD), job.failed("y"), job.failed("z", Verdict.WA)):
        jsonschema.validate(json.loads(result.to_json()), published)
    assert json.loads(job.failed("y").to_json())["score"] is None
    broken = json.loads(job.failed("y").to_json()) | {"verdict": "NICE"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, published)


def make_class(folder: Path) -> Path:
    """A class of three: one hands in a file, one the same kernel disguised, one a notebook."""
    for student, source in {"ada": solution(STEP), "bob": disguised(solution(STEP))}.items():
        (folder / student / "lab05_work_per_thread").mkdir(parents=True)
        (folder / student / f"{STEP}.cu").write_text(source)
    notebook = json.loads(Course.find().lab("lab00").notebook.read_text())
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if text.startswith("%%kernel lab00_first_kernels/01_saxpy"):
            cell["source"] = text.split("\n")[0] + "\n" + solution("lab00_first_kernels/01_saxpy")
    (folder / "eve").mkdir()
    (folder / "eve" / "lab00_first_kernels.ipynb").write_text(json.dumps(notebook))
    (folder / "eve" / "other.ipynb").write_text("{}")
    return folder


def test_a_folder_may_hold_kernels_and_notebooks(tmp_path):
    found, foreign = find_submissions(make_class(tmp_path / "class"), Course.find())
    assert [(item.student, item.step.name) for item in found][:3] == [
        ("ada", STEP), ("bob", STEP), ("eve", "lab00_first_kernels/01_saxpy"),
    ]  # fmt: skip
    assert {item.student for item in found} == {"ada", "bob", "eve"} and foreign == ["eve/other.ipynb"]
    assert b"z[i] = a * x[i] + y[i]" in found[2].data
    (tmp_path / "class" / "eve" / "lab00_first_kernels.ipynb").write_text("{broken")
    broken = [item for item in find_submissions(tmp_path / "class", Course.find())[0] if item.student == "eve"]
    assert broken and all(item.problem for item in broken)
    with pytest.raises(ArgumentError, match="holds no submission"):
        (tmp_path / "empty").mkdir()
        find_submissions(tmp_path / "empty", Course.find())


def test_a_renamed_file_is_offered_by_its_header(tmp_path):
    folder = make_class(tmp_path / "class")
    (folder / "gus").mkdir()
    (folder / "gus" / "final version.cu").write_text(solution("lab02/01"))
    (folder / "gus" / "sum.cu").write_text("\n".join(solution("lab00/03").split("\n")[1:]))  # without its first line
    (folder / "gus" / "notes.cu").write_text("// nothing\n")
    (folder / "7").mkdir()
    (folder / "7" / "01.cu").write_text(solution("lab00/01"))  # a student's number is no lab's
    program = Course.find().step("lab14/04").starter.read_text()
    (folder / "gus" / "mine.cu").write_text("\n".join(program.split("\n")[1:]) + "// finished\n")
    (folder / "gus" / "hello.cu").write_text("#include <cstdio>\nint main()\n{\n    return 0;\n}\n")
    foreign = find_submissions(folder, Course.find())[1]
    assert offers(folder, foreign, Course.find()) == {
        "gus/mine.cu": ("lab14_programs/04_solver",),
        "gus/final version.cu": ("lab02_tiling/01_tiled",), "gus/sum.cu": ("lab00_first_kernels/03_block_sum",),
        "7/01.cu": ("lab00_first_kernels/01_saxpy",),
    }  # fmt: skip
    with pytest.raises(ArgumentError, match=r"01\.cu looks like lab00_first_kernels/01_saxpy"):
        find_submissions(folder / "7", Course.find())


@pytest.mark.slow
def test_pytest_ends_with_points_and_writes_gradescopes_file(tmp_path):
    folder, target = make_class(tmp_path / "class") / "eve", tmp_path / "results.json"
    files = [f"grader/lab00_first_kernels/test_{idea}.py" for idea in ("01_saxpy", "03_block_sum")]
    options = ["-q", "-p", "no:cacheprovider", f"--submission={folder}", f"--gradescope={target}"]
    command = [sys.executable, "-m", "pytest", *files, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "lab00_first_kernels/01_saxpy: 6 of 6" in done.stdout, done.stdout
    assert "lab00_first_kernels/03_block_sum: 0 of 10" in done.stdout and "all: 6 of 16" in done.stdout
    found = json.loads(target.read_text())
    assert found["score"] == 6 and sum(test["max_score"] for test in found["tests"]) == 16
    assert {test["status"] for test in found["tests"]} == {"passed", "failed"}


def test_gradescope_gets_no_score_from_a_failed_grader_and_nothing_of_secret_cases():
    good = Criterion("a", "A", 2, 1.0, Verdict.AC)
    hidden = Criterion("b", "B", 1, 0.0, Verdict.WA, said="at n = 57: wrong", secret=True)
    skipped = Criterion("c", "C", 5, 0.0, Verdict.SKIP)
    found = gradescope_results([("s", good), ("s", hidden), ("s", skipped)])
    assert found["score"] == 2 and len(found["tests"]) == 2 and "57" not in json.dumps(found)
    failed = gradescope_results([("s", good), ("s", Criterion("d", "D", 1, 0.0, Verdict.SE, said="boom"))])
    assert "score" not in failed and failed["tests"] == [] and "no grade" in failed["output"]
