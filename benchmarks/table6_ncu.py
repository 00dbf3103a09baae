"""What Nsight Compute counts of lab05's 08_batched and of cuBLAS's batched product: the missing rows of table 6.

    python benchmarks/table6_ncu.py [--out FILE]        needs a GPU, CuPy and ncu

The products are those of `gemm.py`'s part "batched". Rates are bytes over the kernel's own duration under ncu, clocks
not locked, one launch each after a warm-up.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nsight import Profiled, find_ncu, known_metrics, profiled

os.environ["CUPY_TF32"] = "0"
HERE = Path(__file__).parent
STEP = "lab05_work_per_thread/08_batched"
BATCH, SHARE, SIZE = 36 * 32, 32, 256
METRICS = (
    "gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum", "sm__inst_executed.avg.per_cycle_active",
    "lts__t_sectors_op_read.sum", "lts__t_sectors_op_read_lookup_hit.sum", "lts__t_sectors_op_write.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active", "launch__registers_per_thread",
)  # fmt: skip


def launch_all() -> None:
    """The four products, between profiler marks; the child of ncu."""
    import cupy
    import numpy as np

    import warpschool as ws
    from warpschool.contract import parse_contract

    path = HERE.parent / "solutions" / f"{STEP}.cu"
    contract = parse_contract(path.read_text(), name=path.name)
    kernel = ws.RawModule(code=contract.source, name=path.name, device="gpu").get_function(contract.launches[0].entry)
    work: list[Callable[[], object]] = []
    for each in (SHARE, 1):
        a = cupy.random.standard_normal((BATCH, SIZE, SIZE), dtype=cupy.float32)
        b = cupy.random.standard_normal((BATCH // each, SIZE, SIZE), dtype=cupy.float32)
        out = cupy.empty_like(a)
        sizes = {"BATCH": BATCH, "SHARE": each, "M": SIZE, "N": SIZE, "K": SIZE}
        launch = contract.bind(sizes).launches[0]
        arrays = {"A": a, "B": b, "C": out}
        arguments = tuple(arrays[p.name] if p.is_array else np.int32(sizes[p.name]) for p in launch.arguments)
        tall, wide = a.reshape(BATCH // each, each * SIZE, SIZE), out.reshape(BATCH // each, each * SIZE, SIZE)
        work.append(partial(kernel, launch.grid, launch.block, arguments))
        work.append(partial(cupy.matmul, tall, b, out=wide))
    for run in work:
        run()
    cupy.cuda.runtime.deviceSynchronize()
    for run in work:
        cupy.cuda.profiler.start()
        run()
        cupy.cuda.runtime.deviceSynchronize()
        cupy.cuda.profiler.stop()
    print("device:", cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())


def row(note: str, who: str, seen: Profiled) -> dict:
    """Rates and shares of one launch, with the names that `warpcourse.lab05_work_per_thread` has for them."""
    m = seen.metrics
    per_second = 1e9 / m["gpu__time_duration.sum"] * 1e-9  # bytes -> GB/s; the duration is in ns

    def rate(name: str, bytes_each: int = 1) -> float | None:
        return m[name] * bytes_each * per_second if name in m else None

    hits, reads = m.get("lts__t_sectors_op_read_lookup_hit.sum"), m.get("lts__t_sectors_op_read.sum")
    load, store = (m.get(f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.pct") for op in ("ld", "st"))
    held = m.get("sm__warps_active.avg.pct_of_peak_sustained_active")
    return {
        "note": note, "who": who, "kernel": seen.kernel, "time_ms": m["gpu__time_duration.sum"] * 1e-6,
        "values": {
            "DRAM read in GB/s": rate("dram__bytes_read.sum"),
            "DRAM written in GB/s": rate("dram__bytes_write.sum"),
            "instructions per clock": m.get("sm__inst_executed.avg.per_cycle_active"),
            "L2 hits of reads": hits / reads if hits is not None and reads else None,
            "L2 read in GB/s": rate("lts__t_sectors_op_read.sum", 32),
            "shared memory read in GB/s": rate("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", 128),
            "shared memory written in GB/s": rate("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", 128),
            "occupancy": held / 100 if held is not None else None,
            # 0 where all loads are cp.async, which this metric does not see
            "global load efficiency": load / 100 if load else None,
            "global store efficiency": store / 100 if store is not None else None,
        },
        "metrics": m,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=HERE / "results" / "table6.json", help="where the figures go")
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.launch:
        return launch_all()
    ncu = find_ncu()
    if ncu is None:
        raise SystemExit("this needs Nsight Compute: ncu is not on the path")
    seen = profiled(ncu, [sys.executable, __file__, "--launch"], known_metrics(ncu, METRICS))
    rows = []
    for note in ("U shared by 32 images", "U not shared"):
        rows.append(row(note, "08_batched", seen.pop(0)))
        ours = rows[-1]["kernel"]
        theirs = [seen.pop(0)]
        while seen and seen[0].kernel != ours:  # a product that cuBLAS splits: its longest kernel counts
            theirs.append(seen.pop(0))
        rows.append(row(note, "cuBLAS", max(theirs, key=lambda p: p.metrics["gpu__time_duration.sum"])))
    import cupy

    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    result = {"what": "table 6", "device": device, "batch": BATCH, "size": SIZE, "rows": rows}
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    for r in rows:
        print(r["who"], r["note"], f"{r['time_ms']:.3f} ms", r["kernel"])


if __name__ == "__main__":
    main()
