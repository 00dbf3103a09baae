"""A part of the tests on 64-bit ARM, emulated: Debian's arm64 Python under qemu-user, beside this checkout.

    python scripts/arm.py [--record] [--set-up] [PYTEST ARGUMENTS]

`build/arm` gets Debian's packages of Python for arm64 (unpacked, nothing is installed) and the wheels for aarch64 that
constraints.txt pins; a second run reuses them. The emulated Python then runs the tests of `tests/trimmed.txt`, or those
that the arguments name. --record writes what comes of them to benchmarks/results/platforms.json, and before them runs
`RECORDED`, or the steps that are named: outputs, counters, verdicts. --set-up does no more than unpack.

Without qemu-aarch64-static (Debian: qemu-user-static) or apt-get nothing is run, which is said, and the exit code is 0.
No system-wide setting is needed: the emulated Python calls itself through a script that names the emulator.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "arm"
SYSTEM = FOLDER / "system"
"""Debian's files for arm64."""
PYTHON = FOLDER / "venv" / "bin" / "python"
"""What starts the emulated Python, for its own child processes too."""
EMULATOR = "qemu-aarch64-static"
PACKAGES = ("python3", "libgomp1", "libstdc++6")
TOOLS = ("pytest-timeout", "pytest-xdist", "hypothesis")
RECORDED = (
    "lab00_first_kernels/03", "lab15_patterns/01", "lab02_tiling/01", "lab07_tensor_cores/01", "lab10_lenet/07",
    "lab06_half_precision/02",
)  # fmt: skip
"""References whose outputs and counters are recorded, the quickest first: each takes minutes of processor time."""
TRIMMED = "@tests/trimmed.txt"
LIMITS = {"WARPSCHOOL_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="record in benchmarks/results/platforms.json")
    parser.add_argument("--set-up", action="store_true", help="unpack Python and wheels only")
    options, arguments = parser.parse_known_args()
    for tool, package in ((EMULATOR, "qemu-user-static"), ("apt-get", "apt"), ("dpkg-deb", "dpkg")):
        if shutil.which(tool) is None:
            print(f"test-arm: SKIPPED, nothing was run on ARM: {tool} is not here (Debian: apt-get install {package})")
            return 0
    set_up()
    if options.set_up:
        return 0
    if options.record:
        where = ["--where", "emulated by qemu-user", "--parts", "steps,suite"]
        return run("benchmarks/platforms.py", *where, *(arguments or RECORDED))
    quick = ["-m", "not slow", "--timeout", "0"]  # time says nothing here
    named = any((ROOT / argument.split("::")[0]).exists() for argument in arguments)
    return run("-m", "pytest", "-q", "-p", "no:cacheprovider", *quick, *([] if named else [TRIMMED]), *arguments)


def run(*arguments: str) -> int:
    """The emulated Python's exit code."""
    variables = os.environ | LIMITS | {"WARPSCHOOL_CACHE": str(FOLDER / "cache"), "PYTHONPATH": ""}
    return subprocess.run([str(PYTHON), *arguments], cwd=ROOT, env=variables, check=False).returncode


# ---------------------------------------------------------------- what is unpacked


def set_up() -> None:
    """Make `FOLDER`, or leave it where its pins are those of the checkout."""
    stamp = FOLDER / "pins.txt"
    wanted = (ROOT / "constraints.txt").read_text() + "\n".join((*PACKAGES, *requirements()))
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    unpack_system()
    version = (SYSTEM / "usr" / "bin" / "python3").readlink().name.removeprefix("python")
    make_python(version)
    unpack_wheels(version)
    stamp.write_text(wanted)


def unpack_system() -> None:
    """Debian's packages and all that they depend on, without a trace in the host's own list of packages."""
    print("[1/2] Debian's Python for arm64", flush=True)
    state, cache = FOLDER / "apt" / "state", FOLDER / "apt" / "cache"
    for folder in (state / "lists" / "partial", cache / "archives" / "partial", SYSTEM):
        folder.mkdir(parents=True)
    (state / "status").touch()
    settings = {
        "APT::Architecture": "arm64", "APT::Architectures": "arm64", "Dir::State": str(state), "Dir::Cache": str(cache),
        "Dir::State::status": str(state / "status"), "APT::Install-Recommends": "false", "APT::Sandbox::User": "root",
        "Dir::Etc::SourceParts": "/etc/apt/sources.list.d", "pkgCacheGen::Essential": "none",
    }  # fmt: skip
    apt = ["apt-get", "--quiet=2", *(f"--option={name}={value}" for name, value in settings.items())]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "install", "--yes", "--download-only", *PACKAGES], check=True)
    for package in sorted((cache / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", str(package), str(SYSTEM)], check=True)


def make_python(version: str) -> None:
    """A virtual environment whose python is a script: it tells the emulated one where it was called from."""
    PYTHON.parent.mkdir(parents=True)
    emulator = shutil.which(EMULATOR)
    PYTHON.write_text(
        f"#!/bin/sh\nexec {emulator} -L {SYSTEM} -0 {PYTHON} {SYSTEM}/usr/bin/python{version} \"$@\"\n"
    )
    PYTHON.chmod(0o755)
    (PYTHON.parents[1] / "pyvenv.cfg").write_text(
        f"home = {SYSTEM}/usr/bin\ninclude-system-site-packages = false\nversion = {version}\n"
    )


def unpack_wheels(version: str) -> None:
    """The pinned wheels for aarch64, and the checkout itself beside them."""
    print("[2/2] wheels for aarch64", flush=True)
    packages = PYTHON.parents[1] / "lib" / f"python{version}" / "site-packages"
    platforms = [f"manylinux_2_{minor}_aarch64" for minor in range(17, 37)] + ["manylinux2014_aarch64"]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"),
            *("--target", str(packages), "--only-binary=:all:", "--implementation=cp", f"--python-version={version}"),
            *(f"--platform={name}" for name in platforms),
            *("--constraint", str(ROOT / "constraints.txt"), *requirements()),
        ],
        check=True,
    )  # fmt: skip
    (packages / "checkout.pth").write_text(f"{ROOT / 'src'}\n")


def requirements() -> list[str]:
    """What the course needs, and the tools of its tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *TOOLS]


if __name__ == "__main__":
    sys.exit(main())
