"""The fast kernels beside lab 15, on the simulator: right against float64 or a stable sort, and free of hazards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from warpcourse.lab15_patterns.cases import segments
from warpschool.contract import parse_contract
from warpschool.harness.launcher import Program

KERNELS = Path(__file__).parents[2] / "benchmarks" / "kernels"


def kernel(name: str, **constants: int) -> Program:
    contract = parse_contract((KERNELS / f"{name}.cu").read_text("utf-8"), name=f"{name}.cu")
    return Program(contract, device="sim", constants=constants)


@pytest.mark.parametrize(("n", "first"), [(1, 0), (3 * 1024 - 5, 2), (36 * 1024 + 7, 0)])
def test_a_scan_looks_back_over_lines(n: int, first: int) -> None:
    """The first of three tiles comes last: the others add sums of tiles. Of 37, some look back more than 32 tiles."""
    x = np.random.default_rng(n).uniform(-1, 1, n).astype(np.float32)
    run = kernel("look_back_lines", THREADS=128, ROUNDS=2).run({"n": n, "first": first}, {"x": x})
    assert np.abs(run.outputs["y"] - x.astype(float).cumsum()).max() < 1e-7 * n + 1e-6
    assert run.hazards == () and run.outputs["ticket"][0] == -(-n // 1024)


@pytest.mark.parametrize(("n", "count"), [(1, 1), (5000, 1), (9001, 7), (9001, 300), (9001, 9001)])
def test_sums_of_segments_by_fours(n: int, count: int) -> None:
    """Blocks of one segment, runs over several blocks, and segments of a few elements, some empty."""
    rng = np.random.default_rng(count)
    numbers, x = segments(rng, n, count), rng.uniform(-1, 1, n).astype(np.float32)
    run = kernel("segmented_fours").run({"n": n, "S": count}, {"x": x, "segment": numbers})
    assert np.abs(run.outputs["sums"] - np.bincount(numbers, weights=x.astype(float), minlength=count)).max() < 2e-5
    assert run.hazards == ()


@pytest.mark.parametrize(("n", "values"), [(1, 1), (1020, 0), (5001, 1)])
@pytest.mark.thinned(3)
def test_four_sweeps_sort(n: int, values: int) -> None:
    """Keys of which a third are equal: their values stay in their order."""
    keys = np.random.default_rng(n).integers(0, 1 << 32, n).astype(np.uint32)
    keys[::3] = keys[0]
    program = kernel("radix_sweep", THREADS=256, ITEMS=4, VALUES=values)
    now, places = keys, np.arange(n, dtype=np.uint32)
    for number in range(4):
        run = program.run({"n": n, "first": 0, "pass": number}, {"keys": now, "values": places})
        assert run.hazards == ()
        now = run.outputs["sorted_keys"]
        places = run.outputs["sorted_values"] if values else places
    order = np.argsort(keys, kind="stable")
    assert np.array_equal(now, keys[order])
    assert not values or np.array_equal(places, order)


@pytest.mark.slow
def test_a_sweep_adds_sums_of_tiles_that_wait_for_the_first_one() -> None:
    """256 threads that ask again and again are many steps of a simulator."""
    n = 700
    keys = np.random.default_rng(n).integers(0, 1 << 8, n).astype(np.uint32)
    run = kernel("radix_sweep", THREADS=256, ITEMS=1, VALUES=0).run(
        {"n": n, "first": 1, "pass": 0}, {"keys": keys, "values": keys}
    )
    assert np.array_equal(run.outputs["sorted_keys"], np.sort(keys)) and run.hazards == ()
