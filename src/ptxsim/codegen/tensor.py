"""Matrix instructions: `wmma`, `mma`, `ldmatrix`, `stmatrix`, `movmatrix` (PTX ISA 9.7.14).

A product works on matrices in memory: registers are stored, put in order by a fragment's table, widened, multiplied by
outer products, and read back. The functions that do this come from `tensor_products` and `tensor_moves`; they are
compiled once per process and kept in the disk cache. Here is only which of them an instruction calls. All of it needs
the whole warp: where lanes are missing, the instruction is a hazard and gives zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.access import Access, inferred_space, vector_address
from ptxsim.codegen.emit import ALL_LANES, WARP, Value, constant
from ptxsim.codegen.full import Full
from ptxsim.codegen.functions import CONTEXT, NULL, WORKER
from ptxsim.codegen.tensor_frames import Group
from ptxsim.codegen.tensor_moves import ROW_BYTES, Mode, load_tile, move_rows, store_tile, turned_matrix
from ptxsim.codegen.tensor_products import (
    NARROW,
    WIDE,
    Form,
    Frame,
    Registers,
    accumulator_form,
    across,
    input_form,
    memory_form,
    pack,
    unpack,
    widen,
    widened_bytes,
)
from ptxsim.codegen.tensor_products import product as product_function
from ptxsim.codegen.translator import Translator
from ptxsim.codegen.values import handles
from ptxsim.syntax.matrices import Product, product, tile
from ptxsim.syntax.program import Address, Instruction, Operand, Register, Vector

MISSING_LANES, UNLIKE_OPERANDS = 0, 1
"""What a WARP_MATRIX hazard says, in its state."""


@handles("wmma", "mma")
def _translate(t: Translator, i: Instruction) -> None:
    """Any matrix instruction."""
    if i.has("load"):
        _load(t, i)
    elif i.has("store"):
        _store(t, i)
    else:
        _product(t, i)


# ---------------------------------------------------------------- the whole warp


def hazard(t: Translator, i: Instruction, lane: Value, what: int) -> None:
    site = t.unit.site(i, "warp", "read")
    t.b.call(
        "ws_hazard", "void", WORKER, CONTEXT, constant("i32", L.WARP_MATRIX), constant("i32", site), lane,
        constant("i64", 0), constant("i64", what),
    )  # fmt: skip


@contextmanager
def whole_warp(t: Translator, i: Instruction) -> Iterator[None]:
    """Code for the case that all 32 lanes are here; else the instruction is a hazard.

    What the code computes must stay in memory: values do not leave it.
    """
    if not t.masked:
        yield
        return
    b, mask = t.b, t.active
    whole, missing, end = b.new_label("whole"), b.new_label("missing"), b.new_label("either")
    b.branch(b.icmp("eq", mask, ALL_LANES), whole, missing)
    b.label(missing)
    if t.unit.options.check:
        absent = b.first_bit(mask)
        hazard(t, i, absent, MISSING_LANES)
    b.br(end)
    b.label(whole)
    yield
    b.br(end)
    b.label(end)


def uniform(t: Translator, i: Instruction, operand: Operand, type_: str) -> Value:
    """An operand that must be the same in all lanes; that it is not is a hazard, and lane 0's is taken."""
    b = t.b
    if not isinstance(operand, Register) or (not t.masked and t.pattern(operand.name).uniform):
        return t.source(operand, type_, 0)
    values = t.source(operand, type_, WARP)
    first = b.extract(values, 0)
    if t.unit.options.check:
        differs = b.icmp("ne", values, b.splat(first))
        bits = b.mask_bits(differs)
        if t.masked:
            bits = b.and_(bits, t.active)
            whole = b.icmp("eq", t.active, ALL_LANES)
            bits = b.select(whole, bits, b.like(bits, 0))
        with b.if_(b.icmp("ne", bits, b.like(bits, 0)), likely=False):
            hazard(t, i, b.first_bit(bits), UNLIKE_OPERANDS)
    return first


# ---------------------------------------------------------------- registers and matrices


def registers_of(operand: Operand) -> tuple[Operand, ...]:
    assert isinstance(operand, Vector)
    return operand.elements


def save_lanes(t: Translator, registers: tuple[Operand, ...], bits: int, area: Value) -> None:
    """Stores registers one after the other."""
    for k, register in enumerate(registers):
        value = t.source(register, f"b{bits}", WARP)
        t.b.store(value, t.b.offset(area, k * WARP * bits // 8), align=64)


def clear_lanes(t: Translator, registers: tuple[Operand, ...], bits: int, area: Value) -> None:
    """Zeros in their place."""
    for k in range(len(registers)):
        t.b.store(constant(f"i{bits}", 0, WARP), t.b.offset(area, k * WARP * bits // 8), align=64)


def restore_lanes(t: Translator, registers: tuple[Operand, ...], bits: int, area: Value) -> None:
    """Reads registers that lie one after the other."""
    for k, register in enumerate(registers):
        t.write(register, t.b.load(f"i{bits}", t.b.offset(area, k * WARP * bits // 8), WARP, align=64), Lanes())


def resident(t: Translator, operand: Operand, form: Form) -> Frame | None:
    """The frame in which an operand is kept as a matrix, if it is."""
    return t.frames.find(operand, form) if isinstance(t, Full) else None


def _matrix(t: Translator, operand: Operand, form: Form, area: str) -> Value:
    """The matrix that registers hold, in memory."""
    frame = resident(t, operand, form)
    if frame is not None:
        assert isinstance(t, Full)
        return t.frames.current(frame)
    lanes, matrix = t.area("lanes", form.lane_bytes), t.area(area, form.nbytes)
    save_lanes(t, registers_of(operand), form.held.register_bits, lanes)
    t.call_library(pack(form), lanes, matrix)
    return matrix


def _target(t: Translator, operand: Operand, form: Form, area: str) -> Value:
    """Where a result is written as a matrix."""
    frame = resident(t, operand, form)
    if frame is not None:
        assert isinstance(t, Full)
        return t.frames.at(frame)
    return t.area(area, form.nbytes)


def _to_registers(t: Translator, operand: Operand, form: Form, matrix: Value) -> None:
    """A matrix has been written to its target: spreads it over registers, unless they are kept as a matrix.

    Where the warp is not whole, the registers become 0.
    """
    frame = resident(t, operand, form)
    if frame is not None:
        assert isinstance(t, Full)
        t.frames.written(frame)
        return
    lanes = t.area("lanes", form.lane_bytes)
    registers, bits = registers_of(operand), form.held.register_bits
    if t.masked:
        clear_lanes(t, registers, bits, lanes)
        b, whole = t.b, t.b.icmp("eq", t.active, ALL_LANES)
        with b.if_(whole):
            t.call_library(unpack(form), matrix, lanes)
    else:
        t.call_library(unpack(form), matrix, lanes)
    restore_lanes(t, registers, bits, lanes)


# ---------------------------------------------------------------- products


def _product(t: Translator, i: Instruction) -> None:
    p = product(i)
    _count_product(t, i, p)
    to, *sources = i.operands
    inputs = {name: _input(t, p, name, operand) for name, operand in zip("ab", sources, strict=False)}
    vectors, single = ("a", "b") if across(p) == "m" else ("b", "a")
    ready = inputs[vectors], inputs[single]
    if isinstance(t, Full) and t.position in t.products:
        _together(t, t.products[t.position], ready)
        return
    start = _matrix(t, sources[2], accumulator_form(p, "c"), "c")
    form = accumulator_form(p, "d")
    result = _target(t, to, form, "d")
    function = product_function(p, _registers(t))
    with whole_warp(t, i):
        if p.quarters:
            _quarters(t, p, function, *ready, start, result)
        else:
            t.call_library(function, *ready, start, result)
    _to_registers(t, to, form, result)


def _registers(t: Translator) -> Registers:
    return WIDE if t.unit.wide_vectors else NARROW


def _together(t: Full, group: Group, ready: tuple[Value, Value]) -> None:
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
    function = product_function(chains[0][0].product, _registers(t), a)
    t.call_library(function, *vectors, *single, *starts, *map(t.frames.at, results))
    for m in group.members:
        t.frames.written(t.frames.lists[m.d])


def _quarters(
    t: Translator, p: Product, function: tuple[str, str], vectors: Value, single: Value, start: Value, result: Value
) -> None:
    """Four products of 8 x 8 x 4: B's columns lie in vectors, all quarters' side by side."""
    b = t.b
    size = {"f16": 2, "f32": 4}
    for q in range(4):
        mine = t.area("quarter", 4 * 4 * 8)
        for k in range(4):
            b.store(b.load("float", b.offset(vectors, 4 * (32 * k + 8 * q)), 8), b.offset(mine, 32 * k))
        place = [b.offset(x, 64 * q * size[type_]) for x, type_ in ((start, p.c), (result, p.d))]
        t.call_library(function, mine, b.offset(single, 4 * 32 * q), *place)


def _input(t: Translator, p: Product, name: str, operand: Operand) -> Value:
    """A or B as the product takes it; made once per block as long as its registers stay the same."""
    form = input_form(p, name)
    frame = resident(t, operand, form)
    if frame is not None and frame.wide:
        return _target(t, operand, form, "")
    widening = widen(form, p, name)
    registers = registers_of(operand)
    versions = tuple((str(r), t.versions.get(r.name, 0) if isinstance(r, Register) else 0) for r in registers)
    key = ("matrix", form.name, widening and widening[0], versions)
    if key not in t.scratch:
        label = f"{name} {len([k for k in t.scratch if isinstance(k, tuple) and k[0] == 'matrix'])}"
        matrix = _matrix(t, operand, form, f"matrix {label}")
        if widening is not None:
            wide = t.area(f"wide {label}", widened_bytes(form))
            t.call_library(widening, matrix, wide)
            matrix = wide
        t.scratch[key] = matrix
    return t.scratch[key]


def _count_product(t: Translator, i: Instruction, p: Product) -> None:
    line = i.source.line
    t.count("tensor_instructions", line, per_warp=1)
    t.count("tensor_pipe_instructions", line, per_warp=p.pipe_instructions)
    t.count("tensor_operations", line, per_warp=p.operations)
    if t.unit.copies_async and t.unit.options.count:
        cell = t.unit.plan.cell()
        t.unit.plan.named(cell, "tensor_instructions_copying", line)
        t.bump(cell, t.b.call("ws_async_under_way", "i64", WORKER, CONTEXT))


# ---------------------------------------------------------------- wmma.load, wmma.store


def _load(t: Translator, i: Instruction) -> None:
    form = memory_form(tile(i).fragment)
    matrix = _target(t, i.operands[0], form, "matrix")
    _move(t, i, i.operands[1], form, matrix, is_load=True)
    _to_registers(t, i.operands[0], form, matrix)


def _store(t: Translator, i: Instruction) -> None:
    form = memory_form(tile(i).fragment)
    matrix = _matrix(t, i.operands[1], form, "matrix")
    _move(t, i, i.operands[0], form, matrix, is_load=False)


def _move(t: Translator, i: Instruction, where: Operand, form: Form, matrix: Value, *, is_load: bool) -> None:
    """Memory to matrix or back."""
    assert isinstance(where, Address)
    b, moved = t.b, tile(i)
    address = b.add_const(b.resize(uniform(t, i, where.base, "u64"), "i64"), where.offset)
    stride = constant("i64", moved.line_bytes)
    if len(i.operands) == 3:
        elements = b.resize(uniform(t, i, i.operands[2], "u32"), "i64")
        stride = b.lshr(b.mul(elements, b.like(elements, form.held.bits)), 3)
    space = inferred_space(t, where) or "generic" if i.space == "generic" else i.space
    booked = "global" if space in ("generic", "const", "local") else space
    verb = "load" if is_load else "store"
    requests = moved.requests(booked == "shared")
    t.count(f"{booked}_{verb}_requests", i.source.line, per_warp=sum(r.opens for r in requests))
    t.count(f"{booked}_{verb}_bytes", i.source.line, per_lane=sum(r.size for r in requests))
    site = constant("i32", t.unit.site(i, booked, "read" if is_load else "write"))
    frame = resident(t, i.operands[0], form) if is_load else None
    wide = frame is not None and frame.wide

    def go(place: str) -> None:
        at = b.resize(b.resize(address, "i32"), "i64", signed=True) if place == "shared" else address
        counter = _counter(t, i, place, verb)
        mode = tile_mode(t, place)
        if is_load:
            function = load_tile(moved, form, mode, wide)
        else:
            streams = place == "global" and not t.unit.reads_sums
            function = store_tile(moved, form, replace(mode, streams=streams))
        t.call_library(function, WORKER, CONTEXT, at, stride, matrix, site, counter)

    with whole_warp(t, i):
        if space != "generic":
            go(booked)
            return
        in_shared = b.icmp("eq", b.lshr(address, 56), constant("i64", L.SHARED_WINDOW >> 56))
        with b.if_(in_shared):
            go("shared")
        with b.if_(b.not_(in_shared)):
            go("global")


def tile_mode(t: Translator, space: str) -> Mode:
    o = t.unit.options
    granule = t.unit.shared_granule_log2 if space == "shared" else t.unit.global_granule_log2
    return Mode(space, o.check, o.count, granule, o.exact)


def _counter(t: Translator, i: Instruction, space: str, verb: str) -> Value:
    """Cells for sectors, or for wavefronts and bank conflicts."""
    if not t.unit.options.count:
        return NULL
    names = ("wavefronts", "bank_conflicts") if space == "shared" else ("sectors", "sectors_ideal")
    cell = t.unit.plan.cell(2)
    for k, name in enumerate(names):
        t.unit.plan.named(cell + k, f"{space}_{verb}_{name}", i.source.line)
    return t.counter_pointer(cell)


@handles("ldmatrix", "stmatrix", "movmatrix")
def _rows(t: Translator, i: Instruction) -> None:
    if i.opcode == "movmatrix":
        _transpose(t, i)
    else:
        _move_rows(t, i, is_load=i.opcode == "ldmatrix")


def _transpose(t: Translator, i: Instruction) -> None:
    lanes = t.area("lanes", 4 * WARP)
    source, target = t.area("row 0", 4 * WARP), (i.operands[0],)
    save_lanes(t, (i.operands[1],), 32, source)
    if t.masked:
        clear_lanes(t, target, 32, lanes)
    with whole_warp(t, i):
        t.b.store(turned_matrix(t.b, t.b.load("i32", source, WARP, align=64)), lanes, align=64)
    restore_lanes(t, target, 32, lanes)


def _move_rows(t: Translator, i: Instruction, *, is_load: bool) -> None:
    where, what = (i.operands[1], i.operands[0]) if is_load else i.operands
    assert isinstance(where, Address)
    registers: tuple[Operand, ...] = registers_of(what)
    count, line = len(registers), i.source.line
    verb = "load" if is_load else "store"
    site = t.unit.site(i, "shared", "read" if is_load else "write")
    offset = vector_address(t, Access(i, "shared", is_load, where, (), ROW_BYTES, site), "i32")
    t.count(f"shared_{verb}_requests", line, per_warp=1)
    t.count(f"shared_{verb}_bytes", line, per_lane=4 * count)
    counter = NULL
    if t.unit.options.count:
        cell = t.unit.plan.cell(2)
        t.unit.plan.named(cell, f"shared_{verb}_wavefronts", line)
        t.unit.plan.named(cell + 1, f"shared_{verb}_bank_conflicts", line)
        counter = t.counter_pointer(cell)
    lanes = t.area("lanes", 4 * WARP * count)
    if not is_load:
        save_lanes(t, registers, 32, lanes)
    elif t.masked:
        clear_lanes(t, registers, 32, lanes)
    function = move_rows(count, i.has("trans"), tile_mode(t, "shared"), is_load)
    with whole_warp(t, i):
        t.call_library(function, WORKER, CONTEXT, offset, lanes, constant("i32", site), counter)
    if is_load:
        restore_lanes(t, registers, 32, lanes)
