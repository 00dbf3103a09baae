"""What a GPU makes of the small kernels of `tests/sim/hopper_cases.py`: the record that the simulator is held against.

    python benchmarks/hopper.py list               the cases, by name
    python benchmarks/hopper.py assemble           each by ptxas for sm_90a, where there is one: is it PTX at all?
    python benchmarks/hopper.py record FOLDER      on a machine with the GPU: FOLDER/silicon_hopper.npz and .json
    python benchmarks/hopper.py count FOLDER       behind `record`, where there is ncu: what it counts, into the .json
    python benchmarks/hopper.py compare FOLDER     the simulator against that record, case by case

A record belongs into `tests/sim/data`, where `tests/sim/test_hopper_silicon.py` finds it. It holds the arrays that
every case wrote and, as a fact, the driver's 128 bytes of every tensor map with the address of its array; the .json has
the cases at which the GPU stopped, and counters of the others. Cases run in child processes: one that hangs or faults
costs itself, and is named.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.sim.hopper_cases import HopperCase, MapOf, cases, faults

RECORD, ABOUT = "silicon_hopper.npz", "silicon_hopper.json"
METRICS = {
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "tensor_pipe_instructions": "sm__inst_executed_pipe_tensor_op_gmma.sum",
}
"""Our name -> Nsight Compute's, of what both count."""


# ---------------------------------------------------------------- on the GPU


def one(case: HopperCase, gpu: object) -> dict[str, np.ndarray]:
    """Runs a case: what it wrote, by the number of the argument, and the maps' bytes."""
    from hopper_gpu import Gpu

    assert isinstance(gpu, Gpu)
    function = gpu.kernel(case.ptx.encode(), "k")
    places = {k: gpu.array(x) for k, x in enumerate(case.arguments) if isinstance(x, np.ndarray)}
    found: dict[str, np.ndarray] = {}
    params = []
    for k, x in enumerate(case.arguments):
        if isinstance(x, MapOf):
            params.append(gpu.tensor_map(x.at(places[x.array].value)))
            found[f"map{k}"] = np.frombuffer(params[-1], np.uint8)
            found[f"address{k}"] = np.array(places[x.array].value, np.uint64)
        else:
            params.append(bytes(places[k]) if k in places else x.tobytes())
    gpu.launch(function, case.grid, case.block, params, shared_bytes=case.shared_bytes)
    for k in case.written:
        argument = case.arguments[k]
        assert isinstance(argument, np.ndarray)
        found[str(k)] = gpu.get(places[k], argument)
    for place in places.values():
        gpu.free(place)
    return found


def child(folder: Path, first: int, *, with_faults: bool) -> None:
    """Runs the cases from `first` on, and says which is under way in a file; stops at the first that fails."""
    from hopper_gpu import Gpu

    gpu = Gpu()
    (folder / "chip.json").write_text(json.dumps({"chip": gpu.name, "driver": gpu.driver}))
    for number, case in enumerate(cases() + (faults() if with_faults else [])):
        if number < first:
            continue
        (folder / "now").write_text(str(number))
        np.savez(folder / f"{number}.npz", **one(case, gpu))  # type: ignore[arg-type]  # names are arrays' only
    (folder / "now").write_text("-1")


def record(folder: Path, *, seconds: float) -> None:
    """All cases, each for at most so many seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    names, failed = [c.name for c in cases() + faults()], {}
    with tempfile.TemporaryDirectory() as kept:
        parts, first = Path(kept), 0
        while first < len(names):
            with (parts / "log").open("w") as log:
                here = subprocess.Popen(
                    [sys.executable, __file__, "child", kept, "--first", str(first)], stdout=log, stderr=log
                )
                ended = _watched(here, parts / "now", seconds)
            now = parts / "now"
            number = int(now.read_text() or first) if now.exists() else first
            if ended == 0 and number < 0:
                break
            last = (parts / "log").read_text().strip().splitlines()[-1:]
            failed[names[number]] = "took too long" if ended is None else " ".join(last)
            print(f"{names[number]}: {failed[names[number]]}", flush=True)
            first = number + 1
        arrays: dict[str, np.ndarray] = {}
        for number, name in enumerate(names):
            if (parts / f"{number}.npz").exists() and name not in failed:
                with np.load(parts / f"{number}.npz") as archive:
                    arrays |= {f"{name}/{k}": archive[k] for k in archive.files}
        np.savez_compressed(folder / RECORD, **arrays)  # type: ignore[arg-type]  # names are arrays' only
        chip = json.loads((parts / "chip.json").read_text()) if (parts / "chip.json").exists() else {}
    recorded = len(names) - len(failed)
    (folder / ABOUT).write_text(json.dumps({**chip, "cases": recorded, "failed": failed}, indent=1) + "\n")
    print(f"{recorded} of {len(names)} cases recorded, {(folder / RECORD).stat().st_size:,} bytes")


def count(folder: Path) -> None:
    """What Nsight Compute counts of every case, into the record's .json: one launch each, in order."""
    from nsight import find_ncu, read_csv

    ncu = find_ncu()
    if ncu is None:
        raise SystemExit("there is no ncu on this machine")
    with tempfile.TemporaryDirectory() as kept:
        done = subprocess.run(
            [ncu, "--clock-control", "none", "--csv", "--print-units", "base", "--metrics", ",".join(METRICS.values()),
             sys.executable, __file__, "child", kept, "--no-faults"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"ncu failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    counted = {
        case.name: {ours: int(launch.metrics[theirs]) for ours, theirs in METRICS.items()}
        for case, launch in zip(cases(), read_csv(done.stdout), strict=True)
    }
    about = json.loads((folder / ABOUT).read_text())
    (folder / ABOUT).write_text(json.dumps(about | {"counters": counted}, indent=1) + "\n")
    print(f"{len(counted)} cases counted")


def _watched(process: subprocess.Popen[bytes], now: Path, seconds: float) -> int | None:
    """How a child ended; None: it made no progress for so long and was ended."""
    since, last = time.monotonic(), ""
    while (status := process.poll()) is None:
        time.sleep(0.05)
        current = now.read_text() if now.exists() else ""
        if current != last:
            since, last = time.monotonic(), current
        if time.monotonic() - since > seconds:
            process.kill()
            process.wait()
            return None
    return status


# ---------------------------------------------------------------- here


def assemble() -> int:
    """How many cases ptxas refuses; each is named with its words."""
    refused = 0
    with tempfile.TemporaryDirectory() as folder:
        source, code = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        for case in cases() + faults():
            source.write_text(case.ptx)
            command = ["ptxas", "-arch=sm_90a", str(source), "-o", str(code)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                refused += 1
                print(case.name, done.stderr.strip().splitlines()[0])
    print(f"{refused} of {len(cases())} cases refused")
    return refused


FAMILIES = {
    "load": "boxes loaded", "store": "boxes stored", "reduce": "boxes reduced", "bytes": "runs of bytes",
    "multicast": "clusters", "neighbour": "clusters", "distributed": "clusters", "remote": "clusters",
    "wgmma": "wgmma", "cvt": "conversions of 8-bit floats",
}
"""First word of a case's name -> what it is; others are instructions of a warp."""


def compare(folder: Path, out: Path | None = None) -> int:
    """How many cases the simulator computes otherwise than the record has it; `out` gets the account."""
    from tests.sim.hopper_launch import launch, unlike

    about = json.loads((folder / ABOUT).read_text())
    families: dict[str, Counter[str]] = {}
    others: list[tuple[str, str, int, int]] = []
    with np.load(folder / RECORD) as archive:
        for case in cases():
            wanted = [archive[f"{case.name}/{k}"] for k in case.written]
            found, _, counters = launch(case, tensor_sums="hopper")
            told = [t for x, y in zip(found, wanted, strict=True) for t in unlike(x, y)]
            theirs = about["counters"][case.name]
            others += [(case.name, k, counters.get(k, 0), n) for k, n in theirs.items() if counters.get(k, 0) != n]
            for line in told:
                print(f"{case.name}: {line}")
            account = families.setdefault(FAMILIES.get(case.name.split("_")[0], "instructions of a warp"), Counter())
            account.update(launches=1, values=sum(x.size for x in wanted), differ=bool(told), counters=len(theirs))
    stops = {case.name: bool(launch(case)[1]) for case in faults()}
    for name in (n for n, is_told in stops.items() if not is_told):
        print(f"{name}: the GPU stops here, the simulator finds nothing")
    if out is not None:
        report = {"what": "hopper", "device": about["chip"], "driver": about["driver"], "families": families,
                  "others": others, "stops": len(stops), "told": sum(stops.values())}  # fmt: skip
        out.write_text(json.dumps(report, indent=1) + "\n")
    wrong = sum(f["differ"] for f in families.values()) + len(stops) - sum(stops.values())
    print(f"{wrong} cases differ, {len(others)} counters")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["list", "assemble", "record", "count", "compare", "child"])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build/hopper"))
    parser.add_argument("--out", type=Path, help="of compare: where the account goes, as JSON")
    parser.add_argument("--first", type=int, default=0, help="of a child: where to begin")
    parser.add_argument("--no-faults", action="store_true", help="of a child: without those at which a GPU stops")
    parser.add_argument("--seconds", type=float, default=20, help="without progress, after which a case is given up")
    options = parser.parse_args()
    if options.what == "list":
        print("\n".join(c.name for c in cases()))
    elif options.what == "assemble":
        sys.exit(bool(assemble()))
    elif options.what == "record":
        record(options.folder, seconds=options.seconds)
    elif options.what == "count":
        count(options.folder)
    elif options.what == "child":
        child(options.folder, options.first, with_faults=not options.no_faults)
    else:
        sys.exit(bool(compare(options.folder, options.out)))


if __name__ == "__main__":
    main()
