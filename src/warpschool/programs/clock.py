"""The virtual GPU's clock: when work of streams begins and ends, by bounds and in the order that CUDA promises.

A kernel takes at least the roofline's bound, a copy at least its bytes at the link's bandwidth. Copies to the device,
copies from it, and kernels each have an engine that does one thing at a time. Nothing here is a measurement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from warpschool.counters import Counters
from warpschool.model import GpuSpec, estimate
from warpschool.programs.report import CopyUse, KernelUse, Span
from warpschool.programs.wire import NON_BLOCKING

LINK_GB_PER_S = 25.0
"""What PCI Express 4.0 with 16 lanes carries one way, of 31.5 GB/s on the wire."""
CALL_NS, LAUNCH_NS = 500.0, 2500.0
"""What the host takes to put work into a stream, a copy or a kernel: the order of magnitude of today's drivers."""
_MOST_SPANS = 20_000
_AT_ONCE = 4096


@dataclass(frozen=True)
class _Work:
    kind: str
    """kernel, or where bytes go: HtoD, DtoH, DtoD, HtoH, set; or event, wait, join"""
    name: str
    stream: int
    amount: int = 0
    """bytes of a copy or of a kernel's arrays, or the event's number"""
    counters: Mapping[str, int] | None = None
    blocks: int = 0
    blocking: bool = False


class Clock:
    """Work as it is put in; times are worked out when somebody asks."""

    def __init__(self, spec: GpuSpec) -> None:
        self.spec = spec
        self._waiting: list[_Work] = []
        self._host = 0.0
        self._streams: dict[int, float] = {}
        self._engines: dict[str, float] = {}
        self._events: dict[int, float] = {}
        self._counters: dict[str, Counter[int]] = {}
        """of each kernel: how often it counted what, by the identity of the counters"""
        self._known: dict[int, Mapping[str, int]] = {}
        """counters by their identity: launches that did the same share them"""
        self._kernels: dict[str, list[float]] = {}
        self._copies: dict[str, list[float]] = {}
        self._bounds: dict[tuple[int, int, int], float] = {}
        self.spans: list[Span] = []

    def kernel(self, name: str, stream: int, counters: Mapping[str, int], blocks: int, nbytes: int) -> None:
        self._put(_Work("kernel", name, stream, nbytes, counters, blocks))

    def copy(self, kind: str, stream: int, nbytes: int, *, blocking: bool) -> None:
        self._put(_Work(kind, kind, stream, nbytes, blocking=blocking))

    def record(self, event: int, stream: int) -> None:
        self._put(_Work("event", "", stream, event))

    def wait(self, stream: int, event: int) -> None:
        self._put(_Work("wait", "", stream, event))

    def join(self, stream: int | None = None) -> None:
        """The host waits for a stream, or for all."""
        self._put(_Work("join", "", -1 if stream is None else stream))

    def elapsed_ns(self, start: int, end: int) -> float:
        """Between two recorded events."""
        self._catch_up()
        return self._events.get(end, 0.0) - self._events.get(start, 0.0)

    def uses(self) -> tuple[tuple[KernelUse, ...], tuple[CopyUse, ...]]:
        """Kernels and copies, those first that took longest."""
        self._catch_up()
        kernels = [
            KernelUse(name, int(n), self._summed(name), total, shortest, longest)
            for name, (n, total, shortest, longest) in self._kernels.items()
        ]
        copies = [CopyUse(kind, int(n), int(nbytes), total) for kind, (n, nbytes, total) in self._copies.items()]
        return (
            tuple(sorted(kernels, key=lambda use: (-use.time_ns, use.kernel))),
            tuple(sorted(copies, key=lambda use: (-use.time_ns, use.kind))),
        )

    def _summed(self, name: str) -> dict[str, int]:
        """What all launches of a kernel counted together."""
        found: Counter[str] = Counter()
        for which, times in self._counters[name].items():
            found.update({counter: times * count for counter, count in self._known[which].items()})
        return dict(sorted(found.items()))

    # -- times ----------------------------------------------------------------------------------------------------
    def _put(self, work: _Work) -> None:
        self._waiting.append(work)
        if len(self._waiting) >= _AT_ONCE:
            self._catch_up()

    def _catch_up(self) -> None:
        for work in self._waiting:
            self._do(work)
        self._waiting.clear()

    def _do(self, work: _Work) -> None:
        match work.kind:
            case "event":
                self._events[work.amount] = max(self._host, self._ready(work.stream))
            case "wait":
                self._streams[work.stream] = max(self._ready(work.stream), self._events.get(work.amount, 0.0))
            case "join":
                until = max(self._streams.values(), default=0.0) if work.stream < 0 else self._ready(work.stream)
                self._host = max(self._host, until)
            case _:
                self._run(work)

    def _ready(self, stream: int) -> float:
        """When a stream is through with what it has. The default stream waits for others, and they for it."""
        if stream == 0:
            return max((end for s, end in self._streams.items() if not s & NON_BLOCKING), default=0.0)
        if stream & NON_BLOCKING:
            return self._streams.get(stream, 0.0)
        return max(self._streams.get(stream, 0.0), self._streams.get(0, 0.0))

    def _run(self, work: _Work) -> None:
        is_kernel = work.kind == "kernel"
        engine = work.kind if work.kind in ("kernel", "HtoD", "DtoH") else "kernel"
        self._host += LAUNCH_NS if is_kernel else CALL_NS
        takes = self._kernel_ns(work) if is_kernel else self._copy_ns(work)
        start = max(self._host, self._ready(work.stream), self._engines.get(engine, 0.0))
        end = start + takes
        self._streams[work.stream] = self._engines[engine] = end
        if work.blocking:
            self._host = max(self._host, end)
        if len(self.spans) < _MOST_SPANS:
            self.spans.append(Span(work.kind, work.name, work.stream, start, end))
        if is_kernel:
            found = self._kernels.setdefault(work.name, [0, 0.0, takes, takes])
            found[:] = [found[0] + 1, found[1] + takes, min(found[2], takes), max(found[3], takes)]
            self._counters.setdefault(work.name, Counter())[id(work.counters)] += 1
        else:
            found = self._copies.setdefault(work.kind, [0, 0, 0.0])
            found[:] = [found[0] + 1, found[1] + work.amount, found[2] + takes]

    def _kernel_ns(self, work: _Work) -> float:
        key = id(work.counters), work.blocks, work.amount
        if key not in self._bounds:  # many launches are alike
            self._known[id(work.counters)] = work.counters or {}
            counters = Counters(dict(work.counters or {}), blocks=work.blocks)
            self._bounds[key] = estimate(counters, gpu=self.spec, array_bytes=work.amount).time_ms * 1e6
        return self._bounds[key]

    def _copy_ns(self, work: _Work) -> float:
        if work.kind in ("DtoD", "set"):  # read and written, or written alone, in the device's memory
            return (2 if work.kind == "DtoD" else 1) * work.amount / self.spec.dram_gb_per_s
        return work.amount / LINK_GB_PER_S
