"""Lab 15's patterns on a GPU: scans and sums of segments against a copy of as many bytes, sorts against cupy.sort.

    python benchmarks/patterns.py [--out FILE] [--seconds 0.5] [--only PART ...]

Each pattern by the step's reference, and by a kernel of benchmarks/kernels as fast as we know how. Results are compared
with float64 sums, or with a stable sort, then timed in turns with the rival, L2 flushed; zeroing what blocks share is
in their time. A copy of n floats moves 8 n bytes, as a scan of n floats does, and as sums of segments do, whose numbers
are read as well. torch.cumsum and cupy.sort are CUB's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import KERNELS, SOLUTIONS, Bench, cupy

import warpschool as ws
from warpschool.contract import parse_contract
from warpschool.device.measurement import Rules

SCAN, SEGMENTS, SORT = (f"lab15_patterns/{name}" for name in ("04_look_back", "01_segmented_sum", "07_radix_pass"))
SCANNED = (1 << 20, 1 << 24, (1 << 26) + 12_345, 1 << 28)
SUMMED, COUNTS = 1 << 26, (1, 1 << 10, 1 << 16, 1 << 20)
"""elements, and among how many segments of very different lengths they are divided"""
SORTED = 1 << 26
KEYS_ALONE = {"THREADS": 512, "ITEMS": 18, "VALUES": 0}
Work = Callable[[], Any]


class Kernels:
    """A file's kernels, each to be launched on its own."""

    def __init__(self, name: str, constants: Mapping[str, int] | None = None) -> None:
        path = (SOLUTIONS if "/" in name else KERNELS) / f"{name}.cu"
        self.constants = dict(constants or {})
        self.contract = parse_contract(path.read_text(encoding="utf-8"), name=path.name)
        module = ws.RawModule(code=self.contract.source, name=path.name, constants=self.constants, device="gpu")
        self.kernels = {launch.entry: module.get_function(launch.entry) for launch in self.contract.launches}

    @property
    def registers(self) -> int:
        """Of the last kernel, which moves the elements."""
        return int(list(self.kernels.values())[-1].attributes["num_regs"])

    def launches(self, sizes: Mapping[str, int], arrays: Mapping[str, Any]) -> dict[str, Work]:
        """kernel -> a function that launches it on these arrays."""
        found: dict[str, Work] = {}
        for launch in self.contract.bind(sizes, constants=self.constants).launches:
            arguments = tuple(arrays[p.name] if p.is_array else np.int32(sizes[p.name]) for p in launch.arguments)
            found[launch.entry] = partial(self.kernels[launch.entry], launch.grid, launch.block, arguments)
        return found


def in_turn(*works: Work) -> Work:
    """One function that calls all."""

    def work() -> None:
        for one in works:
            one()

    return work


# ---------------------------------------------------------------- scans


def scan_by_step(x: Any, y: Any) -> tuple[Work, int]:
    """The step's launch with its zeroed arrays, and its registers."""
    step, n = Kernels(SCAN), x.size
    tiles = -(-n // 4096)
    state, sums = cupy.zeros(tiles + 1, cupy.int32), cupy.empty((2, tiles), cupy.float32)
    arrays = {"x": x, "y": y, "ticket": state[:1], "flag": state[1:], "sum": sums[0], "prefix": sums[1]}
    return in_turn(partial(state.fill, 0), step.launches({"n": n, "first": 0}, arrays)["scan"]), step.registers


def scan_by_lines(x: Any, y: Any, *, line: int = 16) -> tuple[Work, int]:
    """One word for each tile, in a line of its own; for `line` 1 side by side."""
    fast, n = Kernels("look_back_lines", {"LINE": line}), x.size
    tiles = -(-n // (512 * 12 * 4))
    state = cupy.zeros(16 + tiles * line, cupy.uint64)
    arrays = {"x": x, "y": y, "ticket": state[:1].view(cupy.int32), "words": state[16:]}
    return in_turn(partial(state.fill, 0), fast.launches({"n": n, "first": 0}, arrays)["scan"]), fast.registers


def scan_by_library(x: Any, y: Any) -> tuple[Work, int]:
    """PyTorch's, which is CUB's DeviceScan."""
    return partial(torch.cumsum, torch.from_dlpack(x), 0, out=torch.from_dlpack(y)), 0


def run_scans(bench: Bench) -> None:
    ways: dict[str, Callable[[Any, Any], tuple[Work, int]]] = {
        SCAN: scan_by_step, "look_back_lines": scan_by_lines,
        "look_back_lines, side by side": partial(scan_by_lines, line=1), "torch.cumsum": scan_by_library,
    }  # fmt: skip
    for n in SCANNED:
        x = cupy.random.uniform(-1, 1, n, dtype=cupy.float32)
        exact, y, copy = cupy.cumsum(x, dtype=cupy.float64), cupy.empty_like(x), cupy.empty_like(x)
        for name, build in ways.items():
            work, registers = build(x, y)
            y.fill(cupy.nan)
            work()
            error = float(cupy.abs(y - exact).max() / cupy.abs(exact).max())
            if not error < 1e-4:
                raise ArithmeticError(f"{name}, n = {n}: an error of {error:.2g} of the largest sum")
            bench.add("scan", name, {"n": n}, work, partial(cupy.copyto, copy, x), error=error, amount=8.0 * n,
                      against="a copy", unit="TB/s", registers=registers)  # fmt: skip
        del x, exact, y, copy
        cupy.get_default_memory_pool().free_all_blocks()


# ---------------------------------------------------------------- sums of segments


def numbers(n: int, count: int) -> Any:
    """Segments of very different lengths, ascending, some perhaps empty."""
    cuts = cupy.sort((n * cupy.random.uniform(0, 1, count - 1) ** 2).astype(cupy.int64))
    return cupy.searchsorted(cuts, cupy.arange(n), side="right").astype(cupy.uint32)


def run_segments(bench: Bench) -> None:
    x = cupy.random.uniform(-1, 1, SUMMED, dtype=cupy.float32)
    copy = cupy.empty_like(x)
    ways = {name: Kernels(name) for name in (SEGMENTS, "segmented_fours")}
    for count in COUNTS:
        segment, sizes = numbers(SUMMED, count), {"n": SUMMED, "S": count}
        exact = cupy.bincount(segment, weights=x.astype(cupy.float64), minlength=count)
        most = float(cupy.bincount(segment, weights=cupy.abs(x).astype(cupy.float64), minlength=count).max())
        sums = cupy.zeros(count, cupy.float32)
        for name, way in ways.items():
            launch = way.launches(sizes, {"x": x, "segment": segment, "sums": sums})["segmented_sum"]
            work = in_turn(partial(sums.fill, 0), launch)
            work()
            error = float(cupy.abs(sums - exact).max()) / most
            if not error < 1e-6:
                raise ArithmeticError(f"{name}, {count} segments: an error of {error:.2g} of the sum of sizes")
            bench.add("segments", name, sizes, work, partial(cupy.copyto, copy, x), error=error,
                      amount=8.0 * SUMMED, against="a copy", unit="TB/s", registers=way.registers)  # fmt: skip


# ---------------------------------------------------------------- sorts


def sort_by_step(keys: Any, values: Any, out: tuple[Any, Any], spare: tuple[Any, Any]) -> tuple[Work, int]:
    """Eight passes of the step's three kernels."""
    step, n = Kernels(SORT), keys.size
    table = cupy.empty((2, 16, -(-n // 256)), cupy.int32)
    works: list[Work] = []
    now = (keys, values)
    for number in range(8):
        to = (spare, out)[number % 2]
        arrays = {
            "keys": now[0], "values": now[1], "counts": table[0], "starts": table[1], "sorted_keys": to[0],
            "sorted_values": to[1],
        }  # fmt: skip
        works += step.launches({"n": n, "shift": 4 * number}, arrays).values()
        now = to
    return in_turn(*works), step.registers


def sort_by_sweeps(
    keys: Any, values: Any, out: tuple[Any, Any], spare: tuple[Any, Any], *, constants: Mapping[str, int]
) -> tuple[Work, int]:
    """All digits are counted once; then four passes."""
    fast, n = Kernels("radix_sweep", constants), keys.size
    tiles = -(-n // (constants.get("THREADS", 384) * constants.get("ITEMS", 16)))
    state = cupy.zeros(1028 + 4 * tiles * 256, cupy.int32)  # counts, tickets, words: all begin as zeros
    counts, tickets, words = state[:1024], state[1024:1028], state[1028:].reshape(4, -1)
    starts = cupy.empty(1024, cupy.int32)
    works: list[Work] = [partial(state.fill, 0)]
    now = (keys, values)
    for number in range(4):
        to = (spare, out)[number % 2]
        arrays = {
            "keys": now[0], "values": now[1], "counts": counts, "starts": starts, "sorted_keys": to[0],
            "sorted_values": to[1], "words": words[number], "ticket": tickets[number:],
        }  # fmt: skip
        launches = fast.launches({"n": n, "first": 0, "pass": number}, arrays)
        works += launches.values() if number == 0 else [launches["sweep"]]
        now = to
    return in_turn(*works), fast.registers


def run_sorts(bench: Bench) -> None:
    keys = cupy.asarray(np.random.default_rng(1).integers(0, 1 << 32, SORTED, dtype=np.uint32))
    values = cupy.arange(SORTED, dtype=cupy.uint32)
    expected = cupy.sort(keys)
    out, spare = ((cupy.empty_like(keys), cupy.empty_like(values)) for _ in range(2))
    ways: dict[str, tuple[Callable[..., tuple[Work, Any]], str]] = {
        SORT: (sort_by_step, "keys with values, eight passes"),
        "radix_sweep": (partial(sort_by_sweeps, constants={}), "keys with values"),
        "radix_sweep, keys alone": (partial(sort_by_sweeps, constants=KEYS_ALONE), "keys"),
    }
    for name, (build, note) in ways.items():
        work, registers = build(keys, values, out, spare)
        work()
        with_values = "values" in note
        if not bool((out[0] == expected).all()) or (with_values and not stable(keys, *out)):
            raise ArithmeticError(f"{name}: not sorted")
        bench.add("sort", name, {"n": SORTED}, work, partial(cupy.sort, keys), error=0.0, amount=1e3 * SORTED,
                  against="cupy.sort of keys", unit="Gkeys/s", registers=registers, note=note)  # fmt: skip


def stable(keys: Any, sorted_keys: Any, places: Any) -> bool:
    """Whether each place is that of its key, and equal keys' places ascend: then none is there twice."""
    rising = (sorted_keys[1:] != sorted_keys[:-1]) | (places[1:] > places[:-1])
    return bool((keys[places] == sorted_keys).all() and rising.all())


def main() -> None:
    """Check and time the parts, print a line for each measurement, write all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    parser.add_argument("--seconds", type=float, default=0.5, help="at most this long for one measurement")
    parts = {"scan": run_scans, "segments": run_segments, "sort": run_sorts}
    parser.add_argument("--only", nargs="+", choices=tuple(parts), default=tuple(parts))
    options = parser.parse_args()
    bench = Bench(Rules(max_seconds=options.seconds, target_error=0.005, min_samples=10))
    for name in options.only:
        parts[name](bench)
        cupy.get_default_memory_pool().free_all_blocks()
    if options.out:
        device = ws.get_device("gpu")
        result = {
            "what": "scans and sums of segments against a copy, sorts against cupy.sort", "device": device.description,
            "cuda_driver": device.driver, "cupy": cupy.__version__,
            "torch": torch.__version__, "flush": "L2 flushed before each sample",
            "rows": [asdict(row) for row in bench.rows],
        }  # fmt: skip
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
