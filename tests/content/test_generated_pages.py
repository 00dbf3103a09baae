"""Pages of the documentation that scripts write are up to date."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "script",
    [
        "fidelity_page.py", "supported_ptx.py", "result_schema.py", "cost_page.py", "estimate_page.py", "stopwatch.py",
        "mutants_page.py", "hostile_table.py", "platforms_page.py", "seeds_page.py",
        pytest.param("ladder_page.py", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_page_is_what_its_script_writes(script):
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_page_of_costs_tells_of_networks_where_they_were_measured(tmp_path):
    script = runpy.run_path(str(ROOT / "scripts" / "cost_page.py"), run_name="page")
    names = script["_networks"].__globals__
    names["ROOT"] = tmp_path
    assert script["_networks"]() == []
    row = {"first_s": 7.26, "first_processor_s": 12.5, "later_s": 3.0, "later_processor_s": 4.25}
    found = {"cpu": "this one", "cores": 2, "images": 1000, "load_before": 0.1, "networks": {"LeNet-5": row}}
    path = tmp_path / "benchmarks" / "results" / "simulator_networks.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(found))
    said = "\n".join(script["_networks"]())
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
    changes = runpy.run_path(str(ROOT / "scripts" / "site.py"), run_name="page")["changes"]
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
