"""Pages of the documentation that scripts write are up to date."""

from __future__ import annotations

import json

import pytest
from scripts import cost_page, pages
from scripts.site import changes


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow if page == "ladder_page" else ()) for page in pages.PAGES]
)
def test_page_is_what_its_script_writes(page):
    """Misconceptions reads each specimen, criterion and question, and ends where one is not there."""
    old = pages.stale(pages.files(page))
    assert not old, f"run make pages: {[*map(str, old)]}"


def test_a_page_that_is_out_of_date_is_named(monkeypatch, tmp_path, capsys):
    path = tmp_path / "page.md"
    path.write_text("old")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "files", lambda page: {path: "new"})
    monkeypatch.setattr("sys.argv", ["pages", "syllabus", "--check"])
    assert pages.main() == 1 and path.read_text() == "old"
    assert "page.md is out of date: run make pages" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["pages", "syllabus"])
    assert pages.main() == 0 and path.read_text() == "new"
    monkeypatch.setattr("sys.argv", ["pages", "sylabus"])
    with pytest.raises(SystemExit):
        pages.main()
    assert "no page is called sylabus" in capsys.readouterr().err


def test_the_page_of_costs_tells_of_networks_where_they_were_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(cost_page, "ROOT", tmp_path)
    assert cost_page._networks() == []
    row = {"first_s": 7.26, "first_processor_s": 12.5, "later_s": 3.0, "later_processor_s": 4.25}
    found = {"cpu": "this one", "cores": 2, "images": 1000, "load_before": 0.1, "networks": {"LeNet-5": row}}
    path = tmp_path / "benchmarks" / "results" / "simulator_networks.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(found))
    said = "\n".join(cost_page._networks())
    assert "2 cores (this one)" in said and "| LeNet-5 | 7.3 s | 12.5 s | 3.0 s | 4.2 s |" in said


LOG = """# Changelog

## Unreleased

### Added
- Lab 05 has a picture, see
  [platforms](docs/reference/platforms.md).
- **grades**: sizes of labs 00 to 05 reach further.
### Changed
- A faster start.

## 0.1

- **grades**: old.
"""


def test_what_changed_tells_first_what_can_change_a_grade_and_only_of_the_newest_version():
    told = changes(LOG)
    graded, labs, others = (
        told.split(f"## {title}")[1] for title in ("Can change a grade", "In the labs", "Everything else")
    )
    assert (
        graded.index("sizes of labs") < graded.index("Lab 05 has") and "a faster" not in graded.split("## ")[0].lower()
    )
    assert "[platforms](../reference/platforms.md)." in labs.split("## ")[0] and "A faster start." in others
    assert "Unreleased" in told and "old" not in told
    with pytest.raises(SystemExit, match="no version"):
        changes("# Changelog\n")
