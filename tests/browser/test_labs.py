"""`warpschool lab` in a real browser: a student opens a lab, writes a wrong and a right kernel, and sees what is said.

A JupyterLab runs on a loopback port. Pictures of what was seen, in both themes, go to pytest's temporary folder, or to
`WARPSCHOOL_SCREENSHOTS=FOLDER`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from warpschool.authoring.notebooks import grade_id, kernel_step, read_notebook
from warpschool.course import Course, Lab

pytestmark = pytest.mark.slow

pytest.importorskip("jupyterlab", reason="the lab extra is not installed")

COURSE = Course.find()
TOKEN = "loopback-only"
WAIT_S = 900
CONFIG = f"""
c.IdentityProvider.token = "{TOKEN}"
c.LabApp.expose_app_in_browser = True
c.ServerApp.port_retries = 0
"""
NO_NEWS = '{"fetchNews": "false"}'
CELL = "const cell = jupyterapp.shell.currentWidget.content.widgets[arguments[0]];"
READY = """
const panel = window.jupyterapp && jupyterapp.shell.currentWidget;
return Boolean(panel && panel.content && panel.content.widgets && panel.content.widgets.length == arguments[0]
    && panel.sessionContext && panel.sessionContext.session && panel.sessionContext.session.kernel
    && panel.sessionContext.session.kernel.status == 'idle');
"""
SELECT = """
const content = jupyterapp.shell.currentWidget.content;
content.activeCellIndex = arguments[0];
content.mode = 'command';
content.node.focus();
content.widgets[arguments[0]].node.scrollIntoView();
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a JupyterLab that `warpschool lab` started on a new copy of the course."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "config").mkdir()
    (folder / "config" / "jupyter_lab_config.py").write_text(CONFIG)
    quiet = folder / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True)
    quiet.write_text(NO_NEWS)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(folder / "config"), "JUPYTER_RUNTIME_DIR": str(folder / "run"),
        "IPYTHONDIR": str(folder / "ipython"), "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
    }  # fmt: skip
    command = [sys.executable, "-m", "warpschool", "lab", str(folder / "mine"), "--no-browser", f"--port={port}"]
    log = folder / "server.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=file, stderr=file, start_new_session=True
        )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_for(f"{address}/api/status?token={TOKEN}", process, log)
        yield address
    finally:
        os.killpg(process.pid, 15)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)


def _wait_for(address: str, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.5)


class Notebook:
    """A notebook that is open in JupyterLab, driven by its cells' grade ids and the keyboard."""

    def __init__(self, chrome, address: str, lab, artefacts: Path) -> None:
        self.chrome = chrome
        self.artefacts = artefacts
        cells = read_notebook(lab.notebook).cells
        self.places = {grade_id(cell): k for k, cell in enumerate(cells)}
        self.kernels = {kernel_step(cell): k for k, cell in enumerate(cells) if kernel_step(cell)}
        chrome.get(f"{address}/lab/tree/labs/{lab.name}/{lab.notebook.name}?token={TOKEN}&reset")
        self.wait(lambda: chrome.execute_script(READY, len(cells)))

    def wait(self, holds) -> None:
        deadline = time.monotonic() + WAIT_S
        while not holds():
            if time.monotonic() > deadline:
                self.picture("gave-up")
                pytest.fail("JupyterLab did not get there")
            time.sleep(0.3)

    def write(self, place: int, source: str) -> None:
        self.chrome.execute_script(CELL + "cell.model.sharedModel.setSource(arguments[1])", place, source)

    def run(self, place: int) -> str:
        """Run a cell with Shift and Enter, and return what stands below it."""
        from selenium.webdriver import ActionChains
        from selenium.webdriver.common.keys import Keys

        self.chrome.execute_script(CELL + "cell.model.executionCount = null; cell.model.outputs.clear()", place)
        self.chrome.execute_script(SELECT, place)
        ActionChains(self.chrome).key_down(Keys.SHIFT).send_keys(Keys.ENTER).key_up(Keys.SHIFT).perform()
        self.wait(lambda: self.chrome.execute_script(CELL + "return cell.model.executionCount !== null", place))
        self.chrome.execute_script(CELL + "cell.node.scrollIntoView()", place)
        time.sleep(0.5)  # the output is drawn after the count
        return self.chrome.execute_script(CELL + "return cell.outputArea.node.innerText", place)

    def output(self, place: int):
        return self.chrome.execute_script(CELL + "return cell.outputArea.node", place)

    def theme(self, name: str) -> None:
        self.chrome.execute_script("jupyterapp.commands.execute('apputils:change-theme', {theme: arguments[0]})", name)
        light = str(name.endswith("Light")).lower()
        self.wait(lambda: self.chrome.execute_script("return document.body.dataset.jpThemeLight") == light)

    def picture(self, name: str) -> None:
        """Keep what is seen, in both themes."""
        keep = Path(os.environ.get("WARPSCHOOL_SCREENSHOTS") or self.artefacts)
        keep.mkdir(parents=True, exist_ok=True)
        for theme in ("Dark", "Light"):
            self.theme(f"JupyterLab {theme}")
            time.sleep(0.3)
            assert self.chrome.save_screenshot(str(keep / f"{name}-{theme.lower()}.png"))


@pytest.fixture
def wide(chrome):
    chrome.set_window_size(1500, 1800)
    return chrome


@pytest.fixture
def open_lab(wide, server, tmp_path):
    """Open a lab's notebook and run its first cell."""

    def opened(name: str) -> tuple[Notebook, Lab]:
        lab = COURSE.lab(name)
        notebook = Notebook(wide, server, lab, tmp_path)
        assert "Kernels run on" in notebook.run(notebook.places[f"{lab.name[:5]}-00-setup"])
        return notebook, lab

    return opened


def solution(step: str) -> str:
    return f"%%kernel {step}\n" + COURSE.step(step).solution.read_text("utf-8")


def without_last_barrier(source: str) -> str:
    lines = source.split("\n")
    last = max(k for k, line in enumerate(lines) if "__syncthreads" in line)
    return "\n".join(line for k, line in enumerate(lines) if k != last)


def open_hints(output) -> list[str]:
    """Open a result's hints one inside the other, as a student does with Enter, and return what they say."""
    from selenium.webdriver.common.keys import Keys

    said = []
    for hint in output.find_elements("css selector", "details.hint"):
        text = hint.find_element("css selector", ":scope > p, :scope > pre")
        assert not text.is_displayed(), "hints wait to be opened"
        hint.find_element("css selector", "summary").send_keys(Keys.ENTER)
        assert text.is_displayed()
        said.append(text.text)
    return said


def test_lab_01_a_wrong_and_a_right_kernel(open_lab):
    notebook, lab = open_lab("lab01")
    step = lab.steps[0].name
    kernel = notebook.kernels[step]
    check = notebook.places["lab01-01-correct"]

    notebook.write(kernel, solution(step).replace("float sum", "flaot sum"))
    assert "flaot" in notebook.run(kernel)
    assert 'identifier "flaot" is undefined' in notebook.output(kernel).find_element("css selector", "tr.note").text
    notebook.picture("lab01-does-not-compile")

    wrong = solution(step).replace("C[row * N + col] = sum", "C[row * N + col] = sum + 1.0f")
    assert wrong != solution(step)
    notebook.write(kernel, wrong)
    assert "compiles" in notebook.run(kernel)
    said = notebook.run(check)
    assert "WA, wrong results" in said and "0 of 3 points" in said and "off by +1" in said, said
    output = notebook.output(check)
    rows = [row.text for row in output.find_elements("css selector", ".criteria tbody tr")]
    assert len(rows) == 1 and rows[0].startswith("Right answers") and "0 of 3" in rows[0]
    assert len(open_hints(output)) == 3
    wrong_map = output.find_element("css selector", ".frame img")
    assert "1,024 of 1,024 elements are wrong" in wrong_map.get_attribute("alt")
    notebook.picture("lab01-wrong")

    notebook.write(kernel, solution(step))
    notebook.run(kernel)
    said = notebook.run(check)
    notebook.picture("lab01-right")
    assert "AC, accepted" in said and "3 of 3 points" in said, said
    assert not notebook.output(check).find_elements("css selector", "details.hint")


def test_lab_05_a_racing_and_a_right_kernel(open_lab):
    notebook, lab = open_lab("lab05")
    step = lab.steps[0].name
    kernel = notebook.kernels[step]
    check = min(place for name, place in notebook.places.items() if place > kernel and "correct" in name)

    assert "compiles" in notebook.run(kernel), "the starter compiles"
    said = notebook.run(check)
    notebook.picture("lab05-starter")
    assert "WA, wrong results" in said and "0 of 3 points" in said, said

    notebook.write(kernel, without_last_barrier(solution(step)))
    notebook.run(kernel)
    said = notebook.run(check)
    assert "RACE" in said and "0 of 3 points" in said, said
    output = notebook.output(check)
    threads = [note.text for note in output.find_elements("css selector", "tr.note")][:2]
    assert threads[0].startswith("①") and "thread (" in threads[0] and "writes" in threads[0], threads
    assert threads[1].startswith("②") and "read it here" in threads[1], threads
    marked = [row.text for row in output.find_elements("css selector", "tr.hit")][:2]
    assert any("tileA[i][x] =" in row or "tileB[i][x] =" in row for row in marked), marked
    notebook.picture("lab05-race")

    notebook.write(kernel, solution(step))
    notebook.run(kernel)
    said = notebook.run(check)
    notebook.picture("lab05-right")
    assert "AC, accepted" in said and "3 of 3 points" in said, said
    assert all(f"{points} of {points}" in said for points in (0.6, 0.9)), "shares of the cell's three points"


def test_the_debugger_steps_in_a_notebook(open_lab):
    from selenium.webdriver.common.keys import Keys

    notebook, lab = open_lab("lab01")
    step = lab.steps[0].name
    kernel = notebook.kernels[step]
    notebook.write(kernel, solution(step))
    notebook.run(kernel)
    setup = notebook.places["lab01-00-setup"]
    notebook.write(setup, f'ws.trace("{step}", {{"M": 20, "N": 20, "K": 4}})')
    notebook.run(setup)
    output = notebook.output(setup)
    button = output.find_element("css selector", "[data-part='panel'] [data-do='next']")
    assert button.is_displayed(), "the script has run"
    status = output.find_element("css selector", "[data-part='status']")
    assert status.text.startswith("step 0 of")
    button.send_keys(Keys.ENTER)
    assert status.text.startswith("step 1 of")
    button.send_keys(Keys.ARROW_RIGHT)
    button.send_keys(Keys.ARROW_RIGHT)
    assert status.text.startswith("step 3 of")
    notebook.picture("debugger-in-a-notebook")
    here = output.find_elements("css selector", "tr.here")
    assert len(here) == 1 and "▸" in here[0].text
    number = here[0].find_element("css selector", "th")
    assert number.size["width"] < 120, "JupyterLab's own styles for tables do not reach the source"
    button.send_keys(Keys.ARROW_LEFT)
    assert status.text.startswith("step 2 of")


def test_a_prediction_is_entered_with_the_keyboard_alone(open_lab):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    pytest.importorskip("ipywidgets", reason="the lab extra is not installed")
    notebook, _ = open_lab("lab01")
    setup = notebook.places["lab01-00-setup"]
    notebook.write(setup, 'asked = ws.predict("sectors of a load", lambda: 4, name="sectors")\nasked')
    notebook.run(setup)
    output = notebook.output(setup)
    notebook.wait(lambda: output.find_elements("css selector", "input[type='text']"))
    (entry,) = output.find_elements("css selector", "input[type='text']")
    assert "Enter your prediction" in output.text and "counted" not in output.text

    def said() -> str:
        time.sleep(0.3)
        return output.find_element("css selector", "[role='status'], [role='alert']").text

    def after(*keys: str) -> None:
        before = output.text
        ActionChains(notebook.chrome).send_keys(*keys).perform()
        notebook.wait(lambda: output.text != before)

    entry.click()
    after("four", Keys.ENTER)
    assert "'four' is no number" in said()
    after(Keys.BACKSPACE * 4, "32", Keys.TAB, Keys.SPACE)
    assert "you said 32, counted 4, 8 times as few" in said()
    assert not entry.is_enabled(), "the first answer stays"
    notebook.picture("prediction-wrong")
    notebook.run(setup)
    notebook.wait(lambda: output.find_elements("css selector", "input[type='text']:enabled"))
    output.find_element("css selector", "input[type='text']").click()
    after("4", Keys.ENTER)
    assert "✓ sectors of a load: you said 4, counted 4." in said() and "sectors = 4" in said()
    notebook.picture("prediction-right")

    notebook.write(setup, 'import sys\nsys.modules["ipywidgets"] = None\nws.predict("sectors of a load", lambda: 4)')
    assert "Predict first: add .say(your number)" in notebook.run(setup)
    notebook.write(setup, 'ws.predict("sectors of a load", lambda: 4).say(4);')
    assert "you said 4, counted 4." in notebook.run(setup)


def test_an_error_in_a_notebook_is_a_sentence_with_the_next_step(open_lab):
    notebook, _ = open_lab("lab01")
    setup = notebook.places["lab01-00-setup"]
    for call, sentence in (
        ('ws.run("lab01/99", {"M": 32, "N": 32, "K": 32})', "there is no step 'lab01/99'"),
        ('ws.show_fragments("mma", "m1n1k1", "f16")', "There is mma:"),
        ("ws.show_access(None)", "show_access takes a launch, a run or a trace"),
    ):
        notebook.write(setup, f"x = 1\n{call}")
        said = notebook.run(setup)
        assert f"line 2: {call}" in said and sentence in said and len(said.splitlines()) < 8, said
    notebook.picture("an-error-in-a-notebook")
