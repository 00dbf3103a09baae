"""Compares the clock's predictions with what a GPU measured: times, cycles, instructions, warp states.

    python benchmarks/clock/validate.py [--gpu KEY] [--only TEXT] [--json FILE]

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
from warpschool.clock.prediction import DEFAULT, RECORD, LaunchPrediction, predict_plan

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
STALL = "smsp__average_warps_issue_stalled_"
OWN = "own/"
"""How the names of kernels begin that are not the course's."""


def _rows(
    case: Case, measured: dict[str, Any], counters: list[list[float]], metrics: list[str], gpu: str
) -> list[dict[str, Any]]:
    start = time.process_time()
    found = predict_plan(case.contract, case.plan, find_machine(gpu), inputs=partial(inputs_of, case))
    cpu = time.process_time() - start
    return [
        _row(case.name, launch, measured["times"]["flushed"]["launches"][at][0], cpu / len(found.launches))
        | (_counted(launch, counters[at], metrics) if at < len(counters) else {})
        for at, launch in enumerate(found.launches)
    ]


def _predicted(names: list[str], gpu: str) -> list[dict[str, Any]]:
    """The rows of some cases."""
    record = json.loads((RESULTS / f"clock_times_{gpu}.json").read_text(encoding="utf-8"))
    metrics = record["metrics"].get("time", [])
    rows: list[dict[str, Any]] = []
    for case in cases():
        if case.name in names:
            counters = record["counters"].get(case.name, {}).get("time", [])
            rows += _rows(case, record["cases"][case.name], counters, metrics, gpu)
            print(f"{case.name:44s} {rows[-1]['predicted_us'] or 0:10.2f} us, "
                  f"measured {rows[-1]['measured_us']:10.2f} us", flush=True)  # fmt: skip
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
        "measured_cycles": values["sm__cycles_elapsed.max"],
        "measured_instructions": values["smsp__inst_executed.sum"],
        "measured_state": max(waits, key=lambda name: waits[name], default=""),
        "state_differences": [
            round(abs(shares.get(name, 0.0) - ours.get(name, 0.0)), 4) for name in ours.keys() | shares
        ],
    }


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
    parser.add_argument("--gpu", default=DEFAULT, help="key of the machine")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", default="", help="cases whose names contain this; nothing is written then")
    parser.add_argument("--json", type=Path, help="where the rows go")
    options = parser.parse_args()
    out = options.json or RESULTS / f"clock_validation_{options.gpu}.json"
    record = json.loads((RESULTS / f"clock_times_{options.gpu}.json").read_text(encoding="utf-8"))
    chosen = [case.name for case in cases(options.only) if options.only in case.name and case.name in record["cases"]]
    parts = [chosen[k :: options.jobs] for k in range(options.jobs)]
    with ProcessPoolExecutor(options.jobs) as pool:
        told = list(pool.map(_predicted, parts, [options.gpu] * len(parts)))
    rows = sorted((row for part in told for row in part), key=lambda row: chosen.index(row["case"]))
    course = [row for row in rows if not row["case"].startswith(OWN)]
    outside = [row for row in rows if row["case"].startswith(OWN)]
    sets = {"references": course, "outside": outside}
    figures = {name: summary(part) for name, part in sets.items() if part}
    print(json.dumps(figures, indent=1))
    if options.only:
        return
    low, high = _interval(course)
    covered = [low <= row["measured_us"] / row["predicted_us"] <= high for row in outside if row["predicted_us"]]
    document = {
        "what": "predictions of the clock against times and counters of a GPU", "device": record["device"],
        "host": platform.machine(), "figures": figures, "interval": [low, high],
        "coverage_outside": float(np.mean(covered)) if covered else None, "rows": rows,
    }  # fmt: skip
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if options.gpu != DEFAULT:
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
