"""The way that code takes on Windows, as far as Linux can play it: see `windows_stub`. Nothing here ran on Windows."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from warpschool.compile import toolchain

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SOURCES = ROOT / "src"
ONLY_THERE = {"fcntl", "resource", "termios", "pwd", "grp", "pty"}
"""Modules that Windows does not have."""
ON_LINUX = (
    "ptxsim/system/posix.py",
    "warpschool/warm/fork.py", "warpschool/warm/client.py",  # a warm process forks: only where `place.is_wanted`
)  # fmt: skip


def played(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"WARPSCHOOL_COMPILER": "clang", "WARPSCHOOL_THREADS": "2", "SYSTEMROOT": "-"} | more
    command = [sys.executable, str(HERE / "windows_stub.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)


def test_modules_that_windows_lacks_are_imported_by_one():
    wanted = re.compile(rf"^ *(?:import|from) +(?:{'|'.join(ONLY_THERE)})\b", re.MULTILINE)
    found = {
        path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.py") if wanted.search(path.read_text("utf-8"))
    }
    assert found == set(ON_LINUX)


def test_both_systems_answer_the_same():
    """Every name of the one is there in the other, with the same arguments."""
    def signatures(name):
        tree = ast.parse((SOURCES / "ptxsim" / "system" / f"{name}.py").read_text("utf-8"))
        return {
            node.name: ast.unparse(node.args)
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        }

    assert signatures("posix") == signatures("windows") and len(signatures("posix")) > 12


def test_address_space_children_limits_and_files():
    done = played(str(HERE / "in_windows.py"))
    assert done.stdout.split() == ["memory", "children", "limits", "files", "waiting"], done.stderr


def test_a_check_is_made():
    done = played("-m", "warpschool", "check", "lab00/03", "--kernel", "solutions/lab00_first_kernels/03_block_sum.cu")
    assert done.stdout.startswith("lab00_first_kernels/03_block_sum: AC"), done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check", "lab00/03"], "WA"),
        (["profile", "solutions/lab00_first_kernels/03_block_sum.cu"], "sectors"),
        (["debug", "solutions/lab00_first_kernels/03_block_sum.cu", "--commands", "n; q"], ""),
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
    done = subprocess.run([sys.executable, str(HERE / "all_modules.py")], capture_output=True, text=True)
    *refused, last = done.stdout.splitlines()
    assert refused == [] and int(last.split()[0]) > 350, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("machine", "folder", "name", "version"),
    [
        (False, "bin/x86_64", "nvrtc64_130_0.dll", "13.5"),
        (True, "bin/arm64", "nvrtc64_130_0.dll", "13.5"),
        (False, "cuda_nvrtc/bin", "nvrtc64_120_0.dll", "12.9"),
        (False, "bin", "nvrtc64_120_0.dll", "12.9"),
    ],
)
def test_nvrtc_is_found_where_its_packages_for_windows_put_it(tmp_path, monkeypatch, machine, folder, name, version):
    for header in ("cuda_fp16.h", "crt/mma.h", "cccl/cuda/std/cstdint"):
        path = tmp_path / "include" / header
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    place = tmp_path / folder
    place.mkdir(parents=True)
    for file in (name, f"nvrtc-builtins64_{version.replace('.', '')}.dll", "nvrtc64_130_0.alt.dll"):
        (place / file).write_text("")
    monkeypatch.setitem(toolchain._LIBRARIES, "linux", toolchain._windows_libraries(arm=machine))
    found = toolchain._toolchain_in(tmp_path, "here")
    assert isinstance(found, toolchain.Toolchain) and found.library == place / name and found.nvrtc == version
