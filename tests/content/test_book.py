"""The book's chapters: tables and pictures are what records and the simulator say, and what is printed is true."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from warpschool.course import Course
from warpschool.inspect.profile import profile_source

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "learn"
QUICK = ("gpu",)
"""Chapters whose figures take a second; the others run the course's references."""


def blocks(chapter: str, language: str) -> list[str]:
    """The pieces of code that a chapter prints."""
    text = (PAGES / f"{chapter}.md").read_text()
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [code for named, code in found if named == language]


def chapters() -> list[str]:
    return sorted(path.stem for path in PAGES.glob("*.md") if "written by scripts/book.py" in path.read_text())


@pytest.mark.parametrize(
    "chapter", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in chapters()]
)
def test_tables_and_pictures_are_what_the_script_makes(chapter):
    command = [sys.executable, "-m", "scripts.book", chapter, "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_chapter_whose_table_was_changed_by_hand_is_noticed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from scripts import book

    monkeypatch.setattr(book, "PAGES", tmp_path)
    page = (PAGES / "gpu.md").read_text()
    (tmp_path / "gpu.md").write_text(page.replace("| DRAM | 141 GB | 685 |", "| DRAM | 141 GB | 400 |"))
    assert book.updated("gpu") == page
    (tmp_path / "gpu.md").write_text(page.replace("<!-- begin memory:", "<!-- begin memories:"))
    with pytest.raises(SystemExit, match="has the markers"):
        book.updated("gpu")


PARTS = ("The question", "The machine, as far as needed", "The idea, by hand", "What goes wrong", "What is left",
         "Exercises", "Sources")  # fmt: skip
"""What every lab's chapter has, of "How a chapter is built" in docs/STYLE.md."""


@pytest.mark.parametrize("lab", Course(ROOT).labs(), ids=str)
def test_each_lab_has_a_chapter_with_all_parts_and_a_link_to_it(lab):
    name = lab.name[:5]
    text = (PAGES / f"{name}.md").read_text()
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert [part for part in PARTS if part in headings] == list(PARTS), headings
    exercises = text[text.index("\n## Exercises") : text.index("\n## Sources")]
    assert (
        len(re.findall(r"^\*\*\d+\.\*\* ", exercises, re.MULTILINE))
        == exercises.count("<summary>Answer</summary>")
        >= 5
    )
    assert f"](../../labs/{lab.name}/{lab.name}.ipynb)" in text
    assert lab.notebook is not None and f"](../../docs/learn/{name}.md)" in lab.notebook.read_text()
    for picture in re.findall(r"!\[[^\]]{40,}\]\(([^)]+)\)", text):
        assert (PAGES / picture).exists(), picture
    assert "](../images/learn/" in text


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ builds a program's host part")
@pytest.mark.slow
def test_the_program_of_the_first_chapter_prints_what_is_printed(tmp_path):
    pytest.importorskip("nvidia")
    program = next(block for block in blocks("gpu", "cuda") if "int main()" in block)
    (tmp_path / "main.cu").write_text(program)
    command = [sys.executable, "-m", "warpschool", "run", "main.cu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = (PAGES / "gpu.md").read_text()
    assert f"$ warpschool run main.cu\n{done.stdout}{done.stderr.strip()}" in said


def test_the_first_chapters_mistake_is_reported_as_printed():
    kernel = next(block for block in blocks("gpu", "cuda") if block.startswith("// differences"))
    report = profile_source(kernel, {"n": 10})
    assert not report.hazards and kernel.splitlines()[12].strip().startswith("d[i] =")
    report = profile_source(kernel.replace("i < n - 1", "i < n"), {"n": 10})
    told = [f"{found.told.who} {found.told.does}" for found in report.hazards]
    (printed,) = (block for block in blocks("gpu", "") if block.startswith("out-of-bounds"))
    assert len(told) == 2
    for line, found in zip(printed.strip().splitlines(), told, strict=True):
        assert line.removeprefix("out-of-bounds: ") in " ".join(found.split())


@pytest.fixture
def formula():
    pytest.importorskip("latex2mathml")
    spec = importlib.util.spec_from_file_location("mathematics", ROOT / "scripts" / "mathematics.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.on_page_content


def test_formulas_of_the_site_need_no_script(formula):
    page = '<p>A <span class="arithmatex">\\(a &lt; b\\)</span></p><div class="arithmatex">\\[\nF / M\n\\]</div>'
    made = formula(page, page=None, config=None, files=None)
    assert made.count("<math") == 2 and "arithmatex" not in made and "\\(" not in made
    assert 'display="block"' in made and "&#x0003C;" in made and 'aria-label="F / M"' in made


def test_formulas_of_all_chapters_can_be_converted():
    convert = pytest.importorskip("latex2mathml.converter").convert
    found = [formula for path in PAGES.glob("*.md") for formula in _formulas(path.read_text())]
    assert len(found) > 20
    for one in found:
        assert "\\" not in re.sub(r"&[^;]+;", "", convert(one)), one


def _formulas(text: str) -> list[str]:
    text = re.sub(r"^```.*?^```|`[^`]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    return [a or b for a, b in re.findall(r"\$\$(.+?)\$\$|\$(\S[^$\n]*?)\$", text, re.DOTALL)]
