"""formgrader with a hostile hand-in in a real browser: no script of the student's ran, and what is legitimate shows.

A class of its own on a Jupyter server that listens on the loopback only; without Chromium the test is skipped, visibly.
"""

from __future__ import annotations

import http.cookiejar
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from . import hostile_texts as corpus

pytestmark = pytest.mark.slow
pytest.importorskip("nbgrader", reason="formgrader needs the extra 'teach'")

WAIT_S = 450
CALLS = "window.__ran = []; window.ran = (name) => { window.__ran.push(name); };"
FORMGRADER = "return typeof FormGrader === 'function' && typeof formgrader === 'object' && formgrader.loaded === true"
CLICK = "for (const a of document.querySelectorAll('.rendered_html a')) if (!/^https?:/.test(a.href)) a.click();"
HOVER = """
for (const e of document.querySelectorAll('.rendered_html *'))
  for (const kind of ['mouseover', 'focus', 'load', 'error', 'toggle', 'beforetoggle'])
    e.dispatchEvent(new Event(kind));
"""


@pytest.fixture(scope="module")
def server(hostile_class, tmp_path_factory):
    root = hostile_class.root
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = tmp_path_factory.mktemp("jupyter")
    folders = {name: str(own / name) for name in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR")}
    options = [f"--port={port}", "--ip=127.0.0.1", "--no-browser", "--allow-root", f"--ServerApp.root_dir={root}"]
    options += ["--IdentityProvider.token=", "--ServerApp.password=", "--ServerApp.disable_check_xsrf=False"]
    with (own / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyter_server", *options], cwd=root, env=os.environ | folders,
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        until(lambda: answers(address), f"the server: {(own / 'log').read_text()[-2000:]}")
        yield address
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def until(condition, what):
    end = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < end, f"waited {WAIT_S} s for {what}"
        time.sleep(0.5)
    return found


def answers(address) -> bool:
    try:
        return urllib.request.urlopen(f"{address}/api", timeout=2).status == 200
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture
def page(chrome, server, hostile_class):
    """formgrader's page of the hand-in, with a function in it that the attacks call."""
    listener = chrome.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": CALLS})
    address = f"{server}/formgrader/submissions/{hostile_class.submission}/"
    chrome.get(address)
    yield address
    chrome.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", listener)


def test_no_script_of_a_hand_in_ran(page, chrome):
    until(lambda: chrome.execute_script(FORMGRADER), "formgrader's own scripts")
    chrome.execute_script(HOVER)
    chrome.execute_script(CLICK)
    time.sleep(2)
    assert re.split("[#?]", chrome.current_url)[0] == page
    assert chrome.execute_script("return window.__ran") == []
    assert "evil.invalid" not in chrome.execute_script(
        "return performance.getEntriesByType('resource').map((e) => e.name).join(' ')"
    )


def test_the_policy_holds_where_the_sanitiser_would_not(page, chrome):
    """Markup put into the page by hand, past any sanitiser: the browser refuses to run it."""
    until(lambda: chrome.execute_script(FORMGRADER), "formgrader's own scripts")
    for text in corpus.MARKUP.values():
        if "evil.invalid" not in text and "<meta" not in text and "<form" not in text:
            chrome.execute_script(
                "const box = document.createElement('div');"
                "document.querySelector('.rendered_html').append(box);"
                "box.append(document.createRange().createContextualFragment(arguments[0]));", text,
            )  # fmt: skip
    chrome.execute_script(HOVER)
    time.sleep(2)
    assert chrome.execute_script("return window.__ran") == []


def test_what_is_legitimate_shows(page, chrome):
    formulas = "return document.querySelectorAll('.rendered_html .MathJax, .rendered_html .mjx-chtml').length"
    until(lambda: chrome.execute_script(formulas) >= 2, "MathJax")
    seen = chrome.execute_script(
        "const own = document.querySelectorAll('.rendered_html');"
        "return [...own].map((e) => [e.querySelectorAll('table').length,"
        "  [...e.querySelectorAll('img')].map((i) => i.complete && i.naturalWidth)]).find((e) => e[0])"
    )
    assert seen == [1, [1, 1]], "a table, a picture in the text and one beside the notebook"


def test_scores_and_comments_of_instructors_work(page, chrome):
    until(lambda: chrome.execute_script(FORMGRADER), "formgrader's own scripts")
    assert chrome.execute_script("return document.querySelectorAll('[id=\"m-explain\"]').length") == 1
    chrome.execute_script("$('#m-explain').val(2).change(); $('#m-explain-comment').val('well <b>said</b>').change();")
    time.sleep(3)
    chrome.get(page)
    until(lambda: chrome.execute_script("return $('#m-explain').val()"), "the score")
    assert chrome.execute_script("return [$('#m-explain').val(), $('#m-explain-comment').val()]") == [
        "2", "well <b>said</b>",
    ]  # fmt: skip
    chrome.execute_script("toggle_name(true)")
    assert chrome.execute_script("return $('a.name-shown').is(':visible')")


def test_the_feedback_page_runs_nothing(chrome, hostile_class):
    listener = chrome.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": CALLS})
    try:
        chrome.get(hostile_class.feedback.as_uri())
        chrome.execute_script(HOVER.replace(".rendered_html *", "body *"))
        time.sleep(1)
        assert chrome.execute_script("return window.__ran") == []
        assert chrome.current_url == hostile_class.feedback.as_uri()
    finally:
        chrome.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", listener)


def test_a_file_of_a_hand_in_runs_nothing(page, chrome, server):
    chrome.get(f"{page}evil.html")
    assert "a page of the student's" in chrome.page_source
    assert chrome.title != "ran"
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    assert "sandbox" in opener.open(f"{page}evil.html").headers["Content-Security-Policy"]
