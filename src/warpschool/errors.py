"""Every error that warpschool raises on purpose.

    WarpschoolError
    ├── CompileError               NVRTC rejected the source (carries diagnostics)
    │   ├── CompileLimitError      the compiler ran out of its processor time, memory or output limit
    │   └── PolicyError            the source includes a file that it may not read
    ├── CompilerMissing            no NVRTC on this machine, or one that hangs or was killed
    ├── ContractError              the kernel file's header cannot be understood or does not fit
    │   ├── EntryError             no extern "C" kernel, or its parameters are not those of the header or step
    │   ├── LaunchLineError        a Launch line is missing or makes no sense
    │   └── NeedsError             sizes that the header's Needs line refuses
    ├── CourseError                no such lab, step or file
    ├── DeviceUnavailable          the asked-for device is not here
    ├── DeviceFault                a GPU stopped while it ran a kernel (illegal address, timeout)
    ├── NotMeasured                this device does not measure what was read (counters, hazards)
    ├── ArgumentError              wrong launch argument: count, dtype, device, range
    ├── LaunchError                the launch itself is impossible (grid, block, shared memory)
    │   └── DeviceLacks            this GPU cannot run the kernel, others and the simulator can
    ├── SimulationError            the simulator stopped a kernel
    │   ├── UnsupportedInstruction PTX that the simulator does not know
    │   ├── PtxSyntaxError         text that is not PTX
    │   ├── StepLimitExceeded      too many loop iterations: most likely an endless loop
    │   ├── MemoryLimitExceeded    more device memory than the limit
    │   ├── PrintLimitExceeded     printf wrote more than the limit
    │   ├── KernelDeadlock         threads wait for arrivals at a barrier that never come
    │   └── KernelTrap             the kernel executed trap or failed an assert
    ├── GradingError               the grader itself is at fault
    ├── OutputError                a file cannot be written: read-only folder, full disk
    └── ToolMissing                a program or package that a command needs is not installed

The message says what happened and where; `next_step`, where there is one, says what to do.
"""

from __future__ import annotations

import linecache
import os
import traceback
from pathlib import Path

_LIBRARY = str(Path(__file__).parent)


class WarpschoolError(Exception):
    """Base class: catch this to catch everything that warpschool raises on purpose."""

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.message}\n{self.next_step}" if self.next_step else self.message

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: own line, what happened, what to do next; with WARPSCHOOL_TRACEBACK=1 all frames."""
        if os.environ.get("WARPSCHOOL_TRACEBACK"):
            return traceback.format_exception(self)
        frames = [f for f in traceback.walk_tb(self.__traceback__) if _is_callers(f[0].f_code.co_filename)]
        lines = []
        if frames:
            frame, number = frames[-1]
            code = linecache.getline(frame.f_code.co_filename, number, frame.f_globals).strip()
            lines.append(f"line {number}: {code}" if code else f"line {number}")
        return [*lines, f"{type(self).__name__}: {self}"]


def _is_callers(file: str) -> bool:
    """Whether code of this file is neither the library's nor IPython's own."""
    return not file.startswith(_LIBRARY) and "site-packages" not in file


class CompileError(WarpschoolError):
    """NVRTC rejected the source; `diagnostics` holds one entry per message."""

    def __init__(self, message: str, *, diagnostics: tuple = (), log: str = "", next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.diagnostics = diagnostics
        self.log = log


class CompileLimitError(CompileError):
    """The compiler exceeded its time, memory, source, log or PTX limit."""


class PolicyError(CompileError):
    """The source includes a file outside the allow-list."""


class CompilerMissing(WarpschoolError):
    """No NVRTC library can be loaded on this machine."""


class ContractError(WarpschoolError):
    """The kernel file's header is missing, malformed, or does not fit the request."""

    def __init__(self, message: str, *, file: str = "", line: int = 0, next_step: str = "") -> None:
        where = f"{file}:{line}: " if file and line else f"{file}: " if file else ""
        super().__init__(where + message, next_step=next_step)
        self.file = file
        self.line = line


class EntryError(ContractError):
    """No `extern "C" __global__` function, or its parameters are not those of the header or the step."""


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


class ArgumentError(WarpschoolError, TypeError):
    """A launch argument has the wrong count, type, device or range."""


class LaunchError(WarpschoolError, ValueError):
    """Grid, block or shared memory are outside what the chip allows; `line` is the Launch line's where there is one."""

    def __init__(self, message: str, *, line: int = 0, next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.line = line


class DeviceLacks(LaunchError):
    """This GPU has not the shared memory or the instructions that the kernel needs; others and the simulator have."""

    def __init__(self, message: str) -> None:
        super().__init__(message, next_step='Run it with device="sim" (--device sim), or on a larger GPU.')


class SimulationError(WarpschoolError):
    """The simulator stopped a kernel; `file` and `line` are the student's where known."""

    def __init__(self, message: str, *, file: str = "", line: int = 0, next_step: str = "") -> None:
        super().__init__(_placed(message, file, line), next_step=next_step)
        self.file = file
        self.line = line

    def place(self, file: str, line: int) -> None:
        """Names the place where the launch was asked for, if the message names none yet."""
        if not self.line:
            self.message, self.file, self.line = _placed(self.message, file, line), file, line


def _placed(message: str, file: str, line: int) -> str:
    return (f"{file}:{line}: " if file and line else f"line {line}: " if line else "") + message


class PtxSyntaxError(SimulationError):
    """The text is not PTX that the parser understands."""


class UnsupportedInstruction(SimulationError):
    """The simulator does not execute this PTX instruction."""


class StepLimitExceeded(SimulationError):
    """A block ran more loop iterations than its budget: most likely an endless loop."""


class MemoryLimitExceeded(SimulationError):
    """More device memory was asked for than the limit allows."""


class PrintLimitExceeded(SimulationError):
    """printf wrote more than the limit."""


class KernelDeadlock(SimulationError):
    """Threads wait for arrivals at a barrier object that never come."""


class KernelTrap(SimulationError):
    """The kernel executed `trap` or a failed `assert`."""


class GradingError(WarpschoolError):
    """The grader itself is at fault; never a student's zero."""


class OutputError(WarpschoolError):
    """A file cannot be written; nothing half-written is left behind."""


class ToolMissing(WarpschoolError):
    """A program, package or folder that a command needs is not on this machine."""
