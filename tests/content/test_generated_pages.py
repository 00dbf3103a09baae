"""Pages of the documentation that scripts write are up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "script",
    ["fidelity_page.py", "supported_ptx.py", "result_schema.py", "cost_page.py", "estimate_page.py", "stopwatch.py"],
)
def test_page_is_what_its_script_writes(script):
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
