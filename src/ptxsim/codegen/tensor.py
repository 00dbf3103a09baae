"""Matrix instructions: `wmma`, `mma`, `ldmatrix`, `stmatrix`, `movmatrix` (PTX ISA 9.7.14).

A product works on matrices in memory: registers are stored, put in order by a fragment's table, widened, multiplied by
outer products, and read back. The functions that do this come from `tensor_products` and `tensor_moves`; they are
compiled once per process and kept in the disk cache. Here is only which of them an instruction calls. All of it needs
the whole warp: where lanes are missing, the instruction is a hazard and gives zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.access import MemoryAccess, from_window, low_offset, report_access, shared_offsets, space_of
from ptxsim.codegen.emit import ALL_LANES, CONTEXT, NULL, WARP, WORKER, IRValue, constant, constants, tell_async
from ptxsim.codegen.full import Full
from ptxsim.codegen.masked import Masked
from ptxsim.codegen.register_lists import put_registers, take_registers
from ptxsim.codegen.tensor_frames import Group
from ptxsim.codegen.tensor_moves import ROW_BYTES, Mode, move_rows, move_tile, turned_matrix
from ptxsim.codegen.tensor_products import (
    NARROW,
    WIDE,
    MatrixForm,
    Registers,
    accumulator_form,
    across,
    input_form,
    memory_form,
    pack,
    product as product_function,
    unpack,
    widen,
)
from ptxsim.codegen.values import handles
from ptxsim.syntax.matrices import Product, Tile, product, tile
from ptxsim.syntax.program import Address, Immediate, Instruction, Operand, Register, Vector

Either = Full | Masked
"""The function in which an instruction stands."""
_PIECE = 16
"""Bytes, the granules in which asynchronous engines are followed."""
_USUAL = 32
"""Bits of nearly all registers that hold parts of matrices."""


@handles("wmma", "mma")
def _translate(t: Either, i: Instruction) -> None:
    """Any matrix instruction."""
    (_load if i.has("load") else _store if i.has("store") else _product)(t, i)


# ---------------------------------------------------------------- the whole warp


def hazard(t: Either, i: Instruction, lane: IRValue, what: int) -> None:
    t.hazard(L.WARP_MATRIX, t.unit.site(i, "warp", "read"), lane, what)


@contextmanager
def whole_warp(t: Either, i: Instruction) -> Iterator[None]:
    """Code for the case that all 32 lanes are here; else the instruction is a hazard.

    What the code computes must stay in memory: values do not leave it.
    """
    if not t.masked:
        yield
        return
    mask = t.active
    whole, missing, end = t.new_label("whole"), t.new_label("missing"), t.new_label("either")
    t.branch(t.icmp("eq", mask, ALL_LANES), whole, missing, then=missing)
    if t.unit.options.check:
        hazard(t, i, t.first_bit(mask), L.MISSING_LANES)
    t.br(end, then=whole)
    known = dict(t.known)
    yield
    t.known = known  # what was loaded on this path is not there on the other
    t.br(end, then=end)


def uniform(t: Either, i: Instruction, operand: Operand, type_: str) -> IRValue:
    """An operand that must be the same in all lanes; that it is not is a hazard, and lane 0's is taken."""
    if not isinstance(operand, Register) or (not t.masked and t.pattern(operand.name).uniform):
        return t.source(operand, type_, 0)
    values = t.source(operand, type_, WARP)
    first = t.extract(values, 0)
    if t.unit.options.check:
        bits = t.mask_bits(t.icmp("ne", values, t.splat(first)))
        if t.masked:
            bits = t.and_(bits, t.active)
            bits = t.select(t.icmp("eq", t.active, ALL_LANES), bits, t.like(bits, 0))
        with t.if_(t.icmp("ne", bits, t.like(bits, 0)), likely=False):
            hazard(t, i, t.first_bit(bits), L.UNLIKE_OPERANDS)
    return first


# ---------------------------------------------------------------- registers and matrices


def registers_of(operand: Operand) -> tuple[Operand, ...]:
    assert isinstance(operand, Vector)
    return operand.elements


def save_lanes(t: Either, registers: tuple[Operand, ...], bits: int, area: IRValue) -> None:
    """Stores registers one after the other."""
    places = t.places_of(registers) if bits == _USUAL else None
    if places is not None:
        where, canonical = places
        t.call_library(take_registers(canonical=canonical), CONTEXT, where, constant("i64", len(registers)), area)
        return
    for k, register in enumerate(registers):
        t.store(t.source(register, f"b{bits}", WARP), t.offset(area, k * WARP * bits // 8), align=64)


def clear_lanes(t: Either, registers: tuple[Operand, ...], bits: int, area: IRValue) -> None:
    """Zeros in their place."""
    nbytes = len(registers) * WARP * bits // 8
    t.call("llvm.memset.p0.i64", "void", area, constant("i8", 0), constant("i64", nbytes), IRValue("i1", "false"))


def restore_lanes(t: Either, registers: tuple[Operand, ...], bits: int, area: IRValue) -> None:
    """Reads registers that lie one after the other."""
    places = t.places_of(registers) if bits == _USUAL else None
    if places is not None:
        t.call_library(put_registers(), CONTEXT, t.active, places[0], constant("i64", len(registers)), area)
        return
    for k, register in enumerate(registers):
        t.write(register, t.load(f"i{bits}", t.offset(area, k * WARP * bits // 8), WARP, align=64), Lanes())


def matrix_in_memory(t: Either, operand: Operand, form: MatrixForm, area: str) -> IRValue:
    """The matrix that registers hold, in memory."""
    frame = t.frames.find(operand, form)
    if frame is not None:
        return t.frames.current(frame)
    lanes, matrix = t.area("lanes", form.lane_bytes), t.area(area, form.nbytes)
    save_lanes(t, registers_of(operand), form.held.register_bits, lanes)
    t.call_library(pack(form), lanes, matrix)
    return matrix


def matrix_target(t: Either, operand: Operand, form: MatrixForm, area: str) -> IRValue:
    """Where a result is written as a matrix."""
    frame = t.frames.find(operand, form)
    return t.area(area, form.nbytes) if frame is None else t.frames.at(frame)


def to_registers(t: Either, operand: Operand, form: MatrixForm, matrix: IRValue) -> None:
    """A matrix has been written to its target: spreads it over registers, unless they are kept as a matrix.

    Where the warp is not whole, the registers become 0.
    """
    frame = t.frames.find(operand, form)
    if frame is not None:
        return t.frames.written(frame)
    lanes = t.area("lanes", form.lane_bytes)
    registers, bits = registers_of(operand), form.held.register_bits
    if t.masked:
        clear_lanes(t, registers, bits, lanes)
    with t.if_(t.icmp("eq", t.active, ALL_LANES)) if t.masked else nullcontext():
        t.call_library(unpack(form), matrix, lanes)
    restore_lanes(t, registers, bits, lanes)


# ---------------------------------------------------------------- products


def _product(t: Either, i: Instruction) -> None:
    p = product(i)
    _count_product(t, i, p)
    to, *sources = i.operands
    inputs = {name: _input(t, p, name, operand) for name, operand in zip("ab", sources, strict=False)}
    vectors, single = ("a", "b") if across(p) == "m" else ("b", "a")
    ready = inputs[vectors], inputs[single]
    if t.position in t.products:
        return _together(t, t.products[t.position], ready)
    start = matrix_in_memory(t, sources[2], accumulator_form(p, "c"), "c")
    form = accumulator_form(p, "d")
    result = matrix_target(t, to, form, "d")
    function = product_function(p, _registers(t), tensor_sums=t.unit.options.tensor_sums)
    with whole_warp(t, i):
        if p.quarters:
            _quarters(t, p, function, *ready, start, result)
        else:
            t.call_library(function, *ready, start, result)
    to_registers(t, to, form, result)


def _registers(t: Either) -> Registers:
    return WIDE if t.unit.wide_vectors else NARROW


def _together(t: Either, group: Group, ready: tuple[IRValue, IRValue]) -> None:
    """A product of a group: the last one computes all of them."""
    t.scratch["product", t.position] = ready
    if t.position != group.last:
        return
    a, chains = group.arrangement, group.chains
    inputs = [[t.scratch["product", chain[step].position] for chain in chains] for step in range(a.deep)]
    vectors = [x[0] for step in inputs for x in step[: a.side]]
    single = [x[1] for step in inputs for x in step[: a.stacked]]
    starts = [t.frames.current(t.frames.lists[chain[0].c]) for chain in chains]
    results = [t.frames.lists[chain[-1].d] for chain in chains]
    function = product_function(chains[0][0].product, _registers(t), a, t.unit.options.tensor_sums)
    t.call_library(function, *vectors, *single, *starts, *map(t.frames.at, results))
    for m in group.members:
        t.frames.written(t.frames.lists[m.d])


def _quarters(
    t: Either, p: Product, function: tuple[str, str], vectors: IRValue, single: IRValue, start: IRValue, result: IRValue
) -> None:
    """Four products of 8 x 8 x 4: B's columns lie in vectors, all quarters' side by side."""
    size = {"f16": 2, "f32": 4}
    for q in range(4):
        mine = t.area("quarter", 4 * 4 * 8)
        for k in range(4):
            t.store(t.load("float", t.offset(vectors, 4 * (32 * k + 8 * q)), 8), t.offset(mine, 32 * k))
        place = [t.offset(x, 64 * q * size[type_]) for x, type_ in ((start, p.c), (result, p.d))]
        t.call_library(function, mine, t.offset(single, 4 * 32 * q), *place)


def _input(t: Either, p: Product, name: str, operand: Operand) -> IRValue:
    """A or B as the product takes it; made once per block as long as its registers stay the same."""
    form = input_form(p, name)
    frame = t.frames.find(operand, form)
    if frame is not None and frame.wide:
        return matrix_target(t, operand, form, "")
    widening = widen(form, p, name)
    registers = registers_of(operand)
    versions = tuple((str(r), t.versions.get(r.name, 0) if isinstance(r, Register) else 0) for r in registers)
    key = ("matrix", form.name, widening and widening[0], versions)
    if key not in t.scratch:
        label = f"{name} {len([k for k in t.scratch if isinstance(k, tuple) and k[0] == 'matrix'])}"
        matrix = matrix_in_memory(t, operand, form, f"matrix {label}")
        if widening is not None:
            wide = t.area(f"wide {label}", 4 * form.elements)
            t.call_library(widening, matrix, wide)
            matrix = wide
        t.scratch[key] = matrix
    return t.scratch[key]


def _count_product(t: Either, i: Instruction, p: Product) -> None:
    line = i.source.line
    t.count("tensor_instructions", line, per_warp=1)
    t.count("tensor_pipe_instructions", line, per_warp=p.pipe_instructions)
    t.count("tensor_operations", line, per_warp=p.operations)
    if t.unit.copies_async and (cell := t.cells(line, "tensor_instructions_copying")) is not None:
        t.bump(cell, t.call("ws_async_under_way", "i64", WORKER, CONTEXT))


# ---------------------------------------------------------------- wmma.load, wmma.store


def _load(t: Either, i: Instruction) -> None:
    form = memory_form(tile(i).fragment)
    matrix = matrix_target(t, i.operands[0], form, "matrix")
    _move(t, i, i.operands[1], form, matrix, is_load=True)
    to_registers(t, i.operands[0], form, matrix)


def _store(t: Either, i: Instruction) -> None:
    form = memory_form(tile(i).fragment)
    _move(t, i, i.operands[0], form, matrix_in_memory(t, i.operands[1], form, "matrix"), is_load=False)


def _move(t: Either, i: Instruction, where: Operand, form: MatrixForm, matrix: IRValue, *, is_load: bool) -> None:
    """Memory to matrix or back."""
    assert isinstance(where, Address)
    moved = tile(i)
    address = t.displaced(t.resize(uniform(t, i, where.base, "u64"), "i64"), where.offset)
    stride = constant("i64", moved.line_bytes)
    if len(i.operands) == 3:
        elements = t.resize(uniform(t, i, i.operands[2], "u32"), "i64")
        stride = t.lshr(t.mul(elements, t.like(elements, form.held.bits)), 3)
    space = space_of(t.unit, i, where)
    booked = "global" if space in ("generic", "const", "local") else space
    verb = "load" if is_load else "store"
    requests = moved.requests(booked == "shared")
    t.count(f"{booked}_{verb}_requests", i.source.line, per_warp=sum(r.opens for r in requests))
    t.count(f"{booked}_{verb}_bytes", i.source.line, per_lane=sum(r.size for r in requests))
    site = t.site_number(t.unit.site(i, booked, "read" if is_load else "write"))
    frame = t.frames.find(i.operands[0], form) if is_load else None
    wide = frame is not None and frame.wide

    def go(place: str) -> None:
        at = address
        if place == "shared":
            inner = from_window(t, i, address, L.SHARED_WINDOW)
            low = low_offset(t, inner) if t.unit.options.check else t.resize(inner, "i32")
            at = t.resize(low, "i64", signed=True)
            _report_lines(t, moved, low, stride, site, L.READ if is_load else L.WRITE)
        counter = _counter(t, i, place, verb)
        streams = not is_load and place == "global" and not t.unit.reads_sums
        function = move_tile(moved, form, replace(tile_mode(t, place), streams=streams), is_load, wide)
        t.call_library(function, WORKER, CONTEXT, at, stride, matrix, site, counter)

    with whole_warp(t, i):
        if space != "generic":
            go(booked)
            return
        in_shared = t.icmp("eq", t.lshr(address, 56), constant("i64", L.SHARED_WINDOW >> 56))
        with t.if_(in_shared):
            go("shared")
        with t.if_(t.not_(in_shared)):
            go("global")


def _report_lines(t: Either, moved: Tile, low: IRValue, stride: IRValue, site: IRValue, kind: int) -> None:
    """Tells who follows the asynchronous engines of a fragment in shared memory, 16 bytes a lane."""
    if not t.unit.followed:
        return
    piece = min(moved.line_bytes, _PIECE)
    places = [(line, at) for line in range(moved.lines) for at in range(0, moved.line_bytes, piece)]
    step = t.resize(stride, "i32")
    for first in range(0, len(places), WARP):
        some = places[first : first + WARP]
        some += [some[-1]] * (WARP - len(some))
        lines, ats = (constants("i32", [place[k] for place in some]) for k in range(2))
        offsets = t.add(t.add(t.splat(low), t.mul(t.splat(step), lines)), ats)
        words = constant("i64", piece), constant("i64", kind)
        tell_async(t, L.AsyncEvent.ACCESS, t.warp_index(), t.active, site, *words, lanes=offsets)


def tile_mode(t: Either, space: str) -> Mode:
    o = t.unit.options
    granule = t.unit.shared_granule_log2 if space == "shared" else t.unit.global_granule_log2
    return Mode(space, o.check, o.count, granule, o.exact)


def _counter(t: Either, i: Instruction, space: str, verb: str) -> IRValue:
    """Cells for sectors, or for wavefronts and bank conflicts."""
    names = ("wavefronts", "bank_conflicts") if space == "shared" else ("sectors", "sectors_ideal")
    cell = t.cells(i.source.line, *(f"{space}_{verb}_{name}" for name in names))
    return NULL if cell is None else t.counter_pointer(cell)


@handles("movmatrix")
def _transpose(t: Either, i: Instruction) -> None:
    lanes = t.area("lanes", 4 * WARP)
    source, target = t.area("row 0", 4 * WARP), (i.operands[0],)
    save_lanes(t, (i.operands[1],), 32, source)
    if t.masked:
        clear_lanes(t, target, 32, lanes)
    with whole_warp(t, i):
        t.store(turned_matrix(t, t.load("i32", source, WARP, align=64)), lanes, align=64)
    restore_lanes(t, target, 32, lanes)


@handles("ldmatrix", "stmatrix")
def _move_rows(t: Either, i: Instruction) -> None:
    is_load = i.opcode == "ldmatrix"
    where, what = (i.operands[1], i.operands[0]) if is_load else i.operands
    assert isinstance(where, Address)
    registers: tuple[Operand, ...] = registers_of(what)
    count, line = len(registers), i.source.line
    verb = "load" if is_load else "store"
    site = t.unit.site(i, "shared", "read" if is_load else "write")
    access = MemoryAccess(i, "shared", is_load, where, (Immediate(1),), ROW_BYTES, site)
    offset = shared_offsets(t, access)
    report_access(t, access, offset, t.and_(t.active, constant("i32", 0xFFFFFFFF >> 32 - 8 * count)))
    t.count(f"shared_{verb}_requests", line, per_warp=1)
    t.count(f"shared_{verb}_bytes", line, per_lane=4 * count)
    counter = _counter(t, i, "shared", verb)
    lanes = t.area("lanes", 4 * WARP * count)
    if not is_load:
        save_lanes(t, registers, 32, lanes)
    elif t.masked:
        clear_lanes(t, registers, 32, lanes)
    function = move_rows(count, i.has("trans"), tile_mode(t, "shared"), is_load)
    with whole_warp(t, i):
        t.call_library(function, WORKER, CONTEXT, offset, lanes, t.site_number(site), counter)
    if is_load:
        restore_lanes(t, registers, 32, lanes)
