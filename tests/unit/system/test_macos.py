"""The way that code takes on macOS, as far as Linux can play it: see `macos_stub`. Nothing here ran on a Mac."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
needs_clang = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="clang is not installed: pip install 'warpschool[clang]'"
)


def played(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"WARPSCHOOL_COMPILER": "auto", "WARPSCHOOL_THREADS": "2"} | more
    command = [sys.executable, str(HERE / "macos_stub.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)


def test_address_space_children_limits_and_files():
    done = played(str(HERE / "in_macos.py"))
    assert done.stdout.split() == ["memory", "file", "orphans", "limits", "waiting"], done.stderr


@needs_clang
def test_a_check_is_made_with_clang():
    done = played("-m", "warpschool", "check", "lab00/03", "--kernel", "solutions/lab00_first_kernels/03_block_sum.cu")
    assert done.stdout.startswith("lab00_first_kernels/03_block_sum: AC"), done.stdout + done.stderr


@needs_clang
@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check", "lab00/03"], "WA"),
        (["profile", "solutions/lab00_first_kernels/03_block_sum.cu"], "sectors"),
        (["debug", "solutions/lab00_first_kernels/03_block_sum.cu", "--commands", "n; q"], ""),
        (["tour"], "lab00"),
        (["doctor"], "clang"),
        (["grade", "nowhere"], "classes are graded on Linux"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_students_type(words, said, tmp_path):
    done = played("-m", "warpschool", *words)
    assert said in done.stdout + done.stderr and "Traceback" not in done.stderr, done.stdout + done.stderr


@pytest.mark.slow
def test_every_module_is_imported():
    command = [sys.executable, str(HERE / "all_modules.py"), "macos_stub"]
    done = subprocess.run(command, capture_output=True, text=True)
    *refused, last = done.stdout.splitlines()
    assert refused == [] and int(last.split()[0]) > 350, done.stdout + done.stderr
