"""A class's jobs, each run once, on this machine or many; whatever is stored already is not run again.

    for job, result in run(jobs, store=Store(Path("results")), workers=2): ...

Nothing is lost when any part is killed: results are stored as they come, and the same call does the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from warpschool.grading.jobs import Job, Outcome, run_job
from warpschool.grading.store import Store


def run(
    jobs: Iterable[Job], *, store: Store, workers: int = 1, scheduler: str | None = None, slurm: bool = False
) -> Iterator[tuple[Job, Outcome]]:
    """Yield each job with its outcome, stored ones first, then in the order in which they finish.

    Jobs with equal keys run once. `workers` processes on this machine; with `scheduler` the workers of that Dask
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
    if workers > 1 or scheduler or slurm:
        from warpschool.grading import cluster

        with cluster.connect(min(workers, len(jobs)), scheduler=scheduler, slurm=slurm) as client:
            for job, outcome in cluster.results(client, jobs, store):
                store.put(job, outcome)
                yield job, outcome
        return
    for job in jobs:
        outcome = run_job(job)
        store.put(job, outcome)
        yield job, outcome
