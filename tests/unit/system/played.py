"""Python on a system that is played: `python STUB [-I -S -B -P] FILE|-m MODULE ARGUMENTS`.

The libraries that a check needs are imported before, as Linux has them; then the stub pretends. `sys.executable` is a
program that starts Python through the stub again, so that child processes are on that system too.
"""

from __future__ import annotations

import importlib
import os
import runpy
import stat
import sys
import tempfile
from collections.abc import Callable

LIBRARIES = (
    "numpy", "numpy.random", "numpy.testing", "llvmlite.binding", "llvmlite.ir", "rich.console", "rich.live",
    "rich.markdown", "rich.progress", "typer", "pytest", "_pytest.debugging", "elftools.elf.elffile", "multiprocessing",
    "concurrent.futures", "webbrowser", "asyncio", "importlib.metadata", "cuda.pathfinder", "zipfile",
)  # fmt: skip


def play(stub: str, pretend: Callable[[], None]) -> None:
    """Run what the command line says where `pretend` has been called."""
    words = sys.argv[1:]
    bare = "-S" in words[:4]
    while words[0] in ("-I", "-S", "-B", "-P"):
        words.pop(0)
    if not bare:
        for name in LIBRARIES:
            importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        executable = _python_like_this(stub, folder)
        pretend()
        sys.executable = executable
        is_module = words[0] == "-m"
        sys.argv = words[is_module:]
        sys.path.pop(0)
        if is_module:
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(words[0], run_name="__main__")


def _python_like_this(stub: str, folder: str) -> str:
    path = os.path.join(folder, "python.exe")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec "{sys.executable}" "{os.path.abspath(stub)}" "$@"\n')
    os.chmod(path, stat.S_IRWXU)
    return path
