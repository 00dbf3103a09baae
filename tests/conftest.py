"""Fixtures for tests that look at pages in a browser; where a tool is missing they are skipped, visibly.

`npm install axe-core` in the checkout, `WARPSCHOOL_AXE=/path/axe.min.js` or the package axe-core-python brings axe.
`WARPSCHOOL_SCREENSHOTS=FOLDER` keeps a picture of every page that was looked at.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import signal
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import hypothesis
import pytest
from tests import cell_work

from warpschool.grading import nursery

_ROOT = Path(__file__).parents[1]
_SERIOUS = ("serious", "critical")
_LITTLE_S = 30.0

# Tests look at what they start, and a process that waits in the background is none of it: tests/unit/warm has its own.
os.environ["WARPSCHOOL_WARM"] = "0"

# No test's outcome may depend on how busy the machine is: neither may an example's time.
hypothesis.settings.register_profile("busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("busy")

# Collecting garbage as often as usual would look through thousands of test functions again and again.
gc.set_threshold(50_000, 20, 50)

# A shell starts what runs behind it with SIGINT ignored, and children inherit that: Ctrl-C could not be tested there.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a thinned test's cases the first stays quick, and of each further n one; `make test-all` runs all.

    Which of the n is drawn from the test's name: every n-th would leave out one side of what cases are paired of.
    """
    seen: Counter[str] = Counter()
    for item in items:
        thinned = item.get_closest_marker("thinned")
        if thinned is None:
            continue
        name, of = item.nodeid.split("[")[0], thinned.args[0]
        turn, place = divmod(seen[name], of)
        if place != (zlib.crc32(f"{name} {turn}".encode()) % of if turn else 0):
            item.add_marker(pytest.mark.slow)
        seen[name] += 1


@pytest.fixture(scope="session")
def _set_aside() -> Iterator[list[nursery.Nursery]]:
    """The process whose forks are checks, where a module has asked for it and the one at hand has not."""
    kept: list[nursery.Nursery] = []
    yield kept
    for one in kept:
        one.close()


@pytest.fixture(scope="module")
def forked_checks(_set_aside) -> Iterator[None]:
    """Checks of this module's tests are forks of one process that has loaded what they need, as a class's are.

    Loading takes seconds: the next module that asks finds the same process. In between nobody does.
    """
    nursery.take_up(_set_aside)
    _set_aside.clear()
    yield
    _set_aside.extend(nursery.set_aside())


@contextmanager
def _takes_little(what: str = "") -> Iterator[None]:
    start = time.process_time()
    yield
    took = time.process_time() - start
    assert took < _LITTLE_S, f"{took:.0f} s of processor time: {what}"


@pytest.fixture
def takes_little() -> Callable[..., AbstractContextManager[None]]:
    """For work on large hostile texts that takes a second or two, and minutes where it is quadratic in their size.

    The limit of processor time is 15 times that, which no other program's load makes of it.
    """
    return _takes_little


@pytest.fixture
def lines_run() -> Callable[[Callable[[], object]], int]:
    """How many lines of Python some work runs: what it costs, whatever else the machine does."""

    def counted(work: Callable[[], object]) -> int:
        count, before = 0, sys.gettrace()

        def trace(frame: object, event: str, _: object) -> object:
            nonlocal count
            count += event == "line"
            return trace

        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(before)
        return count

    return counted


@pytest.fixture
def simulated(monkeypatch) -> cell_work.Simulated:
    """Counts from here to the end of the test."""
    return cell_work.count(monkeypatch.setattr)


def _axe_source() -> str:
    """The text of axe.min.js; skips the test where it is not installed."""
    found = [Path(os.environ.get("WARPSCHOOL_AXE", "")), _ROOT / "node_modules" / "axe-core" / "axe.min.js"]
    spec = importlib.util.find_spec("axe_core_python")
    if spec is not None and spec.origin:
        found.append(Path(spec.origin).parent / "axe.min.js")
    for path in found:
        if path.is_file():
            return path.read_text("utf-8")
    pytest.skip("axe-core is not installed: npm install axe-core, or pip install axe-core-python")


@pytest.fixture(scope="module")
def chrome():
    """Headless Chromium under Selenium."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")
    tools = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in tools:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = tools[0]
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1100,900"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(tools[1]))
    driver.set_page_load_timeout(300)
    yield driver
    driver.quit()


@pytest.fixture
def look(chrome, tmp_path) -> Callable[..., None]:
    """Open a page, in the light or the dark, with or without motion."""

    def open_page(page: str, name: str, *, dark: bool = False, still: bool = False) -> None:
        path = tmp_path / f"{name}.html"
        path.write_text(page, "utf-8")
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"},
        ]
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        chrome.get(path.as_uri())
        keep = os.environ.get("WARPSCHOOL_SCREENSHOTS")
        if keep:
            Path(keep).mkdir(parents=True, exist_ok=True)
            height = min(8000, chrome.execute_script("return document.documentElement.scrollHeight"))
            size = {"width": 1100, "height": height, "deviceScaleFactor": 1, "mobile": False}
            chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            chrome.save_screenshot(str(Path(keep) / f"{name}-{'dark' if dark else 'light'}.png"))
            chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    return open_page


@pytest.fixture
def issues(chrome) -> Callable[..., list[str]]:
    """What axe-core calls serious or critical on the open page, by all of its rules or some; a long page may take
    it some minutes."""
    source = _axe_source()

    def found(*, seconds: float = 600, rules: Sequence[str] = ()) -> list[str]:
        chrome.execute_script(source)
        chrome.set_script_timeout(seconds)
        result = chrome.execute_async_script(
            "const [only, done] = arguments; const options = {resultTypes: ['violations']};"
            "if (only.length) options.runOnly = only;"
            "axe.run(options).then(done, (e) => done({error: `${e}`}))",
            list(rules),
        )
        assert "error" not in result, result["error"]
        return [
            f"{violation['id']}: {violation['help']}: {node['html'][:200]}: {node.get('failureSummary', '')}"
            for violation in result["violations"]
            if violation["impact"] in _SERIOUS
            for node in violation["nodes"][:3]
        ]

    return found
