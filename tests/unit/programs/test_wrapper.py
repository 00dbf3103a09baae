"""nvcc as a makefile calls it: what is replaced, and a program of two objects that runs by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from warpschool.programs import tools_report
from warpschool.programs.wrapper import nvcc_command

needs_tools = pytest.mark.skipif(not tools_report()["available"], reason="nvcc or g++ is not here")
PROGRAMS = Path(__file__).parents[2] / "programs" / "right"


@needs_tools
def test_architectures_and_the_runtime_are_replaced():
    given = ["-O2", "-arch=sm_90", "-gencode", "arch=compute_75,code=sm_75", "-lcudart", "-Imine", "-o", "p", "p.cu"]
    made = nvcc_command(given)
    assert not [word for word in made if "sm_90" in word or "sm_75" in word or word == "-lcudart"]
    assert made.count("-gencode") == 1 and "-lwarpcudart" in made and "-Imine" in made
    assert "-lwarpcudart" not in nvcc_command(["-c", "p.cu"])
    changed = [word for word in nvcc_command(["-c", "host.cpp"]) if word.startswith("-I") and "runtime" in word]
    assert changed and changed[0] in made  # cuda.h as it was, for host code too
    assert nvcc_command(["--version"])[1:] == ["--version"]


@needs_tools
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.slow
def test_a_makefile_builds_a_program_of_two_objects(tmp_path):
    for name in ("several_files.cu", "several_files_kernels.cu", "several_files.h"):
        shutil.copy(PROGRAMS / name, tmp_path)
    (tmp_path / "Makefile").write_text(
        "NVCC ?= nvcc\nprog: several_files.o several_files_kernels.o\n\t$(NVCC) -arch=sm_75 -o $@ $^ -lcudart\n"
        "%.o: %.cu several_files.h\n\t$(NVCC) -arch=sm_75 -c $< -o $@\n"
    )
    nvcc = f"{sys.executable} -m warpschool nvcc"
    made = subprocess.run(["make", f"NVCC={nvcc}"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stderr
    run = subprocess.run([tmp_path / "prog"], capture_output=True, text=True, timeout=120, env=dict(os.environ))
    assert (run.returncode, run.stdout, run.stderr) == (0, "42\n", "")
