"""Shared memory: bank conflicts, bounds, and the inline part of the race shadow."""

from __future__ import annotations

from collections.abc import Sequence

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import shadow
from ptxsim.codegen.access import (
    Access,
    either,
    finish,
    gather_scatter,
    is_signal,
    pattern_of,
    scalar_base,
    stored_values,
    vector_address,
)
from ptxsim.codegen.emit import ALL_LANES, WARP, Value, constant
from ptxsim.codegen.shapes import Shape, load_shape, shape_of, store_shape
from ptxsim.codegen.signals import READS, WRITES, signal
from ptxsim.codegen.translator import Translator


def shared_base(t: Translator) -> Value:
    return t.b.convert("ptrtoint", t.field("shared", "ptr"), "i64")


def general_shared(
    t: Translator, a: Access, offset: Value, values: list[Value] | None, mask: Value, cell: int | None
) -> list[Value]:
    b, o = t.b, t.unit.options
    if o.check or cell is not None:
        counter = t.counter_pointer(cell) if cell is not None else Value("ptr", "null")
        mask = b.call(
            t.unit.access("shared"), "i32", Value("ptr", "%w"), Value("ptr", "%c"), offset, mask,
             constant("i32", a.bytes_), constant("i32", a.site), constant("i32", a.kind), counter,
            constant("i32", int(o.check)),
        )  # fmt: skip
    address = b.add(b.resize(offset, "i64"), b.splat(shared_base(t)))
    results = gather_scatter(t, a, address, values, mask)
    if is_signal(a.instruction, a.space):
        signal(t, address, mask, READS if a.is_load else WRITES, a.instruction)
    return results


def conflict_cell(t: Translator, a: Access) -> int | None:
    """Counters for wavefronts and bank conflicts of a site."""
    if not t.unit.options.count:
        return None
    cell = t.unit.plan.cell(2)
    verb = "load" if a.is_load else "store"
    t.unit.plan.named(cell, f"shared_{verb}_wavefronts", a.instruction.source.line)
    t.unit.plan.named(cell + 1, f"shared_{verb}_bank_conflicts", a.instruction.source.line)
    return cell


def counted_requests(t: Translator, a: Access, offset: Value, mask: Value) -> int | None:
    """Counters that `general_shared` shall fill; None where the machine code asks for something else, counted here."""
    requests = t.unit.shared_requests.get(id(a.instruction))
    if requests is None:
        return conflict_cell(t, a)
    cell = conflict_cell(t, a) if requests else None
    if cell is not None:
        for r in requests:
            _count_lanes(t, t.b.add_const(offset, r.shift), mask, r.nbytes, cell)
    return None


def _count_lanes(t: Translator, offset: Value, mask: Value, bytes_: int, cell: int) -> None:
    t.b.call("ws_count_shared", "void", offset, mask, constant("i32", bytes_), t.counter_pointer(cell))


def translate_shared(t: Translator, a: Access) -> None:
    values = stored_values(t, a)
    if t.masked:
        offset = vector_address(t, a, "i32")
        mask: Value = t.mask_bits  # type: ignore[attr-defined]
        cell = counted_requests(t, a, offset, mask)
        return finish(t, a, general_shared(t, a, offset, values, mask, cell), Lanes())
    pattern = pattern_of(t, a)
    offsets = pattern.offsets if pattern.scalar else None
    shape = shape_of(offsets, a.bytes_) if offsets is not None else None
    if offsets is None or shape is None or a.lane_by_lane or not (a.is_load or shape.distinct == WARP):
        offset = vector_address(t, a, "i32")
        cell = counted_requests(t, a, offset, ALL_LANES)
        return finish(t, a, general_shared(t, a, offset, values, ALL_LANES, cell), Lanes())
    _shared_pattern(t, a, offsets, shape, values)


def bank_conflicts(offsets: Sequence[int], bytes_: int) -> tuple[int, int]:
    """(wavefronts, conflicts) of one request of a full warp: 32 lanes a phase, 16 for 8 bytes, 8 for 16 bytes.

    Wide accesses take twice as many lanes a phase where every lane i wants the address of lane i^1, or every one that
    of i^2 (measured on an H200, benchmarks/fidelity.py).
    """
    unit = max(4, bytes_)
    side_by_side = 128 // unit
    paired = any(all(offsets[n] == offsets[n ^ distance] for n in range(WARP)) for distance in (1, 2))
    per_phase = min(WARP, side_by_side * (2 if paired else 1))
    wavefronts = phases = 0
    for first in range(0, WARP, per_phase):
        banks: dict[int, set[int]] = {}
        for o in offsets[first : first + per_phase]:
            banks.setdefault(o // unit % side_by_side, set()).add(o // unit)
        wavefronts += max(len(words) for words in banks.values())
        phases += 1
    return wavefronts, wavefronts - phases


def _shared_pattern(
    t: Translator, a: Access, offsets: tuple[int, ...], shape: Shape, values: list[Value] | None
) -> None:
    b, o = t.b, t.unit.options
    base = scalar_base(t, a, "i32")

    def vector_offset() -> Value:
        return b.add_const(t.widen(base, Lanes(offsets)), a.address.offset)

    requests = t.unit.shared_requests.get(id(a.instruction))
    for bytes_ in [a.bytes_] if requests is None else [r.nbytes for r in requests]:
        if bytes_ >= 4:  # a shift of the base turns the banks but keeps the conflicts
            wavefronts, conflicts = bank_conflicts(offsets, bytes_)
            verb, line = "load" if a.is_load else "store", a.instruction.source.line
            t.count(f"shared_{verb}_wavefronts", line, per_warp=wavefronts)
            t.count(f"shared_{verb}_bank_conflicts", line, per_warp=conflicts)
        elif (cell := conflict_cell(t, a)) is not None:
            _count_lanes(t, vector_offset(), ALL_LANES, bytes_, cell)

    def host_address() -> Value:
        # the register may hold a negative number that the instruction's offset makes good
        return b.add_const(b.add(b.resize(base, "i64", signed=True), shared_base(t)), a.address.offset)

    def fast() -> list[Value]:
        if a.is_load:
            return load_shape(t, a, shape, host_address())
        assert values is not None
        store_shape(t, a, shape, host_address(), values)
        return []

    def slow() -> list[Value]:
        results = general_shared(t, a, vector_offset(), values, ALL_LANES, None)
        return [b.extract(r, 0) for r in results] if shape.distinct == 1 else results

    own = Lanes((0,) * WARP) if shape.distinct == 1 else Lanes()
    if not o.check:
        return finish(t, a, fast(), own)
    passed = shadow.reads_pass(t, a, base, offsets) if a.is_load else shadow.write_passes(t, a, base, offsets)
    finish(t, a, either(t, a, [passed], fast, slow), own)
