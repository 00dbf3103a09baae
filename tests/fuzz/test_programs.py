"""Random programs: what writes, launches, judges and records them."""

from __future__ import annotations

import json
import random

import pytest

from ptxsim import parse

from . import children, record
from .cuda import launching, programs

RACE = """// launch: grid 1 1 1 block 64 1 1 shared 0 arch compute_80 data 1 options
struct Parameters { unsigned words[5]; float scale; unsigned long long wide; short shorts[4]; int offset; };
extern "C" __global__ void k(const unsigned* x, const float* fy, const double* dy, unsigned* scratch, unsigned* out,
                             unsigned* sums, const Parameters p)
{
    __shared__ unsigned s[64];
    s[threadIdx.x] = x[threadIdx.x];
    BETWEEN
    out[threadIdx.x] = s[63 - threadIdx.x] + p.words[0];
}
"""


@pytest.mark.parametrize("mode", ["cuda", "silicon"])
def test_a_program_is_a_function_of_seed_and_number(mode):
    texts = [programs.program(mode, 3, number) for number in range(20)]
    assert texts == [programs.program(mode, 3, number) for number in range(20)]
    assert len(set(texts)) == 20
    for text in texts:
        assert str(programs.Launch.of(text)) == text.split("\n")[0]


def test_a_text_without_a_launch_is_refused():
    with pytest.raises(ValueError, match="launch: grid"):
        programs.Launch.of("__global__ void k() {}")


def test_what_is_wrong_is_a_difference():
    good = RACE.replace("BETWEEN", "__syncthreads();")
    left = launching.compare(good, random.Random(1))
    with pytest.raises(launching.Difference, match=r"^hazard with"):
        launching.compare(RACE.replace("BETWEEN", ""), random.Random(1))
    launch, ptx = launching.compiled(good)
    left.arrays[1][5] ^= 1  # as if the other one had left another bit
    inputs = launching.Inputs.of(launch)
    with pytest.raises(launching.Difference, match=r"out\[5\], thread 0, word 5: .* 1 words differ") as caught:
        launching.check_engine(parse(ptx).kernel("k"), launch, inputs, left, random.Random(1))
    assert children.signature(caught.value) == "bits"


def test_an_undefined_program_is_no_smaller_case():
    text = RACE.replace("BETWEEN", "__syncthreads();").replace("extern", "__device__ int f() {}\nextern", 1)
    with pytest.raises(ValueError, match="missing return"):
        launching.compiled(text.replace("p.words[0]", "f()"))


def test_findings_of_the_optimiser_become_an_outcome(monkeypatch):
    report = children.Report(outcomes=children.Counter(same=5, finding=2))
    for number in (3, 4):
        report.add(children.Finding(number, "bits", "", "text"))
    verdicts = {(3, 0): ""}
    monkeypatch.setattr(children, "verdict", lambda work, number, text: verdicts.get((number, work.level), "bits"))
    children.judged_again(children.Work("silicon", 1), report)
    assert report.outcomes == {"same": 5, "finding": 1, children.OPTIMISER: 1}
    assert report.optimised == [3]
    assert [finding.number for finding in report.findings["bits"]] == [4]


def test_a_run_that_goes_on_extends_its_row(tmp_path):
    figures = {
        "mode": "cuda", "seed": 1, "first": 0, "asked": 5, "cases": 5, "seconds": 1.0, "processor_s": 2.0,
        "outcomes": {"same": 5}, "resident_mb": 10, "slowest_s": 1.0, "findings": {}, "digests": {"0": "same"},
    }  # fmt: skip
    path = tmp_path / "fuzz.json"
    record.add(figures, path)
    record.add(figures | {"first": 5, "outcomes": {"same": 4, "finding": 1}, "findings": {"bits": 1}}, path)
    record.add(figures | {"first": 20}, path)
    rows = json.loads(path.read_text("utf-8"))["runs"]
    assert [(row["first"], row["cases"], row["outcomes"]) for row in rows] == [
        (0, 10, {"same": 9, "finding": 1}), (20, 5, {"same": 5}),
    ]  # fmt: skip
    assert rows[0]["findings"] == {"bits": 1}
    assert "digests" not in rows[0]
