"""What is graded in lab14_programs/02_errors: a gather whose launches are refused, fail, or are none at all."""

from __future__ import annotations

import numpy as np

from warpschool.grading import Judgement, Verdict, criterion, practice

SHAPES = practice([(100, 1000, 128), (1, 1, 32), (300, 257, 256), (1000, 4099, 1024), (7, 31, 1)])
EMPTY = [(10, 0, 256)]
REFUSED = practice([(100, 1000, 1025), (300, 4099, 4096)], needs=lambda m, n, block: block > 1024)
FAILING = practice([(100, 1000, 128), (5, 40, 32)], count=1)
SAID = ("cudaErrorInvalidConfiguration", "invalid configuration argument")
ASSERTED = ("cudaErrorAssert", "device-side assert triggered")


def data(rng, m, n):
    table = rng.uniform(-1, 1, m).astype(np.float32)
    return {"table.bin": table, "index.bin": rng.integers(0, m, n).astype(np.int32)}


def named(m, n, block):
    return {"m": m, "n": n, "block": block}


def run_and_compare(program, rng, m, n, block):
    files = data(rng, m, n)
    run = program.run([m, n, block], files, case=named(m, n, block))
    program.check_against(run, {"out.bin": files["table.bin"][files["index.bin"]].astype(np.float64)})
    return run, files


@criterion(
    "Right answers",
    weight=2,
    hint=[
        "How many blocks do n numbers need, if n is no multiple of the block? And if n is 0?",
        "A grid of 0 blocks is refused: for n = 0 there is nothing to launch.",
        "if (n > 0) { gather<<<(n + block - 1) / block, block>>>(...); refused = cudaGetLastError(); }",
    ],
)
def test_correct(program, rng):
    for shape in (*SHAPES, *EMPTY):
        run_and_compare(program, rng, *shape)


@criterion(
    "A refused launch is tried again",
    weight=2,
    hint=[
        "Has a kernel that was refused done anything? May the program go on?",
        "cudaGetLastError() returns the launch's error and forgets it: after that the device is as it was.",
        "if (refused != cudaSuccess) { fprintf(stderr, ..., cudaGetErrorName(refused)); CHECK(launch(..., USUAL)); }",
    ],
)
def test_refused(program, rng):
    for shape in REFUSED:
        run, _ = run_and_compare(program, rng, *shape)
        if not any(words in run.errors for words in SAID):
            said = "the launch was refused, and stderr names neither cudaErrorInvalidConfiguration nor its meaning"
            raise Judgement(Verdict.WA, said, case=run.case)


@criterion(
    "A failed kernel is told",
    weight=2,
    hint=[
        "When does the host learn that an assertion of the kernel failed?",
        "cudaDeviceSynchronize() waits for the kernel, and returns what it ended with; that error stays.",
        "failed = cudaDeviceSynchronize(); if (failed != cudaSuccess) { fprintf(stderr, ...); return 3; }",
    ],
)
def test_failed(program, rng):
    for m, n, block in FAILING:
        files = data(rng, m, n)
        files["index.bin"][int(rng.integers(n))] = m
        run = program.run([m, n, block], files, case=named(m, n, block), judged=False)
        wrong = ""
        if run.status != 3:
            wrong = f"index.bin leads outside the table, and the program ends with {run.status} in place of 3"
        elif not any(words in run.errors for words in ASSERTED):
            wrong = "index.bin leads outside the table, and stderr names neither cudaErrorAssert nor its meaning"
        elif "out.bin" in run.files:
            wrong = "the kernel failed, and out.bin was written all the same"
        elif len(run.calls("launch")) > 1:
            wrong = "the kernel failed, and was launched again: this error stays"
        if wrong:
            raise Judgement(Verdict.WA, wrong, line=program.line_of(run.calls("launch")), case=run.case)


@criterion(
    "Every call is checked",
    weight=2,
    hint=[
        "The call that is named above was made to fail. Who learns of it?",
        "A kernel may also fail after a launch that was fine: the next call that waits returns the error.",
        "CHECK(...) around every call, or `if (error != cudaSuccess)` and a word on stderr",
    ],
)
def test_checked(program, rng):
    m, n, block = FAILING[0]
    program.checks_every_call([m, n, block], data(rng, m, n), case=named(m, n, block))
