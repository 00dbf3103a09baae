"""What the course promises of lab 15: its cases reach the weak places, its counts are exact, its sort sorts."""

from __future__ import annotations

import numpy as np
import pytest

from warpcourse.lab15_patterns import lab
from warpcourse.lab15_patterns.cases import SPAN, atomic_lanes, scanned, segments
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.harness.launcher import Program
from warpschool.notebook import cells

COURSE = Course.find()
SORT = "lab15_patterns/07_radix_pass"


def solution(step: str) -> str:
    return COURSE.step(f"lab15_patterns/{step}").solution.read_text("utf-8")


@pytest.fixture
def own_kernels():
    """The references, as if a student had run them in a notebook."""
    for step in COURSE.lab("lab15_patterns").steps:
        cells.remember(step.name, step.solution.read_text("utf-8"))
    yield
    cells.forget_all()


@pytest.mark.parametrize(("n", "count"), [(1, 1), (31, 3), (127, 127), (1000, 300)])
def test_segments_ascend_and_vary(n, count):
    numbers = segments(np.random.default_rng(n), n, count)
    assert numbers.shape == (n,) and numbers.max() < count and np.all(numbers[1:] >= numbers[:-1])
    lengths = np.bincount(numbers, minlength=count)
    assert n < 1000 or (lengths.min() == 0 and lengths.max() > 3 * n / count)


def test_scans_begin_anew():
    assert np.array_equal(scanned(np.arange(1.0, 8), 3), [1, 3, 6, 4, 9, 15, 7])
    ones = scanned(np.ones(2 * SPAN + 1))
    assert (ones[SPAN - 1], ones[SPAN], ones[-1]) == (SPAN, 1, 1)


@pytest.mark.parametrize("load", ["x[i]", "1", "reinterpret_cast<const int4*>(x)[i / 4].z"])
def test_lanes_of_atomics_are_told_from_loads_in_the_same_line(load):
    source = f"""// Entry: add(const int x[n] in, int y[1] out, int n)
// Zeroed: y
// Launch: add block=(64) grid=(cdiv(n, 64))
extern "C" __global__ void add(const int* x, int* y, int n)
{{
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i % 3 == 0 && i < n) atomicAdd(y, {load});
}}
"""
    run = Program(parse_contract(source, name="add.cu"), device="sim").run({"n": 100}, {"x": np.ones(100, np.int32)})
    assert run.outputs["y"][0] == 34
    assert (atomic_lanes(run, "global"), atomic_lanes(run, "shared")) == (34, 0)


@pytest.mark.parametrize("n", [1, 255, 1000])
def test_eight_passes_sort_keys_with_their_values(own_kernels, n):
    keys = np.random.default_rng(n).integers(0, 1 << 32, n)
    keys[::3] = keys[0]
    done = lab.radix_sort(keys)
    assert done.passes == 8 and done.is_sorted
    assert not lab.Sort(done.keys, done.values[::-1], done.runs).is_sorted or n == 1


def test_a_sort_that_is_not_stable_is_told(own_kernels):
    stable = "const int place = count[t / WARP][digit] + __popc(same & lower_lanes());"
    text = solution("07_radix_pass")
    assert text.count(stable) == 1
    cells.remember(SORT, text.replace(stable, stable.replace("lower_lanes());", "~lower_lanes()) - 1;")))
    assert not lab.radix_sort(np.random.default_rng(1).integers(0, 1 << 32, 500)).is_sorted


def test_work_grows_by_distances_and_not_by_the_tree(own_kernels):
    spans = [64, 128, 256, 512]
    by_distances, by_the_tree = (lab.additions(step, spans) for step in ("02_kogge_stone", "03_work_efficient"))
    assert by_distances == pytest.approx([np.log2(span) - 1 + 1 / span for span in spans])
    assert by_the_tree == pytest.approx([3 - 2 / span for span in spans])


def test_votes_save_additions_where_values_repeat(own_kernels):
    n = 16384
    found = lab.additions_by_atomics(n)
    assert all(lanes == (n, 0) for lanes in found["in global memory"].values())
    assert all(lanes == n for _, lanes in found["in shared memory"].values())
    own = found["your step 05"]
    assert own["one value"] == (2, n // 32) and own["a drawing"][1] < n // 8 < own["noise"][1]
    for way in ("in shared memory", "your step 05"):
        assert found[way]["noise"][0] <= 256 * 2


@pytest.mark.parametrize("gap", [32, 256])
def test_gaps_keep_the_tree_out_of_one_bank(gap):
    source = solution("03_work_efficient")
    run = Program(parse_contract(source, name="03.cu"), device="sim", constants={"BANKS": gap}).run(
        {"n": SPAN}, {"x": np.ones(SPAN, np.float32)}
    )
    assert np.array_equal(run.outputs["y"], np.arange(1, SPAN + 1))
    assert (run.counters.shared_bank_conflicts == 0) == (gap == 32)


@pytest.mark.parametrize("first", [0, 1])
def test_sums_of_tiles_are_read_only_where_somebody_waits(first):
    """Why step 04 has `first`: in the simulator's usual order every tile before has told all that lies before it."""
    told = "part = known == PREFIX ? prefix[k] : sum[k]"
    source = solution("04_look_back")
    assert source.count(told) == 1
    spoilt = parse_contract(source.replace(told, "part = known == PREFIX ? prefix[k] : 1000.0f"), name="04.cu")
    n = 3 * 4096
    y = Program(spoilt, device="sim").run({"n": n, "first": first}, {"x": np.ones(n, np.float32)}).outputs["y"]
    assert np.array_equal(y, np.arange(1, n + 1)) == (first == 0)
