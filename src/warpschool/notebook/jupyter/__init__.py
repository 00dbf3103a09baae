"""JupyterLab on a personal copy, and what it loads: an extension that shows `%%kernel` cells as CUDA C++.

An installed wheel has the extension in place.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from warpschool.errors import ToolMissing


def jupyter_path() -> str:
    """Return JUPYTER_PATH with this folder first, so that JupyterLab finds the extension in a checkout too."""
    return os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("JUPYTER_PATH", ""))))


def jupyter_command(copy: Path, *, browser: bool = True, port: int | None = None, ip: str = "") -> list[str]:
    """The command that opens JupyterLab on a copy. Raises ToolMissing where it is not installed."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise ToolMissing("JupyterLab is not installed", next_step="Install it with: pip install 'warpschool[lab]'")
    command = [sys.executable, "-m", "jupyterlab", str(copy.resolve())]
    command += [] if browser else ["--no-browser"]
    command += [] if port is None else [f"--port={port}"]
    command += [f"--ip={ip}"] if ip else []
    return command + (["--allow-root"] if os.geteuid() == 0 else [])  # in a container one is root as a rule


def serve(command: list[str], copy: Path) -> int:
    """Run JupyterLab until it ends; Ctrl-C goes to it, and it asks or ends itself."""
    own_settings = {"WARPSCHOOL_COPY": str(copy.resolve()), "JUPYTER_PATH": jupyter_path()}
    with subprocess.Popen(command, env=os.environ | own_settings) as server:
        while True:
            try:
                return server.wait()
            except KeyboardInterrupt:  # the server has got it too
                continue
