"""What a run of a program leaves behind, as data: words are made of it where it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ptxsim import Finding
from warpschool.programs.adopt import LaunchRecord


@dataclass(frozen=True)
class HostFrame:
    """A place in the program's host code; `line` is 0 where it is not known."""

    function: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.function or "?"


@dataclass(frozen=True)
class Note:
    """Something wrong in a program: a kernel's finding, or what the host did.

    `kind` is that of a `Finding`, or of the host: "leak", "double-free", "invalid-free", "copy-bounds",
    "copy-freed", "copy-pointer" (a host pointer for the device's or the other way round), "copy-uninitialized",
    "host-access" (the host uses device memory), "early-access" (managed memory while a kernel may run),
    "unchecked-launch", "ignored-error", "crash", "unsupported-call", "tensor-map" (the driver makes no such map); of a
    kernel "global-uninitialized" (it reads what nothing was ever written to), and of its end: "assert", "trap",
    "endless", "deadlock", "unsupported", "too-large", "prints-too-much", "impossible-launch", "interrupted" (it ran
    when the program was interrupted); of work in several streams "stream-race" (nothing orders two accesses to the same
    bytes). `facts` are numbers and names of the kind. `hosts`: the host's stack, innermost first; `origin` where the
    memory in question was allocated, `freed` where it was freed. `times`: in how many launches, or how often, it was
    seen.
    """

    kind: str
    finding: Finding | None = None
    kernel: str = ""
    launch: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    hosts: tuple[HostFrame, ...] = ()
    origin: tuple[HostFrame, ...] = ()
    freed: tuple[HostFrame, ...] = ()
    times: int = 1

    def to_dict(self) -> dict[str, Any]:
        found = {**asdict(self), "facts": dict(self.facts)}
        found["finding"] = self.finding.to_dict() if self.finding is not None else None
        return found


@dataclass(frozen=True)
class KernelUse:
    """All launches of one kernel together; times are bounds of a GPU, see `Timeline`."""

    kernel: str
    launches: int
    counters: Mapping[str, int]
    time_ns: float
    shortest_ns: float
    longest_ns: float


@dataclass(frozen=True)
class CopyUse:
    """All copies, or settings, of one kind together."""

    kind: str
    calls: int
    nbytes: int
    time_ns: float


@dataclass(frozen=True)
class Span:
    """A piece of work on the virtual GPU."""

    kind: str
    name: str
    stream: int
    start_ns: float
    end_ns: float


@dataclass(frozen=True)
class Call:
    """A request of the program's to the device, in the order of requests.

    `kind`: "allocate", "free", "HtoD", "DtoH", "DtoD", "HtoH", "set", "launch", "synchronize", "event", "wait",
    "elapsed". `name`: of memory its kind ("device", "pinned", ...), of a launch its kernel, of a synchronisation
    "device", "stream" or "event". `nbytes` of memory and copies; `blocking`: whether the host waits for a copy;
    `value`: of "elapsed" the milliseconds that the program was told. `hosts`: the host's stack, innermost first.
    """

    kind: str
    name: str = ""
    stream: int = 0
    nbytes: int = 0
    blocking: bool = False
    value: float = 0.0
    hosts: tuple[HostFrame, ...] = ()


@dataclass(frozen=True)
class ProgramReport:
    """A run: its end, what was found, and what was done.

    `status` is the program's exit status, negative for a signal, as `subprocess` has it. `output` and `errors` are what
    the program wrote, where it was kept.
    """

    status: int
    notes: tuple[Note, ...]
    kernels: tuple[KernelUse, ...]
    copies: tuple[CopyUse, ...]
    spans: tuple[Span, ...]
    gpu: str
    seconds: float
    timed: bool = False
    """whether the program asked how long something took"""
    ended: bool = True
    """False where the program did not come to its own end: a signal, _exit"""
    interrupted: bool = False
    output: str = ""
    errors: str = ""
    records: tuple[LaunchRecord, ...] = ()
    """launches as they were asked for, in a run that records them"""
    calls: tuple[Call, ...] = ()
    """requests in their order, in a run that keeps them"""

    @property
    def launches(self) -> int:
        return sum(use.launches for use in self.kernels)

    @property
    def exit_code(self) -> int:
        """The program's own, 128 + n for a signal; 1 for a program that ended well and was wrong."""
        if self.interrupted:
            return 130
        if self.status:
            return 128 - self.status if self.status < 0 else self.status
        return 1 if self.notes else 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "status": self.status, "exit_code": self.exit_code, "gpu": self.gpu, "launches": self.launches,
            "interrupted": self.interrupted, "findings": [note.to_dict() for note in self.notes],
            "kernels": [{**asdict(use), "counters": dict(use.counters)} for use in self.kernels],
            "copies": [asdict(use) for use in self.copies], "timeline": [asdict(span) for span in self.spans],
            "output": self.output, "errors": self.errors,
        }  # fmt: skip
