"""A class of 300 graded on this machine: minutes, workers against each other, memory, and five kills.

    python benchmarks/grading.py --write               everything; about half an hour on two idle cores
    python benchmarks/grading.py --students 6 --scaling 4 --kills 1      a short one, printed only
    python benchmarks/grading.py --students 0 --kills 0 --write          scaling alone; the file keeps the rest

Progress is told on stderr. What a part has found is printed, and with --write written, as soon as that part is over, so
that Ctrl-C costs only the part that runs.

Each student hands in a notebook of lab 02: right, wrong or hostile kernels made from the specimens, half-right
predictions, every tenth a copy of somebody else's. All other sources differ by a comment, so that each is compiled,
simulated and judged on its own, with an empty compile cache.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import processor
import psutil

from warpschool.authoring import specimens
from warpschool.course import Course
from warpschool.grading.assignment import Assignment, read_assignment
from warpschool.grading.cluster import run
from warpschool.grading.handin import read_handin
from warpschool.grading.jobs import Job, Policy, Store
from warpschool.grading.records import kernel_jobs, python_job

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "grading.json"
LAB, STEP = "lab02_tiling", "lab02_tiling/01_tiled"
NURSERY, COMPILER = "warpschool.grading.nursery", "compile/child.py"
_LOOK_S, _MOST_WAIT_S = 0.05, 2.0
COPIES = 10  # every tenth student
HOSTILE = {
    "endless loop": ("__syncthreads();", "while (true) { sum += 1.0f; } __syncthreads();"),
    "include": ("constexpr int TILE", '#include "/etc/passwd"\nconstexpr int TILE'),
    "printf flood": ("__syncthreads();", 'for (int p = 0; p < 100000; ++p) printf("spam spam spam %d\\n", p);'),
    "forged pointer": ("__syncthreads();", "*(float*)0x7f0000001000ull = sum; __syncthreads();"),
    "template bomb": ("constexpr int TILE", """\
template <int D, int I> struct T {
    static __device__ int f(int x) { return T<D - 1, 2 * I>::f(x) + T<D - 1, 2 * I + 1>::f(x); }
};
template <int I> struct T<0, I> { static __device__ int f(int x) { return x * I; } };
__device__ int bomb(int x) { return T<16, 1>::f(x); }
constexpr int TILE"""),
}  # fmt: skip
"""name -> (text of the reference, what stands there instead)"""


def kernels() -> list[tuple[int, str]]:
    """(weight, source): how often each kernel is handed in."""
    course = Course.find().step(STEP)
    assert course.solution is not None and course.starter is not None
    right = course.solution.read_text()
    known = map(specimens.read, specimens.paths(ROOT / "tests" / "specimens" / STEP))
    wrong = [specimen.source(ROOT / "solutions") for specimen in known]
    found = [(36, right), (8, course.starter.read_text()), *((4, text) for text in wrong)]
    for name, (old, new) in HOSTILE.items():
        assert old in right, name
        found.append((1, right.replace(old, new, 1)))
    return found


def _notebook() -> Path:
    notebook = Course.find().lab(LAB).notebook
    assert notebook is not None
    return notebook


def make_class(folder: Path, students: int, *, salt: str) -> None:
    """Write a notebook for each student."""
    chance = random.Random(2026)
    master = json.loads(_notebook().read_text())
    weights, sources = zip(*kernels(), strict=True)
    texts: list[str] = []
    for number in range(students):
        source = chance.choices(sources, weights)[0] + f"\n// {salt} {number}\n"
        if number % COPIES == COPIES - 1:
            source = chance.choice(texts)
        texts.append(source)
        notebook = json.loads(json.dumps(master))
        for cell in notebook["cells"]:
            name = cell["metadata"].get("nbgrader", {}).get("grade_id")
            if name == "lab02-01-kernel":
                cell["source"] = f"%%kernel {STEP}\n{source}"
            elif name == "lab02-01-predict":
                cell["source"] = f"times_fewer_bytes = {chance.choice([16, 32, 8])}\nbarriers_per_warp = {number % 20}"
        target = folder / f"student{number:03}"
        target.mkdir(parents=True)
        (target / f"{LAB}.ipynb").write_text(json.dumps(notebook))


def jobs_of(folder: Path, assignment: Assignment) -> list[Job]:
    """The jobs of all notebooks."""
    found: list[Job] = []
    policy = Policy()
    for path in sorted(folder.glob("*/*.ipynb")):
        handin = read_handin(path, assignment)
        found += kernel_jobs(handin, assignment, policy).values()
        job = python_job(handin, assignment, policy)
        found += [job] if job is not None else []
    return found


class PeakMemory:
    """The most memory in use at once, sampled, in MB: of one job with its compiler, and of what waits for jobs.

    A job's is what it has in use, pages that it shares with others included, and the largest compiler's; what waits is
    the command, the processes that it forks checks and compilers from, and what watches over each fork, where shared
    pages count once.
    """

    def __init__(self) -> None:
        self.job_mb = self.idle_mb = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        own = psutil.Process()
        while not self._over.wait(0.5):
            try:
                jobs, compilers, waiting = parts_of(own)
                idle = sum(one.memory_info().rss for one in waiting[:2])
                idle += sum(one.memory_full_info().uss for one in waiting[2:])
                used = [sum(one.memory_info().rss for one in (job, *job.children(recursive=True))) for job in jobs]
                compiling = max((one.memory_info().rss for one in compilers), default=0)
            except psutil.Error:  # one has ended meanwhile
                continue
            self.idle_mb = max(self.idle_mb, idle / (1 << 20))
            self.job_mb = max([self.job_mb, *((found + compiling) / (1 << 20) for found in used)])


def parts_of(
    command: psutil.Process,
) -> tuple[list[psutil.Process], list[psutil.Process], list[psutil.Process]]:
    """The processes of a run that do jobs, without what those start; their compilers where those were forked for them;
    and those that wait: the command at first."""
    jobs: list[psutil.Process] = []
    compilers: list[psutil.Process] = []
    waiting = [command]
    for child in command.children():
        if COMPILER in " ".join(child.cmdline()):  # the command's own, which tells its version
            continue
        if NURSERY not in " ".join(child.cmdline()):
            jobs.append(child)
            continue
        waiting.append(child)
        for other in child.children():
            waiting.append(other)
            found = compilers if COMPILER in " ".join(other.cmdline()) else jobs
            found += other.children()
    return jobs, compilers, waiting


class Progress:
    """Tells on stderr how far a batch is: on one line of a terminal, every half minute elsewhere."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self._started = self._told = time.monotonic()
        self._is_terminal = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        self._tell()
        return self

    def __exit__(self, *_: object) -> None:
        self._tell(end="\n")

    def step(self) -> None:
        """One more job is done."""
        self.done += 1
        if time.monotonic() - self._told >= (0.5 if self._is_terminal else 30):
            self._tell()

    def _tell(self, end: str = "") -> None:
        self._told = time.monotonic()
        seconds = self._told - self._started
        text = f"{self.what}: {self.done} of {self.total} jobs, {seconds:.0f} s"
        if 0 < self.done < self.total:
            text += f", about {seconds / self.done * (self.total - self.done):.0f} s left"
        if self._is_terminal:
            print(f"\r{text:<78}", end=end, file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)


def grade(folder: Path, store: Path, workers: int) -> dict[str, object]:
    """Grade a class once and say how that went."""
    assignment = read_assignment(_notebook())
    started, used = time.monotonic(), processor.spent_s()
    jobs = jobs_of(folder, assignment)
    read_s = time.monotonic() - started
    verdicts: Counter[str] = Counter()
    times: list[float] = []
    what = f"{folder.parent.name if folder.name == 'in' else folder.name}, workers: {workers}"
    with PeakMemory() as memory, Progress(what, len(jobs)) as progress:
        for job, outcome in run(jobs, store=Store(store), workers=workers):
            verdicts[f"{type(job).__name__} {outcome.verdict}"] += 1
            times.append(time.monotonic() - started)
            progress.step()
    distinct = len({job.key for job in jobs})
    seconds = times[-1] - times[0] if len(times) > 1 else float("nan")
    return {
        "workers": workers, "jobs": len(jobs), "distinct_jobs": distinct, "read_s": round(read_s, 2),
        "wall_s": round(time.monotonic() - started, 1), "processor_s": round(processor.spent_s() - used, 1),
        "jobs_per_s_when_running": round((distinct - 1) / seconds, 3),
        "peak_job_mb": round(memory.job_mb), "peak_waiting_mb": round(memory.idle_mb),
        "verdicts": dict(sorted(verdicts.items())),
    }  # fmt: skip


def scaling(folder: Path, students: int, rounds: int) -> dict[str, object]:
    """One worker against two, in turns, on classes of the same kernels with other comments."""
    rates: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(rounds):
        for workers in (1, 2):
            place = folder / f"scaling-{turn}-{workers}"
            make_class(place / "in", students, salt=f"turn {turn} workers {workers}")
            with own_cache(place / "cache"):
                said = grade(place / "in", place / "results", workers)
            rates[workers].append(float(str(said["jobs_per_s_when_running"])))
    best = {workers: max(found) for workers, found in rates.items()}
    return {"students": students, "jobs_per_s": {str(w): r for w, r in rates.items()},
            "speedup": round(best[2] / best[1], 2)}  # fmt: skip


class own_cache:
    """An empty compile cache for a while."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> None:
        self.before = os.environ.get("WARPSCHOOL_CACHE")
        os.environ["WARPSCHOOL_CACHE"] = str(self.folder)

    def __exit__(self, *_: object) -> None:
        os.environ.pop("WARPSCHOOL_CACHE")
        if self.before is not None:
            os.environ["WARPSCHOOL_CACHE"] = self.before


def kills(folder: Path, students: int, count: int) -> dict[str, object]:
    """Kill some part `count` times at random moments, start again where it was the command, and compare the results."""
    make_class(folder / "in", students, salt="killed")
    grade(folder / "in", folder / "calm", 1)
    chance = random.Random(7)
    killed: list[str] = []
    command = [sys.executable, __file__, "--only-grade", str(folder / "in"), "--store", str(folder / "stormy")]
    starts, process = 1, subprocess.Popen(command)
    try:
        while process.poll() is None or process.returncode != 0:
            if process.poll() is not None:
                starts, process = starts + 1, subprocess.Popen(command)
            if len(killed) >= count:
                process.wait()
                continue
            due = len(killed) * 2 * students // (count + 1)  # spread over the work, however fast it goes
            if process.poll() is None and len(texts(folder / "stormy")) < due:
                time.sleep(_LOOK_S)
                continue
            time.sleep(chance.uniform(0, _MOST_WAIT_S))
            name = kill_part(process.pid, chance, must_be_main=len(killed) in (1, 3))
            if name:
                killed.append(name)
                print(f"killed: {name} ({len(killed)} of {count})", file=sys.stderr, flush=True)
    finally:
        process.kill()
        process.wait()
    same = [texts(folder / name) for name in ("calm", "stormy")]
    return {"students": students, "killed": killed, "starts": starts, "results": len(same[0]),
            "identical": same[0] == same[1]}  # fmt: skip


def kill_part(pid: int, chance: random.Random, *, must_be_main: bool) -> str:
    """Kill some part of the run and return its name; "" where there was none to kill."""
    victim = victim_of(pid, chance, must_be_main=must_be_main)
    if victim is None:
        return ""
    try:
        os.kill(victim[1], signal.SIGKILL)
    except ProcessLookupError:
        return ""
    return victim[0]


def victim_of(pid: int, chance: random.Random, *, must_be_main: bool) -> tuple[str, int] | None:
    """Some part of the run: the command itself, a worker, a check, a compiler."""
    if must_be_main:
        return "command", pid
    try:
        jobs, _, waiting = parts_of(psutil.Process(pid))
        started = psutil.Process(pid).children(recursive=True)
        named = [("compiler", one) for one in started if COMPILER in " ".join(one.cmdline())]
    except psutil.Error:
        return None
    named += [("check", job) for job in jobs]
    named += [("what checks are forked from", one) for one in waiting[1:2]]
    named += [("a fork's keeper, or what compilers are forked from", one) for one in waiting[2:]]
    name, victim = chance.choice(named) if named else ("", None)
    return (name, victim.pid) if victim is not None else None


def texts(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.glob("*/*.json")}


def machine() -> dict[str, object]:
    """What this ran on; siblings are hyperthreads of one core."""
    siblings = Path("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
    return {"processor": processor.name(), "cores": os.cpu_count(), "siblings_of_core_0": siblings.read_text().strip(),
            "load_average": [round(value, 2) for value in os.getloadavg()]}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--students", type=int, default=300)
    parser.add_argument("--scaling", type=int, default=24, metavar="N", help="students in each turn of one against two")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/grading.json")
    parser.add_argument("--only-grade", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only_grade:
        grade(options.only_grade, options.store, 2)
        return
    found: dict[str, object] = {"lab": LAB}
    interrupted = threading.Event()

    def stop(*_: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    try:
        with tempfile.TemporaryDirectory(prefix="warpschool-grading-") as name:
            measure(Path(name), options, found)
    except BaseException:
        if not interrupted.is_set():  # while workers start, Dask makes another error of an interruption
            raise
        parts = ", ".join(part for part in ("class", "scaling", "killed") if part in found) or "nothing"
        print(f"\nStopped. Finished, and printed above: {parts}.", file=sys.stderr)
        raise SystemExit(130) from None


def measure(folder: Path, options: argparse.Namespace, found: dict[str, object]) -> None:
    """Do the parts that were asked for, one after the other."""
    if options.students:
        before = machine()
        make_class(folder / "class", options.students, salt="the class")
        with own_cache(folder / "cache"):
            said = grade(folder / "class", folder / "results", 2)
        found["class"] = {"students": options.students} | said | {"machine": before, "machine_afterwards": machine()}
        keep(found, write=options.write)
    if options.scaling:
        before = machine()
        found["scaling"] = scaling(folder, options.scaling, 2) | {"machine": before}
        keep(found, write=options.write)
    if options.kills:
        found["killed"] = kills(folder / "kills", max(4, options.scaling), options.kills)
        keep(found, write=options.write)


def keep(found: dict[str, object], *, write: bool) -> None:
    """Print what is known so far, and write it where that was asked for; parts that were not measured stay there."""
    print(json.dumps(found), flush=True)
    if write:
        before = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
        kept = {part: before[part] for part in ("class", "scaling", "killed") if part in before}
        RESULTS.write_text(json.dumps(kept | found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
