"""Functions that move fragments between memory and matrices, and 8 x 8 matrices between memory and registers.

A fragment has one function per kind, layout and space. It books what an sm_90 GPU's requests cost, looks whether the
whole fragment is harmless (inside its array, aligned, no race), and copies it line by line. Where that look fails, it
goes request by request through the exact rules of `runtime.races`, and only the lanes that may take part.

ldmatrix and stmatrix (PTX ISA 9.7.14.5.15 on): lane 4g + t holds row g, columns 2t and 2t + 1, of a matrix of 16-bit
elements; lane 8m + r gives the address of row r of matrix m.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import ALL_LANES, WARP, Builder, Value, constant, constants
from ptxsim.codegen.functions import CONTEXT, I32, I64, MASK, NULL, SITE, WORKER, Helper, arg, i32, i64
from ptxsim.codegen.shadow import ArrayLook, SharedLook
from ptxsim.codegen.shared_memory import bank_conflicts
from ptxsim.codegen.tensor_products import (
    Form,
    as_float,
    copy_bytes,
    copy_widened,
    finished,
    library_function,
    offset_table,
    table_entry,
)
from ptxsim.syntax.matrices import Request, Tile

_HOST_LINE = 64
"""Bytes of a line of the host's caches."""


_TURNED = 16
"""Side of a block that is transposed in the host's registers."""


ROW_ALIGNMENT = 16
"""Bytes to which CUDA wants every row or column of a fragment in memory to be aligned (shorter ones: their size)."""


@dataclass(frozen=True)
class Mode:
    """What a function does besides moving data: `granule` is log2 of the race shadow's granule in its space."""

    space: str
    check: bool
    count: bool
    granule: int
    exact: bool = False
    """with the exact race shadow"""
    streams: bool = False
    """what is stored goes past the host's caches"""

    @property
    def name(self) -> str:
        how = f"{'_exact' if self.exact else ''}{'_checked' if self.check else ''}{'_counted' if self.count else ''}"
        return f"{self.space}{how}_{self.granule}{'_streams' if self.streams else ''}"

    @property
    def access(self) -> str:
        """Name of the function that accounts for an access."""
        return f"ws_{'exact_' if self.exact else ''}access_{self.space}_{self.granule}"

    @property
    def address(self) -> str:
        """Type of addresses in calls of the runtime."""
        return I32 if self.space == "shared" else I64


class _Mover:
    """Writes one such function."""

    def __init__(self, tile: Tile, form: Form, mode: Mode, is_load: bool, wide: bool = False) -> None:
        self.tile, self.form, self.mode, self.is_load, self.wide = tile, form, mode, is_load, wide
        self.requests = tile.requests(mode.space == "shared")
        self.b = library_function()
        self.tables: list[str] = []
        verb = "load" if is_load else "store"
        self.name = f"ws_{verb}_{form.name}_{tile.layout}_{mode.name}{'_wide' if wide else ''}"
        self.base, self.stride, self.target = arg(I64, "base"), arg(I64, "stride"), arg("ptr", "matrix")
        self.matrix = self.b.let("ptr", 0, f"alloca [{form.nbytes} x i8], align 64") if wide else self.target
        self.counter = arg("ptr", "counter")
        self.kind = L.READ if is_load else L.WRITE
        self.alignment = min(ROW_ALIGNMENT, tile.line_bytes)

    def function(self) -> tuple[str, str]:
        b, mode = self.b, self.mode
        if mode.count:
            self._count()
        if not mode.check:
            self._copy_lines()
        elif not mode.exact:
            quick, careful = b.new_label("quick"), b.new_label("careful")
            b.branch(self._harmless(careful), quick, careful, likely=True)
            b.label(quick)
            self._copy_lines()
            b.ret()
            b.label(careful)
            self._carefully()
        else:
            self._carefully()
        b.ret()
        parameters = (WORKER, CONTEXT, self.base, self.stride, self.target, SITE, self.counter)
        return finished(b, self.name, *parameters, constants="".join(self.tables))

    # -- addresses ------------------------------------------------------------------------------------------------
    def _line(self, index: Value | int) -> Value:
        b = self.b
        line = i64(index) if isinstance(index, int) else index
        return b.add(self.base, b.mul(self.stride, line))

    def _addresses(self, r: Request) -> Value:
        """Where each lane of a request accesses memory."""
        b = self.b
        lines = b.mul(constants(I64, r.lines), b.splat(self.stride))
        address = b.add(b.add(b.splat(self.base), lines), constants(I64, r.starts))
        return b.resize(address, self.mode.address)

    def _host(self, address: Value) -> Value:
        """An address of this space as a pointer."""
        b = self.b
        if self.mode.space == "shared":
            return b.offset(b.worker("shared", "ptr"), address)
        return b.pointer(address)

    def _apart(self) -> Value:
        """Whether no two lines overlap."""
        return self.b.icmp("sge", self.stride, i64(self.tile.line_bytes))

    def _aligned(self, to: int) -> Value:
        b = self.b
        return b.icmp("eq", b.and_const(b.or_(self.base, self.stride), to - 1), i64(0))

    # -- counting -------------------------------------------------------------------------------------------------
    def _count(self) -> None:
        """Sectors, or wavefronts and bank conflicts: by formula where lines are aligned and apart."""
        b, shared = self.b, self.mode.space == "shared"
        known, each, end = b.new_label("known"), b.new_label("each"), b.new_label("counted")
        regular = b.and_(self._apart(), self._aligned(ROW_ALIGNMENT if shared else 32))
        b.branch(regular, known, each, likely=True)
        b.label(known)
        if shared:
            turns = [[_conflicts(r, 16 * turn)[k] for turn in range(8)] for r in self.requests for k in (0, 1)]
            turn = b.and_const(b.lshr(self.stride, 4), 7)
            for k in (0, 1):
                table = [sum(t[n] for t in turns[k::2]) for n in range(8)]
                self._bump(k, b.extract(constants(I64, table), turn))
        else:
            self._bump(0, i64(sum(len({(line, s // 32) for line, s in _bytes_of(r)}) for r in self.requests)))
            self._bump(1, i64(sum(-(-len(_bytes_of(r)) // 32) for r in self.requests)))
        b.br(end)
        b.label(each)
        for r in self.requests:
            name = "ws_count_shared" if shared else "ws_count_global"
            b.call(name, "void", self._addresses(r), ALL_LANES, i32(r.size), self.counter)
        b.br(end)
        b.label(end)

    def _bump(self, k: int, by: Value) -> None:
        self.b.increment(self.b.offset(self.counter, 8 * k), by)

    # -- checks ---------------------------------------------------------------------------------------------------
    def _harmless(self, careful: str) -> Value:
        """Whether a whole fragment is inside, aligned and free of races, as far as a quick look can tell."""
        b, tile = self.b, self.tile
        last = b.add_const(self._line(tile.lines - 1), tile.line_bytes)
        fits = b.and_(self._apart(), self._aligned(self.alignment))
        if self.mode.space == "shared":
            inside = [b.icmp("sge", self.base, i64(0)), b.icmp("sle", last, b.worker("shared_bytes", I64))]
        else:
            site = b.offset(b.worker("sites", "ptr"), b.mul(b.resize(SITE, I64), i64(24)))
            low, high, shadow = (b.load(I64, b.offset(site, 8 * k)) for k in range(3))
            inside = [
                b.icmp("uge", self.base, low), b.icmp("ult", self.base, high), b.icmp("ule", last, high),
                b.icmp("uge", last, self.base),
            ]  # fmt: skip
        for condition in inside:
            fits = b.and_(fits, condition)
        look, end = b.new_label("look"), b.new_label("looked")
        b.branch(fits, look, careful, likely=True)
        b.label(look)
        if self.mode.space == "shared":
            return self._look(SharedLook(b, self.mode.granule, tile.line_bytes, self.kind))
        tracked = b.new_label("tracked")
        b.branch(b.icmp("ne", shadow, i64(0)), tracked, end)
        b.label(tracked)
        passed = self._look(ArrayLook(b, self.mode.granule, tile.line_bytes, self.kind, low, shadow))
        arms = (Value("i1", "true"), look), (passed, b.label_now)
        b.br(end)
        b.label(end)
        return b.phi(*arms)

    def _look(self, looks: SharedLook | ArrayLook) -> Value:
        for line, lanes in enumerate(self._marks()):
            looks.line(self._line(line), lanes)
        return looks.passed()

    def _marks(self) -> list[list[int]]:
        """Lane that accesses each granule of each line."""
        granule = 1 << self.mode.granule
        marks = [[0] * (self.tile.line_bytes // granule) for _ in range(self.tile.lines)]
        for r in self.requests:
            for lane in range(WARP):
                for byte in range(0, r.size, granule):
                    marks[r.lines[lane]][(r.starts[lane] + byte) // granule] = lane
        return marks

    def _carefully(self) -> None:
        """Request by request, by the exact rules; copies what the lanes may access."""
        b, mode = self.b, self.mode
        misaligned = b.not_(self._aligned(self.alignment))
        with b.if_(misaligned, likely=False):
            kind = L.SHARED_MISALIGNED if mode.space == "shared" else L.MISALIGNED
            b.hazard(i32(kind), i32(0), self.base, i64(self.alignment))
            if self.is_load:
                self._clear()
                self._widen()
            b.leave()
        if self.is_load:
            self._clear()
        for k, r in enumerate(self.requests):
            addresses = self._addresses(r)
            lanes = b.call(
                mode.access, I32, WORKER, CONTEXT, addresses, ALL_LANES, i32(r.size), SITE,
                i32(self.kind), NULL, i32(1),
            )  # fmt: skip
            self._copy_lanes(k, r, addresses, lanes)
        self._widen()

    def _clear(self) -> None:
        b = self.b
        b.call("llvm.memset.p0.i64", "void", self.matrix, constant("i8", 0), i64(self.form.nbytes), Value("i1", "0"))

    # -- copies ---------------------------------------------------------------------------------------------------
    def _copy_lanes(self, k: int, r: Request, addresses: Value, lanes: Value) -> None:
        """Moves what the lanes of a mask access in a request."""
        b, unit = self.b, min(self.form.unit_bytes, r.size)
        units = r.size // unit
        table, text = offset_table(f"{self.name}.{k}", self._places(r, unit))
        self.tables.append(text)
        slots = b.stack(addresses)
        with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane, lanes)):
            address = b.resize(b.element(slots, self.mode.address, lane), I64)
            for n in range(units):
                entry = b.add_const(b.mul(b.resize(lane, I64), i64(units)), n)
                inner = b.offset(self.matrix, table_entry(b, table, entry))
                outer = self._host(b.add_const(address, n * unit))
                source, target = (outer, inner) if self.is_load else (inner, outer)
                b.store(b.load(f"i{8 * unit}", source, align=1), target, align=1)

    def _places(self, r: Request, unit: int) -> list[int]:
        """Offset in the matrix of each unit that each lane accesses."""
        places = []
        for line, start in zip(r.lines, r.starts, strict=True):
            places += [self._place(line, start + n) for n in range(0, r.size, unit)]
        return places

    def _place(self, line: int, byte: int) -> int:
        if self.tile.layout == self.form.inner:
            return line * self.tile.line_bytes + byte
        size = self.form.unit_bytes
        return byte // size * self.form.line_elements * size + line * size

    def _widen(self) -> None:
        """Puts what was loaded into the caller's matrix, where that is a wide one."""
        if self.wide:
            copy_widened(self.b, self.form.held.type, self.matrix, self.target, self.form.elements)

    def _copy_lines(self) -> None:
        b, tile = self.b, self.tile
        if tile.layout == self.form.inner:
            if self.mode.streams and tile.line_bytes % _HOST_LINE == 0:
                self._stream_lines()
            for n in range(tile.lines):
                memory, matrix = self._host(self._line(n)), b.offset(self.matrix, n * tile.line_bytes)
                if self.wide:
                    count = self.form.line_elements
                    copy_widened(b, self.form.held.type, memory, b.offset(self.target, 4 * n * count), count)
                else:
                    copy_bytes(b, *((memory, matrix) if self.is_load else (matrix, memory)), tile.line_bytes)
            return
        if self.wide and tile.lines % _TURNED == tile.line_bytes // self.form.unit_bytes % _TURNED == 0:
            self._turn_lines()
            return
        size = self.form.unit_bytes
        with b.loop(i64(tile.lines)) as line, b.loop(i64(tile.line_bytes // size)) as k:
            memory = self._host(b.add(self._line(line), b.mul(k, i64(size))))
            place = b.add(b.mul(k, i64(self.form.line_elements * size)), b.mul(line, i64(size)))
            source, target = memory, b.offset(self.matrix, place)
            if not self.is_load:
                source, target = target, source
            b.store(b.load(f"i{8 * size}", source, align=1), target, align=1)
        self._widen()

    def _turn_lines(self) -> None:
        """Loads lines that lie across those of the matrix, widened: blocks of 16 x 16 elements, turned in registers."""
        b, tile, size = self.b, self.tile, self.form.unit_bytes
        for first in range(0, tile.lines, _TURNED):
            for start in range(0, tile.line_bytes // size, _TURNED):
                places = [self._host(b.add_const(self._line(first + n), start * size)) for n in range(_TURNED)]
                block = [as_float(b, self.form.held.type, at, _TURNED) for at in places]
                for k, line in enumerate(_transposed(b, block)):
                    b.store(line, b.offset(self.target, 4 * ((start + k) * self.form.line_elements + first)))

    def _stream_lines(self) -> None:
        """Stores past the host's caches, if lines fill the caches' lines; the function ends here then."""
        b, tile = self.b, self.tile
        with b.if_(self._aligned(_HOST_LINE), likely=True):
            for at in range(0, tile.lines * tile.line_bytes, _HOST_LINE):
                n, start = divmod(at, tile.line_bytes)
                value = b.load("i8", b.offset(self.matrix, at), _HOST_LINE)
                b.store(value, self._host(b.add_const(self._line(n), start)), align=_HOST_LINE, streamed=True)
            b.leave()


def _transposed(b: Builder, lines: list[Value]) -> list[Value]:
    """A square of vectors, transposed: as often as the side is a power of 2, each half is shuffled into the other."""
    side = len(lines)
    low = [k // 2 + side * (k % 2) for k in range(side)]
    high = [side // 2 + k for k in low]
    for _ in range(side.bit_length() - 1):
        pairs = zip(lines[: side // 2], lines[side // 2 :], strict=True)
        lines = [b.shuffle(x, half, y) for x, y in pairs for half in (low, high)]
    return lines


def _bytes_of(r: Request) -> set[tuple[int, int]]:
    """(line, byte) that a request touches."""
    return {(line, start + n) for line, start in zip(r.lines, r.starts, strict=True) for n in range(r.size)}


def _conflicts(r: Request, turn: int) -> tuple[int, int]:
    """(wavefronts, bank conflicts) of a shared request whose lines lie `turn` bytes apart, modulo 128."""
    return bank_conflicts([line * (1024 + turn) + s for line, s in zip(r.lines, r.starts, strict=True)], r.size)


@cache
def load_tile(tile: Tile, form: Form, mode: Mode, wide: bool = False) -> tuple[str, str]:
    """(name, IR) of (worker, context, base, stride in bytes, matrix, site, counters): memory to matrix.

    `wide`: as f32, as products take it.
    """
    return _Mover(tile, form, mode, True, wide).function()


@cache
def store_tile(tile: Tile, form: Form, mode: Mode) -> tuple[str, str]:
    """(name, IR) of the same for a store: matrix to memory."""
    return _Mover(tile, form, mode, False).function()


ROW_BYTES = 16


def turned_matrix(b: Builder, matrix: Value) -> Value:
    """An 8 x 8 matrix in a register, transposed."""
    halves = b.bitcast(matrix, "i16", 64)
    turned = b.shuffle(halves, [8 * (n % 8) + n // 8 for n in range(64)])
    return b.bitcast(turned, "i32", WARP)


@cache
def move_rows(count: int, turned: bool, mode: Mode, is_load: bool) -> tuple[str, str]:
    """(name, IR) of (worker, context, row offsets, registers, site, counters)."""
    b = library_function()
    name = f"ws_{'ld' if is_load else 'st'}matrix_{count}{'_turned' if turned else ''}_{mode.name}"
    offset, lanes, counter = arg(I32, "offset", WARP), arg("ptr", "lanes"), arg("ptr", "counter")
    rows = b.stack(offset)
    every = i32((1 << 8 * count) - 1 if count < 4 else -1)
    if mode.count:
        b.call("ws_count_shared", "void", offset, every, i32(ROW_BYTES), counter)
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
        limit = b.sub(b.resize(b.worker("shared_bytes", I64), I32), i32(ROW_BYTES))
        used = b.shuffle(offset, range(count)) if count < WARP else offset
        odd = b.icmp("ne", b.and_const(used, ROW_BYTES - 1), b.like(used, 0))
        bad = b.or_(odd, b.icmp("ugt", used, b.splat(limit, count)))
        inside = b.icmp("eq", b.mask_bits(bad), constant(f"i{count}", 0))
        inside = b.and_(inside, b.icmp("sge", limit, i32(0)))
        look = b.new_label("look")
        b.branch(inside, look, exact, likely=True)
        b.label(look)
        looks = SharedLook(b, mode.granule, ROW_BYTES, L.READ)
        for n in range(count):
            looks.line(b.resize(b.load(I32, b.offset(rows, 4 * n)), I64), _users(n, mode.granule))
        b.branch(looks.passed(), end, exact, likely=True)
    else:
        b.br(exact)
    b.label(exact)
    found = b.call(
        mode.access, I32, WORKER, CONTEXT, offset, every, i32(ROW_BYTES), SITE, kind,
        NULL, i32(1),
    )  # fmt: skip
    b.store(found, result)
    b.br(end)
    b.label(end)
    return b.load(I32, result)


def _users(lane: int, granule: int) -> Sequence[int]:
    """The lane that gives a row's address stands for its granules, as in the exact rules."""
    return [lane] * (ROW_BYTES >> granule)


def _row(b: Helper, shared: Value, rows: Value, lane: int) -> Value:
    offset = b.load(I32, b.offset(rows, 4 * lane))
    return b.pointer(b.add(shared, b.resize(offset, I64)))


def _whole_matrix(b: Helper, shared: Value, rows: Value, lanes: Value, m: int, turned: bool, is_load: bool) -> None:
    register = b.offset(lanes, 4 * WARP * m)
    if is_load:
        pieces = [b.load("i32", _row(b, shared, rows, 8 * m + r), 4, align=1) for r in range(8)]
        matrix = b.concat(pieces)
        b.store(turned_matrix(b, matrix) if turned else matrix, register, align=64)
        return
    matrix = b.load("i32", register, WARP, align=64)
    matrix = turned_matrix(b, matrix) if turned else matrix
    for r in range(8):
        b.store(b.shuffle(matrix, range(4 * r, 4 * r + 4)), _row(b, shared, rows, 8 * m + r), align=1)


def _matrix_by_rows(b: Helper, shared: Value, rows: Value, lanes: Value, m: int, turned: bool, is_load: bool) -> None:
    """Row by row, those that may be accessed; the others are zeros."""
    register = b.offset(lanes, 4 * WARP * m)
    if is_load:
        b.store(constant("i32", 0, WARP), register, align=64)
    else:
        matrix = b.load("i32", register, WARP, align=64)
        b.store(turned_matrix(b, matrix) if turned else matrix, register, align=64)
    for r in range(8):
        with b.if_(b.lane_active(i32(8 * m + r))):
            memory, place = _row(b, shared, rows, 8 * m + r), b.offset(register, ROW_BYTES * r)
            source, target = (memory, place) if is_load else (place, memory)
            b.store(b.load("i32", source, 4, align=1), target, align=1)
    if is_load and turned:
        matrix = b.load("i32", register, WARP, align=64)
        b.store(turned_matrix(b, matrix), register, align=64)
