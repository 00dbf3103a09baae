"""ldmatrix, stmatrix and movmatrix: 8 x 8 matrices of 16-bit elements (PTX ISA 9.7.14.5.15 on).

Lane 4g + t holds row g, columns 2t and 2t + 1. Lane 8m + r gives the address of row r of matrix m.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ptxsim.codegen import layout as L
from ptxsim.codegen.access import Access, vector_address
from ptxsim.codegen.emit import WARP, Builder, Value, constant
from ptxsim.codegen.runtime.helper import CONTEXT, I32, I64, MASK, SITE, WORKER, Helper, arg, i32
from ptxsim.codegen.tensor_forms import finished, library_function
from ptxsim.codegen.tensor_looks import SharedLook
from ptxsim.codegen.tensor_tiles import Mode
from ptxsim.codegen.translator import Translator
from ptxsim.syntax.program import Address, Instruction, Operand

_ROW_BYTES = 16


def translate(t: Translator, i: Instruction) -> None:
    if i.opcode == "movmatrix":
        _transpose(t, i)
    else:
        _move(t, i, is_load=i.opcode == "ldmatrix")


def _transpose(t: Translator, i: Instruction) -> None:
    from ptxsim.codegen.tensor import clear_lanes, restore_lanes, save_lanes, whole_warp

    lanes = t.area("lanes", 4 * WARP)
    source, target = t.area("row 0", 4 * WARP), (i.operands[0],)
    save_lanes(t, (i.operands[1],), 32, source)
    if t.masked:
        clear_lanes(t, target, 32, lanes)
    with whole_warp(t, i):
        t.b.store(_turned(t.b, t.b.load("i32", source, WARP, align=64)), lanes, align=64)
    restore_lanes(t, target, 32, lanes)


def _turned(b: Builder, matrix: Value) -> Value:
    """An 8 x 8 matrix in a register, transposed."""
    halves = b.bitcast(matrix, "i16", 64)
    turned = b.shuffle(halves, [8 * (n % 8) + n // 8 for n in range(64)])
    return b.bitcast(turned, "i32", WARP)


def _move(t: Translator, i: Instruction, *, is_load: bool) -> None:
    from ptxsim.codegen.tensor import call, clear_lanes, registers_of, restore_lanes, save_lanes, tile_mode, whole_warp

    where, what = (i.operands[1], i.operands[0]) if is_load else i.operands
    assert isinstance(where, Address)
    registers: tuple[Operand, ...] = registers_of(what)
    count, line = len(registers), i.source.line
    verb = "load" if is_load else "store"
    site = t.unit.site(i, "shared", "read" if is_load else "write")
    offset = vector_address(t, Access(i, "shared", is_load, where, (), _ROW_BYTES, site), "i32")
    t.count(f"shared_{verb}_requests", line, per_warp=1)
    t.count(f"shared_{verb}_bytes", line, per_lane=4 * count)
    counter = Value("ptr", "null")
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
    function = _function(count, i.has("trans"), tile_mode(t, "shared"), is_load)
    with whole_warp(t, i):
        call(t, function, Value("ptr", "%w"), Value("ptr", "%c"), offset, lanes, constant("i32", site), counter)
    if is_load:
        restore_lanes(t, registers, 32, lanes)


@cache
def _function(count: int, turned: bool, mode: Mode, is_load: bool) -> tuple[str, str]:
    """(name, IR) of (worker, context, row offsets, registers, site, counters)."""
    b = library_function()
    name = f"ws_{'ld' if is_load else 'st'}matrix_{count}{'_turned' if turned else ''}_{mode.name}"
    offset, lanes, counter = arg(I32, "offset", WARP), arg("ptr", "lanes"), arg("ptr", "counter")
    rows = b.stack(offset)
    every = i32((1 << 8 * count) - 1 if count < 4 else -1)
    if mode.count:
        b.call("ws_count_shared", "void", offset, every, i32(_ROW_BYTES), counter)
    may = every
    if mode.check:
        may = _allowed(b, mode, offset, rows, every, 8 * count, is_load)
    b.emit(f"%{MASK.text[1:]} = bitcast {may} to i32")
    shared = b.convert("ptrtoint", b.worker("shared", "ptr"), I64)
    whole, careful, end = b.new_label("whole"), b.new_label("careful"), b.new_label("moved")
    b.branch(b.icmp("eq", MASK, every), whole, careful, likely=True)
    b.label(whole)
    for m in range(count):
        _whole_matrix(b, shared, rows, lanes, m, turned, is_load)
    b.br(end)
    b.label(careful)
    for m in range(count):
        _matrix_by_rows(b, shared, rows, lanes, m, turned, is_load)
    b.br(end)
    b.label(end)
    b.ret()
    return finished(b, name, WORKER, CONTEXT, offset, lanes, SITE, counter)


def _allowed(b: Helper, mode: Mode, offset: Value, rows: Value, every: Value, count: int, is_load: bool) -> Value:
    """Rows that may be accessed: all, if a quick look finds them harmless, else by the exact rules."""
    kind = i32(L.READ if is_load else L.WRITE)
    result = b.variable(I32, every)
    exact, end = b.new_label("exact"), b.new_label("allowed")
    if is_load and not mode.exact:
        limit = b.sub(b.resize(b.worker("shared_bytes", I64), I32), i32(_ROW_BYTES))
        used = b.shuffle(offset, range(count)) if count < WARP else offset
        odd = b.icmp("ne", b.and_const(used, _ROW_BYTES - 1), b.like(used, 0))
        bad = b.or_(odd, b.icmp("ugt", used, b.splat(limit, count)))
        inside = b.icmp("eq", b.mask_bits(bad), constant(f"i{count}", 0))
        inside = b.and_(inside, b.icmp("sge", limit, i32(0)))
        look = b.new_label("look")
        b.branch(inside, look, exact, likely=True)
        b.label(look)
        looks = SharedLook(b, mode.granule, _ROW_BYTES, L.READ)
        for n in range(count):
            looks.line(b.resize(b.load(I32, b.offset(rows, 4 * n)), I64), _users(n, mode.granule))
        b.branch(looks.passed(), end, exact, likely=True)
    else:
        b.br(exact)
    b.label(exact)
    found = b.call(
        mode.access, I32, WORKER, CONTEXT, offset, every, i32(_ROW_BYTES), SITE, kind,
        Value("ptr", "null"), i32(1),
    )  # fmt: skip
    b.store(found, result)
    b.br(end)
    b.label(end)
    return b.load(I32, result)


def _users(lane: int, granule: int) -> Sequence[int]:
    """The lane that gives a row's address stands for its granules, as in the exact rules."""
    return [lane] * (_ROW_BYTES >> granule)


def _row(b: Helper, shared: Value, rows: Value, lane: int) -> Value:
    offset = b.load(I32, b.offset(rows, 4 * lane))
    return b.pointer(b.add(shared, b.resize(offset, I64)))


def _whole_matrix(b: Helper, shared: Value, rows: Value, lanes: Value, m: int, turned: bool, is_load: bool) -> None:
    register = b.offset(lanes, 4 * WARP * m)
    if is_load:
        pieces = [b.load("i32", _row(b, shared, rows, 8 * m + r), 4, align=1) for r in range(8)]
        matrix = b.concat(pieces)
        b.store(_turned(b, matrix) if turned else matrix, register, align=64)
        return
    matrix = b.load("i32", register, WARP, align=64)
    matrix = _turned(b, matrix) if turned else matrix
    for r in range(8):
        b.store(b.shuffle(matrix, range(4 * r, 4 * r + 4)), _row(b, shared, rows, 8 * m + r), align=1)


def _matrix_by_rows(b: Helper, shared: Value, rows: Value, lanes: Value, m: int, turned: bool, is_load: bool) -> None:
    """Row by row, those that may be accessed; the others are zeros."""
    register = b.offset(lanes, 4 * WARP * m)
    if is_load:
        b.store(constant("i32", 0, WARP), register, align=64)
    else:
        matrix = b.load("i32", register, WARP, align=64)
        b.store(_turned(b, matrix) if turned else matrix, register, align=64)
    for r in range(8):
        with b.if_(b.lane_active(i32(8 * m + r))):
            memory, place = _row(b, shared, rows, 8 * m + r), b.offset(register, _ROW_BYTES * r)
            source, target = (memory, place) if is_load else (place, memory)
            b.store(b.load("i32", source, 4, align=1), target, align=1)
    if is_load and turned:
        matrix = b.load("i32", register, WARP, align=64)
        b.store(_turned(b, matrix), register, align=64)
