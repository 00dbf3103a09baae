"""Split channels: the thesis's equations against the simulator's counters, legal tiles, and a search that resumes."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from warpcourse.lab12_split_channels import lab
from warpcourse.lab12_split_channels.tiles import (
    RESNET,
    YOLO,
    Tiles,
    block_intensity,
    block_loads,
    blocks_of,
    candidates,
    estimate,
    shared_bytes,
    thread_intensity,
    thread_loads,
    thread_products,
    why_not,
)
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.errors import ArgumentError, LaunchError
from warpschool.harness.launcher import Program
from warpschool.nn import Convolution, convolve
from warpschool.nn.pipelines import run

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
COURSE = Course.find()
FITS = Convolution(batch=1, channels=8, height=18, width=18, filters=64, rows=3, cols=3)
STRIDED = Convolution(batch=1, channels=8, height=17, width=17, filters=64, rows=3, cols=3, stride=2)
DENSE = Convolution(batch=1, channels=16, height=8, width=16, filters=64, rows=1, cols=1)
GIVEN = Tiles(splits=2)
FLAT = Tiles(rows=1, cols=16, warp_rows=1, warp_cols=4, step=8)


@pytest.fixture
def searching(monkeypatch) -> ModuleType:
    """The benchmark's own module, which needs no GPU."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("tile_search")


def contract(step: str):
    found = COURSE.step(step)
    return parse_contract(found.solution.read_text("utf-8"), name=found.file_name)


def launched(searching: ModuleType, problem: Convolution, tiles: Tiles):
    pipeline = searching.with_tiles(contract(searching.step_for(problem)), problem, tiles, device="sim")
    x, w = problem.arrays(np.random.default_rng(3))
    done = run(pipeline, x, w, stride=problem.stride, pad=problem.pad)
    assert done.hazards == ()
    assert not np.abs(done.y.get() - convolve(x, w, stride=problem.stride, pad=problem.pad)).max() > 2e-5
    return done


@pytest.mark.parametrize(("problem", "tiles"), [(FITS, GIVEN), (STRIDED, GIVEN), (DENSE, FLAT)])
def test_equations_are_what_the_simulator_counts(searching, problem, tiles):
    launch = launched(searching, problem, tiles).launches[0]
    counters = launch.counters
    threads = launch.blocks * tiles.threads
    channels = problem.channels / tiles.splits  # of a thread
    results = problem.filters * problem.out_height * problem.out_width * tiles.splits
    assert launch.blocks == blocks_of(tiles, problem)
    assert launch.shared_mem == shared_bytes(tiles, problem)
    assert counters.fma_instructions == threads * channels * thread_products(tiles, problem) == problem.products
    promised = 4 * (threads * channels * sum(thread_loads(tiles, problem)) + results)
    assert promised <= counters.shared_load_bytes <= 1.04 * promised  # NVRTC may fetch a next channel's pixels early
    assert counters.global_load_bytes == 4 * launch.blocks * channels * sum(block_loads(tiles, problem))
    assert counters.local_load_requests == counters.shared_bank_conflicts == 0


def test_figure_4_6_by_hand():
    assert thread_intensity(Tiles(filters=2, rows=4, cols=4), FITS) == 9 * 2 * 16 / (6 * 6 + 9 * 2)
    assert block_intensity(Tiles(filters=2, rows=4, cols=4), FITS) == 9 * 64 * 64 / (10 * 10 + 9 * 64)


def test_groups_and_straight_code_at_ragged_sizes(searching):
    problem = Convolution(batch=1, channels=13, height=9, width=7, filters=64, rows=1, cols=1, stride=2, pad=1)
    tiles = Tiles(rows=1, cols=12, warp_rows=1, warp_cols=1, groups=4, step=8, splits=2, stages=3, unroll=2)
    assert len(launched(searching, problem, tiles).launches) == 2


@pytest.mark.parametrize("step", ["05_split_c_block", "09_batched_ragged"])
def test_steps_work_as_pipelines(searching, step):
    problem = Convolution(batch=1, channels=3, height=9, width=5, filters=64, rows=3, cols=3, pad=1)
    x, w = problem.arrays(np.random.default_rng(4))
    done = run(searching.SplitChannels(Program(contract(f"lab12_split_channels/{step}"), device="sim")), x, w, pad=1)
    assert not np.abs(done.y.get() - convolve(x, w, pad=1)).max() > 2e-5


def test_one_part_needs_no_second_launch(searching):
    assert len(launched(searching, FITS, Tiles(splits=1)).launches) == 1
    assert len(launched(searching, FITS, GIVEN).launches) == 2


def test_table_9_1():
    assert len(YOLO) + len(RESNET) == 22
    assert RESNET["R12"].output_shape == (1, 512, 7, 7) and RESNET["R1"].output_shape == (1, 64, 112, 112)
    assert YOLO["Y18"].flop == RESNET["R12"].flop * 1024 / 512 * 289 / 49


def test_candidates_are_legal_and_the_model_tells_why_others_are_not():
    found = list(candidates(RESNET["R12"]))
    assert len(found) == len(set(found)) > 500
    assert not any(why_not(tiles, RESNET["R12"]) for tiles in found[::50])
    for change, reason in (
        ({"filters": 3}, "no multiple"), ({"groups": 3}, "dealt out"), ({"splits": 200}, "stages of channels"),
        ({"warp_rows": 16, "groups": 4}, "threads in a block"), ({"step": 64, "stages": 8}, "shared memory"),
        ({"rows": 16, "cols": 12}, "registers"),
    ):  # fmt: skip
        tiles = Tiles(**change)
        assert reason in why_not(tiles, RESNET["R12"])
        with pytest.raises(ArgumentError, match=reason):
            estimate(tiles, RESNET["R12"])
    assert "one row of places" in why_not(Tiles(), DENSE)


def test_model_splits_small_layers_and_leaves_large_ones_alone():
    def best(problem, splits):
        return min(estimate(Tiles(filters=1, splits=s), problem).time_us for s in splits)

    assert best(RESNET["R12"], (8, 16)) < 0.5 * best(RESNET["R12"], (1,))
    assert best(YOLO["Y2"], (1,)) < best(YOLO["Y2"], (4, 8))


# ---------------------------------------------------------------- the search

SETS = [Tiles(filters=filters, splits=splits) for filters in (1, 2) for splits in (1, 2, 4)]


def time_of(tiles: Tiles) -> float:
    if tiles.splits == 4:
        raise LaunchError("does not fit")
    return 10.0 * tiles.filters + tiles.splits


def record(searching, folder, kernel="source"):
    return searching.SearchRecord.open(folder, gpu="Some GPU", problem=FITS, kernel=kernel)


def test_interrupted_search_goes_on_where_it_stopped(searching, tmp_path, capsys):
    measured = []

    def measure(tiles: Tiles) -> float:
        if len(measured) == 3 and not (tmp_path / "again").exists():
            raise KeyboardInterrupt
        measured.append(tiles)
        return time_of(tiles)

    with pytest.raises(KeyboardInterrupt):
        searching.search(SETS, measure, record(searching, tmp_path), title="R12")
    (tmp_path / "again").touch()
    best = searching.search(SETS, measure, record(searching, tmp_path), title="R12")
    assert best == (SETS[0], 11.0) and measured == SETS
    assert "[6/6]" in capsys.readouterr().out
    known = record(searching, tmp_path).times_us
    assert known[searching.tiles_key(SETS[2])] is None
    assert searching.tiles_of_key(searching.tiles_key(SETS[4])) == SETS[4]


def test_killed_search_leaves_a_whole_file(searching, tmp_path):
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from warpschool.nn.references import Convolution\n"
        "from warpcourse.lab12_split_channels.tiles import Tiles\n"
        "from tile_search import SearchRecord, search\n"
        f"problem = Convolution(**{vars(FITS)!r})\n"
        "record = SearchRecord.open(Path(sys.argv[1]), gpu='Some GPU', problem=problem, kernel='source')\n"
        "def measure(tiles):\n"
        "    if len(record.times_us) == 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return 1.0\n"
        "search([Tiles(splits=s) for s in (1, 2, 3, 4)], measure, record, title='R12')\n"
    )
    paths = (str(BENCHMARKS), *filter(None, [os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, env=environment)
    assert done.returncode == -signal.SIGKILL
    (path,) = tmp_path.glob("tiles_some-gpu_n1_c8_*.json")
    assert len(json.loads(path.read_text())["times_us"]) == 2
    calls = []
    sets = [Tiles(splits=s) for s in (1, 2, 3, 4)]
    searching.search(sets, lambda tiles: calls.append(tiles) or 2.0, record(searching, tmp_path), title="R12")
    assert [tiles.splits for tiles in calls] == [3, 4]


def test_another_kernel_starts_anew_and_a_broken_file_is_named(searching, tmp_path):
    assert searching.search(SETS[:2], time_of, record(searching, tmp_path), title="R12")[1] == 11.0
    assert record(searching, tmp_path, kernel="another").times_us == {}
    record(searching, tmp_path).path.write_text("{")
    with pytest.raises(ArgumentError, match="no record of a search"):
        record(searching, tmp_path)
    with pytest.raises(ArgumentError, match="none of 1 sets"):
        searching.search([SETS[2]], time_of, record(searching, tmp_path / "other"), title="R12")
    with pytest.raises(ArgumentError, match="are no tiles"):
        searching.tiles_of_key("filters=many")


def test_known_tiles_are_legal(searching):
    assert searching.best_known(FITS) is None
    for name, problem in (YOLO | RESNET).items():
        tiles = searching.best_known(problem)
        assert tiles and not why_not(tiles, problem), name


def test_recorded_layers_are_fast():
    ratios = lab.ratios()
    if not ratios:
        pytest.skip("no recorded times in benchmarks/results")
    assert ratios.keys() == YOLO.keys() | RESNET.keys()
    assert max(ratios.values()) <= 1.0 and np.exp(np.mean(np.log(list(ratios.values())))) <= 0.55
