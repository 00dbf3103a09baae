"""The labs' experiments: what a student's own kernels count and take, in tables, and traces of them for pictures.

What a device cannot measure stays None and is shown as "not measured"; nothing is filled in. Beside it stands, under a
name of its own, what the clock predicts for one machine.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from warpcourse.ladder import StepCost, code_size, cost_of
from warpschool import model
from warpschool.clock.cubin import has_disassembler
from warpschool.clock.machine import find_machine
from warpschool.clock.prediction import Prediction, predict_plan, predict_time
from warpschool.clock.shipped import predicted_us, shipped_us
from warpschool.contract import Contract, parse_contract
from warpschool.counters import Counters
from warpschool.course import Course
from warpschool.device import Launch, get_device, repeated
from warpschool.device.protocol import Device
from warpschool.errors import CourseError, DeviceLacks
from warpschool.harness.launcher import Program, RunResult, random_inputs
from warpschool.inspect.accesses import Trace, trace
from warpschool.inspect.timing import benchmark, benchmark_host
from warpschool.nn.session import Kernels
from warpschool.notebook.runs import is_accepted, own_contract
from warpschool.show.bar import watched
from warpschool.show.table import Table

PREDICTED = "h200"
"""The machine for which times are predicted: the one whose predictions were compared with real times."""


def told(value: float | None, form: str = ".3g") -> str:
    """A measurement as the cell of a table."""
    return "not measured" if value is None else f"{value:{form}}"


def own_kernels(lab: str, steps: Iterable[str] | None = None, *, device: str | Device = "auto") -> Kernels:
    """Return the student's own kernels for steps of a lab (None: all), and references for every other step.

    A cell that was run last counts, else the file that `check` would take.
    """
    found = Course.find().lab(lab)
    names = [step.name for step in found.steps] if steps is None else [f"{found}/{step}" for step in steps]
    return Kernels({name: own_contract(name) for name in names}, device=device)


def gpu_ms(launches: Sequence[Launch]) -> float | None:
    """Time launches once more on the GPU that made them."""
    return benchmark(repeated(launches), device="gpu").median_ms


def own_gpu_ms(
    contract: Contract, sizes: Mapping[str, float], *, constants: Mapping[str, int] | None = None, seed: int = 0
) -> float | None:
    """Time a kernel file with random inputs; None without a GPU, and where its tiles are too large for this one."""
    if not get_device("auto").measures_time:
        return None
    inputs = random_inputs(contract.bind(sizes, constants=constants), seed=seed)
    try:
        return gpu_ms(Program(contract, device="gpu", constants=constants).run(sizes, inputs).launches)
    except DeviceLacks:  # counters and estimates say what there is to say
        return None


def predicted(
    contract: Contract, sizes: Mapping[str, float], *, constants: Mapping[str, int] | None = None
) -> Prediction | None:
    """What the clock predicts for a kernel file on PREDICTED, or why it cannot; None without the disassembler."""
    if not has_disassembler():
        return None
    machine = find_machine(PREDICTED)
    return predict_plan(contract, contract.bind(sizes, constants=constants), machine, constants=constants)


def predicted_ms(
    contract: Contract, sizes: Mapping[str, float], *, constants: Mapping[str, int] | None = None
) -> float | None:
    """Its time in milliseconds; of a reference the one that the course carries, where no machine code is made."""
    us = predicted_us(contract, contract.bind(sizes, constants=constants))
    return None if us is None else us / 1000


def predicted_launches_ms(launches: Iterable[Launch]) -> float | None:
    """Predicted milliseconds on PREDICTED of launches that ran on the simulator; None where one has no prediction."""
    if not has_disassembler():
        return None
    times = [predict_time(launch, gpu=PREDICTED).us for launch in launches]
    return None if not times or None in times else sum(time for time in times if time is not None) / 1000


def foretold(contract: Contract, sizes: Mapping[str, float]) -> str:
    """The prediction in words, that of a reference which the course carries, or why there is none."""
    found = predicted(contract, sizes)
    if found is not None and found.us is not None:
        return str(found)
    us = shipped_us(contract, contract.bind(sizes))
    if us is not None:
        return f"predicted for {find_machine(PREDICTED).name}, as the course carries it: {us:.3g} us"
    return "whose time is not predicted without NVIDIA's disassembler" if found is None else str(found)


def own_foretold(step: str, sizes: Mapping[str, float]) -> str:
    """The same of the student's own kernel, as a sentence."""
    return f"Your kernel, {foretold(own_contract(step), sizes)}."


# ---------------------------------------------------------------- the parts of a computation


@dataclass(frozen=True)
class TimedPart:
    """One part of a computation; `time_ms` is None where it was not measured."""

    what: str
    nbytes: int | None
    time_ms: float | None

    @property
    def gb_per_s(self) -> float | None:
        """Bytes per time."""
        return self.nbytes / self.time_ms * 1e-6 if self.nbytes and self.time_ms else None


@dataclass(frozen=True, repr=False)
class Parts(Table):
    """A table of `parts`."""

    parts: tuple[TimedPart, ...] = ()

    @classmethod
    def on(cls, device: str, parts: Sequence[TimedPart], note: str = "") -> Parts:
        """They were measured on this device."""
        rows = [
            (part.what, "" if part.nbytes is None else f"{part.nbytes:,}", told(part.time_ms, ",.4g"),
             "" if part.gb_per_s is None else f"{part.gb_per_s:,.3g}")
            for part in parts
        ]  # fmt: skip
        return replace(cls.of("", [f"on {device}", "bytes", "ms", "GB/s"], rows, note=note), parts=tuple(parts))

    def __getitem__(self, what: str) -> TimedPart:
        return {part.what: part for part in self.parts}[what]


def parts(
    step: str, sizes: Mapping[str, float], *, on_cpu: Callable[..., Any] | None = None, repeats: int = 10,
    device: str = "auto", gpu: str = model.DEFAULT_GPU, seed: int = 0,
) -> Parts:  # fmt: skip
    """Time the copies, the kernel and the whole of the student's own step, and `on_cpu(**inputs)` beside them.

    Two rows repeat the step: with copies each time, and with data that stay on the device. Without a GPU only the CPU's
    time is measured, and a note gives the estimate for `gpu`.
    """
    contract = own_contract(step)
    inputs = random_inputs(contract.bind(sizes), seed=seed)
    result = Program(contract, device=device).run(sizes, inputs)
    bench = _Bench(result, inputs)
    rows = [
        TimedPart(what, nbytes, bench.time_ms(work) if result.device.measures_time else None)
        for what, (nbytes, work) in bench.works(repeats).items()
    ]
    note = ""
    if not result.device.measures_time:
        bound = model.estimate(result.counters, gpu=gpu, array_bytes=bench.in_bytes + bench.out_bytes)
        note = f"Copies and kernels are timed on a GPU only. Kernel, {bound}."
        note += f" Kernel, {foretold(contract, sizes)}."
    if on_cpu is not None:
        rows.append(TimedPart("the same on the CPU", None, benchmark_host(lambda: on_cpu(**inputs)).median_ms))
    return Parts.on(result.device.description, rows, note)


class _Bench:
    """The copies and launches of one run, ready to be repeated."""

    def __init__(self, result: RunResult, inputs: Mapping[str, Any]) -> None:
        self.device = device = result.device
        self.launches = result.launches
        self.pageable = inputs
        self.pinned = {name: device.pinned(host.shape, host.dtype) for name, host in inputs.items()}
        for name, host in inputs.items():
            self.pinned[name][...] = host
        self.on_device = {name: device.asarray(host) for name, host in inputs.items()}
        self.results = [(device.empty(host.shape, host.dtype), host) for host in result.outputs.values()]
        self.in_bytes = sum(host.nbytes for host in inputs.values())
        self.out_bytes = sum(host.nbytes for _, host in self.results)

    def works(self, repeats: int) -> dict[str, tuple[int | None, Callable[[], Any]]]:
        """Name -> bytes moved (None where that is not one number) and what to time."""
        return {
            "copy in, pageable": (self.in_bytes, lambda: self.copy_in(self.pageable)),
            "copy in, pinned": (self.in_bytes, lambda: self.copy_in(self.pinned)),
            "kernel": (self.in_bytes + self.out_bytes, self.kernel),
            "copy out": (self.out_bytes, self.copy_out),
            "copy in, kernel, copy out": (None, lambda: self.round_trip(1)),
            f"{repeats} times, copied each time": (None, lambda: self.round_trips(repeats)),
            f"{repeats} times, data stay there": (None, lambda: self.round_trip(repeats)),
        }

    def time_ms(self, work: Callable[[], Any]) -> float | None:
        """Kernels by the GPU's events, copies by the host's clock, since pageable copies keep the host busy."""
        if work == self.kernel:
            return benchmark(work, device=self.device).median_ms
        return benchmark_host(work, wait=self.device.synchronize).median_ms

    def copy_in(self, source: Mapping[str, Any]) -> None:
        for name, array in self.on_device.items():
            array.set(source[name])

    def kernel(self) -> None:
        for launch in self.launches:
            launch.again()

    def copy_out(self) -> None:
        for array, host in self.results:
            array.get(out=host)

    def round_trips(self, count: int) -> None:
        for _ in range(count):
            self.round_trip(1)

    def round_trip(self, launches: int) -> None:
        self.copy_in(self.pageable)
        for _ in range(launches):
            self.kernel()
        self.copy_out()


# ---------------------------------------------------------------- values of a constant


@dataclass(frozen=True)
class Variant:
    """One value of a constant and what it did; `time_ms` is None where it was not measured."""

    value: int
    counters: Counters
    lanes: float
    """active lanes per instruction"""
    occupancy: model.Occupancy
    time_ms: float | None
    estimate_ms: float
    """lower bound for the GPU of the occupancy"""
    predicted_ms: float | None
    """for the machine PREDICTED, at the sizes of `time_ms`"""


def sweep(
    step: str, constant: str, values: Sequence[int], sizes: Mapping[str, float], *,
    timed_sizes: Mapping[str, float] | None = None, gpu: str = model.DEFAULT_GPU, seed: int = 0,
) -> tuple[Variant, ...]:  # fmt: skip
    """Run the student's own step with each value of a `constexpr int`.

    Counters come from the simulator at `sizes`; times, where there is a GPU, at `timed_sizes` (default: `sizes`).
    """
    return tuple(
        _variant(step, {constant: value}, value, sizes, timed_sizes or sizes, gpu, seed)
        for value in watched(values, f"{constant} of {step}")
    )


def _variant(
    step: str, constants: dict[str, int], value: int, sizes: Mapping[str, float], timed_sizes: Mapping[str, float],
    gpu: str, seed: int,
) -> Variant:  # fmt: skip
    contract = own_contract(step)
    inputs = random_inputs(contract.bind(sizes, constants=constants), seed=seed)
    own = Program(contract, device="sim", constants=constants)
    result = own.run(sizes, inputs, check=not is_accepted(step))
    counters, launch = result.counters, result.launches[0]
    occupancy = own.kernel(launch.kernel).occupancy(launch.block, gpu=gpu, shared_mem=launch.shared_mem)
    array_bytes = sum(array.nbytes for array in (*inputs.values(), *result.outputs.values()))
    return Variant(
        value=value,
        counters=counters,
        lanes=counters.thread_instructions / max(1, counters.warp_instructions),
        occupancy=occupancy,
        time_ms=own_gpu_ms(contract, timed_sizes, constants=constants, seed=seed),
        estimate_ms=model.estimate(counters, gpu=gpu, array_bytes=array_bytes).time_ms,
        predicted_ms=predicted_ms(contract, timed_sizes, constants=constants),
    )


# ---------------------------------------------------------------- kernels side by side


_HEAD = (
    "FMA share", "global bytes", "shared bytes", "passes", "barriers", "registers", "spilled bytes", "occupancy",
    "PTX instructions", "ms", f"ms predicted, {PREDICTED.upper()}",
)  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """One kernel: its counts at a case, the PTX instructions of its code, and its time where one was measured."""

    name: str
    cost: StepCost
    instructions: int
    time_ms: float | None
    predicted_ms: float | None


@dataclass(frozen=True, repr=False)
class Stages(Table):
    """A table of kernels; `stages` holds the rows."""

    stages: tuple[Stage, ...] = ()

    @classmethod
    def on(cls, gpu: str, stages: Mapping[str, Stage | None]) -> Stages:
        """Registers and occupancy are those on this GPU; a label without a stage has a row that says nothing else."""
        name = model.find_gpu(gpu).name
        note = f"Bytes and passes for each product, barriers for each block; registers and occupancy on {name}."
        rows = [_cells(stage, gpu) if stage else [label, *["-"] * len(_HEAD)] for label, stage in stages.items()]
        made = cls.of("", ["", *_HEAD], rows, note=note)
        return replace(made, stages=tuple(filter(None, stages.values())))

    @property
    def counters(self) -> dict[str, Counters]:
        """Name -> what it counts at the case of the table."""
        return {stage.name: stage.cost.counters for stage in self.stages}

    @property
    def mixes(self) -> dict[str, Mapping[str, float]]:
        """Name -> the instruction mix of the main loop."""
        return {stage.name: stage.cost.mix for stage in self.stages}


def compare(
    steps: Sequence[str], sizes: Mapping[str, int] | None = None, *, timed_sizes: Mapping[str, int] | None = None,
    gpu: str = "rtx2080ti",
) -> Stages:  # fmt: skip
    """Put the student's own kernels of some steps side by side; times at `timed_sizes`, where there is a GPU."""
    own = [(step.split("/")[-1], own_contract(step), not is_accepted(step)) for step in steps]
    stages = {name: _stage(name, one, sizes, timed_sizes, check) for name, one, check in watched(own, "kernels")}
    return Stages.on(gpu, stages)


def variants(
    step: str, changes: Mapping[str, Mapping[str, str]], sizes: Mapping[str, int] | None = None, *,
    timed_sizes: Mapping[str, int] | None = None, gpu: str = "rtx2080ti",
) -> Stages:  # fmt: skip
    """Change the text of the student's own kernel: `changes` maps a label to what replaces what.

    Spaces and line breaks need not be those of the kernel. A label whose text does not stand in it says so, no more.
    """
    original, check = own_contract(step), not is_accepted(step)
    stages: dict[str, Stage | None] = {}
    for label, replaced in watched(list(changes.items()), f"variants of {step}"):
        source, missing = original.source, ""
        for old, new in replaced.items():
            source, found = _replaced(source, old, new)
            missing = missing if found else " ".join(old.split())
        if missing:
            stages[f"{label} (no '{missing}' in your kernel)"] = None
        else:
            stages[label] = _stage(label, parse_contract(source, name=original.name), sizes, timed_sizes, check)
    return Stages.on(gpu, stages)


_WORD = re.compile(r"\w+|[^\w\s]")


def _replaced(source: str, old: str, new: str) -> tuple[str, bool]:
    """(the source with `new` wherever `old` stands, however it is spaced; whether it stands there)."""
    words = _WORD.findall(old)
    is_name = [re.match(r"\w", word) is not None for word in words]
    gaps = [r"\s+" if a and b else r"\s*" for a, b in pairwise(is_name)]
    begin, end = (r"\b" if name else "" for name in (is_name[0], is_name[-1]))
    spelt = "".join(re.escape(word) + gap for word, gap in zip(words, [*gaps, ""], strict=True))
    made, count = re.subn(begin + spelt + end, lambda _: new, source)
    return made, bool(count)


def _stage(
    name: str, contract: Contract, sizes: Mapping[str, int] | None, timed_sizes: Mapping[str, int] | None, check: bool
) -> Stage:
    time_ms = None if timed_sizes is None else own_gpu_ms(contract, timed_sizes)
    asked = [None if given is None else tuple(given.items()) for given in (sizes, timed_sizes)]
    cost, instructions, told_ms = _counted(contract.source, contract.name, *asked, check)
    return Stage(name, cost, instructions, time_ms, told_ms)


_Sizes = tuple[tuple[str, int], ...] | None


@functools.lru_cache(maxsize=64)
def _counted(source: str, name: str, sizes: _Sizes, timed: _Sizes, check: bool) -> tuple[StepCost, int, float | None]:
    """What the same kernel counts, and is predicted to take, every time: cells of a notebook ask for some twice."""
    contract = parse_contract(source, name=name)
    told_ms = None if timed is None else predicted_ms(contract, dict(timed))
    cost = cost_of(contract, None if sizes is None else dict(sizes), check=check)
    return cost, code_size(contract), told_ms


def _cells(stage: Stage, gpu: str) -> list[str]:
    cost, counted, products = stage.cost, stage.cost.counters, stage.cost.products
    use = cost.use(gpu)
    registers = spilled = occupancy = use.note
    if use.resources is not None:
        registers = str(use.resources.registers)
        spilled = f"{use.resources.spill_load_bytes + use.resources.spill_store_bytes:,}"
        occupancy = f"{use.occupancy.fraction:.0%}" if use.occupancy else "does not fit"
    return [
        stage.name, f"{cost.mix['FMA']:.0%}", f"{counted.global_load_bytes / products:.3g}",
        f"{counted.shared_load_bytes / products:.3g}", f"{32 * counted.shared_load_wavefronts / products:.3g}",
        f"{cost.barriers_per_block:g}", registers, spilled, occupancy, f"{stage.instructions:,}",
        told(stage.time_ms), "-" if stage.predicted_ms is None else f"{stage.predicted_ms:.3g}",
    ]  # fmt: skip


# ---------------------------------------------------------------- traces


def own_trace(
    step: str, sizes: Mapping[str, float], *, constants: Mapping[str, int] | None = None, block: int = 0
) -> Trace:
    """Trace one block of the student's own kernel; see `warpschool.inspect.accesses.trace`."""
    return _traced(own_contract(step), sizes, constants, block)


def given_trace(
    step: str, sizes: Mapping[str, float], *, constants: Mapping[str, int] | None = None, block: int = 0
) -> Trace:
    """Trace one block of the step's starter, whatever the student has made of it; raises CourseError without one."""
    found = Course.find().step(step)
    if found.starter is None:
        raise CourseError(f"{step} has no starter in this course")
    return _traced(parse_contract(found.starter.read_text("utf-8"), name=found.file_name), sizes, constants, block)


def _traced(contract: Contract, sizes: Mapping[str, float], constants: Mapping[str, int] | None, block: int) -> Trace:
    inputs = random_inputs(contract.bind(sizes, constants=constants))
    return trace(contract, sizes, inputs, block=block, constants=constants)
