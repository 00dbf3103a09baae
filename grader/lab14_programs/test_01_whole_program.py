"""What is graded in lab14_programs/01_whole_program: z = a * x + y, with all that surrounds the kernel."""

from __future__ import annotations

import numpy as np

from warpschool.grading import criterion, practice

FULL_BLOCKS = [256, 4096]
RAGGED = practice([1, 31, 257, 40_000])
COUNTED = practice([4096, 11264], count=1)
FAILING = [1000]
GIVEN_BACK = "leak"


def data(rng, n):
    a = round(float(rng.uniform(-4, 4)), 3)
    x, y = (rng.uniform(-1, 1, n).astype(np.float32) for _ in range(2))
    product = float(np.float32(a)) * x.astype(np.float64)
    return [n, a], {"x.bin": x, "y.bin": y}, product + y, abs(product) + abs(y)


def run_and_compare(program, rng, n, allowed=(GIVEN_BACK,)):
    arguments, files, z, scale = data(rng, n)
    run = program.run(arguments, files, case={"n": n}, allowed=allowed)
    program.check_against(run, {"z.bin": z}, k=2, scale=scale)
    return run, arguments, files


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Follow one number: from x in the host's memory to z in the host's memory. Which calls carry it?",
        "Memory on the device for x, y and z; two copies there; the launch; one copy back. Is the grid rounded up?",
        "cudaMalloc x3; cudaMemcpy(d_x, x.data(), bytes, cudaMemcpyHostToDevice); saxpy<<<(n + BLOCK - 1) / BLOCK, "
        "BLOCK>>>(...); cudaMemcpy(z.data(), d_z, bytes, cudaMemcpyDeviceToHost)",
    ],
)
def test_correct(program, rng):
    for n in (*FULL_BLOCKS, *RAGGED):
        run_and_compare(program, rng, n)


@criterion(
    "Every call is checked",
    weight=3,
    hint=[
        "What does your program do when there is no memory left on the device?",
        "Each call of the runtime returns a cudaError_t, and a launch leaves one for cudaGetLastError(). What happens "
        "with the one that is named above?",
        "CHECK(cudaMalloc(...)); ...; kernel<<<...>>>(...); CHECK(cudaGetLastError());   check: if (error != "
        "cudaSuccess) { fprintf(stderr, ...); exit(1); }",
    ],
)
def test_checked(program, rng):
    for n in FAILING:
        arguments, files, *_ = data(rng, n)
        program.checks_every_call(arguments, files, case={"n": n})


@criterion(
    "Given back",
    about="MLE",
    weight=1,
    hint=[
        "Who frees what the program has allocated?",
        "For each cudaMalloc there is one cudaFree, of the same pointer, when nothing uses it any more.",
        "CHECK(cudaFree(d_x)); CHECK(cudaFree(d_y)); CHECK(cudaFree(d_z));",
    ],
)
def test_given_back(program, rng):
    for n in FULL_BLOCKS:
        run_and_compare(program, rng, n, allowed=())


@criterion(
    "No more than is needed",
    weight=1,
    hint=[
        "Which of the three arrays does the kernel read, and which does it write?",
        "x and y go to the device once each, z comes back once. Whatever else is copied costs time on the link.",
        "two copies of n floats there, one of n floats back",
    ],
    counts="bytes copied each way, calls of cudaMalloc, and what is left when no kernel does anything",
)
def test_traffic(program, rng):
    for n in COUNTED:
        run, arguments, files = run_and_compare(program, rng, n)
        for kind, most in (("HtoD", 8 * n), ("DtoH", 4 * n)):
            calls = run.calls(kind)
            words = {"HtoD": "bytes copied to the device", "DtoH": "bytes copied to the host"}[kind]
            program.within(sum(call.nbytes for call in calls), most, words, line=program.line_of(calls[-1:]))
        allocations = run.calls("allocate")
        program.within(len(allocations), 3, "allocations", line=program.line_of(allocations[-1:]))
        program.done_by_kernels(run, program.run(arguments, files, skip_launches=True, judged=False), ["z.bin"])
