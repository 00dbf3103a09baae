"""Cases in child processes with limits: what crashes, hangs, eats memory or raises what it should not, by name.

A child works through a range of cases and notes in shared memory which one it is at, so that the parent knows what a
dead child was doing and goes on behind it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import math
import mmap
import multiprocessing
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
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.pool import Pool
from pathlib import Path

from ptxsim import cache
from ptxsim.codegen import jit
from ptxsim.run import threads

from . import cases, mutations
from .cuda import programs
from .cuda.launching import Difference

SOURCES = Path(__file__).parents[2]


@dataclass(frozen=True)
class Limits:
    """What a child works through and may take."""

    batch: int
    """cases to a child"""
    resident: int
    """bytes that a child may hold; a case that takes it there is a finding"""
    slow_s: float
    """processor time of a case"""
    hang_s: float
    """elapsed time, for what hangs: ten cases at once on a core must not count as one"""
    address_space: int | None = None
    """bytes; None where the driver of a GPU reserves as many as it likes"""


LIMITS = {
    "read": Limits(20_000, 500 << 20, 1.0, 600.0, 2 << 30),
    "launch": Limits(400, 1500 << 20, 30.0, 1800.0, 9 << 30),
    "cuda": Limits(200, 1500 << 20, 60.0, 1800.0, 9 << 30),
    "silicon": Limits(100, 8000 << 20, 60.0, 120.0),
}
MINIMISING_TRIES = {"read": 400, "launch": 400, "cuda": 120, "silicon": 60}


@dataclass(frozen=True)
class Finding:
    """A case that did what no case may do."""

    number: int
    signature: str
    detail: str
    text: str = field(repr=False)


@dataclass
class Report:
    """What a run saw. `processor_s`: of all children and of the compilers that they started."""

    cases: int = 0
    seconds: float = 0.0
    processor_s: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: dict[str, list[Finding]] = field(default_factory=dict)
    optimised: list[int] = field(default_factory=list)
    """silicon: cases that ptxas's optimiser makes something else of"""
    digests: dict[int, str] = field(default_factory=dict)
    """case -> its outcome and digest, where they are asked for"""
    resident_mb: int = 0
    slowest_s: float = 0.0

    def add(self, finding: Finding) -> None:
        self.findings.setdefault(finding.signature, []).append(finding)

    def merge(self, other: Report) -> None:
        """Takes in what another process saw of other cases at the same time."""
        self.cases += other.cases
        self.seconds = max(self.seconds, other.seconds)
        self.processor_s += other.processor_s
        self.outcomes.update(other.outcomes)
        self.digests |= other.digests
        self.resident_mb = max(self.resident_mb, other.resident_mb)
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        for found in other.findings.values():
            for finding in found:
                self.add(finding)


@dataclass(frozen=True)
class Work:
    """Cases of a mode: all that decides their texts and how they run."""

    mode: str
    seed: int
    pool: list[mutations.Seed] = field(default_factory=list, repr=False)
    threads: int | None = None
    """of the host for a launch; None: one or two, as the case says"""
    with_digests: bool = False
    level: int = 4
    """silicon: how much ptxas optimises"""
    until: float = math.inf
    """on the monotonic clock: no case begins after it"""

    @property
    def limits(self) -> Limits:
        return LIMITS[self.mode]

    def text(self, number: int) -> str:
        if self.mode in ("cuda", "silicon"):
            return programs.program(self.mode, self.seed, number)
        return mutations.hostile_text(self.mode, self.seed, number, self.pool)

    def run(self, number: int, text: str) -> cases.Seen:
        """One case in this process; `number` also seeds the launch's arguments."""
        rng = random.Random(f"launch {self.seed} {number}")
        if self.mode == "read":
            return cases.Seen(cases.read(text))
        if self.mode == "launch":
            return cases.launch(text, rng, self.threads)
        if self.mode == "cuda":
            return cases.compare(text, rng)
        return cases.compare_silicon(text, rng, level=self.level)


def signature(error: BaseException) -> str:
    """Type of an exception and the place in the simulator that raised it."""
    if isinstance(error, Difference):
        return str(error).split(" with ")[0]
    error = error.__cause__ or error
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(str(SOURCES))]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"
    text = re.sub(r"[\d'\"%].*", "", str(error).split("\n")[0])[:40].strip()
    return f"{type(error).__name__} in {place}: {text}"


def _fastest(work: Work, number: int, text: str) -> float:
    """Processor time of a case, the least of three: other programs slow some runs down, seldom all."""
    times = []
    for _ in range(3):
        start = time.process_time()
        with contextlib.suppress(Exception):
            work.run(number, text)
        times.append(time.process_time() - start)
    return min(times)


def _most_mb() -> int:
    """The most memory that this process has had; a fork begins with what its parent has."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def _child(work: Work, numbers: range, state: mmap.mmap, out: str) -> None:
    _limit(work.limits)
    outcomes: Counter[str] = Counter()
    digests: dict[int, str] = {}
    slowest, every = 0.0, max(1, work.limits.batch // 200)
    resident = _most_mb()
    most = resident + (work.limits.resident >> 20)
    with open(out, "w") as file:

        def tell(*what: object) -> None:
            file.write(json.dumps(what) + "\n")
            file.flush()

        for number in numbers:
            if time.monotonic() > work.until:
                tell("stopped", number)
                break
            state[:8] = struct.pack("<q", number)
            before, text, start = resident, "", time.process_time()
            try:
                text = work.text(number)
                start = time.process_time()
                seen = work.run(number, text)
                outcomes[seen.outcome] += 1
                if work.with_digests:
                    digests[number] = f"{seen.outcome} {seen.digest}"
            except BaseException as error:
                outcomes["finding"] += 1
                tell("finding", number, signature(error), traceback.format_exc()[-3000:])
            took = time.process_time() - start
            slowest = max(slowest, took)
            resident = _most_mb()
            if number % every == every - 1:  # what a child that dies later has done so far
                tell("done", outcomes, resident, slowest, digests)
                outcomes.clear()
                digests.clear()
            if took > work.limits.slow_s and (again := _fastest(work, number, text)) > work.limits.slow_s:
                tell("finding", number, "slow", f"{again:.1f} s of processor time at best")
            if resident > most >= before:
                tell("finding", number, "memory", f"{before} MB before, {resident} MB after")
        tell("done", outcomes, resident, slowest, digests)


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


def _limit(limits: Limits) -> None:
    """Limits of a child, and no disk cache, which 20,000 kernels would fill."""
    if limits.address_space is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])  # inherited, arenas and all
        stacks = (os.cpu_count() or 1) * threads.STACK_BYTES  # of the simulator's threads
        room = pages * resource.getpagesize() + limits.address_space + stacks
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    cache.load = lambda kind, key: None
    cache.store = lambda kind, key, entry: False


def run(work: Work, numbers: range, progress: Callable[[Report], None]) -> Report:
    """All cases of a range, in children."""
    report, started, spent = Report(), time.monotonic(), _children_s()
    state = mmap.mmap(-1, 8)
    first = numbers.start
    with tempfile.TemporaryDirectory() as folder:
        out, errors_path = os.path.join(folder, "out"), os.path.join(folder, "errors")
        while first < numbers.stop:
            batch = range(first, min(first + work.limits.batch, numbers.stop))
            Path(out).unlink(missing_ok=True)
            with open(errors_path, "wb") as errors:
                child = _fork(partial(_child, work, batch, state, out), errors.fileno())
                interrupted, end = False, ""
                try:
                    end = _wait(child, state, work.limits.hang_s)
                except KeyboardInterrupt:  # what is done by now counts
                    signal.signal(signal.SIGINT, signal.SIG_IGN)
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    interrupted = True
            stopped = _collect(report, work, out)
            if interrupted and stopped is None:
                (stopped,) = struct.unpack("<q", state[:8])
            first = batch.stop if stopped is None else stopped
            if end:
                (number,) = struct.unpack("<q", state[:8])
                said = Path(errors_path).read_text(errors="replace").strip().splitlines()
                last = said[-1][:100] if said else ""
                report.add(Finding(number, _crash(end, last), "\n".join(said[-20:]), work.text(number)))
                first = number + 1
            report.cases, report.seconds = first - numbers.start, time.monotonic() - started
            report.processor_s = _children_s() - spent
            progress(report)
            if stopped is not None:
                break
    return report


LARGEST_PIECE = 50
"""Cases of which only Ctrl-C makes a process of `run_beside` say nothing."""


def run_beside(work: Work, numbers: range, processes: int, progress: Callable[[Report], None]) -> Report:
    """All cases of a range, shared out to processes."""
    report, started = Report(), time.monotonic()
    size = max(1, min(work.limits.batch, LARGEST_PIECE, -(-len(numbers) // (8 * processes))))
    pieces = [range(k, min(k + size, numbers.stop)) for k in range(numbers.start, numbers.stop, size)]
    with _workers(processes, work) as workers, contextlib.suppress(KeyboardInterrupt):  # what is done by then counts
        for done in workers.imap_unordered(_piece, pieces):
            report.merge(done)
            report.seconds = time.monotonic() - started
            progress(report)
    return report


_work: list[Work] = []
"""What a process of `run_beside` works on; it inherits it."""


def _workers(processes: int, work: Work) -> Pool:
    """Processes that work on something, which leave Ctrl-C to this one."""

    def start() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _work.append(work)

    return multiprocessing.get_context("fork").Pool(processes, initializer=start)


def _piece(numbers: range) -> Report:
    return run(_work[-1], numbers, lambda _: None)


def _children_s() -> float:
    """Processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _crash(end: str, last: str) -> str:
    return f"{end} {re.sub(r'0x[0-9a-f]+|[0-9]+', '#', last)}".strip()[:110]


def _collect(report: Report, work: Work, out: str) -> int | None:
    """Adds what a child has written; the case at which its time was up."""
    stopped = None
    for line in Path(out).read_text().splitlines() if os.path.exists(out) else ():
        with contextlib.suppress(ValueError):
            kind, *rest = json.loads(line)
            if kind == "done":
                outcomes, resident, slowest, digests = rest
                report.outcomes.update(outcomes)
                report.resident_mb = max(report.resident_mb, resident)
                report.slowest_s = max(report.slowest_s, slowest)
                report.digests |= {int(number): digest for number, digest in digests.items()}
            elif kind == "stopped":
                (stopped,) = rest
            else:
                number, what, detail = rest
                report.add(Finding(number, what, detail, work.text(number)))
    return stopped


# ---------------------------------------------------------------- one text


def verdict(work: Work, number: int, text: str) -> str:
    """What a text does in a child of its own: "" or the finding's signature."""
    state = mmap.mmap(-1, 8)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:

        def judge() -> None:
            _limit(work.limits)
            most, found, start = _most_mb() + (work.limits.resident >> 20), "", time.process_time()
            try:
                work.run(number, text)
            except BaseException as error:
                found = signature(error)
            slow_s = work.limits.slow_s
            if not found and time.process_time() - start > slow_s < _fastest(work, number, text):
                found = "slow"
            if not found and _most_mb() > most:
                found = "memory"
            os.write(out.fileno(), found.encode())

        end = _wait(_fork(judge, errors.fileno()), state, work.limits.hang_s)
        out.seek(0)
        errors.seek(0)
        if end:
            said = errors.read().decode(errors="replace").strip().splitlines()
            return _crash(end, said[-1][:100] if said else "")
        return out.read().decode()


OPTIMISER = "same, but for ptxas's optimiser"


def judged_again(work: Work, report: Report, processes: int = 1) -> None:
    """Findings on a GPU that are none where ptxas does not optimise become an outcome: the simulator is right."""
    plain = replace(work, level=0, until=math.inf)
    findings = [finding for one in report.findings.values() for finding in one]
    report.findings = {}
    verdicts: list[str] = []
    with _workers(processes, plain) as workers, contextlib.suppress(KeyboardInterrupt):
        for found in workers.imap(_judged, findings):
            verdicts.append(found)
    verdicts += ["not judged again"] * (len(findings) - len(verdicts))
    for finding, found in zip(findings, verdicts, strict=True):
        if found:
            report.add(finding)
        else:
            report.outcomes[OPTIMISER] += 1
            report.optimised.append(finding.number)
    report.outcomes["finding"] = sum(map(len, report.findings.values()))
    report.outcomes += Counter()  # without what is zero


def _judged(finding: Finding) -> str:
    return verdict(_work[-1], finding.number, finding.text)


def minimised(work: Work, finding: Finding) -> str:
    """The fewest lines that still give the same finding (delta debugging)."""
    lines, tries, most_tries = finding.text.splitlines(), 0, MINIMISING_TRIES[work.mode]

    def same(candidate: list[str]) -> bool:
        return verdict(work, finding.number, "\n".join(candidate) + "\n") == finding.signature

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
