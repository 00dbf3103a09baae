"""Lane patterns of addresses as a few wide accesses and shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptxsim.codegen.access import HALF, Access
from ptxsim.codegen.emit import Value
from ptxsim.codegen.translator import Translator

MOST_PIECES = 8
"""A pattern in more pieces than this is gathered."""


@dataclass(frozen=True)
class Shape:
    """A pattern as runs of adjacent accesses: (first offset, number of accesses) over the distinct offsets."""

    runs: tuple[tuple[int, int], ...]
    place: tuple[int, ...]
    """lane -> index among the distinct offsets"""
    shared_by: tuple[int, ...]
    """distinct offset -> number of lanes that use it"""

    @property
    def distinct(self) -> int:
        return len(self.shared_by)


def shape_of(offsets: Sequence[int], bytes_: int) -> Shape | None:
    """The shape, or None if it has too many pieces."""
    unique = sorted(set(offsets))
    runs: list[tuple[int, int]] = []
    for u in unique:
        if runs and u == runs[-1][0] + runs[-1][1] * bytes_:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        elif runs and u < runs[-1][0] + runs[-1][1] * bytes_:
            return None  # overlapping accesses
        else:
            runs.append((u, 1))
    if len(runs) > MOST_PIECES:
        return None
    index = {u: k for k, u in enumerate(unique)}
    counts = [0] * len(unique)
    for o in offsets:
        counts[index[o]] += 1
    return Shape(tuple(runs), tuple(index[o] for o in offsets), tuple(counts))


def load_shape(t: Translator, a: Access, shape: Shape, base: Value) -> list[Value]:
    """One value per element register; scalars where all lanes read one address. `base` is lane 0's full address
    (i64)."""
    b, parts = t.b, len(a.registers)
    if shape.distinct == 1:
        only = b.add_const(base, shape.runs[0][0])
        return [b.load(a.element, b.pointer(b.add_const(only, k * a.element_bytes))) for k in range(parts)]
    halves = _halves(shape)
    pieces: list[list[Value]] = [[] for _ in range(parts)]
    for start, count in shape.runs:
        pointer = b.pointer(b.add_const(base, start))
        if count == 1:
            singles = [b.load(a.element, b.offset(pointer, k * a.element_bytes)) for k in range(parts)]
            for k, single in enumerate(singles):
                pieces[k].append(b.splat(single, HALF) if halves else _one_lane(t, single))
            continue
        big = b.load(a.element, pointer, count * parts)
        for k in range(parts):
            pieces[k].append(big if parts == 1 else b.shuffle(big, [n * parts + k for n in range(count)]))
    if halves:  # each half warp is one run or one value: no permutation needed
        return [b.concat([p[h] for h in halves]) for p in pieces]
    return [b.shuffle(b.concat(p), shape.place) for p in pieces]


def _one_lane(t: Translator, x: Value) -> Value:
    return t.b.let(x.type, 1, f"insertelement <1 x {x.type}> poison, {x}, i32 0")


def _halves(shape: Shape) -> tuple[int, ...] | None:
    """The run that each half warp reads, if each reads exactly one: 16 neighbours in order, or a single place."""
    starts, found = [], 0
    for _, count in shape.runs:
        starts.append((found, count))
        found += count
    chosen = []
    for h in range(0, len(shape.place), HALF):
        places = shape.place[h : h + HALF]
        run = next(k for k, (first, count) in enumerate(starts) if first <= places[0] < first + count)
        first, count = starts[run]
        one = count == 1 and set(places) == {first}
        ramp = count == HALF and list(places) == list(range(first, first + HALF))
        if len(places) < HALF or not (one or ramp):
            return None
        chosen.append(run)
    return tuple(chosen)


def store_shape(t: Translator, a: Access, shape: Shape, base: Value, values: list[Value]) -> None:
    """Stores distinct addresses, run by run; `values` have one lane per entry of `shape.place`."""
    b, parts = t.b, len(values)
    width = len(shape.place)
    lane_at = [0] * width
    for lane, index in enumerate(shape.place):
        lane_at[index] = lane
    done = 0
    joined = values[0] if parts == 1 else b.concat(values)
    for start, count in shape.runs:
        lanes = lane_at[done : done + count]
        done += count
        big = b.shuffle(joined, [part * width + lane for lane in lanes for part in range(parts)])
        b.store(big, b.pointer(b.add_const(base, start)), align=a.element_bytes)
