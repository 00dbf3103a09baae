"""Visual Studio Code in a personal copy: its problem matcher reads what `check --watch` prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import pytest

import warpschool as ws
from warpschool.course import Course
from warpschool.notebook.personal import course_files
from warpschool.show.problems import problem_lines

FILES = {name: json.loads(text) for name, text in course_files(Course.find()).items() if name.startswith(".vscode/")}
WATCH = FILES[".vscode/tasks.json"]["tasks"][0]
MATCHER = WATCH["problemMatcher"]
STEP = Course.find().step("lab00/03")
PATH = f"kernels/{STEP.name}.cu"
REFERENCE = STEP.solution.read_text("utf-8")


def matched(printed: str) -> list[tuple[str, int, str, str]]:
    pattern = MATCHER["pattern"]
    found = [re.match(pattern["regexp"], line) for line in printed.splitlines()]
    parts = ("file", "line", "severity", "message")
    places = [[match[pattern[part]] for part in parts] for match in found if match]
    return [(file, int(line), severity, message) for file, line, severity, message in places]


@pytest.mark.parametrize(
    ("source", "line", "word"),
    [
        (REFERENCE.replace("__syncthreads();", "foo(3);", 1), "foo(3);", 'identifier "foo" is undefined'),
        (REFERENCE.replace("__syncthreads();", "", 1), "partial[t] = ", "shared partial"),
    ],
    ids=["an error of the compiler", "a race"],
)
def test_the_matcher_finds_the_line(source, line, word):
    result = ws.check(STEP.name, source, device="sim")
    (first, *_) = matched("\n".join(problem_lines(result, PATH)))
    number = next(k for k, text in enumerate(source.splitlines(), 1) if line in text)
    assert first[:3] == (PATH, number, "error") and word in first[3]


def test_wrong_numbers_stand_in_the_first_line_and_right_ones_nowhere():
    starter = ws.check(STEP.name, STEP.starter.read_text("utf-8"), device="sim")
    ((file, line, _, message),) = matched("\n".join(problem_lines(starter, PATH)))
    assert (file, line) == (PATH, 1) and message.startswith("WA: Right answers")
    assert problem_lines(ws.check(STEP.name, REFERENCE, device="sim"), PATH) == []


@pytest.mark.slow
def test_what_check_watch_prints_in_a_copy(tmp_path):
    subprocess.run([sys.executable, "-m", "warpschool", "start", str(tmp_path)], check=True, capture_output=True)
    own = tmp_path / PATH
    own.write_text(REFERENCE.replace("__syncthreads();", "foo(3);", 1))
    words = [word.replace("${fileDirnameBasename}/${fileBasenameNoExtension}", STEP.name) for word in WATCH["args"]]
    with subprocess.Popen([sys.executable, *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        said, deadline = [], time.monotonic() + 600
        ends = re.compile(MATCHER["background"]["endsPattern"])
        while not (said and ends.match(said[-1])) and time.monotonic() < deadline:
            said.append(process.stdout.readline().rstrip("\n"))
        process.send_signal(2)
        process.communicate(timeout=600)
    assert any(re.match(MATCHER["background"]["beginsPattern"], line) for line in said)
    assert matched("\n".join(said))[0][0] == PATH
    assert (tmp_path / ".vscode" / "tasks.json").is_file()
