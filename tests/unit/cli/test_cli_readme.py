"""The README says what is true: its commands exist, its code runs, its tables are current, its picture is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from scripts import readme_tables

from warpschool.cli import app
from warpschool.course import Course, checkout_root

ROOT = checkout_root()
pytestmark = pytest.mark.skipif(ROOT is None, reason="the README belongs to a checkout")


@pytest.fixture(scope="module")
def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_its_commands_exist(readme):
    said = set(re.findall(r"warpschool (\w+)", "".join(re.findall(r"```\n(.*?)```", readme, re.DOTALL))))
    known = set(typer.main.get_command(app).commands)
    assert said
    assert said <= known


def test_its_make_targets_exist(readme):
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^make (\w+)", readme, re.MULTILINE)) <= targets


def test_its_python_runs(readme):
    code = re.search(r"```python\n(.*?)```", readme, re.DOTALL)[1]
    kernel = Course.find().step("lab02/01").solution
    names = {"source": kernel.read_text(encoding="utf-8")}
    exec(code.replace('"auto"', '"sim"').replace('"my_kernel.cu"', repr(str(kernel))), names)
    assert names["launch"].counters.data_reuse == 8.0
    assert "sum +=" in names["source"].splitlines()[29 - 1]
    assert not names["launch"].hazards


def test_a_figure_that_was_not_measured_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr(readme_tables, "ROOT", tmp_path)
    assert "Not measured yet" in readme_tables.simulator_table()


def test_its_picture_is_there_small_and_described(readme):
    for name in re.findall(r'(?:src|srcset)="([^"]+)"', readme):
        assert 10_000 < (ROOT / name).stat().st_size < 300_000
    assert all(len(text) > 40 for text in re.findall(r'alt="([^"]*)"', readme))
    assert Path(ROOT / "docs" / "images" / "tour.png").read_bytes().startswith(b"\x89PNG")
