"""The documentation builds as a site without a warning: no dead link, no page left out."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from warpschool.course import Course

ROOT = Path(__file__).parents[2]
GENERATORS = ("mkdocs", "material", "mkdocs_jupyter", "mkdocstrings")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(importlib.util.find_spec(name) for name in GENERATORS),
        reason="the docs extra is not installed: make docs installs it",
    ),
]


def test_site_builds_and_has_every_page(tmp_path):
    command = [sys.executable, "scripts/site.py", "--no-run", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("index.html")}
    written = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    labs = {f"learn/labs/{lab.name}" for lab in Course(ROOT).labs() if lab.notebook is not None}
    assert written | labs | {".", "reference/commands", "reference/python", "teach/changes"} <= pages
    for page in (tmp_path / "learn" / "labs").rglob("index.html"):
        for chapter in re.findall(r'href="\.\./\.\./(\w+/)"', page.read_text(encoding="utf-8")):
            assert (tmp_path / "learn" / chapter / "index.html").is_file(), f"{page}: {chapter}"
        assert ".md\"" not in page.read_text(encoding="utf-8"), f"{page} links to a source"
    python = (tmp_path / "reference" / "python" / "index.html").read_text(encoding="utf-8")
    assert "RawModule" in python and "data_reuse" in python
