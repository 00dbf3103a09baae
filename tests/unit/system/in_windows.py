"""What `ptxsim.system` promises, asked where Windows is played: started by `test_windows.py` through `windows_stub`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from ptxsim import Memory, system
from ptxsim.errors import MemoryLimitExceeded

SLEEPS = "import os, time; os.write(1, b'up'); time.sleep(600)"


def memory() -> None:
    first, second = Memory(), Memory()
    assert first.base != second.base and first.base % 65536 == 0
    array = first.allocate(10_000, "x")
    assert (array.view() == 0xFF).all()
    array.view().view(np.float32)[:] = 1
    again = first.allocate(1 << 20, "y")
    again.view()[:] = 0
    assert array.view().view(np.float32).sum() == 2500
    del first, array, again
    try:
        system.commit(second.base + second.capacity - 1, 1 << 30)
    except AssertionError as error:
        assert "not reserved" in str(error)
    try:
        Memory(file=3)
    except (MemoryLimitExceeded, OSError) as error:
        assert "Linux" in str(error) or "reserve" in str(error)


def children() -> None:
    def begun(code: str) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return system.start([sys.executable, "-S", write(code)], stdin=pipe, stdout=pipe, bufsize=0)

    sleeper = begun(SLEEPS)
    pipes = system.Pipes(sleeper.stdin, sleeper.stdout)
    assert pipes.receive(time.monotonic() + 300).strip() == b"up"
    try:
        pipes.receive(time.monotonic())
    except TimeoutError:
        pass
    else:
        raise AssertionError("nothing comes, and nobody says so")
    assert pipes.is_quiet()
    system.end(sleeper)
    assert system.how_ended(sleeper.wait()) == "killed"
    try:
        pipes.receive(time.monotonic() + 300)
    except EOFError:
        pass
    else:
        raise AssertionError("the child has gone, and nobody says so")
    echo = begun("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read(300_000)); sys.exit(3)")
    pipes = system.Pipes(echo.stdin, echo.stdout)
    pipes.send(bytes(300_000), time.monotonic() + 300)
    come = 0
    while come < 300_000:
        come += len(pipes.receive(time.monotonic() + 300))
    assert echo.wait() == 3 and system.how_ended(3) == ""


def limits() -> None:
    code = f"import sys\nsys.path += {sys.path!r}\nfrom ptxsim import system\nsystem.limit_next(1)\nwhile True: pass"
    busy = system.start([sys.executable, "-S", write(code)])
    assert system.how_ended(busy.wait()) == "time"
    assert system.peak_bytes() > 1 << 20
    assert system.how_ended(0xC0000005) == "access violation" and system.how_ended(0xC0001234) == "status 0xc0001234"


def files() -> None:
    path = Path(write("text"))
    with open(path, "r+") as mine:
        assert system.lock(mine.fileno())
    link = path.with_name("link")
    link.symlink_to(path)
    try:
        system.open_plain(link)
    except OSError as error:
        assert "link" in str(error)
    else:
        raise AssertionError("a link was followed")
    assert system.private_folder(str(path.parent), "own") == str(path.with_name("own"))


def waiting() -> None:
    event = threading.Event()
    threading.Timer(0.3, event.set).start()
    system.wait(event.wait)
    assert event.is_set()


def write(text: str) -> str:
    path = Path(tempfile.mkdtemp(), "file.py")
    path.write_text(text, "utf-8")
    return str(path)


for work in (memory, children, limits, files, waiting):
    work()
    print(work.__name__, flush=True)
