"""What a launch has counted.

`Counters` holds the values of one launch, or of one source line, and derives ratios from them. What each number means
is in `counter_table`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NoReturn

from ptxsim.counters import BY_NAME, COUNTERS
from ptxsim.limits import SECTOR_BYTES
from warpschool.errors import NotMeasured

NOT_MEASURED = "not measured on this device"


def ratio(numerator: float, denominator: float) -> float:
    """numerator / denominator; x/0 is infinity, 0/0 is NaN ("nothing to measure"), which fails every comparison."""
    if denominator:
        return numerator / denominator
    return math.inf if numerator else math.nan


_NONE = {c.name: 0 for c in COUNTERS}


def _known(name: str) -> str:
    """A counter's own name, for one of its names. Raises ValueError."""
    if name not in BY_NAME:
        raise ValueError(f"no counter is called {name!r}; ptxsim.counters.COUNTERS lists them all")
    return BY_NAME[name].name


class Counters(Mapping[str, int]):
    """The counts of one launch or one source line.

    `c["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]`, `c["global_load_requests"]` and `c.global_load_requests` are
    the same number. Iteration lists Nsight Compute's names where there are any. A counter that was not given is 0.
    Ratios follow `ratio`: NaN where the kernel did nothing of the kind. Counters add up: `a + b`, `sum(many)`.
    """

    __slots__ = ("_values",)
    _values: dict[str, int]
    measured = True

    def __init__(self, values: Mapping[str, int] | None = None, /, **by_name: int) -> None:
        given = {**(values or {}), **by_name}
        if not _NONE.keys() >= given.keys():
            given = {_known(name): value for name, value in given.items()}
        object.__setattr__(self, "_values", _NONE | dict(zip(given, map(int, given.values()), strict=True)))

    # ---------------------------------------------------------------- mapping

    def __getitem__(self, name: str) -> int:
        return self._values[BY_NAME[name].name]

    def __iter__(self) -> Iterator[str]:
        return (c.key for c in COUNTERS)

    def __len__(self) -> int:
        return len(COUNTERS)

    def __contains__(self, name: object) -> bool:
        return name in BY_NAME

    def __getattr__(self, name: str) -> int:
        if name.startswith("_") or name not in BY_NAME:
            raise AttributeError(f"no counter is called {name!r}; dir() of this object lists them all")
        return self._values[name]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("counters cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("counters cannot be changed")

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *(c.name for c in COUNTERS)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counters) and self.measured == other.measured and self._values == other._values

    def __hash__(self) -> int:
        return hash(tuple(self._values.values()))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.plain(),)

    def __add__(self, other: Counters) -> Counters:
        if not isinstance(other, Counters):
            return NotImplemented
        if not other.measured:
            return other
        return Counters({name: value + other._values[name] for name, value in self._values.items()})

    def __radd__(self, other: object) -> Counters:
        return self if other == 0 else NotImplemented  # sum() starts at 0

    def plain(self) -> dict[str, int]:
        """All counts by plain name."""
        return dict(self._values)

    def __repr__(self) -> str:
        return f"Counters({', '.join(f'{k}={v}' for k, v in self._values.items() if v)})"

    def __str__(self) -> str:
        rows = [(c.name, f"{self._values[c.name]:,}", c.unit) for c in COUNTERS if self._values[c.name]]
        wide = max((len(value) for _, value, _ in rows), default=0)
        return "\n".join(f"{name:28} {value:>{wide}} {unit}" for name, value, unit in rows) or "(all counters are zero)"

    # ---------------------------------------------------------------- derived

    @property
    def global_load_efficiency(self) -> float:
        """Ideal sectors / sectors of global loads and cp.async copies: 1 is perfectly coalesced."""
        return ratio(self.global_load_sectors_ideal, self.sectors_read)

    @property
    def global_store_efficiency(self) -> float:
        """Ideal sectors / sectors of global stores: 1 is perfectly coalesced."""
        return ratio(self.global_store_sectors_ideal, self.global_store_sectors)

    @property
    def excess_load_sectors(self) -> int:
        """Sectors of global loads and cp.async copies beyond the ideal."""
        return self.sectors_read - self.global_load_sectors_ideal

    @property
    def sectors_read(self) -> int:
        """Sectors of global memory that loads and cp.async copies read, wherever the copies put them."""
        return self.global_load_sectors - self.async_copy_sectors_placed + self.async_copy_sectors

    @property
    def excess_store_sectors(self) -> int:
        """Sectors of global stores beyond the ideal."""
        return self.global_store_sectors - self.global_store_sectors_ideal

    @property
    def excess_sectors(self) -> int:
        """Sectors of global loads and stores beyond the ideal."""
        return self.excess_load_sectors + self.excess_store_sectors

    @property
    def shared_bank_conflicts(self) -> int:
        """Extra wavefronts of shared loads and stores."""
        return self.shared_load_bank_conflicts + self.shared_store_bank_conflicts

    @property
    def global_bytes(self) -> int:
        """Bytes that threads ask for in global loads, cp.async copies and stores."""
        return self.global_load_bytes + self.global_store_bytes

    @property
    def global_sector_bytes(self) -> int:
        """Bytes of all sectors that global loads and stores touch."""
        return SECTOR_BYTES * (self.sectors_read + self.global_store_sectors)

    @property
    def flops(self) -> int:
        """Single-precision operations: 2 per multiply-add, 1 per addition or product; tensor cores not included."""
        return 2 * self.fma_instructions + self.fadd_instructions + self.fmul_instructions

    @property
    def products(self) -> int:
        """Products of single precision of all threads, by multiply-adds and by multiplications alike."""
        return self.fma_instructions + self.fmul_instructions

    @property
    def multiplications(self) -> int:
        """The same, and all arithmetic of halves and doubles: no kind of it makes a product free."""
        return self.products + self.thread_instructions_fp64 + self.thread_instructions_fp16

    @property
    def operations(self) -> int:
        """Additions and multiplications of all threads; a multiply-add is two, as it is where nothing is contracted.

        Halves and doubles count, each of their instructions as a multiply-add.
        """
        return self.flops + 2 * (self.thread_instructions_fp64 + self.thread_instructions_fp16)

    @property
    def block_barriers(self) -> int:
        """Barriers of blocks and arrivals at barrier objects, counted once per warp."""
        return self.barriers + self.mbarrier_arrivals

    @property
    def shared_load_instructions(self) -> int:
        """Warp-wide loads from shared memory as the kernel writes them, whatever ptxas loads together."""
        return self.instructions_memory_shared - self.shared_store_requests - self.shared_atomic_requests

    @property
    def arithmetic_intensity(self) -> float:
        """FLOP per byte requested: `flops` / `global_bytes`. A naive matrix product has 1/4."""
        return ratio(self.flops, self.global_bytes)

    @property
    def data_reuse(self) -> float:
        """How often a byte that was loaded from global memory is multiplied.

        A multiply-add multiplies two 4-byte operands: 8 x fma_instructions / global_load_bytes. A naive matrix product
        loads both operands anew for each multiply-add (1); T x T tiles in shared memory use each element T times (T).
        """
        return ratio(8 * self.fma_instructions, self.global_load_bytes)

    @property
    def fma_share(self) -> float:
        """Multiply-adds / all instructions, both per thread: the useful share of a matrix product's instructions."""
        return ratio(self.fma_instructions, self.thread_instructions)

    @property
    def shared_bytes_per_fma(self) -> float:
        """Bytes read from shared memory per multiply-add."""
        return ratio(self.shared_load_bytes, self.fma_instructions)


DERIVED: dict[str, str] = {
    name: (member.__doc__ or "").split("\n")[0]
    for name, member in vars(Counters).items()
    if isinstance(member, property)
}
"""Derived property -> its one-sentence meaning."""


class CountersByLine(Mapping[int, Counters]):
    """Source line -> its counters, in order: made of plain counts when somebody looks, which most launches spare."""

    def __init__(self, lines: Mapping[int, Mapping[str, int]]) -> None:
        self._plain = lines

    @cached_property
    def _lines(self) -> dict[int, Counters]:
        return {line: Counters(counts) for line, counts in sorted(self._plain.items())}

    def __getitem__(self, line: int) -> Counters:
        return self._lines[line]

    def __iter__(self) -> Iterator[int]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._plain)

    def __repr__(self) -> str:
        return repr(self._lines)


class UnmeasuredCounters(Counters):
    """Stands for counters that were not taken: `measured` is False, and reading a count raises NotMeasured."""

    __slots__ = ("reason",)
    reason: str
    measured = False

    def __init__(self, reason: str = NOT_MEASURED) -> None:
        super().__init__()
        object.__setattr__(self, "reason", reason)

    def _refuse(self, *_: object) -> NoReturn:
        raise NotMeasured(f"counters: {self.reason}", next_step='Run the kernel with device="sim" to count.')

    def __getattr__(self, name: str) -> int:
        if name in BY_NAME:
            self._refuse()
        return super().__getattr__(name)

    __getitem__ = __iter__ = get = keys = items = values = plain = _refuse

    def __add__(self, other: Counters) -> Counters:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.reason,)

    def __repr__(self) -> str:
        return f"UnmeasuredCounters({self.reason!r})"

    def __str__(self) -> str:
        return self.reason
