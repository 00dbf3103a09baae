"""Nsight Compute from Python: which metrics a chip has, a program under `ncu`, its CSV as numbers."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Profiled:
    """One kernel launch as `ncu` saw it: metric -> value, in base units."""

    kernel: str
    metrics: dict[str, float]


def find_ncu() -> str | None:
    """The program, on the path or in the usual place."""
    return shutil.which("ncu") or shutil.which("ncu", path="/usr/local/cuda/bin")


def known_metrics(ncu: str, wanted: Iterable[str]) -> list[str]:
    """Those of `wanted` that the GPU at hand has. Launch attributes are not listed, and always there."""
    listed = subprocess.run([ncu, "--query-metrics"], capture_output=True, text=True, check=True).stdout
    names = {line.split()[0] for line in listed.splitlines() if line.strip()}
    return [m for m in wanted if m.startswith("launch__") or m.split(".")[0] in names]


def profiled(ncu: str, command: Sequence[str], metrics: Sequence[str]) -> list[Profiled]:
    """Runs a program that brackets its launches with cudaProfilerStart and cudaProfilerStop."""
    options = ["--clock-control", "none", "--profile-from-start", "off", "--csv", "--print-units", "base"]
    done = subprocess.run(
        [ncu, *options, "--metrics", ",".join(metrics), *command], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"ncu failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return read_csv(done.stdout)


def read_csv(text: str) -> list[Profiled]:
    """Launches in order from what `ncu --csv` prints, messages of ncu and of the program before it included."""
    start = text.find('"ID"')
    if start < 0:
        raise ValueError(f"no table in what ncu printed: {text[-500:]}")
    launches: dict[str, Profiled] = {}
    for row in csv.DictReader(io.StringIO(text[start:])):
        if row["ID"] is None or not row["ID"].isdigit():
            continue
        launch = launches.setdefault(row["ID"], Profiled(row["Kernel Name"].split("(")[0], {}))
        try:
            launch.metrics[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
        except ValueError:
            continue  # "n/a", or a text
    return [launches[key] for key in sorted(launches, key=int)]
