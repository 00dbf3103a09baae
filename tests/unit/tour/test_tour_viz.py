"""The pieces of reports: highlighting, columns, frames, annotated source, the roofline, notebook displays."""

from __future__ import annotations

import base64
import html
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from ptxsim import Finding
from warpschool.counters import Counters
from warpschool.course import Course
from warpschool.grading import check
from warpschool.harness.launcher import run_kernel
from warpschool.model import Roofline
from warpschool.notebook.extension import register_displays
from warpschool.show.columns import percent, shares, short, times, used_columns
from warpschool.show.figures import figure_image
from warpschool.show.kernels import launch_html, run_html
from warpschool.show.notes import note_on
from warpschool.show.page import page
from warpschool.show.results import result_html
from warpschool.show.roofline import Standing, plottable, roofline_figure
from warpschool.show.source import Note, annotated_source, coloured_lines, excerpt

SAXPY = Course.find().step("lab00_first_kernels/01_saxpy")


@pytest.mark.parametrize("step", [step.name for step in Course.find().steps() if step.solution])
def test_highlighting_changes_no_character(step):
    source = Course.find().step(step).solution.read_text("utf-8")
    joined = "\n".join("".join(text for _, text in line) for line in coloured_lines(source))
    assert joined == source.removesuffix("\n")


def test_what_is_what():
    source = (
        '#include <x>\n/* two\nlines */ const float x = 1.5e3f; // "no string"\n__syncthreads(); f("a\\"b", \'c\');'
    )
    kinds = {text: kind for line in coloured_lines(source) for kind, text in line}
    assert kinds["#include <x>"] == "directive"
    assert kinds["/* two"] == kinds["lines */"] == kinds['// "no string"'] == "comment"
    assert (kinds["const"], kinds["float"], kinds["1.5e3f"]) == ("keyword", "type", "number")
    assert (kinds["__syncthreads"], kinds['"a\\"b"'], kinds["'c'"]) == ("cuda", "string", "string")


@pytest.mark.parametrize("source", ["", "\n", "a", "a\n", "a\n\n", "/* open", "\\", "'", '"'])
def test_highlighting_of_scraps(source):
    joined = "\n".join("".join(text for _, text in line) for line in coloured_lines(source))
    assert joined == source.removesuffix("\n")


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0"),
        (950, "950"),
        (99_999, "99,999"),
        (131_072, "131 k"),
        (1_048_576, "1.05 M"),
        (2e9, "2 G"),
        (999_999, "1,000 k"),
    ],
)
def test_short(count, said):
    assert short(count) == said


def test_nothing_to_measure_is_a_dash():
    assert percent(float("nan")) == times(float("nan")) == times(0.0) == times(float("inf")) == "-"
    assert (percent(0.755), times(16.0), times(1.5)) == ("76 %", "16x", "1.5x")


def test_columns_that_are_zero_everywhere_are_left_out_and_waste_is_written_out():
    lines = {
        3: Counters(warp_instructions=3, global_load_sectors=8, global_load_sectors_ideal=6),
        4: Counters(warp_instructions=1),
    }
    columns = used_columns(lines.values())
    assert [column.head for column in columns] == ["instructions", "load sectors"]
    assert columns[1].text(lines[3]) == "8 (+2)"
    assert columns[1].text(lines[4]) == columns[1].text(None) == ""
    assert shares(lines) == {3: 0.75, 4: 0.25}


def test_a_frame_marks_the_array_with_its_brackets():
    source = "a\n  x += tile[r[0]][k] * 2;  // tile\nb"
    note = note_on(source, 2, "reads shared tile at byte 4", array="tile")
    drawn = excerpt(source, [note], around=1)
    hit = drawn.lines[1].text
    assert hit[note.start : note.start + note.width] == "tile[r[0]][k]"
    assert [*drawn.terminal()][2].plain.strip() == "| " + " " * 7 + "^" * 13
    assert [line.number for line in drawn.lines] == [1, 2, 3]


def test_a_frame_without_an_array_marks_the_statement():
    note = note_on("\tgo();  // why", 1, "message")
    assert (note.start, note.width) == (4, 5)
    assert note_on("one line", 2, "x") is None
    assert note_on("one line", 0, "x") is None


@pytest.mark.parametrize(
    ("array", "variable"),
    [("shared tileA", "tileA"), ("x", "x"), ("shared memory", ""), ("global memory", ""), ("an array", ""), ("", "")],
)
def test_the_variable_of_a_finding(array, variable):
    assert Finding("race", 1, "k.cu", (0, 0, 0), (0, 0, 0), "read", "shared", array).variable == variable


def test_annotated_source_shades_hot_lines_and_puts_messages_below():
    lines = {1: Counters(warp_instructions=99), 2: Counters(warp_instructions=1)}
    text = annotated_source("hot<T>();\ncold();\n", lines, name="k.cu", notes=[Note(2, "race: <b>")])
    rows = re.findall(r"<tr.*?</tr>", text, re.DOTALL)[1:]
    assert 'class="hot"' in rows[0] and "99 %" in rows[0] and "hot&lt;T&gt;();" in rows[0]
    assert 'class="hot"' not in rows[1]
    assert "race: &lt;b&gt;" in rows[2]


def test_the_roofline_draws_what_can_be_drawn():
    standings = [
        Standing("a", 1, 0.5, 100.0, "DRAM"),
        Standing("none", 1, float("nan"), 1.0, "DRAM"),
        Standing("zero", 1, 0.0, 1.0, "DRAM"),
        Standing("m", 1, 4, 2e4, "DRAM", 9e3),
    ]
    assert [standing.label for standing in plottable(standings)] == ["a", "m"]
    picture = figure_image(roofline_figure(standings, Roofline.of("h200")), alt='it says "so" & <more>')
    assert html.unescape(re.search(r'alt="([^"]*)"', picture)[1]) == 'it says "so" & <more>'
    svg = base64.b64decode(re.search(r"base64,([^\"]+)", picture)[1]).decode()
    ET.fromstring(svg)
    assert ">a</text>" in svg and ">m, measured</text>" in svg
    assert "var(--ink)" in svg
    assert "none" not in re.findall(r">([^<]+)</text>", svg)
    assert picture == figure_image(roofline_figure(standings, Roofline.of("h200")), alt='it says "so" & <more>')


def test_a_page_is_whole():
    text = page("a < b", "<main></main>")
    assert text.startswith("<!doctype html>") and "<title>a &lt; b</title>" in text and 'lang="en"' in text


# ---------------------------------------------------------------- notebooks


def saxpy_run(source: str):
    x = np.ones(100, np.float32)
    return run_kernel(source, {"a": 2.0}, {"x": x, "y": x}, device="sim", name="01_saxpy.cu")


def test_launches_and_runs_show_counters_and_hazards():
    run = saxpy_run(SAXPY.solution.read_text().replace("if (i < n)", "if (true)"))
    said = run_html(run)
    assert "out-of-bounds" in said and "load sectors" in said and "z (100,)" in said
    launch = launch_html(run.launches[0])
    assert "grid 1x1x1, block 256x1x1" in launch and "out-of-bounds" in launch and "global_load_bytes" in launch


def test_a_result_shows_verdict_finding_and_hint():
    said = result_html(check(SAXPY.name, SAXPY.starter, device="sim"))
    assert "WA, wrong results" in said and "✗ WA" in said and "a nudge</summary><p>Some elements nobody writes." in said
    good = result_html(check(SAXPY.name, SAXPY.solution, device="sim"))
    assert "✓ met" in good and "Hint" not in good


def test_styles_of_displays_stay_inside_their_box():
    said = launch_html(saxpy_run(SAXPY.solution.read_text()).launches[0])
    style = re.search(r"<style>(.*?)</style>", said, re.DOTALL)[1]
    depth, selector, outermost = 0, "", []
    for character in style:
        if character == "{" and not depth:
            outermost.append(selector.strip())
        depth += {"{": 1, "}": -1}.get(character, 0)
        selector = "" if depth or character == "}" else selector + character
    assert len(outermost) == 2 and all(selector.endswith(".warpschool") for selector in outermost)


def test_ipython_uses_the_displays():
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    register_displays(shell)
    run = saxpy_run(SAXPY.solution.read_text())
    shown, _ = shell.display_formatter.format(run.launches[0])
    assert "global_load_bytes" in shown["text/html"]
    assert shown["text/plain"].startswith("saxpy of 01_saxpy.cu")
