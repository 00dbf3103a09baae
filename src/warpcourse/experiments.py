"""The labs' experiments: how long the parts of a computation take, and how a kernel changes with a constant.

What a device cannot measure stays None and is shown as "not measured"; nothing is filled in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warpschool import model
from warpschool.counters import Counters
from warpschool.device import Launch, get_device
from warpschool.device.measurement import Rules, Summary, measure, summarize
from warpschool.errors import DeviceLacks
from warpschool.harness.launcher import Program, RunResult, random_inputs
from warpschool.inspect.timing import benchmark
from warpschool.notebook.runs import own_contract
from warpschool.show.table import Table, small_table

_HOST_RULES = Rules(
    warmup_runs=1, warmup_ms=0.0, target_error=0.05, min_samples=5, max_samples=50, max_seconds=1.0, batch=5
)


@dataclass(frozen=True)
class Part:
    """One part of a computation; `time_ms` is None where it was not measured."""

    what: str
    nbytes: int | None
    time_ms: float | None

    @property
    def gb_per_s(self) -> float | None:
        """Bytes per time."""
        return self.nbytes / self.time_ms * 1e-6 if self.nbytes and self.time_ms else None


@dataclass(frozen=True, repr=False)
class Parts:
    """A table of parts, measured on one device."""

    device: str
    parts: tuple[Part, ...]
    note: str = ""

    def __getitem__(self, what: str) -> Part:
        return {part.what: part for part in self.parts}[what]

    def _table(self) -> Table:
        rows = [[part.what, _size(part), _time(part), _speed(part)] for part in self.parts]
        return small_table([f"on {self.device}", "bytes", "ms", "GB/s"], rows, self.note)

    def __repr__(self) -> str:
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()


class HostSampler:
    """Times functions by the host's clock: for copies and for work on the CPU. `wait` blocks until a device is idle."""

    def __init__(self, wait: Callable[[], None] = lambda: None) -> None:
        self.wait = wait

    def run(self, work: Callable[[], Any]) -> None:
        work()
        self.wait()

    def sample(self, works: Sequence[Callable[[], Any]]) -> list[float]:
        times = []
        for work in works:
            self.wait()
            start = time.perf_counter()
            self.run(work)
            times.append((time.perf_counter() - start) * 1e3)
        return times


def host_time(work: Callable[[], Any], *, wait: Callable[[], None] = lambda: None) -> Summary:
    """Time a function by the host's clock."""
    return summarize([times[0] for times in measure([work], HostSampler(wait), _HOST_RULES)])


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
        Part(what, nbytes, bench.time_ms(work) if result.device.measures_time else None)
        for what, (nbytes, work) in bench.works(repeats).items()
    ]
    note = ""
    if not result.device.measures_time:
        bound = model.estimate(result.counters, gpu=gpu, array_bytes=bench.in_bytes + bench.out_bytes)
        note = f"Copies and kernels are timed on a GPU only. Kernel, {bound}."
    if on_cpu is not None:
        rows.append(Part("the same on the CPU", None, host_time(lambda: on_cpu(**inputs)).median_ms))
    return Parts(result.device.description, tuple(rows), note)


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
        return host_time(work, wait=self.device.synchronize).median_ms

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


def sweep(
    step: str, constant: str, values: Sequence[int], sizes: Mapping[str, float], *,
    timed_sizes: Mapping[str, float] | None = None, gpu: str = model.DEFAULT_GPU, seed: int = 0,
) -> tuple[Variant, ...]:  # fmt: skip
    """Run the student's own step with each value of a `constexpr int`.

    Counters come from the simulator at `sizes`; times, where there is a GPU, at `timed_sizes` (default: `sizes`).
    """
    return tuple(_variant(step, {constant: value}, value, sizes, timed_sizes or sizes, gpu, seed) for value in values)


def _variant(
    step: str, constants: dict[str, int], value: int, sizes: Mapping[str, float], timed_sizes: Mapping[str, float],
    gpu: str, seed: int,
) -> Variant:  # fmt: skip
    contract = own_contract(step)
    inputs = random_inputs(contract.bind(sizes, constants=constants), seed=seed)
    own = Program(contract, device="sim", constants=constants)
    result = own.run(sizes, inputs)
    counters, launch = result.counters, result.launches[0]
    occupancy = own.kernel(launch.kernel).occupancy(launch.block, gpu=gpu, shared_mem=launch.shared_mem)
    array_bytes = sum(array.nbytes for array in (*inputs.values(), *result.outputs.values()))
    return Variant(
        value=value,
        counters=counters,
        lanes=counters.thread_instructions / max(1, counters.warp_instructions),
        occupancy=occupancy,
        time_ms=_time_on_gpu(contract, constants, timed_sizes, seed),
        estimate_ms=model.estimate(counters, gpu=gpu, array_bytes=array_bytes).time_ms,
    )


def _time_on_gpu(contract: Any, constants: dict[str, int], sizes: Mapping[str, float], seed: int) -> float | None:
    if not get_device("auto").measures_time:
        return None
    inputs = random_inputs(contract.bind(sizes, constants=constants), seed=seed)
    try:
        launches: tuple[Launch, ...] = Program(contract, device="gpu", constants=constants).run(sizes, inputs).launches
    except DeviceLacks:  # tiles too large for this GPU: counters and estimates say what there is to say
        return None
    return benchmark(lambda: [launch.again() for launch in launches]).median_ms


def _size(part: Part) -> str:
    return "" if part.nbytes is None else f"{part.nbytes:,}"


def _time(part: Part) -> str:
    return "not measured" if part.time_ms is None else f"{part.time_ms:,.4g}"


def _speed(part: Part) -> str:
    return "" if part.gb_per_s is None else f"{part.gb_per_s:,.3g}"
