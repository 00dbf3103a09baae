"""Every error that warpschool raises on purpose.

    WarpschoolError
    ├── CompileError               the compiler rejected the source (carries diagnostics)
    │   ├── CompileLimitError      the compiler ran out of its processor time, memory or output limit
    │   └── PolicyError            the source includes a file that it may not read
    ├── CompilerMissing            no compiler on this machine, or one that hangs or was killed
    ├── ContractError              the kernel file's header cannot be understood or does not fit
    │   ├── EntryError             no kernel, or its parameters are not those of the header or step
    │   ├── LaunchLineError        a Launch line is missing or makes no sense
    │   └── NeedsError             sizes that the header's Needs line refuses
    ├── CourseError                no such lab, step or file
    ├── DeviceUnavailable          the asked-for device is not here
    ├── DeviceFault                a GPU stopped while it ran a kernel (illegal address, timeout)
    ├── NotMeasured                this device does not measure what was read (counters, hazards)
    │   └── CompilerLacks          this compiler cannot tell it (registers, spills), NVRTC can
    ├── ArgumentError              wrong launch argument: count, dtype, device, range
    ├── LaunchError                the launch itself is impossible (grid, block, shared memory)
    │   └── DeviceLacks            this GPU cannot run the kernel, others and the simulator can
    ├── SimulationError            the simulator stopped a kernel: see `ptxsim.errors` for its kinds
    ├── GradingError               the grader itself is at fault
    ├── OutputError                a file cannot be written: read-only folder, full disk
    └── ToolMissing                a program or package that a command needs is not installed

The message says what happened and where; `next_step`, where there is one, says what to do. The tree's root stands in
the simulator, which can be used alone: whoever catches it catches both.
"""

from __future__ import annotations

from ptxsim.errors import (
    EndlessWait,
    KernelDeadlock,
    KernelTooLarge,
    KernelTrap,
    LaunchError,
    MemoryLimitExceeded,
    PrintLimitExceeded,
    PtxsimError as WarpschoolError,
    PtxSyntaxError,
    SimulationError,
    StepLimitExceeded,
    UnsupportedInstruction,
)

__all__ = [
    "ArgumentError",
    "CompileError",
    "CompileLimitError",
    "CompilerLacks",
    "CompilerMissing",
    "ContractError",
    "CourseError",
    "DeviceFault",
    "DeviceLacks",
    "DeviceUnavailable",
    "EndlessWait",
    "EntryError",
    "GradingError",
    "KernelDeadlock",
    "KernelTooLarge",
    "KernelTrap",
    "LaunchError",
    "LaunchLineError",
    "MemoryLimitExceeded",
    "NeedsError",
    "NotMeasured",
    "OutputError",
    "PolicyError",
    "PrintLimitExceeded",
    "PtxSyntaxError",
    "SimulationError",
    "StepLimitExceeded",
    "ToolMissing",
    "UnsupportedInstruction",
    "WarpschoolError",
]


class CompileError(WarpschoolError):
    """The compiler rejected the source; `diagnostics` holds one entry per message."""

    def __init__(self, message: str, *, diagnostics: tuple = (), log: str = "", next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.diagnostics = diagnostics
        self.log = log


class CompileLimitError(CompileError):
    """The compiler exceeded its time, memory, source, log or PTX limit."""


class PolicyError(CompileError):
    """The source includes a file outside the allow-list."""


class CompilerMissing(WarpschoolError):
    """Neither NVRTC nor clang can be used on this machine."""


class ContractError(WarpschoolError):
    """The kernel file's header is missing, malformed, or does not fit the request."""

    def __init__(self, message: str, *, file: str = "", line: int = 0, next_step: str = "") -> None:
        where = f"{file}:{line}: " if file and line else f"{file}: " if file else ""
        super().__init__(where + message, next_step=next_step)
        self.file = file
        self.line = line


class EntryError(ContractError):
    """No `__global__` function of this name, or its parameters are not those of the header or the step."""


class LaunchLineError(ContractError):
    """A Launch line is missing or cannot be understood."""


class NeedsError(ContractError):
    """The sizes break a condition of the header's Needs line; the message quotes it."""


class CourseError(WarpschoolError):
    """A lab, a step or one of its files cannot be found."""


class DeviceUnavailable(WarpschoolError):
    """The requested device is not present or its software is not installed."""


class DeviceFault(WarpschoolError):
    """The GPU stopped while it ran a kernel: an illegal address, a trap, a timeout."""


class NotMeasured(WarpschoolError):
    """What was read is not measured on this device; nothing stands in for it."""


class CompilerLacks(NotMeasured):
    """Machine code, and with it registers and spills, is not known with this compiler; nothing stands in for it."""


class ArgumentError(WarpschoolError, TypeError):
    """A launch argument has the wrong count, type, device or range."""


class DeviceLacks(LaunchError):
    """This GPU has not the shared memory or the instructions that the kernel needs; others and the simulator have."""

    def __init__(self, message: str) -> None:
        super().__init__(message, next_step='Run it with device="sim" (--device sim), or on a larger GPU.')


class GradingError(WarpschoolError):
    """The grader itself is at fault; never a student's zero."""


class OutputError(WarpschoolError):
    """A file cannot be written; nothing half-written is left behind."""


class ToolMissing(WarpschoolError):
    """A program, package or folder that a command needs is not on this machine."""
