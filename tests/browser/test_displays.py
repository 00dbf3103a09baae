"""The displays of notebooks and the tour's page in a real browser: axe-core finds nothing serious, buttons work."""

from __future__ import annotations

import re

import numpy as np
import pytest

import warpschool as ws
from warpschool.compile import compile_cuda
from warpschool.course import Course
from warpschool.errors import CompileError
from warpschool.grading import check
from warpschool.harness.launcher import run_kernel
from warpschool.inspect.timeline import Span, make_timeline
from warpschool.model import find_gpu
from warpschool.show.kernels import launch_html, run_html
from warpschool.show.page import page
from warpschool.show.results import compiled_html, failed_html, result_html
from warpschool.show.tour import tour_page
from warpschool.tour import Tour, TourPlan, run_tour

pytestmark = pytest.mark.slow

TILED = Course.find().step("lab02_tiling/01_tiled")
SIZES = {"M": 32, "N": 32, "K": 32}
NOTEBOOK = (
    '<!doctype html><html lang="en"><head><title>{title}</title></head><body {theme}><main>{body}</main></body></html>'
)
THEMES = {
    "light": 'data-jp-theme-light="true" style="background: #ffffff; color: #000000"',
    "dark": 'data-jp-theme-light="false" style="background: #111111; color: #ffffff"',
}
SHOWN = "return [...document.querySelectorAll('.frame')].map((frame) => frame.checkVisibility())"


def run(source: str):
    rng = np.random.default_rng(0)
    arrays = {name: rng.uniform(-1, 1, (32, 32)).astype(np.float32) for name in "AB"}
    return run_kernel(source, SIZES, arrays, device="sim", name="01_tiled.cu")


@pytest.fixture(scope="module")
def displays() -> dict[str, str]:
    """Every display of a notebook, by name."""
    right = TILED.solution.read_text("utf-8")
    lines = right.split("\n")
    barrier = max(k for k, line in enumerate(lines) if "__syncthreads" in line)
    racing = "\n".join(line for k, line in enumerate(lines) if k != barrier)
    wrong = right.replace("row < M && col < N", "row < M - 1 && col < N")
    broken = right.replace("float sum", "flaot sum")
    with pytest.raises(CompileError) as error:
        compile_cuda(broken, name="01_tiled.cu")
    padded = Course.find().step("lab04_bank_conflicts/01_transpose_padded")
    spans = [Span("in", "stream 1", 0.0, 1.0, "copy in"), Span("convolution", "stream 2", 0.5, 2.0)]
    good = run(right)
    return {
        "access": ws.show_access(good, kind="load", array="A")._repr_html_(),
        "banks": ws.show_access(good, space="shared")._repr_html_(),
        "fragments": ws.show_fragments("mma", "m16n8k16", "f16")._repr_html_(),
        "timeline": ws.show_timeline(make_timeline("a GPU", spans))._repr_html_(),
        "roofline": ws.roofline(good, gpu="rtx2080ti")._repr_html_(),
        "diff": ws.diff("lab01/01", "lab02/01", SIZES, references=True)._repr_html_(),
        "launch": launch_html(run(racing).launches[0]),
        "run": run_html(good),
        "race": result_html(check(TILED.name, racing, device="sim"), source=racing),
        "wrong": result_html(check(TILED.name, wrong, device="sim"), source=wrong),
        "accepted": result_html(check(TILED.name, right, device="sim"), source=right),
        "conflicts": result_html(check(padded.name, padded.starter, device="sim"), source=padded.starter.read_text()),
        "compiled": compiled_html(TILED.name, "01_tiled.cu", ["matmul: 38 registers"], right),
        "compiler": failed_html(TILED.name, "01_tiled.cu", error.value, broken),
    }


@pytest.mark.parametrize("theme", THEMES)
def test_displays_have_no_serious_issue(displays, look, issues, chrome, theme):
    body = "".join(f"<h2>{name}</h2>{markup}" for name, markup in displays.items())
    look(NOTEBOOK.format(title="Displays", theme=THEMES[theme], body=body), "displays", dark=theme == "dark")
    chrome.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert issues() == []
    pictures = chrome.execute_script("return [...document.images].map((i) => [i.alt.length, i.naturalWidth])")
    assert len(pictures) >= 8 and all(alt > 40 and width > 0 for alt, width in pictures)


def test_a_dark_notebook_has_dark_pictures(displays, look, chrome):
    for theme in THEMES:
        look(NOTEBOOK.format(title="t", theme=THEMES[theme], body=displays["access"]), f"picture-{theme}")
        image = chrome.find_element("css selector", ".frame img")
        assert image.value_of_css_property("color-scheme") == theme
        assert (_mean(image.screenshot_as_png) < 100) == (theme == "dark")


def test_pictures_are_stepped_through_by_keyboard(displays, look, chrome):
    from selenium.webdriver.common.keys import Keys

    look(NOTEBOOK.format(title="t", theme="", body=displays["access"]), "steps")
    count = len(chrome.execute_script(SHOWN))
    assert chrome.execute_script(SHOWN) == [True] + [False] * (count - 1)
    chrome.find_element("css selector", "[data-do='next']").send_keys(Keys.ENTER)
    assert chrome.execute_script(SHOWN) == [False, True] + [False] * (count - 2)
    assert chrome.find_element("css selector", ".place").text == f"2 of {count}"
    chrome.find_element("css selector", "[data-do='back']").send_keys(Keys.SPACE)
    assert chrome.execute_script(SHOWN)[0]
    play = chrome.find_element("css selector", "[data-do='play']")
    play.send_keys(Keys.ENTER)
    assert "Pause" in play.text
    play.send_keys(Keys.ENTER)
    assert "Play" in play.text
    play.send_keys(Keys.END)
    assert chrome.execute_script(SHOWN)[-1]
    assert chrome.find_element("css selector", ".place").text == f"{count} of {count}"
    play.send_keys(Keys.ARROW_LEFT)
    assert chrome.execute_script(SHOWN)[-2]
    play.send_keys(Keys.HOME)
    assert chrome.execute_script(SHOWN)[0]


def test_nothing_plays_for_those_who_want_no_motion(displays, look, chrome):
    look(NOTEBOOK.format(title="t", theme="", body=displays["access"]), "still", still=True)
    assert not chrome.find_element("css selector", "[data-do='play']").is_displayed()
    assert chrome.find_element("css selector", "[data-do='next']").is_displayed()


def test_an_export_without_scripts_shows_one_picture(displays, look, chrome):
    static = re.sub(r"<script>.*?</script>", "", displays["access"], flags=re.DOTALL)
    look(NOTEBOOK.format(title="t", theme="", body=static), "export")
    assert sum(chrome.execute_script(SHOWN)) == 1
    assert not chrome.find_element("css selector", ".controls").is_displayed()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_tours_page_has_no_serious_issue(look, issues, chrome, theme):
    steps = tuple(Course.find().step(name) for name in ("lab01_naive_gemm/01_naive", TILED.name))
    *done, mistake = run_tour(TourPlan(steps, False, ()))
    tour = Tour(
        steps=tuple(done), planned=2, mistake=mistake, gpu="GeForce RTX 2080 Ti", roofline_gpu=find_gpu("rtx2080ti"),
        device="the simulator", environment={"NVRTC": "13"}, left_out=(), seconds=1.0,
    )  # fmt: skip
    look(tour_page(tour), "tour", dark=theme == "dark")
    chrome.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert issues() == []


def test_an_exhibit_stands_in_a_page_of_its_own(look, issues):
    shown = ws.show_fragments("wmma", "m16n16k16", "f16")
    look(page("Fragments", f"<main><h1>Fragments</h1>{shown.html()}</main>"), "exhibit", dark=True)
    assert issues() == []


def _mean(png: bytes) -> float:
    import io

    from PIL import Image

    return float(np.asarray(Image.open(io.BytesIO(png)).convert("L")).mean())
