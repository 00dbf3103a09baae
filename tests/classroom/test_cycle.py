"""The whole cycle with the real nbgrader, as an instructor, a student and a browser go through it."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
import pytest

from .small import RIGHT, STEP, SmallClass, mini_notebook

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

WAIT_S = 300
_WARPSCHOOL = "import sys; from warpschool.cli import main; sys.argv[0] = 'warpschool'; main()"


@pytest.fixture
def house(tmp_path):
    """A home, an exchange and an environment of their own: nothing of the machine's Jupyter is read or written."""
    places = {name: tmp_path / name for name in ("home", "exchange", "config", "data", "runtime")}
    for place in places.values():
        place.mkdir()
    places["exchange"].chmod(0o777)
    environment = os.environ | {
        "HOME": str(places["home"]), "JUPYTER_CONFIG_DIR": str(places["config"]),
        "JUPYTER_DATA_DIR": str(places["data"]), "JUPYTER_RUNTIME_DIR": str(places["runtime"]),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]), "NO_COLOR": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }  # fmt: skip
    (places["config"] / "nbgrader_config.py").write_text(
        f"c = get_config()\nc.Exchange.root = {str(places['exchange'])!r}\nc.CourseDirectory.course_id = 'gpu'\n"
    )

    def run(*command: str, folder: Path = tmp_path, fails: bool = False) -> str:
        start = [sys.executable, *(("-c", _WARPSCHOOL) if command[0] == "warpschool" else ("-m", "nbgrader"))]
        options = {"capture_output": True, "text": True, "timeout": 1800, "check": False}
        done = subprocess.run([*start, *command[1:]], cwd=folder, env=environment, **options)
        assert (done.returncode != 0) == fails, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    return run, environment


def student_works(folder: Path) -> None:
    """The student solves the kernel, validates nothing else, and writes an answer."""
    path = folder / "mini" / "mini.ipynb"
    notebook = nbformat.read(path, as_version=4)
    cells = {cell["id"]: cell for cell in notebook.cells}
    cells["m-kernel"].source = f"%%kernel {STEP}\n{RIGHT}"
    cells["m-explain-answer"].source = "Because the bytes cross the bus twice."
    nbformat.write(notebook, path)


def test_the_whole_cycle(house, tmp_path):
    run, environment = house
    # quickstart: nbgrader's own course, made ours by two lines
    run("nbgrader", "quickstart", "gpu")
    course = tmp_path / "gpu"
    shutil.rmtree(course / "source" / "ps1")
    assert "does not set up warpschool" in run("warpschool", "release", "x", folder=course, fails=True)
    with (course / "nbgrader_config.py").open("a") as config:
        config.write("\nfrom warpschool.classroom.config import configure\nconfigure(c, __file__)\n")
    run("warpschool", "quickstart", ".", folder=course)
    small = SmallClass(course)
    small.write_source(mini_notebook())

    # generate, both ways; release, fetch, work, submit, collect
    run("warpschool", "release", "mini", folder=course)
    ours = (course / "release" / "mini" / "mini.ipynb").read_bytes()
    run("nbgrader", "generate_assignment", "mini", "--force", folder=course)
    assert (course / "release" / "mini" / "mini.ipynb").read_bytes() == ours
    run("nbgrader", "release_assignment", "mini", folder=course)
    desk = tmp_path / "desk"
    desk.mkdir()
    run("nbgrader", "fetch_assignment", "mini", "--course", "gpu", folder=desk)
    student_works(desk)
    run("nbgrader", "submit", "mini", "--course", "gpu", folder=desk)
    run("nbgrader", "collect", "mini", folder=course)
    (student,) = {path.name for path in (course / "submitted").iterdir()}

    # autograde, both ways
    run("nbgrader", "autograde", "mini", folder=course)
    first = vars(small.grades(student)["m-correct"])
    document = json.loads(run("warpschool", "grade", "mini", "--regrade", "--json", folder=course).split("\n[1/")[0])
    assert document["changes"] == []
    assert vars(small.grades(student)["m-correct"]) == first
    assert first["auto"] == 4
    assert "not finally graded" in run("warpschool", "export", "mini", folder=course, fails=True)

    # a person, in a browser
    tools = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if all(tools):
        with formgrader(course, environment) as address:
            give_points(address, small, student, points=2, tools=tools)
    else:
        small.mark(student, "m-explain", 2)
    assert (small.grades(student)["m-explain"].manual, small.grades(student)["m-explain"].waits) == (2, False)

    # feedback, both ways, and out
    run("warpschool", "feedback", "mini", folder=course)
    page = course / "feedback" / student / "mini" / "mini.html"
    text = page.read_text("utf-8")
    assert "6 of 7 points" in text and "SECRETMARK" not in text
    run("nbgrader", "generate_feedback", "mini", "--force", folder=course)
    assert page.read_text("utf-8") == text
    run("nbgrader", "release_feedback", "mini", folder=course)
    run("nbgrader", "fetch_feedback", "mini", "--course", "gpu", folder=desk)
    assert next(desk.glob("mini/feedback/*/mini.html")).read_text("utf-8") == text
    run("warpschool", "export", "mini", "--to", "grades.csv", folder=course)
    rows = {row["student_id"]: row for row in csv.DictReader((course / "grades.csv").open())}
    assert (rows[student]["score"], rows[student]["max_score"]) == ("6", "7")
    if not all(tools):
        pytest.skip("all was tried but formgrader in a browser: chromium and chromedriver are not installed")


@contextlib.contextmanager
def formgrader(course, environment):
    """nbgrader's formgrader on a loopback port; yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {
        "jpserver_extensions": "{'nbgrader.server_extensions.formgrader': True}", "ip": "127.0.0.1", "port": port,
        "open_browser": False, "allow_root": True, "root_dir": str(course), "port_retries": 0,
    }  # fmt: skip
    command = [sys.executable, "-m", "jupyter_server", "--IdentityProvider.token=", "--ServerApp.password="]
    command += [f"--ServerApp.{key}={value}" for key, value in options.items()]
    log = course.parent / "server.log"
    with log.open("w") as file:
        server = subprocess.Popen(command, cwd=course, env=environment, stdout=file, stderr=file)
    try:
        address = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                with urllib.request.urlopen(f"{address}/formgrader/gradebook", timeout=5):
                    break
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                assert server.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
                time.sleep(0.5)
        yield address
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()


def give_points(address, small, student, *, points, tools):
    """Open the submission in Chromium, look at what a grader sees, and type the points for the question."""
    from selenium import webdriver
    from selenium.webdriver.support.ui import WebDriverWait

    with small.app.gradebook() as gradebook:
        submission = gradebook.find_submission_notebook("mini", "mini", student).id
    options = webdriver.ChromeOptions()
    options.binary_location = tools[0]
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1300,2400"):
        options.add_argument(flag)
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(tools[1]))
    try:
        chrome.set_page_load_timeout(WAIT_S)
        chrome.get(f"{address}/formgrader/submissions/{submission}/?index=0")
        wait = WebDriverWait(chrome, WAIT_S)
        box = wait.until(lambda page: page.find_element("css selector", "input.score#m-explain"))
        wait.until(lambda page: page.find_element("css selector", "input.score#m-correct").get_attribute("placeholder"))
        seen = chrome.find_element("tag name", "body").text
        assert "because SECRETMARK" in seen, "the mark scheme is shown to graders"
        assert "Because the bytes cross the bus twice." in seen
        assert "accepted" in seen, "the result of the kernel is shown"
        box.send_keys(str(points))
        chrome.find_element("css selector", "body").click()
        wait.until(lambda page: small.grades(student)["m-explain"].manual == points)
        keep = os.environ.get("WARPSCHOOL_SCREENSHOT")
        if keep:
            chrome.save_screenshot(keep)
    finally:
        chrome.quit()
