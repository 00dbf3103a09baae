"""What would use up the grader: each ends by a count, the same on every machine, and within the budgets of a job."""

from __future__ import annotations

import re
import resource

import pytest

from warpschool.grading import costs, limits
from warpschool.grading.jobs import KernelJob
from warpschool.grading.sandbox import bubblewrap_problem
from warpschool.grading.submission import KERNEL_LIMIT, LAUNCH_LIMIT, TRANSLATION_LIMIT, WORK_LIMIT

from .hostile_cells import checked
from .hostile_kernels import RIGHT

pytestmark = pytest.mark.usefixtures("forked_checks")

STEP = "lab00_first_kernels/01_saxpy"
JOB_CPU_S = 20
needs_bubblewrap = pytest.mark.skipif(bool(bubblewrap_problem()), reason=bubblewrap_problem() or "bubblewrap is here")


def chain(length: int) -> str:
    """Functions that call the one before twice: the last one is 2^length calls long."""
    functions = ["__device__ __noinline__ float f0(float x) { return x + 1.0f; }"]
    functions += [
        f"__device__ __noinline__ float f{k}(float x) {{ return f{k - 1}(x) * 0.5f + f{k - 1}(x + 1.0f) * 0.5f; }}"
        for k in range(1, length + 1)
    ]
    return "\n".join(functions)


def with_body(text: str, before: str = "") -> bytes:
    """The right kernel with something at its beginning."""
    head, kernel = RIGHT.split('extern "C"', 1)
    signature, body = kernel.split("{", 1)
    return f'{head}{before}\nextern "C"{signature}{{\n    {text}\n{body}'.encode()


def launched(count: int) -> bytes:
    line = re.search(r"// Launch:.*\n", RIGHT)[0]
    return RIGHT.replace(line, line * count).encode()


def shapes(count: int) -> bytes:
    """Many shapes of blocks, for each of which a long kernel is translated anew."""
    line = re.search(r"// Launch:.*\n", RIGHT)[0]
    lines = "".join(line.replace("256", str(32 * (k + 1))) for k in range(count))
    source = with_body(
        "float s = 0;\n" + "".join(f"    s = s * x[{k}] + a;\n" for k in range(900)) + "    if (a > 9e9f) z[0] = s;"
    )
    return source.decode().replace(line, lines).encode()


SPECIMENS = {
    "a wide field": ("AC", lambda: with_body(r'if (threadIdx.x == 0) printf("%2000000000d\n", 1);')),
    "a field as wide as an argument": ("AC OLE", lambda: with_body(
        r'if (threadIdx.x == 0) printf("%*d %.*f\n", 2000000000, 1, 2000000000, 1.0);')),
    "many wide fields": ("OLE", lambda: with_body(
        r'for (int q = 0; q < 1000; ++q) printf("%9999d%9999d%9999d%9999d\n", q, q, q, q);')),
    "a chain of calls that is never run": ("CLE", lambda: with_body("if (a > 9e9f) z[0] = f24(x[0]);", chain(24))),
    "a shorter chain of calls": ("CLE", lambda: with_body("if (a > 9e9f) z[0] = f12(x[0]);", chain(12))),
    "a chain of calls that is run": ("CLE", lambda: with_body("if (n < 1) z[0] = f24(x[0]);", chain(24))),
    "three thousand launches": ("TLE", lambda: launched(3000)),
    "a long kernel in many shapes": ("CLE", lambda: shapes(30)),
}  # fmt: skip


LONG = "a long kernel in many shapes"


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n == LONG else ()) for n in SPECIMENS])
@pytest.mark.thinned(3)
def test_it_ends_by_a_count(name):
    verdicts, source = SPECIMENS[name]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = KernelJob(STEP, source()).run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert str(result.verdict) in verdicts.split(), result.seen or [c.seen for c in result.criteria]
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 3 * JOB_CPU_S
    assert after.ru_maxrss >> 10 < 900


def test_budgets_have_room_for_right_kernels():
    """The reference with the longest kernels; `docs/reference/verdicts.md` has all margins."""
    from warpschool.course import Course

    step = Course.find().step("lab08_convolution/12_register_tiles")
    cost = costs.cost_of(KernelJob(step.name, step.solution.read_bytes()).run())
    assert 0 < cost.translated < TRANSLATION_LIMIT / 2 and cost.launches < LAUNCH_LIMIT / 2
    assert cost.share < 0.5 and KERNEL_LIMIT > 5_000


def test_the_dearest_are_listed_first():
    def result(share):
        made = KernelJob(STEP, b"").failed("x")
        about = {**made.provenance, "executed": "5", "translated": str(int(share * TRANSLATION_LIMIT)), "launches": "1"}
        return type(made)(**{**made.__dict__, "provenance": about})

    found = costs.most_expensive([("ada", result(0.1)), ("bob", result(0.9)), ("cy", result(0.5)), ("di", result(0.2)),
                                  ("eve", KernelJob(STEP, b"").failed("x"))])  # fmt: skip
    assert [who for who, _, _ in found] == ["bob", "cy", "di"]


def test_a_part_is_of_what_this_check_was_allowed():
    assert costs.Cost(WORK_LIMIT // 2, 0, 0).share == 0.5
    assert costs.Cost(2 * WORK_LIMIT, 0, 0, allowed=4 * WORK_LIMIT).share == 0.5
    kept = KernelJob(STEP, b"").failed("x")
    about = {**kept.provenance, "executed": "8", "translated": "0", "launches": "0"}
    earlier = type(kept)(**{**kept.__dict__, "provenance": about})
    assert costs.cost_of(earlier) == costs.Cost(8, 0, 0, allowed=WORK_LIMIT)


CELLS = {
    "a fork bomb": ("import os\nwhile True:\n    os.fork()\nanswer = 42", "WA"),
    "a fork bomb that catches": (
        "import os\nanswer = 0\nfor _ in range(1000):\n    try:\n        os.fork()\n    except OSError:\n"
        "        answer += 1", "WA",
    ),
    "a shell": ("import subprocess\nanswer = int(subprocess.check_output(['echo', '42']))", "WA"),
    "another shell": ("import os\nanswer = 42 if os.system('true') == 0 else 0", "WA"),
    "a pool of processes": ("from multiprocessing import Process\nProcess(target=print).start()\nanswer = 42", "WA"),
    "threads": (
        "import threading\nfound = []\nfor k in range(4):\n    t = threading.Thread(target=lambda: found.append(1))\n"
        "    t.start()\n    t.join()\nanswer = 38 + len(found)", "AC",
    ),
}  # fmt: skip


@needs_bubblewrap
@pytest.mark.parametrize("name", CELLS)
def test_cells_start_no_processes(name):
    own, verdict = CELLS[name]
    assert str(checked(own).verdict) == verdict


@needs_bubblewrap
@pytest.mark.slow
def test_an_endless_cell_ends_by_its_steps():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = checked("answer = 0\nwhile True:\n    answer += 1")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert str(found.verdict) == "TLE" and f"{limits.MOST_STEPS:,}" in found.text
    assert after.ru_utime - before.ru_utime < 3 * JOB_CPU_S
