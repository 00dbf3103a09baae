"""Words for what was found in a whole program, and tables of what it did."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from warpschool.programs.refused import refusal
from warpschool.programs.report import HostFrame, KernelUse, Note, ProgramReport
from warpschool.show.table import Table

Facts = Mapping[str, Any]
_FIRST_PAGE = 4096
"""Bytes at the beginning of a process's addresses where nothing ever lies."""
_SIDES = {"from": "reads", "to": "writes", "set": "sets", "library": "uses"}
_ENDS = {
    "assert": "an assertion failed", "trap": "the kernel stopped itself", "deadlock": "threads wait for ever",
    "endless": "the kernel does not end", "prints-too-much": "the kernel prints too much",
    "too-large": "there is not enough memory for it", "unsupported": "the simulator cannot run it",
    "impossible-launch": "no GPU takes this launch",
}  # fmt: skip


def place(frame: HostFrame) -> str:
    """A host place as people write it, relative to where they are."""
    path = os.path.relpath(frame.file) if frame.file.startswith("/") else frame.file
    return f"{frame.file if path.startswith('../..') else path}:{frame.line}"


def sentence(note: Note) -> str:
    """What happened, in one sentence without places."""
    if note.finding is not None:
        if note.kind == "use-after-free":
            does = note.finding.message.partition(" outside ")[0]
            return f"{does} {note.facts['name']}, which was freed before the launch"
        return note.finding.message
    if note.kind in _ENDS:
        return f"{_ENDS[note.kind]}: {note.facts['message']}"
    return _HOST[note.kind](note.facts)


def _copy_bounds(f: Facts) -> str:
    what = f"{f.get('call', '')} {_SIDES[f['side']]} {f['bytes']:,} bytes".lstrip()
    if not f.get("size"):
        return f"{what} where nothing was allocated"
    if not 0 <= f["offset"] < f["size"]:
        return f"{what} outside every allocation; the nearest is {f['name']}, {f['size']:,} bytes"
    behind = f["offset"] + f["bytes"] - f["size"]
    return f"{what} from byte {f['offset']:,} of {f['name']} on: {behind:,} bytes behind its {f['size']:,}"


def _copy_pointer(f: Facts) -> str:
    which = {"from": "source", "to": "destination", "set": "pointer"}[f["side"]]
    if f["expected"] == "device":
        return f"the {which} is no device memory: a host pointer, or one that no allocation gave"
    return f"the {which} should be the host's, and is device memory ({f['name']})"


def _crash(f: Facts) -> str:
    name = signal.Signals(f["signal"]).name
    if name in ("SIGSEGV", "SIGBUS"):
        what = "a null pointer, or one next to it, was used:" if f["address"] < _FIRST_PAGE else "it used"
        return f"host code crashed ({name}): {what} address {f['address']:#x}"
    return f"host code ended with {name}"


_HOST: dict[str, Callable[[Facts], str]] = {
    "leak": lambda f: f"{f['bytes']:,} bytes of {f['memory']} memory, {f['name']}, were never freed",
    "double-free": lambda f: f"{f['name']} is freed a second time",
    "invalid-free": lambda f: (
        f"{f['name']} is {f['memory']} memory, or this is not its start: its own call must free it"
        if "name" in f else "this pointer was not given by cudaMalloc"
    ),
    "copy-bounds": _copy_bounds,
    "copy-freed": lambda f: f"a copy {_SIDES[f['side']]} {f['name']}, which was freed before",
    "copy-pointer": _copy_pointer,
    "copy-uninitialized": lambda f: f"copies {f['bytes']:,} bytes of {f['name']}, into which nothing was ever written",
    "global-uninitialized": lambda f: (
        f"the kernel reads {f['bytes']:,} bytes of {f['name']} that nothing was ever written to, from byte "
        f"{f['offset']:,} on"
    ),
    "stream-race": lambda f: (
        f"{f['does']} in stream {f['streams'][0]} and {f['other']} in stream {f['streams'][1]} use the same bytes of "
        f"{f['name']}, one of them writes, and nothing orders them: an event or a synchronisation is missing"
    ),
    "host-access": lambda f: (
        f"host code uses device memory{_of(f)}: copy it with cudaMemcpy, or allocate it with cudaMallocManaged"
    ),
    "early-access": lambda f: (
        f"host code uses managed memory{_of(f)} while launch {f['launch']} may still run: "
        "cudaDeviceSynchronize() comes first"
    ),
    "unchecked-launch": lambda f: (
        f"the launch failed with {f['error']} and nobody asked: grid {f['grid']}, block {f['block']}, "
        f"{f['shared']:,} bytes of dynamic shared memory"
    ),
    "ignored-error": lambda f: f"{f['call']} failed with {f['error']}, and the program did not look",
    "unsupported-call": lambda f: _refused(f["call"]),
    "tensor-map": lambda f: f"{f['call']} makes no tensor map: {f['message']}",
    "interrupted": lambda f: "the kernel was still running when the program was interrupted",
    "crash": _crash,
}  # fmt: skip


def _refused(call: str) -> str:
    why = refusal(call)
    return f"the simulator has no {call} ({why.what}): {why.instead}"


def _of(f: Facts) -> str:
    return f" (byte {f['offset']:,} of {f['name']})" if "name" in f else ""


def places(note: Note) -> list[str]:
    """Where: the launch and the host's stack, where memory came from, where it was freed."""
    lines = []
    if note.hosts:
        by = " <- ".join(place(frame) for frame in note.hosts)
        lines.append(f"launch {note.launch}, at {by}" if note.launch else f"at {by}")
    elif note.launch:
        lines.append(f"launch {note.launch}")
    if (note.freed and note.finding is None) or note.kind == "use-after-free":
        lines.append(f"freed at {place(note.freed[0])}")
    if note.origin:
        lines.append(f"{note.facts['name']} was allocated at {place(note.origin[0])}")
    if note.times > 1:
        lines.append(f"{note.times:,} times in all")
    return lines


def advice(note: Note) -> str:
    """What to do next, where that is known."""
    return str(note.facts.get("next_step") or "")


def source_place(note: Note) -> tuple[str, int]:
    """The file and the line that a finding is shown at; ("", 0) where there is none."""
    if note.finding is not None:
        return note.finding.file, note.finding.line
    if note.facts.get("line") and note.facts.get("file"):
        return str(note.facts["file"]), int(note.facts["line"])
    frame = next(iter(note.hosts or note.origin), None)
    return (frame.file, frame.line) if frame is not None else ("", 0)


def read_source(file: str) -> str:
    """A source file's text; "" where it cannot be read."""
    try:
        return Path(file).read_text("utf-8", "replace")
    except OSError:
        return ""


def duration(ns: float) -> str:
    unit, of = next(((u, size) for u, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)) if ns >= size), ("ns", 1.0))
    return f"{ns / of:.3g} {unit}"


def kernel_table(report: ProgramReport) -> Table:
    """Kernels by their time, as nsys lists them."""
    total = sum(use.time_ns for use in report.kernels) or 1.0
    rows = tuple(
        (f"{use.time_ns / total:.1%}", duration(use.time_ns), f"{use.launches:,}", duration(use.time_ns / use.launches),
         duration(use.shortest_ns), duration(use.longest_ns), use.kernel)
        for use in report.kernels
    )  # fmt: skip
    heads = ("time", "total", "launches", "mean", "min", "max", "kernel")
    return Table("Kernels", heads, rows, frozenset(heads[:-1]))


def copy_table(report: ProgramReport) -> Table:
    """Copies by their time."""
    rows = tuple((duration(use.time_ns), f"{use.calls:,}", f"{use.nbytes:,}", use.kind) for use in report.copies)
    heads = ("total", "calls", "bytes", "direction")
    return Table("Copies", heads, rows, frozenset(heads[:-1]))


def counter_tables(report: ProgramReport) -> list[Table]:
    """What each kernel counted, over all its launches."""
    return [
        Table(f"{use.kernel}: {_launches(use.launches)}", ("counter", "count"),
              tuple((name, f"{count:,}") for name, count in use.counters.items()), frozenset(("count",)))
        for use in report.kernels
    ]  # fmt: skip


def compared(a: ProgramReport, b: ProgramReport, names: tuple[str, str]) -> list[Table]:
    """Kernels of two programs side by side: first their predicted times, then what they count otherwise.

    Kernels of one name belong together, whatever the parameters of their template are where there is one of each; where
    both have a single one, these.
    """
    pairs = _paired(a, b)
    heads = ("kernel", *(f"{what}\n{name}" for what in ("launches", "time") for name in names))
    times = tuple(
        (kernel, *(f"{use.launches:,}" if use else "-" for use in both), *(duration(use.time_ns) if use else "-"
         for use in both))
        for kernel, *both in pairs
    )  # fmt: skip
    tables = [Table("Kernels", heads, times, frozenset(heads[1:]))]
    for kernel, first, second in pairs:
        if first is None or second is None:
            continue
        counted = dict.fromkeys([*first.counters, *second.counters])
        rows = tuple(
            (name, f"{x:,}", f"{y:,}", f"{y / x:.3g}" if x else "new")
            for name in counted
            if (x := first.counters.get(name, 0)) != (y := second.counters.get(name, 0))
        )
        if rows:
            tables.append(Table(kernel, ("counter", *names, "ratio"), rows, frozenset((*names, "ratio"))))
    return tables


def _paired(a: ProgramReport, b: ProgramReport) -> list[tuple[str, KernelUse | None, KernelUse | None]]:
    ours, theirs = ({use.kernel: use for use in report.kernels} for report in (a, b))
    renamed = _renamed(list(ours), list(theirs))
    pairs = []
    for name, use in ours.items():
        other = theirs.get(renamed.get(name, name))
        pairs.append((name if other is None or other.kernel == name else f"{name} / {other.kernel}", use, other))
    known = {*ours, *renamed.values()}
    return [*pairs, *((name, None, use) for name, use in theirs.items() if name not in known)]


def _renamed(ours: list[str], theirs: list[str]) -> dict[str, str]:
    """Kernels of one program that belong to those of another under other names: other parameters of one template, or of
    one function, or where each has one kernel alone."""
    left = [[name for name in names if name not in others] for names, others in ((ours, theirs), (theirs, ours))]
    if len(ours) == len(theirs) == 1 and left[0]:
        return {ours[0]: theirs[0]}
    found = [Counter(map(_bare, names)) for names in left]
    alone = {_bare(name): name for name in left[1] if found[1][_bare(name)] == 1}
    return {name: alone[_bare(name)] for name in left[0] if found[0][_bare(name)] == 1 and _bare(name) in alone}


def _bare(kernel: str) -> str:
    """A kernel's name without its result, the parameters of its template, and its arguments."""
    return re.split(r"[<(]", kernel.replace("(anonymous namespace)::", ""), maxsplit=1)[0].rpartition(" ")[2]


def _launches(count: int) -> str:
    return f"{count:,} launch{'es' * (count != 1)}"


def footer(report: ProgramReport) -> str:
    """The last line: how much ran, what was found, and what times are."""
    found = f"{len(report.notes)} finding{'s' * (len(report.notes) != 1)}" if report.notes else "nothing wrong found"
    if report.interrupted:
        found = f"interrupted; {found}"
    return f"{_launches(report.launches)} on a simulated {report.gpu}, {found}"


PREDICTED = "Times that the program reads or that stand here are predictions: lower bounds by the GPU's data sheet."
