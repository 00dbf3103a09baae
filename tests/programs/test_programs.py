"""Whole programs: `right/` prints what its last comment says, `wrong/` gets the finding that its first comments name.

    // options: -O2          of the compiler
    // arguments: 10 20      of the program
    // with: other.cu        another file of it
    // gpu: h200             the GPU, where that is not an A100
    // arch: compute_90a     the architecture, where that is not 8.0
    // exit: 3               its exit status, where that is not 0
    // finds: kind N file.h  the only findings, with the line that each is shown at where one is given, and its file
                             where that is not the program's; none otherwise
    // Quick.                in the first line: runs with every test, the others are slow

Programs are built two at a time before the first of them runs; workers of pytest-xdist build one after the other.
"""

from __future__ import annotations

import os
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from scripts.program_picture import printed_program

from warpschool.errors import WarpschoolError
from warpschool.model import DEFAULT_GPU
from warpschool.programs import build, find_tools, run_program
from warpschool.programs.build import DEFAULT_ARCH
from warpschool.show.programs import sentence, source_place

FOLDER = Path(__file__).parent
_TIMEOUT_S = 300


def missing() -> str:
    try:
        find_tools()
    except WarpschoolError as problem:
        return problem.message
    return ""


pytestmark = pytest.mark.skipif(bool(missing()), reason=f"whole programs cannot be built here: {missing()}")


@dataclass(frozen=True)
class Program:
    path: Path
    text: str

    def said(self, key: str) -> list[str]:
        return re.findall(rf"^// {key}: (.*)$", self.text, re.MULTILINE)

    @property
    def words(self) -> str | None:
        found = re.search(r"^/\* prints\n(.*?)\*/", self.text, re.MULTILINE | re.DOTALL)
        return found[1] if found else None

    @property
    def is_quick(self) -> bool:
        return " Quick." in self.text.partition("\n")[0]

    @property
    def sources(self) -> list[Path]:
        return [self.path, *(self.path.with_name(name) for name in self.said("with"))]

    @property
    def gpu(self) -> str:
        return next(iter(self.said("gpu")), DEFAULT_GPU)

    @property
    def arch(self) -> str:
        return next(iter(self.said("arch")), DEFAULT_ARCH)

    @property
    def options(self) -> list[str]:
        return [word for line in self.said("options") for word in shlex.split(line)]


def programs() -> list[Program]:
    found = [Program(path, path.read_text("utf-8")) for path in sorted(FOLDER.glob("*/*.cu"))]
    return [program for program in found if not program.text.startswith("// part of")]


PROGRAMS = {f"{program.path.parent.name}/{program.path.stem}": program for program in programs()}


@cache
def built(names: tuple[str, ...]):
    """All of them, side by side."""
    asked = {name: PROGRAMS[name] for name in names}
    with ThreadPoolExecutor(max_workers=2) as pool:
        done = {name: pool.submit(build, one.sources, one.options, arch=one.arch) for name, one in asked.items()}
    return {name: future.result().path for name, future in done.items()}


def pytest_cases():
    return [
        pytest.param(name, marks=() if program.is_quick else pytest.mark.slow, id=name)
        for name, program in PROGRAMS.items()
    ]


def _beside(name, request) -> tuple[str, ...]:
    """What is built together: all programs of this run, but where several workers share them each builds its own."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return (name,)
    return tuple(item.callspec.params["name"] for item in request.session.items if item.function is request.function)


@pytest.mark.parametrize("name", pytest_cases())
@pytest.mark.thinned(4)
def test_a_program_prints_and_is_told_what_it_should(name, request):
    program = PROGRAMS[name]
    path = built(_beside(name, request))[name]
    arguments = shlex.split(next(iter(program.said("arguments")), ""))
    report = run_program(path, arguments, gpu=program.gpu, capture=True, timeout_s=_TIMEOUT_S)
    told = [(note.kind, source_place(note), sentence(note)) for note in report.notes]
    if program.words is not None:
        assert report.output == program.words, (told, report.errors)
    finds = [line.split() for line in program.said("finds")]
    assert [kind for kind, *_ in told] == [kind for kind, *_ in finds], told
    for (_, (file, line), said), (_, *place) in zip(told, finds, strict=True):
        expected = [*place, program.path.name][:2] if place else []
        assert not place or [str(line), Path(file).name] == expected, said
    status = int(next(iter(program.said("exit")), 0)) or (1 if finds else 0)
    assert report.exit_code == status


def test_the_page_prints_the_example_as_it_is_run():
    page = (FOLDER.parents[1] / "docs" / "learn" / "programs.md").read_text("utf-8")
    assert re.findall(r"^```cuda\n(.*?)^```", page, re.MULTILINE | re.DOTALL) == [printed_program()]


def test_there_are_as_many_as_promised():
    assert sum(name.startswith("right/") for name in PROGRAMS) >= 40
    assert sum(name.startswith("wrong/") for name in PROGRAMS) >= 15
