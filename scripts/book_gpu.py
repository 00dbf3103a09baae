"""The figures of docs/learn/gpu.md: a GPU's memory, how much must be in flight, a small kernel thread by thread."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
from scripts.book_pictures import BLUE, ORANGE, new_figure, svg

import warpschool as ws
from ptxsim.limits import LIMITS
from warpschool.inspect.accesses import trace_launch
from warpschool.model import find_gpu
from warpschool.recorded import recorded

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "learn" / "gpu.md"
GPU = find_gpu("h200")
IN_FLIGHT = ("1x32_threads_1", "1x128_threads_1", "1x256_threads_1", "1x512_threads_1", "1x1024_threads_1",
             "2x1024_threads_1", "2x1024_threads_2", "2x1024_threads_4")  # fmt: skip


@cache
def measured() -> dict[str, tuple[float, str]]:
    """What microbenchmarks measured on an H200: name -> (value, what was done)."""
    rows = recorded("clock_h200.json")["rows"]
    return {row["name"]: (row["value"], row["what"]) for row in rows}


def memory_table() -> str:
    """The levels of memory: size, latency, bandwidth."""
    sm, clock = LIMITS[9, 0], GPU.clock_mhz * 1e-3
    cycles = {name: measured()[name][0] for name in ("ffma/latency", "lds_32/latency", "ldg/latency_l1")}
    cycles |= {name: measured()[name][0] for name in ("l2_latency/128_apart_p50", "dram/latency_in_order")}
    every_sm = f"{GPU.l1_gb_per_s / 1e3:.1f} TB/s"
    rows = [
        ("registers", f"{sm.registers * 4 >> 10} KiB an SM", cycles["ffma/latency"], "three operands an FMA"),
        ("shared memory", f"up to {sm.shared_bytes >> 10} KiB an SM", cycles["lds_32/latency"], every_sm),
        ("L1 cache", "what shared memory leaves of 256 KiB", cycles["ldg/latency_l1"], every_sm),
        ("L2 cache", f"{GPU.l2_bytes >> 20} MiB for all", cycles["l2_latency/128_apart_p50"],
         f"{measured()['l2_read/16_mib'][0] / 1e3:.1f} TB/s"),
        ("DRAM", "141 GB", cycles["dram/latency_in_order"],
         f"{measured()['dram_read/2x1024_threads_4_each'][0] / 1e3:.2f} TB/s"),
    ]  # fmt: skip
    lines = ["| level | size | cycles until the result | ns | bandwidth, all SMs |", "|---|---|---:|---:|---:|"]
    lines += [f"| {name} | {size} | {c:.0f} | {c / clock:.0f} | {speed} |" for name, size, c, speed in rows]
    return "\n".join(lines)


def in_flight() -> list[tuple[int, int, float]]:
    """(warps, bytes in flight for each SM, GB/s) of reads from DRAM."""
    found = []
    for name in IN_FLIGHT:
        value, what = measured()[f"dram_read/{name}_each"]
        blocks, threads = re.findall(r"\d+", name)[:2]
        (in_bytes,) = re.findall(r"(\d+) bytes for an SM", what)
        found.append((int(blocks) * int(threads) // 32, int(in_bytes), value))
    return found


def law_gb_per_s(in_bytes: int) -> float:
    """What Little's law allows with the latency of an idle memory."""
    seconds = measured()["dram/latency_in_order"][0] / (GPU.clock_mhz * 1e6)
    return GPU.sms * in_bytes / seconds * 1e-9


def flight_table() -> str:
    """Bytes in flight against bandwidth."""
    lines = ["| warps on an SM | bytes in flight, each SM | Little's law allows | measured |", "|---:|---:|---:|---:|"]
    for warps, in_bytes, value in in_flight():
        allowed = min(law_gb_per_s(in_bytes), GPU.dram_gb_per_s)
        lines.append(f"| {warps} | {in_bytes:,} | {allowed:,.0f} GB/s | {value:,.0f} GB/s |")
    return "\n".join(lines)


def flight_picture() -> str:
    """The same as a picture."""
    figure, axes = new_figure(6.4, 3.2)
    x = np.array([in_bytes for _, in_bytes, _ in in_flight()])
    fine = np.geomspace(x[0], x[-1], 60)
    axes.loglog(fine, [min(law_gb_per_s(b), GPU.dram_gb_per_s) for b in fine], color=ORANGE, label="Little's law")
    axes.loglog(x, [value for *_, value in in_flight()], "o", color=BLUE, label="measured")
    axes.set_xticks(x, [f"{b:,}" for b in x], rotation=30, ha="right")
    axes.minorticks_off()
    axes.set_yticks([200, 500, 1000, 2000, 4800], ["200", "500", "1,000", "2,000", "4,800"])
    axes.set(xlabel="bytes in flight on each SM", ylabel="GB/s from DRAM")
    axes.legend(frameon=False)
    return svg(figure, "in-flight")


def kernel() -> str:
    """The chapter's own kernel file, as it is printed there."""
    (found,) = re.findall(r"```cuda\n(// differences\.cu.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return found


def trace_table() -> str:
    """Each thread of the chapter's launch: its element, what it loads and stores."""
    n, block, grid = 10, 4, 3
    module = ws.RawModule(code=kernel(), device="sim")
    x = module.device.asarray(np.arange(n, dtype=np.float32) ** 2, name="x")
    d = module.device.empty((n - 1,), np.float32, name="d")
    launch = module.get_function("differences")(grid, block, (x, d, np.int32(n)))
    assert not launch.hazards
    values = module.device.asnumpy(d)
    lines = ["| block | thread | i | i < n - 1 | loads | stores |", "|---:|---:|---:|---|---|---|"]
    for number in range(grid):
        seen = trace_launch(launch, block=number)
        loads = [_touched(request) for request in seen.select("global", "load")]
        stores = [_touched(request) for request in seen.select("global", "store")]
        for lane in range(block):
            i = number * block + lane
            read = sorted(found[lane] for found in loads if lane in found)
            written = [found[lane] for found in stores if lane in found]
            taken = "yes" if written else "no"
            told = ", ".join(f"`x[{e}]` = {e * e}" for e in reversed(read))
            kept = ", ".join(f"`d[{e}]` = {values[e]:g}" for e in written)
            lines.append(f"| {number} | {lane} | {i} | {taken} | {told or 'nothing'} | {kept or 'nothing'} |")
    return "\n".join(lines)


def _touched(request: object) -> dict[int, int]:
    """lane -> element."""
    lanes, elements = request.lanes, request.elements()  # type: ignore[attr-defined]  # a WarpRequest
    return dict(zip(map(int, lanes), map(int, elements), strict=True))


TABLES = {"memory": memory_table, "flight": flight_table, "trace": trace_table}
IMAGES = {"in-flight.svg": flight_picture}
