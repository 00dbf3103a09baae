"""The built site in a real browser: every link leads somewhere, search finds, and pages are looked at: axe-core in the
light and in the dark, a phone's width, paper.

A few pages of each kind are looked at (`make walk`), or all of them (`WARPSCHOOL_WALK=all`, `make walk-all`).

The site is built for it without running the labs; `WARPSCHOOL_SITE=build/site` walks one that is there, as `make docs`
left it.
"""

from __future__ import annotations

import base64
import functools
import http.server
import importlib.util
import os
import re
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
FEW = ("", "learn/route/", "learn/lab02/", "learn/labs/lab02_tiling/", "reference/commands/", "teach/syllabus/")
LOOKED_AT = PAGES if os.environ.get("WARPSCHOOL_WALK") == "all" else FEW
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


@pytest.mark.parametrize("page", LOOKED_AT)
def test_a_page_in_light_and_dark_on_a_phone_and_on_paper(chrome, address, issues, page):
    seen = _Looks(chrome, f"{address}/{page}", page)
    seen.open(_DESK, "light")
    found = [f"light: {issue}" for issue in issues(seconds=AXE_SECONDS)]
    seen.open(_DESK, "dark")  # what differs there is colour
    found += [f"dark: {issue}" for issue in issues(seconds=AXE_SECONDS, rules=["color-contrast"])]
    seen.open(_PHONE, "light")
    found += [f"on a phone: {one} sticks out" for one in chrome.execute_script(_STICKS_OUT)]
    moves = issues(seconds=AXE_SECONDS, rules=["scrollable-region-focusable"])
    found += [f"on a phone: {issue}" for issue in moves]
    folds, sheets = seen.printed()
    found += [f"on paper: {folds} folds stay closed"] if folds else []
    found += [] if sheets else ["on paper: nothing"]
    assert not [entry for entry in chrome.get_log("browser") if entry["level"] == "SEVERE"]
    assert found == []


_DESK, _PHONE = (1300, 1000), (390, 844)
_OPEN = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
_STICKS_OUT = """
const width = document.documentElement.clientWidth, found = [];
const moves = (one) => one.tagName != 'BODY' &&
  (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(one).overflowX) || moves(one.parentElement));
for (const one of document.querySelectorAll('article *'))
  if (one.getBoundingClientRect().width && one.getBoundingClientRect().right > width + 1 && !moves(one.parentElement))
    found.push(`${one.tagName}.${one.className}: ${(one.textContent || '').trim().slice(0, 60)}`);
return found.slice(0, 4);
"""
"""What is wider than the page and in no box that moves sideways."""


class _Looks:
    """A page, looked at in several ways."""

    def __init__(self, chrome, address: str, page: str) -> None:
        self.chrome, self.address, self.name = chrome, address, page.strip("/").replace("/", "-") or "home"

    def open(self, size: tuple[int, int], scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
        size_of = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == _PHONE}
        self.chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size_of)
        self.chrome.get(self.address)
        self.chrome.execute_script("localStorage.clear()")
        if keep := os.environ.get("WARPSCHOOL_SCREENSHOTS"):
            Path(keep).mkdir(parents=True, exist_ok=True)
            self.chrome.save_screenshot(str(Path(keep) / f"site-{self.name}-{size[0]}-{scheme}.png"))
        self.chrome.execute_script(_OPEN)

    def printed(self) -> tuple[int, int]:
        """(folds that stay closed on paper, sheets)."""
        self.chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.chrome.get(self.address)
        self.chrome.execute_script(_COUNTS_FOLDS)
        pdf = base64.b64decode(self.chrome.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
        if keep := os.environ.get("WARPSCHOOL_SCREENSHOTS"):
            (Path(keep) / f"site-{self.name}.pdf").write_bytes(pdf)
        return self.chrome.execute_script("return window.foldsOnPaper"), len(re.findall(rb"/Type /Page\b", pdf))


_COUNTS_FOLDS = """
const shut = () => [...document.querySelectorAll('article details')].filter((one) => !one.open).length;
window.foldsOnPaper = shut();
window.matchMedia('print').addEventListener('change', (event) => { if (event.matches) window.foldsOnPaper = shut(); });
window.addEventListener('beforeprint', () => { window.foldsOnPaper = shut(); });
"""
