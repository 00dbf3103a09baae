"""The simulator against silicon: the same launches on both, outputs and counters compared.

    python benchmarks/fidelity.py [--no-ncu] [--out FILE]       all of it, on a machine with a GPU
    python benchmarks/fidelity.py plan FOLDER                   the simulator's half, anywhere
    python benchmarks/fidelity.py gpu FOLDER [--no-ncu]         the GPU's half: needs CuPy, and ncu for counters
    python benchmarks/fidelity.py compare FOLDER [--out FILE]   the report, from both
    python benchmarks/fidelity.py again RECORD [--out FILE]     today's simulator against the GPU of a record, anywhere

`plan FOLDER --record RECORD` leaves out the launches that a record has with the same PTX, and the report takes them
from there: after a change of one kernel only that kernel needs a GPU, one with the same multiprocessors (H100 or H200).
`--only NAME` does not even run the other cases on the simulator.

`scripts/fidelity_page.py` makes a page of the docs from the report.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fidelity_arrays import Store, digest
from nsight import Profiled, find_ncu, known_metrics, profiled

HERE = Path(__file__).parent
RESULTS = HERE / "results"
CHUNK = 96
"""Launches to one run of ncu: a run that is stopped loses no more than this."""

_G = "l1tex__t_{}_pipe_lsu_mem_{}_op_{}.sum"
METRICS = {
    "global_load_requests": _G.format("requests", "global", "ld"),
    "global_load_sectors": _G.format("sectors", "global", "ld"),
    "global_store_requests": _G.format("requests", "global", "st"),
    "global_store_sectors": _G.format("sectors", "global", "st"),
    "global_atomic_requests": _G.format("requests", "global", "atom"),
    "global_reduction_requests": _G.format("requests", "global", "red"),
    "local_load_requests": _G.format("requests", "local", "ld"),
    "local_store_requests": _G.format("requests", "local", "st"),
    "shared_load_requests": "smsp__inst_executed_op_shared_ld.sum",
    "shared_store_requests": "smsp__inst_executed_op_shared_st.sum",
    "shared_load_bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "async_copy_requests": "smsp__inst_executed_op_ldgsts.sum",
    "warp_instructions": "smsp__inst_executed.sum",
    "fma_instructions": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "divergent_branches": "smsp__sass_branch_targets_threads_divergent.sum",
    "registers": "launch__registers_per_thread",
}
"""our name -> Nsight Compute's"""
REASONS = {
    "active_shared_loads": "smsp__inst_executed_op_shared_ld_pred_on_any.sum",
    "active_shared_stores": "smsp__inst_executed_op_shared_st_pred_on_any.sum",
    "active_matrix_loads": "smsp__inst_executed_op_ldsm_pred_on_any.sum",
    "shared_atomics": "smsp__inst_executed_op_shared_atom.sum",
    "arbitration_conflicts": "l1tex__data_bank_conflicts_type_arbitration.sum",
}
"""What only the GPU counts, and what says why the others differ. Active: some lane executes it."""
NOISY = tuple(name for name in METRICS if name.endswith(("bank_conflicts", "wavefronts")))
"""Arbitration in the load-store unit only adds to these: they are counted twice, and the fewer kept."""
LIMITS = tuple(f"launch__occupancy_limit_{what}" for what in ("blocks", "registers", "shared_mem", "warps"))
"""Blocks that fit on an SM: as many as the smallest of these."""
SHARED_BYTES = ("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic")
FIRST_RUN = (*METRICS.values(), *LIMITS, *SHARED_BYTES)
SECOND_RUN = (*(METRICS[name] for name in NOISY), *REASONS.values())


# ---------------------------------------------------------------- the simulator's half


def make_plan(folder: Path, *, known: dict | None = None, anew: Sequence[str] = (), only: Sequence[str] = ()) -> None:
    """Runs every case on the simulator and writes what a GPU needs to repeat it, and what to expect.

    A launch that the `known` record has with the same PTX stays as it is there, unless its case is to be run `anew`.
    With `only`, cases without one of these in their name are not run, and stay as they are in the record.
    """
    from fidelity_cases import all_cases, record

    import warpschool as ws

    started = time.monotonic()
    cases = all_cases()
    chosen = [case for case in cases if not only or any(part in case.name for part in only)]
    launches = record(chosen)
    texts: list[str] = []
    rows: list[dict[str, Any]] = []
    order: list[int | dict[str, Any]] = []
    given, left = Store(), Store()
    recorded = _by_name(known["launches"]) if known else {}
    for name, launch in _by_name([vars(launch) for launch in launches]).items():
        stays = name in recorded and not any(part in launch["case"] for part in anew)
        if stays and recorded[name]["ptx"] == digest(launch["ptx"]):
            order.append(_today(recorded[name], launch))
            continue
        order.append(len(rows))
        if launch["ptx"] not in texts:
            texts.append(launch["ptx"])
        same = ("case", "group", "entry", "grid", "block", "shared_bytes", "counters", "kind", "unordered")
        rows.append({
            **{key: launch[key] for key in same}, "ptx": texts.index(launch["ptx"]),
            "arguments": [[x.hex() if isinstance(x, bytes) else x for x in one] for one in launch["arguments"]],
            "before": [given.keep(array) for array in launch["before"]],
            "after": [left.keep(array) for array in launch["after"]],
            "variables": {name: given.keep(value) for name, value in launch["variables"].items()},
        })  # fmt: skip
    if known and only:
        run, places = {case.name for case in chosen}, {case.name: k for k, case in enumerate(cases)}
        order += [row for row in known["launches"] if row["case"] in places.keys() - run]
        order.sort(key=lambda entry: places[(entry if isinstance(entry, dict) else rows[entry])["case"]])
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("gpu-*.npz"), *folder.glob("ncu-*.json")):
        old.unlink()
    versions = {"warpschool": ws.__version__, "nvrtc": str(_nvrtc())}
    chip = {key: known[key] for key in ("device", "driver")} if known else None
    plan = {"launches": rows, "order": order, "chip": chip, "ptx": texts, "versions": versions}
    (folder / "plan.json").write_text(json.dumps(plan))
    given.write(folder / "arrays.npz")
    Store({key: array for key, array in left.items() if key not in given}).write(folder / "expected.npz")
    kept = f", and {len(order) - len(rows)} of the record" if known else ""
    print(f"{len(rows)} launches of {len({r['case'] for r in rows})} cases in {time.monotonic() - started:.1f} s{kept}")


def _nvrtc() -> object:
    from warpschool.compile import compiler_report

    return compiler_report().get("nvrtc")


# ---------------------------------------------------------------- the GPU's half


def run_gpu(folder: Path, *, ncu: str | None, seconds: float) -> None:
    """Repeats the plan on the GPU; with ncu under it, in chunks, none of which starts when the time is used up.

    Chunks that an earlier call has done are kept: what ran out of time goes on where it stopped.
    """
    begun = time.monotonic()
    count = len(json.loads((folder / "plan.json").read_text())["launches"])
    metrics = known_metrics(ncu, dict.fromkeys((*FIRST_RUN, *SECOND_RUN))) if ncu else []
    if ncu:
        missing = sorted(name for name, metric in (METRICS | REASONS).items() if metric not in metrics)
        print(f"ncu: {len(metrics)} metrics; this chip has none for {', '.join(missing) or 'nothing'}", flush=True)
    for first in range(0, count, CHUNK):
        if (folder / (f"ncu-{first}.json" if ncu else f"gpu-{first}.npz")).is_file():
            continue
        started = time.monotonic()
        if started - begun > seconds:
            print(f"out of time: launches {first} to {count - 1} are left out", flush=True)
            break
        last = min(first + CHUNK, count)
        command = [sys.executable, str(HERE / "fidelity_gpu.py"), str(folder), str(first), str(last)]
        if ncu:
            runs = [profiled(ncu, command, [m for m in part if m in metrics]) for part in (FIRST_RUN, SECOND_RUN)]
            counted = [{"kernel": p.kernel, "metrics": p.metrics} for p in _fewest(*runs)]
            (folder / f"ncu-{first}.json").write_text(json.dumps(counted))
        else:
            subprocess.run(command, check=True)
        print(f"launches {first} to {last - 1}: {time.monotonic() - started:.1f} s", flush=True)


def _fewest(first_run: list[Profiled], second_run: list[Profiled]) -> list[Profiled]:
    """Launches with the metrics of both runs; of what both counted, the fewer."""
    return [
        Profiled(first.kernel, second.metrics | first.metrics
                 | {name: min(first.metrics[name], second.metrics[name])
                    for name in first.metrics.keys() & second.metrics.keys()})
        for first, second in zip(first_run, second_run, strict=True)
    ]  # fmt: skip


# ---------------------------------------------------------------- the report


def compare(folder: Path) -> dict:
    """Outputs and counters of every launch, side by side."""
    plan = json.loads((folder / "plan.json").read_text())
    stored = Store.read(folder / "arrays.npz") | Store.read(folder / "expected.npz")
    theirs: dict[str, np.ndarray] = {}
    counted: dict[int, Profiled] = {}
    for path in sorted(folder.glob("gpu-*.npz")):
        theirs |= dict(np.load(path))
    for path in sorted(folder.glob("ncu-*.json")):
        first = int(path.stem.split("-")[1])
        counted |= {first + k: Profiled(**p) for k, p in enumerate(json.loads(path.read_text()))}
    ends = {int(path.stem.split("-")[1]): int(theirs.pop(f"end/{path.stem}")) for path in folder.glob("gpu-*.npz")}

    def done_on_gpu(k: int) -> bool:
        return any(first <= k < end for first, end in ends.items())

    found = json.loads((folder / "chip.json").read_text())
    chip = {"device": found["name"], "driver": found["driver"]}
    of_record = plan["chip"] or chip
    if chip != of_record and not all(is_hopper(one["device"]) for one in (chip, of_record)):
        raise SystemExit(f"the record is of {of_record}, and this is {chip}: make the whole plan anew")
    rows = []
    for entry in plan["order"]:
        if isinstance(entry, dict):
            rows.append(entry)
        elif done_on_gpu(entry):
            launch = plan["launches"][entry]
            row = {key: launch[key] for key in ("case", "group", "entry", "grid", "block")}
            row |= {"ptx": digest(plan["ptx"][launch["ptx"]]), "outputs": _outputs(launch, entry, stored, theirs)}
            if entry in counted:
                row["counters"] = _compared(launch, counted[entry], chip["device"])
            rows.append(row if chip == of_record else {**row, "device": chip["device"]})
    return {"what": "fidelity", **of_record, "versions": plan["versions"], "launches": rows}


def is_hopper(device: str) -> bool:
    """Whether a GPU's multiprocessors are those of the GH100 die, which H100 and H200 share: they count the same."""
    return any(name in device for name in ("H100", "H200"))


def _compared(launch: dict, counted: Profiled, chip: str) -> dict[str, list]:
    if counted.kernel != launch["entry"]:
        raise SystemExit(f"{launch['case']}: ncu saw {counted.kernel}, the plan says {launch['entry']}")
    return _counters(launch, counted.metrics) | _occupancy(launch, counted.metrics, chip)


def again(record: dict) -> dict:
    """The record with the simulator's counters of today, for launches that are still the same.

    The GPU's counters and the outputs that were compared stay those of the record. A launch whose PTX has changed since
    is left out, and so is one that the record does not have: both need a GPU.
    """
    from fidelity_cases import all_cases, record as run_all

    recorded = _by_name(record["launches"])
    rows = []
    for name, launch in _by_name([vars(launch) for launch in run_all(all_cases())]).items():
        if name in recorded and recorded[name]["ptx"] == digest(launch["ptx"]):
            rows.append(_today(recorded[name], launch))
        else:
            print(f"not in the record: {launch['case']}, {launch['entry']}")
    return record | {"launches": rows}


def _today(row: dict, launch: dict) -> dict:
    """A record's row with what the simulator counts today."""
    counters = {
        name: [launch["counters"].get(name, 0) if ours is not None and name in METRICS else ours, theirs]
        for name, (ours, theirs) in row["counters"].items()
    }
    return row | {"counters": counters}


def _by_name(launches: list[dict]) -> dict[tuple, dict]:
    """Each launch by its case, its place among those of the case, its kernel, grid and block."""
    seen: dict[str, int] = {}
    named = {}
    for launch in launches:
        place = seen.setdefault(launch["case"], 0)
        seen[launch["case"]] += 1
        named[launch["case"], place, launch["entry"], tuple(launch["grid"]), tuple(launch["block"])] = launch
    return named


def _outputs(
    launch: dict[str, Any], k: int, stored: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """How many values differ, and by how many units in the last place. The GPU tells what is not as expected."""
    kind = np.dtype(launch["kind"])
    values = differ = 0
    histogram: dict[str, int] = {}
    for j, (before, after) in enumerate(zip(launch["before"], launch["after"], strict=True)):
        before, a = stored[before], stored[after]
        b = theirs.get(f"{k}/after/{j}", a)
        if (a == before).all() and (b == before).all():
            continue  # an input
        if a.nbytes % kind.itemsize:
            kind = np.dtype("uint8")
        a, b = a.view(kind), b.view(kind)
        values += a.size
        if kind.kind == "f":
            distance = _ulps(a, b)
            differ += int((distance > 0).sum())
            for low, high, name in ((1, 1, "1"), (2, 2, "2"), (3, 4, "3-4"), (5, 16, "5-16"), (17, 1 << 62, "more")):
                n = int(((distance >= low) & (distance <= high)).sum())
                if n:
                    histogram[name] = histogram.get(name, 0) + n
        else:
            differ += int((a != b).sum())
    return {"values": values, "differ": differ, "ulps": histogram, "unordered": launch["unordered"]}


def _ulps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distance in representable numbers; NaNs equal each other."""
    signed = np.dtype(f"i{a.dtype.itemsize}")

    def ordered(x: np.ndarray) -> np.ndarray:
        bits = x.view(signed).astype(object if x.dtype.itemsize == 8 else np.int64)
        low = np.iinfo(signed).min
        return np.where(bits < 0, low - bits, bits)

    both_nan = np.isnan(a) & np.isnan(b)
    distance = np.where(both_nan, 0, np.abs(ordered(a) - ordered(b)))
    return np.minimum(distance, 1 << 62).astype(np.int64)


def _counters(launch: dict, metrics: dict[str, float]) -> dict[str, list]:
    """name -> [simulator, GPU]; None where the simulator has no such counter."""
    found = {}
    for name, metric in (METRICS | REASONS).items():
        if metric in metrics:
            value = metrics[metric]
            ours = None if name in REASONS or name == "registers" else launch["counters"].get(name, 0)
            found[name] = [ours, int(value) if value == int(value) else value]
    return found


def _occupancy(launch: dict, metrics: dict[str, float], chip: str) -> dict[str, list]:
    """Blocks on an SM: by `warpschool.occupancy`, and by ncu; nothing for a chip without a specification."""
    import warpschool as ws

    needed = (*LIMITS, *SHARED_BYTES, METRICS["registers"])
    if any(name not in metrics for name in needed):
        return {}
    try:
        spec = ws.find_gpu(chip)
    except ws.WarpschoolError:
        return {}
    registers, shared_bytes = int(metrics[METRICS["registers"]]), int(sum(metrics[name] for name in SHARED_BYTES))
    ours = ws.occupancy(math.prod(launch["block"]), registers=registers, shared_bytes=shared_bytes, gpu=spec)
    return {"blocks_per_sm": [ours.blocks, int(min(metrics[name] for name in LIMITS))]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", nargs="?", choices=("plan", "gpu", "compare", "again"), help="one part, or all")
    parser.add_argument("folder", nargs="?", type=Path, help="where the parts find their files; again: a record")
    parser.add_argument("--no-ncu", action="store_true", help="compare outputs alone")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no further run on the GPU after this time")
    parser.add_argument("--record", type=Path, help="plan: leave out what this record has")
    parser.add_argument("--anew", action="append", default=[], help="plan: cases with this in their name all the same")
    parser.add_argument("--only", action="append", default=[], help="plan: run cases with this in their name alone")
    parser.add_argument("--out", type=Path, default=RESULTS / "fidelity.json")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.folder or Path(temporary)
        ncu = None if a.no_ncu else find_ncu()
        if a.part in (None, "plan"):
            make_plan(folder, known=json.loads(a.record.read_text()) if a.record else None, anew=a.anew, only=a.only)
        if a.part in (None, "gpu"):
            if ncu is None and not a.no_ncu:
                print("no ncu on this machine: outputs are compared, counters are not", file=sys.stderr)
            run_gpu(folder, ncu=ncu, seconds=a.seconds)
        if a.part in (None, "compare", "again"):
            report = again(json.loads(a.folder.read_text())) if a.part == "again" else compare(folder)
            a.out.write_text(json.dumps(report, indent=0) + "\n")
            print(f"{len(report['launches'])} launches on {report['device']}: {os.path.relpath(a.out)}")


if __name__ == "__main__":
    main()
