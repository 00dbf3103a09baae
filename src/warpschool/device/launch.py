"""`Launch`: what one kernel launch left behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from warpschool.counters import NOT_MEASURED, Counters, UnmeasuredCounters
from warpschool.device.protocol import Device, Dim3, Outcome
from warpschool.errors import NotMeasured


class _Unmeasured:
    """Stands for what a device does not measure: its text says so, looking inside raises NotMeasured."""

    measured = False

    def __init__(self, what: str, reason: str = NOT_MEASURED) -> None:
        self.what = what
        self.reason = reason

    def _refuse(self, *_: object) -> NoReturn:
        raise NotMeasured(f"{self.what}: {self.reason}", next_step='Run the kernel with device="sim".')

    __getitem__ = __iter__ = __len__ = __bool__ = __contains__ = _refuse

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.what!r}, {self.reason!r})"

    def __str__(self) -> str:
        return self.reason


class UnmeasuredHazards(_Unmeasured, Sequence[Any]):
    """`hazards` of a device that looks for none."""

    index = count = __reversed__ = _Unmeasured._refuse


class UnmeasuredLines(_Unmeasured, Mapping[int, Counters]):
    """`lines` of a device that counts nothing."""

    keys = items = values = get = _Unmeasured._refuse


class UnmeasuredText(str):
    """Stands for printed text that went elsewhere; `measured` tells it from real text."""

    measured = False


def not_measured(reason: str = NOT_MEASURED) -> Outcome:
    """The outcome of a launch on a device that only runs and does not look."""
    return Outcome(
        counters=UnmeasuredCounters(reason),
        lines=UnmeasuredLines("counters per line", reason),
        hazards=UnmeasuredHazards("hazards", reason),
        printed=UnmeasuredText(reason),
    )


@dataclass(frozen=True, eq=False)
class Call:
    """What a launch was made of, so that it can be looked at again: the kernel, and its arguments as they were passed.

    `scalars` are the arguments as the device takes them: addresses and numbers.
    """

    kernel: Any
    arguments: Sequence[Any]
    scalars: Sequence[Any]


@dataclass(frozen=True, eq=False)
class Launch:
    """One finished (on the GPU: enqueued) launch. `str(launch)` is a report."""

    kernel: str
    grid: Dim3
    block: Dim3
    shared_mem: int
    """dynamic shared memory in bytes"""
    device: Device
    source_name: str
    array_bytes: int
    """bytes of all distinct arrays that were passed"""
    outcome: Outcome = field(repr=False)
    _again: Callable[[], Launch] = field(repr=False)
    _resources: Callable[[], Any] = field(repr=False)
    call: Call | None = field(default=None, repr=False)

    @property
    def source(self) -> str:
        """The CUDA source that the kernel is from; "" where it is not known."""
        return str(self.call.kernel.module.code) if self.call else ""

    @property
    def counters(self) -> Counters:
        """Totals of the launch."""
        return self.outcome.counters

    @property
    def lines(self) -> Mapping[int, Counters]:
        """Source line -> what happened there."""
        return self.outcome.lines

    @property
    def hazards(self) -> Sequence[Any]:
        """Races, out-of-bounds accesses, uninitialised reads, divergent barriers."""
        return self.outcome.hazards

    @property
    def printed(self) -> str:
        """What the kernel's printf wrote."""
        return self.outcome.printed

    @property
    def resources(self) -> Any:
        """Registers, shared, local and constant bytes, spills of the kernel."""
        return self._resources()

    @property
    def blocks(self) -> int:
        x, y, z = self.grid
        return x * y * z

    @property
    def threads_per_block(self) -> int:
        x, y, z = self.block
        return x * y * z

    def again(self) -> Launch:
        """The same launch once more, on the arrays as they are now."""
        return self._again()

    def __str__(self) -> str:
        head = (
            f"{self.kernel} of {self.source_name}: grid {_text(self.grid)}, block {_text(self.block)}"
            f"{f', {self.shared_mem} bytes of dynamic shared memory' if self.shared_mem else ''}"
            f" on {self.device.description}"
        )
        parts = [head, *(f"  {row}" for row in f"{self.counters}".splitlines())]
        if isinstance(self.hazards, UnmeasuredHazards):
            parts.append(f"hazards: {self.hazards}")
        else:
            parts.append(f"hazards: {len(self.hazards) or 'none'}")
            parts += [f"  {_hazard_text(h)}" for h in self.hazards]
        if self.printed and not isinstance(self.printed, UnmeasuredText):
            parts += ["printed:", *(f"  {row}" for row in self.printed.splitlines())]
        return "\n".join(parts)


def _text(dims: Dim3) -> str:
    return "x".join(str(n) for n in dims)


def _hazard_text(hazard: Any) -> str:
    return f"{hazard.file}:{hazard.line}: {hazard.kind}: {hazard.message}"
