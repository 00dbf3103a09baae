"""Runs a program: its own process for the host code, a thread of this one for the device."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ptxsim import launching_thread
from warpschool import model
from warpschool.errors import ToolMissing
from warpschool.programs.report import ProgramReport
from warpschool.programs.session import Session
from warpschool.programs.wire import HEAD, Fields

LINE = "WARPSCHOOL_PROGRAM"
"""The variable that tells the runtime library its ends: of the line, and the memory file."""
_CHUNK = 1 << 18


@dataclass
class Recording:
    """The device's side of a running program."""

    line: socket.socket
    session: Session
    problem: BaseException | None = field(default=None)

    def serve(self) -> None:
        """Answers until the program has gone. The line ends with it: a program that still waits would wait for ever."""
        try:
            self._serve()
        except _Gone:
            pass
        except BaseException as error:  # raised again by whoever waits for the program
            self.problem = error
        finally:
            self.line.close()

    def _serve(self) -> None:
        waiting, view = bytearray(), bytearray(_CHUNK)
        while True:
            try:
                count = self.line.recv_into(view)
            except OSError:
                raise _Gone from None
            if not count:
                return
            waiting += view[:count]
            at = 0
            while len(waiting) - at >= HEAD.size:
                size, request = HEAD.unpack_from(waiting, at)
                if len(waiting) - at < size:
                    break
                reply = self.session.handle(request, Fields(bytes(waiting[at : at + size]), HEAD.size))
                if reply is not None:
                    self._send(reply)
                at += size
            del waiting[:at]

    def _send(self, reply: bytes) -> None:
        try:
            self.line.sendall(reply)
        except OSError:
            raise _Gone from None


class _Gone(Exception):
    """The program's end of the line is closed, however it came to its end."""


def run_program(
    program: Path,
    arguments: Sequence[str] = (),
    *,
    gpu: str | model.GpuSpec = model.DEFAULT_GPU,
    capture: bool = False,
    check: bool = True,
    leaks: bool = True,
    record: bool = False,
    timeout_s: float | None = None,
) -> ProgramReport:
    """Runs a built program to its end; Ctrl-C ends it, and what was found until then is reported.

    With `record` the report has every launch as it was asked for. With `capture` its output is kept for the report,
    else it goes where this process's goes. Raises ToolMissing where the system has no memory files.
    """
    start = time.perf_counter()
    session, memory = make_session(model.find_gpu(gpu), check=check)
    session.records = [] if record else None
    ours, theirs = socket.socketpair()
    recording = Recording(ours, session)
    served = launching_thread(recording.serve)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            [program, *arguments], pass_fds=(theirs.fileno(), memory), stdout=output if capture else None,
            stderr=errors if capture else None, env={**os.environ, LINE: f"{theirs.fileno()},{memory}"},
        )  # fmt: skip
        theirs.close()
        os.close(memory)
        interrupted = False
        try:
            interrupted = not served.wait(timeout_s)
        except KeyboardInterrupt:
            interrupted = True
        if interrupted:
            child.kill()
        status = child.wait()
        text = [_text(file) if capture else "" for file in (output, errors)]
    if recording.problem is not None:
        raise recording.problem
    if interrupted:
        status = -signal.SIGINT
    return make_report(session, status, time.perf_counter() - start, leaks=leaks, interrupted=interrupted, text=text)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def make_session(spec: model.GpuSpec, *, check: bool = True, **more: Any) -> tuple[Session, int]:
    """A device, and the descriptor of its memory's file; `more` are fields of `Session`. Raises ToolMissing."""
    if not hasattr(os, "memfd_create"):
        raise ToolMissing("this system has no memory files", next_step="Whole programs run on Linux.")
    memory = os.memfd_create("warpschool")
    return Session(memory, spec, check, **more), memory


def make_report(
    session: Session, status: int, seconds: float, *, leaks: bool, interrupted: bool = False,
    text: Sequence[str] = ("", ""),
) -> ProgramReport:
    """The account of a program that has ended."""
    session.finish(leaks=leaks, interrupted=interrupted)
    kernels, copies = session.clock.uses()
    return ProgramReport(
        status=status, notes=session.findings.told(), kernels=kernels, copies=copies, spans=tuple(session.clock.spans),
        gpu=session.spec.name, seconds=seconds, timed=session.timed, ended=session.ended, interrupted=interrupted,
        output=text[0], errors=text[1], records=tuple(session.records or ()),
        calls=session.told_calls(),
    )  # fmt: skip
