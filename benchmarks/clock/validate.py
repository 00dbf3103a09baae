"""Compares the clock's predictions with what a GPU measured: times, cycles, instructions, warp states.

    python benchmarks/clock/validate.py [--gpu KEY ...] [--only TEXT] [--json FOLDER]

reads benchmarks/results/clock_times_KEY.json (`record.py merge`), predicts every case of it here, without a GPU, and
writes benchmarks/results/clock_validation_KEY.json; of the H200 also what `Prediction` says of itself,
src/warpschool/clock/agreement.json.
`scripts/clock_page.py` makes docs/reference/clock.md of the former.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from cases import Case, cases, inputs_of

from warpschool.clock.machine import find_machine
from warpschool.clock.prediction import DEFAULT, RECORD, LaunchPrediction, followed, told
from warpschool.clock.subject import planned

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
STALL = "smsp__average_warps_issue_stalled_"
OWN = "own/"
"""How the names of kernels begin that are not the course's."""


def _rows(case: Case, records: dict[str, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The rows of a case, by GPU. What its warps do is the same on all of them."""
    machines = {gpu: find_machine(gpu) for gpu in records}
    first = next(iter(machines.values()))
    start = time.process_time()
    asked = planned(case.contract, case.plan, first, inputs=partial(inputs_of, case))
    planning = (time.process_time() - start) / len(asked.parts)
    rows: dict[str, list[dict[str, Any]]] = {gpu: [] for gpu in records}
    for at, part in enumerate(asked.parts):
        start = time.process_time()
        what = followed(part, first)
        following = time.process_time() - start
        for gpu, record in records.items():
            start = time.process_time()
            launch = told(part, what, machines[gpu], warm=at > 0)
            cpu = planning + following + time.process_time() - start
            row = _row(case.name, launch, record["cases"][case.name]["times"]["flushed"]["launches"][at][0], cpu)
            counters = record["counters"].get(case.name, {}).get("time", [])
            if at < len(counters):  # taken with all caches flushed before each launch
                alone = launch if at == 0 else told(part, what, machines[gpu])
                row |= _counted(alone, counters[at], record["metrics"]["time"])
                moved = record["counters"][case.name].get("memory")
                if moved and launch.us is not None:
                    row["dram_bytes"] = _dram_bytes(alone, moved[at], record["metrics"]["memory"])
            rows[gpu].append(row)
    return rows


def _predicted(names: list[str], gpus: list[str], kept: Path | None) -> dict[str, list[dict[str, Any]]]:
    """The rows of some cases, by GPU; those that are `kept` are not asked for again."""
    records = {
        gpu: json.loads((RESULTS / f"clock_times_{gpu}.json").read_text(encoding="utf-8")) for gpu in gpus
    }
    rows: dict[str, list[dict[str, Any]]] = {gpu: [] for gpu in gpus}
    for case in cases():
        if case.name in names:
            known = kept / f"{case.name.replace('/', ' ')} {' '.join(gpus)}.json" if kept else None
            if known and known.exists():
                found = json.loads(known.read_text(encoding="utf-8"))
            else:
                found = _rows(case, {gpu: record for gpu, record in records.items() if case.name in record["cases"]})
            if known:
                known.write_text(json.dumps(found), encoding="utf-8")
            for gpu, those in found.items():
                rows[gpu] += those
                print(f"{case.name:44s} {gpu} {those[-1]['predicted_us'] or 0:10.2f} us, "
                      f"measured {those[-1]['measured_us']:10.2f} us", flush=True)  # fmt: skip
    return rows


def _row(name: str, launch: LaunchPrediction, us: float, cpu: float) -> dict[str, Any]:
    return {
        "case": name, "kernel": launch.kernel, "measured_us": us, "predicted_us": launch.us, "reason": launch.reason,
        "cycles": launch.cycles, "instructions": launch.instructions, "limit": launch.limit, "state": launch.waits_for,
        "followed": [launch.blocks_followed, launch.blocks_per_sm], "cpu_s": round(cpu, 3),
    }  # fmt: skip


def _counted(launch: LaunchPrediction, counters: list[float], metrics: list[str]) -> dict[str, Any]:
    """What Nsight Compute said of the launch, and how far its warp states are from the predicted shares."""
    values = dict(zip(metrics, counters, strict=True))
    states = {
        name.removeprefix(STALL).partition("_per")[0].replace("_", " "): value
        for name, value in values.items()
        if name.startswith(STALL)
    }
    total = sum(states.values()) or 1.0
    ours = {name.lower(): share for name, share in launch.states.items()}
    shares = {name: value / total for name, value in states.items()}
    waits = {name: share for name, share in shares.items() if name != "selected"}
    return {
        "cycles": launch.cycles, "state": launch.waits_for, "measured_cycles": values["sm__cycles_elapsed.max"],
        "measured_instructions": values["smsp__inst_executed.sum"],
        "measured_state": max(waits, key=lambda name: waits[name], default=""),
        "ahead": _ahead(waits, launch.waits_for.lower()), "states": _largest(ours), "measured_states": _largest(shares),
        "state_differences": [
            round(abs(shares.get(name, 0.0) - ours.get(name, 0.0)), 4) for name in ours.keys() | shares
        ],
    }


MOST_STATES = 4
"""that a row names: enough to say what one waits for and the other does not"""


def _largest(shares: dict[str, float]) -> dict[str, float]:
    kept = sorted(shares, key=lambda name: -shares[name])[:MOST_STATES]
    return {name: round(shares[name], 3) for name in kept}


def _dram_bytes(launch: LaunchPrediction, counters: list[float], metrics: list[str]) -> list[float]:
    """What DRAM moves: as predicted, for all blocks like those followed, and as counted."""
    counted = dict(zip(metrics, counters, strict=True))
    predicted = launch.dram_bytes / launch.blocks_followed * float(np.prod(launch.grid))
    return [round(predicted), counted["dram__bytes_read.sum"] + counted["dram__bytes_write.sum"]]


def _ahead(shares: dict[str, float], state: str) -> float:
    """By how much the commonest state's share is above this one's."""
    return round(max(shares.values(), default=0.0) - shares.get(state, 0.0), 4)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of a set of launches that have a prediction."""
    told = [row for row in rows if row["predicted_us"] is not None]
    predicted, measured = (np.array([row[key] for row in told]) for key in ("predicted_us", "measured_us"))
    error = np.abs(predicted / measured - 1)
    counted = [row for row in told if row.get("measured_instructions")]
    off = np.array([abs(row["instructions"] / row["measured_instructions"] - 1) for row in counted])
    right = [row["state"].lower() == row["measured_state"] for row in counted]
    cycles = np.array([abs(row["cycles"] / row["measured_cycles"] - 1) for row in counted])
    return {
        "launches": len(told), "without_prediction": len(rows) - len(told), "median": float(np.median(error)),
        "p90": float(np.quantile(error, 0.9)), "rank_correlation": _spearman(predicted, measured),
        "cycles_median": float(np.median(cycles)) if counted else None,
        "instructions_within_2_percent": float((off <= 0.02).mean()) if counted else None,
        "state_right": float(np.mean(right)) if right else None,
        "state_difference_median": float(np.median([value for row in counted for value in row["state_differences"]]))
        if counted else None,
        "cpu_s": float(sum(row["cpu_s"] for row in told)), "cpu_most_s": float(max(row["cpu_s"] for row in told)),
    }  # fmt: skip


def _spearman(a: np.ndarray, b: np.ndarray) -> float:
    ranks = [np.argsort(np.argsort(values)) for values in (a, b)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _interval(rows: list[dict[str, Any]]) -> tuple[float, float]:
    """The range of measured / predicted in which four fifths lie."""
    ratio = [row["measured_us"] / row["predicted_us"] for row in rows if row["predicted_us"] is not None]
    return float(np.quantile(ratio, 0.1)), float(np.quantile(ratio, 0.9))


def main() -> None:
    """Predict all recorded cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", nargs="+", default=[DEFAULT], help="keys of machines; their kernels are followed once")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", default="", help="cases whose names contain this; nothing is written then")
    parser.add_argument("--json", type=Path, default=RESULTS, help="folder where the rows go")
    parser.add_argument("--kept", type=Path, help="folder of rows by case: a run that was cut short goes on from there")
    options = parser.parse_args()
    records = {
        gpu: json.loads((RESULTS / f"clock_times_{gpu}.json").read_text(encoding="utf-8")) for gpu in options.gpu
    }
    known = {name for record in records.values() for name in record["cases"]}
    chosen = [case.name for case in cases(options.only) if options.only in case.name and case.name in known]
    if options.kept:
        options.kept.mkdir(parents=True, exist_ok=True)
    parts = [chosen[k :: options.jobs] for k in range(options.jobs)]
    with ProcessPoolExecutor(options.jobs) as pool:
        count = len(parts)
        found = list(pool.map(_predicted, parts, [options.gpu] * count, [options.kept] * count))
    for gpu, record in records.items():
        rows = sorted((row for part in found for row in part[gpu]), key=lambda row: chosen.index(row["case"]))
        print(gpu, json.dumps(figures_of(rows), indent=1))
        if not options.only:
            write(rows, record, gpu, options.json / f"clock_validation_{gpu}.json")


def figures_of(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The figures of the course's references and of the other kernels."""
    sets = {
        "references": [row for row in rows if not row["case"].startswith(OWN)],
        "outside": [row for row in rows if row["case"].startswith(OWN)],
    }
    return {name: summary(part) for name, part in sets.items() if part}


def write(rows: list[dict[str, Any]], record: dict[str, Any], gpu: str, out: Path) -> None:
    """The document of a machine's rows; of the H200 also what predictions say of themselves."""
    figures = figures_of(rows)
    low, high = _interval([row for row in rows if not row["case"].startswith(OWN)])
    outside = [row for row in rows if row["case"].startswith(OWN) and row["predicted_us"]]
    covered = [low <= row["measured_us"] / row["predicted_us"] <= high for row in outside]
    document = {
        "what": "predictions of the clock against times and counters of a GPU", "device": record["device"],
        "host": platform.machine(), "figures": figures, "interval": [low, high],
        "coverage_outside": float(np.mean(covered)) if covered else None,
        "without": sorted(record["cases"].keys() - {row["case"] for row in rows}), "rows": rows,
    }  # fmt: skip
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if gpu != DEFAULT:
        return
    one = figures.get("outside", figures["references"])
    agreement = {
        "gpu": record["device"], "launches": one["launches"], "median": round(one["median"], 4),
        "p90": round(one["p90"], 4), "rank_correlation": round(one["rank_correlation"], 4), "low": round(low, 3),
        "high": round(high, 3),
    }  # fmt: skip
    RECORD.write_text(json.dumps(agreement, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
