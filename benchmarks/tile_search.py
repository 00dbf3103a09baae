"""The search for the best tiles of lab 12's kernels: the model ranks them, measurements decide, a file remembers.

    record = SearchRecord.open(folder, gpu="NVIDIA H200", problem=problem, kernel=source)
    best = search([found.tiles for found in ranked(problem)[:20]], measure, record, title="R12")
    best_known(problem, gpu="NVIDIA H200")                       # what was found before

A record belongs to one GPU, one problem and one kernel source: another source starts anew. It is written whole after
every measurement, so that a search that was killed goes on where it stopped: Ctrl-C loses nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from warpcourse.lab12_split_channels.tiles import Tiles, constant_names, is_flat
from warpschool.atomic import write_file
from warpschool.contract import Contract
from warpschool.device import DeviceArray
from warpschool.errors import ArgumentError, WarpschoolError
from warpschool.harness.launcher import Program
from warpschool.nn import Convolution
from warpschool.nn.pipelines import Convolved, OneProgram, array_library
from warpschool.show.progress import progress

BEST = Path(__file__).with_name("best_tiles.json")
"""GPU -> problem -> tiles, as `problem_key` and `tiles_key` write them"""

# ---------------------------------------------------------------- a kernel file as a pipeline


class SplitChannels(OneProgram):
    """A kernel file of lab 12: takes filters as [F,C,R,S], like every pipeline, and turns them to [C,R,S,F] first."""

    def __call__(self, problem: Convolution, x: DeviceArray, w: DeviceArray) -> Convolved:
        library = array_library(self.device)
        turned = library.ascontiguousarray(w.native.transpose(1, 2, 3, 0))
        return self.on_turned(problem, x, self.device.asarray(turned, name="w"))

    def on_turned(self, problem: Convolution, x: DeviceArray, w: DeviceArray) -> Convolved:
        """The same for filters [C,R,S,F], as a network would store them.

        A second launch that would have nothing to add is left out.
        """
        plan = self.program.contract.bind(problem.sizes, constants=self.program.constants)
        y = self.device.empty(problem.output_shape, np.float32, name="y")
        launches = self.program.enqueue(problem.sizes, {"x": x, "w": w, "y": y})
        if self.program.contract.declarations.constexpr_values(self.program.constants).get("SPLITS", 1) == 1:
            return Convolved(y, launches[:1], 0)
        scratch = sum(4 * int(np.prod(plan.arrays[name].shape or ())) for name in plan.contract.scratch)
        return Convolved(y, launches, scratch)


def step_for(problem: Convolution) -> str:
    """The step of lab 12 that computes a problem."""
    return "lab12_split_channels/" + ("07_one_by_one" if is_flat(problem) else "08_strided")


def with_tiles(contract: Contract, problem: Convolution, tiles: Tiles, *, device: str = "auto") -> SplitChannels:
    """The pipeline of the file of `step_for(problem)` with these tiles. Raises CompileError, ContractError."""
    flat = is_flat(problem)
    constants = {constant: getattr(tiles, name) for name, constant in constant_names(flat=flat).items()}
    if not flat:
        constants |= {"FILTER_R": problem.rows, "FILTER_S": problem.cols, "FILTER_STRIDE": problem.stride}
    return SplitChannels(Program(contract, device=device, constants=constants))


# ---------------------------------------------------------------- the search


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
class SearchRecord:
    """What a search has measured so far; `times_us` holds None for tiles that could not be used."""

    path: Path
    gpu: str
    problem: str
    kernel: str
    """a digest of the kernel's source"""
    times_us: dict[str, float | None] = field(default_factory=dict)

    @staticmethod
    def open(folder: Path, *, gpu: str, problem: Convolution, kernel: str) -> SearchRecord:
        """Return the record of a GPU, a problem and a kernel's source: what the folder holds of it, or an empty one.

        Raises ArgumentError for a file that is no record.
        """
        digest = hashlib.sha256(kernel.encode()).hexdigest()[:16]
        name = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")
        record = SearchRecord(folder / f"tiles_{name}_{problem_key(problem)}.json", gpu, problem_key(problem), digest)
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


def search(tiles: Sequence[Tiles], measure: Measure, record: SearchRecord, *, title: str) -> tuple[Tiles, float]:
    """Measure all tiles that the record does not know yet, in order, and return the fastest of the record.

    A progress bar on the terminal shows the best time so far. Raises ArgumentError if none could be used.
    """
    with progress(len(tiles), title, transient=False) as bar:
        for candidate in tiles:
            if tiles_key(candidate) not in record.times_us:
                try:
                    time_us: float | None = measure(candidate)
                except WarpschoolError:
                    time_us = None
                record.add(candidate, time_us)
            bar.aside(f"best {record.best[1]:.1f} us" if record.best else "")
            bar.advance()
    if record.best is None:
        raise ArgumentError(f"none of {len(tiles)} sets of tiles could be used for {record.problem}")
    return record.best


def best_known(problem: Convolution, *, gpu: str = "NVIDIA H200") -> Tiles | None:
    """The best tiles that were found for a problem on a GPU; None where nobody has searched."""
    key = json.loads(BEST.read_text("utf-8")).get(gpu, {}).get(problem_key(problem))
    return tiles_of_key(key) if key else None
