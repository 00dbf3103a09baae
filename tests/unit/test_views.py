"""What `ws.show_access` and its relatives show: pictures with texts and tables, made from what was counted."""

from __future__ import annotations

import base64
import html
import re
import xml.etree.ElementTree as ET
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import warpschool as ws
from warpschool.errors import ArgumentError
from warpschool.launcher import run_kernel

TURN = """// turn.cu: a column of a tile, and an array that the kernel changes.
// Entry:   turn(const float x[n] in, float y[n] inout, int n)
// Launch:  turn block=(64) grid=(2)
extern "C" __global__ void turn(const float* __restrict__ x, float* __restrict__ y, int n)
{
    __shared__ float tile[32 * 33];
    const int i = threadIdx.x;
    tile[(i % 32) * 32 + i / 32] = x[(i * 8) % n];  // <b>"turned" & stored</b>
    __syncthreads();
    y[i] += tile[(i % 32) * 32 + i / 32];
}
"""
SIZE = 512


@pytest.fixture(scope="module")
def run():
    x = np.arange(SIZE, dtype=np.float32)
    return run_kernel(TURN, {"n": SIZE}, {"x": x, "y": x}, device="sim", name="turn.cu")


def images(markup: str) -> list[tuple[str, str]]:
    """(alternative text, SVG) of each picture; all of them are well-formed."""
    found = re.findall(r'<img alt="([^"]*)"[^>]*src="data:image/svg\+xml;base64,([^"]+)"', markup)
    pictures = [(html.unescape(alt), base64.b64decode(data).decode()) for alt, data in found]
    for _, svg in pictures:
        ET.fromstring(svg)
    return pictures


def drawn_texts(svg: str) -> list[str]:
    return [element.text for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


# ---------------------------------------------------------------- show_access


def test_the_most_wasteful_line_is_shown(run):
    shown = ws.show_access(run)
    assert shown.title == "Line 8, store of shared tile"
    assert shown.finding == "Warp 0 makes one request here; it takes 32 passes, where 1 would do."
    [(alt, svg)] = images(shown._repr_html_())
    assert alt.startswith("Request 1 of 1, 4 bytes a lane: 32 passes, 1 would do. Lanes 0 to 31 touch addresses 128")
    assert "they lie in 1 of 32 banks" in alt
    assert "pass 32 +" in drawn_texts(svg) and "pass 1" in drawn_texts(svg)


def test_sectors_of_a_line_and_a_warp(run):
    shown = ws.show_access(run, 8, space="global", warp=1)
    assert "Warp 1 makes one request here; it takes 32 sectors, where 4 would do." in shown.finding
    [(alt, svg)] = images(shown._repr_html_())
    assert "addresses 32 bytes apart, from byte 1,024 of x on" in alt
    assert "128 of 1,024 bytes moved were asked for (12 %); hatched: moved for nothing" in drawn_texts(svg)
    rows = [row.split() for row in str(shown).splitlines() if row.startswith("lane ")]
    assert rows[1:3] == [["lane", "0", "1,024", "32"], ["lane", "1", "1,056", "33"]]


def test_what_was_counted_is_what_is_shown(run):
    line = run.lines[8]
    sectors = [int(ws.show_access(run, 8, space="global", warp=w, block=b).sheets[0].rows[0][5])
               for w in (0, 1) for b in (0, 1)]  # fmt: skip
    assert sum(sectors) == line.global_load_sectors
    passes = [int(ws.show_access(run, 8, space="shared", warp=w, block=b).sheets[0].rows[0][5])
              for w in (0, 1) for b in (0, 1)]  # fmt: skip
    assert sum(passes) == line.shared_store_wavefronts


def test_showing_changes_nothing_and_takes_launches_and_traces(run):
    [launch] = run.launches
    arrays = [a for a in launch.call.arguments if isinstance(a, ws.DeviceArray)]
    before = [a.get() for a in arrays]
    shown = ws.show_access(launch, 8, space="global")
    assert shown.code == 'tile[(i % 32) * 32 + i / 32] = x[(i * 8) % n];  // <b>"turned" & stored</b>'
    assert all(a.get().tobytes() == old.tobytes() for a, old in zip(arrays, before, strict=True))
    assert ws.show_access(run, 8, space="global").text() == shown.text()


def test_students_text_is_escaped(run):
    markup = ws.show_access(run, 8)._repr_html_()
    assert "<b>&quot;turned" not in markup and "&lt;b&gt;&quot;turned&quot; &amp; stored" in markup


def test_what_does_not_fit_says_what_there_is(run):
    with pytest.raises(ArgumentError, match="line=5") as caught:
        ws.show_access(run, 5)
    assert "line 8: load of x (global), store of tile (shared)" in str(caught.value)
    with pytest.raises(ArgumentError, match="no block 7"):
        ws.show_access(run.launches[0], block=7)
    with pytest.raises(ArgumentError, match="not str"):
        ws.show_access("lab01")


def test_pictures_that_follow_each_other_have_buttons_and_a_still():
    source = TURN.replace(
        "y[i] += tile[(i % 32) * 32 + i / 32];", "for (int k = 0; k < n / 64; ++k) { y[i] += x[k * 64 + i]; }"
    )
    x = np.arange(SIZE, dtype=np.float32)
    run = run_kernel(source, {"n": SIZE}, {"x": x, "y": x}, device="sim")
    shown = ws.show_access(run, 10, array="x", most=6)
    markup = shown._repr_html_()
    assert len(images(markup)) == 6 and "6 of the warp's 8 requests are drawn." in html.unescape(markup)
    assert markup.count('<figure class="frame" hidden>') == 5, "without a script one picture stands still"
    buttons = re.findall(r'<button type="button" data-do="(\w+)">', markup)
    assert buttons == ["first", "back", "play", "next"]
    assert 'role="group" aria-label="Step through 6 pictures" hidden' in markup
    assert "prefers-reduced-motion" in markup


def test_a_terminal_gets_text(run):
    out = StringIO()
    Console(file=out, width=100, color_system=None).print(ws.show_access(run))
    said = out.getvalue()
    assert "Warp 0 makes one request here" in said and "first byte" in said and "lane 31" in said
    assert "<" not in repr(ws.show_access(run, 10)).replace("<b>", "")
