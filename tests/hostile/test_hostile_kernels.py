"""Every hostile kernel gets its verdict, shows nothing of what it tried to read, and changes nothing."""

from __future__ import annotations

import json
import os
import zlib

import numpy as np
import pytest

from warpschool.course import Course
from warpschool.grading.cluster import run
from warpschool.grading.folders import read_submitted
from warpschool.grading.jobs import KernelJob, Store
from warpschool.grading.submission import load_submission
from warpschool.grading.verdicts import Verdict

from . import hostile_cells, hostile_kernels as corpus, hostile_labs, hostile_more, hostile_steps
from .test_hostile_budgets import needs_bubblewrap

pytestmark = pytest.mark.usefixtures("forked_checks")

assert hostile_more.RIGHT_LINE and hostile_steps.BARRIER and hostile_labs.SCAN  # their import has filled the table
ATTACKS = {attack.name: attack for attack in corpus.ATTACKS}
ALWAYS = (
    "two billion empty blocks", "identifier of 10 MB", "include by splices", "message full of control characters",
    "entry that replaces its own", "forged pointer", "reads one too far, right output", "device malloc loop",
    "printf flood", "inputs overwritten after use", "Windows line ends", "UTF-16", "float is double",
    "the entry's name is another's", "the hour of the day", "the hour by pasted letters",
    "a variable that nobody defines", "a constant that is written", "a barrier of seven threads",
    "a header of other digits", "launches that each run for long", "a mask that lies",
)  # fmt: skip
"""the ones that ordinary runs try; full runs try all"""
MOST_RESULT_BYTES = 24 << 10


def job_of(attack, canaries, *, seed=0) -> KernelJob:
    reference = str(Course.find().step(attack.step).solution)
    source = attack.build().replace(b"{SECRET}", str(canaries.secret).encode())
    return KernelJob(attack.step, source.replace(b"{REFERENCE}", reference.encode()), seed=seed)


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in ALWAYS else pytest.mark.slow) for n in ATTACKS])
@pytest.mark.parametrize("seed", [0, pytest.param(11, marks=pytest.mark.slow)])
@pytest.mark.thinned(3)
def test_verdict_and_nothing_else(name, seed, canaries):
    attack = ATTACKS[name]
    result = job_of(attack, canaries, seed=seed).run()
    text = result.to_json()
    assert result.verdict.value in attack.verdicts, text
    assert not canaries.found_in(text, step=attack.step)
    assert len(text) < MOST_RESULT_BYTES
    assert not any(ord(c) < 32 for c in json.dumps(json.loads(text), ensure_ascii=False))
    assert (result.score == result.max_score) is (result.verdict is Verdict.AC)
    assert result.is_grade


@needs_bubblewrap
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in hostile_cells.QUICK else pytest.mark.slow) for n in hostile_cells.CELLS]
)
def test_cells_earn_points_for_plain_numbers_alone(name):
    own, verdict = hostile_cells.CELLS[name]
    found = hostile_cells.checked(own)
    assert str(found.verdict) in verdict.split(), found
    assert (found.fraction == 1.0) is (verdict == "AC")


def test_the_corpus_is_large_and_varied():
    verdicts = {attack.verdict for attack in ATTACKS.values()}
    assert len(ATTACKS) == len(corpus.ATTACKS) >= 200
    assert set(ALWAYS) <= set(ATTACKS)
    assert verdicts >= {"BAD", "CE", "CLE", "RJ", "NE", "OOB", "RACE", "SYNC", "UNINIT", "RTE", "LE", "TLE", "MLE",
                        "OLE", "WA", "AC"}  # fmt: skip


@pytest.mark.parametrize("kind", ["link", "linked folder", "pipe", "device", "folder", "gone"])
def test_what_is_no_file_is_not_read(kind, canaries, tmp_path):
    """A link to the gradebook, were it followed, would show its text in the compiler's messages."""
    folder = tmp_path / "submissions"
    target = folder / "eve" / "lab00_first_kernels" / "01_saxpy.cu"
    (folder / "eve").mkdir(parents=True)
    if kind == "linked folder":
        real = tmp_path / "elsewhere"
        real.mkdir()
        (real / target.name).write_bytes(canaries.gradebook.read_bytes())
        target.parent.symlink_to(real)
    else:
        target.parent.mkdir()
    match kind:
        case "link":
            target.symlink_to(canaries.gradebook)
        case "pipe":
            os.mkfifo(target)
        case "device":
            target.symlink_to("/dev/zero")
        case "folder":
            target.mkdir()
    data, problem = read_submitted(target, folder, most_bytes=1 << 20)  # a pipe that is opened would never end
    assert data == b"" and target.name in problem
    result = KernelJob(corpus.SAXPY, data).failed(problem, Verdict.BAD)
    assert (result.verdict, result.score) == (Verdict.BAD, 0)
    assert not canaries.found_in(result.to_json())


def test_even_pointers_are_alike_in_every_run(canaries):
    """Equal sources give equal bytes, whatever the kernel writes: also what other programs would draw at random."""
    job = job_of(ATTACKS["writes its pointers"], canaries)
    first, second = job.run(), job.run()
    assert first.to_json() == second.to_json() and "got " in first.to_json()


HARD_CODED_SIZES = corpus.HEADER + corpus.OPEN + corpus.INDEX + """\
    const bool known = n == 1 || n == 31 || n == 255 || n == 256 || n == 257 || n == 1000 || n == 1024 || n == 4096
        || n == 11264 || n == 40000;
    if (i < n) z[i] = known ? a * x[i] + y[i] : 0.0f;
}
"""


def hard_coded_answers() -> str:
    """A kernel that knows the public inputs: it finds its case by the size and the first element, and copies.

    The answers at n = 11,264 and 40,000 would make the source too long, and are computed.
    """
    kernel = load_submission(corpus.RIGHT.encode(), name="01_saxpy.cu")
    cases = {"test_correct": [256, 1024, 4096], "test_guard": [1, 31, 255, 257, 1000], "test_sectors": [4096]}
    tables, lookups = "", ""
    for test, sizes in cases.items():
        numbers = np.random.default_rng([0, zlib.crc32(test.encode())])
        for n in sizes:
            a = round(float(numbers.uniform(-4, 4)), 3)
            arrays = kernel.inputs({"n": n, "a": a}, numbers)
            right = float(np.float32(a)) * arrays["x"].astype(np.float64) + arrays["y"]
            answer = ", ".join(f"{value:.9g}" for value in right)
            tables += f"__device__ float {test}{n}[{n}] = {{{answer}}};\n"
            lookups += f"    if (n == {n} && x[0] == {float(arrays['x'][0])!r}f) z[i] = {test}{n}[i];\n"
    opening = corpus.HEADER + tables + corpus.OPEN + corpus.INDEX
    computed = "n == 11264 || n == 40000"
    return f"{opening}    if (i >= n) return;\n    z[i] = {computed} ? a * x[i] + y[i] : 0;\n{lookups}}}\n"


@pytest.mark.parametrize("specimen", ["sizes", pytest.param("answers", marks=pytest.mark.slow)])
def test_what_is_hard_coded_passes_the_practice_and_fails_the_secret_cases(specimen, tmp_path):
    source = (HARD_CODED_SIZES if specimen == "sizes" else hard_coded_answers()).encode()
    jobs = {
        (what, secret): KernelJob(corpus.SAXPY, text, secret=secret)
        for what, text in {"cheat": source, "right": corpus.RIGHT.encode()}.items()
        for secret in ("", "an instructor's secret")
    }
    found = dict(run(jobs.values(), store=Store(tmp_path / "results")))
    verdicts = {key: found[job].verdict.value for key, job in jobs.items()}
    assert verdicts == {("cheat", ""): "AC", ("cheat", "an instructor's secret"): "WA",
                        ("right", ""): "AC", ("right", "an instructor's secret"): "AC"}  # fmt: skip
    result = found[jobs["cheat", "an instructor's secret"]]
    assert "an instructor's secret" not in result.to_json()
    assert result.provenance["cases"].startswith("secret, ")
    if specimen == "sizes":
        failed = result.criterion("The guard")
        assert failed.secret and "n = " in failed.seen
        shown = result.for_student().to_json()
        assert failed.seen not in shown and "not public" in shown
