"""What JupyterLab loads: an extension that shows `%%kernel` cells as CUDA C++. An installed wheel has it in place."""

from __future__ import annotations

import os
from pathlib import Path


def jupyter_path() -> str:
    """Return JUPYTER_PATH with this folder first, so that JupyterLab finds the extension in a checkout too."""
    return os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("JUPYTER_PATH", ""))))
