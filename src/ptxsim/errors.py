"""Every error that the simulator raises on purpose.

    PtxsimError
    ├── LaunchError                the launch itself is impossible (grid, block, shared memory)
    ├── TextureError               a texture or surface object that no GPU would make
    └── SimulationError            the simulator stopped a kernel
        ├── UnsupportedInstruction PTX that the simulator does not know
        ├── PtxSyntaxError         text that is not PTX
        ├── KernelTooLarge         more basic blocks than translated code can number, more constants than fit
        ├── StepLimitExceeded      too many loop iterations: most likely an endless loop
        │   └── EndlessWait        threads look in loops for what nobody is left to do: a deadlock
        ├── MemoryLimitExceeded    more device memory than the limit
        ├── PrintLimitExceeded     printf wrote more than the limit
        ├── KernelDeadlock         threads wait for arrivals at a barrier that never come
        └── KernelTrap             the kernel executed trap, failed an assert, or used a texture or surface wrongly

The message says what happened and where; `next_step`, where there is one, says what to do.
"""

from __future__ import annotations

import linecache
import os
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from ptxsim.finding import called_words

_LIBRARIES = tuple(str(Path(__file__).parent.parent / name) + os.sep for name in ("ptxsim", "warpschool", "warpcourse"))
"""Frames in these are ours, not those of whoever calls."""


class PtxsimError(Exception):
    """Base class: catch this to catch everything that the simulator raises on purpose."""

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
    return not file.startswith(_LIBRARIES) and "site-packages" not in file


class LaunchError(PtxsimError, ValueError):
    """Grid, block or shared memory are outside what the chip allows; `line` is the Launch line's where there is one."""

    def __init__(self, message: str, *, line: int = 0, next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.line = line


class TextureError(PtxsimError, ValueError):
    """A description of a texture or surface object, or of what lies behind it, that no GPU takes."""


class SimulationError(PtxsimError):
    """The simulator stopped a kernel; `file` and `line` are the student's where known.

    `calls`: where the line stands in a helper, the lines that called it; the message says them.
    """

    def __init__(
        self, message: str, *, file: str = "", line: int = 0, next_step: str = "", calls: Sequence[int] = ()
    ) -> None:
        super().__init__(_placed(f"{message}{called_words(calls)}", file, line), next_step=next_step)
        self.file = file
        self.line = line
        self.calls = tuple(calls)

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


class KernelTooLarge(SimulationError):
    """More basic blocks than translated code can number, or more variables than constant memory holds."""


class StepLimitExceeded(SimulationError):
    """A block ran more loop iterations than its budget: most likely an endless loop.

    `counted` is what the launch had done until then, by the counters' plain names; empty where nothing was counted.
    `is_certain`: nothing leads out of the loop, so that no larger budget would be enough. `least_steps`: what the
    launch needs at least, where that was known before it began.
    """

    def __init__(
        self, message: str, *, file: str = "", line: int = 0, next_step: str = "",
        calls: Sequence[int] = (), counted: Mapping[str, int] | None = None, is_certain: bool = False,
        least_steps: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(message, file=file, line=line, next_step=next_step, calls=calls)
        self.counted = counted or {}
        self.is_certain = is_certain
        self.least_steps = least_steps


class EndlessWait(StepLimitExceeded):
    """Threads look at memory in loops, and nothing can change there any more: no number of iterations is enough."""


class MemoryLimitExceeded(SimulationError):
    """More device memory was asked for than the limit allows."""


class PrintLimitExceeded(SimulationError):
    """printf wrote more than the limit."""


class KernelDeadlock(SimulationError):
    """Threads wait for arrivals at a barrier object that never come."""


class KernelTrap(SimulationError):
    """The kernel executed `trap` or a failed `assert`, or used a texture or surface object for what it is not."""
