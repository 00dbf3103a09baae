"""The figures of docs/learn/measuring.md: clocks under load, and one kernel's counters beside its predicted times."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np

import warpschool as ws
from warpschool.recorded import recorded

PAGE = Path(__file__).resolve().parents[1] / "docs" / "learn" / "measuring.md"
N = 1 << 20
LOADS = {
    "fp32": "multiply-adds of single precision", "memory": "reads from DRAM", "hmma_f16": "tensor cores, `mma.sync`",
    "wgmma_f16": "tensor cores, `wgmma`",
}  # fmt: skip


def clocks_table() -> str:
    """The clock after a second of work of one kind."""
    rows = {row["name"]: row["value"] for row in recorded("clock_h200.json")["rows"]}
    lines = ["| work | clock |", "|---|---:|"]
    return "\n".join(lines + [f"| {told} | {rows[f'clock/{name}']:,.0f} MHz |" for name, told in LOADS.items()])


def kernel() -> str:
    """The chapter's own kernel file, as it is printed there."""
    (found,) = re.findall(r"```cuda\n(// reversed\.cu.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return found


def reversed_table() -> str:
    """The kernel with one and with eight neighbouring elements a thread."""
    lines = [
        "| elements a thread | load requests | sectors loaded | of a request | in excess | L2 flushed | L2 warm |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for each in (1, 8):
        module = ws.RawModule(code=kernel(), constants={"EACH": each}, device="sim")
        x = module.device.asarray(np.random.default_rng(1).random(N, np.float32))
        y = module.device.empty((N,), np.float32)
        launch = module.get_function("reversed")(-(-N // (256 * each)), 256, (x, y, np.int32(N)))
        assert not launch.hazards
        c = launch.counters
        ideal = c.global_load_bytes // 32
        cold, warm = (_predicted_us(each, warm=warm) for warm in (False, True))
        lines.append(
            f"| {each} | {c.global_load_requests:,} | {c.global_load_sectors:,} "
            f"| {c.global_load_sectors / c.global_load_requests:g} | {c.global_load_sectors - ideal:,} "
            f"| {cold:.1f} us | {warm:.1f} us |"
        )
    return "\n".join(lines)


def _predicted_us(each: int, *, warm: bool) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reversed.cu"
        path.write_text(kernel(), encoding="utf-8")
        found = ws.predict_time(str(path), {"n": N}, gpu="h200", constants={"EACH": each}, warm=warm)
    assert found.us is not None, found.reason
    return found.us


TABLES = {"clocks": clocks_table, "reversed": reversed_table}
