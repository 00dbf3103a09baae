"""What is told of a fault: hints by what was seen, budgets that are not judged, loops, variables and start values."""

from __future__ import annotations

import pytest

import warpschool as ws
from ptxsim import Finding
from warpschool.compile.reading import loop_around, unset_variable
from warpschool.course import Course
from warpschool.grading import Verdict
from warpschool.grading.hints import fault_hints
from warpschool.grading.plugin import without_false_budgets
from warpschool.grading.result import Criterion, Result
from warpschool.grading.verdicts import Judgement
from warpschool.harness.compare import CAUSES

pytestmark = pytest.mark.usefixtures("forked_checks")

NAIVE = Course.find().step("lab01_naive_gemm/01_naive")
TILED = Course.find().step("lab02_tiling/01_tiled")


def naive(was: str, now: str) -> Result:
    source = NAIVE.solution.read_text("utf-8")
    assert source.count(was) == 1
    return ws.check(NAIVE.name, source.replace(was, now), device="sim")

# ---------------------------------------------------------------- on the way from a kernel to a result


def test_wrong_results_in_a_criterion_about_races_get_the_hints_of_the_answers():
    source = TILED.solution.read_text("utf-8").replace("+= tileA[threadIdx.y][k]", "+= fabsf(tileA[threadIdx.y][k])")
    result = ws.check(TILED.name, source, device="sim")
    answers, _, races, *_ = result.criteria
    assert (races.verdict, races.title) == (Verdict.WA, "No race")
    assert races.hint == answers.hint


def test_a_variable_without_a_value_is_named_at_the_line_that_reads_it():
    result = naive("float sum = 0.0f;", "float sum;")
    first = result.criteria[0]
    assert (result.verdict, first.line) == (Verdict.UNINIT, 21)
    assert "'sum', declared without a value in line 16" in first.seen
    assert "before it is given a value" in first.hint[0]


@pytest.mark.parametrize(("begins", "verdict"), [("float sum;", "UNINIT"), ("float sum = -INFINITY;", "WA")])
def test_the_largest_of_nothing_cannot_come_out_right_by_luck(begins, verdict):
    """fmaxf(NaN, x) is x: what variables without a value begin with must show in any reduction."""
    was = "            sum += A[row * K + k] * B[k * N + col];\n"
    source = NAIVE.solution.read_text("utf-8").replace(was, "            sum = fmaxf(sum, A[row * K + k]);\n")
    result = ws.check(NAIVE.name, source.replace("float sum = 0.0f;", begins), device="sim")
    assert result.verdict == verdict


def test_a_variable_that_the_compiler_has_folded_away_is_named_by_its_warning():
    """Of `undefined + x` nothing is left in the PTX but a NaN."""
    result = naive("C[row * N + col] = sum;", "float more; more += sum; C[row * N + col] = more;")
    assert (result.verdict, result.criteria[0].line) == (Verdict.UNINIT, 23)
    assert "'more', declared without a value in line 23" in result.criteria[0].seen
    assert 'line 23: variable "more" is used before its value is set' in result.warnings


def test_what_is_added_to_without_a_start_is_told_from_what_is_never_written():
    added, never = naive("C[row * N + col] = sum;", "C[row * N + col] += sum;"), naive("C[row * N + col] = sum;", "")
    assert "C is added to without a start value" in added.criteria[0].seen
    assert "never written" not in added.criteria[0].seen
    assert "never written" in never.criteria[0].seen and "start value" not in never.criteria[0].seen
    assert "`+=`" in added.criteria[0].hint[0] and "nobody writes" in never.criteria[0].hint[0]


def test_a_wrong_kernel_is_told_nothing_false_about_its_budgets():
    result = naive("sum += A[row * K + k]", "sum += A[row * K] + A[row * K + k]")
    told = {criterion.id: criterion for criterion in result.criteria}
    assert result.verdict is Verdict.WA
    assert told["test_loads"].seen == "not judged until the answers are right"
    assert told["test_loads"].points == 0 and told["test_loads"].verdict is Verdict.WA


def test_the_compilers_warnings_are_in_the_result_and_cost_nothing():
    result = naive("float sum = 0.0f;", "float sum = 0.0f; int idle = 3;")
    (warning,) = result.warnings
    assert result.ok and warning.startswith("line 16: ") and '"idle"' in warning
    assert Result.from_json(result.to_json()) == result and warning in str(result)


def test_results_of_before_there_were_warnings_are_read():
    result = naive("float sum = 0.0f;", "float sum = 0.00f;")
    text = "".join(row for row in result.to_json().splitlines(keepends=True) if '"warnings"' not in row)
    assert Result.from_json(text.replace('"verdict": "AC",\n}', '"verdict": "AC"\n}')).ok


def test_an_endless_loop_is_shown_with_its_code():
    result = naive("++k", "k += 0")
    first = result.criteria[0]
    assert result.verdict is Verdict.TLE and first.line == 20 and first.code.strip().startswith("for (int k")
    assert "which statement changes it" in first.hint[0]


# ---------------------------------------------------------------- parts


def criterion(verdict: Verdict, *, counts: str = "", fraction: float = 0.0, said: str = "") -> Criterion:
    return Criterion("test_x", "x", 2, fraction, verdict, counts=counts, said=said)


def test_only_what_counts_waits_for_right_answers():
    wrong, over = criterion(Verdict.RACE, said="a race"), criterion(Verdict.PERF, counts="loads", said="9; at most 2")
    within = criterion(Verdict.AC, counts="stores", fraction=1.0)
    first, second, third = without_false_budgets([wrong, over, within])
    assert (first, third) == (wrong, within)
    assert (second.verdict, second.seen) == (Verdict.RACE, "not judged until no race is left")
    assert without_false_budgets([over, within]) == (over, within)


def found(kind: str, **more) -> Finding:
    told = {"thread": (0, 0, 0), "block": (0, 0, 0), "access": "read", "space": "shared", "array": "shared tile"}
    return Finding(kind, 7, "k.cu", **{**told, **more})


@pytest.mark.parametrize(
    ("verdict", "finding", "words"),
    [
        (Verdict.RACE, found("race", other_did="write", other_line=5, other_thread=(1, 0, 0)), "lines 5 and 7"),
        (Verdict.RACE, found("race", other_did="write", others="blocks", space="global"), "of different blocks"),
        (Verdict.RACE, found("race", other_did="copy"), "cp.async"),
        (Verdict.RACE, found("lockstep", other_did="write"), "volatile"),
        (Verdict.RACE, found("unordered", other_did="write"), "__threadfence"),
        (Verdict.RACE, found("async-order", detail="early"), "mbarrier"),
        (Verdict.SYNC, found("divergent-barrier"), "__syncthreads() waits"),
        (Verdict.SYNC, found("warp-sync", detail="member"), "mask"),
        (Verdict.OOB, found("out-of-bounds", address=-4, array="A"), "index of A is negative"),
        (Verdict.OOB, found("out-of-bounds", address=400, size=400, array="A"), "A[row * COLS + col]"),
        (Verdict.OOB, found("out-of-bounds", detail="nowhere", array="A"), "belongs to no array"),
        (Verdict.OOB, found("out-of-bounds", detail="space"), "another kind of memory"),
        (Verdict.UNINIT, found("uninitialized"), "tile[y][x]"),
        (Verdict.RTE, found("misaligned"), "multiples of 16 bytes"),
    ],
)
def test_hints_follow_the_finding(verdict, finding, words):
    hints = fault_hints(Judgement(verdict, "", line=finding.line, finding=finding), of_step={})
    assert len(hints) == 3 and words in "\n".join(hints)
    assert not any("{lines}" in hint or "{array}" in hint for hint in hints)


def test_every_cause_of_wrong_elements_but_a_mere_place_has_hints_of_its_own():
    hints = {}
    for cause in CAUSES:
        told = Judgement(Verdict.WA, "wrong")
        told.cause = cause
        hints[cause] = fault_hints(told, of_step={})
    assert {cause for cause, texts in hints.items() if not texts} == {"place", ""}
    assert len({texts for texts in hints.values() if texts}) == len(CAUSES) - 2


def test_a_step_that_knows_more_about_a_fault_is_heard_wherever_it_is_seen():
    source = NAIVE.solution.read_text("utf-8").replace("k < K", "k <= K")
    first = ws.check(NAIVE.name, source, device="sim").criteria[0]
    assert first.verdict is Verdict.OOB and first.title == "Right answers"
    assert first.hint[0] == "Which threads have no element of C to compute?"


def test_the_hints_of_a_criterion_about_a_fault_are_for_that_fault_alone():
    told = Judgement(Verdict.RACE, "", finding=found("race", other_did="write"))
    assert fault_hints(told, of_step={Verdict.RACE: ("its own",)}) == ("its own",)
    assert fault_hints(Judgement(Verdict.PERF, "too much"), of_step={Verdict.RACE: ("its own",)}) == ()


LOOPS = """\
__global__ void k(int n)
{
    for (int i = 0; i < n; i = 1) {   // for (;;)
        int last, sum = 3, found[4];
        while (n > 3) n--;
        do {
            last += n;
        } while (n);
        found[0]++;
    }
    n = 2;
}
"""


@pytest.mark.parametrize(("line", "loop"), [(3, 3), (4, 3), (5, 5), (7, 6), (9, 3), (11, 11), (99, 99)])
def test_the_loop_around_a_line(line, loop):
    assert loop_around(LOOPS, line) == loop


@pytest.mark.parametrize(("line", "variable"), [(7, ("last", 4)), (9, ("found", 4)), (11, ("", 0)), (99, ("", 0))])
def test_the_variable_that_was_declared_without_a_value(line, variable):
    assert unset_variable(LOOPS, line) == variable


DYNAMIC = "extern __shared__ float held[];\n    held[threadIdx.y * TILE + threadIdx.x] = 0.0f;\n    float sum = 0.0f;"


@pytest.mark.parametrize(("launch", "given"), [("", "gives it: none"), (" shared=512", "gives it: shared=512 bytes")])
def test_dynamic_shared_memory_that_nobody_has_asked_for_names_the_launch_line(launch, given):
    grid = "grid=(cdiv(N, TILE), cdiv(M, TILE))"
    source = NAIVE.solution.read_text("utf-8").replace(grid, f"{grid}{launch}")
    result = ws.check(NAIVE.name, source.replace("float sum = 0.0f;", DYNAMIC), device="sim")
    first = result.criteria[0]
    assert (first.verdict, first.line) == (Verdict.OOB, 17)
    assert "'held' has the bytes that `shared=`" in first.seen and given in first.seen
    assert "shared=" in first.hint[1]
