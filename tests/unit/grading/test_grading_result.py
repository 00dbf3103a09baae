"""Verdicts and the result object."""

from __future__ import annotations

import json

import pytest

from warpschool import errors
from warpschool.compile import compile_cuda
from warpschool.grading.result import Criterion, Result, make_result, to_text
from warpschool.grading.verdicts import Verdict, judge, verdict_of_hazard, worst


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (errors.CompileError("x"), Verdict.CE),
        (errors.CompileLimitError("x"), Verdict.CLE),
        (errors.PolicyError("x"), Verdict.RJ),
        (errors.EntryError("x"), Verdict.NE),
        (errors.LaunchLineError("x"), Verdict.LE),
        (errors.NeedsError("x"), Verdict.LE),
        (errors.ContractError("x"), Verdict.BAD),
        (errors.LaunchError("x"), Verdict.LE),
        (errors.StepLimitExceeded("x"), Verdict.TLE),
        (errors.MemoryLimitExceeded("x"), Verdict.MLE),
        (errors.PrintLimitExceeded("x"), Verdict.OLE),
        (errors.KernelDeadlock("x"), Verdict.SYNC),
        (errors.KernelTrap("x"), Verdict.RTE),
        (errors.DeviceFault("x"), Verdict.RTE),
        (MemoryError(), Verdict.MLE),
        (AssertionError("x"), Verdict.WA),
        (errors.CompilerMissing("x"), Verdict.SE),
        (errors.ArgumentError("x"), Verdict.SE),
        (errors.SimulationError("x"), Verdict.SE),
        (errors.UnsupportedInstruction("x"), Verdict.RJ),
        (errors.PtxSyntaxError("x"), Verdict.SE),
        (errors.GradingError("x"), Verdict.SE),
        (ZeroDivisionError("x"), Verdict.SE),
        (KeyError("x"), Verdict.SE),
    ],
)
def test_every_error_has_its_verdict(error, verdict):
    judgement = judge(error)
    assert judgement.verdict is verdict
    assert judgement.seen
    assert judgement.fraction == 0


def test_every_error_class_is_judged_on_purpose():
    def below(kind):
        return {kind}.union(*map(below, kind.__subclasses__()))

    wrong = {e for e in below(errors.WarpschoolError) if judge(e("x")).verdict is Verdict.WA}
    assert not wrong


def test_hand_written_ptx_is_the_students():
    assert judge(errors.UnsupportedInstruction("x"), has_inline_asm=True).verdict is Verdict.RJ
    assert judge(errors.PtxSyntaxError("x"), has_inline_asm=True).verdict is Verdict.RJ


def test_lines_come_from_the_error():
    assert judge(errors.LaunchLineError("x", file="k.cu", line=7)).line == 7
    assert judge(errors.StepLimitExceeded("x", file="k.cu", line=9)).line == 9
    with pytest.raises(errors.CompileError) as caught:
        compile_cuda("constexpr int a = 1;\nconstexpr int b = c;\n", name="k.cu")
    assert judge(caught.value).line == 2


def test_messages_fit_on_one_screen():
    assert judge(errors.CompileError("\n".join("x" * 30))).seen == "\n".join("x" * 30)
    long = judge(errors.CompileError("\n".join(["line"] * 500))).seen.splitlines()
    assert len(long) == 30
    assert long[-1] == "... and 471 more lines"


def test_hazards():
    kinds = ("out-of-bounds", "race", "divergent-barrier", "warp-sync", "uninitialized", "misaligned")
    assert [verdict_of_hazard(kind) for kind in kinds] == ["OOB", "RACE", "SYNC", "SYNC", "UNINIT", "RTE"]
    with pytest.raises(errors.GradingError, match="'rase'"):
        verdict_of_hazard("rase")


def test_precedence():
    words = "SE BAD CE CLE RJ NE OOB RACE SYNC UNINIT RTE LE TLE MLE OLE WA PERF PC AC SKIP"
    order = words.split(" ")
    assert sorted(order, key=lambda name: Verdict(name).rank) == order == [verdict.value for verdict in Verdict]
    assert all(verdict.meaning for verdict in Verdict)
    assert worst([Verdict.AC, Verdict.PERF, Verdict.WA]) is Verdict.WA
    assert worst([Verdict.SKIP, Verdict.AC]) is Verdict.AC
    assert worst([]) is Verdict.SKIP


def made(**changes) -> Result:
    criteria = (
        Criterion("test_a", "Right answers", 3, 1.0, Verdict.AC),
        Criterion("test_b", "No race", 2, 0.0, Verdict.RACE, hint=("look", "at", "do"), said="k.cu:2: race", line=2,
                  code="    x = y;"),
        Criterion("test_c", "Half done", 1, 0.5, Verdict.PC, said="half of it", counts="bytes"),
        Criterion("test_d", "On a GPU", 4, 0.0, Verdict.SKIP, said="no GPU"),
    )
    about = {"name": "k.cu", "sha256": "00", "origin": "given file"}
    values = {"criteria": criteria, "seed": 3, "source": about, "provenance": {"nvrtc": "13.5"}} | changes
    return make_result("lab00_x/01_y", **values)


def test_scores():
    result = made()
    assert (result.verdict, result.score, result.max_score) == (Verdict.RACE, 3.5, 6.0)
    assert type(result.fraction) is float
    assert result.fraction == pytest.approx(3.5 / 6)
    assert not result.ok
    for name in ("No race", "test_b", "b"):
        assert result.criterion(name).id == "test_b"
    with pytest.raises(errors.GradingError, match="no criterion 'c9'"):
        result.criterion("c9")


def test_json_is_stable_and_comes_back():
    text = made().to_json()
    assert text == made().to_json()
    data = json.loads(text)
    assert list(data) == sorted(data)
    assert data["score"] == 3.5
    assert Result.from_json(text) == made()
    assert Result.from_json(text).to_json() == text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"score": 3.5', '"score": 6.0'), ('"format": 4', '"format": 1'), ('"RACE"', '"NICE"'), ('"seed": 3,', ""),
        ("}", ""),
    ],
)
def test_changed_json_is_refused(old, new):
    text = made().to_json()
    assert old in text
    with pytest.raises(errors.GradingError):
        Result.from_json(text.replace(old, new))


def test_text():
    text = str(made())
    assert "lab00_x/01_y: RACE (two threads access the same memory without order), 3.5 of 6" in text
    assert "RACE 0/2  No race" in text
    assert "        2 |     x = y;" in text
    assert "hint: look" in text
    assert "hint: at" not in text
    assert "hint: do" in to_text(made(), hints=3)
    assert "counted: bytes" in text
    assert "nvrtc: 13.5" in text


def test_a_file_that_cannot_run_is_described_once():
    whole = Criterion("", "", 0, 0, Verdict.CE, said="k.cu:1: error", line=1, code="int x")
    criteria = tuple(Criterion(f"test_{n}", n, 1, 0.0, Verdict.CE, said="not run") for n in "ab")
    result = made(criteria=criteria, whole=whole)
    assert (result.verdict, result.seen, result.line, result.score) == (Verdict.CE, "k.cu:1: error", 1, 0)
    assert str(result).count("k.cu:1: error") == 1
    assert "not run" not in str(result)
