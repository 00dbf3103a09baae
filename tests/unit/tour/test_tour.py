"""The tour: what it runs, what it finds, what its page says."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from warpschool.cli import app
from warpschool.cli.output import BAD_INPUT, FAILED, INTERRUPTED, LACKING, OK
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.errors import CourseError, DeviceUnavailable
from warpschool.grading import Verdict
from warpschool.inspect.timing import Timing
from warpschool.model import find_gpu
from warpschool.recorded import recorded
from warpschool.show.roofline import standing
from warpschool.show.tour import tour_page
from warpschool.tour import GpuFigures, Tour, TourPlan, plan_tour, run_tour
from warpschool.tour.run import RecordedKernel, product_flop, run_criterion, stated_criterion, without_barrier

TILED, NAIVE = "lab02_tiling/01_tiled", "lab01_naive_gemm/01_naive"


def plan_of(*names: str) -> TourPlan:
    return TourPlan(tuple(Course.find().step(name) for name in names), False, ("lab99: nothing yet",))


@pytest.fixture(scope="module")
def tour() -> Tour:
    *steps, mistake = run_tour(plan_of(NAIVE, TILED))
    return Tour(
        steps=tuple(steps), planned=2, mistake=mistake, gpu="GeForce RTX 2080 Ti", roofline_gpu=find_gpu("rtx2080ti"),
        device="the simulator",
        environment={"NVRTC": "13"}, left_out=("lab99: nothing yet",), seconds=1.0,
    )  # fmt: skip


def kernel_of(name: str) -> RecordedKernel:
    return RecordedKernel(parse_contract(Course.find().step(name).solution.read_text("utf-8"), name="kernel.cu"))


# ---------------------------------------------------------------- planning


def carried(step: str) -> float:
    """What the course carries of a reference's predicted time, in us, at a size like the tour's."""
    return next(row["us"] for row in recorded("clock_cost.json")["rows"] if row["step"] == step)


def test_one_step_of_each_finished_lab_and_the_ladder_goes_first():
    plan = plan_tour(device="sim")
    names = [step.name for step in plan.steps]
    assert NAIVE in names  # not the branch after it
    assert TILED in names
    assert len({step.lab for step in plan.steps}) == len(names)
    assert not plan.on_gpu


def test_every_step_that_has_a_reference_and_a_grader():
    finished = [s for s in Course.find().kernels() if s.solution and s.grader]
    assert list(plan_tour(every_step=True, device="sim").steps) == finished


def small_course(root, *, graded=()) -> Course:
    source = Course.find().step("lab00/01").solution.read_text("utf-8")
    for step in ("lab00_x/01_a", "lab00_x/02_b"):
        (root / "solutions" / step).parent.mkdir(parents=True, exist_ok=True)
        (root / "solutions" / f"{step}.cu").write_text(source)
    for name in graded:
        (root / "grader" / "lab00_x").mkdir(parents=True, exist_ok=True)
        (root / "grader" / "lab00_x" / f"test_{name}.py").write_text("")
    return Course(root)


def test_unfinished_steps_are_named(tmp_path):
    plan = plan_tour(device="sim", course=small_course(tmp_path, graded=["01_a"]))
    assert [step.name for step in plan.steps] == ["lab00_x/01_a"]
    assert plan.left_out == ("lab00_x: 02_b (no reference or no graded tests yet)",)


def test_a_course_with_nothing_finished(tmp_path):
    with pytest.raises(CourseError, match="no finished step"):
        plan_tour(device="sim", course=small_course(tmp_path))


def test_a_gpu_that_is_asked_for_must_be_there(monkeypatch):
    def missing(_which):
        raise DeviceUnavailable("no GPU here")

    monkeypatch.setattr("warpschool.tour.run.get_device", missing)
    with pytest.raises(DeviceUnavailable):
        plan_tour(device="gpu")


# ---------------------------------------------------------------- running


def test_the_climb_from_naive_to_tiled(tour):
    naive, tiled = tour.steps
    assert naive.right and tiled.right
    assert naive.report.counters.data_reuse == 1
    assert tiled.report.counters.data_reuse == 16
    assert tiled.report.counters.global_load_efficiency == 1
    assert naive.report.case == "M = N = K = 64"
    assert 0 < tiled.report.occupancy.fraction <= 1
    assert tiled.predicted_us == pytest.approx(carried("lab02/01_tiled"), rel=0.5), "of an H200, by the clock"
    assert tiled.report.registers > 0
    tiled_at, naive_at = (standing(step.step, step.report.counters, "rtx2080ti") for step in (tiled, naive))
    assert tiled_at.intensity > naive_at.intensity


def test_the_left_out_barrier_is_noticed(tour):
    mistake = tour.mistake
    assert mistake.removed_text.startswith("__syncthreads();")
    assert mistake.source.split("\n")[mistake.removed_line - 1] == ""
    assert mistake.hazard.kind == "race"
    assert "tile" in mistake.source.split("\n")[mistake.hazard.line - 1]
    assert mistake.hazard.thread != mistake.hazard.other_thread


def test_without_barrier_keeps_line_numbers():
    text, line = without_barrier("a\n  __syncthreads();  // why\nb\n__syncthreads();\n")
    assert (text, line) == ("a\n\nb\n__syncthreads();\n", 2)


def test_the_stated_case_is_the_counted_criterion():
    info, _ = stated_criterion(Course.find().step(TILED))
    assert "128" in info.counts


def test_a_wrong_kernel_is_not_right():
    kernel = kernel_of(NAIVE)

    def test_wrong(kernel, rng):
        sizes = {"M": 4, "N": 4, "K": 4}
        arrays = kernel.inputs(sizes, rng)
        kernel.check_against(kernel.run(sizes, arrays), {"C": arrays["A"] @ arrays["B"] + 1})

    assert run_criterion(test_wrong, kernel).verdict is Verdict.WA
    assert kernel.shown_run is not None


def test_a_criterion_that_wants_more_than_the_tour_has_is_the_graders_fault():
    def test_strange(kernel, moon):
        raise AssertionError(moon)

    assert run_criterion(test_strange, kernel_of(NAIVE)).verdict is Verdict.SE


def test_flop_of_products_only():
    contract = parse_contract(Course.find().step(NAIVE).solution.read_text("utf-8"), name="k.cu")
    assert product_flop(contract.bind({"M": 2, "N": 3, "K": 5})) == 60
    saxpy = parse_contract(Course.find().step("lab00/01").solution.read_text("utf-8"), name="k.cu")
    assert product_flop(saxpy.bind({"n": 4, "a": 1.0})) == 0


def test_ok_means_all_right_and_all_done(tour):
    assert tour.ok
    assert not dataclasses.replace(tour, interrupted=True).ok
    assert not dataclasses.replace(tour, planned=3).ok
    assert not dataclasses.replace(tour, mistake=dataclasses.replace(tour.mistake, hazard=None)).ok
    wrong = dataclasses.replace(tour.steps[0], verdict=Verdict.WA)
    assert not dataclasses.replace(tour, steps=(wrong, tour.steps[1])).ok


def test_json_holds_everything_and_no_nan(tour):
    text = json.dumps(tour.to_dict(), allow_nan=False)
    found = json.loads(text)
    assert found["steps"][1]["report"]["counters"]["fma_instructions"] == 128**3
    assert found["mistake"]["hazard"]["kind"] == "race"


# ---------------------------------------------------------------- the page


class Outline(HTMLParser):
    """Checks nesting while it collects headings, links, labels and table headers."""

    VOID = {"meta", "link", "br", "img", "path", "use", "rect", "stop"}  # noqa: RUF012 - a constant of a test

    def __init__(self):
        super().__init__()
        self.open, self.headings, self.tags = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def html(tour) -> str:
    return tour_page(tour)


@pytest.fixture(scope="module")
def outline(html) -> Outline:
    parser = Outline()
    parser.feed(html)
    assert parser.open == []
    return parser


def test_the_page_asks_nobody_for_anything(html, outline):
    addresses = [value for _, attributes in outline.tags for name, value in attributes.items()
                 if name in ("src", "href", "xlink:href") and value]  # fmt: skip
    assert addresses
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert "<script" not in html
    assert not re.search(r"url\((?!#)|@import", html)


def test_the_page_has_one_h1_and_no_gaps_below_it(outline):
    assert outline.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(outline.headings, outline.headings[1:], strict=False))


def test_links_lead_somewhere_and_ids_are_unique(outline):
    ids = [attributes["id"] for _, attributes in outline.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    targets = [a["href"][1:] for a in outline.all("a") if a.get("href", "").startswith("#")]
    assert targets and set(targets) <= set(ids)


def test_tables_are_tables(outline):
    assert len(outline.all("caption")) == len(outline.all("table"))
    assert all(header.get("scope") in ("row", "col") for header in outline.all("th"))


def test_the_plot_says_its_finding_in_words(outline):
    [plot] = outline.all("img")
    assert "is bounded at" in plot["alt"] and "times the arithmetic" in plot["alt"]


def test_nothing_is_said_by_colour_alone(html):
    assert "✓ right" in html
    assert re.search(r'<tr class="hot"[^>]*>.*?<b>\d+ %</b>', html)
    assert "(+8,192)" in html  # the naive kernel's excess sectors, in words


def test_light_and_dark(html):
    assert "prefers-color-scheme: dark" in html
    assert "color-scheme: light dark" in html
    assert not re.search(r"#0[1-7]0[1-7]0[1-7]", html)  # no stand-in colour of the plot is left


def test_times_stand_under_the_roofs_of_the_gpu_that_took_them(tour):
    timing = Timing(device="gpu", device_name="H200 SXM", driver="", flush="l2", n=9, median_ms=2.0, p10_ms=1.9,
                    p90_ms=2.1, min_ms=1.8, error=0.01, stable=True)  # fmt: skip
    gpu = GpuFigures(case="M = N = K = 4096", timing=timing, gflops=40_000.0, cublas=0.875)
    steps = (dataclasses.replace(tour.steps[0], gpu_note="not timed"), dataclasses.replace(tour.steps[1], gpu=gpu))
    measured = dataclasses.replace(tour, steps=steps, device="H200 SXM", roofline_gpu=find_gpu("h200"))
    page = tour_page(measured)
    assert "<td>2 ms</td><td>88 %</td>" in page
    [svg] = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    assert "lab02/01_tiled, measured" in base64.b64decode(svg).decode() and "reached 40,000 GFLOP/s" in page
    assert "On the GPU: not timed." in page
    elsewhere = tour_page(dataclasses.replace(measured, roofline_gpu=find_gpu("a100")))
    assert "<td>2 ms</td>" in elsewhere and "reached 40,000" not in elsewhere


def test_an_interrupted_tour_says_so(tour):
    page = tour_page(dataclasses.replace(tour, steps=tour.steps[:1], mistake=None, interrupted=True))
    assert "Interrupted: 1 of 2 steps" in page
    assert "without the barrier" not in page


def test_equal_tours_give_equal_pages(tour, html):
    assert tour_page(tour) == html


def test_text_from_kernels_is_escaped(tour):
    hostile = dataclasses.replace(tour.steps[0], title="<script>alert(1)</script>", verdict=Verdict.WA, seen="<b>")
    page = tour_page(dataclasses.replace(tour, steps=(hostile,)))
    assert "<script" not in page
    assert "&lt;b&gt;" in page


# ---------------------------------------------------------------- the command


@pytest.fixture
def short_tour(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("warpschool.tour.plan_tour", lambda **_: plan_of(NAIVE, TILED))
    return tmp_path


def test_the_command_prints_the_table_and_writes_the_page(short_tour):
    result = CliRunner().invoke(app, ["tour"])
    assert result.exit_code == OK
    row = next(line for line in result.stdout.splitlines() if line.startswith("lab02/01_tiled"))
    assert row.split()[1:4] == ["right", "100", "%"]
    assert "16x" in row
    assert "A mistake, caught" in result.stdout
    assert "[2/2] lab02_tiling/01_tiled: right" in result.stderr
    assert (short_tour / "tour.html").stat().st_size > 10_000
    assert [p.name for p in short_tour.iterdir()] == ["tour.html"]


def test_the_command_as_json(short_tour):
    result = CliRunner().invoke(app, ["tour", "--json", "--html", "page.html"])
    found = json.loads(result.stdout)
    assert (found["ok"], found["page"], len(found["steps"])) == (True, "page.html", 2)
    assert result.stderr == ""


def test_a_page_that_cannot_be_written_loses_no_result(short_tour, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", full)
    result = CliRunner().invoke(app, ["tour", "--html", "page.html"])
    assert result.exit_code == LACKING
    assert "lab02/01_tiled" in result.stdout
    assert "cannot write page.html: No space left on device" in result.stderr
    assert list(short_tour.iterdir()) == []


def test_a_step_that_is_wrong_fails_the_command(short_tour, monkeypatch):
    from warpschool.tour import TourStep

    wrong = TourStep(step=NAIVE, title="x", verdict=Verdict.WA, seen="C: 4 of 4 elements are wrong")
    monkeypatch.setattr("warpschool.tour.run.run_tour", lambda *_, **__: iter([wrong]))
    result = CliRunner().invoke(app, ["tour"])
    assert result.exit_code == FAILED
    assert "C: 4 of 4 elements are wrong" in result.stdout


def test_bad_places_and_gpus_are_refused_before_any_work(short_tour):
    for arguments in (["--html", "."], ["--html", "nowhere/page.html"], ["--gpu", "voodoo2"]):
        assert CliRunner().invoke(app, ["tour", *arguments]).exit_code == BAD_INPUT


def test_ctrl_c_keeps_what_is_done(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "warpschool", "tour", "--all", "--device", "sim"], cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 240
    while "[1/" not in process.stderr.readline() and time.monotonic() < deadline:
        pass
    process.send_signal(signal.SIGINT)
    said, problems = process.communicate(timeout=240)
    assert process.returncode == INTERRUPTED
    assert "lab00/01_saxpy" in said
    assert re.search(r"interrupted: \d+ of \d+ steps are done and kept", problems)
    assert "Interrupted:" in (tmp_path / "tour.html").read_text()
    assert "Traceback" not in problems
