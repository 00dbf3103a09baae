"""The ways in: containers, the editor's container, a notebook server's first cell, what the pages tell to install."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from scripts import release
from typer.testing import CliRunner

from warpschool.cli.app import app

ROOT = Path(__file__).resolve().parents[3]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
START = (ROOT / "docs" / "learn" / "start.md").read_text("utf-8")


def dockerfile() -> str:
    """The Dockerfile with continued lines joined."""
    return (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")


def copied() -> set[str]:
    """What the image's build gets of the repository: names, kept as they are."""
    lines = re.findall(r"^COPY (.+)$", dockerfile(), flags=re.MULTILINE)
    for *names, target in map(str.split, lines):
        assert target == "./" or names == [target], f"{names} would land elsewhere: {target}"
    return {name for line in lines for name in line.split()[:-1]}


def build_hook():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_image_copies_all_that_the_wheel_is_built_from():
    hatch = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    folders = [name for name in build_hook().FOLDERS if name != "warpcourse"]  # a fork's own; the course has none
    needed = {"pyproject.toml", "constraints.txt", PYPROJECT["project"]["readme"], *folders}
    needed |= {hatch["hooks"]["custom"]["path"], *PYPROJECT["project"]["license-files"]}
    needed |= {path.split("/")[0] for path in [*hatch["packages"], *hatch["shared-data"]]}
    assert copied() == needed
    ignored = {line.strip() for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()}
    assert not needed & ignored
    assert all((ROOT / name).exists() for name in needed)


@pytest.mark.slow
def test_the_wheel_is_built_from_what_the_image_copies(tmp_path):
    pytest.importorskip("hatchling")
    for name in copied():
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
        else:
            shutil.copy(source, tmp_path / name)
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tmp_path / "out").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    assert set(build_hook().content_files(ROOT).values()) <= inside
    library = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert library <= inside


def test_the_images_command_opens_jupyterlab_on_the_volume(tmp_path):
    pytest.importorskip("jupyterlab")
    (command,) = re.findall(r"^CMD (\[.+\])$", dockerfile(), flags=re.MULTILINE)
    program, *arguments = json.loads(command)
    assert (program, arguments[:2]) == ("warpschool", ["lab", "/home/student/course"])
    result = CliRunner().invoke(app, ["lab", str(tmp_path), *arguments[2:], "--no-update", "--json"])
    assert result.exit_code == 0, result.output
    runs = json.loads(result.stdout)["command"]
    assert {"--no-browser", "--port=8888", "--ip=0.0.0.0"} <= set(runs)
    assert "EXPOSE 8888" in dockerfile() and "8888:8888 -v warpschool:/home/student/course" in START


def test_the_editors_container_installs_what_the_repository_needs():
    folder = ROOT / ".devcontainer"
    found = json.loads((folder / "devcontainer.json").read_text("utf-8"))
    assert (folder / found["build"]["dockerfile"]).is_file()
    make, *targets = found["postCreateCommand"].split()
    assert make == "make" and targets
    made = (ROOT / "Makefile").read_text("utf-8").replace("$(LAB)", ".venv/lab.stamp")
    assert all(re.search(rf"^{re.escape(target)}:", made, flags=re.MULTILINE) for target in targets)
    settings = found["customizations"]["vscode"]["settings"]
    assert settings["python.defaultInterpreterPath"].endswith("/.venv/bin/python")
    assert {str(port) for port in found["forwardPorts"]} == set(found["portsAttributes"])
    image = (folder / "Dockerfile").read_text("utf-8")
    assert re.search(r"^FROM python:3\.1[1-9]", image, flags=re.MULTILINE) and " git make " in image


def test_containers_run_a_python_that_the_package_admits():
    lowest = tuple(int(part) for part in PYPROJECT["project"]["requires-python"].removeprefix(">=").split("."))
    for path in (ROOT / "Dockerfile", ROOT / ".devcontainer" / "Dockerfile"):
        (found,) = re.findall(r"^FROM python:(\d+)\.(\d+)", path.read_text("utf-8"), flags=re.MULTILINE)
        assert tuple(map(int, found)) >= lowest, path


def test_every_extra_that_is_named_exists():
    extras = set(PYPROJECT["project"]["optional-dependencies"])
    pages = [ROOT / "README.md", ROOT / "Dockerfile", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    named = {
        (name, page.name) for page in pages
        for list_ in re.findall(r"warpschool\[([a-z0-9,]+)\]", page.read_text("utf-8")) for name in list_.split(",")
    }  # fmt: skip
    assert {name for name, _ in named} >= {"lab", "cuda12", "cuda13"}
    assert not {found for found in named if found[0] not in extras}


def first_cell() -> str:
    """The cell that the page puts first on a notebook server."""
    (cell,) = re.findall(r"^```python\n(%pip install .+?)^```", START, flags=re.MULTILINE | re.DOTALL)
    return cell


@pytest.mark.slow
def test_the_first_cell_of_a_notebook_server_works(tmp_path):
    """As IPython runs it; pip finds the package here and asks nobody."""
    pytest.importorskip("IPython")
    (tmp_path / "cell.ipy").write_text(
        first_cell() + "%load_ext warpschool\nimport os, warpschool\nprint('in', os.getcwd(), warpschool.__version__)\n"
    )
    package = tmp_path / "bin" / "warpschool"
    package.parent.mkdir()
    package.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m warpschool "$@"\n')
    package.chmod(0o755)
    environment = os.environ | {
        "PIP_NO_INDEX": "1", "PATH": f"{package.parent}:{os.environ['PATH']}", "IPYTHONDIR": str(tmp_path / "ipython"),
    }  # fmt: skip
    command = [sys.executable, "-m", "IPython", "cell.ipy"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"in {tmp_path / 'course'} " in done.stdout
    assert (tmp_path / "course/labs/lab00_first_kernels/lab00_first_kernels.ipynb").is_file()


def test_a_server_without_an_index_finds_the_wheel(tmp_path, monkeypatch):
    (cell,) = re.findall(r"^```python\n(from pathlib.+?)^```", START, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "data").mkdir()
    wheel = tmp_path / "data" / "warpschool-9.9-py3-none-any.whl"
    wheel.write_text("")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec("\n".join(line for line in cell.splitlines() if not line.startswith(("%", "!"))), names)
    assert Path(str(names["wheel"])).resolve() == wheel and "%pip install --quiet {wheel}" in cell


def test_the_first_lines_on_windows_are_those_of_other_systems():
    (lines,) = re.findall(r"^```\n(py -3.+?)^```", START, flags=re.MULTILINE | re.DOTALL)
    assert "[lab]'" in lines and lines.rstrip().endswith("warpschool lab")


def test_runners_of_other_systems_take_actions_by_version_and_files_that_are_there():
    yaml = pytest.importorskip("yaml")
    path = ROOT / ".github" / "workflows" / "platforms.yml"
    jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]) for step in steps if "uses" in step)
    runs = "\n".join(step.get("run", "") for step in steps)
    named = re.findall(r"[\w./]+\.(?:py|cu|txt)\b|\.ci/run", runs)
    assert named and all((ROOT / name).is_file() for name in named)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert all(f"\n{target}:" in makefile for target in re.findall(r"^make ([\w-]+)", runs, flags=re.MULTILINE))
    machines = {row["runner"].split("-")[0] for row in jobs["suite"]["strategy"]["matrix"]["include"]}
    assert machines == {"ubuntu", "macos", "windows"}
    asked = set(re.findall(r"matrix\.(\w+)", path.read_text("utf-8")))
    assert asked == {name for row in jobs["suite"]["strategy"]["matrix"]["include"] for name in row}


def test_a_citation_names_the_version():
    assert f"version: {PYPROJECT['project']['version']}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_every_python_of_the_runners_is_one_that_the_package_names():
    named = {line.rsplit(" ", 1)[1] for line in PYPROJECT["project"]["classifiers"] if "Python :: 3." in line}
    runners = (ROOT / ".github" / "workflows" / "platforms.yml").read_text("utf-8")
    assert set(re.findall(r'python: "([\d.]+)"', runners)) == named


def test_every_python_that_the_package_names_was_tried():
    named = {line.rsplit(" ", 1)[1] for line in PYPROJECT["project"]["classifiers"] if "Python :: 3." in line}
    tried = json.loads(release.RESULT.read_text("utf-8"))
    assert set(tried["pythons"]) == named
    assert set(tried["systems"]) == set(release.SYSTEMS) and all(set(of) == named for of in tried["systems"].values())


def test_a_release_asks_which_systems_have_all_wheels(tmp_path, monkeypatch, capsys):
    """Of a program in uv's place that knows no wheel of one package for one system."""
    uv = tmp_path / "uv"
    uv.write_text(
        "#!/bin/sh\ncase \"$*\" in\n"
        "  *x86_64-apple-darwin*3.14*) echo 'hint: Wheels are required for `llvmlite` because' >&2; exit 1 ;;\n"
        "  *--no-build*--constraint*) exit 0 ;;\nesac\nexit 2\n"
    )
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = release.installs()
    assert found["macOS, Intel"] == {"3.11": "", "3.12": "", "3.13": "", "3.14": "llvmlite"}
    assert {lacks for system in found if system != "macOS, Intel" for lacks in found[system].values()} == {""}
    uv.write_text("#!/bin/sh\necho 'no such host' >&2; exit 2\n")
    with pytest.raises(SystemExit, match="no such host"):
        release.installs()
    assert "macOS, Intel: 3.14: no wheel of llvmlite" in capsys.readouterr().out


@pytest.mark.parametrize("activated", [True, False])
def test_continuous_integration_sees_no_other_environment(activated, tmp_path):
    """What `make` is started with, told by a make of our own."""
    for folder in ("other", "tools"):
        (tmp_path / folder / "bin").mkdir(parents=True)
    make = tmp_path / "tools" / "bin" / "make"
    make.write_text('#!/bin/sh\necho "$PATH|${VIRTUAL_ENV:-}|${PYTHONPATH:-}|$CI|$1"\n')
    make.chmod(0o755)
    other = str(tmp_path / "other")
    path = f"{other}/bin:{make.parent}:/usr/bin:/bin" if activated else f"{make.parent}:/usr/bin:/bin"
    more = {"VIRTUAL_ENV": other, "PYTHONPATH": other} if activated else {}
    done = subprocess.run([ROOT / ".ci" / "run"], env={"PATH": path, **more}, capture_output=True, text=True)
    assert done.stdout.strip() == f"{make.parent}:/usr/bin:/bin|||true|test", done.stderr
