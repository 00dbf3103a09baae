"""The program under test: what the fixture `program` offers to grader tests of steps that have a `main`.

    run = program.run([n, 2.5], {"x.bin": x, "y.bin": y})     # in a folder of its own, confined; findings are judged
    program.check_against(run, {"z.bin": expected})           # float64 of NumPy, here and not in the hand-in
    program.within(len(run.calls("allocate")), 3, "calls of cudaMalloc")

A run is a process of its own with an empty folder, which holds its inputs as files and takes its outputs. It reads
nothing else but the libraries that it is linked with, starts no process and opens no socket. Its device is the
simulator, in this process.
"""

from __future__ import annotations

import atexit
import functools
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ptxsim import launching_thread, system
from warpschool import model
from warpschool.errors import GradingError
from warpschool.grading.program_build import (
    DEVICE_BYTES,
    FILE_BYTES,
    ProgramFile,
    build_program,
    confined_command,
    launcher_environment,
)
from warpschool.grading.program_child import REFUSED
from warpschool.grading.secret import in_secret_case
from warpschool.grading.submission import KERNEL_LIMIT, LAUNCH_LIMIT, STEP_LIMIT, TRANSLATION_LIMIT, WORK_LIMIT
from warpschool.grading.verdicts import Case, Judgement, Verdict, readable, verdict_of_hazard
from warpschool.harness.compare import compare, tolerance_for
from warpschool.harness.source import Source
from warpschool.programs.report import Call, HostFrame, Note, ProgramReport
from warpschool.programs.run import LINE, Recording, make_report, make_session
from warpschool.programs.session import Budget, Fault
from warpschool.show.programs import advice, places, sentence, source_place

HOST_CPU_S, HOST_BYTES = 20, 8 << 30
"""Processor time of a program's own process, and its address space."""
IDLE_S = 60
"""Seconds in which neither the program nor its device does anything, after which it waits for ever."""
_IDLE_CPU_S, _IDLE_OWN_S = 0.002, 0.02
_ADDRESS = re.compile(r"address 0x[0-9a-f]{6,}")
_MOST_OUTPUT = 1 << 20
_MOST_MEASURED = 8
_BUDGET = Budget(
    steps=STEP_LIMIT, launches=LAUNCH_LIMIT, work=WORK_LIMIT, instructions=KERNEL_LIMIT, translated=TRANSLATION_LIMIT
)
ILLEGAL_ADDRESS, MEMORY_ALLOCATION = 700, 2
"""Errors of CUDA's that a call can be made to fail with."""

_WAITS = "the program waits, and neither it nor the device does anything: what does it wait for?"
_ERRORS = {
    MEMORY_ALLOCATION: ("cudaErrorMemoryAllocation", "out of memory"),
    ILLEGAL_ADDRESS: ("cudaErrorIllegalAddress", "an illegal memory access was encountered"),
}
"""Their names, and what cudaGetErrorString makes of them."""
CHECKED = ("allocate", "HtoD", "DtoH", "DtoD", "set", "launch", "synchronize", "free")
"""Kinds of calls that a program has to check."""

VERDICTS: Mapping[str, Verdict] = {
    "use-after-free": Verdict.OOB, "copy-bounds": Verdict.OOB, "copy-freed": Verdict.OOB, "copy-pointer": Verdict.OOB,
    "host-access": Verdict.OOB, "early-access": Verdict.RACE, "copy-uninitialized": Verdict.UNINIT,
    "global-uninitialized": Verdict.UNINIT, "stream-race": Verdict.RACE,
    "leak": Verdict.MLE, "double-free": Verdict.RTE, "invalid-free": Verdict.RTE, "crash": Verdict.RTE,
    "assert": Verdict.RTE, "trap": Verdict.RTE, "unchecked-launch": Verdict.LE, "impossible-launch": Verdict.LE,
    "ignored-error": Verdict.RTE, "tensor-map": Verdict.RTE,
    "unsupported-call": Verdict.RJ, "unsupported": Verdict.RJ, "endless": Verdict.TLE, "deadlock": Verdict.SYNC,
    "prints-too-much": Verdict.OLE, "too-large": Verdict.MLE, "interrupted": Verdict.TLE,
}  # fmt: skip
"""What a finding in a program means; those of kernels besides are hazards, which have theirs."""


@dataclass(frozen=True)
class ProgramRun:
    """One run: its report, and the files that it left, by name."""

    report: ProgramReport
    files: Mapping[str, bytes] = field(repr=False)
    case: Case = ()

    @property
    def status(self) -> int:
        return self.report.status

    @property
    def output(self) -> str:
        return self.report.output

    @property
    def errors(self) -> str:
        """What it wrote to stderr."""
        return self.report.errors

    def calls(self, *kinds: str, name: str = "") -> list[Call]:
        """Its calls of some kinds, in order; of one name where that is given. See `warpschool.programs.report.Call`."""
        return [call for call in self.report.calls if call.kind in kinds and name in ("", call.name)]

    def count(self, counter: str) -> int:
        """A counter of the simulator's, summed over all launches."""
        return sum(int(use.counters.get(counter, 0)) for use in self.report.kernels)


class ProgramSubmission:
    """A program that was built; made by `load_program`."""

    reference = None
    not_on_gpu = ""

    def __init__(self, source: bytes, name: str, file: ProgramFile) -> None:
        self.name, self.file = name, file
        self.source = source.decode("utf-8", "replace")
        self.compiler, self.arch, self.warnings = file.compiler, "compute_80", file.warnings
        self.measured: list[str] = []
        self._runs = 0
        self._launches = 0

    @property
    def spent(self) -> dict[str, str]:
        """What its runs have cost so far, in counts."""
        return {"runs": str(self._runs), "launches": str(self._launches)}

    def run(
        self, arguments: Sequence[object], files: Mapping[str, npt.ArrayLike | bytes] | None = None, *,
        case: Mapping[str, float] | None = None, fault: Fault | None = None, skip_launches: bool = False,
        gpu: str = model.DEFAULT_GPU, judged: bool = True, allowed: Sequence[str] = (),
    ) -> ProgramRun:  # fmt: skip
        """Run the program once with `files` beside it; arrays are written as their bytes.

        Raises Judgement for what was found, a crash, or an exit status that is not 0; with `judged=False` only for what
        never comes to an end. `fault`: a call that fails on purpose. With `skip_launches` no kernel does anything.
        `case`: what a verdict calls this run's sizes; `allowed`: kinds of findings that another criterion judges.
        """
        named = tuple((case or {}).items())
        with tempfile.TemporaryDirectory(prefix="run-", ignore_cleanup_errors=True) as place:
            folder = Path(place)
            for name, data in (files or {}).items():
                (folder / name).write_bytes(data if isinstance(data, bytes) else np.asarray(data).tobytes())
            report, is_idle = self._report(folder, list(map(str, arguments)), gpu, fault, skip_launches)
            found = ProgramRun(report, _left(folder, files or {}), named)
        self._runs += 1
        self._launches += report.launches
        most_s = round(HOST_CPU_S * system.slowness())
        ends: dict[object, tuple[Verdict, str]] = {
            -signal.SIGXCPU: (Verdict.TLE, f"host code used up {most_s} s of processor time: an endless loop?"),
            -signal.SIGXFSZ: (Verdict.OLE, f"the program writes more than {FILE_BYTES >> 20} MB into a file"),
        }
        end = ends.get(report.status) if not is_idle else (Verdict.TLE, _WAITS)
        if end is not None:
            raise Judgement(*end, case=named)
        if judged:
            self._judge(found, allowed)
        return found

    def _report(
        self, folder: Path, arguments: list[str], gpu: str, fault: Fault | None, skip_launches: bool
    ) -> tuple[ProgramReport, bool]:
        """The report of a run, and whether it was ended because it only waited."""
        start = time.perf_counter()
        session, memory = make_session(
            model.find_gpu(gpu), memory_bytes=DEVICE_BYTES, budget=_BUDGET, fault=fault, skip_launches=skip_launches,
            zeros=False,
            most_looks=None,
        )  # fmt: skip
        session.calls = []
        session.findings.lines_of = self._lines_of
        ours, theirs = socket.socketpair()
        recording = Recording(ours, session)
        served = launching_thread(recording.serve)
        command = confined_command(
            [self.file.path, *arguments], folder, readable=[*self.file.libraries, "/etc/ld.so.cache"],
            executable=[self.file.path, *(f for f in self.file.libraries if "/ld-" in f)], processes=False,
            must=False, cpu_s=HOST_CPU_S, memory_bytes=HOST_BYTES,
            environment={"LC_ALL": "C", LINE: f"{theirs.fileno()},{memory}"},
        )  # fmt: skip
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            child = subprocess.Popen(
                command, pass_fds=(theirs.fileno(), memory), stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                env=launcher_environment(), cwd="/",
            )  # fmt: skip
            theirs.close()
            os.close(memory)
            is_idle = _wait(child.pid, served)
            if is_idle:
                child.kill()
            status = child.wait()
            text = [_text(file) for file in (output, errors)]
        if recording.problem is not None:
            raise recording.problem
        if status == REFUSED and not session.process.pid:
            raise GradingError("the program's process could not be confined")
        try:
            return make_report(session, status, time.perf_counter() - start, leaks=True, text=text), is_idle
        finally:
            session.close()

    def _lines_of(self, file: str) -> tuple[str, ...]:
        """The lines of a file that the program's debugging data names: of no other than its own source."""
        return tuple(self.source.split("\n")) if Path(file).name == self.name else ()

    # -- judging ---------------------------------------------------------------------------------------------------
    def judgement_of(self, note: Note, case: Case = ()) -> Judgement:
        """What a finding means, with the student's line."""
        note = _without_folders(note)
        file, line = source_place(note)
        own = line if Path(file).name == self.name else self._own_line((*note.hosts, *note.origin))
        if note.finding is not None and note.kind == note.finding.kind:
            return Judgement(verdict_of_hazard(note.kind), "", line=own, case=case, finding=note.finding)
        lines = filter(None, [sentence(note), *places(note), advice(note)])
        said = _ADDRESS.sub("an address that is not its own", "\n".join(lines))
        told = Judgement(VERDICTS[note.kind], said, line=own, case=case)
        told.cause = note.kind
        return told

    def _own_line(self, frames: Sequence[HostFrame]) -> int:
        return next((frame.line for frame in frames if Path(frame.file).name == self.name), 0)

    def _judge(self, run: ProgramRun, allowed: Sequence[str]) -> None:
        """Raise the gravest Judgement of a run."""
        passed = (*allowed, "leak") if run.status else allowed  # who ends with an error need not tidy up
        told = [self.judgement_of(note, run.case) for note in run.report.notes if note.kind not in passed]
        if told:
            raise min(told, key=lambda one: one.verdict.rank)
        if run.status:
            said = next((line for line in reversed(run.errors.splitlines()) if line.strip()), "")
            how = f"signal {signal.Signals(-run.status).name}" if run.status < 0 else f"exit status {run.status}"
            words = f"the program ended with {how}" + (f" and said: {readable(said)}" if said else ", without a word")
            raise Judgement(Verdict.RTE, words, case=run.case)

    def array(self, run: ProgramRun, name: str, dtype: npt.DTypeLike, shape: Sequence[int]) -> np.ndarray:
        """An output file as an array. Raises Judgement (WA) where it is missing or has another size."""
        data, wanted = run.files.get(name), math.prod(shape) * np.dtype(dtype).itemsize
        if data is None:
            raise Judgement(Verdict.WA, f"the program wrote no {name}", case=run.case)
        if len(data) != wanted:
            raise Judgement(Verdict.WA, f"{name} has {len(data):,} bytes; it should have {wanted:,}", case=run.case)
        return np.frombuffer(data, dtype).reshape(tuple(shape))

    def check_against(
        self, run: ProgramRun, expected: Mapping[str, npt.ArrayLike], *, dtype: npt.DTypeLike = np.float32, k: int = 1,
        scale: npt.ArrayLike | None = None, extra_ulp: float = 0.0,
    ) -> None:  # fmt: skip
        """Compare output files with references in float64 or integers; raises Judgement (WA) with what is wrong."""
        for name, wanted in expected.items():
            reference = np.asarray(wanted)
            got = self.array(run, name, dtype, reference.shape)
            tolerance = tolerance_for(got.dtype, k, "float32", scale=scale, extra_ulp=extra_ulp)
            result = compare(got, reference, tolerance=tolerance, name=Path(name).stem)
            if not result.ok:
                told = Judgement(Verdict.WA, str(result), case=run.case)
                told.wrong, told.cause = result.map, result.cause
                raise told

    def within(self, actual: float, limit: float, what: str, *, line: int = 0) -> None:
        """Raise Judgement (PERF) unless `actual <= limit`."""
        self._hold(actual <= limit, f"{what}: {actual:,g}; at most {limit:,g}", line)

    def at_least(self, actual: float, limit: float, what: str, *, line: int = 0) -> None:
        """Raise Judgement (PERF) unless `actual >= limit`."""
        self._hold(actual >= limit, f"{what}: {actual:,g}; at least {limit:,g}", line)

    def _hold(self, is_met: bool, seen: str, line: int) -> None:
        if not in_secret_case() and seen not in self.measured:
            self.measured = [*self.measured, seen][-_MOST_MEASURED:]
        if not is_met:
            raise Judgement(Verdict.PERF, seen, line=line)

    def line_of(self, calls: Sequence[Call]) -> int:
        """The student's line that made most of some calls; 0 where none is known."""
        lines = [line for call in calls if (line := self._own_line(call.hosts))]
        return max(lines, key=lines.count, default=0)

    def checks_every_call(
        self, arguments: Sequence[object], files: Mapping[str, npt.ArrayLike | bytes], *,
        kinds: Sequence[str] = CHECKED, case: Mapping[str, float] | None = None, most: int = 16,
    ) -> None:  # fmt: skip
        """Make each call of a run fail in a run of its own; raises Judgement (RTE) where the program says nothing.

        It has to end with an exit status that is not 0, and with a word on stderr.
        """
        clean = self.run(arguments, files, case=case, judged=False)
        if clean.status or not clean.calls("launch"):
            raise Judgement(Verdict.WA, "the program launches no kernel, or does not end well", case=clean.case)
        seen: Counter[str] = Counter()
        for call in clean.report.calls:
            number, seen[call.kind] = seen[call.kind], seen[call.kind] + 1
            if call.kind not in kinds or sum(seen[kind] for kind in kinds) > most:
                continue
            error = MEMORY_ALLOCATION if call.kind == "allocate" else ILLEGAL_ADDRESS
            fault = Fault(call.kind, number, error)
            self._is_loud(self.run(arguments, files, case=case, fault=fault, judged=False), fault, call)

    def _is_loud(self, run: ProgramRun, fault: Fault, at: Call) -> None:
        """Raise Judgement (RTE) unless a run in which a call failed ended with a status and a word about it."""
        line = self.line_of([at])
        what = f"{_CALLS.get(at.kind, at.kind)} {fault.number + 1} was made to fail ({_ERRORS[fault.error][0]})"
        crash = next((note for note in run.report.notes if note.kind in ("crash", "host-access")), None)
        if crash is not None:
            wrong = self.judgement_of(crash, run.case).said
        elif run.status < 0:
            wrong = f"the program died by {signal.Signals(-run.status).name}"
        elif run.status == 0:
            wrong = "the program ended as if all were well"
        elif not any(words in run.errors for words in _ERRORS[fault.error]):
            wrong = "stderr names neither this error nor what it means"
        else:
            return
        told = Judgement(Verdict.RTE, f"{what}, and then: {wrong}", line=line, case=run.case)
        told.cause = "unchecked-call"
        raise told

    def waits_for_copies(self, run: ProgramRun) -> None:
        """Raise Judgement (RACE) where the host never waits for a copy into its memory that it does not wait for.

        A synchronisation with the device or an event behind it is enough, or with the copy's stream.
        """
        waits = [(at, call) for at, call in enumerate(run.report.calls) if call.kind == "synchronize" or call.blocking]
        for at, copy in enumerate(run.report.calls):
            if copy.kind == "DtoH" and not copy.blocking and not any(
                later > at and (call.name != "stream" or call.stream in (0, copy.stream)) for later, call in waits
            ):
                said = "nobody waits for this copy into the host's memory: the host may read it before it has arrived"
                raise Judgement(Verdict.RACE, said, line=self.line_of([copy]), case=run.case)

    def done_by_kernels(self, run: ProgramRun, again: ProgramRun, names: Sequence[str]) -> None:
        """Raise Judgement (PERF) where outputs are the same in a run whose kernels did nothing."""
        if all(name in again.files and again.files[name] == run.files.get(name) for name in names):
            raise Judgement(
                Verdict.PERF, "the outputs are the same when no kernel does anything: the host computed them",
                case=run.case,
            )  # fmt: skip


_CALLS = {
    "allocate": "allocation", "free": "call of cudaFree", "launch": "the kernel of launch", "set": "cudaMemset",
    "synchronize": "synchronisation", "HtoD": "copy to the device", "DtoH": "copy to the host",
    "DtoD": "copy on the device",
}  # fmt: skip


def load_program(source: bytes, name: str, file: ProgramFile) -> ProgramSubmission:
    """A program that was built; raises Judgement where it could not be."""
    if file.verdict:
        raise Judgement(Verdict(file.verdict), file.said, line=file.line)
    return ProgramSubmission(source, name, file)


@functools.lru_cache(maxsize=16)
def built_program(data: bytes, name: str) -> ProgramSubmission:
    """A program for whoever looks at it outside of a check; raises Judgement where it cannot be built."""
    folder = Path(tempfile.mkdtemp(prefix="warpschool-program-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return load_program(data, name, build_program(Source(data, name, "notebook"), folder, must=False, may_cache=True))


def _without_folders(note: Note) -> Note:
    """A finding whose files are names alone: where a check builds and runs changes no result."""

    def short(frames: Sequence[HostFrame]) -> tuple[HostFrame, ...]:
        return tuple(replace(frame, file=Path(frame.file).name) for frame in frames)

    return replace(note, hosts=short(note.hosts), origin=short(note.origin), freed=short(note.freed))


def _left(folder: Path, given: Mapping[str, Any]) -> dict[str, bytes]:
    """The plain files that a run left, its inputs as they were given left out."""
    found = {}
    for path in sorted(folder.iterdir())[:64]:
        with suppress(OSError):
            if path.name not in given and path.is_file() and not path.is_symlink():
                found[path.name] = path.read_bytes()
    return found


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MOST_OUTPUT).decode("utf-8", "replace")


def _cpu_s(pid: int) -> float:
    """Processor time of another process; 0 where it is gone."""
    with suppress(OSError):
        return time.clock_gettime((~pid << 3) | 2)  # CPUCLOCK_SCHED of the whole process: clock_getcpuclockid(3)
    return 0.0


def _wait(pid: int, served: Any) -> bool:
    """Wait for a program's end; True where it waits for ever: elapsed time says nothing, work that is done does."""
    idle, before = 0, (_cpu_s(pid), time.process_time())
    while not served.wait(1.0):
        now = (_cpu_s(pid), time.process_time())
        is_idle = now[0] - before[0] < _IDLE_CPU_S and now[1] - before[1] < _IDLE_OWN_S
        idle, before = (idle + 1 if is_idle else 0), now
        if idle >= IDLE_S:
            return True
    return False
