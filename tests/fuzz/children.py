"""Cases in child processes with limits: what crashes, hangs, eats memory or raises what it should not, by name.

A child works through a range of cases and notes in shared memory which one it is at, so that the parent knows what a
dead child was doing and goes on behind it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import mmap
import os
import random
import re
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ptxsim import cache
from ptxsim.codegen import jit

from . import cases, mutations

BATCH = {"read": 20_000, "launch": 400}
ADDRESS_SPACE = {"read": 2 << 30, "launch": 9 << 30}
RESIDENT = {"read": 500 << 20, "launch": 1500 << 20}
"""What a child may hold; a case that takes it there is a finding."""
SLOW_S = {"read": 1.0, "launch": 30.0}
HANG_S = {"read": 600.0, "launch": 1800.0}
"""Elapsed time, for what hangs: ten cases at once on a core must not count as one."""


@dataclass(frozen=True)
class Finding:
    """A case that did what no case may do."""

    number: int
    signature: str
    detail: str
    text: str = field(repr=False)


@dataclass
class Report:
    """What a run saw."""

    cases: int = 0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: dict[str, list[Finding]] = field(default_factory=dict)
    resident_mb: int = 0
    slowest_s: float = 0.0

    def add(self, finding: Finding) -> None:
        self.findings.setdefault(finding.signature, []).append(finding)


def run_case(mode: str, seed: int, number: int, text: str) -> str:
    """One case in this process; `number` also seeds the launch's arguments."""
    if mode == "read":
        return cases.read(text)
    return cases.launch(text, random.Random(f"launch {seed} {number}"))


def signature(error: BaseException) -> str:
    """Type of an exception and the place in the simulator that raised it."""
    error = error.__cause__ or error
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "warpschool" in f.filename]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"
    text = re.sub(r"[\d'\"%].*", "", str(error).split("\n")[0])[:40].strip()
    return f"{type(error).__name__} in {place}: {text}"


def _fastest(mode: str, seed: int, number: int, text: str) -> float:
    """Processor time of a case, the least of three: other programs slow some runs down, seldom all."""
    times = []
    for _ in range(3):
        start = time.process_time()
        with contextlib.suppress(Exception):
            run_case(mode, seed, number, text)
        times.append(time.process_time() - start)
    return min(times)


def _child(mode: str, seed: int, numbers: range, pool: list[mutations.Seed], state: mmap.mmap, out: str) -> None:
    _limit(mode)
    outcomes: Counter[str] = Counter()
    slowest = 0.0
    with open(out, "w") as file:

        def tell(number: int, what: str, detail: str) -> None:
            file.write(json.dumps(["finding", number, what, detail]) + "\n")
            file.flush()

        for number in numbers:
            state[:8] = struct.pack("<q", number)
            before = resource.getrusage(resource.RUSAGE_SELF)
            try:
                text = mutations.hostile_text(mode, seed, number, pool)
                start = time.process_time()
                outcomes[run_case(mode, seed, number, text)] += 1
            except BaseException as error:
                outcomes["finding"] += 1
                tell(number, signature(error), traceback.format_exc()[-3000:])
                start = time.process_time()
            took = time.process_time() - start
            slowest = max(slowest, took)
            after = resource.getrusage(resource.RUSAGE_SELF)
            if number % 100 == 99:  # what a child that dies later has done so far
                file.write(json.dumps(["done", dict(outcomes), 0, slowest]) + "\n")
                file.flush()
                outcomes.clear()
            if took > SLOW_S[mode] and (again := _fastest(mode, seed, number, text)) > SLOW_S[mode]:
                tell(number, "slow", f"{again:.1f} s of processor time at best")
            if after.ru_maxrss * 1024 > RESIDENT[mode] > before.ru_maxrss * 1024:
                tell(number, "memory", f"{before.ru_maxrss >> 10} MB before, {after.ru_maxrss >> 10} MB after")
        file.write(json.dumps(["done", dict(outcomes), after.ru_maxrss >> 10, slowest]) + "\n")


def _fork(work: Callable[[], None], errors: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        faulthandler.disable()  # pytest's would print to the real stderr
        os.dup2(errors, 2)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(70)


def _wait(pid: int, state: mmap.mmap, hang_s: float) -> str:
    """Waits for a child; "" or how it ended."""
    seen, since = state[:8], time.monotonic()
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            if os.WIFSIGNALED(status):
                return signal.Signals(os.WTERMSIG(status)).name
            return "" if os.WEXITSTATUS(status) == 0 else f"exit {os.WEXITSTATUS(status)}"
        if state[:8] != seen:
            seen, since = state[:8], time.monotonic()
        elif time.monotonic() - since > hang_s:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "hang"
        time.sleep(0.002 if time.monotonic() - since < 0.05 else 0.05)


def warm_up() -> None:
    """What every child would do anew: LLVM's start and the helpers."""
    jit._load_helpers("")


def _limit(mode: str) -> None:
    """Limits of a child, and no disk cache, which 20,000 kernels would fill."""
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()  # inherited, arenas and all
    resource.setrlimit(resource.RLIMIT_AS, (held + ADDRESS_SPACE[mode],) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    cache.load = lambda kind, key: None
    cache.store = lambda kind, key, entry: False


def run(mode: str, seed: int, numbers: range, pool: list[mutations.Seed], progress: Callable[[Report], None]) -> Report:
    """All cases of a range, in children."""
    report, started = Report(), time.monotonic()
    state = mmap.mmap(-1, 8)
    first = numbers.start
    with tempfile.TemporaryDirectory() as folder:
        out, errors_path = os.path.join(folder, "out"), os.path.join(folder, "errors")
        while first < numbers.stop:
            batch = range(first, min(first + BATCH[mode], numbers.stop))
            Path(out).unlink(missing_ok=True)
            with open(errors_path, "wb") as errors:
                end = _wait(
                    _fork(lambda batch=batch: _child(mode, seed, batch, pool, state, out), errors.fileno()),
                    state, HANG_S[mode],
                )  # fmt: skip
            _collect(report, mode, seed, pool, out)
            first = batch.stop
            if end:
                (number,) = struct.unpack("<q", state[:8])
                said = Path(errors_path).read_text(errors="replace").strip().splitlines()
                last = said[-1][:100] if said else ""
                text = mutations.hostile_text(mode, seed, number, pool)
                report.add(Finding(number, _crash(end, last), "\n".join(said[-20:]), text))
                first = number + 1
            report.cases, report.seconds = first - numbers.start, time.monotonic() - started
            progress(report)
    return report


def _crash(end: str, last: str) -> str:
    return f"{end} {re.sub(r'0x[0-9a-f]+|[0-9]+', '#', last)}".strip()[:110]


def _collect(report: Report, mode: str, seed: int, pool: list[mutations.Seed], out: str) -> None:
    for line in Path(out).read_text().splitlines() if os.path.exists(out) else ():
        with contextlib.suppress(ValueError):
            kind, *rest = json.loads(line)
            if kind == "done":
                report.outcomes.update(rest[0])
                report.resident_mb = max(report.resident_mb, rest[1])
                report.slowest_s = max(report.slowest_s, rest[2])
            else:
                number, what, detail = rest
                report.add(Finding(number, what, detail, mutations.hostile_text(mode, seed, number, pool)))


# ---------------------------------------------------------------- one text


def verdict(mode: str, seed: int, number: int, text: str, hang_s: float | None = None) -> str:
    """What a text does in a child of its own: "" or the finding's signature."""
    state = mmap.mmap(-1, 8)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:

        def work() -> None:
            _limit(mode)
            found, start = "", time.process_time()
            try:
                run_case(mode, seed, number, text)
            except BaseException as error:
                found = signature(error)
            if not found and time.process_time() - start > SLOW_S[mode] < _fastest(mode, seed, number, text):
                found = "slow"
            if not found and resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > RESIDENT[mode]:
                found = "memory"
            os.write(out.fileno(), found.encode())

        end = _wait(_fork(work, errors.fileno()), state, hang_s or HANG_S[mode])
        out.seek(0)
        errors.seek(0)
        if end:
            said = errors.read().decode(errors="replace").strip().splitlines()
            return _crash(end, said[-1][:100] if said else "")
        return out.read().decode()


def minimised(mode: str, seed: int, finding: Finding, most_tries: int = 400) -> str:
    """The fewest lines that still give the same finding (delta debugging)."""
    lines, tries = finding.text.splitlines(), 0

    def same(candidate: list[str]) -> bool:
        return verdict(mode, seed, finding.number, "\n".join(candidate) + "\n") == finding.signature

    size = max(1, len(lines) // 2)
    while size and tries < most_tries:
        k, shrunk = 0, False
        while k < len(lines) and tries < most_tries:
            candidate = lines[:k] + lines[k + size :]
            tries += 1
            if candidate and same(candidate):
                lines, shrunk = candidate, True
            else:
                k += size
        if not shrunk or size > 1:
            size //= 2
    return "\n".join(lines) + "\n"


def bars(mode: str, total: int) -> Callable[[Report], None]:
    """A line of progress on a terminal, one per batch elsewhere."""

    def show(report: Report) -> None:
        rate = report.cases / max(report.seconds, 1e-9)
        text = f"{mode}: {report.cases:,} of {total:,} cases, {rate:,.0f}/s, {len(report.findings)} findings"
        print(("\r" if sys.stderr.isatty() else "") + text, end="" if sys.stderr.isatty() else "\n", file=sys.stderr)

    return show
