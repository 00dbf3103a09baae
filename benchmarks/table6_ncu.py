"""What Nsight Compute counts of batched products: our stages 1 to 3, lab05's 08_batched, cuBLAS: the thesis's table 6.

    python benchmarks/table6_ncu.py [--out FILE]        needs a GPU, CuPy and ncu

The products are those of `gemm.py`'s part "batched". Stages 1 to 3 are the course's own steps of the same ideas, their
operands moved on by the number of the product: one element a thread, tiles in shared memory, tiles in registers.
Rates are bytes over the kernel's own duration under ncu, clocks not locked, one launch each after a warm-up.
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
STAGES = {
    "stage 1": "lab01_naive_gemm/01_naive", "stage 2": "lab02_tiling/01_tiled",
    "stage 3": "lab05_work_per_thread/04_register_blocked",
}  # fmt: skip
NOTES = ("U shared by 32 images", "U not shared")
BATCH, SHARE, SIZE = 36 * 32, 32, 256
METRICS = (
    "gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum", "sm__inst_executed.avg.per_cycle_active",
    "lts__t_sectors_op_read.sum", "lts__t_sectors_op_read_lookup_hit.sum", "lts__t_sectors_op_write.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active", "launch__registers_per_thread",
)  # fmt: skip


def batched(source: str, share: int) -> str:
    """A kernel of one product made one of many: blocks of a number z take the operands of product z."""
    head, brace, body = source.partition(" K)\n{\n")
    if not brace:
        raise ValueError("the kernel's body does not begin behind its parameter K")
    moved = f"    A += blockIdx.z * M * K;\n    B += blockIdx.z / {share} * K * N;\n    C += blockIdx.z * M * N;\n"
    return head + brace + moved + body


def products(each: int) -> dict[str, Callable[[], object]]:
    """Who -> its launch of one shape of batch, checked against cuBLAS."""
    import cupy
    import numpy as np

    import warpschool as ws
    from warpschool.contract import parse_contract

    a = cupy.random.standard_normal((BATCH, SIZE, SIZE), dtype=cupy.float32)
    b = cupy.random.standard_normal((BATCH // each, SIZE, SIZE), dtype=cupy.float32)
    out, exact = cupy.empty_like(a), cupy.empty_like(a)
    tall, wide = a.reshape(BATCH // each, each * SIZE, SIZE), exact.reshape(BATCH // each, each * SIZE, SIZE)
    arrays = {"A": a, "B": b, "C": out}
    found: dict[str, Callable[[], object]] = {}
    for who, step in {**STAGES, "08_batched": STEP}.items():
        path = HERE.parent / "solutions" / f"{step}.cu"
        contract = parse_contract(path.read_text(), name=path.name)
        source = contract.source if step == STEP else batched(contract.source, each)
        kernel = ws.RawModule(code=source, name=path.name, device="gpu").get_function(contract.launches[0].entry)
        sizes = {"M": SIZE, "N": SIZE, "K": SIZE} | ({"BATCH": BATCH, "SHARE": each} if step == STEP else {})
        launch = contract.bind(sizes).launches[0]
        arguments = tuple(arrays[p.name] if p.is_array else np.int32(sizes[p.name]) for p in launch.arguments)
        found[who] = partial(kernel, (*launch.grid[:2], BATCH), launch.block, arguments)
    found["cuBLAS"] = partial(cupy.matmul, tall, b, out=wide)
    found["cuBLAS"]()
    for who in (*STAGES, "08_batched"):
        out.fill(cupy.nan)
        found[who]()
        error = float(cupy.abs(out - exact).max())
        if not error < 1e-2:
            raise ArithmeticError(f"{who}: an error of {error}")
    return found


def launch_all() -> None:
    """All products of both shapes, between profiler marks; the child of ncu."""
    import cupy

    work = [launch for each in (SHARE, 1) for launch in products(each).values()]
    cupy.cuda.runtime.deviceSynchronize()
    for run in work:
        cupy.cuda.profiler.start()
        run()
        cupy.cuda.runtime.deviceSynchronize()
        cupy.cuda.profiler.stop()


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
    for note in NOTES:
        rows += [row(note, who, seen.pop(0)) for who in (*STAGES, "08_batched")]
        theirs = [seen.pop(0)]
        while seen and seen[0].kernel != "matmul":  # a product that cuBLAS splits: its longest kernel counts
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
