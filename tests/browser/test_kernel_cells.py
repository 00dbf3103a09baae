"""`%%kernel` cells in JupyterLab: coloured as C++ while other cells stay Python."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from warpschool.notebook.jupyter import jupyter_path

pytestmark = pytest.mark.slow

WAIT_S = 450
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
    about = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python", "mimetype": "text/x-python", "codemirror_mode": {"name": "ipython"}},
    }
    nbformat.write(new_notebook(cells=cells, metadata=about), tmp_path / "cells.ipynb")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    options = [f"--port={port}", "--no-browser", "--allow-root", "--IdentityProvider.token=", "--ServerApp.password="]
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options, f"--ServerApp.root_dir={tmp_path}"],
        env=os.environ | own | {"JUPYTER_PATH": jupyter_path()}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


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

    def both() -> dict[str, list[str]] | None:
        found = chrome.execute_script(COLOURED)
        return found if "constexpr" in found.get("0", ()) and "# two" in found.get("1", ()) else None

    coloured = until(both, "colours in both cells")
    assert "// one" in coloured["0"]
    assert "constexpr" not in coloured["1"], "other cells stay Python"
