"""What is graded in lab14_programs/03_streams: chunks in streams, pinned memory, a time by events."""

from __future__ import annotations

import re

import numpy as np

from warpschool.grading import Judgement, Verdict, criterion, practice

SHAPES = practice([(4096, 4), (1000, 3), (40_001, 16), (5, 8), (1, 1)])
OVERLAPPED = practice([(1 << 18, 8), (3 << 17, 12)], count=1)
SHARE = 0.72
"""Of the time that all copies and kernels take together; four streams need 0.57 for eight chunks, one stream 1."""
SYNCHRONISATIONS = 6


def polynomial(x):
    x, found = x.astype(np.float64), np.full(x.shape, 0.125)
    for k in range(8):
        found = found * x + 1.0 / (k + 1)
    return found


def run_and_compare(program, rng, n, chunks):
    x = rng.uniform(-1, 1, n).astype(np.float32)
    files = {"x.bin": x}
    run = program.run([n, chunks], files, case={"n": n, "chunks": chunks})
    program.check_against(run, {"y.bin": polynomial(x)}, k=16, scale=4.0)
    return run, files


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "How long is the last chunk? How many chunks are there if n is 5 and eight are asked for?",
        "Each chunk has its first number and its count; one without numbers launches nothing, for a grid has a block.",
        "size = (n + chunks - 1) / chunks; for (k = 0; k * size < n; ++k) { first = k * size; count = min(size, "
        "n - first); ... }",
    ],
)
def test_correct(program, rng):
    for shape in SHAPES:
        run_and_compare(program, rng, *shape)


@criterion(
    "The host waits before it reads",
    about="RACE",
    weight=2,
    hint=[
        "cudaMemcpyAsync returns at once. When have its bytes arrived?",
        "Before y is read, the host waits for every copy: for its stream, for an event behind it, or for the device.",
        "CHECK(cudaEventRecord(stop)); CHECK(cudaEventSynchronize(stop)); then read y",
    ],
)
def test_waits(program, rng):
    for n, chunks in SHAPES:
        run, _ = run_and_compare(program, rng, n, chunks)
        program.waits_for_copies(run)


@criterion(
    "Copies and kernels overlap",
    weight=3,
    hint=[
        "Which of your chunks may be on its way while another one is computed?",
        "Within one stream everything is in order; the default stream waits for all others; from memory that is not "
        "pinned the host itself copies, and waits.",
        "stream = streams[k % STREAMS]; cudaMemcpyAsync(..., stream); kernel<<<grid, BLOCK, 0, stream>>>(...); "
        "cudaMemcpyAsync(..., stream)",
    ],
    counts="from the first copy's start to the last one's end, as a share of what all copies and kernels take, on the "
    "virtual GPU's clock",
)
def test_overlap(program, rng):
    for n, chunks in OVERLAPPED:
        run, files = run_and_compare(program, rng, n, chunks)
        spans = run.report.spans
        together = sum(span.end_ns - span.start_ns for span in spans)
        whole = max(span.end_ns for span in spans) - min(span.start_ns for span in spans)
        line = program.line_of(run.calls("HtoD", "DtoH"))
        program.within(round(whole / together, 3), SHARE, "share of the time without overlap", line=line)
        waits = run.calls("synchronize")
        words = "calls that wait for the device"
        program.within(len(waits), SYNCHRONISATIONS, words, line=program.line_of(waits[-1:]))
        skipped = program.run([n, chunks], files, skip_launches=True, judged=False)
        program.done_by_kernels(run, skipped, ["y.bin"])


@criterion(
    "The time by events",
    weight=1,
    hint=[
        "An event is recorded in a stream. What has to be done before it counts as reached?",
        "The start comes before the first copy, the stop after the last one, in a stream that waits for all of them; "
        "the time is there once the stop has been waited for.",
        "cudaEventRecord(start); ...; cudaEventRecord(stop); cudaEventSynchronize(stop); "
        "cudaEventElapsedTime(&elapsed, start, stop)",
    ],
)
def test_time(program, rng):
    for n, chunks in OVERLAPPED:
        run, _ = run_and_compare(program, rng, n, chunks)
        spans = run.report.spans
        whole = (max(span.end_ns for span in spans) - min(span.start_ns for span in spans)) / 1e6
        told = re.search(r"elapsed ([0-9.]+) ms", run.output)
        asked = run.calls("elapsed")
        if told is None or not asked or abs(float(told[1]) - asked[-1].value) > 2e-6:
            said = "what is printed as elapsed is not what cudaEventElapsedTime gave"
            raise Judgement(Verdict.WA, said, case=run.case)
        if not 0.95 * whole <= asked[-1].value <= 1.25 * whole:
            said = f"the events are {asked[-1].value:.4f} ms apart; all copies and kernels take {whole:.4f} ms"
            raise Judgement(Verdict.WA, said, case=run.case)
