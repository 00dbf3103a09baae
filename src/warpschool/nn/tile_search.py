"""The search for the best tiles of a layer: the model says in which order, measurements decide, a file remembers.

    record = Record.open(folder, gpu="NVIDIA H200", problem=problem, kernel=source)
    best = search(problem, candidates, measure, record)          # Ctrl-C loses nothing: call it again
    best_known(problem, gpu="NVIDIA H200")                       # what the package carries

A record belongs to one GPU, one problem and one kernel source: another source starts anew. It is written whole after
every measurement, so that a search that was killed goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path

from warpschool.atomic import write_file
from warpschool.errors import ArgumentError, WarpschoolError
from warpschool.nn.convolution import Convolution
from warpschool.nn.split_channels import Tiles
from warpschool.show.progress import progress

Measure = Callable[[Tiles], float]
"""microseconds of a layer with these tiles; raises WarpschoolError where they cannot be used"""


def problem_key(problem: Convolution) -> str:
    """A problem in one word: n1_c64_h56_w56_f64_r3_s3_st1_p1."""
    names = ("n", "c", "h", "w", "f", "r", "s", "st", "p")
    return "_".join(f"{name}{value}" for name, value in zip(names, problem.sizes.values(), strict=True))


def tiles_key(tiles: Tiles) -> str:
    """Tiles in one word, as a record writes them."""
    return ",".join(f"{name}={value}" for name, value in asdict(tiles).items())


def tiles_of_key(key: str) -> Tiles:
    """The tiles that `tiles_key` wrote. Raises ArgumentError."""
    try:
        return Tiles(**{name: int(value) for name, value in (pair.split("=") for pair in key.split(","))})
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"'{key}' are no tiles: {error}") from None


@dataclass
class Record:
    """What a search has measured so far; `times_us` holds None for tiles that could not be used."""

    path: Path
    gpu: str
    problem: str
    kernel: str
    """a digest of the kernel's source"""
    times_us: dict[str, float | None] = field(default_factory=dict)

    @staticmethod
    def open(folder: Path, *, gpu: str, problem: Convolution, kernel: str) -> Record:
        """Return the record of a GPU, a problem and a kernel's source: what the folder holds of it, or an empty one.

        Raises ArgumentError for a file that is no record.
        """
        digest = hashlib.sha256(kernel.encode()).hexdigest()[:16]
        name = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")
        record = Record(folder / f"tiles_{name}_{problem_key(problem)}.json", gpu, problem_key(problem), digest)
        if record.path.is_file():
            try:
                found = json.loads(record.path.read_text("utf-8"))
                if found["kernel"] == digest:
                    record.times_us = {str(key): value for key, value in found["times_us"].items()}
            except (ValueError, KeyError, AttributeError, TypeError) as error:
                raise ArgumentError(
                    f"{record.path} is no record of a search: {error}", next_step="Move it away and search again."
                ) from None
        return record

    def add(self, tiles: Tiles, time_us: float | None) -> None:
        """Note a measurement and write the file. Raises OutputError."""
        self.times_us[tiles_key(tiles)] = time_us
        self.path.parent.mkdir(parents=True, exist_ok=True)
        found = {"gpu": self.gpu, "problem": self.problem, "kernel": self.kernel, "times_us": self.times_us}
        write_file(self.path, json.dumps(found, indent=1) + "\n")

    @property
    def best(self) -> tuple[Tiles, float] | None:
        """The fastest tiles so far and their time; None before anything was measured."""
        known = [(time, key) for key, time in self.times_us.items() if time is not None]
        if not known:
            return None
        time, key = min(known)
        return tiles_of_key(key), time


def search(
    tiles: Iterable[Tiles], measure: Measure, record: Record, *, on_step: Callable[[int, int], None] | None = None
) -> tuple[Tiles, float]:
    """Measure all tiles that the record does not know yet, in order, and return the fastest of the record.

    `on_step` is told how many are done and how many there are. Raises ArgumentError if none could be used.
    """
    wanted: Sequence[Tiles] = list(tiles)
    for done, candidate in enumerate(wanted):
        if on_step:
            on_step(done, len(wanted))
        if tiles_key(candidate) in record.times_us:
            continue
        try:
            time_us: float | None = measure(candidate)
        except WarpschoolError:
            time_us = None
        record.add(candidate, time_us)
    if on_step:
        on_step(len(wanted), len(wanted))
    if record.best is None:
        raise ArgumentError(f"none of {len(wanted)} sets of tiles could be used for {record.problem}")
    return record.best


def search_with_bar(tiles: Iterable[Tiles], measure: Measure, record: Record, *, title: str) -> tuple[Tiles, float]:
    """The same with a progress bar on the terminal, which shows the best time so far."""
    with progress(1, title, transient=False) as bar:

        def show(done: int, total: int) -> None:
            bar.aside(f"best {record.best[1]:.1f} us" if record.best else "")
            bar.reach(done, total)

        return search(tiles, measure, record, on_step=show)


@cache
def _carried() -> dict[str, dict[str, str]]:
    text = resources.files("warpschool.nn").joinpath("best_tiles.json").read_text("utf-8")
    found: dict[str, dict[str, str]] = json.loads(text)
    return found


def best_known(problem: Convolution, *, gpu: str = "NVIDIA H200") -> Tiles | None:
    """The best tiles that the package carries for a problem on a GPU; None where nobody has searched."""
    key = _carried().get(gpu, {}).get(problem_key(problem))
    return tiles_of_key(key) if key else None
