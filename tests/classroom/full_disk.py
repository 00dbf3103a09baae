"""Run by test_full_disk.py in a mount namespace of its own: commands of a class on a tiny disk that is full.

    unshare -rm python full_disk.py COURSE ZIP MOUNT

Prints JSON: state of the disk -> command -> what it said and which files it changed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from warpschool.cli import app

COMMANDS = {
    "feedback": ["feedback", "mini"],
    "grade": ["grade", "mini", "--regrade"],
    "export": ["export", "mini", "--incomplete", "--to", "grades.csv"],
    "import": ["import", "{zip}", "mini"],
    "release": ["release", "mini"],
    "folder": ["grade", "{kernels}", "--step", "lab00/01", "--out", "results.json"],
    "alike": ["alike", "{kernels}", "--step", "lab00/01", "--out", "alike.html"],
    "quickstart": ["quickstart", "another"],
}


def fill(folder: Path, *, leave: int = 0) -> None:
    """Take all room of a disk, but so many bytes."""
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
    size = (folder / "filler").stat().st_size
    os.truncate(folder / "filler", max(0, size - leave))


def snapshot(root: Path) -> dict[str, str]:
    """File -> hash of what it holds, without the lock; folders end in /."""
    return {
        f"{path.relative_to(root)}{'/' if path.is_dir() else ''}":
            "" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*")) if path.name != "lock"
    }  # fmt: skip


def tried(root: Path, words: dict[str, str]) -> dict[str, dict[str, object]]:
    found = {}
    for name, command in COMMANDS.items():
        before = snapshot(root)
        done = CliRunner().invoke(app, [word.format(**words) for word in command])
        after = snapshot(root)
        changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        found[name] = {"code": done.exit_code, "err": done.stderr, "changed": changed}
    return found


def main() -> None:
    course, archive, mount = map(Path, sys.argv[1:])
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "none", str(mount)], check=True)
    root = mount / "course"
    shutil.copytree(course, root)
    os.chdir(root)
    words = {"zip": str(archive), "kernels": str(root / "kernels")}
    found = {}
    for state, leave in {"full": 0, "nearly full": 24 << 10}.items():
        fill(mount, leave=leave)
        found[state] = tried(root, words)
    (mount / "filler").unlink()
    subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
    found["read-only"] = tried(root, words)
    subprocess.run(["mount", "-o", "remount,rw", str(mount)], check=True)
    found["mended"] = tried(root, words)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
