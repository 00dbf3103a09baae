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
    assert nvcc_command(["-dlink", "a.o", "-o", "d.o"])[-2:] == ["-cudadevrt", "none"]
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


@needs_tools
@pytest.mark.skipif(shutil.which("cmake") is None, reason="CMake is not installed")
@pytest.mark.slow
@pytest.mark.parametrize("separable", ["OFF", "ON"])
def test_cmake_builds_a_program_of_two_files(tmp_path, separable):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(sum LANGUAGES CXX CUDA)\nadd_executable(sum main.cu other.cu)\n"
        f"set_target_properties(sum PROPERTIES CUDA_STANDARD 17 CUDA_SEPARABLE_COMPILATION {separable})\n"
    )
    (tmp_path / "other.cu").write_text(
        "__global__ void fill(int* x) { x[threadIdx.x] = 2 * threadIdx.x; }\n"
        "void run(int* x) { fill<<<1, 100>>>(x); }\n"
    )
    (tmp_path / "main.cu").write_text(
        "#include <cstdio>\nvoid run(int* x);\nint main() {\n    int *d, h[100], sum = 0;\n"
        "    cudaMalloc(&d, sizeof h);\n    run(d);\n    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);\n"
        '    cudaFree(d);\n    for (int x : h) sum += x;\n    printf("%d\\n", sum);\n}\n'
    )
    compiler = f"-DCMAKE_CUDA_COMPILER={Path(sys.executable).with_name('warpschool-nvcc')}"
    for command in (["-B", "build", compiler, "-DCMAKE_CUDA_ARCHITECTURES=80"], ["--build", "build"]):
        done = subprocess.run(["cmake", *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    ran = subprocess.run(["build/sum"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "9900\n"), ran.stderr
