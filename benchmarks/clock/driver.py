"""Microbenchmarks of one GPU, for the clock's machine files.

    python benchmarks/clock/driver.py build                 here: cubins into .clock/micro, machine code checked
    python benchmarks/clock/driver.py run [--out FILE]      on the GPU, with `.clock` carried there: the record
    python benchmarks/clock/driver.py list                  rows and what each is

`run` needs the driver, NumPy and the files of `build`; it takes about a minute and writes the rows that it has when its
time is used up. `--only TEXT` measures rows with that text in their names and keeps the others of the record.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import struct
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]
import cubins
import engines
import memory
import stages
import system
import whole
from arithmetic import arithmetic
from gpu import Clockwork, DriverError, Launchable, summary
from micro import PRELUDE, SLOTS, Kernel, Row

CUBINS = cubins.CARRIED / "micro"
OUT = Path(__file__).parents[1] / "results" / "clock_h200.json"
MIB = 1 << 20
SEED = 11
_ROOM = {"mixed": 32 * MIB, "half": MIB, "zeros": 64 * MIB, "stream": 5120 * MIB, "table": MIB,
         "ring": 8192 * MIB + MIB}  # fmt: skip
_TIMES = 16 * MIB


def groups() -> tuple[dict[str, list[Kernel]], list[Row]]:
    """Kernels by the cubin that they are in, and all rows."""
    found: dict[str, list[Kernel]] = {}
    rows: list[Row] = []
    everything = arithmetic()
    parts: list[tuple[str, list[Kernel], list[Row]]] = [
        ("arithmetic", everything.kernels, everything.rows), ("whole", whole.kernels(), []),
        ("touched", stages.first_touches(), []),
        *((part.__name__, *part()) for part in (
            memory.shared_memory, memory.latencies, memory.first_level, memory.others, system.banks, system.queues,
            system.fetching, system.branches, system.bandwidths, system.warpgroups, engines.asynchronous,
            stages.room, stages.order, stages.together,
        )),
    ]  # fmt: skip
    for name, kernels, more in parts:
        rows += more
        for kernel in kernels:
            group = kernel.name if kernel.alone else name + ("_a" if kernel.arch_specific else "")
            found.setdefault(group, []).append(kernel)
    return found, rows


def build() -> int:
    """Compiles everything; how many kernels' loops are not what they should be."""
    CUBINS.mkdir(parents=True, exist_ok=True)
    wrong = 0
    for group, kernels in groups()[0].items():
        arch = "sm_90a" if group.endswith("_a") else "sm_90"
        options = [f"-arch={arch}", "-std=c++17", "-w", *cubins.include_options()]
        path = CUBINS / f"{group}.cubin"
        path.write_bytes(cubins.compile_cubin(PRELUDE + "".join(k.source for k in kernels), f"{group}.cu", options))
        code = cubins.disassemble(path)
        for kernel in kernels:
            found = cubins.opcodes(cubins.largest_loop(code[kernel.name]))
            unlike = {name: found.get(name, 0) for name, n in kernel.expected.items()
                      if not n <= found.get(name, 0) <= n * 1.2}  # fmt: skip
            if kernel.name.startswith("queue_"):
                unlike = _between_clocks(kernel.name, code[kernel.name])
            if unlike:
                wrong += 1
                print(f"{kernel.name}: {unlike}, not {dict(kernel.expected)}")
    _variants()
    size = sum(path.stat().st_size for path in CUBINS.iterdir())
    print(f"{len(list(CUBINS.iterdir()))} cubins, {size:,} bytes, {wrong} kernels are not what they should be")
    return wrong


_QUEUE_OPCODES = {"lds": "LDS", "ldg": "LDG", "sts": "STS", "stg": "STG", "mufu": "MUFU", "shfl": "SHFL", "f2i": "F2I",
                  "dfma": "DFMA", "popc": "POPC"}  # fmt: skip


def _between_clocks(name: str, code: list[cubins.Sass]) -> dict[str, int]:
    """What stands between the two clocks of a queue's kernel that should not, or is missing."""
    _, kind, *_, depth = name.split("_")
    clocks = [n for n, i in enumerate(code) if "SR_CLOCKLO" in i.operands]
    found = dict(cubins.opcodes(code[clocks[0] + 1 : clocks[1]]))
    opcode = _QUEUE_OPCODES[kind.removesuffix("128")]
    return {} if found == ({opcode: int(depth)} if int(depth) else {}) else found


def _variants() -> None:
    """The kernels of the register banks with other registers."""
    code = (CUBINS / "banks.cubin").read_bytes()
    for variant in (*system.BANKS, system.GIVES_WAY):
        patched = code
        for kernel in (f"banks_{system.BANK_SHORT}", f"banks_{system.BANK_LONG}"):
            used = cubins.ffma_registers(code, kernel)
            stays = variant != system.GIVES_WAY
            choice = system.choose_registers(variant if stays else "all_one", *used)
            patched = cubins.patch_ffma(patched, kernel, choice, stays=stays) if choice else patched
        (CUBINS / f"banks_{variant}.cubin").write_bytes(patched)


class Bench:
    """The GPU, the cubins and the memory that kernels work on."""

    def __init__(self) -> None:
        self.gpu = Clockwork()
        self.where = {k.name: group for group, kernels in groups()[0].items() for k in kernels}
        self.codes: dict[str, bytes] = {}
        self.times = self.gpu.room(_TIMES)
        self.places = {name: self.gpu.room(size) for name, size in _ROOM.items()}
        self.junk = self.gpu.room(256 * MIB)
        self.extra: dict[str, Any] = {}
        rng = np.random.default_rng(SEED)
        for name in ("mixed", "stream", "ring"):
            self.gpu.fill(self.places[name], 0, min(_ROOM[name], 64 * MIB))
        self.gpu.fill(self.places["zeros"], 0, _ROOM["zeros"])
        self.gpu.wait()
        self.gpu.put(self.places["mixed"], rng.integers(0, 1 << 31, 1 << 18, dtype=np.uint32))
        self.gpu.put(self.places["half"], rng.uniform(-1, 1, 1 << 19).astype(np.float16))
        self.gpu.fill(self.places["stream"], 0x3C, _ROOM["stream"])

    def code(self, kernel: str, variant: str = "") -> bytes:
        group = f"banks_{variant}" if variant else self.where[kernel]
        if group not in self.codes:
            self.codes[group] = (CUBINS / f"{group}.cubin").read_bytes()
        return self.codes[group]

    def work(
        self, kernel: str, *, blocks: int, threads: int, loops: int = 1, args: tuple[int, int, int] = (0, 0, 0),
        shared: int = 0, data: str = "zeros", carveout: int = -1, variant: str = "",
    ) -> Launchable:  # fmt: skip
        """A launch of one of our kernels; `blocks` as in `Row`."""
        count = blocks if blocks > 0 else self.gpu.facts["sms"] * max(1, -blocks)
        function = self.gpu.kernel_of(self.code(kernel, variant), kernel, carveout=carveout)
        place = self.places.get(data, self.places["table"])
        params = [bytes(self.times), bytes(place), *(struct.pack("<i", n) for n in (loops, *args))]
        return Launchable(self.gpu, function, (count,), (threads,), params, shared)

    def fetch(self, warps: int, slots: int = SLOTS) -> np.ndarray:
        """What `warps` warps have left."""
        return self.gpu.get(self.times, np.empty(warps * slots, np.uint64))

    def flush(self) -> None:
        """Fills L2 with other things."""
        self.gpu.fill(self.junk, 1, 256 * MIB)

    def hold(self, microseconds: float) -> None:
        """Keeps the GPU busy while the host enqueues."""
        self.work("spin", blocks=1, threads=32, args=(int(microseconds * 1900), 0, 0))()

    # ------------------------------------------------------------ rows

    def measure(self, row: Row) -> dict[str, Any]:
        """One row of the record."""
        values = []
        for _ in range(row.repeats):
            spent = self._time(row, row.kernel) - (self._time(row, row.minus) if row.minus else 0.0)
            values.append(row.per / spent if row.invert else spent / row.per * row.scale)
        value, spread = summary(values)
        blocks = row.blocks if row.blocks > 0 else self.gpu.facts["sms"] * max(1, -row.blocks)
        how = f"{row.kernel}{' less ' + row.minus if row.minus else ''}, {blocks}x{row.threads} threads, "
        how += f"{row.loops} loops, {row.reduce}, median of {row.repeats}"
        return {"name": row.name, "what": row.what, "value": float(f"{value:.5g}"), "unit": row.unit,
                "spread": round(spread, 4), "how": how}  # fmt: skip

    def _time(self, row: Row, kernel: str) -> float:
        work = self.work(
            kernel, blocks=row.blocks, threads=row.threads, loops=row.loops, args=row.args, shared=row.shared,
            data=row.data, carveout=row.carveout, variant=row.variant,
        )  # fmt: skip
        self._prepare(row)
        if row.data != "ring":
            work()
        if row.reduce == "event":
            self.gpu.wait()
            self.hold(30.0)
            start = self.gpu.mark()
            work()
            return self.gpu.between_us(start, self.gpu.mark())
        work()
        self.gpu.wait()
        blocks = row.blocks if row.blocks > 0 else self.gpu.facts["sms"] * max(1, -row.blocks)
        warps = -(-row.threads // 32)
        found = self.fetch(blocks * warps).reshape(blocks, warps, SLOTS).astype(np.int64)
        if row.reduce == "each":
            return float(np.median(found[:, :, 1] - found[:, :, 0]))
        came = found[:, :, 6].max(axis=1)
        begun = np.where(came > 0, came, found[:, :, 0].min(axis=1))
        if row.reduce == "first":
            ends = found[:, :, 1] - begun[:, None]
            return float((ends.min(axis=1) / ends.max(axis=1)).max())
        return float((found[:, :, 1].max(axis=1) - begun).max())

    def _prepare(self, row: Row) -> None:
        if row.data == "ring":
            self._link(*row.setup)
        elif row.data not in self.places:
            table = np.array(memory.offsets(row.data), np.uint32)
            self.gpu.put(self.places["table"], table)

    def _link(self, footprint: int, stride: int, *flags: str) -> None:
        """Makes a ring of 64-bit pointers, as many as a chase goes through."""
        count = footprint // stride
        if "random" in flags:
            rng = np.random.default_rng(SEED)
            picked = rng.permutation(count)[:8200] if count < 1 << 21 else np.unique(rng.integers(0, count, 8400))
            nodes = rng.permutation(picked) * stride
        else:
            nodes = np.arange(min(count, 16384)) * stride
        nodes = np.concatenate([[0], nodes[nodes != 0]])  # chases begin at the first byte
        self.gpu.put(self.times, nodes.astype(np.uint64))
        self.work("link", blocks=64, threads=128, loops=len(nodes), data="ring")()
        if "touched" in flags:
            self.work("touch", blocks=-2, threads=1024, loops=footprint // 128, data="ring")()
        if "flushed" in flags:
            self.flush()
        self.gpu.wait()


def run(out: Path, *, only: str, seconds: float, after: str = "") -> None:
    """Measures and writes the record. A fault of the GPU ends its process: another one goes on with the next row."""
    begun = time.monotonic()
    bench = Bench()
    known = json.loads(out.read_text()) if (only or after) and out.exists() else {}
    rows: list[dict[str, Any]] = []
    failed: dict[str, str] = dict(known.get("failed", {})) if after else {}
    todo = _todo(bench)
    names = [name for name, _ in todo]
    bench.work("load_ffma", blocks=264, threads=1024, loops=20_000, data="mixed")()  # wakes the clock
    for name, measured in todo[names.index(after) + 1 if after else 0 :]:
        if only not in name or time.monotonic() - begun > seconds:
            continue
        try:
            rows += measured()
        except (DriverError, ValueError, IndexError, ZeroDivisionError) as error:
            failed[name] = f"{type(error).__name__}: {error}"
            print(f"{name}: {failed[name]}", flush=True)
            if isinstance(error, DriverError):
                _write(out, bench, known, rows, failed)
                left = str(max(10.0, seconds - (time.monotonic() - begun)))
                again = ["run", "--out", str(out), "--only", only, "--seconds", left, "--after", name]
                os.execv(sys.executable, [sys.executable, __file__, *again])
    _write(out, bench, known, rows, failed)
    print(f"{len(rows)} rows measured, {len(failed)} failed, {time.monotonic() - begun:.1f} s: {out}")


Measured = Callable[[], Iterable[dict[str, Any]]]


def _todo(bench: Bench) -> list[tuple[str, Measured]]:
    """Everything that can be measured, by name; the clock under load last, since it heats the chip."""
    found: list[tuple[str, Measured]] = [
        (row.name, functools.partial(lambda row: [bench.measure(row)], row)) for row in groups()[1]
    ]  # fmt: skip
    specials = {"launch/all": whole.launches, "block/all": whole.turnover, "sets/all": whole.last_sets,
                "l2_latency/all": whole.second_level,
                "fetch/cold": whole.cold_fetch, "touched/all": stages.touched_first, "bulk/all": engines.copies,
                "box/all": engines.boxes,
                "clock/all": whole.clocks}  # fmt: skip
    return found + [(name, functools.partial(special, bench)) for name, special in specials.items()]


def _write(out: Path, bench: Bench, known: dict, rows: list[dict[str, Any]], failed: dict[str, str]) -> None:
    """The record: rows measured now, and those that it had before under other names."""
    names = {row["name"] for row in rows}
    rows = [row for row in known.get("rows", []) if row["name"] not in names] + rows
    digests = {p.stem: hashlib.sha256(p.read_bytes()).hexdigest()[:16] for p in sorted(CUBINS.glob("*.cubin"))}
    head = {"what": "clock", "device": bench.gpu.name, "driver": bench.gpu.driver, "facts": bench.gpu.facts,
            "cubins": digests, "failed": failed, "extra": known.get("extra", {}) | bench.extra}  # fmt: skip
    parts = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    parts.append(' "rows": [\n  ' + ",\n  ".join(json.dumps(row) for row in rows) + "\n ]")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("build", "run", "list"))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--only", default="", help="rows with this in their names")
    parser.add_argument("--after", default="", help="begin behind this row and keep those of the record")
    parser.add_argument("--seconds", type=float, default=400, help="start no further row after this time")
    options = parser.parse_args()
    if options.part == "build":
        raise SystemExit(bool(build()))
    if options.part == "list":
        for row in groups()[1]:
            print(f"{row.name:50s} {row.unit:50s} {row.what}")
    else:
        run(options.out, only=options.only, seconds=options.seconds, after=options.after)


if __name__ == "__main__":
    main()
