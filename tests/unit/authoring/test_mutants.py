"""Mutants: what the rules make, what a trial says of it, and that nothing which is known is tried again."""

from __future__ import annotations

import importlib
import itertools
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from warpschool.authoring.mutants import RULES, candidates, mutants, read_tokens
from warpschool.course import Course

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
STEP = "lab00_first_kernels/01_saxpy"
SOURCES = {s.name: s.solution.read_text("utf-8") for s in Course.find().kernels() if s.solution is not None}


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("mutants")


@pytest.fixture
def trials(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("mutant_trial")


@pytest.mark.parametrize("name", SOURCES)
def test_there_are_enough_of_every_reference(name):
    source = SOURCES[name]
    made = [one for found in candidates(source).values() for one in found]
    assert len(made) >= 40
    assert len({one.source for one in made} | {source}) == len(made) + 1
    header = source[: source.index("\n\n")]
    for one in made:
        assert one.source == source[: one.at] + one.new + source[one.at + len(one.old) :]
        assert one.source.startswith(header) and one.line == source[: one.at].count("\n") + 1


@pytest.mark.slow
def test_every_rule_finds_something():
    assert set().union(*map(candidates, SOURCES.values())) == set(RULES)


def test_order_is_drawn_by_the_seed_and_the_rules_take_turns():
    source = SOURCES["lab02_tiling/01_tiled"]
    first, again, other = (list(mutants(source, seed=seed)) for seed in (1, 1, 2))
    assert first == again != other and sorted(map(str, first)) == sorted(map(str, other))
    assert len({one.rule for one in first[:14]}) >= 10


KERNEL = """// a[0] < b is a comment
#define N 5
static_assert(N < 6, "x < 7");
__global__ void f(float* out, int n)
{
    __shared__ float tile[4][8];
    const int row = threadIdx.x;
    if (row < n) return;
    __syncthreads();
    out[row] = -1.5f + tile[row][3];  // row < n
}
"""


def test_rules_do_what_they_say():
    made = {(one.rule, one.old, one.new) for found in candidates(KERNEL).values() for one in found}
    assert made >= {
        ("comparison", "<", "<="), ("guard", "row < n", "true"), ("barrier", "__syncthreads();", ";"),
        ("jump", "return;", ";"), ("axis", "x", "y"), ("index", "", " + 1"), ("index", "row][3", "3][row"),
        ("name", "row", "n"), ("constant", "3", "4"), ("constant", "3", "2"), ("constant", "1.5f", "0.5f * 1.5f"),
        ("type", "int", "unsigned"), ("arithmetic", "+", "-"), ("sign", "-", ""),
        ("statement", "out[row] = -1.5f + tile[row][3];", ";"),
    }  # fmt: skip
    assert not [token for token in read_tokens(KERNEL) if token.at < KERNEL.index("__global__")]
    assert "void" not in {old for _, old, _ in made} and ("type", "float", "int") in made


CASES = {
    "wrong": ("i < n", "i <= n", "out-of-bounds"),
    "off": ("a * x[i] + y[i]", "a * x[i] - y[i]", "of z"),
    "endless": ("z[i] =", "while (x[i] < 2.0f) {}\n        z[i] =", "StepLimitExceeded"),
    "an input": ("z[i] =", "const_cast<float*>(x)[i] = 0.0f;\n        z[i] =", "changes its input x"),
    "equal": ("BLOCK = 256", "BLOCK = 128", ""),
    "uncompiled": ("a * x[i]", "a * * [i]", "CompileError"),
}


@pytest.mark.parametrize("kind", CASES)
def test_a_trial_says_what_is_wrong(kind, trials):
    old, new, how = CASES[kind]
    assert SOURCES[STEP].count(old) == 1
    found = trials.trial(STEP, SOURCES[STEP].replace(old, new), 0, 6)
    assert found.outcome == (kind if kind in ("equal", "uncompiled") else "wrong") and how in found.how, found


def test_shapes_are_ragged_and_allowed(trials):
    own, cases = trials.cases_of("lab02_tiling/01_tiled", 3, 20)
    assert own and len(cases) == 20
    assert len({tuple(case.sizes.values()) for case in cases}) == 20
    assert any(case.sizes["M"] % 16 for case in cases) and any(case.sizes["M"] > 128 for case in cases)


def test_what_fills_a_constant_has_a_shape_and_an_answer_of_its_own(trials):
    step = "lab08_convolution/02_direct_constant"
    own, cases = trials.cases_of(step, 0, 3)
    assert own and len(cases) == 3
    for case in cases:
        assert case.inputs["part"].shape == tuple(int(case.sizes[axis]) for axis in ("PART", "C", "R", "S"))
    assert SOURCES[step].count("F0 +") > 0
    assert trials.trial(step, SOURCES[step].replace("F0 +", "0 * F0 +"), 0, 3).outcome == "wrong"


def test_what_is_known_is_not_tried_again(benchmark, monkeypatch, tmp_path):
    monkeypatch.setattr(benchmark, "STATE", tmp_path)
    checked = []

    def check(step, source, **how):
        assert how["until_wrong"]
        checked.append(source)
        return SimpleNamespace(verdict="AC" if len(checked) == 1 else "WA")

    monkeypatch.setattr(benchmark, "check_source", check)
    outcomes = itertools.cycle(["wrong", "equal", "uncompiled", "wrong"])

    def worker(function, step, source, seed):
        return benchmark.Trial(next(outcomes), "3 of 4 elements of z", 2)

    def tried(fresh=False):
        return list(benchmark.Trials(Course.find().step(STEP), 0, 6, fresh).run(worker))

    first = tried()
    assert [one.outcome for _, one in first].count("uncompiled") == 2 and len(first) == 8
    seen = len(checked)
    with next(tmp_path.iterdir()).open("a") as file:
        file.write('["cut off by a ki')
    assert tried() == first and len(checked) == seen
    figures = benchmark.row(first, {"answers": "float64", "shapes": 20})
    assert (figures["compiled"], figures["equal"], figures["wrong"], figures["rejected"]) == (6, 2, 4, 3)
    assert [one["verdict"] for one in figures["survivors"]] == ["AC"]
    path = tmp_path / "kept.json"
    path.write_text(json.dumps({"steps": {"lab01_naive_gemm/01_naive": {"wrong": 1}}}))
    benchmark.keep(path, {STEP: figures}, SimpleNamespace(per=6, seed=0))
    assert list(json.loads(path.read_text())["steps"]) == [STEP, "lab01_naive_gemm/01_naive"]
    tried(fresh=True)
    assert len(checked) == 2 * seen


def test_a_reference_that_comes_to_no_end_is_left_out_and_the_next_step_is_tried(benchmark):
    def hangs(*_):
        raise benchmark.BrokenProcessPool("it hung")

    about = benchmark.described(Course.find().step(STEP), 0, hangs)
    assert about["shapes"] == 0 and benchmark.row([], about)["compiled"] == 0
    assert benchmark.described(Course.find().step(STEP), 0, lambda *_: {"shapes": 20}) == {"shapes": 20}


def test_a_process_that_ends_is_started_again(benchmark):
    import os

    worker = benchmark.Worker()
    try:
        with pytest.raises(benchmark.BrokenProcessPool):
            worker(os._exit, 3)
        assert worker(os.getpid) != os.getpid()
    finally:
        worker.end()
