"""A release: the wheel, tried in an empty environment of each Python on this machine. Nothing is uploaded.

    python scripts/release.py [--python 3.12 ...] [--tests] [--image]

For each Python from 3.11 on that is found (on PATH, and of pyenv) a fresh virtual environment gets the wheel, with its
packages as constraints.txt pins them, and goes a student's first way: `doctor`, a copy of the course, the starter,
the solution. The wheel's size, and processor time and elapsed time of each Python's way, go to
benchmarks/results/release.json. --tests runs tests/trimmed.txt there too, on the wheel; --image builds the Dockerfile's
image for x86-64 and ARM, where docker's daemon is.

Systems that are not at hand are asked about: whether each package that constraints.txt pins has a wheel there, for each
Python, so that nothing has to be built. That takes the program uv (`pip install uv`), and is skipped without it.

The release is refused where CHANGELOG.md has no section of the version that pyproject.toml names, or CITATION.cff
names another one: the wheel is made and tried all the same, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "release.json"
MINORS = range(11, 15)
STEP = "lab00_first_kernels/01_saxpy"
TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis")
SYSTEMS = {
    "Linux, x86-64": "x86_64-unknown-linux-gnu", "Linux, 64-bit ARM": "aarch64-unknown-linux-gnu",
    "macOS, Apple silicon": "aarch64-apple-darwin", "macOS, Intel": "x86_64-apple-darwin",
    "Windows, x86-64": "x86_64-pc-windows-msvc", "Windows, ARM": "aarch64-pc-windows-msvc",
}  # fmt: skip
"""Systems that students have, by what uv calls them."""
IMAGE = ("docker", "buildx", "build", "--platform", "linux/amd64,linux/arm64", "--tag", "warpschool", ".")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", metavar="3.N", help="only this one; may be given again")
    parser.add_argument("--tests", action="store_true", help="run tests/trimmed.txt with each Python too")
    parser.add_argument("--image", action="store_true", help="build the container's image too")
    options = parser.parse_args()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    lacking = what_lacks(version)
    wheel = build()
    print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
    found = pythons()
    chosen = {name: path for name, path in found.items() if name in (options.python or found)}
    record(version, wheel, {})
    for name, path in chosen.items():
        record(version, wheel, {name: tried_with(path, wheel, tests=options.tests)})  # what comes next may take long
    for name in sorted({f"3.{minor}" for minor in MINORS} - set(found)):
        print(f"Python {name}: SKIPPED, it is not on this machine")
    record(version, wheel, {}, installs())
    if options.image:
        lacking += image()
    if not chosen:
        lacking.append(f"no Python tried it: {', '.join(found) or 'none'} on this machine")
    print("\n".join(f"lacks: {one}" for one in lacking) or what_remains(version, wheel))
    print("nothing was uploaded")
    return int(bool(lacking))


def what_remains(version: str, wheel: Path) -> str:
    """What a maintainer does now, whose names and keys this script has not."""
    return (
        f"next: git commit -am 'Version {version}' && git tag v{version}\n"
        f"next: upload {wheel.relative_to(ROOT)} to a package index, or hand it out: it needs no checkout"
    )


def what_lacks(version: str) -> list[str]:
    """What a release of this version still needs, in words."""
    lacking = []
    if not re.search(rf"^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE):
        lacking.append(f"CHANGELOG.md has no section '## {version}': rename 'Unreleased', and begin a new one")
    if f"version: {version}\n" not in (ROOT / "CITATION.cff").read_text("utf-8"):
        lacking.append(f"CITATION.cff names another version than {version}")
    return lacking


def build() -> Path:
    """The wheel, made anew."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "--target", "wheel"], cwd=ROOT, check=True)
    (wheel,) = (ROOT / "dist").glob("*.whl")
    return wheel


def pythons() -> dict[str, str]:
    """The newest program of each Python here, by "3.12"."""
    places = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    places += sorted(Path.home().glob(".pyenv/versions/*/bin"), reverse=True)
    found: dict[str, str] = {}
    for minor in MINORS:
        for place in places:
            program = place / f"python3.{minor}"
            if program.is_file() and _runs(str(program)):
                found.setdefault(f"3.{minor}", str(program))
    return found


def _runs(program: str) -> bool:
    """Whether it makes virtual environments; a shim of pyenv's for a version that is not chosen does not run."""
    return subprocess.run([program, "-c", "import venv, ensurepip"], capture_output=True, check=False).returncode == 0


def tried_with(python: str, wheel: Path, *, tests: bool = False) -> dict[str, Any]:
    """A student's first way with one Python; ends the script where it does not lead to an accepted kernel."""
    variables = {n: v for n, v in os.environ.items() if not n.startswith(("PYTHON", "WARPSCHOOL", "VIRTUAL"))}
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        folder = Path(name)
        variables |= {"WARPSCHOOL_CACHE": str(folder / "cache"), "WARPSCHOOL_WARM": "0"}
        times: dict[str, dict[str, float]] = {}

        def step(what: str, *command: str | Path, code: int = 0, cwd: Path | None = None) -> str:
            cwd = cwd or (folder / "course" if (folder / "course").is_dir() else folder)
            start, before = time.perf_counter(), _children_s()
            done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
            times[what] = {
                "seconds": round(time.perf_counter() - start, 1), "processor_s": round(_children_s() - before, 1)
            }  # fmt: skip
            if done.returncode != code:
                sys.exit(f"{python}: {what} exited with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
            return done.stdout

        step("a virtual environment", python, "-m", "venv", "venv")
        own = folder / "venv" / "bin"
        pip: list[str | Path] = [own / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        step("pip install", *pip, "--constraint", ROOT / "constraints.txt", wheel)
        step("warpschool doctor", own / "warpschool", "doctor")
        step("warpschool start", own / "warpschool", "start", folder / "course")
        check: list[str | Path] = [own / "warpschool", "check", STEP]
        step("warpschool check: the starter", *check, code=1)
        shutil.copy(ROOT / "solutions" / f"{STEP}.cu", folder / "course" / "kernels" / f"{STEP}.cu")
        accepted = step("warpschool check: accepted", *check)
        if tests:
            step("pip install: for tests", *pip, "--constraint", ROOT / "constraints.txt", *TOOLS)
            command: list[str | Path] = [own / "python", "-m", "pytest", "-q", "-n", "0", "-m", "not slow"]
            command += ["-p", "no:cacheprovider"]
            said = step("tests/trimmed.txt", *command, "@tests/trimmed.txt", cwd=ROOT).strip().splitlines()[-1]
            print(f"Python {python}: tests/trimmed.txt: {said}", flush=True)
            times["tests/trimmed.txt"]["passed"] = int(said.split()[0])
    print(f"Python {python}: {accepted.splitlines()[0]}", flush=True)
    return times


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def installs() -> dict[str, dict[str, str]]:
    """By system and Python what lacks a wheel of its own among the pinned packages: "" where none does."""
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        print("wheels for other systems: SKIPPED, nobody was asked: uv is not here (pip install uv)")
        return {}
    pinned = ("--no-build", "--constraint", "constraints.txt", "pyproject.toml", "--extra", "lab")
    found: dict[str, dict[str, str]] = {}
    for system, name in SYSTEMS.items():
        for python in (f"3.{minor}" for minor in MINORS):
            command = (uv, "pip", "compile", "--python-platform", name, "--python-version", python, *pinned)
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            lacks = re.findall(r"Wheels are required for `([^`]+)`", done.stderr)
            if done.returncode and not lacks:
                sys.exit(f"uv could not tell what {system} with Python {python} gets:\n{done.stderr[-2000:]}")
            found.setdefault(system, {})[python] = lacks[0] if done.returncode else ""
        without = "; ".join(f"{python}: no wheel of {lacks}" for python, lacks in found[system].items() if lacks)
        print(f"wheels for {system}: {without or 'all, for each Python'}", flush=True)
    return found


def record(version: str, wheel: Path, tried: dict[str, Any], systems: dict[str, dict[str, str]] | None = None) -> None:
    """Keep what was measured; Pythons that were not tried now stay as they are, and so do systems."""
    old = json.loads(RESULT.read_text("utf-8")) if RESULT.is_file() else {}
    found = {
        "version": version, "wheel_bytes": wheel.stat().st_size,
        "machine": f"{platform.machine()}, {os.cpu_count()} processors", "pythons": old.get("pythons", {}) | tried,
        "systems": old.get("systems", {}) | (systems or {}),
    }  # fmt: skip
    RESULT.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")


def image() -> list[str]:
    """Build the image for both kinds of processor; what lacks for that, in words."""
    if shutil.which("docker") is None or subprocess.run(["docker", "info"], capture_output=True).returncode:
        return [f"no daemon of docker's is here, so no image was built: {' '.join(IMAGE)}"]
    done = subprocess.run(IMAGE, cwd=ROOT, check=False)
    return [] if done.returncode == 0 else [f"the image could not be built: {' '.join(IMAGE)}"]


if __name__ == "__main__":
    sys.exit(main())
