"""What `ws.show_access` and its relatives show: pictures with texts and tables, made from what was counted."""

from __future__ import annotations

import base64
import html
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import warpschool as ws
from ptxsim import Finding
from ptxsim.fragments import fragment
from warpschool.course import Course
from warpschool.errors import ArgumentError, CompileError, CourseError, NotMeasured
from warpschool.grading import Criterion, Result, Verdict
from warpschool.harness.compare import wrong_map
from warpschool.harness.launcher import run_kernel
from warpschool.inspect.timeline import Recorder, Span, Timeline, make_timeline
from warpschool.model import Roof, Roofline
from warpschool.notebook import cells
from warpschool.show.kernels import launch_html
from warpschool.show.notes import hazard_notes, observed_notes
from warpschool.show.results import compiled_html, failed_html, mismatch_exhibit, result_html
from warpschool.show.source import marked_source

TURN = """// turn.cu: a column of a tile, and an array that the kernel changes.
// Entry:   turn(const float x[n] in, float y[n] inout, int n)
// Launch:  turn block=(64) grid=(2)
extern "C" __global__ void turn(const float* __restrict__ x, float* __restrict__ y, int n)
{
    __shared__ float tile[32 * 33];
    const int i = threadIdx.x;
    tile[(i % 32) * 32 + i / 32] = x[(i * 8) % n];  // <b>"turned" & stored</b>
    __syncthreads();
    y[blockIdx.x * 64 + i] += tile[(i % 32) * 32 + i / 32];
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
    nothing = ws.show_access(run, array="z")
    assert "Nothing fits array='z'" in nothing.finding and not nothing.frames
    with pytest.raises(ArgumentError, match="no block 7"):
        ws.show_access(run.launches[0], block=7)
    with pytest.raises(ArgumentError, match="not str"):
        ws.show_access("lab01")


def test_pictures_that_follow_each_other_have_buttons_and_a_still():
    source = TURN.replace(
        "y[blockIdx.x * 64 + i] += tile[(i % 32) * 32 + i / 32];",
        "for (int k = 0; k < n / 64; ++k) { y[blockIdx.x * 64 + i] += x[k * 64 + i]; }",
    )
    x = np.arange(SIZE, dtype=np.float32)
    run = run_kernel(source, {"n": SIZE}, {"x": x, "y": x}, device="sim")
    shown = ws.show_access(run, 10, array="x", most=6)
    markup = shown._repr_html_()
    assert len(images(markup)) == 6 and "6 of the warp's 8 requests are drawn." in html.unescape(markup)
    assert markup.count('<figure class="frame" hidden>') == 5, "without a script one picture stands still"
    buttons = re.findall(r'<button type="button" data-do="(\w+)">', markup)
    assert buttons == ["first", "back", "play", "next", "last"]
    assert 'role="group" aria-label="Step through 6 pictures; arrow keys move" hidden' in markup
    assert "prefers-reduced-motion" in markup


def test_a_terminal_gets_text(run):
    out = StringIO()
    Console(file=out, width=100, color_system=None).print(ws.show_access(run))
    said = out.getvalue()
    assert "Warp 0 makes one request here" in said and "first byte" in said and "lane 31" in said
    assert "<" not in repr(ws.show_access(run, 10)).replace("<b>", "")


# ---------------------------------------------------------------- findings on their lines

RACE = Finding(
    "race", 5, "k.cu", (0, 0, 0), (0, 1, 0), "read", "shared", "shared tile", 4, other_thread=(3, 0, 0), other_line=2,
    other_did="write",
)  # fmt: skip
WAITS = Finding(
    "divergent-barrier", 3, "k.cu", (0, 0, 0), (0, 0, 0), "barrier", "", other_thread=(1, 0, 0), other_line=2,
    other_did="waits",
)  # fmt: skip
SEVERAL = replace(
    RACE, line=3, thread=(0, 0, 0), array="shared t", address=0, others="warp", other_warp=(0, 0, 0),
    other_thread=(7, 0, 0),
)  # fmt: skip
BLOCKS = replace(
    RACE, line=3, thread=(0, 0, 0), access="write", space="global", array="x", address=0, other_thread=(0, 0, 0),
    other_block=(1, 0, 0), other_line=0,
)  # fmt: skip
COPY = replace(RACE, line=3, other_did="copy")


def test_a_race_stands_on_both_lines_with_both_threads():
    source = "int a;\ntile[i] = 1;\n\n\nx = tile[j];\n"
    first, second = hazard_notes(source, [RACE])
    assert (first.line, second.line, second.is_second) == (5, 2, True)
    assert first.text.startswith("① race: thread (0, 1, 0) of block (0, 0, 0) reads shared tile at byte 4: without a")
    assert second.text == "② thread (3, 0, 0) wrote it here"
    assert source.split("\n")[4][first.start : first.start + first.width] == "tile[j]"
    assert source.split("\n")[1][second.start : second.start + second.width] == "tile[i]"
    table = marked_source(source, [first, second], name="k.cu", around=0)
    rows = re.findall(r"<tr.*?</tr>", table)
    kinds = [re.match(r'<tr(?: class="([^"]*)")?', row)[1] for row in rows]
    assert kinds == [None, "gap", "hit second", "note second", "gap", "hit", "note"]
    assert "<mark>tile[i]</mark>" in html.unescape(re.sub(r"</?span[^>]*>", "", rows[2]))


@pytest.mark.parametrize(
    ("found", "message", "said"),
    [
        (WAITS, "thread (0, 0, 0) of block (0, 0, 0) waits at a barrier that not all threads reach: thread (1, 0, 0) "
         "waits at the barrier of line 2", "② thread (1, 0, 0) waits at the barrier here"),
        (replace(WAITS, other_did="returned", other_line=0), "thread (0, 0, 0) of block (0, 0, 0) waits at a barrier "
         "that not all threads reach: thread (1, 0, 0) has already returned",
         "② thread (1, 0, 0) has already returned"),
        (SEVERAL, "thread (0, 0, 0) of block (0, 0, 0) reads shared t at byte 0, which several threads of the warp of "
         "thread (0, 0, 0) wrote in line 2: without a barrier between",
         "② several threads of the warp of thread (0, 0, 0) (one is thread (7, 0, 0)) wrote it here"),
        (BLOCKS, "thread (0, 0, 0) of block (0, 0, 0) writes x at byte 0, which thread (0, 0, 0) of block (1, 0, 0) "
         "wrote: no barrier orders blocks", "② thread (0, 0, 0) of block (1, 0, 0) wrote it"),
        (COPY, "thread (0, 1, 0) of block (0, 0, 0) reads shared tile at byte 4, to which the copy of line 2 is on its "
         "way: wait for it, then for the other threads", "② the copy is on its way here"),
    ],
)  # fmt: skip
def test_every_meeting_of_two_threads_is_told_twice(found, message, said):
    notes = hazard_notes("a;\nb;\nc;", [found])
    assert found.message == message
    assert [note.text for note in notes][1] == said
    assert notes[1].line == (found.other_line or 3)
    assert Finding.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_other_findings_are_one_note_and_a_line_that_is_not_there_none():
    said = Criterion("a", "A", 1, 0.0, Verdict.PERF, said="loads take <40> sectors", line=1)
    assert [n.text for n in observed_notes("a;", said)] == ["loads take <40> sectors"]
    assert hazard_notes("a;", [replace(RACE, line=2)]) == hazard_notes("a;", [replace(RACE, line=0)]) == []
    alone = replace(COPY, other_line=0)  # a copy without a line has no place of its own
    assert [note.text for note in hazard_notes("a;\nb;\nc;", [alone])] == [f"race: {alone.message}"]


def test_a_launch_shows_source_counters_and_hazards(run):
    said = launch_html(run.launches[0])
    assert "No hazards" in said and "load sectors" in said and "&lt;b&gt;" in said and "<b>&quot;" not in said
    racing = TURN.replace("__syncthreads();", "").replace("* 32 + i / 32];", "* 2 + i / 32];", 1)
    x = np.arange(SIZE, dtype=np.float32)
    bad = run_kernel(racing, {"n": SIZE}, {"x": x, "y": x}, device="sim")
    assert bad.hazards and '<tr class="note"><td></td>' in launch_html(bad.launches[0])


# ---------------------------------------------------------------- wrong results


@pytest.mark.parametrize("shape", [(1,), (100,), (3, 5), (33, 17), (127, 200), (2, 3, 40, 5), (1, 1000)])
def test_a_map_of_wrong_elements_adds_up(shape):
    rng = np.random.default_rng(len(shape))
    bad = rng.uniform(size=shape) < 0.3
    bad.flat[0] = True
    found = wrong_map(bad, name="C")
    assert len({len(row) for row in found.rows}) == 1 and len(found.rows) <= 32 and len(found.rows[0]) <= 64
    assert found.wrong == bad.sum() and found.count == bad.size
    flat = bad.reshape(-1, bad.shape[-1]) if bad.ndim > 1 else None
    if flat is not None:
        for row, marks in enumerate(found.rows):
            for column, mark in enumerate(marks):
                r, c = row * found.box_rows, column * found.box_columns
                share = flat[r : r + found.box_rows, c : c + found.box_columns].mean()
                expected = "#" if share == 1 else "." if not share else str(min(9, int(np.ceil(10 * share - 1e-9))))
                assert mark == expected
    exhibit = mismatch_exhibit(found)
    assert len(images(exhibit.html())) == 1 and str(found.wrong) in exhibit.frames[0].alt.replace(",", "")


def test_a_map_says_where():
    bad = np.zeros((20, 30), bool)
    bad[4:6] = bad[10, 3:9] = bad[10, 20] = True
    found = wrong_map(bad, name="<C>", pattern="zero: a & b")
    assert "rows 4 to 5, columns 0 to 29; row 10, columns 3 to 8, 20." in mismatch_exhibit(found).frames[0].alt
    assert mismatch_exhibit(found).sheets[0].rows[1] == ("row 10", "columns 3 to 8, 20")
    assert "<C>" not in mismatch_exhibit(found).html()
    assert str(found).splitlines()[11] == "...######...........#........."
    assert wrong_map(np.zeros((3, 3), bool), name="C") is None


def test_a_result_carries_its_map_and_its_hints():
    step = Course.find().step("lab02_tiling/01_tiled")
    source = step.solution.read_text().replace("row < M && col < N", "row < M - 1 && col < N")
    result = ws.check(step.name, source, device="sim")
    ragged = result.criterion("Right answers")
    assert ragged.wrong.rows[-1] == "#" * len(ragged.wrong.rows[-1]) and set("".join(ragged.wrong.rows[:-1])) == {"."}
    assert Result.from_json(result.to_json()) == result
    hidden = replace(result, criteria=tuple(replace(c, secret=not c.ok) for c in result.criteria)).for_student()
    assert not any(c.wrong for c in hidden.criteria)
    markup = result_html(result, source=source)
    alts = [alt for alt, _ in images(markup)]
    assert any("Map of C" in alt and "elements are wrong" in alt for alt in alts)
    nudge, place, pseudocode = ragged.hint
    opened = html.unescape(markup)
    assert opened.index(nudge) < opened.index(place) < opened.index(pseudocode)
    assert markup.count('<details class="hint">') == 3 * len({c.hint for c in result.criteria if c.hint and not c.ok})


# ---------------------------------------------------------------- kernel cells


def test_the_compilers_messages_stand_below_their_lines():
    source = TURN.replace("* 8) % n];", "* 8) % m];").replace("    y[blockIdx.x", "\ty[blockIdc.x")
    with pytest.raises(CompileError) as caught:
        ws.compile_cuda(source, name="turn.cu")
    shown = html.unescape(re.sub(r"</?span[^>]*>", "", failed_html("lab/turn", "turn.cu", caught.value, source)))
    assert "✗ does not compile: 2 errors" in shown
    rows = re.findall(r"<tr.*?</tr>", shown, re.DOTALL)
    first = next(k for k, row in enumerate(rows) if "<mark>m</mark>" in row)
    assert "▸ 8" in rows[first] and 'error: identifier "m" is undefined' in rows[first + 1]
    second = next(k for k, row in enumerate(rows) if "<mark>blockIdc</mark>" in row)
    assert "▸ 10" in rows[second] and "blockIdc" in rows[second + 1]


def test_a_kernel_that_compiles_is_shown_in_colour():
    shown = compiled_html("lab/turn", "turn.cu", ["turn: 10 registers"], TURN)
    assert "✓ compiles" in shown and '<span class="t-keyword">const</span>' in shown and "turn: 10 registers" in shown


# ---------------------------------------------------------------- roofline


def test_kernels_stand_under_the_roofs_of_any_gpu():
    own = Roofline("My <GPU>", 1000.0, (Roof("DRAM", 100.0),))
    counters = ws.Counters(fma_instructions=1000, global_load_sectors=100, global_load_bytes=3200)
    shown = ws.roofline({"mine": counters}, gpu=own, measured_ms={"mine": 2000 / 40 * 1e-6})
    [row] = shown.sheets[0].rows
    assert row == ("mine", "2,000", "0.625", "62", "6 %", "DRAM", "40")
    [(alt, svg)] = images(shown._repr_html_())
    assert "mine reached 40 GFLOP/s (bound 62), 4 % of the peak, at 0.625 FLOP per byte" in alt
    assert "My <GPU>" in alt and "<GPU>" not in shown._repr_html_()
    assert "mine, measured" in drawn_texts(svg) and "not measurements" in str(shown)
    named = ws.roofline(counters, counters, gpu="rtx2080ti")
    assert [row[0] for row in named.sheets[0].rows] == ["kernel", "kernel (2)"]
    assert "None of these kernels" in ws.roofline(ws.Counters(global_load_sectors=1)).finding
    with pytest.raises(ArgumentError, match="speaks of other"):
        ws.roofline({"mine": counters}, measured_ms={"other": 1.0})


# ---------------------------------------------------------------- fragments


def test_fragments_name_the_lane_of_each_element():
    shown = ws.show_fragments("mma", "m16n8k16", "f16", lane=5)
    assert [frame.label[:9] for frame in shown.frames] == ["Operand A", "Operand B", "Operand C"]
    held = fragment("mma", "m16n8k16", "f16", "a")
    rows = held.positions[5].reshape(-1, 2).tolist()
    assert all(f"({row}, {column})" in shown.frames[0].alt for row, column in rows)
    assert shown.sheets[0].rows[5][2] == " ".join(f"({r}, {c})" for r, c in held.positions[5, 1].tolist())
    (_, svg), *_ = images(shown._repr_html_())
    lanes = [text for text in drawn_texts(svg) if text and re.fullmatch(r"\d+|r\d", text)]
    boxes = [text for text in lanes if text.startswith("r")]
    assert len(boxes) == 256 and lanes.count("r3") == 64 and svg.count("stroke-width:2.4") == len(rows)
    integers = ws.show_fragments("mma", "m16n8k32", "s8")
    assert "with sums in s32" in integers.title
    with pytest.raises(ArgumentError, match="m9n9k9") as caught:
        ws.show_fragments("mma", "m9n9k9", "f16")
    assert "m16n8k16 (f16 bf16" in str(caught.value)
    with pytest.raises(ArgumentError, match="lane 32"):
        ws.show_fragments("mma", "m16n8k16", "f16", lane=32)


def test_the_fragments_of_a_kernel(run):
    with pytest.raises(ArgumentError, match="no matrix instruction"):
        ws.show_fragments(run)
    step = Course.find().step("lab07_tensor_cores/01_wmma_naive")
    sizes = {"M": 16, "N": 16, "K": 16, "alpha": 1.0, "beta": 0.0}
    rng = np.random.default_rng(0)
    arrays = {name: rng.uniform(-1, 1, (16, 16)).astype(t) for name, t in zip("ABC", ("f2", "f2", "f4"), strict=True)}
    product = run_kernel(step.solution.read_text(), sizes, arrays, device="sim")
    assert ws.show_fragments(product).title == "wmma m16n16k16, f16 with sums in f32"


# ---------------------------------------------------------------- timelines

SPANS = [
    Span("in <1>", "stream 1", 0.0, 1.0, "copy in"), Span("conv", "stream 1", 1.0, 3.0), Span("b", "stream 2", 0.5, 2.0)
]  # fmt: skip


def test_a_recorded_timeline_is_shown_anywhere(tmp_path):
    timeline = make_timeline("a GPU", SPANS)
    assert timeline.length_ms == 3.0 and timeline.work_ms == 4.5 and timeline.at_once_ms() == pytest.approx(1.5)
    path = tmp_path / "timeline.json"
    path.write_text(timeline.to_json())
    shown = ws.show_timeline(path)
    assert "4.5 ms of work in 3 ms: for 50 % of the time two or more things ran at once." in shown.finding
    [(alt, svg)] = images(shown._repr_html_())
    assert "in <1> in stream 1 from 0 to 1 ms" in alt and "<1>" not in shown._repr_html_()
    assert {"stream 1", "stream 2", "copy in", "kernel", "▪ conv", "↓ in <1>"} <= set(drawn_texts(svg))
    assert "nothing overlaps" in ws.show_timeline(SPANS[:2]).finding
    assert [row[0] for row in shown.sheets[0].rows] == ["in <1>", "b", "conv"]


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"format": 9, "device": "", "spans": []}', '{"format": 1, "device": "", "spans": []}',
     '{"format": 1, "device": "d", "spans": [{"name": "a", "stream": "s", "start_ms": 2.0, "end_ms": 1.0}]}'],
)  # fmt: skip
def test_what_is_no_timeline_says_so(text, tmp_path):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(ArgumentError):
        ws.show_timeline(tmp_path / "t.json")


class Clock:
    """A device whose events take the time of one counter."""

    measures_time, description = True, "a clock"

    def __init__(self):
        self.now = 0.0

    def Event(self):
        device = self

        class Event:
            def record(self, stream=None):
                device.now += 1.0
                self.time = device.now

        return Event()

    def elapsed_ms(self, start, end):
        return end.time - start.time

    def synchronize(self):
        pass


def test_a_recorder_puts_events_around_work():
    device, one, two = Clock(), object(), object()
    recorder = Recorder(device)
    with recorder.span("in", one, kind="copy in"), recorder.span("kernel", two):
        pass
    with recorder.span("out"):
        pass
    timeline = recorder.finish()
    assert [(s.name, s.stream, s.start_ms, s.end_ms) for s in timeline.spans] == [
        ("in", "stream 1", 1.0, 4.0), ("kernel", "stream 2", 2.0, 3.0), ("out", "default stream", 5.0, 6.0),
    ]  # fmt: skip
    assert Timeline.from_json(timeline.to_json()) == timeline
    with pytest.raises(NotMeasured, match="no clock"):
        Recorder(ws.get_device("sim"))


# ---------------------------------------------------------------- two steps


def test_a_difference_shows_lines_and_counters():
    shown = ws.diff("lab01/01", "lab02/01", {"M": 32, "N": 32, "K": 32}, references=True)
    assert "14 lines added, 3 removed" in shown.finding and "global load bytes ÷ 16" in shown.finding
    rows = {row[0]: row[1:] for row in shown.sheets[0].rows}
    assert rows["fma instructions"] == ("32,768", "32,768", "same") and rows["barriers"][2] == "new"
    markup = shown._repr_html_()
    assert markup.count('<tr class="added">') == 14 and '<span class="hidden">removed</span>-' in markup
    assert "+    __shared__ float tileA[TILE][TILE];" in str(shown) and shown.note == "Counted at M = N = K = 32."


def test_a_difference_takes_ones_own_kernels():
    source = Course.find().step("lab00/01").solution.read_text()
    cells.remember("lab00_first_kernels/01_saxpy", source.replace("int i =", "int i = <b>"))
    try:
        shown = ws.diff("lab00/01", "lab00/01")
        assert "The code is the same" in shown.finding and "not counted" in shown.note and not shown.sheets
        cells.remember("lab00_first_kernels/01_saxpy", source)
        assert "every counter is the same" in ws.diff("lab00/01", "lab00/01", {"n": 64}).finding
    finally:
        cells.forget_all()
    with pytest.raises(CourseError):
        ws.diff("lab00/01", "lab77/01")


# ---------------------------------------------------------------- any figure


def test_every_figure_of_a_notebook_has_a_text_and_a_table():
    import matplotlib.pyplot as plt
    from IPython.core.interactiveshell import InteractiveShell

    from warpschool.notebook.extension import register_displays
    from warpschool.show.figures import figure_sheet, figure_text

    figure, (left, right) = plt.subplots(1, 2)
    left.plot([1, 2], [10.0, float("nan")], label="<counted>")
    left.plot([1, 2], [0, 0])
    left.set(title="MB loaded", xlabel="TILE")
    right.barh(["naive", "tiled"], [3, 0.5])
    plt.close(figure)
    said = figure_text(figure)
    assert "MB loaded, against TILE: <counted>: 10 at 1, not measured at 2" in said
    assert "3 at naive, 0.5 at tiled" in said
    assert len(figure_sheet(figure).rows) == 4
    shell = InteractiveShell()
    register_displays(shell)
    shown, _ = shell.display_formatter.format(figure)
    assert (
        'alt="MB loaded, against TILE: &lt;counted&gt;' in shown["text/html"] and "<counted>" not in shown["text/html"]
    )
    figure.set_label("The finding.")
    assert figure_text(figure) == "The finding."
