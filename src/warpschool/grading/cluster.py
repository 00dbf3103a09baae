"""A class's jobs, each run once, on this machine or many; whatever is stored already is not run again.

    for job, result in run(jobs, store=Store(Path("results")), workers=2): ...

Nothing is lost when any part is killed: results are stored as they come, and the same call does the rest.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import logging
import queue
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpschool.errors import GradingError, OutputError, ToolMissing
from warpschool.grading import nursery
from warpschool.grading.jobs import Job, KernelJob, Outcome, Store, from_wire, run_job, to_wire
from warpschool.grading.sandbox import compile_packages, end_children

if TYPE_CHECKING:
    from distributed import Client, Future

_POLL_S = 2.0
_NO_WORKER_S = 60.0
_CONNECT_S = 30.0
_END_S = 0.1
_WORTHWHILE = 5
"""Checks of one step for which it is prepared: that takes as long as one of them."""
_ADVICE = "Install it: pip install 'warpschool[cluster]'; workers on this machine alone need none of it."


def run(
    jobs: Iterable[Job], *, store: Store, workers: int = 1, scheduler: str | None = None, slurm: bool = False
) -> Iterator[tuple[Job, Outcome]]:
    """Yield each job with its outcome, stored ones first, then in the order in which they finish.

    Jobs with equal keys run once. `workers` checks at once on this machine; with `scheduler` the workers of that Dask
    scheduler; with `slurm` as many Slurm jobs. Raises ToolMissing where Dask is needed and missing, OutputError where
    the store cannot be written, GradingError where no worker is left.
    """
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.key, []).append(job)
    missing: list[Job] = []
    for group in groups.values():
        found = store.get(group[0])
        if found is None:
            missing.append(group[0])
        else:
            yield from ((job, found) for job in group)
    for job, outcome in _run_missing(missing, store, workers, scheduler, slurm):
        yield from ((same, outcome) for same in groups[job.key])


def _run_missing(
    jobs: list[Job], store: Store, workers: int, scheduler: str | None, slurm: bool
) -> Iterator[tuple[Job, Outcome]]:
    if not jobs:
        return
    compile_packages()
    with contextlib.ExitStack() as stack:
        if scheduler or slurm:
            client = stack.enter_context(connect(min(workers, len(jobs)), scheduler=scheduler))
            done = results(client, jobs, store)
        else:
            stack.enter_context(nursery.opened())
            done = stack.enter_context(_here(jobs, min(workers, len(jobs))))
        for job, outcome in done:
            store.put(job, outcome)
            yield job, outcome


@contextlib.contextmanager
def _here(jobs: list[Job], workers: int) -> Iterator[Iterator[tuple[Job, Outcome]]]:
    """Jobs with their outcomes, so many at once on this machine; all work is done in children, threads wait for them.

    One more is at hand, so that no thread waits until an outcome has been stored. Whoever leaves before the end ends
    what is at work.
    """
    waiting = iter(jobs)
    checks = Counter((job.root, job.step) for job in jobs if isinstance(job, KernelJob))

    def run_prepared(job: Job) -> Outcome:
        if isinstance(job, KernelJob) and checks.pop((job.root, job.step), 0) >= _WORTHWHILE:  # the first of its step
            job.prepare()
        return run_job(job)

    with ThreadPoolExecutor(workers, thread_name_prefix="job") as threads:
        running = {threads.submit(run_prepared, job): job for job in itertools.islice(waiting, workers + 1)}

        def finished() -> Iterator[tuple[Job, Outcome]]:
            while running:
                ready, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ready:
                    job = running.pop(future)
                    for following in _next(waiting):
                        running[threads.submit(run_prepared, following)] = following
                    yield job, future.result()

        try:
            yield finished()
        finally:
            running = {future: job for future, job in running.items() if not future.cancel()}
            nursery.close()
            while running and wait(running, timeout=_END_S).not_done:
                end_children()


def _next(waiting: Iterator[Job]) -> Iterator[Job]:
    return itertools.islice(waiting, 1)


# ---------------------------------------------------------------- many machines


@contextlib.contextmanager
def connect(workers: int, *, scheduler: str | None = None) -> Iterator[Client]:
    """Find the scheduler's workers, or start so many Slurm jobs, and let go of them afterwards.

    Raises ToolMissing without Dask, GradingError where the scheduler does not answer.
    """
    if importlib.util.find_spec("distributed") is None:
        raise ToolMissing("workers on other machines need Dask, which is not installed", next_step=_ADVICE)
    import dask
    from distributed import Client

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": 3}))
        if scheduler:
            try:
                yield stack.enter_context(Client(scheduler, timeout=_CONNECT_S, set_as_default=False))
            except OSError as error:
                raise GradingError(
                    f"no scheduler answers at {scheduler}: {error}", next_step="Start one: dask scheduler"
                ) from None
            return
        yield stack.enter_context(Client(stack.enter_context(_slurm_cluster(workers)), set_as_default=False))


def slurm_options() -> dict[str, Any]:
    """What one Slurm job asks for where the user's jobqueue.yaml says nothing else."""
    import dask

    usual = {"cores": 1, "processes": 1, "memory": "2GB", "walltime": "02:00:00", "job_name": "warpschool"}
    written = dask.config.collect()  # without the defaults of dask-jobqueue, which would win over ours
    own = dask.config.get("jobqueue.slurm", default=None, config=written) or {}
    return {key.replace("_", "-"): own.get(key.replace("_", "-")) or value for key, value in usual.items()}


def _slurm_cluster(workers: int) -> Any:
    if importlib.util.find_spec("dask_jobqueue") is None:
        raise ToolMissing("Slurm needs dask-jobqueue, which is not installed", next_step=_ADVICE)
    from dask_jobqueue import SLURMCluster

    chosen = {key.replace("-", "_"): value for key, value in slurm_options().items()}
    cluster = SLURMCluster(**chosen)
    try:
        cluster.scale(jobs=workers)
    except BaseException:
        cluster.close()
        raise
    return cluster


def slurm_script() -> str:
    """Return the script that each Slurm job would run. Raises ToolMissing without dask-jobqueue."""
    with _slurm_cluster(0) as cluster:
        return str(cluster.job_script())


def results(client: Client, jobs: list[Job], store: Store) -> Iterator[tuple[Job, Outcome]]:
    """Yield each job with its outcome as it finishes.

    Raises GradingError when a worker has another version of the course or of the library, or when none is left.
    """
    waiting = iter(jobs)
    running: dict[Future, Job] = {}
    finished: queue.SimpleQueue[Future] = queue.SimpleQueue()
    alive = time.monotonic()
    try:
        while True:
            # enough to keep everybody busy, few enough to lose nothing by a Ctrl-C
            window = 2 * max(1, _worker_count(client)) + 2
            for job in itertools.islice(waiting, max(0, window - len(running))):
                future = client.submit(
                    execute, to_wire(job), job.key, str(store.folder), store.identity, key=f"warpschool-{job.key}",
                    pure=False,
                )  # fmt: skip
                running[future] = job
                future.add_done_callback(finished.put)
            if not running:
                return
            try:
                future = finished.get(timeout=_POLL_S)
            except queue.Empty:
                alive = _still_alive(client, alive)
                continue
            alive = time.monotonic()
            job = running.pop(future)
            yield job, _outcome(job, future)
            future.release()
    finally:
        client.cancel(list(running), force=True)


def _worker_count(client: Client) -> int:
    return len(client.scheduler_info(n_workers=-1)["workers"])


def _still_alive(client: Client, since: float) -> float:
    """Return when a worker was last seen; raises GradingError when that is too long ago."""
    if client.status == "running" and _worker_count(client):
        return time.monotonic()
    if time.monotonic() - since > _NO_WORKER_S:
        raise GradingError(
            f"no worker has been there for {_NO_WORKER_S:.0f} s",
            next_step="Finished results are kept: start workers, and run the same command again.",
        )
    return since


def _outcome(job: Job, future: Future) -> Outcome:
    """The job's outcome; a job that takes its worker down each time is a fault of the grader."""
    error = future.exception()
    if error is None:
        return job.decode(future.result())
    if isinstance(error, GradingError):
        raise error
    return job.failed(f"its workers died or could not be reached: {type(error).__name__}: {error}")


def execute(wire: dict[str, Any], key: str, store_folder: str, identity: str) -> str:
    """On a worker: run a job, keep its result in the store if this machine sees it, and answer with its text."""
    job = from_wire(wire)
    if job.key != key:
        raise GradingError(
            "a worker has another version of warpschool, of its packages or of the course, and a class is never graded "
            "with mixed versions",
            next_step="Install the same versions everywhere: warpschool doctor tells them.",
        )
    compile_packages()  # on a machine of its own
    nursery.open_for_good()
    outcome = run_job(job)
    with contextlib.suppress(OutputError):
        if Path(store_folder).is_dir() and (store := Store(Path(store_folder))).identity == identity:
            store.put(job, outcome)  # this machine sees the very same store
    return outcome.to_json()
