"""Times and counters of the clock's cases on a GPU, by the very cubins that were compiled here.

    python benchmarks/clock/record.py plan [--only TEXT]     here: cubins and manifest.json into .clock/record
    python benchmarks/clock/record.py time FILE              on the GPU: times of every launch, L2 flushed and warm
    python benchmarks/clock/record.py profile FILE           there, behind `time`: Nsight Compute's counters
    python benchmarks/clock/record.py merge FILE FILE...     several records of one chip into the first

FILE is one JSON document that every call adds to: what it has already is not measured again, so that a call which ran
out of time (`--seconds`) is simply repeated. Cases whose machine code or sizes are others than the manifest's leave it
first: a record of the last time is brought up to date. `time` and `profile` need the driver, NumPy, ncu, and `.clock`.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]
from inputs import make
from nsight import Profiled, find_ncu, known_metrics, read_csv

FOLDER = Path(__file__).parent / ".clock" / "record"
CASE_SECONDS = 0.25
"""of timing, for each case and each state of L2, about"""
MOST_SAMPLES, FEWEST_SAMPLES = 25, 3
SAVED_AFTER = 20
"""cases, so that little is lost where somebody ends the process"""
CHUNK = 24
"""Launches to one run of ncu."""
AHEAD = 6
"""cases whose arrays are made side by side"""
L2_BYTES = 256 << 20
"""written to evict L2"""

_STALLS = ("barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss", "lg_throttle",
           "long_scoreboard", "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "not_selected",
           "selected", "short_scoreboard", "sleeping", "tex_throttle", "wait")  # fmt: skip
_PIPES = ("alu", "fma", "fmaheavy", "fmalite", "fp16", "fp64", "lsu", "tensor", "tensor_op_hmma", "tensor_op_imma",
          "tensor_op_dmma", "tensor_op_gmma", "uniform", "xu", "adu", "cbu")  # fmt: skip
SETS: dict[str, list[str]] = {
    "time": [
        "sm__cycles_elapsed.max", "sm__cycles_active.avg", "gpu__time_duration.sum", "smsp__inst_executed.sum",
        "smsp__inst_issued.sum", "smsp__issue_active.avg", "smsp__warps_active.avg",
        "sm__warps_active.avg.pct_of_peak_sustained_active", "sm__inst_executed.avg.per_cycle_active",
        "smsp__thread_inst_executed_per_inst_executed.ratio", "launch__registers_per_thread",
        "launch__occupancy_limit_registers", "launch__occupancy_limit_shared_mem", "launch__occupancy_limit_warps",
        "launch__occupancy_limit_blocks", "launch__waves_per_multiprocessor",
        *(f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio" for name in _STALLS),
    ],
    "memory": [
        "dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_sectors_op_read.sum", "lts__t_sectors_op_write.sum",
        "lts__t_sectors_op_atom.sum", "lts__t_sectors_op_red.sum", "lts__t_sectors.sum",
        "lts__t_sectors_lookup_miss.sum", "lts__t_sectors_lookup_hit.sum", "lts__t_sectors_srcunit_tex.sum",
        "lts__t_sector_hit_rate.pct", "l1tex__t_sector_hit_rate.pct", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
        "l1tex__data_pipe_lsu_wavefronts.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
        "l1tex__t_set_accesses.sum", "l1tex__t_set_conflicts.sum", "l1tex__lsuin_requests.sum",
        "l1tex__m_xbar2l1tex_read_sectors.sum", "l1tex__m_l1tex2xbar_write_sectors.sum",
    ],
    "pipes": [
        *(f"sm__inst_executed_pipe_{name}.sum" for name in _PIPES),
        "sm__pipe_alu_cycles_active.sum", "sm__pipe_fma_cycles_active.sum", "sm__pipe_fmaheavy_cycles_active.sum",
        "sm__pipe_fp64_cycles_active.sum", "sm__pipe_tensor_cycles_active.sum",
        "sm__pipe_tensor_op_hmma_cycles_active.sum", "sm__pipe_tensor_op_imma_cycles_active.sum",
        "sm__pipe_tensor_op_gmma_cycles_active.sum", "sm__pipe_shared_cycles_active.sum",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed", "l1tex__throughput.avg.pct_of_peak_sustained_active",
        "lts__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "smsp__inst_executed_op_shared_ld.sum", "smsp__inst_executed_op_shared_st.sum",
        "smsp__inst_executed_op_global_ld.sum", "smsp__inst_executed_op_global_st.sum",
        "smsp__inst_executed_op_ldgsts.sum", "smsp__inst_executed_op_ldsm.sum",
        "smsp__inst_executed_op_branch.sum", "smsp__sass_branch_targets_threads_divergent.sum",
    ],
}  # fmt: skip
"""What ncu is asked for, in turns: the first set of all launches comes before the second of any."""


def manifest() -> dict[str, Any]:
    return json.loads((FOLDER / "manifest.json").read_text())


def chosen(only: str) -> list[dict[str, Any]]:
    """The cases with that text in their names: medium ones first, then small, then large."""
    order = {"medium": 0, "choice": 0, "small": 1, "large": 2}
    found = [case for case in manifest()["cases"] if only in case["case"]]
    return sorted(found, key=lambda case: order[case["case"].partition("@")[2]])


class Loaded:
    """A case on the GPU: arrays made, constants filled, launches ready."""

    def __init__(self, gpu: Any, case: Mapping[str, Any], hosts: list[np.ndarray]) -> None:
        from gpu import Launchable

        self.gpu = gpu
        self.code = code = (FOLDER / f"{case['cubin']}.cubin").read_bytes()
        self.places = [gpu.array(host) for host in hosts]
        self.again: list[tuple[Any, Any, int]] = []
        for array, host, place in zip(case["arrays"], hosts, self.places, strict=True):
            if array["direction"] == "inout" or array["how"] == "zero":  # a run changes it: every one begins anew
                self.again.append((place, gpu.array(host), host.nbytes))
        for symbol, index in case["constants"]:
            address, _ = gpu.symbol(code, symbol)
            gpu.put(address, hosts[index])
        self.launches, self.resources = [], []
        for launch in case["launches"]:
            function = gpu.kernel_of(code, launch["entry"])
            params = [self._argument(*argument) for argument in launch["arguments"]]
            self.launches.append(Launchable(gpu, function, launch["grid"], launch["block"], params, launch["shared"]))
            self.resources.append(gpu.resources(function))
        gpu.wait()

    def _argument(self, kind: str, what: Any, more: Any = None) -> bytes:
        if kind == "bytes":
            return bytes.fromhex(what)
        if kind == "array":
            return bytes(self.places[what])
        from ptxsim.tensormap import TensorMap

        fields = {name: tuple(value) if isinstance(value, list) else value for name, value in more.items()}
        return self.gpu.tensor_map(TensorMap(**fields | {"address": self.places[what].value}))

    def restore(self) -> None:
        """Arrays that a run changes and reads, as they were."""
        for place, saved, nbytes in self.again:
            self.gpu.copy(place, saved, nbytes)

    def free(self) -> None:
        """Gives memory and module back."""
        self.gpu.forget(self.code)
        for place in (*self.places, *(saved for _, saved, _ in self.again)):
            self.gpu.free(place)


def with_arrays(cases: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Any, list[np.ndarray]]]:
    """Each case with the arrays of the host, which are made while the case before is on the GPU."""
    seed = manifest()["seed"]

    def made(case: Mapping[str, Any]) -> list[np.ndarray]:
        return [make(array, seed) for array in case["arrays"]]

    with ThreadPoolExecutor(AHEAD) as pool:
        waiting = deque((case, pool.submit(made, case)) for case in cases[:AHEAD])
        for k in range(len(cases)):
            case, arrays = waiting.popleft()
            if k + AHEAD < len(cases):
                waiting.append((cases[k + AHEAD], pool.submit(made, cases[k + AHEAD])))
            yield case, arrays.result()


# ---------------------------------------------------------------- times


def time_all(out: Path, *, only: str, seconds: float) -> None:
    """Times of all cases that the record does not have."""
    from gpu import Clockwork, DriverError

    begun = time.monotonic()
    record = _opened(out)
    gpu = Clockwork()
    record |= {"what": "clock times", "device": gpu.name, "driver": gpu.driver, "facts": gpu.facts}
    spin = gpu.kernel_of((FOLDER.parent / "micro" / "whole.cubin").read_bytes(), "spin")
    times, junk = gpu.room(1 << 20), gpu.room(L2_BYTES)
    left = [case for case in chosen(only) if case["case"] not in record["cases"].keys() | record["failed"].keys()]
    for case, hosts in with_arrays(left):
        if time.monotonic() - begun > seconds:
            print(f"out of time before {case['case']}", flush=True)
            break
        try:
            loaded = Loaded(gpu, case, hosts)
            record["cases"][case["case"]] = _timed(gpu, loaded, case, spin, times, junk)
            loaded.free()
            if len(record["cases"]) % SAVED_AFTER == 0:
                _save(out, record)
        except DriverError as error:
            record["failed"][case["case"]] = str(error)
            print(f"{case['case']}: {error}", flush=True)
            _save(out, record)
            if "OUT_OF_MEMORY" not in str(error) and "INVALID_VALUE" not in str(error):
                raise SystemExit(f"the GPU has faulted; call again: {case['case']} is left out") from error
    _save(out, record)
    print(
        f"{len(record['cases'])} cases timed, {len(record['failed'])} failed, {time.monotonic() - begun:.0f} s: {out}"
    )


def _timed(gpu: Any, loaded: Loaded, case: Mapping[str, Any], spin: Any, times: Any, junk: Any) -> dict[str, Any]:
    """Microseconds of each launch, medians: of a run with L2 flushed before it, and of one right behind another."""
    from gpu import Launchable, summary

    hold_us = 30 + 8 * len(loaded.launches)
    params = [bytes(times), bytes(times), *(struct.pack("<i", n) for n in (1, hold_us * 1900, 0, 0))]
    hold = Launchable(gpu, spin, (1,), (32,), params)
    states: dict[str, Any] = {}
    for state in ("flushed", "warm"):
        samples: list[list[float]] = []
        started = time.monotonic()
        while len(samples) < MOST_SAMPLES + 2 and (
            len(samples) < FEWEST_SAMPLES + 1 or time.monotonic() - started < CASE_SECONDS
        ):
            loaded.restore()
            if state == "flushed":
                gpu.fill(junk, len(samples) & 255, L2_BYTES)
            hold()
            marks = [gpu.mark()]
            for launch in loaded.launches:
                launch()
                marks.append(gpu.mark())
            gpu.wait()
            samples.append([gpu.between_us(a, b, keep=True) for a, b in pairwise(marks)])
            gpu.give(marks)
        kept = samples[1:]
        found = [summary([sample[k] for sample in kept]) for k in range(len(loaded.launches))]
        whole = summary([sum(sample) for sample in kept])
        states[state] = {"launches": [[round(m, 3), round(s, 4)] for m, s in found],
                         "whole": [round(whole[0], 3), round(whole[1], 4)], "samples": len(kept)}  # fmt: skip
    launches = [
        {key: launch[key] for key in ("entry", "grid", "block", "shared")} | {"resources": resources}
        for launch, resources in zip(case["launches"], loaded.resources, strict=True)
    ]
    return {"cubin": case["cubin"], "sizes": case["sizes"], "launches": launches, "times": states}


# ---------------------------------------------------------------- counters


def profile(out: Path, *, only: str, seconds: float, sets: list[str]) -> None:
    """Counters of all launches that the record does not have, in runs of ncu of a few cases each."""
    ncu = find_ncu()
    if ncu is None:
        raise SystemExit("there is no ncu on this machine")
    begun = time.monotonic()
    record = _opened(out)
    for name in sets:
        metrics = known_metrics(ncu, SETS[name])
        missing = sorted(set(SETS[name]) - set(metrics))
        record["missing"][name] = missing
        print(f"{name}: {len(metrics)} metrics; this chip has none for {', '.join(missing) or 'nothing'}", flush=True)
        left = [case for case in chosen(only) if name not in record["counters"].get(case["case"], {})
                and case["case"] not in record["failed"]]  # fmt: skip
        for chunk in _chunks(left):
            started = time.monotonic()
            if started - begun > seconds:
                print(f"out of time before {chunk[0]['case']}", flush=True)
                break
            found, problem = _profiled(ncu, metrics, [case["case"] for case in chunk])
            _sort_in(record, name, metrics, chunk, found)
            if problem:
                record["problems"].append(problem[-500:])
                print(problem[-1500:], flush=True)
            _save(out, record)
            count = sum(len(case["launches"]) for case in chunk)
            print(f"{name}: {count} launches, {time.monotonic() - started:.1f} s", flush=True)
    _save(out, record)


def _chunks(cases: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    chunk: list[dict[str, Any]] = []
    for case in cases:
        chunk.append(case)
        if sum(len(one["launches"]) for one in chunk) >= CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _profiled(ncu: str, metrics: list[str], names: list[str]) -> tuple[list[Profiled], str]:
    options = ["--clock-control", "none", "--profile-from-start", "off", "--csv", "--print-units", "base"]
    command = [sys.executable, __file__, "child", ",".join(names)]
    done = subprocess.run(
        [ncu, *options, "--metrics", ",".join(metrics), *command], capture_output=True, text=True, check=False
    )
    problem = f"ncu: {done.stdout[-700:]}\n{done.stderr[-700:]}" if done.returncode else ""
    try:
        return read_csv(done.stdout), problem
    except ValueError as error:
        return [], problem or str(error)


def _sort_in(
    record: dict[str, Any], name: str, metrics: list[str], chunk: list[dict[str, Any]], found: list[Profiled]
) -> None:
    """Puts launches where they belong, as lists in the order of `record["metrics"]`; what is incomplete is left out."""
    order = record["metrics"].setdefault(name, metrics)
    at = 0
    for case in chunk:
        mine = found[at : at + len(case["launches"])]
        at += len(case["launches"])
        if [p.kernel for p in mine] == [launch["entry"] for launch in case["launches"]]:
            rows = [[_short(p.metrics.get(metric)) for metric in order] for p in mine]
            record["counters"].setdefault(case["case"], {})[name] = rows


def _short(value: float | None) -> float | int | None:
    if value is None:
        return None
    return int(value) if value == int(value) else float(f"{value:.6g}")


def child(names: list[str]) -> None:
    """Behind ncu: each case once, its launches between the profiler's start and stop."""
    from gpu import Clockwork

    gpu = Clockwork()
    by_name = {case["case"]: case for case in manifest()["cases"]}
    for case, hosts in with_arrays([by_name[name] for name in names]):
        loaded = Loaded(gpu, case, hosts)
        gpu.call("cuProfilerStart")
        for launch in loaded.launches:
            launch()
        gpu.wait()
        gpu.call("cuProfilerStop")
        loaded.free()


# ---------------------------------------------------------------- the record


def _opened(out: Path) -> dict[str, Any]:
    plan = manifest()
    record: dict[str, Any] = {"files": {}, "nvrtc": plan["nvrtc"], "cases": {}, "failed": {}, "metrics": {},
                              "missing": {}, "counters": {}, "problems": []}  # fmt: skip
    record |= json.loads(out.read_text()) if out.exists() else {}
    _take_files(record, plan["files"])
    for case in plan["cases"]:
        known = record["cases"].get(case["case"])
        if known and known["sizes"] != case["sizes"]:
            _forget(record, case["case"])
    return record


def _take_files(record: dict[str, Any], files: Mapping[str, Any]) -> None:
    """Notes files, and forgets what was measured of those whose machine code was another then."""
    for name, file in files.items():
        if record["files"].setdefault(name, file)["text"] != file["text"]:
            record["files"][name] = file
            for case in [case for case in record["cases"] if case.partition("@")[0] == name]:
                _forget(record, case)


def _forget(record: dict[str, Any], case: str) -> None:
    for part in ("cases", "failed", "counters"):
        record[part].pop(case, None)


def _save(out: Path, record: Mapping[str, Any]) -> None:
    """One line for each case, so that a change can be read."""
    out.parent.mkdir(parents=True, exist_ok=True)
    parts = []
    for name, value in record.items():
        if isinstance(value, dict) and name in ("cases", "counters", "files"):
            lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(one)}" for key, one in value.items())
            parts.append(f" {json.dumps(name)}: {{\n{lines}\n }}")
        else:
            parts.append(f" {json.dumps(name)}: {json.dumps(value)}")
    out.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def merge(out: Path, others: list[Path]) -> None:
    """Adds what other records have; of files whose machine code differs, the later record's alone stays."""
    record = json.loads(out.read_text())
    for path in others:
        more = json.loads(path.read_text())
        if more["device"] != record["device"]:
            raise SystemExit(f"{path} is of another chip")
        if any(record["metrics"].get(name, what) != what for name, what in more["metrics"].items()):
            raise SystemExit(f"{path} is of other metrics")
        _take_files(record, more["files"])
        for part in ("cases", "failed", "metrics", "missing"):
            record[part] |= more[part]
        for case, found in more["counters"].items():
            record["counters"].setdefault(case, {}).update(found)
    _save(out, record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("plan", "time", "profile", "merge", "child"))
    parser.add_argument("files", nargs="*")
    parser.add_argument("--only", default="", help="cases with this in their names")
    parser.add_argument("--sets", default=",".join(SETS), help="of profile: which sets of metrics, in this order")
    parser.add_argument("--seconds", type=float, default=450, help="begin nothing after this time")
    options = parser.parse_args()
    if options.part == "plan":
        from cases import write_plan

        write_plan(options.only)
    elif options.part == "child":
        child(options.files[0].split(","))
    else:
        first, *others = map(Path, options.files)
        if options.part == "time":
            time_all(first, only=options.only, seconds=options.seconds)
        elif options.part == "profile":
            profile(first, only=options.only, seconds=options.seconds, sets=options.sets.split(","))
        else:
            merge(first, others)


if __name__ == "__main__":
    main()
