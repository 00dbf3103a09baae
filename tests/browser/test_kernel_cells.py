"""`%%kernel` cells in JupyterLab: coloured as C++ while other cells stay Python."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

import warpschool.notebook

pytestmark = pytest.mark.slow

EXTENSIONS = Path(warpschool.notebook.__file__).parent / "jupyter"
WAIT_S = 90
COLOURED = """
const found = {};
for (const [number, cell] of [...document.querySelectorAll('.jp-CodeCell')].entries())
  for (const span of cell.querySelectorAll('.cm-line span'))
    if (getComputedStyle(span).color !== getComputedStyle(span.closest('.cm-line')).color)
      (found[number] ??= []).push(span.textContent);
return found;
"""


@pytest.fixture
def server(tmp_path):
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed")
    sources = ("%%kernel lab00/01\nconstexpr int N = 1;  // one\n", "constexpr = None  # two")
    cells = [new_code_cell(source) for source in sources]
    for place, cell in enumerate(cells):
        cell["id"] = f"cell-{place}"
    nbformat.write(new_notebook(cells=cells), tmp_path / "cells.ipynb")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    options = [f"--port={port}", "--no-browser", "--allow-root", "--IdentityProvider.token=", "--ServerApp.password="]
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options, f"--ServerApp.root_dir={tmp_path}"],
        env=os.environ | own | {"JUPYTER_PATH": str(EXTENSIONS)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def until(condition, what):
    end = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < end, f"waited {WAIT_S} s for {what}"
        time.sleep(0.5)
    return found


def answers(address) -> bool:
    try:
        return urllib.request.urlopen(f"{address}/api", timeout=2).status == 200
    except (urllib.error.URLError, OSError):
        return False


def test_kernel_cells_are_coloured_as_cpp(server, chrome):
    until(lambda: answers(server), "the server")
    chrome.get(f"{server}/lab/tree/cells.ipynb")
    coloured = until(lambda: (found := chrome.execute_script(COLOURED)).get("0") and found, "the cells")
    coloured = until(lambda: (f := chrome.execute_script(COLOURED)) and "constexpr" in f["0"] and f, "colour")
    assert "// one" in coloured["0"]
    assert "constexpr" not in coloured["1"] and "# two" in coloured["1"], "other cells stay Python"
