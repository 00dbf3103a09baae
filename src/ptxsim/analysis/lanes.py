"""Lane patterns: what is known about a register across the 32 lanes of a warp, before the kernel runs.

A register's value in lane l is, modulo 2^width,

    value[l] = value[first lane of l's group] + offsets[l]

with known constants as offsets, for a warp in 1, 2 or 4 equal groups; or it *varies* (offsets unknown). One group with
all offsets zero is "uniform". Two groups arise in blocks 16 threads wide, where a row's index times a pitch known only
at run time is the same within half a warp. Only the groups' first lanes are computed: their results follow from their
operands, whatever the operation. `align` and `low..high` describe the first lanes and let masks and shifts keep a
pattern. `lane_rules` has what arithmetic does to patterns, `lane_analysis` finds those of a kernel's registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxsim.limits import WARP

ZERO = (0,) * WARP
EXACT = 63
"""Alignment of zero: a multiple of every power of two."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """A lane pattern; `offsets` is None for a varying register."""

    offsets: tuple[int, ...] | None = None
    align: int = 0
    low: int | None = None
    high: int | None = None
    groups: int = 1

    @property
    def uniform(self) -> bool:
        return self.offsets == ZERO and self.groups == 1

    @property
    def scalar(self) -> bool:
        """Whether lane 0 stands for the whole warp."""
        return self.offsets is not None and self.groups == 1

    def regrouped(self, groups: int) -> Lanes:
        """The same register seen as more groups."""
        if self.offsets is None or groups == self.groups:
            return self
        size = WARP // groups
        firsts = [self.offsets[lane - lane % size] for lane in range(WARP)]
        offsets = tuple(o - f for o, f in zip(self.offsets, firsts, strict=True))
        low = high = None
        if self.low is not None and self.high is not None:
            low, high = self.low + min(firsts), self.high + max(firsts)
        align = min([self.align, *(trailing_zeros(f) for f in firsts)])
        return Lanes(offsets, align, low, high, groups)

    @property
    def known(self) -> bool:
        return self.offsets is not None

    @property
    def value(self) -> int | None:
        """The constant that every lane holds, if there is one."""
        return self.low if self.offsets == ZERO and self.low is not None and self.low == self.high else None


VARYING = Lanes()
UNIFORM = Lanes(ZERO)


def constant(value: int) -> Lanes:
    return Lanes(ZERO, trailing_zeros(value), value, value)


def trailing_zeros(value: int) -> int:
    return EXACT if value == 0 else (value & -value).bit_length() - 1


def wrap(value: int, bits: int) -> int:
    """value modulo 2^bits as a signed number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def common(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """Both patterns in the fewest groups in which their offsets agree; VARYING where they never do."""
    if a.known and b.known:
        for groups in (1, 2, 4):
            if groups >= max(a.groups, b.groups):
                p, q = a.regrouped(groups), b.regrouped(groups)
                if p.offsets == q.offsets:
                    return p, q
    return VARYING, VARYING
