"""Functions that move fragments between memory and matrices, and 8 x 8 matrices between memory and registers.

A fragment has one function per kind, layout and space. It books what an sm_90 GPU's requests cost, looks whether the
whole fragment is harmless (inside its array, aligned, no race), and copies it line by line. Where that look fails, it
goes request by request through the exact rules of `runtime.races`, and only the lanes that may take part.

ldmatrix and stmatrix (PTX ISA 9.7.14.5.15 on): lane 4g + t holds row g, columns 2t and 2t + 1, of a matrix of 16-bit
elements; lane 8m + r gives the address of row r of matrix m.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import (
    ALL_LANES,
    CONTEXT,
    I32,
    I64,
    MASK,
    NULL,
    SITE,
    WARP,
    WORKER,
    Builder,
    Helper,
    IRValue,
    arg,
    constant,
    constants,
    i32,
    i64,
)
from ptxsim.codegen.shadow import ArrayLook, SharedLook
from ptxsim.codegen.shared_memory import bank_conflicts
from ptxsim.codegen.tensor_products import (
    MatrixForm,
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


class _Mover(Helper):
    """Writes one such function."""

    def __init__(self, tile: Tile, form: MatrixForm, mode: Mode, is_load: bool, wide: bool = False) -> None:
        super().__init__({})
        self.label("entry")
        self.tile, self.form, self.mode, self.is_load, self.wide = tile, form, mode, is_load, wide
        self.requests = tile.requests(mode.space == "shared")
        self.tables: list[str] = []
        verb = "load" if is_load else "store"
        self.title = f"ws_{verb}_{form.name}_{tile.layout}_{mode.name}{'_wide' if wide else ''}"
        self.base, self.stride, self.target = arg(I64, "base"), arg(I64, "stride"), arg("ptr", "matrix")
        self.matrix = self.let("ptr", 0, f"alloca [{form.nbytes} x i8], align 64") if wide else self.target
        self.counter = arg("ptr", "counter")
        self.kind = L.READ if is_load else L.WRITE
        self.alignment = min(ROW_ALIGNMENT, tile.line_bytes)

    def written(self) -> tuple[str, str]:
        mode = self.mode
        if mode.count:
            self._count_cost()
        if not mode.check:
            self._copy_lines()
        elif not mode.exact:
            quick, careful = self.new_label("quick"), self.new_label("careful")
            self.branch(self._harmless(careful), quick, careful, likely=True, then=quick)
            self._copy_lines()
            self.ret()
            self.label(careful)
            self._carefully()
        else:
            self._carefully()
        self.ret()
        parameters = (WORKER, CONTEXT, self.base, self.stride, self.target, SITE, self.counter)
        return finished(self, self.title, *parameters, constants="".join(self.tables))

    # -- addresses ------------------------------------------------------------------------------------------------
    def _line(self, index: IRValue | int) -> IRValue:
        line = i64(index) if isinstance(index, int) else index
        return self.add(self.base, self.mul(self.stride, line))

    def _addresses(self, r: Request) -> IRValue:
        """Where each lane of a request accesses memory."""
        lines = self.mul(constants(I64, r.lines), self.splat(self.stride))
        address = self.add(self.add(self.splat(self.base), lines), constants(I64, r.starts))
        return self.resize(address, self.mode.address)

    def _host(self, address: IRValue) -> IRValue:
        """An address of this space as a pointer."""
        shared = self.mode.space == "shared"
        return self.offset(self.worker("shared", "ptr"), address) if shared else self.pointer(address)

    def _apart(self) -> IRValue:
        """Whether no two lines overlap."""
        return self.icmp("sge", self.stride, i64(self.tile.line_bytes))

    def _aligned(self, to: int) -> IRValue:
        return self.icmp("eq", self.and_const(self.or_(self.base, self.stride), to - 1), i64(0))

    # -- counting -------------------------------------------------------------------------------------------------
    def _count_cost(self) -> None:
        """Sectors, or wavefronts and bank conflicts: by formula where lines are aligned and apart."""
        shared = self.mode.space == "shared"
        known, each, end = self.new_label("known"), self.new_label("each"), self.new_label("counted")
        regular = self.and_(self._apart(), self._aligned(ROW_ALIGNMENT if shared else 32))
        self.branch(regular, known, each, likely=True, then=known)
        if shared:
            turns = [[_conflicts(r, 16 * turn)[k] for turn in range(8)] for r in self.requests for k in (0, 1)]
            turn = self.and_const(self.lshr(self.stride, 4), 7)
            for k in (0, 1):
                table = [sum(t[n] for t in turns[k::2]) for n in range(8)]
                self._bump(k, self.extract(constants(I64, table), turn))
        else:
            self._bump(0, i64(sum(len({(line, s // 32) for line, s in _bytes_of(r)}) for r in self.requests)))
            self._bump(1, i64(sum(-(-len(_bytes_of(r)) // 32) for r in self.requests)))
        self.br(end, then=each)
        for r in self.requests:
            name = "ws_count_shared" if shared else "ws_count_global"
            self.call(name, "void", self._addresses(r), ALL_LANES, i32(r.size), self.counter)
        self.br(end, then=end)

    def _bump(self, k: int, by: IRValue) -> None:
        self.increment(self.offset(self.counter, 8 * k), by)

    # -- checks ---------------------------------------------------------------------------------------------------
    def _harmless(self, careful: str) -> IRValue:
        """Whether a whole fragment is inside, aligned and free of races, as far as a quick look can tell."""
        tile = self.tile
        last = self.add_const(self._line(tile.lines - 1), tile.line_bytes)
        fits = self.and_(self._apart(), self._aligned(self.alignment))
        if self.mode.space == "shared":
            inside = [self.icmp("sge", self.base, i64(0)), self.icmp("sle", last, self.worker("shared_bytes", I64))]
        else:
            site = self.site()
            low, high, shadow = (self.load(I64, self.offset(site, 8 * k)) for k in range(3))
            inside = [
                self.icmp("uge", self.base, low), self.icmp("ult", self.base, high), self.icmp("ule", last, high),
                self.icmp("uge", last, self.base),
            ]  # fmt: skip
        for condition in inside:
            fits = self.and_(fits, condition)
        look, end = self.new_label("look"), self.new_label("looked")
        self.branch(fits, look, careful, likely=True, then=look)
        if self.mode.space == "shared":
            return self._look(SharedLook(self, self.mode.granule, tile.line_bytes, self.kind))
        tracked = self.new_label("tracked")
        self.branch(self.icmp("ne", shadow, i64(0)), tracked, end, then=tracked)
        passed = self._look(ArrayLook(self, self.mode.granule, tile.line_bytes, self.kind, low, shadow))
        arms = (IRValue("i1", "true"), look), (passed, self.label_now)
        self.br(end, then=end)
        return self.phi(*arms)

    def _look(self, looks: SharedLook | ArrayLook) -> IRValue:
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
        mode = self.mode
        with self.if_(self.not_(self._aligned(self.alignment)), likely=False):
            kind = L.SHARED_MISALIGNED if mode.space == "shared" else L.MISALIGNED
            self.hazard(i32(kind), i32(0), self.base, i64(self.alignment))
            if self.is_load:
                self._clear()
                self._widen_result()
            self.leave()
        if self.is_load:
            self._clear()
        for k, r in enumerate(self.requests):
            addresses = self._addresses(r)
            what = (addresses, ALL_LANES, i32(r.size), SITE, i32(self.kind), NULL, i32(1))
            if mode.exact and not self.is_load:
                self._tell_values(k, r)
            self._copy_lanes(k, r, addresses, self.call(mode.access, I32, WORKER, CONTEXT, *what))
        if mode.exact and not self.is_load:
            self.store(NULL, self.offset(WORKER, L.field("stored")))
        self._widen_result()

    def _tell_values(self, k: int, r: Request) -> None:
        """Shows the exact race shadow what each lane is about to store: stores of one value are no race."""
        unit = min(self.form.unit_bytes, r.size)
        table, text = offset_table(f"{self.title}.{k}.values", self._places(r, unit))
        self.tables.append(text)
        area = self.let("ptr", 0, f"alloca [{WARP * r.size} x i8], align 64")
        with self.loop(i64(WARP * r.size // unit)) as n:
            value = self.load(f"i{8 * unit}", self.offset(self.matrix, table_entry(self, table, n)), align=1)
            self.store(value, self.offset(area, self.mul(n, i64(unit))), align=1)
        self.store(area, self.offset(WORKER, L.field("stored")))

    def _clear(self) -> None:
        self.call(
            "llvm.memset.p0.i64", "void", self.matrix, constant("i8", 0), i64(self.form.nbytes), IRValue("i1", "0")
        )

    # -- copies ---------------------------------------------------------------------------------------------------
    def _copy_lanes(self, k: int, r: Request, addresses: IRValue, lanes: IRValue) -> None:
        """Moves what the lanes of a mask access in a request."""
        unit = min(self.form.unit_bytes, r.size)
        units = r.size // unit
        table, text = offset_table(f"{self.title}.{k}", self._places(r, unit))
        self.tables.append(text)
        slots = self.stack(addresses)
        with self.loop(i32(WARP)) as lane, self.if_(self.lane_active(lane, lanes)):
            address = self.resize(self.element(slots, self.mode.address, lane), I64)
            for n in range(units):
                entry = self.add_const(self.mul(self.resize(lane, I64), i64(units)), n)
                inner = self.offset(self.matrix, table_entry(self, table, entry))
                outer = self._host(self.add_const(address, n * unit))
                source, target = (outer, inner) if self.is_load else (inner, outer)
                self.store(self.load(f"i{8 * unit}", source, align=1), target, align=1)

    def _places(self, r: Request, unit: int) -> list[int]:
        """Offset in the matrix of each unit that each lane accesses."""
        firsts = zip(r.lines, r.starts, strict=True)
        return [self._place(line, start + n) for line, start in firsts for n in range(0, r.size, unit)]

    def _place(self, line: int, byte: int) -> int:
        if self.tile.layout == self.form.inner:
            return line * self.tile.line_bytes + byte
        size = self.form.unit_bytes
        return byte // size * self.form.line_elements * size + line * size

    def _widen_result(self) -> None:
        """Puts what was loaded into the caller's matrix, where that is a wide one."""
        if self.wide:
            copy_widened(self, self.form.held.type, self.matrix, self.target, self.form.elements)

    def _copy_lines(self) -> None:
        tile = self.tile
        if tile.layout == self.form.inner:
            if self.mode.streams and tile.line_bytes % _HOST_LINE == 0:
                self._stream_lines()
            for n in range(tile.lines):
                memory, matrix = self._host(self._line(n)), self.offset(self.matrix, n * tile.line_bytes)
                if self.wide:
                    count = self.form.line_elements
                    copy_widened(self, self.form.held.type, memory, self.offset(self.target, 4 * n * count), count)
                else:
                    copy_bytes(self, *((memory, matrix) if self.is_load else (matrix, memory)), tile.line_bytes)
            return
        if self.wide and tile.lines % _TURNED == tile.line_bytes // self.form.unit_bytes % _TURNED == 0:
            self._turn_lines()
            return
        size = self.form.unit_bytes
        with self.loop(i64(tile.lines)) as line, self.loop(i64(tile.line_bytes // size)) as k:
            memory = self._host(self.add(self._line(line), self.mul(k, i64(size))))
            place = self.add(self.mul(k, i64(self.form.line_elements * size)), self.mul(line, i64(size)))
            source, target = memory, self.offset(self.matrix, place)
            if not self.is_load:
                source, target = target, source
            self.store(self.load(f"i{8 * size}", source, align=1), target, align=1)
        self._widen_result()

    def _turn_lines(self) -> None:
        """Loads lines that lie across those of the matrix, widened: blocks of 16 x 16 elements, turned in registers."""
        tile, size = self.tile, self.form.unit_bytes
        for first in range(0, tile.lines, _TURNED):
            for start in range(0, tile.line_bytes // size, _TURNED):
                places = [self._host(self.add_const(self._line(first + n), start * size)) for n in range(_TURNED)]
                block = [as_float(self, self.form.held.type, at, _TURNED) for at in places]
                for k, line in enumerate(transposed(self, block)):
                    self.store(line, self.offset(self.target, 4 * ((start + k) * self.form.line_elements + first)))

    def _stream_lines(self) -> None:
        """Stores past the host's caches, if lines fill the caches' lines; the function ends here then."""
        tile = self.tile
        with self.if_(self._aligned(_HOST_LINE), likely=True):
            for at in range(0, tile.lines * tile.line_bytes, _HOST_LINE):
                n, start = divmod(at, tile.line_bytes)
                value = self.load("i8", self.offset(self.matrix, at), _HOST_LINE)
                self.store(value, self._host(self.add_const(self._line(n), start)), align=_HOST_LINE, streamed=True)
            self.leave()


def transposed(b: Builder, lines: list[IRValue]) -> list[IRValue]:
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
def move_tile(tile: Tile, form: MatrixForm, mode: Mode, is_load: bool, wide: bool = False) -> tuple[str, str]:
    """(name, IR) of (worker, context, base, stride in bytes, matrix, site, counters): memory to matrix, or back.

    `wide`: as f32, as products take it.
    """
    return _Mover(tile, form, mode, is_load, wide).written()


ROW_BYTES = 16


def turned_matrix(b: Builder, matrix: IRValue) -> IRValue:
    """An 8 x 8 matrix in a register, transposed."""
    turned = b.shuffle(b.bitcast(matrix, "i16", 64), [8 * (n % 8) + n // 8 for n in range(64)])
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
    told = mode.exact and not is_load
    if told:
        b.store(_rows_stored(b, lanes, count, turned), b.offset(WORKER, L.field("stored")))
    may = _allowed(b, mode, offset, rows, every, 8 * count, is_load) if mode.check else every
    if told:
        b.store(NULL, b.offset(WORKER, L.field("stored")))
    b.emit(f"%{MASK.text[1:]} = bitcast {may} to i32")
    shared = b.convert("ptrtoint", b.worker("shared", "ptr"), I64)
    whole, careful, end = b.new_label("whole"), b.new_label("careful"), b.new_label("moved")
    b.branch(b.icmp("eq", MASK, every), whole, careful, likely=True, then=whole)
    for m in range(count):
        _whole_matrix(b, shared, rows, lanes, m, turned, is_load)
    b.br(end, then=careful)
    for m in range(count):
        _matrix_by_rows(b, shared, rows, lanes, m, turned, is_load)
    b.br(end, then=end)
    b.ret()
    return finished(b, name, WORKER, CONTEXT, offset, lanes, SITE, counter)


def _rows_stored(b: Helper, lanes: IRValue, count: int, turned: bool) -> IRValue:
    """Where the rows stand that stmatrix is about to store, for the exact race shadow: stores of one value are no race.

    As lane 8m + r gives the address of row r of matrix m, registers hold them in that order unless they are turned.
    """
    if not turned:
        return lanes
    area = b.let("ptr", 0, f"alloca [{4 * WARP * count} x i8], align 64")
    for m in range(count):
        matrix = b.load("i32", b.offset(lanes, 4 * WARP * m), WARP, align=64)
        b.store(turned_matrix(b, matrix), b.offset(area, 4 * WARP * m), align=64)
    return area


def _allowed(
    b: Helper, mode: Mode, offset: IRValue, rows: IRValue, every: IRValue, count: int, is_load: bool
) -> IRValue:
    """Rows that may be accessed: all, if a quick look finds them harmless, else by the exact rules."""
    kind, result = i32(L.READ if is_load else L.WRITE), b.variable(I32, every)
    exact, end = b.new_label("exact"), b.new_label("allowed")
    if is_load and not mode.exact:
        limit = b.sub(b.resize(b.worker("shared_bytes", I64), I32), i32(ROW_BYTES))
        used = b.shuffle(offset, range(count)) if count < WARP else offset
        odd = b.icmp("ne", b.and_const(used, ROW_BYTES - 1), b.like(used, 0))
        bad = b.or_(odd, b.icmp("ugt", used, b.splat(limit, count)))
        inside = b.icmp("eq", b.mask_bits(bad), constant(f"i{count}", 0))
        inside = b.and_(inside, b.icmp("sge", limit, i32(0)))
        look = b.new_label("look")
        b.branch(inside, look, exact, likely=True, then=look)
        looks = SharedLook(b, mode.granule, ROW_BYTES, L.READ)
        for n in range(count):
            # the lane that gives a row's address stands for its granules, as in the exact rules
            looks.line(b.resize(b.load(I32, b.offset(rows, 4 * n)), I64), [n] * (ROW_BYTES >> mode.granule))
        b.branch(looks.passed(), end, exact, likely=True)
    else:
        b.br(exact)
    b.label(exact)
    b.store(b.call(mode.access, I32, WORKER, CONTEXT, offset, every, i32(ROW_BYTES), SITE, kind, NULL, i32(1)), result)
    b.br(end, then=end)
    return b.load(I32, result)


def _row(b: Helper, shared: IRValue, rows: IRValue, lane: int) -> IRValue:
    return b.pointer(b.add(shared, b.resize(b.load(I32, b.offset(rows, 4 * lane)), I64)))


def _whole_matrix(
    b: Helper, shared: IRValue, rows: IRValue, lanes: IRValue, m: int, turned: bool, is_load: bool
) -> None:
    register = b.offset(lanes, 4 * WARP * m)
    if is_load:
        matrix = b.concat([b.load("i32", _row(b, shared, rows, 8 * m + r), 4, align=1) for r in range(8)])
        b.store(turned_matrix(b, matrix) if turned else matrix, register, align=64)
        return
    matrix = b.load("i32", register, WARP, align=64)
    matrix = turned_matrix(b, matrix) if turned else matrix
    for r in range(8):
        b.store(b.shuffle(matrix, range(4 * r, 4 * r + 4)), _row(b, shared, rows, 8 * m + r), align=1)


def _matrix_by_rows(
    b: Helper, shared: IRValue, rows: IRValue, lanes: IRValue, m: int, turned: bool, is_load: bool
) -> None:
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
