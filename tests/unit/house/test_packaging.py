"""What is installed: a wheel carries the whole course, an editable install no copy of it."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOLDERS = ("labs", "kernels", "solutions", "grader", "benchmarks/results")


def tracked(*folders: str) -> set[str]:
    listing = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", *folders], capture_output=True, text=True)
    if listing.returncode != 0 or not listing.stdout:
        pytest.skip("not a git checkout")
    return {name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()}


def test_every_pin_admits_the_lowest_python():
    """Debian 12 has 3.11.2: a pin that asks for 3.11.5 is a pip that finds nothing."""
    lowest = f"{PROJECT['requires-python'].removeprefix('>=')}.0"
    pins = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text("utf-8"), flags=re.MULTILINE)
    asked = {}
    for name in pins:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # an extra that is not installed here
            asked[name] = importlib.metadata.metadata(name).get("Requires-Python") or ""
    assert len(asked) > 50
    assert not {name: wants for name, wants in asked.items() if not SpecifierSet(wants).contains(lowest)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_the_wheel_carries_every_file_of_the_course_and_the_library(wheel):
    inside = set(wheel.namelist())
    content = tracked(*FOLDERS)
    assert all(any(name.startswith(f"{folder}/") for name in content) for folder in FOLDERS)
    assert {f"warpschool/_content/{name}" for name in content} <= inside
    assert {name.removeprefix("src/") for name in tracked("src")} <= inside
    assert not [name for name in inside if re.search(r"__pycache__|\.ipynb_checkpoints|\.pyc$|^tests/|^labs/", name)]


def test_the_content_is_the_checkouts(wheel):
    for name in tracked(*FOLDERS):
        assert wheel.read(f"warpschool/_content/{name}") == (ROOT / name).read_bytes()


def test_the_wheel_has_its_command_and_its_licence(wheel):
    info = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "warpschool = warpschool.__main__:main" in wheel.read(info).decode()
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())


def test_the_wheel_puts_the_extension_where_jupyterlab_looks(wheel):
    place = "share/jupyter/labextensions/warpschool/package.json"
    [package] = [name for name in wheel.namelist() if name.endswith(place)]
    described = json.loads(wheel.read(package))
    assert described["version"] == PROJECT["version"]
    entry = package.replace("package.json", described["jupyterlab"]["_build"]["load"])
    assert b"window._JUPYTERLAB" in wheel.read(entry)


def test_an_editable_install_holds_no_copy_of_the_course(tmp_path):
    program = (
        "import sys; from hatchling.builders.wheel import WheelBuilder;"
        "print(next(WheelBuilder(sys.argv[1]).build(directory=sys.argv[2], versions=['editable'])))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(ROOT), str(tmp_path)], capture_output=True, text=True, check=True
    )
    with zipfile.ZipFile(run.stdout.split("\n")[-2]) as archive:
        assert not [name for name in archive.namelist() if "_content" in name]


def test_pins_are_names_and_versions_that_the_ranges_admit():
    packaging_requirements = pytest.importorskip("packaging.requirements")
    pins: dict[str, list[str]] = {}  # one version, or one for each kind of machine
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        match = re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.+!]+)(; (sys_platform|platform_machine) .*)?", line)
        assert match, line
        pins.setdefault(re.sub(r"[-_.]+", "-", match[1]).lower(), []).append(match[2])
    extras = PROJECT["optional-dependencies"]
    for text in [*PROJECT["dependencies"], *extras["dev"], *extras["lab"], *extras["teach"]]:
        wanted = packaging_requirements.Requirement(text)
        if wanted.name == "warpschool":
            continue
        assert all(map(wanted.specifier.contains, pins[wanted.name.lower()])), text


def test_the_compilers_packages_are_of_one_cuda_major_and_left_out_on_macos():
    ranges = {text.split(">")[0]: text for text in PROJECT["dependencies"] if text.startswith(("nvidia-", "cuda-bind"))}
    assert len(ranges) == 5
    assert all(re.search(r">=13\.\d,<14; sys_platform != 'darwin'$", text) for text in ranges.values())


def test_ci_runs_the_readmes_command():
    script = (ROOT / ".ci" / "run").read_text()
    assert script.endswith("exec make test\n") and "CI=true" in script
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100
