"""How many sectors of global memory an access touches: code that counts them, without a look at each lane."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

from ptxsim.codegen.emit import Value, constant, constants
from ptxsim.codegen.translator import Translator

SECTOR_BYTES = 32


def pattern_sectors(t: Translator, lane0: Value, offsets: tuple[int, ...], bytes_: int) -> Value:
    """Number of 32-byte sectors that a pattern touches, which depends on the base modulo 32 alone."""
    b = t.b
    unique = sorted(set(offsets))
    if all(q - p <= 32 for p, q in pairwise(unique)):  # no sector is skipped
        first = b.lshr(b.add_const(lane0, unique[0]), 5)
        last = b.lshr(b.add_const(lane0, unique[-1] + bytes_ - 1), 5)
        return b.add_const(b.sub(last, first), 1)
    table = [len({(r * bytes_ + u) // 32 for u in unique}) for r in range(max(1, 32 // bytes_))]
    if len(set(table)) == 1:
        return constant("i64", table[0])
    index = b.lshr(b.and_const(lane0, 31), bytes_.bit_length() - 1)
    return b.extract(constants("i64", table), index)


def count_places(t: Translator, cell: int, firsts: list[Value]) -> None:
    """Sectors and ideal sectors of a few places, each aligned and all together no larger than one sector."""
    b, found = t.b, constant("i64", 1)
    sectors = [b.lshr(f, 5) for f in firsts]
    for k in range(1, len(sectors)):
        other = reduce(b.and_, [b.icmp("ne", sectors[k], before) for before in sectors[:k]])
        found = b.add(found, b.resize(other, "i64"))
    t.bump(cell, found)
    t.bump(cell + 1, constant("i64", 1))


def count_intervals(t: Translator, cell: int, firsts: list[Value], ends: list[Value]) -> None:
    """Sectors and ideal sectors of two byte intervals that may overlap."""
    b = t.b

    def union(lows: list[Value], highs: list[Value]) -> Value:
        total = b.add(b.sub(highs[0], lows[0]), b.sub(highs[1], lows[1]))
        overlap = b.sub(b.intrinsic("umin", *highs), b.intrinsic("umax", *lows))
        return b.sub(total, b.intrinsic("smax", overlap, constant("i64", 0)))

    starts = [b.lshr(f, 5) for f in firsts]
    stops = [b.lshr(b.add_const(e, 31), 5) for e in ends]
    t.bump(cell, union(starts, stops))
    t.bump(cell + 1, b.lshr(b.add_const(union(firsts, ends), 31), 5))
