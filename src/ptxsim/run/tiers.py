"""Which code a launch runs: made of stencils at once, or compiled, which takes a while and then runs faster.

A long kernel begins as stencils. When its launches have taken a part of the time that compiling would take, it is
compiled in a thread beside them; the launch that is under way then starts again with that. So a kernel that runs for a
moment is never compiled, and one that runs for long loses little.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from ptxsim.codegen.jit import Code
from ptxsim.record import AUTO, FRUGAL
from ptxsim.syntax.program import Kernel

_SHORT, _TINY = 150, 40
"""PTX instructions of a kernel up to which it is compiled at once: before anybody notices, and before stencils would be
worth their making."""
_COMPILING = 27
"""About how many times as long as the translation to stencils compiling takes, for whole warps and for lanes that have
parted: between 15 and 65 times for the references of the course, on any machine."""
_PATIENCE = 0.25
"""The part of that time that stencils may take first, where somebody waits: another core compiles meanwhile."""


def is_long(kernel: Kernel, tier: str = AUTO) -> bool:
    """Whether stencils are worthwhile."""
    return kernel.instruction_count > (_TINY if tier == FRUGAL else _SHORT)


class Promotion:
    """The way of one kernel, for one block shape and set of options, from stencils to compiled code.

    Time is the processor's: how busy the machine is does not matter.
    """

    def __init__(self, translated_s: float, compile_: Callable[[], Code]) -> None:
        """`translated_s`: what the translation to stencils took."""
        self._compiling_s = _COMPILING * translated_s
        self._compile = compile_
        self._spent_s = 0.0
        self._outcome: Future[Code] | None = None
        self._lock = threading.Lock()

    @property
    def ready(self) -> bool:
        """Whether the compiled code is there."""
        return self._outcome is not None and self._outcome.done() and self._outcome.exception() is None

    @contextmanager
    def launch(self, tier: str = AUTO) -> Iterator[Callable[[], bool]]:
        """A launch as stencils; yields what tells whether it should start again, with the compiled code."""
        began = time.process_time()
        patience_s = self._compiling_s * (1 if tier == FRUGAL else _PATIENCE)

        def due() -> bool:
            if self._spent_s + time.process_time() - began > patience_s:
                self._start()
            return self.ready

        try:
            yield due
        finally:
            self._spent_s += time.process_time() - began

    def _start(self) -> None:
        with self._lock:
            if self._outcome is None:
                self._outcome = Future()
                threading.Thread(target=self._run, args=(self._outcome,), daemon=True).start()

    def _run(self, outcome: Future[Code]) -> None:
        _under_way.add(outcome)
        try:
            outcome.set_result(self._compile())
        except BaseException as error:  # the stencils do as well
            outcome.set_exception(error)
        finally:
            _under_way.discard(outcome)


_under_way: set[Future[Code]] = set()


@atexit.register
def _finish() -> None:
    """LLVM must not be at work while the process takes it down."""
    for outcome in list(_under_way):
        outcome.exception()
