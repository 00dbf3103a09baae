"""Hostile sources, killed workers, forks, and processes that must not outlive their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from warpschool.compile import CompileLimits, compile_cuda, find_toolchain
from warpschool.compile.pool import WorkerPool, pool
from warpschool.compile.processes import CompilerFork, CompilerForks, CompilerProcess, Request
from warpschool.errors import CompileError, CompileLimitError, CompilerMissing

ROOT = Path(__file__).parents[3]
TINY = 'extern "C" __global__ void tiny(int* x) { x[threadIdx.x] = 7; }\n'
BOMB = """template <int N, int M> struct S { S<N - 1, 2 * M> a; S<N - 1, 2 * M + 1> b; };
template <int M> struct S<0, M> { int x; };
__global__ void k(int* x) { x[0] = sizeof(S<22, 0>); }
"""
"""Time and memory without end, from few bytes; one of macros is not even compiled (`compile.macros`)."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(tmp_path / "cache"))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def processor_s(pid: int) -> float:
    """Processor time of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def children(of: int | None = None) -> set[int]:
    """Every child of a process, this one if none is named, zombies included."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rsplit(")", 1)[1].split()[1]) == (of or os.getpid()):
                found.add(int(stat.parent.name))
        except OSError:
            continue
    return found


def until(condition, seconds=120.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


def limited(source, **limits):
    with pytest.raises(CompileLimitError) as caught:
        compile_cuda(source, name="k.cu", limits=CompileLimits(**limits))
    return str(caught.value)


def test_processor_time_is_limited_and_the_next_compilation_works():
    assert len(BOMB) < 475
    message = limited(BOMB, cpu_s=0.5)
    assert message.startswith("k.cu: the compiler used more than 0.5 s of processor time\n")
    assert "tiny" in compile_cuda(TINY).ptx


def test_elapsed_time_is_limited_and_says_nothing_about_the_source():
    with pytest.raises(CompilerMissing, match=r"took more than 0\.5 s\n.*overloaded"):
        compile_cuda(BOMB, limits=CompileLimits(wall_s=0.5))
    assert "tiny" in compile_cuda(TINY).ptx


def test_memory_is_limited():
    message = limited(BOMB, memory_bytes=1 << 29)
    assert "ran out of its memory (0.5 GiB)" in message
    assert "tiny" in compile_cuda(TINY).ptx


def test_limits_hold_for_each_compilation_anew():
    """The processor time of earlier compilations does not count, nor does a smaller limit stay."""
    limits, own = CompileLimits(cpu_s=2.0), WorkerPool()

    def compiled(source: str, limits: CompileLimits) -> str:
        return own.compile(find_toolchain(), Request(source, "k.cu", ["-arch=compute_80"]), limits)[0].result

    worker, index = own.warm_up(find_toolchain()), 0
    while processor_s(worker.pid) < 1.2 * limits.cpu_s:
        assert compiled(TINY.replace("7", str(index := index + 1)), limits) == "NVRTC_SUCCESS"
    assert own.warm_up(find_toolchain()) is worker
    assert compiled(BOMB, CompileLimits(memory_bytes=1 << 28)) == "NVRTC_ERROR_OUT_OF_MEMORY"
    own.close()
    with pytest.raises(CompileLimitError):
        compile_cuda(BOMB, limits=CompileLimits(memory_bytes=1 << 29))
    assert "tiny" in compile_cuda("#include <mma.h>\n" + TINY).ptx


def test_every_compilation_begins_in_the_same_state():
    """NVRTC does some things in the order of addresses: what is compiled before, and by whom, must not show."""
    source = (ROOT / "solutions" / "lab16_attention" / "07_backward.cu").read_text("utf-8")
    request = Request(source, "k.cu", ["-arch=compute_80", "-lineinfo", "-std=c++17"])
    workers = [CompilerProcess(find_toolchain()) for _ in range(2)]
    if any(Path(f"/proc/{w.pid}/personality").read_text().strip() != "00040000" for w in workers):
        pytest.skip("this system lets no process choose its addresses")
    libraries = [
        [line.split()[0] for line in Path(f"/proc/{w.pid}/maps").read_text().splitlines() if "libnvrtc" in line]
        for w in workers
    ]
    assert libraries[0] == libraries[1] != []
    assert workers[1].compile(Request(TINY, "k.cu", ["-arch=compute_80"]), CompileLimits()).ptx
    answers = [w.compile(request, CompileLimits()) for w in (*workers, workers[1])]
    assert answers[0].ptx and len({answer.ptx for answer in answers}) == 1
    for worker in workers:
        worker.kill()


def test_sizes_are_limited():
    assert "bytes of source; the limit is 262144" in limited("//" + "x" * (256 << 10))
    assert "bytes of source" in limited("// " + "é" * (129 << 10))
    compile_cuda("//" + "x" * (200 << 10) + "\n" + TINY)
    assert "bytes of PTX; the limit is 300" in limited(TINY, ptx_bytes=300)


def test_a_long_log_is_cut():
    with pytest.raises(CompileError) as caught:
        compile_cuda("__global__ void f() {\n" + "".join(f"    a{i};\n" for i in range(90)) + "}\n",
                     limits=CompileLimits(log_bytes=1000))  # fmt: skip
    assert len(caught.value.log) <= 1000 and "the compiler's log was cut here" in str(caught.value)
    assert caught.value.diagnostics[0].line == 2


@pytest.mark.parametrize("source", [
    "__global__ void f(int* x) { x[0] = " + "(" * 60_000 + "1" + ")" * 60_000 + "; }",
    "__global__ void f(int* x) { x[0] = " + "-" * 100_000 + "1; }",
    "{" * 100_000,
    "template <int N> struct S { static constexpr int v = S<N - 1>::v + S<N - 2>::v; };\n"
    "__global__ void f(int* x) { x[0] = S<100000>::v; }",
    "__device__ int " + "*" * 100_000 + "p;",
    "__global__ void f(int* x) {" + "if (x[0]) {" * 20_000 + "}" * 20_001,
])  # fmt: skip
@pytest.mark.thinned(3)
def test_deep_nesting_ends_in_a_verdict(source):
    try:
        compile_cuda(source, limits=CompileLimits(cpu_s=2))
    except CompileError as error:
        assert str(error)
    assert "tiny" in compile_cuda(TINY).ptx


def test_a_killed_worker_is_replaced_and_leaves_no_zombie():
    before = children()
    own = WorkerPool()
    worker = own.warm_up(find_toolchain())
    assert os.getpgid(worker.pid) == worker.pid != os.getpgid(0)
    os.kill(worker.pid, signal.SIGKILL)
    assert until(lambda: not worker.healthy)  # its main thread is a zombie a little before its others have ended
    other = own.warm_up(find_toolchain())
    assert other.pid != worker.pid and alive(other.pid)
    own.close()
    assert children() == before


def test_a_worker_that_dies_in_the_middle_is_a_limit_error():
    worker = CompilerProcess(find_toolchain())
    threading.Timer(0.5, os.kill, (worker.pid, signal.SIGSEGV)).start()
    with pytest.raises(CompileLimitError, match=r"ran out of its memory \(1 GiB\) or crashed \(SIGSEGV\)"):
        worker.compile(Request(BOMB, "k.cu", ["-arch=compute_80"]), CompileLimits())
    assert not worker.healthy and worker.pid not in children()


def test_a_worker_that_sends_nonsense_is_put_down():
    worker = CompilerProcess(find_toolchain())
    process = worker._process
    read, write = os.pipe()
    worker._pipes._out = read
    os.write(write, b"\xff" * 64)
    with pytest.raises(CompileLimitError):
        worker.compile(Request(TINY, "k.cu", ["-arch=compute_80"]), CompileLimits())
    assert process.returncode is not None
    os.close(read)
    os.close(write)


def test_ctrl_c_kills_the_compilation_at_once():
    program = f"""\
from warpschool.compile import compile_cuda, find_toolchain
from warpschool.compile.pool import pool
pool.warm_up(find_toolchain())
try:
    print("ready", flush=True)
    compile_cuda({BOMB!r})
except KeyboardInterrupt:
    assert "tiny" in compile_cuda({TINY!r}).ptx
    print("stopped", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "stopped\n"
    assert process.wait(120) == 0
    process.stdout.close()


ORPHAN = """\
import sys, threading, time
from warpschool.compile import compile_cuda
from warpschool.compile.pool import pool
from warpschool.compile.toolchain import find_toolchain
def main():
    print(pool.warm_up(find_toolchain()).pid, flush=True)
    {work}
{start}
"""


@pytest.mark.parametrize("start", ["main()", "threading.Thread(target=main).start(); time.sleep(600)"])
@pytest.mark.parametrize("work", ["time.sleep(600)", f"compile_cuda({BOMB!r})"])
def test_no_worker_outlives_its_parent(start, work):
    program = ORPHAN.format(work=work, start=start)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    worker = int(process.stdout.readline())
    time.sleep(0.3)
    assert alive(worker)
    process.kill()
    process.wait()
    process.stdout.close()
    assert until(lambda: not alive(worker))


def test_a_worker_survives_the_thread_that_started_it():
    own = WorkerPool()
    found = []
    thread = threading.Thread(target=lambda: found.append(own.warm_up(find_toolchain())))
    thread.start()
    thread.join()
    time.sleep(0.2)
    assert found[0].healthy
    answer, worker = own.compile(find_toolchain(), Request(TINY, "k.cu", ["-arch=compute_80"]), CompileLimits())
    assert worker is found[0] and answer.result == "NVRTC_SUCCESS"
    own.close()


def test_a_normal_end_leaves_no_worker():
    program = ORPHAN.format(work="pass", start="main()")
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240)
    assert run.returncode == 0 and run.stderr == ""
    assert until(lambda: not alive(int(run.stdout)))


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_workers_of_its_own():
    compile_cuda(TINY)
    parents = {worker.pid for _, worker in pool._idle}
    assert parents
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = compile_cuda(TINY.replace("7", "8")).ptx
            mine = {worker.pid for _, worker in pool._idle}
            pool.close()
            os.write(write, b"good" if "8;" in text and mine and not mine & parents else b"bad")
        finally:
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert os.read(read, 10) == b"good"
    os.close(read)
    os.close(write)
    assert all(alive(worker) for worker in parents)
    assert "9;" in compile_cuda(TINY.replace("7", "9")).ptx


@pytest.fixture
def forks():
    found = CompilerForks(find_toolchain())
    yield found
    found.close()


def test_a_forked_compiler_answers_as_one_of_its_own_does_and_ends_with_its_pipes(forks):
    request = Request(TINY, "k.cu", ["-arch=compute_80"])
    own = CompilerProcess(find_toolchain())
    expected = own.compile(request, CompileLimits())
    one, other = (CompilerFork(*forks.fork()) for _ in range(2))
    assert (one.version, one.archs, one.isolated) == (own.version, own.archs, own.isolated)
    assert one.compile(request, CompileLimits()) == other.compile(request, CompileLimits()) == expected
    compilers = children(forks._process.pid)
    assert len(compilers) == 2
    one.kill()
    assert until(lambda: len([pid for pid in compilers if alive(pid)]) == 1)
    assert other.compile(request, CompileLimits()) == expected
    own.kill()


def test_a_forked_compiler_keeps_the_limits_of_one_of_its_own(forks):
    limits = CompileLimits(cpu_s=0.3)
    lent = WorkerPool()
    lent.borrow(find_toolchain(), CompilerFork(*forks.fork()))
    with pytest.raises(CompileLimitError, match=r"used more than 0\.3 s of processor time"):
        lent.compile(find_toolchain(), Request(BOMB, "k.cu", ["-arch=compute_80"]), limits)
    lent.borrow(find_toolchain(), CompilerFork(*forks.fork()))
    request, limits = Request(BOMB, "k.cu", ["-arch=compute_80"]), CompileLimits(memory_bytes=1 << 28)
    assert lent.compile(find_toolchain(), request, limits)[0].result == "NVRTC_ERROR_OUT_OF_MEMORY"
    lent.close()


def test_compilers_that_nobody_forks_any_more_are_missing(forks):
    forks.close()
    with pytest.raises(OSError):
        forks.fork()
    pipes = [end for _ in range(2) for end in os.pipe()]
    os.close(pipes[3])  # whoever would answer has gone
    with pytest.raises(CompilerMissing, match="did not start"):
        CompilerFork(pipes[1], pipes[2])
    os.close(pipes[0])
