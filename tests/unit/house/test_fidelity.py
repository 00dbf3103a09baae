"""What of benchmarks/fidelity.py needs neither a GPU nor a simulator: plans, runs in chunks, the comparison."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scripts import fidelity_page

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def fidelity(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("fidelity")


@pytest.fixture
def arrays(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("fidelity_arrays")


def _random(shape: tuple[int, ...], seed: int, skipped: int = 0) -> np.ndarray:
    """The bytes of an input as `random_inputs` makes it, after `skipped` other numbers."""
    rng = np.random.default_rng(seed)
    rng.uniform(-1, 1, skipped)
    return rng.uniform(-1, 1, shape).astype(np.float32).reshape(-1).view(np.uint8)


# ---------------------------------------------------------------- arrays


def test_arrays_come_back_and_random_inputs_are_not_stored(arrays, tmp_path):
    kept = [_random((300, 100), arrays.SEED), _random((90, 90), arrays.SEED, 30_000), np.arange(7, dtype=np.uint8),
            np.zeros(4096, np.uint8), np.zeros(0, np.uint8), _random((5, 5), arrays.SEED + 1)]  # fmt: skip
    store = arrays.Store()
    keys = [store.keep(array) for array in kept]
    assert store.keep(kept[0].copy()) == keys[0], "equal arrays are one"
    store.write(tmp_path / "arrays.npz")
    assert (tmp_path / "arrays.npz").stat().st_size < 3000
    found = arrays.Store.read(tmp_path / "arrays.npz")
    assert set(found) == set(keys)
    for key, array in zip(keys, kept, strict=True):
        np.testing.assert_array_equal(found[key], array)


def test_a_generator_that_draws_other_numbers_is_noticed(arrays, tmp_path, monkeypatch):
    store = arrays.Store()
    store.keep(_random((64,), arrays.SEED))
    store.write(tmp_path / "arrays.npz")
    others = np.random.default_rng(99).uniform(-1, 1, 1000).astype(np.float32)
    monkeypatch.setattr(arrays, "_drawn", lambda: others)
    with pytest.raises(ValueError, match="draws other numbers"):
        arrays.Store.read(tmp_path / "arrays.npz")


# ---------------------------------------------------------------- runs


def _plan(arrays: ModuleType, folder: Path, launches: int) -> list[np.ndarray]:
    """A plan of launches that each add one to an array of zeros; what the simulator left of each."""
    given, left, rows = arrays.Store(), arrays.Store(), []
    after = [np.full(8, k + 1, np.float32) for k in range(launches)]
    for array in after:
        rows.append({
            "case": "lab99/one", "group": "references", "ptx": 0, "entry": "one", "grid": [1, 1, 1],
            "block": [32, 1, 1], "before": [given.keep(np.zeros(32, np.uint8))],
            "after": [left.keep(array.view(np.uint8))], "variables": {},
            "counters": {"global_load_requests": 4, "shared_load_bank_conflicts": 2}, "kind": "float32",
            "unordered": False,
        })  # fmt: skip
    plan = {"launches": rows, "order": [*range(launches)], "chip": None, "ptx": ["// one"], "versions": {}}
    (folder / "plan.json").write_text(json.dumps(plan), "utf-8")
    given.write(folder / "arrays.npz")
    left.write(folder / "expected.npz")
    (folder / "chip.json").write_text(json.dumps({"name": "no chip", "driver": 1}), "utf-8")
    return after


def _fake_runs(fidelity: ModuleType, monkeypatch, folder: Path, *, changed: dict[str, np.ndarray]) -> list[int]:
    """ncu and the GPU replaced by what they would write; the first launches of all runs."""
    seen: list[int] = []

    def profiled(ncu, command, metrics):
        first, last = int(command[-2]), int(command[-1])
        second_run = fidelity.REASONS["shared_atomics"] in metrics
        seen.append(first)
        own = {name: array for name, array in changed.items() if first <= int(name.split("/")[0]) < last}
        np.savez(folder / f"gpu-{first}.npz", **{f"end/gpu-{first}": np.int64(last)}, **own)
        values = dict.fromkeys(metrics, 4.0)
        if second_run:
            values[fidelity.METRICS["shared_load_bank_conflicts"]] = 3.0
        return [fidelity.Profiled("one", dict(values)) for _ in range(first, last)]

    monkeypatch.setattr(fidelity, "known_metrics", lambda ncu, wanted: list(wanted))
    monkeypatch.setattr(fidelity, "profiled", profiled)
    monkeypatch.setattr(fidelity, "CHUNK", 2)
    return seen


def test_a_run_that_was_stopped_goes_on_where_it_stopped(fidelity, arrays, tmp_path, monkeypatch, capsys):
    _plan(arrays, tmp_path, 5)
    seen = _fake_runs(fidelity, monkeypatch, tmp_path, changed={})
    fidelity.run_gpu(tmp_path, ncu="ncu", seconds=-1)
    assert not seen and "launches 0 to 4 are left out" in capsys.readouterr().out
    fidelity.run_gpu(tmp_path, ncu="ncu", seconds=1000)
    assert seen == [0, 0, 2, 2, 4, 4]
    (tmp_path / "ncu-2.json").unlink()
    fidelity.run_gpu(tmp_path, ncu="ncu", seconds=1000)
    assert seen[6:] == [2, 2]


def test_the_report_has_both_runs_metrics_and_what_differs(fidelity, arrays, tmp_path, monkeypatch):
    after = _plan(arrays, tmp_path, 3)
    other = after[2].copy()
    other[3] = np.nextafter(other[3], np.float32(9))
    other[5] = np.nan
    _fake_runs(fidelity, monkeypatch, tmp_path, changed={"2/after/0": other.view(np.uint8)})
    fidelity.run_gpu(tmp_path, ncu="ncu", seconds=1000)
    rows = fidelity.compare(tmp_path)["launches"]
    assert [row["outputs"]["values"] for row in rows] == [8, 8, 8]
    assert [row["outputs"]["differ"] for row in rows] == [0, 0, 2]
    assert rows[2]["outputs"]["ulps"] == {"1": 1, "more": 1}
    counters = rows[0]["counters"]
    assert counters["global_load_requests"] == [4, 4]
    assert counters["shared_load_bank_conflicts"] == [2, 3], "of two runs the fewer"
    assert counters["shared_atomics"] == [None, 4]


# ---------------------------------------------------------------- a record's launches


def test_only_what_has_changed_since_a_record_needs_a_gpu(fidelity, tmp_path, monkeypatch):
    cases = importlib.import_module("fidelity_cases")
    zeros, ones = np.zeros(8, np.uint8), np.ones(8, np.uint8)
    launches = [
        cases.RecordedLaunch("lab99/one", "references", ptx, "one", (1, 1, 1), (32, 1, 1), 0, [("bytes", b"\1")],
                             [zeros], {}, [ones], {"global_load_requests": count})
        for ptx, count in (("// first", 1), ("// second", 2), ("// third", 3))
    ]  # fmt: skip
    monkeypatch.setattr(cases, "all_cases", list)
    monkeypatch.setattr(cases, "record", lambda cases: launches)
    rows = [
        {"case": "lab99/one", "entry": "one", "grid": [1, 1, 1], "block": [32, 1, 1], "ptx": fidelity.digest(ptx),
         "counters": {"global_load_requests": [7, 9], "registers": [None, 5]}}
        for ptx in ("// first", "// another second", "// third")
    ]  # fmt: skip
    record = {"device": "a chip", "driver": 1, "launches": rows}
    fidelity.make_plan(tmp_path, known=record)
    assert [plan["ptx"] for plan in json.loads((tmp_path / "plan.json").read_text())["launches"]] == [0]

    monkeypatch.setattr(fidelity, "CHUNK", 2)
    np.savez(tmp_path / "gpu-0.npz", **{"end/gpu-0": np.int64(1)})
    (tmp_path / "chip.json").write_text(json.dumps({"name": "a chip", "driver": 1}), "utf-8")
    report = fidelity.compare(tmp_path)["launches"]
    assert [row["ptx"] for row in report] == [fidelity.digest(launch.ptx) for launch in launches]
    assert report[2]["counters"] == {"global_load_requests": [3, 9], "registers": [None, 5]}
    assert report[1]["outputs"] == {"values": 8, "differ": 0, "ulps": {}, "unordered": False}
    assert [row["ptx"] for row in fidelity.again(record)["launches"]] == [rows[0]["ptx"], rows[2]["ptx"]]

    (tmp_path / "chip.json").write_text(json.dumps({"name": "another", "driver": 1}), "utf-8")
    with pytest.raises(SystemExit, match="the record is of"):
        fidelity.compare(tmp_path)


def test_every_recorded_difference_has_its_reason():
    rows = json.loads((BENCHMARKS / "results" / "fidelity_h200.json").read_text("utf-8"))["launches"]
    labs = {row["case"][:5] for row in rows if row["group"] == "references"}
    assert labs >= {f"lab{k:02}" for k in range(17) if k != 14}  # lab 14 has programs
    found = [(row, fidelity_page.reason(row, *difference)) for row, *difference in fidelity_page._differences(rows)]
    assert found and [row["case"] for row, key in found if key not in fidelity_page.WHY] == []
    for row in rows:
        if row["group"] == "references":
            counted = (row["counters"][name] for name in fidelity_page.EXACT)
            sunk = fidelity_page.FEWER_LOADS.get(row["case"]) == "sunk"
            assert sunk or all(ours == theirs for ours, theirs in counted), row["case"]
    conflict = {"shared_load_bank_conflicts": [0, 9], "arbitration_conflicts": [None, 8]}
    row = {"case": "lab99/one", "group": "references", "counters": conflict}
    assert fidelity_page.reason(row, "shared_load_bank_conflicts", 0, 9) == "", "more than arbitration explains"
