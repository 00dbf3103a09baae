"""The built site in a real browser: every page opens, every link leads somewhere, search finds, axe-core is content.

The site is built for it without running the labs; `WARPSCHOOL_SITE=build/site` walks one that is there, as `make docs`
left it.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import os
import subprocess
import sys
import threading
import time
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path

import pytest

from warpschool.course import Course

ROOT = Path(__file__).parents[2]
GENERATORS = ("mkdocs", "material", "mkdocs_jupyter", "mkdocstrings")
WRITTEN = ("", "reference/commands/", "reference/python/", "reference/counters/", "learn/labs/", "teach/changes/")
"""pages that scripts/site.py writes"""
PAGES = sorted(
    {*WRITTEN, *(f"{path.relative_to(ROOT / 'docs').with_suffix('')}/" for path in (ROOT / "docs").rglob("*.md"))}
    | {f"learn/labs/{lab.name}/" for lab in Course.find().labs()}
)
AXE_SECONDS = 600  # the longest pages have ten thousand elements, and each one's contrast is measured

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(6000),  # the first test builds the site
    pytest.mark.skipif(
        not all(importlib.util.find_spec(name) for name in GENERATORS),
        reason="the docs extra is not installed: make docs installs it",
    ),
]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The site's folder."""
    if os.environ.get("WARPSCHOOL_SITE"):
        return (ROOT / os.environ["WARPSCHOOL_SITE"]).resolve()
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "scripts/site.py", "--no-run", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def address(built):
    """The site on a loopback port."""
    handler = functools.partial(_Quiet, directory=str(built))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Page(HTMLParser):
    """The links, ids and foreign resources of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in ("script", "img", "iframe") and given.get("src"):
            self.loads.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(given.get("href") or "")


def test_no_page_and_no_link_is_dead(built):
    pages = {path: _Page(path.read_text("utf-8")) for path in built.rglob("*.html")}
    assert len(pages) > 25
    dead = []
    for path, page in pages.items():
        if path.name == "404.html":  # its links are absolute: it may stand at any depth
            continue
        for link in (*page.links, *page.loads):
            target, _, anchor = link.partition("#")
            parts = urllib.parse.urlsplit(target)
            if parts.scheme in ("http", "https", "mailto", "data"):
                continue
            found = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            found = found / "index.html" if found.is_dir() else found
            if not found.is_file():
                dead.append(f"{path.relative_to(built)}: {link}")
            elif anchor and found in pages and urllib.parse.unquote(anchor) not in pages[found].ids:
                dead.append(f"{path.relative_to(built)}: {link} (no such heading)")
    assert not dead, "\n".join(dead[:30])


def test_every_page_is_looked_at(built):
    found = {path.parent.relative_to(built).as_posix().removeprefix(".") for path in built.rglob("index.html")}
    assert {f"{page}/" if page else "" for page in found} == set(PAGES)


def test_every_lab_and_every_subject_has_its_page(built):
    labs = {path.parent.name for path in (built / "learn" / "labs").glob("*/index.html")}
    assert labs == {lab.name for lab in Course.find().labs()} and len(labs) >= 14
    subjects = {
        "learn": {"start", "ladder", "debugger"},
        "teach": {"release", "grade", "cheats", "cluster", "fork", "new-lab", "jupyterhub"},
        "reference": {
            "python", "commands", "verdicts", "counters", "supported-ptx", "fidelity", "estimate", "simulator-cost",
        },
        "design": {"simulator", "add-an-instruction"},
    }  # fmt: skip
    for section, expected in subjects.items():
        assert expected <= {path.parent.name for path in (built / section).glob("*/index.html")}, section


def test_nothing_is_loaded_from_elsewhere(built):
    foreign = {
        load
        for path in built.rglob("*.html")
        for load in _Page(path.read_text("utf-8")).loads
        if urllib.parse.urlsplit(load).scheme in ("http", "https") or load.startswith("//")
    }
    assert not foreign


def test_every_page_can_be_reached_from_home(built):
    home = built / "index.html"
    seen, todo = set(), [home]
    while todo:
        path = todo.pop()
        if path in seen or not path.is_file() or path.suffix != ".html":
            continue
        seen.add(path)
        for link in _Page(path.read_text("utf-8")).links:
            parts = urllib.parse.urlsplit(link)
            if not parts.scheme and parts.path:
                found = (path.parent / urllib.parse.unquote(parts.path)).resolve()
                todo.append(found / "index.html" if found.is_dir() else found)
    lost = set(built.rglob("index.html")) - seen
    assert not lost


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("bank conflicts", "lab04"),
        ("warpschool debug", "debugger"),
        ("late policy", "teach"),
        ("derived counters", "counters"),
    ],
)
def test_search_finds(chrome, address, words, page):
    chrome.get(address)
    box = chrome.find_element("css selector", "input.md-search__input")
    chrome.execute_script("arguments[0].focus()", box)
    box.send_keys(words)
    deadline = time.monotonic() + 300
    links: list[str] = []
    while not links and time.monotonic() < deadline:
        time.sleep(0.2)
        found = chrome.find_elements("css selector", "a.md-search-result__link")
        links = [link.get_attribute("href") for link in found]
    assert any(page in link for link in links), links
    assert not [entry for entry in chrome.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_no_serious_issue(chrome, address, issues, page, scheme):
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    chrome.set_window_size(1300, 1000)
    chrome.get(f"{address}/{page}")
    chrome.execute_script("localStorage.clear()")
    chrome.refresh()
    keep = os.environ.get("WARPSCHOOL_SCREENSHOTS")
    if keep:
        Path(keep).mkdir(parents=True, exist_ok=True)
        chrome.save_screenshot(str(Path(keep) / f"site-{page.strip('/').replace('/', '-') or 'home'}-{scheme}.png"))
    chrome.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert issues(seconds=AXE_SECONDS) == []
