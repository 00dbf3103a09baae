"""Options of nvcc: which the compiler sees, which the linker, and which are ours to choose; how its processes end."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from warpschool.cli.programs import compiler_words
from warpschool.notebook.extension import _work_of
from warpschool.programs import find_tools, tools_report
from warpschool.programs.build import (
    _advice,
    _Compilers,
    _prune,
    _runtime_place,
    _stages,
    _tidy,
    has_runtime_library,
    runtime_library,
)


def kept(*words):
    """The words that reach nvcc, and those that stay."""
    found = compiler_words(list(words))
    return [w.removeprefix("--compiler=") for w in found if w.startswith("--compiler=")], [
        w for w in found if not w.startswith("--compiler=")
    ]


def test_architectures_and_runtimes_are_chosen_here():
    words = "-O2 -arch=sm_70 -gencode arch=compute_80,code=sm_80 a.cu -cudart shared -std c++17"
    assert kept(*words.split()) == (["-O2", "-std", "c++17"], ["a.cu"])


def test_an_architecture_of_ours_stays_ours():
    words = ["--arch", "compute_90", "a.cu", "--arch=compute_90"]
    assert kept(*words) == ([], words)


def test_separate_compilation_by_either_name():
    assert kept("-dc", "a.cu")[0] == ["-rdc=true"] and kept("-rdc=true", "a.cu")[0] == ["-rdc=true"]


def test_values_stay_behind_their_options():
    compile_, link = _stages(["-Xcompiler", "-fopenmp", "-lm", "-lineinfo", "-Xlinker", "-z", "-I", "-strange", "-L/x"])
    assert compile_ == ["-Xcompiler", "-fopenmp", "-lineinfo", "-I", "-strange"]
    assert link == ["-Xcompiler", "-fopenmp", "-lm", "-Xlinker", "-z", "-L/x"]


@pytest.mark.parametrize(
    ("name", "says"), [("cufft.h", "no cuFFT"), ("cusolverDn.h", "no cuSOLVER"), ("helper_cuda.h", "-I for a header"),
                       ("curand_kernel.h", "warpschool[curand]")],
)  # fmt: skip
def test_what_is_not_there_gets_advice(name, says):
    assert says in _advice(name)


def test_an_interrupted_build_ends_its_compilers_and_what_they_started(tmp_path):
    started = tmp_path / "started"
    command = ["sh", "-c", f"sleep 1000 & echo $! > {started}.part; mv {started}.part {started}; wait"]
    done = []
    with pytest.raises(KeyboardInterrupt), _Compilers(tmp_path) as compilers:
        thread = threading.Thread(target=lambda: done.append(compilers.run(command)))
        thread.start()
        while not started.exists():
            time.sleep(0.01)
        raise KeyboardInterrupt
    thread.join(60)
    assert done[0].returncode == -signal.SIGKILL
    assert compilers.run(command).returncode == -signal.SIGKILL  # none begins behind that
    status = Path(f"/proc/{started.read_text().strip()}/status")  # nobody may have collected it yet
    while status.exists() and "State:\tZ" not in status.read_text():
        time.sleep(0.01)


def test_builds_that_nobody_uses_are_dropped_and_the_newest_stay(tmp_path, monkeypatch):
    monkeypatch.setitem(_prune.__globals__, "_MOST_BUILDS", 3)
    for age in range(6):
        for suffix in ("program", "json"):
            path = tmp_path / f"{age}.{suffix}"
            path.touch()
            os.utime(path, (1000 + age, 1000 + age))
    for name, age in (("broken", 1002), ("running", 1005)):
        (tmp_path / f".build-{name}").mkdir()
        os.utime(tmp_path / f".build-{name}", (age, age))
    _prune(tmp_path)
    left = ["3.json", "3.program", "4.json", "4.program", "5.json", "5.program"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".build-running", *left]
    _prune(tmp_path)  # with no more than may be, nothing happens
    assert len(list(tmp_path.iterdir())) == 7


def test_messages_show_the_words_of_the_source():
    line = "  __attribute__((global)) void k(float* p) { __attribute__((shared)) float s[x]; }"
    said = f"a.cu(2): error: no x\n{line}\n{' ' * line.index('x]')}^\n"
    told = _tidy(said).splitlines()
    assert told[1] == "  __global__ void k(float* p) { __shared__ float s[x]; }"
    assert told[2].index("^") == told[1].index("x]")


@pytest.mark.skipif(not tools_report()["available"], reason="whole programs cannot be built here")
def test_the_bar_of_a_build_says_whether_the_runtime_library_is_made_too(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(tmp_path))
    assert not has_runtime_library(find_tools())
    assert _work_of("lab14/01") == "building lab14/01, and the runtime library of programs, once for this machine"
    made = _runtime_place(find_tools())
    made.parent.mkdir(parents=True)
    made.touch()
    assert has_runtime_library(find_tools()) and runtime_library(find_tools()) == made
    assert _work_of("lab14/01") == "building lab14/01"
