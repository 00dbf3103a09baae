"""Writes docs/reference/result.schema.json and verdicts.md from the library's dataclasses."""

from __future__ import annotations

import json
from pathlib import Path

from scripts import endless_table, right_jobs_table

from warpschool.grading.records import record_schema, result_schema
from warpschool.grading.verdicts import Verdict

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
ABOUT = """\
# Verdicts and results

A check ends with one verdict for each criterion; the verdict of the whole is the gravest of them. The table is in that
order: what stands higher wins. So a kernel that does not compile is CE whatever else is wrong with it, a race is told
before wrong numbers, and a counter over its budget (PERF) is told only for a kernel that is right.

`SE` stands above all because it is no statement about the student: a check that ended with it was tried three times,
is not stored, has no score, and blocks the grade until somebody looks. Processes that are killed from outside, a
machine out of memory and a broken grader file end there. `SKIP` is neither right nor wrong: the criterion was not
checked here and counts neither in the score nor in its maximum.

| verdict | meaning | whose move |
|---|---|---|
"""
TOLD = """
## What is told beside a verdict

- **Its own figure for each criterion.** A counter over its budget is told with count and limit. While the kernel is
  wrong, what it takes says nothing: a criterion that counts then has the verdict of the fault, no points, and says
  "not judged until the answers are right" (until no race is left, until the kernel comes to its end, ...). What is
  within its budget keeps its points.
- **Hints for what was seen**, in three levels. A race in shared memory has others than one between blocks or with a
  copy that is still on its way; so have barriers that not all threads reach, member masks, indices before an array,
  behind it and far from every array, other state spaces, misaligned vectors, endless loops, dynamic shared memory
  that no `shared=` asks for. Wrong results have hints for what they have in common: transposed, shifted by a row or
  by elements, reversed, never written, added to without a start value, NaN, zero, a factor, an amount, cut off to
  whole numbers, one value everywhere, the last tile only. A step that knows more has a criterion that is `about` the
  fault; where nothing is known, the criterion's own hints stand, and of a criterion about another fault than wrong
  results those of the first one about answers.
- **The cause before what comes of it.** Races behind a barrier that some threads do not reach are told as that barrier,
  SYNC.
- **Both ends of a call.** What happens inside a helper is told at the helper's line and at the lines that called it,
  whether the compiler has inlined it or not, on both sides of a race; not for functions that call themselves, or
  through pointers.
- **The loop that never ends**, of loops inside each other the one whose iterations do not stop, with its code.
- **Variables without a value.** What nothing has written begins with large numbers whose sign differs from lane to
  lane: no sum, count or largest value that it takes part in comes out right. Where results are wrong for it, the
  verdict is UNINIT, with the variable's name and where it was declared. What the compiler has folded away is told as
  far as the compiler warns of it.
- **The compiler's warnings** on the file's own lines, `warnings` of the result. They cost nothing.

Standard headers need not be avoided: `<stdint.h>`, `<cstdint>`, `<math.h>`, `<cmath>`, `<float.h>`, `<cfloat>`,
`<limits.h>`, `<climits>`, `<limits>`, `<stdio.h>`, `<assert.h>` and their like are taken, with what of them exists on
a GPU; and `INFINITY`, `NAN`, `FLT_MAX`, `INT_MAX`, `uint32_t` and such names are there without any.
"""
BUDGETS = """
## What a verdict does not depend on

In which order blocks and warps happen to run: a GPU promises none. Where the outcome could depend on it, because
threads talk to each other through atomics, volatile or relaxed accesses, a run is repeated in two other orders, seeded
and so the same on every machine, and every one has to be right.

How busy or how fast the machine is: what ends a submission is counted, and the same count ends it everywhere.

| what is counted | limit | the most that a right submission needs | past it |
|---|---|---|---|
| instructions of warps of a launch that is not at its end | 2^21, or 64 reference runs | 1 reference run | TLE |
| the same after a check's first endless loop | 2^18 | | TLE |
| loop iterations of a block's warps; warps of a launch | 2^23 | 2^17 | TLE |
| the same of all launches of a check together | 2^27, or 4 reference runs for each run | 2^26 | TLE |
| launches of a check together | 2^10 | 152 | TLE |
| instructions of a kernel with its calls inlined | 15,000 | 5,000 | CLE |
| the same of all kernels, each once for each shape of its blocks and value of its constants | 40,000 | 15,800 | CLE |
| steps of a student's Python: nodes of its syntax tree that run | 2^28 | | TLE |
| seconds that its calls of `time.sleep` ask for together | 60 | 0 | TLE |
| source, PTX | 256 KB, 4 MB | | CLE |
| what `printf` writes in a launch | 1 MB | | OLE |
| memory in use, at its peak | 800 MB | 400 MB | MLE |

A reference run is what the step's own reference takes on the same inputs; 64 of them are cut to 2^24 instructions, but
not below 4 of them. What takes longer than an instruction that computes stands for as many as take its time: an access
of shared memory for five and a quarter more for each bank conflict, one of global memory for two and a tenth more for
each sector, products on tensor cores, asynchronous copies and atomics for more, and a product of a warpgroup, whose
operands are followed, for 1,024. In a loop that nothing leads out of, no condition, no `return` and no trap, more would
not help: it is told at 2^21 at the latest, whatever the reference takes. A deadlock of threads that look in loops for
what nobody is left to do is told as soon as that is certain, after some turns of all blocks. After a check's first
endless loop nothing is compiled for other constants either: a criterion that needs it says "not judged until the kernel
comes to its end".

@ENDLESS@

`python benchmarks/endless.py` tries them anew: a loop without its step stays where it is, one without its condition
walks out of its arrays. The step is prepared, as for a [class](../teach/cluster.md#one-machine). A part of what a loop
takes is its launches until they are stopped; the rest is the compiler's and the simulator's translation, which a right
kernel needs as well, above all a long one and one whose products of a warpgroup are followed.

@RIGHT@

`python benchmarks/right_jobs.py` measures them anew, with an empty compile cache.

Time stands behind these counts, for what cannot be counted. It is processor time where it can be a student's verdict,
which other programs hardly change, with a margin:

| what | limit | the most that was measured | past it |
|---|---|---|---|
| one compilation: NVRTC counts nothing | 20 s of processor time | 1.3 s for a right kernel | CLE |
| a check of a kernel | 900 s of processor time | 35 s for a right one; what its counts allow: 20 s more | TLE |
| host code of a whole program, a run | 20 s of processor time | 0.1 s for a right one | TLE |
| the same where it only waits: a minute in which neither it nor the device does anything | | | TLE |
| Python cells: NumPy is not counted | 60 s of processor time | what their steps allow: 36 s | TLE |
| elapsed time of a check, of a compilation | 4 hours, 10 minutes | | SE: the machine's fault, tried again |

Times are of one core of an Intel Xeon with AVX-512. The slowest kernel that counts allow only does atomics; with a
race in every access, where those are no fault, it takes 1100 s. A step for one architecture (`Target: sm_90a`) runs on
a GPU alone, where nothing is counted: there a kernel that never ends is SE, and a person looks.
"""
RESULTS = """
## The result as JSON

`warpschool check STEP --json`, the files of `warpschool grade --store DIR`, and `Result.to_json()` write the same
document; its schema is [result.schema.json](result.schema.json). Keys are sorted and numbers are the shortest that mean
the same, so equal results are equal bytes: the same source, seed and versions give the same file on every x86-64
machine. What a result may depend on stands in `provenance`:

| key | what it names |
|---|---|
| `warpschool`, `code` | the library's version, and a hash of its modules |
| `content` | a hash of the step's grader, starter and reference |
| `counters` | the version of the counters' meanings |
| `cases` | `public`, or `secret` with a fingerprint of the secret seed |
| `nvrtc`, `arch` | the compiler and the virtual architecture |
| `device`, `machine` | the simulator or a GPU; the processor's kind |
| `not_on_gpu` | only there where the GPU lacks what the kernel needs and the simulator alone judged it: what |
| `isolation` | how the kernel was kept away from everything else |
| `llvmlite`, `numpy` | packages that take part in every run |

A class is never graded with two sets of these: another version is another content address, so older results are not
found, and a worker with other versions than the command's is refused.

`warpschool grade LAB` keeps one record for each submission of a class, `grading/records/LAB/STUDENT.json`, with all its
results and scores; its schema is [record.schema.json](record.schema.json).

Points are `weight` x `fraction`. Weights belong to the grader; what a lab is worth stands in its notebook only.

*Written by `scripts/result_schema.py` from `warpschool.grading`.*
"""
MOVES = {"SE": "the teacher's", "SKIP": "a person's, or a GPU's", "AC": "nobody's"}


def _budgets() -> str:
    return BUDGETS.replace("@ENDLESS@", endless_table.table()).replace("@RIGHT@", right_jobs_table.table())


def page() -> str:
    rows = (f"| {v} | {v.meaning} | {MOVES.get(v, 'the student' + chr(39) + 's')} |\n" for v in Verdict)
    return ABOUT + "".join(rows) + TOLD + _budgets() + RESULTS


def files() -> dict[Path, str]:
    """The page of verdicts, and the schemas of a result and of a record."""
    return {
        FOLDER / "result.schema.json": json.dumps(result_schema(), indent=2) + "\n",
        FOLDER / "record.schema.json": json.dumps(record_schema(), indent=2) + "\n",
        FOLDER / "verdicts.md": page(),
    }
