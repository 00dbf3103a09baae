"""Kernels compiled and translated on all cores, while those that are ready run already.

    preparation = Preparation(told=lambda done, total: ...)
    ready = preparation.ask(program, sizes)         # one future for each launch of the file
    preparation.close()                             # nothing more will be asked for; what was asked for is done
    wait(ready)                                     # then launch: whatever went wrong is raised there, in its place
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ptxsim import available_threads
from warpschool.contract import LaunchPlan
from warpschool.device.protocol import Dim3
from warpschool.harness.launcher import Program

Told = Callable[[int, int], None]
"""Hears how many kernels are ready, of how many."""


@dataclass(frozen=True)
class _Build:
    """One kernel to translate."""

    program: Program
    entry: str
    grid: Dim3
    block: Dim3
    options: tuple[tuple[str, Any], ...]

    def make(self) -> None:
        self.program.kernel(self.entry).prepare(self.grid, self.block, **dict(self.options))


class Preparation:
    """Prepares launches in the order in which they are asked for; each file is compiled before anything is translated.

    A kernel counts once for each shape of a launch and set of launch options.
    """

    def __init__(self, told: Told | None = None) -> None:
        self._pool = ThreadPoolExecutor(available_threads(), thread_name_prefix="prepare")
        self._told = told
        self._lock = threading.Lock()
        self._loads: dict[Program, Future[None]] = {}
        self._builds: dict[_Build, Future[None]] = {}
        self._done = 0

    def load(self, program: Program, sizes: Mapping[str, float]) -> None:
        """Compile the file of a program, for what `ask` will want."""
        if program not in self._loads:
            self._loads[program] = self._pool.submit(_load, program, _launches(program, sizes))

    def ask(self, program: Program, sizes: Mapping[str, float], **options: Any) -> list[Future[None]]:
        """Prepare the file's launches for these sizes; keywords are launch options."""
        self.load(program, sizes)
        return [self._ask(program, launch, options) for launch in _launches(program, sizes)]

    def _ask(self, program: Program, launch: LaunchPlan, options: Mapping[str, Any]) -> Future[None]:
        build = _Build(program, launch.entry, launch.grid, launch.block, tuple(options.items()))
        if build not in self._builds:
            self._builds[build] = self._pool.submit(self._make, build)
            self._tell(0)
        return self._builds[build]

    def _make(self, build: _Build) -> None:
        try:
            self._loads[build.program].result()
            build.make()
        finally:
            self._tell(1)

    def _tell(self, done: int) -> None:
        with self._lock:
            self._done += done
            if self._told is not None:
                self._told(self._done, len(self._builds))

    def repeat(self) -> None:
        """Ask for everything again: runs in between may have shown where lanes part, which needs code of its own."""
        for build in self._builds:
            self._pool.submit(build.make)

    def close(self, *, cancel: bool = False) -> None:
        """Let the threads end when all is done; with `cancel`, when they are through with what they have begun."""
        self._pool.shutdown(wait=False, cancel_futures=cancel)


def _load(program: Program, launches: Iterable[LaunchPlan]) -> None:
    for launch in launches:
        program.kernel(launch.entry)


def _launches(program: Program, sizes: Mapping[str, float]) -> tuple[LaunchPlan, ...]:
    return tuple(program.contract.bind(sizes, constants=program.constants).launches)


def wait(futures: Iterable[Future[None]]) -> None:
    """Wait for launches to be ready. Failures are left to the launch itself, which meets them again."""
    for future in futures:
        if not future.cancelled():
            future.exception()
