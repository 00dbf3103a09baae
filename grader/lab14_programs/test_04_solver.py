"""What is graded in lab14_programs/04_solver: sweeps on data that stay, with as few copies and waits as they need."""

from __future__ import annotations

import re

import numpy as np

from warpschool.grading import Judgement, Verdict, criterion, practice

GRIDS = practice([(16, 16, 4, 2), (17, 33, 7, 3), (3, 40, 5, 10), (1, 5, 2, 1), (20, 31, 1, 1)])
COUNTED = practice([(32, 48), (48, 80)], count=1)
FEW, MANY, EVERY = 8, 24, 4
FAILING = [(17, 20)]


def swept(u, sweeps, every):
    u, changes = u.astype(np.float64), []
    for k in range(1, sweeps + 1):
        new = u.copy()
        new[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        if k % every == 0:
            changes.append((k, float(np.abs(new - u).max(initial=0.0))))
        u = new
    return u, changes


def run_and_compare(program, rng, rows, cols, sweeps, every):
    u = rng.uniform(-1, 1, (rows, cols)).astype(np.float32)
    case = {"rows": rows, "cols": cols, "sweeps": sweeps, "every": every}
    files = {"u.bin": u}
    run = program.run(list(case.values()), files, case=case)
    wanted, changes = swept(u, sweeps, every)
    program.check_against(run, {"v.bin": wanted}, k=4 * sweeps, scale=1.0)
    told = [(int(k), float(c)) for k, c in re.findall(r"^sweep (\d+) change (\S+)$", run.output, re.MULTILINE)]
    if [k for k, _ in told] != [k for k, _ in changes]:
        said = f"lines 'sweep K change C' for K = {[k for k, _ in told]}; it should be {[k for k, _ in changes]}"
        raise Judgement(Verdict.WA, said, case=run.case)
    for (k, got), (_, right) in zip(told, changes, strict=True):
        if not abs(got - right) <= 1e-5 * (1 + right):
            said = f"sweep {k}: the change is {right:.7g}, and the program says {got:.7g}"
            raise Judgement(Verdict.WA, said, case=run.case)
    return run, files


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "After an odd number of sweeps, which of the two grids is the newest?",
        "Swap the pointers behind each launch: then the newest is always the one that the next sweep reads. `change` "
        "begins with 0 before each sweep that is asked about.",
        "sweep<<<grid, block>>>(before, after, ...); std::swap(before, after);",
    ],
)
def test_correct(program, rng):
    for grid in GRIDS:
        run_and_compare(program, rng, *grid)


@criterion(
    "Data stay on the device",
    weight=3,
    hint=[
        "What does the device know after the first sweep, and what does it have to be told for the second?",
        "Allocations and copies of whole grids stand before and behind the loop. In it two pointers change places.",
        "allocate; copy u there; for (...) { launch; swap; if (asked) copy one number back; } copy the grid back; free",
    ],
    counts="allocations and bytes copied, by 8 and by 24 sweeps",
)
def test_stays(program, rng):
    for rows, cols in COUNTED:
        nbytes = 4 * rows * cols
        for sweeps in (FEW, MANY):
            run, files = run_and_compare(program, rng, rows, cols, sweeps, EVERY)
            checks = sweeps // EVERY
            at = f"in {sweeps} sweeps"
            made = run.calls("allocate")
            program.within(len(made), 4, f"allocations {at}", line=program.line_of(made[-1:]))
            for kind, most, words in (
                ("HtoD", 2 * nbytes + 8 * (checks + 1), "bytes copied to the device"),
                ("DtoH", nbytes + 8 * checks, "bytes copied to the host"),
                ("DtoD", nbytes, "bytes copied on the device"),
                ("set", nbytes + 8 * (sweeps + 1), "bytes set on the device"),
            ):
                calls = run.calls(kind)
                total = sum(call.nbytes for call in calls)
                program.within(total, most, f"{words} {at}", line=program.line_of(calls))
        arguments = [rows, cols, MANY, EVERY]
        skipped = program.run(arguments, files, skip_launches=True, judged=False)
        program.done_by_kernels(run, skipped, ["v.bin"])


@criterion(
    "The host waits only for numbers",
    weight=2,
    hint=[
        "Who has to wait between two sweeps: the second one, or the host?",
        "Launches of one stream run in order by themselves. The host waits where it reads: with the copy of `change`.",
        "no cudaDeviceSynchronize() in the loop; cudaMemcpy(&seen, change, ...) every so often",
    ],
    counts="calls that make the host wait, by 24 sweeps of which 6 are asked about",
)
def test_waits(program, rng):
    for rows, cols in COUNTED:
        run, _ = run_and_compare(program, rng, rows, cols, MANY, EVERY)
        waits = [c for c in run.calls("synchronize", "DtoH", "HtoD") if c.kind == "synchronize" or c.blocking]
        most = 2 * (MANY // EVERY) + 5
        program.within(len(waits), most, "calls that wait", line=program.line_of(waits))


@criterion(
    "Every call is checked",
    weight=1,
    hint=[
        "The call that is named above was made to fail. Who learns of it?",
        "CHECK(...) around each call of the runtime, and CHECK(cudaGetLastError()) behind the launch.",
        "CHECK(cudaMemcpy(...)); sweep<<<grid, block>>>(...); CHECK(cudaGetLastError());",
    ],
)
def test_checked(program, rng):
    for rows, cols in FAILING:
        u = rng.uniform(-1, 1, (rows, cols)).astype(np.float32)
        case = {"rows": rows, "cols": cols, "sweeps": 2, "every": 2}
        program.checks_every_call(list(case.values()), {"u.bin": u}, case=case)
