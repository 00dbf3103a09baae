"""The tests with the oldest and the newest compiler and LLVM that pyproject.toml allows: does anything drift?

    python scripts/drift.py [--edge oldest|newest|intel-mac] [PYTEST ARGUMENTS]

Each edge has a virtual environment of its own, build/drift/EDGE, with every package as constraints.txt pins it but for
NVRTC, its headers and llvmlite, which stand at the edge of what pyproject.toml allows; a second run reuses it.
"intel-mac" is this environment with one package in another version: the llvmlite that constraints.txt pins for Intel
Macs, which have no newer one; it stands in build/llvmlite-VERSION and runs where --edge asks for it. Paths
among the arguments choose the tests; without any, those run that depend on the compiler or on generated code. What was
found goes to build/drift/report.json, with every version. The exit code is 1 if an edge fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
import venv
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "drift"
REPORT = FOLDER / "report.json"
EDGES = ("oldest", "newest")
INTEL_MAC = "intel-mac"
DRIFTING = ("llvmlite", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-cuda-cccl")
"""Packages that decide PTX or machine code; the headers go with their compiler."""
TESTS = ("tests/sim", "tests/content", "tests/specimens", "tests/hostile", "tests/unit")
"""Not the browser's, the classroom's and the GPU's: they meet neither the compiler's text nor LLVM."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edge", choices=(*EDGES, INTEL_MAC), help="only this one")
    options, arguments = parser.parse_known_args()
    if not any((ROOT / a.removeprefix("@").split("::")[0]).exists() for a in arguments):
        arguments = [*TESTS, *arguments]
    if "-m" not in arguments:
        arguments = ["-m", "not slow", *arguments]
    results = [run(edge, arguments) for edge in ([options.edge] if options.edge else EDGES)]
    REPORT.write_text(json.dumps({"pytest": arguments, "edges": results}, indent=1) + "\n")
    for result in results:
        versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
        print(f"{result['edge']}: {result['summary']}\n  {versions}")
    print(f"report: {REPORT.relative_to(ROOT)}")
    return int(any(result["exit_code"] for result in results))


def run(edge: str, arguments: list[str]) -> dict[str, Any]:
    """One edge: its environment, and the tests in it."""
    python = environment(edge) if edge != INTEL_MAC else beside_this(f"llvmlite=={intel_mac_llvmlite()}")
    cache = python.parents[1] / "cache"  # what another compiler made does not count
    variables = os.environ | {"WARPSCHOOL_CACHE": str(cache), "PYTHONPATH": ""}
    print(f"[{edge}] pytest {' '.join(arguments)}", flush=True)
    start, lines = time.monotonic(), []
    command = [str(python), "-m", "pytest", "-q", *arguments]
    with subprocess.Popen(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout is not None
        for line in tests.stdout:
            print(line, end="", flush=True)
            lines.append(line.strip())
    return {
        "edge": edge,
        "versions": versions(python),
        "exit_code": tests.returncode,
        "summary": next((line for line in reversed(lines) if line), "no output"),
        "seconds": round(time.monotonic() - start, 1),
    }


def environment(edge: str) -> Path:
    """Python of the edge's virtual environment, made where it is missing or where the pins have changed."""
    folder = FOLDER / edge
    python, stamp, pins = folder / "bin" / "python", folder / "pins.txt", folder / "constraints.txt"
    wanted = _pinned() + "".join(f"{name}=={version}\n" for name, version in at_edge(edge).items())
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"[{edge}] making {folder.relative_to(ROOT)}", flush=True)
    venv.create(folder, with_pip=True, clear=True)
    pins.write_text(wanted)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", str(pins)]
    subprocess.run([*install, "hatchling", "editables"], check=True)
    subprocess.run([*install, "--no-build-isolation", "--editable", f"{ROOT}[dev]"], check=True)
    stamp.write_text(wanted)
    return python


def beside_this(requirement: str) -> Path:
    """Python of an environment whose packages are this one's, linked, but for one."""
    folder = ROOT / "build" / requirement.replace("==", "-")
    python, stamp = folder / "bin" / "python", folder / "made"
    if not stamp.exists():
        print(f"making {folder.relative_to(ROOT)}", flush=True)
        venv.create(folder, with_pip=False, clear=True)
        packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        other = shutil.ignore_patterns(f"{requirement.split('==')[0]}*")
        mine = sysconfig.get_path("purelib")
        shutil.copytree(mine, packages, copy_function=os.link, ignore=other, dirs_exist_ok=True)
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*install, "--target", str(packages), requirement], check=True)
        stamp.touch()
    return python


def intel_mac_llvmlite() -> Version:
    """The llvmlite that constraints.txt pins for Intel Macs."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line.startswith("llvmlite==")]
    mac = {"sys_platform": "darwin", "platform_machine": "x86_64"}
    (pin,) = (pin for pin in pins if pin.marker and pin.marker.evaluate(mac))
    return Version(str(pin.specifier).removeprefix("=="))


def _pinned() -> str:
    lines = (ROOT / "constraints.txt").read_text().splitlines(keepends=True)
    return "".join(line for line in lines if line.split("==")[0].lower() not in DRIFTING)


def at_edge(edge: str) -> dict[str, Version]:
    """The oldest or newest published version of each drifting package that pyproject.toml allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [Requirement(text) for text in project["dependencies"]]
    choose = min if edge == "oldest" else max
    return {
        r.name: choose(v for v in published(r.name) if v in r.specifier) for r in requirements if r.name in DRIFTING
    }


def published(name: str) -> list[Version]:
    """Versions that pip finds for this Python and machine."""
    command = [sys.executable, "-m", "pip", "index", "versions", name, "--disable-pip-version-check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"^Available versions: (.*)$", done.stdout, re.MULTILINE)
    if found is None:
        raise SystemExit(
            f"drift: pip finds no versions of {name}:\n{done.stderr}\nIs there a way to the package index?"
        )
    return [Version(text.strip()) for text in found[1].split(",")]


def versions(python: Path) -> dict[str, str]:
    """What is installed there, and the release that NVRTC itself and LLVM report."""
    ask = (
        "import json, importlib.metadata as m, llvmlite.binding as llvm; from cuda.bindings import nvrtc;"
        f"found = {{name: m.version(name) for name in {DRIFTING!r}}};"
        "found['NVRTC'] = '.'.join(map(str, nvrtc.nvrtcVersion()[1:]));"
        "found['LLVM'] = '.'.join(map(str, llvm.llvm_version_info)); print(json.dumps(found))"
    )
    done = subprocess.run([str(python), "-c", ask], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


if __name__ == "__main__":
    sys.exit(main())
