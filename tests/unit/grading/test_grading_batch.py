"""Many jobs: content addresses, the store, resuming, equal kernels, faults of the grader, and Dask's workers."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ptxsim import cache
from warpschool.authoring import specimens
from warpschool.course import Course
from warpschool.errors import OutputError, ToolMissing
from warpschool.grading import cluster, jobs, runner
from warpschool.grading.jobs import KernelJob, Store, from_wire, run_job, to_wire
from warpschool.grading.sandbox import Finished
from warpschool.grading.verdicts import Verdict

STEP = "lab00_first_kernels/01_saxpy"
SPECIMENS = Path(__file__).parents[2] / "specimens" / STEP
SOLUTIONS = Course.find().root / "solutions"
RIGHT = Course.find().step(STEP).solution.read_bytes()
WRONG = specimens.read(SPECIMENS / "nothing_written.toml").source(SOLUTIONS).encode()


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


def job_of(source: bytes = RIGHT, **options) -> KernelJob:
    return KernelJob(STEP, source, **options)


def test_a_key_names_all_that_the_result_depends_on(monkeypatch):
    job = job_of()
    assert len(job.key) == 64 and job.key == job_of(name="another name").key
    others = [job_of(RIGHT + b" "), job_of(seed=1), job_of(secret="x"), KernelJob("lab01_naive_gemm/01_naive", RIGHT)]
    assert len({job.key, *(other.key for other in others)}) == 5
    monkeypatch.setattr(jobs, "_versions", lambda *_: {"warpschool": "another version"})
    assert job_of().key != job.key


def test_a_job_survives_the_wire():
    job = job_of(seed=3, secret="hush")
    again = from_wire(to_wire(job))
    assert again == job and again.key == job.key
    assert "hush" not in repr(job)


def test_results_are_stored_once_and_found_again(store, monkeypatch):
    """Equal kernels run once; the second run runs nothing; a result of another job is not believed."""
    ran = []
    monkeypatch.setattr(jobs, "check_source", lambda *a, **k: ran.append(1) or runner.check_source(*a, **k))
    several = [job_of(), job_of(WRONG), job_of(name="a copy")]
    first = [(job.name, outcome.verdict) for job, outcome in cluster.run(several, store=store)]
    assert sorted(first) == [("", Verdict.AC), ("", Verdict.WA), ("a copy", Verdict.AC)]
    again = dict(cluster.run(several, store=Store(store.folder)))
    assert len(ran) == 2
    assert store.path(job_of()).read_text() == again[job_of()].to_json()
    store.path(job_of(WRONG)).write_bytes(store.path(job_of()).read_bytes())
    assert store.get(job_of(WRONG)) is None
    store.path(job_of()).write_text("half a resu")
    assert store.get(job_of()) is None
    assert not list(store.folder.rglob(".part-*"))


@pytest.mark.parametrize("checks", [4, 5])
def test_a_step_of_many_checks_is_prepared_and_they_leave_nothing(store, tmp_path, monkeypatch, checks):
    """What the reference needs is in the user's cache then, and nothing else comes there."""
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(tmp_path / "cache"))
    begun = []
    monkeypatch.setattr(jobs, "prepare", lambda step, limits: begun.append(step.name) or runner.prepare(step, limits))
    several = [job_of(RIGHT + b"// " + b"." * number) for number in range(checks)]
    assert {outcome.verdict for _, outcome in cluster.run(several, store=store)} == {Verdict.AC}
    kept = {path.relative_to(tmp_path / "cache") for path in tmp_path.glob("cache/*/*.json")}
    assert begun == [STEP] * (checks == 5)
    assert len([path for path in kept if path.parts[0] == "prepared"]) == len(begun)
    assert {path.parts[0] for path in kept} >= ({"prepared", "object", "compile"} if begun else set())

    [*cluster.run([job_of(WRONG)], store=store)]
    after = {path.relative_to(tmp_path / "cache") for path in tmp_path.glob("cache/*/*.json")}
    assert after == kept


def test_what_cannot_be_prepared_only_takes_longer(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(tmp_path / "cache"))
    step = Course.find().step(STEP)
    with monkeypatch.context() as patched:
        patched.setattr(runner, "_run_child", lambda *_, **__: Finished(b"", -signal.SIGSEGV, "", timed_out=False))
        runner.prepare(step, jobs.BATCH_LIMITS)
    with monkeypatch.context() as patched:
        patched.setattr(cache, "writable_folder", lambda _: None)
        runner.prepare(step, jobs.BATCH_LIMITS)
    runner.prepare(replace(step, solution=None), jobs.BATCH_LIMITS)
    assert not [*tmp_path.glob("cache/*/*.json")]


def test_a_fault_of_the_grader_is_tried_three_times_and_never_kept(store, monkeypatch):
    good = job_of().failed("for its shape", Verdict.BAD)
    broken = replace(good, verdict=Verdict.SE, criteria=())
    outcomes = [broken] * 5
    monkeypatch.setattr(jobs, "check_source", lambda *a, **k: outcomes.pop())
    ((_, outcome),) = cluster.run([job_of()], store=store)
    assert outcome.verdict is Verdict.SE and len(outcomes) == 2
    assert not outcome.is_grade and json.loads(outcome.to_json())["score"] is None
    assert not list(store.folder.glob("*/*.json"))
    outcomes[:] = [good, broken, broken]
    assert run_job(job_of()).verdict is Verdict.BAD and not outcomes


def test_a_store_that_cannot_be_written_says_so(tmp_path, store):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot keep results"):
        Store(tmp_path / "file" / "results")
    store.path(job_of()).parent.write_text("in the way")
    with pytest.raises(OutputError, match="finished results are kept"):
        store.put(job_of(), job_of().failed("x", Verdict.BAD))


def test_workers_elsewhere_need_dask(store, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ToolMissing, match="warpschool\\[cluster\\]"):
        list(cluster.run([job_of(), job_of(WRONG)], store=store, scheduler="tcp://127.0.0.1:1"))


def children_of(pid: int, *, name: str) -> list[int]:
    """Descendants whose command line holds a text."""
    parents, found = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    for child in parents:
        above = child
        while above not in (0, 1, pid):
            above = parents.get(above, 0)
        try:
            if above == pid and child != pid and name in (Path("/proc") / str(child) / "cmdline").read_text():
                found.append(child)
        except OSError:
            continue
    return found


NURSERY = "warpschool.grading.nursery"


def checks_of(pid: int) -> list[int]:
    """Checks that are at work below a grader: forks of forks of what it started."""
    found = children_of(pid, name=NURSERY)
    above = {child: int(Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[1]) for child in found}
    return [child for child in found if above.get(above[child], 0) in found]


def until(condition, seconds=240.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.01)
    raise AssertionError("waited in vain")


def test_a_check_that_is_killed_from_outside_is_done_again(store, tmp_path, monkeypatch):
    """Neither the check's process nor its compiler has a limit that ends in SIGKILL: it is nobody's verdict."""
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(tmp_path / "cache"))  # what is in the cache needs no compiler
    killed = []

    def kill():
        looks = (lambda: checks_of(os.getpid())), (lambda: children_of(os.getpid(), name="compile/child.py"))
        for look in looks:
            found = until(lambda look=look: [p for p in look() if p not in spared])
            os.kill(found[0], signal.SIGKILL)
            killed.append(found[0])

    job = job_of(RIGHT + b"// killed twice\n")
    _ = job.key  # starts this process's own compiler, which is not the one to kill
    spared = set(children_of(os.getpid(), name=""))
    thread = threading.Thread(target=kill)
    thread.start()
    ((_, outcome),) = cluster.run([job], store=store)
    thread.join()
    assert (outcome.verdict, len(killed)) == (Verdict.AC, 2)


@pytest.mark.skipif(sys.platform != "linux", reason="the parent's death is Linux's to tell")
def test_a_killed_grader_leaves_no_check_behind(store, tmp_path):
    script = tmp_path / "grade.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\nfrom warpschool.grading import cluster\n"
        "from warpschool.grading.jobs import KernelJob, Store\n"
        f"sources = [{RIGHT!r} + b'// %d' % n for n in range(9)]\n"
        f"list(cluster.run([KernelJob({STEP!r}, s) for s in sources], store=Store(Path(sys.argv[1]))))\n"
    )
    process = subprocess.Popen([sys.executable, str(script), str(store.folder)])
    try:
        until(lambda: list(store.folder.glob("*/*.json")))
        (check,) = until(lambda: checks_of(process.pid))
    finally:
        process.kill()
        process.wait()
    until(lambda: not Path(f"/proc/{check}").exists() or "Z" in Path(f"/proc/{check}/stat").read_text())
    assert store.get(job_of(RIGHT + b"// 0")).verdict is Verdict.AC


@pytest.mark.slow
def test_two_workers_give_the_same_bytes_and_a_killed_one_loses_nothing(store, tmp_path):
    known = map(specimens.read, specimens.paths(SPECIMENS))
    several = [job_of(specimen.source(SOLUTIONS).encode()) for specimen in known]
    alone = Store(tmp_path / "alone")
    expected = dict(cluster.run(several, store=alone))
    killed = []
    for number, _ in enumerate(cluster.run(several, store=store, workers=2)):
        if number == 1:
            killed = until(lambda: checks_of(os.getpid()))
            os.kill(killed[-1], signal.SIGKILL)
        if number == 3:
            os.kill(min(children_of(os.getpid(), name=NURSERY)), signal.SIGKILL)
    assert killed
    assert {job: store.get(job).to_json() for job in several} == {j: r.to_json() for j, r in expected.items()}


@pytest.mark.slow
def test_kills_at_random_moments_change_no_byte(tmp_path, monkeypatch):
    """Of the command, what checks are forked from, a check, its keeper, a compiler."""
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmarks")
    found = importlib.import_module("grading").kills(tmp_path, 5, 5)
    assert found["identical"] and found["results"] >= 8 and len(found["killed"]) >= 3, found


@pytest.mark.slow
def test_slurm_gets_a_script_that_starts_one_worker(monkeypatch):
    pytest.importorskip("dask_jobqueue")
    from warpschool.grading.cluster import slurm_options, slurm_script

    script = slurm_script()
    assert script.startswith("#!")
    assert "#SBATCH -J warpschool" in script and "--mem=2G" in script and "distributed.cli.dask_worker" in script
    assert "#SBATCH -t 02:00:00" in script, "dask-jobqueue's own default is half an hour"
    monkeypatch.setenv("DASK_JOBQUEUE__SLURM__WALLTIME", "00:10:00")
    assert slurm_options()["walltime"] == "00:10:00", "what somebody has written counts"


def test_secret_cases_are_of_the_same_kind_and_only_there_with_a_secret():
    from warpcourse.cases import convolution
    from warpschool.grading.secret import in_secret_case, practice, read_secret, use_secret

    sizes = practice([(1, 32, 0.5), (17, 64, 0.9), (40, 128, 0.1)])
    problems = practice([convolution(1, 1, 1, 1, 1), convolution(3, 2, (7, 13), 5, (3, 2), stride=2, pad=1)])
    even = practice([2, 9, 40], needs=lambda n: n % 2 == 0)
    assert list(sizes) == [(1, 32, 0.5), (17, 64, 0.9), (40, 128, 0.1)] and len(problems) == 2
    try:
        use_secret("an instructor's secret")
        seen = [(case, in_secret_case()) for case in sizes]
        assert [secret for _, secret in seen] == [False] * 3 + [True] * 2 and not in_secret_case()
        for m, n, density in (case for case, secret in seen if secret):
            assert 1 <= m <= 40 and n in (32, 64, 96, 128) and 0.1 <= density <= 0.9
        assert list(sizes) == [case for case, _ in seen] and len(sizes) == 5 and sizes[4] == seen[4][0]
        assert len(problems) > 2 and all(case.height >= case.rows - 2 * case.pad for case in problems)
        assert all(n % 2 == 0 for n in list(even)[3:]) and len(even) == 5
        first = list(sizes)
        use_secret("another")
        assert list(sizes) != first
    finally:
        use_secret("")
    assert len(sizes) == 3
    with pytest.raises(Exception, match="token_hex"):
        read_secret(Path("/nowhere"))


FAKE_SBATCH = """#!/bin/sh
# A Slurm of one machine: the script runs here, in a session of its own, and the job's number is its process's.
script="$0.$$.sh"  # Slurm keeps a copy: the file is gone when sbatch has returned
cp "$(eval echo \\${$#})" "$script"
setsid sh "$script" > "$0.log" 2>&1 < /dev/null &
echo $! >> "$0.jobs"
echo "Submitted batch job $!"
"""
FAKE_SCANCEL = """#!/bin/sh
for job in "$@"; do kill -9 -- "-$job" 2> /dev/null; echo "$job" >> "$0.jobs"; done
exit 0
"""


@pytest.mark.slow
def test_slurm_jobs_grade_what_they_are_sent(store, tmp_path, monkeypatch):
    """Through dask-jobqueue as it is: only `sbatch` and `scancel` are ours."""
    pytest.importorskip("dask_jobqueue")
    for name, text in {"sbatch": FAKE_SBATCH, "scancel": FAKE_SCANCEL}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.chdir(tmp_path)
    several = [job_of(RIGHT), job_of(WRONG), job_of(RIGHT + b"// again")]
    try:
        found = {job: result.verdict.value for job, result in cluster.run(several, store=store, workers=2, slurm=True)}
    finally:
        started = (tmp_path / "sbatch.jobs").read_text().split()
        for job in started:
            subprocess.run([tmp_path / "scancel", job], check=False)
    assert [found[job] for job in several] == ["AC", "WA", "AC"]
    assert len(started) == 2 and set(started) <= set((tmp_path / "scancel.jobs").read_text().split())
    assert all(store.get(job) is not None for job in several)
